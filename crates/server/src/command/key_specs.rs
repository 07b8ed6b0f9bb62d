//! Which arguments of a command are keys, and what it does with them: COMMAND INFO, GETKEYSANDFLAGS, rules of users.
//!
//! A command has one group of keys, or two: SMOVE takes from its first key and adds to its second. Which arguments are
//! keys is in `spec.rs`; what happens to them is here.

use super::call::Args;
use super::reply::{self, Version};
use super::spec::{Flags, Id, Keys, Spec};

/// What a command does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(u16);

const NAMES: [&str; 10] = ["RO", "RW", "OW", "RM", "access", "update", "insert", "delete", "not_key", "variable_flags"];

impl Access {
    const RO: Access = Access(1);
    const RW: Access = Access(1 << 1);
    const OW: Access = Access(1 << 2);
    const RM: Access = Access(1 << 3);
    const ACCESS: Access = Access(1 << 4);
    const UPDATE: Access = Access(1 << 5);
    const INSERT: Access = Access(1 << 6);
    const DELETE: Access = Access(1 << 7);
    const NOT_KEY: Access = Access(1 << 8);
    const VARIABLE: Access = Access(1 << 9);

    const fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    fn has(self, other: Access) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the user's data in the key is returned, copied or influences the reply.
    pub(crate) fn reads(self) -> bool {
        self.has(Access::ACCESS)
    }

    /// Whether the key's value may change.
    pub(crate) fn writes(self) -> bool {
        self.has(Access::UPDATE.and(Access::INSERT).and(Access::DELETE))
    }

    /// Whether it is a name of another kind, which clusters treat as a key.
    pub(crate) fn is_no_key(self) -> bool {
        self.has(Access::NOT_KEY)
    }

    /// The names of the flags.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(index, _)| self.0 >> index & 1 == 1).map(|(_, name)| name)
    }
}

const READ: Access = Access::RO.and(Access::ACCESS);
const STORE: Access = Access::OW.and(Access::UPDATE);
const POP: Access = Access::RW.and(Access::ACCESS).and(Access::DELETE);
const EDIT: Access = Access::RW.and(Access::ACCESS).and(Access::UPDATE);
const INSERT: Access = Access::RW.and(Access::INSERT);

/// What the command does with its first key, or with all.
fn first(spec: &Spec) -> Access {
    match spec.id {
        Id::StrLen | Id::HExists | Id::SCard | Id::SIsMember | Id::HStrLen | Id::HLen | Id::LLen | Id::XLen => {
            Access::RO
        }
        Id::Type | Id::ZCard | Id::Exists | Id::Touch | Id::Watch | Id::Object | Id::Memory => Access::RO,
        Id::Copy | Id::Sort | Id::GeoRadius | Id::GeoRadiusByMember | Id::EvalRo | Id::EvalShaRo | Id::FCallRo => READ,
        Id::Incr | Id::Decr | Id::IncrBy | Id::DecrBy | Id::IncrByFloat | Id::HIncrBy | Id::HIncrByFloat => EDIT,
        Id::SetBit
        | Id::ZIncrBy
        | Id::GetSet
        | Id::Move
        | Id::GetEx
        | Id::HGetEx
        | Id::Eval
        | Id::EvalSha
        | Id::FCall => EDIT,
        Id::BitField | Id::Set => EDIT.and(Access::VARIABLE),
        Id::ZRem
        | Id::LTrim
        | Id::ZRemRangeByRank
        | Id::ZRemRangeByLex
        | Id::ZRemRangeByScore
        | Id::XTrim
        | Id::LRem
        | Id::XDel
        | Id::XAutoClaim
        | Id::SRem
        | Id::HDel => Access::RW.and(Access::DELETE),
        Id::HSetNx
        | Id::LPush
        | Id::Append
        | Id::RPushX
        | Id::LInsert
        | Id::LPushX
        | Id::SAdd
        | Id::RPush
        | Id::PfAdd => INSERT,
        Id::ZPopMax
        | Id::ZPopMin
        | Id::RPop
        | Id::SPop
        | Id::GetDel
        | Id::HGetDel
        | Id::LPop
        | Id::SMove
        | Id::LMove
        | Id::RPopLPush
        | Id::BLMove
        | Id::BRPopLPush
        | Id::BRPop
        | Id::BZPopMin
        | Id::BZPopMax
        | Id::BLPop
        | Id::BLMPop
        | Id::BZMPop
        | Id::ZMPop
        | Id::LMPop
        | Id::RenameNx
        | Id::Rename
        | Id::DelEx => POP,
        Id::Restore
        | Id::SetEx
        | Id::PSetEx
        | Id::ZUnionStore
        | Id::ZInterStore
        | Id::ZDiffStore
        | Id::SDiffStore
        | Id::SUnionStore
        | Id::GeoSearchStore
        | Id::ZRangeStore
        | Id::BitOp
        | Id::MSet
        | Id::MSetEx => STORE,
        Id::SetNx | Id::MSetNx => Access::OW.and(Access::INSERT),
        Id::Del | Id::Unlink => Access::RM.and(Access::DELETE),
        Id::Migrate => POP,
        Id::PfMerge => Access::RW.and(Access::ACCESS).and(Access::INSERT),
        Id::PfCount => Access::RW.and(Access::ACCESS),
        Id::SSubscribe | Id::SUnsubscribe | Id::SPublish => Access::NOT_KEY,
        Id::XRead | Id::XReadGroup => READ,
        _ if spec.flags.has(Flags::READONLY) => READ,
        _ => Access::RW.and(Access::UPDATE),
    }
}

