//! The state that all connections share.

use crate::blocked::Blocked;
use crate::channels::Channels;
use crate::clients::Clients;
use crate::figures::Figures;
use crate::foreign::ForeignLog;
use crate::keyspace::{Exclusive, KeySpace, Patience, Shared, now_ms};
use crate::memcached::state::Memcached;
use crate::monitors::Monitors;
use crate::notices::{Notices, plain_events};
use crate::scripts::Scripts;
use crate::settings::Settings;
use crate::slow_log::SlowLog;
use crate::syncer::Syncer;
use crate::threads::Threads;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Threads for work that may block.
pub(crate) const WAITING_THREADS: usize = 32;

/// The state that all connections share.
pub struct Server {
    /// The keys and values.
    pub space: Arc<KeySpace>,
    /// Limits and the password.
    pub(crate) settings: Arc<Settings>,
    /// Who is connected.
    pub clients: Clients,
    /// The state that memcached connections share.
    pub(crate) memcached: Memcached,
    /// Subscriptions to published messages.
    pub(crate) channels: Arc<Channels>,
    /// Keyspace notifications and tracked keys.
    pub(crate) notices: Arc<Notices>,
    /// Scripts, and the one that runs.
    pub(crate) scripts: Scripts,
    /// Clients that are sent every command.
    pub(crate) monitors: Monitors,
    /// Clients that wait for elements of lists.
    pub(crate) blocked: Blocked,
    /// Requests that took long.
    pub(crate) slow_log: SlowLog,
    /// When a client that speaks another protocol was last logged.
    pub(crate) foreign: ForeignLog,
    /// Makes writes durable before they are answered (`--durability sync`).
    pub(crate) syncer: Option<Syncer>,
    /// The threads for requests that may block.
    pub(crate) threads: Threads,
    /// Seconds since the start, updated periodically, so that reading it costs nothing.
    pub(crate) clock_s: AtomicU64,
    /// Permits to use a thread that may block.
    pub(crate) waiting: tokio::sync::Semaphore,
    /// When the server started.
    pub(crate) started: Instant,
    /// Forty hexadecimal digits by which clients identify this run.
    pub(crate) run_id: String,
    /// The TCP port of RESP, for INFO.
    pub(crate) port: AtomicU64,
    /// Held by the MIGRATE that is running.
    pub(crate) migrating: Mutex<()>,
    /// Whether a checkpoint of BGSAVE is running.
    pub(crate) saving: AtomicBool,
    /// Whether the last checkpoint failed.
    pub(crate) save_failed: AtomicBool,
    /// Resident memory at the start, less that of the tables.
    pub(crate) startup_bytes: AtomicU64,
    /// Checkpoints of SAVE and BGSAVE since the start.
    pub(crate) saves: AtomicU64,
    /// When the last checkpoint was complete, Unix time in seconds.
    pub(crate) saved_at_s: AtomicU64,
    /// Notified to shut the server down.
    pub(crate) shutdown: tokio::sync::Notify,
    figures: Mutex<Vec<Arc<Figures>>>,
}

