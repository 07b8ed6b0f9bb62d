//! Keys with a type or a lifetime as JSON lines.
//!
//! ```text
//! {"key":"k","type":"string","value":"v","expires_at_ms":1800000000000}
//! {"key":"k","type":"list","value":["a",{"base64":"/w=="}]}      also set
//! {"key":"k","type":"hash","value":[["field","value"],["field","value",1800000000000],...]}
//! {"key":"k","type":"zset","value":[["member","1.5"],...]}
//! {"key":"k","type":"stream","value":{"entries":[["1-0",["field","value"]],...],"last":"1-0",
//!     "max_deleted":"0-0","added":1,"groups":[{"name":"g","last":"1-0","read":1,"consumers":[["c",1800000000000]],
//!                          "pending":[["1-0",0,1800000000000,1]]}]}}
//! ```
//!
//! Text that is not UTF-8 is an object with `base64`; a key then is `key_base64`. Scores are strings, so no digit is
//! lost. A field that expires has the time. `database` and memcached's `flags` are left out if they are 0. A pending
//! entry has the index of its consumer, the time of its delivery, and the number of deliveries.

use super::jsonl::{write_base64, write_string};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};
use splitpoint_server::rdb::{Entry, EntryId, Field, Group, Object, Pending, Stream, Value};
use std::io::Write;

type Result<T> = std::result::Result<T, String>;

/// Properties that no plain pair has.
const NAMES: [&str; 4] = ["type", "expires_at_ms", "flags", "database"];

/// Above this length, memory is reserved before a line is parsed: the parser itself would abort without it.
const LONG_BYTES: usize = 1 << 20;
/// Bytes of memory that a byte of JSON may take: an empty array has two bytes, and a comma.
const MEMORY_PER_BYTE: usize = 16;

/// Whether a line may be a key with a type or a lifetime, rather than a pair.
pub fn may_be(line: &[u8]) -> bool {
    NAMES.iter().any(|name| memchr::memmem::find(line, format!("\"{name}\"").as_bytes()).is_some())
}

/// Appends the line of a key.
pub fn write(entry: &Entry, row: &mut Vec<u8>) {
    let Object::Value(value) = &entry.object else { return };
    match std::str::from_utf8(&entry.key) {
        Ok(key) => {
            row.extend_from_slice(b"{\"key\":");
            write_string(key, row);
        }
        Err(_) => {
            row.extend_from_slice(b"{\"key_base64\":");
            write_base64(&entry.key, row);
        }
    }
    let _ = write!(row, ",\"type\":\"{}\",\"value\":", value.type_name());
    match value {
        Value::String(value) => write_text(value, row),
        Value::List(texts) | Value::Set(texts) => write_all(texts, row, |text, row| write_text(text, row)),
        Value::Hash(fields) => write_all(fields, row, |field, row| {
            write_two(&field.name, &field.value, row);
            if field.expires_at_ms != 0 {
                row.pop();
                let _ = write!(row, ",{}]", field.expires_at_ms);
            }
        }),
        Value::SortedSet(members) => write_all(members, row, |(member, score), row| {
            write_two(member, score.to_string().as_bytes(), row);
        }),
        Value::Stream(stream) => write_stream(stream, row),
    }
    if entry.expires_at_ms != 0 {
        let _ = write!(row, ",\"expires_at_ms\":{}", entry.expires_at_ms);
    }
    if entry.flags != 0 {
        let _ = write!(row, ",\"flags\":{}", entry.flags);
    }
    if entry.database != 0 {
        let _ = write!(row, ",\"database\":{}", entry.database);
    }
    row.extend_from_slice(b"}\n");
}

fn write_text(text: &[u8], row: &mut Vec<u8>) {
    match std::str::from_utf8(text) {
        Ok(text) => write_string(text, row),
        Err(_) => {
            row.extend_from_slice(b"{\"base64\":");
            write_base64(text, row);
            row.push(b'}');
        }
    }
}

fn write_two(one: &[u8], other: &[u8], row: &mut Vec<u8>) {
    row.push(b'[');
    write_text(one, row);
    row.push(b',');
    write_text(other, row);
    row.push(b']');
}

fn write_all<T>(all: &[T], row: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
    row.push(b'[');
    for (index, one) in all.iter().enumerate() {
        if index > 0 {
            row.push(b',');
        }
        write(one, row);
    }
    row.push(b']');
}

