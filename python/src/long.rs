//! Long operations: they run on a thread of their own while the calling thread checks for Ctrl-C and reports progress.
//!
//! The working thread never needs the interpreter lock, so a callback may use the same table, and no other Python
//! thread is blocked by the work.

use crate::error::OrRaise;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The interval at which the calling thread checks for Ctrl-C and reports progress.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The state that the two threads share.
#[derive(Default)]
pub struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl Watch {
    /// Records the progress of the work; breaks if the work must end.
    pub fn report(&self, done: u64, total: u64) -> ControlFlow<()> {
        self.done.store(done, Relaxed);
        self.total.store(total, Relaxed);
        self.proceed()
    }

    /// Breaks if the work must end.
    pub fn proceed(&self) -> ControlFlow<()> {
        if self.stop.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Runs `work`, which reports to `watch`. If `progress` is not `None`, calls `progress(phase, done, total)` with the
/// reported figures.
///
/// # Errors
/// The errors of the work; and, once the work has stopped, `KeyboardInterrupt` or the exception of the callback.
pub fn run_long<T: Send>(
    py: Python<'_>,
    phase: &str,
    progress: Option<&Bound<'_, PyAny>>,
    watch: &Watch,
    work: impl FnOnce() -> splitpoint::Result<T> + Send,
) -> PyResult<T> {
    let value = run_watched(py, phase, progress, watch, work)?.or_raise(py)?;
    look(py, phase, watch, progress)?;
    Ok(value)
}

/// [`run_long`] for work with errors of another kind.
///
/// # Errors
/// Once the work has stopped, `KeyboardInterrupt` or the exception of the callback.
pub fn run_watched<R: Send>(
    py: Python<'_>,
    phase: &str,
    progress: Option<&Bound<'_, PyAny>>,
    watch: &Watch,
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let progress = progress.map(|progress| progress.clone().unbind());
    let work = Mutex::new(Some(work));
    let (result, interrupted) = py.detach(|| {
        std::thread::scope(|scope| {
            let (ended, end) = channel::<()>();
            // If the thread cannot be started, its closure and everything in it is dropped.
            let work = &work;
            let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take().expect("it is done once");
            let worker = std::thread::Builder::new().name("splitpoint".into()).spawn_scoped(scope, move || {
                let _ended = ended; // dropped at the end, also by a panic
                take()()
            });
            // Without a thread the work runs here, and progress and Ctrl-C are handled at its end.
            let Ok(worker) = worker else { return (take()(), None) };
            let mut interrupted = None;
            while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(LOOK_EVERY) {
                if interrupted.is_none() {
                    interrupted = Python::attach(|py| {
                        let progress = progress.as_ref().map(|progress| progress.bind(py));
                        look(py, phase, watch, progress).err()
                    });
                    watch.stop.store(interrupted.is_some(), Relaxed);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (result, interrupted)
        })
    });
    interrupted.map_or(Ok(result), Err)
}

fn look(py: Python<'_>, phase: &str, watch: &Watch, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    let (done, total) = (watch.done.load(Relaxed), watch.total.load(Relaxed));
    if let Some(progress) = progress
        && total > 0
    {
        progress.call1((phase, done, total))?;
    }
    Ok(())
}
