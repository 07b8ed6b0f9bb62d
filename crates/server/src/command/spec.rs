//! What is known about each command: its row of `table.rs` without the function that executes it, and lookup by name.
//!
//! Handlers and counters use this. The functions are in `dispatch.rs`.

use super::call::{Args, Refusal};
use super::number::parse_integer;
use super::table::rows;

/// Properties of a command that COMMAND INFO reports, and properties that decide how it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

macro_rules! flags {
    ($($name:ident = $bit:literal $text:literal),* $(,)?) => {
        impl Flags {
            $(#[doc = concat!("`", $text, "`")] pub(crate) const $name: Flags = Flags(1 << $bit);)*
            /// The names of the flags that COMMAND INFO reports.
            pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
                let all = [$((Flags::$name, $text)),*];
                all.into_iter().filter(move |(flag, name)| self.has(*flag) && !name.is_empty()).map(|(_, name)| name)
            }
        }
    };
}

flags! {
    WRITE = 0 "write",
    READONLY = 1 "readonly",
    DENYOOM = 2 "denyoom",
    ADMIN = 3 "admin",
    PUBSUB = 4 "pubsub",
    NOSCRIPT = 5 "noscript",
    LOADING = 6 "loading",
    STALE = 7 "stale",
    FAST = 8 "fast",
    NO_AUTH = 9 "no_auth",
    NO_MULTI = 10 "no_multi",
    BLOCKING = 11 "blocking",
    // Flags for this server only: how the command is executed.
    WAITS = 16 "", // on a thread that may wait
    SUBSCRIBED = 17 "", // also where a RESP2 client has subscribed
    NOW = 18 "", // at once between MULTI and EXEC too, where others are queued
    RUN = 19 "", // requests of one key and no option in a row are one call of the table
    RUN_OF_KEYS = 20 "", // requests in a row are one call of the table; all arguments are keys
    RUN_OF_EDITS = 21 "", // requests of one key, with any options, in a row are one call of the table
}

impl Flags {
    /// No flags.
    pub(crate) const NONE: Flags = Flags(0);

    /// Whether all of `other` are set.
    pub(crate) const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// Which arguments are keys: the first, the last (negative: from the end), and the step; all 0 if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Index of the first key.
    pub(crate) first: i32,
    /// Index of the last one; negative: from the end; 0: the argument before the first key is their number.
    pub(crate) last: i32,
    /// Distance between keys.
    pub(crate) step: i32,
}

/// A command.
#[derive(Debug)]
pub(crate) struct Spec {
    /// Its identity, for dispatch and counters.
    pub(crate) id: Id,
    /// Its name, in lower case.
    pub(crate) name: &'static str,
    /// Number of arguments, the name included; a negative number is the minimum.
    pub(crate) arity: i32,
    /// Its properties.
    pub(crate) flags: Flags,
    /// Its keys.
    pub(crate) keys: Keys,
    /// Its group in the documentation.
    pub(crate) group: &'static str,
    /// The version of Redis that introduced it.
    pub(crate) since: &'static str,
    /// The syntax of its arguments.
    pub(crate) syntax: &'static str,
    /// What it does.
    pub(crate) summary: &'static str,
}

macro_rules! specs {
    ($($id:ident $name:literal $arity:literal [$($flag:ident)*] ($first:literal $last:literal $step:literal)
        $group:literal $since:literal $syntax:literal $summary:literal $class:ident($handler:expr);)*) => {
        /// Which command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(crate) enum Id { $($id),* }

        /// All commands, in the order of their groups.
        pub(crate) const COMMANDS: &[Spec] = &[$(Spec {
            id: Id::$id,
            name: $name,
            arity: $arity,
            flags: Flags(0)$(.with(Flags::$flag))*,
            keys: Keys { first: $first, last: $last, step: $step },
            group: $group,
            since: $since,
            syntax: $syntax,
            summary: $summary,
        }),*];
    };
}

