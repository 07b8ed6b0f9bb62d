//! XREAD and XREADGROUP, which read new entries of streams and may wait for them.
//!
//! What a consumer of a group reads is pending until it is acknowledged (`stream_groups.rs`). An entry is delivered and
//! recorded as pending in one change. How clients wait: `blocking.rs`.

use super::call::{Args, REPLY_TOO_LONG, Refusal, SYNTAX};
use super::number::parse_integer;
use super::reply::{self, Version};
use super::state::SessionState;
use super::streams::{about_two, reply_entry_at, reply_id, reply_range, strict_id};
use super::strings::integer;
use crate::blocked::{Reader, Reading, Waiter};
use crate::keyspace::collections::stream::{Consumer, EntryId, Group, Pending, Stream, StreamMut};
use crate::keyspace::{self, Exclusive, Pairs, SpaceError};
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// The arguments of XREAD and XREADGROUP.
struct ReadArgs {
    count: Option<u64>,
    /// How long to wait; `None` for not at all.
    block: Option<Option<Duration>>,
    reader: Option<Reader>,
    /// Index of the first key, and the number of keys; as many IDs follow them.
    keys: usize,
    key_count: usize,
}

/// How long BLOCK waits.
fn block_time(text: &[u8], now_ms: u64) -> Result<Option<Duration>, Refusal> {
    let ms = parse_integer(text).ok_or("ERR timeout is not an integer or out of range")?;
    let ms = u64::try_from(ms).map_err(|_| "ERR timeout is negative")?;
    if ms > (i64::MAX as u64).saturating_sub(now_ms) {
        return Err("ERR timeout is out of range".into());
    }
    const YEARS: u64 = 1 << 42;
    Ok((ms > 0).then(|| Duration::from_millis(ms.min(YEARS))))
}

impl ReadArgs {
    fn parse(args: &Args<'_>, of_group: bool, in_script: bool, now_ms: u64) -> Result<ReadArgs, Refusal> {
        let (mut count, mut block, mut group, mut noack, mut keys) = (None, None, None, false, None);
        let mut index = 1;
        while index < args.len() && keys.is_none() {
            let more = args.len() - 1 - index;
            if args.is(index, "block") && more > 0 {
                if in_script {
                    return Err(Refusal::about(
                        "ERR ",
                        args.at(0),
                        " command is not allowed with BLOCK option from scripts",
                    ));
                }
                index += 1;
                block = Some(block_time(args.at(index), now_ms)?);
            } else if args.is(index, "count") && more > 0 {
                index += 1;
                count = u64::try_from(integer(args.at(index))?).ok().filter(|count| *count > 0);
            } else if args.is(index, "streams") && more > 0 {
                if !more.is_multiple_of(2) {
                    return Err(
                        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
                            .into(),
                    );
                }
                keys = Some((index + 1, more / 2));
            } else if args.is(index, "group") && more >= 2 {
                if !of_group {
                    return Err(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.".into()
                    );
                }
                group = Some((args.at(index + 1), args.at(index + 2)));
                index += 2;
            } else if args.is(index, "noack") {
                if !of_group {
                    return Err(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.".into()
                    );
                }
                noack = true;
            } else {
                return Err(SYNTAX.into());
            }
            index += 1;
        }
        let (keys, key_count) = keys.ok_or(SYNTAX)?;
        if of_group && group.is_none() {
            return Err("ERR Missing GROUP option for XREADGROUP".into());
        }
        let reader =
            group.map(|(group, consumer)| Reader { group: group.to_vec(), consumer: consumer.to_vec(), noack });
        Ok(ReadArgs { count, block, reader, keys, key_count })
    }

