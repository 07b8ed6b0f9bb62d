//! MIGRATE: moves keys to another server.
//!
//! ```text
//! for each key    gate closed   read and watch it
//!                 gate open     RESTORE on the other server, over one connection; wait for its answer
//!                 gate closed   remove it, if it has not changed since; else begin again, in place of what was sent
//! ```
//!
//! So other clients never wait for the network, and a change made during the transfer is moved too. A key whose move
//! ends with an error stays here; the other server may have it as well. One MIGRATE runs at a time: each takes one of
//! the threads that may wait.
//!
//! Not here: the form of the values (`dump.rs`, `rdb/`).

use super::call::{Args, Outcome, Refusal, SYNTAX, Turn};
use super::number::parse_integer;
use super::script::BUSY;
use super::spec::Id;
use super::state::SessionState;
use super::strings::integer;
use super::{blocking, dump, events, reply};
use crate::keyspace::{Kind, Patience, Watch};
use crate::server::Server;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The most times that a key is sent if it changes during each transfer.
const TRIES: usize = 16;
/// The longest answer of the other server: a line; no command that is sent here has a longer one.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What the request says.
struct Plan<'a> {
    host: &'a str,
    port: u16,
    database: &'a [u8],
    timeout: Duration,
    copy: bool,
    replace: bool,
    /// The words after AUTH.
    auth: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
}

impl<'a> Plan<'a> {
    fn parse(args: &Args<'a>) -> Result<Plan<'a>, Refusal> {
        let (mut copy, mut replace, mut auth, mut keys) = (false, false, Vec::new(), vec![args.at(3)]);
        let mut index = 6;
        while index < args.len() {
            let left = args.len() - index - 1;
            index += match () {
                () if args.is(index, "copy") => {
                    copy = true;
                    1
                }
                () if args.is(index, "replace") => {
                    replace = true;
                    1
                }
                () if args.is(index, "auth") && left >= 1 => {
                    auth = args.from(index + 1).take(1).collect();
                    2
                }
                () if args.is(index, "auth2") && left >= 2 => {
                    auth = args.from(index + 1).take(2).collect();
                    3
                }
                () if args.is(index, "keys") => {
                    if !args.at(3).is_empty() {
                        return Err("ERR When using MIGRATE KEYS option, the key argument must be set to the empty \
                                    string"
                            .into());
                    }
                    keys = args.from(index + 1).collect();
                    left + 1
                }
                () => return Err(SYNTAX.into()),
            };
        }
        let (timeout_ms, database) = (integer(args.at(5))?, args.at(4));
        integer(database)?;
        let host = std::str::from_utf8(args.at(1)).map_err(|_| "ERR the host's name is not UTF-8")?;
        let port = parse_integer(args.at(2)).and_then(|port| u16::try_from(port).ok());
        let port = port.ok_or("ERR Invalid TCP port specified")?;
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).ok().filter(|&ms| ms > 0).unwrap_or(1000));
        Ok(Plan { host, port, database, timeout, copy, replace, auth, keys })
    }
}

/// MIGRATE host port key|"" database timeout ...
pub(super) fn migrate(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let plan = Plan::parse(&args)?;
    let server = session.server.clone();
    let Ok(_only) = server.migrating.try_lock() else {
        return Err("TRYAGAIN another client's MIGRATE is running".into());
    };
    let (mut other, mut found) = (None, false);
    for &key in &plan.keys {
        found |= move_key(session, &server, &plan, key, &args, &mut other)?;
    }
    if found {
        reply::ok(out)
    } else {
        reply::simple(out, "NOKEY")
    }
    Ok(())
}

/// Moves a key. `false` if it is absent.
fn move_key(
    session: &SessionState,
    server: &Server,
    plan: &Plan<'_>,
    key: &[u8],
    args: &Args<'_>,
    other: &mut Option<Other>,
) -> Result<bool, Refusal> {
    for tried in 0..TRIES {
        let mut watch = Watch::default();
        let moved = read(server, session.database, key, &mut watch).and_then(|found| {
            // Absent after a try: what was sent is the last value that it had here.
            let Some((payload, left_ms)) = found else { return Ok(Some(tried > 0)) };
            connected(other, plan)?.restore(key, left_ms, &payload, plan, tried > 0)?;
            let is_done = plan.copy || remove_unchanged(session, server, (key, &payload), args, &mut watch)?;
            Ok(is_done.then_some(true))
        });
        server.space.forget_watch(&mut watch);
        if let Some(was_present) = moved? {
            return Ok(was_present);
        }
    }
    let what = "ERR a key changes faster than it can be sent, and stays here: ";
    Err(Refusal::about(what, &key[..key.len().min(128)], ""))
}

