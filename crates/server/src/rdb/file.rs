//! A whole dump file, as Redis and Valkey write it and load it.
//!
//! ```text
//! "REDIS" version, 4 digits | FA name value ... | per database: FE number | FB keys, keys with lifetimes |
//!     FC expiry in ms, or FD in s | F8 idle, or F9 frequency | type | key | value ...    | FF | CRC-64, 8 bytes
//! F5 library of functions     F7 what a module keeps besides its keys     F4 a slot of a cluster
//! ```
//!
//! Source: the RDB format. Unlike Redis, which ends at a module that it does not know, the reader skips what modules
//! wrote and names it.

use super::crc64::crc64;
use super::sink::Sink;
use super::source::Source;
use super::{Form, Limits, Object, RdbError, Result, VERSION, VERSION_MAX, Value, bad, read, write};
use crate::keyspace::collections::fields::has_expired;
use crate::keyspace::now_ms;
use std::io::Read;

const AUX: u8 = 0xfa;
const DATABASE: u8 = 0xfe;
const SIZES: u8 = 0xfb;
const EXPIRY_MS: u8 = 0xfc;
const EXPIRY_S: u8 = 0xfd;
const IDLE: u8 = 0xf8;
const FREQUENCY: u8 = 0xf9;
const MODULE_AUX: u8 = 0xf7;
const FUNCTION_OLD: u8 = 0xf6;
const FUNCTION: u8 = 0xf5;
const SLOT: u8 = 0xf4;
const END: u8 = 0xff;

/// The first bytes of every dump file.
pub const SIGNATURE: &[u8] = b"REDIS";

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The number of its database.
    pub database: u64,
    /// The key.
    pub key: Vec<u8>,
    /// Unix time in milliseconds; 0: never.
    pub expires_at_ms: u64,
    /// memcached's flags of a string, which the format does not have.
    pub flags: u32,
    /// The value.
    pub object: Object,
}

impl Entry {
    /// Whether the key, or a field of its hash, expires.
    pub fn has_lifetimes(&self) -> bool {
        self.expires_at_ms != 0 || self.has_fields_with_lifetimes()
    }

    /// Whether a field of its hash expires.
    pub fn has_fields_with_lifetimes(&self) -> bool {
        let Object::Value(Value::Hash(fields)) = &self.object else { return false };
        fields.iter().any(|field| field.expires_at_ms != 0)
    }

    /// Removes all lifetimes.
    pub fn persist(&mut self) {
        self.expires_at_ms = 0;
        if let Object::Value(Value::Hash(fields)) = &mut self.object {
            fields.iter_mut().for_each(|field| field.expires_at_ms = 0);
        }
    }

    /// Removes the fields of a hash that have expired. Returns whether the key is still there: a dump may have keys
    /// that its server had not yet removed.
    pub fn expire(&mut self) -> bool {
        let now_ms = now_ms();
        if let Object::Value(Value::Hash(fields)) = &mut self.object {
            fields.retain(|field| !has_expired(field.expires_at_ms, now_ms));
            if fields.is_empty() {
                return false;
            }
        }
        !has_expired(self.expires_at_ms, now_ms)
    }

    /// Creates a string of database 0 without a lifetime.
    pub fn of_pair(key: &[u8], value: &[u8]) -> Entry {
        let object = Object::Value(Value::String(value.to_vec()));
        Entry { database: 0, key: key.to_vec(), expires_at_ms: 0, flags: 0, object }
    }

    /// The value, if that is all there is to the key: a string of database 0 without a lifetime.
    pub fn as_pair(&self) -> Option<(&[u8], &[u8])> {
        match &self.object {
            Object::Value(Value::String(value)) if (self.expires_at_ms, self.flags, self.database) == (0, 0, 0) => {
                Some((&self.key, value))
            }
            _ => None,
        }
    }
}

/// Reads a dump file, one key after another.
pub struct Reader<R> {
    source: Source<R>,
    version: u16,
    database: u64,
    /// Keys that the file announces for the databases so far.
    announced: u64,
    /// What was left out other than keys: libraries of functions, what modules keep apart from their keys.
    left_out: Vec<String>,
    has_ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the head of the file; `limits` bound each value.
    ///
    /// # Errors
    /// [`RdbError`] for a file that is not a dump, or of a version above 12.
    pub fn new(reader: R, limits: Limits) -> Result<Reader<R>> {
        let mut source = Source::new(reader, limits);
        let [signature @ .., a, b, c, d] = source.bytes::<9>()?;
        let digits = std::str::from_utf8(&[a, b, c, d]).ok().and_then(|digits| digits.parse::<u16>().ok());
        let version = digits.filter(|_| signature == *SIGNATURE);
        let version = version.ok_or_else(|| bad("it does not begin like a dump of Redis"))?;
        if !(1..=VERSION_MAX).contains(&version) {
            return Err(bad(format!("its version is {version}; versions 1 to {VERSION_MAX} are read")));
        }
        Ok(Reader { source, version, database: 0, announced: 0, left_out: Vec::new(), has_ended: false })
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.source.at
    }

    /// The number of keys, as far as the file says it in advance.
    pub fn announced(&self) -> u64 {
        self.announced
    }

