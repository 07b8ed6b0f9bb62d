//! Commands that wait for elements of lists and sorted sets; all waiting clients, including readers of streams.
//!
//! ```text
//! BLPOP finds nothing  -> a waiter in the queue of each key; the connection waits, without a thread
//! a command pushes     -> before it leaves the gate: for each waiter of the key, oldest first, pop, store, wake it
//! time out, CLIENT UNBLOCK, disconnection  -> the waiter leaves its queues
//! ```
//!
//! So an element goes to the client that has waited longest, and no other sees it. Elements popped for a
//! client that left before they were sent are put back. A client whose user may no longer have them gets an
//! error instead. Nothing waits in EXEC.

use super::acl;
use super::call::{Args, Outcome, Refusal};
use super::events;
use super::lists::{Move, Pops, end_of, pop_from_first};
use super::number::Decimal;
use super::reply;
use super::sorted_sets;
use super::spec::Names;
use super::state::SessionState;
use super::stream_reads;
use crate::blocked::{Elements, Popped, State, Waiter, Wanted};
use crate::keyspace::collections::list::{End, ListMut};
use crate::keyspace::collections::sorted::SortedSetMut;
use crate::keyspace::{ANY_KEY, Exclusive, Patience};
use crate::server::Server;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pops for a client; `None` if there is nothing to pop.
fn pop(waiter: &Waiter, alone: &mut Exclusive<'_>, key: &[u8]) -> Result<Option<(Vec<u8>, Popped)>, Refusal> {
    let mut out = Vec::new();
    match &waiter.wanted {
        Wanted::One(end) => {
            let mut list = ListMut::open(alone, waiter.database, key)?;
            let Some(element) = list.pop(*end)? else { return Ok(None) };
            list.finish()?;
            reply::array(&mut out, 2);
            reply::bulk(&mut out, key);
            reply::bulk(&mut out, &element);
            Ok(Some((out, Some((key.to_vec(), Elements::OfList(*end, vec![element]))))))
        }
        Wanted::Many(end, count) => {
            let (most, keys) = (waiter.reply_bytes_max, std::iter::once(key));
            let popped = pop_from_first(alone, (waiter.database, most), keys, (*end, *count), &mut out)?;
            Ok(popped.map(|popped| (out, Some((key.to_vec(), Elements::OfList(*end, popped))))))
        }
        Wanted::OneScored(end) => {
            let mut set = SortedSetMut::open(alone, waiter.database, key)?;
            let popped = sorted_sets::pop_many(&mut set, *end, 1, usize::MAX)?;
            set.finish()?;
            let Some((member, score)) = popped.first() else { return Ok(None) };
            reply::array(&mut out, 3);
            reply::bulk(&mut out, key);
            reply::bulk(&mut out, member);
            reply::score(&mut out, *score, waiter.version);
            Ok(Some((out, Some((key.to_vec(), Elements::OfSortedSet(popped))))))
        }
        Wanted::ManyScored(end, count) => {
            let (how, keys) = ((waiter.database, waiter.reply_bytes_max, waiter.version), std::iter::once(key));
            let popped = sorted_sets::pop_from_first(alone, how, keys, (*end, *count), &mut out)?;
            Ok(popped.map(|popped| (out, Some((key.to_vec(), Elements::OfSortedSet(popped))))))
        }
        Wanted::Moved { from, to, destination } => {
            let ends = Move { from: *from, to: *to };
            let Some(element) = ends.make(alone, waiter.database, key, destination)? else { return Ok(None) };
            reply::bulk(&mut out, &element);
            Ok(Some((out, None)))
        }
        Wanted::Entries(reading) => {
            let read = stream_reads::read_for(waiter, reading, alone, key)?;
            Ok(read.map(|out| (out, None)))
        }
    }
}

/// Pops for clients that wait for what was just pushed. Call it after a command, before the gate opens.
#[inline]
pub(crate) fn serve(server: &Server, alone: &mut Exclusive<'_>) {
    if alone.has_pushed() {
        serve_pushed(server, alone);
    }
}

