//! CLIENT: lists, names, pauses and ends connections.

use super::call::{Args, Outcome, Refusal, SYNTAX};
use super::number::parse_integer;
use super::reply::{self, Version};
use super::spec::COMMANDS;
use super::state::{Replies, SessionState};
use crate::clients::Client;
use crate::server::Server;
use crate::tracking::Mode;
use std::fmt::Write;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

const HELP: [&str; 32] = [
    "CACHING (YES|NO)",
    "    With TRACKING OPTIN or OPTOUT: selects whether the next command's keys are tracked.",
    "GETREDIR",
    "    Returns the ID of the client that receives the invalidations: 0 for this one, -1 without tracking.",
    "GETNAME",
    "    Returns the name of this connection.",
    "ID",
    "    Returns the ID of this connection.",
    "INFO",
    "    Describes this connection.",
    "KILL <ip:port>",
    "    Closes the connection from this address.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Closes the connections that match. Options: ADDR, LADDR, TYPE, ID, SKIPME, USER.",
    "LIST [TYPE <type>] [ID <id> [...]]",
    "    Describes each connection on one line.",
    "NO-EVICT (ON|OFF), NO-TOUCH (ON|OFF)",
    "    Accepted; without effect in this server.",
    "PAUSE <timeout> [WRITE|ALL], UNPAUSE",
    "    Suspends clients for <timeout> milliseconds, or resumes them.",
    "REPLY (ON|OFF|SKIP)",
    "    Turns replies to this connection on or off.",
    "SETINFO <LIB-NAME|LIB-VER> <value>",
    "    Sets the name or version of the client's library.",
    "SETNAME <name>",
    "    Sets the name of this connection.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
    "    Turns invalidation messages for the keys that this client reads on or off.",
    "TRACKINGINFO",
    "    Returns the TRACKING options of this connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Ends the wait of a blocked client, as by timeout or with an error.",
];

/// The longest name of a client or of its library, in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// CLIENT subcommand ...
pub(crate) fn client(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"id", 2) => reply::count(out, session.client.id),
        (b"getname", 2) => {
            let name = session.client.name();
            reply::bulk_or_null(out, (!name.is_empty()).then_some(name.as_bytes()), session.version);
        }
        (b"setname", 3) => {
            session.client.set_name(client_name(args.at(2))?);
            reply::ok(out);
        }
        (b"setinfo", 4) => set_info(session, args, out)?,
        (b"info", 2) => {
            reply::text(out, &(line_of(&session.client, session.server.clock_s.load(Relaxed)) + "\n"), session.version)
        }
        (b"list", _) => list(session, args, out)?,
        (b"kill", 3..) => kill(session, args, out)?,
        (b"reply", 3) if args.is(2, "on") => {
            session.replies = Replies::On;
            reply::ok(out);
        }
        (b"reply", 3) if args.is(2, "off") => session.replies = Replies::Off,
        (b"reply", 3) if args.is(2, "skip") => {
            if session.replies != Replies::Off {
                session.replies = Replies::SkipNext;
            }
        }
        (b"no-evict" | b"no-touch", 3) if args.is(2, "on") || args.is(2, "off") => reply::ok(out),
        (b"reply" | b"no-evict" | b"no-touch", 3) => return Err(SYNTAX.into()),
        (b"pause", 3 | 4) => {
            let all = args.len() == 3 || args.is(3, "all");
            if !all && !args.is(3, "write") {
                return Err(SYNTAX.into());
            }
            let timeout = parse_integer(args.at(2)).ok_or("ERR timeout is not an integer or out of range")?;
            let timeout_ms = u64::try_from(timeout).map_err(|_| "ERR timeout is negative")?;
            session.server.clients.set_pause(Duration::from_millis(timeout_ms.min(u32::MAX.into())), all);
            reply::ok(out);
        }
        (b"unpause", 2) => {
            session.server.clients.end_pause();
            reply::ok(out);
        }
        (b"unblock", 3 | 4) => {
            let id = parse_integer(args.at(2)).ok_or(super::call::NOT_AN_INTEGER)?;
            if args.len() == 4 && !args.is(3, "timeout") && !args.is(3, "error") {
                return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into());
            }
            let server = &session.server;
            let was_blocked =
                u64::try_from(id).is_ok_and(|id| server.blocked.unblock(&server.space, id, args.is(3, "error")));
            reply::integer(out, was_blocked.into());
        }
        (b"tracking", 3..) => track(session, args, out)?,
        (b"caching", 3) => caching(session, args, out)?,
        (b"getredir", 2) => {
            reply::integer(out, session.tracking.as_ref().map_or(-1, |mode| mode.redirect as i64)); // below 2^63
        }
        (b"trackinginfo", 2) => tracking_info(session, out),
        (b"help", 2) => reply::help(out, "CLIENT", &HELP),
        _ => return Err(Refusal::unknown_subcommand(&args, "CLIENT")),
    }
    Ok(())
}

