//! The table of all commands. A command is one row: name, arity, flags, keys, documentation, and the function that
//! executes it, whose type shows what it needs.
//!
//! The table drives lookup, the check of the number of arguments, dispatch, batching, COMMAND (COUNT, DOCS, INFO,
//! LIST, GETKEYS), and the list in docs/server.md, which a test compares with it.
//!
//! To add a command, add a row here and its function in the file of its group.

use super::call::{Args, Call, Outcome, Refusal, Turn};
use super::{bits, client, cluster, config, connection, dump, introspect, keys, lifetime, pubsub, stats, strings};
use crate::keyspace::{Exclusive, KeySpace};
use crate::resp::session::RespSession;

/// Properties of a command that COMMAND INFO reports, and properties that decide how it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

macro_rules! flags {
    ($($name:ident = $bit:literal $text:literal),* $(,)?) => {
        impl Flags {
            $(#[doc = concat!("`", $text, "`")] pub const $name: Flags = Flags(1 << $bit);)*
            /// The names of the flags that COMMAND INFO reports.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
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
    // Flags for this server only: how the command is executed.
    WAITS = 16 "", // on a thread that may wait
    SUBSCRIBED = 17 "", // also where a RESP2 client has subscribed
    NOW = 18 "", // at once between MULTI and EXEC too, where others are queued
    RUN = 19 "", // requests of one key and no option in a row are one call of the table
    RUN_OF_KEYS = 20 "", // requests in a row are one call of the table; all arguments are keys
}

impl Flags {
    /// Whether all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Which arguments are keys: the first, the last (negative: from the end), and the step; all 0 if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Index of the first key.
    pub first: i32,
    /// Index of the last one; negative: from the end.
    pub last: i32,
    /// Distance between keys.
    pub step: i32,
}

/// A command.
#[derive(Debug)]
pub struct Spec {
    /// Its identity, for dispatch and counters.
    pub id: Id,
    /// Its name, in lower case.
    pub name: &'static str,
    /// Number of arguments, the name included; a negative number is the minimum.
    pub arity: i32,
    /// Its properties.
    pub flags: Flags,
    /// Its keys.
    pub keys: Keys,
    /// Its group in the documentation.
    pub group: &'static str,
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// The syntax of its arguments.
    pub syntax: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// The function that executes it.
    pub handler: Handler,
}

/// Keys that the current transaction has added (`true`) or removed (`false`).
pub type StagedKeys = [(Vec<u8>, bool)];

/// The function that executes a command, by what it needs.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// The session and the server.
    Session(fn(&mut RespSession, Args<'_>, &mut Vec<u8>) -> Outcome),
    /// The tables, without the gate, and the keys that the current transaction has added or removed.
    Scan(fn(&KeySpace, &mut Call<'_, '_>, &StagedKeys) -> Outcome),
    /// The key space, shared with other threads.
    Lookup(fn(&mut Turn<'_, '_>, &mut Call<'_, '_>) -> Outcome),
    /// The key space, exclusive.
    Change(fn(&mut Exclusive<'_>, &mut Call<'_, '_>) -> Outcome),
    /// The session, and the key space, exclusive.
    Transaction(fn(&mut RespSession, &mut Exclusive<'_>, Args<'_>, &mut Vec<u8>) -> Outcome),
}

macro_rules! commands {
    ($($id:ident $name:literal $arity:literal [$($flag:ident)*] ($first:literal $last:literal $step:literal)
        $group:literal $since:literal $syntax:literal $summary:literal $class:ident($handler:expr);)*) => {
        /// Which command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "each has a summary in the table")]
        pub enum Id { $($id),* }

        /// All commands, in the order of their groups.
        pub const COMMANDS: &[Spec] = &[$(Spec {
            id: Id::$id,
            name: $name,
            arity: $arity,
            flags: Flags(0)$(.with(Flags::$flag))*,
            keys: Keys { first: $first, last: $last, step: $step },
            group: $group,
            since: $since,
            syntax: $syntax,
            summary: $summary,
            handler: Handler::$class($handler),
        }),*];
    };
}

commands! {
    Get "get" 2 [READONLY FAST RUN] (1 1 1) "string" "1.0.0" "key" "The value of a key."
        Lookup(strings::get);
    Set "set" -3 [WRITE DENYOOM RUN] (1 1 1) "string" "1.0.0"
        "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | KEEPTTL]"
        "Stores a value, on conditions, with a lifetime."
        Change(strings::set);
    SetNx "setnx" 3 [WRITE DENYOOM FAST] (1 1 1) "string" "1.0.0" "key value" "Stores a value if the key is absent."
        Change(strings::setnx);
    SetEx "setex" 4 [WRITE DENYOOM] (1 1 1) "string" "2.0.0" "key seconds value"
        "Stores a value with a lifetime in seconds."
        Change(|alone, call| strings::setex(alone, call, 1000));
    PSetEx "psetex" 4 [WRITE DENYOOM] (1 1 1) "string" "2.6.0" "key milliseconds value"
        "Stores a value with a lifetime in milliseconds."
        Change(|alone, call| strings::setex(alone, call, 1));
    GetSet "getset" 3 [WRITE DENYOOM FAST] (1 1 1) "string" "1.0.0" "key value"
        "Stores a value and returns the earlier one."
        Change(strings::getset);
    GetEx "getex" -2 [WRITE FAST] (1 1 1) "string" "6.2.0"
        "key [EX seconds | PX milliseconds | EXAT unix-time | PXAT unix-time-ms | PERSIST]"
        "The value of a key, and changes its lifetime."
        Change(strings::getex);
    GetDel "getdel" 2 [WRITE FAST] (1 1 1) "string" "6.2.0" "key" "The value of a key, and removes it."
        Change(strings::getdel);
    MGet "mget" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "string" "1.0.0" "key [key ...]" "The values of several keys."
        Lookup(strings::mget);
    MSet "mset" -3 [WRITE DENYOOM] (1 -1 2) "string" "1.0.1" "key value [key value ...]"
        "Stores several values as one change."
        Change(|alone, call| strings::mset(alone, call, false));
    MSetNx "msetnx" -3 [WRITE DENYOOM] (1 -1 2) "string" "1.0.1" "key value [key value ...]"
        "Stores several values as one change if all keys are absent."
        Change(|alone, call| strings::mset(alone, call, true));
    Append "append" -3 [WRITE DENYOOM FAST RUN] (1 1 1) "string" "2.0.0" "key value [MAXLEN bytes]"
        "Appends to a value, unless it would be longer; an absent key begins empty."
        Change(strings::append);
    StrLen "strlen" 2 [READONLY FAST RUN] (1 1 1) "string" "2.2.0" "key" "The length of a value."
        Lookup(strings::strlen);
    GetRange "getrange" 4 [READONLY] (1 1 1) "string" "2.4.0" "key start end" "A part of a value."
        Lookup(strings::getrange);
    SubStr "substr" 4 [READONLY] (1 1 1) "string" "1.0.0" "key start end"
        "A part of a value: the old name of GETRANGE."
        Lookup(strings::getrange);
    SetRange "setrange" 4 [WRITE DENYOOM] (1 1 1) "string" "2.2.0" "key offset value"
        "Overwrites a part of a value, after zeros where it is shorter."
        Change(strings::setrange);
    Incr "incr" 2 [WRITE DENYOOM FAST] (1 1 1) "string" "1.0.0" "key" "Adds one to a number."
        Change(|alone, call| strings::incr_by(alone, call, 1));
    Decr "decr" 2 [WRITE DENYOOM FAST] (1 1 1) "string" "1.0.0" "key" "Subtracts one from a number."
        Change(|alone, call| strings::incr_by(alone, call, -1));
    IncrBy "incrby" 3 [WRITE DENYOOM FAST] (1 1 1) "string" "1.0.0" "key increment" "Adds to a number."
        Change(strings::incr_by_argument);
    DecrBy "decrby" 3 [WRITE DENYOOM FAST] (1 1 1) "string" "1.0.0" "key decrement" "Subtracts from a number."
        Change(strings::decr_by);
    IncrByFloat "incrbyfloat" 3 [WRITE DENYOOM FAST] (1 1 1) "string" "2.6.0" "key increment"
        "Adds to a decimal number."
        Change(strings::incr_by_float);
    Lcs "lcs" -3 [READONLY] (1 2 1) "string" "7.0.0" "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]"
        "The longest common subsequence of two values."
        Lookup(bits::lcs);

    SetBit "setbit" 4 [WRITE DENYOOM] (1 1 1) "bitmap" "2.2.0" "key offset value"
        "Sets or clears a bit; returns the earlier one."
        Change(bits::setbit);
    GetBit "getbit" 3 [READONLY FAST] (1 1 1) "bitmap" "2.2.0" "key offset" "A bit of a value."
        Lookup(bits::getbit);
    BitCount "bitcount" -2 [READONLY] (1 1 1) "bitmap" "2.6.0" "key [start end [BYTE | BIT]]" "How many bits are set."
        Lookup(bits::bitcount);
    BitPos "bitpos" -3 [READONLY] (1 1 1) "bitmap" "2.8.7" "key bit [start [end [BYTE | BIT]]]"
        "Where the first bit is that is set, or clear."
        Lookup(bits::bitpos);
    BitOp "bitop" -4 [WRITE DENYOOM] (2 -1 1) "bitmap" "2.6.0" "AND | OR | XOR | NOT destination key [key ...]"
        "Stores the result of an operation on the bits of values."
        Change(bits::bitop);
    BitField "bitfield" -2 [WRITE DENYOOM] (1 1 1) "bitmap" "3.2.0"
        "key [GET type offset | [OVERFLOW WRAP | SAT | FAIL] SET type offset value | INCRBY type offset increment ...]"
        "Reads and changes numbers of any number of bits."
        Change(bits::bitfield);
    BitFieldRo "bitfield_ro" -2 [READONLY FAST] (1 1 1) "bitmap" "6.0.0" "key [GET type offset ...]"
        "Reads numbers of any number of bits."
        Lookup(bits::bitfield_ro);

    Del "del" -2 [WRITE RUN] (1 -1 1) "generic" "1.0.0" "key [key ...]" "Removes keys."
        Change(keys::del);
    Unlink "unlink" -2 [WRITE FAST RUN] (1 -1 1) "generic" "4.0.0" "key [key ...]" "Removes keys; the same as DEL here."
        Change(keys::del);
    Exists "exists" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "generic" "1.0.0" "key [key ...]"
        "How many of the keys are present."
        Lookup(keys::exists);
    Type "type" 2 [READONLY FAST] (1 1 1) "generic" "1.0.0" "key" "The type of a value: string, or none."
        Lookup(keys::type_of);
    Touch "touch" -2 [READONLY FAST RUN_OF_KEYS] (1 -1 1) "generic" "3.2.1" "key [key ...]"
        "How many of the keys are present; they count as used."
        Lookup(keys::exists);
    Copy "copy" -3 [WRITE DENYOOM] (1 2 1) "generic" "6.2.0" "source destination [DB database] [REPLACE]"
        "Copies a value and its lifetime to another key."
        Change(keys::copy);
    Rename "rename" 3 [WRITE] (1 2 1) "generic" "1.0.0" "key newkey" "Gives a key another name."
        Change(|alone, call| keys::rename(alone, call, false));
    RenameNx "renamenx" 3 [WRITE FAST] (1 2 1) "generic" "1.0.0" "key newkey"
        "Gives a key another name if no key has it."
        Change(|alone, call| keys::rename(alone, call, true));
    RandomKey "randomkey" 1 [READONLY] (0 0 0) "generic" "1.0.0" "" "A key at random."
        Scan(|space, call, _| keys::random_key(space, call));
    Keys "keys" 2 [READONLY WAITS] (0 0 0) "generic" "1.0.0" "pattern" "All keys that match a pattern."
        Scan(keys::keys);
    Scan "scan" -2 [READONLY] (0 0 0) "generic" "2.8.0" "cursor [MATCH pattern] [COUNT count] [TYPE type]"
        "Some keys, and where to go on."
        Scan(|space, call, _| keys::scan(space, call));
    Dump "dump" 2 [READONLY] (1 1 1) "generic" "2.6.0" "key" "A value in the form that RESTORE takes."
        Lookup(dump::dump);
    Restore "restore" -4 [WRITE DENYOOM] (1 1 1) "generic" "2.6.0"
        "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]" "Stores what DUMP returned."
        Change(dump::restore);
    Object "object" -2 [READONLY] (2 2 1) "generic" "2.2.3" "ENCODING | REFCOUNT | IDLETIME | FREQ | HELP [key]"
        "How Redis would store a value."
        Lookup(keys::object);
    Wait "wait" 3 [] (0 0 0) "generic" "3.0.0" "numreplicas timeout" "Waits for replicas, of which there are none."
        Session(introspect::wait);
    Expire "expire" -3 [WRITE FAST] (1 1 1) "generic" "1.0.0" "key seconds [NX | XX | GT | LT]"
        "Sets a lifetime in seconds."
        Change(|alone, call| lifetime::expire(alone, call, lifetime::SECONDS, "expire"));
    PExpire "pexpire" -3 [WRITE FAST] (1 1 1) "generic" "2.6.0" "key milliseconds [NX | XX | GT | LT]"
        "Sets a lifetime in milliseconds."
        Change(|alone, call| lifetime::expire(alone, call, lifetime::MILLISECONDS, "pexpire"));
    ExpireAt "expireat" -3 [WRITE FAST] (1 1 1) "generic" "1.2.0" "key unix-time [NX | XX | GT | LT]"
        "Sets when a key expires, in seconds."
        Change(|alone, call| lifetime::expire(alone, call, lifetime::UNIX_SECONDS, "expireat"));
    PExpireAt "pexpireat" -3 [WRITE FAST] (1 1 1) "generic" "2.6.0" "key unix-time-ms [NX | XX | GT | LT]"
        "Sets when a key expires, in milliseconds."
        Change(|alone, call| lifetime::expire(alone, call, lifetime::UNIX_MILLISECONDS, "pexpireat"));
    Ttl "ttl" 2 [READONLY FAST] (1 1 1) "generic" "1.0.0" "key" "Seconds until a key expires."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::SECONDS));
    PTtl "pttl" 2 [READONLY FAST] (1 1 1) "generic" "2.6.0" "key" "Milliseconds until a key expires."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::MILLISECONDS));
    ExpireTime "expiretime" 2 [READONLY FAST] (1 1 1) "generic" "7.0.0" "key" "When a key expires, in seconds."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::UNIX_SECONDS));
    PExpireTime "pexpiretime" 2 [READONLY FAST] (1 1 1) "generic" "7.0.0" "key" "When a key expires, in milliseconds."
        Lookup(|turn, call| lifetime::ttl(turn, call, lifetime::UNIX_MILLISECONDS));
    Persist "persist" 2 [WRITE FAST] (1 1 1) "generic" "2.2.0" "key" "Removes a lifetime."
        Change(lifetime::persist);

    Multi "multi" 1 [NOSCRIPT LOADING STALE FAST NOW] (0 0 0) "transactions" "1.2.0" "" "Begins a transaction."
        Session(connection::multi);
    Exec "exec" 1 [NOSCRIPT LOADING STALE NOW] (0 0 0) "transactions" "1.2.0" "" "Executes a transaction as one change."
        Transaction(RespSession::exec);
    Discard "discard" 1 [NOSCRIPT LOADING STALE FAST NOW] (0 0 0) "transactions" "2.0.0" "" "Forgets a transaction."
        Session(connection::discard);
    Watch "watch" -2 [NOSCRIPT LOADING STALE FAST NOW] (1 -1 1) "transactions" "2.2.0" "key [key ...]"
        "Makes the next transaction fail if one of the keys changes first."
        Transaction(RespSession::watch);
    Unwatch "unwatch" 1 [NOSCRIPT LOADING STALE FAST] (0 0 0) "transactions" "2.2.0" "" "Forgets what is watched."
        Transaction(RespSession::unwatch);

    Auth "auth" -2 [NOSCRIPT LOADING STALE FAST NO_AUTH] (0 0 0) "connection" "1.0.0" "[username] password"
        "Authenticates the connection."
        Session(connection::auth);
    Hello "hello" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH] (0 0 0) "connection" "6.0.0"
        "[protover [AUTH username password] [SETNAME clientname]]" "Chooses RESP2 or RESP3."
        Session(connection::hello);
    Ping "ping" -1 [FAST SUBSCRIBED] (0 0 0) "connection" "1.0.0" "[message]" "Answers PONG, or the message."
        Session(connection::ping);
    Echo "echo" 2 [FAST] (0 0 0) "connection" "1.0.0" "message" "Answers the message."
        Session(connection::echo);
    Select "select" 2 [LOADING STALE FAST] (0 0 0) "connection" "1.0.0" "index" "Chooses a database."
        Session(connection::select);
    Quit "quit" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH SUBSCRIBED NOW] (0 0 0) "connection" "1.0.0" ""
        "Closes the connection."
        Session(connection::quit);
    Reset "reset" 1 [NOSCRIPT LOADING STALE FAST NO_AUTH SUBSCRIBED NOW] (0 0 0) "connection" "6.2.0" ""
        "Makes the connection as it was in the beginning."
        Session(connection::reset);
    Client "client" -2 [NOSCRIPT LOADING STALE] (0 0 0) "connection" "2.4.0"
        "ID | SETNAME | GETNAME | SETINFO | INFO | LIST | KILL | REPLY | NO-EVICT | NO-TOUCH | PAUSE | UNPAUSE | \
         UNBLOCK [...]"
        "Asks about connections, names and ends them."
        Session(client::client);

    Subscribe "subscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "channel [channel ...]" "Receives what is published on channels."
        Session(|session, args, out| pubsub::subscribe(session, args, out, false));
    Unsubscribe "unsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "[channel ...]" "Ends subscriptions."
        Session(|session, args, out| pubsub::unsubscribe(session, args, out, false));
    PSubscribe "psubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "pattern [pattern ...]" "Receives what is published on channels that match."
        Session(|session, args, out| pubsub::subscribe(session, args, out, true));
    PUnsubscribe "punsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE SUBSCRIBED] (0 0 0) "pubsub" "2.0.0"
        "[pattern ...]" "Ends subscriptions to patterns."
        Session(|session, args, out| pubsub::unsubscribe(session, args, out, true));
    Publish "publish" 3 [PUBSUB LOADING STALE FAST] (0 0 0) "pubsub" "2.0.0" "channel message"
        "Sends a message to those who subscribed."
        Session(pubsub::publish);
    PubSub "pubsub" -2 [PUBSUB LOADING STALE] (0 0 0) "pubsub" "2.8.0" "CHANNELS | NUMSUB | NUMPAT | HELP [...]"
        "Asks about subscriptions."
        Session(pubsub::ask);

    Cluster "cluster" -2 [LOADING STALE] (0 0 0) "cluster" "3.0.0"
        "SLOTS | SHARDS | NODES | INFO | MYID | KEYSLOT | COUNTKEYSINSLOT | REPLICAS | HELP [...]"
        "Which node has which slots; with --dict."
        Session(cluster::cluster);
    ReadOnly "readonly" 1 [LOADING STALE FAST] (0 0 0) "cluster" "3.0.0" ""
        "Allows reads of a replica, which are always allowed here."
        Session(cluster::accept);
    ReadWrite "readwrite" 1 [LOADING STALE FAST] (0 0 0) "cluster" "3.0.0" "" "Ends READONLY; changes nothing here."
        Session(cluster::accept);
    Asking "asking" 1 [FAST] (0 0 0) "cluster" "3.0.0" "" "Accepted after an ASK, which this server never answers."
        Session(cluster::accept);

    Command "command" -1 [LOADING STALE] (0 0 0) "server" "2.8.13" "[COUNT | DOCS | INFO | LIST | GETKEYS | HELP ...]"
        "Asks about commands."
        Session(introspect::command);
    Info "info" -1 [LOADING STALE] (0 0 0) "server" "1.0.0" "[section ...]" "Figures about the server."
        Session(introspect::info);
    Config "config" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "2.0.0" "GET | SET | RESETSTAT | HELP [...]"
        "Reads and changes options."
        Session(config::config);
    DbSize "dbsize" 1 [READONLY FAST] (0 0 0) "server" "1.0.0" "" "The number of keys in the database."
        Scan(|space, call, _| keys::db_size(space, call));
    Time "time" 1 [LOADING STALE FAST] (0 0 0) "server" "2.6.0" "" "The server's clock."
        Session(introspect::time);
    FlushDb "flushdb" -1 [WRITE WAITS] (0 0 0) "server" "1.0.0" "[ASYNC | SYNC]" "Removes all keys of the database."
        Change(|alone, call| keys::flush(alone, call, false));
    FlushAll "flushall" -1 [WRITE WAITS] (0 0 0) "server" "1.0.0" "[ASYNC | SYNC]" "Removes all keys of all databases."
        Change(|alone, call| keys::flush(alone, call, true));
    Debug "debug" -2 [ADMIN NOSCRIPT LOADING STALE NO_MULTI] (0 0 0) "server" "1.0.0" "SLEEP seconds | HELP"
        "Lets this connection wait."
        Session(introspect::debug);
    Save "save" 1 [ADMIN NOSCRIPT NO_MULTI WAITS] (0 0 0) "server" "1.0.0" ""
        "Makes a checkpoint of the file and waits for it."
        Session(introspect::save);
    BgSave "bgsave" -1 [ADMIN NOSCRIPT] (0 0 0) "server" "1.0.0" "[SCHEDULE]" "Begins a checkpoint of the file."
        Session(introspect::begin_save);
    LastSave "lastsave" 1 [LOADING STALE FAST] (0 0 0) "server" "1.0.0" "" "When the last checkpoint was complete."
        Session(introspect::last_save);
    Shutdown "shutdown" -1 [ADMIN NOSCRIPT LOADING STALE NO_MULTI] (0 0 0) "server" "1.0.0"
        "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]" "Ends the server."
        Session(introspect::shutdown);
    SlowLog "slowlog" -2 [ADMIN LOADING STALE] (0 0 0) "server" "2.2.12" "GET [count] | LEN | RESET | HELP"
        "The slowest requests of late."
        Session(introspect::slow_log);
    Latency "latency" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "2.8.13"
        "HISTOGRAM [command ...] | RESET | LATEST | HELP" "How long commands took."
        Session(introspect::latency);
    Memory "memory" -2 [READONLY] (2 2 1) "server" "4.0.0" "USAGE key [SAMPLES count] | DOCTOR | HELP"
        "The memory of a key."
        Lookup(introspect::memory);
    Role "role" 1 [LOADING STALE FAST] (0 0 0) "server" "2.8.12" "" "That this server is a master without replicas."
        Session(introspect::role);
    Acl "acl" -2 [ADMIN NOSCRIPT LOADING STALE] (0 0 0) "server" "6.0.0" "WHOAMI | LIST | USERS | CAT [category] | HELP"
        "Asks about the one user."
        Session(introspect::acl);
    HtStats "ht.stats" -1 [READONLY WAITS] (0 0 0) "server" "splitpoint 0.1" "[SAMPLE buckets]"
        "Bucket histogram and probes of the table, from a sample."
        Scan(|space, call, _| stats::ht_stats(space, call));
    HtCompact "ht.compact" 1 [ADMIN NO_MULTI WAITS] (0 0 0) "server" "splitpoint 0.1" ""
        "Gives unused space of the files back; others go on."
        Session(introspect::compact);
}

