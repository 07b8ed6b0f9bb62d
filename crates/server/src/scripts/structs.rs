//! The library `struct`: numbers and strings as the bytes of C structures.
//!
//! ```text
//! > <      big-endian, little-endian (at first)    !n     aligned to at most n bytes
//! b B      1 byte, signed and unsigned             h H    2 bytes
//! l L T    8 bytes                                 iN IN  N bytes (4)
//! f d      float, double                           x      a zero byte, skipped when read
//! s        a string and a zero byte                cN     N bytes of a string; c0: all; read, as the number before
//! ```
//!
//! Source: struct 0.2 by Roberto Ierusalimschy, with the checks that Redis added.

use super::Running;
use super::values::{RESULTS_MAX, TOO_MANY_RESULTS, check, kind_of, number_of, text_of};
use mlua::{BorrowedBytes, Lua, MultiValue, Value};

/// One item of a format.
enum Item {
    Integer(usize, bool),
    Float,
    Double,
    Pad,
    Chars(usize),
    Zeroed,
}

/// A format as it is read: its rest, and the state that it sets.
struct Format<'f> {
    rest: &'f [u8],
    is_big: bool,
    align: usize,
    /// The name of the function, for errors.
    function: &'static str,
}

impl<'f> Format<'f> {
    fn new(text: &'f [u8], function: &'static str) -> Format<'f> {
        Format { rest: text, is_big: false, align: 1, function }
    }

    fn number(&mut self, default: usize) -> Result<usize, String> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        let number: Option<i32> = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| "integral size overflow".into())
    }

    /// The next item, and the padding before it if it comes after `len` bytes.
    fn next(&mut self, len: usize) -> Result<Option<(Item, usize)>, String> {
        const INTEGER_BYTES_MAX: usize = 32;
        const ALIGN_MAX: usize = 8;
        loop {
            let Some((&code, rest)) = self.rest.split_first() else { return Ok(None) };
            self.rest = rest;
            let (item, bytes) = match code {
                b' ' => continue,
                b'>' | b'<' => {
                    self.is_big = code == b'>';
                    continue;
                }
                b'!' => {
                    self.align = self.number(ALIGN_MAX)?;
                    if !self.align.is_power_of_two() {
                        return Err(format!("alignment {} is not a power of 2", self.align));
                    }
                    continue;
                }
                b'b' | b'B' => (Item::Integer(1, code == b'b'), 1),
                b'h' | b'H' => (Item::Integer(2, code == b'h'), 2),
                b'l' | b'L' | b'T' => (Item::Integer(8, code == b'l'), 8),
                b'i' | b'I' => {
                    let bytes = self.number(4)?;
                    if bytes > INTEGER_BYTES_MAX {
                        return Err(format!("integral size {bytes} is larger than limit of {INTEGER_BYTES_MAX}"));
                    }
                    (Item::Integer(bytes, code == b'i'), bytes)
                }
                b'f' => (Item::Float, 4),
                b'd' => (Item::Double, 8),
                b'x' => return Ok(Some((Item::Pad, 0))),
                b's' => return Ok(Some((Item::Zeroed, 0))),
                b'c' => return Ok(Some((Item::Chars(self.number(1)?), 0))),
                other => {
                    let function = self.function;
                    let option = char::from(other);
                    return Err(format!("bad argument #1 to '{function}' (invalid format option '{option}')"));
                }
            };
            let align = bytes.min(self.align);
            let is_aligned = align > 1 && align.is_power_of_two();
            let padding = if is_aligned { (align - (len & (align - 1))) & (align - 1) } else { 0 };
            return Ok(Some((item, padding)));
        }
    }
}

/// Packs values into at most `bytes_max` bytes. Fails once the script is killed.
pub(super) fn pack(lua: &Lua, values: &[Value], bytes_max: usize, running: &Running) -> Result<Vec<u8>, String> {
    let format = text(lua, values, 0, "pack")?;
    let mut format = Format::new(&format, "pack");
    let (mut out, mut index) = (Vec::<u8>::new(), 0);
    while let Some((item, padding)) = format.next(out.len())? {
        check(running).map_err(|error| text_of(&error))?;
        out.resize(out.len() + padding, 0);
        index += usize::from(!matches!(item, Item::Pad));
        match item {
            Item::Pad => out.push(0),
            Item::Integer(len, _) => {
                let number = number(lua, values, index, "pack")?;
                // As C converts it: negative numbers as two's complement, others as unsigned.
                let whole = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let mut bytes = whole.to_le_bytes().to_vec();
                bytes.resize(len.max(8), 0);
                bytes.truncate(len);
                out.extend_from_slice(&swapped(bytes, format.is_big));
            }
            Item::Float => {
                let bytes = (number(lua, values, index, "pack")? as f32).to_le_bytes();
                out.extend_from_slice(&swapped(bytes.to_vec(), format.is_big));
            }
            Item::Double => {
                let bytes = number(lua, values, index, "pack")?.to_le_bytes();
                out.extend_from_slice(&swapped(bytes.to_vec(), format.is_big));
            }
            Item::Chars(len) => {
                let text = text(lua, values, index, "pack")?;
                let part = text.get(..if len > 0 { len } else { text.len() });
                let short = || format!("bad argument #{} to 'pack' (string too short)", index + 2);
                out.extend_from_slice(part.ok_or_else(short)?);
            }
            Item::Zeroed => {
                out.extend_from_slice(&text(lua, values, index, "pack")?);
                out.push(0);
            }
        }
        if out.len() > bytes_max {
            return Err("not enough memory".into());
        }
    }
    Ok(out)
}

