//! A value of any type, from untrusted bytes.
//!
//! Whatever Redis refuses to load is an error here, too: an element twice, a score that is not a number, a collection
//! without elements.

use super::packed::{self, Elements, Packed};
use super::source::Source;
use super::{Field, Object, Result, Value, bad, kind, streams};
use crate::command::double;
use crate::keyspace::collections::sorted;
use std::collections::HashSet;
use std::io::Read;

/// Reads the value of the type that this number of the format means.
pub(super) fn object<R: Read>(source: &mut Source<R>, number: u8) -> Result<Object> {
    source.begin_value();
    let mut value = match number {
        kind::STRING => Value::String(source.string()?),
        kind::LIST => Value::List(source.many(Source::string)?),
        kind::SET => Value::Set(source.many(Source::string)?),
        kind::SORTED_SET => Value::SortedSet(source.many(|source| Ok((source.string()?, text_score(source)?)))?),
        kind::SORTED_SET_2 => Value::SortedSet(source.many(|source| Ok((source.string()?, score(source)?)))?),
        kind::HASH => Value::Hash(source.many(|source| Ok(field(source.string()?, source.string()?, 0)))?),
        kind::HASH_ZIPMAP => {
            let map = source.string()?;
            hash_of(source, packed::zipmap(&map))?
        }
        kind::LIST_ZIPLIST => list_of(source, packed::ziplist)?,
        kind::HASH_ZIPLIST => hash_in(source, packed::ziplist)?,
        kind::HASH_LISTPACK => hash_in(source, packed::listpack)?,
        kind::SORTED_SET_ZIPLIST => sorted_set_of(source, packed::ziplist)?,
        kind::SORTED_SET_LISTPACK => sorted_set_of(source, packed::listpack)?,
        kind::SET_INTSET => {
            let bytes = source.string()?;
            let numbers = packed::intset(&bytes)?;
            Value::Set(numbers.map(|number| owned(source, Packed::Number(number?))).collect::<Result<_>>()?)
        }
        kind::SET_LISTPACK => {
            let bytes = source.string()?;
            Value::Set(all(source, packed::listpack(&bytes)?)?)
        }
        kind::QUICKLIST => quicklist(source, false)?,
        kind::QUICKLIST_2 => quicklist(source, true)?,
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => Value::Stream(streams::read(source, number)?),
        kind::HASH_LIFETIMES | kind::HASH_LIFETIMES_OLD => {
            let first = if number == kind::HASH_LIFETIMES { Some(source.number()?) } else { None };
            Value::Hash(source.many(|source| {
                let lifetime = source.length()?;
                Ok(field(source.string()?, source.string()?, expiry(lifetime, first)?))
            })?)
        }
        kind::HASH_LISTPACK_LIFETIMES | kind::HASH_LISTPACK_LIFETIMES_OLD => {
            if number == kind::HASH_LISTPACK_LIFETIMES {
                source.number()?; // the first expiry, which the fields have, too
            }
            let bytes = source.string()?;
            hash_with_lifetimes(source, packed::listpack(&bytes)?)?
        }
        kind::MODULE_2 => return module(source).map(Object::Module),
        kind::MODULE => return Err(bad("a value of a module in an old format that cannot be skipped")),
        other => return Err(bad(format!("the type {other}, which is unknown"))),
    };
    check(&value)?;
    if let Value::SortedSet(members) = &mut value {
        members.sort_by(sorted::compare);
    }
    Ok(Object::Value(value))
}

fn field(name: Vec<u8>, value: Vec<u8>, expires_at_ms: u64) -> Field {
    Field { name, value, expires_at_ms }
}

/// The latest time that Redis accepts for a field.
const LATEST_MS: u64 = (1 << 48) - 2;

/// Decodes the expiry of a field: 0 for none, else counted from one before `first`.
fn expiry(lifetime: u64, first: Option<u64>) -> Result<u64> {
    let at_ms = match (lifetime, first) {
        (0, _) | (_, None) => Some(lifetime),
        (_, Some(first)) => first.checked_add(lifetime - 1),
    };
    at_ms.filter(|at_ms| *at_ms <= LATEST_MS).ok_or_else(|| bad("a field that expires beyond all time"))
}

/// An error for a value that no command could have made.
fn check(value: &Value) -> Result<()> {
    let (len, is_distinct) = match value {
        Value::String(_) | Value::Stream(_) => return Ok(()),
        Value::List(elements) => (elements.len(), true),
        Value::Set(members) => (members.len(), are_distinct(members.iter().map(Vec::as_slice))),
        Value::Hash(fields) => (fields.len(), are_distinct(fields.iter().map(|field| field.name.as_slice()))),
        Value::SortedSet(members) => (members.len(), are_distinct(members.iter().map(|(member, _)| member.as_slice()))),
    };
    match (len, is_distinct) {
        (0, _) => Err(bad(format!("a {} without elements", value.type_name()))),
        (_, false) => Err(bad(format!("a {} that has an element twice", value.type_name()))),
        _ => Ok(()),
    }
}

fn are_distinct<'e>(elements: impl ExactSizeIterator<Item = &'e [u8]>) -> bool {
    let mut seen = HashSet::with_capacity(elements.len());
    elements.into_iter().all(|element| seen.insert(element))
}