/// Subcommands, and the number of arguments of each as in [`Spec::arity`].
type Subcommands = &'static [(&'static str, i32)];

const SUBCOMMANDS: [(Id, Subcommands); 9] = [
    (Id::Acl, &[("cat", -2), ("help", 2), ("list", 2), ("users", 2), ("whoami", 2)]),
    (
        Id::Client,
        &[
            ("getname", 2),
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
            ("unblock", -3),
            ("unpause", 2),
        ],
    ),
    (Id::Command, &[("count", 2), ("docs", -2), ("getkeys", -4), ("help", 2), ("info", -2), ("list", -2)]),
    (Id::Config, &[("get", -3), ("help", 2), ("resetstat", 2), ("rewrite", 2), ("set", -4)]),
    (Id::Latency, &[("help", 2), ("histogram", -2), ("history", 3), ("latest", 2), ("reset", -2)]),
    (Id::Memory, &[("doctor", 2), ("help", 2), ("usage", -3)]),
    (Id::Object, &[("encoding", 3), ("freq", 3), ("help", 2), ("idletime", 3), ("refcount", 3)]),
    (
        Id::PubSub,
        &[("channels", -2), ("help", 2), ("numpat", 2), ("numsub", -2), ("shardchannels", -2), ("shardnumsub", -2)],
    ),
    (Id::SlowLog, &[("get", -2), ("help", 2), ("len", 2), ("reset", 2)]),
];

