//! Keys given as arguments, or on standard input, one per line; and absent keys.

use super::{argument_bytes, key_absent};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::input::{Input, Taken};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::output::say;
use std::ffi::OsString;
use std::path::Path;

/// Absent keys to name on standard error; more are only counted.
const ABSENT_NAMED_MAX: u64 = 20;

#[derive(clap::Args)]
pub struct KeyArgs {
    /// The keys, taken as bytes; put -- before keys that begin with -; - alone reads them from standard input, one per
    /// line
    #[arg(required = true, allow_negative_numbers = true)]
    key: Vec<OsString>,
}

impl KeyArgs {
    /// Returns the keys, with their escapes undone if requested, before anything is opened.
    ///
    /// # Errors
    /// An unknown escape.
    pub fn parse(&self, escaped: bool) -> Result<Keys> {
        if self.key == ["-"] {
            return Ok(Keys::Stdin { escaped });
        }
        self.key.iter().map(|key| argument_bytes(key, escaped)).collect::<Result<_>>().map(Keys::Given)
    }
}

pub enum Keys {
    Given(Vec<Vec<u8>>),
    /// One per line.
    Stdin {
        escaped: bool,
    },
}

impl Keys {
    /// Calls `take` with each key.
    pub fn each(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Self::Given(keys) => keys.iter().try_for_each(|key| take(key)),
            Self::Stdin { escaped } => each_of_stdin(*escaped, &mut take),
        }
    }
}

fn each_of_stdin(escaped: bool, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let mut input = Input::open(Path::new("-"), true, &interrupt)?;
    input.skip_byte_order_mark()?;
    let mut unescaped = Vec::new();
    let mut number: u64 = 0;
    loop {
        if let Some(signal) = interrupt.caught() {
            return Err(Failure::stopped(signal, format_args!("after {}", count_of(number, "key"))));
        }
        let line = match input.line()? {
            Taken::Bytes(range) => input.bytes(range),
            Taken::Interrupted => continue,
            Taken::TooLong => return Err(Failure::usage(format_args!("stdin:{}: too long for a key", number + 1))),
            Taken::Short(_) | Taken::End => return Ok(()),
        };
        number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !escaped {
            take(line)?;
            continue;
        }
        escapes::unescape(line, &mut unescaped)
            .map_err(|what| Failure::usage(format_args!("stdin:{number}: {what}")))?;
        take(&unescaped)?;
    }
}

/// Counts absent keys and names the first ones.
#[derive(Default)]
pub struct Absent(u64);

impl Absent {
    /// Counts `key` and may name it. `is_there` looks up the key that `key` would be with --escaped.
    ///
    /// # Errors
    /// Returns the errors of `is_there`.
    pub fn add(&mut self, file: &Path, key: &[u8], is_there: impl FnOnce(&[u8]) -> Result<bool>) -> Result<()> {
        self.0 += 1;
        if self.0 <= ABSENT_NAMED_MAX {
            say(format_args!("splitpoint: {}", key_absent(file, key, is_there)?));
        } else if self.0 == ABSENT_NAMED_MAX + 1 {
            say("splitpoint: further absent keys are not named");
        }
        Ok(())
    }

    /// The exit status: 1 if any key was absent, unless looking them up or printing what was found failed.
    pub fn result(self, done: Result<()>) -> Result<()> {
        Failure::answer(self.0 == 0, done)
    }
}
