//! Runs: requests of one kind that one call of the table executes together.
//!
//! A run collects get, gets, mg or set requests until one of another kind follows, it is full, or the input ends. Then
//! all its keys are looked up or stored in one call. If the output becomes long, the run ends early, and once the
//! client has read, the session continues after the last key that was answered. This bounds one client's output.

use super::entry::{Executed, Pause, Work};
use super::{MemcachedSession, OUTPUT_BYTES, answer};
use crate::command::spec::Id;
use crate::keyspace::{self, Attributes, Edit, Exclusive, New, Old, Record, Result, SHORT_VALUE_BYTES, Shared, now_ms};
use crate::memcached::DATABASE;
use crate::memcached::classic;
use crate::memcached::meta::{self, Facts};
use crate::memcached::request::{Get, Meta, Mode, Store, words};
use crate::session::Flow;

/// The most lookups or stores in one call of the table.
const RUN_MAX: usize = 64;

/// Requests that one call of the table can execute.
pub(super) struct Run<'a> {
    kind: Kind,
    /// Where its first request begins in the input.
    start: usize,
    len: usize,
    keys: [&'a [u8]; RUN_MAX],
    /// set: the values, and the attributes that they get.
    values: [&'a [u8]; RUN_MAX],
    attributes: [Attributes; RUN_MAX],
    /// get: whether the request ends with this key. set: whether no answer is sent.
    marked: [bool; RUN_MAX],
    /// get, mg: for each key, where its request begins in the input, and the index of the key in the request.
    places: [(usize, usize); RUN_MAX],
    metas: Vec<Meta<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Get,
    Gets,
    MetaGet,
    Set,
}

impl<'a> Run<'a> {
    pub(super) fn new() -> Run<'a> {
        Run {
            kind: Kind::Get,
            start: 0,
            len: 0,
            keys: [&[]; RUN_MAX],
            values: [&[]; RUN_MAX],
            attributes: [Attributes::NONE; RUN_MAX],
            marked: [false; RUN_MAX],
            places: [(0, 0); RUN_MAX],
            metas: Vec::new(),
        }
    }

    fn keys(&self) -> &[&'a [u8]] {
        &self.keys[..self.len]
    }
}

impl MemcachedSession {
    /// Ends the run if a request of this kind with `count` keys, which begins at `start`, does not fit into it.
    fn make_place(
        &mut self,
        work: &mut Work<'_>,
        run: &mut Run<'_>,
        kind: Kind,
        start: usize,
        count: usize,
        out: &mut Vec<u8>,
    ) -> Executed {
        if run.kind != kind || run.len + count > RUN_MAX {
            self.flush(work, run, out)?;
        }
        if run.len == 0 {
            (run.kind, run.start) = (kind, start);
            run.places[0] = (start, 0);
        }
        Ok(())
    }