/// Whether `count` arguments, the names included, satisfy `arity`.
#[inline]
pub fn fits(arity: i32, count: usize) -> bool {
    let (count, arity) = (i64::try_from(count).unwrap_or(i64::MAX), i64::from(arity));
    if arity >= 0 { count == arity } else { count >= -arity }
}

impl Spec {
    /// Tips of COMMAND INFO: they tell cluster clients to send a command to all nodes and combine the replies.
    pub fn tips(&self) -> &'static [&'static str] {
        match self.id {
            Id::MGet => &["request_policy:multi_shard"],
            Id::MSet => &["request_policy:multi_shard", "response_policy:all_succeeded"],
            Id::MSetNx => &["request_policy:multi_shard", "response_policy:agg_min"],
            Id::Del | Id::Unlink | Id::Exists | Id::Touch => &["request_policy:multi_shard", "response_policy:agg_sum"],
            Id::RandomKey => &["request_policy:all_shards", "nondeterministic_output"],
            Id::Keys => &["request_policy:all_shards", "nondeterministic_output_order"],
            Id::Scan => &["nondeterministic_output", "request_policy:special"],
            Id::Ping | Id::FlushDb | Id::FlushAll => &["request_policy:all_shards", "response_policy:all_succeeded"],
            Id::Info => &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
            Id::DbSize => &["request_policy:all_shards", "response_policy:agg_sum"],
            Id::Dump | Id::Ttl | Id::PTtl | Id::Time | Id::LastSave => &["nondeterministic_output"],
            Id::Command => &["nondeterministic_output_order"],
            _ => &[],
        }
    }

    /// Whether a request of `count` arguments, the name included, has the right number.
    #[inline]
    pub fn accepts(&self, count: usize) -> bool {
        if self.id == Id::Append {
            return matches!(count, 3 | 5);
        }
        fits(self.arity, count)
    }

    /// The subcommand that a request names, and its arity; `None` if the command has no subcommands or the request
    /// names none.
    ///
    /// # Errors
    /// That the command has no such subcommand.
    #[inline]
    pub fn subcommand(&self, args: &Args<'_>) -> Result<Option<(&'static str, i32)>, Refusal> {
        let Some(&(_, known)) = SUBCOMMANDS.iter().find(|(id, _)| *id == self.id) else { return Ok(None) };
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
    pub fn run_keys(&self, count: usize) -> Option<usize> {
        if self.flags.has(Flags::RUN_OF_KEYS) {
            return (count > 1).then(|| count - 1);
        }
        let is_plain = count == self.arity.unsigned_abs() as usize || self.id == Id::Append && count == 5;
        (self.flags.has(Flags::RUN) && is_plain).then_some(1)
    }

    /// Indices of the keys in a request of `count` arguments.
    pub fn key_indices(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let Keys { first, last, step } = self.keys;
        // OBJECT HELP has no key at the index where OBJECT ENCODING has one.
        let last = if last < 0 { count as i64 + i64::from(last) } else { i64::from(last).min(count as i64 - 1) };
        let none = first == 0;
        (i64::from(first)..=last).step_by(step.max(1) as usize).filter(move |_| !none).map(|index| index as usize)
    }
}

