//! cjson: values of Lua as JSON, with the rules and error messages of lua-cjson.
//!
//! Both directions use an explicit stack, since the client chooses the nesting.

use super::Running;
use super::values::{check, kind_of, number_of, text_of};
use crate::command::double::format_number;
use mlua::{Function, Lua, Table, Value};

/// What a script can set until it ends, by the names of lua-cjson's functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) encode_max_depth: usize,
    pub(super) decode_max_depth: usize,
    /// Whether NaN and infinities are errors (0), text (1) or null (2).
    pub(super) encode_invalid_numbers: u8,
    /// Whether they are read.
    pub(super) decode_invalid_numbers: bool,
    /// Significant digits.
    pub(super) encode_number_precision: usize,
    /// An array is too sparse if it is longer than `safe` and has less than one value for `ratio` indices, unless
    /// `ratio` is 0. Whether such an array becomes an object instead of an error.
    pub(super) sparse_convert: bool,
    pub(super) sparse_ratio: u64,
    pub(super) sparse_safe: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            encode_max_depth: 1000,
            decode_max_depth: 1000,
            encode_invalid_numbers: 0,
            decode_invalid_numbers: true,
            encode_number_precision: 14,
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
        }
    }
}

impl Settings {
    /// Sets the option of this name, whose value is in its range, and returns it; `None` if there is no such option.
    pub(super) fn option(&mut self, name: &[u8], value: Option<u32>) -> Option<u32> {
        fn set<T: Copy>(option: &mut T, value: Option<T>) -> T {
            *option = value.unwrap_or(*option);
            *option
        }
        let (size, flag, long) =
            (value.map(|value| value as usize), value.map(|value| value != 0), value.map(u64::from));
        Some(match name {
            b"encode_max_depth" => set(&mut self.encode_max_depth, size) as u32,
            b"decode_max_depth" => set(&mut self.decode_max_depth, size) as u32,
            b"encode_number_precision" => set(&mut self.encode_number_precision, size) as u32,
            b"encode_invalid_numbers" => set(&mut self.encode_invalid_numbers, value.map(|value| value as u8)).into(),
            b"decode_invalid_numbers" => set(&mut self.decode_invalid_numbers, flag).into(),
            b"sparse_convert" => set(&mut self.sparse_convert, flag).into(),
            b"sparse_ratio" => set(&mut self.sparse_ratio, long) as u32,
            b"sparse_safe" => set(&mut self.sparse_safe, long) as u32,
            _ => return None,
        })
    }
}

/// A table whose beginning has been written.
enum Open {
    /// The next index, and the last.
    Array(Table, u64, u64),
    /// The last key written; nil at first.
    Object(Table, Value),
}

/// Writes JSON, up to a maximum length.
pub(super) struct Encoder<'e> {
    pub(super) out: Vec<u8>,
    pub(super) bytes_max: usize,
    pub(super) settings: Settings,
    /// Lua's `next`.
    pub(super) next: &'e Function,
    pub(super) is_killed: &'e dyn Fn() -> bool,
}

