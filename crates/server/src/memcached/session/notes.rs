//! Records commands and their time, hits and misses, times of use, and failures, of which the key space must know.

use super::MemcachedSession;
use super::entry::Work;
use crate::command::call::{Args, Span};
use crate::command::spec::Id;
use crate::keyspace::SpaceError;
use crate::memcached::activity::Activity;
use crate::memcached::classic::Counted;
use crate::memcached::request::words;
use crate::memcached::state::Outcomes;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

impl MemcachedSession {
    /// The times of use, and the current time. With `wanted`, recording starts now if it has not yet.
    pub(super) fn activity(&self, wanted: bool) -> Option<(&Activity, u64)> {
        let (cell, now_s) = (&self.server.memcached.activity, self.server.started.elapsed().as_secs());
        let activity = match wanted {
            true => Some(cell.get_or_init(|| Activity::new(self.server.space.random(), now_s))),
            false => cell.get(),
        };
        activity.map(|activity| (activity, now_s))
    }

    #[inline]
    pub(super) fn note_use(&self, key: &[u8], fetched: bool) {
        if let Some(activity) = self.server.memcached.activity.get() {
            activity.note(key, self.server.clock_s.load(Relaxed), fetched);
        }
    }

    pub(super) fn outcomes(&self) -> &Outcomes {
        &self.server.memcached.outcomes
    }

    pub(super) fn count_outcome(&self, up: bool, counted: Counted) {
        let outcome = if up { &self.outcomes().incr } else { &self.outcomes().decr };
        match counted {
            Counted::Is(..) => outcome.count(true),
            Counted::NotFound => outcome.count(false),
            _ => {}
        }
    }

    /// Counts `lookups` keys as looked up, and `hits` of them as present.
    pub(super) fn note_hits(&self, hits: u64, lookups: u64) {
        self.figures.hits.fetch_add(hits, Relaxed);
        self.figures.misses.fetch_add(lookups - hits, Relaxed);
    }

    /// Records a request that failed, whether or not it is answered.
    #[cold]
    pub(super) fn note_refused(&self, error: &SpaceError) {
        self.figures.errors.fetch_add(1, Relaxed);
        match error {
            SpaceError::MemoryLimit => drop(self.outcomes().no_memory.fetch_add(1, Relaxed)),
            error => self.note_failure(error),
        }
    }

    /// Tells the key space of an error of its table.
    pub(super) fn note_failure(&self, error: &SpaceError) {
        if let SpaceError::Table(error) = error {
            self.server.space.note_failure(error);
        }
    }

    #[cold]
    pub(super) fn refuse(&self, out: &mut Vec<u8>, error: &SpaceError) {
        self.note_refused(error);
        match error {
            SpaceError::MemoryLimit => out.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n"),
            error => {
                let text = error.to_string().replace(['\r', '\n'], " ");
                out.extend_from_slice(format!("SERVER_ERROR {text}\r\n").as_bytes());
            }
        }
    }

    /// [`refuse`](Self::refuse) in place of the answer that begins at `before`.
    #[cold]
    pub(super) fn refuse_instead(&self, before: usize, out: &mut Vec<u8>, error: &SpaceError) {
        out.truncate(before);
        self.refuse(out, error);
    }

    /// Counts commands and their time, under the Redis command that does the same.
    #[inline]
    pub(super) fn note(&self, work: &mut Work<'_>, id: Id, count: usize, line: &[&[u8]]) {
        let now = Instant::now();
        let nanos = now.duration_since(work.clock).as_nanos() as u64; // 584 years
        work.clock = now;
        self.figures.note(id, count as u64, nanos);
        if nanos / 1000 >= self.server.slow_log.threshold_us.load(Relaxed) {
            self.note_slow(line, nanos / 1000);
        }
    }

    #[cold]
    fn note_slow(&self, line: &[&[u8]], duration_us: u64) {
        let line = line.join(&b' ');
        let mut spans = Vec::new();
        for word in words(&line) {
            let start = word.as_ptr() as usize - line.as_ptr() as usize;
            spans.push(Span::of(start..start + word.len()));
        }
        self.server.slow_log.add(&Args { request: &line, spans: &spans }, duration_us, &self.client);
    }
}