/// A hash table from names, ignoring case, to commands: open addressing, hashed by a product of the name's bytes.
pub struct Names {
    places: [u8; PLACES],
}

const PLACES: usize = 512;
const EMPTY: u8 = u8::MAX;

impl Names {
    /// The one table.
    pub fn get() -> &'static Names {
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

    /// The command of this name.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Spec> {
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
    // This lowers letters and may make other bytes equal; the comparison tells those apart.
    let mut sum = name.len() as u64;
    for &byte in name.iter().take(16) {
        sum = sum.wrapping_mul(31).wrapping_add(u64::from(byte | 0x20));
    }
    (sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for spec in COMMANDS {
            assert_eq!(Names::get().find(spec.name.as_bytes()).unwrap().id, spec.id);
            assert_eq!(Names::get().find(spec.name.to_uppercase().as_bytes()).unwrap().id, spec.id);
        }
        assert!(Names::get().find(b"lpush").is_none());
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");
        let text = std::fs::read_to_string(path).unwrap();
        let begin = text.find(BEGIN).unwrap() + BEGIN.len();
        let end = text.find(END).unwrap();
        if std::env::var_os("SPLITPOINT_UPDATE").is_some() {
            std::fs::write(path, [&text[..begin], &list, &text[end..]].concat()).unwrap();
        } else {
            assert_eq!(&text[begin..end], list, "docs/server.md is not of this table");
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
        let keys =
            |name: &str, count| Names::get().find(name.as_bytes()).unwrap().key_indices(count).collect::<Vec<_>>();
        assert_eq!(keys("mset", 5), [1, 3]);
        assert_eq!(keys("del", 4), [1, 2, 3]);
        assert_eq!(keys("rename", 3), [1, 2]);
        assert_eq!(keys("object", 3), [2]);
        assert_eq!(keys("object", 2), [0usize; 0]);
        assert_eq!(keys("ping", 1), [0usize; 0]);
    }
}
