//! Typed tables: keys and values of two types instead of bytes.
//!
//! The names of both types are in the file's header, and a view of other types is refused, as another hash function is.
//! Not here: how types become bytes (`codec.rs`).

use super::codec::Codec;
use super::handle::Table;
use super::types::Types;
use crate::buckets::{Scan, TYPES_BYTES};
use crate::error::{Error, ErrorKind, Result, quote};
use std::borrow::Borrow;
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// A view of a table with keys of type `K` and values of type `V`; made by [`Table::typed`].
pub struct TypedTable<'t, K: ?Sized, V: ?Sized> {
    table: &'t Table,
    types: PhantomData<fn(&K, &V)>,
}

/// The pairs of a typed table; made by [`TypedTable::iter`].
pub struct TypedPairs<'t, K: ?Sized, V: ?Sized> {
    scan: Scan<'t>,
    types: PhantomData<fn(&K, &V)>,
}

impl Table {
    /// Returns a view of the table with keys of type `K` and values of type `V`: see [`Codec`] for the types.
    ///
    /// The first view of a table that is open for writing records the names of the types in its file, by a checkpoint.
    /// Backups, [`freeze`](Self::freeze) and `thaw` keep them. Pairs that the table already has must have been stored
    /// as these types. The methods of the table itself still take and return bytes.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let visits = table.typed::<str, u64>()?;
    /// visits.put("alice", &1)?;
    /// visits.update("alice", |count| Some(count.unwrap_or(0) + 1))?;
    /// assert_eq!(visits.get("alice")?, Some(2));
    /// assert_eq!(table.get(b"alice")?.as_deref(), Some(&2u64.to_le_bytes()[..]));
    /// assert!(table.typed::<str, u32>().is_err());
    ///
    /// let memory = splitpoint::Table::in_memory()?;
    /// let users = memory.typed::<u64, (String, bool)>()?;
    /// users.put(&7, &("alice".to_owned(), true))?;
    /// let len = users.get_with(&7, |(name, _)| name.len())?; // `name` is a `&str` in the table's page
    /// assert_eq!(len, Some(5));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::WrongTypes`] if the table was made with other types; [`ErrorKind::InvalidArgument`] if their names
    /// are longer than 64 bytes together; the errors of [`checkpoint`](Self::checkpoint) for the first view.
    pub fn typed<K: Codec + ?Sized, V: Codec + ?Sized>(&self) -> Result<TypedTable<'_, K, V>> {
        self.record_types(&format!("{} -> {}", K::name(), V::name()))?;
        Ok(TypedTable { table: self, types: PhantomData })
    }

    /// Returns the names of the types that the table was made with, as `u64 -> str`; empty for a table of bytes.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// assert_eq!(table.types(), "");
    /// table.typed::<u64, str>()?;
    /// assert_eq!(table.types(), "u64 -> str");
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn types(&self) -> String {
        let types = self.types.lock().expect("no panic while held");
        if types.is_recorded { types.names.clone() } else { String::new() }
    }

    /// Records the types of a table or dictionary whose pairs are about to be stored in this table, if this one is
    /// empty. Without names it does nothing; a table of bytes that has pairs remains one.
    ///
    /// # Errors
    /// The errors of [`typed`](Self::typed).
    #[doc(hidden)] // the program's and the Python package's
    pub fn adopt_types(&self, names: &str) -> Result<()> {
        if names.is_empty() || (self.types().is_empty() && !self.is_empty()) {
            return Ok(());
        }
        self.record_types(names)
    }

    /// Records the type names in `asked`, or compares them with the recorded ones.
    ///
    /// # Errors
    /// The errors of [`typed`](Self::typed).
    #[doc(hidden)] // the Python package's
    pub fn record_types(&self, asked: &str) -> Result<()> {
        if asked.len() > TYPES_BYTES || asked.contains('\0') {
            let what = format!("the types \"{}\" have no name of at most {TYPES_BYTES} bytes", asked.escape_debug());
            return Err(Error::new(ErrorKind::InvalidArgument, what).with_hint("Give one of them a shorter name."));
        }
        let types = || self.types.lock().expect("no panic while held");
        if self.are_types(&types(), asked)? {
            return Ok(());
        }
        self.pager.refuse_if_forked()?;
        if self.pager.is_read_only() || !self.pager.has_file() {
            let mut types = types();
            if !self.are_types(&types, asked)? {
                *types = Types::recorded(asked.to_owned());
            }
            return Ok(());
        }
        // Of several threads with a first view, one records its types. The others wait until the file has them.
        let guard = self.acquire_checkpoint()?;
        if self.are_types(&types(), asked)? {
            return Ok(());
        }
        asked.clone_into(&mut types().names);
        self.checkpoint_with(&guard).inspect_err(|_| types().names.clear())?;
        types().is_recorded = true;
        Ok(())
    }

    /// Whether `types` are recorded, as those asked for.
    fn are_types(&self, types: &Types, asked: &str) -> Result<bool> {
        if !types.is_recorded || types.names == asked {
            return Ok(types.is_recorded);
        }
        let (path, names) = (self.pager.path().display(), &types.names);
        let what = format!("{path}: made with the types {names}, opened with {asked}");
        Err(Error::new(ErrorKind::WrongTypes, what).with_hint("Use the types of the file."))
    }
}

