//! `count`: the number of pairs.

use super::store::Store;
use crate::failure::Result;
use crate::output::Output;
use std::path::PathBuf;

/// Print the number of pairs
///
/// The file keeps it, so nothing is read but its header.
#[derive(clap::Args)]
pub struct Count {
    /// The table or dictionary
    file: PathBuf,
}

impl Count {
    pub fn run(self) -> Result<()> {
        Output::stdout().line(&Store::open(&self.file)?.len().to_string())
    }
}
