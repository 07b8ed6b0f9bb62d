//! A request as its command sees it: the arguments, the buffer for the reply, the reasons to refuse.

use super::reply::Version;
use crate::keyspace::{self, Attributes, Exclusive, KeySpace, Kind, Pairs, Record, Shared, SpaceError};
use std::borrow::Cow;
use std::ops::Range;

/// A part of a request, by its offset from the request's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    pub(crate) fn of(range: Range<usize>) -> Span {
        // Requests are shorter than 4 GiB: `ParseLimits::request_bytes`.
        Span { start: range.start as u32, len: (range.end - range.start) as u32 }
    }

    /// Its bytes in the request.
    #[inline]
    pub fn bytes<'a>(&self, request: &'a [u8]) -> &'a [u8] {
        &request[self.start as usize..self.start as usize + self.len as usize]
    }
}

/// The arguments of a request, its name first.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    /// The bytes that the spans refer to.
    pub(crate) request: &'a [u8],
    /// The location of each argument.
    pub(crate) spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The number of arguments, the name included.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument at `index`. The caller has checked the command's arity, so it exists.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.spans[index].bytes(self.request)
    }

    /// The argument at `index`, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.bytes(self.request))
    }

    /// The arguments from `index` on.
    pub(crate) fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let request = self.request;
        self.spans[index.min(self.spans.len())..].iter().map(move |span| span.bytes(request))
    }

    /// Whether the argument at `index` is this word, ignoring case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// One execution of a command.
pub(crate) struct Call<'c, 'a> {
    /// Its arguments.
    pub(crate) args: Args<'a>,
    /// The database it works on.
    pub(crate) database: usize,
    /// The protocol version of the reply.
    pub(crate) version: Version,
    /// The buffer for the reply.
    pub(crate) out: &'c mut Vec<u8>,
    /// Whether a script executes it.
    pub(crate) in_script: bool,
    /// The longest value, in bytes.
    pub(crate) value_bytes_max: usize,
    /// The longest reply of a command that returns many values, in bytes.
    pub(crate) reply_bytes_max: usize,
}

/// Why a command was refused: the text of the error reply.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// This text, which begins with the error code. It may quote bytes of the request, so it need not be UTF-8.
    Text(Cow<'static, [u8]>),
    /// The error of the key space.
    Space(SpaceError),
}

impl From<SpaceError> for Refusal {
    fn from(error: SpaceError) -> Self {
        Refusal::Space(error)
    }
}

impl From<splitpoint::Error> for Refusal {
    fn from(error: splitpoint::Error) -> Self {
        Refusal::Space(SpaceError::Table(error))
    }
}

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Refusal::Text(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal::Text(Cow::Owned(text.into_bytes()))
    }
}

impl Refusal {
    /// Whether the command may have changed a part of what it was to change.
    pub(crate) fn leaves_undefined(&self) -> bool {
        matches!(self, Refusal::Space(error) if !matches!(error, SpaceError::WrongType))
    }

    /// Notes a failed write, for INFO and `/health`.
    pub(crate) fn note(&self, space: &KeySpace) {
        if let Refusal::Space(SpaceError::Table(error)) = self {
            space.note_failure(error);
        }
    }

    /// A text that quotes `part` of the request, up to its first zero byte as Redis does.
    pub(crate) fn about(before: &str, part: &[u8], after: &str) -> Refusal {
        let part = part.split(|&b| b == 0).next().unwrap_or_default();
        Refusal::Text([before.as_bytes(), part, after.as_bytes()].concat().into())
    }

    /// The refusal of an unknown command.
    pub(crate) fn unknown(args: &Args<'_>) -> Refusal {
        const SHOWN_MAX: usize = 128;
        // Up to the first zero byte, as Redis shows them.
        let cut = |bytes: &'_ [u8], max: usize| {
            let bytes = bytes.split(|&b| b == 0).next().unwrap_or_default();
            bytes[..bytes.len().min(max)].to_vec()
        };
        let mut shown = Vec::new();
        for argument in args.from(1) {
            if shown.len() >= SHOWN_MAX {
                break;
            }
            let argument = cut(argument, SHOWN_MAX - shown.len());
            shown.extend([b"'".as_slice(), &argument, b"' "].concat());
        }
        let name = cut(args.at(0), SHOWN_MAX);
        let parts = [b"ERR unknown command '".as_slice(), &name, b"', with args beginning with: ", &shown];
        Refusal::Text(parts.concat().into())
    }

    /// The refusal of a subcommand that is unknown or has the wrong number of arguments.
    pub(crate) fn unknown_subcommand(args: &Args<'_>, command: &str) -> Refusal {
        let name = args.get(1).unwrap_or_default();
        let before = "ERR unknown subcommand or wrong number of arguments for '";
        Refusal::about(before, &name[..name.len().min(128)], &format!("'. Try {command} HELP."))
    }

    /// The refusal of EXEC for this reason.
    pub(crate) fn of_exec(&self) -> Refusal {
        let text = self.text();
        let text = text.strip_prefix(b"ERR ").unwrap_or(&text);
        Refusal::about("EXECABORT Transaction discarded because of: ", text, "")
    }

    /// The text of the error reply.
    pub(crate) fn text(&self) -> Cow<'static, [u8]> {
        let owned = |text: String| Cow::Owned(text.into_bytes());
        match self {
            Refusal::Text(text) => text.clone(),
            Refusal::Space(SpaceError::MemoryLimit) => OUT_OF_MEMORY.as_bytes().into(),
            Refusal::Space(SpaceError::WrongType) => WRONG_TYPE.as_bytes().into(),
            Refusal::Space(SpaceError::ReadOnly) => READ_ONLY.as_bytes().into(),
            Refusal::Space(error @ SpaceError::Alone) => owned(format!("ERR {error}")),
            Refusal::Space(error @ SpaceError::TooManyKeys) => {
                owned(format!("ERR {error} in a transaction or script over a file; send FLUSHDB or FLUSHALL alone"))
            }
            // A code that clients know: the topology has just changed.
            Refusal::Space(SpaceError::Elsewhere(_)) => b"TRYAGAIN The slots of this node have changed".into(),
            Refusal::Space(SpaceError::Table(error)) => match error.kind() {
                splitpoint::ErrorKind::ReadOnly => READ_ONLY.as_bytes().into(),
                // A code that clients know: writes fail because the disk does.
                splitpoint::ErrorKind::DiskFull | splitpoint::ErrorKind::Io | splitpoint::ErrorKind::Poisoned => {
                    owned(format!("MISCONF {error}"))
                }
                _ => owned(format!("ERR {error}")),
            },
        }
    }
}