#[cold]
fn serve_pushed(server: &Server, alone: &mut Exclusive<'_>) {
    let mut ready: VecDeque<_> = alone.take_pushed().into();
    while let Some(place) = ready.pop_front() {
        if place.0 == ANY_KEY {
            ready.extend(server.blocked.places());
            continue;
        }
        // Clients may be passed over: each reader of a stream waits for another entry.
        let mut last = 0;
        while let Ok(attributes) = alone.attributes_of(place.0, &place.1)
            && let kind = attributes.map(|attributes| attributes.kind)
            && let Some((number, waiter)) = server.blocked.concerned(&place, kind, last)
        {
            last = number;
            {
                let mut state = waiter.state();
                if !matches!(*state, State::Waits) {
                    drop(state);
                    server.blocked.remove(&waiter, &server.space);
                    continue;
                }
                *state = State::Claimed;
            }
            alone.begin();
            let permitted = acl::permit_waiter(server, &waiter);
            let popped = permitted.and_then(|()| pop(&waiter, alone, &place.1)).and_then(|popped| {
                alone.commit()?;
                Ok(popped)
            });
            let (reply, popped) = match popped {
                Ok(Some(popped)) => popped,
                Ok(None) => {
                    alone.roll_back();
                    *waiter.state() = State::Waits;
                    continue;
                }
                Err(refusal) => {
                    alone.roll_back();
                    let mut reply = Vec::new();
                    reply::error(&mut reply, refusal.text());
                    (reply, None)
                }
            };
            events::report_served(&server.notices, alone, &waiter.wanted, &place.1, waiter.client.id);
            server.blocked.remove(&waiter, &server.space);
            let mut state = waiter.state();
            if matches!(*state, State::Gone) {
                drop(state);
                put_back(alone, waiter.database, popped);
            } else {
                *state = State::Answered(reply, popped);
                drop(state);
                waiter.client.waker.wake();
            }
            ready.extend(alone.take_pushed());
        }
    }
}

/// Puts back what was popped for a client that is gone.
fn put_back(alone: &mut Exclusive<'_>, database: usize, popped: Popped) {
    let Some((key, elements)) = popped else { return };
    alone.begin();
    let put = |alone: &mut Exclusive<'_>| match &elements {
        Elements::OfList(end, elements) => {
            let mut list = ListMut::open(alone, database, &key)?;
            elements.iter().rev().try_for_each(|element| list.push(*end, element))?;
            list.finish().map(drop)
        }
        Elements::OfSortedSet(elements) => {
            let mut set = SortedSetMut::open(alone, database, &key)?;
            for (member, score) in elements {
                if set.score(member)?.is_none() {
                    set.put(member, None, *score)?;
                }
            }
            set.finish().map(drop)
        }
    };
    // The key is of another type now, or the disk is full: there is no client to report it to.
    if put(alone).and_then(|()| alone.commit()).is_err() {
        alone.roll_back();
    }
}

impl SessionState {
    /// Takes the reply of a command that waited. `late`: its timeout has passed. `false`: it has to wait longer.
    pub(crate) fn end_wait(&mut self, late: bool, out: &mut Vec<u8>) -> bool {
        let Some(waiter) = &self.waiter else { return true };
        let mut state = waiter.state();
        match &mut *state {
            State::Answered(reply, _) => {
                if let Some(text) = reply.strip_prefix(b"-") {
                    self.figures.note_failures(waiter.spec.id, text.trim_ascii_end(), 1);
                }
                out.append(reply);
            }
            State::Waits if late => reply::null_array(out, waiter.version),
            _ => return false,
        }
        *state = State::Gone;
        drop(state);
        self.server.blocked.remove(waiter, &self.server.space);
        self.waiter = None;
        true
    }

    /// Called when the connection has ended: puts back what was popped for it.
    pub(crate) fn abandon_wait(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        let before = std::mem::replace(&mut *waiter.state(), State::Gone);
        self.server.blocked.remove(&waiter, &self.server.space);
        if let State::Answered(_, popped @ Some(_)) = before {
            let server = self.server.clone();
            self.server.threads.run(move || {
                if let Some(mut alone) = server.space.close(Patience::MayWait) {
                    put_back(&mut alone, waiter.database, popped);
                    serve(&server, &mut alone);
                }
            });
        }
    }
}

fn timeout(argument: &[u8]) -> Result<Option<Duration>, Refusal> {
    const NOT_A_FLOAT: &str = "ERR timeout is not a float or out of range";
    let seconds = match Decimal::parse(argument).ok_or(NOT_A_FLOAT)? {
        Decimal::Float(seconds) if !seconds.is_finite() => return Err(NOT_A_FLOAT.into()),
        number => number.to_f64(),
    };
    if seconds < 0.0 {
        return Err("ERR timeout is negative".into());
    }
    if seconds * 1000.0 >= i64::MAX as f64 {
        return Err("ERR timeout is out of range".into());
    }
    // Redis counts whole milliseconds, and 0 means no timeout.
    let ms = (seconds * 1000.0).ceil() as u64; // checked above
    const YEARS: u64 = 1 << 42;
    Ok((ms > 0).then(|| Duration::from_millis(ms.min(YEARS))))
}

