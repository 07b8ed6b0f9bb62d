//! `dump`: writes all pairs to standard output; the inverse of `load`.

use super::dictionary::PartArgs;
use super::filter::{KeyFilter, Limit};
use super::salvage;
use super::store::Store;
use super::write_tree;
use super::{own_files, refuse_own, stopped};
use crate::failure::{Failure, Result};
use crate::format::{About, Format, Pair, WriteFormat, Writer};
use crate::interrupt::{Interrupt, Signal};
use crate::number::count_of;
use crate::open::{ReadArgs, StoreKind, databases, stored};
use crate::output::{Output, say};
use crate::progress::{Progress, STEPS_PER_TICK};
use crate::source::PairStream;
use splitpoint_server::rdb::StoredScan;
use std::ffi::OsStr;
use std::fs;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of rows written together: the capacity of a pipe, which saves a copy.
const WRITE_BYTES: usize = 64 << 10;

const EXAMPLES: &str = "\
Examples:
  splitpoint dump users.spt > users.tsv
  splitpoint dump users.spd --format jsonl | jq .key
  splitpoint dump served.spt --format rdb > dump.rdb
  splitpoint dump users.spt --key-prefix al --limit 100
  splitpoint dump users.spd --part 3/16 > part3.tsv
  splitpoint dump old.spt --format raw | splitpoint load new.spt - --format raw
  splitpoint dump pages.spt --tree pages
  splitpoint dump bad.spt --salvage | splitpoint load new.spt -

Pairs of a table come in no particular order, those of a dictionary in hash
order; sort the output to compare two files. Any bytes make the round trip
through `load` in tsv, jsonl and raw; lines gives the keys only. jsonl and rdb, which
redis-server loads, have the types, lifetimes and databases that a server keeps.

--tree is the inverse of `load --tree`. Every key must be a path within DIR, without
`..`, `.` except in front as tar has it, an empty part or a zero byte, and none may be
both a file and a directory: otherwise nothing is written. Links in DIR are not
followed. Each file is complete or absent.

--salvage reads a table that is damaged, truncated or without a header. It writes
pairs with intact checksums, and pairs whose checksums alone are damaged, and
names on standard error what is lost and why. The exit status is 1 if anything
is, or may be, lost. It reads the file without its log.";

