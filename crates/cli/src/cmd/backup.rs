//! `backup`: one consistent copy of a table that may be in use.
//!
//! `restore` shares the copy and its progress bar; a signal ends both.

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{count_of, size};
use crate::open::{CacheArgs, ReadArgs, require_directory_of};
use crate::output::Output;
use crate::progress::Progress;
use splitpoint::TableOptions;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  splitpoint backup users.spt users.bak
  splitpoint backup users.spt /mnt/backups/users.spt --force
  splitpoint backup users.spt users.bak --update

The copy is a table that you can open; `splitpoint restore` puts it back. It has
every write that returned before, also of a process that has the table open for
writing, unless its durability is `none`. DEST is written under another name
first, so it is complete or absent. With --update only what has changed since is
read and written; if that is interrupted, DEST has not changed.";

/// Copy a table to one file while it is in use
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Backup {
    /// The table
    file: PathBuf,
    /// The copy
    dest: PathBuf,
    /// Replace DEST if it exists
    #[arg(long)]
    force: bool,
    /// Bring DEST, an earlier backup of FILE, up to date
    #[arg(long, conflicts_with = "force")]
    update: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Backup {
    pub fn run(self) -> Result<()> {
        require_directory_of(&self.dest)?;
        let undone = if self.update { "the backup has not changed" } else { "no backup was made" };
        with_bar(self.force, self.reading.options(), undone, |copying| {
            if self.update {
                copying.update_file(&self.file, &self.dest)
            } else {
                copying.save_file(&self.file, &self.dest)
            }
        })?;
        report(&self.dest, self.reading.cache, &format!("backup of {}", self.file.display()))
    }
}

/// Runs `copy` with a progress bar. If a signal ends it, the error says `undone`.
pub fn with_bar(
    force: bool,
    options: TableOptions,
    undone: &str,
    copy: impl FnOnce(&mut splitpoint::Backup<'_>) -> splitpoint::Result<()>,
) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let progress = Progress::of_bytes("copying", Some(1));
    let copying = splitpoint::Backup::new().overwrite(force).options(options);
    let mut copying = copying.progress(|done, all| {
        progress.set_total(all);
        progress.at(done);
        if interrupt.caught().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let copied = copy(&mut copying);
    drop(copying);
    progress.clear();
    match copied {
        Err(error) if error.kind() == splitpoint::ErrorKind::Stopped => interrupt.stop_if_caught(undone),
        copied => Ok(copied?),
    }
}

/// Prints what the file holds now.
pub fn report(path: &Path, cache: CacheArgs, what: &str) -> Result<()> {
    // The file exists even if this program does not know the hash function to open it with.
    let pairs = cache.open_to_read(path).map_or(String::new(), |table| count_of(table.len(), "pair") + " in ");
    let bytes = path.metadata().map_err(|error| Failure::io(path.display(), &error))?.len();
    Output::stdout().line(&format!("{}: {what}, {pairs}{}", path.display(), size(bytes)))
}
