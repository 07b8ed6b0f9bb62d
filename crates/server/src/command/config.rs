//! CONFIG GET and SET, by Redis's names.

use super::call::{Args, Outcome, Refusal};
use super::pattern::matches;
use super::reply;
use super::state::SessionState;
use crate::keyspace::{DATABASE_COUNT, Eviction};
use crate::notices::Notices;
use crate::server::Server;
use crate::users::PASSWORD_BYTES_MAX;
use std::sync::atomic::Ordering::*;

/// The options, in the order of CONFIG GET; options after `-` cannot be set.
const NAMES: &[&str] = &[
    "maxmemory",
    "maxmemory-policy",
    "maxclients",
    "timeout",
    "requirepass",
    "proto-max-bulk-len",
    "client-query-buffer-limit",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "notify-keyspace-events",
    "busy-reply-threshold",
    "lua-time-limit",
    "save",
    "appendonly",
    "appendfsync",
    // Read-only.
    "databases",
    "cluster-enabled",
    "port",
    "dbfilename",
    "dir",
];

/// Options about Redis's internals, with Redis's defaults: setting them has no effect.
const HINTS: &[(&str, &str)] = &[
    ("activedefrag", "no"),
    ("active-defrag-threshold-lower", "10"),
    ("activerehashing", "yes"),
    ("auto-aof-rewrite-min-size", "67108864"),
    ("auto-aof-rewrite-percentage", "100"),
    ("dynamic-hz", "yes"),
    ("hash-max-listpack-entries", "512"),
    ("hash-max-listpack-value", "64"),
    ("hash-max-ziplist-entries", "512"),
    ("hash-max-ziplist-value", "64"),
    ("hll-sparse-max-bytes", "3000"),
    ("hz", "10"),
    ("latency-monitor-threshold", "0"),
    ("latency-tracking", "yes"),
    ("lazyfree-lazy-eviction", "no"),
    ("lazyfree-lazy-expire", "no"),
    ("lazyfree-lazy-server-del", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-user-flush", "no"),
    ("lfu-decay-time", "1"),
    ("lfu-log-factor", "10"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("maxmemory-samples", "5"),
    ("min-replicas-max-lag", "10"),
    ("min-replicas-to-write", "0"),
    ("rdb-key-save-delay", "0"),
    ("rdbchecksum", "yes"),
    ("rdbcompression", "yes"),
    ("repl-backlog-size", "1048576"),
    ("repl-diskless-sync", "yes"),
    ("repl-diskless-sync-delay", "5"),
    ("repl-timeout", "60"),
    ("set-max-intset-entries", "512"),
    ("stop-writes-on-bgsave-error", "yes"),
    ("stream-node-max-bytes", "4096"),
    ("stream-node-max-entries", "100"),
    ("tcp-keepalive", "300"),
    ("tracking-table-max-keys", "1000000"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("zset-max-ziplist-entries", "128"),
    ("zset-max-ziplist-value", "64"),
];

fn hint(name: &str) -> Option<&'static (&'static str, &'static str)> {
    HINTS.iter().find(|(hint, _)| *hint == name)
}

fn get(server: &Server, name: &str) -> String {
    let settings = &server.settings;
    match name {
        "maxmemory" => server.space.memory_limit().0.to_string(),
        "maxmemory-policy" => server.space.memory_limit().1.name().into(),
        "maxclients" => server.clients_max().to_string(),
        "timeout" => settings.idle_s.load(Relaxed).to_string(),
        "requirepass" => String::from_utf8_lossy(&settings.password().unwrap_or_default()).into_owned(),
        "proto-max-bulk-len" => settings.bulk_bytes.load(Relaxed).to_string(),
        "client-query-buffer-limit" => settings.request_bytes.load(Relaxed).to_string(),
        "slowlog-log-slower-than" => match server.slow_log.threshold_us.load(Relaxed) {
            u64::MAX => "-1".into(),
            micros => micros.to_string(),
        },
        "slowlog-max-len" => server.slow_log.len_max.load(Relaxed).to_string(),
        "notify-keyspace-events" => server.notices.classes(),
        "busy-reply-threshold" | "lua-time-limit" => server.scripts.busy_ms.load(Relaxed).to_string(),
        "databases" => if server.space.dictionary().is_some() { 1 } else { DATABASE_COUNT }.to_string(),
        "cluster-enabled" => if server.space.dictionary().is_some() { "yes" } else { "no" }.into(),
        "port" => server.port.load(Relaxed).to_string(),
        "appendonly" => if server.space.in_file() { "yes" } else { "no" }.into(),
        "appendfsync" => if server.syncer.is_some() { "always" } else { "no" }.into(),
        "dbfilename" => server.space.path().map_or(String::new(), |path| path.display().to_string()),
        "dir" => std::env::current_dir().map_or(String::new(), |path| path.display().to_string()),
        _ => server.settings.hint(name).or(hint(name).map(|(_, value)| (*value).to_owned())).unwrap_or_default(),
    }
}

/// A checked change of an option.
type Change<'v> = Box<dyn FnOnce(&Server) + 'v>;

/// The change that a CONFIG SET asks for, or what is wrong with the value.
fn change<'v>(server: &Server, name: &str, value: &'v [u8]) -> Result<Change<'v>, &'static str> {
    const REQUEST_BYTES_MAX: u64 = u32::MAX as u64 - (1 << 20);
    const NUMBER: &str = "argument couldn't be parsed into an integer";
    let text = std::str::from_utf8(value).map_err(|_| NUMBER)?;
    let number = || size(text).ok_or(NUMBER);
    let within = |least: u64, most: u64| {
        number().and_then(|n| if (least..=most).contains(&n) { Ok(n) } else { Err("argument is out of range") })
    };
    Ok(match name {
        "maxmemory" => {
            let bytes = number()?;
            Box::new(move |server| server.space.limit_memory(bytes, server.space.memory_limit().1))
        }
        "maxmemory-policy" => {
            let policy = Eviction::ALL.into_iter().find(|policy| policy.name().eq_ignore_ascii_case(text));
            // In the order of Redis.
            const WRONG: &str = "argument(s) must be one of the following: volatile-lru, volatile-lfu, \
                volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction";
            let policy = policy.ok_or(WRONG)?;
            Box::new(move |server| server.space.limit_memory(server.space.memory_limit().0, policy))
        }
        "maxclients" => {
            let clients = within(1, 1 << 20)? as usize;
            Box::new(move |server| server.settings.clients.store(clients, Relaxed))
        }
        "timeout" => {
            let seconds = within(0, 1 << 31)?;
            Box::new(move |server| server.settings.idle_s.store(seconds, Relaxed))
        }
        "requirepass" if value.len() > PASSWORD_BYTES_MAX => return Err("argument is too long"),
        "requirepass" => Box::new(move |server| server.settings.set_password(value)),
        // Limited by the file format: values are shorter than 4 GiB.
        "proto-max-bulk-len" => {
            let bytes = within(1 << 20, REQUEST_BYTES_MAX / 2)? as usize;
            Box::new(move |server| server.settings.bulk_bytes.store(bytes, Relaxed))
        }
        "client-query-buffer-limit" => {
            let bytes = within(1 << 20, REQUEST_BYTES_MAX)? as usize;
            Box::new(move |server| server.settings.request_bytes.store(bytes, Relaxed))
        }
        "slowlog-log-slower-than" => {
            let micros = if text == "-1" { u64::MAX } else { number()? };
            Box::new(move |server| server.slow_log.threshold_us.store(micros, Relaxed))
        }
        "slowlog-max-len" => {
            let len = within(0, 1 << 20)? as usize;
            Box::new(move |server| server.slow_log.len_max.store(len, Relaxed))
        }
        "busy-reply-threshold" | "lua-time-limit" => {
            let millis = within(0, i64::MAX as u64)?;
            Box::new(move |server| server.scripts.busy_ms.store(millis, Relaxed))
        }
        "notify-keyspace-events" => {
            const UNKNOWN: &str = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
            let classes = Notices::parse_classes(text).ok_or(UNKNOWN)?;
            Box::new(move |server| server.notices.set_classes(classes))
        }
        // Refused unless --file and --durability keep at least what these options ask for.
        "save" if text.is_empty() => Box::new(|_| ()),
        "save" => return Err("this server makes no snapshots; --file and --durability decide what is kept"),
        "appendonly" => match text.to_ascii_lowercase().as_str() {
            "no" => Box::new(|_| ()),
            "yes" if server.space.in_file() => Box::new(|_| ()),
            "yes" => return Err("the keys of this server are in memory only; start it with --file to keep them"),
            _ => return Err("argument must be 'yes' or 'no'"),
        },
        "appendfsync" => match text.to_ascii_lowercase().as_str() {
            "no" => Box::new(|_| ()),
            "always" | "everysec" if !server.space.in_file() || server.syncer.is_some() => Box::new(|_| ()),
            "always" | "everysec" => return Err("start the server with --durability sync"),
            _ => return Err("argument(s) must be one of the following: everysec, always, no"),
        },
        _ => match hint(name) {
            None => return Err("can't set immutable config"),
            Some((_, "yes" | "no")) if !matches!(text, "yes" | "no") => return Err("argument must be 'yes' or 'no'"),
            Some((_, default)) if *default != "yes" && *default != "no" && signed(text).is_none() => {
                return Err(NUMBER);
            }
            Some((name, _)) => Box::new(move |server| server.settings.set_hint(name, text)),
        },
    })
}

/// CONFIG SET name value ...: sets all of them or none.
fn set(server: &Server, args: Args<'_>) -> Outcome {
    let mut changes: Vec<(String, Change<'_>)> = Vec::new();
    for (name, value) in args.from(2).step_by(2).zip(args.from(3).step_by(2)) {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        if !NAMES.contains(&name.as_str()) && hint(&name).is_none() {
            return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'").into());
        }
        let is_second = changes.iter().any(|(other, _)| *other == name);
        let change = if is_second { Err("duplicate parameter") } else { change(server, &name, value) };
        let change =
            change.map_err(|what| format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {what}"))?;
        changes.push((name, change));
    }
    changes.into_iter().for_each(|(_, change)| change(server));
    Ok(())
}

/// CONFIG subcommand ...
pub(super) fn config(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let (server, version) = (&*session.server.clone(), session.version);
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"get", 3..) => {
            let wanted = |name: &&&str| args.from(2).any(|p| matches(&p.to_ascii_lowercase(), name.as_bytes()));
            let names: Vec<&&str> = NAMES.iter().chain(HINTS.iter().map(|(name, _)| name)).filter(wanted).collect();
            reply::map(out, names.len(), version);
            for name in names {
                reply::bulk(out, name.as_bytes());
                reply::bulk(out, get(server, name).as_bytes());
            }
        }
        (b"set", 4..) if args.len().is_multiple_of(2) => {
            set(server, args)?;
            session.unsettled = true;
            reply::ok(out);
        }
        (b"resetstat", 2) => {
            server.reset_figures();
            reply::ok(out);
        }
        (b"rewrite", 2) => return Err("ERR The server is running without a config file".into()),
        (b"help", 2) => {
            let lines = [
                "GET <pattern>",
                "    Returns the parameters whose names match, with their values.",
                "SET <directive> <value>",
                "    Changes parameters, all or none.",
                "RESETSTAT",
                "    Resets the counters of INFO.",
            ];
            reply::help(out, "CONFIG", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "CONFIG")),
    }
    Ok(())
}

/// Parses a size that may be negative.
fn signed(text: &str) -> Option<u64> {
    const LEN_MAX: usize = 32; // it is kept
    if text.len() > LEN_MAX {
        return None;
    }
    size(text.strip_prefix('-').unwrap_or(text))
}

/// Parses a size in bytes with Redis's units: k is 1000, kb is 1024.
fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let factor = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}
