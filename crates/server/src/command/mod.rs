//! Commands of the Redis protocol: what they mean, without sockets.
//!
//! ```text
//! table.rs        a row for each command, with the function that executes it
//! call.rs         a request and where its answer goes; how commands fail
//! strings.rs      values: GET, SET, APPEND, INCR ...
//! bits.rs         SETBIT, BITCOUNT, BITFIELD ..., LCS
//! keys.rs         DEL, EXISTS, RENAME, SCAN ...
//! lifetime.rs     EXPIRE, TTL ...
//! connection.rs   HELLO, AUTH, CLIENT ...
//! cluster.rs      CLUSTER; MOVED and other redirections
//! introspect.rs   COMMAND, INFO, CONFIG ...
//! number.rs       numbers as Redis reads and writes them
//! pattern.rs      patterns of KEYS, SCAN, PSUBSCRIBE
//! ```
//!
//! Which commands run together, and in which order: `resp/session/`.

mod bits;
pub mod call;
mod client;
pub(crate) mod cluster;
mod config;
pub(crate) mod connection;
mod dump;
pub(crate) mod info;
pub(crate) mod introspect;
pub mod keys;
pub mod lifetime;
pub mod number;
pub mod pattern;
mod pubsub;
pub(crate) mod stats;
pub mod strings;
pub mod table;

use call::{Args, Refusal};

/// The refusal of an unknown command.
pub fn unknown(args: &Args<'_>) -> Refusal {
    const SHOWN_MAX: usize = 128;
    // Up to the first zero byte, as Redis shows them.
    let cut = |bytes: &'_ [u8], max: usize| {
        let bytes = bytes.split(|&b| b == 0).next().unwrap_or_default();
        bytes[..bytes.len().min(max)].to_vec()
    };
    let mut shown = Vec::new();
    for argument in args.from(1) {
        if shown.len() >= SHOWN_MAX {
            break;
        }
        let argument = cut(argument, SHOWN_MAX - shown.len());
        shown.extend([b"'".as_slice(), &argument, b"' "].concat());
    }
    let name = cut(args.at(0), SHOWN_MAX);
    let parts = [b"ERR unknown command '".as_slice(), &name, b"', with args beginning with: ", &shown];
    Refusal::Text(parts.concat().into())
}

/// The refusal of a subcommand that is unknown or has the wrong number of arguments.
pub(crate) fn unknown_subcommand(args: &Args<'_>, command: &str) -> Refusal {
    let name = args.get(1).unwrap_or_default();
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    Refusal::about(before, &name[..name.len().min(128)], &format!("'. Try {command} HELP."))
}
