//! Replies as values of Lua, and values of Lua as replies.

use super::Running;
use super::values::{check, number_of, text_of};
use crate::command::double::format_number;
use crate::command::reply::{self, Version};
use mlua::{Lua, Table, Value};

/// The most values of a reply: tables that contain others many times could have any number.
const VALUES_MAX: usize = 1 << 20;
/// The deepest reply.
const DEPTH_MAX: usize = 200;

/// Converts a reply, which this server wrote, to a value of Lua. Fails once the script is killed.
pub(super) fn to_lua(lua: &Lua, input: &mut &[u8], running: &Running) -> mlua::Result<Value> {
    check(running)?;
    let broken = || mlua::Error::runtime("a reply could not be read");
    let end = input.windows(2).position(|two| two == b"\r\n").ok_or_else(broken)?;
    let (line, rest) = (&input[..end], &input[end + 2..]);
    *input = rest;
    let (&kind, text) = line.split_first().ok_or_else(broken)?;
    let digits = std::str::from_utf8(text).unwrap_or_default();
    let table = |field: &str, value: Value| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.raw_set(field, value)?;
        Ok(Value::Table(table))
    };
    let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    let len = || digits.parse::<i64>().map_err(|_| broken());
    Ok(match kind {
        b'+' => table("ok", string(text)?)?,
        b'-' => table("err", string(text)?)?,
        b':' => Value::Number(len()? as f64), // as Redis does
        b'_' => Value::Nil,
        b'#' => Value::Boolean(text == b"t"),
        b',' => table("double", Value::Number(digits.parse().map_err(|_| broken())?))?,
        b'(' => table("big_number", string(text)?)?,
        b'$' | b'=' => {
            let Ok(len) = usize::try_from(len()?) else { return Ok(Value::Boolean(false)) };
            let bytes = input.get(..len).ok_or_else(broken)?;
            *input = input.get(len + 2..).ok_or_else(broken)?;
            if kind == b'$' {
                return string(bytes);
            }
            let verbatim = lua.create_table()?;
            verbatim.raw_set("format", string(bytes.get(..3).unwrap_or_default())?)?;
            verbatim.raw_set("string", string(bytes.get(4..).unwrap_or_default())?)?;
            table("verbatim_string", Value::Table(verbatim))?
        }
        b'*' | b'>' => {
            let Ok(len) = usize::try_from(len()?) else { return Ok(Value::Boolean(false)) };
            let list = lua.create_table()?;
            for index in 1..=len {
                list.raw_set(index, to_lua(lua, input, running)?)?;
            }
            Value::Table(list)
        }
        b'%' | b'~' => {
            let inner = lua.create_table()?;
            for _ in 0..len()? {
                let key = to_lua(lua, input, running)?;
                let value = if kind == b'%' { to_lua(lua, input, running)? } else { Value::Boolean(true) };
                inner.raw_set(key, value)?;
            }
            table(if kind == b'%' { "map" } else { "set" }, Value::Table(inner))?
        }
        _ => return Err(broken()),
    })
}

/// Writes values of Lua as replies.
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
    /// Whether the script chose RESP3.
    is_resp3: bool,
    /// The most bytes of output.
    end: usize,
    /// How many more values may be written.
    left: usize,
}

