//! The codes of `spt_status`, and the last errors of each thread with their messages.
//!
//! Codes up to 199 are those of [`ErrorKind`]; codes from 200 on are the border's own.

use splitpoint::{Error, ErrorKind};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;

/// `spt_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Status(c_int);

/// Success.
pub(crate) const OK: Status = Status(0);

/// Defines the border's own codes and their texts.
macro_rules! own {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        $(pub(crate) const $name: Status = Status($code);)*
        /// The texts of the border's own codes.
        const OWN: &[(Status, &CStr)] = &[$(($name, match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => panic!("a text has no zero byte inside"),
        })),*];
    };
}

own! {
    NOT_FOUND = 200, "the key is absent";
    EXISTS = 201, "the key is present already";
    DIFFERS = 202, "the value is another than expected";
    END = 203, "no more pairs";
    TOO_SMALL = 204, "the buffer is too small for the value";
    INVALID_HANDLE = 220, "not an open handle of this kind";
    IN_USE = 221, "something that belongs to the handle is still open or running";
    WRONG_THREAD = 222, "a view belongs to the thread that made it";
    INTERNAL = 223, "a bug in splitpoint: please report it";
}

/// The texts of the codes that come from [`ErrorKind`].
const KINDS: &[(ErrorKind, &CStr)] = &[
    (ErrorKind::Io, c"an operating system error"),
    (ErrorKind::DiskFull, c"no room left on the disk, or the file may not be longer"),
    (ErrorKind::Corrupt, c"the file is damaged"),
    (ErrorKind::NotATable, c"not a table"),
    (ErrorKind::Version, c"a file of another version of splitpoint"),
    (ErrorKind::WrongHash, c"made with another hash function"),
    (ErrorKind::InvalidArgument, c"an option or argument outside its range"),
    (ErrorKind::TooLong, c"a key or value that is too long"),
    (ErrorKind::ReadOnly, c"opened for reading only"),
    (ErrorKind::Locked, c"another process or handle has the file open for writing"),
    (ErrorKind::Poisoned, c"an earlier failure made the handle unusable: open it again"),
    (ErrorKind::WouldDeadlock, c"the thread holds a view that blocks its own write"),
    (ErrorKind::OutOfMemory, c"memory could not be allocated"),
    (ErrorKind::Forked, c"the handle was opened in a parent process"),
    (ErrorKind::Stale, c"another process wrote a newer checkpoint: open it again"),
    (ErrorKind::Duplicate, c"a duplicate key"),
    (ErrorKind::Stopped, c"cancelled by the caller"),
    (ErrorKind::Busy, c"the log is full while a backup runs: try again"),
    (ErrorKind::NotADictionary, c"not a dictionary"),
    (ErrorKind::BuildFailed, c"an earlier step of the build failed: start it again"),
    (ErrorKind::WrongTypes, c"a typed table has other types"),
];

impl Status {
    /// Its general text, without the details of a failure.
    fn text(self) -> &'static CStr {
        let own = OWN.iter().find(|(status, _)| *status == self).map(|&(_, text)| text);
        let kind = || KINDS.iter().find(|(kind, _)| c_int::from(kind.code()) == self.0).map(|&(_, text)| text);
        match self {
            OK => c"success",
            _ => own.or_else(kind).unwrap_or(c"an unknown code"),
        }
    }
}

/// Why a call failed.
pub(crate) enum Failure {
    /// An error of the library.
    Library(Error),
    /// One of the border's own codes, with its message.
    Own(Box<(Status, String)>),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn own(status: Status, message: impl Into<String>) -> Failure {
        Failure::Own(Box::new((status, message.into())))
    }

    pub(crate) fn kind(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure::own(Status(kind.code().into()), message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::kind(ErrorKind::InvalidArgument, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Library(error)
    }
}

/// A failure that a thread remembers.
struct Remembered {
    handle: usize,
    message: CString,
    errno: c_int,
}

/// The number of failures that a thread remembers. More than one, so that a message stays valid when the caller passes
/// it to `printf` together with the result of another call that fails.
const REMEMBERED_MAX: usize = 64;

thread_local! {
    /// The last failures, the newest at the end.
    static FAILURES: RefCell<VecDeque<Remembered>> = const { RefCell::new(VecDeque::new()) };
}

/// Remembers `failure` of a call with `handle`; returns its code.
pub(crate) fn remember(handle: usize, failure: Failure) -> Status {
    let (status, message, errno) = match failure {
        Failure::Library(error) => {
            let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
            let errno = cause.and_then(io::Error::raw_os_error).unwrap_or(0);
            (Status(error.kind().code().into()), error.to_string(), errno)
        }
        Failure::Own(own) => (own.0, own.1, 0),
    };
    let mut message = message.into_bytes();
    message.retain(|&byte| byte != 0);
    let message = CString::new(message).expect("the zeros were removed");
    // A destructor of the thread may call this after the thread's list of failures was destroyed.
    let _ = FAILURES.try_with(|failures| {
        let mut failures = failures.borrow_mut();
        if failures.len() == REMEMBERED_MAX {
            failures.pop_front();
        }
        failures.push_back(Remembered { handle, message, errno });
    });
    status
}

/// Calls `f` with this thread's last failure of a call with `handle`; a `handle` of 0 matches every failure.
fn with_last<T>(handle: usize, f: impl FnOnce(&Remembered) -> T) -> Option<T> {
    let found = FAILURES.try_with(|failures| {
        let failures = failures.borrow();
        failures.iter().rev().find(|remembered| handle == 0 || remembered.handle == handle).map(f)
    });
    found.ok().flatten()
}

#[unsafe(no_mangle)]
extern "C" fn spt_strerror(status: Status) -> *const c_char {
    status.text().as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn spt_error_message(handle: usize) -> *const c_char {
    // The message's bytes do not move when the queue moves its elements.
    with_last(handle, |last| last.message.as_ptr()).unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn spt_error_errno(handle: usize) -> c_int {
    with_last(handle, |last| last.errno).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_text_and_no_code_has_two() {
        for (number, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(usize::from(kind.code()), number + 1, "{kind:?}");
        }
        assert_eq!(Status(KINDS.len() as c_int + 1).text(), c"an unknown code");
        assert!(OWN.iter().all(|(status, _)| status.0 >= 200));
    }

    #[test]
    fn a_thread_remembers_its_last_failures() {
        for handle in 1..=REMEMBERED_MAX {
            remember(handle, Failure::invalid(format!("first of {handle}")));
        }
        remember(7, Failure::invalid("second of 7"));
        let message = |handle| with_last(handle, |last| last.message.to_str().unwrap().to_owned());
        assert_eq!(message(0).as_deref(), Some("second of 7"));
        assert_eq!(message(7).as_deref(), Some("second of 7"));
        assert_eq!(message(8).as_deref(), Some("first of 8"));
        assert_eq!(message(1), None);
        assert_eq!(std::thread::spawn(move || with_last(0, |_| ()).is_none()).join().ok(), Some(true));
    }
}