    pub(super) fn add_get<'a>(
        &mut self,
        work: &mut Work<'_>,
        run: &mut Run<'a>,
        start: usize,
        get: &Get<'a>,
        out: &mut Vec<u8>,
    ) -> Executed {
        let kind = if get.with_cas { Kind::Gets } else { Kind::Get };
        self.make_place(work, run, kind, start, get.count, out)?;
        let answered = std::mem::take(&mut self.answered);
        for (index, key) in words(get.keys).enumerate().skip(answered) {
            if run.len == RUN_MAX {
                self.flush(work, run, out)?;
                (run.kind, run.start) = (kind, start);
            }
            run.keys[run.len] = key;
            run.marked[run.len] = index + 1 == get.count;
            run.places[run.len] = (start, index);
            run.len += 1;
        }
        if get.count == 0 {
            out.extend_from_slice(b"END\r\n");
        }
        Ok(())
    }

    pub(super) fn add_meta_get<'a>(
        &mut self,
        work: &mut Work<'_>,
        run: &mut Run<'a>,
        start: usize,
        meta: Meta<'a>,
        out: &mut Vec<u8>,
    ) -> Executed {
        self.make_place(work, run, Kind::MetaGet, start, 1, out)?;
        run.metas.push(meta);
        run.places[run.len] = (start, 0);
        run.len += 1;
        Ok(())
    }

    /// Adds a plain set. `false` for other stores, and if the value would already have expired.
    pub(super) fn add_set<'a>(
        &mut self,
        work: &mut Work<'_>,
        run: &mut Run<'a>,
        start: usize,
        store: &Store<'a>,
        data: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Executed<bool> {
        let attributes = if store.mode == Mode::Set { classic::attributes_of(store, now_ms()) } else { None };
        let Some(attributes) = attributes else { return Ok(false) };
        self.make_place(work, run, Kind::Set, start, 1, out)?;
        (run.keys[run.len], run.values[run.len], run.attributes[run.len]) = (store.key, data, attributes);
        run.marked[run.len] = store.quiet;
        run.len += 1;
        Ok(true)
    }

    /// Executes the requests of a run.
    pub(super) fn flush(&mut self, work: &mut Work<'_>, run: &mut Run<'_>, out: &mut Vec<u8>) -> Executed {
        if run.len == 0 {
            return Ok(());
        }
        let done = match run.kind {
            Kind::Get => self.flush_gets(work, run, out),
            Kind::Gets => self.flush_gets_with_cas(work, run, out),
            Kind::MetaGet => self.flush_meta_gets(work, run, out),
            Kind::Set => self.flush_sets(work, run, out),
        };
        // Remember how many keys of a long request earlier runs have answered.
        let done = done.inspect_err(|_| self.answered = run.places[0].1)?;
        let first = run.metas.first().map_or(run.keys[0], |meta| meta.sent_key);
        match run.kind {
            Kind::Set => self.note(work, Id::Set, done, &[b"set", first]),
            _ => self.note(work, Id::Get, done, &[b"get", first]),
        }
        // The output is long: the client must read before the rest is looked up.
        if done < run.len {
            let (start, answered) = run.places[done];
            self.answered = answered;
            return Err(Pause(start, Flow::Write));
        }
        run.len = 0;
        run.metas.clear();
        Ok(())
    }

    fn flush_gets(&mut self, work: &mut Work<'_>, run: &Run<'_>, out: &mut Vec<u8>) -> Executed<usize> {
        let shared = work.shared(run.start)?;
        let (before, mut answers) = (out.len(), Answers::new(run));
        let found = shared.get_records(DATABASE, run.keys(), |index, record| answers.write(out, index, record));
        Ok(self.end_gets(found, &answers, before, out))
    }

    /// gets: assigns CAS numbers to present keys that have none, with exclusive entry if it must.
    fn flush_gets_with_cas(&mut self, work: &mut Work<'_>, run: &Run<'_>, out: &mut Vec<u8>) -> Executed<usize> {
        let before = out.len();
        if !work.is_alone() {
            let shared = work.shared(run.start)?;
            if let Some(answers) = answer_numbered(shared, run, out) {
                return Ok(self.end_gets(Ok(()), &answers, before, out));
            }
            self.unsynced = true;
            let number = |_: usize, old: Option<Old<'_>>, new: &mut New<'_>| match old {
                Some(old) if old.attributes.cas == 0 => {
                    new.set_attributes(&old, Attributes { cas: shared.space().new_cas(), ..old.attributes })
                }
                _ => Edit::Keep,
            };
            let (given, outcome) = shared.edit_many(DATABASE, run.keys(), (SHORT_VALUE_BYTES, 0), number);
            // Another client may store a new value before the answer.
            if given == run.len
                && outcome.is_ok()
                && let Some(answers) = answer_numbered(shared, run, out)
            {
                return Ok(self.end_gets(Ok(()), &answers, before, out));
            }
        }
        self.unsynced = true;
        let (alone, mut answers) = (work.alone(run.start)?, Answers::new(run));
        let found = give_numbers(alone, run.keys())
            .and_then(|()| alone.get_records(DATABASE, run.keys(), |index, record| answers.write(out, index, record)));
        Ok(self.end_gets(found, &answers, before, out))
    }

    /// Counts hits and misses. Returns the number of keys answered; all of them if an error answers their requests.
    fn end_gets(&self, found: Result<()>, answers: &Answers<'_, '_>, before: usize, out: &mut Vec<u8>) -> usize {
        let Answers { run, hits, done } = *answers;
        if let Err(error) = found {
            out.truncate(before);
            let requests = run.marked[..run.len].iter().filter(|&&last| last).count();
            (0..requests).for_each(|_| self.refuse(out, &error));
            return run.len;
        }
        run.keys[..done].iter().for_each(|key| self.note_use(key, true));
        self.note_hits(hits, done as u64);
        done
    }

    fn flush_meta_gets(&mut self, work: &mut Work<'_>, run: &Run<'_>, out: &mut Vec<u8>) -> Executed<usize> {
        let mut keys: [&[u8]; RUN_MAX] = [&[]; RUN_MAX];
        keys.iter_mut().zip(&run.metas).for_each(|(key, meta)| *key = &meta.key);
        let keys = &keys[..run.len];
        let shared = work.shared(run.start)?;
        let now_ms = shared.now_ms();
        let (before, mut hits, mut done) = (out.len(), 0, 0);
        let mut only_reads = true;
        let found = shared
            .get_records(DATABASE, keys, |index, record| {
                if index > done || out.len() > OUTPUT_BYTES {
                    return;
                }
                let meta = &run.metas[index];
                let attributes = record.map_or(Attributes::NONE, |record| record.attributes);
                only_reads &= meta::only_reads(meta, &attributes, record.is_some(), now_ms);
                if !only_reads {
                    return;
                }
                done = index + 1;
                let Some(Record { value, .. }) = record else {
                    meta::write_miss(out, meta);
                    return;
                };
                hits += 1;
                Facts { len: value.len(), attributes, activity: None, now_ms, meta }.write_hit(out);
                out.extend_from_slice(b"\r\n");
                if meta.value {
                    out.extend_from_slice(value);
                    out.extend_from_slice(b"\r\n");
                }
            })
            .map(|()| only_reads);
        match found {
            Ok(true) => {
                self.note_hits(hits, done as u64);
                let counted = run.metas[..done].iter().filter(|meta| !meta.no_update);
                counted.for_each(|meta| self.note_use(&meta.key, true));
            }
            // One of them changes something: it assigns a CAS number, creates a key, or asks a client to renew a value.
            Ok(false) => {
                out.truncate(before);
                let alone = work.alone(run.start)?;
                done = 0;
                while done < run.len && out.len() <= OUTPUT_BYTES {
                    self.meta_get(alone, &run.metas[done], out);
                    done += 1;
                }
                self.unsynced = true;
            }
            Err(error) => {
                out.truncate(before);
                (0..run.len).for_each(|_| self.refuse(out, &error));
                done = run.len;
            }
        }
        Ok(done)
    }

    fn flush_sets(&mut self, work: &mut Work<'_>, run: &Run<'_>, out: &mut Vec<u8>) -> Executed<usize> {
        let mut pairs: [(&[u8], &[u8]); RUN_MAX] = [(&[], &[]); RUN_MAX];
        for (pair, (&key, &value)) in pairs.iter_mut().zip(run.keys.iter().zip(&run.values)).take(run.len) {
            *pair = (key, value);
        }
        let pairs = &pairs[..run.len];
        let attributes = |index: usize| run.attributes[index];
        let mut done = 0;
        if !work.is_alone() {
            let stored = work.shared(run.start)?.put_many(DATABASE, pairs, attributes);
            done = keyspace::answerable(stored, pairs.len());
        }
        self.unsynced = true;
        // After an error, the rest one by one, each with its own answer.
        let mut stored = Vec::new();
        if done < pairs.len() {
            let alone = work.alone(run.start)?;
            let (rest, attributes) = (&pairs[done..], |index: usize| attributes(done + index));
            let bytes = rest.iter().map(|(_, value)| value.len()).sum();
            if alone.make_room(bytes).is_ok() {
                done += keyspace::answerable(alone.put_many(DATABASE, rest, attributes), rest.len());
            }
            let store = |(index, &(key, value)): (usize, &(&[u8], &[u8]))| {
                alone.make_room(value.len())?;
                alone.put_many(DATABASE, &[(key, value)], |_| run.attributes[index]).1
            };
            stored.extend(pairs.iter().enumerate().skip(done).map(store));
        }
        for (index, (key, _)) in pairs.iter().enumerate() {
            self.note_use(key, false);
            match index.checked_sub(done).and_then(|index| stored.get(index)) {
                Some(Err(error)) if run.marked[index] => self.note_refused(error),
                Some(Err(error)) => self.refuse(out, error),
                _ => answer(out, run.marked[index], b"STORED\r\n"),
            }
        }
        Ok(run.len)
    }
}

