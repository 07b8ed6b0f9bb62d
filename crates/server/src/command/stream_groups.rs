//! Consumer groups of streams: XGROUP, and the commands on pending entries.

use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::collection::Collection;
use super::number::parse_integer;
use super::reply;
use super::stream_reads::{events_of_new, see_consumer};
use super::streams::{
    about_two, any_id, ids_from, interval_end, interval_start, open, open_mut, reply_id, reply_known_entry,
    reply_unsigned, strict_id,
};
use super::strings::integer;
use crate::keyspace::Exclusive;
use crate::keyspace::collections::stream::{Consumer, EntryId, Group, Pending, Stream, StreamMut};
use std::collections::HashMap;

/// Pending entries that are read together.
const AT_ONCE: usize = 100;

const HELP: [&str; 14] = [
    "CREATE <key> <groupname> <id|$> [option]",
    "    Creates a group that starts after an ID. Options:",
    "    * MKSTREAM",
    "      Creates the stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Sets the number of entries that the group counts as read.",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Creates a consumer in a group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Removes a consumer and its pending entries.",
    "DESTROY <key> <groupname>",
    "    Removes a group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Sets the last ID delivered to a group.",
];

/// The refusal of a group that is absent, or whose key is.
fn no_group(args: &Args<'_>) -> Refusal {
    about_two("NOGROUP No such key '", args.at(1), "' or consumer group '", args.at(2), "'")
}

/// The refusal of a group that is absent: the arguments after the subcommand are the key and the group.
pub(super) fn no_group_at(args: &Args<'_>) -> Refusal {
    about_two("NOGROUP No such consumer group '", args.at(3), "' for key name '", args.at(2), "'")
}

/// Parses an ID, or the last one for `$`.
fn id_or_last(text: &[u8], last: EntryId, is_strict: bool) -> Result<EntryId, Refusal> {
    match text {
        b"$" => Ok(last),
        _ if is_strict => strict_id(text, 0),
        _ => any_id(text, 0),
    }
}

/// XGROUP subcommand key group ...
pub(crate) fn xgroup(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    if args.is(1, "help") && args.len() == 2 {
        reply::help(call.out, "XGROUP", &HELP);
        return Ok(());
    }
    let unknown = || Refusal::unknown_subcommand(&args, "XGROUP");
    if args.len() < 4 {
        return Err(unknown());
    }
    let (makes_stream, read) = group_options(&args)?;
    let mut stream = open_mut(alone, call, 2)?;
    if !stream.is_present() && !makes_stream {
        return Err("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
                    the MKSTREAM option to create an empty stream automatically."
            .into());
    }
    let (now, pairs) = stream.read()?;
    let group = now.group(pairs, args.at(3))?;
    let found = || group.ok_or_else(|| no_group_at(&args));
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"create", 5..=8) => create_group(stream, call, group, read),
        (b"setid", 5 | 7) => set_group_id(stream, call, found()?, read),
        (b"destroy", 4) => {
            if destroy_group(stream, call, group)? {
                alone.note_wanted(call.database, args.at(2));
            }
            Ok(())
        }
        (b"createconsumer", 5) => create_consumer(stream, call, found()?.number),
        (b"delconsumer", 5) => delete_consumer(stream, call, found()?.number),
        _ => Err(unknown()),
    }
}

/// Parses the options of XGROUP CREATE and SETID: whether to make the stream, and the entries read.
fn group_options(args: &Args<'_>) -> Result<(bool, Option<i64>), Refusal> {
    let (is_create, is_set_id) = (args.is(1, "create"), args.is(1, "setid"));
    let (mut makes_stream, mut read, mut index) = (false, None, 5);
    while index < args.len() {
        if is_create && args.is(index, "mkstream") {
            makes_stream = true;
            index += 1;
        } else if (is_create || is_set_id) && args.is(index, "entriesread") && index + 1 < args.len() {
            read = match integer(args.at(index + 1))? {
                -1 => None,
                count @ 0.. => Some(count),
                _ => return Err("ERR value for ENTRIESREAD must be positive or -1".into()),
            };
            index += 2;
        } else {
            return Err(Refusal::unknown_subcommand(args, "XGROUP"));
        }
    }
    Ok((makes_stream, read))
}

