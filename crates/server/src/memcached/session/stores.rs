//! Stores values: add, replace, append, prepend, cas, `ms`, and sets that fit no run (`runs.rs` has the others). Also
//! refuses values that are too large.

use super::entry::{Executed, Work};
use super::input::Announced;
use super::{MemcachedSession, answer};
use crate::command::spec::Id;
use crate::keyspace::{Edit, Exclusive, Result, SpaceError, now_ms};
use crate::memcached::DATABASE;
use crate::memcached::classic::{self, Stored, Storing};
use crate::memcached::meta;
use crate::memcached::request::{Meta, Mode, Store};
use std::sync::atomic::Ordering::*;

impl MemcachedSession {
    /// Executes a store that is no part of a run.
    pub(super) fn store_one(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        store: &Store<'_>,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Executed {
        let storing = Storing::of(store, now_ms());
        let stored = self.store_shared(work, start, store.key, data, storing)?;
        match stored {
            Ok(stored) => answer(out, store.quiet, stored.text()),
            Err(error) if store.quiet => self.note_refused(&error),
            Err(error) => self.refuse(out, &error),
        }
        let id = match store.mode {
            Mode::Append | Mode::Prepend => Id::Append,
            Mode::Add => Id::SetNx,
            _ => Id::Set,
        };
        self.note(work, id, 1, &[b"store", store.key]);
        Ok(())
    }

    fn store_shared(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        key: &[u8],
        data: &[u8],
        storing: Storing,
    ) -> Executed<Result<Stored>> {
        let len_max = self.server.settings.bulk_bytes.load(Relaxed);
        let is_joined = matches!(storing.mode, Mode::Append | Mode::Prepend);
        let (mut stored, mut is_too_long) = (Stored::No, false);
        let made = self.edit(work, start, key, Some(data.len()), |old, new, now_ms| {
            is_too_long = is_joined && old.is_some_and(|old| old.len + data.len() > len_max);
            if is_too_long {
                return Edit::Keep;
            }
            let (what, outcome) = classic::store_edit(old, new, data, storing, now_ms);
            stored = outcome;
            what
        })?;
        Ok(match made {
            Ok(()) if is_too_long => Err(SpaceError::MemoryLimit),
            made => made.map(|()| self.note_stored(key, storing, stored)),
        })
    }

    /// Stores a value with exclusive entry.
    pub(super) fn store(&self, alone: &mut Exclusive<'_>, key: &[u8], data: &[u8], storing: Storing) -> Result<Stored> {
        alone.make_room(data.len())?;
        if matches!(storing.mode, Mode::Append | Mode::Prepend) {
            self.check_length(alone, key, data)?;
        }
        let stored = classic::store(alone, key, data, storing)?;
        Ok(self.note_stored(key, storing, stored))
    }

    fn note_stored(&self, key: &[u8], storing: Storing, stored: Stored) -> Stored {
        if storing.mode == Mode::Cas {
            match stored {
                Stored::Exists => drop(self.outcomes().cas_badval.fetch_add(1, Relaxed)),
                stored => self.outcomes().cas.count(stored == Stored::Yes),
            }
        }
        if stored == Stored::Yes {
            self.note_use(key, false);
        }
        stored
    }

    /// Refuses an append that would make a value longer than a client may store.
    fn check_length(&self, alone: &mut Exclusive<'_>, key: &[u8], data: &[u8]) -> Result<()> {
        let len = alone.value_len(DATABASE, key)?.unwrap_or(0);
        if len + data.len() > self.server.settings.bulk_bytes.load(Relaxed) {
            return Err(SpaceError::MemoryLimit);
        }
        Ok(())
    }

    pub(super) fn meta_set(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        line: &[u8],
        meta: &Meta<'_>,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Executed {
        let alone = work.alone(start)?;
        self.unsynced = true;
        let before = out.len();
        let appends = meta.mode.is_some_and(|mode| b"APap".contains(&mode));
        let done = alone
            .make_room(data.len())
            .and_then(|()| if appends { self.check_length(alone, &meta.key, data) } else { Ok(()) })
            .and_then(|()| meta::set(alone, meta, data, out));
        match done {
            Ok(Stored::Yes) => self.note_use(&meta.key, false),
            Ok(_) => {}
            Err(error) => self.refuse_instead(before, out, &error),
        }
        self.note(work, if appends { Id::Append } else { Id::Set }, 1, &[line]);
        Ok(())
    }

    /// Refuses a value that is longer than a client may store, and skips it.
    pub(super) fn refuse_large(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        announced: &Announced<'_>,
        out: &mut Vec<u8>,
    ) -> Executed {
        if let Some(key) = announced.removes {
            self.remove_refused(work, start, key)?;
        }
        self.swallow = announced.len.saturating_add(2);
        self.figures.errors.fetch_add(1, Relaxed);
        self.outcomes().too_large.fetch_add(1, Relaxed);
        answer(out, announced.quiet, b"SERVER_ERROR object too large for cache\r\n");
        Ok(())
    }

    /// Removes a key, since refusing a new value also removes the old one, as in memcached.
    pub(super) fn remove_refused(&mut self, work: &mut Work<'_>, start: usize, key: &[u8]) -> Executed {
        let alone = work.alone(start)?;
        self.unsynced = true;
        if let Err(error) = alone.remove(DATABASE, key) {
            tracing::warn!(%error, "removing the value of a refused set");
            self.note_failure(&error);
        }
        Ok(())
    }
}