fn write_stream(stream: &Stream, row: &mut Vec<u8>) {
    row.extend_from_slice(b"{\"entries\":");
    write_all(&stream.entries, row, |(id, fields), row| {
        let _ = write!(row, "[\"{id}\",");
        write_all(fields, row, |text, row| write_text(text, row));
        row.push(b']');
    });
    let Stream { last, max_deleted, added, .. } = stream;
    let _ = write!(row, ",\"last\":\"{last}\",\"max_deleted\":\"{max_deleted}\",\"added\":{added},\"groups\":");
    write_all(&stream.groups, row, |group, row| {
        row.extend_from_slice(b"{\"name\":");
        write_text(&group.name, row);
        let read = group.read.map_or_else(|| "null".to_owned(), |read| read.to_string());
        let _ = write!(row, ",\"last\":\"{}\",\"read\":{read},\"consumers\":", group.last);
        write_all(&group.consumers, row, |(name, seen_ms), row| {
            row.push(b'[');
            write_text(name, row);
            let _ = write!(row, ",{seen_ms}]");
        });
        row.extend_from_slice(b",\"pending\":");
        write_all(&group.pending, row, |entry, row| {
            let Pending { id, consumer, delivered_ms, count } = entry;
            let _ = write!(row, "[\"{id}\",{consumer},{delivered_ms},{count}]");
        });
        row.push(b'}');
    });
    row.push(b'}');
}

/// Returns the key in `line`; `None` if it is a pair.
///
/// # Errors
/// What is wrong with it.
pub fn parse(line: &[u8]) -> Result<Option<Entry>> {
    let memory = line.len().saturating_mul(MEMORY_PER_BYTE);
    if line.len() > LONG_BYTES && Vec::<u8>::new().try_reserve_exact(memory).is_err() {
        return Err(format!("no memory for a row of {} bytes", line.len()));
    }
    let json: Json = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let Json::Object(mut object) = json else { return Ok(None) };
    if !NAMES.iter().any(|name| object.contains_key(*name)) {
        return Ok(None);
    }
    let key = match (object.remove("key"), object.remove("key_base64")) {
        (Some(Json::String(key)), None) => key.into_bytes(),
        (None, Some(Json::String(key))) => STANDARD.decode(key).map_err(|error| format!("key_base64: {error}"))?,
        _ => return Err("a key with a type needs \"key\" or \"key_base64\", a string".into()),
    };
    let name = match object.remove("type") {
        None => "string".to_owned(),
        Some(Json::String(name)) => name,
        Some(_) => return Err("the type is not a string".into()),
    };
    let value = match (object.remove("value"), object.remove("value_base64")) {
        (Some(value), None) => value,
        (None, Some(value)) => Json::Object(Map::from_iter([("base64".to_owned(), value)])),
        _ => return Err("no \"value\"".into()),
    };
    let expires_at_ms = optional_number(&mut object, "expires_at_ms")?;
    let database = optional_number(&mut object, "database")?;
    let flags = optional_number(&mut object, "flags")?;
    let flags = u32::try_from(flags).map_err(|_| format!("flags: {flags} has more than 32 bits"))?;
    if flags != 0 && name != "string" {
        return Err(format!("a {name} has no flags"));
    }
    if let Some(field) = object.keys().next() {
        return Err(format!("unknown field {field:?} of a key with a type"));
    }
    let value = value_of(&name, value)?;
    Ok(Some(Entry { database, key, expires_at_ms, flags, object: Object::Value(value) }))
}

fn optional_number(object: &mut Map<String, Json>, name: &str) -> Result<u64> {
    match object.remove(name) {
        None => Ok(0),
        Some(json) => number(&json).map_err(|what| format!("{name}: {what}")),
    }
}

fn value_of(name: &str, json: Json) -> Result<Value> {
    let distinct = |names: Vec<&[u8]>| {
        let count = names.len();
        let mut names = names;
        names.sort_unstable();
        names.dedup();
        if names.len() == count { Ok(()) } else { Err(format!("the {name} has an element twice")) }
    };
    let value = match name {
        "string" => return text(json).map(Value::String),
        "stream" => return stream(json).map(Value::Stream),
        "list" => Value::List(all(json, text)?),
        "set" => Value::Set(all(json, text)?),
        "hash" => Value::Hash(all(json, |json| {
            let expires_at_ms = match &json {
                Json::Array(parts) if parts.len() == 3 => number(&parts[2])?,
                _ => 0,
            };
            let [name, value] = some(if expires_at_ms == 0 { json } else { without_last(json) })?;
            Ok(Field { name: text(name)?, value: text(value)?, expires_at_ms })
        })?),
        "zset" => {
            let mut members = all(json, |json| {
                let [member, score] = some(json)?;
                let score = String::from_utf8(text(score)?).ok().and_then(|text| text.parse::<f64>().ok());
                let score = score.filter(|score| !score.is_nan());
                Ok((text(member)?, score.ok_or("a score that is not a number, as a string")?))
            })?;
            members.sort_by(|one, other| {
                let order = one.1.partial_cmp(&other.1).unwrap_or(std::cmp::Ordering::Equal);
                order.then_with(|| one.0.cmp(&other.0))
            });
            Value::SortedSet(members)
        }
        _ => return Err(format!("the type {name:?}; known are string, list, set, hash, zset, stream")),
    };
    let len = match &value {
        Value::List(elements) => elements.len(),
        Value::Set(members) => {
            distinct(members.iter().map(Vec::as_slice).collect())?;
            members.len()
        }
        Value::Hash(fields) => {
            distinct(fields.iter().map(|field| field.name.as_slice()).collect())?;
            fields.len()
        }
        Value::SortedSet(members) => {
            distinct(members.iter().map(|(member, _)| member.as_slice()).collect())?;
            members.len()
        }
        _ => 1,
    };
    if len == 0 { Err(format!("the {name} is empty")) } else { Ok(value) }
}

