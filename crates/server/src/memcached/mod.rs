//! The memcached protocol (text, meta commands and binary) on database 0 of the key space, which Redis clients share.
//!
//! ```text
//! session   bytes of a read -> requests -> each run of lookups or plain stores becomes one call of the table
//!  ├─ request     a line of text -> a request
//!  ├─ number      numbers as C's library parses them, which memcached uses
//!  ├─ classic     get set incr touch ... on the key space
//!  ├─ meta        mg ms md ma me
//!  ├─ packet      a packet of the binary protocol -> a request, and its answer
//!  ├─ dump        lru_crawler metadump, stats cachedump
//!  └─ stats       STAT lines
//! state     what connections share
//!  └─ activity    which keys were fetched, and when; kept only if clients ask for it (mg h, l)
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
pub(crate) mod dump;
mod meta;
mod number;
mod packet;
pub mod request;
pub mod session;
pub(crate) mod state;
mod stats;
#[cfg(test)]
mod tests;

/// The version of memcached whose behavior clients can expect.
pub(crate) const MEMCACHED_VERSION: &str = "1.6.18";

/// The database that memcached clients see.
const DATABASE: usize = 0;
