//! Commands on the bits of values. Bit 0 is the highest bit of the first byte.
//!
//! SETBIT, GETBIT and BITFIELD read and write only the bytes that contain the bits. The others read only the requested
//! range.

use super::call::{Args, Call, NOT_AN_INTEGER, Outcome, Refusal, SYNTAX, Turn};
use super::reply;
use super::strings::{integer, range_of};
use crate::keyspace::{Exclusive, Lifetime};

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";
const BAD_BIT: &str = "ERR bit is not an integer or out of range";

/// Parses the offset of a bit; an error if a value of `value_bytes_max` bytes does not have that bit.
fn bit_offset(argument: &[u8], value_bytes_max: usize) -> Result<usize, Refusal> {
    let offset = super::number::parse_integer(argument).and_then(|offset| usize::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < value_bytes_max).ok_or_else(|| BAD_OFFSET.into())
}

/// SETBIT key offset value
pub(super) fn setbit(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let offset = bit_offset(call.args.at(2), call.value_bytes_max)?;
    let bit = match call.args.at(3) {
        b"0" => 0,
        b"1" => 1u8,
        _ => return Err(BAD_BIT.into()),
    };
    let (key, at, shift) = (call.args.at(1), offset / 8, 7 - offset % 8);
    let mut old = Vec::new();
    alone.get_part(call.database, key, |_| at..at + 1, &mut old)?;
    let byte = old.first().copied().unwrap_or(0);
    let new = byte & !(1 << shift) | bit << shift;
    // As in Redis, a bit that already has this value changes nothing.
    if old.first() != Some(&new) {
        alone.put_part(call.database, key, at, &[new])?;
    }
    reply::integer(call.out, i64::from(byte >> shift & 1));
    Ok(())
}

/// GETBIT key offset
pub(super) fn getbit(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let offset = bit_offset(call.args.at(2), call.value_bytes_max)?;
    let mut byte = Vec::new();
    turn.get_part(call.database, call.args.at(1), |_| offset / 8..offset / 8 + 1, &mut byte)?;
    let byte = byte.first().copied().unwrap_or(0);
    reply::integer(call.out, i64::from(byte >> (7 - offset % 8) & 1));
    Ok(())
}

/// A range of the bits of a value, and the bytes that contain it.
struct BitRange {
    bytes: Vec<u8>,
    /// The index in the value of the first of `bytes`.
    first_byte: usize,
    /// The bits, counted from the beginning of the value.
    bits: std::ops::Range<usize>,
    /// Whether the key is present.
    present: bool,
}

impl BitRange {
    /// Parses the arguments from index `start` on: the two ends, and whether they count bits.
    fn ends(args: &Args<'_>, start: usize, is_position: bool) -> Result<(i64, i64, bool), Refusal> {
        let len = args.len();
        if len > start + 3 || len == start + 1 && !is_position {
            return Err(SYNTAX.into());
        }
        let unit = || {
            let in_bits = len == start + 3 && args.is(start + 2, "bit");
            let is_known = len < start + 3 || in_bits || args.is(start + 2, "byte");
            if is_known { Ok(in_bits) } else { Err(Refusal::from(SYNTAX)) }
        };
        let from = args.get(start).map_or(Ok(0), integer)?;
        if is_position {
            unit()?; // BITPOS looks at it before the end
        }
        let to = args.get(start + 1).map_or(Ok(-1), integer)?;
        let in_bits = unit()?;
        Ok((from, to, in_bits))
    }

    /// Reads the range given by the arguments from index `start` on: `[start [end [BYTE | BIT]]]`. `is_position`: as
    /// for BITPOS, the end may be left out, and a range before the value is its first byte or bit.
    fn read(
        turn: &mut Turn<'_, '_>,
        call: &Call<'_, '_>,
        start: usize,
        is_position: bool,
    ) -> Result<BitRange, Refusal> {
        let args = call.args;
        let (from, to, in_bits) = match Self::ends(&args, start, is_position) {
            Ok(ends) => ends,
            // As in Redis, a key that is absent or has another type is reported first.
            Err(refusal) => match turn.value_len(call.database, args.at(1))? {
                Some(_) => return Err(refusal),
                None => return Ok(BitRange { bytes: Vec::new(), first_byte: 0, bits: 0..0, present: false }),
            },
        };
        let (mut bits, mut first_byte, mut bytes) = (0..0, 0, Vec::new());
        let choose = |len: usize| {
            let (len, unit) = if in_bits { (8 * len, 1) } else { (len, 8) };
            let before = (len as i64).saturating_neg(); // a value is shorter than 2^32
            let least = if is_position { before } else { i64::MIN };
            let range = range_of(len, from.max(least), to.max(least));
            bits = unit * range.start..unit * range.end;
            first_byte = bits.start / 8;
            first_byte..bits.end.div_ceil(8)
        };
        let present = turn.get_part(call.database, args.at(1), choose, &mut bytes)?.is_some();
        Ok(BitRange { bytes, first_byte, bits, present })
    }

