//! Edits of many values that depend on the value before, each under the latch of the key's bucket.
//!
//! ```text
//! hash and prefetch as in many.rs -> enter the gate, reserve room in the log for a run of keys
//!     -> latch the bucket -> call the caller's function with the value -> store what it asks for -> log that
//! ```
//!
//! The log has the result, a put, an append or a removal, so replay calls no function. Not here: changes of several
//! keys that are atomic together (`batch.rs`).

use super::handle::Table;
use super::many::{Ahead, RUN_LOG_BYTES, RUN_MAX};
use super::wal_record::WalRecord;
use crate::buckets::edit::Edit;
use crate::buckets::{Bucket, Delta, HashedKey, PairLocation};
use crate::error::Result;
use crate::pager::wal::Lsn;

/// A value before an edit; see [`Table::edit_many`].
#[derive(Clone, Copy, Debug)]
pub struct OldValue<'v> {
    /// The value, or the first bytes of a large one: at least [`OldValue::HEAD_BYTES`].
    pub head: &'v [u8],
    /// The length of the value.
    pub len: usize,
}

impl OldValue<'_> {
    /// The number of bytes read of a value that is not in its page.
    pub const HEAD_BYTES: usize = 64;

    /// Whether `head` is the whole value.
    pub fn is_whole(&self) -> bool {
        self.head.len() == self.len
    }
}

/// How an edit changes a value; see [`Table::edit_many`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEdit {
    /// Leaves it unchanged.
    Keep,
    /// Stores the new bytes.
    Put,
    /// Appends the new bytes; an absent key counts as an empty value.
    Append,
    /// Removes the pair.
    Remove,
    /// Ends the call before this key.
    Stop,
}