/// What it does with the keys after the first one, if that is something else.
fn others(id: Id) -> Option<Access> {
    Some(match id {
        Id::SMove | Id::LMove | Id::RPopLPush | Id::BLMove | Id::BRPopLPush => INSERT,
        Id::ZUnionStore
        | Id::ZInterStore
        | Id::ZDiffStore
        | Id::SDiffStore
        | Id::SUnionStore
        | Id::SInterStore
        | Id::GeoSearchStore
        | Id::ZRangeStore
        | Id::BitOp
        | Id::PfMerge => READ,
        Id::RenameNx => Access::OW.and(Access::INSERT),
        Id::Rename | Id::Copy | Id::Sort | Id::GeoRadius | Id::GeoRadiusByMember => STORE,
        _ => return None,
    })
}

/// What the command does with the key that is number `ordinal` of [`Spec::key_indices`].
pub(crate) fn access(spec: &Spec, ordinal: usize) -> Access {
    others(spec.id).filter(|_| ordinal > 0).unwrap_or_else(|| first(spec))
}

/// [`access`] of a request: what SET and BITFIELD do depends on their options.
pub(crate) fn access_of(spec: &Spec, args: &Args<'_>, ordinal: usize) -> Access {
    let is_option = |word: &str| (3..args.len()).any(|index| args.is(index, word));
    match spec.id {
        Id::Set => {
            if is_option("get") {
                EDIT
            } else {
                STORE
            }
        }
        Id::BitField if !["set", "incrby"].iter().any(|word| args.is(2, word) || is_option(word)) => READ,
        Id::BitField => EDIT,
        Id::XGroup if args.is(1, "create") || args.is(1, "createconsumer") => INSERT,
        Id::XGroup if args.is(1, "destroy") || args.is(1, "delconsumer") => Access::RW.and(Access::DELETE),
        _ => access(spec, ordinal),
    }
}

