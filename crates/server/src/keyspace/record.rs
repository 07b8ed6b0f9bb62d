//! The stored value of a key: the client's value, with a *head* in front where the key has attributes.
//!
//! ```text
//! plain        the client's value, unchanged
//! with a head  mark | tag | time of expiry, u64 | CAS number, u64 | flags, u32, and marks, u8 | the client's value
//!                     1111 1fce: which of the fields follow
//! collection   mark | F5, or F6 with a lifetime | kind | time of expiry, u64 | elements, or where they are
//!                     the elements as in the files of collections/
//! ```
//!
//! The tag decides: no byte of UTF-8 is F5 or more, so text never begins like one. A value that does gets a head
//! without fields. So a key without attributes costs nothing, and one with a lifetime 9 bytes. In memory a long value
//! has a head with all fields, 0 where it has no such attribute, so that EXPIRE changes the head alone.
//!
//! ```text
//! memory                      no mark: the first byte is the tag
//! file with a header pair     the 6 random bytes of that pair (`marks.rs`), so that values stored before are plain
//! file without one            all values are plain; it gets one when a key first gets attributes
//! ```
//!
//! All bytes here are on disk, numbers little-endian. Not here: stored keys (`marks.rs`).

/// The type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    #[default]
    String = 0,
    Hash = 1,      // on disk
    Set = 2,       // on disk
    List = 3,      // on disk
    SortedSet = 4, // on disk
    Stream = 5,    // on disk
}

impl Kind {
    const COLLECTIONS: [Kind; 5] = [Kind::Hash, Kind::Set, Kind::List, Kind::SortedSet, Kind::Stream];

    /// Redis's name for the type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::List => "list",
            Kind::SortedSet => "zset",
            Kind::Stream => "stream",
        }
    }

    fn of(byte: u8) -> Option<Kind> {
        Kind::COLLECTIONS.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The attributes of a key. The default is the value for a key that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Unix time in milliseconds, at most [`EXPIRES_AT_MAX_MS`]; 0: never.
    pub(crate) expires_at_ms: u64,
    /// memcached's CAS number; 0 if no client has asked for one since the value was set.
    pub(crate) cas: u64,
    /// memcached's flags.
    pub(crate) flags: u32,
    /// memcached's marks: [`STALE`](Self::STALE), [`CLAIMED`](Self::CLAIMED).
    pub(crate) marks: u8,
    /// The type of the value. A collection has none of the attributes above but a lifetime.
    pub(crate) kind: Kind,
}

impl Attributes {
    /// The value is out of date, and a client should replace it.
    pub(crate) const STALE: u8 = 1; // on disk
    /// One client was asked to replace the value.
    pub(crate) const CLAIMED: u8 = 2; // on disk
    /// The attributes of a key that has none.
    pub(crate) const NONE: Attributes = Attributes { expires_at_ms: 0, cas: 0, flags: 0, marks: 0, kind: Kind::String };

    /// The attributes of a key that expires and has no others.
    pub(crate) fn expiring(expires_at_ms: u64) -> Attributes {
        Attributes { expires_at_ms, ..Attributes::NONE }
    }

    /// The bytes that they take in memory.
    pub(crate) fn stored_bytes(self) -> usize {
        let mut head = Vec::new();
        Coding::Tagged.encode(self, b"", &mut head);
        head.len()
    }

    /// Whether a key with these attributes has expired and so counts as absent.
    #[inline]
    pub(crate) fn expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= now_ms
    }
}

/// The latest time of expiry: replies are signed numbers. A later one on disk is read as this one.
pub(crate) const EXPIRES_AT_MAX_MS: u64 = i64::MAX as u64;

/// The bytes in front of each tag of a file.
pub(super) const MARK_BYTES: usize = 6;
/// The longest head.
pub(super) const HEAD_BYTES_MAX: usize = MARK_BYTES + 1 + 8 + 8 + 5;

/// The length of a head with all fields, in memory.
pub(super) const ROOMY_HEAD_BYTES: usize = HEAD_BYTES_MAX - MARK_BYTES;
/// From this length on, a value in memory has a head with all fields.
const ROOMY_BYTES: usize = 64 << 10;