/// Write all pairs to standard output
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Dump {
    /// The table or dictionary
    file: PathBuf,
    /// Format of a pair: tsv, csv, jsonl, raw, lines, parquet, sql, gdbm, gdbm-flat, db, db-hex, mdb, cdbmake, rdb
    #[arg(long, short, value_enum, default_value = "tsv", hide_possible_values = true, value_name = "FORMAT")]
    format: WriteFormat,
    #[command(flatten)]
    filter: KeyFilter,
    #[command(flatten)]
    limit: Limit,
    #[command(flatten)]
    part: PartArgs,
    /// Write each pair to a file of its own instead: the key is its path in DIR, the value its contents
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "salvage"])]
    tree: Option<PathBuf>,
    /// With --tree: replace files that exist
    #[arg(long, requires = "tree")]
    force: bool,
    /// Write the pairs of a damaged table that can still be read
    #[arg(long, conflicts_with_all = ["key_prefix", "key_regex", "limit", "part"])]
    salvage: bool,
    /// With --salvage: leave out pairs whose checksums are damaged
    #[arg(long, requires = "salvage")]
    only_verified: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Dump {
    pub fn run(self) -> Result<()> {
        if self.salvage {
            refuse_terminal(self.format.0)?;
            if stored(&self.file).is_ok_and(|kind| kind == Some(StoreKind::Dictionary)) {
                let file = self.file.display();
                return Err(Failure::usage(format_args!(
                    "{file}: is a dictionary; --salvage is for tables. Build it again from its original input"
                )));
            }
            return salvage::run(&self.file, self.format.0, self.only_verified);
        }
        let interrupt = Interrupt::watch()?;
        let store = Store::open(&self.file, self.reading)?;
        match &self.tree {
            Some(root) => self.write_tree(&store, root, &interrupt)?,
            None => self.write(&store, &interrupt)?,
        }
        if !self.has_types() {
            self.say_what_is_not_in_it(&store)?;
        }
        Ok(())
    }

    fn say_what_is_not_in_it(&self, store: &Store) -> Result<()> {
        let file = self.file.display();
        if store.has_marks()? {
            say(format_args!("splitpoint: {file}: lifetimes and flags that a server keeps in it are not in the dump"));
        }
        for (number, path) in databases(&self.file)?.1 {
            let path = path.display();
            say(format_args!(
                "splitpoint: {file}: database {number}, in {path}, is not in the dump; --format jsonl has it"
            ));
        }
        Ok(())
    }

    /// Whether fields of hashes have lifetimes, in any of the databases. O(keys).
    fn has_field_lifetimes(&self, store: &Store) -> Result<bool> {
        let mut found = store.has_field_lifetimes()?;
        for (_, path) in databases(&self.file)?.1 {
            found = found || Store::open(&path, self.reading)?.has_field_lifetimes()?;
        }
        Ok(found)
    }

    /// Writes the chosen pairs to standard output.
    fn write(&self, store: &Store, interrupt: &Interrupt) -> Result<()> {
        let format = self.format.0;
        refuse_terminal(format)?;
        let text = if format == Format::Parquet { self.are_text(store, interrupt)? } else { (false, false) };
        let has_field_lifetimes = format == Format::Rdb && self.has_field_lifetimes(store)?;
        let file_bytes = self.file.metadata().map_or(0, |metadata| metadata.len());
        let mut pairs = store.part(&self.part)?;
        let mut dumping = Dumping {
            dump: self,
            out: Output::stdout(),
            row: Vec::new(),
            rows: 0,
            read: 0,
            progress: Progress::of_output("writing", "pair", Some(self.part.of(store.len()))),
            interrupt,
            stopped_by: None,
        };
        let about = About { file: &self.file, file_bytes, text, has_field_lifetimes };
        let mut writer = Writer::begin(format, &about, &mut dumping.row).map_err(|what| dumping.failed(what))?;
        let all = match store.entries(&self.part)? {
            Some(entries) if self.has_types() && (store.has_marks()? || databases(&self.file)? != (0, Vec::new())) => {
                dumping.databases(entries, &mut writer)
            }
            _ => dumping.all(&mut *pairs, &mut writer),
        };
        // Write every earlier pair, also after a failure.
        dumping.write()?;
        dumping.progress.clear();
        dumping.out.flush()?;
        let note = all?;
        if let Some(signal) = dumping.stopped_by {
            return Err(Failure::stopped(signal, stopped(dumping.rows, format)));
        }
        if let Some(note) = note {
            say(format_args!("splitpoint: {}: {note}", self.file.display()));
        }
        Ok(())
    }

    /// Whether the format has types and lifetimes.
    fn has_types(&self) -> bool {
        self.tree.is_none() && matches!(self.format.0, Format::Jsonl | Format::Rdb)
    }

    /// Whether all keys and all values of the chosen pairs are UTF-8.
    fn are_text(&self, store: &Store, interrupt: &Interrupt) -> Result<(bool, bool)> {
        let (mut keys, mut values, mut taken) = (true, true, 0);
        let mut pairs = store.part(&self.part)?;
        while (keys || values) && !self.is_full(taken) {
            interrupt.stop_if_caught("nothing was written")?;
            let Some((key, value)) = pairs.next_ref()? else { break };
            if self.filter.takes(key) {
                keys = keys && std::str::from_utf8(key).is_ok();
                values = values && std::str::from_utf8(value).is_ok();
                taken += 1;
            }
        }
        Ok((keys, values))
    }

    /// Writes each chosen pair to a file below `root`.
    fn write_tree(&self, store: &Store, root: &Path, interrupt: &Interrupt) -> Result<()> {
        let path_of = |key: &[u8]| root.join(OsStr::from_bytes(write_tree::path_of(key)));
        let is_key = |key: &[u8]| Ok(self.filter.takes(key) && store.contains(key)?);
        let own = own_files(&self.file);
        let mut total = 0;
        self.each(store, |Pair { key, .. }| {
            interrupt.stop_if_caught("nothing was written")?;
            total += 1;
            write_tree::refuse_key(&self.file, key, is_key)?;
            write_tree::refuse_obstacle(root, &path_of(key), self.force)?;
            refuse_own(&own, &path_of(key))
        })?;
        fs::create_dir_all(root).map_err(|error| Failure::io(root.display(), &error))?;
        let progress = Progress::of_output("writing", "file", Some(total));
        let mut files = 0;
        let written = self.each(store, |Pair { key, value }| {
            let done = || format!("{} in {}, all complete", count_of(files, "file"), root.display());
            if let Some(signal) = interrupt.caught() {
                return Err(Failure::stopped(signal, done()));
            }
            if files.is_multiple_of(STEPS_PER_TICK) {
                progress.at(files);
            }
            let path = path_of(key);
            // Checked again, because the directory may have changed.
            write_tree::refuse_obstacle(root, &path, self.force)
                .and_then(|()| write_tree::write(&path, value).map_err(|error| Failure::io(path.display(), &error)))
                .map_err(|failure| failure.and(format_args!("Stopped after {}", done())))?;
            files += 1;
            Ok(())
        });
        progress.clear();
        written
    }

    /// Calls `take` with each chosen pair.
    fn each(&self, store: &Store, mut take: impl FnMut(Pair<'_>) -> Result<()>) -> Result<()> {
        let (mut pairs, mut taken) = (store.part(&self.part)?, 0);
        while !self.is_full(taken)
            && let Some((key, value)) = pairs.next_ref()?
        {
            if self.filter.takes(key) {
                taken += 1;
                take(Pair { key, value })?;
            }
        }
        Ok(())
    }

    /// Whether the number of `rows` has reached the user's limit.
    fn is_full(&self, rows: u64) -> bool {
        self.limit.limit.is_some_and(|limit| rows >= limit)
    }
}

struct Dumping<'d> {
    dump: &'d Dump,
    out: Output,
    /// Whole pairs not yet written.
    row: Vec<u8>,
    rows: u64,
    /// Pairs read so far, whether written or not.
    read: u64,
    progress: Progress,
    interrupt: &'d Interrupt,
    stopped_by: Option<Signal>,
}