/// Where a group of keys begins.
enum Begin {
    Index(i32),
    /// After this word, searched from this argument on.
    Keyword(&'static str, i32),
    Unknown,
}

/// Which arguments from there on are keys.
enum Find {
    /// The last index, from the first key or, if negative, from the end; the step; n: 1/n of these, 0: all.
    Range(i32, i32, i32),
    /// The argument where the group begins is the number of keys, which follow it with this step.
    Number(i32),
    Unknown,
}

/// The groups of keys.
fn groups(spec: &Spec) -> Vec<(Access, Begin, Find)> {
    let Keys { first: index, last, step } = spec.keys;
    let (of_first, of_others) = (first(spec), others(spec.id));
    match spec.id {
        Id::XRead => return vec![(READ, Begin::Keyword("STREAMS", 1), Find::Range(-1, 1, 2))],
        Id::XReadGroup => return vec![(READ, Begin::Keyword("STREAMS", 4), Find::Range(-1, 1, 2))],
        Id::Migrate => {
            let one = (POP, Begin::Index(index), Find::Range(0, 1, 0));
            return vec![one, (POP, Begin::Keyword("KEYS", -2), Find::Range(-1, 1, 0))];
        }
        _ if index == 0 => return Vec::new(),
        _ => {}
    }
    let one = || (of_first, Begin::Index(index), Find::Range(0, 1, 0));
    let Some(of_others) = of_others else {
        let find = match last {
            0 => Find::Number(step),
            ..0 => Find::Range(last, step, 0),
            _ => Find::Range(last - index, step, 0),
        };
        return vec![(of_first, Begin::Index(if last == 0 { index - 1 } else { index }), find)];
    };
    let second = |begin, find| (of_others, begin, find);
    match spec.id {
        Id::Sort => vec![one(), (READ, Begin::Unknown, Find::Unknown), second(Begin::Unknown, Find::Unknown)],
        Id::GeoRadius | Id::GeoRadiusByMember => {
            let from = if spec.id == Id::GeoRadius { 6 } else { 5 };
            let named = |word| second(Begin::Keyword(word, from), Find::Range(0, 1, 0));
            vec![one(), named("STORE"), named("STOREDIST")]
        }
        Id::ZUnionStore | Id::ZInterStore | Id::ZDiffStore => vec![one(), second(Begin::Index(2), Find::Number(1))],
        _ => vec![one(), second(Begin::Index(index + 1), Find::Range(if last < 0 { -1 } else { 0 }, 1, 0))],
    }
}

/// Writes the groups of keys as COMMAND INFO reports them.
pub(super) fn describe(spec: &Spec, out: &mut Vec<u8>, version: Version) {
    let mut groups = groups(spec);
    if spec.id == Id::SortRo {
        groups.push((READ, Begin::Unknown, Find::Unknown));
    }
    reply::array(out, groups.len());
    for (access, begin, find) in groups {
        reply::map(out, 3, version);
        reply::bulk(out, b"flags");
        let names: Vec<&str> = access.names().collect();
        reply::set(out, names.len(), version);
        names.iter().for_each(|name| reply::simple(out, name));
        reply::bulk(out, b"begin_search");
        match begin {
            Begin::Index(index) => typed(out, version, "index", &[("index", Value::Number(index))]),
            Begin::Keyword(word, from) => {
                let fields = [("keyword", Value::Text(word)), ("startfrom", Value::Number(from))];
                typed(out, version, "keyword", &fields);
            }
            Begin::Unknown => typed(out, version, "unknown", &[]),
        }
        reply::bulk(out, b"find_keys");
        match find {
            Find::Range(last, step, limit) => {
                let fields = [("lastkey", last), ("keystep", step), ("limit", limit)];
                typed(out, version, "range", &fields.map(|(name, number)| (name, Value::Number(number))));
            }
            Find::Number(step) => {
                let fields = [("keynumidx", 0), ("firstkey", 1), ("keystep", step)];
                typed(out, version, "keynum", &fields.map(|(name, number)| (name, Value::Number(number))));
            }
            Find::Unknown => typed(out, version, "unknown", &[]),
        }
    }
}

#[derive(Clone, Copy)]
enum Value {
    Number(i32),
    Text(&'static str),
}

fn typed(out: &mut Vec<u8>, version: Version, kind: &str, fields: &[(&str, Value)]) {
    reply::map(out, 2, version);
    reply::bulk(out, b"type");
    reply::bulk(out, kind.as_bytes());
    reply::bulk(out, b"spec");
    reply::map(out, fields.len(), version);
    for (name, value) in fields {
        reply::bulk(out, name.as_bytes());
        match value {
            Value::Number(number) => reply::integer(out, (*number).into()),
            Value::Text(text) => reply::bulk(out, text.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::spec::{COMMANDS, Names};

    fn names(command: &str, ordinal: usize) -> Vec<&'static str> {
        access(Names::get().find(command.as_bytes()).unwrap(), ordinal).names().collect()
    }

    #[test]
    fn what_a_command_does_with_its_keys_is_as_in_redis() {
        assert_eq!(names("get", 0), ["RO", "access"]);
        assert_eq!(names("strlen", 0), ["RO"]);
        assert_eq!((names("sort", 0), names("sort", 1)), (vec!["RO", "access"], vec!["OW", "update"]));
        assert_eq!((names("lmove", 0), names("lmove", 1)), (vec!["RW", "access", "delete"], vec!["RW", "insert"]));
        assert_eq!((names("zunionstore", 0), names("zunionstore", 2)), (vec!["OW", "update"], vec!["RO", "access"]));
        assert_eq!(names("del", 3), ["RM", "delete"]);
    }

    #[test]
    fn every_command_that_writes_keys_says_so() {
        for spec in COMMANDS.iter().filter(|spec| spec.keys.first > 0 && !spec.flags.has(Flags::PUBSUB)) {
            let writes = (0..2).any(|ordinal| access(spec, ordinal).writes());
            // PFCOUNT stores its estimate, XREADGROUP changes only the group, and scripts do what they say.
            let is_other = matches!(spec.id, Id::PfCount | Id::XReadGroup | Id::Eval | Id::EvalSha | Id::FCall);
            assert!(is_other || writes == spec.flags.has(Flags::WRITE), "{}", spec.name);
        }
    }
}