/// XGROUP CREATE key group id \[MKSTREAM\] [ENTRIESREAD count]
fn create_group(
    mut stream: StreamMut<'_, '_>,
    call: &mut Call<'_, '_>,
    group: Option<Group>,
    read: Option<i64>,
) -> Outcome {
    let id = id_or_last(call.args.at(4), stream.last(), true)?;
    if group.is_some() {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    let is_new = !stream.is_present();
    stream.add_group(call.args.at(3), id, read)?;
    stream.finish(is_new, &["xgroup-create"])?;
    reply::ok(call.out);
    Ok(())
}

/// XGROUP SETID key group id [ENTRIESREAD count]
fn set_group_id(mut stream: StreamMut<'_, '_>, call: &mut Call<'_, '_>, group: Group, read: Option<i64>) -> Outcome {
    let last = id_or_last(call.args.at(4), stream.last(), false)?;
    stream.set_group(call.args.at(3), group, Group { last, read, ..group })?;
    stream.finish(false, &["xgroup-setid"])?;
    reply::ok(call.out);
    Ok(())
}

/// XGROUP DESTROY key group. Returns whether the group was present.
fn destroy_group(
    mut stream: StreamMut<'_, '_>,
    call: &mut Call<'_, '_>,
    group: Option<Group>,
) -> Result<bool, Refusal> {
    if let Some(group) = group {
        stream.remove_group(call.args.at(3), group.number)?;
        stream.finish(false, &["xgroup-destroy"])?;
    }
    reply::integer(call.out, group.is_some().into());
    Ok(group.is_some())
}

/// XGROUP CREATECONSUMER key group consumer
fn create_consumer(mut stream: StreamMut<'_, '_>, call: &mut Call<'_, '_>, group: u64) -> Outcome {
    let name = call.args.at(4);
    let (now, pairs) = stream.read()?;
    let consumer = now.consumer(pairs, group, name)?;
    if consumer.is_none() {
        stream.add_consumer(group, name, stream.now_ms())?;
        stream.finish(false, events_of_new(true))?;
    }
    reply::integer(call.out, consumer.is_none().into());
    Ok(())
}

/// XGROUP DELCONSUMER key group consumer
fn delete_consumer(mut stream: StreamMut<'_, '_>, call: &mut Call<'_, '_>, group: u64) -> Outcome {
    let name = call.args.at(4);
    let (now, pairs) = stream.read()?;
    let mut pending = 0;
    if let Some(consumer) = now.consumer(pairs, group, name)? {
        pending = now.owned_count(pairs, group, consumer.number)?;
        stream.remove_consumer(group, name, consumer.number)?;
        stream.finish(false, &["xgroup-delconsumer"])?;
    }
    reply::count(call.out, pending);
    Ok(())
}

/// XACK key group id ...
pub(crate) fn xack<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let stream = collection.stream(call)?;
    let (now, pairs) = stream.read()?;
    let Some(group) = now.group(pairs, call.args.at(2))? else {
        reply::integer(call.out, 0);
        return Ok(());
    };
    let mut acknowledged = 0;
    for id in ids_from(&call.args, 3)? {
        acknowledged += u64::from(stream.remove_pending(group.number, id)?);
    }
    if acknowledged > 0 {
        stream.note_change(false, &[]);
    }
    reply::count(call.out, acknowledged);
    Ok(())
}