impl Dumping<'_> {
    /// Writes the keys of the file, and of the other databases if the format has them.
    fn databases(&mut self, entries: StoredScan<'_>, writer: &mut Writer) -> Result<Option<String>> {
        let (number, sidecars) = databases(&self.dump.file)?;
        self.entries(entries, number, writer)?;
        for (number, path) in sidecars {
            let store = Store::open(&path, self.dump.reading)?;
            if let Some(entries) = store.entries(&self.dump.part)? {
                self.entries(entries, number, writer)?;
            }
        }
        if self.stopped_by.is_some() {
            return Ok(None);
        }
        writer.end(&mut self.row).map_err(|what| self.failed(what))
    }

    fn entries(&mut self, mut entries: StoredScan<'_>, database: u64, writer: &mut Writer) -> Result<()> {
        while !self.dump.is_full(self.rows) && self.stopped_by.is_none() {
            self.stopped_by = self.interrupt.caught();
            let Some((mut entry, form)) = entries.next_entry()? else { break };
            self.read += 1;
            if self.read.is_multiple_of(STEPS_PER_TICK) {
                self.progress.at(self.read);
            }
            if self.stopped_by.is_some() || !self.dump.filter.takes(&entry.key) {
                continue;
            }
            entry.database = database;
            writer.entry(&entry, form, &mut self.row).map_err(|what| self.failed(what))?;
            if self.row.len() >= WRITE_BYTES {
                self.write()?;
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// Writes pairs up to the end or a signal; returns a note about the file for the user.
    fn all(&mut self, pairs: &mut dyn PairStream, writer: &mut Writer) -> Result<Option<String>> {
        while !self.dump.is_full(self.rows) {
            self.stopped_by = self.interrupt.caught();
            if self.stopped_by.is_some() {
                return Ok(None);
            }
            let Some((key, value)) = pairs.next_ref()? else { break };
            self.read += 1;
            if self.read.is_multiple_of(STEPS_PER_TICK) {
                self.progress.at(self.read);
            }
            if !self.dump.filter.takes(key) {
                continue;
            }
            let whole = self.row.len();
            if let Err(what) = writer.pair(Pair { key, value }, &mut self.row) {
                self.row.truncate(whole);
                return Err(self.failed(what));
            }
            if self.row.len() >= WRITE_BYTES {
                self.write()?;
            }
            self.rows += 1;
        }
        writer.end(&mut self.row).map_err(|what| self.failed(what))
    }

    fn write(&mut self) -> Result<()> {
        self.out.write(&self.row)?;
        self.row.clear();
        Ok(())
    }

    fn failed(&self, what: String) -> Failure {
        Failure::no(format_args!("{}: {what}", self.dump.file.display()))
    }
}

/// Refuses to write a binary format to a terminal.
fn refuse_terminal(format: Format) -> Result<()> {
    if matches!(format, Format::Parquet | Format::Rdb) && std::io::stdout().is_terminal() {
        let name = format.name();
        return Err(Failure::usage(format_args!(
            "{name} is not text for a terminal; write it to a file, as in `... > FILE.{name}`"
        )));
    }
    Ok(())
}
