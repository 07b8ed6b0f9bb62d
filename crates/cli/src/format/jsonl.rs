//! JSON lines: an object per line.
//!
//! Our own are `{"key": "...", "value": "..."}`. JSON strings hold Unicode, while keys and values hold bytes: bytes
//! that are not UTF-8 are in base64 (standard alphabet, padded) under `key_base64` or `value_base64`. Other fields are
//! refused, so that nothing is dropped silently.
//!
//! In other objects the user names the fields. A string is stored as its text, anything else as its JSON text,
//! byte for byte as in the line, so no number loses a digit. Without a field for the value, the value is the
//! object without its key.
//!
//! Values are found in the line by serde_json's tokens and copied once; no tree of values is built.

use super::options::{Column, Reading, join};
use super::{Pair, Scratch};
use crate::escapes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;

/// Above this length, memory is reserved before a line is parsed: the parser itself would abort without it.
const LONG_BYTES: usize = 1 << 20;

/// The fields of the key and the value.
pub enum Fields {
    /// `key` and `value`, and nothing else.
    Ours,
    Named {
        /// In the order of the key's parts.
        key: Vec<String>,
        key_separator: Vec<u8>,
        /// `None`: all other fields, as an object.
        value: Option<String>,
    },
}

impl Fields {
    pub fn chosen(reading: &Reading) -> Self {
        let name = |column: &Column| match column {
            // Refused earlier: fields have no numbers.
            Column::Number(number) => number.to_string(),
            Column::Name(name) | Column::Either { name, .. } => name.clone(),
        };
        if !reading.columns_chosen() {
            return Self::Ours;
        }
        let key: Vec<_> = reading.key.iter().map(name).collect();
        Self::Named {
            key: if key.is_empty() { vec!["key".into()] } else { key },
            key_separator: reading.key_separator(),
            value: reading.value.as_ref().map(name),
        }
    }

    /// `key id, value name`, for reports; `None` for our own fields.
    pub fn describe(&self) -> Option<String> {
        let value = |value: &Option<String>| match value {
            Some(name) => name.escape_debug().to_string(),
            None => "the other fields as JSON".to_owned(),
        };
        match self {
            Self::Ours => None,
            Self::Named { key, value: name, .. } => {
                let key: Vec<_> = key.iter().map(|name| name.escape_debug().to_string()).collect();
                Some(format!("key {}, value {}", key.join(" and "), value(name)))
            }
        }
    }
}

/// Returns the pair in `line`, or what is wrong.
pub fn parse<'r>(line: &[u8], fields: &Fields, scratch: &'r mut Scratch) -> Result<Pair<'r>, String> {
    // The parser decodes a string with escapes in a buffer that it grows by itself, then copies it into ours.
    let copies = line.len().saturating_mul(2);
    if line.len() > LONG_BYTES && Vec::<u8>::new().try_reserve_exact(copies.saturating_mul(2)).is_err() {
        return Err(format!("no memory for a row of {} bytes", line.len()));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let parsed = deserializer.deserialize_map(PairVisitor { fields, scratch }).and_then(|()| deserializer.end());
    parsed.map_err(|error| message_without_line(&error))?;
    Ok(scratch.pair())
}

/// The message without the line number: serde_json counts lines within its input, which is always one line.
fn message_without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    if error.column() == 0 { what.to_owned() } else { format!("column {}: {what}", error.column()) }
}

struct PairVisitor<'s> {
    fields: &'s Fields,
    scratch: &'s mut Scratch,
}

impl<'de> Visitor<'de> for PairVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fields {
            Fields::Ours => f.write_str("an object with \"key\" and \"value\""),
            Fields::Named { key, .. } => write!(f, "an object with {}", escapes::quoted(key[0].as_bytes())),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Self { fields, scratch } = self;
        let mut parts: Vec<Option<Vec<u8>>> = vec![None; fields.key_parts()];
        let mut has_value = false;
        let mut names = HashSet::new();
        scratch.value.clear();
        let others = matches!(fields, Fields::Named { value: None, .. });
        while let Some(role) = object.next_key_seed(RoleSeed(fields))? {
            let raw: &RawValue = object.next_value()?;
            match role {
                Role::Key { part, base64 } => {
                    if parts[part].is_some() {
                        return Err(A::Error::custom("a second key"));
                    }
                    // One part is decoded in place.
                    let mut bytes = std::mem::take(&mut scratch.key);
                    decode(raw.get(), base64, &mut bytes).map_err(A::Error::custom)?;
                    parts[part] = Some(bytes);
                    if !raw.get().starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
                        let what = escapes::quoted(raw.get().as_bytes());
                        return Err(A::Error::custom(format_args!("the key is {what}; a key is a string or a number")));
                    }
                }
                Role::Value { base64 } => {
                    if std::mem::replace(&mut has_value, true) {
                        return Err(A::Error::custom("a second value"));
                    }
                    decode(raw.get(), base64, &mut scratch.value).map_err(A::Error::custom)?;
                }
                Role::Other(name) if others => {
                    scratch.value.push(if scratch.value.is_empty() { b'{' } else { b',' });
                    write_string(&name, &mut scratch.value);
                    scratch.value.push(b':');
                    scratch.value.extend_from_slice(raw.get().as_bytes());
                    if let Some(name) = names.replace(name) {
                        let name = escapes::quoted(name.as_bytes());
                        return Err(A::Error::custom(format_args!("a second field {name}; --value chooses one field")));
                    }
                }
                Role::Other(name) if matches!(fields, Fields::Ours) => {
                    let name = escapes::quoted(name.as_bytes());
                    return Err(A::Error::custom(format_args!(
                        "unknown field {name}; the fields are key, value, key_base64, value_base64; --key and --value \
                         choose others"
                    )));
                }
                Role::Other(_) => {}
            }
        }
        fields.end(parts, has_value, scratch).map_err(A::Error::custom)
    }
}

