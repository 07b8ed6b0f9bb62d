//! Redis's categories of commands (`@read`, `@dangerous`, ...), for COMMAND, ACL CAT and the rules of users.
//!
//! A command's categories follow from its group and its flags in `table.rs`, but for a few exceptions. A subcommand has
//! categories of its own: CONFIG SET is dangerous, CONFIG HELP is not.
//!
//! ```text
//! Unit = a command without subcommands, or a subcommand, or the rest of a command that has some
//! ```

use super::spec::{COMMANDS, Flags, Id, Names, Spec};
use std::sync::OnceLock;

/// The names, in the order of Redis; the index is the bit in [`Categories`].
pub(crate) const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Categories(u32);

impl Categories {
    fn of(names: &[&str]) -> Categories {
        Categories(names.iter().filter_map(|name| index_of(name)).fold(0, |bits, index| bits | 1 << index))
    }

    fn with(self, names: &[&str]) -> Categories {
        Categories(self.0 | Categories::of(names).0)
    }

    /// Whether the set contains the category with this index.
    pub(crate) fn has(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    /// Their names.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(index, _)| self.has(*index)).map(|(_, name)| name)
    }
}

/// The index of a category in [`NAMES`].
pub(crate) fn index_of(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))
}

/// What a rule allows or denies: a command, or one of its subcommands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub(crate) spec: &'static Spec,
    /// With its arity.
    pub(crate) subcommand: Option<(&'static str, i32)>,
}

impl Unit {
    /// `get`, `config|set`
    pub(crate) fn name(&self) -> String {
        match self.subcommand {
            Some((subcommand, _)) => format!("{}|{subcommand}", self.spec.name),
            None => self.spec.name.to_owned(),
        }
    }

    /// Its index in [`units`].
    pub(crate) fn index(&self) -> usize {
        unit_index(self.spec, self.subcommand.map(|(name, _)| name))
    }

    /// Whether it is a command that has subcommands.
    fn is_container(&self) -> bool {
        self.subcommand.is_none() && !self.spec.subcommands().is_empty()
    }

    /// The flags that COMMAND INFO reports.
    pub(crate) fn flags(&self) -> Flags {
        let of_command = self.spec.flags;
        let Some((subcommand, _)) = self.subcommand else {
            return match self.spec.id {
                // The whole command without a subcommand.
                Id::Command => of_command,
                _ if self.is_container() => Flags::NONE,
                _ => of_command,
            };
        };
        let is_of = |names: &[&str]| names.contains(&subcommand);
        if subcommand == "help" {
            return Flags::LOADING.with(Flags::STALE);
        }
        match self.spec.id {
            Id::Acl if is_of(&["cat", "genpass", "whoami"]) => of_command.without(Flags::ADMIN),
            Id::Client if is_of(&["kill", "list", "no-evict", "pause", "unpause", "unblock"]) => {
                of_command.with(Flags::ADMIN)
            }
            Id::Function if is_of(&["load", "restore"]) => of_command.with(Flags::WRITE).with(Flags::DENYOOM),
            Id::Function if is_of(&["delete", "flush"]) => of_command.with(Flags::WRITE),
            Id::Memory if subcommand != "usage" => of_command.without(Flags::READONLY),
            Id::Script if subcommand == "load" => of_command.with(Flags::STALE),
            Id::XGroup if is_of(&["destroy", "delconsumer", "setid"]) => of_command.without(Flags::DENYOOM),
            _ => of_command,
        }
    }