impl<'o> Writer<'o> {
    /// Creates a writer of at most `bytes_max` bytes.
    pub(super) fn new(out: &'o mut Vec<u8>, version: Version, is_resp3: bool, bytes_max: usize) -> Writer<'o> {
        let end = out.len().saturating_add(bytes_max);
        Writer { out, version, is_resp3, end, left: VALUES_MAX }
    }

    /// Appends the reply that a script returned, or nothing if it is too long.
    ///
    /// # Errors
    /// The text of the error reply.
    pub(super) fn reply(&mut self, value: &Value) -> Result<(), String> {
        let start = self.out.len();
        let written = self.write(value, 0).map_err(|error| text_of(&error));
        if written.is_err() {
            self.out.truncate(start);
        }
        written
    }

    fn write(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.out.len() > self.end || self.left == 0 {
            return Err(mlua::Error::runtime("ERR the script's reply is longer than a request may be"));
        }
        match value {
            Value::String(text) => reply::bulk(self.out, &text.as_bytes()),
            Value::Integer(number) => reply::integer(self.out, *number),
            Value::Number(number) => reply::integer(self.out, whole(*number)),
            Value::Boolean(is_true) if self.is_resp3 && self.version == Version::Resp3 => {
                self.out.extend_from_slice(if *is_true { b"#t\r\n" } else { b"#f\r\n" });
            }
            Value::Boolean(true) => reply::integer(self.out, 1),
            Value::Table(_) if depth >= DEPTH_MAX => reply::error(self.out, "ERR reached lua stack limit"),
            Value::Table(table) => return self.write_table(table, depth),
            _ => reply::null(self.out, self.version),
        }
        Ok(())
    }

    fn write_table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let field = |name: &str| table.raw_get::<Value>(name);
        if let Value::String(text) = field("err")? {
            let text = text.as_bytes();
            let text = c_string(&text);
            let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
            reply::error(self.out, one_line(&text[..end]));
        } else if let Value::String(text) = field("ok")? {
            self.out.push(b'+');
            self.out.extend_from_slice(&one_line(c_string(&text.as_bytes())));
            self.out.extend_from_slice(b"\r\n");
        } else if let Some(number) = number_of(&field("double")?) {
            let text = format_number(number, 17);
            match self.version {
                Version::Resp3 => self.out.extend_from_slice(format!(",{text}\r\n").as_bytes()),
                Version::Resp2 => reply::bulk(self.out, text.as_bytes()),
            }
        } else if let Value::Table(map) = field("map")? {
            reply::map(self.out, count(&map)?, self.version);
            map.for_each(|key: Value, value: Value| {
                self.write(&key, depth + 1)?;
                self.write(&value, depth + 1)
            })?;
        } else if let Value::Table(set) = field("set")? {
            reply::set(self.out, count(&set)?, self.version);
            set.for_each(|key: Value, _: Value| self.write(&key, depth + 1))?;
        } else if let Value::String(digits) = field("big_number")? {
            let digits = one_line(&digits.as_bytes());
            match self.version {
                Version::Resp3 => self.out.extend_from_slice(&[b"(", digits.as_slice(), b"\r\n"].concat()),
                Version::Resp2 => reply::bulk(self.out, &digits),
            }
        } else if let Value::Table(verbatim) = field("verbatim_string")?
            && let Value::String(text) = verbatim.raw_get::<Value>("string")?
            && let Value::String(format) = verbatim.raw_get::<Value>("format")?
        {
            match self.version {
                Version::Resp3 => {
                    let mut kind = one_line(&format.as_bytes());
                    kind.resize(3, b' ');
                    let text = text.as_bytes();
                    self.out.extend_from_slice(format!("={}\r\n", text.len() + 4).as_bytes());
                    self.out.extend_from_slice(&[&kind, b":".as_slice(), &text, b"\r\n"].concat());
                }
                Version::Resp2 => reply::bulk(self.out, &text.as_bytes()),
            }
        } else {
            // Up to the first nil.
            let mut len = 0;
            while !table.raw_get::<Value>(len + 1)?.is_nil() {
                len += 1;
            }
            reply::array(self.out, len);
            for index in 1..=len {
                self.write(&table.raw_get(index)?, depth + 1)?;
            }
        }
        Ok(())
    }
}

/// Text without line ends.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if b"\r\n".contains(&byte) { b' ' } else { byte }).collect()
}

/// The text before the first zero byte, which is all that Redis sends of it.
fn c_string(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Drops a number's fraction, as Redis does on x86.
fn whole(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

fn count(table: &Table) -> mlua::Result<usize> {
    let mut count = 0;
    table.for_each(|_: Value, _: Value| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}
