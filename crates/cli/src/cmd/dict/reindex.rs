//! `dict reindex`: rewrites a dictionary with another index or filter.

use super::options::{INDEX_HELP, IndexArgs, WorkArgs};
use super::{Report, bar_of_pairs, ended, watched};
use crate::cmd::dictionary::open;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::open::require_directory_of;
use crate::source::Read;
use splitpoint::DictionaryBuilder;
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  splitpoint dict reindex users.spd users-small.spd --index chunk --effort small
  splitpoint dict reindex users.spd users.spd --index page
  splitpoint dict reindex users.spd users.spd --filter 8";

fn after_help() -> String {
    format!(
        "{EXAMPLES}\n\nOne pass over OLD without a sort. Pages, compression and hash function stay.\n\
         So does the index without --index, and the filter without --filter.\n\n{INDEX_HELP}"
    )
}

fn what_is_new() -> clap::ArgGroup {
    clap::ArgGroup::new("new index").args(["index", "filter"]).required(true).multiple(true)
}

/// Rewrite a dictionary with another index or filter
#[derive(clap::Args)]
#[command(after_help = after_help(), group = what_is_new())]
pub struct Reindex {
    /// The dictionary
    old: PathBuf,
    /// The result; may be OLD
    new: PathBuf,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

impl Reindex {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let start = Instant::now();
        let old = open(&self.old)?;
        let index = self.index.index()?.unwrap_or_else(|| old.index());
        let filter = self.index.filter.unwrap_or_else(|| old.filter());
        let old = old.stat()?;
        require_directory_of(&self.new)?;
        let bar = bar_of_pairs();
        let builder = self.work.bound(DictionaryBuilder::new().index(index).filter(filter));
        let written = watched(builder, &interrupt, &bar).reindex(&self.old, &self.new);
        let left = format!("nothing was written, {} is unchanged", self.new.display());
        let rows = ended(written, &bar, &interrupt, &left)?;
        let read = Read { rows, bytes: old.file_bytes, ..Read::default() };
        Report { path: &self.new, read, start, json: self.json }.report()
    }
}