    /// Its categories.
    pub(crate) fn categories(&self) -> Categories {
        let (spec, flags) = (self.spec, self.flags());
        let group = match spec.group {
            // Not of the groups that COMMAND DOCS reports.
            _ if self.is_container() && spec.id != Id::Command => "",
            "sorted-set" => "sortedset",
            "generic" => "keyspace",
            "transactions" => "transaction",
            "pubsub" if self.subcommand.is_some_and(|(subcommand, _)| subcommand == "help") => "",
            group => group,
        };
        let group = match spec.id {
            Id::Wait | Id::ReadOnly | Id::ReadWrite | Id::Asking | Id::Command => "connection",
            Id::DbSize | Id::FlushDb | Id::FlushAll | Id::SwapDb => "keyspace",
            Id::Sort | Id::SortRo => "list",
            _ => group,
        };
        let mut found = Categories::of(&[group]);
        for (flag, names) in [
            (Flags::WRITE, &["write"][..]),
            (Flags::ADMIN, &["admin", "dangerous"]),
            (Flags::PUBSUB, &["pubsub"]),
            (Flags::BLOCKING, &["blocking"]),
        ] {
            if flags.has(flag) {
                found = found.with(names);
            }
        }
        if flags.has(Flags::READONLY) && spec.group != "scripting" {
            found = found.with(&["read"]);
        }
        found = found.with(if flags.has(Flags::FAST) { &["fast"] } else { &["slow"] });
        match spec.id {
            Id::Keys | Id::Restore | Id::Migrate | Id::Info | Id::FlushDb | Id::FlushAll | Id::SwapDb => {
                found.with(&["dangerous"])
            }
            Id::LastSave | Id::Role => found.with(&["admin", "dangerous"]),
            Id::Sort | Id::SortRo => found.with(&["set", "sortedset", "dangerous"]),
            _ => found,
        }
    }
}

/// All units: the commands in the order of [`COMMANDS`], then the subcommands.
pub(crate) fn units() -> &'static [Unit] {
    static UNITS: OnceLock<Vec<Unit>> = OnceLock::new();
    UNITS.get_or_init(|| {
        let commands = COMMANDS.iter().map(|spec| Unit { spec, subcommand: None });
        let subcommands = COMMANDS.iter().flat_map(|spec| {
            spec.subcommands().iter().map(move |&subcommand| Unit { spec, subcommand: Some(subcommand) })
        });
        commands.chain(subcommands).collect()
    })
}

/// The index in [`units`] of a command, or of one of its subcommands.
pub(crate) fn unit_index(spec: &Spec, subcommand: Option<&str>) -> usize {
    let Some(subcommand) = subcommand else { return spec.id as usize };
    let of_spec = units()[COMMANDS.len()..].iter().position(|unit| {
        unit.spec.id == spec.id && unit.subcommand.is_some_and(|(name, _)| name.eq_ignore_ascii_case(subcommand))
    });
    of_spec.map_or(spec.id as usize, |index| COMMANDS.len() + index)
}

/// The unit with this name: `get`, `config|set`.
pub(crate) fn find_unit(name: &[u8]) -> Option<Unit> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let spec = Names::get().find(parts.next()?)?;
    let Some(subcommand) = parts.next() else { return Some(Unit { spec, subcommand: None }) };
    let found = spec.subcommands().iter().find(|(name, _)| subcommand.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(Unit { spec, subcommand: Some(*found) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn categories(name: &str) -> Vec<&'static str> {
        find_unit(name.as_bytes()).unwrap().categories().names().collect()
    }

    #[test]
    fn categories_are_those_of_redis() {
        assert_eq!(categories("get"), ["read", "string", "fast"]);
        assert_eq!(categories("sort"), ["write", "set", "sortedset", "list", "slow", "dangerous"]);
        assert_eq!(categories("config"), ["slow"]);
        assert_eq!(categories("config|set"), ["admin", "slow", "dangerous"]);
        assert_eq!(categories("config|help"), ["slow"]);
        assert_eq!(categories("client|id"), ["slow", "connection"]);
        assert_eq!(categories("client|kill"), ["admin", "slow", "dangerous", "connection"]);
        assert_eq!(categories("bzpopmin"), ["write", "sortedset", "fast", "blocking"]);
        assert_eq!(categories("keys"), ["keyspace", "read", "slow", "dangerous"]);
        assert_eq!(categories("flushall"), ["keyspace", "write", "slow", "dangerous"]);
        assert_eq!(categories("eval_ro"), ["slow", "scripting"]);
        assert_eq!(categories("memory|usage"), ["read", "slow"]);
    }

    #[test]
    fn every_unit_is_found_by_its_name_and_index() {
        for (index, unit) in units().iter().enumerate() {
            let found = find_unit(unit.name().to_uppercase().as_bytes()).unwrap();
            assert_eq!(found.name(), unit.name());
            assert_eq!(found.index(), index);
        }
        assert!(find_unit(b"config|nothing").is_none());
    }
}
