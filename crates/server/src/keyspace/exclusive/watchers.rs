//! Clients that watch keys for a transaction (`watched.rs`), or wait for an element of one.

use super::{ANY_KEY, Exclusive};
use crate::keyspace::Result;
use crate::keyspace::watched::Watch;
use std::sync::atomic::Ordering::*;

impl Exclusive<'_> {
    /// Watches `key` for `watch`.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn watch(&mut self, watch: &mut Watch, database: usize, key: &[u8]) -> Result<()> {
        let is_over = self.is_over(database, key)?;
        self.space.watched.add(watch, database, key, is_over);
        Ok(())
    }

    /// Ends a watch. Returns whether one of its keys changed, or expired, since it began.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn unwatch(&mut self, watch: &mut Watch) -> Result<bool> {
        let mut dirty = watch.dirty.load(Relaxed);
        for ((database, key), was_expired) in &watch.keys {
            dirty |= !was_expired && self.is_over(*database, key)?;
        }
        self.space.watched.remove(watch);
        Ok(dirty)
    }

    /// Whether keys changed on which clients may wait.
    #[inline]
    pub(crate) fn has_pushed(&self) -> bool {
        !self.pushed.is_empty()
    }

    /// The databases and keys that changed since the last call and on which clients may wait, or [`ANY_KEY`].
    pub(crate) fn take_pushed(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.pushed)
    }

    /// Notes that any key may have changed, for clients that wait.
    pub(crate) fn note_all_wanted(&mut self) {
        self.note_wanted(ANY_KEY, b"");
    }

    /// Notes that this key changed, for clients that wait.
    pub(crate) fn note_wanted(&mut self, database: usize, key: &[u8]) {
        if self.space.wanted_keys.load(Relaxed) > 0 {
            self.pushed.push((database, key.to_vec()));
        }
    }
}
