//! Reads the keys of a study: from files, tables and dictionaries, or from this machine. A study may read them several
//! times.

use crate::access;
use crate::failure::{Failure, Result};
use crate::format::options::{Column, parse_column};
use crate::format::{Format, Pair};
use crate::input::{Input, Taken};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::output::say;
use crate::source::{End, Inputs, SourceArgs};
use splitpoint_lab::keys::Keys;
use splitpoint_lab::machine::{self, EntryKind};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub const KEYS_HELP: &str = "\
KEYS are files, tables or dictionaries, or - for standard input. The format of
a file is that of --format, else of its name, else lines:
  tsv, csv, parquet   a column: --key, else the first
  jsonl, raw          the keys of the pairs
  u32le, u64le        integers of 4 or 8 bytes
With --source, KEYS are directories, and the keys come from this machine:
  paths    paths of all files          inodes   their inode numbers, 8 bytes
  blocks   their block numbers on the device, 8 bytes (4 KiB each)
  pids     all process numbers, 4 bytes; takes no directory";

/// The format of a file of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KeyFormat {
    Lines,
    Tsv,
    Csv,
    Jsonl,
    Raw,
    Parquet,
    U32le,
    U64le,
}

/// The kinds of keys from this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MachineSource {
    Paths,
    Inodes,
    Blocks,
    Pids,
}

/// The options for reading keys, shared by `lab hash` and `lab schemes`.
#[derive(clap::Args)]
pub struct KeyArgs {
    /// Files of keys, or - for standard input; with --source, directories
    #[arg(value_name = "KEYS")]
    inputs: Vec<PathBuf>,
    /// Format of KEYS [default: by the file name, else lines]
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "lines|tsv|csv|jsonl|raw|parquet|u32le|u64le"
    )]
    format: Option<KeyFormat>,
    /// Column of the keys, by name or number from 1, as @2 if a column may be called 2 (csv, tsv, parquet) [default:
    /// the first]
    #[arg(long, value_name = "COLUMN", value_parser = parse_column)]
    key: Option<Column>,
    /// csv: the first line is data, and columns are named by number
    #[arg(long)]
    no_header: bool,
    /// Take keys from this machine: from the directories KEYS, or from its processes
    #[arg(long, value_enum, hide_possible_values = true, value_name = "paths|inodes|blocks|pids")]
    source: Option<MachineSource>,
}

impl KeyArgs {
    /// Describes the source of the keys, for reports.
    pub fn describe(&self) -> String {
        let names: Vec<_> = self.inputs.iter().map(|path| path.display().to_string()).collect();
        match self.source {
            None => names.join(", "),
            Some(MachineSource::Paths) => format!("paths in {}", names.join(", ")),
            Some(MachineSource::Inodes) => format!("inode numbers in {}", names.join(", ")),
            Some(MachineSource::Blocks) => format!("block numbers in {}", names.join(", ")),
            Some(MachineSource::Pids) => "process numbers".to_owned(),
        }
    }

    /// Permissions of an output that shows the keys: equal to the permissions of the files with the keys. Only the user
    /// may read an output with keys of this machine.
    pub fn permissions(&self) -> u32 {
        match self.source {
            None => access::common(self.inputs.iter().map(PathBuf::as_path)),
            Some(_) => access::OWNER,
        }
    }

    /// Checks the options; reads nothing yet.
    ///
    /// # Errors
    /// No KEYS, or options that exclude each other.
    pub fn open<'i>(&self, interrupt: &'i Interrupt) -> Result<KeyReader<'_, 'i>> {
        match self.source {
            Some(MachineSource::Pids) if !self.inputs.is_empty() => {
                return Err(Failure::usage("--source pids takes no KEYS"));
            }
            Some(MachineSource::Pids) => {}
            _ if self.inputs.is_empty() => return Err(Failure::usage("no KEYS; give a file, or - for standard input")),
            _ => {}
        }
        if self.source.is_some() && (self.format.is_some() || self.key.is_some() || self.no_header) {
            return Err(Failure::usage("--source takes no --format, --key or --no-header; those are for files"));
        }
        Ok(KeyReader { args: self, interrupt, spool: None })
    }
}

/// Reads the keys, each time from the first.
pub struct KeyReader<'a, 'i> {
    args: &'a KeyArgs,
    interrupt: &'i Interrupt,
    /// A copy of input that can be read only once: for each key a length of 4 bytes, and the key.
    spool: Option<File>,
}

impl KeyReader<'_, '_> {
    /// Passes every key to `take`, in the same order each time.
    ///
    /// # Errors
    /// Unreadable input, bad rows, a signal.
    pub fn each(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(spool) = &mut self.spool {
            return replay(spool, self.interrupt, take);
        }
        if let Some(source) = self.args.source {
            return self.each_of_machine(source, take);
        }
        if self.args.inputs.iter().all(|path| path.is_file()) {
            return self.each_of_files(take);
        }
        let name = "a temporary file for the keys";
        let file = tempfile::tempfile().map_err(|e| Failure::io(name, &e))?;
        let mut writer = BufWriter::new(file);
        let mut written = Ok(());
        self.each_of_files(&mut |key| {
            if written.is_ok() {
                let len = u32::try_from(key.len()).expect("a row is shorter than 4 GiB").to_le_bytes();
                written = writer.write_all(&len).and_then(|()| writer.write_all(key));
            }
            take(key);
        })?;
        written.map_err(|e| Failure::io(name, &e))?;
        self.spool = Some(writer.into_inner().map_err(|e| Failure::io(name, e.error()))?);
        Ok(())
    }

