//! Parts of values: read their length or a range, or overwrite a range, at a cost that depends on the range only.
//!
//! Not here: the bytes themselves (`buckets/parts.rs`).

use super::handle::Table;
use super::wal_record::WalRecord;
use crate::buckets::{Bucket, Delta, PairLocation};
use crate::error::Result;
use std::ops::Range;

impl Table {
    /// Returns the length of the value of `key`; `None` if the key is absent.
    ///
    /// O(1), however long the value is.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"photo", &[7; 100_000])?;
    /// assert_eq!(table.value_len(b"photo")?, Some(100_000)); // without reading it
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn value_len(&self, key: &[u8]) -> Result<Option<usize>> {
        self.get_to(key, &mut [])
    }

    /// Copies a part of the value of `key` to `part`, replacing its content. `choose` takes the length of the value and
    /// returns a range, which is clamped to the value. Returns the length of the value; `None`, with an empty `part`,
    /// if the key is absent.
    ///
    /// Reads only that part.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"administrator")?;
    /// let mut part = Vec::new();
    /// assert_eq!(table.get_part(b"alice", |len| len - 3..len, &mut part)?, Some(13));
    /// assert_eq!(part, b"tor");
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn get_part(
        &self,
        key: &[u8],
        choose: impl FnOnce(usize) -> Range<usize>,
        part: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        part.clear();
        self.buckets.get_part(self.buckets.key(key), choose, part)
    }

    /// Overwrites the value of `key` from byte `at` on with `part`. Returns `false`, with nothing changed, if the key
    /// is absent or its value is too short.
    ///
    /// In memory it writes only the part. In a file it reads and writes the whole value, since the log records whole
    /// values.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"counters", &[0; 8])?;
    /// assert!(table.write_part(b"counters", 6, &[1, 2])?);
    /// assert!(!table.write_part(b"counters", 7, &[1, 2])?); // behind its end
    /// assert_eq!(table.get(b"counters")?.as_deref(), Some(&[0, 0, 0, 0, 0, 0, 1, 2][..]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn write_part(&self, key: &[u8], at: usize, part: &[u8]) -> Result<bool> {
        if self.pager.has_file() {
            let mut fits = false;
            self.update(key, |old| {
                fits = false; // it may be called again, after another thread has changed the value
                let mut value = old?.to_vec();
                let place = at.checked_add(part.len()).and_then(|end| value.get_mut(at..end));
                fits = place.is_some();
                if let Some(place) = place {
                    place.copy_from_slice(part);
                }
                Some(value)
            })?;
            return Ok(fits);
        }
        let key = self.buckets.key(key);
        let mut fits = false;
        let mut write = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| {
            let Some(location) = location else { return Ok(None) };
            fits = bucket.write_part(key, location, at, part)?;
            Ok(fits.then(Delta::default))
        };
        // Only the log needs a complete record, and a table in memory has no log.
        self.write_with(self.durability, key, WalRecord::Put { key: key.bytes, value: part }, &mut write)?;
        Ok(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn parts_of_values_of_any_length_are_read_and_overwritten_in_place() {
        let folder = tempfile::tempdir().unwrap();
        for table in [Table::in_memory().unwrap(), Table::open(folder.path().join("t")).unwrap()] {
            for len in [1, 100, 5_000, 300_000] {
                let mut value: Vec<u8> = (0..len).map(|n| n as u8).collect();
                table.put(b"k", &value).unwrap();
                assert_eq!(table.value_len(b"k").unwrap(), Some(len));
                let at = len / 2;
                assert!(table.write_part(b"k", at, b"X").unwrap());
                value[at] = b'X';
                assert!(!table.write_part(b"k", len, b"X").unwrap());
                assert!(!table.write_part(b"absent", 0, b"").unwrap());
                let mut part = vec![1];
                assert_eq!(table.get_part(b"k", |len| len / 3..len, &mut part).unwrap(), Some(len));
                assert_eq!(part, value[len / 3..]);
                assert_eq!(table.get_part(b"k", |len| len + 1..usize::MAX, &mut part).unwrap(), Some(len));
                assert!(part.is_empty());
                assert_eq!(table.get(b"k").unwrap().unwrap(), value);
            }
            assert_eq!(table.value_len(b"absent").unwrap(), None);
            assert!(table.verify().unwrap().is_empty());
        }
    }
}