fn without_last(mut json: Json) -> Json {
    if let Json::Array(parts) = &mut json {
        parts.pop();
    }
    json
}

fn text(json: Json) -> Result<Vec<u8>> {
    match json {
        Json::String(text) => Ok(text.into_bytes()),
        Json::Object(object) => match (object.len(), object.get("base64")) {
            (1, Some(Json::String(text))) => STANDARD.decode(text).map_err(|error| format!("not base64: {error}")),
            _ => Err("an object in place of text that is not {\"base64\": \"...\"}".into()),
        },
        other => Err(format!("{other} in place of a string")),
    }
}

fn all<T>(json: Json, mut read: impl FnMut(Json) -> Result<T>) -> Result<Vec<T>> {
    match json {
        Json::Array(all) => all.into_iter().map(&mut read).collect(),
        other => Err(format!("{other} in place of an array")),
    }
}

fn some<const N: usize>(json: Json) -> Result<[Json; N]> {
    let all = all(json, Ok)?;
    let count = all.len();
    all.try_into().map_err(|_| format!("an array of {count} in place of {N}"))
}

fn number(json: &Json) -> Result<u64> {
    json.as_u64().ok_or_else(|| format!("{json} in place of a whole number"))
}

fn id(json: &Json) -> Result<EntryId> {
    let parts = json.as_str().and_then(|text| text.split_once('-'));
    let id = parts.and_then(|(ms, seq)| Some(EntryId { ms: ms.parse().ok()?, seq: seq.parse().ok()? }));
    id.ok_or_else(|| format!("{json} in place of the ID of an entry, as \"1-0\""))
}

fn stream(json: Json) -> Result<Stream> {
    let Json::Object(mut object) = json else { return Err("a stream that is not an object".into()) };
    let mut take = |name: &str| object.remove(name).ok_or_else(|| format!("a stream without {name:?}"));
    let entries = all(take("entries")?, |json| {
        let [entry, fields] = some(json)?;
        let fields = all(fields, text)?;
        let is_whole = !fields.is_empty() && fields.len().is_multiple_of(2);
        if is_whole { Ok((id(&entry)?, fields)) } else { Err("an entry whose fields and values are not pairs".into()) }
    })?;
    let (last, max_deleted, added) = (id(&take("last")?)?, id(&take("max_deleted")?)?, number(&take("added")?)?);
    let is_ascending = entries.is_sorted_by(|one, other| one.0 < other.0);
    if !is_ascending || entries.last().is_some_and(|(id, _)| *id > last || *id == EntryId::MIN) {
        return Err("a stream whose entries do not ascend to its last ID".into());
    }
    let groups = all(take("groups")?, group)?;
    let mut names: Vec<&[u8]> = groups.iter().map(|group| group.name.as_slice()).collect();
    names.sort_unstable();
    if names.windows(2).any(|two| two[0] == two[1]) {
        return Err("a stream that has a group twice".into());
    }
    Ok(Stream { entries, last, max_deleted, added, groups })
}

