//! XINFO: describes a stream, its groups and their consumers.

use super::call::{Call, NO_SUCH_KEY, Outcome, REPLY_TOO_LONG, Refusal, Turn};
use super::reply::{self, Version};
use super::stream_groups::{names_of, no_group_at};
use super::streams::{open, reply_id, reply_known_entry, reply_range, reply_unsigned};
use super::strings::integer;
use crate::keyspace;
use crate::keyspace::collections::stream::{EntryId, Group, Stream};

/// Writes the parts of a map, each after its name.
struct Parts<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
}

impl Parts<'_> {
    fn map(&mut self, len: usize) {
        reply::map(self.out, len, self.version);
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        reply::bulk(self.out, name.as_bytes());
        self.out
    }

    fn count(&mut self, name: &str, count: u64) {
        reply::count(self.name(name), count);
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        reply::bulk(self.name(name), bytes);
    }

    fn id(&mut self, name: &str, id: EntryId) {
        reply_id(self.name(name), id);
    }

    fn number(&mut self, name: &str, number: Option<i64>) {
        self.name(name);
        match number {
            Some(number) => reply::integer(self.out, number),
            None => reply::null(self.out, self.version),
        }
    }
}

/// XINFO STREAM | GROUPS | CONSUMERS ...
pub(crate) fn xinfo(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    if args.is(1, "help") && args.len() == 2 {
        let lines = [
            "CONSUMERS <key> <groupname>",
            "    Lists the consumers of a group.",
            "GROUPS <key>",
            "    Lists the groups of a stream.",
            "STREAM <key> [FULL [COUNT <count>]]",
            "    Describes a stream; with FULL, also its groups and entries.",
        ];
        reply::help(call.out, "XINFO", &lines);
        return Ok(());
    }
    let unknown = || Refusal::unknown_subcommand(&args, "XINFO");
    if args.len() < 3 {
        return Err(unknown());
    }
    let stream = open(turn, call, 2)?.ok_or(NO_SUCH_KEY)?;
    match () {
        () if args.is(1, "consumers") && args.len() == 4 => consumers(&stream, turn, call),
        () if args.is(1, "groups") && args.len() == 3 => groups(&stream, turn, call),
        () if args.is(1, "stream") => {
            let full = match args.len() {
                3 => return summary(&stream, turn, call),
                4 if args.is(3, "full") => 10,
                6 if args.is(3, "full") && args.is(4, "count") => u64::try_from(integer(args.at(5))?).unwrap_or(10),
                _ => return Err(unknown()),
            };
            in_full(&stream, turn, call, if full == 0 { u64::MAX } else { full })
        }
        () => Err(unknown()),
    }
}

fn consumers(stream: &Stream, turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let now_ms = turn.now_ms();
    let group = stream.group(turn, call.args.at(3))?.ok_or_else(|| no_group_at(&call.args))?.number;
    let consumers = stream.consumers(turn, group)?;
    reply::array(call.out, consumers.len());
    let mut parts = Parts { out: call.out, version: call.version };
    for (name, consumer) in consumers {
        parts.map(3);
        parts.bytes("name", &name);
        parts.count("pending", stream.owned_count(turn, group, consumer.number)?);
        parts.count("idle", now_ms.saturating_sub(consumer.seen_ms));
    }
    Ok(())
}

/// How many entries a group has read, and how many it has not delivered.
fn progress(parts: &mut Parts<'_>, stream: &Stream, turn: &mut Turn<'_, '_>, group: &Group) -> keyspace::Result<()> {
    let first = stream.edge(turn, false)?;
    parts.number("entries-read", group.read);
    parts.number("lag", group.lag(stream, first));
    Ok(())
}

fn groups(stream: &Stream, turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let groups = stream.groups(turn)?;
    reply::array(call.out, groups.len());
    let mut parts = Parts { out: call.out, version: call.version };
    for (name, group) in groups {
        parts.map(6);
        parts.bytes("name", &name);
        parts.count("consumers", stream.consumer_count(turn, group.number)?);
        parts.count("pending", stream.pending_count(turn, group.number)?);
        parts.id("last-delivered-id", group.last);
        progress(&mut parts, stream, turn, &group)?;
    }
    Ok(())
}

