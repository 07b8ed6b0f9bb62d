//! DUMP and RESTORE: one value in the format of Redis's dump files, so that values can be moved between the servers.
//!
//! ```text
//! 00 | length and bytes, or a number | version, 2 bytes | CRC-64 of all before it, 8 bytes      little-endian
//! ```
//!
//! Source: the description of RDB files, version 10. DUMP does not compress; RESTORE reads compressed values. Types
//! other than strings are refused.

use super::call::{Call, Outcome, SYNTAX, Turn};
use super::number::parse_integer;
use super::reply;
use super::strings::integer;
use crate::keyspace::{Attributes, Exclusive, Lifetime};

const VERSION: u16 = 10;
const STRING: u8 = 0;
/// Length of the version and the checksum.
const FOOTER_BYTES: usize = 10;
const BAD_FORMAT: &str = "ERR Bad data format";

/// DUMP key
pub(super) fn dump(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let (out, version) = (&mut *call.out, call.version);
    turn.with_value(call.database, call.args.at(1), |value| match value {
        None => reply::null(out, version),
        Some(value) => reply::bulk(out, &encode(value)),
    })?;
    Ok(())
}

/// RESTORE key ttl serialized-value ...
pub(super) fn restore(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let (mut replace, mut absolute) = (false, false);
    let mut index = 4;
    while index < args.len() {
        let value = args.get(index + 1);
        if args.is(index, "replace") {
            replace = true;
        } else if args.is(index, "absttl") {
            absolute = true;
        } else if let (true, Some(value)) = (args.is(index, "idletime"), value) {
            integer(value)?;
            parse_integer(value).filter(|&n| n >= 0).ok_or("ERR Invalid IDLETIME value, must be >= 0")?;
            index += 1;
        } else if let (true, Some(value)) = (args.is(index, "freq"), value) {
            let number = integer(value)?;
            if !(0..=255).contains(&number) {
                return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
            }
            index += 1;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let key = args.at(1);
    if !replace && alone.contains(call.database, key)? {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = integer(args.at(2))?;
    let ttl = u64::try_from(ttl).map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
    let value = decode(args.at(3), call.value_bytes_max)?;
    let at_ms = match ttl {
        0 => 0,
        ttl if absolute => ttl,
        ttl => ttl.saturating_add(alone.now_ms()),
    };
    if at_ms != 0 && at_ms <= alone.now_ms() {
        alone.remove(call.database, key)?;
    } else {
        alone.put(call.database, key, &value, Lifetime::Are(Attributes::expiring(at_ms)))?;
    }
    reply::ok(call.out);
    Ok(())
}

fn encode(value: &[u8]) -> Vec<u8> {
    let mut dump = vec![STRING];
    let number = if value.len() <= 11 { parse_integer(value) } else { None };
    match number.map(|n| (i8::try_from(n), i16::try_from(n), i32::try_from(n))) {
        Some((Ok(n), ..)) => dump.extend_from_slice(&[0xc0, n.to_le_bytes()[0]]),
        Some((_, Ok(n), _)) => {
            dump.push(0xc1);
            dump.extend_from_slice(&n.to_le_bytes());
        }
        Some((.., Ok(n))) => {
            dump.push(0xc2);
            dump.extend_from_slice(&n.to_le_bytes());
        }
        _ => {
            match value.len() {
                len @ 0..64 => dump.push(len as u8),
                len @ 64..16384 => dump.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
                len => {
                    dump.push(0x80);
                    dump.extend_from_slice(&(len as u32).to_be_bytes()); // a value is shorter than 2^32
                }
            }
            dump.extend_from_slice(value);
        }
    }
    dump.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&dump);
    dump.extend_from_slice(&sum.to_le_bytes());
    dump
}

fn decode(dump: &[u8], len_max: usize) -> Result<Vec<u8>, &'static str> {
    const WRONG: &str = "ERR DUMP payload version or checksum are wrong";
    let body_len = dump.len().checked_sub(FOOTER_BYTES).ok_or(WRONG)?;
    let (body, footer) = dump.split_at(body_len);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let sum = u64::from_le_bytes(footer[2..].try_into().map_err(|_| WRONG)?);
    // A checksum of 0 means no checksum.
    if version > VERSION || sum != 0 && sum != crc64(&dump[..body_len + 2]) {
        return Err(WRONG);
    }
    let mut input = body.strip_prefix(&[STRING]).ok_or(BAD_FORMAT)?;
    let value = read_string(&mut input, len_max)?;
    if input.is_empty() { Ok(value) } else { Err(BAD_FORMAT) }
}

fn read_string(input: &mut &[u8], len_max: usize) -> Result<Vec<u8>, &'static str> {
    match *take(input, 1)?.first().ok_or(BAD_FORMAT)? {
        0xc0 => {
            let byte = take(input, 1)?[0];
            Ok(i8::from_le_bytes([byte]).to_string().into_bytes())
        }
        0xc1 => {
            let bytes = take(input, 2)?;
            Ok(i16::from_le_bytes([bytes[0], bytes[1]]).to_string().into_bytes())
        }
        0xc2 => {
            let bytes = take(input, 4)?;
            Ok(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).to_string().into_bytes())
        }
        0xc3 => {
            let compressed = read_len(input)?;
            let len = read_len(input)?;
            if len > len_max {
                return Err(BAD_FORMAT);
            }
            decompress(take(input, compressed)?, len)
        }
        first => {
            let len = read_len_after(first, input)?;
            Ok(take(input, len)?.to_vec())
        }
    }
}