fn group(json: Json) -> Result<Group> {
    let Json::Object(mut object) = json else { return Err("a group that is not an object".into()) };
    let mut take = |name: &str| object.remove(name).ok_or_else(|| format!("a group without {name:?}"));
    let (name, last) = (text(take("name")?)?, id(&take("last")?)?);
    let read = match take("read")? {
        Json::Null => None,
        json => Some(json.as_i64().ok_or_else(|| format!("{json} in place of a whole number"))?),
    };
    let consumers = all(take("consumers")?, |json| {
        let [name, seen_ms] = some(json)?;
        Ok((text(name)?, number(&seen_ms)?))
    })?;
    let pending = all(take("pending")?, |json| {
        let [entry, consumer, delivered_ms, count] = some(json)?;
        let consumer = usize::try_from(number(&consumer)?).ok().filter(|index| *index < consumers.len());
        let consumer = consumer.ok_or("a pending entry of a consumer that its group does not have")?;
        Ok(Pending { id: id(&entry)?, consumer, delivered_ms: number(&delivered_ms)?, count: number(&count)? })
    })?;
    let mut names: Vec<&[u8]> = consumers.iter().map(|(name, _)| name.as_slice()).collect();
    names.sort_unstable();
    let is_twice = names.windows(2).any(|two| two[0] == two[1]);
    if is_twice || !pending.is_sorted_by(|one, other| one.id < other.id) {
        return Err("a group that has a consumer twice, or whose pending entries do not ascend".into());
    }
    Ok(Group { name, last, read, consumers, pending })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn every_type_comes_back_from_its_line() {
        let id = |ms, seq| EntryId { ms, seq };
        let group = |name: &str, read| Group {
            name: text(name),
            last: id(5, 1),
            read,
            consumers: vec![(text("c"), u64::MAX), (vec![0xff], 0)],
            pending: vec![Pending { id: id(5, 0), consumer: 1, delivered_ms: 7, count: 3 }],
        };
        let stream = Stream {
            entries: vec![(id(5, 0), vec![text("f"), vec![0xfe]]), (id(u64::MAX, u64::MAX), vec![text(""), text("v")])],
            last: id(u64::MAX, u64::MAX),
            max_deleted: id(1, 0),
            added: u64::MAX,
            groups: vec![group("a", None), group("b", Some(-7))],
        };
        let field = |name: &str| Field { name: text(name), value: vec![0, 0xff], expires_at_ms: 0 };
        let scores = [f64::NEG_INFINITY, -0.1, 0.0, 1e-300, 1.0 / 3.0, 9_007_199_254_740_993.0, f64::INFINITY];
        for value in [
            Value::String(text("a \"string\"\n")),
            Value::List(vec![text("b"), text("b"), vec![0xff]]),
            Value::Set(vec![text("b"), text("")]),
            Value::Hash(vec![field("b"), field("")]),
            Value::Hash(vec![field("b"), Field { expires_at_ms: 1_800_000_000_000, ..field("") }]),
            Value::SortedSet(
                scores
                    .iter()
                    .map(|score| (text("m").repeat(scores.len()), *score))
                    .enumerate()
                    .map(|(index, (member, score))| ([member, index.to_string().into_bytes()].concat(), score))
                    .collect(),
            ),
            Value::Stream(stream),
            Value::Stream(Stream::default()),
        ] {
            for (key, expires_at_ms, database) in [(text("k"), 0, 0), (vec![0xff, 0], 1_800_000_000_000, 15)] {
                let flags = if value.type_name() == "string" { u32::MAX } else { 0 };
                let entry = Entry { database, key, expires_at_ms, flags, object: Object::Value(value.clone()) };
                let mut row = Vec::new();
                write(&entry, &mut row);
                assert!(may_be(&row) && row.ends_with(b"}\n"));
                assert_eq!(parse(&row).unwrap(), Some(entry), "{}", String::from_utf8_lossy(&row));
            }
        }
    }

    #[test]
    fn what_is_no_key_with_a_type_is_refused_with_the_reason() {
        for (line, what) in [
            (r#"{"key":"k","type":"hash","value":[["a"]]}"#, "an array of 1 in place of 2"),
            (r#"{"key":"k","type":"hash","value":[["a","b",-1]]}"#, "-1 in place of a whole number"),
            (r#"{"key":"k","type":"hash","value":[["a","b",1,2]]}"#, "an array of 4 in place of 2"),
            (r#"{"key":"k","type":"set","value":["a","a"]}"#, "an element twice"),
            (r#"{"key":"k","type":"list","value":[]}"#, "the list is empty"),
            (r#"{"key":"k","type":"list","value":[1]}"#, "1 in place of a string"),
            (r#"{"key":"k","type":"zset","value":[["a","x"]]}"#, "a score that is not a number"),
            (r#"{"key":"k","type":"what","value":[]}"#, "known are string"),
            (r#"{"type":"list","value":["a"]}"#, "needs \"key\""),
            (r#"{"key":"k","type":"list","value":["a"],"ttl":1}"#, "unknown field \"ttl\""),
            (r#"{"key":"k","value":"a","expires_at_ms":-1}"#, "-1 in place of a whole number"),
            (r#"{"key":"k","type":"stream","value":{}}"#, "a stream without \"entries\""),
            (r#"{"key":"k","value":"a","flags":4294967296}"#, "more than 32 bits"),
            (r#"{"key":"k","type":"list","value":["a"],"flags":1}"#, "a list has no flags"),
            (r#"{"key":"k","value":["a"],"database":1}"#, "in place of a string"),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
        assert_eq!(parse(br#"{"key":"k","value":{"type":1}}"#).unwrap(), None);
    }
}
