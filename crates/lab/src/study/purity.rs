//! Tests whether a user's function depends on the key alone: neither on its address, nor on the bytes around it, nor on
//! earlier calls.
//!
//! Each key of the sample is hashed twice at one address, then at others, then with other bytes around it. A function
//! that reads past the key spreads the keys of one run well, and finds none of them in the next.

use crate::keys::Keys;
use splitpoint::hash::HashFunction;

/// Keys that are tried.
const KEYS: usize = 1000;
/// Bytes before and after the key: a function that reads by words or by blocks stays within them.
const AROUND: usize = 256;
/// Addresses that are tried, one byte apart: all alignments of a word.
const ADDRESSES: usize = 8;

/// Why a function cannot be used, and a key that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impurity {
    /// A key whose hash differs.
    pub key: Vec<u8>,
    /// The inputs that the hash depends on.
    pub why: Dependence,
}

/// Inputs besides the key that a hash depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependence {
    /// A second call returns another hash.
    Calls,
    /// The same bytes at another address have another hash.
    Address,
    /// With other bytes before or after it, the same key has another hash.
    Surroundings,
}

impl std::fmt::Display for Dependence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Calls => "a second call returns another hash",
            Self::Address => "the hash depends on the address of the key",
            Self::Surroundings => "the hash depends on bytes outside of the key",
        })
    }
}

/// Returns the first key of `sample` whose hash depends on more than its bytes.
pub(super) fn impurity(function: &HashFunction, sample: &Keys) -> Option<Impurity> {
    let mut place = Vec::new();
    sample.iter().take(KEYS).find_map(|key| {
        let why = dependence(function, key, &mut place)?;
        Some(Impurity { key: key.to_vec(), why })
    })
}

fn dependence(function: &HashFunction, key: &[u8], place: &mut Vec<u8>) -> Option<Dependence> {
    let mut hash_in = |around: u8, offset: usize| {
        place.clear();
        place.resize(AROUND + offset, around);
        place.extend_from_slice(key);
        place.resize(place.len() + AROUND + ADDRESSES, around);
        function.hash(&place[AROUND + offset..][..key.len()])
    };
    let first = hash_in(0, 0);
    if hash_in(0, 0) != first {
        return Some(Dependence::Calls);
    }
    if (1..ADDRESSES).any(|offset| hash_in(0, offset) != first) {
        return Some(Dependence::Address);
    }
    [0x01, 0xa5, 0xff].into_iter().any(|around| hash_in(around, 0) != first).then_some(Dependence::Surroundings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use splitpoint::HashKind;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    fn of(hash: impl Fn(&[u8]) -> u64 + Send + Sync + 'static) -> Option<Dependence> {
        let keys: Keys = ["one", "two", "three"].into_iter().collect();
        impurity(&HashFunction::user("mine", hash), &keys).map(|found| found.why)
    }

    #[test]
    fn what_a_hash_depends_on_is_found() {
        let calls = AtomicU64::new(0);
        assert_eq!(of(move |_| calls.fetch_add(1, Relaxed)), Some(Dependence::Calls));
        assert_eq!(of(|key| key.as_ptr() as u64 >> 1), Some(Dependence::Address));
        let alignment = |key: &[u8]| key.as_ptr() as u64 % 8;
        assert_eq!(of(alignment), Some(Dependence::Address));
        for kind in HashKind::ALL {
            assert_eq!(of(move |key| kind.hash(key, 7)), None, "{}", kind.name());
        }
    }
}
