//! cmsgpack: values of Lua as MessagePack, with the rules and error messages of lua-cmsgpack.

use super::Running;
use super::values::{RESULTS_MAX, TOO_MANY_RESULTS, check, number_of};
use mlua::{Lua, MultiValue, Table, Value};

/// Deeper tables are packed as nil.
const PACKED_DEPTH_MAX: usize = 16;
const UNPACKED_DEPTH_MAX: usize = 100;
const BROKEN: &str = "Bad data format in input.";
const SHORT: &str = "Missing bytes in input.";

/// Appends the MessagePack of a value, up to a length of `bytes_max`.
///
/// # Errors
/// The message.
pub(super) fn pack(out: &mut Vec<u8>, value: &Value, depth: usize, bytes_max: usize) -> mlua::Result<()> {
    if out.len() > bytes_max {
        return Err(mlua::Error::runtime("not enough memory"));
    }
    match value {
        Value::Boolean(is_true) => out.push(if *is_true { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => pack_integer(out, *number),
        Value::Number(number) if *number == (*number as i64) as f64 => pack_integer(out, *number as i64),
        Value::Number(number) if f64::from(*number as f32) == *number => {
            out.push(0xca);
            out.extend_from_slice(&(*number as f32).to_be_bytes());
        }
        Value::Number(number) => {
            out.push(0xcb);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::String(text) => {
            let text = text.as_bytes();
            match text.len() {
                len @ 0..32 => out.push(0xa0 | len as u8),                    // below 32
                len @ 32..=0xff => out.extend_from_slice(&[0xd9, len as u8]), // at most 255
                len => pack_len(out, 0xda, len),
            }
            out.extend_from_slice(&text);
        }
        Value::Table(table) if depth < PACKED_DEPTH_MAX => return pack_table(out, table, depth + 1, bytes_max),
        _ => out.push(0xc0),
    }
    Ok(())
}

fn pack_integer(out: &mut Vec<u8>, number: i64) {
    // The code, and how many of the last bytes of the number follow it.
    let (code, len) = match number {
        -0x20..0x80 => (number as u8, 0), // two's complement in one byte
        0x80..0x100 => (0xcc, 1),
        0x100..0x1_0000 => (0xcd, 2),
        0x1_0000..0x1_0000_0000 => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..-0x20 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(code);
    out.extend_from_slice(&number.to_be_bytes()[8 - len..]);
}

/// A length of 16 bits, or of 32 with the next code. Memory is limited to less than 4 GiB.
fn pack_len(out: &mut Vec<u8>, code: u8, len: usize) {
    match u16::try_from(len) {
        Ok(len) => {
            out.push(code);
            out.extend_from_slice(&len.to_be_bytes());
        }
        Err(_) => {
            out.push(code + 1);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn pack_table(out: &mut Vec<u8>, table: &Table, depth: usize, bytes_max: usize) -> mlua::Result<()> {
    let (mut count, mut last, mut is_array) = (0usize, 0.0f64, true);
    table.for_each(|key: Value, _: Value| {
        count += 1;
        match number_of(&key) {
            Some(number) if number >= 1.0 && number.fract() == 0.0 => last = last.max(number),
            _ => is_array = false,
        }
        Ok(())
    })?;
    if is_array && last == count as f64 {
        if count < 16 {
            out.push(0x90 | count as u8)
        } else {
            pack_len(out, 0xdc, count)
        }
        return (1..=count).try_for_each(|index| pack(out, &table.raw_get(index)?, depth, bytes_max));
    }
    if count < 16 {
        out.push(0x80 | count as u8)
    } else {
        pack_len(out, 0xde, count)
    }
    table.for_each(|key: Value, value: Value| {
        pack(out, &key, depth, bytes_max)?;
        pack(out, &value, depth, bytes_max)
    })
}

/// Unpacks at most `most` values of a text from `at` on; also returns the offset after them.
///
/// # Errors
/// The message, or that the script was killed.
pub(super) fn unpack(
    lua: &Lua,
    text: &[u8],
    at: usize,
    most: usize,
    running: &Running,
) -> mlua::Result<(MultiValue, usize)> {
    let mut reader = Reader { lua, text, at, running };
    let mut values = MultiValue::new();
    while reader.at < text.len() && values.len() < most {
        // Lua's allocator does not count this list.
        if values.len() >= RESULTS_MAX {
            return Err(mlua::Error::runtime(TOO_MANY_RESULTS));
        }
        values.push_back(reader.value(0)?);
    }
    Ok((values, reader.at))
}

struct Reader<'r> {
    lua: &'r Lua,
    text: &'r [u8],
    at: usize,
    running: &'r Running,
}

impl Reader<'_> {
    fn take(&mut self, len: usize) -> mlua::Result<&[u8]> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.text.len());
        let end = end.ok_or_else(|| mlua::Error::runtime(SHORT))?;
        let start = std::mem::replace(&mut self.at, end);
        Ok(&self.text[start..end])
    }

    /// Reads a big-endian number of `len` bytes.
    fn number(&mut self, len: usize) -> mlua::Result<u64> {
        Ok(self.take(len)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn len(&mut self, len: usize) -> mlua::Result<usize> {
        Ok(self.number(len)? as usize) // at most 32 bits
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        check(self.running)?;
        let float = |number: f64| Ok(Value::Number(number));
        match self.take(1)?[0] {
            byte @ 0..=0x7f => float(f64::from(byte)),
            byte @ 0xe0.. => float(f64::from(byte as i8)),
            byte @ 0x80..=0x8f => self.map(usize::from(byte & 15), depth),
            byte @ 0x90..=0x9f => self.array(usize::from(byte & 15), depth),
            byte @ 0xa0..=0xbf => self.string(usize::from(byte & 31)),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xca => float(f64::from(f32::from_bits(self.number(4)? as u32))), // of 4 bytes
            0xcb => float(f64::from_bits(self.number(8)?)),
            code @ 0xcc..=0xcf => float(self.number(1 << (code - 0xcc))? as f64),
            0xd0 => float(f64::from(self.number(1)? as i8)),
            0xd1 => float(f64::from(self.number(2)? as i16)),
            0xd2 => float(f64::from(self.number(4)? as i32)),
            0xd3 => float(self.number(8)? as i64 as f64),
            code @ (0xc4 | 0xd9 | 0xc5 | 0xda | 0xc6 | 0xdb) => {
                let len = self.len(match code {
                    0xc4 | 0xd9 => 1,
                    0xc5 | 0xda => 2,
                    _ => 4,
                })?;
                self.string(len)
            }
            code @ (0xdc | 0xdd) => {
                let len = self.len(if code == 0xdc { 2 } else { 4 })?;
                self.array(len, depth)
            }
            code @ (0xde | 0xdf) => {
                let len = self.len(if code == 0xde { 2 } else { 4 })?;
                self.map(len, depth)
            }
            _ => Err(mlua::Error::runtime(BROKEN)),
        }
    }

    fn string(&mut self, len: usize) -> mlua::Result<Value> {
        let lua = self.lua;
        lua.create_string(self.take(len)?).map(Value::String)
    }

    fn table(&self, depth: usize) -> mlua::Result<Table> {
        if depth >= UNPACKED_DEPTH_MAX { Err(mlua::Error::runtime(BROKEN)) } else { self.lua.create_table() }
    }

    fn array(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.table(depth)?;
        for index in 1..=len {
            table.raw_set(index, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.table(depth)?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if key.is_nil() || number_of(&key).is_some_and(f64::is_nan) {
                return Err(mlua::Error::runtime(BROKEN));
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