    /// The ID after which to read each stream; the greatest one for `>`.
    fn after(&self, args: &Args<'_>, alone: &mut Exclusive<'_>, database: usize) -> Result<Vec<EntryId>, Refusal> {
        let mut after = Vec::with_capacity(self.key_count);
        for index in self.keys..self.keys + self.key_count {
            let (key, id) = (args.at(index), args.at(index + self.key_count));
            let stream = Stream::open(alone, database, key)?;
            if let Some(reader) = &self.reader {
                let group = match &stream {
                    Some(stream) => stream.group(alone, &reader.group)?,
                    None => None,
                };
                if group.is_none() {
                    let (before, after) = ("NOGROUP No such key '", "' in XREADGROUP with GROUP option");
                    return Err(about_two(before, key, "' or consumer group '", &reader.group, after));
                }
            }
            after.push(match (id, &self.reader) {
                (b"$", None) => stream.map_or(EntryId::MIN, |stream| stream.last),
                (b"$", Some(_)) => {
                    return Err("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the \
                                history of this consumer by specifying a proper ID, or use the > ID to get new \
                                messages. The $ ID would just return an empty result set."
                        .into());
                }
                (b">", None) => {
                    return Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
                                <consumer> option."
                        .into());
                }
                (b">", Some(_)) => EntryId::MAX,
                _ => strict_id(id, 0)?,
            });
        }
        Ok(after)
    }
}

/// The limits of a reply.
#[derive(Clone, Copy)]
struct Limits {
    entries: u64,
    bytes: usize,
    version: Version,
}

/// How many entries were added up to this ID, if that can be known.
fn count_up_to(stream: &Stream, first: Option<EntryId>, id: EntryId) -> Option<i64> {
    let added = stream.added as i64; // as Redis counts
    if added == 0 || id == stream.last || stream.len() == 0 && id < stream.last {
        return Some(added);
    }
    let first = first.unwrap_or_default();
    if id > stream.last || stream.max_deleted != EntryId::MIN && stream.max_deleted >= first {
        return None;
    }
    let before = added.wrapping_sub(stream.len() as i64);
    match id.cmp(&first) {
        std::cmp::Ordering::Less => Some(before),
        std::cmp::Ordering::Equal => Some(before.wrapping_add(1)),
        std::cmp::Ordering::Greater => None,
    }
}

/// Whether an entry after `id` was deleted while ones before it remain.
fn has_gap_after(stream: &Stream, first: Option<EntryId>, id: EntryId) -> bool {
    let deleted = stream.max_deleted;
    first.is_some_and(|first| deleted != EntryId::MIN && first <= deleted) && id <= deleted
}

impl Group {
    /// Notes that an entry was delivered. `first`: the first entry of the stream.
    fn deliver(&mut self, stream: &Stream, first: Option<EntryId>, id: EntryId) {
        match self.read {
            Some(read) if !has_gap_after(stream, first, id) => self.read = Some(read.wrapping_add(1)),
            _ if stream.added > 0 => self.read = count_up_to(stream, first, id),
            _ => {}
        }
        self.last = id;
    }

    /// How many entries it has not delivered, if that is known.
    pub(super) fn lag(&self, stream: &Stream, first: Option<EntryId>) -> Option<i64> {
        let read = match self.read {
            _ if stream.added == 0 => return Some(0),
            // ENTRIESREAD may count entries as read that come after the last one delivered.
            Some(read) if first.is_none_or(|first| self.last >= first) && !has_gap_after(stream, first, self.last) => {
                read
            }
            _ => count_up_to(stream, first, self.last)?,
        };
        Some((stream.added as i64).wrapping_sub(read)) // as Redis computes it
    }
}

/// The consumer with this name: added if it is absent, else seen now. Also returns whether it is new.
pub(super) fn see_consumer(
    stream: &mut StreamMut<'_, '_>,
    group: u64,
    name: &[u8],
    now_ms: u64,
) -> keyspace::Result<(Consumer, bool)> {
    let (now, alone) = stream.read()?;
    match now.consumer(alone, group, name)? {
        None => Ok((stream.add_consumer(group, name, now_ms)?, true)),
        Some(consumer) => {
            stream.see_consumer(group, name, consumer, now_ms)?;
            Ok((consumer, false))
        }
    }
}

/// The event of a new consumer.
pub(super) fn events_of_new(is_new: bool) -> &'static [&'static str] {
    if is_new { &["xgroup-createconsumer"] } else { &[] }
}

