//! A handle that any thread may close while others use it.
//!
//! A call holds the handle's lock for reading until it has its result, also while it has given up the interpreter lock.
//! `close` waits for these calls without the interpreter lock, and further calls are refused at once. Readers never
//! wait for a `close` that waits (`try_read_recursive`): the call that it waits for may need the interpreter lock.

use crate::error::{closed, invalid};
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread::ThreadId;

/// A table or a dictionary until it is closed.
pub struct Handle<T> {
    value: RwLock<Option<T>>,
    closing: AtomicBool,
    /// Threads in a long operation, which call back into Python.
    busy: Mutex<Vec<ThreadId>>,
    /// For messages.
    name: String,
}

/// A handle in use.
pub type InUse<'h, T> = MappedRwLockReadGuard<'h, T>;

impl<T: Send + Sync> Handle<T> {
    pub fn new(value: T, name: String) -> Self {
        Handle { value: RwLock::new(Some(value)), closing: AtomicBool::new(false), busy: Mutex::default(), name }
    }

    /// One that was closed already.
    pub fn closed() -> Self {
        Handle { value: RwLock::default(), closing: true.into(), busy: Mutex::default(), name: String::new() }
    }

    /// What is open.
    ///
    /// # Errors
    /// `ValueError` once it was closed.
    #[inline]
    pub fn get(&self, py: Python<'_>) -> PyResult<InUse<'_, T>> {
        if let Some(value) = self.value.try_read_recursive().and_then(opened)
            && !self.closing.load(Relaxed)
        {
            return Ok(value);
        }
        py.detach(|| self.wait()).ok_or_else(|| closed(py, &self.name))
    }

    /// What is open, for a thread without the interpreter lock.
    pub fn wait(&self) -> Option<InUse<'_, T>> {
        if self.closing.load(Relaxed) { None } else { opened(self.value.read_recursive()) }
    }

    /// The path, or what stands for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_closed(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Puts `value` in the place of what is open.
    pub fn replace(&self, value: T) {
        let old = self.value.write().as_mut().map(|open| std::mem::replace(open, value));
        drop(old);
    }

    /// Closes it with `close`, once other threads are done with it. A second close does nothing.
    ///
    /// # Errors
    /// `ValueError` from inside of one of its own operations, which would wait for itself.
    pub fn close<E: Send>(
        &self,
        py: Python<'_>,
        close: impl FnOnce(T) -> Result<(), E> + Send,
    ) -> PyResult<Result<(), E>>
    where
        T: Send,
    {
        if self.busy.lock().contains(&std::thread::current().id()) {
            let name = &self.name;
            return Err(invalid(format!("{name}: close called by the progress callback of its own operation")));
        }
        if self.closing.swap(true, Relaxed) {
            return Ok(Ok(()));
        }
        Ok(py.detach(|| {
            let value = self.value.write().take();
            value.map_or(Ok(()), close)
        }))
    }

    /// Marks the thread as busy with it until the guard is dropped.
    pub fn busy(&self) -> Busy<'_> {
        self.busy.lock().push(std::thread::current().id());
        Busy(&self.busy)
    }
}

fn opened<T>(guard: RwLockReadGuard<'_, Option<T>>) -> Option<InUse<'_, T>> {
    RwLockReadGuard::try_map(guard, Option::as_ref).ok()
}

/// A long operation of a thread.
pub struct Busy<'h>(&'h Mutex<Vec<ThreadId>>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut busy = self.0.lock();
        let own = std::thread::current().id();
        if let Some(at) = busy.iter().position(|&thread| thread == own) {
            busy.swap_remove(at);
        }
    }
}
