//! One value with its version and checksum: what DUMP returns, and RESTORE and MIGRATE take.
//!
//! ```text
//! type | value | version, 2 bytes | CRC-64 of all before it, 8 bytes      little-endian
//! ```

use super::crc64::crc64;
use super::source::Source;
use super::{Form, Limits, Object, RdbError, Result, VERSION_MAX, Value, bad, read, write};

/// Bytes of the version and the checksum.
const FOOTER_BYTES: usize = 10;

/// Appends the value in Redis 7.0's encoding, or in that of 7.4 if fields have lifetimes.
pub fn encode(out: &mut Vec<u8>, value: &Value, form: Form) {
    let start = out.len();
    out.push(write::number_of(value, form));
    write::object(out, value, form);
    out.extend_from_slice(&write::version_of(value).to_le_bytes());
    let sum = crc64(0, &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Checks a payload's footer; returns the payload without it, `None` if it is wrong.
pub(crate) fn body(payload: &[u8]) -> Option<&[u8]> {
    let (body, footer) = payload.split_at_checked(payload.len().checked_sub(FOOTER_BYTES)?)?;
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let sum = u64::from_le_bytes(*footer.last_chunk()?);
    // A checksum of 0 means no checksum.
    let is_whole = sum == 0 || sum == crc64(0, &payload[..body.len() + 2]);
    (version <= VERSION_MAX && is_whole).then_some(body)
}

/// Decodes the value of a payload's [`body`].
pub(crate) fn value_of(body: &[u8], limits: Limits) -> Result<Value> {
    let mut source = Source::new(body, limits);
    let number = source.byte()?;
    let object = read::object(&mut source, number)?;
    if source.at != body.len() as u64 {
        return Err(bad("bytes after the value"));
    }
    match object {
        Object::Value(value) => Ok(value),
        Object::Module(name) => Err(bad(format!("a value of the module type {name}, which is unknown"))),
    }
}

/// Decodes what DUMP of Redis or Valkey returned.
///
/// O(bytes of the value), which `limits` bound.
///
/// # Errors
/// [`RdbError::Bad`]: what is wrong with the bytes.
pub fn decode(payload: &[u8], limits: Limits) -> std::result::Result<Value, RdbError> {
    let body = body(payload).ok_or_else(|| bad("a version above 12, or a checksum that does not match"))?;
    value_of(body, limits)
}