impl Server {
    /// A server without sockets. With `sync`, replies are sent only when changes are on the disk.
    pub fn new(space: Arc<KeySpace>, settings: Settings, sync: bool) -> Server {
        space.note_disk_reads();
        let syncer = (sync && space.in_file()).then(|| Syncer::start(space.clone()));
        let (settings, channels) = (Arc::new(settings), Arc::<Channels>::default());
        let notices = Arc::new(Notices::new(settings.clone(), channels.clone()));
        let reporter = notices.clone();
        space.set_observer(Box::new(move |alone, changes| reporter.report(alone, &changes, None, plain_events)));
        let run_id = (0..3).map(|_| format!("{:016x}", space.random())).collect::<String>();
        Server {
            space,
            settings,
            clients: Clients::default(),
            memcached: Memcached::default(),
            channels,
            notices,
            scripts: Scripts::default(),
            monitors: Monitors::default(),
            blocked: Blocked::default(),
            slow_log: SlowLog::default(),
            foreign: ForeignLog::default(),
            syncer,
            threads: Threads::default(),
            clock_s: AtomicU64::new(0),
            waiting: tokio::sync::Semaphore::new(WAITING_THREADS),
            started: Instant::now(),
            run_id: run_id[..40].to_owned(),
            port: AtomicU64::new(0),
            migrating: Mutex::default(),
            saving: AtomicBool::new(false),
            save_failed: AtomicBool::new(false),
            startup_bytes: AtomicU64::new(0),
            saves: AtomicU64::new(0),
            saved_at_s: AtomicU64::new(now_ms() / 1000),
            shutdown: tokio::sync::Notify::new(),
            figures: Mutex::default(),
        }
    }

    /// Resets the counters of commands.
    pub(crate) fn reset_figures(&self) {
        self.figures().iter().for_each(|figures| figures.reset());
        self.memcached.outcomes.reset();
    }

    /// [`KeySpace::share`], but `None` also if a script has run for long: then [`Scripts::is_busy`].
    #[inline]
    pub(crate) fn share(&self, patience: Patience) -> Option<Shared<'_>> {
        self.space.share_unless(patience, || self.scripts.is_busy())
    }

    /// [`KeySpace::close`], but `None` also if a script has run for long: then [`Scripts::is_busy`].
    pub(crate) fn close(&self, patience: Patience) -> Option<Exclusive<'_>> {
        self.space.close_unless(patience, || self.scripts.is_busy())
    }

    /// Records the memory in use; returns the most recorded so far.
    pub(crate) fn note_memory_peak(&self, used: u64) -> u64 {
        self.space.events.memory_peak.fetch_max(used, Relaxed).max(used)
    }

    /// Counts the memory of scripts in what the memory limit applies to.
    pub(crate) fn note_script_bytes(&self) {
        self.space.set_script_bytes(self.scripts.bytes() as u64);
    }

    /// Compacts the files whose keys were all removed. Waits for the disk.
    pub(crate) fn compact_cleared(&self) {
        if let Err(error) = self.space.compact_cleared() {
            tracing::warn!(%error, "a file without keys could not be made smaller");
        }
    }

    /// The most clients at a time: the setting, limited by the file descriptors.
    pub(crate) fn clients_max(&self) -> usize {
        self.settings.clients.load(Relaxed).min(self.clients.descriptors_max.load(Relaxed))
    }

    /// Adds a set of counters for one more thread.
    pub fn add_figures(&self) -> Arc<Figures> {
        let figures = Arc::new(Figures::default());
        self.figures.lock().unwrap_or_else(|e| e.into_inner()).push(figures.clone());
        figures
    }

    /// The counters of all threads.
    pub(crate) fn figures(&self) -> Vec<Arc<Figures>> {
        self.figures.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The sum of one counter over all threads.
    pub(crate) fn total(&self, part: impl Fn(&Figures) -> &AtomicU64) -> u64 {
        self.figures().iter().map(|figures| part(figures).load(Relaxed)).sum()
    }

    /// Writes a checkpoint and waits for it; returns `false` if another is running.
    ///
    /// # Errors
    /// Returns the errors of [`KeySpace::checkpoint`].
    pub(crate) fn save(&self) -> splitpoint::Result<bool> {
        if self.saving.swap(true, Acquire) {
            return Ok(false);
        }
        let saved = self.space.checkpoint();
        self.save_failed.store(saved.is_err(), Relaxed);
        if let Err(error) = &saved {
            self.space.note_failure(error);
        }
        if saved.is_ok() {
            self.saved_at_s.store(now_ms() / 1000, Relaxed);
            self.saves.fetch_add(1, Relaxed);
        }
        self.saving.store(false, Release);
        saved.map(|()| true)
    }
}