/// Reads a score as text, as versions before 8 wrote it.
fn text_score<R: Read>(source: &mut Source<R>) -> Result<f64> {
    let score = match source.byte()? {
        255 => f64::NEG_INFINITY,
        254 => f64::INFINITY,
        253 => f64::NAN,
        len => {
            let mut text = Vec::with_capacity(len.into());
            for _ in 0..len {
                text.push(source.byte()?);
            }
            double::parse_score(&text).unwrap_or(f64::NAN)
        }
    };
    numeric(score)
}

fn score<R: Read>(source: &mut Source<R>) -> Result<f64> {
    numeric(f64::from_le_bytes(source.bytes()?))
}

fn numeric(score: f64) -> Result<f64> {
    if score.is_nan() { Err(bad("a score that is not a number")) } else { Ok(score) }
}

type OpenPacked = fn(&[u8]) -> Result<Elements<'_>>;

/// Reads all elements, and charges each.
fn all<R: Read>(source: &mut Source<R>, elements: Elements<'_>) -> Result<Vec<Vec<u8>>> {
    elements.map(|element| owned(source, element?)).collect()
}

fn owned<R: Read>(source: &mut Source<R>, element: Packed<'_>) -> Result<Vec<u8>> {
    let element = element.to_vec();
    source.charge(element.len() as u64)?;
    Ok(element)
}

fn list_of<R: Read>(source: &mut Source<R>, open: OpenPacked) -> Result<Value> {
    let bytes = source.string()?;
    Ok(Value::List(all(source, open(&bytes)?)?))
}

fn hash_in<R: Read>(source: &mut Source<R>, open: OpenPacked) -> Result<Value> {
    let bytes = source.string()?;
    hash_of(source, open(&bytes)?)
}

fn hash_of<'p, R: Read>(
    source: &mut Source<R>,
    mut elements: impl Iterator<Item = Result<Packed<'p>>>,
) -> Result<Value> {
    let mut fields = Vec::new();
    while let Some(name) = elements.next() {
        let name = owned(source, name?)?;
        let value = elements.next().unwrap_or_else(|| Err(bad("a field without a value")))?;
        fields.push(field(name, owned(source, value)?, 0));
    }
    Ok(Value::Hash(fields))
}

fn hash_with_lifetimes<R: Read>(source: &mut Source<R>, mut elements: Elements<'_>) -> Result<Value> {
    let mut fields = Vec::new();
    while let Some(name) = elements.next() {
        let (name, value) = (owned(source, name?)?, elements.expect()?);
        let value = owned(source, value)?;
        let at_ms = u64::try_from(elements.number()?).map_err(|_| bad("a field that expires before all time"))?;
        fields.push(field(name, value, expiry(at_ms, None)?));
    }
    Ok(Value::Hash(fields))
}

fn sorted_set_of<R: Read>(source: &mut Source<R>, open: OpenPacked) -> Result<Value> {
    let bytes = source.string()?;
    let (mut elements, mut members) = (open(&bytes)?, Vec::new());
    while let Some(member) = elements.next() {
        let (member, score) = (owned(source, member?)?, elements.expect()?);
        let score = match score {
            Packed::Number(number) => number as f64, // as Redis rounds it
            Packed::Bytes(text) => double::parse_score(text).unwrap_or(f64::NAN),
        };
        members.push((member, numeric(score)?));
    }
    Ok(Value::SortedSet(members))
}

/// Reads a list as nodes, each a ziplist; or, in the second form, a listpack or one long element.
fn quicklist<R: Read>(source: &mut Source<R>, is_second: bool) -> Result<Value> {
    let nodes = source.length()?;
    let mut elements = Vec::new();
    for _ in 0..nodes {
        let form = if is_second { Some(source.length()?) } else { None };
        let bytes = source.string()?;
        match form {
            None => elements.append(&mut all(source, packed::ziplist(&bytes)?)?),
            Some(PLAIN_NODE) => elements.push(bytes),
            Some(PACKED_NODE) => elements.append(&mut all(source, packed::listpack(&bytes)?)?),
            Some(form) => return Err(bad(format!("a node of a list with the form {form}"))),
        }
    }
    Ok(Value::List(elements))
}

/// Forms of a node of a list.
pub(super) const PLAIN_NODE: u64 = 1;
pub(super) const PACKED_NODE: u64 = 2;

/// Skips the value of a module, and returns the module's name for the type.
pub(super) fn module<R: Read>(source: &mut Source<R>) -> Result<String> {
    let name = module_name(source.length()?);
    skip_parts(source)?;
    Ok(name)
}

/// Skips what a module wrote, up to its end.
pub(super) fn skip_parts<R: Read>(source: &mut Source<R>) -> Result<()> {
    loop {
        match source.length()? {
            0 => return Ok(()),
            1 | 2 => _ = source.length()?,
            3 => _ = source.bytes::<4>()?,
            4 => _ = source.bytes::<8>()?,
            5 => _ = source.string()?,
            other => return Err(bad(format!("a part of the kind {other} in a module's value"))),
        }
    }
}

/// The name of a module's type: nine characters of six bits, then ten bits of its version.
pub(super) fn module_name(id: u64) -> String {
    const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let character = |index: u32| char::from(CHARACTERS[(id >> (10 + 6 * (8 - index)) & 0x3f) as usize]);
    (0..9).map(character).collect()
}