impl Encoder<'_> {
    /// Appends the JSON of a value.
    ///
    /// # Errors
    /// The message of lua-cjson.
    pub(super) fn encode(&mut self, value: &Value) -> Result<(), String> {
        let failed = |error: mlua::Error| error.to_string();
        let mut open = Vec::new();
        self.begin(value, &mut open)?;
        while let Some(innermost) = open.last_mut() {
            if self.out.len() > self.bytes_max {
                return Err("not enough memory".into());
            }
            if (self.is_killed)() {
                return Err("script killed".into());
            }
            let item = match innermost {
                Open::Array(_, index, last) if *index > *last => {
                    self.out.push(b']');
                    open.pop();
                    continue;
                }
                Open::Array(table, index, _) => {
                    if *index > 1 {
                        self.out.push(b',');
                    }
                    *index += 1;
                    table.raw_get::<Value>(*index - 1).map_err(failed)?
                }
                Open::Object(table, key) => {
                    let is_first = key.is_nil();
                    let (next, value) =
                        self.next.call::<(Value, Value)>((&*table, std::mem::take(key))).map_err(failed)?;
                    if next.is_nil() {
                        self.out.push(b'}');
                        open.pop();
                        continue;
                    }
                    if !is_first {
                        self.out.push(b',');
                    }
                    match &next {
                        Value::String(text) => write_string(&mut self.out, &text.as_bytes()),
                        Value::Integer(_) | Value::Number(_) => {
                            self.out.push(b'"');
                            self.write_number(number_of(&next).unwrap_or_default());
                            self.out.push(b'"');
                        }
                        other => {
                            let kind = kind_of(other);
                            return Err(format!("Cannot serialise {kind}: table key must be a number or string"));
                        }
                    }
                    self.out.push(b':');
                    *key = next;
                    value
                }
            };
            self.begin(&item, &mut open)?;
        }
        Ok(())
    }

    /// Appends a value, or the beginning of a table.
    fn begin(&mut self, value: &Value, open: &mut Vec<Open>) -> Result<(), String> {
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(is_true) => self.out.extend_from_slice(if *is_true { b"true" } else { b"false" }),
            Value::Integer(_) | Value::Number(_) => {
                let number = number_of(value).unwrap_or_default();
                match self.settings.encode_invalid_numbers {
                    _ if number.is_finite() => self.write_number(number),
                    0 => return Err("Cannot serialise number: must not be NaN or Inf".into()),
                    1 if number.is_nan() => self.out.extend_from_slice(b"nan"),
                    1 => self.out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" }),
                    _ => self.out.extend_from_slice(b"null"),
                }
            }
            Value::String(text) => write_string(&mut self.out, &text.as_bytes()),
            Value::Table(_) if open.len() >= self.settings.encode_max_depth => {
                return Err(format!("Cannot serialise, excessive nesting ({})", open.len() + 1));
            }
            Value::Table(table) => match array_len(table, &self.settings)? {
                Some(last) => {
                    self.out.push(b'[');
                    open.push(Open::Array(table.clone(), 1, last));
                }
                None => {
                    self.out.push(b'{');
                    open.push(Open::Object(table.clone(), Value::Nil));
                }
            },
            other => return Err(format!("Cannot serialise {}: type not supported", kind_of(other))),
        }
        Ok(())
    }

    fn write_number(&mut self, number: f64) {
        self.out.extend_from_slice(format_number(number, self.settings.encode_number_precision).as_bytes());
    }
}

/// The last index of a table that is an array; `None` if it is an object.
fn array_len(table: &Table, settings: &Settings) -> Result<Option<u64>, String> {
    const OBJECT: &str = "object";
    let (mut last, mut count) = (0u64, 0u64);
    let walked = table.for_each(|key: Value, _: Value| {
        match number_of(&key) {
            Some(number) if number >= 1.0 && number.fract() == 0.0 => last = last.max(number as u64),
            _ => return Err(mlua::Error::runtime(OBJECT)),
        }
        count += 1;
        Ok(())
    });
    match walked {
        Err(mlua::Error::RuntimeError(what)) if what == OBJECT => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(()) if count == 0 => return Ok(None),
        Ok(()) => {}
    }
    let Settings { sparse_convert, sparse_ratio: ratio, sparse_safe, .. } = *settings;
    if ratio > 0 && last > sparse_safe && last > count.saturating_mul(ratio) {
        let error = Err("Cannot serialise table: excessively sparse array".into());
        return if sparse_convert { Ok(None) } else { error };
    }
    Ok(Some(last))
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', byte]),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..=31 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Parses a JSON text.
///
/// # Errors
/// The message of lua-cjson, or that the script was killed.
pub(super) fn decode(lua: &Lua, text: &[u8], settings: Settings, running: &Running) -> Result<Value, String> {
    let mut reader = Reader { lua, text, at: 0, settings, running };
    // lua-cjson recognizes UTF-16 and UTF-32 by the zero byte among the first two.
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let value = reader.read()?;
    if reader.next().is_some_and(|byte| byte != 0) { Err(reader.expected("the end")) } else { Ok(value) }
}

struct Reader<'r> {
    lua: &'r Lua,
    text: &'r [u8],
    at: usize,
    settings: Settings,
    running: &'r Running,
}