/// Writes the beginning of both forms of XINFO STREAM.
fn beginning(parts: &mut Parts<'_>, stream: &Stream, turn: &mut Turn<'_, '_>) -> keyspace::Result<()> {
    let first = stream.edge(turn, false)?;
    parts.count("length", stream.len());
    // Where Redis reports its radix tree, we report the nodes of our tree.
    parts.count("radix-tree-keys", stream.nodes().max(u64::from(stream.len() > 0)));
    parts.count("radix-tree-nodes", stream.nodes().max(1));
    parts.id("last-generated-id", stream.last);
    parts.id("max-deleted-entry-id", stream.max_deleted);
    reply_unsigned(parts.name("entries-added"), stream.added);
    parts.id("recorded-first-entry-id", first.unwrap_or_default());
    Ok(())
}

fn summary(stream: &Stream, turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let mut parts = Parts { out: call.out, version: call.version };
    parts.map(10);
    beginning(&mut parts, stream, turn)?;
    parts.count("groups", stream.group_count(turn)?);
    for (name, is_last) in [("first-entry", false), ("last-entry", true)] {
        parts.name(name);
        match stream.edge(turn, is_last)? {
            Some(id) => reply_known_entry(parts.out, stream, turn, id)?,
            None => reply::null(parts.out, parts.version),
        }
    }
    Ok(())
}

/// XINFO STREAM key FULL: `most` entries, and as many pending ones of each group and consumer.
fn in_full(stream: &Stream, turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, most: u64) -> Outcome {
    let bytes_max = call.reply_bytes_max;
    let start = call.out.len();
    let mut parts = Parts { out: call.out, version: call.version };
    parts.map(9);
    beginning(&mut parts, stream, turn)?;
    let all = (EntryId::MIN, EntryId::MAX);
    reply_range(parts.name("entries"), stream, turn, all, (false, most), bytes_max)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let groups = stream.groups(turn)?;
    reply::array(parts.name("groups"), groups.len());
    for (name, group) in groups {
        let consumers = stream.consumers(turn, group.number)?;
        let names = names_of(consumers.clone());
        parts.map(7);
        parts.bytes("name", &name);
        parts.id("last-delivered-id", group.last);
        progress(&mut parts, stream, turn, &group)?;
        parts.count("pel-count", stream.pending_count(turn, group.number)?);
        let pending = stream.pending_from(turn, group.number, EntryId::MIN, most)?;
        reply::array(parts.name("pending"), pending.len());
        for (id, pending) in pending {
            reply::array(parts.out, 4);
            reply_id(parts.out, id);
            reply::bulk(parts.out, names.get(&pending.consumer).map_or(b"", Vec::as_slice));
            reply_unsigned(parts.out, pending.delivered_ms);
            reply_unsigned(parts.out, pending.count);
        }
        reply::array(parts.name("consumers"), consumers.len());
        for (name, consumer) in consumers {
            parts.map(4);
            parts.bytes("name", &name);
            reply_unsigned(parts.name("seen-time"), consumer.seen_ms);
            parts.count("pel-count", stream.owned_count(turn, group.number, consumer.number)?);
            let mut owned = Vec::new();
            for id in stream.owned_from(turn, (group.number, consumer.number), EntryId::MIN, most)? {
                owned.extend(stream.pending(turn, group.number, id)?.map(|pending| (id, pending)));
            }
            reply::array(parts.name("pending"), owned.len());
            for (id, pending) in owned {
                reply::array(parts.out, 3);
                reply_id(parts.out, id);
                reply_unsigned(parts.out, pending.delivered_ms);
                reply_unsigned(parts.out, pending.count);
            }
            if parts.out.len() - start > bytes_max {
                return Err(REPLY_TOO_LONG.into());
            }
        }
    }
    Ok(())
}