rows!(specs);

// `Client::last_command` has the greatest number for none.
const _: () = assert!(COMMANDS.len() < u8::MAX as usize);

/// Subcommands, and the number of arguments of each as in [`Spec::arity`].
type Subcommands = &'static [(&'static str, i32)];

const SUBCOMMANDS: [(Id, Subcommands); 14] = [
    (
        Id::Acl,
        &[
            ("cat", -2),
            ("deluser", -3),
            ("dryrun", -4),
            ("genpass", -2),
            ("getuser", 3),
            ("help", 2),
            ("list", 2),
            ("load", 2),
            ("log", -2),
            ("save", 2),
            ("setuser", -3),
            ("users", 2),
            ("whoami", 2),
        ],
    ),
    (
        Id::Client,
        &[
            ("caching", 3),
            ("getname", 2),
            ("getredir", 2),
            ("help", 2),
            ("id", 2),
            ("info", 2),
            ("kill", -3),
            ("list", -2),
            ("no-evict", 3),
            ("no-touch", 3),
            ("pause", -3),
            ("reply", 3),
            ("setinfo", 4),
            ("setname", 3),
            ("tracking", -3),
            ("trackinginfo", 2),
            ("unblock", -3),
            ("unpause", 2),
        ],
    ),
    (
        Id::Command,
        &[
            ("count", 2),
            ("docs", -2),
            ("getkeys", -4),
            ("getkeysandflags", -4),
            ("help", 2),
            ("info", -2),
            ("list", -2),
        ],
    ),
    (Id::Config, &[("get", -3), ("help", 2), ("resetstat", 2), ("rewrite", 2), ("set", -4)]),
    (
        Id::Function,
        &[
            ("delete", 3),
            ("dump", 2),
            ("flush", -2),
            ("help", 2),
            ("kill", 2),
            ("list", -2),
            ("load", -3),
            ("restore", -3),
            ("stats", 2),
        ],
    ),
    (Id::Latency, &[("help", 2), ("histogram", -2), ("history", 3), ("latest", 2), ("reset", -2)]),
    (Id::Memory, &[("doctor", 2), ("help", 2), ("malloc-stats", 2), ("purge", 2), ("stats", 2), ("usage", -3)]),
    (Id::Module, &[("help", 2), ("list", 2), ("load", -3), ("loadex", -3), ("unload", 3)]),
    (Id::Object, &[("encoding", 3), ("freq", 3), ("help", 2), ("idletime", 3), ("refcount", 3)]),
    (
        Id::PubSub,
        &[("channels", -2), ("help", 2), ("numpat", 2), ("numsub", -2), ("shardchannels", -2), ("shardnumsub", -2)],
    ),
    (Id::Script, &[("exists", -3), ("flush", -2), ("help", 2), ("kill", 2), ("load", 3)]),
    (Id::SlowLog, &[("get", -2), ("help", 2), ("len", 2), ("reset", 2)]),
    (
        Id::XGroup,
        &[("create", -5), ("createconsumer", 5), ("delconsumer", 5), ("destroy", 4), ("help", 2), ("setid", -5)],
    ),
    (Id::XInfo, &[("consumers", 4), ("groups", 3), ("help", 2), ("stream", -3)]),
];

/// Whether `count` arguments, the names included, satisfy `arity`.
#[inline]
pub(crate) fn fits(arity: i32, count: usize) -> bool {
    let (count, arity) = (i64::try_from(count).unwrap_or(i64::MAX), i64::from(arity));
    if arity >= 0 { count == arity } else { count >= -arity }
}