    /// The byte at index `at` of the value, with the bits outside the range taken from `fill`.
    fn byte(&self, at: usize, fill: u8) -> u8 {
        let byte = self.bytes.get(at - self.first_byte).copied().unwrap_or(0);
        let mut outside = 0u8;
        if at == self.bits.start / 8 {
            outside |= !(0xff >> (self.bits.start % 8));
        }
        if at == self.bits.end / 8 {
            outside |= 0xff >> (self.bits.end % 8);
        }
        byte & !outside | fill & outside
    }

    fn byte_indices(&self) -> std::ops::Range<usize> {
        self.bits.start / 8..self.bits.end.div_ceil(8)
    }
}

/// BITCOUNT key [start end [BYTE | BIT]]
pub(super) fn bitcount(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let range = BitRange::read(turn, call, 2, false)?;
    let count: u64 = range.byte_indices().map(|at| u64::from(range.byte(at, 0).count_ones())).sum();
    reply::count(call.out, count);
    Ok(())
}

/// BITPOS key bit [start [end [BYTE | BIT]]]
pub(super) fn bitpos(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let bit = match integer(call.args.at(2))? {
        0 => 0u8,
        1 => 1,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    // As in Redis, whose BITCOUNT counts nothing there.
    let range = BitRange::read(turn, call, 3, true)?;
    let skip = if bit == 1 { 0 } else { 0xff };
    let found = range.byte_indices().find(|&at| range.byte(at, skip) != skip);
    let position = match found {
        Some(at) => (8 * at) as i64 + i64::from((range.byte(at, skip) ^ skip).leading_zeros()),
        None if !range.present => {
            if bit == 1 {
                -1
            } else {
                0
            }
        }
        // The bits after the end of a value count as zeros, unless the request has an end.
        None if bit == 0 && call.args.len() < 5 && !range.bits.is_empty() => range.bits.end as i64,
        None => -1,
    };
    reply::integer(call.out, position);
    Ok(())
}

/// BITOP operation destination key ...
pub(super) fn bitop(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let operation: fn(u8, u8) -> u8 = match args.at(1).to_ascii_lowercase().as_slice() {
        b"and" => |a, b| a & b,
        b"or" => |a, b| a | b,
        b"xor" => |a, b| a ^ b,
        b"not" if args.len() != 4 => return Err("ERR BITOP NOT must be called with a single source key.".into()),
        b"not" => |a, _| !a,
        _ => return Err(SYNTAX.into()),
    };
    let is_not = args.is(1, "not");
    let (mut result, mut value) = (Vec::new(), Vec::new());
    for (index, key) in args.from(3).enumerate() {
        alone.get(call.database, key, &mut value)?;
        if index == 0 {
            std::mem::swap(&mut result, &mut value);
            if is_not {
                result.iter_mut().for_each(|byte| *byte = operation(*byte, 0));
            }
            continue;
        }
        let len = result.len().max(value.len());
        result.resize(len, 0);
        value.resize(len, 0);
        result.iter_mut().zip(&value).for_each(|(byte, other)| *byte = operation(*byte, *other));
    }
    if result.is_empty() {
        alone.remove(call.database, args.at(2))?;
    } else {
        alone.put(call.database, args.at(2), &result, Lifetime::Clear)?;
    }
    reply::count(call.out, result.len() as u64);
    Ok(())
}

/// What BITFIELD does with a number that does not fit its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

enum Change {
    Get,
    Set(i64),
    Add(i64),
}

/// One operation of BITFIELD.
struct Field {
    signed: bool,
    bits: u32,
    offset: usize,
    change: Change,
    overflow: Overflow,
}

impl Field {
    fn parse(kind: &[u8], offset: &[u8], value_bytes_max: usize) -> Result<Field, Refusal> {
        const BAD_TYPE: &str =
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
        let signed = match kind.first() {
            Some(b'i') => true,
            Some(b'u') => false,
            _ => return Err(BAD_TYPE.into()),
        };
        let bits =
            super::number::parse_integer(&kind[1..]).filter(|bits| (1..=if signed { 64 } else { 63 }).contains(bits));
        let bits = bits.ok_or(BAD_TYPE)? as u32; // at most 64
        let (number, factor) = match offset.strip_prefix(b"#") {
            Some(number) => (number, bits as usize),
            None => (offset, 1),
        };
        let offset = super::number::parse_integer(number).and_then(|number| usize::try_from(number).ok());
        let offset = offset.and_then(|offset| offset.checked_mul(factor)).ok_or(BAD_OFFSET)?;
        let last = offset.checked_add(bits as usize - 1).ok_or(BAD_OFFSET)?;
        if last / 8 >= value_bytes_max {
            return Err(BAD_OFFSET.into());
        }
        Ok(Field { signed, bits, offset, change: Change::Get, overflow: Overflow::Wrap })
    }

    fn bytes(&self) -> std::ops::Range<usize> {
        self.offset / 8..(self.offset + self.bits as usize).div_ceil(8)
    }

    /// The field's number. `bytes` begins at the field's first byte; missing bytes are zero.
    fn get(&self, bytes: &[u8]) -> i128 {
        let mut number: u128 = 0;
        for index in 0..self.bytes().len() {
            number = number << 8 | u128::from(bytes.get(index).copied().unwrap_or(0));
        }
        let behind = 8 * self.bytes().len() - self.offset % 8 - self.bits as usize;
        let number = (number >> behind & ((1u128 << self.bits) - 1)) as i128; // below 2^64
        if self.signed && number >> (self.bits - 1) & 1 == 1 { number - (1i128 << self.bits) } else { number }
    }

    /// Writes the field's number. `bytes` are exactly the bytes that contain the field.
    fn set(&self, bytes: &mut [u8], number: i128) {
        let behind = 8 * bytes.len() - self.offset % 8 - self.bits as usize;
        let mask = ((1u128 << self.bits) - 1) << behind;
        let shifted = ((number as u128) << behind) & mask;
        for (index, byte) in bytes.iter_mut().rev().enumerate() {
            *byte = *byte & !((mask >> (8 * index)) as u8) | (shifted >> (8 * index)) as u8;
        }
    }

    /// The number wrapped or saturated to the field; `None` if it does not fit and the field's overflow is FAIL.
    fn fit(&self, number: i128) -> Option<i128> {
        let (least, most) = match self.signed {
            true => (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1),
            false => (0, (1i128 << self.bits) - 1),
        };
        if (least..=most).contains(&number) {
            return Some(number);
        }
        match self.overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(number.clamp(least, most)),
            Overflow::Wrap => {
                let wrapped = number & ((1i128 << self.bits) - 1);
                Some(if wrapped > most { wrapped - (1i128 << self.bits) } else { wrapped })
            }
        }
    }
}

