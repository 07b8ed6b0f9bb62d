//! Keys for the lab: of files in any format, of tables and dictionaries, or taken from this machine; read as often as a study asks.

use crate::failure::{Failure, Result};
use crate::format::Pair;
use crate::input::{Input, Taken};
use crate::interrupt::Interrupt;
use crate::source::columns::{Column, parse_column};
use crate::source::{End, Inputs, SourceArgs, SourceFormat};
use splitpoint_lab::keys::Keys;
use splitpoint_lab::machine::{self, EntryKind};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub const KEYS_HELP: &str = "\
KEYS are files: lines by default, or what their name or --format says (.tsv,
.csv, .parquet: a column, the first or --key; .jsonl, .raw: the pairs' keys;
u32le, u64le: integers, 4 or 8 bytes each), tables and dictionaries, - for
standard input. With --source they are folders, and the keys this machine's:
  paths    paths of all files          inodes   their inode numbers, 8 bytes
  blocks   numbers of their blocks on the device, 8 bytes (4 KiB each)
  pids     numbers of all processes, 4 bytes; no folder";

/// How keys are written.
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

/// What this machine can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MachineSource {
    Paths,
    Inodes,
    Blocks,
    Pids,
}

/// Where keys come from; the same for every command of the lab.
#[derive(clap::Args)]
pub struct KeyArgs {
    /// Files of keys, or - for standard input; with --source folders
    #[arg(value_name = "KEYS")]
    inputs: Vec<PathBuf>,
    /// How keys are written [default: by the name of KEYS, else lines]
    #[arg(
        long,
        short,
        value_enum,
        hide_possible_values = true,
        value_name = "lines|tsv|csv|jsonl|raw|parquet|u32le|u64le"
    )]
    format: Option<KeyFormat>,
    /// The keys' column, by name or number from 1 (csv, tsv, parquet) [default: the first]
    #[arg(long, value_name = "COLUMN", value_parser = parse_column)]
    key: Option<Column>,
    /// With csv: the first line is a key too, and columns have numbers only
    #[arg(long)]
    no_header: bool,
    /// Keys of this machine: of the folders KEYS, or its processes
    #[arg(long, value_enum, hide_possible_values = true, value_name = "paths|inodes|blocks|pids")]
    source: Option<MachineSource>,
}

impl KeyArgs {
    /// What the keys are of, for reports.
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

    /// # Errors
    /// No keys asked for, or options that do not go together.
    pub fn open<'i>(&self, interrupt: &'i Interrupt) -> Result<KeyReader<'_, 'i>> {
        match self.source {
            Some(MachineSource::Pids) if !self.inputs.is_empty() => {
                return Err(Failure::usage("--source pids takes no folder"));
            }
            Some(MachineSource::Pids) => {}
            _ if self.inputs.is_empty() => return Err(Failure::usage("no KEYS; give a file, or - for standard input")),
            _ => {}
        }
        if self.source.is_some() && (self.format.is_some() || self.key.is_some() || self.no_header) {
            return Err(Failure::usage(
                "--source makes the keys itself; --format, --key and --no-header are for files",
            ));
        }
        Ok(KeyReader { args: self, interrupt, spool: None })
    }
}

/// Gives the keys, each time from the first.
pub struct KeyReader<'a, 'i> {
    args: &'a KeyArgs,
    interrupt: &'i Interrupt,
    /// Keys of what can be read once only, as lengths of 4 bytes and keys.
    spool: Option<File>,
}

impl KeyReader<'_, '_> {
    /// Gives every key to `take`, in an order that repeats.
    ///
    /// # Errors
    /// What cannot be read, bad rows, a signal.
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
                let len = u32::try_from(key.len()).expect("rows are shorter").to_le_bytes();
                written = writer.write_all(&len).and_then(|()| writer.write_all(key));
            }
            take(key);
        })?;
        written.map_err(|e| Failure::io(name, &e))?;
        self.spool = Some(writer.into_inner().map_err(|e| Failure::io(name, e.error()))?);
        Ok(())
    }

    /// All keys in memory.
    ///
    /// # Errors
    /// As [`each`](Self::each).
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
        // None for a table or a dictionary, which is found by its content.
        let args = SourceArgs::of_keys(source_format(format), key, self.args.no_header);
        let paths = [path.to_owned()];
        let mut inputs = Inputs::look(&paths, &args, self.interrupt)?;
        let end = inputs.feed(&mut |Pair { key, .. }, _| {
            take(key);
            Ok(())
        })?;
        match end {
            End::Inputs => Ok(()),
            End::Bad(bad) => Err(Failure::no(bad)),
            End::Signal(signal) => Err(Failure::stopped(signal, "nothing was written")),
        }
    }

    fn each_integer(&self, path: &Path, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut input = Input::open(path, self.interrupt)?;
        loop {
            match input.exactly(bytes)? {
                Taken::Bytes(range) => take(input.bytes(range)),
                Taken::End => return Ok(()),
                Taken::Interrupted => self.interrupt.stop_if_caught("nothing was written")?,
                Taken::Short(short) => {
                    let name = input.name;
                    return Err(Failure::no(format_args!(
                        "{name}: ends with {short} bytes that are no integer of {bytes}; is it of another --format?"
                    )));
                }
                Taken::TooLong => unreachable!("a few bytes are never too long"),
            }
        }
    }

    fn each_of_machine(&self, source: MachineSource, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        if source == MachineSource::Pids {
            let processes = machine::processes().map_err(|e| Failure::io("processes", &e))?;
            processes.iter().for_each(|number| take(&number.to_le_bytes()));
            return Ok(());
        }
        let (mut unread, mut refused, mut told) = (0, 0u64, 0u64);
        for root in &self.args.inputs {
            for entry in machine::walk(root).map_err(|e| Failure::of_kind(splitpoint::ErrorKind::Io, e))? {
                self.interrupt.stop_if_caught("nothing was written")?;
                let Some(entry) = entry else {
                    unread += 1;
                    continue;
                };
                match source {
                    MachineSource::Inodes => take(&entry.inode.to_le_bytes()),
                    MachineSource::Blocks if entry.kind == EntryKind::File => match machine::blocks(&entry.path) {
                        Ok(blocks) => {
                            told += 1;
                            blocks.into_iter().flatten().for_each(|block| take(&block.to_le_bytes()));
                        }
                        Err(_) => refused += 1,
                    },
                    MachineSource::Blocks => {}
                    MachineSource::Paths | MachineSource::Pids => take(entry.path.as_os_str().as_bytes()),
                }
            }
        }
        if refused > 0 && told == 0 {
            return Err(Failure::no(format_args!(
                "{}: the file system tells no block numbers (tmpfs, overlay and network ones do not); try a folder on ext4, xfs or btrfs",
                self.args.describe()
            )));
        }
        if unread + refused > 0 {
            eprintln!("splitpoint: {} things in {} could not be read", unread + refused, self.args.describe());
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

fn source_format(format: KeyFormat) -> SourceFormat {
    match format {
        KeyFormat::Tsv => SourceFormat::Tsv,
        KeyFormat::Csv => SourceFormat::Csv,
        KeyFormat::Jsonl => SourceFormat::Jsonl,
        KeyFormat::Raw => SourceFormat::Raw,
        KeyFormat::Parquet => SourceFormat::Parquet,
        KeyFormat::Lines | KeyFormat::U32le | KeyFormat::U64le => SourceFormat::Lines,
    }
}

/// Gives the keys that were written to `spool`.
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
