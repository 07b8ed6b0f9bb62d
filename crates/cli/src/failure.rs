//! How a command fails: one sentence for standard error, and one exit status.
//!
//! The library's errors bring both. The rest are made here, by what happened: [`Failure::no`], [`Failure::usage`],
//! [`Failure::io`], [`Failure::stopped`], [`Failure::output`].

use crate::interrupt::Signal;
use splitpoint::ErrorKind;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The question was answered, and the answer is no.
pub const EXIT_NO: u8 = 1;
/// What clap uses too.
pub const EXIT_USAGE: u8 = 2;
/// What a shell shows for a command that a signal ended, less the signal's number.
pub const EXIT_SIGNAL_BASE: u8 = 128;

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub struct Failure {
    /// `None`: say nothing, the reader of our output has gone or the command has said it already.
    message: Option<String>,
    status: u8,
}

impl Failure {
    pub fn no(message: impl Display) -> Self {
        Self { message: Some(message.to_string()), status: EXIT_NO }
    }

    /// For a command that has printed what is wrong as its answer.
    pub fn no_said_already() -> Self {
        Self { message: None, status: EXIT_NO }
    }

    pub fn usage(message: impl Display) -> Self {
        Self { message: Some(message.to_string()), status: EXIT_USAGE }
    }

    /// Of what the library also has a kind for.
    pub fn of_kind(kind: ErrorKind, message: impl Display) -> Self {
        Self { message: Some(message.to_string()), status: kind.exit_code() }
    }

    /// `place` is a file's name, or what else could not be read or written.
    pub fn io(place: impl Display, error: &io::Error) -> Self {
        Self { message: Some(format!("{place}: {error}")), status: ErrorKind::Io.exit_code() }
    }

    /// `done` tells what is finished, and how to go on.
    pub fn stopped(signal: Signal, done: impl Display) -> Self {
        Self { message: Some(format!("stopped by {signal}: {done}")), status: EXIT_SIGNAL_BASE + signal.number() }
    }

    /// Standard output could not be written. A closed pipe is the reader's choice (`| head`) and no failure.
    pub fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: None, status: 0 };
        }
        Self::io("standard output", &error)
    }

    /// Is it an error of the library, of one of these kinds?
    pub fn is_of(&self, kinds: &[ErrorKind]) -> bool {
        kinds.iter().any(|kind| kind.exit_code() == self.status)
    }

    pub fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            eprintln!("splitpoint: {message}");
        }
        ExitCode::from(self.status)
    }
}

impl From<splitpoint::Error> for Failure {
    fn from(error: splitpoint::Error) -> Self {
        Self { message: Some(error.to_string()), status: error.kind().exit_code() }
    }
}