impl<'t, K: Codec + ?Sized, V: Codec + ?Sized> TypedTable<'t, K, V> {
    /// Returns the underlying table.
    pub fn table(&self) -> &'t Table {
        self.table
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// The errors of [`Table::get`]; [`ErrorKind::WrongTypes`] if the table holds bytes that do not decode as the type,
    /// because they were stored as bytes. The same applies to all methods that return values.
    #[inline]
    pub fn get(&self, key: &K) -> Result<Option<V::Owned>> {
        let key = key.try_encode()?;
        match V::read(self.table, key.as_ref())? {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(len)) => Err(no_value::<V>(key.as_ref(), len)),
        }
    }

    /// Calls `f` with the value of `key`, borrowed from its page where the type allows. Returns what `f` returns, or
    /// `None` if the key is absent.
    ///
    /// Writers of the bucket wait during the call, in which a write of this thread that would have to wait returns
    /// [`ErrorKind::WouldDeadlock`].
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn get_with<R>(&self, key: &K, f: impl FnOnce(V::View<'_>) -> R) -> Result<Option<R>> {
        let key = key.try_encode()?;
        let Some(bytes) = self.table.get_ref(key.as_ref())? else { return Ok(None) };
        let view = V::decode(&bytes).ok_or_else(|| no_value::<V>(key.as_ref(), bytes.len()))?;
        Ok(Some(f(view)))
    }

    /// [`Table::contains`].
    ///
    /// # Errors
    /// The errors of [`Table::contains`].
    pub fn contains(&self, key: &K) -> Result<bool> {
        self.table.contains(key.try_encode()?.as_ref())
    }

    /// [`Table::put`].
    ///
    /// # Errors
    /// The errors of [`Table::put`].
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        self.table.put(key.try_encode()?.as_ref(), value.try_encode()?.as_ref())
    }

    /// [`Table::insert_new`].
    ///
    /// # Errors
    /// The errors of [`Table::insert_new`].
    pub fn insert_new(&self, key: &K, value: &V) -> Result<bool> {
        self.table.insert_new(key.try_encode()?.as_ref(), value.try_encode()?.as_ref())
    }

    /// [`Table::replace`].
    ///
    /// # Errors
    /// The errors of [`Table::replace`] and [`get`](Self::get); for a value that does not decode, it is replaced.
    pub fn replace(&self, key: &K, value: &V) -> Result<Option<V::Owned>> {
        let key = key.try_encode()?;
        let old = self.table.replace(key.as_ref(), value.try_encode()?.as_ref())?;
        old.map(|old| decode_owned::<V>(key.as_ref(), old)).transpose()
    }

    /// [`Table::remove`].
    ///
    /// # Errors
    /// The errors of [`Table::remove`].
    pub fn remove(&self, key: &K) -> Result<bool> {
        self.table.remove(key.try_encode()?.as_ref())
    }

    /// [`Table::update`].
    ///
    /// # Errors
    /// The errors of [`Table::update`] and [`get`](Self::get); for a value that does not decode, it stays.
    pub fn update(&self, key: &K, mut f: impl FnMut(Option<V::View<'_>>) -> Option<V::Owned>) -> Result<bool> {
        let key = key.try_encode()?;
        let (mut wrong, mut refused) = (None, None);
        let is_present = self.table.update(key.as_ref(), |old| {
            (wrong, refused) = (None, None);
            let new = match old.map(V::decode) {
                Some(None) => {
                    wrong = old.map(<[u8]>::len);
                    return old.map(<[u8]>::to_vec);
                }
                Some(Some(view)) => f(Some(view)),
                None => f(None),
            };
            let encoded = new.map(|new| new.borrow().try_encode().map(|bytes| bytes.as_ref().to_vec())).transpose();
            encoded.unwrap_or_else(|error| {
                refused = Some(error);
                old.map(<[u8]>::to_vec)
            })
        })?;
        match (refused, wrong) {
            (Some(error), _) => Err(error),
            (None, Some(len)) => Err(no_value::<V>(key.as_ref(), len)),
            (None, None) => Ok(is_present),
        }
    }

    /// [`Table::extend`].
    ///
    /// # Errors
    /// The errors of [`Table::extend`]; the error of [`Codec::try_encode`], with the pairs before it stored. All
    /// methods that take keys or values may return that error.
    pub fn extend<A: Borrow<K>, B: Borrow<V>>(&self, pairs: impl IntoIterator<Item = (A, B)>) -> Result<()> {
        let bytes = |(key, value): (A, B)| -> Result<(Vec<u8>, Vec<u8>)> {
            let (key, value) = (key.borrow(), value.borrow());
            Ok((key.try_encode()?.as_ref().to_vec(), value.try_encode()?.as_ref().to_vec()))
        };
        let mut refused = Ok(());
        let pairs = pairs.into_iter().map_while(|pair| bytes(pair).map_err(|error| refused = Err(error)).ok());
        self.table.extend(pairs)?;
        refused
    }

    /// Iterates over all pairs, in the order of [`Table::scan`].
    pub fn iter(&self) -> TypedPairs<'t, K, V> {
        TypedPairs { scan: self.table.scan(), types: PhantomData }
    }
}

