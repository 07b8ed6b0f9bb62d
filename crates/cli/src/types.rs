//! The types that a table or dictionary records, and what may be stored under them.
//!
//! The program handles text and bytes, which are the encoding of only some types. Numbers are encoded differently, so
//! text for them is refused: `12345678` would be eight bytes, and be read as 4050765991979987505.
//!
//! Not here: how types are stored (the library's `Codec`).

use crate::escapes;
use crate::failure::{Failure, Result};
use serde::de::IgnoredAny;
use splitpoint::{ErrorKind, Table};

/// The origin of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Arguments, rows of text, files of other programs.
    Text,
    /// Dumps that hold the exact bytes of a table's keys and values.
    Bytes,
    /// A table or dictionary of the same types.
    Typed,
}

pub struct Types {
    names: String,
    key: Encoding,
    value: Encoding,
}

enum Encoding {
    Bytes,
    Text,
    Json,
    /// This many bytes that are not text: a number.
    Fixed(usize),
    /// Bytes of this length.
    Array(usize),
    /// A type of a user's program or of Python, or a tuple.
    Other,
}

impl Encoding {
    fn of(name: &str) -> Self {
        match name {
            "bytes" => Self::Bytes,
            "str" => Self::Text,
            "json" => Self::Json,
            "bool" => Self::Fixed(1),
            _ => {
                let bits =
                    name.strip_prefix(['u', 'i']).filter(|bits| matches!(*bits, "8" | "16" | "32" | "64" | "128"));
                let array = name.strip_prefix("[u8; ").and_then(|rest| rest.strip_suffix(']'));
                match (bits, array.and_then(|length| length.parse().ok())) {
                    (Some(bits), _) => Self::Fixed(bits.parse().unwrap_or(0) / 8),
                    (_, Some(length)) => Self::Array(length),
                    _ => Self::Other,
                }
            }
        }
    }

    /// Returns the fault of `bytes`.
    fn refuse(&self, bytes: &[u8], origin: Origin) -> Option<String> {
        let length = |expected: usize| {
            (bytes.len() != expected).then(|| format!("has {} bytes, and the type has {expected}", bytes.len()))
        };
        match self {
            Self::Bytes => None,
            Self::Text => std::str::from_utf8(bytes).err().map(|_| "is not UTF-8".to_owned()),
            Self::Json => {
                serde_json::from_slice::<IgnoredAny>(bytes).err().map(|error| format!("is not JSON: {error}"))
            }
            Self::Array(expected) => length(*expected),
            Self::Fixed(_) | Self::Other if origin == Origin::Text => Some("is text, not a value of the type".into()),
            Self::Fixed(expected) => length(*expected),
            Self::Other => None,
        }
    }
}

impl Types {
    /// Returns the types with these names; `None` for a table of bytes.
    pub fn of(names: &str) -> Option<Self> {
        let (key, value) = names.split_once(" -> ")?;
        Some(Self { names: names.to_owned(), key: Encoding::of(key), value: Encoding::of(value) })
    }

    pub fn of_table(table: &Table) -> Option<Self> {
        Self::of(&table.types())
    }

    pub fn is_called(&self, names: &str) -> bool {
        self.names == names
    }

    /// Whether all keys and values are text or bytes.
    pub fn are_text(&self) -> bool {
        [&self.key, &self.value].iter().all(|encoding| !matches!(encoding, Encoding::Fixed(_) | Encoding::Other))
    }

    /// Returns the fault of a key and a value of this origin.
    pub fn refuse(&self, key: &[u8], value: &[u8], origin: Origin) -> Option<String> {
        if origin == Origin::Typed {
            return None;
        }
        let refused = |role: &str, what: String| {
            let (key, names) = (escapes::quoted(key), &self.names);
            format!("{role} {key} {what}; the table holds {names}{}", self.advice(origin))
        };
        let key_is = self.key.refuse(key, origin).map(|what| refused("the key", what));
        key_is.or_else(|| self.value.refuse(value, origin).map(|what| refused("the value of", what)))
    }

    /// Why a key with a type or a lifetime of a server cannot be stored.
    pub fn refuse_entry(&self, key: &[u8]) -> String {
        let (key, names) = (escapes::quoted(key), &self.names);
        format!("the key {key} has a type or a lifetime; the table holds {names}, a table without types holds both")
    }

    /// Returns the fault of a tail that is appended to a value.
    pub fn refuse_tail(&self) -> Option<String> {
        let whole = !matches!(self.value, Encoding::Bytes | Encoding::Text);
        whole.then(|| format!("nothing can be appended to a value of a table that holds {}", self.names))
    }

    fn advice(&self, origin: Origin) -> &'static str {
        if origin == Origin::Bytes { "" } else { ADVICE }
    }
}

const ADVICE: &str = ", which `Table::typed` of Rust and splitpoint.open(..., key=, value=) of Python store; \
                      `load` takes them from a table, or from `dump --format raw`";

/// Refuses a pair for a table that records other types.
pub fn check_pair(table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
    refuse(Types::of_table(table).and_then(|types| types.refuse(key, value, Origin::Text)))
}

/// Refuses a new key for a value that is in the table.
pub fn check_key(table: &Table, key: &[u8]) -> Result<()> {
    let with_any_value = |types: Types| Types { value: Encoding::Bytes, ..types };
    refuse(Types::of_table(table).map(with_any_value).and_then(|types| types.refuse(key, b"", Origin::Text)))
}

/// Refuses to append to a value of a type that is not a sequence of bytes.
pub fn check_tail(table: &Table, key: &[u8], tail: &[u8]) -> Result<()> {
    let types = Types::of_table(table);
    refuse(types.and_then(|types| types.refuse_tail().or_else(|| types.refuse(key, tail, Origin::Text))))
}

fn refuse(what: Option<String>) -> Result<()> {
    what.map_or(Ok(()), |what| Err(Failure::of_kind(ErrorKind::WrongTypes, what)))
}

/// Parses the types of a new table, as `u64 -> str`.
///
/// # Errors
/// Types that no table of this program can have.
pub fn parse(text: &str) -> std::result::Result<String, String> {
    let known = |name: &str| !matches!(Encoding::of(name), Encoding::Other) || name == "pickle";
    match text.split_once(" -> ") {
        Some((key, value)) if known(key) && known(value) => Ok(text.to_owned()),
        _ => Err("expected `KEY -> VALUE`, each of them bytes, str, json, bool, u8 to u128, i8 to i128, [u8; N] or \
                  pickle; your own program records a type of its own"
            .to_owned()),
    }
}
