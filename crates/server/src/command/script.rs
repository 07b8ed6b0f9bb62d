//! EVAL, SCRIPT and their family.
//!
//! A script runs while the gate is closed, so it is atomic for all other clients; in a file its changes are one batch,
//! which is stored whole or not at all. As in Redis, what a script has changed before it fails stays changed. At the
//! memory limit, keys are evicted before and after a script over a file; in memory, before each of its writes.

use super::acl::{self, Context};
use super::call::{Args, Outcome, Refusal};
use super::info::REDIS_VERSION;
use super::number::parse_integer;
use super::reply::{self, Version};
use super::spec::{self, Flags, Id, Names, Spec};
use super::state::SessionState;
use super::{cluster, events};
use crate::command::call::Span;
use crate::keyspace::{Exclusive, SpaceError};
use crate::scripts::{COMMAND_TOO_LONG, Commands, Compiled, Engine, Script};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::*;

const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
                          either wait the script termination or kill the server in a hard way using the SHUTDOWN \
                          NOSAVE command.";
pub(crate) const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Executes a command within a script.
type Execute = fn(&mut SessionState, &mut Exclusive<'_>, &'static Spec, Args<'_>, &mut Vec<u8>) -> Outcome;

/// EVAL, EVAL_RO, EVALSHA, EVALSHA_RO script numkeys [key ...] [argument ...]
pub(super) fn eval(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    args: Args<'_>,
    out: &mut Vec<u8>,
    [by_name, read_only]: [bool; 2],
    execute: Execute,
) -> Outcome {
    let server = session.server.clone();
    let begun = server.scripts.running.begin();
    let number = parse_integer(args.at(2)).ok_or(super::call::NOT_AN_INTEGER)?;
    let number = usize::try_from(number).map_err(|_| "ERR Number of keys can't be negative")?;
    if number > args.len() - 3 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let scripts = &server.scripts;
    let script = match by_name {
        true => scripts.find(args.at(1)).ok_or(NO_SCRIPT)?,
        false => scripts.of(args.at(1)),
    };
    let read_only = match flags_of(&script.body)? {
        Some(false) if read_only => {
            return Err("ERR Can not execute a script with write flag using *_ro command.".into());
        }
        flags => flags.unwrap_or(read_only),
    };
    let words: Vec<&[u8]> = args.from(3).collect();
    let (keys, arguments) = words.split_at(number);
    let mut slot = server.scripts.engine.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = compile(&mut slot, session, &script)?;
    let engine = engine_of(&mut slot, session)?;
    if !by_name {
        server.scripts.add(&script, false);
    }
    // Within EXEC the transaction has made room.
    if !session.executing && !read_only {
        make_room(alone, words.iter().map(|word| word.len()).sum())?;
    }
    let (database, version) = (session.database, session.version);
    // As in EXEC, no command waits.
    let executing = std::mem::replace(&mut session.executing, true);
    session.in_script = true;
    let nested = alone.has_begun();
    alone.begin_many();
    let bytes_max = session.server.settings.request_bytes.load(Relaxed);
    let mut commands = Caller { session, alone, read_only, execute };
    let outcome = engine.run((&script, compiled), [keys, arguments], &mut commands, (out, version, bytes_max));
    drop(begun);
    drop_worn(&mut slot);
    drop(slot);
    server.note_script_bytes();
    (session.database, session.version, session.executing) = (database, version, executing);
    session.in_script = false;
    session.client.database.store(database as u8, Relaxed); // below 16
    session.sleep = None;
    if server.scripts.running.stops() {
        alone.roll_back();
    } else if !nested {
        // Within EXEC the changes are part of its transaction.
        alone.commit_many()?;
    }
    outcome.map_err(|text| Refusal::Text(text.into()))
}

/// Evicts keys before a script. If too few can be evicted, the script may still read; its writes are refused.
pub(super) fn make_room(alone: &mut Exclusive<'_>, bytes: usize) -> Result<(), Refusal> {
    match alone.make_room(bytes) {
        Err(SpaceError::MemoryLimit) => Ok(()),
        room => Ok(room?),
    }
}

/// The commands, as the script of a session calls them.
struct Caller<'s, 'k> {
    session: &'s mut SessionState,
    alone: &'s mut Exclusive<'k>,
    read_only: bool,
    execute: Execute,
}

impl Commands for Caller<'_, '_> {
    fn call(&mut self, words: &[Vec<u8>], is_resp3: bool) -> Vec<u8> {
        self.session.version = if is_resp3 { Version::Resp3 } else { Version::Resp2 };
        let mut reply = Vec::new();
        let how = (self.read_only, self.execute);
        if let Err(refusal) = call_command(self.session, self.alone, words, &mut reply, how) {
            reply.clear();
            refusal.note(&self.session.server.space);
            reply::error(&mut reply, refusal.text());
        }
        reply
    }

    fn may_call(&mut self, words: &[Vec<u8>]) -> Option<bool> {
        let (request, spans) = joined(words);
        let args = Args { request: &request, spans: &spans };
        let spec = Names::get().find(args.at(0))?;
        spec.subcommand(&args).ok()?;
        Some(acl::allows(self.session, spec, &args))
    }
}

/// Words as one request, and the location of each.
fn joined(words: &[Vec<u8>]) -> (Vec<u8>, Vec<Span>) {
    let mut end = 0;
    let spans = words.iter().map(|word| {
        end += word.len();
        Span::of(end - word.len()..end)
    });
    let spans = spans.collect();
    (words.concat(), spans)
}

/// Returns the Lua state. The first call creates it.
fn engine_of<'s>(slot: &'s mut Option<Engine>, session: &SessionState) -> Result<&'s mut Engine, Refusal> {
    if slot.is_none() {
        *slot = Some(Engine::new(session.server.scripts.running.clone(), REDIS_VERSION)?);
    }
    slot.as_mut().ok_or_else(|| "ERR there is no Lua".into())
}

