//! Commands about the server: COMMAND, SLOWLOG, LATENCY and others. INFO is in `info.rs`.

use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::categories;
use super::categories::{Unit, find_unit, units};
use super::key_specs::{self, Access};
use super::number::parse_integer;
use super::pattern::matches;
use super::reply::{self, Version};
use super::spec::{COMMANDS, Id, Keys, Names, Spec};
use super::state::SessionState;
use crate::figures::BUCKETS;
use crate::keyspace::collections::fields::Fields;
use crate::keyspace::collections::list::List;
use crate::keyspace::collections::sorted::SortedSet;
use crate::keyspace::collections::stream::Stream;
use crate::keyspace::{DATABASE_COUNT, KeySpace, Kind};
use crate::server::Server;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// TIME
pub(super) fn time(_: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    reply::array(out, 2);
    reply::bulk(out, now.as_secs().to_string().as_bytes());
    reply::bulk(out, now.subsec_micros().to_string().as_bytes());
    Ok(())
}

/// LASTSAVE
pub(super) fn last_save(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    reply::count(out, session.server.saved_at_s.load(Relaxed));
    Ok(())
}

/// HT.COMPACT
pub(super) fn compact(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    session.server.space.compact()?;
    reply::ok(out);
    Ok(())
}

/// MONITOR
pub(super) fn monitor(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    session.server.monitors.add(&session.client);
    session.client.monitors.store(true, Relaxed);
    super::acl::settle_receiver(session);
    reply::ok(out);
    Ok(())
}

/// ROLE
pub(super) fn role(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let dictionary = session.server.space.dictionary();
    if dictionary.is_some_and(|dictionary| dictionary.now().slots.topology().is_replica()) {
        return Err("ERR a replica of a topology follows no master: it reads the same dictionary".into());
    }
    reply::array(out, 3);
    reply::bulk(out, b"master");
    reply::integer(out, 0);
    reply::array(out, 0);
    Ok(())
}

/// WAIT numreplicas timeout: there are no replicas, so it waits for the whole timeout unless `numreplicas` is 0.
pub(super) fn wait(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let wanted = super::strings::integer(args.at(1))?;
    let timeout = parse_integer(args.at(2)).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout_ms = u64::try_from(timeout).map_err(|_| "ERR timeout is negative")?;
    const NEVER_MS: u64 = u32::MAX as u64;
    if wanted > 0 {
        session.sleep = Some(Duration::from_millis(if timeout_ms == 0 { NEVER_MS } else { timeout_ms.min(NEVER_MS) }));
    }
    reply::integer(out, 0);
    Ok(())
}

/// COMMAND [subcommand ...]
pub(super) fn command(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let version = session.version;
    let subcommand = args.get(1).unwrap_or_default().to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (_, 1) | (b"info", 2) => {
            reply::array(out, COMMANDS.len());
            COMMANDS.iter().for_each(|spec| describe(Unit { spec, subcommand: None }, out, version));
        }
        (b"count", 2) => reply::count(out, COMMANDS.len() as u64),
        (b"info", _) => {
            let end = reply_end(session, &args, out);
            reply::array(out, args.len() - 2);
            for name in args.from(2) {
                match find_unit(name) {
                    Some(unit) => describe(unit, out, version),
                    None => reply::null_array(out, version),
                }
                refuse_beyond(end, out)?;
            }
        }
        (b"docs", _) => {
            let end = reply_end(session, &args, out);
            docs(args, out, version, end)?;
        }
        (b"list", 2) => list(units().iter().map(Unit::name), out),
        (b"list", 5) if args.is(2, "filterby") => {
            let value = args.at(4).to_ascii_lowercase();
            let names = units().iter().map(|unit| (unit.name(), unit));
            match () {
                () if args.is(3, "pattern") => {
                    list(names.filter(|(name, _)| matches(&value, name.as_bytes())).map(|(name, _)| name), out);
                }
                () if args.is(3, "aclcat") => {
                    let category = std::str::from_utf8(&value).ok().and_then(categories::index_of);
                    let is_of = |unit: &Unit| category.is_some_and(|index| unit.categories().has(index));
                    list(names.filter(|(_, unit)| is_of(unit)).map(|(name, _)| name), out);
                }
                () if args.is(3, "module") => reply::array(out, 0),
                () => return Err(SYNTAX.into()),
            }
        }
        (b"list", _) => return Err(SYNTAX.into()),
        (b"getkeysandflags", 3..) => return get_keys(args, out, Some(version)),
        (b"getkeys", 3..) => return get_keys(args, out, None),
        (b"help", 2) => {
            let lines = [
                "(no subcommand)",
                "    Without a subcommand: describes every command.",
                "COUNT",
                "    Returns the number of commands.",
                "DOCS [<command-name> ...]",
                "    Returns the documentation of commands.",
                "GETKEYS <full-command>",
                "    Returns the keys in a command.",
                "GETKEYSANDFLAGS <full-command>",
                "    Returns the keys in a command with their access flags.",
                "INFO [<command-name> ...]",
                "    Describes these commands.",
                "LIST [FILTERBY (PATTERN <pattern>|ACLCAT <category>|MODULE <name>)]",
                "    Lists the names of the commands.",
            ];
            reply::help(out, "COMMAND", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "COMMAND")),
    }
    Ok(())
}