fn set_info(session: &SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let option = args.at(2).to_ascii_lowercase();
    let value = args.at(3);
    let shown = String::from_utf8_lossy(args.at(2)).to_lowercase();
    if value.len() > NAME_BYTES_MAX {
        return Err(format!("ERR {shown} cannot be longer than {NAME_BYTES_MAX} bytes.").into());
    }
    if !value.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(format!("ERR {shown} cannot contain spaces, newlines or special characters.").into());
    }
    let value = String::from_utf8_lossy(value).into_owned();
    match option.as_slice() {
        b"lib-name" => session.client.set_library(|library| library.0 = value),
        b"lib-ver" => session.client.set_library(|library| library.1 = value),
        _ => return Err(format!("ERR Unrecognized option '{}'", String::from_utf8_lossy(args.at(2))).into()),
    }
    reply::ok(out);
    Ok(())
}

/// CLIENT TRACKING ON | OFF [option ...]
fn track(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let (mut mode, mut target) = (Mode::default(), None);
    let mut index = 3;
    while index < args.len() {
        let value = args.get(index + 1);
        match (args.at(index).to_ascii_lowercase().as_slice(), value) {
            (b"redirect", Some(id)) => {
                if mode.redirect != 0 {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                let id = parse_integer(id).ok_or(super::call::NOT_AN_INTEGER)?;
                let found = u64::try_from(id).ok().and_then(|id| session.server.clients.find(id));
                let found = found.ok_or("ERR The client ID you want redirect to does not exist")?;
                mode.redirect = found.id;
                target = Some(found).filter(|found| found.id != session.client.id);
                index += 1;
            }
            (b"prefix", Some(prefix)) => {
                mode.prefixes.push(prefix.to_vec());
                index += 1;
            }
            (b"bcast", _) => mode.broadcast = true,
            (b"optin", _) => mode.opt_in = true,
            (b"optout", _) => mode.opt_out = true,
            (b"noloop", _) => mode.no_loop = true,
            _ => return Err(SYNTAX.into()),
        }
        index += 1;
    }
    if args.is(2, "on") {
        complete(&mut mode, session.tracking.as_ref())?;
        session.server.notices.tracking.start(&session.client, mode.clone(), target);
        session.tracking = Some(mode);
    } else if args.is(2, "off") {
        session.server.notices.tracking.stop(session.client.id);
        (session.tracking, session.caching) = (None, None);
    } else {
        return Err(SYNTAX.into());
    }
    session.client.tracks.store(session.tracking.is_some(), Relaxed);
    session.unsettled = true;
    reply::ok(out);
    Ok(())
}

/// Checks a mode, and adds to it what the client has already.
fn complete(mode: &mut Mode, old: Option<&Mode>) -> Outcome {
    const PREFIXES_MAX: usize = 1024;
    const PREFIX_BYTES_MAX: usize = 64 << 10;
    if !mode.broadcast && !mode.prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if old.is_some_and(|old| old.broadcast != mode.broadcast) {
        return Err("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                    re-enabling it with a different mode."
            .into());
    }
    if mode.broadcast && (mode.opt_in || mode.opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if mode.opt_in && mode.opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    if old.is_some_and(|old| mode.opt_in && old.opt_out || mode.opt_out && old.opt_in) {
        return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                    re-enabling it with a different mode."
            .into());
    }
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refusal = |one: &[u8], which: &str, other: &[u8]| {
        let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
        let rest = "Prefixes for a single client must not overlap.";
        Refusal::from(format!("ERR Prefix '{one}' overlaps with {which} prefix '{other}'. {rest}"))
    };
    let earlier = old.map_or(&[][..], |old| &old.prefixes);
    let count = mode.prefixes.len() + earlier.len();
    let bytes: usize = mode.prefixes.iter().chain(earlier).map(Vec::len).sum();
    if count > PREFIXES_MAX || bytes > PREFIX_BYTES_MAX {
        let what = "ERR too many or too long prefixes: a client may have";
        return Err(format!("{what} {PREFIXES_MAX}, with {PREFIX_BYTES_MAX} bytes together").into());
    }
    for (index, prefix) in mode.prefixes.iter().enumerate() {
        if let Some(other) = earlier.iter().find(|other| overlap(prefix, other)) {
            return Err(refusal(prefix, "an existing", other));
        }
        if let Some(other) = mode.prefixes[index + 1..].iter().find(|other| overlap(prefix, other)) {
            return Err(refusal(prefix, "another provided", other));
        }
    }
    mode.prefixes.extend_from_slice(earlier);
    if mode.broadcast && mode.prefixes.is_empty() {
        mode.prefixes.push(Vec::new());
    }
    Ok(())
}

/// CLIENT CACHING YES | NO
fn caching(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let Some(mode) = session.tracking.as_ref().filter(|mode| mode.opt_in || mode.opt_out) else {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
                    mode enabled"
            .into());
    };
    let yes = args.is(2, "yes");
    if !yes && !args.is(2, "no") {
        return Err(SYNTAX.into());
    }
    if yes && !mode.opt_in {
        return Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.".into());
    }
    if !yes && !mode.opt_out {
        return Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into());
    }
    session.caching = Some(yes);
    reply::ok(out);
    Ok(())
}

