//! Commands about the connection and its transaction. EXEC is in `dispatch.rs`.

use super::acl;
use super::call::{Args, Outcome, Refusal, SYNTAX};
use super::client::client_name;
use super::info::REDIS_VERSION;
use super::reply::{self, Version};
use super::state::{Replies, SessionState, Transaction};
use super::strings::database;
use crate::keyspace::Exclusive;
use std::sync::atomic::Ordering::*;

/// ECHO message
pub(super) fn echo(_: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    reply::bulk(out, args.at(1));
    Ok(())
}

/// QUIT
pub(super) fn quit(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    session.closing = true;
    reply::ok(out);
    Ok(())
}

/// `PING [message]`
pub(super) fn ping(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    if args.len() > 2 {
        return Err("ERR wrong number of arguments for 'ping' command".into());
    }
    if session.client.subscriptions() > 0 && session.version == Version::Resp2 {
        reply::array(out, 2);
        reply::bulk(out, b"pong");
        reply::bulk(out, args.get(1).unwrap_or_default());
        return Ok(());
    }
    match args.get(1) {
        Some(message) => reply::bulk(out, message),
        None => out.extend_from_slice(b"+PONG\r\n"),
    }
    Ok(())
}

/// SELECT index
pub(super) fn select(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let database = database(args.at(1))?;
    if database > 0 && session.server.space.dictionary().is_some() {
        return Err("ERR SELECT is not allowed in cluster mode".into());
    }
    session.database = database;
    session.client.database.store(session.database as u8, Relaxed); // below 16
    reply::ok(out);
    Ok(())
}

/// RESET
pub(super) fn reset(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    session.transaction = None;
    session.forget_watch();
    session.stop_notices();
    session.server.channels.unsubscribe_all(&session.client);
    session.client.take_pushes(out);
    session.database = 0;
    session.client.database.store(0, Relaxed);
    set_version(session, Version::Resp2);
    session.client.set_name(String::new());
    session.replies = Replies::On;
    let (settings, user) = (&session.server.settings, session.server.settings.users.usual());
    let authenticated = !settings.needs_password();
    session.become_user(user, authenticated);
    reply::simple(out, "RESET");
    Ok(())
}

fn set_version(session: &mut SessionState, version: Version) {
    session.version = version;
    session.client.resp3.store(version == Version::Resp3, Relaxed);
}

/// `AUTH [username] password`
pub(super) fn auth(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let (user, password) = match args.len() {
        2 => (b"default".as_slice(), args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(SYNTAX.into()),
    };
    if args.len() == 2 && !session.server.settings.needs_password() {
        return Err(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
            configuration is correct?"
                .into(),
        );
    }
    acl::authenticate(session, user, password)?;
    reply::ok(out);
    Ok(())
}

/// HELLO [protover ...]
pub(super) fn hello(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let mut version = session.version;
    let mut name = None;
    if let Some(number) = args.get(1) {
        version = match super::number::parse_integer(number) {
            Some(2) => Version::Resp2,
            Some(3) => Version::Resp3,
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
            None => return Err("ERR Protocol version is not an integer or out of range".into()),
        };
    }
    let mut credentials = None;
    let mut index = 2;
    while index < args.len() {
        let left = args.len() - index - 1;
        if args.is(index, "auth") && left >= 2 {
            credentials = Some((args.at(index + 1), args.at(index + 2)));
            index += 3;
        } else if args.is(index, "setname") && left >= 1 {
            name = Some(client_name(args.at(index + 1))?);
            index += 2;
        } else {
            return Err(Refusal::about("ERR Syntax error in HELLO option '", args.at(index), "'"));
        }
    }
    if let Some((user, password)) = credentials {
        acl::authenticate(session, user, password)?;
    }
    if !session.authenticated {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
            <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
            same time"
                .into(),
        );
    }
    if let Some(name) = name {
        session.client.set_name(name);
    }
    set_version(session, version);
    reply::map(out, 7, version);
    let pair = |out: &mut Vec<u8>, key: &str, value: &str| {
        reply::bulk(out, key.as_bytes());
        reply::bulk(out, value.as_bytes());
    };
    pair(out, "server", "redis");
    pair(out, "version", REDIS_VERSION);
    reply::bulk(out, b"proto");
    reply::integer(out, if version == Version::Resp3 { 3 } else { 2 });
    reply::bulk(out, b"id");
    reply::count(out, session.client.id);
    let clustered = session.server.space.dictionary();
    pair(out, "mode", if clustered.is_some() { "cluster" } else { "standalone" });
    let is_replica = clustered.is_some_and(|dictionary| dictionary.now().slots.topology().is_replica());
    pair(out, "role", if is_replica { "replica" } else { "master" });
    reply::bulk(out, b"modules");
    reply::array(out, 0);
    Ok(())
}

/// MULTI
pub(super) fn multi(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    if session.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    session.transaction = Some(Transaction::default());
    reply::ok(out);
    Ok(())
}

/// WATCH key ...
pub(super) fn watch(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    if session.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let most = session.server.settings.request_bytes.load(Relaxed);
    for key in args.from(1) {
        if session.watch.bytes() + key.len() > most {
            return Err("ERR too many watched keys".into());
        }
        alone.watch(&mut session.watch, session.database, key)?;
    }
    reply::ok(out);
    Ok(())
}

/// UNWATCH. Without effect in a transaction, where EXEC has already ended the watch.
pub(super) fn unwatch(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    _: Args<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    alone.unwatch(&mut session.watch)?;
    reply::ok(out);
    Ok(())
}

/// DISCARD
pub(super) fn discard(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    if session.transaction.take().is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    session.forget_watch();
    reply::ok(out);
    Ok(())
}