/// The greatest length of `out` with a reply about the commands that the arguments name. A reply about all commands has
/// no limit, since it describes each of them once.
fn reply_end(session: &SessionState, args: &Args<'_>, out: &[u8]) -> usize {
    let is_about_all = args.len() == 2;
    let most = if is_about_all { usize::MAX } else { session.server.settings.request_bytes.load(Relaxed) };
    out.len().saturating_add(most)
}

fn refuse_beyond(end: usize, out: &[u8]) -> Outcome {
    if out.len() > end { Err(REPLY_TOO_LONG.into()) } else { Ok(()) }
}

fn list(names: impl Iterator<Item = String>, out: &mut Vec<u8>) {
    let names: Vec<String> = names.collect();
    reply::array(out, names.len());
    names.iter().for_each(|name| reply::bulk(out, name.as_bytes()));
}

/// Writes a command or a subcommand as COMMAND INFO describes it.
fn describe(unit: Unit, out: &mut Vec<u8>, version: Version) {
    let Unit { spec, subcommand } = unit;
    let subcommands = if subcommand.is_none() { spec.subcommands() } else { &[] };
    // A subcommand has the key, except HELP; of MEMORY only USAGE has one.
    let has_keys = match subcommand {
        Some((name, _)) => name != "help" && (spec.id != Id::Memory || name == "usage"),
        None => subcommands.is_empty(),
    };
    reply::array(out, 10);
    reply::bulk(out, unit.name().as_bytes());
    reply::integer(out, subcommand.map_or(spec.arity, |(_, arity)| arity).into());
    let mut flags: Vec<&str> = unit.flags().names().collect();
    flags.extend((spec.counts_keys() && has_keys).then_some("movablekeys"));
    reply::set(out, flags.len(), version);
    flags.iter().for_each(|flag| reply::simple(out, flag));
    let Keys { first, last, step } = spec.keys;
    let positions = if last == 0 || !has_keys { [0; 3] } else { [first, last, step] };
    positions.into_iter().for_each(|position| reply::integer(out, position.into()));
    let categories: Vec<&str> = unit.categories().names().collect();
    reply::set(out, categories.len(), version);
    categories.iter().for_each(|name| reply::simple(out, &format!("@{name}")));
    let tips = if subcommand.is_none() { spec.tips() } else { &[] };
    reply::array(out, tips.len());
    tips.iter().for_each(|tip| reply::bulk(out, tip.as_bytes()));
    match has_keys {
        true => key_specs::describe(spec, out, version),
        false => reply::array(out, 0),
    }
    reply::array(out, subcommands.len());
    subcommands.iter().for_each(|subcommand| describe(Unit { spec, subcommand: Some(*subcommand) }, out, version));
}

fn docs(args: Args<'_>, out: &mut Vec<u8>, version: Version, end: usize) -> Outcome {
    let specs: Vec<&Spec> = match args.len() {
        2 => COMMANDS.iter().collect(),
        _ => args.from(2).filter_map(|name| Names::get().find(name)).collect(),
    };
    reply::map(out, specs.len(), version);
    for spec in specs {
        reply::bulk(out, spec.name.as_bytes());
        let pairs = [("summary", spec.summary), ("since", spec.since), ("group", spec.group), ("syntax", spec.syntax)];
        reply::map(out, pairs.len(), version);
        for (key, value) in pairs {
            reply::bulk(out, key.as_bytes());
            reply::bulk(out, value.as_bytes());
        }
        refuse_beyond(end, out)?;
    }
    Ok(())
}

