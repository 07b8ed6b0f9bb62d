//! Values of the key space: read whole, and stored whole.

use super::{EntryId, Field, Form, Group, Pending, Stream, Value};
use crate::command::number::parse_integer;
use crate::keyspace::collections::fields::{EXPIRY_MAX, Expiry, Fields, FieldsMut, has_expired};
use crate::keyspace::collections::list::{End, List, ListMut};
use crate::keyspace::collections::sorted::{SortedSet, SortedSetMut};
use crate::keyspace::collections::{elements, stream};
use crate::keyspace::{self, Attributes, Exclusive, Kind, Lifetime, Pairs, damaged};
use std::collections::HashMap;

/// The collection at `key`, and the encoding that Redis would use; `None` if it is absent or all fields have expired.
/// The caller handles strings.
///
/// O(elements).
///
/// # Errors
/// Returns the errors of [`splitpoint::Table::get`].
pub(crate) fn collection(
    pairs: &mut impl Pairs,
    database: usize,
    key: &[u8],
    kind: Kind,
) -> keyspace::Result<Option<(Value, Form)>> {
    let form = |is_packed| if is_packed { Form::Packed } else { Form::Elements };
    Ok(match kind {
        Kind::String => None,
        Kind::List => match List::open(pairs, database, key)? {
            None => None,
            Some(list) => {
                let mut elements = Vec::new();
                list.for_range(pairs, 0..u64::MAX, |_, element| {
                    elements.push(element.to_vec());
                    true
                })?;
                Some((Value::List(elements), Form::Packed))
            }
        },
        Kind::Hash | Kind::Set => match Fields::open(pairs, database, key, kind)? {
            None => None,
            Some(fields) => {
                let mut found = Vec::new();
                fields.for_each_with_expiry(pairs, |name, value, expires_at_ms| {
                    found.push(Field { name: name.to_vec(), value: value.to_vec(), expires_at_ms });
                    true
                })?;
                if found.is_empty() {
                    return Ok(None);
                }
                let mut is_packed = fields.encoding() != "hashtable";
                let value = if kind == Kind::Hash {
                    Value::Hash(found)
                } else {
                    // The form is a flag of the file, which may be damaged.
                    is_packed &= found.iter().all(|member| parse_integer(&member.name).is_some());
                    Value::Set(found.into_iter().map(|member| member.name).collect())
                };
                Some((value, form(is_packed)))
            }
        },
        Kind::SortedSet => match SortedSet::open(pairs, database, key)? {
            None => None,
            Some(set) => {
                let mut members = Vec::new();
                set.for_range(pairs, 0..u64::MAX, false, |member, score| {
                    members.push((member.to_vec(), score));
                    true
                })?;
                Some((Value::SortedSet(members), form(set.encoding() == "listpack")))
            }
        },
        Kind::Stream => match stream::Stream::open(pairs, database, key)? {
            None => None,
            Some(stream) => Some((Value::Stream(stream_of(pairs, &stream)?), Form::Packed)),
        },
    })
}

fn stream_of(pairs: &mut impl Pairs, stream: &stream::Stream) -> keyspace::Result<Stream> {
    let mut entries = Vec::new();
    stream.for_entries(pairs, (EntryId::MIN, EntryId::MAX), false, &mut |id, fields| {
        entries.push((id, elements::iter(fields).map(<[u8]>::to_vec).collect()));
        true
    })?;
    let mut groups = Vec::new();
    for (name, group) in stream.groups(pairs)? {
        let (mut consumers, mut indexes) = (Vec::new(), HashMap::new());
        for (name, consumer) in stream.consumers(pairs, group.number)? {
            indexes.insert(consumer.number, consumers.len());
            consumers.push((name, consumer.seen_ms));
        }
        let mut pending = Vec::new();
        for (id, entry) in stream.pending_from(pairs, group.number, EntryId::MIN, usize::MAX)? {
            let consumer = indexes.get(&entry.consumer).copied();
            let consumer = consumer.ok_or_else(|| damaged("a pending entry has no consumer"))?;
            pending.push(Pending { id, consumer, delivered_ms: entry.delivered_ms, count: entry.count });
        }
        groups.push(Group { name, last: group.last, read: group.read, consumers, pending });
    }
    Ok(Stream { entries, last: stream.last, max_deleted: stream.max_deleted, added: stream.added, groups })
}

/// Stores a value in place of any earlier one, with this lifetime: 0 for none. Fields that have expired are left out; a
/// hash without others is not stored. Returns whether the key is present then.
///
/// In memory no client sees the steps, but they are not undone if one fails; in a file they are within a transaction.
///
/// # Errors
/// Returns the errors of [`splitpoint::Table::put`].
pub(crate) fn store(
    alone: &mut Exclusive<'_>,
    database: usize,
    key: &[u8],
    value: &Value,
    expires_at_ms: u64,
) -> keyspace::Result<bool> {
    if let Value::String(value) = value {
        alone.put(database, key, value, Lifetime::Are(Attributes::expiring(expires_at_ms)))?;
        return Ok(true);
    }
    alone.remove(database, key)?;
    let now_ms = alone.now_ms();
    let kind = match value {
        Value::String(_) => return Ok(true),
        Value::List(elements) => {
            let mut list = ListMut::open(alone, database, key)?;
            elements.iter().try_for_each(|element| list.push(End::Right, element))?;
            list.finish()?;
            Kind::List
        }
        Value::Set(members) => {
            let mut set = FieldsMut::open(alone, database, key, Kind::Set)?;
            set.fill(members)?;
            set.finish()?;
            Kind::Set
        }
        Value::Hash(fields) => {
            let mut hash = FieldsMut::open(alone, database, key, Kind::Hash)?;
            for Field { name, value, expires_at_ms } in fields {
                if !has_expired(*expires_at_ms, now_ms) {
                    hash.put_with_expiry(name, value, Expiry::At((*expires_at_ms).min(EXPIRY_MAX)))?;
                }
            }
            if !hash.finish()? {
                return Ok(false);
            }
            Kind::Hash
        }
        Value::SortedSet(members) => {
            let mut set = SortedSetMut::open(alone, database, key)?;
            set.fill(members)?;
            set.finish()?;
            Kind::SortedSet
        }
        Value::Stream(stream) => {
            store_stream(alone, database, key, stream)?;
            Kind::Stream
        }
    };
    if expires_at_ms != 0 {
        alone.set_attributes(database, key, Attributes { expires_at_ms, kind, ..Attributes::NONE })?;
    }
    Ok(true)
}

fn store_stream(alone: &mut Exclusive<'_>, database: usize, key: &[u8], value: &Stream) -> keyspace::Result<()> {
    let mut stream = stream::StreamMut::open(alone, database, key)?;
    for (id, fields) in &value.entries {
        stream.append(*id, fields.iter().map(Vec::as_slice))?;
    }
    stream.set_counters(value.last, Some(value.added), Some(value.max_deleted));
    for group in &value.groups {
        stream.add_group(&group.name, group.last, group.read)?;
        let (now, pairs) = stream.read()?;
        let added = now.group(pairs, &group.name)?;
        let number = added.ok_or_else(|| damaged("a group that was added is absent"))?.number;
        let mut consumers = Vec::with_capacity(group.consumers.len());
        for (name, seen_ms) in &group.consumers {
            consumers.push(stream.add_consumer(number, name, *seen_ms)?.number);
        }
        for &Pending { id, consumer, delivered_ms, count } in &group.pending {
            let entry = stream::Pending { consumer: consumers[consumer], delivered_ms, count };
            stream.set_pending(number, id, None, entry)?;
        }
    }
    stream.finish(true, &[])
}