/// A table that is being read: where the next value belongs.
struct Unfinished {
    table: Table,
    /// The key of the next value of an object; `None` in an array.
    key: Option<Value>,
    count: usize,
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.text.get(self.at).copied()
    }

    /// The error message for a token other than `what`.
    fn expected(&self, what: &str) -> String {
        let rest = &self.text[self.at.min(self.text.len())..];
        let mut token = Reader { ..*self };
        if rest.first() == Some(&b'"')
            && let Err(message) = token.string(what)
        {
            return message;
        }
        let found = match rest.first() {
            None | Some(0) => "T_END",
            Some(b'{') => "T_OBJ_BEGIN",
            Some(b'}') => "T_OBJ_END",
            Some(b'[') => "T_ARR_BEGIN",
            Some(b']') => "T_ARR_END",
            Some(b'"') => "T_STRING",
            Some(b':') => "T_COLON",
            Some(b',') => "T_COMMA",
            Some(b'0'..=b'9' | b'-') if number_at(rest).is_none() => "invalid number",
            Some(b'0'..=b'9' | b'-') => "T_NUMBER",
            _ if rest.starts_with(b"true") || rest.starts_with(b"false") => "T_BOOLEAN",
            _ if rest.starts_with(b"null") => "T_NULL",
            Some(_) => "invalid token",
        };
        format!("Expected {what} but found {found} at character {}", self.at + 1)
    }

    fn read(&mut self) -> Result<Value, String> {
        let failed = |error: mlua::Error| error.to_string();
        let mut open: Vec<Unfinished> = Vec::new();
        loop {
            check(self.running).map_err(|error| text_of(&error))?;
            let mut value = match self.next() {
                Some(bracket @ (b'{' | b'[')) => {
                    if open.len() >= self.settings.decode_max_depth {
                        let depth = open.len() + 1;
                        return Err(format!(
                            "Found too many nested data structures ({depth}) at character {}",
                            self.at + 1
                        ));
                    }
                    let table = self.lua.create_table().map_err(failed)?;
                    self.at += 1;
                    let close = if bracket == b'{' { b'}' } else { b']' };
                    if self.next() == Some(close) {
                        self.at += 1;
                        Value::Table(table)
                    } else {
                        let key = if bracket == b'{' { Some(self.key()?) } else { None };
                        open.push(Unfinished { table, key, count: 0 });
                        continue;
                    }
                }
                Some(b'"') => {
                    let text = self.string("value")?;
                    Value::String(self.lua.create_string(text).map_err(failed)?)
                }
                _ => self.scalar()?,
            };
            // The value may end tables, which are then values themselves.
            loop {
                let Some(mut innermost) = open.pop() else { return Ok(value) };
                innermost.count += 1;
                let is_object = innermost.key.is_some();
                let key = innermost.key.take().unwrap_or(Value::Integer(innermost.count as i64)); // memory is finite
                innermost.table.raw_set(key, value).map_err(failed)?;
                let close = if is_object { b'}' } else { b']' };
                match self.next() {
                    Some(b',') => {
                        self.at += 1;
                        innermost.key = if is_object { Some(self.key()?) } else { None };
                        open.push(innermost);
                        break;
                    }
                    Some(byte) if byte == close => {
                        self.at += 1;
                        value = Value::Table(innermost.table);
                    }
                    _ if is_object => return Err(self.expected("comma or object end")),
                    _ => return Err(self.expected("comma or array end")),
                }
            }
        }
    }

    /// Parses a key of an object, and the colon after it.
    fn key(&mut self) -> Result<Value, String> {
        if self.next() != Some(b'"') {
            return Err(self.expected("object key string"));
        }
        let key = self.string("object key string")?;
        if self.next() != Some(b':') {
            return Err(self.expected("colon"));
        }
        self.at += 1;
        self.lua.create_string(key).map(Value::String).map_err(|error| error.to_string())
    }

    fn scalar(&mut self) -> Result<Value, String> {
        let next = self.next();
        for (word, value) in [("true", Value::Boolean(true)), ("false", Value::Boolean(false)), ("null", Value::NULL)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        let is_named = [b"inf", b"nan"]
            .iter()
            .any(|name| self.text.get(self.at..self.at + 3).is_some_and(|word| word.eq_ignore_ascii_case(*name)));
        if !is_named && !matches!(next, Some(b'-' | b'+' | b'0'..=b'9')) {
            return Err(self.expected("value"));
        }
        let rest = &self.text[self.at..];
        if !self.settings.decode_invalid_numbers && is_invalid(rest) {
            let what = if matches!(next, Some(b'-' | b'0'..=b'9')) { "number" } else { "token" };
            return Err(format!("Expected value but found invalid {what} at character {}", self.at + 1));
        }
        let (number, len) = number_at(rest).ok_or_else(|| self.expected("value"))?;
        self.at += len;
        Ok(Value::Number(number))
    }

    /// The string that begins here. `wanted`: what an error says was expected.
    fn string(&mut self, wanted: &str) -> Result<Vec<u8>, String> {
        let invalid = |what: &str, at: usize| format!("Expected {wanted} but found {what} at character {}", at + 1);
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let byte = self.text.get(self.at).copied().filter(|&byte| byte != 0);
            let byte = byte.ok_or_else(|| invalid("unexpected end of string", self.at))?;
            self.at += 1;
            match byte {
                b'"' => return Ok(text),
                b'\\' => {
                    let start = self.at - 1;
                    let escape = self.text.get(self.at).copied();
                    self.at += 1;
                    match escape {
                        Some(byte @ (b'"' | b'\\' | b'/')) => text.push(byte),
                        Some(b'b') => text.push(8),
                        Some(b'f') => text.push(12),
                        Some(b'n') => text.push(b'\n'),
                        Some(b'r') => text.push(b'\r'),
                        Some(b't') => text.push(b'\t'),
                        Some(b'u') => {
                            self.code_point(&mut text).ok_or_else(|| invalid("invalid unicode escape code", start))?
                        }
                        _ => return Err(invalid("invalid escape code", start)),
                    }
                }
                _ => text.push(byte),
            }
        }
    }

    /// What follows `\u`, as UTF-8.
    fn code_point(&mut self, text: &mut Vec<u8>) -> Option<()> {
        let mut code = self.four_digits()?;
        if (0xd800..0xdc00).contains(&code) {
            if self.text.get(self.at..self.at + 2) != Some(b"\\u") {
                return None;
            }
            self.at += 2;
            let low = self.four_digits().filter(|low| (0xdc00..0xe000).contains(low))?;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        let letter = char::from_u32(code)?;
        text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        Some(())
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |sum, &digit| Some(sum << 4 | char::from(digit).to_digit(16)?))
    }
}

