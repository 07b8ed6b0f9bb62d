//! Conditions on the value of a key: IFEQ, IFNE, IFDEQ and IFDNE of SET and DELEX.

use super::call::{Args, Refusal, SYNTAX};
use splitpoint::HashKind;
use splitpoint::hash::HashFunction;

/// What a value must be, or not be, for SET or DELEX to change it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison<'a> {
    with: Comparand<'a>,
    /// Whether the value must be equal; else an absent key fulfils the condition too.
    equal: bool,
}

#[derive(Clone, Copy, Debug)]
enum Comparand<'a> {
    Value(&'a [u8]),
    Digest(&'a [u8]),
}

impl<'a> Comparison<'a> {
    /// Parses the comparison that argument `index` and the one after it ask for, if any.
    pub(super) fn parse(args: &Args<'a>, index: usize) -> Result<Option<Comparison<'a>>, Refusal> {
        let words = [("ifeq", true, false), ("ifne", false, false), ("ifdeq", true, true), ("ifdne", false, true)];
        let Some(&(_, equal, of_digest)) = words.iter().find(|(word, ..)| args.is(index, word)) else {
            return Ok(None);
        };
        let with = args.get(index + 1).ok_or(SYNTAX)?;
        if of_digest && with.len() != DIGEST_DIGITS {
            return Err("ERR a digest must be exactly 16 hexadecimal characters".into());
        }
        Ok(Some(Comparison { with: if of_digest { Comparand::Digest(with) } else { Comparand::Value(with) }, equal }))
    }

    pub(super) fn allows(&self, value: Option<&[u8]>) -> bool {
        let is_equal = value.is_some_and(|value| match self.with {
            Comparand::Value(with) => value == with,
            Comparand::Digest(with) => digest_of(value).as_bytes().eq_ignore_ascii_case(with),
        });
        is_equal == self.equal
    }
}

const DIGEST_DIGITS: usize = 16;

/// The 64-bit XXH3 hash of a value, as hexadecimal digits.
pub(super) fn digest_of(value: &[u8]) -> String {
    format!("{:0DIGEST_DIGITS$x}", HashFunction::new(HashKind::Xxh3, 0).hash(value))
}
