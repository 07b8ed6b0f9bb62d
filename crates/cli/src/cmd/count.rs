//! `count`: the number of pairs.

use super::store::Store;
use crate::failure::Result;
use crate::output::Output;
use std::path::PathBuf;

/// Print the number of pairs
///
/// The file keeps it, so nothing is read but its header; a file with lifetimes of a server is scanned.
#[derive(clap::Args)]
pub struct Count {
    /// The table or dictionary
    file: PathBuf,
}

impl Count {
    pub fn run(self) -> Result<()> {
        Output::stdout().line(&Store::open(&self.file)?.count_keys()?.to_string())
    }
}
