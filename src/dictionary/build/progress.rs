//! The progress of a build, reported to the caller, who may stop it. Every long loop of a build reports.

use crate::error::{Error, ErrorKind, Result};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The progress of a build, an update or a reindexing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Pairs written to the new file so far.
    pub pairs: u64,
    /// The most pairs that there will be.
    pub pairs_total: u64,
}

pub(crate) type OnProgress = Arc<dyn Fn(Progress) -> ControlFlow<()> + Send + Sync>;

/// Steps between two reports, in loops with cheap steps.
const STEPS_PER_REPORT: u32 = 1 << 16;

/// Counts the pairs written, in all files of a build, and reports them.
#[derive(Default)]
pub(crate) struct ProgressCounter {
    on_progress: Option<OnProgress>,
    done: AtomicU64,
    total: AtomicU64,
}

impl ProgressCounter {
    pub fn new(on_progress: Option<OnProgress>) -> Self {
        ProgressCounter { on_progress, done: AtomicU64::new(0), total: AtomicU64::new(0) }
    }

    /// A counter that starts at zero, for the same caller.
    pub fn restarted(&self) -> Arc<Self> {
        Arc::new(Self::new(self.on_progress.clone()))
    }

    /// Passes on `items`, and reports now and then; an error of the report takes the place of an item.
    pub fn watch<T>(&self, items: impl Iterator<Item = Result<T>>) -> impl Iterator<Item = Result<T>> {
        let mut steps = 0;
        items.map(move |item| {
            steps += 1;
            if steps >= STEPS_PER_REPORT {
                steps = 0;
                self.report()?;
            }
            item
        })
    }

    /// Adds `pairs` to the number that will be written.
    pub fn expect(&self, pairs: u64) {
        self.total.fetch_add(pairs, Relaxed);
    }

    /// Adds `pairs` to the number written.
    pub fn add(&self, pairs: usize) {
        self.done.fetch_add(pairs as u64, Relaxed);
    }

    /// Reports how many pairs are written.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`] if the caller answers [`ControlFlow::Break`].
    pub fn report(&self) -> Result<()> {
        let progress = Progress { pairs: self.done.load(Relaxed), pairs_total: self.total.load(Relaxed) };
        match &self.on_progress {
            Some(on_progress) if on_progress(progress).is_break() => {
                let message = "stopped before the dictionary was complete; nothing was changed";
                Err(Error::new(ErrorKind::Stopped, message))
            }
            _ => Ok(()),
        }
    }
}