/// Compiles a script. If that fails, tries again with all the memory that a script may take.
fn compile(slot: &mut Option<Engine>, session: &SessionState, script: &Script) -> Result<Compiled, Refusal> {
    let mut outcome = engine_of(slot, session)?.compile(script);
    if outcome.is_err() {
        // This also collects the garbage of a state that is kept.
        drop_worn(slot);
        outcome = engine_of(slot, session)?.compile(script);
    }
    if outcome.is_err() {
        drop_worn(slot);
    }
    outcome.map_err(|text| Refusal::Text(text.into()))
}

/// Drops the Lua state if a new one should replace it.
fn drop_worn(slot: &mut Option<Engine>) {
    if slot.as_ref().is_some_and(Engine::is_worn) {
        *slot = None;
    }
}

/// Whether the first line of a script says that it does not write; `None` if it says nothing.
fn flags_of(body: &[u8]) -> Result<Option<bool>, Refusal> {
    const KNOWN: [&str; 5] = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];
    if !body.starts_with(b"#!") {
        return Ok(None);
    }
    let end = body.iter().position(|&byte| byte == b'\n').ok_or("ERR Invalid script shebang")?;
    let line = String::from_utf8_lossy(&body[..end]);
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if engine != "#!lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {engine}").into());
    }
    let mut read_only = false;
    for word in words {
        let flags = word.strip_prefix("flags=").ok_or(format!("ERR Unknown lua shebang option: {word}"))?;
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            if !KNOWN.contains(&flag) {
                return Err(format!("ERR Unexpected flag in script shebang: {flag}").into());
            }
            read_only |= flag == "no-writes";
        }
    }
    Ok(Some(read_only))
}

