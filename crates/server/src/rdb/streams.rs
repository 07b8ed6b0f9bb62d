//! Streams in the format: entries in listpacks, then the counters, then the groups.
//!
//! ```text
//! nodes | node: first ID, 16 bytes big-endian; listpack | ... | entries | last ID | from version 2: first ID,
//! greatest removed ID, entries ever added | groups
//!
//! listpack   live | removed | fields | names ... | 0          the names that most entries have
//!            flags | ID minus the first: ms, seq | names and values, or values alone | elements of this entry
//! group      name | last ID | from version 2: entries read | pending: ID, 16 bytes; time, 8 bytes; deliveries
//!            consumers: name | seen, 8 bytes | version 3: active, 8 bytes | IDs, 16 bytes each
//! ```
//!
//! Source: the RDB format; nodes are divided as XADD of Redis 7.0 divides them.

use super::packed::{Elements, Listpack, listpack};
use super::sink::Sink;
use super::source::Source;
use super::{EntryId, Group, Pending, Result, Stream, bad, kind};
use std::collections::{HashMap, HashSet};
use std::io::Read;

const REMOVED: i64 = 1;
const SAME_FIELDS: i64 = 2;

fn id_of(bytes: &[u8]) -> Result<EntryId> {
    let (ms, rest) = bytes.split_first_chunk().ok_or_else(bad_id)?;
    let seq = rest.try_into().map_err(|_| bad_id())?;
    Ok(EntryId { ms: u64::from_be_bytes(*ms), seq: u64::from_be_bytes(seq) })
}

fn bad_id() -> super::RdbError {
    bad("an ID of a stream that is not 16 bytes")
}

fn raw_id(id: EntryId) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.ms.to_be_bytes());
    bytes[8..].copy_from_slice(&id.seq.to_be_bytes());
    bytes
}

fn read_id<R: Read>(source: &mut Source<R>) -> Result<EntryId> {
    Ok(EntryId { ms: source.length()?, seq: source.length()? })
}

/// Reads a stream in the version that `number` means.
pub(super) fn read<R: Read>(source: &mut Source<R>, number: u8) -> Result<Stream> {
    let mut stream = Stream::default();
    let nodes = source.length()?;
    for _ in 0..nodes {
        let first = id_of(&source.string()?)?;
        let bytes = source.string()?;
        node(source, first, listpack(&bytes)?, &mut stream.entries)?;
    }
    let entries = source.length()?;
    stream.last = read_id(source)?;
    if number == kind::STREAM {
        stream.added = entries;
    } else {
        read_id(source)?; // the first, which the entries say
        stream.max_deleted = read_id(source)?;
        stream.added = source.length()?;
    }
    let is_ascending = stream.entries.is_sorted_by(|one, other| one.0 < other.0);
    let is_last = stream.entries.last().is_none_or(|(id, _)| *id <= stream.last && *id != EntryId::MIN);
    if entries != stream.entries.len() as u64 || !is_ascending || !is_last {
        return Err(bad("a stream whose entries do not agree with its counters"));
    }
    let groups = source.many(|source| group(source, number, &stream))?;
    let mut names = HashSet::new();
    if !groups.iter().all(|group| names.insert(&group.name)) {
        return Err(bad("a stream that has a group twice"));
    }
    stream.groups = groups;
    Ok(stream)
}