/// Watches a key from here on. Returns what DUMP returns for it, and the milliseconds that it has left: 0 for ever.
fn read(server: &Server, database: usize, key: &[u8], watch: &mut Watch) -> Result<Option<(Vec<u8>, u64)>, Refusal> {
    let Some(mut alone) = server.close(Patience::MayWait) else { return Err(BUSY.into()) };
    if !alone.contains(database, key)? {
        return Ok(None);
    }
    let left_ms = match alone.attributes(database, key)?.expires_at_ms {
        0 => 0,
        at_ms => at_ms.saturating_sub(alone.now_ms()).max(1),
    };
    alone.watch(watch, database, key)?;
    Ok(dump::payload(&mut Turn::Alone(&mut alone), database, key)?.map(|payload| (payload, left_ms)))
}

/// Removes a key whose payload was sent. `false` if it has changed since.
fn remove_unchanged(
    session: &SessionState,
    server: &Server,
    (key, sent): (&[u8], &[u8]),
    args: &Args<'_>,
    watch: &mut Watch,
) -> Result<bool, Refusal> {
    let Some(mut alone) = server.close(Patience::MayWait) else { return Err(BUSY.into()) };
    if alone.unwatch(watch)? {
        return Ok(false);
    }
    // A watch does not see changes of a stream's consumer groups.
    if alone.attributes(session.database, key)?.kind == Kind::Stream
        && dump::payload(&mut Turn::Alone(&mut alone), session.database, key)?.as_deref() != Some(sent)
    {
        return Ok(false);
    }
    alone.begin();
    if let Err(error) = alone.remove(session.database, key) {
        alone.roll_back();
        return Err(error.into());
    }
    alone.commit()?;
    events::report(&server.notices, &mut alone, Id::Migrate, args, session.client.id);
    blocking::serve(server, &mut alone);
    Ok(true)
}

/// The connection to the other server, made for the first key that is present.
fn connected<'o>(other: &'o mut Option<Other>, plan: &Plan<'_>) -> Result<&'o mut Other, Refusal> {
    if other.is_none() {
        *other = Some(Other::connect(plan)?);
    }
    other.as_mut().ok_or_else(|| unreachable_server("connecting to the client"))
}

#[cold]
fn unreachable_server(what: &str) -> Refusal {
    format!("IOERR error or timeout {what}").into()
}

/// A connection to the other server.
struct Other(BufReader<TcpStream>);

impl Other {
    fn connect(plan: &Plan<'_>) -> Result<Other, Refusal> {
        let failed = |_: Error| unreachable_server("connecting to the client");
        let mut last = Err(Error::from(ErrorKind::NotFound));
        for address in (plan.host, plan.port).to_socket_addrs().map_err(failed)? {
            last = TcpStream::connect_timeout(&address, plan.timeout);
            if last.is_ok() {
                break;
            }
        }
        let stream = last.map_err(failed)?;
        stream.set_read_timeout(Some(plan.timeout)).map_err(failed)?;
        stream.set_write_timeout(Some(plan.timeout)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut other = Other(BufReader::new(stream));
        if !plan.auth.is_empty() {
            other.ask(&[&[&b"AUTH"[..]], &plan.auth[..]].concat())?;
        }
        other.ask(&[b"SELECT", plan.database])?;
        Ok(other)
    }

    fn restore(
        &mut self,
        key: &[u8],
        left_ms: u64,
        payload: &[u8],
        plan: &Plan<'_>,
        again: bool,
    ) -> Result<(), Refusal> {
        let left_ms = left_ms.to_string();
        let mut words: Vec<&[u8]> = vec![b"RESTORE", key, left_ms.as_bytes(), payload];
        if plan.replace || again {
            words.push(b"REPLACE");
        }
        self.ask(&words)
    }

    /// Sends a command that is answered with a status.
    fn ask(&mut self, words: &[&[u8]]) -> Result<(), Refusal> {
        let mut request = Vec::new();
        reply::array(&mut request, words.len());
        words.iter().for_each(|word| reply::bulk(&mut request, word));
        let writing = self.0.get_mut().write_all(&request);
        writing.map_err(|_| unreachable_server("writing to target instance"))?;
        let mut answer = Vec::new();
        let reading = self.0.by_ref().take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer);
        reading.map_err(|_| unreachable_server("reading from target instance"))?;
        match answer.strip_suffix(b"\r\n") {
            Some([b'+', ..]) => Ok(()),
            Some([b'-', what @ ..]) => Err(Refusal::about("ERR Target instance replied with error: ", what, "")),
            _ => Err(unreachable_server("reading from target instance")),
        }
    }
}
