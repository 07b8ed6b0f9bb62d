//! `exists`: tests whether keys exist.

use super::keys::{Absent, KeyArgs};
use super::store::Store;
use crate::failure::Result;
use crate::open::ReadArgs;
use std::path::PathBuf;

/// Test whether keys exist (exit status only)
///
/// Prints nothing and exits with 0 if all keys exist. Names each absent key on standard error, and then exits with 1.
#[derive(clap::Args)]
pub struct Exists {
    /// The table or dictionary
    file: PathBuf,
    #[command(flatten)]
    keys: KeyArgs,
    /// Read \t \n \r \\ \xHH in the keys
    #[arg(long, short)]
    escaped: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Exists {
    pub fn run(self) -> Result<()> {
        let keys = self.keys.parse(self.escaped)?;
        let store = Store::open_for(&self.file, self.reading, &keys)?;
        let mut absent = Absent::default();
        let all = keys.each(|key| {
            if !store.contains(key)? {
                return absent.add(&self.file, key, |key| store.contains(key));
            }
            Ok(())
        });
        absent.result(all)
    }
}
