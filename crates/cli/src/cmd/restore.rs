//! `restore`: a backup back into its place, checked first.

use super::backup::{tell, with_bar};
use super::require_directory_of;
use crate::failure::Result;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint restore users.bak users.spt --force

The whole copy is checked before it takes FILE's name, and what was there stays
until then. A journal or a log beside the old FILE goes with it.";

/// Put a backup in the place of a table
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Restore {
    /// What `splitpoint backup` made, or any table
    backup: PathBuf,
    /// The table to be
    file: PathBuf,
    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,
}

impl Restore {
    pub fn run(self) -> Result<()> {
        require_directory_of(&self.file)?;
        with_bar(self.force, "nothing was restored", |copying| Ok(copying.restore(&self.backup, &self.file)?))?;
        tell(&self.file, &format!("restored from {}", self.backup.display()))
    }
}