/// Replies with what a consumer of a group reads: new entries after the group's last, or its own pending ones.
fn read_group(
    out: &mut Vec<u8>,
    alone: &mut Exclusive<'_>,
    (database, key): (usize, &[u8]),
    reader: &Reader,
    after: EntryId,
    limits: Limits,
) -> Result<(), Refusal> {
    let now_ms = alone.now_ms();
    let mut stream = StreamMut::open(alone, database, key)?;
    let (now, pairs) = stream.read()?;
    let Some(before) = now.group(pairs, &reader.group)? else { return Ok(()) };
    let (number, mut group) = (before.number, before);
    let start = after.next().unwrap_or(EntryId::MAX);
    if after == EntryId::MAX {
        let start = group.last.next().unwrap_or(EntryId::MAX);
        let first = now.edge(pairs, false)?;
        let ids = reply_range(out, now, pairs, (start, EntryId::MAX), (false, limits.entries), limits.bytes)?;
        let last_pending = now.pending_last(pairs, number)?;
        ids.iter().for_each(|id| group.deliver(now, first, *id));
        let (consumer, is_new) = see_consumer(&mut stream, number, &reader.consumer, now_ms)?;
        if !ids.is_empty() {
            stream.set_group(&reader.group, before, group)?;
        }
        for id in ids.into_iter().filter(|_| !reader.noack) {
            // XGROUP SETID may have gone back to entries that are pending.
            let before = if last_pending.is_some_and(|last| id <= last) {
                let (now, pairs) = stream.read()?;
                now.pending(pairs, number, id)?
            } else {
                None
            };
            let pending = Pending { consumer: consumer.number, delivered_ms: now_ms, count: 1 };
            stream.set_pending(number, id, before, pending)?;
        }
        stream.finish(false, events_of_new(is_new))?;
        return Ok(());
    }
    let most = usize::try_from(limits.entries).unwrap_or(usize::MAX);
    let ids = match now.consumer(pairs, number, &reader.consumer)? {
        Some(consumer) => now.owned_from(pairs, (number, consumer.number), start, most)?,
        None => Vec::new(),
    };
    let (mut found, mut present) = (Vec::new(), Vec::new());
    for id in &ids {
        if reply_entry_at(&mut found, now, pairs, *id)? {
            present.push(*id);
        } else {
            reply::array(&mut found, 2);
            reply_id(&mut found, *id);
            reply::null_array(&mut found, limits.version);
        }
        if found.len() > limits.bytes {
            return Err(REPLY_TOO_LONG.into());
        }
    }
    let (_, is_new) = see_consumer(&mut stream, number, &reader.consumer, now_ms)?;
    for id in present {
        let (now, pairs) = stream.read()?;
        if let Some(before) = now.pending(pairs, number, id)? {
            let count = before.count.wrapping_add(1);
            stream.set_pending(number, id, Some(before), Pending { delivered_ms: now_ms, count, ..before })?;
        }
    }
    stream.finish(false, events_of_new(is_new))?;
    reply::array(out, ids.len());
    out.append(&mut found);
    Ok(())
}

/// Whether there is something to reply for a stream, and after which ID.
fn is_ready(
    stream: &Stream,
    pairs: &mut (impl Pairs + ?Sized),
    reader: Option<&Reader>,
    after: EntryId,
) -> keyspace::Result<bool> {
    let after = match reader {
        // The history of a consumer is available at once.
        Some(_) if after != EntryId::MAX => return Ok(true),
        Some(reader) => stream.group(pairs, &reader.group)?.map_or(EntryId::MAX, |group| group.last),
        None => after,
    };
    Ok(stream.edge(pairs, true)?.is_some_and(|top| top > after))
}

/// Replies with a key and what is read there.
fn read_one(
    out: &mut Vec<u8>,
    alone: &mut Exclusive<'_>,
    (database, key): (usize, &[u8]),
    reader: Option<&Reader>,
    after: EntryId,
    limits: Limits,
) -> Result<(), Refusal> {
    if limits.version == Version::Resp2 {
        reply::array(out, 2);
    }
    reply::bulk(out, key);
    match reader {
        Some(reader) => read_group(out, alone, (database, key), reader, after, limits),
        None => {
            let Some(stream) = Stream::open(alone, database, key)? else { return Ok(()) };
            let range = (after.next().unwrap_or(EntryId::MAX), EntryId::MAX);
            reply_range(out, &stream, alone, range, (false, limits.entries), limits.bytes).map(drop)
        }
    }
}

