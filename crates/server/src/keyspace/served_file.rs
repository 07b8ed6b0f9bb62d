//! A table file that a server has used, for programs that read or change it while no server has it open.
//!
//! A server stores lifetimes and flags of keys in front of their values (`record.rs`). A program that reads such a
//! value through `Table` alone sees them; one that changes it through `Table` alone removes them.
//!
//! ```text
//! get, contains, remove, scan     expired keys are absent, the header pair is no key
//! put                             the key loses its lifetime, as after SET
//! append                          the key keeps its lifetime, as after APPEND
//! any of them                     an error where the key has a hash, a set or a list: only the server reads those
//! ```
//!
//! A table in which no server has stored a lifetime has no heads; then each function is one call of the table.

use super::collections::shape::first_expiry;
use super::pairs::Pairs;
use super::record::{Attributes, Coding, HEAD_BYTES_MAX, Kind, Record};
use super::{SpaceError, marks, now_ms};
use splitpoint::{Error, ErrorKind, Result, Scan, Table};

/// The keys of a table, as a server would show them.
#[derive(Clone, Copy)]
pub struct ServedFile<'t> {
    table: &'t Table,
    marks: Marks,
    now_ms: u64,
}

/// The marks that a server has left in a file; for callers that change it many times.
#[derive(Clone, Copy)]
pub struct Marks(Coding);

