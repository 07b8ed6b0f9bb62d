//! The keys of a running server, Redis or Splitpoint: `redis://host:6379/0`.
//!
//! ```text
//! SCAN -> keys;  per key STRLEN, PEXPIRETIME in one pipeline -> length, lifetime, or WRONGTYPE
//! strings         GET of up to 4 MiB together
//! collections     MEMORY USAGE, then DUMP of up to 4 MiB together
//! ```
//!
//! Sizes come first, so that a pipeline of values has a bound. DUMP is used instead of the commands of each type: it
//! returns a value as of one moment, streams with their groups included, and every server since Redis 2.6 has it. PTTL
//! is used if a server does not have or not allow PEXPIRETIME (Redis 7.0); the lifetime is then off by the answer's
//! delay. SCAN may list a key twice, and may miss keys that are added or removed while it runs.

use super::threaded::{Ended, Feed, Threaded};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::options::Ttl;
use crate::format::rdb as rdb_file;
use crate::number::{grouped, parse_interval};
use redis::{Connection, FromRedisValue, RedisError, RedisResult, Value};
use splitpoint::ErrorKind;
use splitpoint_server::keyspace::ServedFile;
use splitpoint_server::rdb::{self, Entry, Object, RdbError, Value as Stored};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Keys of one SCAN.
const KEYS: u64 = 1000;
/// Bytes of values requested together, unless one is longer.
const VALUES_BYTES: u64 = 4 << 20;
/// The assumed size of a collection if the server does not say.
const COLLECTION_BYTES: u64 = 64 << 10;

/// The variable that redis-cli uses: a password in it does not appear in the list of processes.
const PASSWORD_VARIABLE: &str = "REDISCLI_AUTH";

const SCHEMES: [&[u8]; 4] = [b"redis://", b"rediss://", b"redis+unix://", b"valkey://"];

/// How to treat keys that have a lifetime or a type other than string. Without these options `load` stores them
/// unchanged, and other commands treat each as a bad row.
#[derive(clap::Args, Clone, Copy)]
pub struct ServerArgs {
    /// From a server or a dump of Redis: store keys with a lifetime without it, or leave them out [default: `load`
    /// keeps lifetimes]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "ignore|skip")]
    pub ttl: Option<Ttl>,
    /// From a server: leave out lists, sets and other values that are not strings [default: `load` stores them]
    #[arg(long)]
    skip_other_types: bool,
    /// From a server: seconds to wait for a connection, and for each answer [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    timeout: Option<Duration>,
}

/// A server that is busy for longer, with a slow script or a swapped-out database, is rare.
const TIMEOUT: Duration = Duration::from_secs(60);

impl ServerArgs {
    /// No options.
    pub const NONE: Self = Self { ttl: None, skip_other_types: false, timeout: None };

    /// Whether there is an option that only servers have.
    pub fn has_connection_options(self) -> bool {
        self.skip_other_types || self.timeout.is_some()
    }

    pub fn is_given(self) -> bool {
        self.ttl.is_some() || self.has_connection_options()
    }
}

/// Whether an input is a server's address.
pub fn is_address(input: &Path) -> bool {
    SCHEMES.iter().any(|scheme| input.as_os_str().as_bytes().starts_with(scheme))
}

/// Returns the address without user, password and options, for messages.
pub fn name(input: &Path) -> String {
    let text = input.to_string_lossy();
    let (scheme, rest) = text.split_once("://").unwrap_or(("", &text));
    // A password may contain any character: everything up to the last @ is removed.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let rest = rest.split('?').next().unwrap_or_default();
    format!("{scheme}://{rest}")
}

/// Refuses the address of a server where a file is needed; the message has no password.
pub fn refuse_address(path: &Path) -> Result<()> {
    if !is_address(path) {
        return Ok(());
    }
    let name = name(path);
    Err(Failure::usage(format_args!(
        "{name}: is the address of a server; `splitpoint load` copies its pairs to a table"
    )))
}

/// The keys that were left out.
#[derive(Default)]
struct LeftOut {
    with_lifetime: u64,
    other_types: u64,
    /// Other databases that have keys.
    databases: Vec<i64>,
}