/// CLIENT TRACKINGINFO
fn tracking_info(session: &SessionState, out: &mut Vec<u8>) {
    let mode = session.tracking.clone().unwrap_or_default();
    let is_broken = session.server.notices.tracking.is_broken(session.client.id);
    let flags = [
        ("off", session.tracking.is_none()),
        ("on", session.tracking.is_some()),
        ("bcast", mode.broadcast),
        ("optin", mode.opt_in),
        ("caching-yes", mode.opt_in && session.caching == Some(true)),
        ("optout", mode.opt_out),
        ("caching-no", mode.opt_out && session.caching == Some(false)),
        ("noloop", mode.no_loop),
        ("broken_redirect", is_broken),
    ];
    let flags: Vec<&str> = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
    reply::map(out, 3, session.version);
    reply::bulk(out, b"flags");
    reply::set(out, flags.len(), session.version);
    flags.iter().for_each(|flag| reply::bulk(out, flag.as_bytes()));
    reply::bulk(out, b"redirect");
    reply::integer(out, session.tracking.as_ref().map_or(-1, |mode| mode.redirect as i64)); // below 2^63
    reply::bulk(out, b"prefixes");
    reply::array(out, mode.prefixes.len());
    mode.prefixes.iter().for_each(|prefix| reply::bulk(out, prefix));
}

/// Formats a client as one line of CLIENT LIST, now.
pub(super) fn describe(server: &Server, client: &Client) -> String {
    line_of(client, server.clock_s.load(Relaxed))
}

/// Formats a client as one line of CLIENT LIST.
fn line_of(client: &Client, now_s: u64) -> String {
    let age = client.since.elapsed().as_secs();
    let [channels, patterns, shard_channels] = client.subscription_counts();
    let (library, library_version) = client.library();
    let queued = client.queued.load(Relaxed);
    let command = COMMANDS.get(usize::from(client.last_command.load(Relaxed))).map_or("NULL", |spec| spec.name);
    let flags = [
        ("O", client.monitors.load(Relaxed)),
        ("P", client.subscriptions() > 0),
        ("x", queued > 0),
        ("t", client.tracks.load(Relaxed)),
    ];
    let flags: String = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).collect();
    let flags = if flags.is_empty() { "N" } else { &flags };
    format!(
        "id={} addr={} laddr={} fd=-1 name={} age={age} idle={} flags={flags} db={} sub={channels} psub={patterns} \
        ssub={shard_channels} multi={} watch={} qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={} \
        oll=0 omem={} tot-mem={} events=r cmd={command} user={} redir=-1 \
        resp={} lib-name={library} lib-ver={library_version}",
        client.id,
        client.address,
        client.local_address,
        client.name(),
        now_s.saturating_sub(client.active_s.load(Relaxed)),
        client.database.load(Relaxed),
        queued as i64 - 1,
        client.watched.load(Relaxed),
        client.input_bytes.load(Relaxed),
        client.output_bytes.load(Relaxed),
        client.output_bytes.load(Relaxed),
        client.input_bytes.load(Relaxed) + client.output_bytes.load(Relaxed),
        String::from_utf8_lossy(&client.user()),
        if client.version() == Version::Resp3 { 3 } else { 2 },
    )
}

