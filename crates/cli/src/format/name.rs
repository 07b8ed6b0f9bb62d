//! The names of the formats on the command line.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Tsv,
    Csv,
    Jsonl,
    Raw,
    Lines,
    Parquet,
    Gdbm,
    GdbmFlat,
    Db,
    DbHex,
    Mdb,
    Cdbmake,
    Cdb,
    GdbmFile,
    Tar,
    Zip,
    Rdb,
    Sql,
}

impl Format {
    const ALL: [Self; 18] = [
        Self::Tsv,
        Self::Csv,
        Self::Jsonl,
        Self::Raw,
        Self::Lines,
        Self::Parquet,
        Self::Gdbm,
        Self::GdbmFlat,
        Self::Db,
        Self::DbHex,
        Self::Mdb,
        Self::Cdbmake,
        Self::Cdb,
        Self::GdbmFile,
        Self::Tar,
        Self::Zip,
        Self::Rdb,
        Self::Sql,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Tsv => "tsv",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Raw => "raw",
            Self::Lines => "lines",
            Self::Parquet => "parquet",
            Self::Gdbm => "gdbm",
            Self::GdbmFlat => "gdbm-flat",
            Self::Db => "db",
            Self::DbHex => "db-hex",
            Self::Mdb => "mdb",
            Self::Cdbmake => "cdbmake",
            Self::Cdb => "cdb",
            Self::GdbmFile => "gdbm-file",
            Self::Tar => "tar",
            Self::Zip => "zip",
            Self::Rdb => "rdb",
            Self::Sql => "sql",
        }
    }

    /// Determines the format by the file's extension, also below `.gz` and `.zst`.
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        if matches!(extension, "tgz" | "tzst") {
            return Some(Self::Tar);
        }
        if matches!(extension, "gz" | "zst") {
            return Self::of_path(Path::new(path.file_stem()?));
        }
        Some(match extension {
            "tsv" | "tab" => Self::Tsv,
            "csv" => Self::Csv,
            "jsonl" | "ndjson" | "json" => Self::Jsonl,
            "raw" | "bin" => Self::Raw,
            "parquet" | "pq" => Self::Parquet,
            "cdb" => Self::Cdb,
            "gdbm" => Self::GdbmFile,
            "tar" => Self::Tar,
            "zip" => Self::Zip,
            "rdb" => Self::Rdb,
            _ => return None,
        })
    }

    /// Returns the form in which an input holds its pairs, for the check of its first bytes.
    pub fn layout(self) -> Layout {
        match self {
            Self::Raw => Layout::Raw,
            Self::Csv => Layout::Fields,
            Self::Tsv | Self::Jsonl | Self::Lines => Layout::Text,
            _ => Layout::Own,
        }
    }

    /// Whether a dump has the keys and values byte for byte, not encoded as text.
    pub fn has_stored_bytes(self) -> bool {
        matches!(
            self,
            Self::Raw
                | Self::Gdbm
                | Self::GdbmFlat
                | Self::Db
                | Self::DbHex
                | Self::Mdb
                | Self::Cdbmake
                | Self::Cdb
                | Self::GdbmFile
        )
    }

    /// Whether a byte-order mark may come before the first row.
    pub fn is_text(self) -> bool {
        matches!(self.layout(), Layout::Text | Layout::Fields)
            || matches!(self, Self::Gdbm | Self::Db | Self::DbHex | Self::Mdb | Self::Cdbmake)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Lines of text, in which a zero byte is a mistake.
    Text,
    /// CSV, whose quoted fields may hold any byte.
    Fields,
    /// Length-prefixed pairs of any bytes.
    Raw,
    /// The format has a signature, which its reader checks.
    Own,
}

/// A format to read; `None` is `auto`, which goes by content and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadFormat(pub Option<Format>);

impl ValueEnum for ReadFormat {
    fn value_variants<'a>() -> &'a [Self] {
        const READ: [ReadFormat; 18] = {
            let mut read = [ReadFormat(None); 18];
            let mut at = 1;
            // All but the last, SQL, which is only written.
            while at < read.len() {
                read[at] = ReadFormat(Some(Format::ALL[at - 1]));
                at += 1;
            }
            read
        };
        &READ
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.map_or("auto", Format::name)))
    }
}

/// A format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFormat(pub Format);

impl ValueEnum for WriteFormat {
    fn value_variants<'a>() -> &'a [Self] {
        const WRITTEN: [WriteFormat; 14] = [
            WriteFormat(Format::Tsv),
            WriteFormat(Format::Csv),
            WriteFormat(Format::Jsonl),
            WriteFormat(Format::Raw),
            WriteFormat(Format::Lines),
            WriteFormat(Format::Parquet),
            WriteFormat(Format::Sql),
            WriteFormat(Format::Gdbm),
            WriteFormat(Format::GdbmFlat),
            WriteFormat(Format::Db),
            WriteFormat(Format::DbHex),
            WriteFormat(Format::Mdb),
            WriteFormat(Format::Cdbmake),
            WriteFormat(Format::Rdb),
        ];
        &WRITTEN
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_but_sql_can_be_read_and_every_one_but_databases_and_archives_written() {
        let read: Vec<_> = ReadFormat::value_variants().iter().filter_map(|format| format.0).collect();
        assert_eq!(read, Format::ALL.into_iter().filter(|format| *format != Format::Sql).collect::<Vec<_>>());
        let written = WriteFormat::value_variants();
        let only_read = [Format::Cdb, Format::GdbmFile, Format::Tar, Format::Zip];
        let all = Format::ALL.into_iter().filter(|format| !only_read.contains(format));
        assert!(written.len() == 14 && all.clone().count() == 14 && all.map(WriteFormat).all(|f| written.contains(&f)));
    }
}