/// Executes a command for a script.
fn call_command(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    words: &[Vec<u8>],
    out: &mut Vec<u8>,
    (read_only, execute): (bool, Execute),
) -> Outcome {
    /// Over a file a script's changes are kept in memory until it ends.
    const STAGED_BYTES_MAX: usize = 256 << 20;
    let bytes: usize = words.iter().map(Vec::len).sum();
    if bytes > session.server.settings.request_bytes.load(Relaxed) {
        return Err(COMMAND_TOO_LONG.into());
    }
    let (request, spans) = joined(words);
    let args = Args { request: &request, spans: &spans };
    let spec = Names::get().find(args.at(0)).ok_or("ERR Unknown Redis command called from script")?;
    let arity_fits = spec.subcommand(&args)?.is_none_or(|(_, arity)| spec::fits(arity, args.len()));
    if !spec.accepts(args.len()) || !arity_fits {
        return Err("ERR Wrong number of args calling Redis command from script".into());
    }
    if spec.flags.has(Flags::NOSCRIPT) {
        return Err("ERR This Redis command is not allowed from script".into());
    }
    acl::permit(session, spec, &args, Context::Lua)?;
    // Redis counts these as writes, since it may send them to replicas.
    let may_replicate = matches!(spec.id, Id::Publish | Id::SPublish | Id::PfCount);
    if read_only && (may_replicate || spec.flags.has(Flags::WRITE)) {
        return Err("ERR Write commands are not allowed from read-only scripts.".into());
    }
    if let Some(dictionary) = session.server.space.dictionary() {
        cluster::admit(session, dictionary, spec, &args)?;
    }
    if spec.flags.has(Flags::DENYOOM) {
        alone.make_room(bytes)?;
        if alone.staged_bytes() > STAGED_BYTES_MAX {
            return Err("ERR the script changes more than 256 MiB; over a file that needs several scripts".into());
        }
    }
    if spec.flags.has(Flags::WRITE) && !session.server.scripts.running.note_write() {
        return Err("ERR the script was killed".into());
    }
    session.feed_monitors(spec, &args, "lua");
    session.track(spec, &args);
    let outcome = execute(session, alone, spec, args, out);
    events::report(&session.server.notices, alone, spec.id, &args, session.client.id);
    session.figures.note(spec.id, 1, 0);
    if outcome.is_err() {
        session.figures.of(spec.id).failed.fetch_add(1, Relaxed);
    }
    outcome
}

/// SCRIPT subcommand ...
pub(super) fn script(session: &mut SessionState, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    let scripts = &session.server.scripts;
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"load", 3) => {
            flags_of(args.at(2))?;
            let script = scripts.of(args.at(2));
            // If a running script has the state, the script is compiled when it first runs.
            if let Ok(mut slot) = scripts.engine.try_lock() {
                compile(&mut slot, session, &script).map(drop)?;
                // The compiled scripts may leave too little memory to run one.
                drop_worn(&mut slot);
            }
            if !scripts.add(&script, true) {
                return Err("ERR the loaded scripts take too much memory; remove them with SCRIPT FLUSH".into());
            }
            session.server.note_script_bytes();
            reply::bulk(out, script.name.as_bytes());
        }
        (b"exists", 3..) => {
            reply::array(out, args.len() - 2);
            args.from(2).for_each(|name| reply::integer(out, scripts.find(name).is_some().into()));
        }
        (b"flush", 2 | 3) => {
            if args.len() == 3 && !args.is(2, "sync") && !args.is(2, "async") {
                return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
            }
            scripts.clear();
            session.server.note_script_bytes();
            session.server.space.return_free_memory();
            reply::ok(out);
        }
        (b"kill", 2) => {
            if scripts.running.elapsed().is_none() {
                return Err("NOTBUSY No scripts in execution right now.".into());
            }
            if !scripts.running.kill() {
                return Err(UNKILLABLE.into());
            }
            reply::ok(out);
        }
        (b"help", 2) => {
            let lines = [
                "EXISTS <sha1> [<sha1> ...]",
                "    Tests which of these scripts are cached.",
                "FLUSH [ASYNC|SYNC]",
                "    Empties the script cache.",
                "KILL",
                "    Stops the running script, unless it has written.",
                "LOAD <script>",
                "    Caches a script for EVALSHA.",
            ];
            reply::help(out, "SCRIPT", &lines);
        }
        _ => return Err(Refusal::unknown_subcommand(&args, "SCRIPT")),
    }
    Ok(())
}
