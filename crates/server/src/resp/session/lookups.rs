//! Runs of lookups: requests of one command whose keys one call of the table finds together, and their replies.
//!
//! A run ends when the output becomes long; if some lookups were wasted, the next run is shorter.

use super::{OUTPUT_BYTES, RUN_MAX, RespSession};
use crate::command::call::{Args, WRONG_TYPE};
use crate::command::reply::{self, Version};
use crate::command::spec::Id;
use crate::keyspace::{self, KeySpace, Kind, Record, Shared, SpaceError};
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
        let mut firsts = [0; MOST];
        let (mut key_count, mut count) = keys_of(args, &mut keys, &mut firsts);
        let space = &self.state.server.space;
        if let Some(dictionary) = space.dictionary() {
            // Requests for other nodes are redirected one by one.
            key_count = dictionary.count_served(&keys[..key_count], &firsts);
            if key_count == 0 {
                return None;
            }
            count = firsts[..key_count].iter().filter(|&&keys| keys > 0).count();
        }
        let keys = &keys[..key_count];
        let before = out.len();
        let mut answers = Answers::new(id, self.state.version, space, &firsts, out);
        let found = find(shared, self.state.database, keys, &mut answers);
        // Lookups of values record the use themselves.
        if matches!(id, Id::StrLen | Id::Touch) {
            shared.note_use(keys);
        }
        let Answers { hits, looked, done, refused, .. } = answers;
        if found.is_err() {
            // Answer them one by one instead, each with its own error.
            out.truncate(before);
            return None;
        }
        self.state.figures.note_failures(id, WRONG_TYPE.as_bytes(), refused);
        // With large values, some were copied but not sent; make the next run shorter.
        self.lookup_run_max = if done < count { looked.max(1) } else { (2 * self.lookup_run_max).min(RUN_MAX) };
        let misses = looked as u64 - hits;
        if hits > 0 {
            self.state.figures.hits.fetch_add(hits, Relaxed);
        }
        if misses > 0 {
            self.publish_misses(shared, keys);
            self.state.figures.misses.fetch_add(misses, Relaxed);
        }
        Some(done)
    }

    /// Publishes which of these keys are absent, if any client wants to know.
    #[inline(never)]
    fn publish_misses(&self, shared: &Shared<'_>, keys: &[&[u8]]) {
        let (notices, database) = (&self.state.server.notices, self.state.database);
        if notices.wants_misses() {
            let absent = keys.iter().filter(|key| matches!(shared.attributes(database, key), Ok(None)));
            absent.for_each(|key| notices.missed(database, key));
        }
    }
}

/// Writes the keys of the requests to `keys`, and the number of a request's keys to `firsts`, at the index of its first
/// key. Returns how many keys and requests there are.
fn keys_of<'a>(args: impl Iterator<Item = Args<'a>>, keys: &mut [&'a [u8]], firsts: &mut [u8]) -> (usize, usize) {
    let (mut key_count, mut count) = (0, 0);
    for args in args {
        firsts[key_count] = (args.len() - 1) as u8; // at most RUN_MAX
        for key in args.from(1) {
            keys[key_count] = key;
            key_count += 1;
        }
        count += 1;
    }
    (key_count, count)
}

/// Finds what the command wants to know of each key, and writes the answers.
#[inline]
fn find(shared: &Shared<'_>, database: usize, keys: &[&[u8]], answers: &mut Answers<'_>) -> keyspace::Result<()> {
    match answers.id {
        Id::Get | Id::MGet => shared.read_many(database, keys, |index, record| answers.take(index, Found::of(record))),
        Id::StrLen => keys.iter().enumerate().try_for_each(|(index, key)| {
            let found = match shared.value_len(database, key) {
                Err(SpaceError::WrongType) => Found::WrongType,
                len => Found::Len(len?),
            };
            answers.take(index, found);
            Ok(())
        }),
        // These need only the length, so large values are not read.
        _ => keys.iter().enumerate().try_for_each(|(index, key)| {
            let attributes = shared.attributes(database, key)?;
            answers.take(index, Found::Len(attributes.map(|_| 0)));
            Ok(())
        }),
    }
}

/// The result of a lookup: the value, or only its length.
#[derive(Clone, Copy)]
enum Found<'v> {
    Value(Option<&'v [u8]>),
    Len(Option<usize>),
    WrongType,
}

impl<'v> Found<'v> {
    #[inline]
    fn of(record: Option<Record<'v>>) -> Found<'v> {
        match record {
            Some(record) if record.attributes.kind != Kind::String => Found::WrongType,
            record => Found::Value(record.map(|record| record.value)),
        }
    }
}

/// The answers of a run, written key by key.
struct Answers<'r> {
    id: Id,
    version: Version,
    space: &'r KeySpace,
    /// The key count of the request that begins at a key.
    firsts: &'r [u8],
    out: &'r mut Vec<u8>,
    hits: u64,
    /// Keys looked up.
    looked: usize,
    /// Requests begun.
    done: usize,
    /// Requests answered with an error.
    refused: u64,
    /// The output is long: the next request was not begun.
    has_ended: bool,
    /// Keys of the request begun last that were not looked up yet, and those found present.
    left: u8,
    present: u64,
}

impl<'r> Answers<'r> {
    fn new(id: Id, version: Version, space: &'r KeySpace, firsts: &'r [u8], out: &'r mut Vec<u8>) -> Answers<'r> {
        Answers {
            id,
            version,
            space,
            firsts,
            out,
            hits: 0,
            looked: 0,
            done: 0,
            refused: 0,
            has_ended: false,
            left: 0,
            present: 0,
        }
    }

    #[inline]
    fn take(&mut self, index: usize, found: Found<'_>) {
        if self.firsts[index] > 0 {
            self.begin(self.firsts[index]);
        }
        if !self.has_ended {
            self.reply(found);
        }
    }

    /// Begins the next request, which has this many keys.
    #[inline]
    fn begin(&mut self, keys: u8) {
        self.has_ended |= self.out.len() > OUTPUT_BYTES;
        (self.left, self.present) = (keys, 0);
        if !self.has_ended {
            self.done += 1;
            if self.id == Id::MGet {
                reply::array(self.out, usize::from(keys));
            }
        }
    }

    /// Answers with what was found for the next key of the request.
    #[inline]
    fn reply(&mut self, found: Found<'_>) {
        self.looked += 1;
        let len = match found {
            Found::Value(value) => value.map(<[u8]>::len),
            Found::Len(len) => len,
            Found::WrongType => None,
        };
        self.space.note_len(len.unwrap_or(0));
        self.hits += u64::from(len.is_some() || matches!(found, Found::WrongType));
        match (self.id, found) {
            (Id::Get | Id::StrLen, Found::WrongType) => {
                reply::error(self.out, WRONG_TYPE);
                self.refused += 1;
            }
            (Id::MGet, Found::WrongType) => reply::null(self.out, self.version),
            (Id::Get | Id::MGet, Found::Value(value)) => reply::bulk_or_null(self.out, value, self.version),
            (Id::StrLen, _) => reply::count(self.out, len.unwrap_or(0) as u64),
            _ => {
                (self.left, self.present) = (self.left - 1, self.present + u64::from(len.is_some()));
                if self.left == 0 {
                    reply::count(self.out, self.present);
                }
            }
        }
    }
}
