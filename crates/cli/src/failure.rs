//! How a command fails: one message on standard error and one exit status.
//!
//! Every message is printed in one place, [`Failure::report`]. The library's errors carry message and status, and the
//! program's advice is appended to them; other failures are made by cause, as in [`Failure::no`] or [`Failure::usage`].

use crate::interrupt::Signal;
use splitpoint::ErrorKind;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The question was answered, and the answer is no.
pub const EXIT_NO: u8 = 1;
/// The status that clap uses.
pub const EXIT_USAGE: u8 = 2;
/// A shell reports this plus the signal's number for a command that a signal ended.
pub const EXIT_SIGNAL_BASE: u8 = 128;

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub struct Failure {
    /// `None`: print nothing, because the reader of our output has gone or the command has printed it already.
    message: Option<String>,
    /// What to do about it, in this program's own words and options.
    hint: Option<&'static str>,
    status: u8,
}

impl Failure {
    pub fn no(message: impl Display) -> Self {
        Self::with_status(message, EXIT_NO)
    }

    /// For a command that has printed the faults as its answer.
    pub fn no_already_printed() -> Self {
        Self { message: None, hint: None, status: EXIT_NO }
    }

    pub fn usage(message: impl Display) -> Self {
        Self::with_status(message, EXIT_USAGE)
    }

    /// With the status of a kind that the library has too.
    pub fn of_kind(kind: ErrorKind, message: impl Display) -> Self {
        Self::with_status(message, kind.exit_code())
    }

    /// `place` is the name of a file or of a stream.
    pub fn io(place: impl Display, error: &io::Error) -> Self {
        Self::with_status(format_args!("{place}: {error}"), ErrorKind::Io.exit_code())
    }

    /// `done` says what is finished and how to continue.
    pub fn stopped(signal: Signal, done: impl Display) -> Self {
        Self::with_status(format_args!("stopped by {signal}: {done}"), EXIT_SIGNAL_BASE + signal.number())
    }

    /// Standard output could not be written. A closed pipe is the reader's choice (`| head`) and no failure.
    pub fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: None, hint: None, status: 0 };
        }
        Self::io("standard output", &error)
    }

    /// Whether it is an error of the library of one of these kinds.
    pub fn is_of(&self, kinds: &[ErrorKind]) -> bool {
        kinds.iter().any(|kind| kind.exit_code() == self.status)
    }

    fn with_status(message: impl Display, status: u8) -> Self {
        Self { message: Some(message.to_string()), hint: None, status }
    }

    /// Prints the message, and the hint after it.
    pub fn report(self) -> ExitCode {
        match (self.message, self.hint) {
            (Some(message), Some(hint)) => eprintln!("splitpoint: {message} {hint}"),
            (Some(message), None) => eprintln!("splitpoint: {message}"),
            (None, _) => {}
        }
        ExitCode::from(self.status)
    }
}

/// The library's errors name no option of this program; the hint does.
impl From<splitpoint::Error> for Failure {
    fn from(error: splitpoint::Error) -> Self {
        Self { hint: hint(error.kind()), ..Self::with_status(&error, error.kind().exit_code()) }
    }
}

fn hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Duplicate => Some("(--duplicates last, or first.)"),
        _ => None,
    }
}
