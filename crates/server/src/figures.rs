//! Counters and latencies: one set per thread of the event loop, added up on request.

use crate::command::spec::{COMMANDS, Id};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Latencies are counted by powers of two of nanoseconds, up to 2^(BUCKETS - 1).
pub(crate) const BUCKETS: usize = 40;

/// The counters of one thread.
pub struct Figures {
    /// Keys that lookups found.
    pub(crate) hits: AtomicU64,
    /// Keys that lookups did not find.
    pub(crate) misses: AtomicU64,
    /// Error replies.
    pub(crate) errors: AtomicU64,
    /// Bytes received.
    pub(crate) bytes_in: AtomicU64,
    /// Bytes sent.
    pub(crate) bytes_out: AtomicU64,
    /// Socket reads that returned requests.
    pub(crate) reads: AtomicU64,
    /// Error replies by their codes, such as `WRONGTYPE`.
    error_codes: Mutex<BTreeMap<String, u64>>,
    commands: Vec<CommandFigures>,
}

/// The most codes that are counted, since scripts may invent any.
const CODES_MAX: usize = 128;
const CODE_BYTES_MAX: usize = 64;

/// The counters of one command.
#[derive(Default)]
pub(crate) struct CommandFigures {
    /// The number of calls.
    pub(crate) calls: AtomicU64,
    /// Their total time.
    pub(crate) nanos: AtomicU64,
    /// Calls that were refused before they were executed, for example because of their arguments.
    pub(crate) rejected: AtomicU64,
    /// Calls that were executed and failed.
    pub(crate) failed: AtomicU64,
    buckets: Buckets,
}

struct Buckets([AtomicU64; BUCKETS]);

impl Default for Buckets {
    fn default() -> Self {
        Buckets([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Default for Figures {
    fn default() -> Self {
        Figures {
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            errors: AtomicU64::default(),
            bytes_in: AtomicU64::default(),
            bytes_out: AtomicU64::default(),
            reads: AtomicU64::default(),
            error_codes: Mutex::default(),
            commands: COMMANDS.iter().map(|_| CommandFigures::default()).collect(),
        }
    }
}

impl Figures {
    /// Counts `calls` calls of a command that took `nanos` together; each is counted with an equal share.
    #[inline]
    pub(crate) fn note(&self, id: Id, calls: u64, nanos: u64) {
        let figures = &self.commands[id as usize];
        figures.calls.fetch_add(calls, Relaxed);
        figures.nanos.fetch_add(nanos, Relaxed);
        let each = nanos / calls.max(1);
        let bucket = (u64::BITS - each.leading_zeros()) as usize;
        figures.buckets.0[bucket.min(BUCKETS - 1)].fetch_add(calls, Relaxed);
    }

    /// The counters of a command.
    pub(crate) fn of(&self, id: Id) -> &CommandFigures {
        &self.commands[id as usize]
    }

    /// Counts an error reply with this text.
    pub(crate) fn note_error(&self, text: &[u8]) {
        self.note_errors(text, 1);
    }

    fn note_errors(&self, text: &[u8], count: u64) {
        self.errors.fetch_add(count, Relaxed);
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let code = String::from_utf8_lossy(&code[..code.len().min(CODE_BYTES_MAX)]).into_owned();
        let mut codes = self.error_codes.lock().unwrap_or_else(|e| e.into_inner());
        if codes.len() < CODES_MAX || codes.contains_key(&code) {
            *codes.entry(code).or_default() += count;
        }
    }

    /// Counts `calls` calls of a command that failed with this text.
    pub(crate) fn note_failures(&self, id: Id, text: &[u8], calls: u64) {
        if calls > 0 {
            self.commands[id as usize].failed.fetch_add(calls, Relaxed);
            self.note_errors(text, calls);
        }
    }

    /// The number of error replies by code.
    pub(crate) fn error_codes(&self) -> BTreeMap<String, u64> {
        self.error_codes.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Resets the counters of commands.
    pub(crate) fn reset(&self) {
        self.error_codes.lock().unwrap_or_else(|e| e.into_inner()).clear();
        self.commands.iter().for_each(CommandFigures::reset);
        [&self.hits, &self.misses, &self.errors].iter().for_each(|counter| counter.store(0, Relaxed));
    }

    /// The number of calls of all commands.
    pub(crate) fn calls(&self) -> u64 {
        self.commands.iter().map(|figures| figures.calls.load(Relaxed)).sum()
    }
}

impl CommandFigures {
    /// The number of calls that took less than 2^`bucket` nanoseconds but at least half of that.
    pub(crate) fn bucket(&self, bucket: usize) -> u64 {
        self.buckets.0[bucket].load(Relaxed)
    }

    /// Sets all counters to 0.
    pub(crate) fn reset(&self) {
        self.calls.store(0, Relaxed);
        [&self.nanos, &self.rejected, &self.failed].iter().for_each(|counter| counter.store(0, Relaxed));
        self.buckets.0.iter().for_each(|bucket| bucket.store(0, Relaxed));
    }
}
