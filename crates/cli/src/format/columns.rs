//! The columns of a row that are its key and its value.
//!
//! Without a chosen value column, the value is the other column of two, or all other columns as one JSON object.

use super::options::{Column, Reading, join};
use super::{Format, jsonl};
use crate::escapes::quoted;
use crate::failure::{Failure, Result};

/// Column names that a message lists.
const NAMES_LISTED: usize = 20;

impl Column {
    /// Returns its index from 0 among the header's `names`, or what is wrong.
    pub fn among<N: AsRef<[u8]>>(&self, names: &[N]) -> std::result::Result<usize, String> {
        if let Some(name) = self.name() {
            let is_called = |index: &usize| names[*index].as_ref() == name.as_bytes();
            let mut found = (0..names.len()).filter(is_called);
            match (found.next(), found.next()) {
                (Some(index), None) => return Ok(index),
                (Some(first), Some(second)) => return Err(called_alike(&names[first], first, second)),
                (None, _) => {}
            }
        }
        match self {
            Self::Number(number) | Self::Either { number, .. } if *number <= names.len() => Ok(number - 1),
            Self::Number(number) => Err(format!("no column @{number}; {}", counted(names))),
            Self::Either { name, number } => {
                let name = quoted(name.as_bytes());
                Err(format!("no column is called {name}, and there is no column @{number}; {}", counted(names)))
            }
            Self::Name(name) => Err(format!("no column {}; {}", quoted(name.as_bytes()), listed(names))),
        }
    }
}

/// Returns the names with their number.
fn counted<N: AsRef<[u8]>>(names: &[N]) -> String {
    match names.len() {
        count @ 2..=NAMES_LISTED => listed(names).replacen("there are", &format!("there are {count}:"), 1),
        _ => listed(names),
    }
}

fn listed<N: AsRef<[u8]>>(names: &[N]) -> String {
    let known: Vec<_> = names.iter().take(NAMES_LISTED).map(|name| quoted(name.as_ref())).collect();
    let known = known.join(", ");
    match names.len() {
        0 => "the input has no columns".into(),
        1 => format!("there is one: {known}"),
        2..=NAMES_LISTED => format!("there are {known}"),
        count => format!("there are {count}; the first {NAMES_LISTED} are {known}"),
    }
}

fn called_alike<N: AsRef<[u8]>>(name: &N, first: usize, second: usize) -> String {
    let (name, first, second) = (quoted(name.as_ref()), first + 1, second + 1);
    format!("columns {first} and {second} are both called {name}")
}

/// The columns that the user chose.
#[derive(Clone, Debug)]
pub struct Columns {
    /// In the order of the key's parts; the first column if the user named none.
    pub key: Vec<Column>,
    /// Between the parts.
    pub key_separator: Vec<u8>,
    pub value: Option<Column>,
    /// The first row has the column names.
    pub header: bool,
    /// Whether the user named a column.
    pub chosen: bool,
    /// Nothing shows whether the first row has names: numbers that would be names of other columns are refused.
    pub unclear: bool,
}

/// The columns of one input, as indexes from 0.
#[derive(Clone, Debug)]
pub struct Picked {
    pub key: Vec<usize>,
    key_separator: Vec<u8>,
    pub value: PickedValue,
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickedValue {
    Column(usize),
    /// All but the key, as a JSON object.
    Others,
}

impl Columns {
    pub fn chosen(reading: &Reading, format: Format) -> Self {
        let first = || vec![Column::Number(1)];
        let is_name = reading.key.iter().chain(&reading.value).any(Column::is_name);
        Self {
            key: if reading.key.is_empty() { first() } else { reading.key.clone() },
            key_separator: reading.key_separator(),
            value: reading.value.clone(),
            chosen: reading.columns_chosen(),
            unclear: format == Format::Tsv && !is_name && !reading.key.is_empty() && reading.value.is_some(),
            header: if format == Format::Tsv { is_name } else { !reading.no_header },
        }
    }

    /// `first` is the first row: the names of the columns if `header`, else only their count matters.
    ///
    /// # Errors
    /// A column that the header lacks, or has twice: a failure, because no row can be read.
    pub fn pick<N: AsRef<[u8]>>(&self, place: &str, first: &[N]) -> Result<Picked> {
        // Numbers are not names.
        let names: Vec<String> = if self.header {
            first.iter().map(|name| String::from_utf8_lossy(name.as_ref()).into_owned()).collect()
        } else {
            (1..=first.len()).map(|number| number.to_string()).collect()
        };
        let names = without_empty_end(names);
        if self.unclear {
            self.refuse_unclear(place, first)?;
        }
        let refuse = |what: String| Failure::usage(format_args!("{place}: {what}"));
        let index = |option, column: &Column| column.among(&names).map_err(|what| refuse(format!("{option}: {what}")));
        let key = self.key.iter().map(|column| index("--key", column)).collect::<Result<Vec<_>>>()?;
        let value = match &self.value {
            Some(value) => PickedValue::Column(index("--value", value)?),
            None if names.len() == 2 && key.len() == 1 => PickedValue::Column(1 - key[0]),
            None if names.len() <= key.len() => return Err(refuse(self.no_value(&names, &key))),
            None => PickedValue::Others,
        };
        // Equal names may also mean that the file has no header.
        if (value == PickedValue::Others || !self.chosen)
            && let Some((first, second)) = alike(&names)
        {
            let (alike, key, value) = (called_alike(&names[first], first, second), key[0] + 1, second + 1);
            return Err(refuse(format!(
                "{alike}; --key @{key} --value @{value} chooses columns by number; if the first line of CSV is a pair, \
                 --no-header"
            )));
        }
        Ok(Picked { key, key_separator: self.key_separator.clone(), value, names })
    }

