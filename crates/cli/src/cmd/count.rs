//! `count`: the number of pairs.

use super::store::Store;
use crate::failure::Result;
use crate::output::Output;
use std::path::PathBuf;

/// Print the number of pairs
///
/// Reads only the header of the file, which has the number; a file in which a server stored lifetimes is scanned.
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
