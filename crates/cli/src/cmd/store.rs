//! A table or a dictionary, for commands that read both. If a table has a server's marked pairs, only keys are shown.

use super::dictionary::{self, PartArgs};
use super::filter::KeyFilter;
use super::keys::Keys;
use crate::failure::{Failure, Result};
use crate::format::Pair;
use crate::interrupt::{Interrupt, Signal};
use crate::open::{ReadArgs, StoreKind, neither, opened, stored};
use crate::source::{End, Inputs, PairStream, SourceArgs, accepted, foreign, refuse_address};
use splitpoint::{Dictionary, Durability, ErrorKind, Table, TableOptions};
use splitpoint_server::keyspace::ServedFile;
use splitpoint_server::rdb::StoredScan;
use std::path::Path;
use tempfile::TempDir;

pub enum Store {
    Table(Box<Table>),
    Dictionary(Box<Dictionary>),
}

/// Pairs of a dictionary that are read between two checks for a signal.
const STEP: u64 = 1024;

/// A position from which a scan continues; `None` after the last pair.
pub type Cursor = Option<u64>;

/// The start of a scan, and the pairs that it takes.
pub struct Wanted<'w> {
    pub cursor: u64,
    pub filter: &'w KeyFilter,
    /// A few more if several keys share one hash.
    pub limit: u64,
    /// The signal that ends the scan, if one came.
    pub caught: &'w dyn Fn() -> Option<Signal>,
}

impl Store {
    /// Opens the file for reading; its first bytes show what it is.
    pub fn open(path: &Path, reading: ReadArgs) -> Result<Self> {
        Self::open_with(path, reading.options())
    }

    /// Opens the file for lookups of `keys` alone: if they are given, the log is not replayed for others.
    pub fn open_for(path: &Path, reading: ReadArgs, keys: &Keys) -> Result<Self> {
        let options = reading.options();
        Self::open_with(
            path,
            match keys {
                Keys::Given(keys) => options.only_keys(keys.iter().flat_map(|key| ServedFile::pairs_read_for(key))),
                Keys::Stdin { .. } => options,
            },
        )
    }

    fn open_with(path: &Path, options: TableOptions) -> Result<Self> {
        let open = || opened(path, options.open(path));
        refuse_address(path)?;
        match stored(path).map_err(|error| Failure::io(format_args!("cannot open {}", path.display()), &error))? {
            Some(StoreKind::Dictionary) => Ok(Self::Dictionary(Box::new(dictionary::open(path)?))),
            Some(StoreKind::Table) => Ok(Self::Table(Box::new(open()?))),
            None => match open() {
                Err(failure) if failure.is_of(&[ErrorKind::NotATable]) => Err(neither(path)),
                opened => opened.map(|table| Self::Table(Box::new(table))),
            },
        }
    }

    /// Opens the file like [`open`](Self::open). The pairs of a GDBM or cdb file are copied to a table in a temporary
    /// directory, to be dropped after the store.
    ///
    /// # Errors
    /// Errors of reading and writing; a bad row; a signal.
    pub fn open_or_copy(path: &Path, reading: ReadArgs, interrupt: &Interrupt) -> Result<(Option<TempDir>, Self)> {
        refuse_address(path)?;
        let failed = |error| Failure::io(format_args!("cannot open {}", path.display()), &error);
        if stored(path).map_err(failed)?.is_some() || foreign(path).map_err(failed)?.is_none() {
            return Ok((None, Self::open(path, reading)?));
        }
        let place = tempfile::tempdir().map_err(|error| Failure::io("a temporary directory", &error))?;
        let options = reading.cache.options().create(true).durability(Durability::None);
        let table = options.open(place.path().join("copy.spt"))?;
        let (paths, args) = ([path.to_owned()], SourceArgs::auto());
        let end =
            Inputs::look(&paths, &args, interrupt)?.feed(&mut |pair, _| accepted(table.put(pair.key, pair.value)))?;
        match end {
            End::Inputs => Ok((Some(place), Self::Table(Box::new(table)))),
            End::Bad(bad) => Err(Failure::no(bad)),
            End::Signal(signal) => Err(Failure::stopped(signal, "nothing was compared")),
        }
    }