const FIRST_RESERVED: u8 = 0xF5;
const COLLECTION: u8 = 0xF5;
const COLLECTION_EXPIRES: u8 = 0xF6;
const TAG: u8 = 0xF8;
const EXPIRES: u8 = 1;
const HAS_CAS: u8 = 2;
const HAS_FLAGS: u8 = 4;

/// How the heads of a database are recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// No value has a head.
    Plain,
    /// By their tag.
    Tagged,
    /// By these bytes before the tag.
    Marked([u8; MARK_BYTES]),
}

/// A decoded stored value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'v> {
    /// The attributes of the key.
    pub(crate) attributes: Attributes,
    /// The client's value.
    pub(crate) value: &'v [u8],
}

impl Record<'_> {
    /// Whether the value is not a collection.
    #[inline]
    pub(super) fn is_string(&self) -> bool {
        self.attributes.kind == Kind::String
    }
}

impl Coding {
    /// The record of a value without attributes.
    #[inline]
    pub(super) fn of_plain(value: &[u8]) -> Record<'_> {
        Record { attributes: Attributes::NONE, value }
    }

    /// Decodes a stored value, or the first bytes of one.
    #[inline]
    pub(super) fn decode(self, stored: &[u8]) -> Record<'_> {
        if self.is_plain(stored) {
            return Self::of_plain(stored);
        }
        self.decode_head(stored).unwrap_or_else(|| Self::of_plain(stored))
    }

    /// Whether a stored value of these bytes is the client's value unchanged.
    #[inline]
    pub(super) fn is_plain(self, value: &[u8]) -> bool {
        match self {
            Coding::Plain => true,
            Coding::Tagged => value.first().is_none_or(|&first| first < FIRST_RESERVED),
            Coding::Marked(mark) => !value.starts_with(&mark),
        }
    }

    /// `None` for bytes that [`encode`](Self::encode) did not make: another program stored them.
    #[inline(never)]
    fn decode_head(self, stored: &[u8]) -> Option<Record<'_>> {
        let rest = match self {
            Coding::Marked(_) => stored.get(MARK_BYTES..)?,
            _ => stored,
        };
        let (&tag, mut rest) = rest.split_first()?;
        let mut attributes = Attributes::NONE;
        if tag < TAG {
            let [kind] = take(&mut rest)?;
            attributes.kind = Kind::of(kind)?;
            match tag {
                COLLECTION => {}
                COLLECTION_EXPIRES => attributes.expires_at_ms = take_time(&mut rest)?,
                _ => return None,
            }
            return Some(Record { attributes, value: rest });
        }
        if tag & EXPIRES != 0 {
            attributes.expires_at_ms = take_time(&mut rest)?;
        }
        if tag & HAS_CAS != 0 {
            attributes.cas = u64::from_le_bytes(take(&mut rest)?);
        }
        if tag & HAS_FLAGS != 0 {
            attributes.flags = u32::from_le_bytes(take(&mut rest)?);
            [attributes.marks] = take(&mut rest)?;
        }
        Some(Record { attributes, value: rest })
    }

    /// Whether a value of this length has a head with room for all attributes.
    #[inline]
    pub(super) fn is_roomy(self, len: usize) -> bool {
        self == Coding::Tagged && len >= ROOMY_BYTES
    }

    /// Whether this value, with these attributes, is stored with a head.
    #[inline]
    pub(super) fn needs_head(self, attributes: Attributes, value: &[u8]) -> bool {
        attributes != Attributes::NONE || !self.is_plain(value) || self.is_roomy(value.len())
    }

    /// Appends the stored value of a key. A head needs a coding that has heads.
    #[inline]
    pub(super) fn encode(self, attributes: Attributes, value: &[u8], out: &mut Vec<u8>) {
        if self.needs_head(attributes, value) {
            self.encode_head(attributes, self.is_roomy(value.len()), out);
        }
        out.extend_from_slice(value);
    }

    /// Appends the head for these attributes; a string's head has room for others if `is_roomy`.
    pub(super) fn encode_head(self, attributes: Attributes, is_roomy: bool, out: &mut Vec<u8>) {
        match self {
            Coding::Plain => return,
            Coding::Tagged => {}
            Coding::Marked(mark) => out.extend_from_slice(&mark),
        }
        let Attributes { expires_at_ms, cas, flags, marks, kind } = attributes;
        if kind != Kind::String {
            out.extend([if expires_at_ms == 0 { COLLECTION } else { COLLECTION_EXPIRES }, kind as u8]);
            if expires_at_ms != 0 {
                out.extend_from_slice(&expires_at_ms.to_le_bytes());
            }
            return;
        }
        let (expires, has_cas) = (is_roomy || expires_at_ms != 0, is_roomy || cas != 0);
        let has_flags = is_roomy || flags != 0 || marks != 0;
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(TAG | bit(expires, EXPIRES) | bit(has_cas, HAS_CAS) | bit(has_flags, HAS_FLAGS));
        if expires {
            out.extend_from_slice(&expires_at_ms.to_le_bytes());
        }
        if has_cas {
            out.extend_from_slice(&cas.to_le_bytes());
        }
        if has_flags {
            out.extend_from_slice(&flags.to_le_bytes());
            out.push(marks);
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn take_time(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(bytes)?).min(EXPIRES_AT_MAX_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODINGS: [Coding; 2] = [Coding::Tagged, Coding::Marked([0xF9, 0, 7, 0xFF, 1, 2])];

    #[test]
    fn every_value_comes_back_with_its_attributes() {
        let values: [&[u8]; 7] =
            [b"", b"text", &[0xF4, 1], &[0xF5], &[0xFF; 3], &[0xF9, 0, 7, 0xFF, 1, 2], &[0xF9, 0, 7, 0xFF, 1, 2, 0xFF]];
        for coding in CODINGS {
            for bits in 0..16u32 {
                let attributes = Attributes {
                    expires_at_ms: if bits & 1 == 0 { 0 } else { EXPIRES_AT_MAX_MS - 1 },
                    cas: if bits & 2 == 0 { 0 } else { 1 << 60 },
                    flags: if bits & 4 == 0 { 0 } else { 77 },
                    marks: if bits & 8 == 0 { 0 } else { Attributes::CLAIMED },
                    kind: Kind::String,
                };
                for value in values {
                    let mut stored = Vec::new();
                    coding.encode(attributes, value, &mut stored);
                    let record = coding.decode(&stored);
                    assert_eq!((record.attributes, record.value), (attributes, value), "{coding:?}");
                    assert!(stored.len() <= value.len() + HEAD_BYTES_MAX);
                    let is_text = value.first().is_none_or(|&byte| byte < 0xF5);
                    assert!(bits != 0 || !is_text || stored == value, "a plain value costs nothing");
                }
            }
        }
        let mut stored = Vec::new();
        Coding::Tagged.encode(Attributes::expiring(1), b"", &mut stored);
        assert_eq!(stored.len(), 9);
        assert_eq!(Coding::Plain.decode(&[0xFF; 20]).value, [0xFF; 20]);
    }

    #[test]
    fn a_collection_keeps_its_type_and_lifetime() {
        for coding in CODINGS {
            for kind in Kind::COLLECTIONS {
                for expires_at_ms in [0, EXPIRES_AT_MAX_MS] {
                    let attributes = Attributes { expires_at_ms, kind, ..Attributes::NONE };
                    let mut stored = Vec::new();
                    coding.encode(attributes, b"\0abc", &mut stored);
                    let record = coding.decode(&stored);
                    assert_eq!((record.attributes, record.value), (attributes, b"\0abc".as_slice()));
                    for cut in 0..stored.len() - 4 {
                        assert_eq!(coding.decode(&stored[..cut]).value, &stored[..cut]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_time_that_no_reply_can_hold_is_read_as_the_latest() {
        for kind in [Kind::String, Kind::Hash] {
            let mut stored = Vec::new();
            Coding::Tagged.encode(Attributes { kind, ..Attributes::expiring(u64::MAX) }, b"v", &mut stored);
            assert_eq!(Coding::Tagged.decode(&stored).attributes.expires_at_ms, EXPIRES_AT_MAX_MS);
        }
    }

    #[test]
    fn a_head_that_is_cut_is_a_value() {
        for coding in CODINGS {
            let mut stored = Vec::new();
            coding.encode(Attributes { expires_at_ms: 1, cas: 2, flags: 3, ..Attributes::NONE }, b"", &mut stored);
            for cut in 0..stored.len() {
                assert_eq!(coding.decode(&stored[..cut]).value, &stored[..cut]);
            }
        }
    }
}