impl Spec {
    /// Tips of COMMAND INFO: they tell cluster clients to send a command to all nodes and combine the replies.
    pub(crate) fn tips(&self) -> &'static [&'static str] {
        match self.id {
            Id::MGet => &["request_policy:multi_shard"],
            Id::MSet | Id::MSetEx => &["request_policy:multi_shard", "response_policy:all_succeeded"],
            Id::MSetNx => &["request_policy:multi_shard", "response_policy:agg_min"],
            Id::Del | Id::Unlink | Id::Exists | Id::Touch => &["request_policy:multi_shard", "response_policy:agg_sum"],
            Id::RandomKey => &["request_policy:all_shards", "nondeterministic_output"],
            Id::Keys => &["request_policy:all_shards", "nondeterministic_output_order"],
            Id::Scan => &["nondeterministic_output", "request_policy:special"],
            Id::Ping | Id::FlushDb | Id::FlushAll => &["request_policy:all_shards", "response_policy:all_succeeded"],
            Id::Info => &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
            Id::DbSize => &["request_policy:all_shards", "response_policy:agg_sum"],
            Id::Dump | Id::Ttl | Id::PTtl | Id::Time | Id::LastSave | Id::ZRandMember | Id::ZScan => {
                &["nondeterministic_output"]
            }
            Id::HTtl | Id::HPTtl => &["nondeterministic_output"],
            Id::XAdd | Id::XTrim | Id::XPending | Id::XClaim | Id::XAutoClaim => &["nondeterministic_output"],
            Id::Command => &["nondeterministic_output_order"],
            _ => &[],
        }
    }

    /// Whether a request of `count` arguments, the name included, has the right number.
    #[inline]
    pub(crate) fn accepts(&self, count: usize) -> bool {
        if self.id == Id::Append {
            return matches!(count, 3 | 5);
        }
        fits(self.arity, count)
    }

    /// Its subcommands, and the arity of each; none if it has no subcommands, or says nothing of them.
    #[inline]
    pub(crate) fn subcommands(&self) -> &'static [(&'static str, i32)] {
        SUBCOMMANDS.iter().find(|(id, _)| *id == self.id).map_or(&[], |(_, known)| known)
    }

    /// The subcommand that a request names, and its arity; `None` if the command has no subcommands or the request
    /// names none.
    ///
    /// # Errors
    /// Fails if the command has no such subcommand.
    #[inline]
    pub(crate) fn subcommand(&self, args: &Args<'_>) -> Result<Option<(&'static str, i32)>, Refusal> {
        let known = self.subcommands();
        if known.is_empty() {
            return Ok(None);
        }
        let Some(given) = args.get(1) else { return Ok(None) };
        let found = known.iter().find(|(name, _)| given.eq_ignore_ascii_case(name.as_bytes()));
        let container = args.at(0).to_ascii_uppercase();
        let hint = format!("'. Try {} HELP.", String::from_utf8_lossy(&container));
        let unknown = || Refusal::about("ERR unknown subcommand '", &given[..given.len().min(128)], &hint);
        found.copied().map(Some).ok_or_else(unknown)
    }

    /// The number of keys of a request of `count` arguments if it can share one call of the table with other requests;
    /// else `None`.
    #[inline]
    pub(crate) fn run_keys(&self, count: usize) -> Option<usize> {
        if self.flags.has(Flags::RUN_OF_KEYS) {
            return (count > 1).then(|| count - 1);
        }
        let is_plain = count == self.arity.unsigned_abs() as usize || self.id == Id::Append && count == 5;
        let is_edit = self.flags.has(Flags::RUN_OF_EDITS) && self.accepts(count);
        (self.flags.has(Flags::RUN) && is_plain || is_edit).then_some(1)
    }

    /// Whether a request's options or numbers say which arguments are keys.
    pub(crate) fn counts_keys(&self) -> bool {
        self.keys.first > 0 && self.keys.last == 0
            || self.counts_more_keys()
            || matches!(self.id, Id::Sort | Id::SortRo | Id::GeoRadius | Id::GeoRadiusByMember)
            || matches!(self.id, Id::XRead | Id::XReadGroup | Id::Migrate)
    }

    /// Whether a request with `count` keys has too few: it states an impossible number of keys. A script needs no key.
    pub(crate) fn lacks_keys(&self, count: usize) -> bool {
        use Id::{Eval, EvalRo, EvalSha, EvalShaRo, FCall, FCallRo};
        let is_script = matches!(self.id, Eval | EvalRo | EvalSha | EvalShaRo | FCall | FCallRo);
        self.counts_keys() && !is_script && count <= usize::from(self.counts_more_keys())
    }

    /// Whether the first argument is a key, and the second the number of keys that follow.
    fn counts_more_keys(&self) -> bool {
        matches!(self.id, Id::ZUnionStore | Id::ZInterStore | Id::ZDiffStore)
    }

    /// The keys of XREAD and XREADGROUP: the first half of the arguments after STREAMS, rounded down. The options
    /// before it come in any order, and their arguments may be the word STREAMS.
    fn keys_of_streams(args: &Args<'_>) -> Keys {
        let (mut at, mut first) = (1, 0);
        while at < args.len() {
            at += match () {
                () if args.is(at, "streams") => {
                    first = at + 1;
                    break;
                }
                () if args.is(at, "count") || args.is(at, "block") => 2,
                () if args.is(at, "group") => 3,
                () => 1,
            };
        }
        let count = if first == 0 { 0 } else { (args.len() - first) / 2 };
        let is_there = count > 0;
        let index = |index: usize| if is_there { i32::try_from(index).unwrap_or(0) } else { 0 };
        Keys { first: index(first), last: index(first + count - usize::from(is_there)), step: 1 }
    }

    /// The keys of MIGRATE: its third argument, or the arguments after KEYS.
    fn keys_of_migrate(&self, args: &Args<'_>) -> Keys {
        let mut at = 6;
        while at < args.len() && !args.is(at, "keys") {
            at += match () {
                () if args.is(at, "auth") => 2,
                () if args.is(at, "auth2") => 3,
                () => 1,
            };
        }
        let is_list = at + 1 < args.len() && args.at(3).is_empty();
        if is_list { Keys { first: i32::try_from(at + 1).unwrap_or(0), last: -1, step: 1 } } else { self.keys }
    }

    /// Indices of the keys in a request. None if it states an impossible number of keys.
    pub(crate) fn key_indices(&self, args: &Args<'_>) -> impl Iterator<Item = usize> + use<> {
        let (destination, target) = (self.counts_more_keys().then_some(1), self.stored_to(args));
        let Keys { first, last, step } = match self.id {
            _ if destination.is_some() => Keys { first: 3, last: 0, step: 1 },
            Id::XRead | Id::XReadGroup => Self::keys_of_streams(args),
            Id::Migrate => self.keys_of_migrate(args),
            _ => self.keys,
        };
        let (count, first) = (args.len() as i64, i64::from(first));
        let last = match last {
            0 => {
                let stated = args.get((first - 1).max(0) as usize).and_then(parse_integer);
                let last = stated.and_then(|keys| keys.checked_mul(step.into())?.checked_add(first - 1));
                last.filter(|last| *last < count).unwrap_or(0)
            }
            ..0 => count + i64::from(last),
            // OBJECT HELP has no key at the index where OBJECT ENCODING has one.
            _ => i64::from(last).min(count - 1),
        };
        let none = first == 0;
        let keys = (first..=last).step_by(step.max(1) as usize).filter(move |_| !none).map(|index| index as usize);
        destination.into_iter().chain(keys).chain(target)
    }

    /// The index of the key that the option STORE or STOREDIST names; the last one counts.
    fn stored_to(&self, args: &Args<'_>) -> Option<usize> {
        let first = match self.id {
            Id::Sort => 2,
            Id::GeoRadius => 6,
            Id::GeoRadiusByMember => 5,
            _ => return None,
        };
        let (mut target, mut at) = (None, first);
        while at + 1 < args.len() {
            let is_sort = self.id == Id::Sort;
            if args.is(at, "store") || !is_sort && args.is(at, "storedist") {
                target = Some(at + 1);
                at += 1;
            } else if is_sort {
                at += if args.is(at, "limit") { 2 } else { usize::from(args.is(at, "by") || args.is(at, "get")) };
            }
            at += 1;
        }
        target
    }
}