/// Parses the operations of BITFIELD.
fn fields(call: &Call<'_, '_>) -> Result<Vec<Field>, Refusal> {
    let args = call.args;
    let (mut fields, mut overflow, mut index) = (Vec::new(), Overflow::Wrap, 2);
    while index < args.len() {
        let left = args.len() - index - 1;
        if args.is(index, "overflow") && left >= 1 {
            overflow = match args.at(index + 1).to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            index += 2;
            continue;
        }
        let (is_get, is_set) = (args.is(index, "get") && left >= 2, args.is(index, "set") && left >= 3);
        if !(is_get || is_set || args.is(index, "incrby") && left >= 3) {
            return Err(SYNTAX.into());
        }
        let mut field = Field::parse(args.at(index + 1), args.at(index + 2), call.value_bytes_max)?;
        field.overflow = overflow;
        if !is_get {
            let number = super::number::parse_integer(args.at(index + 3)).ok_or(NOT_AN_INTEGER)?;
            field.change = if is_set { Change::Set(number) } else { Change::Add(number) };
        }
        fields.push(field);
        index += if is_get { 3 } else { 4 };
    }
    Ok(fields)
}

/// BITFIELD key operation ...
pub(super) fn bitfield(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (key, fields) = (call.args.at(1), fields(call)?);
    let is_change = |field: &&Field| !matches!(field.change, Change::Get);
    if let Some(end) = fields.iter().filter(is_change).map(|field| field.bytes().end).max()
        && alone.value_len(call.database, key)?.unwrap_or(0) < end
    {
        // As in Redis, the value grows to contain the last field even if that field is not changed.
        alone.put_part(call.database, key, end - 1, &[0])?;
    }
    reply::array(call.out, fields.len());
    let mut bytes = Vec::new();
    for field in &fields {
        alone.get_part(call.database, key, |_| field.bytes(), &mut bytes)?;
        let old = field.get(&bytes);
        let new = match field.change {
            Change::Get => {
                reply::integer(call.out, old as i64); // at most 64 bits
                continue;
            }
            Change::Set(number) if field.signed => field.fit(number.into()),
            // As in Redis, a negative number is a large one.
            Change::Set(number) => field.fit((number as u64).into()),
            Change::Add(number) => field.fit(old + i128::from(number)),
        };
        match new {
            None => reply::null(call.out, call.version),
            Some(new) => {
                let before = bytes.clone();
                field.set(&mut bytes, new);
                if bytes != before {
                    alone.put_part(call.database, key, field.bytes().start, &bytes)?;
                }
                let is_set = matches!(field.change, Change::Set(_));
                reply::integer(call.out, if is_set { old } else { new } as i64); // at most 64 bits
            }
        }
    }
    Ok(())
}

/// BITFIELD_RO key GET type offset ...
pub(super) fn bitfield_ro(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let fields = fields(call)?;
    if fields.iter().any(|field| !matches!(field.change, Change::Get)) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    reply::array(call.out, fields.len());
    let mut bytes = Vec::new();
    for field in &fields {
        turn.get_part(call.database, call.args.at(1), |_| field.bytes(), &mut bytes)?;
        reply::integer(call.out, field.get(&bytes) as i64); // at most 64 bits
    }
    Ok(())
}