/// XPENDING key group [[IDLE min-idle] start end count \[consumer\]]
pub(crate) fn xpending(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    if args.len() == 3 {
        return pending_summary(turn, call);
    }
    if !(6..=9).contains(&args.len()) {
        return Err(SYNTAX.into());
    }
    let (mut idle_ms, mut at) = (0, 3);
    if args.is(3, "idle") {
        idle_ms = integer(args.at(4))?;
        if args.len() < 8 {
            return Err(SYNTAX.into());
        }
        at = 5;
    }
    let mut left = u64::try_from(integer(args.at(at + 2))?).unwrap_or(0);
    let (start, end) = (interval_start(args.at(at))?, interval_end(args.at(at + 1))?);
    let name = args.get(at + 3);
    let now_ms = turn.now_ms();
    let stream = open(turn, call, 1)?.ok_or_else(|| no_group(&args))?;
    let group = stream.group(turn, args.at(2))?.ok_or_else(|| no_group(&args))?.number;
    let owner = match name {
        None => None,
        Some(name) => match stream.consumer(turn, group, name)? {
            None => {
                reply::array(call.out, 0);
                return Ok(());
            }
            found => found,
        },
    };
    let names = names_of(match owner {
        Some(owner) => vec![(name.unwrap_or_default().to_vec(), owner)],
        None if left == 0 => Vec::new(),
        None => stream.consumers(turn, group)?,
    });
    let (mut found, mut count, mut from) = (Vec::new(), 0, Some(start));
    while let Some(next) = from.filter(|next| left > 0 && *next <= end) {
        let some = pending_from(&stream, turn, group, owner, next)?;
        for (id, pending) in &some {
            if *id > end || left == 0 {
                break;
            }
            if idle_of(pending, now_ms) < idle_ms {
                continue;
            }
            left -= 1;
            count += 1;
            reply::array(&mut found, 4);
            reply_id(&mut found, *id);
            reply::bulk(&mut found, names.get(&pending.consumer).map_or(b"", Vec::as_slice));
            reply::integer(&mut found, idle_of(pending, now_ms));
            reply_unsigned(&mut found, pending.count);
        }
        if found.len() > call.reply_bytes_max {
            return Err(REPLY_TOO_LONG.into());
        }
        from = some.last().and_then(|(id, _)| id.next());
    }
    reply::array(call.out, count);
    call.out.append(&mut found);
    Ok(())
}

/// Reads some pending entries from an ID on: of one consumer, or of all.
fn pending_from(
    stream: &Stream,
    turn: &mut Turn<'_, '_>,
    group: u64,
    owner: Option<Consumer>,
    from: EntryId,
) -> Result<Vec<(EntryId, Pending)>, Refusal> {
    let Some(owner) = owner else { return Ok(stream.pending_from(turn, group, from, AT_ONCE)?) };
    let mut some = Vec::new();
    for id in stream.owned_from(turn, (group, owner.number), from, AT_ONCE)? {
        some.extend(stream.pending(turn, group, id)?.map(|pending| (id, pending)));
    }
    Ok(some)
}

/// How long ago an entry was delivered; 0 if that time is in the future, since the clock may have been set back.
fn idle_of(pending: &Pending, now_ms: u64) -> i64 {
    (now_ms as i64).saturating_sub(pending.delivered_ms as i64).max(0) // a time that is too large is far away
}

/// The names of consumers by their numbers.
pub(super) fn names_of(consumers: Vec<(Vec<u8>, Consumer)>) -> HashMap<u64, Vec<u8>> {
    consumers.into_iter().map(|(name, consumer)| (consumer.number, name)).collect()
}

/// XPENDING key group
fn pending_summary(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let stream = open(turn, call, 1)?.ok_or_else(|| no_group(&args))?;
    let group = stream.group(turn, args.at(2))?.ok_or_else(|| no_group(&args))?.number;
    let first = stream.pending_from(turn, group, EntryId::MIN, 1)?;
    reply::array(call.out, 4);
    reply::count(call.out, stream.pending_count(turn, group)?);
    let (Some((first, _)), Some(last)) = (first.first(), stream.pending_last(turn, group)?) else {
        reply::null(call.out, call.version);
        reply::null(call.out, call.version);
        reply::null_array(call.out, call.version);
        return Ok(());
    };
    reply_id(call.out, *first);
    reply_id(call.out, last);
    let mut owners = Vec::new();
    for (name, consumer) in stream.consumers(turn, group)? {
        let owned = stream.owned_count(turn, group, consumer.number)?;
        if owned > 0 {
            owners.push((name, owned));
        }
    }
    reply::array(call.out, owners.len());
    for (name, owned) in owners {
        reply::array(call.out, 2);
        reply::bulk(call.out, &name);
        reply::bulk(call.out, owned.to_string().as_bytes());
    }
    Ok(())
}