/// The error for a value of `key` whose `len` bytes do not decode.
#[cold]
fn no_value<V: Codec + ?Sized>(key: &[u8], len: usize) -> Error {
    let what = format!("{}: the {len} bytes of its value are no {}", quote(key), V::name());
    Error::new(ErrorKind::WrongTypes, what).with_hint("They were stored by a method that takes bytes.")
}

fn decode_owned<V: Codec + ?Sized>(key: &[u8], value: Vec<u8>) -> Result<V::Owned> {
    let len = value.len();
    V::decode_vec(value).ok_or_else(|| no_value::<V>(key, len))
}

impl<K: Codec + ?Sized, V: Codec + ?Sized> Iterator for TypedPairs<'_, K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.scan.next_ref().transpose()?;
        Some(pair.and_then(|(key, value)| {
            let Some(owned) = K::decode(key) else {
                let what = format!("{}: the key is no {}", quote(key), K::name());
                return Err(
                    Error::new(ErrorKind::WrongTypes, what).with_hint("It was stored by a method that takes bytes.")
                );
            };
            let value = V::decode(value).ok_or_else(|| no_value::<V>(key, value.len()))?;
            Ok((K::to_owned(owned), V::to_owned(value)))
        }))
    }
}

impl<K: Codec + ?Sized, V: Codec + ?Sized> FusedIterator for TypedPairs<'_, K, V> {}

