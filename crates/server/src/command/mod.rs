//! Commands of the Redis protocol: what they mean, without sockets.
//!
//! ```text
//! table.rs        names, arity, keys, documentation: the one table
//! call.rs         a request and where its answer goes; how commands fail
//! strings.rs      values: GET, SET, APPEND, INCR ...
//! keys.rs         DEL, EXISTS, RENAME, SCAN ...
//! lifetime.rs     EXPIRE, TTL ...
//! connection.rs   HELLO, AUTH, CLIENT ...
//! cluster.rs      CLUSTER; MOVED and other redirections
//! introspect.rs   COMMAND, INFO, CONFIG ...
//! number.rs       numbers as Redis reads and writes them
//! pattern.rs      patterns of KEYS, SCAN, PSUBSCRIBE
//! ```
//!
//! Which commands run together, and in which order: `resp/session.rs`.

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

use crate::keyspace::Exclusive;
use call::{Args, Call, Outcome, Refusal, Turn};
use lifetime::Unit;
use table::Id;

const SECONDS: Unit = Unit { ms: 1000, absolute: false };
const MILLISECONDS: Unit = Unit { ms: 1, absolute: false };
const UNIX_SECONDS: Unit = Unit { ms: 1000, absolute: true };
const UNIX_MILLISECONDS: Unit = Unit { ms: 1, absolute: true };

/// Executes a command that only looks.
pub fn look_up(id: Id, turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    match id {
        Id::Get => strings::get(turn, call),
        Id::MGet => strings::mget(turn, call),
        Id::StrLen => strings::strlen(turn, call),
        Id::GetRange | Id::SubStr => strings::getrange(turn, call),
        Id::Exists | Id::Touch => keys::exists(turn, call),
        Id::Type => keys::type_of(turn, call),
        Id::Object => keys::object(turn, call),
        Id::Ttl => lifetime::ttl(turn, call, SECONDS),
        Id::PTtl => lifetime::ttl(turn, call, MILLISECONDS),
        Id::ExpireTime => lifetime::ttl(turn, call, UNIX_SECONDS),
        Id::PExpireTime => lifetime::ttl(turn, call, UNIX_MILLISECONDS),
        Id::Memory => introspect::memory(turn, call),
        Id::Dump => dump::dump(turn, call),
        _ => Err(not_here(id)),
    }
}

/// Executes a command that may change the key space.
pub fn change(id: Id, alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    match id {
        Id::Set => strings::set(alone, call),
        Id::SetNx => strings::setnx(alone, call),
        Id::SetEx => strings::setex(alone, call, 1000),
        Id::PSetEx => strings::setex(alone, call, 1),
        Id::GetSet => strings::getset(alone, call),
        Id::GetEx => strings::getex(alone, call),
        Id::GetDel => strings::getdel(alone, call),
        Id::MSet => strings::mset(alone, call, false),
        Id::MSetNx => strings::mset(alone, call, true),
        Id::Append => strings::append(alone, call),
        Id::SetRange => strings::setrange(alone, call),
        Id::Incr => strings::incr_by(alone, call, 1),
        Id::Decr => strings::incr_by(alone, call, -1),
        Id::IncrBy => {
            let increment = strings::integer(call.args.at(2))?;
            strings::incr_by(alone, call, increment)
        }
        Id::DecrBy => strings::decr_by(alone, call),
        Id::IncrByFloat => strings::incr_by_float(alone, call),
        Id::Del | Id::Unlink => keys::del(alone, call),
        Id::Copy => keys::copy(alone, call),
        Id::Rename => keys::rename(alone, call, false),
        Id::RenameNx => keys::rename(alone, call, true),
        Id::Restore => dump::restore(alone, call),
        Id::Expire => lifetime::expire(alone, call, SECONDS, "expire"),
        Id::PExpire => lifetime::expire(alone, call, MILLISECONDS, "pexpire"),
        Id::ExpireAt => lifetime::expire(alone, call, UNIX_SECONDS, "expireat"),
        Id::PExpireAt => lifetime::expire(alone, call, UNIX_MILLISECONDS, "pexpireat"),
        Id::Persist => lifetime::persist(alone, call),
        Id::FlushDb => keys::flush(alone, call, false),
        Id::FlushAll => keys::flush(alone, call, true),
        // In a transaction: what was watched is forgotten by EXEC.
        Id::Unwatch => {
            crate::resp::reply::ok(call.out);
            Ok(())
        }
        _ => Err(not_here(id)),
    }
}

/// A mistake in the classes of commands.
fn not_here(id: Id) -> Refusal {
    format!("ERR '{id:?}' cannot be executed here").into()
}

/// The refusal of a command that no table has.
pub fn unknown(args: &Args<'_>) -> Refusal {
    const SHOWN_MAX: usize = 128;
    // Up to a zero, as Redis shows them.
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
