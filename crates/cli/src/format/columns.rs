//! Which columns of a row are its key and its value.
//!
//! Without a chosen value column, the value is the other column of two, or all other columns as one JSON object.

use super::jsonl;
use super::tsv::quoted;
use crate::failure::{Failure, Result};

/// A column as the user names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// From 1.
    Number(usize),
    Name(String),
}

/// Digits are a number; anything else is a name.
pub fn parse_column(text: &str) -> std::result::Result<Column, String> {
    match text.parse() {
        Ok(0) => Err("columns are counted from 1".into()),
        Ok(number) => Ok(Column::Number(number)),
        Err(_) => Ok(Column::Name(text.to_owned())),
    }
}

impl Column {
    pub fn is_name(&self) -> bool {
        matches!(self, Self::Name(_))
    }

    /// Its index from 0 among the header's `names`, or what is wrong.
    fn among<N: AsRef<[u8]>>(&self, names: &[N]) -> std::result::Result<usize, String> {
        let found = match self {
            Self::Number(number) => Some(number - 1).filter(|index| *index < names.len()),
            Self::Name(name) => names.iter().position(|column| column.as_ref() == name.as_bytes()),
        };
        found.ok_or_else(|| {
            let known: Vec<_> = names.iter().take(20).map(|name| quoted(name.as_ref())).collect();
            match self {
                Self::Number(number) => format!("no column {number}; there are {}: {}", names.len(), known.join(", ")),
                Self::Name(name) => {
                    format!("no column {}; there are {}", quoted(name.as_bytes()), known.join(", "))
                }
            }
        })
    }
}

/// The columns that the user chose.
#[derive(Clone, Debug)]
pub struct Columns {
    pub key: Column,
    pub value: Option<Column>,
    /// The first row has the column names.
    pub header: bool,
}

/// The columns of one input, as indexes from 0.
#[derive(Clone, Debug)]
pub struct Picked {
    pub key: usize,
    pub value: PickedValue,
    names: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickedValue {
    Column(usize),
    /// All but the key, as a JSON object.
    Others,
}

impl Columns {
    /// Without a header if one is not needed.
    pub fn picked_unseen(&self) -> Option<Picked> {
        match (&self.key, &self.value) {
            (Column::Number(key), Some(Column::Number(value))) if !self.header => {
                Some(Picked { key: key - 1, value: PickedValue::Column(value - 1), names: Vec::new() })
            }
            _ => None,
        }
    }

    /// `first` is the first row: the names of the columns if `header`, else only their count matters.
    ///
    /// # Errors
    /// A column that the header lacks: a failure, because no row can be read.
    pub fn pick<N: AsRef<[u8]>>(&self, place: &str, first: &[N]) -> Result<Picked> {
        let names: Vec<Vec<u8>> = if self.header {
            first.iter().map(|name| name.as_ref().to_vec()).collect()
        } else {
            (1..=first.len()).map(|number| number.to_string().into_bytes()).collect()
        };
        let index = |option, column: &Column| {
            column.among(&names).map_err(|what| Failure::usage(format_args!("{place}: {option}: {what}")))
        };
        let key = index("--key", &self.key)?;
        let value = match (&self.value, names.len()) {
            (Some(value), _) => PickedValue::Column(index("--value", value)?),
            (None, 2) => PickedValue::Column(1 - key),
            (None, 1) => {
                let other = b";|".iter().find(|other| names[0].contains(other)).map_or(String::new(), |other| {
                    format!("; if `{}` separates columns, write commas in its place", char::from(*other))
                });
                return Err(Failure::usage(format_args!(
                    "{place}: there is only one column, {}, so no value; --value {} takes the key as the value, \
                     --format lines takes lines without a value{other}",
                    quoted(&names[0]),
                    key + 1
                )));
            }
            (None, _) => PickedValue::Others,
        };
        Ok(Picked { key, value, names })
    }
}

impl Picked {
    /// What is wrong with a row of `count` columns, if anything is.
    pub fn check(&self, count: usize) -> std::result::Result<(), String> {
        let columns = if count == 1 { "column" } else { "columns" };
        match self.value {
            PickedValue::Others if count != self.names.len() => {
                Err(format!("{count} {columns}, where the first row has {}", self.names.len()))
            }
            PickedValue::Column(value) if self.key.max(value) >= count => {
                Err(format!("{count} {columns}, so no column {}", if self.key < count { value } else { self.key } + 1))
            }
            _ => Ok(()),
        }
    }

    /// Replaces `object` by the fields that are not the key.
    pub fn others<F: AsRef<[u8]>>(&self, fields: impl Iterator<Item = F>, object: &mut Vec<u8>) {
        object.clear();
        object.push(b'{');
        for (index, field) in fields.enumerate().filter(|(index, _)| *index != self.key) {
            if object.len() > 1 {
                object.push(b',');
            }
            let name = self.names.get(index).map_or(&b""[..], |name| name);
            jsonl::write_field(&String::from_utf8_lossy(name), field.as_ref(), object);
        }
        object.push(b'}');
    }

    /// `key id, value name`, for reports.
    pub fn describe(&self) -> String {
        let name = |index: usize| match self.names.get(index) {
            Some(name) => String::from_utf8_lossy(name).escape_debug().to_string(),
            None => (index + 1).to_string(),
        };
        match self.value {
            PickedValue::Column(value) => format!("key {}, value {}", name(self.key), name(value)),
            PickedValue::Others => format!("key {}, value the other columns as JSON", name(self.key)),
        }
    }
}