    /// What was left out other than keys.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Reads the next key; `None` after the last, once the checksum is verified.
    ///
    /// # Errors
    /// [`RdbError`]; the key after it cannot be found.
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        let mut expires_at_ms = 0;
        while !self.has_ended {
            self.source.begin_value();
            match self.source.byte()? {
                AUX => {
                    self.source.string()?;
                    self.source.string()?;
                }
                DATABASE => self.database = self.source.length()?,
                SIZES => {
                    self.announced = self.announced.saturating_add(self.source.length()?);
                    self.source.length()?;
                }
                EXPIRY_MS => {
                    // Signed: a negative time is before 1970.
                    let at_ms = i64::from_le_bytes(self.source.bytes()?);
                    expires_at_ms = u64::try_from(at_ms).unwrap_or(0).max(1);
                }
                EXPIRY_S => {
                    let seconds = u32::from_le_bytes(self.source.bytes()?);
                    expires_at_ms = (u64::from(seconds) * 1000).max(1);
                }
                IDLE => _ = self.source.length()?,
                FREQUENCY => _ = self.source.byte()?,
                SLOT => (0..3).try_for_each(|_| self.source.length().map(drop))?,
                FUNCTION => {
                    let code = self.source.string()?;
                    let first = code.split(|byte| *byte == b'\n').next().unwrap_or_default();
                    self.leave_out(format!("a library of functions, `{}`", first.escape_ascii()));
                }
                MODULE_AUX => {
                    let name = read::module_name(self.source.length()?);
                    // A number in the module's encoding, which says when it is to be loaded.
                    (0..2).try_for_each(|_| self.source.length().map(drop))?;
                    read::skip_parts(&mut self.source)?;
                    self.leave_out(format!("what the module {name} keeps besides its keys"));
                }
                FUNCTION_OLD => return Err(bad("functions in the format of a release candidate of Redis 7.0")),
                END => return self.end().map(|()| None),
                number => {
                    let key = self.source.string()?;
                    let at_key = |what| {
                        const SHOWN_MAX: usize = 64;
                        format!("key \"{}\": {what}", key[..key.len().min(SHOWN_MAX)].escape_ascii())
                    };
                    let object = read::object(&mut self.source, number).map_err(|error| match error {
                        RdbError::Bad(what) => RdbError::Bad(at_key(what)),
                        RdbError::TooLong(what) => RdbError::TooLong(at_key(what)),
                        error => error,
                    })?;
                    return Ok(Some(Entry { database: self.database, key, expires_at_ms, flags: 0, object }));
                }
            }
        }
        Ok(None)
    }

    fn leave_out(&mut self, what: String) {
        const NAMED_MAX: usize = 100;
        if self.left_out.len() < NAMED_MAX {
            self.left_out.push(what);
        }
    }

    fn end(&mut self) -> Result<()> {
        const FIRST_WITH_CHECKSUM: u16 = 5;
        self.has_ended = true;
        if self.version < FIRST_WITH_CHECKSUM {
            return Ok(());
        }
        let computed = self.source.sum;
        let stored = self.source.number()?;
        if stored != 0 && stored != computed {
            return Err(bad(format!(
                "checksum mismatch, stored {stored:016x}, computed {computed:016x}: any value may be wrong. Save or \
                 copy the dump again"
            )));
        }
        Ok(())
    }
}

/// Writes a dump file to a buffer that the caller empties from time to time.
#[derive(Default)]
pub struct Writer {
    sum: u64,
    database: Option<u64>,
}

impl Writer {
    /// Begins a file: of version 10, or 12 if fields of hashes may have lifetimes, for Redis 7.4 and later.
    pub fn begin(out: &mut Vec<u8>, has_field_lifetimes: bool) -> Writer {
        let (version, redis) = if has_field_lifetimes { (VERSION_MAX, "7.4.0") } else { (VERSION, "7.0.15") };
        let mut writer = Writer::default();
        writer.append(out, |out| {
            out.extend_from_slice(format!("REDIS{version:04}").as_bytes());
            let mut sink = Sink { out };
            for (name, value) in [("redis-ver", redis), ("redis-bits", "64"), ("aof-base", "0")] {
                sink.out.push(AUX);
                sink.string(name.as_bytes());
                sink.string(value.as_bytes());
            }
        });
        writer
    }

    /// Adds a key. The keys of a database must follow one another.
    pub fn entry(
        &mut self,
        out: &mut Vec<u8>,
        database: u64,
        key: &[u8],
        expires_at_ms: u64,
        (value, form): (&Value, Form),
    ) {
        let is_new = self.database.replace(database) != Some(database);
        self.append(out, |out| {
            if is_new {
                out.push(DATABASE);
                Sink { out }.length(database);
            }
            if expires_at_ms != 0 {
                out.push(EXPIRY_MS);
                out.extend_from_slice(&expires_at_ms.to_le_bytes());
            }
            out.push(write::number_of(value, form));
            Sink { out }.string(key);
            write::object(out, value, form);
        });
    }

    /// Ends the file.
    pub fn end(mut self, out: &mut Vec<u8>) {
        self.append(out, |out| out.push(END));
        out.extend_from_slice(&self.sum.to_le_bytes());
    }

    fn append(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        self.sum = crc64(self.sum, &out[start..]);
    }
}
