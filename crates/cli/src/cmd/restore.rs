//! `restore`: checks a backup and puts it in place of a table.

use super::backup::{refuse_swapped, report, with_bar};
use crate::failure::Result;
use crate::open::{CacheArgs, databases, require_directory_of};
use crate::output::say;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint restore users.bak users.spt --force

The copy is checked completely before it takes FILE's name; the old FILE stays
until then. The log of the old FILE is removed with it. A server's other databases, in
FILE-db1 to FILE-db15, stay as they are: restore each.";

/// Put a backup in place of a table
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Restore {
    /// A file made by `splitpoint backup`, or any table
    backup: PathBuf,
    /// The table to write
    file: PathBuf,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl Restore {
    pub fn run(self) -> Result<()> {
        require_directory_of(&self.file)?;
        refuse_swapped(&self.backup, &self.file)?;
        with_bar(self.force, self.cache.options(), "nothing was restored", |copying| {
            copying.restore(&self.backup, &self.file)
        })?;
        report(&self.file, self.cache, &format!("restored from {}", self.backup.display()))?;
        for (file, what) in [(&self.backup, "restored"), (&self.file, "replaced")] {
            for (number, path) in databases(file)?.1 {
                let (file, path) = (file.display(), path.display());
                say(format_args!("splitpoint: {file}: database {number}, in {path}, was not {what}"));
            }
        }
        Ok(())
    }
}