impl<'t> ServedFile<'t> {
    /// The keys of `table`. O(1).
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`], or [`ErrorKind::Version`](splitpoint::ErrorKind) if another version
    /// served the file.
    pub fn of(table: &'t Table) -> Result<ServedFile<'t>> {
        Ok(Self::with_marks(table, Marks(marks::coding(table)?)))
    }

    /// The keys of `table`, with marks that the caller has read before.
    pub fn with_marks(table: &'t Table, marks: Marks) -> ServedFile<'t> {
        ServedFile { table, marks, now_ms: now_ms() }
    }

    /// The marks of the file.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// Whether a server has kept lifetimes or flags in the file.
    pub fn has_marks(&self) -> bool {
        self.marks.0 != Coding::Plain
    }

    /// The stored keys of the pairs on which the answers for `key` depend.
    pub fn pairs_read_for(key: &[u8]) -> [Vec<u8>; 3] {
        [marks::header(), key.to_vec(), marks::of_key(key).into_owned()]
    }

    /// Whether `key` is stored under another key once a server has stored a lifetime or a collection.
    pub fn is_reserved(key: &[u8]) -> bool {
        marks::is_marked(key)
    }

    fn coding(&self) -> Coding {
        self.marks.0
    }

    /// The stored key of `key`.
    fn stored<'a>(&self, key: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if self.has_marks() { marks::of_key(key) } else { key.into() }
    }

    /// Decodes a stored value; `None` if it has expired.
    fn now<'v>(&self, stored: &'v [u8]) -> Option<Record<'v>> {
        Some(self.coding().decode(stored)).filter(|record| !record.attributes.expired(self.now_ms))
    }

    /// Copies the value of `key` to `value`. `false` if the key is absent or has expired.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        if !self.table.get_into(&self.stored(key), value)? {
            return Ok(false);
        }
        let record = self.now(value);
        if let Some(record) = record {
            refuse_collection(key, record.attributes)?;
        }
        match record.map(|record| value.len() - record.value.len()) {
            Some(head_bytes) => drop(value.drain(..head_bytes)),
            None => {
                value.clear();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether `key` is present and has not expired.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.attributes(key)?.is_some())
    }

    /// The attributes of `key`; `None` if it is absent or has expired.
    fn attributes(&self, key: &[u8]) -> Result<Option<Attributes>> {
        let mut head = Vec::new();
        let len = self.table.get_part(&self.stored(key), |len| 0..len.min(HEAD_BYTES_MAX), &mut head)?;
        Ok(len.and_then(|_| self.now(&head)).map(|record| record.attributes))
    }

    /// Fails if `key` has a collection, whose other pairs would be left in the file.
    fn refuse_collection(&self, key: &[u8]) -> Result<()> {
        if !self.has_marks() {
            return Ok(());
        }
        // An expired collection still has its other pairs.
        let mut head = Vec::new();
        self.table.get_part(&self.stored(key), |len| 0..len.min(HEAD_BYTES_MAX), &mut head)?;
        refuse_collection(key, self.coding().decode(&head).attributes)
    }

    /// The stored value for a value and attributes.
    fn coded<'v>(&self, attributes: Attributes, value: &'v [u8]) -> std::borrow::Cow<'v, [u8]> {
        if !self.coding().needs_head(attributes, value) {
            return value.into();
        }
        let mut coded = Vec::new();
        self.coding().encode(attributes, value, &mut coded);
        coded.into()
    }

    /// Stores `value` under `key` and removes the key's lifetime.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.refuse_collection(key)?;
        self.table.put(&self.stored(key), &self.coded(Attributes::NONE, value))
    }

    /// Appends `tail` to the value of `key`, which keeps its lifetime; `tail` becomes the value of an absent key.
    /// Returns the new length.
    ///
    /// # Errors
    /// Returns the errors of [`Table::append`].
    pub fn append(&self, key: &[u8], tail: &[u8]) -> Result<usize> {
        if !self.has_marks() {
            return self.table.append(key, tail);
        }
        let attributes = self.attributes(key)?;
        let mut value = Vec::new();
        self.get_into(key, &mut value)?;
        value.extend_from_slice(tail);
        let attributes = Attributes { cas: 0, ..attributes.unwrap_or(Attributes::NONE) };
        self.table.put(&self.stored(key), &self.coded(attributes, &value))?;
        Ok(value.len())
    }

    /// Removes `key` and its lifetime. Returns whether it was present and had not expired.
    ///
    /// # Errors
    /// Returns the errors of [`Table::remove`].
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.refuse_collection(key)?;
        let was_present = self.contains(key)?;
        self.table.remove(&self.stored(key))?;
        Ok(was_present)
    }

    /// Stores `value` under `key` if it is absent, or has expired. Returns whether it did.
    ///
    /// # Errors
    /// Returns the errors of [`Table::insert_new`].
    pub fn insert_new(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        if !self.has_marks() {
            return self.table.insert_new(key, value);
        }
        let is_absent = !self.contains(key)?;
        if is_absent {
            self.put(key, value)?;
        }
        Ok(is_absent)
    }

    /// Moves `value` and the lifetime from `old`, which must be present, to `new`.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub fn rename(&self, old: &[u8], new: &[u8], value: &[u8]) -> Result<()> {
        self.refuse_collection(old)?;
        self.refuse_collection(new)?;
        let attributes = self.attributes(old)?.unwrap_or(Attributes::NONE);
        let mut batch = self.table.batch();
        batch.put(&self.stored(new), &self.coded(attributes, value))?;
        batch.remove(&self.stored(old))?;
        batch.commit()
    }

    /// The number of keys. O(1), or O(pairs) if the file has lifetimes.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub fn count_keys(&self) -> Result<u64> {
        if !self.has_marks() {
            return Ok(self.table.len());
        }
        let (mut count, mut scan) = (0, self.table.scan().only_heads(HEAD_BYTES_MAX));
        while let Some((stored, head)) = scan.next_ref()? {
            count += u64::from(marks::parse(stored).is_some() && self.now(head).is_some());
        }
        Ok(count)
    }

    /// Whether fields of hashes have lifetimes. O(1), or O(pairs) if the file has lifetimes or collections.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub fn has_field_lifetimes(&self) -> Result<bool> {
        if !self.has_marks() {
            return Ok(false);
        }
        let mut scan = self.table.scan().only_heads(HEAD_BYTES_MAX);
        while let Some((_, head)) = scan.next_ref()? {
            let record = self.coding().decode(head);
            if first_expiry(record.attributes.kind, record.value) != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Filters a scan of the table: leaves out the header pair and expired keys, and the heads of values.
    pub fn keys_of(self, scan: Scan<'t>) -> ServedScan<'t> {
        ServedScan { file: self, scan, key: Vec::new(), value: Vec::new() }
    }
}

impl Pairs for ServedFile<'_> {
    fn name(&mut self, _: usize, key: &[u8], kind: Kind, value: &mut Vec<u8>) -> super::Result<Option<u64>> {
        if !self.table.get_into(&self.stored(key), value)? {
            return Ok(None);
        }
        let Some(record) = self.now(value) else { return Ok(None) };
        let (attributes, head_bytes) = (record.attributes, value.len() - record.value.len());
        if attributes.kind != kind {
            return Err(SpaceError::WrongType);
        }
        value.drain(..head_bytes);
        Ok(Some(attributes.expires_at_ms))
    }

    fn segment(&mut self, _: usize, id: u64, number: u64, value: &mut Vec<u8>) -> super::Result<bool> {
        value.clear();
        Ok(self.table.get_into(&marks::segment(id, number), value)?)
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn segment_count(&self, _: usize) -> u64 {
        self.table.len()
    }

    fn random(&self) -> u64 {
        0 // only commands choose at random
    }
}

fn refuse_collection(key: &[u8], attributes: Attributes) -> Result<()> {
    if attributes.kind == Kind::String {
        return Ok(());
    }
    const SHOWN_MAX: usize = 64;
    let (key, kind) = (key[..key.len().min(SHOWN_MAX)].escape_ascii(), attributes.kind.name());
    let error = Error::new(ErrorKind::WrongTypes, format!("key \"{key}\" has a {kind}"));
    Err(error.with_hint(
        "`splitpoint serve --file` reads and changes collections; `splitpoint dump` writes them as jsonl or rdb.",
    ))
}

/// A scan that leaves out the header pair and expired keys; made by [`ServedFile::keys_of`].
pub struct ServedScan<'t> {
    file: ServedFile<'t>,
    scan: Scan<'t>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'t> ServedScan<'t> {
    /// The next pair, borrowed until the next call.
    ///
    /// # Errors
    /// Returns the errors of [`Scan::next_ref`].
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.file.has_marks() {
            return self.scan.next_ref();
        }
        while let Some((stored, value)) = self.scan.next_ref()? {
            if let (Some(key), Some(record)) = (marks::parse(stored), self.file.now(value)) {
                refuse_collection(key, record.attributes)?;
                self.key.clear();
                self.key.extend_from_slice(key);
                self.value.clear();
                self.value.extend_from_slice(record.value);
                return Ok(Some((&self.key, &self.value)));
            }
        }
        Ok(None)
    }

    /// The next key, whatever its type, and the record of its pair.
    ///
    /// # Errors
    /// Returns the errors of [`Scan::next_ref`].
    pub(crate) fn next_record(&mut self) -> Result<Option<(&[u8], Record<'_>)>> {
        while let Some((stored, value)) = self.scan.next_ref()? {
            let key = if self.file.has_marks() { marks::parse(stored) } else { Some(stored) };
            if let (Some(key), Some(record)) = (key, self.file.now(value)) {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.value.clear();
                self.value.extend_from_slice(record.value);
                return Ok(Some((&self.key, Record { attributes: record.attributes, value: &self.value })));
            }
        }
        Ok(None)
    }

    /// The file that is scanned.
    pub(crate) fn file(&self) -> ServedFile<'t> {
        self.file
    }

    /// The cursor of the scan.
    pub fn cursor(&self) -> Option<u64> {
        self.scan.cursor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{KeySpace, Lifetime, Patience, SpaceOptions};

    #[test]
    fn a_served_file_has_its_keys_without_their_lifetimes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let options = SpaceOptions { file: Some(path.clone()), ..SpaceOptions::default() };
        let marked = [marks::MARK, b"m".as_slice(), b"k"].concat();
        let later = now_ms() + 1_000_000;
        {
            let space = KeySpace::open(options.clone()).unwrap();
            let mut alone = space.close(Patience::MayWait).unwrap();
            let expiring = |at| Lifetime::Are(Attributes::expiring(at));
            alone.put(0, b"plain", b"1", Lifetime::Clear).unwrap();
            alone.put(0, b"long", b"2", expiring(later)).unwrap();
            alone.put(0, b"kept", b"3", expiring(later)).unwrap();
            alone.put(0, b"over", b"4", expiring(1)).unwrap();
            alone.put(0, &marked, b"5", expiring(later)).unwrap();
        }
        let table = Table::open(&path).unwrap();
        let file = ServedFile::of(&table).unwrap();
        assert_eq!(table.len(), 6);
        assert_eq!(file.count_keys().unwrap(), 4);
        let (mut scan, mut keys) = (file.keys_of(table.scan()), Vec::new());
        while let Some((key, _)) = scan.next_ref().unwrap() {
            keys.push(key.to_vec());
        }
        keys.sort();
        assert_eq!(keys, [marked.clone(), b"kept".to_vec(), b"long".to_vec(), b"plain".to_vec()]);
        assert!(!file.contains(b"over").unwrap() && file.contains(&marked).unwrap());
        file.put(b"long", b"new").unwrap();
        assert_eq!(file.append(b"kept", b"!").unwrap(), 2);
        assert_eq!(file.append(b"over", b"!").unwrap(), 1);
        assert!(file.remove(&marked).unwrap() && !file.remove(b"over2").unwrap());
        file.rename(b"kept", b"renamed", b"3!").unwrap();
        table.close().unwrap();
        let space = KeySpace::open(options).unwrap();
        let mut alone = space.close(Patience::MayWait).unwrap();
        for (key, expires) in [(b"long".as_slice(), 0), (b"renamed", later), (b"over", 0)] {
            assert!(alone.contains(0, key).unwrap());
            assert_eq!(alone.attributes(0, key).unwrap().expires_at_ms, expires, "{}", key.escape_ascii());
        }
        assert_eq!(space.len(0), 4);
        assert!(!alone.contains(0, &marked).unwrap());
    }

    #[test]
    fn a_program_beside_the_server_refuses_collections() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        {
            let space = KeySpace::open(SpaceOptions { file: Some(path.clone()), ..SpaceOptions::default() }).unwrap();
            let mut alone = space.close(Patience::MayWait).unwrap();
            for (key, count) in [(b"small".as_slice(), 1), (b"large", 1000)] {
                let mut set =
                    crate::keyspace::collections::fields::FieldsMut::open(&mut alone, 0, key, Kind::Set).unwrap();
                for number in 0..count {
                    set.put(format!("member {number}").as_bytes(), b"").unwrap();
                }
                assert!(set.finish().unwrap());
            }
            alone.put(0, b"string", b"1", Lifetime::Clear).unwrap();
            assert_eq!(space.len(0), 3);
        }
        let table = Table::open(&path).unwrap();
        let file = ServedFile::of(&table).unwrap();
        assert_eq!(file.count_keys().unwrap(), 3);
        let mut value = Vec::new();
        assert!(file.get_into(b"string", &mut value).unwrap());
        let is_refused = |kind: ErrorKind| kind == ErrorKind::WrongTypes;
        for key in [b"small".as_slice(), b"large"] {
            let refusals = [
                file.get_into(key, &mut value).map(drop),
                file.put(key, b"1"),
                file.append(key, b"1").map(drop),
                file.remove(key).map(drop),
                file.rename(key, b"new", b"1"),
                file.rename(b"string", key, b"1"),
            ];
            assert!(refusals.into_iter().all(|refused| refused.is_err_and(|error| is_refused(error.kind()))));
        }
        let mut scan = file.keys_of(table.scan());
        let refused = std::iter::from_fn(|| scan.next_ref().map(|pair| pair.map(drop)).transpose());
        assert!(refused.take(4).any(|pair| pair.is_err_and(|error| is_refused(error.kind()))));
    }
}
