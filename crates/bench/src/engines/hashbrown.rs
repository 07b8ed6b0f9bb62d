//! hashbrown, which is `std::collections::HashMap` with another hasher: maps in memory that rehash all pairs in one
//! step.
//!
//! [`Bytes`] has keys and values of any length, like the stores. [`Numbers`] is the upper bound: it knows that keys
//! are numbers and values are 16 bytes (`inline`) or byte vectors (`list`), which no store knows.

use crate::engine::{Each, Engine, Opening, Outcome, Place, Store};
use ::hashbrown::HashMap;

/// Keys and values of any length.
pub struct Bytes;

/// Keys of 8 bytes.
pub struct Numbers;

/// The version in the manifest, which cargo does not expose.
const VERSION: &str = "0.17";

fn expected(opening: &Opening<'_>) -> usize {
    if opening.setting == "sized" { opening.expected_len as usize } else { 0 }
}

impl Engine for Bytes {
    fn name(&self) -> &str {
        "hashbrown"
    }

    fn version(&self) -> String {
        VERSION.into()
    }

    fn settings(&self, place: Place) -> Vec<String> {
        if place == Place::Memory { vec!["default".into(), "sized".into()] } else { Vec::new() }
    }

    fn open(&self, opening: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(Map::<Box<[u8]>, Vec<u8>>(HashMap::with_capacity(expected(opening)))))
    }
}

impl Engine for Numbers {
    fn name(&self) -> &str {
        "hashbrown-u64"
    }

    fn version(&self) -> String {
        VERSION.into()
    }

    fn settings(&self, place: Place) -> Vec<String> {
        if place == Place::Memory { vec!["inline".into(), "list".into()] } else { Vec::new() }
    }

    fn is_special(&self) -> bool {
        true
    }

    fn open(&self, opening: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        Ok(match opening.setting {
            "inline" => Box::new(Map::<u64, [u8; 16]>(HashMap::new())),
            "list" => Box::new(Map::<u64, Vec<u8>>(HashMap::new())),
            other => return Err(Opening::unknown("hashbrown-u64", other)),
        })
    }
}

struct Map<K, V>(HashMap<K, V>);

/// A key type, its conversion from bytes, and the borrowed form used for lookups.
trait Key: std::hash::Hash + Eq {
    type Found: ?Sized + std::hash::Hash + ::hashbrown::Equivalent<Self>;

    fn of(bytes: &[u8]) -> Outcome<Self>
    where
        Self: Sized;

    fn lookup<T>(bytes: &[u8], with: impl FnOnce(&Self::Found) -> T) -> Outcome<T>;

    fn with_bytes<T>(&self, to: impl FnOnce(&[u8]) -> T) -> T;
}

impl Key for Box<[u8]> {
    type Found = [u8];

    fn of(bytes: &[u8]) -> Outcome<Self> {
        Ok(bytes.into())
    }

    fn lookup<T>(bytes: &[u8], with: impl FnOnce(&[u8]) -> T) -> Outcome<T> {
        Ok(with(bytes))
    }

    fn with_bytes<T>(&self, to: impl FnOnce(&[u8]) -> T) -> T {
        to(self)
    }
}

impl Key for u64 {
    type Found = u64;

    fn of(bytes: &[u8]) -> Outcome<Self> {
        Ok(u64::from_le_bytes(bytes.try_into()?))
    }

    fn lookup<T>(bytes: &[u8], with: impl FnOnce(&u64) -> T) -> Outcome<T> {
        Ok(with(&u64::of(bytes)?))
    }

    fn with_bytes<T>(&self, to: impl FnOnce(&[u8]) -> T) -> T {
        to(&self.to_le_bytes())
    }
}

/// A value type and its conversion from bytes.
trait Value: Sized + AsRef<[u8]> {
    fn of(bytes: &[u8]) -> Outcome<Self>;

    fn extend(&mut self, tail: &[u8]) -> Outcome;
}

impl Value for Vec<u8> {
    fn of(bytes: &[u8]) -> Outcome<Self> {
        Ok(bytes.to_vec())
    }

    fn extend(&mut self, tail: &[u8]) -> Outcome {
        self.extend_from_slice(tail);
        Ok(())
    }
}

impl Value for [u8; 16] {
    fn of(bytes: &[u8]) -> Outcome<Self> {
        Ok(bytes.try_into()?)
    }

    fn extend(&mut self, _: &[u8]) -> Outcome {
        Err("a value of 16 bytes cannot grow".into())
    }
}

impl<K: Key, V: Value> Store for Map<K, V> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        self.0.insert(K::of(key)?, V::of(value)?);
        Ok(())
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome {
        match K::lookup(key, |key| self.0.get_mut(key))? {
            Some(value) => value.extend(tail),
            None => self.put(key, tail),
        }
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        Ok(K::lookup(key, |key| self.0.get(key))?.map(AsRef::as_ref))
    }

    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(K::lookup(key, |key| self.0.remove(key))?.is_some())
    }

    fn scan(&mut self, _: bool, each: Each<'_>) -> Outcome {
        self.0.iter().for_each(|(key, value)| key.with_bytes(|key| each(key, value.as_ref())));
        Ok(())
    }

    fn sync(&mut self) -> Outcome {
        Ok(())
    }
}