/// COMMAND GETKEYS; with a version GETKEYSANDFLAGS.
fn get_keys(args: Args<'_>, out: &mut Vec<u8>, flags: Option<Version>) -> Outcome {
    let spec = Names::get().find(args.at(2)).ok_or("ERR Invalid command specified")?;
    let args = Args { spans: &args.spans[2..], ..args };
    if spec.keys.first == 0 {
        return Err("ERR The command has no key arguments".into());
    }
    if !spec.accepts(args.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let with_access = |(ordinal, index)| (index, key_specs::access_of(spec, &args, ordinal));
    let keys: Vec<(usize, Access)> = spec.key_indices(&args).enumerate().map(with_access).collect();
    if keys.iter().any(|(_, access)| access.is_no_key()) {
        return Err("ERR The command has no key arguments".into());
    }
    if spec.lacks_keys(keys.len()) {
        return Err("ERR Invalid arguments specified for command".into());
    }
    reply::array(out, keys.len());
    for (index, access) in keys {
        if let Some(version) = flags {
            reply::array(out, 2);
            reply::bulk(out, args.at(index));
            let names: Vec<&str> = access.names().collect();
            reply::set(out, names.len(), version);
            names.iter().for_each(|name| reply::simple(out, name));
        } else {
            reply::bulk(out, args.at(index));
        }
    }
    Ok(())
}

/// DEBUG SLEEP seconds: delays this connection without blocking a thread.
pub(super) fn debug(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    const SECONDS_MAX: f64 = 60.0;
    if args.len() == 3 && args.is(1, "sleep") {
        let seconds = std::str::from_utf8(args.at(2)).ok().and_then(|text| text.parse::<f64>().ok());
        let seconds = seconds.filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
        session.sleep = Some(Duration::from_secs_f64(seconds.ok_or("ERR value is not a number from 0 to 60")?));
        reply::ok(out);
        return Ok(());
    }
    if args.len() == 2 && args.is(1, "help") {
        let lines = ["SLEEP <seconds>", "    Makes this connection sleep without blocking the others."];
        reply::help(out, "DEBUG", &lines);
        return Ok(());
    }
    Err(Refusal::unknown_subcommand(&args, "DEBUG"))
}

const IN_MEMORY: &str =
    "ERR nothing to save: the keys of this server are in memory only. Start it with --file to keep them";
const READ_ONLY: &str = "ERR nothing to save: this server reads a dictionary, and changes nothing";

fn nothing_to_save(server: &Server) -> Refusal {
    if server.space.dictionary().is_some() { READ_ONLY.into() } else { IN_MEMORY.into() }
}

/// SAVE
pub(super) fn save(session: &mut SessionState, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let server = &session.server;
    if !server.space.in_file() {
        return Err(nothing_to_save(server));
    }
    if !server.save()? {
        return Err("ERR Background save already in progress".into());
    }
    reply::ok(out);
    Ok(())
}

/// `BGSAVE [SCHEDULE]`
pub(super) fn begin_save(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let server = &session.server;
    if args.len() > 2 || args.len() == 2 && !args.is(1, "schedule") {
        return Err(SYNTAX.into());
    }
    if !server.space.in_file() {
        return Err(nothing_to_save(server));
    }
    if server.saving.load(Relaxed) {
        return Err("ERR Background save already in progress".into());
    }
    let saver = server.clone();
    let run = move || {
        if let Err(error) = saver.save() {
            tracing::error!(%error, "checkpoint failed");
        }
    };
    std::thread::Builder::new().name("save".into()).spawn(run).map_err(|error| format!("ERR no thread: {error}"))?;
    reply::simple(out, "Background saving started");
    Ok(())
}

/// SHUTDOWN: no reply, unless it is refused.
pub(super) fn shutdown(session: &mut SessionState, args: Args<'_>, _: &mut Vec<u8>) -> Outcome {
    for index in 1..args.len() {
        if args.is(index, "abort") {
            return Err("ERR No shutdown in progress.".into());
        }
        if !["nosave", "save", "now", "force"].iter().any(|word| args.is(index, word)) {
            return Err(SYNTAX.into());
        }
    }
    session.closing = true;
    session.server.shutdown.notify_one();
    Ok(())
}

/// MEMORY subcommand ...
pub(super) fn memory(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    /// Estimated overhead of a pair: its slot, its lengths, and a share of the page's free space.
    const OVERHEAD_BYTES: usize = 24;
    let args = call.args;
    if args.is(1, "usage") && (args.len() == 3 || args.len() == 5 && args.is(3, "samples")) {
        if args.len() == 5 {
            parse_integer(args.at(4)).ok_or(super::call::NOT_AN_INTEGER)?;
        }
        let key = args.at(2);
        let attributes = turn.attributes(call.database, key)?.unwrap_or_default();
        // For a dictionary, report only the record's bytes.
        let overhead = if turn.space().dictionary().is_some() { 0 } else { OVERHEAD_BYTES };
        let head = attributes.stored_bytes();
        let len = match attributes.kind {
            Kind::String => turn.value_len(call.database, key)?,
            kind => Some(collection_bytes(turn, call.database, key, kind)?),
        };
        match len {
            Some(len) => reply::count(call.out, (key.len() + len + overhead + head) as u64),
            None => reply::null(call.out, call.version),
        }
        return Ok(());
    }
    if args.is(1, "doctor") && args.len() == 2 {
        reply::bulk(call.out, b"Sam, I detected no issues: INFO memory has the figures.");
        return Ok(());
    }
    if args.is(1, "stats") && args.len() == 2 {
        memory_stats(turn.space(), call);
        return Ok(());
    }
    if args.is(1, "malloc-stats") && args.len() == 2 {
        reply::text(call.out, "Stats not supported for the current allocator", call.version);
        return Ok(());
    }
    if args.is(1, "purge") && args.len() == 2 {
        turn.space().return_free_memory();
        reply::ok(call.out);
        return Ok(());
    }
    if args.is(1, "help") && args.len() == 2 {
        let lines = [
            "MALLOC-STATS",
            "    Reports that the allocator has no statistics.",
            "PURGE",
            "    Accepted; freed memory is returned without a request.",
            "STATS",
            "    Returns memory statistics.",
            "USAGE <key> [SAMPLES <count>]",
            "    Returns the bytes that a key and its value take.",
        ];
        reply::help(call.out, "MEMORY", &lines);
        return Ok(());
    }
    Err(Refusal::unknown_subcommand(&args, "MEMORY"))
}

/// MEMORY STATS, under Redis's names.
fn memory_stats(space: &KeySpace, call: &mut Call<'_, '_>) {
    let (used, dataset, resident) = (space.used_bytes(), space.payload_bytes(), super::info::resident_bytes());
    let (peak, active) = (space.events.memory_peak.fetch_max(used, Relaxed).max(used), space.table_bytes());
    let databases: Vec<usize> = (0..DATABASE_COUNT).filter(|database| space.len(*database) > 0).collect();
    let keys: u64 = databases.iter().map(|database| space.len(*database)).sum();
    let numbers = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", 0),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", 0),
        ("functions.caches", 0),
        ("overhead.total", used.saturating_sub(dataset)),
        ("keys.count", keys),
        ("keys.bytes-per-key", used / keys.max(1)),
        ("dataset.bytes", dataset),
        ("allocator.allocated", used),
        ("allocator.active", active),
        ("allocator.resident", resident),
        ("allocator-fragmentation.bytes", active.saturating_sub(used)),
        ("allocator-rss.bytes", resident.saturating_sub(active)),
        ("rss-overhead.bytes", 0),
        ("fragmentation.bytes", resident.saturating_sub(used)),
    ];
    let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let ratios = [
        ("dataset.percentage", 100.0 * ratio(dataset, used)),
        ("peak.percentage", 100.0 * ratio(used, peak)),
        ("allocator-fragmentation.ratio", ratio(active, used)),
        ("allocator-rss.ratio", ratio(resident, active)),
        ("rss-overhead.ratio", 1.0),
        ("fragmentation", ratio(resident, used)),
    ];
    let (out, version) = (&mut *call.out, call.version);
    reply::map(out, numbers.len() + ratios.len() + databases.len(), version);
    for (name, bytes) in numbers {
        reply::bulk(out, name.as_bytes());
        reply::count(out, bytes);
    }
    for (name, ratio) in ratios {
        reply::bulk(out, name.as_bytes());
        reply::score(out, ratio, version);
    }
    for database in databases {
        let usage = space.table(database).map(|table| (table.usage().used_bytes, table.counters().payload_bytes));
        let (used, payload) = usage.unwrap_or_default();
        reply::bulk(out, format!("db.{database}").as_bytes());
        reply::map(out, 2, version);
        reply::bulk(out, b"overhead.hashtable.main");
        reply::count(out, used.saturating_sub(payload));
        reply::bulk(out, b"overhead.hashtable.expires");
        reply::count(out, 0);
    }
}

