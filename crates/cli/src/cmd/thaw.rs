//! `thaw`: turns a dictionary into a table.
//!
//! A new table gets the dictionary's hash function, so that pairs arrive bucket by bucket. It is made in a directory
//! of its own and gets its name when complete. An existing table takes the pairs in batches; if a server has stored
//! lifetimes or collections in it, one by one, like `load`.

use super::dictionary;
use crate::access;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped, parse_size_u32, rate, seconds};
use crate::open::{CacheArgs, opened, require_directory_of};
use crate::output::Output;
use crate::progress::Progress;
use serde_json::json;
use splitpoint::{Dictionary, HashKind, OutputFile, Table, TableOptions};
use splitpoint_server::keyspace::ServedFile;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};
use tempfile::TempDir;

/// The most pairs per batch.
const BATCH: usize = 256;
/// A batch ends with the pair that brings its keys and values to this many bytes.
const BATCH_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  splitpoint thaw users.spd users.spt

An existing table keeps its other pairs. After a signal (Ctrl-C) a new table does
not exist, and an existing one keeps the pairs it got. Until it is complete, a
new table is in a directory FILE-thaw-* of its own; you may remove one that a
killed thaw left behind.";

/// Put all pairs of a dictionary into a table
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Thaw {
    /// The dictionary
    dict: PathBuf,
    /// The table; created if missing
    file: PathBuf,
    /// Bytes of a primary page, 512 to 64K (for a new table)
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    page_size: Option<u32>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl Thaw {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let start = Instant::now();
        let dictionary = dictionary::open(&self.dict)?;
        require_directory_of(&self.file)?;
        let table_pairs = match self.file.metadata() {
            Ok(there) => {
                let is_empty = there.is_file() && there.len() == 0;
                let table = if is_empty {
                    opened(&self.file, self.options(&dictionary)?.open(&self.file))?
                } else {
                    self.cache.open_to_change(&self.file)?
                };
                let file = self.file.display();
                fill(&dictionary, &table, &interrupt, |pairs| format!("{pairs} in {file}"))?;
                closed(table)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.make(&dictionary, &interrupt)?,
            Err(error) => return Err(Failure::io(self.file.display(), &error)),
        };
        self.report(dictionary.len(), table_pairs, start)
    }

    /// Makes either a complete table or none.
    fn make(&self, dictionary: &Dictionary, interrupt: &Interrupt) -> Result<u64> {
        let file = self.file.display();
        let failed = |error: io::Error| Failure::io(&file, &error);
        let target = OutputFile::target(&self.file).map_err(failed)?;
        let unfinished = folder_beside(&target).map_err(failed)?;
        let path = unfinished.path().join(target.file_name().unwrap_or_default());
        let table = self.options(dictionary)?.open(&path)?;
        fill(dictionary, &table, interrupt, |_| format!("{file} was not created"))?;
        let pairs = closed(table)?;
        access::share(&path, [self.dict.as_path()]);
        // Unlike a rename, a link never replaces a file; but not every file system has links.
        let named = fs::hard_link(&path, &target).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::rename(&path, &target),
        });
        named.map_err(failed)?;
        match fs::File::open(directory_of(&target)).and_then(|directory| directory.sync_all()) {
            // The file system cannot sync directories.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {}
            synced => synced.map_err(failed)?,
        }
        Ok(pairs)
    }

    fn options(&self, dictionary: &Dictionary) -> Result<TableOptions> {
        let hash = dictionary.hash_function();
        if hash.kind() == HashKind::User {
            let name = self.dict.display();
            return Err(Failure::usage(format_args!("{name}: uses a hash function unknown to this program")));
        }
        let options = self.cache.options().create(true).hash(hash.kind()).seed(hash.seed());
        Ok(match self.page_size {
            Some(bytes) => options.page_bytes(bytes),
            None => options,
        })
    }

    fn report(&self, pairs: u64, table_pairs: u64, start: Instant) -> Result<()> {
        let time = start.elapsed();
        let mut out = Output::stdout();
        if self.json {
            return out.json(&json!({
                "file": self.file.to_string_lossy(),
                "pairs": pairs,
                "seconds": time.as_secs_f64(),
                "pairs_per_s": rate(pairs, time),
                "table_pairs": table_pairs,
            }));
        }
        let mut text = format!(
            "{}: {} in {}, {} pairs/s",
            self.file.display(),
            count_of(pairs, "pair"),
            seconds(time.as_secs_f64()),
            grouped(rate(pairs, time))
        );
        if table_pairs != pairs {
            text.push_str(&format!("; the table holds {}", count_of(table_pairs, "pair")));
        }
        out.line(&text)
    }
}

/// Syncs and closes; returns the number of pairs.
fn closed(table: Table) -> Result<u64> {
    table.checkpoint()?;
    let pairs = table.len();
    table.close()?;
    Ok(pairs)
}

/// Puts all pairs. After a signal, `left` turns the number of pairs stored so far into the message.
fn fill(dictionary: &Dictionary, table: &Table, interrupt: &Interrupt, left: impl Fn(&str) -> String) -> Result<()> {
    table.adopt_types(dictionary.types())?;
    let served = ServedFile::of(table)?;
    let progress = Progress::of_items("writing", "pair", Some(dictionary.len()));
    let mut pairs = dictionary.iter();
    let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(BATCH);
    let mut count: u64 = 0;
    loop {
        batch.clear();
        let mut bytes = 0;
        while batch.len() < BATCH
            && bytes < BATCH_BYTES
            && let Some((key, value)) = pairs.next_ref()?
        {
            bytes += key.len() + value.len();
            batch.push((key.to_vec(), value.to_vec()));
        }
        if batch.is_empty() {
            progress.clear();
            return Ok(());
        }
        if served.has_marks() {
            // Stored unchanged, a key could replace a collection, or a pair that the server keeps for itself.
            batch.iter().try_for_each(|(key, value)| served.put(key, value))?;
        } else {
            table.put_many(&batch)?;
        }
        count += batch.len() as u64;
        progress.at(count);
        if let Some(signal) = interrupt.caught() {
            progress.clear();
            table.checkpoint()?;
            return Err(Failure::stopped(signal, left(&count_of(count, "pair"))));
        }
    }
}

/// Creates an empty directory on the file system of `path`, removed with its contents when dropped.
fn folder_beside(path: &Path) -> io::Result<TempDir> {
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push("-thaw-");
    tempfile::Builder::new().prefix(&prefix).tempdir_in(directory_of(path))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
