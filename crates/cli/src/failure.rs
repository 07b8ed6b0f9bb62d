//! The failure of a command: one message on standard error and one exit status.
//!
//! Every message is printed in one place, [`Failure::report`] (`output.rs`). The library's errors carry a message, a
//! hint and a status; the hint names no option, so this program adds its own. Other failures are made by cause, as in
//! [`Failure::no`] or [`Failure::usage`]; the end by a signal is made in `interrupt.rs`.

use splitpoint::ErrorKind;
use std::fmt::Display;
use std::io;

/// The question was answered, and the answer is no.
const EXIT_NO: u8 = 1;
/// The status that clap uses.
pub const EXIT_USAGE: u8 = 2;

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub struct Failure {
    /// `None`: print nothing, because the reader of our output has gone or the command has printed it already.
    pub message: Option<String>,
    pub status: u8,
}

impl Failure {
    pub fn no(message: impl Display) -> Self {
        Self::with_status(message, EXIT_NO)
    }

    /// The failure of a command that has printed the faults as its answer.
    pub fn no_already_printed() -> Self {
        Self { message: None, status: EXIT_NO }
    }

    pub fn usage(message: impl Display) -> Self {
        Self::with_status(message, EXIT_USAGE)
    }

    /// A failure with the status of a kind that the library has too.
    pub fn of_kind(kind: ErrorKind, message: impl Display) -> Self {
        Self::with_status(message, kind.exit_code())
    }

    /// `place` is the name of a file or of a stream.
    pub fn io(place: impl Display, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ErrorKind::DiskFull
            }
            _ => ErrorKind::Io,
        };
        Self::with_status(format_args!("{place}: {error}"), kind.exit_code())
    }

    /// Standard output could not be written. A closed pipe is the reader's choice (`| head`) and no failure.
    pub fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: None, status: 0 };
        }
        Self::io("standard output", &error)
    }

    /// The result of a command that answers yes or no by its exit status, after its output was `written`: a reader that
    /// has gone does not turn a no into a yes.
    pub fn answer(is_yes: bool, written: Result<()>) -> Result<()> {
        match written {
            Err(failure) if !failure.is_end_of_output() => Err(failure),
            written if is_yes => written,
            _ => Err(Self::no_already_printed()),
        }
    }

    /// Whether it is a library error of one of these kinds.
    pub fn is_of(&self, kinds: &[ErrorKind]) -> bool {
        kinds.iter().any(|kind| kind.exit_code() == self.status)
    }

    /// Whether the reader of our output has gone.
    pub fn is_end_of_output(&self) -> bool {
        self.message.is_none() && self.status == 0
    }

    /// Puts the location of the cause before the message.
    pub fn at(self, place: impl Display) -> Self {
        Self { message: self.message.map(|message| format!("{place}: {message}")), ..self }
    }

    /// Appends a sentence; pass it without its full stop.
    pub fn and(self, sentence: impl Display) -> Self {
        let message = self.message.map(|message| format!("{}. {sentence}.", message.trim_end_matches('.')));
        Self { message, ..self }
    }

    pub fn with_status(message: impl Display, status: u8) -> Self {
        Self { message: Some(message.to_string()), status }
    }
}

impl From<splitpoint::Error> for Failure {
    fn from(error: splitpoint::Error) -> Self {
        let message = match (error.hint(), options_for(&error)) {
            (Some(hint), Some(options)) => {
                format!("{}. {} ({options}).", error.message(), hint.trim_end_matches('.'))
            }
            _ => error.to_string(),
        };
        let status = match error.kind() {
            // The argument is the user's: a value outside its range, in this program's words.
            ErrorKind::InvalidArgument => EXIT_USAGE,
            kind => kind.exit_code(),
        };
        Self::with_status(message, status)
    }
}

/// Returns the options and commands of this program that do what the hint of `error` says.
fn options_for(error: &splitpoint::Error) -> Option<&'static str> {
    let advises = |what| error.hint().is_some_and(|hint| hint.contains(what));
    match error.kind() {
        ErrorKind::Duplicate => Some("--duplicates last, or first"),
        ErrorKind::Corrupt if advises("Check the dictionary") => Some("`splitpoint dict check FILE`"),
        ErrorKind::Corrupt if advises("reindex") => Some("`splitpoint dict reindex FILE NEW`"),
        ErrorKind::OutOfMemory if advises("index `page`") => Some("--memory SIZE, --index page"),
        ErrorKind::Corrupt if advises("salvage") => Some("`splitpoint check FILE`, `splitpoint dump FILE --salvage`"),
        ErrorKind::NotATable if advises("salvage") => Some("`splitpoint dump FILE --salvage`"),
        ErrorKind::InvalidArgument if advises("replace") => Some("--force"),
        ErrorKind::Locked if advises("Close") => Some("stop the server or other program that has it open"),
        _ => None,
    }
}