    /// Returns the number of pairs, including a server's marked pairs for attributes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Table(table) => table.len(),
            Self::Dictionary(dictionary) => dictionary.len(),
        }
    }

    /// Returns the number of keys.
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

    /// Whether a server keeps lifetimes or flags in it, which no command shows.
    pub fn has_marks(&self) -> Result<bool> {
        Ok(match self {
            Self::Table(table) => ServedFile::of(table)?.has_marks(),
            Self::Dictionary(_) => false,
        })
    }

    /// Whether fields of hashes have lifetimes. O(keys).
    pub fn has_field_lifetimes(&self) -> Result<bool> {
        Ok(match self {
            Self::Table(table) => ServedFile::of(table)?.has_field_lifetimes()?,
            Self::Dictionary(_) => false,
        })
    }

    /// Returns all pairs, bucket by bucket or in hash order.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn pairs(&self) -> Result<Box<dyn PairStream + '_>> {
        Ok(match self {
            Self::Table(table) => Box::new(ServedFile::of(table)?.keys_of(table.scan())),
            Self::Dictionary(dictionary) => Box::new(dictionary.iter()),
        })
    }

    /// Returns the keys of a part of hash order with types and lifetimes; `None` for a dictionary, which has none.
    ///
    /// # Errors
    /// The number of parts of a table is not a power of two.
    pub fn entries(&self, part: &PartArgs) -> Result<Option<StoredScan<'_>>> {
        let Self::Table(table) = self else { return Ok(None) };
        let scan = match part.prefix()? {
            (_, 0) => table.scan(),
            (prefix, bits) => table.scan_prefix(prefix, bits),
        };
        Ok(Some(StoredScan::of(ServedFile::of(table)?, scan)))
    }

    /// Returns the pairs of a part of hash order.
    ///
    /// # Errors
    /// The number of parts of a table is not a power of two.
    pub fn part(&self, part: &PartArgs) -> Result<Box<dyn PairStream + '_>> {
        Ok(match self {
            Self::Dictionary(dictionary) => Box::new(dictionary.range(part.positions())),
            Self::Table(table) => match part.prefix()? {
                (_, 0) => self.pairs()?,
                (prefix, bits) => Box::new(ServedFile::of(table)?.keys_of(table.scan_prefix(prefix, bits))),
            },
        })
    }

    /// Passes the wanted pairs to `take`, in hash order. Returns where the next scan begins, and the signal that ended
    /// this one.
    ///
    /// # Errors
    /// Errors of reading and of `take`.
    pub fn scan(
        &self,
        wanted: &Wanted<'_>,
        take: &mut dyn FnMut(Pair<'_>) -> Result<()>,
    ) -> Result<(Cursor, Option<Signal>)> {
        match self {
            Self::Table(table) => scan_table(table, wanted, take),
            Self::Dictionary(dictionary) => scan_dictionary(dictionary, wanted, take),
        }
    }
}

fn scan_table(
    table: &Table,
    wanted: &Wanted<'_>,
    take: &mut dyn FnMut(Pair<'_>) -> Result<()>,
) -> Result<(Cursor, Option<Signal>)> {
    let mut scan = ServedFile::of(table)?.keys_of(table.scan_from(wanted.cursor));
    let (mut taken, mut last) = (0, None);
    // Continue past the limit while the next pair has the hash of the last one: a cursor cannot divide them, so the
    // next scan would return the last one again.
    while taken < wanted.limit || (last.is_some() && scan.cursor() == last) {
        if let (Some(signal), Some(cursor)) = ((wanted.caught)(), scan.cursor()) {
            return Ok((Some(cursor), Some(signal)));
        }
        let Some((key, value)) = scan.next_ref()? else { return Ok((None, None)) };
        last = Some(table.hash_function().hash(key).reverse_bits());
        if wanted.filter.takes(key) {
            take(Pair { key, value })?;
            taken += 1;
        }
    }
    Ok((scan.cursor(), None))
}

fn scan_dictionary(
    dictionary: &Dictionary,
    wanted: &Wanted<'_>,
    take: &mut dyn FnMut(Pair<'_>) -> Result<()>,
) -> Result<(Cursor, Option<Signal>)> {
    let mut cursor = wanted.cursor;
    let mut left = wanted.limit;
    while left > 0 {
        if let Some(signal) = (wanted.caught)() {
            return Ok((Some(cursor), Some(signal)));
        }
        // A step cannot end in the middle, so it must not hold more pairs than are wanted.
        let step = if left >= STEP || wanted.filter.takes_all() {
            left.min(STEP)
        } else {
            pairs_up_to(dictionary, cursor, wanted.filter, left)?
        };
        let mut done = Ok(());
        let next = dictionary.scan(cursor, usize::try_from(step).unwrap_or(usize::MAX), |key, value| {
            if done.is_ok() && wanted.filter.takes(key) {
                done = take(Pair { key, value });
                left = left.saturating_sub(1);
            }
        })?;
        done?;
        if next == 0 {
            return Ok((None, None));
        }
        cursor = next;
    }
    Ok((Some(cursor), None))
}

/// Returns the number of pairs from `cursor` up to the `wanted`-th that `filter` takes, at most [`STEP`].
fn pairs_up_to(dictionary: &Dictionary, cursor: u64, filter: &KeyFilter, wanted: u64) -> Result<u64> {
    let (mut seen, mut taken, mut last) = (0, 0, STEP);
    dictionary.scan(cursor, STEP as usize, |key, _| {
        seen += 1;
        taken += u64::from(filter.takes(key));
        if taken == wanted {
            last = last.min(seen);
        }
    })?;
    Ok(last)
}
