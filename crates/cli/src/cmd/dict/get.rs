//! `dict get`: prints values.

use super::open;
use crate::cmd::get::ShownArgs;
use crate::cmd::{argument_bytes, key_absent};
use crate::failure::{Failure, Result};
use crate::format::{Pair, tsv};
use crate::input::{Input, Taken};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::output::Output;
use splitpoint::Dictionary;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Absent keys named on standard error; more are only counted.
const ABSENT_NAMED_MAX: u64 = 20;

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
    /// The keys, taken as bytes; put -- before keys that begin with -; a single - reads them from standard input, one
    /// per line
    #[arg(required = true, allow_negative_numbers = true)]
    key: Vec<OsString>,
    #[command(flatten)]
    shown: ShownArgs,
}

impl Get {
    pub fn run(self) -> Result<()> {
        let dictionary = open(&self.dict)?;
        let mut getting =
            Getting { get: &self, dictionary: &dictionary, out: Output::stdout(), row: Vec::new(), absent: 0 };
        if self.key == ["-"] {
            getting.keys_of_stdin()?;
        } else {
            for key in &self.key {
                getting.one(&argument_bytes(key, self.shown.escaped)?)?;
            }
        }
        getting.out.flush()?;
        if getting.absent == 0 { Ok(()) } else { Err(Failure::no_already_printed()) }
    }
}

struct Getting<'g> {
    get: &'g Get,
    dictionary: &'g Dictionary,
    out: Output,
    row: Vec<u8>,
    absent: u64,
}

impl Getting<'_> {
    fn keys_of_stdin(&mut self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let mut input = Input::open(Path::new("-"), &interrupt)?;
        let mut unescaped = Vec::new();
        let mut number: u64 = 0;
        loop {
            if let Some(signal) = interrupt.caught() {
                self.out.flush()?;
                return Err(Failure::stopped(signal, format_args!("{} looked up", count_of(number, "key"))));
            }
            let line = match input.line()? {
                Taken::Bytes(range) => input.bytes(range),
                Taken::Interrupted => continue,
                Taken::TooLong => return Err(Failure::usage(format_args!("stdin:{}: too long for a key", number + 1))),
                Taken::Short(_) | Taken::End => return Ok(()),
            };
            number += 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !self.get.shown.escaped {
                self.one(line)?;
                continue;
            }
            tsv::unescape(line, &mut unescaped)
                .map_err(|what| Failure::usage(format_args!("stdin:{number}: {what}")))?;
            self.one(&unescaped)?;
        }
    }

    fn one(&mut self, key: &[u8]) -> Result<()> {
        if let Some(value) = self.dictionary.get(key)? {
            self.row.clear();
            self.get.shown.write(Pair { key, value: &value }, &mut self.row);
            return self.out.write(&self.row);
        }
        self.absent += 1;
        if self.absent <= ABSENT_NAMED_MAX {
            eprintln!("splitpoint: {}", key_absent(&self.get.dict, key));
        } else if self.absent == ABSENT_NAMED_MAX + 1 {
            eprintln!("splitpoint: further absent keys are not named");
        }
        Ok(())
    }
}
