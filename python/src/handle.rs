//! Handles that any thread may close while others use them.
//!
//! A call holds the handle's read lock only while it is in the library, and never while Python code runs, such as a
//! signal handler, an iterable of keys, or a callback. `close` releases the interpreter lock and waits for these calls,
//! so it never waits for code that may wait for it. Readers do not wait for a pending `close` (`try_read_recursive`).

use crate::error::{closed, in_use, invalid};
use parking_lot::{MappedRwLockReadGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread::ThreadId;

/// A table or a dictionary that can be opened once and closed.
pub struct Handle<T> {
    value: RwLock<Option<T>>,
    closing: AtomicBool,
    /// Threads in an operation that runs Python code.
    busy: Mutex<Vec<ThreadId>>,
    /// The name for messages; set when it is opened.
    name: OnceLock<String>,
}

/// A handle in use.
pub type InUse<'h, T> = MappedRwLockReadGuard<'h, T>;

impl<T> Default for Handle<T> {
    /// A handle that is not open yet.
    fn default() -> Self {
        Handle {
            value: RwLock::new(None),
            closing: AtomicBool::new(false),
            busy: Mutex::default(),
            name: OnceLock::new(),
        }
    }
}

impl<T: Send + Sync> Handle<T> {
    /// Opens the handle with `open`; possible only once.
    ///
    /// # Errors
    /// `ValueError` if it was opened before; the errors of `open`.
    pub fn open(&self, name: String, open: impl FnOnce() -> PyResult<T>) -> PyResult<()> {
        if self.is_opened() {
            return Err(invalid(format!("{} is open: __init__ opens it once", self.name())));
        }
        let value = open()?;
        let mut place = self.value.write();
        if self.name.set(name).is_err() {
            drop(place);
            return Err(invalid(format!("{} is open: __init__ opens it once", self.name())));
        }
        *place = Some(value);
        Ok(())
    }

    fn is_opened(&self) -> bool {
        self.name.get().is_some()
    }

    /// Calls `work` with the open object, without the interpreter lock.
    ///
    /// # Errors
    /// `ValueError` if it is closed.
    #[inline]
    pub fn detached<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&T) -> R + Send) -> PyResult<R> {
        let value = self.get(py)?;
        let value: &T = &value;
        Ok(py.detach(|| work(value)))
    }

    /// The open object. It must be dropped before Python code runs, so before an exception or a container is created.
    ///
    /// # Errors
    /// `ValueError` if it is closed.
    #[inline]
    pub fn get(&self, py: Python<'_>) -> PyResult<InUse<'_, T>> {
        if let Some(value) = self.value.try_read_recursive().and_then(opened)
            && !self.closing.load(Relaxed)
        {
            return Ok(value);
        }
        py.detach(|| self.wait()).ok_or_else(|| self.closed(py))
    }

    /// The open object, for a thread without the interpreter lock.
    pub fn wait(&self) -> Option<InUse<'_, T>> {
        if self.closing.load(Relaxed) { None } else { opened(self.value.read_recursive()) }
    }

    /// The exception for a handle that is not open.
    pub fn closed(&self, py: Python<'_>) -> PyErr {
        if self.is_opened() { closed(py, self.name()) } else { closed(py, "a handle whose __init__ did not run") }
    }

    /// The path, or a description if there is none.
    pub fn name(&self) -> &str {
        self.name.get().map_or("", String::as_str)
    }

    pub fn is_closed(&self) -> bool {
        self.closing.load(Relaxed) || !self.is_opened()
    }

    /// Replaces the open object by `value`.
    pub fn replace(&self, value: T) {
        let old = self.value.write().as_mut().map(|open| std::mem::replace(open, value));
        drop(old);
    }

    /// Refuses the call `name` inside an operation of this thread, because it would wait for that operation.
    ///
    /// # Errors
    /// `ValueError`.
    pub fn refuse_within(&self, name: &str) -> PyResult<()> {
        if !self.busy.lock().contains(&std::thread::current().id()) {
            return Ok(());
        }
        let what = format!("{}: {name} called during its own operation", self.name());
        Err(in_use(&what, "a progress callback, an iterable or a signal handler"))
    }

    /// Waits until other threads are done, then closes it with `close`. A second call does nothing.
    ///
    /// # Errors
    /// `ValueError` inside one of its own operations.
    pub fn close<E: Send>(
        &self,
        py: Python<'_>,
        close: impl FnOnce(T) -> Result<(), E> + Send,
    ) -> PyResult<Result<(), E>>
    where
        T: Send,
    {
        self.refuse_within("close")?;
        if self.closing.swap(true, Relaxed) {
            return Ok(Ok(()));
        }
        Ok(detach(py, || {
            let value = self.value.write().take();
            value.map_or(Ok(()), close)
        }))
    }

    /// Marks this thread as busy with the handle until the guard is dropped.
    pub fn busy(&self) -> Busy<'_> {
        self.busy.lock().push(std::thread::current().id());
        Busy(&self.busy)
    }
}

/// `sys.is_finalizing`, stored when the module is imported, since `sys` may be gone later.
static IS_FINALIZING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

pub fn remember_is_finalizing(py: Python<'_>) -> PyResult<()> {
    let function = py.import("sys")?.getattr("is_finalizing")?.unbind();
    let _ = IS_FINALIZING.set(py, function);
    Ok(())
}

/// Calls `work`, which ends the use of a handle, without the interpreter lock.
///
/// While the process is ending it keeps the lock, because CPython before 3.12 ends a thread of a subinterpreter that
/// acquires it again.
pub fn detach<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    let is_finalizing = IS_FINALIZING.get(py).and_then(|function| function.bind(py).call0().ok());
    match is_finalizing.is_some_and(|answer| answer.is_truthy().unwrap_or(false)) {
        true => work(),
        false => py.detach(work),
    }
}

fn opened<T>(guard: RwLockReadGuard<'_, Option<T>>) -> Option<InUse<'_, T>> {
    RwLockReadGuard::try_map(guard, Option::as_ref).ok()
}

/// An operation of a thread that runs Python code.
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

/// The state of an iterator, which one thread uses at a time.
pub struct Turns<T> {
    state: Mutex<T>,
    /// The thread that is using it.
    owner: Mutex<Option<ThreadId>>,
}

impl<T: Send> Turns<T> {
    pub fn new(state: T) -> Self {
        Turns { state: Mutex::new(state), owner: Mutex::new(None) }
    }

    /// Waits for the state.
    ///
    /// # Errors
    /// `ValueError` if this thread is already using it, as in a callback or a signal handler.
    pub fn take(&self, py: Python<'_>) -> PyResult<Turn<'_, T>> {
        let own = std::thread::current().id();
        let state = match self.state.try_lock() {
            Some(state) => state,
            None if *self.owner.lock() == Some(own) => {
                return Err(in_use("this iterator is at work already", "a callback or a signal handler"));
            }
            // Release the interpreter lock: the thread that uses the state may be waiting for it.
            None => py.detach(|| self.state.lock()),
        };
        *self.owner.lock() = Some(own);
        Ok(Turn { state, owner: &self.owner })
    }
}

/// The state of an iterator in use.
pub struct Turn<'t, T> {
    state: MutexGuard<'t, T>,
    owner: &'t Mutex<Option<ThreadId>>,
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        *self.owner.lock() = None; // before the state is unlocked
    }
}
