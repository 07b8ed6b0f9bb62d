//! Which columns of a row are its key and its value; and TSV read by columns.

use super::Source;
use crate::failure::{Failure, Result};
use crate::format::{BadRow, Pair, Row, Scratch, has_zero_byte, tsv};
use crate::input::{Input, Taken};

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
    pub fn among<N: AsRef<[u8]>>(&self, names: &[N]) -> std::result::Result<usize, String> {
        let found = match self {
            Self::Number(number) => Some(number - 1).filter(|index| *index < names.len()),
            Self::Name(name) => names.iter().position(|column| column.as_ref() == name.as_bytes()),
        };
        found.ok_or_else(|| {
            let known: Vec<_> = names.iter().take(20).map(|name| tsv::quoted(name.as_ref())).collect();
            match self {
                Self::Number(number) => format!("no column {number}; there are {}: {}", names.len(), known.join(", ")),
                Self::Name(name) => {
                    format!("no column {}; there are {}", tsv::quoted(name.as_bytes()), known.join(", "))
                }
            }
        })
    }
}

/// The columns of one input.
#[derive(Clone, Debug)]
pub struct Columns {
    pub key: Column,
    pub value: Column,
    /// The first row has the column names.
    pub header: bool,
}

impl Columns {
    /// The indexes of key and value if both are numbers, so that no header is needed.
    pub fn numbers(&self) -> Option<(usize, usize)> {
        match (&self.key, &self.value) {
            (Column::Number(key), Column::Number(value)) => Some((key - 1, value - 1)),
            _ => None,
        }
    }

    /// # Errors
    /// A column that the header lacks: a failure, because no row can be read.
    pub fn look_up<N: AsRef<[u8]>>(&self, place: &str, header: &[N]) -> Result<(usize, usize)> {
        let index = |option, column: &Column| {
            column.among(header).map_err(|what| Failure::usage(format_args!("{place}: {option}: {what}")))
        };
        Ok((index("--key", &self.key)?, index("--value", &self.value)?))
    }
}

/// The message for a row of `count` columns; indexes are from 0.
pub fn too_few(count: usize, (key, value): (usize, usize)) -> String {
    let columns = if count == 1 { "column" } else { "columns" };
    format!("{count} {columns}, so no column {}", if key < count { value } else { key } + 1)
}

/// TSV in which each tab ends a column.
pub struct TsvColumns<'i> {
    input: Input<'i>,
    columns: Columns,
    indexes: Option<(usize, usize)>,
    /// Number of the last line, from 1.
    number: u64,
    scratch: Scratch,
}

impl<'i> TsvColumns<'i> {
    pub fn new(input: Input<'i>, columns: Columns) -> Self {
        let indexes = if columns.header { None } else { columns.numbers() };
        Self { input, columns, indexes, number: 0, scratch: Scratch::default() }
    }

    /// The next line that is not blank.
    fn line(&mut self) -> Result<Taken> {
        loop {
            let taken = self.input.line()?;
            if matches!(taken, Taken::Bytes(_) | Taken::TooLong) {
                self.number += 1;
            }
            match taken {
                Taken::Bytes(range) if matches!(self.input.bytes(range.clone()), b"" | b"\r") => {}
                taken => return Ok(taken),
            }
        }
    }

    fn bad(&self, what: String) -> Row<'static> {
        Row::Bad(BadRow { place: format!("{}:{}", self.input.name, self.number), what, goes_on: true })
    }
}

impl Source for TsvColumns<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let range = match self.line()? {
            Taken::Bytes(range) => range,
            Taken::TooLong => return Ok(self.bad(self.input.limit_met())),
            Taken::Interrupted => return Ok(Row::Interrupted),
            Taken::Short(_) | Taken::End => return Ok(Row::End),
        };
        let line = self.input.bytes(range);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(indexes) = self.indexes else {
            let names: Vec<_> = line.split(|byte| *byte == b'\t').collect();
            let place = format!("{}:{}", self.input.name, self.number);
            self.indexes = Some(self.columns.look_up(&place, &names)?);
            return self.next_row();
        };
        if memchr::memchr(0, line).is_some() {
            return Ok(self.bad(has_zero_byte(line)));
        }
        let parsed = pick(line, indexes).and_then(|(key, value)| {
            tsv::unescape(key, &mut self.scratch.key)?;
            tsv::unescape(value, &mut self.scratch.value)
        });
        match parsed {
            Ok(()) => Ok(Row::Pair(Pair { key: &self.scratch.key, value: &self.scratch.value }, self.number)),
            Err(what) => Ok(self.bad(what)),
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_bytes()
    }
}

fn pick(line: &[u8], (key, value): (usize, usize)) -> std::result::Result<(&[u8], &[u8]), String> {
    let mut found = (None, None);
    let mut count = 0;
    for (index, field) in line.split(|byte| *byte == b'\t').enumerate() {
        if index == key {
            found.0 = Some(field);
        }
        if index == value {
            found.1 = Some(field);
        }
        count += 1;
    }
    match found {
        (Some(key), Some(value)) => Ok((key, value)),
        _ => Err(too_few(count, (key, value))),
    }
}