fn type_of(client: &Client) -> &'static str {
    if client.subscriptions() > 0 { "pubsub" } else { "normal" }
}

fn known_type(name: &[u8]) -> Result<(), Refusal> {
    let known = ["normal", "master", "replica", "slave", "pubsub"];
    if known.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        return Ok(());
    }
    Err(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(name)).into())
}

fn list(session: &SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let (mut kind, mut ids) = (None, None);
    if args.len() == 4 && args.is(2, "type") {
        known_type(args.at(3))?;
        kind = Some(args.at(3));
    } else if args.len() > 3 && args.is(2, "id") {
        let numbers: Option<Vec<i64>> = args.from(3).map(parse_integer).collect();
        ids = Some(numbers.filter(|ids| ids.iter().all(|&id| id > 0)).ok_or("ERR Invalid client ID")?);
    } else if args.len() != 2 {
        return Err(SYNTAX.into());
    }
    let mut text = String::new();
    for client in session.server.clients.all() {
        let wanted = kind.is_none_or(|kind| kind.eq_ignore_ascii_case(type_of(&client).as_bytes()))
            && ids.as_ref().is_none_or(|ids| ids.contains(&(client.id as i64)));
        if wanted {
            let _ = writeln!(text, "{}", line_of(&client, session.server.clock_s.load(Relaxed))); // a string takes all
        }
    }
    reply::text(out, &text, session.version);
    Ok(())
}

fn kill(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let clients = session.server.clients.all();
    if args.len() == 3 {
        let found =
            clients.iter().find(|client| client.address.as_bytes() == args.at(2)).ok_or("ERR No such client")?;
        end(session, found);
        reply::ok(out);
        return Ok(());
    }
    let mut skip_me = true;
    // As in Redis, the last filter of a kind counts.
    let (mut id, mut address, mut local_address, mut kind, mut user) = (None, None, None, None, None);
    let mut index = 2;
    while index < args.len() {
        let Some(value) = args.get(index + 1) else { return Err(SYNTAX.into()) };
        if args.is(index, "id") {
            let number = parse_integer(value).filter(|&id| id > 0);
            id = Some(number.ok_or("ERR client-id should be greater than 0")?);
        } else if args.is(index, "addr") {
            address = Some(value);
        } else if args.is(index, "laddr") {
            local_address = Some(value);
        } else if args.is(index, "type") {
            known_type(value)?;
            kind = Some(value);
        } else if args.is(index, "user") {
            if session.server.settings.users.find(value).is_none() {
                return Err(format!("ERR No such user '{}'", String::from_utf8_lossy(value)).into());
            }
            user = Some(value);
        } else if args.is(index, "skipme") && value.eq_ignore_ascii_case(b"yes") {
            skip_me = true;
        } else if args.is(index, "skipme") && value.eq_ignore_ascii_case(b"no") {
            skip_me = false;
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    let is_selected = |client: &Client| {
        id.is_none_or(|id| client.id as i64 == id)
            && address.is_none_or(|address| client.address.as_bytes() == address)
            && local_address.is_none_or(|address| client.local_address.as_bytes() == address)
            && kind.is_none_or(|kind| kind.eq_ignore_ascii_case(type_of(client).as_bytes()))
            && user.is_none_or(|user| client.user() == user)
    };
    let mut killed = 0;
    for client in &clients {
        if !(skip_me && client.id == session.client.id) && is_selected(client) {
            end(session, client);
            killed += 1;
        }
    }
    reply::integer(out, killed);
    Ok(())
}

/// Ends a connection; if it is the caller's own, after its reply.
pub(super) fn end(session: &mut SessionState, client: &Client) {
    if client.id == session.client.id {
        session.closing = true;
    } else {
        client.kill();
    }
}

/// Checks a client's name: printable characters, no blanks. It is copied into lists and logs, so it must be short.
pub(super) fn client_name(name: &[u8]) -> Result<String, Refusal> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("ERR Client names cannot be longer than {NAME_BYTES_MAX} bytes.").into());
    }
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(String::from_utf8_lossy(name).into_owned());
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
}