/// The bytes of a collection: its elements, and the overhead of its segments.
fn collection_bytes(turn: &mut Turn<'_, '_>, database: usize, key: &[u8], kind: Kind) -> Result<usize, Refusal> {
    let bytes = match kind {
        Kind::String => 0,
        Kind::List => List::open(turn, database, key)?.map_or(0, |list| list.bytes()),
        Kind::Hash | Kind::Set => Fields::open(turn, database, key, kind)?.map_or(0, |fields| fields.bytes()),
        Kind::SortedSet => SortedSet::open(turn, database, key)?.map_or(0, |set| set.bytes()),
        Kind::Stream => Stream::open(turn, database, key)?.map_or(0, |stream| stream.bytes()),
    };
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// SLOWLOG subcommand ...
pub(super) fn slow_log(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let server = &session.server;
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"get", 2 | 3) => {
            let count = match args.get(2) {
                None => 10,
                Some(text) => match parse_integer(text).ok_or(super::call::NOT_AN_INTEGER)? {
                    -1 => usize::MAX,
                    n => usize::try_from(n).map_err(|_| "ERR count should be greater than or equal to -1")?,
                },
            };
            let requests = server.slow_log.latest(count);
            reply::array(out, requests.len());
            for request in requests {
                reply::array(out, 6);
                reply::count(out, request.id);
                reply::count(out, request.at_s);
                reply::count(out, request.duration_us);
                reply::array(out, request.args.len());
                request.args.iter().for_each(|argument| reply::bulk(out, argument));
                reply::bulk(out, request.address.as_bytes());
                reply::bulk(out, request.client_name.as_bytes());
            }
        }
        (b"len", 2) => reply::count(out, server.slow_log.len() as u64),
        (b"reset", 2) => {
            server.slow_log.clear();
            reply::ok(out);
        }
        (b"help", 2) => {
            let lines = [
                "GET [<count>]",
                "    Lists slow commands, newest first: 10 by default, all with -1.",
                "LEN",
                "    Returns the number of listed commands.",
                "RESET",
                "    Clears the list.",
            ];
            reply::help(out, "SLOWLOG", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "SLOWLOG")),
    }
    Ok(())
}