fn node<R: Read>(
    source: &mut Source<R>,
    first: EntryId,
    mut elements: Elements<'_>,
    entries: &mut Vec<(EntryId, Vec<Vec<u8>>)>,
) -> Result<()> {
    let wrong = || bad("an entry of a stream that is damaged");
    let text = |source: &mut Source<R>, elements: &mut Elements<'_>| -> Result<Vec<u8>> {
        let bytes = elements.expect()?.to_vec();
        source.charge(bytes.len() as u64)?;
        Ok(bytes)
    };
    let (live, removed) = (elements.number()?, elements.number()?);
    let fields = elements.number()?;
    let mut names = Vec::new();
    for _ in 0..fields {
        names.push(text(source, &mut elements)?);
    }
    if elements.number()? != 0 {
        return Err(wrong());
    }
    let (mut found, mut gone) = (0, 0);
    while let Some(flags) = elements.next() {
        let flags = flags?.number().ok_or_else(wrong)?;
        let (ms, seq) = (elements.number()?, elements.number()?);
        // Differences wrap, as in Redis.
        let id = EntryId { ms: first.ms.wrapping_add_signed(ms), seq: first.seq.wrapping_add_signed(seq) };
        let is_same = flags & SAME_FIELDS != 0;
        let count = if is_same { names.len() as i64 } else { elements.number()? };
        let mut pairs = Vec::new();
        for index in 0..count {
            match names.get(index as usize).filter(|_| is_same) {
                Some(name) => {
                    source.charge(name.len() as u64)?;
                    pairs.push(name.clone());
                }
                None => pairs.push(text(source, &mut elements)?),
            }
            pairs.push(text(source, &mut elements)?);
        }
        let taken = if is_same { 3 + pairs.len() / 2 } else { 4 + pairs.len() };
        if elements.number()? != taken as i64 || pairs.is_empty() {
            return Err(wrong());
        }
        if flags & REMOVED != 0 {
            gone += 1;
        } else {
            found += 1;
            source.charge(0)?;
            entries.push((id, pairs));
        }
    }
    if (found, gone) == (live, removed) { Ok(()) } else { Err(wrong()) }
}

fn group<R: Read>(source: &mut Source<R>, number: u8, stream: &Stream) -> Result<Group> {
    let (name, last) = (source.string()?, read_id(source)?);
    let read = match number {
        kind::STREAM => estimate_read(stream, last),
        // A signed number; -1 means unknown.
        _ => Some(source.length()? as i64).filter(|read| *read != -1),
    };
    let mut pending = source.many(|source| {
        source.charge(0)?;
        let (id, delivered_ms, count) = (id_of(&source.bytes::<16>()?)?, source.number()?, source.length()?);
        Ok(Pending { id, consumer: usize::MAX, delivered_ms, count })
    })?;
    let places: HashMap<EntryId, usize> = pending.iter().enumerate().map(|(place, entry)| (entry.id, place)).collect();
    let consumers_len = source.length()?;
    let mut consumers: Vec<(Vec<u8>, u64)> = Vec::new();
    for consumer in 0..consumers_len {
        let (name, seen_ms) = (source.string()?, source.number()?);
        if number == kind::STREAM_3 {
            source.number()?;
        }
        consumers.push((name, seen_ms));
        let owned = source.length()?;
        for _ in 0..owned {
            let id = id_of(&source.bytes::<16>()?)?;
            let entry = places.get(&id).map(|place| &mut pending[*place]).filter(|entry| entry.consumer == usize::MAX);
            entry.ok_or_else(|| bad("a pending entry that its group does not have"))?.consumer = consumer as usize;
        }
    }
    let mut names = HashSet::new();
    if !consumers.iter().all(|(name, _)| names.insert(name)) {
        return Err(bad("a group of a stream that has a consumer twice"));
    }
    if places.len() != pending.len() || pending.iter().any(|entry| entry.consumer == usize::MAX) {
        return Err(bad("a pending entry of a group that no consumer has"));
    }
    pending.sort_unstable_by_key(|entry| entry.id);
    Ok(Group { name, last, read, consumers, pending })
}

/// How many entries a group has read whose last one is `last`, if no entry was removed in between.
fn estimate_read(stream: &Stream, last: EntryId) -> Option<i64> {
    let (added, len) = (stream.added as i64, stream.entries.len() as i64);
    let first = stream.entries.first().map_or(EntryId::MIN, |(id, _)| *id);
    match () {
        () if added == 0 => Some(0),
        () if last == stream.last || len == 0 && last < stream.last => Some(added),
        () if last > stream.last => None,
        () if last < first => Some(added - len),
        () if last == first => Some(added - len + 1),
        () => None,
    }
}

