//! The memcached protocol (text, meta commands and binary) on database 0 of the key space, which Redis clients share.
//!
//! ```text
//! session   bytes of a read -> requests -> each run of lookups or plain stores becomes one call of the table
//!  ├─ request     a line of text -> a request
//!  ├─ number      numbers as C's library parses them, which memcached uses
//!  ├─ classic     get set incr touch ... on the key space
//!  ├─ meta        mg ms md ma me
//!  ├─ binary      the binary protocol
//!  ├─ dump        lru_crawler metadump, stats cachedump
//!  └─ stats       STAT lines
//! activity  which keys were fetched, and when; kept only if clients ask for it (mg h, l)
//! ```
//!
//! The value of a key is in the table as the client sent it. Flags, expiry and the marks of `md I` are attributes of
//! the key space. A key gets a CAS number when a client asks for one and loses it when the value changes, so keys
//! without such requests cost nothing.
//!
//! Source: memcached's protocol.txt and the behavior of 1.6.18, which the tests compare byte for byte. What differs:
//! docs/server.md, "memcached".

mod activity;
mod classic;
pub mod dump;
mod meta;
mod number;
pub mod request;
pub mod session;
mod stats;
#[cfg(test)]
mod tests;

use crate::keyspace::{Patience, now_ms};
use crate::server::Server;
use activity::Activity;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// The version of memcached whose behavior clients can expect.
pub const MEMCACHED_VERSION: &str = "1.6.18";

/// The database that memcached clients see.
const DATABASE: usize = 0;

/// The state that all memcached connections share.
#[derive(Default)]
pub struct Memcached {
    /// When to remove all keys (`flush_all` with a delay), Unix time in milliseconds; 0: never.
    flush_at_ms: AtomicU64,
    /// The TCP port, for `stats settings`.
    pub port: AtomicU64,
    outcomes: stats::Outcomes,
    /// Created when a client first asks for times of use.
    activity: OnceLock<Activity>,
}

impl Memcached {
    /// Removes all keys if a delayed `flush_all` is due. Waits for other threads.
    pub fn flush_if_due(server: &Server) {
        let at = server.memcached.flush_at_ms.load(Relaxed);
        if at == 0 || at > now_ms() || server.memcached.flush_at_ms.compare_exchange(at, 0, Relaxed, Relaxed).is_err() {
            return;
        }
        let flushed = server.space.close(Patience::MayWait).map(|mut alone| alone.flush(DATABASE));
        if let Some(Err(error)) = flushed {
            tracing::error!(%error, "delayed flush_all");
        }
    }
}
