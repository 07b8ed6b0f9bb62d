//! `backup`: one consistent copy of a table that may be in use.
//!
//! `restore` shares the copy and its progress bar; a signal ends both. Each copies one file, and names the databases of
//! a server that are in other files.

use super::{own_files, refuse_own};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{count_of, size};
use crate::open::{CacheArgs, ReadArgs, databases, require_directory_of};
use crate::output::{Output, say};
use crate::progress::Progress;
use splitpoint::{ErrorKind, TableOptions};
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
read and written; if that is interrupted, DEST has not changed. A server's databases
1 to 15 are files of their own, FILE-db1 to FILE-db15: back up each.";

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
        refuse_own(&own_files(&self.file), &self.dest)?;
        refuse_swapped(&self.file, &self.dest)?;
        let undone = if self.update { "the backup has not changed" } else { "no backup was made" };
        with_bar(self.force, self.reading.options(), undone, |copying| {
            if self.update {
                copying.update_file(&self.file, &self.dest)
            } else {
                copying.save_file(&self.file, &self.dest)
            }
        })?;
        report(&self.dest, self.reading.cache, &format!("backup of {}", self.file.display()))?;
        let (file, dest) = (self.file.display(), self.dest.display());
        for (number, path) in databases(&self.file)?.1 {
            let path = path.display();
            say(format_args!(
                "splitpoint: {file}: database {number}, in {path}, is not in the copy; `splitpoint backup {path} \
                 {dest}-db{number}` copies it"
            ));
        }
        Ok(())
    }
}

/// Refuses a copy that would be served as another database, because SWAPDB has exchanged the one in the file `from` or
/// in the file `to`.
pub fn refuse_swapped(from: &Path, to: &Path) -> Result<()> {
    let swapped = |path: &Path, number: u64, why: String| {
        let path = path.display();
        let what = format!("{path}: holds database {number} since a SWAPDB, {why}");
        Err(Failure::of_kind(ErrorKind::WrongTypes, what))
    };
    match (databases(from)?.0, databases(to)?.0) {
        (0, 0) => Ok(()),
        (0, number) => {
            let why =
                format!("and the copy would be served as database {number}. Nothing was copied; choose another name");
            swapped(to, number, why)
        }
        (number, _) => {
            let from_name = from.display();
            let why = format!(
                "and the copy would be served as database 0. Nothing was copied; `splitpoint dump {from_name} --format \
                 rdb` writes all databases, and `splitpoint load` reads them"
            );
            swapped(from, number, why)
        }
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
