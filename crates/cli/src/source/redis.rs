//! The strings of a running Redis server, or of our own: `redis://host:6379/0`.
//!
//! ```text
//! SCAN -> keys;  per key STRLEN, PTTL in one pipeline -> length, lifetime, or WRONGTYPE;  GET of up to 4 MiB together
//! ```
//!
//! The length first, so that a pipeline of values has a bound. A key may come twice: SCAN says so, and keys that come,
//! change or go meanwhile may be missed or not.

use super::threaded::{Ended, Feed, Threaded};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::number::{grouped, parse_interval};
use redis::{Connection, RedisError, RedisResult, Value};
use splitpoint::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Keys of one SCAN.
const KEYS: u64 = 1000;
/// Bytes of values that are requested together, unless one is longer.
const VALUES_BYTES: u64 = 4 << 20;

/// As of redis-cli: a password that is not in the list of processes.
const PASSWORD_VARIABLE: &str = "REDISCLI_AUTH";

const SCHEMES: [&[u8]; 4] = [b"redis://", b"rediss://", b"redis+unix://", b"valkey://"];

/// What happens to a key with a lifetime.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Ttl {
    /// It is stored without
    Ignore,
    /// It is left out
    Skip,
}

/// What is done with keys that a table cannot hold as they are; otherwise each is a bad row.
#[derive(clap::Args, Clone, Copy)]
pub struct ServerArgs {
    /// From a server: store keys with a lifetime without it, or leave them out [default: a lifetime is a bad row]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "ignore|skip")]
    ttl: Option<Ttl>,
    /// From a server: leave out lists, sets and other values that are no strings [default: each is a bad row]
    #[arg(long)]
    skip_other_types: bool,
    /// From a server: how long to wait for a connection, and for each answer [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    timeout: Option<Duration>,
}

/// A server that is busy for longer, with a slow script or a swapped-out database, is rare.
const TIMEOUT: Duration = Duration::from_secs(60);

impl ServerArgs {
    /// Without any choice.
    pub const NONE: Self = Self { ttl: None, skip_other_types: false, timeout: None };

    pub fn is_given(self) -> bool {
        self.ttl.is_some() || self.skip_other_types || self.timeout.is_some()
    }
}

/// Whether an input is the address of a server.
pub fn is_address(input: &Path) -> bool {
    SCHEMES.iter().any(|scheme| input.as_os_str().as_bytes().starts_with(scheme))
}

/// The address without user, password and options, for messages.
pub fn name(input: &Path) -> String {
    let text = input.to_string_lossy();
    let (scheme, rest) = text.split_once("://").unwrap_or(("", &text));
    // A password may hold any character: everything up to the last @ goes.
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

/// What was left out.
#[derive(Default)]
struct LeftOut {
    with_lifetime: u64,
    other_types: u64,
}

impl LeftOut {
    fn note(&self) -> Option<String> {
        let parts = [(self.with_lifetime, "with a lifetime"), (self.other_types, "of other types than string")];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
        (!parts.is_empty()).then(|| format!("keys left out: {}", parts.join(", ")))
    }
}

/// Begins to read the server at `input`.
///
/// # Errors
/// An address that is not one; a failure to connect comes with the first row.
pub fn open(input: &Path, args: ServerArgs, row_bytes_max: u64) -> Result<Threaded> {
    let name = name(input);
    let text = input.to_str().ok_or_else(|| Failure::usage(format_args!("{name}: the address is not UTF-8")))?;
    let password = std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty());
    let text = password.map_or_else(|| text.to_owned(), |password| with_password(text, &password));
    let client = redis::Client::open(&*text).map_err(|error| Failure::usage(format_args!("{name}: {error}")))?;
    let server = name.clone();
    Threaded::start(name, move |feed| {
        let timeout = args.timeout.unwrap_or(TIMEOUT);
        let failed = |error: RedisError| failure(&server, timeout, &error);
        let connection = client.get_connection_with_timeout(timeout).map_err(failed)?;
        connection.set_read_timeout(Some(timeout)).map_err(failed)?;
        connection.set_write_timeout(Some(timeout)).map_err(failed)?;
        let mut reader = Reader { connection, timeout, feed, args, row_bytes_max, left_out: LeftOut::default() };
        reader.read(&server)?;
        Ok(reader.left_out.note())
    })
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

/// The address with this password, unless it has one.
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

    /// Reads the values of `keys`.
    fn keys(&mut self, keys: &[Vec<u8>], server: &str) -> std::result::Result<(), Ended> {
        // SCAN may find no keys before its end, and a pipeline must have a command.
        if keys.is_empty() {
            return Ok(());
        }
        let timeout = self.timeout;
        let failed = |error: RedisError| Ended::Failed(failure(server, timeout, &error));
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for key in keys {
            pipeline.cmd("STRLEN").arg(&key[..]).cmd("PTTL").arg(&key[..]);
        }
        let answers: Vec<RedisResult<i64>> = pipeline.query(&mut self.connection).map_err(failed)?;
        let (mut wanted, mut bytes) = (Vec::new(), 0);
        for (key, answer) in keys.iter().zip(answers.chunks_exact(2)) {
            let [length, lifetime] = [&answer[0], &answer[1]].map(Clone::clone);
            let length = match length {
                Err(error) if is_wrong_type(&error) => {
                    self.other_type(key)?;
                    continue;
                }
                length => u64::try_from(length.map_err(failed)?).unwrap_or(0),
            };
            match lifetime.map_err(failed)? {
                -1 => {}
                // Gone since SCAN named it.
                -2 => continue,
                _ => match self.args.ttl {
                    Some(Ttl::Ignore) => {}
                    Some(Ttl::Skip) => {
                        self.left_out.with_lifetime += 1;
                        continue;
                    }
                    None => {
                        let key = escapes::quoted(key);
                        let advice = "--ttl ignore stores it without, --ttl skip leaves it out";
                        self.feed.bad(format!("the key {key} has a lifetime, which is not copied; {advice}"))?;
                        continue;
                    }
                },
            }
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
            wanted.push(key);
        }
        self.values(&wanted, server)
    }

    fn values(&mut self, keys: &[&Vec<u8>], server: &str) -> std::result::Result<(), Ended> {
        if keys.is_empty() {
            return Ok(());
        }
        let timeout = self.timeout;
        let failed = |error: RedisError| Ended::Failed(failure(server, timeout, &error));
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        for key in keys {
            pipeline.cmd("GET").arg(&key[..]);
        }
        let answers: Vec<RedisResult<Value>> = pipeline.query(&mut self.connection).map_err(failed)?;
        for (key, answer) in keys.iter().zip(answers) {
            match answer {
                Ok(Value::BulkString(value)) => self.feed.pair((*key).clone(), value)?,
                Ok(Value::Nil) => {}
                Ok(_) => {
                    let what = format_args!("{server}: GET was answered with something else than a string");
                    return Err(Ended::Failed(Failure::of_kind(ErrorKind::Io, what)));
                }
                Err(error) if is_wrong_type(&error) => self.other_type(key)?,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn other_type(&mut self, key: &[u8]) -> std::result::Result<(), Ended> {
        if self.args.skip_other_types {
            self.left_out.other_types += 1;
            return Ok(());
        }
        let key = escapes::quoted(key);
        Ok(self.feed.bad(format!("the value of {key} is no string; --skip-other-types leaves such keys out"))?)
    }
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
