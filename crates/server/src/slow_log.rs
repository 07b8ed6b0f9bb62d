//! The slow log: the latest requests that took long, without their passwords (`command/secrets.rs`).

use crate::clients::Client;
use crate::command::call::Args;
use crate::command::secrets;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// The most arguments kept of a request, and the most bytes of each.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

/// The slow log.
pub(crate) struct SlowLog {
    /// Requests that took at least this long are kept; `u64::MAX` keeps none.
    pub(crate) threshold_us: AtomicU64,
    /// The most requests kept.
    pub(crate) len_max: AtomicUsize,
    next_id: AtomicU64,
    entries: Mutex<VecDeque<SlowRequest>>,
}

/// A request that took long.
#[derive(Clone, Debug)]
pub(crate) struct SlowRequest {
    /// A number that increases from one request to the next.
    pub(crate) id: u64,
    /// When it ended, Unix time.
    pub(crate) at_s: u64,
    /// How long it took.
    pub(crate) duration_us: u64,
    /// Its arguments, shortened.
    pub(crate) args: Vec<Vec<u8>>,
    /// The client's address.
    pub(crate) address: String,
    /// The client's name.
    pub(crate) client_name: String,
}

impl Default for SlowLog {
    fn default() -> Self {
        SlowLog {
            threshold_us: AtomicU64::new(10_000),
            len_max: AtomicUsize::new(128),
            next_id: AtomicU64::new(0),
            entries: Mutex::default(),
        }
    }
}

impl SlowLog {
    /// Adds a request.
    #[cold]
    pub(crate) fn add(&self, args: &Args<'_>, duration_us: u64, client: &Client) {
        let mut kept: Vec<Vec<u8>> = secrets::shown(args).take(ARGS_MAX).map(cut).collect();
        if args.len() > ARGS_MAX {
            kept[ARGS_MAX - 1] = format!("... ({} more arguments)", args.len() - ARGS_MAX + 1).into_bytes();
        }
        let request = SlowRequest {
            id: self.next_id.fetch_add(1, Relaxed),
            at_s: crate::keyspace::now_ms() / 1000,
            duration_us,
            args: kept,
            address: client.address.clone(),
            client_name: client.name(),
        };
        let mut entries = self.lock();
        entries.push_front(request);
        entries.truncate(self.len_max.load(Relaxed));
    }

    /// The last `count` requests, the latest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<SlowRequest> {
        self.lock().iter().take(count).cloned().collect()
    }

    /// The number of requests kept.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Removes all requests.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<SlowRequest>> {
        self.entries.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn cut(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= ARG_BYTES_MAX {
        return argument.to_vec();
    }
    let mut kept = argument[..ARG_BYTES_MAX].to_vec();
    kept.extend_from_slice(format!("... ({} more bytes)", argument.len() - ARG_BYTES_MAX).as_bytes());
    kept
}
