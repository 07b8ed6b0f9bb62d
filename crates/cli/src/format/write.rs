//! Writing pairs in any format, into a buffer.

use super::{Format, Pair, Row, berkeley, cdbmake, csv, gdbm, jsonl, raw, rdb, sql, text, tsv, typed};
use crate::escapes;
use crate::number::count_of;
use splitpoint_server::rdb::{Entry, Form, Object, Value, Writer as RdbWriter};
use std::path::Path;

type Result<T> = std::result::Result<T, String>;

/// Facts about the pairs for a format's header.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// The table or dictionary.
    pub file: &'a Path,
    pub file_bytes: u64,
    /// Whether all keys and whether all values are UTF-8; only Parquet needs this.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "nothing else reads it"))]
    pub text: (bool, bool),
    /// Whether fields of hashes have lifetimes; only dumps of Redis need this.
    pub has_field_lifetimes: bool,
}

/// One file of pairs: [`begin`](Self::begin), [`pair`](Self::pair) for each, [`end`](Self::end). Each appends to the
/// caller's buffer.
///
/// Every error means that the format cannot hold a pair.
pub struct Writer {
    format: Format,
    pairs: u64,
    /// Pairs with an empty key or value.
    empty: u64,
    rdb: Option<RdbWriter>,
    /// Keys with flags that the format does not have.
    with_flags: u64,
    #[cfg(feature = "parquet")]
    parquet: Option<super::parquet::Writer>,
}

impl Writer {
    pub fn begin(format: Format, about: &About<'_>, row: &mut Vec<u8>) -> Result<Self> {
        match format {
            Format::Csv => row.extend_from_slice(csv::HEADER),
            Format::Sql => row.extend_from_slice(sql::HEADER),
            Format::Gdbm => {
                let stem = about.file.file_stem().unwrap_or_default().to_string_lossy();
                gdbm::write_text_header(&format!("{}.gdbm", stem.replace(char::is_control, "_")), row);
            }
            Format::GdbmFlat => gdbm::write_flat_header(row),
            Format::Db | Format::DbHex => berkeley::write_header(format == Format::DbHex, None, row),
            Format::Mdb => berkeley::write_header(true, Some(lmdb_map_bytes(about.file_bytes)), row),
            Format::Cdb => return Err("a cdb file is written from --format cdbmake by `cdb -c FILE.cdb -`".into()),
            Format::GdbmFile => return Err("a GDBM file is written from --format gdbm by `gdbm_load`".into()),
            Format::Tar | Format::Zip => return Err("archives are only read".into()),
            Format::Parquet if cfg!(not(feature = "parquet")) => {
                return Err("this program was built without Parquet; use --format csv".into());
            }
            Format::Tsv
            | Format::Jsonl
            | Format::Raw
            | Format::Lines
            | Format::Parquet
            | Format::Cdbmake
            | Format::Rdb => {}
        }
        Ok(Self {
            format,
            pairs: 0,
            empty: 0,
            rdb: (format == Format::Rdb).then(|| RdbWriter::begin(row, about.has_field_lifetimes)),
            with_flags: 0,
            #[cfg(feature = "parquet")]
            parquet: match format {
                Format::Parquet => Some(super::parquet::Writer::new(about.text.0, about.text.1)?),
                _ => None,
            },
        })
    }

    /// # Errors
    /// Why the format cannot hold the pair.
    pub fn pair(&mut self, pair: Pair<'_>, row: &mut Vec<u8>) -> Result<()> {
        self.pairs += 1;
        match self.format {
            Format::Tsv if self.pairs == 1 => tsv::write_first(pair, row),
            Format::Tsv => tsv::write(pair, row),
            Format::Csv => csv::write(pair, row),
            Format::Jsonl => jsonl::write(pair, row),
            Format::Raw => return raw::write(pair, row),
            Format::Lines => return text::write(pair, row),
            Format::Sql => return sql::write(pair, row),
            Format::Gdbm => {
                self.empty += u64::from(pair.key.is_empty() || pair.value.is_empty());
                gdbm::write_text(pair, row);
            }
            Format::GdbmFlat => {
                self.empty += u64::from(pair.key.is_empty() || pair.value.is_empty());
                return gdbm::write_flat(pair, row);
            }
            Format::Db => berkeley::write(false, pair, row),
            Format::DbHex => berkeley::write(true, pair, row),
            Format::Mdb => {
                berkeley::check_for_lmdb(pair)?;
                berkeley::write(true, pair, row);
            }
            Format::Cdbmake => return cdbmake::write(pair, row),
            Format::Rdb => {
                let value = Value::String(pair.value.to_vec());
                if let Some(rdb) = &mut self.rdb {
                    rdb.entry(row, 0, pair.key, 0, (&value, Form::Packed));
                }
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => return self.parquet.as_mut().map_or(Ok(()), |parquet| parquet.pair(pair, row)),
            _ => {}
        }
        Ok(())
    }

    /// Writes a key with a type or a lifetime; `form` is the encoding of its value.
    ///
    /// # Errors
    /// Why the format cannot hold it.
    pub fn entry(&mut self, entry: &Entry, form: Form, row: &mut Vec<u8>) -> Result<()> {
        let Object::Value(value) = &entry.object else { return Ok(()) };
        match (&mut self.rdb, self.format, value) {
            (Some(rdb), ..) => {
                self.with_flags += u64::from(entry.flags != 0);
                rdb.entry(row, entry.database, &entry.key, entry.expires_at_ms, (value, form));
            }
            (_, Format::Jsonl, _) => match rdb::row_of(entry, 0) {
                Row::Pair(pair, _) => jsonl::write(pair, row),
                _ => typed::write(entry, row),
            },
            (_, _, Value::String(value)) => return self.pair(Pair { key: &entry.key, value }, row),
            _ => {
                let (key, kind) = (escapes::quoted(&entry.key), value.type_name());
                return Err(format!("the key {key} has a {kind}; --format jsonl and rdb hold every type"));
            }
        }
        Ok(())
    }

    /// Returns what the user should know of the file.
    pub fn end(&mut self, row: &mut Vec<u8>) -> Result<Option<String>> {
        match self.format {
            Format::Sql => row.extend_from_slice(sql::END),
            Format::Gdbm => gdbm::write_text_end(self.pairs, row),
            Format::Db | Format::DbHex | Format::Mdb => berkeley::write_end(row),
            Format::Cdbmake => row.push(b'\n'),
            Format::Rdb => {
                if let Some(rdb) = self.rdb.take() {
                    rdb.end(row);
                }
                if self.with_flags > 0 {
                    let keys = count_of(self.with_flags, "key");
                    return Ok(Some(format!(
                        "memcached's flags of {keys} are not in the dump; --format jsonl has them"
                    )));
                }
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                if let Some(parquet) = self.parquet.take() {
                    parquet.end(row)?;
                }
            }
            _ => {}
        }
        let empty = count_of(self.empty, "pair");
        let note = format!("{empty} with an empty key or value are in the dump, which gdbm_load 1.23 refuses");
        Ok((self.empty > 0).then_some(note))
    }
}

/// Returns the address space of a new LMDB database: its pages are half empty after random puts, and a long value takes
/// up to twice its length. The file is only as long as what is used.
fn lmdb_map_bytes(file_bytes: u64) -> u64 {
    (file_bytes.saturating_mul(8)).next_multiple_of(1 << 20) + (16 << 20)
}