fn read_len(input: &mut &[u8]) -> Result<usize, &'static str> {
    let first = take(input, 1)?[0];
    read_len_after(first, input)
}

fn read_len_after(first: u8, input: &mut &[u8]) -> Result<usize, &'static str> {
    let number = match first {
        0..0x40 => u64::from(first),
        0x40..0x80 => u64::from(first & 0x3f) << 8 | u64::from(take(input, 1)?[0]),
        0x80 => take(input, 4)?.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        0x81 => take(input, 8)?.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        _ => return Err(BAD_FORMAT),
    };
    usize::try_from(number).map_err(|_| BAD_FORMAT)
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], &'static str> {
    let (taken, rest) = input.split_at_checked(count).ok_or(BAD_FORMAT)?;
    *input = rest;
    Ok(taken)
}

/// Decompresses LZF: literals, and references to earlier output. Every step writes at least one byte, so it ends.
fn decompress(mut input: &[u8], len: usize) -> Result<Vec<u8>, &'static str> {
    // 3 bytes decode to at most 264, so a length that cannot be right is refused before anything is allocated.
    if len / 100 > input.len() {
        return Err(BAD_FORMAT);
    }
    let mut value: Vec<u8> = Vec::with_capacity(len);
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        if control < 32 {
            value.extend_from_slice(take(&mut input, usize::from(control) + 1)?);
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                count += usize::from(take(&mut input, 1)?[0]);
            }
            let back = usize::from(control & 0x1f) << 8 | usize::from(take(&mut input, 1)?[0]);
            let from = value.len().checked_sub(back + 1).ok_or(BAD_FORMAT)?;
            // Byte by byte: a reference may overlap its own output.
            for index in from..from + count + 2 {
                value.push(value[index]);
            }
        }
        if value.len() > len {
            return Err(BAD_FORMAT);
        }
    }
    if value.len() == len { Ok(value) } else { Err(BAD_FORMAT) }
}

/// CRC-64 with Jones's polynomial, reflected, as in dump files.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut sum = index as u64;
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
                bit += 1;
            }
            table[index] = sum;
            index += 1;
        }
        table
    };
    bytes.iter().fold(0, |sum, &byte| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_dump_files() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_is_dumped_is_restored() {
        let long = [b'x'; 70_000];
        let values: [&[u8]; 9] =
            [b"", b"a", b"12", b"-300", b"70000", b"99999999999", &[b'y'; 64], &long[..16384], &long];
        for value in values {
            assert_eq!(decode(&encode(value), 1 << 20).unwrap(), value);
        }
        let mut damaged = encode(b"value");
        damaged[3] ^= 1;
        assert!(decode(&damaged, 1 << 20).is_err());
        assert!(decode(b"", 1 << 20).is_err());
    }

    #[test]
    fn compressed_values_are_read_and_wrong_ones_refused() {
        // One literal, then a reference that repeats it.
        let value = decompress(&[0, b'a', 0xe0, 90, 0], 100).unwrap();
        assert_eq!(value, [b'a'; 100]);
        assert!(decompress(&[0, b'a', 0xe0, 90, 1], 100).is_err());
        assert!(decompress(&[0, b'a'], 1 << 30).is_err());
        assert!(decompress(&[5, b'a'], 6).is_err());
    }
}