/// The transfer of pending entries to a consumer.
struct Claim<'a> {
    group: u64,
    name: &'a [u8],
    /// Made or seen once there is an entry for it.
    consumer: Option<Consumer>,
    is_new: bool,
    idle_ms: i64,
    now_ms: u64,
    delivered_ms: u64,
    /// The delivery count that an entry gets; `None`: one more than before.
    count: Option<u64>,
    just_ids: bool,
    /// The entries claimed, as replies, and their number.
    found: Vec<u8>,
    claimed: usize,
    changed: bool,
}

impl<'a> Claim<'a> {
    fn new(group: u64, name: &'a [u8], idle_ms: i64, now_ms: u64) -> Claim<'a> {
        Claim {
            group,
            name,
            consumer: None,
            is_new: false,
            idle_ms,
            now_ms,
            delivered_ms: now_ms,
            count: None,
            just_ids: false,
            found: Vec::new(),
            claimed: 0,
            changed: false,
        }
    }

    /// Removes a pending entry if it is no longer in the stream. Returns whether it is gone.
    fn clear(&mut self, stream: &mut StreamMut<'_, '_>, id: EntryId) -> Result<bool, Refusal> {
        let (now, pairs) = stream.read()?;
        if now.contains(pairs, id)? {
            return Ok(false);
        }
        self.changed |= stream.remove_pending(self.group, id)?;
        Ok(true)
    }

    /// Claims an entry that is in the stream and was pending as `before`, if it was idle for long enough. `None`: it
    /// was not pending. Returns whether it did.
    fn take(&mut self, stream: &mut StreamMut<'_, '_>, id: EntryId, before: Option<Pending>) -> Result<bool, Refusal> {
        if before.is_some_and(|before| idle_of(&before, self.now_ms) < self.idle_ms) {
            return Ok(false);
        }
        let consumer = match self.consumer {
            Some(consumer) => consumer,
            None => {
                let (consumer, is_new) = see_consumer(stream, self.group, self.name, self.now_ms)?;
                self.is_new = is_new;
                *self.consumer.insert(consumer)
            }
        };
        let delivered = before.map_or(1, |before| before.count);
        let count = self.count.unwrap_or(delivered.wrapping_add(u64::from(!self.just_ids)));
        let after = Pending { consumer: consumer.number, delivered_ms: self.delivered_ms, count };
        stream.set_pending(self.group, id, before, after)?;
        self.changed = true;
        self.claimed += 1;
        if self.just_ids {
            reply_id(&mut self.found, id);
        } else {
            let (now, pairs) = stream.read()?;
            reply_known_entry(&mut self.found, now, pairs, id)?;
        }
        Ok(true)
    }

    /// Stores what was claimed, in memory even if the reply is too long.
    fn finish(&self, stream: StreamMut<'_, '_>, bytes_max: usize) -> Outcome {
        if self.changed {
            stream.finish(false, events_of_new(self.is_new))?;
        }
        if self.found.len() > bytes_max { Err(REPLY_TOO_LONG.into()) } else { Ok(()) }
    }
}

/// XCLAIM key group consumer min-idle id ... [IDLE ms] [TIME ms] [RETRYCOUNT count] \[FORCE\] \[JUSTID\] [LASTID id]
pub(crate) fn xclaim(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let now_ms = alone.now_ms();
    let mut stream = open_mut(alone, call, 1)?;
    let (now, pairs) = stream.read()?;
    let group = now.group(pairs, args.at(2))?.ok_or_else(|| no_group(&args))?;
    let number = |text: &[u8], what: &str| {
        parse_integer(text).ok_or_else(|| Refusal::from(format!("ERR Invalid {what} argument for XCLAIM")))
    };
    let idle_ms = number(args.at(4), "min-idle-time")?.max(0);
    let mut claim = Claim::new(group.number, args.at(3), idle_ms, now_ms);
    let ids: Vec<EntryId> = args.from(5).map_while(|text| strict_id(text, 0).ok()).collect();
    let (mut force, mut last, mut delivered_ms) = (false, EntryId::MIN, None);
    let mut index = 5 + ids.len();
    while index < args.len() {
        let more = args.len() - 1 - index > 0;
        if args.is(index, "force") {
            force = true;
        } else if args.is(index, "justid") {
            claim.just_ids = true;
        } else if args.is(index, "idle") && more {
            index += 1;
            let idle = number(args.at(index), "IDLE option")?;
            delivered_ms = Some((now_ms as i64).wrapping_sub(idle)); // the clock is below 2^63
        } else if args.is(index, "time") && more {
            index += 1;
            delivered_ms = Some(number(args.at(index), "TIME option")?);
        } else if args.is(index, "retrycount") && more {
            index += 1;
            claim.count = u64::try_from(number(args.at(index), "RETRYCOUNT option")?).ok();
        } else if args.is(index, "lastid") && more {
            index += 1;
            last = strict_id(args.at(index), 0)?;
        } else {
            return Err(Refusal::about("ERR Unrecognized XCLAIM option '", args.at(index), "'"));
        }
        index += 1;
    }
    // An impossible time counts as now.
    let delivered_ms = delivered_ms.and_then(|ms| u64::try_from(ms).ok());
    claim.delivered_ms = delivered_ms.filter(|ms| *ms <= now_ms).unwrap_or(now_ms);
    if last > group.last {
        stream.set_group(args.at(2), group, Group { last, ..group })?;
        claim.changed = true;
    }
    for id in ids {
        if claim.clear(&mut stream, id)? {
            continue;
        }
        let (now, pairs) = stream.read()?;
        let before = now.pending(pairs, group.number, id)?;
        if before.is_some() || force {
            claim.take(&mut stream, id, before)?;
        }
        if claim.found.len() > call.reply_bytes_max {
            break;
        }
    }
    claim.finish(stream, call.reply_bytes_max)?;
    reply::array(call.out, claim.claimed);
    call.out.append(&mut claim.found);
    Ok(())
}

/// XAUTOCLAIM key group consumer min-idle start [COUNT count] \[JUSTID\]
pub(crate) fn xautoclaim(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    const ATTEMPTS_PER_ENTRY: u64 = 10;
    const COUNT_MAX: i64 = i64::MAX / 16;
    let args = call.args;
    let idle_ms = parse_integer(args.at(4)).ok_or("ERR Invalid min-idle-time argument for XAUTOCLAIM")?.max(0);
    let start = interval_start(args.at(5))?;
    let (mut count, mut just_ids, mut index) = (100, false, 6);
    while index < args.len() {
        if args.is(index, "count") && index + 1 < args.len() {
            index += 1;
            let given = parse_integer(args.at(index)).filter(|count| (1..=COUNT_MAX).contains(count));
            count = given.ok_or("ERR COUNT must be > 0")? as u64; // at least 1
        } else if args.is(index, "justid") {
            just_ids = true;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let now_ms = alone.now_ms();
    let mut stream = open_mut(alone, call, 1)?;
    let (now, pairs) = stream.read()?;
    let group = now.group(pairs, args.at(2))?.ok_or_else(|| no_group(&args))?.number;
    let mut claim = Claim::new(group, args.at(3), idle_ms, now_ms);
    claim.just_ids = just_ids;
    let (mut attempts, mut deleted, mut from) = (count * ATTEMPTS_PER_ENTRY, Vec::new(), Some(start));
    // The first entry that was not looked at.
    let mut end = EntryId::MIN;
    'all: while let Some(next) = from {
        let (now, pairs) = stream.read()?;
        let some = now.pending_from(pairs, group, next, AT_ONCE)?;
        from = some.last().and_then(|(id, _)| id.next());
        for (id, before) in some {
            if attempts == 0 || count == 0 {
                end = id;
                break 'all;
            }
            attempts -= 1;
            if claim.clear(&mut stream, id)? {
                deleted.push(id);
                count -= 1;
            } else if claim.take(&mut stream, id, Some(before))? {
                count -= 1;
            }
            if claim.found.len() > call.reply_bytes_max {
                break 'all;
            }
        }
    }
    claim.finish(stream, call.reply_bytes_max)?;
    reply::array(call.out, 3);
    reply_id(call.out, end);
    reply::array(call.out, claim.claimed);
    call.out.append(&mut claim.found);
    reply::array(call.out, deleted.len());
    deleted.into_iter().for_each(|id| reply_id(call.out, id));
    Ok(())
}