/// Serves the request from the first key that has elements, or waits for one.
fn pop_or_wait(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    (keys, wanted): (Vec<Vec<u8>>, Wanted),
    time: Option<Duration>,
    out: &mut Vec<u8>,
) -> Outcome {
    let waiter = waiter_of(session, args, keys, wanted)?;
    // EXEC commits for all of its commands.
    let is_own = !session.executing;
    if is_own {
        alone.begin();
    }
    for key in &waiter.keys {
        let popped = match pop(&waiter, alone, key) {
            Ok(popped) => popped,
            Err(refusal) => {
                if is_own {
                    alone.roll_back();
                }
                return Err(refusal);
            }
        };
        if let Some((mut reply, _)) = popped {
            if is_own {
                alone.commit()?;
            }
            out.append(&mut reply);
            return Ok(());
        }
    }
    if session.executing {
        match waiter.wanted {
            Wanted::Moved { .. } => reply::null(out, session.version),
            _ => reply::null_array(out, session.version),
        }
        return Ok(());
    }
    alone.roll_back();
    begin_wait(session, waiter, time);
    Ok(())
}

fn begin_wait(session: &mut SessionState, waiter: Arc<Waiter>, time: Option<Duration>) {
    session.server.blocked.add(&waiter, &session.server.space);
    session.waiter = Some(waiter);
    session.wait = Some(time);
}

fn waiter_of(
    session: &SessionState,
    args: Args<'_>,
    keys: Vec<Vec<u8>>,
    wanted: Wanted,
) -> Result<Arc<Waiter>, Refusal> {
    Ok(Arc::new(Waiter {
        client: session.client.clone(),
        version: session.version,
        spec: Names::get().find(args.at(0)).ok_or_else(|| Refusal::unknown(&args))?,
        database: session.database,
        keys,
        wanted,
        reply_bytes_max: session.server.settings.request_bytes.load(Relaxed),
        state: Mutex::new(State::Waits),
    }))
}

/// BLPOP, BRPOP, BZPOPMIN, BZPOPMAX key ... timeout
pub(crate) fn bpop(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
    wanted: Wanted,
) -> Outcome {
    let last = args.len() - 1;
    let time = timeout(args.at(last))?;
    let keys = args.from(1).take(last - 1).map(<[u8]>::to_vec).collect();
    pop_or_wait(session, alone, args, (keys, wanted), time, out)
}

/// BLMPOP timeout numkeys key ... LEFT | RIGHT [COUNT count]
pub(crate) fn blmpop(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let time = timeout(args.at(1))?;
    let pops = Pops::parse(&args, 2)?;
    let keys = args.from(pops.keys.start).take(pops.keys.len()).map(<[u8]>::to_vec).collect();
    pop_or_wait(session, alone, args, (keys, Wanted::Many(pops.end, pops.count)), time, out)
}

/// BZMPOP timeout numkeys key ... MIN | MAX [COUNT count]
pub(crate) fn bzmpop(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let time = timeout(args.at(1))?;
    let pops = sorted_sets::Pops::parse(&args, 2)?;
    let keys = args.from(pops.keys.start).take(pops.keys.len()).map(<[u8]>::to_vec).collect();
    pop_or_wait(session, alone, args, (keys, Wanted::ManyScored(pops.end, pops.count)), time, out)
}

/// BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout
pub(crate) fn blmove(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let (from, to) = (end_of(&args, 3)?, end_of(&args, 4)?);
    let time = timeout(args.at(5))?;
    let wanted = Wanted::Moved { from, to, destination: args.at(2).to_vec() };
    pop_or_wait(session, alone, args, (vec![args.at(1).to_vec()], wanted), time, out)
}

/// BRPOPLPUSH source destination timeout
pub(crate) fn brpoplpush(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let time = timeout(args.at(3))?;
    let wanted = Wanted::Moved { from: End::Right, to: End::Left, destination: args.at(2).to_vec() };
    pop_or_wait(session, alone, args, (vec![args.at(1).to_vec()], wanted), time, out)
}

/// XREAD [COUNT count] [BLOCK ms] STREAMS key ... id ...; XREADGROUP GROUP group consumer \[NOACK\] ...
pub(crate) fn xread(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
    of_group: bool,
) -> Outcome {
    if let Some(wait) = stream_reads::read(session, alone, args, out, of_group)? {
        let waiter = waiter_of(session, args, wait.keys, Wanted::Entries(wait.reading))?;
        begin_wait(session, waiter, wait.time);
    }
    Ok(())
}