fn swapped(mut bytes: Vec<u8>, is_big: bool) -> Vec<u8> {
    if is_big {
        bytes.reverse();
    }
    bytes
}

/// Unpacks the values from bytes; also returns the position after them. Fails once the script is killed.
pub(super) fn unpack(lua: &Lua, values: &[Value], running: &Running) -> Result<MultiValue, String> {
    const SHORT: &str = "bad argument #2 to 'unpack' (data string too short)";
    let (format, data) = (text(lua, values, 0, "unpack")?, text(lua, values, 1, "unpack")?);
    let (mut format, data) = (Format::new(&format, "unpack"), &*data);
    let mut at = match values.get(2) {
        None | Some(Value::Nil) => 0,
        Some(_) => {
            let position = number(lua, values, 2, "unpack")?;
            // NaN fails this comparison.
            if position >= 1.0 {
                position as usize - 1
            } else {
                return Err("bad argument #3 to 'unpack' (offset must be 1 or greater)".into());
            }
        }
    };
    let mut found = MultiValue::new();
    let failed = |error: mlua::Error| error.to_string();
    while let Some((item, padding)) = format.next(at)? {
        check(running).map_err(|error| text_of(&error))?;
        // Lua's allocator does not count this list.
        if found.len() >= RESULTS_MAX {
            return Err(TOO_MANY_RESULTS.into());
        }
        at = at.saturating_add(padding);
        let mut take = |len: usize| -> Result<&[u8], String> {
            let end = at.checked_add(len).filter(|&end| end <= data.len()).ok_or(SHORT)?;
            let start = std::mem::replace(&mut at, end);
            Ok(&data[start..end])
        };
        match item {
            Item::Pad => drop(take(1)?),
            Item::Integer(len, is_signed) => {
                let mut bytes = swapped(take(len)?.to_vec(), format.is_big);
                bytes.truncate(8);
                let is_negative = is_signed && len <= 8 && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
                bytes.resize(8, if is_negative { 0xff } else { 0 });
                let number = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                found.push_back(Value::Number(if is_signed { number as i64 as f64 } else { number as f64 }));
            }
            Item::Float => {
                let bytes = swapped(take(4)?.to_vec(), format.is_big).try_into().unwrap_or_default();
                found.push_back(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            Item::Double => {
                let bytes = swapped(take(8)?.to_vec(), format.is_big).try_into().unwrap_or_default();
                found.push_back(Value::Number(f64::from_le_bytes(bytes)));
            }
            Item::Chars(len) => {
                let len = match len {
                    0 => {
                        let before = found.pop_back().and_then(|value| number_of(&value));
                        let len = before.ok_or("format 'c0' needs a previous size")?;
                        if len < 0.0 { data.len() + 1 } else { len as usize }
                    }
                    len => len,
                };
                found.push_back(Value::String(lua.create_string(take(len)?).map_err(failed)?));
            }
            Item::Zeroed => {
                let rest = data.get(at..).unwrap_or_default();
                let len = memchr::memchr(0, rest).ok_or("unfinished string in data")?;
                found.push_back(Value::String(lua.create_string(&rest[..len]).map_err(failed)?));
                at += len + 1;
            }
        }
    }
    found.push_back(Value::Number((at + 1) as f64));
    Ok(found)
}

/// The number of bytes of a format.
pub(super) fn size(lua: &Lua, values: &[Value]) -> Result<f64, String> {
    let format = text(lua, values, 0, "size")?;
    let mut format = Format::new(&format, "size");
    let mut size = 0usize;
    while let Some((item, padding)) = format.next(size)? {
        let bytes = match item {
            Item::Pad => 1,
            Item::Integer(len, _) => len,
            Item::Float => 4,
            Item::Double => 8,
            Item::Zeroed => return Err("bad argument #1 to 'size' (option 's' has no fixed size)".into()),
            Item::Chars(0) => return Err("bad argument #1 to 'size' (option 'c0' has no fixed size)".into()),
            Item::Chars(len) => len,
        };
        size = size.saturating_add(padding + bytes);
    }
    Ok(size as f64)
}

/// The bytes of a string, which are Lua's own: scripts unpack long strings item by item.
fn text(lua: &Lua, values: &[Value], index: usize, function: &str) -> Result<BorrowedBytes, String> {
    let found = values.get(index).map_or(if index == 0 { "no value" } else { "nil" }, kind_of);
    let text = match values.get(index) {
        Some(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(value.clone()).ok().flatten()
        }
        _ => None,
    };
    let bad = || format!("bad argument #{} to '{function}' (string expected, got {found})", index + 1);
    text.map(|text| text.as_bytes()).ok_or_else(bad)
}

fn number(lua: &Lua, values: &[Value], index: usize, function: &str) -> Result<f64, String> {
    let found = values.get(index).map_or(if index == 0 { "no value" } else { "nil" }, kind_of);
    let number = values.get(index).and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
    number.ok_or_else(|| format!("bad argument #{} to '{function}' (number expected, got {found})", index + 1))
}