impl<'t, K: Codec + ?Sized, V: Codec + ?Sized> IntoIterator for TypedTable<'t, K, V> {
    type Item = Result<(K::Owned, V::Owned)>;
    type IntoIter = TypedPairs<'t, K, V>;

    fn into_iter(self) -> TypedPairs<'t, K, V> {
        self.iter()
    }
}

impl<K: ?Sized, V: ?Sized> Clone for TypedTable<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, V: ?Sized> Copy for TypedTable<'_, K, V> {}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]
mod tests {
    use super::*;
    use crate::io::simulated::{Fault, Plan, Simulated, State};
    use crate::table::{Backup, Durability, TableOptions};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_file_keeps_its_types_and_refuses_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let table = Table::open(path("t.spt")).unwrap();
        table.typed::<u64, str>().unwrap().put(&7, "alice").unwrap();
        // As a killed process leaves it: the first view has written the types.
        std::fs::copy(path("t.spt"), path("killed.spt")).unwrap();
        table.backup(path("copy.spt")).unwrap();
        table.close().unwrap();
        for (name, pairs) in [("t.spt", 1), ("killed.spt", 0), ("copy.spt", 1)] {
            let table = TableOptions::new().read_only(true).open(path(name)).unwrap();
            assert_eq!(table.len(), pairs, "{name}");
            let refused = table.typed::<u64, u64>().err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::WrongTypes);
            assert!(
                refused.to_string().contains("made with the types u64 -> str, opened with u64 -> u64"),
                "{refused}"
            );
            assert!(table.typed::<str, str>().is_err());
            assert_eq!(table.typed::<u64, String>().unwrap().get(&7).unwrap().is_some(), pairs == 1);
        }
    }

    #[test]
    fn of_first_views_with_different_types_one_wins() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: String| directory.path().join(name);
        let tables = (0..30).map(|n| Table::open(path(n.to_string())).unwrap());
        for table in tables.chain([Table::in_memory().unwrap()]) {
            let start = std::sync::Barrier::new(8);
            let kinds: Vec<_> = std::thread::scope(|scope| {
                let view = |n| {
                    start.wait();
                    let view = if n % 2 == 0 {
                        table.typed::<u64, str>().map(drop)
                    } else {
                        table.typed::<str, u64>().map(drop)
                    };
                    (n % 2, view.map_err(|error| error.kind()))
                };
                let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || view(n))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let winner = kinds.iter().find(|(_, view)| view.is_ok()).unwrap().0;
            for (types, view) in kinds {
                assert_eq!(view, if types == winner { Ok(()) } else { Err(ErrorKind::WrongTypes) });
            }
        }
    }

    #[test]
    fn a_view_waits_until_its_types_are_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let table = Table::open(directory.path().join("t.spt")).unwrap();
        let (begun, events) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let held = table.pager.checkpoint_lock().acquire().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begun.fetch_add(1, SeqCst);
                    table.typed::<u64, str>().unwrap();
                    events.lock().unwrap().push("viewed");
                });
            }
            // These threads have time to go wrong: no checkpoint can have been written yet.
            while begun.load(SeqCst) < 2 {
                std::thread::yield_now();
            }
            (0..10_000).for_each(|_| std::thread::yield_now());
            assert_eq!(table.types(), "");
            events.lock().unwrap().push("may write");
            drop(held);
        });
        assert_eq!(events.into_inner().unwrap(), ["may write", "viewed", "viewed"]);
    }

    #[test]
    fn types_that_could_not_be_written_are_forgotten() {
        let disk = Simulated::new(State::default());
        let options = TableOptions { storage: Arc::new(disk.clone()), ..TableOptions::new() };
        let table = options.open("/disk/t.spt").unwrap();
        // All calls fail from here on.
        disk.plan(Some(Plan { fault: Fault::Io, at: disk.calls(), lasting: true }));
        table.typed::<u64, str>().err().unwrap();
        assert_eq!(table.types(), "");
    }

    #[test]
    fn a_reader_of_a_table_of_bytes_learns_the_types_with_the_next_checkpoint() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let writer = Table::open(&path).unwrap();
        let reader = TableOptions::new().read_only(true).open(&path).unwrap();
        assert!(reader.typed::<u64, u64>().is_ok());
        assert_eq!(reader.typed::<str, u64>().err().unwrap().kind(), ErrorKind::WrongTypes);
        writer.typed::<str, u64>().unwrap();
        let newer = reader.newer().unwrap().unwrap();
        assert!(newer.typed::<str, u64>().is_ok() && newer.typed::<u64, u64>().is_err());
    }

    #[test]
    fn a_backup_of_a_table_in_memory_keeps_the_types() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let table = Table::in_memory().unwrap();
        table.typed::<u8, u8>().unwrap().put(&1, &2).unwrap();
        Backup::new().save(&table, &path).unwrap();
        let copy = TableOptions::new().durability(Durability::None).open(&path).unwrap();
        assert!(copy.typed::<u8, u16>().is_err());
        assert_eq!(copy.typed::<u8, u8>().unwrap().get(&1).unwrap(), Some(2));
    }

    #[test]
    fn bytes_that_are_no_value_are_an_error_and_stay() {
        let table = Table::in_memory().unwrap();
        let typed = table.typed::<str, u64>().unwrap();
        table.put(b"short", b"123").unwrap();
        table.put(b"long", b"123456789").unwrap();
        for key in ["short", "long"] {
            let errors = [
                typed.get(key).err(),
                typed.get_with(key, |n| n).err(),
                typed.update(key, |_| panic!("there is no value to change")).err(),
            ];
            for error in errors {
                let error = error.unwrap();
                assert_eq!(error.kind(), ErrorKind::WrongTypes, "{error}");
                assert!(error.to_string().contains(key) && error.to_string().contains("no u64"), "{error}");
            }
        }
        assert_eq!(table.len(), 2);
        assert_eq!(typed.iter().filter(|pair| pair.is_err()).count(), 2);
        table.put(b"\xFF", &1u64.to_le_bytes()).unwrap();
        assert!(typed.iter().any(|pair| pair.is_err_and(|e| e.to_string().contains("the key is no str"))));
        assert_eq!(typed.replace("long", &5).err().unwrap().kind(), ErrorKind::WrongTypes);
        assert_eq!(typed.get("long").unwrap(), Some(5));
    }

    #[test]
    fn names_that_the_header_has_no_room_for_are_refused() {
        type Long = (u128, (u128, u128), (u128, u128, u128));
        let table = Table::in_memory().unwrap();
        assert_eq!(table.typed::<Long, Long>().err().unwrap().kind(), ErrorKind::InvalidArgument);
        assert!(table.typed::<u8, u8>().is_ok());
    }

    #[test]
    fn a_typed_table_is_what_a_map_is() {
        let table = Table::in_memory().unwrap();
        let typed = table.typed::<(u32, String), [u8; 4]>().unwrap();
        let key = |n: u32| (n, format!("name {n}"));
        typed.extend((0..1000).map(|n| (key(n), n.to_le_bytes()))).unwrap();
        assert!(!typed.insert_new(&key(3), &[9; 4]).unwrap() && typed.contains(&key(3)).unwrap());
        assert_eq!(typed.replace(&key(3), &[8; 4]).unwrap(), Some(3u32.to_le_bytes()));
        assert!(typed.update(&key(3), |old| old.copied().map(|old| old.map(|b| b + 1))).unwrap());
        assert_eq!(typed.get_with(&key(3), |value| value[0]).unwrap(), Some(9));
        assert!(typed.remove(&key(3)).unwrap() && typed.get(&key(3)).unwrap().is_none());
        let mut all: Vec<_> = typed.into_iter().map(|pair| pair.unwrap()).collect();
        all.sort();
        assert_eq!(all.len(), 999);
        assert!(all.iter().all(|((n, name), value)| *value == n.to_le_bytes() && *name == key(*n).1));
    }
}