/// A hash table from names, ignoring case, to commands: open addressing, hashed by a product of the name's bytes.
pub(crate) struct Names {
    places: [u8; PLACES],
}

const PLACES: usize = 512;
const EMPTY: u8 = u8::MAX;

impl Names {
    /// The one table.
    pub(crate) fn get() -> &'static Names {
        static NAMES: std::sync::OnceLock<Names> = std::sync::OnceLock::new();
        NAMES.get_or_init(|| {
            let mut names = Names { places: [EMPTY; PLACES] };
            for (index, spec) in COMMANDS.iter().enumerate() {
                let mut place = place_of(spec.name.as_bytes());
                while names.places[place] != EMPTY {
                    place = (place + 1) % PLACES;
                }
                names.places[place] = u8::try_from(index).expect("fewer than 255 commands");
            }
            names
        })
    }

    /// The command with this name.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<&'static Spec> {
        let mut place = place_of(name);
        loop {
            let index = self.places[place];
            if index == EMPTY {
                return None;
            }
            let spec = &COMMANDS[usize::from(index)];
            if spec.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(spec);
            }
            place = (place + 1) % PLACES;
        }
    }
}

#[inline]
fn place_of(name: &[u8]) -> usize {
    // This lowers letters and may make other bytes equal; the comparison tells them apart.
    let mut sum = name.len() as u64;
    for &byte in name.iter().take(16) {
        sum = sum.wrapping_mul(31).wrapping_add(u64::from(byte | 0x20));
    }
    (sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::call::Span;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for spec in COMMANDS {
            assert_eq!(Names::get().find(spec.name.as_bytes()).unwrap().id, spec.id);
            assert_eq!(Names::get().find(spec.name.to_uppercase().as_bytes()).unwrap().id, spec.id);
        }
        assert!(Names::get().find(b"xnack").is_none());
        assert!(Names::get().find(b"").is_none());
        assert!(Names::get().find(&[b'x'; 4000]).is_none());
    }

    /// `SPLITPOINT_UPDATE=1 cargo test -p splitpoint-server the_list_in` writes it.
    #[test]
    fn the_list_in_the_documentation_is_this_table() {
        use std::fmt::Write;
        let mut list = String::new();
        let mut groups: Vec<&str> = COMMANDS.iter().map(|spec| spec.group).collect();
        groups.dedup();
        for group in groups {
            let _ = writeln!(list, "\n### {group}\n\n| command | what it does | since Redis |\n|---|---|---|");
            for spec in COMMANDS.iter().filter(|spec| spec.group == group) {
                let words = format!("{} {}", spec.name.to_uppercase(), spec.syntax).replace('|', "\\|");
                let since = if spec.since.starts_with("splitpoint") { "not in Redis" } else { spec.since };
                let _ = writeln!(list, "| `{}` | {} | {since} |", words.trim_end(), spec.summary);
            }
        }
        const BEGIN: &str = "<!-- commands: from crates/server/src/command/table.rs -->\n";
        const END: &str = "\n<!-- end of commands -->";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server-commands.md");
        let text = std::fs::read_to_string(path).unwrap();
        let begin = text.find(BEGIN).unwrap() + BEGIN.len();
        let end = text.find(END).unwrap();
        if std::env::var_os("SPLITPOINT_UPDATE").is_some() {
            std::fs::write(path, [&text[..begin], &list, &text[end..]].concat()).unwrap();
        } else {
            assert_eq!(&text[begin..end], list, "docs/server-commands.md is not of this table");
        }
    }

    #[test]
    fn the_commands_that_the_documentation_calls_absent_are_absent() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, list) = text.split_once("of Redis 7.2 are absent: ").unwrap();
        let (list, _) = list.split_once('.').unwrap();
        let names: Vec<&str> = list.split(',').map(str::trim).collect();
        assert!(names.len() > 5, "{names:?}");
        for name in names {
            assert!(Names::get().find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn numbers_in_the_table_are_their_places() {
        for (index, spec) in COMMANDS.iter().enumerate() {
            assert_eq!(spec.id as usize, index);
        }
    }

    #[test]
    fn keys_are_where_redis_has_them() {
        let keys = |request: &str| {
            let mut spans = Vec::new();
            for word in request.split(' ') {
                let start = word.as_ptr() as usize - request.as_ptr() as usize;
                spans.push(Span::of(start..start + word.len()));
            }
            let args = Args { request: request.as_bytes(), spans: &spans };
            Names::get().find(args.at(0)).unwrap().key_indices(&args).collect::<Vec<_>>()
        };
        assert_eq!(keys("mset a 1 b 2"), [1, 3]);
        assert_eq!(keys("del a b c"), [1, 2, 3]);
        assert_eq!(keys("rename a b"), [1, 2]);
        assert_eq!(keys("object encoding a"), [2]);
        assert_eq!(keys("object help"), [0usize; 0]);
        assert_eq!(keys("ping"), [0usize; 0]);
        assert_eq!(keys("blpop a b 0"), [1, 2]);
        assert_eq!(keys("blmpop 0 2 a b left count 3"), [3, 4]);
        assert_eq!(keys("lmpop 1 a left"), [2]);
        assert_eq!(keys("blmove a b left right 0"), [1, 2]);
        assert_eq!(keys("sintercard 2 a b limit 1"), [2, 3]);
        assert_eq!(keys("zunionstore d 2 a b weights 1 2"), [1, 3, 4]);
        assert_eq!(keys("zunionstore d 3 a b"), [1]);
        assert_eq!(keys("zmpop 2 a b min"), [2, 3]);
        assert_eq!(keys("bzmpop 0 1 a min"), [3]);
        assert_eq!(keys("msetex 2 a 1 b 2 nx"), [2, 4]);
        assert_eq!(keys("xread count 2 streams a b 0 0"), [4, 5]);
        assert_eq!(keys("xreadgroup group streams streams streams a >"), [5]);
        assert_eq!(keys("xreadgroup group g c block 0 streams a >"), [7]);
        assert_eq!(keys("xreadgroup count 2 group streams c streams a >"), [7]);
        assert_eq!(keys("xreadgroup noack block 0 group group streams streams a b > >"), [8, 9]);
        assert_eq!(keys("xread streams a b c"), [2]);
        assert_eq!(keys("migrate h 1 a 0 9 copy auth keys replace"), [3]);
        assert_eq!(keys("migrate h 1  0 9 auth2 keys keys copy keys a b"), [11, 12]);
        assert_eq!(keys("xgroup create a g 0"), [2]);
        assert_eq!(keys("sort a get store limit store 2 store b store c"), [1, 10]);
        assert_eq!(keys("sort a by nosort get store"), [1]);
        assert_eq!(keys("sort_ro a store b"), [1]);
        assert_eq!(keys("geosearchstore a b frommember c byradius 1 m"), [1, 2]);
        assert_eq!(keys("georadius a 1 2 3 m storedist b"), [1, 7]);
        assert_eq!(keys("georadiusbymember a store 3 m asc store b"), [1, 7]);
        for impossible in ["msetex 0 a 1", "msetex -1 a 1", "msetex 9223372036854775807 a 1", "msetex 4 a 1 b 2 nx"] {
            assert_eq!(keys(impossible), [0usize; 0]);
        }
    }
}
