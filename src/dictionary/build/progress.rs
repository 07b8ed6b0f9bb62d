//! How far a build has come, for the caller, who may stop it: every long loop of a build reports.

use crate::error::{Error, ErrorKind, Result};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How far a build, an update or a reindexing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Pairs written to the new file so far.
    pub pairs: u64,
    /// How many there will be at most.
    pub pairs_total: u64,
}

pub(crate) type OnProgress = Arc<dyn Fn(Progress) -> ControlFlow<()> + Send + Sync>;

/// Steps of a loop with cheap steps between two reports.
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

    /// A counter of nothing yet, for the same caller.
    pub fn restarted(&self) -> Arc<Self> {
        Arc::new(Self::new(self.on_progress.clone()))
    }

    /// `items`, with a report now and then, whose error takes the place of an item.
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

    /// Adds `pairs` to those that will be written.
    pub fn expect(&self, pairs: u64) {
        self.total.fetch_add(pairs, Relaxed);
    }

    /// Adds `pairs` to those written.
    pub fn add(&self, pairs: usize) {
        self.done.fetch_add(pairs as u64, Relaxed);
    }

    /// Reports what was written so far.
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
