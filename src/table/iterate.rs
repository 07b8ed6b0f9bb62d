//! The table as a collection: what a map of the standard library offers, on top of scans and writes.
//!
//! Not here: the scan itself (`buckets/scan.rs`), entries (`entry.rs`).

use super::handle::Table;
use crate::buckets::Scan;
use crate::error::Result;
use std::iter::FusedIterator;

/// The keys of a table; made by [`Table::keys`].
pub struct Keys<'t>(Scan<'t>);

/// The values of a table; made by [`Table::values`].
pub struct Values<'t>(Scan<'t>);

impl Table {
    /// Iterates over all pairs, as [`scan`](Self::scan) returns them; also `for pair in &table`.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.extend([("alice", "1"), ("bob", "22")])?;
    /// let mut bytes = 0;
    /// for pair in &table {
    ///     let (key, value) = pair?;
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!((bytes, table.iter().count()), (11, 2));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn iter(&self) -> Scan<'_> {
        self.scan()
    }

    /// Iterates over all keys, in the order of [`scan`](Self::scan). Does not read long values.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.extend([("alice", "1"), ("bob", "2")])?;
    /// let mut keys = table.keys().collect::<splitpoint::Result<Vec<_>>>()?;
    /// keys.sort();
    /// assert_eq!(keys, [&b"alice"[..], b"bob"]);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn keys(&self) -> Keys<'_> {
        Keys(self.scan().only_keys())
    }

    /// Iterates over all values, in the order of [`scan`](Self::scan).
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.extend([("alice", "1"), ("bob", "2")])?;
    /// assert_eq!(table.values().filter(|value| value.as_ref().is_ok_and(|value| value == b"2")).count(), 1);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn values(&self) -> Values<'_> {
        Values(self.scan())
    }

    /// Removes the pairs for which `keep` returns `false`. Returns the number of removed pairs.
    ///
    /// Calls `keep` once for each pair, as [`scan`](Self::scan) returns them, and holds no latch during the call. A
    /// pair is kept if another thread changes its value after the call. All removals share one wait for the disk.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.extend([("alice", "1"), ("bob", "2"), ("carol", "3")])?;
    /// assert_eq!(table.retain(|_, value| value != b"2")?, 1);
    /// assert!(!table.contains(b"bob")?);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get) and [`remove`](Self::remove), the first that occurs; the pairs before it are
    /// removed.
    pub fn retain(&self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) -> Result<u64> {
        let (mut removed, mut last) = (0, 0);
        let mut scan = self.scan();
        let outcome = loop {
            let (key, value) = match scan.next_ref() {
                Ok(Some(pair)) => pair,
                end => break end.map(drop),
            };
            if keep(key, value) {
                continue;
            }
            match self.compare_and_set_unsynced(key, Some(value), None) {
                Ok((equal, lsn)) => (removed, last) = (removed + u64::from(equal), lsn.max(last)),
                Err(e) => break Err(e),
            }
        };
        self.wait_durable(last)?;
        outcome.map(|()| removed)
    }

    /// Puts each pair of an iterator, in order, many at a time as [`put_many`](Self::put_many) does.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.extend((0..1000u32).map(|n| (n.to_le_bytes(), b"value")))?;
    /// assert_eq!(table.len(), 1000);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put_many`](Self::put_many).
    pub fn extend<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        const PAIRS_TOGETHER: usize = 1024;
        let mut pairs = pairs.into_iter().fuse();
        let mut together: Vec<(K, V)> = Vec::new();
        loop {
            together.extend(pairs.by_ref().take(PAIRS_TOGETHER));
            if together.is_empty() {
                return Ok(());
            }
            self.put_many(&together)?;
            together.clear();
        }
    }
}

impl<'t> IntoIterator for &'t Table {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Scan<'t>;

    fn into_iter(self) -> Scan<'t> {
        self.iter()
    }
}

impl Iterator for Keys<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.0.next_ref().transpose()?;
        Some(pair.map(|(key, _)| key.to_vec()))
    }
}

impl Iterator for Values<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.0.next_ref().transpose()?;
        Some(pair.map(|(_, value)| value.to_vec()))
    }
}

impl FusedIterator for Keys<'_> {}
impl FusedIterator for Values<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    const fn is_sent_and_fused<T: Send + FusedIterator>() {}
    const _: () = {
        is_sent_and_fused::<Scan<'static>>();
        is_sent_and_fused::<Keys<'static>>();
        is_sent_and_fused::<Values<'static>>();
    };

    #[test]
    fn retain_keeps_a_pair_whose_value_changed_after_it_was_seen() {
        let table = Table::in_memory().unwrap();
        table.extend((0..500u32).map(|n| (n.to_le_bytes(), b"old"))).unwrap();
        let changed = 7u32.to_le_bytes();
        let removed = table.retain(|key, _| {
            if key == changed {
                table.put(key, b"new").unwrap();
            }
            false
        });
        assert_eq!(removed.unwrap(), 499);
        assert_eq!((table.len(), table.get(&changed).unwrap()), (1, Some(b"new".to_vec())));
        assert_eq!(table.verify().unwrap(), []);
    }

    #[test]
    fn retain_removes_lasting_pairs_while_threads_grow_the_table() {
        let table = Table::in_memory().unwrap();
        table.extend((0..5000u32).map(|n| (n.to_le_bytes(), b"value"))).unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = 1_000_000u32;
                while !is_done.load(Relaxed) && n < 1_100_000 {
                    table.put(&n.to_le_bytes(), b"value").unwrap();
                    n += 1;
                }
            });
            let is_old = |key: &[u8]| u32::from_le_bytes(key.try_into().unwrap()) < 5000;
            assert_eq!(table.retain(|key, _| !is_old(key)).unwrap(), 5000);
            is_done.store(true, Relaxed);
        });
        assert!((0..5000u32).all(|n| !table.contains(&n.to_le_bytes()).unwrap()));
        assert_eq!(table.verify().unwrap(), []);
    }
}