/// Answers gets of a run if all present keys have CAS numbers. `None` if one has none, or after an error.
fn answer_numbered<'r, 'a>(shared: &Shared<'_>, run: &'r Run<'a>, out: &mut Vec<u8>) -> Option<Answers<'r, 'a>> {
    let (before, mut answers, mut numbered) = (out.len(), Answers::new(run), true);
    let found = shared.get_records(DATABASE, run.keys(), |index, record| {
        numbered &= record.is_none_or(|record| record.attributes.cas != 0);
        if numbered {
            answers.write(out, index, record);
        }
    });
    if found.is_ok() && numbered {
        return Some(answers);
    }
    out.truncate(before);
    None
}

/// Assigns a CAS number to each key that is present and has none.
fn give_numbers(alone: &mut Exclusive<'_>, keys: &[&[u8]]) -> Result<()> {
    // This loads their pages into the cache together.
    alone.get_records(DATABASE, keys, |_, _| {})?;
    keys.iter().try_for_each(|key| alone.cas_of(DATABASE, key).map(drop))
}

/// Writes the answers to the gets of a run until the output is too long.
struct Answers<'r, 'a> {
    run: &'r Run<'a>,
    hits: u64,
    /// The number of keys answered.
    done: usize,
}

impl<'r, 'a> Answers<'r, 'a> {
    fn new(run: &'r Run<'a>) -> Answers<'r, 'a> {
        Answers { run, hits: 0, done: 0 }
    }

    #[inline]
    fn write(&mut self, out: &mut Vec<u8>, index: usize, record: Option<Record<'_>>) {
        if index > self.done || out.len() > OUTPUT_BYTES {
            return;
        }
        if let Some(Record { attributes, value }) = record {
            self.hits += 1;
            let cas = (self.run.kind == Kind::Gets).then_some(attributes.cas);
            classic::write_value(out, self.run.keys[index], attributes.flags, value, cas);
        }
        if self.run.marked[index] {
            out.extend_from_slice(b"END\r\n");
        }
        self.done = index + 1;
    }
}
