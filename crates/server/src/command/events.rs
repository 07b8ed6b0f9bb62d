//! The keyspace events of each command, as Redis names them.

use super::call::Args;
use super::lists::Move;
use super::number::parse_integer;
use super::sorted_sets::Extreme;
use super::spec::Id;
use crate::blocked::Wanted;
use crate::keyspace::collections::list::End;
use crate::keyspace::{Change, Exclusive, Happened};
use crate::notices::{After, Events, Notices};

/// Reports what a command has changed: call it after the command, before the gate opens. `client`: who sent it.
#[inline]
pub(crate) fn report(notices: &Notices, alone: &mut Exclusive<'_>, id: Id, args: &Args<'_>, client: u64) {
    let changes = alone.take_changes();
    if !changes.is_empty() {
        report_changes(notices, alone, changes, id, args, client);
    }
}

/// Reports what was done for a client that waited at this key.
pub(crate) fn report_served(notices: &Notices, alone: &mut Exclusive<'_>, wanted: &Wanted, key: &[u8], client: u64) {
    let mut changes = alone.take_changes();
    if !changes.is_empty() {
        if matches!(wanted, Wanted::Moved { .. }) {
            put_destination_first(&mut changes, key);
        }
        notices.report(alone, &changes, Some(client), |change, after| {
            let event = match wanted {
                Wanted::One(end) | Wanted::Many(end, _) => popped_at(*end),
                Wanted::OneScored(Extreme::Min) | Wanted::ManyScored(Extreme::Min, _) => "zpopmin",
                Wanted::OneScored(Extreme::Max) | Wanted::ManyScored(Extreme::Max, _) => "zpopmax",
                Wanted::Entries(_) => return [None, None],
                Wanted::Moved { from, to, destination } => {
                    return events_of_move(Move { from: *from, to: *to }, key, destination, change, after);
                }
            };
            [Some(event), (!after.is_present).then_some("del")]
        });
    }
}

fn popped_at(end: End) -> &'static str {
    if end == End::Left { "lpop" } else { "rpop" }
}

/// Puts the changes of a moved element in the order of Redis: the destination before the source. Keys that expired come
/// before both.
fn put_destination_first(changes: &mut [Change], source: &[u8]) {
    changes.sort_by_key(|change| match change.what {
        Happened::Changed { .. } => (true, change.key == source),
        _ => (false, false),
    });
}

/// The events of a key that an element was moved from, to, or both.
fn events_of_move(ends: Move, source: &[u8], destination: &[u8], change: &Change, after: After) -> Events {
    let pushed = if ends.to == End::Left { "lpush" } else { "rpush" };
    match change.key == source {
        true if !after.is_present => [Some(popped_at(ends.from)), Some("del")],
        true => [(source == destination).then_some(pushed), Some(popped_at(ends.from))],
        false => [Some(pushed), None],
    }
}

/// Reports what a run of a command has changed, each change with this event.
#[inline]
pub(crate) fn report_run(notices: &Notices, alone: &mut Exclusive<'_>, event: &'static str, client: u64) {
    let changes = alone.take_changes();
    if !changes.is_empty() {
        notices.report(alone, &changes, Some(client), |_, _| [Some(event), None]);
    }
}

#[cold]
fn report_changes(
    notices: &Notices,
    alone: &mut Exclusive<'_>,
    mut changes: Vec<Change>,
    id: Id,
    args: &Args<'_>,
    client: u64,
) {
    // A command on one key may change it in several steps, but causes its events once.
    if !matches!(id, Id::MSet | Id::MSetNx | Id::MSetEx) {
        let is_changed = |change: &Change| matches!(change.what, Happened::Changed { .. });
        changes.dedup_by(|next, one| {
            (next.database, &next.key) == (one.database, &one.key) && is_changed(next) && is_changed(one)
        });
    }
    // These remove a value that they replace.
    if matches!(id, Id::Rename | Id::RenameNx | Id::Copy | Id::Move | Id::Restore) {
        for change in changes.iter_mut().filter(|change| matches!(change.what, Happened::Changed { .. })) {
            change.what = Happened::Changed { was_present: false };
        }
    }
    if id == Id::Move {
        changes.reverse(); // the copy was made first
    }
    if matches!(id, Id::LMove | Id::RPopLPush | Id::BLMove | Id::BRPopLPush) {
        put_destination_first(&mut changes, args.at(1));
    }
    notices.report(alone, &changes, Some(client), |change, after| events_of(id, args, change, after));
}