/// Whether a number begins as only C writes it: with a plus, zeros or 0x, or that is not finite.
fn is_invalid(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [b'0'..=b'9', ..] => false,
        _ => true,
    }
}

/// Parses the number that a text begins with; returns it and its length, as C's `strtod` finds them.
fn number_at(text: &[u8]) -> Option<(f64, usize)> {
    let digits = |at: usize| text[at.min(text.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let factor = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    for (name, value) in [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)] {
        if text.get(sign..sign + name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes())) {
            return Some((factor * value, sign + name.len()));
        }
    }
    if text.get(sign..sign + 2).is_some_and(|start| start.eq_ignore_ascii_case(b"0x")) {
        let hex = text[sign + 2..].iter().map_while(|&byte| char::from(byte).to_digit(16));
        let (number, count) =
            hex.fold((0.0, 0), |(number, count), digit| (number * 16.0 + f64::from(digit), count + 1));
        return Some(if count > 0 { (factor * number, sign + 2 + count) } else { (factor * 0.0, sign + 1) });
    }
    let whole = digits(sign);
    let mut end = sign + whole;
    if text.get(end) == Some(&b'.') && (whole > 0 || digits(end + 1) > 0) {
        end += 1 + digits(end + 1);
    }
    if end == sign {
        return None;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'-' | b'+')));
        let exponent = digits(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    std::str::from_utf8(&text[..end]).ok()?.parse().ok().map(|number| (number, end))
}
