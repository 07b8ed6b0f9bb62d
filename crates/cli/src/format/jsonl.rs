//! JSON lines: `{"key": "...", "value": "..."}`, one object per line.
//!
//! JSON strings hold Unicode, while keys and values hold bytes. Bytes that are not UTF-8 are in base64 (standard
//! alphabet, padded) under `key_base64` or `value_base64`. Other fields are refused, so that nothing is dropped
//! silently.
//!
//! Parsing goes straight from serde_json's tokens into two reused buffers; no tree of values is built.

use super::{Pair, Scratch};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use std::fmt;

/// Above this length, memory is reserved before a line is parsed: the parser itself would abort without it.
const LONG_BYTES: usize = 1 << 20;

/// The pair in `line`, or what is wrong.
pub fn parse<'r>(line: &[u8], scratch: &'r mut Scratch) -> Result<Pair<'r>, String> {
    // The parser decodes a string with escapes in a buffer that it grows by itself, then copies it into ours.
    let copies = line.len().saturating_mul(2);
    if line.len() > LONG_BYTES && Vec::<u8>::new().try_reserve_exact(copies.saturating_mul(2)).is_err() {
        return Err(format!("no memory for a row of {} bytes", line.len()));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let parsed = deserializer.deserialize_map(PairVisitor(scratch)).and_then(|()| deserializer.end());
    parsed.map_err(|error| message_without_line(&error))?;
    Ok(Pair { key: &scratch.key, value: &scratch.value })
}

/// serde_json counts lines within its input, which is always one; the column is useful.
fn message_without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    if error.column() == 0 { what.to_owned() } else { format!("column {}: {what}", error.column()) }
}

struct PairVisitor<'s>(&'s mut Scratch);

impl<'de> Visitor<'de> for PairVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with \"key\" and \"value\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let (mut has_key, mut has_value) = (false, false);
        while let Some(field) = object.next_key_seed(FieldSeed)? {
            let (has, bytes) =
                if field.is_key { (&mut has_key, &mut self.0.key) } else { (&mut has_value, &mut self.0.value) };
            if std::mem::replace(has, true) {
                return Err(A::Error::custom(if field.is_key { "a second key" } else { "a second value" }));
            }
            object.next_value_seed(BytesSeed { bytes, base64: field.base64 })?;
        }
        match (has_key, has_value) {
            (true, true) => Ok(()),
            (false, _) => Err(A::Error::custom("no \"key\"")),
            (true, false) => Err(A::Error::custom("no \"value\"")),
        }
    }
}

struct Field {
    is_key: bool,
    base64: bool,
}

struct FieldSeed;

impl<'de> DeserializeSeed<'de> for FieldSeed {
    type Value = Field;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldSeed {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Field, E> {
        match name {
            "key" => Ok(Field { is_key: true, base64: false }),
            "key_base64" => Ok(Field { is_key: true, base64: true }),
            "value" => Ok(Field { is_key: false, base64: false }),
            "value_base64" => Ok(Field { is_key: false, base64: true }),
            _ => {
                let name = super::tsv::quoted(name.as_bytes());
                Err(E::custom(format_args!(
                    "unknown field {name}; the fields are key, value, key_base64, value_base64"
                )))
            }
        }
    }
}

struct BytesSeed<'s> {
    bytes: &'s mut Vec<u8>,
    base64: bool,
}

impl<'de> DeserializeSeed<'de> for BytesSeed<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for BytesSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.bytes.clear();
        if !self.base64 {
            self.bytes.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        STANDARD.decode_vec(text, self.bytes).map_err(|error| E::custom(format_args!("not base64: {error}")))
    }
}

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) {
    write_object(pair, row);
    row.push(b'\n');
}

/// Without the newline.
pub fn write_object(pair: Pair<'_>, row: &mut Vec<u8>) {
    row.push(b'{');
    write_field("key", pair.key, row);
    row.push(b',');
    write_field("value", pair.value, row);
    row.push(b'}');
}

fn write_field(name: &str, bytes: &[u8], row: &mut Vec<u8>) {
    row.push(b'"');
    row.extend_from_slice(name.as_bytes());
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            row.extend_from_slice(b"\":");
            serde_json::to_writer(row, text).expect("a string is JSON and a Vec takes every write");
        }
        Err(_) => {
            row.extend_from_slice(b"_base64\":\"");
            row.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            row.push(b'"');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_stand_in_base64() {
        let mut row = Vec::new();
        write(Pair { key: b"k\"", value: b"\xff\x00" }, &mut row);
        assert_eq!(row, b"{\"key\":\"k\\\"\",\"value_base64\":\"/wA=\"}\n");
    }

    #[test]
    fn fields_come_in_any_order_and_with_escapes() {
        let mut scratch = Scratch::default();
        let pair = parse(br#" {"value": "\u00e9\n", "key_base64": "/w=="} "#, &mut scratch).unwrap();
        assert_eq!(pair, Pair { key: b"\xff", value: "\u{e9}\n".as_bytes() });
    }

    #[test]
    fn what_is_no_pair_is_refused_with_the_reason() {
        for (line, what) in [
            (&b"{\"key\":\"a\"}"[..], "no \"value\""),
            (b"{\"value\":\"a\"}", "no \"key\""),
            (b"{\"key\":\"a\",\"key_base64\":\"YQ==\",\"value\":\"\"}", "a second key"),
            (b"{\"key\":\"a\",\"value\":1}", "expected a string"),
            (b"{\"key\":\"a\",\"value\":\"b\",\"ttl\":\"c\"}", "unknown field \"ttl\""),
            (b"{\"key_base64\":\"a\",\"value\":\"b\"}", "not base64"),
            (b"[1]", "an object with"),
            (b"{\"key\":\"a\",\"value\":\"b\"} x", "trailing characters"),
            (b"{\"key\":\"\xff\",\"value\":\"b\"}", "column"),
        ] {
            let error = parse(line, &mut Scratch::default()).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
