//! One error type for the whole library: what happened, where, what to do.
//!
//! [`ErrorKind`] has stable numbers; the C codes, the program's exit status and the names of other front ends derive
//! from them. The messages are for people and may change.

use crate::io::atomic::Failed;
use std::fmt;
use std::io;
use std::path::Path;

/// The result of every fallible function of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error. The numbers are stable; new kinds get new numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum ErrorKind {
    /// An operating system error: a failed device, no permission, no such file.
    Io = 1,
    /// The disk is full, or the file has reached the length limit (`ulimit -f`). Nothing was changed.
    DiskFull = 2,
    /// A file is inconsistent: a checksum, a length, a chain.
    Corrupt = 3,
    /// Not a file of this library.
    NotATable = 4,
    /// A file of this library, in a version that this release does not read.
    Version = 5,
    /// The table was made with another hash function.
    WrongHash = 6,
    /// An option or argument outside its range.
    InvalidArgument = 7,
    /// A key above [`KEY_LEN_MAX`](crate::KEY_LEN_MAX) or a value above [`VALUE_LEN_MAX`](crate::VALUE_LEN_MAX).
    TooLong = 8,
    /// A write to a table opened for reading.
    ReadOnly = 9,
    /// Another process, or another handle, has the file open for writing.
    Locked = 10,
    /// An earlier failure made this handle unusable; reopen the table.
    Poisoned = 11,
    /// Waiting would never end: this thread holds a [`ValueRef`](crate::ValueRef) that blocks its own write, or calls
    /// from the progress function of a backup, check or compaction of the same table.
    WouldDeadlock = 12,
    /// Memory or address space for the table could not be allocated.
    OutOfMemory = 13,
    /// The handle was opened in a parent process.
    Forked = 14,
    /// Another process has written a checkpoint since the file was opened for reading; open it again.
    Stale = 15,
    /// Duplicate key where keys must be unique.
    Duplicate = 16,
    /// Cancelled by the caller.
    Stopped = 17,
    /// The log is full and a backup prevents a checkpoint; try again when the backup is done.
    Busy = 18,
    /// Not a dictionary, or a name at which something else exists.
    NotADictionary = 19,
    /// An earlier step of this build failed, or was cancelled; start it again.
    BuildFailed = 20,
    /// A typed table has types other than those it was opened with.
    WrongTypes = 21,
}

impl ErrorKind {
    /// The stable number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit status of the program for this kind.
    #[doc(hidden)] // the program's
    pub fn exit_code(self) -> u8 {
        // As with grep, 1 means "no" (key not found, faults found) and 2 a usage error; ours start at 10.
        10 + self as u8
    }
}

/// An error: its kind, a message that says what happened and where, a hint that says what to do, and its cause.
///
/// It displays as the message followed by the hint. Both are for people and may change; [`ErrorKind`] does not.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<io::Error>,
}

fn remedy_of_full_disk(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::FileTooLarge => "raise the limit on the length of a file",
        _ => "make room on the disk",
    }
}

impl Error {
    /// Creates an error for a program that uses the library: `message` says what happened and where, without a full
    /// stop at the end.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        debug_assert!(!message.ends_with('.') || message.ends_with("..."), "advice is the hint: {message}");
        Error(Box::new(Inner { kind, message, hint: None, source: None }))
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corrupt, message)
    }

    /// Damage in a table file: restore a backup, or salvage.
    pub(crate) fn corrupt_table(message: impl Into<String>) -> Self {
        Error::corrupt(message).with_hint("Restore a backup, or salvage what can still be read.")
    }

    /// Adds a hint on what to do: whole sentences, without command-line flags, since there are other front ends.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// An operating system error. `what` is the verb of the failed step, without its object: "open", "set the length
    /// of".
    pub(crate) fn io(path: &Path, what: &str, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                ErrorKind::DiskFull
            }
            io::ErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            _ => ErrorKind::Io,
        };
        let hint = match source.kind() {
            _ if kind == ErrorKind::DiskFull => {
                Some(format!("Nothing of this change was kept: {} and try again.", remedy_of_full_disk(&source)))
            }
            io::ErrorKind::Unsupported => {
                Some("Use another file system, or mount this one with options that give it what it lacks.".to_owned())
            }
            io::ErrorKind::InvalidFilename => {
                Some("Choose a shorter name: sidecar files add a suffix such as -log0 or -unfinished.".into())
            }
            _ => None,
        };
        let message = format!("cannot {what} {}: {source}", path.display());
        Error(Box::new(Inner { kind, message, hint, source: Some(source) }))
    }

    /// Adds the operating system's error, for callers that ask for it. The message already says what it means.
    pub(crate) fn with_source(mut self, source: io::Error) -> Self {
        self.0.source = Some(source);
        self
    }

    /// The error of a handle that can no longer write. Its hint replaces the advice to try again, which would not help.
    pub(crate) fn ending_writes(self) -> Self {
        match (self.kind(), &self.0.source) {
            (ErrorKind::DiskFull, Some(source)) => {
                let remedy = remedy_of_full_disk(source);
                self.with_hint(format!(
                    "No durable write is lost, but this handle takes no more: {remedy}, then open the table again."
                ))
            }
            _ => self,
        }
    }

    /// The error of a checkpoint that could not begin: the handle works again once there is disk space.
    pub(crate) fn before_checkpoint(self) -> Self {
        match (self.kind(), &self.0.source) {
            (ErrorKind::DiskFull, Some(source)) => {
                let remedy = remedy_of_full_disk(source);
                self.with_hint(format!("Nothing was changed: {remedy} and try again."))
            }
            _ => self,
        }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what happened and where.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns what to do about it, if anything helps.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl From<Failed> for Error {
    fn from(Failed { path, step, error }: Failed) -> Self {
        Error::io(&path, step, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.hint {
            Some(hint) => write!(f, ". {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The message already ends with the source, so a reporter that prints the whole chain repeats it. Callers that
        // need the `io::Error` get it by downcasting.
        self.0.source.as_ref().map(|e| e as _)
    }
}

/// `key` for an error message: escaped, and cut to a readable length.
pub(crate) fn quote(key: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    let shown = key[..key.len().min(SHOWN_MAX)].escape_ascii();
    let more = if key.len() > SHOWN_MAX { "..." } else { "" };
    format!("\"{shown}\"{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_its_own_kind() {
        let e = Error::io(Path::new("a.spt"), "write", io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(e.kind(), ErrorKind::DiskFull);
        assert!(e.to_string().starts_with("cannot write a.spt: "));
    }

    #[test]
    fn a_file_that_may_not_be_longer_is_a_full_disk_with_advice_of_its_own() {
        let e = Error::io(Path::new("a.spt"), "write", io::Error::from_raw_os_error(libc::EFBIG));
        assert_eq!(e.kind(), ErrorKind::DiskFull);
        assert!(e.to_string().contains("raise the limit on the length of a file"), "{e}");
        assert!(e.to_string().contains("try again"), "{e}");
        let e = e.ending_writes();
        assert!(e.to_string().contains("raise the limit on the length of a file, then open the table again"), "{e}");
        assert!(!e.to_string().contains("try again"), "{e}");
    }

    #[test]
    fn long_keys_are_cut_in_messages() {
        assert_eq!(quote(b"a\n"), "\"a\\n\"");
        assert!(quote(&[b'x'; 1000]).len() < 80);
    }
}
