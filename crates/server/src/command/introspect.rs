//! Commands about the server: COMMAND, SLOWLOG, LATENCY and others. INFO is in `info.rs`.

use super::call::{Args, Call, Outcome, Refusal, SYNTAX, Turn};
use super::number::parse_integer;
use super::pattern::matches;
use super::reply::{self, Version};
use super::spec::{COMMANDS, Keys, Names, Spec};
use super::state::SessionState;
use crate::figures::BUCKETS;
use crate::keyspace::Kind;
use crate::keyspace::fields::Fields;
use crate::keyspace::list::List;
use crate::keyspace::sorted::SortedSet;
use crate::keyspace::stream::Stream;
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

/// ACL subcommand ...: there is one user, who may do everything.
pub(super) fn acl(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let groups = || {
        let mut groups: Vec<&str> = COMMANDS.iter().map(|spec| spec.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    };
    let subcommand = args.at(1).to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"whoami", 2) => reply::bulk(out, b"default"),
        (b"users", 2) => {
            reply::array(out, 1);
            reply::bulk(out, b"default");
        }
        (b"list", 2) => {
            let password = if session.server.settings.needs_password() { "" } else { "nopass " };
            reply::array(out, 1);
            reply::bulk(out, format!("user default on {password}sanitize-payload ~* &* +@all").as_bytes());
        }
        (b"cat", 2) => {
            let groups = groups();
            reply::array(out, groups.len());
            groups.iter().for_each(|group| reply::bulk(out, group.as_bytes()));
        }
        (b"cat", 3) => {
            let wanted = args.at(2);
            if !groups().iter().any(|group| wanted.eq_ignore_ascii_case(group.as_bytes())) {
                return Err(Refusal::about("ERR Unknown category '", &wanted[..wanted.len().min(128)], "'"));
            }
            list(COMMANDS.iter().filter(|spec| wanted.eq_ignore_ascii_case(spec.group.as_bytes())), out);
        }
        (b"help", 2) => {
            let lines = [
                "CAT [<category>]",
                "    The categories, or the commands of one.",
                "LIST",
                "    The rules of each user.",
                "USERS",
                "    The names of the users.",
                "WHOAMI",
                "    The user of this connection.",
            ];
            reply::help(out, "ACL", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "ACL")),
    }
    Ok(())
}

/// COMMAND [subcommand ...]
pub(super) fn command(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let version = session.version;
    let subcommand = args.get(1).unwrap_or_default().to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (_, 1) => {
            reply::array(out, COMMANDS.len());
            COMMANDS.iter().for_each(|spec| describe(spec, out, version));
        }
        (b"count", 2) => reply::count(out, COMMANDS.len() as u64),
        (b"info", 2) => {
            reply::array(out, COMMANDS.len());
            COMMANDS.iter().for_each(|spec| describe(spec, out, version));
        }
        (b"info", _) => {
            reply::array(out, args.len() - 2);
            for name in args.from(2) {
                match Names::get().find(name) {
                    Some(spec) => describe(spec, out, version),
                    None => reply::null_array(out, version),
                }
            }
        }
        (b"docs", _) => docs(args, out, version),
        (b"list", 2) => list(COMMANDS.iter(), out),
        (b"list", 5) if args.is(2, "filterby") => {
            let value = args.at(4);
            let filtered = COMMANDS.iter().filter(|spec| {
                args.is(3, "pattern") && matches(&value.to_ascii_lowercase(), spec.name.as_bytes())
                    || args.is(3, "aclcat") && value.eq_ignore_ascii_case(spec.group.as_bytes())
            });
            list(filtered, out);
        }
        (b"getkeys", 3..) => return get_keys(args, out),
        (b"help", 2) => {
            let lines = [
                "(no subcommand)",
                "    Without a subcommand: facts about every command.",
                "COUNT",
                "    How many commands there are.",
                "DOCS [<command-name> ...]",
                "    What commands are for.",
                "GETKEYS <full-command>",
                "    Which arguments of a command are keys.",
                "INFO [<command-name> ...]",
                "    Facts about these commands.",
                "LIST [FILTERBY (PATTERN <pattern>|ACLCAT <group>)]",
                "    The names of the commands.",
            ];
            reply::help(out, "COMMAND", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "COMMAND")),
    }
    Ok(())
}

fn list<'s>(specs: impl Iterator<Item = &'s Spec>, out: &mut Vec<u8>) {
    let names: Vec<&str> = specs.map(|spec| spec.name).collect();
    reply::array(out, names.len());
    names.iter().for_each(|name| reply::bulk(out, name.as_bytes()));
}

/// Writes a command as COMMAND INFO describes it.
fn describe(spec: &Spec, out: &mut Vec<u8>, version: Version) {
    reply::array(out, 10);
    reply::bulk(out, spec.name.as_bytes());
    reply::integer(out, spec.arity.into());
    let mut flags: Vec<&str> = spec.flags.names().collect();
    flags.extend(spec.counts_keys().then_some("movablekeys"));
    reply::set(out, flags.len(), version);
    flags.iter().for_each(|flag| reply::simple(out, flag));
    let Keys { first, last, step } = spec.keys;
    let positions = if spec.keys.last == 0 { [0; 3] } else { [first, last, step] };
    positions.into_iter().for_each(|position| reply::integer(out, position.into()));
    reply::set(out, 1, version);
    reply::simple(out, &format!("@{}", spec.group));
    let tips = spec.tips();
    reply::array(out, tips.len());
    tips.iter().for_each(|tip| reply::bulk(out, tip.as_bytes()));
    // Key specifications, subcommands.
    reply::array(out, 0);
    reply::array(out, 0);
}

fn docs(args: Args<'_>, out: &mut Vec<u8>, version: Version) {
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
    }
}

fn get_keys(args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let spec = Names::get().find(args.at(2)).ok_or("ERR Invalid command specified")?;
    let args = Args { spans: &args.spans[2..], ..args };
    if spec.keys.first == 0 {
        return Err("ERR The command has no key arguments".into());
    }
    if !spec.accepts(args.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let keys: Vec<usize> = spec.key_indices(&args).collect();
    reply::array(out, keys.len());
    keys.iter().for_each(|&index| reply::bulk(out, args.at(index)));
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
        let lines = ["SLEEP <seconds>", "    Let this connection wait; others go on."];
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
    if args.is(1, "help") && args.len() == 2 {
        let lines = ["USAGE <key> [SAMPLES <count>]", "    The bytes of a key and its value."];
        reply::help(call.out, "MEMORY", &lines);
        return Ok(());
    }
    Err(Refusal::unknown_subcommand(&args, "MEMORY"))
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
                "    The slowest commands, newest first; 10 if not given, -1 for all.",
                "LEN",
                "    How many commands are listed.",
                "RESET",
                "    Forgets the listed commands.",
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
            histograms(server, &specs, out, version);
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
                "    How many calls of each command took up to which time.",
                "RESET",
                "    Forget the histograms.",
            ];
            reply::help(out, "LATENCY", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "LATENCY")),
    }
    Ok(())
}

/// For each command that was called: the number of calls, and a cumulative histogram of their microseconds.
fn histograms(server: &Server, specs: &[&Spec], out: &mut Vec<u8>, version: Version) {
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
    }
}