/// The result of a command. An error becomes an error reply that replaces what the command wrote.
pub(crate) type Outcome = Result<(), Refusal>;

pub(crate) const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
pub(crate) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(crate) const SYNTAX: &str = "ERR syntax error";
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(crate) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(crate) const NO_SUCH_KEY: &str = "ERR no such key";
pub(crate) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
pub(crate) const REPLY_TOO_LONG: &str = "ERR the reply would be longer than a request may be; ask for fewer values";
pub(crate) const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Entry to the key space for a lookup: shared with other threads, or exclusive.
pub(crate) enum Turn<'t, 'k> {
    /// Shared with other threads.
    Shared(&'t Shared<'k>),
    /// Exclusive.
    Alone(&'t mut Exclusive<'k>),
}

impl Turn<'_, '_> {
    /// The time that decides what has expired.
    pub(crate) fn now_ms(&self) -> u64 {
        match self {
            Turn::Shared(shared) => shared.now_ms(),
            Turn::Alone(alone) => alone.now_ms(),
        }
    }

    /// The key space.
    pub(crate) fn space(&self) -> &KeySpace {
        match self {
            Turn::Shared(shared) => shared.space(),
            Turn::Alone(alone) => alone.space(),
        }
    }

    /// Values of `keys`, in order.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn get_many(
        &mut self,
        database: usize,
        keys: &[&[u8]],
        take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), SpaceError> {
        match self {
            Turn::Shared(shared) => shared.get_many(database, keys, take),
            Turn::Alone(alone) => alone.get_many(database, keys, take),
        }
    }

    /// Calls `take` with the value of `key`.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`] for a collection, or the errors of [`splitpoint::Table::get`].
    pub(crate) fn with_value(
        &mut self,
        database: usize,
        key: &[u8],
        mut take: impl FnMut(Option<&[u8]>),
    ) -> Result<(), SpaceError> {
        let mut is_string = true;
        let take = |_: usize, record: Option<Record<'_>>| {
            is_string = record.is_none_or(|record| record.attributes.kind == Kind::String);
            if is_string {
                take(record.map(|record| record.value));
            }
        };
        match self {
            Turn::Shared(shared) => shared.read_many(database, &[key], take)?,
            Turn::Alone(alone) => alone.read_many(database, &[key], take)?,
        }
        if is_string { Ok(()) } else { Err(SpaceError::WrongType) }
    }

    /// Whether `key` is present. Reads no large value.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn contains(&mut self, database: usize, key: &[u8]) -> Result<bool, SpaceError> {
        Ok(self.attributes(database, key)?.is_some())
    }

    /// The length of the value of `key`. Reads no large value.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`] for a collection, or the errors of [`splitpoint::Table::get`].
    pub(crate) fn value_len(&mut self, database: usize, key: &[u8]) -> Result<Option<usize>, SpaceError> {
        match self {
            Turn::Shared(shared) => shared.value_len(database, key),
            Turn::Alone(alone) => alone.value_len(database, key),
        }
    }

    /// The length of the value of `key`, and the part of it that `choose` returns for that length. Reads only the part.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn get_part(
        &mut self,
        database: usize,
        key: &[u8],
        choose: impl FnOnce(usize) -> Range<usize>,
        part: &mut Vec<u8>,
    ) -> Result<Option<usize>, SpaceError> {
        match self {
            Turn::Shared(shared) => shared.get_part(database, key, choose, part),
            Turn::Alone(alone) => alone.get_part(database, key, choose, part),
        }
    }

    /// The attributes of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn attributes(&mut self, database: usize, key: &[u8]) -> Result<Option<Attributes>, SpaceError> {
        match self {
            Turn::Shared(shared) => shared.attributes(database, key),
            Turn::Alone(alone) => alone.attributes_of(database, key),
        }
    }
}

impl Pairs for Turn<'_, '_> {
    fn name(&mut self, database: usize, key: &[u8], kind: Kind, value: &mut Vec<u8>) -> keyspace::Result<Option<u64>> {
        match self {
            Turn::Shared(shared) => { *shared }.name(database, key, kind, value),
            Turn::Alone(alone) => alone.name(database, key, kind, value),
        }
    }

    fn segment(&mut self, database: usize, id: u64, number: u64, value: &mut Vec<u8>) -> keyspace::Result<bool> {
        match self {
            Turn::Shared(shared) => { *shared }.segment(database, id, number, value),
            Turn::Alone(alone) => alone.segment(database, id, number, value),
        }
    }

    fn now_ms(&self) -> u64 {
        Turn::now_ms(self)
    }

    fn segment_count(&self, database: usize) -> u64 {
        match self {
            Turn::Shared(shared) => { *shared }.segment_count(database),
            Turn::Alone(alone) => alone.segment_count(database),
        }
    }

    fn random(&self) -> u64 {
        self.space().random()
    }
}
