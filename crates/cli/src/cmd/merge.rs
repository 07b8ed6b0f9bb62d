//! `merge`: combines tables and dictionaries in a new table or dictionary.
//!
//! `load` and `dict build` do the work; they read tables and dictionaries like any other input.

use super::dict;
use super::load::{self, Load};
use crate::failure::{Failure, Result};
use crate::open::{CacheArgs, databases, stored};
use crate::source::{SourceArgs, foreign, refuse_address};
use clap::ValueEnum;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint merge all.spt monday.spt tuesday.spt
  splitpoint merge all.spd old.spd changes.spt --duplicates last

OUT is a dictionary if its name ends with .spd, else a table. `splitpoint load`
adds to an existing table, `splitpoint dict update` to an existing dictionary.
A table keeps the types, lifetimes and databases of tables that a server has used; a
dictionary has pairs alone.
After a signal (Ctrl-C) or an error OUT does not exist.";

/// Merge the pairs of tables, dictionaries, GDBM and cdb files into a new file
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Merge {
    /// The new table or dictionary
    out: PathBuf,
    /// Tables, dictionaries, GDBM and cdb files
    #[arg(required = true)]
    input: Vec<PathBuf>,
    /// What to do with duplicate keys: keep the value of the last or first INPUT, or stop [default: last; within a cdb
    /// file, first]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "last|first|error")]
    duplicates: Option<Duplicates>,
    /// Report as JSON, with the fields of `load` or `dict build`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Duplicates {
    Last,
    First,
    Error,
}

impl From<Duplicates> for load::Duplicates {
    fn from(duplicates: Duplicates) -> Self {
        match duplicates {
            Duplicates::Last => Self::Last,
            Duplicates::First => Self::First,
            Duplicates::Error => Self::Error,
        }
    }
}

impl From<Duplicates> for dict::Duplicates {
    fn from(duplicates: Duplicates) -> Self {
        match duplicates {
            Duplicates::Last => Self::Last,
            Duplicates::First => Self::First,
            Duplicates::Error => Self::Error,
        }
    }
}

impl Merge {
    pub fn run(self) -> Result<()> {
        let out = self.out.display();
        if self.out.metadata().is_ok_and(|out| !out.is_file() || out.len() > 0) {
            return Err(Failure::usage(format_args!(
                "{out}: exists; `splitpoint load` adds to a table, `splitpoint dict update` to a dictionary"
            )));
        }
        for input in &self.input {
            refuse_address(input)?;
            let failed = |error| Failure::io(input.display(), &error);
            if stored(input).map_err(failed)?.is_none() && foreign(input).map_err(failed)?.is_none() {
                let input = input.display();
                return Err(Failure::usage(format_args!(
                    "{input}: is neither a table, a dictionary, a GDBM nor a cdb file; `splitpoint load` reads \
                     other files"
                )));
            }
        }
        let mut source = SourceArgs::auto();
        source.cache = self.cache;
        let is_dictionary = self.out.extension().is_some_and(|extension| extension == "spd");
        if is_dictionary {
            let (duplicates, otherwise) = (self.duplicates.map(Into::into), dict::Duplicates::Last);
            return dict::Build::of(self.input, self.out, source, duplicates, otherwise, self.json).run();
        }
        if databases(&self.out)? != (0, Vec::new()) {
            return Err(Failure::usage(format_args!(
                "{out}: databases of an earlier table of this name are left ({out}-db1 to {out}-db15, {out}-order); \
                 remove them, or choose another name"
            )));
        }
        Load::whole(self.out, self.input, source, self.duplicates.map(Into::into), self.json).run()
    }
}