    /// Refuses numbers that are names of other columns, if the first row has names.
    fn refuse_unclear<N: AsRef<[u8]>>(&self, place: &str, first: &[N]) -> Result<()> {
        let mut other = None;
        for column in self.key.iter().chain(&self.value) {
            let Column::Either { name, number } = column else { continue };
            let Some(index) = first.iter().position(|field| field.as_ref() == name.as_bytes()) else { return Ok(()) };
            other = other.or(Some((number, index + 1)).filter(|(number, named)| **number != *named));
        }
        let Some((number, named)) = other else { return Ok(()) };
        Err(Failure::usage(format_args!(
            "{place}: {number} may be column {number} or the name of column {named}; write @{number} or @{named}, \
             without a line of names"
        )))
    }

    fn no_value(&self, names: &[String], key: &[usize]) -> String {
        if let [_, _, ..] = names {
            return format!("--key takes all {} columns, so there is no value; --value names one", names.len());
        }
        let other = ";|".chars().find(|other| names.iter().any(|name| name.contains(*other)));
        let other = other.map_or(String::new(), |other| {
            format!(
                "; if `{other}` separates columns, let the first line be `sep={other}`, or write commas in its place"
            )
        });
        format!(
            "there is only one column, {}, so no value; --value @{} takes the key as the value, --format lines takes \
             lines without a value{other}",
            quoted(names.first().map_or(b"", |name| name.as_bytes())),
            key.first().unwrap_or(&0) + 1
        )
    }
}

/// The names without the empty ones at the end, if there are several: spreadsheets write empty columns this way.
fn without_empty_end(mut names: Vec<String>) -> Vec<String> {
    let named = names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    if names.len() - named > 1 {
        names.truncate(named);
    }
    names
}

/// Returns the indexes of two columns with the same name.
fn alike(names: &[String]) -> Option<(usize, usize)> {
    let mut by_name: Vec<_> = (0..names.len()).collect();
    by_name.sort_by_key(|index| &names[*index]);
    by_name.windows(2).find(|pair| names[pair[0]] == names[pair[1]]).map(|pair| (pair[0], pair[1]))
}

impl Picked {
    /// Returns the fault of a row of `count` columns, if any. `spare` are its fields beyond the width of the first row,
    /// which are accepted if all are empty.
    pub fn check<F: AsRef<[u8]>>(
        &self,
        count: usize,
        mut spare: impl Iterator<Item = F>,
    ) -> std::result::Result<(), String> {
        if count == self.names.len() || count > self.names.len() && spare.all(|field| field.as_ref().is_empty()) {
            return Ok(());
        }
        let columns = if count == 1 { "column" } else { "columns" };
        Err(format!("{count} {columns}, where the first row has {}", self.names.len()))
    }

    /// Returns the number of columns that have names.
    pub fn width(&self) -> usize {
        self.names.len()
    }

    /// Replaces `key` by the fields of the key, separated.
    ///
    /// # Errors
    /// The errors of [`join`].
    pub fn join<'f>(&self, field: impl Fn(usize) -> &'f [u8], key: &mut Vec<u8>) -> std::result::Result<(), String> {
        join(self.key.iter().map(|index| field(*index)), &self.key_separator, key)
    }

    /// Replaces `object` by the fields that are not the key.
    ///
    /// # Errors
    /// A name that would occur twice, because one ends like the name of a base64 member.
    pub fn others<F: AsRef<[u8]>>(
        &self,
        fields: impl Iterator<Item = F>,
        object: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        object.clear();
        object.push(b'{');
        for ((index, field), name) in
            fields.enumerate().zip(&self.names).filter(|((index, _), _)| !self.key.contains(index))
        {
            let field = field.as_ref();
            if std::str::from_utf8(field).is_err() {
                self.refuse_as_base64(index)?;
            }
            if object.len() > 1 {
                object.push(b',');
            }
            jsonl::write_field(name, field, object);
        }
        object.push(b'}');
        Ok(())
    }

    /// Whether a column has the name that base64 of another would get.
    fn refuse_as_base64(&self, index: usize) -> std::result::Result<(), String> {
        let name = format!("{}_base64", self.names[index]);
        let Some(other) = (0..self.names.len()).find(|other| !self.key.contains(other) && self.names[*other] == name)
        else {
            return Ok(());
        };
        let (number, other) = (index + 1, other + 1);
        Err(format!(
            "column {number} is not UTF-8, and base64 of it would be called {} as column {other} is",
            quoted(name.as_bytes())
        ))
    }

    /// `key id, value name`, for reports.
    pub fn describe(&self) -> String {
        let name = |index: usize| self.names[index].escape_debug().to_string();
        let key: Vec<_> = self.key.iter().map(|index| name(*index)).collect();
        let key = key.join(" and ");
        match self.value {
            PickedValue::Column(value) => format!("key {key}, value {}", name(value)),
            PickedValue::Others => format!("key {key}, value the other columns as JSON"),
        }
    }
}