impl Fields {
    fn key_parts(&self) -> usize {
        match self {
            Self::Ours => 1,
            Self::Named { key, .. } => key.len(),
        }
    }

    /// Combines the parts of the key, and the value, into the pair, or says what is missing.
    fn end(&self, parts: Vec<Option<Vec<u8>>>, has_value: bool, scratch: &mut Scratch) -> Result<(), String> {
        let missing = |name: &str| format!("no {}", escapes::quoted(name.as_bytes()));
        let name = |part: usize| match self {
            Self::Ours => "key",
            Self::Named { key, .. } => &key[part],
        };
        let parts: Vec<_> = parts
            .into_iter()
            .enumerate()
            .map(|(part, bytes)| bytes.ok_or_else(|| missing(name(part))))
            .collect::<Result<_, _>>()?;
        match self {
            Self::Ours if !has_value => return Err(missing("value")),
            Self::Named { value: Some(value), key, .. } if !has_value => {
                // The field of the value is part of the key.
                let part = key.iter().position(|name| name == value).ok_or_else(|| missing(value))?;
                scratch.value.clone_from(&parts[part]);
            }
            Self::Named { value: None, .. } => {
                if scratch.value.is_empty() {
                    scratch.value.push(b'{');
                }
                scratch.value.push(b'}');
            }
            Self::Named { .. } | Self::Ours => {}
        }
        match self {
            Self::Named { key_separator, .. } => {
                join(parts.iter().map(|part| &part[..]), key_separator, &mut scratch.key)
            }
            Self::Ours => join(parts.iter().map(|part| &part[..]), b"", &mut scratch.key),
        }
    }
}

/// Replaces `bytes` by the contents of a JSON string, or by the JSON text of any other value.
fn decode(raw: &str, base64: bool, bytes: &mut Vec<u8>) -> Result<(), String> {
    bytes.clear();
    let Some(text) = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) else {
        if base64 {
            return Err(format!("{} is not base64", escapes::quoted(raw.as_bytes())));
        }
        bytes.extend_from_slice(raw.as_bytes());
        return Ok(());
    };
    let unescaped;
    let text = if memchr::memchr(b'\\', text.as_bytes()).is_none() {
        text
    } else {
        unescaped = serde_json::from_str::<String>(raw).map_err(|error| message_without_line(&error))?;
        &unescaped
    };
    if base64 {
        return STANDARD.decode_vec(text, bytes).map_err(|error| format!("not base64: {error}"));
    }
    bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

enum Role {
    Key { part: usize, base64: bool },
    Value { base64: bool },
    Other(String),
}

struct RoleSeed<'f>(&'f Fields);

impl<'de> DeserializeSeed<'de> for RoleSeed<'_> {
    type Value = Role;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Role, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for RoleSeed<'_> {
    type Value = Role;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Role, E> {
        Ok(match (self.0, name) {
            (Fields::Ours, "key") => Role::Key { part: 0, base64: false },
            (Fields::Ours, "key_base64") => Role::Key { part: 0, base64: true },
            (Fields::Ours, "value") => Role::Value { base64: false },
            (Fields::Ours, "value_base64") => Role::Value { base64: true },
            (Fields::Named { key, value, .. }, name) => match key.iter().position(|part| part == name) {
                Some(part) => Role::Key { part, base64: false },
                None if value.as_deref() == Some(name) => Role::Value { base64: false },
                None => Role::Other(name.to_owned()),
            },
            _ => Role::Other(name.to_owned()),
        })
    }
}

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) {
    write_object(pair, row);
    row.push(b'\n');
}

/// Appends an object, without the newline.
pub fn write_object(pair: Pair<'_>, row: &mut Vec<u8>) {
    row.push(b'{');
    write_field("key", pair.key, row);
    row.push(b',');
    write_field("value", pair.value, row);
    row.push(b'}');
}

