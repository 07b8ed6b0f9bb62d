//! A table or a dictionary, for commands that read both. Of a table with a server's marked pairs, only keys are shown.

use super::dict;
use crate::failure::Result;
use crate::open::{is_dictionary, is_table, open_to_read};
use crate::source::PairStream;
use splitpoint::{Dictionary, Table};
use splitpoint_server::keyspace::ServedFile;
use std::path::Path;

pub enum Store {
    Table(Box<Table>),
    Dictionary(Box<Dictionary>),
}

impl Store {
    /// Opens the file for reading; its content shows what it is.
    pub fn open(path: &Path) -> Result<Self> {
        if !is_table(path) && is_dictionary(path) {
            return Ok(Self::Dictionary(Box::new(dict::open(path)?)));
        }
        Ok(Self::Table(Box::new(open_to_read(path)?)))
    }

    /// The number of pairs, including a server's marked pairs for attributes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Table(table) => table.len(),
            Self::Dictionary(dictionary) => dictionary.len(),
        }
    }

    /// The number of keys.
    pub fn count_keys(&self) -> Result<u64> {
        Ok(match self {
            Self::Table(table) => ServedFile::of(table)?.count_keys()?,
            Self::Dictionary(dictionary) => dictionary.len(),
        })
    }

    /// Replaces `value`; `false` if the key is absent.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(match self {
            Self::Table(table) => ServedFile::of(table)?.get_into(key, value)?,
            Self::Dictionary(dictionary) => dictionary.get_into(key, value)?,
        })
    }

    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(match self {
            Self::Table(table) => ServedFile::of(table)?.contains(key)?,
            Self::Dictionary(dictionary) => dictionary.contains(key)?,
        })
    }

    /// All pairs, bucket by bucket or in hash order.
    ///
    /// # Errors
    /// That the table cannot be read.
    pub fn pairs(&self) -> Result<Box<dyn PairStream + '_>> {
        Ok(match self {
            Self::Table(table) => Box::new(ServedFile::of(table)?.keys_of(table.scan())),
            Self::Dictionary(dictionary) => Box::new(dictionary.iter()),
        })
    }
}