/// The event of a command that changes a collection.
fn event_of_collection(id: Id, args: &Args<'_>, change: &Change) -> Option<&'static str> {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    // The number of keys is the first argument, or the second of a command that waits.
    let is_after_keys = |name: &str| {
        let index = if matches!(id, Id::LMPop | Id::ZMPop) { 1 } else { 2 };
        let keys = args.get(index).and_then(parse_integer).and_then(|keys| usize::try_from(keys).ok());
        keys.is_some_and(|keys| args.is(keys.saturating_add(index + 1), name))
    };
    Some(match id {
        Id::SAdd => "sadd",
        Id::SRem => "srem",
        Id::SPop => "spop",
        Id::SMove => {
            if args.get(1) == Some(&change.key) {
                "srem"
            } else {
                "sadd"
            }
        }
        Id::LPush | Id::LPushX => "lpush",
        Id::RPush | Id::RPushX => "rpush",
        Id::LPop | Id::BLPop => "lpop",
        Id::RPop | Id::BRPop => "rpop",
        Id::LSet => "lset",
        Id::LRem => "lrem",
        Id::LTrim => "ltrim",
        Id::LInsert => "linsert",
        Id::LMPop | Id::BLMPop => {
            if is_after_keys("left") {
                "lpop"
            } else {
                "rpop"
            }
        }
        Id::HSet | Id::HMSet | Id::HSetNx => "hset",
        Id::HDel => "hdel",
        Id::HIncrBy => "hincrby",
        Id::HIncrByFloat => "hincrbyfloat",
        Id::GeoAdd => "zadd",
        Id::ZAdd => {
            let is_option = |word: &&[u8]| ["nx", "xx", "gt", "lt", "ch"].iter().any(|option| is(word, option));
            if args.from(2).find(|word| !is_option(word)).is_some_and(|word| is(word, "incr")) {
                "zincr"
            } else {
                "zadd"
            }
        }
        Id::ZIncrBy => "zincr",
        Id::ZRem => "zrem",
        Id::ZRemRangeByRank => "zremrangebyrank",
        Id::ZRemRangeByScore => "zremrangebyscore",
        Id::ZRemRangeByLex => "zremrangebylex",
        Id::ZPopMin | Id::BZPopMin => "zpopmin",
        Id::ZPopMax | Id::BZPopMax => "zpopmax",
        Id::ZMPop | Id::BZMPop => {
            if is_after_keys("min") {
                "zpopmin"
            } else {
                "zpopmax"
            }
        }
        _ => return None,
    })
}

/// Whether SET or MSETEX has the option KEEPTTL.
fn keeps_lifetime(id: Id, args: &Args<'_>) -> bool {
    let mut index = match id {
        Id::Set => 3,
        Id::MSetEx => {
            let keys = args.get(1).and_then(parse_integer).and_then(|keys| usize::try_from(keys).ok());
            keys.unwrap_or(usize::MAX).saturating_mul(2).saturating_add(2)
        }
        _ => return false,
    };
    while index < args.len() {
        if args.is(index, "keepttl") {
            return true;
        }
        // The word after these is a value.
        let is_comparison = args.is(index, "ifeq") || args.is(index, "ifne");
        index += 1 + usize::from(is_comparison);
    }
    false
}

fn events_of(id: Id, args: &Args<'_>, change: &Change, after: After) -> Events {
    let ends = match id {
        Id::RPopLPush | Id::BRPopLPush => Some(Move::RIGHT_TO_LEFT),
        Id::LMove | Id::BLMove => Move::parse(args, 3).ok(),
        _ => None,
    };
    if let Some(ends) = ends {
        return events_of_move(ends, args.at(1), args.at(2), change, after);
    }
    // Commands on streams and on lifetimes of fields name their events themselves.
    if matches!(id, Id::XAdd | Id::XTrim | Id::XDel | Id::XGroup)
        || matches!(id, Id::HExpire | Id::HPExpire | Id::HExpireAt | Id::HPExpireAt | Id::HPersist)
        || matches!(id, Id::HGetEx | Id::HSetEx | Id::HGetDel)
    {
        return [None, None];
    }
    let is_rename = matches!(id, Id::Rename | Id::RenameNx);
    if let Some(event) = event_of_collection(id, args, change) {
        return [Some(event), (!after.is_present).then_some("del")];
    }
    if !after.is_present {
        let event = match id {
            Id::Rename | Id::RenameNx => "rename_from",
            Id::Move => "move_from",
            _ => "del",
        };
        return [Some(event), None];
    }
    let event = match id {
        // Stores its estimate, which is not an event.
        Id::PfCount => return [None, None],
        Id::Set | Id::MSetEx | Id::SetEx | Id::PSetEx => {
            return [Some("set"), (after.expires && !keeps_lifetime(id, args)).then_some("expire")];
        }
        Id::Append => "append",
        Id::SetRange => "setrange",
        Id::Incr | Id::Decr | Id::IncrBy | Id::DecrBy => "incrby",
        Id::IncrByFloat => "incrbyfloat",
        Id::SetBit | Id::BitField => "setbit",
        Id::PfAdd | Id::PfMerge => "pfadd",
        Id::Expire | Id::PExpire | Id::ExpireAt | Id::PExpireAt => "expire",
        Id::GetEx => {
            if after.expires {
                "expire"
            } else {
                "persist"
            }
        }
        Id::Persist => "persist",
        Id::SInterStore => "sinterstore",
        Id::SUnionStore => "sunionstore",
        Id::SDiffStore => "sdiffstore",
        Id::ZRangeStore => "zrangestore",
        Id::ZUnionStore => "zunionstore",
        Id::ZInterStore => "zinterstore",
        Id::ZDiffStore => "zdiffstore",
        Id::GeoRadius | Id::GeoRadiusByMember => "georadiusstore",
        Id::GeoSearchStore => "geosearchstore",
        Id::Sort => "sortstore",
        Id::Copy => "copy_to",
        Id::Move => "move_to",
        Id::Restore => "restore",
        _ if is_rename && args.get(2) == Some(&change.key) => "rename_to",
        _ => "set",
    };
    [Some(event), None]
}
