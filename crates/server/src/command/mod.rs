//! Commands of the Redis protocol: what they mean, without sockets.
//!
//! ```text
//! reply.rs        replies as RESP2 and RESP3
//! call.rs         a request and where its answer goes; how commands fail
//! table.rs        a row for each command, with the function that executes it
//! spec.rs         the rows without the functions; lookup by name
//! categories.rs   @read, @dangerous and the other categories of commands
//! key_specs.rs    what commands do with their keys
//! state.rs        what commands read and change of their client's session
//! secrets.rs      passwords among the arguments, which the slow log and MONITOR hide
//! number.rs       numbers as Redis reads and writes them
//! double.rs       doubles as C reads and writes them
//! pattern.rs      patterns of KEYS, SCAN, PSUBSCRIBE
//!
//! collection.rs   the collection that commands change, opened once for several
//! strings.rs      values: GET, SET, APPEND, INCR ...
//! bits.rs         SETBIT, BITCOUNT, BITFIELD ...
//! lcs.rs          LCS
//! events.rs       the keyspace events of each command
//! hyperloglog.rs  PFADD, PFCOUNT, PFMERGE
//! hashes.rs       HSET, HGET, HSCAN ...
//! sets.rs         SADD, SMEMBERS, SINTER ...
//! lists.rs        LPUSH, RPOP, LRANGE ...
//! sorted_sets.rs  ZADD, ZRANGE, ZPOPMIN ...
//! sorted_operations.rs  ZUNION, ZINTER ...
//! geo.rs          GEOADD, GEOSEARCH ...
//! geohash.rs      positions as scores, cells of the earth
//! streams.rs      XADD, XRANGE, XDEL ...
//! stream_reads.rs XREAD, XREADGROUP
//! stream_groups.rs  XGROUP, XACK, XCLAIM ...
//! stream_info.rs  XINFO
//! blocking.rs     BLPOP, BZPOPMIN ..., and the clients that wait
//! keys.rs         DEL, EXISTS, RENAME, SCAN ...
//! sort.rs         SORT, SORT_RO
//! lifetime.rs     EXPIRE, TTL ...
//! dump.rs         DUMP, RESTORE
//! migrate.rs      MIGRATE
//! connection.rs   HELLO, AUTH, MULTI, WATCH ...
//! acl.rs          ACL; the check of requests against the rules of users
//! client.rs       CLIENT
//! pubsub.rs       SUBSCRIBE, PUBLISH ...
//! cluster.rs      CLUSTER; MOVED and other redirections
//! config.rs       CONFIG
//! info.rs         INFO
//! script.rs       EVAL, SCRIPT ...
//! extensions.rs   FUNCTION, FCALL, MODULE: there are none
//! stats.rs        HT.STATS
//! introspect.rs   COMMAND, SLOWLOG, MEMORY ...
//!
//! dispatch.rs     the rows as functions; EXEC
//! ```
//!
//! Which commands run together, and in which order: `resp/session/`.

pub(crate) mod acl;
mod bits;
pub(crate) mod blocking;
pub(crate) mod call;
pub(crate) mod categories;
mod client;
pub(crate) mod cluster;
pub(crate) mod collection;
mod comparison;
mod config;
mod connection;
pub(crate) mod dispatch;
pub(crate) mod double;
mod dump;
pub(crate) mod edit;
pub(crate) mod events;
mod extensions;
mod field_lifetimes;
mod geo;
mod geohash;
mod hashes;
mod hyperloglog;
pub(crate) mod info;
mod introspect;
mod key_specs;
pub(crate) mod keys;
mod lcs;
pub(crate) mod lifetime;
mod lists;
mod migrate;
pub(crate) mod number;
pub(crate) mod pattern;
mod pubsub;
pub(crate) mod reply;
pub(crate) mod script;
pub(crate) mod secrets;
mod sets;
mod sort;
mod sorted_operations;
pub(crate) mod sorted_sets;
pub(crate) mod spec;
pub(crate) mod state;
pub(crate) mod stats;
mod stream_groups;
mod stream_info;
mod stream_reads;
mod streams;
pub(crate) mod strings;
mod table;
