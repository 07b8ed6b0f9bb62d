//! Executes one request: without the key space, as an edit of one key, or with exclusive entry. Not here: lookups and
//! plain stores (`runs.rs`), other stores (`stores.rs`), dumps and quit (`batch.rs`).

use super::entry::{Executed, Work};
use super::{MemcachedSession, answer};
use crate::command::spec::Id;
use crate::keyspace::{Attributes, Edit, Exclusive, Result};
use crate::memcached::classic::{self, Counted};
use crate::memcached::request::{Get, Meta, Request, words};
use crate::memcached::{DATABASE, MEMCACHED_VERSION, dump, meta, stats};
use std::sync::atomic::Ordering::*;

impl MemcachedSession {
    /// Executes a request that changes the key space, or that does not use it.
    pub(super) fn execute_one(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        line: &[u8],
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Executed {
        let id = match request {
            Request::Stats(of) => {
                stats::stats(&self.server, of, out);
                Id::Info
            }
            &Request::CacheDump(class, limit) => {
                self.cache_dump(work, start, class, limit, out)?;
                Id::Info
            }
            Request::Crawler => {
                out.extend_from_slice(b"OK\r\n");
                Id::Config
            }
            &Request::MemoryLimit { megabytes, quiet } => {
                let space = &work.server.space;
                space.limit_memory(u64::from(megabytes) << 20, space.memory_limit().1);
                answer(out, quiet, b"OK\r\n");
                Id::Config
            }
            Request::Version => {
                out.extend_from_slice(format!("VERSION {MEMCACHED_VERSION}\r\n").as_bytes());
                Id::Ping
            }
            Request::MetaNoop => {
                out.extend_from_slice(b"MN\r\n");
                Id::Ping
            }
            Request::Verbosity { quiet } => {
                answer(out, *quiet, b"OK\r\n");
                Id::Ping
            }
            &Request::Touch { key, exptime, quiet } => {
                match self.touch(work, start, key, exptime)? {
                    Ok(touched) => answer(out, quiet, if touched { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" }),
                    Err(error) => self.refuse(out, &error),
                }
                Id::Expire
            }
            &Request::Count { key, delta, up, quiet } => {
                match self.count(work, start, key, delta, up)? {
                    Ok(counted) => self.answer_count(key, quiet, counted, out),
                    Err(error) => self.refuse(out, &error),
                }
                if up { Id::IncrBy } else { Id::DecrBy }
            }
            Request::Get(get) => {
                self.get_and_touch(work, start, get, out)?;
                Id::GetEx
            }
            _ => {
                let (alone, before) = (work.alone(start)?, out.len());
                self.change(alone, request, out).unwrap_or_else(|error| {
                    self.refuse_instead(before, out, &error);
                    Id::Set
                })
            }
        };
        self.note(work, id, 1, &[line]);
        Ok(())
    }

    /// stats cachedump: all items are in slab class 1; other classes are empty.
    fn cache_dump(&mut self, work: &mut Work<'_>, start: usize, class: u32, limit: u32, out: &mut Vec<u8>) -> Executed {
        let shared = work.shared(start)?;
        let before = out.len();
        let dumped = match class {
            1 => dump::cache_dump(shared.space(), shared, limit as usize, out),
            _ => Ok(()),
        };
        match dumped {
            Ok(()) => out.extend_from_slice(b"END\r\n"),
            Err(error) => self.refuse_instead(before, out, &error),
        }
        Ok(())
    }

    /// Changes when a key expires. Returns whether it is present.
    fn touch(&mut self, work: &mut Work<'_>, start: usize, key: &[u8], exptime: i32) -> Executed<Result<bool>> {
        let mut touched = false;
        let made = self.edit(work, start, key, None, |old, new, now_ms| {
            touched = old.is_some();
            classic::touch_edit(old, new, exptime, now_ms)
        })?;
        Ok(made.map(|()| {
            self.outcomes().touch.count(touched);
            self.note_use(key, true);
            touched
        }))
    }

    /// Adds to a number, or subtracts from it.
    fn count(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        key: &[u8],
        delta: u64,
        up: bool,
    ) -> Executed<Result<Counted>> {
        let mut counted = Counted::NotFound;
        let made = self.edit(work, start, key, Some(0), |old, new, _| {
            let (what, outcome) = classic::count_edit(old, new, delta, up, 0);
            counted = outcome;
            what
        })?;
        Ok(made.map(|()| {
            self.count_outcome(up, counted);
            counted
        }))
    }

    /// The answer of incr and decr.
    fn answer_count(&self, key: &[u8], quiet: bool, counted: Counted, out: &mut Vec<u8>) {
        match counted {
            Counted::Is(number, longer) => {
                if longer {
                    self.note_use(key, false);
                }
                if !quiet {
                    classic::write_number(out, b"", number);
                    out.extend_from_slice(b"\r\n");
                }
            }
            Counted::NotFound | Counted::Exists => answer(out, quiet, b"NOT_FOUND\r\n"),
            Counted::NoNumber => {
                answer(out, quiet, b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n")
            }
        }
    }

    /// gat, gats: returns values, with or without CAS numbers, and sets new expiry times.
    fn get_and_touch(&mut self, work: &mut Work<'_>, start: usize, get: &Get<'_>, out: &mut Vec<u8>) -> Executed {
        let (before, mut hits) = (out.len(), 0);
        let (space, exptime) = (&work.server.space, get.exptime.unwrap_or_default());
        for key in words(get.keys) {
            let (at, mut is_hit) = (out.len(), false);
            let made = self.edit(work, start, key, None, |old, new, now_ms| {
                out.truncate(at);
                let Some(old) = old else { return Edit::Keep };
                if !old.is_whole() {
                    return Edit::Alone;
                }
                is_hit = true;
                let mut attributes = Attributes { expires_at_ms: classic::deadline(exptime, now_ms), ..old.attributes };
                if get.with_cas && attributes.cas == 0 {
                    attributes.cas = space.new_cas();
                }
                let cas = get.with_cas.then_some(attributes.cas);
                classic::write_value(out, key, attributes.flags, old.value, cas);
                if attributes.expired(now_ms) { Edit::Remove } else { new.set_attributes(&old, attributes) }
            });
            match made {
                Ok(Ok(())) => hits += u64::from(is_hit),
                Ok(Err(error)) => {
                    self.refuse_instead(before, out, &error);
                    return Ok(());
                }
                Err(pause) => {
                    out.truncate(before);
                    return Err(pause);
                }
            }
            self.note_use(key, true);
        }
        out.extend_from_slice(b"END\r\n");
        self.note_hits(hits, get.count as u64);
        Ok(())
    }

    /// Executes a request with exclusive entry. Returns the Redis command that does the same.
    fn change(&mut self, alone: &mut Exclusive<'_>, request: &Request<'_>, out: &mut Vec<u8>) -> Result<Id> {
        self.unsynced = true;
        Ok(match request {
            Request::MetaGet(meta) => {
                self.meta_get(alone, meta, out);
                Id::Get
            }
            Request::MetaDelete(meta) => {
                meta::delete(alone, meta, out)?;
                Id::Del
            }
            Request::MetaCount(meta) => {
                alone.make_room(0)?;
                match meta::arithmetic(alone, meta, out)? {
                    Ok(true) => self.note_use(&meta.key, false),
                    Ok(false) => {}
                    Err(text) => {
                        self.figures.errors.fetch_add(1, Relaxed);
                        out.extend_from_slice(text.as_bytes());
                        out.extend_from_slice(b"\r\n");
                    }
                }
                Id::IncrBy
            }
            Request::MetaDebug(key) => {
                let activity = self.activity(true);
                meta::debug(alone, key, activity, out)?;
                Id::Object
            }
            &Request::Delete { key, quiet } => {
                let removed = alone.remove(DATABASE, key)?;
                self.outcomes().delete.count(removed);
                answer(out, quiet, if removed { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
                Id::Del
            }
            &Request::Flush { delay_s, quiet } => {
                self.flush_all(alone, delay_s)?;
                answer(out, quiet, b"OK\r\n");
                Id::FlushDb
            }
            // The callers handle these.
            _ => Id::Ping,
        })
    }

    pub(super) fn meta_get(&self, alone: &mut Exclusive<'_>, meta: &Meta<'_>, out: &mut Vec<u8>) {
        let before = out.len();
        match meta::get(alone, meta, self.activity(meta.activity), out) {
            Ok(found) => self.note_hits(found.into(), 1),
            Err(error) => self.refuse_instead(before, out, &error),
        }
    }

    /// Removes all keys, now or after a delay.
    pub(super) fn flush_all(&self, alone: &mut Exclusive<'_>, delay_s: i32) -> Result<()> {
        let at_ms = classic::deadline(delay_s.max(0), alone.now_ms());
        let delayed = at_ms > alone.now_ms();
        self.server.memcached.flush_at_ms.store(if delayed { at_ms } else { 0 }, Relaxed);
        if delayed { Ok(()) } else { alone.flush(DATABASE) }
    }
}