impl Table {
    /// Edits the values of `keys` in order. `edit` gets the index of the key, its value, and an empty buffer for new
    /// bytes, at most `bytes_max`, and returns what to do with them. Returns the number of keys edited, and the error
    /// that ended the call early.
    ///
    /// Atomic per key: no other thread changes the value between the read and the write. Faster than an
    /// [`update`](Self::update) for each, for the reasons given at [`put_many`](Self::put_many). The latch of the
    /// key's bucket is held while `edit` runs, so it must be short and must not use the table.
    ///
    /// An edit that produces more than `bytes_max` bytes ends the call as [`KeyEdit::Stop`] does.
    ///
    /// ```
    /// use splitpoint::{KeyEdit, Table};
    /// let table = Table::in_memory()?;
    /// let (edited, outcome) = table.edit_many(&["a", "b", "a"], 8, |_, old, new| {
    ///     let count = old.map_or(0, |old| u64::from_le_bytes(old.head.try_into().unwrap_or_default()));
    ///     new.extend_from_slice(&(count + 1).to_le_bytes());
    ///     KeyEdit::Put
    /// });
    /// outcome?;
    /// assert_eq!(edited, 3);
    /// assert_eq!(table.get(b"a")?.as_deref(), Some(&2u64.to_le_bytes()[..]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put), the first that occurs; the keys before it are edited.
    #[doc(hidden)] // the server's
    pub fn edit_many(
        &self,
        keys: &[impl AsRef<[u8]>],
        bytes_max: usize,
        edit: impl FnMut(usize, Option<OldValue<'_>>, &mut Vec<u8>) -> KeyEdit,
    ) -> (usize, Result<()>) {
        let (mut last, mut done) = (0, 0);
        let edited = self.edit_many_unsynced(keys, bytes_max, edit, &mut done, &mut last);
        // Also after an error: the edits before it must be as durable as the caller may assume.
        match self.wait_durable(last) {
            Ok(()) => (done, edited),
            Err(error) => (done, Err(error)),
        }
    }

    fn edit_many_unsynced(
        &self,
        keys: &[impl AsRef<[u8]>],
        bytes_max: usize,
        mut edit: impl FnMut(usize, Option<OldValue<'_>>, &mut Vec<u8>) -> KeyEdit,
        done: &mut usize,
        last: &mut Lsn,
    ) -> Result<()> {
        // Stands for the edit of a key where only the key matters: what moves with its record is prefetched.
        let change_at = |index: usize| WalRecord::Remove { key: keys[index].as_ref() };
        let Some(mut ahead) = Ahead::begin(&self.buckets, keys.len(), change_at) else { return Ok(()) };
        let mut new = Vec::new();
        while *done < keys.len() {
            let (end, log_bytes) = self.edits_from(*done, keys, bytes_max)?;
            let mut writer = self.enter_to_log(|| log_bytes)?;
            let (mut delta, mut changes, mut removals) = (Delta::default(), 0, 0);
            let mut stopped = false;
            let written: Result<()> = (*done..end).try_for_each(|index| {
                if stopped {
                    return Ok(());
                }
                let (hash, place) = ahead.take(index, keys.len(), change_at);
                let key = HashedKey::new(keys[index].as_ref(), hash);
                let mut bucket = self.buckets.latch(key, place)?;
                let mut what = KeyEdit::Keep;
                let mut work = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| {
                    new.clear();
                    what = match location {
                        None => edit(index, None, &mut new),
                        Some(location) => bucket.with_head(location, OldValue::HEAD_BYTES, |head, len| {
                            edit(index, Some(OldValue { head, len }), &mut new)
                        })?,
                    };
                    if new.len() > bytes_max {
                        what = KeyEdit::Stop;
                    }
                    match what {
                        KeyEdit::Keep | KeyEdit::Stop => Ok(None),
                        KeyEdit::Put => bucket.set(key, location, &new).map(Some),
                        KeyEdit::Append => {
                            let append = Edit::Append { tail: &new, len_max: usize::MAX };
                            Ok(bucket.apply(key, location, append)?.map(|(delta, _)| delta))
                        }
                        KeyEdit::Remove => location.map(|location| bucket.remove(key, location)).transpose(),
                    }
                };
                if let Some((changed, _)) = bucket.edit(key, Edit::With(&mut work))? {
                    *last = writer.log(match what {
                        KeyEdit::Remove => WalRecord::Remove { key: key.bytes },
                        KeyEdit::Append => WalRecord::Append { key: key.bytes, tail: &new },
                        _ => WalRecord::Put { key: key.bytes, value: &new },
                    })?;
                    delta = delta + changed;
                    changes += 1;
                    removals += usize::from(what == KeyEdit::Remove);
                } else {
                    *last = self.position_seen().max(*last);
                }
                stopped = what == KeyEdit::Stop;
                *done += usize::from(!stopped);
                Ok(())
            });
            writer.leave(delta, changes, removals);
            written?;
            if stopped {
                break;
            }
        }
        Ok(())
    }

    /// The end of the run of keys from `first` on that are edited together, and its room in the log.
    fn edits_from(&self, first: usize, keys: &[impl AsRef<[u8]>], bytes_max: usize) -> Result<(usize, u64)> {
        let (mut end, mut log_bytes) = (first, 0);
        while end < keys.len().min(first + RUN_MAX) {
            let key = keys[end].as_ref();
            let checked = self.buckets.check_lengths(key, bytes_max);
            let bytes = WalRecord::log_bytes_of_put(key, bytes_max);
            if end > first && (checked.is_err() || log_bytes + bytes > RUN_LOG_BYTES) {
                break;
            }
            checked?;
            (end, log_bytes) = (end + 1, log_bytes + bytes);
        }
        Ok((end, log_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyEdit, OldValue};
    use crate::io::simulated::{Crash, Simulated, State, Tally};
    use crate::random::Random;
    use crate::table::{Durability, Table, TableOptions};
    use std::sync::Arc;

    fn add_one(old: Option<OldValue<'_>>, new: &mut Vec<u8>) -> KeyEdit {
        let count = old.map_or(0, |old| u32::from_le_bytes(old.head.try_into().unwrap()));
        new.extend_from_slice(&(count + 1).to_le_bytes());
        KeyEdit::Put
    }

    #[test]
    fn edits_by_several_threads_lose_none() {
        let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
        let keys: Vec<String> = (0..100).map(|n| (n % 40).to_string()).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let (edited, outcome) = table.edit_many(&keys, 4, |_, old, new| add_one(old, new));
                        outcome.unwrap();
                        assert_eq!(edited, 100);
                    }
                });
            }
        });
        let count = |key: &str| u32::from_le_bytes(table.get(key.as_bytes()).unwrap().unwrap().try_into().unwrap());
        assert_eq!((0..40).map(|n| count(&n.to_string())).sum::<u32>(), 4 * 200 * 100);
        assert_eq!(table.verify().unwrap(), []);
    }

    #[test]
    fn edits_do_what_they_return_and_are_replayed() {
        let disk = Simulated::new(State::default());
        let open = |disk: &Simulated| {
            let mut options = TableOptions::new().page_bytes(512).seed(1).durability(Durability::Sync);
            options.storage = Arc::new(disk.clone());
            options.inline_checkpoints = true;
            options.open("/disk/t.spt").unwrap()
        };
        let keys = ["put", "appended", "removed", "kept", "new", "absent", "large", "long", "after"];
        let check = |table: &Table| {
            let value = |key: &str| table.get(key.as_bytes()).unwrap();
            assert_eq!(value("put").unwrap(), b"changed");
            assert_eq!(value("appended").unwrap(), b"old+");
            assert_eq!((value("removed"), value("absent")), (None, None));
            assert_eq!(value("kept").unwrap(), b"old");
            assert_eq!(value("new").unwrap(), b"+");
            assert_eq!(value("large").unwrap().len(), 100_001);
            assert_eq!((value("long").unwrap(), value("after").unwrap()), (b"old".to_vec(), b"old".to_vec()));
        };
        {
            let table = open(&disk);
            for key in ["put", "appended", "removed", "kept", "long", "after"] {
                table.put(key.as_bytes(), b"old").unwrap();
            }
            table.put(b"large", &[7; 100_000]).unwrap();
            let (edited, outcome) = table.edit_many(&keys, 10, |index, old, new| {
                assert_eq!(old.is_some(), !matches!(keys[index], "new" | "absent"));
                match keys[index] {
                    "put" => new.extend_from_slice(b"changed"),
                    "long" => new.extend_from_slice(b"more than ten bytes"),
                    "after" => panic!("the call ended before it"),
                    _ => new.push(b'+'),
                }
                match keys[index] {
                    "removed" | "absent" => KeyEdit::Remove,
                    "kept" => KeyEdit::Keep,
                    "put" | "long" => KeyEdit::Put,
                    "large" => {
                        let old = old.unwrap();
                        assert!(!old.is_whole() && old.len == 100_000 && old.head == [7; OldValue::HEAD_BYTES]);
                        KeyEdit::Append
                    }
                    _ => KeyEdit::Append,
                }
            });
            outcome.unwrap();
            assert_eq!(edited, 7);
            check(&table);
        }
        // After a crash only the log has the changes.
        let left = disk.state().survivors(Crash::Kill, &mut Random::new(&[1]), &mut Tally::default());
        let table = open(&Simulated::new(left));
        check(&table);
        assert_eq!(table.verify().unwrap(), []);
    }

    #[test]
    fn a_scan_of_heads_gives_the_beginning_of_each_value() {
        let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
        for len in [0usize, 3, 100, 5_000, 300_000] {
            let value: Vec<u8> = (0..len).map(|n| n as u8).collect();
            table.put(&len.to_le_bytes(), &value).unwrap();
        }
        let mut scan = table.scan_from(0).only_heads(10);
        let mut count = 0;
        while let Some((key, head)) = scan.next_ref().unwrap() {
            let len = usize::from_le_bytes(key.try_into().unwrap());
            assert!(head.len() >= len.min(10) && head.len() <= len.min(512), "{} of {len}", head.len());
            assert!(head.iter().enumerate().all(|(n, &byte)| byte == n as u8));
            count += 1;
        }
        assert_eq!(count, 5);
    }
}