impl LeftOut {
    fn note(&self) -> Option<String> {
        let parts = [(self.with_lifetime, "with a lifetime"), (self.other_types, "of other types than string")];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
        let keys = (!parts.is_empty()).then(|| format!("keys left out: {}", parts.join(", ")));
        let databases: Vec<_> = self.databases.iter().map(i64::to_string).collect();
        let databases = (!databases.is_empty()).then(|| {
            let list = databases.join(", ");
            format!("databases left out: {list}; each has its own address, and `splitpoint serve` finds N in FILE-dbN")
        });
        let notes: Vec<_> = keys.into_iter().chain(databases).collect();
        (!notes.is_empty()).then(|| notes.join(". "))
    }
}

/// Begins to read the server at `input`.
///
/// # Errors
/// An invalid address; a failure to connect is reported with the first row.
pub fn open(input: &Path, args: ServerArgs, row_bytes_max: u64) -> Result<Threaded> {
    let name = name(input);
    let text = input.to_str().ok_or_else(|| Failure::usage(format_args!("{name}: the address is not UTF-8")))?;
    let password = std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
    let text = password.map_or_else(|| text.to_owned(), |password| with_password(text, &password));
    let client = redis::Client::open(&*text).map_err(|error| Failure::usage(format_args!("{name}: {error}")))?;
    let (server, database) = (name.clone(), client.get_connection_info().redis_settings().db());
    Threaded::start(name, move |feed| {
        let timeout = args.timeout.unwrap_or(TIMEOUT);
        let failed = |error: RedisError| failure(&server, timeout, &error);
        let connection = client.get_connection_with_timeout(timeout).map_err(failed)?;
        connection.set_read_timeout(Some(timeout)).map_err(failed)?;
        connection.set_write_timeout(Some(timeout)).map_err(failed)?;
        let mut reader = Reader {
            connection,
            timeout,
            feed,
            args,
            row_bytes_max,
            left_out: LeftOut::default(),
            has_expiretime: true,
        };
        reader.read(&server)?;
        reader.left_out.databases = reader.others(database);
        Ok(reader.left_out.note())
    })
}

fn entry(key: Vec<u8>, expires_at_ms: u64, value: Stored) -> Entry {
    Entry { database: 0, key, expires_at_ms, flags: 0, object: Object::Value(value) }
}

fn failure(server: &str, timeout: Duration, error: &RedisError) -> Failure {
    if error.is_timeout() {
        let seconds = timeout.as_secs_f64();
        let what = format_args!("{server}: no answer in {seconds} s; --timeout SECONDS waits longer");
        return Failure::of_kind(ErrorKind::Io, what);
    }
    let advice = match error.code() {
        Some("NOAUTH" | "WRONGPASS") if server.starts_with("redis+unix://") => {
            "; the password goes into the address, as in redis+unix:///SOCKET?pass=PASSWORD, or into REDISCLI_AUTH"
        }
        Some("NOAUTH" | "WRONGPASS") => {
            "; the password goes into the address, as in redis://:PASSWORD@HOST, or into REDISCLI_AUTH"
        }
        _ => "",
    };
    Failure::of_kind(ErrorKind::Io, format_args!("{server}: {error}{advice}"))
}

/// Returns the address with this password, unless it has one.
fn with_password(address: &str, password: &str) -> String {
    let password: String = password.bytes().map(|byte| format!("%{byte:02x}")).collect();
    match address.split_once("://") {
        Some(("redis+unix", path)) if path.contains("pass=") => address.to_owned(),
        Some(("redis+unix", path)) => {
            let first = if path.contains('?') { '&' } else { '?' };
            format!("{address}{first}pass={password}")
        }
        Some((scheme, rest)) if !rest.contains('@') => format!("{scheme}://:{password}@{rest}"),
        _ => address.to_owned(),
    }
}

struct Reader<'f> {
    connection: Connection,
    timeout: Duration,
    feed: &'f mut Feed,
    args: ServerArgs,
    row_bytes_max: u64,
    left_out: LeftOut,
    /// Whether the server returns expiry times instead of remaining lifetimes.
    has_expiretime: bool,
}

