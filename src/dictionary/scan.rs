//! Scans in steps; each step continues from a cursor, which is a number.
//!
//! ```text
//! cursor   14 bits: the first slot of a file | 49 bits: the high part of a position in it        0: begin, or the end
//! ```
//!
//! A step returns either all pairs that share the high part of a position or none of them, so the number alone
//! determines where the next step begins. It remains valid after an update, which may move pairs within a file but
//! keeps their order.

use super::handle::Dictionary;
use super::read::long::ValueAt;
use super::read::resume::Resumed;
use super::run::Run;
use crate::error::Result;

/// Bits of a position in a cursor, and the number of bits left out.
const POSITION_BITS: u32 = 49;
const DROPPED_BITS: u32 = u64::BITS - POSITION_BITS;

impl Dictionary {
    /// Passes `count` pairs, or slightly more, to `take`, starting at `cursor`: 0 for the beginning, otherwise
    /// the result of the last call. Returns the cursor for the next call, 0 at the end.
    ///
    /// The pairs come in hash order, file by file. A pair that is present during the whole scan is passed by one of its
    /// steps. This holds even if the dictionary is updated and [reloaded](Self::reload) between steps, as long as the
    /// number of shards stays the same. Cursors are below 2^63.
    ///
    /// Costs a few page reads to find the start, then a read of the pairs passed.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io), [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("squares.spd");
    /// # let squares: Vec<(String, String)> = (0..100).map(|n| (n.to_string(), (n * n).to_string())).collect();
    /// # splitpoint::DictionaryBuilder::new().build(&path, squares)?;
    /// let dictionary = splitpoint::Dictionary::open(&path)?;
    /// let (mut cursor, mut keys) = (0, Vec::new());
    /// loop {
    ///     cursor = dictionary.scan(cursor, 10, |key, _value| keys.push(key.to_vec()))?;
    ///     if cursor == 0 {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(keys.len(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(hidden)] // the server's
    pub fn scan(&self, cursor: u64, count: usize, mut take: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let slot = (cursor >> POSITION_BITS) as u16; // below 2^15
        let (first_file, is_inside) = self.file_from(slot);
        let mut position = if is_inside { cursor << DROPPED_BITS } else { 0 };
        let mut taken = 0;
        let (mut run, mut long) = (Run::default(), Vec::new());
        for (index, file) in self.files.iter().enumerate().skip(first_file) {
            let first = u64::from(self.first_slot(index)) << POSITION_BITS;
            if taken >= count && index > first_file {
                return Ok(first);
            }
            let mut last = None;
            let mut records = Resumed::new(file, position)?;
            while records.next(&mut run)? {
                for (record, position) in run.positions.iter().enumerate() {
                    let high = position >> DROPPED_BITS;
                    if taken >= count && last.is_some_and(|last| last != high) {
                        return Ok(first | high);
                    }
                    take(run.key(record), ValueAt::of(file, &run, record).get(&mut long)?);
                    (taken, last) = (taken + 1, Some(high));
                }
            }
            position = 0;
        }
        Ok(0)
    }
}