/// Writes a stream in version 2, that of Redis 7.0.
pub(super) fn write(sink: &mut Sink<'_>, stream: &Stream) {
    let nodes = nodes_of(&stream.entries);
    sink.length(nodes.len() as u64);
    for entries in nodes {
        sink.string(&raw_id(entries[0].0));
        sink.string(&write_node(entries));
    }
    let first = stream.entries.first().map_or(EntryId::MIN, |(id, _)| *id);
    sink.length(stream.entries.len() as u64);
    for id in [stream.last, first, stream.max_deleted] {
        sink.length(id.ms);
        sink.length(id.seq);
    }
    sink.length(stream.added);
    sink.length(stream.groups.len() as u64);
    for group in &stream.groups {
        sink.string(&group.name);
        sink.length(group.last.ms);
        sink.length(group.last.seq);
        sink.length(group.read.unwrap_or(-1) as u64); // the same bits
        sink.length(group.pending.len() as u64);
        for entry in &group.pending {
            sink.out.extend_from_slice(&raw_id(entry.id));
            sink.out.extend_from_slice(&entry.delivered_ms.to_le_bytes());
            sink.length(entry.count);
        }
        sink.length(group.consumers.len() as u64);
        let mut owned = vec![Vec::new(); group.consumers.len()];
        group.pending.iter().for_each(|entry| owned[entry.consumer].push(entry.id));
        for ((name, seen_ms), owned) in group.consumers.iter().zip(owned) {
            sink.string(name);
            sink.out.extend_from_slice(&seen_ms.to_le_bytes());
            sink.length(owned.len() as u64);
            owned.iter().for_each(|id| sink.out.extend_from_slice(&raw_id(*id)));
        }
    }
}

type Entry = (EntryId, Vec<Vec<u8>>);

/// Divides the entries into nodes.
fn nodes_of(mut entries: &[Entry]) -> Vec<&[Entry]> {
    const ENTRIES_MAX: usize = 100;
    const NODE_BYTES: usize = 4096;
    let mut nodes = Vec::new();
    while !entries.is_empty() {
        let mut node = NodeWriter::begin(&entries[0]);
        let mut count = 1;
        for entry in &entries[1..] {
            let bytes: usize = entry.1.iter().map(Vec::len).sum();
            if count == ENTRIES_MAX || node.listpack.len() + bytes >= NODE_BYTES {
                break;
            }
            node.push(entry);
            count += 1;
        }
        let (these, rest) = entries.split_at(count);
        nodes.push(these);
        entries = rest;
    }
    nodes
}

/// A node's entries, without the head, which has their number.
struct NodeWriter<'e> {
    first: &'e Entry,
    listpack: Listpack,
}

impl<'e> NodeWriter<'e> {
    fn begin(first: &'e Entry) -> NodeWriter<'e> {
        NodeWriter::of(first, 1)
    }

    /// Begins with the first entry of a node of `count` entries.
    fn of(first: &'e Entry, count: usize) -> NodeWriter<'e> {
        let mut listpack = Listpack::new();
        listpack.push_number(count as i64);
        listpack.push_number(0);
        listpack.push_number(first.1.len() as i64 / 2);
        first.1.iter().step_by(2).for_each(|name| listpack.push(name));
        listpack.push_number(0);
        let mut node = NodeWriter { first, listpack };
        node.push(first);
        node
    }

    fn push(&mut self, (id, fields): &Entry) {
        let (first, names) = (self.first.0, self.first.1.iter().step_by(2));
        let is_same = fields.len() == self.first.1.len() && fields.iter().step_by(2).eq(names);
        let count = fields.len() as i64 / 2;
        self.listpack.push_number(if is_same { SAME_FIELDS } else { 0 });
        self.listpack.push_number(id.ms.wrapping_sub(first.ms) as i64); // the same bits
        self.listpack.push_number(id.seq.wrapping_sub(first.seq) as i64);
        if is_same {
            fields.iter().skip(1).step_by(2).for_each(|value| self.listpack.push(value));
            self.listpack.push_number(3 + count);
        } else {
            self.listpack.push_number(count);
            fields.iter().for_each(|text| self.listpack.push(text));
            self.listpack.push_number(4 + 2 * count);
        }
    }
}

fn write_node(entries: &[Entry]) -> Vec<u8> {
    let mut node = NodeWriter::of(&entries[0], entries.len());
    entries[1..].iter().for_each(|entry| node.push(entry));
    node.listpack.end()
}
