//! `count`: the number of pairs, or of the pairs whose keys meet a condition.

use super::filter::KeyFilter;
use super::store::Store;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::open::ReadArgs;
use crate::output::Output;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint count users.spt
  splitpoint count users.spd --key-prefix al";

/// Print the number of pairs
///
/// Reads only the file's header, which has the number. Reads all pairs if there is a condition on keys, or if a server
/// stored lifetimes in the file.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Count {
    /// The table or dictionary
    file: PathBuf,
    #[command(flatten)]
    filter: KeyFilter,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Count {
    pub fn run(self) -> Result<()> {
        let store = Store::open(&self.file, self.reading)?;
        let count = if self.filter.takes_all() { store.count_keys()? } else { self.count_taken(&store)? };
        Output::stdout().line(&count.to_string())
    }

    fn count_taken(&self, store: &Store) -> Result<u64> {
        let interrupt = Interrupt::watch()?;
        let (mut pairs, mut count) = (store.pairs()?, 0);
        while let Some((key, _)) = pairs.next_ref()? {
            interrupt.stop_if_caught("not all keys were read")?;
            count += u64::from(self.filter.takes(key));
        }
        Ok(count)
    }
}
