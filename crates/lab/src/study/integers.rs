//! The paper's alternatives and the kernel's functions on the user's keys: what an integer costs to hash, or not to
//! hash.
//!
//! A key is read as an integer: the XOR of its 8-byte little-endian words; for 32-bit functions, the XOR of the two
//! halves of that. An integer below 2^32 is unchanged. The low bits of a hash select the bucket. The top bits of a
//! product are the good ones, so they are bit-reversed into the low bits for counting; only the product is timed.
//!
//! Source: Lever 2000, sections 3 and 5; Linux, include/linux/hash.h and fs/namei.c.

use crate::kernel::functions::{GOLDEN_RATIO_64, GOLDEN_RATIO_64_SPARSE, name_hash, salted_name_hash};
use crate::kernel::words::{WORD_FUNCTIONS, WordFunction};
use splitpoint::hash::HashFunction;

/// A function for keys, and the function to time instead if its hashes are rearranged for counting.
#[derive(Clone, Debug)]
pub struct IntegerFunction {
    /// The function whose low bits select the bucket.
    pub function: HashFunction,
    /// The function without the rearrangement.
    pub timed: Option<HashFunction>,
}

/// The forms that [`IntegerFunction::parse`] accepts in addition to the forms of [`WordFunction`].
const OTHERS: &str = "hash_64, hash_64-old, name-2.2 or name-today";

impl IntegerFunction {
    /// Parses a function as the user writes it: a form of [`WordFunction::parse`]; `hash_64` or `hash_64-old`, the
    /// kernel's product since and before 4.7; `name-2.2` or `name-today`, its hashes of names.
    ///
    /// # Errors
    /// Returns the reason, for the user.
    ///
    /// # Examples
    /// ```
    /// use splitpoint_lab::study::IntegerFunction;
    ///
    /// let shifted = IntegerFunction::parse("multiply:3:1")?;
    /// assert_eq!(shifted.function.hash(&10u64.to_le_bytes()), 15);
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let product = |by: u64| IntegerFunction {
            function: HashFunction::user(text, move |key| word_64(key).wrapping_mul(by).reverse_bits()),
            timed: Some(HashFunction::user(text, move |key| word_64(key).wrapping_mul(by))),
        };
        Ok(match text {
            "hash_64" => product(GOLDEN_RATIO_64),
            "hash_64-old" => product(GOLDEN_RATIO_64_SPARSE),
            "name-2.2" => HashFunction::user(text, |key| name_hash(key).into()).into(),
            "name-today" => HashFunction::user(text, |key| salted_name_hash(0, key).into()).into(),
            _ => {
                let word = WordFunction::parse(text).map_err(|what| format!("{what}, {OTHERS}"))?;
                let function = HashFunction::user(text, move |key| word.low_bits(word_32(key)).into());
                let timed = matches!(word, WordFunction::Multiply { shift: None, .. })
                    .then(|| HashFunction::user(text, move |key| word.hash(word_32(key)).into()));
                IntegerFunction { function, timed }
            }
        })
    }

    /// Returns whether `text` names one of these functions, possibly with wrong numbers.
    pub fn is_named(text: &str) -> bool {
        let name = text.split(':').next().unwrap_or_default();
        Self::parse(name).is_ok()
    }

    /// Returns all forms, for the user.
    pub fn forms() -> String {
        format!("{WORD_FUNCTIONS}, {OTHERS}")
    }
}

impl From<HashFunction> for IntegerFunction {
    fn from(function: HashFunction) -> Self {
        IntegerFunction { function, timed: None }
    }
}

/// Returns the XOR of the key's little-endian words.
#[inline]
fn word_64(key: &[u8]) -> u64 {
    let mut words = key.chunks_exact(8);
    let whole = (&mut words).fold(0, |all, word| all ^ u64::from_le_bytes(word.try_into().expect("chunks of eight")));
    let mut rest = [0; 8];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    whole ^ u64::from_le_bytes(rest)
}

#[inline]
fn word_32(key: &[u8]) -> u32 {
    let word = word_64(key);
    (word ^ (word >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(function: &str, key: u64) -> u64 {
        IntegerFunction::parse(function).unwrap().function.hash(&key.to_le_bytes())
    }

    #[test]
    fn functions_of_integers_match_values_computed_by_hand() {
        assert_eq!(hash("untransformed", 77), 77);
        // Longer keys: words are folded.
        assert_eq!(word_64(b"\x01\0\0\0\0\0\0\0\x06"), 7);
        assert_eq!(hash("untransformed", 5 << 32 | 1), 4);
        assert_eq!(hash("fold:4", 0x123), 0x123 + 0x12);
        assert_eq!(hash("shift-add", 100_000), 12_700_097);
        assert_eq!(hash("multiply:3", 1), 0b11 << 30);
        assert_eq!(hash("hash_64", 1), GOLDEN_RATIO_64.reverse_bits());
        let name = IntegerFunction::parse("name-2.2").unwrap();
        assert_eq!(name.function.hash(b"ab"), 0x672);
    }

    #[test]
    fn only_rearranged_hashes_have_another_function_to_time() {
        let timed = |function: &str| IntegerFunction::parse(function).unwrap().timed;
        assert_eq!(timed("multiply:3").unwrap().hash(&[1]), 3);
        assert_eq!(timed("hash_64").unwrap().hash(&[1]), GOLDEN_RATIO_64);
        assert!(timed("multiply:3:2").is_none() && timed("tabulation").is_none());
    }

    #[test]
    fn names_are_known_with_and_without_numbers() {
        assert!(["multiply:x", "tabulation", "hash_64"].into_iter().all(IntegerFunction::is_named));
        assert!(!IntegerFunction::is_named("xxh4") && !IntegerFunction::is_named(""));
    }
}
