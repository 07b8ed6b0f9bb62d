//! Redis's serialization of values (RDB): what DUMP returns, RESTORE takes, and dump files hold.
//!
//! ```text
//! mod.rs      values in memory, errors, limits; type numbers of the format
//! source.rs   lengths and strings from untrusted bytes, each checked against what remains; sink.rs  to bytes
//! lzf.rs      LZF, the compression of strings;  crc64.rs  the checksum
//! packed.rs   listpacks, ziplists, zipmaps, intsets: small collections as one string
//! read.rs     a value of any type from a source;  write.rs  to bytes, as Redis 7.0 or 7.4 writes it
//! streams.rs  streams and their groups, in both directions
//! payload.rs  one value with version and checksum: DUMP, RESTORE
//! file.rs     a whole dump file, in both directions
//! stored.rs   values of the key space, read and stored;  served.rs  those of a table file that no server has open
//! ```
//!
//! A value is decoded completely before anything is stored, so bad bytes change nothing. No length is trusted:
//! memory grows with the bytes that arrive, and [`Limits`] bound what compression could make of them.
//!
//! Source: the RDB format as Redis 7.0 writes it, version 10; versions 1 to 12 are read (Redis up to 7.4, Valkey 8).
//! Not here: arguments of DUMP and RESTORE (`command/dump.rs`), progress and files (`splitpoint load`).

mod crc64;
mod file;
mod lzf;
mod packed;
mod payload;
mod read;
mod served;
mod sink;
mod source;
pub(crate) mod stored;
mod streams;
mod write;

pub use crate::keyspace::EntryId;
pub use file::{Entry, Reader, SIGNATURE, Writer};
pub(crate) use payload::{body, value_of};
pub use payload::{decode, encode};
pub use served::{Stored, StoredScan, TypedFile};

/// The version that is written: that of Redis 7.0, unless fields of hashes have lifetimes.
pub const VERSION: u16 = 10;
/// The newest version that is read, and written for lifetimes of fields: that of Redis 7.4.
pub const VERSION_MAX: u16 = 12;

/// A value of any type, complete in memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any bytes.
    String(Vec<u8>),
    /// The elements from the left end.
    List(Vec<Vec<u8>>),
    /// The members, in any order.
    Set(Vec<Vec<u8>>),
    /// The fields, in any order.
    Hash(Vec<Field>),
    /// Members with scores, of which none is NaN, ordered by score, then by member.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// Entries and groups.
    Stream(Stream),
}

impl Value {
    /// Redis's name for the type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::String(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Hash(_) => "hash",
            Value::SortedSet(_) => "zset",
            Value::Stream(_) => "stream",
        }
    }
}

/// A field of a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Unix time in milliseconds; 0: never. Only Redis 7.4 and later write one.
    pub expires_at_ms: u64,
}

/// A stream. Its entries are in ascending order of their IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// For each entry its ID, and fields and values in turn.
    pub entries: Vec<(EntryId, Vec<Vec<u8>>)>,
    /// The last ID assigned.
    pub last: EntryId,
    /// The greatest ID that was removed.
    pub max_deleted: EntryId,
    /// Entries ever added.
    pub added: u64,
    /// The consumer groups.
    pub groups: Vec<Group>,
}

/// A consumer group of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Vec<u8>,
    /// The last entry that it delivered.
    pub last: EntryId,
    /// How many entries it has read, if that is known.
    pub read: Option<i64>,
    /// The consumers, each with the time when it was last seen, in Unix milliseconds.
    pub consumers: Vec<(Vec<u8>, u64)>,
    /// Entries that were delivered and not acknowledged, in the order of their IDs.
    pub pending: Vec<Pending>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The ID of the entry.
    pub id: EntryId,
    /// The index of its consumer in the group.
    pub consumer: usize,
    /// When it was last delivered, in Unix milliseconds.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub count: u64,
}

/// A value as the format has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A value of a type that is known.
    Value(Value),
    /// A value of a module, which is skipped: the module's name for its type.
    Module(String),
}

/// Which of two encodings a collection is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As one string: a listpack or an intset.
    Packed,
    /// Element by element.
    Elements,
}

/// What a value may decode to: compression makes up to 264 bytes of three.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a string, key or element.
    pub string_bytes: u64,
    /// Bytes of all strings of a value, and of the memory that lists them.
    pub value_bytes: u64,
}

impl Limits {
    /// A string may be as long as a value of a table; a collection as large as memory.
    pub const FILE: Limits = Limits { string_bytes: u32::MAX as u64, value_bytes: u64::MAX };
}

/// Why bytes could not be read.
#[derive(Debug)]
pub enum RdbError {
    /// What is wrong with the bytes.
    Bad(String),
    /// A string or a value is over a limit.
    TooLong(String),
    /// They could not be read.
    Io(std::io::Error),
}

impl std::fmt::Display for RdbError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RdbError::Bad(what) | RdbError::TooLong(what) => f.write_str(what),
            RdbError::Io(error) => error.fmt(f),
        }
    }
}

impl From<std::io::Error> for RdbError {
    fn from(error: std::io::Error) -> RdbError {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => bad("it ends within a value"),
            _ => RdbError::Io(error),
        }
    }
}

type Result<T> = std::result::Result<T, RdbError>;

#[cold]
fn bad(what: impl Into<String>) -> RdbError {
    RdbError::Bad(what.into())
}

/// The types of values, as numbers of the format.
mod kind {
    pub(super) const STRING: u8 = 0;
    pub(super) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const SORTED_SET: u8 = 3;
    pub(super) const HASH: u8 = 4;
    pub(super) const SORTED_SET_2: u8 = 5;
    pub(super) const MODULE: u8 = 6;
    pub(super) const MODULE_2: u8 = 7;
    pub(super) const HASH_ZIPMAP: u8 = 9;
    pub(super) const LIST_ZIPLIST: u8 = 10;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const QUICKLIST: u8 = 14;
    pub(super) const STREAM: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const SORTED_SET_LISTPACK: u8 = 17;
    pub(super) const QUICKLIST_2: u8 = 18;
    pub(super) const STREAM_2: u8 = 19;
    pub(super) const SET_LISTPACK: u8 = 20;
    pub(super) const STREAM_3: u8 = 21;
    /// Hashes whose fields have lifetimes; the first two by release candidates of Redis 7.4.
    pub(super) const HASH_LIFETIMES_OLD: u8 = 22;
    pub(super) const HASH_LISTPACK_LIFETIMES_OLD: u8 = 23;
    pub(super) const HASH_LIFETIMES: u8 = 24;
    pub(super) const HASH_LISTPACK_LIFETIMES: u8 = 25;
}

#[cfg(test)]
mod tests;
