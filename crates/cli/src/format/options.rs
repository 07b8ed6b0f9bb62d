//! How to read rows: the columns of the key and the value, and the choices that a format leaves open.

use crate::escapes::{quoted, unescape};

/// The choices for one input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reading {
    /// In the order of the key's parts.
    pub key: Vec<Column>,
    /// The separator between them.
    pub key_separator: Option<Vec<u8>>,
    pub value: Option<Column>,
    /// The first row is a pair.
    pub no_header: bool,
    /// In TSV, a backslash is an ordinary byte.
    pub no_escapes: bool,
    /// The value of a plain line is the line's number.
    pub number: bool,
    /// No option decides on repeated keys, so the source does: see [`SourceArgs::own_rule`](crate::source::SourceArgs).
    pub own_rule: bool,
    /// How to treat keys with a lifetime; by default they keep it.
    pub ttl: Option<Ttl>,
}

/// How to treat a key with a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Ttl {
    /// Store it without its lifetime
    Ignore,
    /// Leave it out
    Skip,
}

impl Reading {
    pub fn columns_chosen(&self) -> bool {
        !self.key.is_empty() || self.value.is_some()
    }

    pub fn key_separator(&self) -> Vec<u8> {
        self.key_separator.clone().unwrap_or_else(|| KEY_SEPARATOR.to_vec())
    }
}

/// A column as the user names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// Written `@2`: the second column, whatever its name.
    Number(usize),
    Name(String),
    /// Written `2`: the column of this name or, if there is none, of this number.
    Either {
        name: String,
        number: usize,
    },
}

/// Parses the separator of the columns of a key, undoing its escapes.
pub fn parse_separator(text: &str) -> std::result::Result<Separator, String> {
    let mut bytes = Vec::new();
    unescape(text.as_bytes(), &mut bytes)?;
    if bytes.is_empty() { Err("it is empty".into()) } else { Ok(Separator(bytes)) }
}

/// Bytes between the parts of a key, or between the values of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Separator(pub Vec<u8>);

/// Digits are a name or a number, after an @ only a number; anything else is a name.
pub fn parse_column(text: &str) -> std::result::Result<Column, String> {
    let digits = text.strip_prefix('@').unwrap_or(text);
    let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None };
    match number {
        Some(0) => Err("columns are counted from 1".into()),
        Some(number) if text.starts_with('@') => Ok(Column::Number(number)),
        Some(number) => Ok(Column::Either { name: text.to_owned(), number }),
        None => Ok(Column::Name(text.to_owned())),
    }
}

impl Column {
    pub fn is_name(&self) -> bool {
        matches!(self, Self::Name(_))
    }

    /// Returns the name that the column may have.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) | Self::Either { name, .. } => Some(name),
            Self::Number(_) => None,
        }
    }
}

/// The separator between the columns of a key, unless the user chose another.
pub const KEY_SEPARATOR: &[u8] = b"\t";

/// Replaces `key` by its parts, with `separator` between them.
///
/// # Errors
/// A part that contains the separator: two different keys could become one.
pub fn join<'p>(
    parts: impl ExactSizeIterator<Item = &'p [u8]>,
    separator: &[u8],
    key: &mut Vec<u8>,
) -> std::result::Result<(), String> {
    key.clear();
    let several = parts.len() > 1;
    for (index, part) in parts.enumerate() {
        if several && memchr::memmem::find(part, separator).is_some() {
            let (part, separator) = (quoted(part), quoted(separator));
            return Err(format!(
                "{part} of the key contains {separator}, which separates its columns; --key-separator chooses another"
            ));
        }
        if index > 0 {
            key.extend_from_slice(separator);
        }
        key.extend_from_slice(part);
    }
    Ok(())
}