impl Reader<'_> {
    fn read(&mut self, server: &str) -> std::result::Result<(), Ended> {
        let timeout = self.timeout;
        let failed = |error: RedisError| Ended::Failed(failure(server, timeout, &error));
        let total: u64 = redis::cmd("DBSIZE").query(&mut self.connection).map_err(failed)?;
        let (mut cursor, mut done) = (0_u64, 0);
        loop {
            let scan = redis::cmd("SCAN").arg(cursor).arg("COUNT").arg(KEYS).query(&mut self.connection);
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.map_err(failed)?;
            done += keys.len() as u64;
            self.feed.at(done, total);
            self.keys(&keys, server)?;
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Returns the other databases that have keys, as far as the server reports them.
    fn others(&mut self, database: i64) -> Vec<i64> {
        let info: RedisResult<String> = redis::cmd("INFO").arg("keyspace").query(&mut self.connection);
        let info = info.unwrap_or_default();
        let numbers = info.lines().filter_map(|line| line.strip_prefix("db")?.split_once(':')?.0.parse().ok());
        numbers.filter(|number| *number != database).collect()
    }

    /// Reads the values of `keys`.
    fn keys(&mut self, keys: &[Vec<u8>], server: &str) -> std::result::Result<(), Ended> {
        // SCAN may find no keys before its end, and a pipeline must have a command.
        if keys.is_empty() {
            return Ok(());
        }
        let timeout = self.timeout;
        let failed = |error: RedisError| Ended::Failed(failure(server, timeout, &error));
        let mut answers = self.lengths_and_lifetimes(keys).map_err(failed)?;
        if self.has_expiretime && answers.iter().skip(1).step_by(2).any(|answer| answer.is_err()) {
            self.has_expiretime = false;
            answers = self.lengths_and_lifetimes(keys).map_err(failed)?;
        }
        let (mut wanted, mut collections, mut bytes) = (Vec::new(), Vec::new(), 0);
        let now_ms = now_ms();
        for (key, answer) in keys.iter().zip(answers.chunks_exact(2)) {
            let [length, lifetime] = [&answer[0], &answer[1]].map(Clone::clone);
            let expires_at_ms = match (lifetime.map_err(failed)?, self.args.ttl) {
                (-1, _) => 0,
                // Removed since SCAN returned it.
                (-2, _) => continue,
                (_, Some(Ttl::Ignore)) => 0,
                (_, Some(Ttl::Skip)) => {
                    self.left_out.with_lifetime += 1;
                    continue;
                }
                (at_ms, None) if self.has_expiretime => u64::try_from(at_ms).unwrap_or(1).max(1),
                (left_ms, None) => now_ms.saturating_add_signed(left_ms).max(1),
            };
            let length = match length {
                Err(error) if is_wrong_type(&error) && self.args.skip_other_types => {
                    self.left_out.other_types += 1;
                    continue;
                }
                Err(error) if is_wrong_type(&error) => {
                    collections.push((key, expires_at_ms));
                    continue;
                }
                length => u64::try_from(length.map_err(failed)?).unwrap_or(0),
            };
            if key.len() as u64 + length > self.row_bytes_max {
                let (key, most) = (escapes::quoted(key), self.row_bytes_max);
                let what = format!("the value of {key} has {length} bytes; a pair may have {most}; --max-row raises");
                self.feed.bad(format!("{what} the limit"))?;
                continue;
            }
            if bytes + length > VALUES_BYTES && !wanted.is_empty() {
                self.values(&std::mem::take(&mut wanted), server)?;
                bytes = 0;
            }
            bytes += length;
            wanted.push((key, expires_at_ms));
        }
        self.values(&wanted, server)?;
        self.collections(&collections, server)
    }

    /// Requests the length of each key, then its lifetime, in turn.
    fn lengths_and_lifetimes(&mut self, keys: &[Vec<u8>]) -> RedisResult<Vec<RedisResult<i64>>> {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for key in keys {
            pipeline.cmd("STRLEN").arg(&key[..]);
            pipeline.cmd(if self.has_expiretime { "PEXPIRETIME" } else { "PTTL" }).arg(&key[..]);
        }
        pipeline.query(&mut self.connection)
    }

    /// Sends `command` with each key. Returns an answer or an error per key.
    fn ask<T: FromRedisValue>(
        &mut self,
        command: &[&str],
        keys: &[(&Vec<u8>, u64)],
        server: &str,
    ) -> std::result::Result<Vec<RedisResult<T>>, Ended> {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for (key, _) in keys {
            pipeline.add_command(redis::Cmd::new()).arg(command).arg(&key[..]);
        }
        let answers = pipeline.query(&mut self.connection);
        answers.map_err(|error| Ended::Failed(failure(server, self.timeout, &error)))
    }

    /// Reads values of other types, up to [`VALUES_BYTES`] together.
    fn collections(&mut self, keys: &[(&Vec<u8>, u64)], server: &str) -> std::result::Result<(), Ended> {
        if keys.is_empty() {
            return Ok(());
        }
        // A server may not have the command, or not allow it.
        let sizes: Vec<RedisResult<Option<u64>>> = self.ask(&["MEMORY", "USAGE"], keys, server)?;
        let (mut first, mut bytes) = (0, 0);
        for (index, size) in sizes.iter().enumerate() {
            let size = size.as_ref().ok().copied().flatten().unwrap_or(COLLECTION_BYTES);
            if bytes + size > VALUES_BYTES && index > first {
                self.dumps(&keys[first..index], server)?;
                (first, bytes) = (index, 0);
            }
            bytes += size;
        }
        self.dumps(&keys[first..], server)
    }

    fn dumps(&mut self, keys: &[(&Vec<u8>, u64)], server: &str) -> std::result::Result<(), Ended> {
        let timeout = self.timeout;
        let failed = |error: RedisError| Ended::Failed(failure(server, timeout, &error));
        let answers: Vec<RedisResult<Option<Vec<u8>>>> = self.ask(&["DUMP"], keys, server)?;
        for (&(key, expires_at_ms), dump) in keys.iter().zip(answers) {
            // Removed since SCAN returned it.
            let Some(dump) = dump.map_err(failed)? else { continue };
            match rdb::decode(&dump, rdb_file::limits(self.row_bytes_max)) {
                Ok(value) => {
                    let mut entry = entry(key.clone(), expires_at_ms, value);
                    if self.args.ttl == Some(Ttl::Ignore) {
                        entry.persist();
                    }
                    self.feed.entry(entry, dump.len())?;
                }
                Err(error) => {
                    let key = escapes::quoted(key);
                    let advice = match error {
                        RdbError::TooLong(_) => "--max-row raises the limit",
                        _ => "--skip-other-types leaves it out",
                    };
                    let what = format!("what DUMP returned for {key} has {error}; {advice}");
                    self.feed.bad(what)?;
                }
            }
        }
        Ok(())
    }

    fn values(&mut self, keys: &[(&Vec<u8>, u64)], server: &str) -> std::result::Result<(), Ended> {
        if keys.is_empty() {
            return Ok(());
        }
        let timeout = self.timeout;
        let failed = |error: RedisError| Ended::Failed(failure(server, timeout, &error));
        let answers: Vec<RedisResult<Value>> = self.ask(&["GET"], keys, server)?;
        for (&(key, expires_at_ms), answer) in keys.iter().zip(answers) {
            match answer {
                Ok(Value::BulkString(value)) if expires_at_ms == 0 && !ServedFile::is_reserved(key) => {
                    self.feed.pair(key.clone(), value)?;
                }
                Ok(Value::BulkString(value)) => {
                    let bytes = value.len();
                    self.feed.entry(entry(key.clone(), expires_at_ms, Stored::String(value)), bytes)?;
                }
                Ok(Value::Nil) => {}
                Ok(_) => {
                    let what = format_args!("{server}: GET was answered with something else than a string");
                    return Err(Ended::Failed(Failure::of_kind(ErrorKind::Io, what)));
                }
                // It was a string when its length was read.
                Err(error) if is_wrong_type(&error) && self.args.skip_other_types => self.left_out.other_types += 1,
                Err(error) if is_wrong_type(&error) => self.dumps(&[(key, expires_at_ms)], server)?,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }
}

/// Returns the time now in Unix milliseconds.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64) // for 500 million years
}

fn is_wrong_type(error: &RedisError) -> bool {
    error.code() == Some("WRONGTYPE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_neither_password_nor_options() {
        for (address, expected) in [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://me:p@ss@host/2?x=y", "redis://host/2"),
            ("redis://me:p/a?s@host/2", "redis://host/2"),
            ("redis+unix:///run/r.sock?db=1&pass=secret", "redis+unix:///run/r.sock"),
        ] {
            assert!(is_address(Path::new(address)));
            assert_eq!(name(Path::new(address)), expected);
        }
        assert!(!is_address(Path::new("redis.tsv")));
    }

    #[test]
    fn a_password_of_the_environment_is_for_addresses_without_one() {
        for (address, expected) in [
            ("redis://h:1/0", "redis://:%61%40@h:1/0"),
            ("redis://user:p@h", "redis://user:p@h"),
            ("redis+unix:///s", "redis+unix:///s?pass=%61%40"),
            ("redis+unix:///s?db=1", "redis+unix:///s?db=1&pass=%61%40"),
            ("redis+unix:///s?pass=p", "redis+unix:///s?pass=p"),
        ] {
            assert_eq!(with_password(address, "a@"), expected);
        }
    }
}
