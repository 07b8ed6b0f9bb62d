//! A value of any type to bytes, as Redis 7.0 writes it; a hash whose fields have lifetimes as 7.4 does.

use super::packed::{Listpack, write_intset};
use super::read::{PACKED_NODE, PLAIN_NODE};
use super::sink::Sink;
use super::{Field, Form, VERSION, VERSION_MAX, Value, kind, streams};
use crate::command::double;
use crate::command::number::parse_integer;
use std::borrow::Cow;

/// The oldest version of the format that has what [`object`] writes.
pub(super) fn version_of(value: &Value) -> u16 {
    if has_lifetimes(value) { VERSION_MAX } else { VERSION }
}

fn has_lifetimes(value: &Value) -> bool {
    let Value::Hash(fields) = value else { return false };
    fields.iter().any(|field| field.expires_at_ms != 0)
}

/// The number of the type that [`object`] writes.
pub(super) fn number_of(value: &Value, form: Form) -> u8 {
    match (value, form) {
        (Value::String(_), _) => kind::STRING,
        (Value::List(_), _) => kind::QUICKLIST_2,
        (Value::Set(_), Form::Packed) => kind::SET_INTSET,
        (Value::Set(_), Form::Elements) => kind::SET,
        (Value::Hash(_), Form::Packed) if has_lifetimes(value) => kind::HASH_LISTPACK_LIFETIMES,
        (Value::Hash(_), Form::Elements) if has_lifetimes(value) => kind::HASH_LIFETIMES,
        (Value::Hash(_), Form::Packed) => kind::HASH_LISTPACK,
        (Value::Hash(_), Form::Elements) => kind::HASH,
        (Value::SortedSet(_), Form::Packed) => kind::SORTED_SET_LISTPACK,
        (Value::SortedSet(_), Form::Elements) => kind::SORTED_SET_2,
        (Value::Stream(_), _) => kind::STREAM_2,
    }
}

/// Writes the value, without the number of its type.
pub(super) fn object(out: &mut Vec<u8>, value: &Value, form: Form) {
    let mut sink = Sink { out };
    match (value, form) {
        (Value::String(value), _) => sink.string(value),
        (Value::List(elements), _) => list(&mut sink, elements),
        (Value::Set(members), Form::Packed) => {
            sink.string(&write_intset(members.iter().filter_map(|member| parse_integer(member)).collect()));
        }
        (Value::Set(members), Form::Elements) => sink.strings(members.len(), members.iter().map(Vec::as_slice)),
        (Value::Hash(fields), form) if has_lifetimes(value) => hash_with_lifetimes(&mut sink, fields, form),
        (Value::Hash(fields), Form::Packed) => {
            let mut listpack = Listpack::new();
            for field in fields {
                listpack.push(&field.name);
                listpack.push(&field.value);
            }
            sink.string(&listpack.end());
        }
        (Value::Hash(fields), Form::Elements) => {
            let elements = fields.iter().flat_map(|field| [&*field.name, &field.value]);
            sink.strings(fields.len(), elements);
        }
        (Value::SortedSet(members), Form::Packed) => {
            let (mut listpack, mut text) = (Listpack::new(), Vec::new());
            for (member, score) in members {
                listpack.push(member);
                text.clear();
                double::write(&mut text, *score);
                listpack.push(&text);
            }
            sink.string(&listpack.end());
        }
        (Value::SortedSet(members), Form::Elements) => {
            sink.length(members.len() as u64);
            // The last one first, so that a reader inserts each before the others.
            for (member, score) in members.iter().rev() {
                sink.string(member);
                sink.out.extend_from_slice(&score.to_le_bytes());
            }
        }
        (Value::Stream(stream), _) => streams::write(&mut sink, stream),
    }
}

/// Writes a hash with lifetimes: the first of them, then the fields.
fn hash_with_lifetimes(sink: &mut Sink<'_>, fields: &[Field], form: Form) {
    let first_ms = fields.iter().map(|field| field.expires_at_ms).filter(|at_ms| *at_ms != 0).min().unwrap_or(0);
    sink.out.extend_from_slice(&first_ms.to_le_bytes());
    if form == Form::Elements {
        sink.length(fields.len() as u64);
        for Field { name, value, expires_at_ms } in fields {
            // Counted from one before the first; 0: none.
            sink.length(if *expires_at_ms == 0 { 0 } else { expires_at_ms - first_ms + 1 });
            sink.string(name);
            sink.string(value);
        }
        return;
    }
    // Redis keeps them ordered by lifetime, fields without one last.
    let mut ordered: Vec<&Field> = fields.iter().collect();
    ordered.sort_by_key(|field| field.expires_at_ms.wrapping_sub(1));
    let mut listpack = Listpack::new();
    for Field { name, value, expires_at_ms } in ordered {
        listpack.push(name);
        listpack.push(value);
        listpack.push_number(i64::try_from(*expires_at_ms).unwrap_or(i64::MAX));
    }
    sink.string(&listpack.end());
}

/// Writes a list as nodes of a listpack each, divided as by RPUSH.
fn list(sink: &mut Sink<'_>, elements: &[Vec<u8>]) {
    /// More bytes go into the next node.
    const NODE_BYTES: usize = 8192;
    /// What Redis adds to an element's length for its encoding.
    const OVERHEAD_BYTES: usize = 8;
    /// Longer elements have a node of their own.
    const PACKED_BYTES: usize = 1 << 30;
    let (mut nodes, mut last) = (Vec::new(), Listpack::new());
    let end_node = |node: &mut Listpack| {
        let node = std::mem::replace(node, Listpack::new());
        (!node.is_empty()).then(|| node.end())
    };
    for element in elements {
        let is_full = last.len() + element.len() + OVERHEAD_BYTES > NODE_BYTES;
        let is_long = element.len() >= PACKED_BYTES;
        if is_full || is_long {
            nodes.extend(end_node(&mut last).map(|node| (PACKED_NODE, Cow::Owned(node))));
        }
        if is_long {
            nodes.push((PLAIN_NODE, Cow::Borrowed(element.as_slice())));
        } else {
            last.push(element);
        }
    }
    nodes.extend(end_node(&mut last).map(|node| (PACKED_NODE, Cow::Owned(node))));
    sink.length(nodes.len() as u64);
    for (form, node) in nodes {
        sink.length(form);
        sink.string(&node);
    }
}
