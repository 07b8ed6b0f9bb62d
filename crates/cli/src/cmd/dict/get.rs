//! `dict get`: prints values.

use super::open;
use crate::cmd::get::{ShownArgs, print_values};
use crate::cmd::keys::KeyArgs;
use crate::cmd::store::Store;
use crate::failure::Result;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint dict get users.spd alice
  splitpoint dict get users.spd alice bob --json
  cut -f1 changes.tsv | splitpoint dict get users.spd - --escaped --json";

/// Print the values of keys
///
/// Prints values in the order of the keys, each followed by a newline; --raw leaves the newline out, so that the bytes
/// come out exactly as they went in. An absent key prints nothing, is named on standard error, and makes the exit
/// status 1.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Get {
    /// The dictionary
    dict: PathBuf,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    shown: ShownArgs,
}

impl Get {
    pub fn run(self) -> Result<()> {
        let keys = self.keys.parse(self.shown.escaped)?;
        let dictionary = Store::Dictionary(Box::new(open(&self.dict)?));
        print_values(&self.dict, &dictionary, &keys, &self.shown)
    }
}
