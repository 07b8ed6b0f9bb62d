//! A table or a dictionary, for commands that read both.

use super::{dict, is_table, open_to_read};
use crate::failure::Result;
use crate::source::PairStream;
use splitpoint::{Dictionary, Table};
use std::path::Path;

pub enum Store {
    Table(Box<Table>),
    Dictionary(Box<Dictionary>),
}

impl Store {
    /// Opens the file for reading; it says itself what it is.
    pub fn open(path: &Path) -> Result<Self> {
        if !is_table(path) && dict::is_dictionary(path) {
            return Ok(Self::Dictionary(Box::new(dict::open(path)?)));
        }
        Ok(Self::Table(Box::new(open_to_read(path)?)))
    }

    pub fn len(&self) -> u64 {
        match self {
            Self::Table(table) => table.len(),
            Self::Dictionary(dictionary) => dictionary.len(),
        }
    }

    /// Replaces `value`; `false` if the key is absent.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(match self {
            Self::Table(table) => table.get_into(key, value)?,
            Self::Dictionary(dictionary) => dictionary.get_into(key, value)?,
        })
    }

    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(match self {
            Self::Table(table) => table.contains(key)?,
            Self::Dictionary(dictionary) => dictionary.contains(key)?,
        })
    }

    /// All pairs, bucket by bucket or in hash order.
    pub fn pairs(&self) -> Box<dyn PairStream + '_> {
        match self {
            Self::Table(table) => Box::new(table.scan()),
            Self::Dictionary(dictionary) => Box::new(dictionary.iter()),
        }
    }
}