/// LATENCY subcommand ...
pub(super) fn latency(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let (server, version) = (&session.server, session.version);
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"histogram", _) => {
            let specs: Vec<&Spec> = match args.len() {
                2 => COMMANDS.iter().collect(),
                _ => args.from(2).filter_map(|name| Names::get().find(name)).collect(),
            };
            let end = reply_end(session, &args, out);
            histograms(server, &specs, out, version, end)?;
        }
        (b"latest", 2) => reply::array(out, 0),
        (b"history", 3) => reply::array(out, 0),
        (b"reset", _) => {
            for figures in server.figures() {
                COMMANDS.iter().for_each(|spec| figures.of(spec.id).reset());
            }
            reply::integer(out, 0);
        }
        (b"help", 2) => {
            let lines = [
                "HISTOGRAM [COMMAND ...]",
                "    Returns a cumulative latency histogram for each command.",
                "RESET",
                "    Clears the histograms.",
            ];
            reply::help(out, "LATENCY", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "LATENCY")),
    }
    Ok(())
}

/// For each command that was called: the number of calls, and a cumulative histogram of their microseconds.
fn histograms(server: &Server, specs: &[&Spec], out: &mut Vec<u8>, version: Version, end: usize) -> Outcome {
    let figures = server.figures();
    let called = |spec: &&&Spec| figures.iter().any(|f| f.of(spec.id).calls.load(Relaxed) > 0);
    let specs: Vec<&&Spec> = specs.iter().filter(called).collect();
    reply::map(out, specs.len(), version);
    for spec in specs {
        let bucket = |index: usize| figures.iter().map(|f| f.of(spec.id).bucket(index)).sum::<u64>();
        // A microsecond counts as 2^10 ns here; shorter calls count as one microsecond.
        const FIRST: usize = 11;
        let mut steps = Vec::new();
        let mut sum: u64 = (0..FIRST).map(bucket).sum();
        if sum > 0 {
            steps.push((1u64, sum));
        }
        for index in FIRST..BUCKETS {
            if bucket(index) > 0 {
                sum += bucket(index);
                steps.push((1 << (index - FIRST + 1), sum));
            }
        }
        reply::bulk(out, spec.name.as_bytes());
        reply::map(out, 2, version);
        reply::bulk(out, b"calls");
        reply::count(out, sum);
        reply::bulk(out, b"histogram_usec");
        reply::map(out, steps.len(), version);
        for (micros, count) in steps {
            reply::count(out, micros);
            reply::count(out, count);
        }
        refuse_beyond(end, out)?;
    }
    Ok(())
}
