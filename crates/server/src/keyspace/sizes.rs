//! How many keys the key space has, and how much memory it takes.

use super::{Database, KeySpace};
use std::sync::atomic::Ordering::*;

impl KeySpace {
    /// The number of keys of a database, including expired keys that are not removed yet. Free.
    pub fn len(&self, database: usize) -> u64 {
        if let Some(dictionary) = self.dictionary_of(database) {
            return dictionary.now().slots.keys();
        }
        self.len_of(&self.databases[database])
    }

    pub(super) fn len_of(&self, database: &Database) -> u64 {
        let pairs = database.table.load().as_ref().map_or(0, |table| table.len());
        pairs.saturating_sub(u64::from(self.in_file() && database.has_heads()) + database.hidden.load(Relaxed))
    }

    /// Bytes of memory of all tables, in use or free for reuse.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables().map(|table| table.counters().memory_bytes).sum()
    }

    /// Bytes of memory that the memory limit applies to: of the pairs of all tables, or the indexes of a dictionary,
    /// and of scripts. Memory that is free for reuse does not count.
    pub(crate) fn used_bytes(&self) -> u64 {
        let indexes = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.now().facts.index_bytes);
        indexes + self.script_bytes.load(Relaxed) + self.tables().map(|table| table.usage().used_bytes).sum::<u64>()
    }

    /// [`used_bytes`](Self::used_bytes) without the space of buckets that the load does not need.
    pub(super) fn needed_bytes(&self) -> u64 {
        let needed = self.tables().map(|table| table.usage()).map(|usage| usage.used_bytes - usage.slack_bytes);
        self.script_bytes.load(Relaxed) + needed.sum::<u64>()
    }

    /// Sets the bytes of memory of scripts.
    pub(crate) fn set_script_bytes(&self, bytes: u64) {
        if self.script_bytes.swap(bytes, Relaxed) != bytes {
            self.memory.look(self);
        }
    }

    /// Returns free memory to the system. Takes some milliseconds.
    pub(crate) fn return_free_memory(&self) {
        self.tables().for_each(|table| table.return_free_memory());
    }

    /// Bytes of all keys and values.
    pub(crate) fn payload_bytes(&self) -> u64 {
        let stored = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.now().facts.payload_bytes);
        stored + self.tables().map(|table| table.counters().payload_bytes).sum::<u64>()
    }
}
