//! Runs: requests of one command that one call of the table executes together, and their replies.
//!
//! A run of lookups ends when the output becomes long; if some lookups were wasted, the next run is shorter. A run of
//! writes that fails in the middle is answered up to the failure, and the rest is another run.

use super::{OUTPUT_BYTES, RUN_MAX, RespSession};
use crate::command::call::{Args, Refusal, Turn};
use crate::command::reply;
use crate::command::spec::Id;
use crate::command::strings;
use crate::keyspace::{self, Attributes, Exclusive, Shared};
use crate::planted::{Bug, planted};
use std::sync::atomic::Ordering::*;

impl RespSession {
    /// Answers lookups of at most `MOST` keys until the output is long. Returns the number of requests answered; `None`
    /// if they must be answered one by one.
    pub(super) fn lookup_run<'a, const MOST: usize>(
        &mut self,
        shared: &Shared<'_>,
        id: Id,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut keys: [&[u8]; MOST] = [&[]; MOST];
        // At the index of each request's first key, its number of keys; else 0.
        let mut firsts = [0u8; MOST];
        let (mut key_count, mut count) = (0, 0);
        for args in args {
            firsts[key_count] = (args.len() - 1) as u8; // at most RUN_MAX
            for key in args.from(1) {
                keys[key_count] = key;
                key_count += 1;
            }
            count += 1;
        }
        if let Some(dictionary) = self.state.server.space.dictionary() {
            // Requests for other nodes are redirected one by one.
            key_count = dictionary.count_served(&keys[..key_count], &firsts);
            if key_count == 0 {
                return None;
            }
            count = firsts[..key_count].iter().filter(|&&keys| keys > 0).count();
        }
        let (before, version) = (out.len(), self.state.version);
        let (mut hits, mut looked, mut done, mut stopped) = (0, 0, 0, false);
        // Keys of the request not looked up yet, and those found present.
        let (mut left, mut present) = (0, 0);
        let mut take = |index: usize, value: Found<'_>| {
            if firsts[index] > 0 {
                if out.len() > OUTPUT_BYTES && !stopped {
                    stopped = true;
                    done -= usize::from(planted(Bug::AnsweredTwice));
                }
                (left, present) = (firsts[index], 0);
                if !stopped {
                    done += 1;
                    if id == Id::MGet {
                        reply::array(out, usize::from(left));
                        if planted(Bug::PushWithinReply) {
                            self.state.client.take_pushes(out);
                        }
                    }
                }
            }
            if stopped {
                return;
            }
            looked += 1;
            let len = match value {
                Found::Value(value) => value.map(<[u8]>::len),
                Found::Len(len) => len,
            };
            hits += u64::from(len.is_some());
            match (id, value) {
                (Id::Get | Id::MGet, Found::Value(value)) => reply::bulk_or_null(out, value, version),
                (Id::StrLen, _) => reply::count(out, len.unwrap_or(0) as u64),
                _ => {
                    (left, present) = (left - 1, present + u64::from(len.is_some()));
                    if left == 0 {
                        reply::count(out, present);
                    }
                }
            }
        };
        let keys = &keys[..key_count];
        let found = match id {
            Id::Get | Id::MGet => {
                shared.get_many(self.state.database, keys, |index, value| take(index, Found::Value(value)))
            }
            // These need only the length, so large values are not read.
            _ => keys.iter().enumerate().try_for_each(|(index, key)| {
                shared.value_len(self.state.database, key).map(|len| take(index, Found::Len(len)))
            }),
        };
        // Lookups of values record the use themselves.
        if matches!(id, Id::StrLen | Id::Touch) {
            shared.note_use(keys);
        }
        if found.is_err() {
            // Answer them one by one instead, each with its own error.
            out.truncate(before);
            return None;
        }
        // With large values, some were copied but not sent; make the next run shorter.
        self.lookup_run_max = if done < count { looked.max(1) } else { (2 * self.lookup_run_max).min(RUN_MAX) };
        let misses = looked as u64 - hits;
        if hits > 0 {
            self.state.figures.hits.fetch_add(hits, Relaxed);
        }
        if misses > 0 {
            self.state.figures.misses.fetch_add(misses, Relaxed);
        }
        Some(done)
    }

    pub(super) fn set_run<'a, const MOST: usize>(
        &mut self,
        shared: &Shared<'_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut pairs: [(&[u8], &[u8]); MOST] = [(&[], &[]); MOST];
        let count = pairs_of(args, &mut pairs);
        match shared.put_many(self.state.database, &pairs[..count], |_| Attributes::NONE) {
            Ok(true) => {
                self.unsynced = true;
                (0..count).for_each(|_| reply::ok(out));
                true
            }
            // Not plain, or it failed after some pairs were stored; storing those again changes nothing.
            Ok(false) | Err(_) => false,
        }
    }

    pub(super) fn set_run_alone<'a>(
        &mut self,
        alone: &mut Exclusive<'_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut pairs: [(&[u8], &[u8]); RUN_MAX] = [(&[], &[]); RUN_MAX];
        let count = pairs_of(args, &mut pairs);
        self.unsynced = true;
        let bytes = pairs[..count].iter().map(|(_, value)| value.len()).sum();
        let stored = alone
            .make_room(bytes)
            .and_then(|()| alone.put_many(self.state.database, &pairs[..count], |_| Attributes::NONE));
        if stored.is_ok() {
            (0..count).for_each(|_| reply::ok(out));
        }
        // After an error, one by one, each with its own answer; storing a pair again changes nothing.
        stored.is_ok()
    }

    /// Answers APPENDs up to the first with an invalid option. Returns how many; `None` if they must be answered one by
    /// one.
    pub(super) fn append_run<'a>(
        &mut self,
        turn: Turn<'_, '_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let value_bytes_max = self.state.server.settings.bulk_bytes.load(Relaxed);
        let mut pairs: [(&[u8], &[u8]); RUN_MAX] = [(&[], &[]); RUN_MAX];
        let mut limits = [value_bytes_max; RUN_MAX];
        let mut count = 0;
        for args in args {
            let Ok(limit) = strings::append_limit(&args, value_bytes_max) else { break };
            (pairs[count], limits[count]) = ((args.at(1), args.at(2)), limit);
            count += 1;
        }
        let (before, mut done, mut refused, mut late) = (out.len(), 0, 0, Vec::new());
        let take = |index: usize, len: Option<usize>| {
            match len {
                Some(len) => reply::count(out, len as u64),
                None => {
                    let out = if planted(Bug::RefusalLast) { &mut late } else { &mut *out };
                    reply::error(out, strings::too_long(limits[index], value_bytes_max).text());
                    refused += 1;
                }
            }
            done = index + 1;
        };
        let (pairs, limit) = (&pairs[..count], |index: usize| limits[index]);
        let appended = match turn {
            Turn::Shared(shared) => shared.append_many(self.state.database, pairs, limit, take),
            Turn::Alone(alone) => {
                if alone.make_room(pairs.iter().map(|(_, tail)| tail.len()).sum()).is_err() {
                    // Answer them one by one instead, each with its own error.
                    return None;
                }
                alone.append_many(self.state.database, pairs, limit, take).map(|()| true)
            }
        };
        out.append(&mut late);
        self.state.figures.errors.fetch_add(refused, Relaxed);
        self.end_run(appended, done, count, before, out)
    }

    /// Answers DELs of one key each. Returns how many; `None` if they must be answered one by one.
    pub(super) fn remove_run<'a>(
        &mut self,
        shared: &Shared<'_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut keys: [&[u8]; RUN_MAX] = [&[]; RUN_MAX];
        let mut count = 0;
        for (slot, args) in keys.iter_mut().zip(args) {
            *slot = args.at(1);
            count += 1;
        }
        let (before, mut done) = (out.len(), 0);
        let removed = shared.remove_many(self.state.database, &keys[..count], |index, was_present| {
            reply::integer(out, was_present.into());
            done = index + 1;
        });
        self.end_run(removed, done, count, before, out)
    }

    /// Ends a run of `count` writes, of which `done` were made, with replies from `before` on. The write that failed is
    /// answered with the error; the writes after it become another run.
    fn end_run(
        &mut self,
        result: keyspace::Result<bool>,
        done: usize,
        count: usize,
        before: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        self.unsynced |= !matches!(result, Ok(false));
        let Err(error) = result else { return (done > 0).then_some(done) };
        let refusal = Refusal::from(error);
        if done < count {
            self.state.refuse(out, &refusal);
            return Some(done + 1);
        }
        // All were made, but are not as durable as their replies say.
        out.truncate(before);
        (0..count).for_each(|_| self.state.refuse(out, &refusal));
        Some(count)
    }
}

fn pairs_of<'a>(args: impl Iterator<Item = Args<'a>>, pairs: &mut [(&'a [u8], &'a [u8])]) -> usize {
    let mut count = 0;
    for (slot, args) in pairs.iter_mut().zip(args) {
        *slot = (args.at(1), args.at(2));
        count += 1;
    }
    count
}

/// The result of a lookup: the value, or only its length.
#[derive(Clone, Copy)]
enum Found<'v> {
    Value(Option<&'v [u8]>),
    Len(Option<usize>),
}