    /// Reads all keys into memory.
    ///
    /// # Errors
    /// The errors of [`each`](Self::each), and no keys.
    pub fn all(&mut self) -> Result<Keys> {
        let mut keys = Keys::new();
        self.each(&mut |key| keys.push(key))?;
        if keys.is_empty() {
            return Err(Failure::no(format_args!("{}: no keys", self.args.describe())));
        }
        Ok(keys)
    }

    fn each_of_files(&self, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        for path in &self.args.inputs {
            match self.args.format.unwrap_or_else(|| format_of(path)) {
                KeyFormat::U32le => self.each_integer(path, 4, take)?,
                KeyFormat::U64le => self.each_integer(path, 8, take)?,
                format => self.each_row(path, format, take)?,
            }
        }
        Ok(())
    }

    fn each_row(&self, path: &Path, format: KeyFormat, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let key = match format {
            KeyFormat::Tsv | KeyFormat::Csv | KeyFormat::Parquet if self.args.key.is_none() => Some(Column::Number(1)),
            _ => self.args.key.clone(),
        };
        // `None` for tables and dictionaries, which are recognized by their content.
        let args = SourceArgs::of_keys(source_format(format), key, self.args.no_header);
        let paths = [path.to_owned()];
        let mut inputs = Inputs::look(&paths, &args, self.interrupt)?;
        let end = inputs.feed(&mut |Pair { key, .. }, _| {
            take(key);
            Ok(None)
        })?;
        match end {
            End::Inputs => Ok(()),
            End::Bad(bad) => Err(Failure::no(bad)),
            End::Signal(signal) => Err(Failure::stopped(signal, "nothing was written")),
        }
    }

    fn each_integer(&self, path: &Path, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut input = Input::open(path, true, self.interrupt)?;
        loop {
            match input.exactly(bytes)? {
                Taken::Bytes(range) => take(input.bytes(range)),
                Taken::End => return Ok(()),
                Taken::Interrupted => self.interrupt.stop_if_caught("nothing was written")?,
                Taken::Short(short) => {
                    let name = input.name;
                    return Err(Failure::no(format_args!(
                        "{name}: ends with {short} bytes, an integer has {bytes}; check --format"
                    )));
                }
                Taken::TooLong => unreachable!("an integer is never too long"),
            }
        }
    }

    fn each_of_machine(&self, source: MachineSource, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        if source == MachineSource::Pids {
            let processes = machine::processes().map_err(|e| Failure::io("processes", &e))?;
            processes.iter().for_each(|number| take(&number.to_le_bytes()));
            return Ok(());
        }
        let (mut unreadable, mut unsupported, mut with_blocks) = (0, 0u64, 0u64);
        for root in &self.args.inputs {
            for entry in machine::walk(root).map_err(|e| Failure::of_kind(splitpoint::ErrorKind::Io, e))? {
                self.interrupt.stop_if_caught("nothing was written")?;
                let Some(entry) = entry else {
                    unreadable += 1;
                    continue;
                };
                match source {
                    MachineSource::Inodes => take(&entry.inode.to_le_bytes()),
                    MachineSource::Blocks if entry.kind == EntryKind::File => match machine::blocks(&entry.path) {
                        Ok(blocks) => {
                            with_blocks += 1;
                            blocks.into_iter().flatten().for_each(|block| take(&block.to_le_bytes()));
                        }
                        Err(_) => unsupported += 1,
                    },
                    MachineSource::Blocks => {}
                    MachineSource::Paths | MachineSource::Pids => take(entry.path.as_os_str().as_bytes()),
                }
            }
        }
        if unsupported > 0 && with_blocks == 0 {
            return Err(Failure::no(format_args!(
                "{}: the file system reports no block numbers, like tmpfs, overlay and network file systems; \
                 use a directory on ext4, xfs or btrfs",
                self.args.describe()
            )));
        }
        if unreadable + unsupported > 0 {
            let count = count_of(unreadable + unsupported, "path");
            say(format_args!("splitpoint: {}: {count} could not be read", self.args.describe()));
        }
        Ok(())
    }
}

fn format_of(path: &Path) -> KeyFormat {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("tsv") => KeyFormat::Tsv,
        Some("csv") => KeyFormat::Csv,
        Some("jsonl" | "ndjson" | "json") => KeyFormat::Jsonl,
        Some("raw") => KeyFormat::Raw,
        Some("parquet" | "pq") => KeyFormat::Parquet,
        Some("u32le") => KeyFormat::U32le,
        Some("u64le") => KeyFormat::U64le,
        _ => KeyFormat::Lines,
    }
}

fn source_format(format: KeyFormat) -> Format {
    match format {
        KeyFormat::Tsv => Format::Tsv,
        KeyFormat::Csv => Format::Csv,
        KeyFormat::Jsonl => Format::Jsonl,
        KeyFormat::Raw => Format::Raw,
        KeyFormat::Parquet => Format::Parquet,
        KeyFormat::Lines | KeyFormat::U32le | KeyFormat::U64le => Format::Lines,
    }
}

/// Passes the keys in `spool` to `take`.
fn replay(spool: &mut File, interrupt: &Interrupt, take: &mut dyn FnMut(&[u8])) -> Result<()> {
    let failed = |e| Failure::io("the temporary file of the keys", &e);
    spool.rewind().map_err(failed)?;
    let mut reader = BufReader::with_capacity(1 << 20, spool);
    let (mut len, mut key) = ([0; 4], Vec::new());
    loop {
        interrupt.stop_if_caught("nothing was written")?;
        match reader.read_exact(&mut len) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        key.resize(u32::from_le_bytes(len) as usize, 0);
        reader.read_exact(&mut key).map_err(failed)?;
        take(&key);
    }
}
