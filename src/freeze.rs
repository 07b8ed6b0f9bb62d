//! Converts a table to a dictionary and back.
//!
//! A table is scanned in hash order, which is also the order of a dictionary, so freezing writes pairs as they come and
//! sorts nothing. Thawing puts them into a table in the same order, which fills one bucket after another. Only this
//! file uses both `table` and `dictionary`.

use crate::dictionary::{Dictionary, DictionaryBuilder};
use crate::error::Result;
use crate::table::Table;
use std::path::Path;

/// The most pairs per `put_many` call while thawing.
const THAW_BATCH: usize = 256;
/// A batch ends with the pair that brings its keys and values to this many bytes.
const THAW_BATCH_BYTES: usize = 1 << 20;

impl Table {
    /// Writes all pairs to a dictionary at `path` and returns their number. An existing file is replaced once the new
    /// one is complete. The dictionary keeps the table's types.
    ///
    /// A new file gets the table's owner and permissions, as far as the process may set them; a file that replaces
    /// another keeps that file's. The hash function is the table's, whatever `builder` sets. Freezing takes one scan
    /// and one write, without a sort; only the index is held in memory. Concurrent writes are allowed: a pair that is
    /// present throughout is included, a pair that is added or removed during the call may be.
    ///
    /// # Errors
    /// The errors of [`DictionaryBuilder::start`], [`Build::finish`](crate::dictionary::Build::finish) and
    /// [`Scan::next_ref`](crate::Scan::next_ref); [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)
    /// with [`shards`](DictionaryBuilder::shards).
    ///
    /// # Examples
    /// ```
    /// use splitpoint::{Dictionary, DictionaryBuilder, Table};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("users.spd");
    /// let table = Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// table.freeze(&path, &DictionaryBuilder::new())?;
    /// let users = Dictionary::open(&path)?;
    /// assert_eq!(users.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn freeze(&self, path: impl AsRef<Path>, builder: &DictionaryBuilder) -> Result<u64> {
        let builder = builder.clone().hashed_by(self.hash_function()).types(&self.types()).made_from(self.access()?);
        let mut build = builder.start_ordered(path.as_ref(), self.len())?;
        let mut scan = self.scan_from(0);
        while let Some((key, value)) = scan.next_ref()? {
            build.push(key, value)?;
        }
        build.finish()
    }
}

impl Dictionary {
    /// Puts all pairs into `table`, replacing values of equal keys. Returns their number. An empty table gets the types
    /// of the table that the dictionary was frozen from.
    ///
    /// # Errors
    /// The errors of [`Pairs::next_ref`](crate::dictionary::Pairs::next_ref) and [`Table::put_many`];
    /// [`ErrorKind::WrongTypes`](crate::ErrorKind::WrongTypes) if the table has other types.
    ///
    /// # Examples
    /// ```
    /// use splitpoint::{Dictionary, DictionaryBuilder, Table};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spd");
    /// DictionaryBuilder::new().build(&path, [(b"alice", b"admin")])?;
    /// let table = Table::in_memory()?;
    /// assert_eq!(Dictionary::open(&path)?.thaw(&table)?, 1);
    /// assert!(table.contains(b"alice")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thaw(&self, table: &Table) -> Result<u64> {
        table.adopt_types(self.types())?;
        let mut pairs = self.iter();
        let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(THAW_BATCH);
        let (mut count, mut bytes) = (0, 0);
        while let Some((key, value)) = pairs.next_ref()? {
            batch.push((key.to_vec(), value.to_vec()));
            count += 1;
            bytes += key.len() + value.len();
            if batch.len() == THAW_BATCH || bytes >= THAW_BATCH_BYTES {
                table.put_many(&batch)?;
                batch.clear();
                bytes = 0;
            }
        }
        table.put_many(&batch)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test compares files")]
    use super::*;
    use crate::dictionary::Index;
    use crate::hash::HashKind;
    use crate::table::TableOptions;