/// Appends `"name":"bytes"`, without a comma.
pub fn write_field(name: &str, bytes: &[u8], row: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            write_string(name, row);
            row.push(b':');
            write_string(text, row);
        }
        Err(_) => {
            write_string(&format!("{name}_base64"), row);
            row.push(b':');
            write_base64(bytes, row);
        }
    }
}

/// Appends bytes as a JSON string of base64.
pub fn write_base64(bytes: &[u8], row: &mut Vec<u8>) {
    row.push(b'"');
    row.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    row.push(b'"');
}

/// Appends text as a JSON string.
pub fn write_string(text: &str, row: &mut Vec<u8>) {
    serde_json::to_writer(row, text).expect("a string is JSON and a Vec takes every write");
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
        let pair = parse(br#" {"value": "\u00e9\n", "key_base64": "/w=="} "#, &Fields::Ours, &mut scratch).unwrap();
        assert_eq!(pair, Pair { key: b"\xff", value: "\u{e9}\n".as_bytes() });
    }

    #[test]
    fn what_is_no_pair_is_refused_with_the_reason() {
        for (line, what) in [
            (&b"{\"key\":\"a\"}"[..], "no \"value\""),
            (b"{\"value\":\"a\"}", "no \"key\""),
            (b"{\"key\":\"a\",\"key_base64\":\"YQ==\",\"value\":\"\"}", "a second key"),
            (b"{\"key\":null,\"value\":1}", "the key is \"null\"; a key is a string or a number"),
            (b"{\"key\":{},\"value\":1}", "a key is a string or a number"),
            (b"{\"key\":\"a\",\"value_base64\":1}", "\"1\" is not base64"),
            (b"{\"key\":\"a\",\"value\":\"b\",\"ttl\":\"c\"}", "unknown field \"ttl\""),
            (b"{\"key_base64\":\"a\",\"value\":\"b\"}", "not base64"),
            (b"[1]", "an object with"),
            (b"{\"key\":\"a\",\"value\":\"b\"} x", "trailing characters"),
            (b"{\"key\":\"\xff\",\"value\":\"b\"}", "column"),
        ] {
            let error = parse(line, &Fields::Ours, &mut Scratch::default()).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_value_that_is_no_string_is_its_own_json_text() {
        let mut scratch = Scratch::default();
        for (value, stored) in [
            ("1.50", "1.50"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("null", "null"),
            ("{\"a\": [1, \"\\u00e9\"]}", "{\"a\": [1, \"\\u00e9\"]}"),
        ] {
            let line = format!("{{\"key\":7,\"value\":{value}}}");
            let pair = parse(line.as_bytes(), &Fields::Ours, &mut scratch).unwrap();
            assert_eq!(pair, Pair { key: b"7", value: stored.as_bytes() });
        }
    }

    #[test]
    fn named_fields_leave_the_others_or_take_them_all() {
        let line = br#"{"id": 17, "name": "Ada \"x\"", "ttl": null, "tags": ["a"]}"#;
        let mut scratch = Scratch::default();
        let mut value = |key: &str, value: Option<&str>| {
            let value = value.map(|name| Column::Name(name.into()));
            let fields = Fields::chosen(&Reading { key: vec![Column::Name(key.into())], value, ..Reading::default() });
            parse(line, &fields, &mut scratch).map(|pair| String::from_utf8_lossy(pair.value).into_owned())
        };
        assert_eq!(value("id", Some("name")).unwrap(), "Ada \"x\"");
        assert_eq!(value("id", Some("ttl")).unwrap(), "null");
        assert_eq!(value("name", Some("name")).unwrap(), "Ada \"x\"");
        assert_eq!(value("id", None).unwrap(), r#"{"name":"Ada \"x\"","ttl":null,"tags":["a"]}"#);
        assert!(value("id", Some("age")).unwrap_err().contains("no \"age\""));
        assert!(value("age", None).unwrap_err().contains("no \"age\""));
    }
    #[test]
    fn a_key_may_have_several_fields_in_any_order() {
        let reading = |value: Option<&str>| Reading {
            key: ["country", "id"].map(|name| Column::Name(name.into())).into(),
            value: value.map(|name| Column::Name(name.into())),
            ..Reading::default()
        };
        let mut scratch = Scratch::default();
        let line = br#"{"id": 7, "name": "Ada", "country": "uk"}"#;
        for (value, expected) in [(None, r#"{"name":"Ada"}"#), (Some("name"), "Ada"), (Some("id"), "7")] {
            let pair = parse(line, &Fields::chosen(&reading(value)), &mut scratch).unwrap();
            assert_eq!(pair, Pair { key: b"uk\t7", value: expected.as_bytes() });
        }
        for (line, what) in [
            (&br#"{"id": 7}"#[..], "no \"country\""),
            (br#"{"id": 7, "country": "u\tk"}"#, "contains \"\\t\", which separates"),
            (br#"{"id": 7, "country": "uk", "a": 1, "a": 2}"#, "a second field \"a\""),
        ] {
            let error = parse(line, &Fields::chosen(&reading(None)), &mut scratch).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }
}