/// The head of a reply of several streams.
fn streams_head(out: &mut Vec<u8>, count: usize, version: Version) {
    match version {
        Version::Resp2 => reply::array(out, count),
        Version::Resp3 => reply::map(out, count, version),
    }
}

/// What a client that read nothing waits for.
pub(super) struct Wait {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) reading: Reading,
    /// `None`: without end.
    pub(super) time: Option<Duration>,
}

/// XREAD and XREADGROUP. Returns what to wait for if there is nothing yet.
pub(super) fn read(
    session: &SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
    of_group: bool,
) -> Result<Option<Wait>, Refusal> {
    let (database, version) = (session.database, session.version);
    let read = ReadArgs::parse(&args, of_group, session.in_script, alone.now_ms())?;
    let after = read.after(&args, alone, database)?;
    let bytes = session.server.settings.request_bytes.load(Relaxed);
    let limits = Limits { entries: read.count.unwrap_or(u64::MAX), bytes, version };
    // EXEC commits for all of its commands.
    let is_own = !session.executing;
    if is_own {
        alone.begin();
    }
    let mut read_all = || {
        let (mut found, mut count) = (Vec::new(), 0);
        for (index, after) in after.iter().enumerate() {
            let key = args.at(read.keys + index);
            let Some(stream) = Stream::open(alone, database, key)? else { continue };
            if is_ready(&stream, alone, read.reader.as_ref(), *after)? {
                count += 1;
                read_one(&mut found, alone, (database, key), read.reader.as_ref(), *after, limits)?;
                if found.len() > bytes {
                    return Err(Refusal::from(REPLY_TOO_LONG));
                }
            }
        }
        Ok((found, count))
    };
    let outcome = read_all();
    let (mut found, count) = match outcome {
        Ok(found) if is_own => {
            alone.commit()?;
            found
        }
        Ok(found) => found,
        Err(refusal) => {
            if is_own {
                alone.roll_back();
            }
            return Err(refusal);
        }
    };
    if count > 0 {
        streams_head(out, count, version);
        out.append(&mut found);
        return Ok(None);
    }
    let Some(time) = read.block.filter(|_| !session.executing) else {
        reply::null_array(out, version);
        return Ok(None);
    };
    let keys = args.from(read.keys).take(read.key_count).map(<[u8]>::to_vec).collect();
    // A client that waited gets at most this many entries, as in Redis.
    const ENTRIES: u64 = 1000;
    let reading = Reading { after, count: read.count.unwrap_or(ENTRIES), reader: read.reader };
    Ok(Some(Wait { keys, reading, time }))
}

/// Replies to a client that waits for entries of this key; `None` if there are none for it.
pub(super) fn read_for(
    waiter: &Waiter,
    reading: &Reading,
    alone: &mut Exclusive<'_>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Refusal> {
    let stream = match Stream::open(alone, waiter.database, key) {
        Ok(stream) => stream,
        Err(SpaceError::WrongType) => None,
        Err(error) => return Err(error.into()),
    };
    let (stream, after) = match (stream, &reading.reader) {
        (None, Some(_)) => return Err("UNBLOCKED the stream key no longer exists".into()),
        (None, None) => return Ok(None),
        (Some(stream), Some(reader)) => {
            let group = stream.group(alone, &reader.group)?;
            let gone = "NOGROUP the consumer group this client was blocked on no longer exists";
            let last = group.ok_or(gone)?.last;
            (stream, last)
        }
        (Some(stream), None) => {
            let index = waiter.keys.iter().position(|other| other == key);
            let after = index.and_then(|index| reading.after.get(index));
            (stream, after.copied().unwrap_or(EntryId::MAX))
        }
    };
    if stream.last <= after {
        return Ok(None);
    }
    let mut out = Vec::new();
    let limits = Limits { entries: reading.count, bytes: waiter.reply_bytes_max, version: waiter.version };
    streams_head(&mut out, 1, waiter.version);
    let after = if reading.reader.is_some() { EntryId::MAX } else { after };
    read_one(&mut out, alone, (waiter.database, key), reading.reader.as_ref(), after, limits)?;
    Ok(Some(out))
}