    /// Freezes `table`, compares the result with a dictionary built from the same pairs, then thaws it.
    fn there_and_back(table: &Table, index: Index) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("frozen.spd");
        let builder = DictionaryBuilder::new().index(index).page_bytes(512);
        let pairs: std::collections::BTreeMap<_, _> = table.scan().map(Result::unwrap).collect();
        assert_eq!(table.freeze(&path, &builder).unwrap(), pairs.len() as u64);
        let built = directory.path().join("built.spd");
        builder.clone().hashed_by(table.hash_function()).build(&built, &pairs).unwrap();
        assert!(std::fs::read(&path).unwrap() == std::fs::read(&built).unwrap(), "{index:?}: other bytes than a build");
        let dictionary = Dictionary::open(&path).unwrap();
        let thawed = Table::in_memory().unwrap();
        assert_eq!(dictionary.thaw(&thawed).unwrap(), pairs.len() as u64);
        assert!(thawed.scan().map(Result::unwrap).collect::<std::collections::BTreeMap<_, _>>() == pairs);
    }

    #[test]
    fn a_frozen_table_is_the_dictionary_built_from_its_pairs() {
        for index in [Index::page(), Index::trie(), Index::chunk()] {
            for hash in [HashKind::Xxh3, HashKind::Djb2] {
                for odd in [None, Some(1), Some(19_999)] {
                    let table = TableOptions::new().page_bytes(512).hash(hash).seed(5).in_memory().unwrap();
                    for n in 0..20_000u64 {
                        let value = if Some(n) == odd { &b"longer than the others"[..] } else { b"12345678" };
                        table.put(&n.to_le_bytes(), value).unwrap();
                    }
                    there_and_back(&table, index);
                }
            }
        }
    }

    #[test]
    fn long_pairs_are_thawed_in_several_batches() {
        let table = Table::in_memory().unwrap();
        for n in 0..30u32 {
            table.put(&n.to_le_bytes(), &vec![n as u8; n as usize % 7 * (THAW_BATCH_BYTES / 5)]).unwrap();
        }
        there_and_back(&table, Index::page());
    }

    #[test]
    fn a_dictionary_and_what_is_made_of_it_keep_the_types_of_a_table() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let table = Table::in_memory().unwrap();
        table.typed::<u64, str>().unwrap().put(&7, "alice").unwrap();
        let builder = DictionaryBuilder::new().page_bytes(512);
        table.freeze(path("t.spd"), &builder).unwrap();
        let mut update = Dictionary::update(path("t.spd"), path("updated.spd"), &builder).unwrap();
        update.put(&8u64.to_le_bytes(), b"bob").unwrap();
        update.finish().unwrap();
        builder.reindex(path("updated.spd"), path("reindexed.spd")).unwrap();
        for name in ["t.spd", "updated.spd", "reindexed.spd"] {
            let dictionary = Dictionary::open(path(name)).unwrap();
            assert_eq!(dictionary.types(), "u64 -> str", "{name}");
            let thawed = Table::in_memory().unwrap();
            dictionary.thaw(&thawed).unwrap();
            assert_eq!(thawed.types(), "u64 -> str", "{name}");
            let other = Table::in_memory().unwrap();
            other.typed::<str, str>().unwrap();
            assert_eq!(dictionary.thaw(&other).unwrap_err().kind(), crate::ErrorKind::WrongTypes);
            // The types of its pairs are unknown.
            let bytes = Table::in_memory().unwrap();
            bytes.put(b"k", b"v").unwrap();
            dictionary.thaw(&bytes).unwrap();
            assert_eq!(bytes.types(), "");
        }
        assert!(builder.types(&"u64".repeat(30)).build(path("long.spd"), [(b"k", b"v")]).is_err());
    }

    #[test]
    fn a_table_is_not_frozen_to_shards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("frozen.spd");
        let frozen = Table::in_memory().unwrap().freeze(&path, &DictionaryBuilder::new().shards(2));
        assert_eq!(frozen.unwrap_err().kind(), crate::ErrorKind::InvalidArgument);
        assert!(!path.exists());
    }

    #[test]
    fn a_dictionary_has_the_owner_and_permissions_of_its_table_and_follows_links() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
        let access = |path: &Path| std::fs::metadata(path).map(|file| (file.mode() & 0o777, file.uid())).unwrap();
        for mode in [0o600, 0o644, 0o666] {
            let directory = tempfile::tempdir().unwrap();
            let [path, link, target] = ["t.spt", "link.spd", "target.spd"].map(|name| directory.path().join(name));
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            if access(&path).1 == 0 {
                chown(&path, Some(12_345), None).unwrap();
            }
            let table = Table::open(&path).unwrap();
            table.put(b"k", b"v").unwrap();
            symlink("target.spd", &link).unwrap();
            for _ in ["new", "replaced"] {
                table.freeze(&link, &DictionaryBuilder::new()).unwrap();
                assert_eq!(access(&target), access(&path));
                assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
            }
            table.freeze(&target, &DictionaryBuilder::new().permissions(0o600)).unwrap();
            assert_eq!(access(&target), access(&path), "one that is replaced keeps its own");
            let log = directory.path().join("t.spt-log0");
            assert_eq!(access(&log), access(&path));
        }
    }

    #[test]
    fn an_empty_table_freezes_to_an_empty_dictionary() {
        there_and_back(&Table::in_memory().unwrap(), Index::page());
    }
}
