//! The progress of opening the server's files: after a crash each replays its log, which may take minutes.
//!
//! ```text
//! the thread that opens the files -- report --> the latest figures --> /health, /ready
//!                                          \--> at once for each file, then every few seconds: the log, systemd
//! a signal -- stop --> the next report ends the opening; the files stay as they were
//! ```
//!
//! Not here: the replay itself (`splitpoint::TableOptions::replay_progress`).

use crate::systemd;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time between two lines of the log about one file.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// The opening of the files; shared by the thread that opens them and the threads that report it.
#[derive(Debug, Default)]
pub struct Recovery {
    replay: Mutex<Option<Replay>>,
    is_stopped: AtomicBool,
}

/// The replay of one file's log.
#[derive(Debug)]
struct Replay {
    file: PathBuf,
    done_bytes: u64,
    most_bytes: u64,
    logged: Instant,
}

impl Recovery {
    /// Records that `done` of at most `most` bytes of the log of `file` are replayed. Returns a break after
    /// [`stop`](Self::stop).
    pub(crate) fn report(&self, file: &Path, done: u64, most: u64) -> ControlFlow<()> {
        let mut replay = self.replay();
        let known = replay.take().filter(|replay| replay.file == file);
        let is_due = known.as_ref().is_none_or(|replay| replay.logged.elapsed() >= LOG_EVERY);
        let logged = known.filter(|_| !is_due).map_or_else(Instant::now, |replay| replay.logged);
        *replay = Some(Replay { file: file.to_owned(), done_bytes: done, most_bytes: most, logged });
        drop(replay);
        if is_due {
            tracing::info!(file = %file.display(), done_bytes = done, most_bytes = most, "replaying the log");
            systemd::notify(&format!("STATUS=Starting: {self}"));
        }
        if self.is_stopped.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Ends the opening at the next report.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    fn replay(&self) -> MutexGuard<'_, Option<Replay>> {
        self.replay.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Without the name of the file: anyone who reaches the health check may read it.
impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        match &*self.replay() {
            Some(Replay { done_bytes, most_bytes, .. }) => {
                let (done, most) = (mebibytes(*done_bytes), mebibytes(*most_bytes));
                write!(f, "replaying the log, {done:.1} of at most {most:.1} MiB")
            }
            None => f.write_str("opening the file"),
        }
    }
}
