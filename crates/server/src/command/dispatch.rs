//! The function that executes each command, and EXEC, which executes the queued commands.

use super::acl::{self, Context};
use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, Turn};
use super::collection::{self, Command};
use super::edit::Plan;
use super::geo::Form;
use super::hashes::Parts;
use super::reply;
use super::sets::Operation;
use super::sorted_sets::{By, Extreme};
use super::spec::{Flags, Id, Spec};
use super::state::SessionState;
use super::table::rows;
use super::{
    bits, blocking, client, cluster, config, connection, dump, edit, events, extensions, field_lifetimes, geo, hashes,
    hyperloglog, info, introspect, keys, lcs, lifetime, lists, migrate, pubsub, script, sets, sort, sorted_operations,
    sorted_sets, stats, stream_groups, stream_info, streams, strings,
};
use crate::blocked::Wanted;
use crate::clients::Subscription;
use crate::keyspace::collections::list::End;
use crate::keyspace::{Exclusive, KeySpace, Kind};
use std::sync::atomic::Ordering::*;

/// Keys that the current transaction has added (`true`) or removed (`false`).
type StagedKeys = [(Vec<u8>, bool)];

/// The function that executes a command, by what it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handler {
    /// The session and the server.
    Session(fn(&mut SessionState, Args<'_>, &mut Vec<u8>) -> Outcome),
    /// The tables, without the gate, and the keys that the current transaction has added or removed.
    Scan(fn(&KeySpace, &mut Call<'_, '_>, &StagedKeys) -> Outcome),
    /// The key space, shared with other threads.
    Lookup(fn(&mut Turn<'_, '_>, &mut Call<'_, '_>) -> Outcome),
    /// Collections as of one moment, with exclusive entry.
    LookupMany(fn(&mut Turn<'_, '_>, &mut Call<'_, '_>) -> Outcome),
    /// The value of the first argument: returns what to do with it, given the time now.
    Edit(for<'a> fn(&Call<'_, 'a>, u64) -> Result<Plan<'a>, Refusal>),
    /// A collection: in place under the latch of its key if it is small, else with exclusive entry.
    Collection(Command),
    /// The key space, exclusive.
    Change(fn(&mut Exclusive<'_>, &mut Call<'_, '_>) -> Outcome),
    /// The session, and the key space, exclusive.
    Transaction(fn(&mut SessionState, &mut Exclusive<'_>, Args<'_>, &mut Vec<u8>) -> Outcome),
}

macro_rules! handlers {
    ($($id:ident $name:literal $arity:literal [$($flag:ident)*] ($first:literal $last:literal $step:literal)
        $group:literal $since:literal $syntax:literal $summary:literal $class:ident($handler:expr);)*) => {
        /// Indexed by [`Id`].
        const HANDLERS: &[Handler] = &[$(Handler::$class($handler)),*];
    };
}

rows!(handlers);

impl Handler {
    /// The handler of a command.
    #[inline]
    pub(crate) fn of(id: Id) -> Handler {
        HANDLERS[id as usize]
    }
}

/// EXEC: the queued commands as one change.
fn exec(session: &mut SessionState, alone: &mut Exclusive<'_>, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
    session.executing = true;
    let outcome = exec_queued(session, alone, out);
    session.executing = false;
    outcome
}

fn exec_queued(session: &mut SessionState, alone: &mut Exclusive<'_>, out: &mut Vec<u8>) -> Outcome {
    let Some(transaction) = session.transaction.take() else { return Err("ERR EXEC without MULTI".into()) };
    let changed = alone.unwatch(&mut session.watch)?;
    if transaction.refused {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if transaction.is_across_slots {
        return Err(cluster::CROSS_SLOT.into());
    }
    if changed {
        reply::null_array(out, session.version);
        return Ok(());
    }
    if transaction.commands().any(|(spec, _)| spec.flags.has(Flags::DENYOOM)) {
        alone.make_room(transaction.bytes.len()).map_err(|error| Refusal::from(error).of_exec())?;
    } else if transaction.commands().any(|(spec, _)| matches!(spec.id, Id::Eval | Id::EvalSha)) {
        script::make_room(alone, transaction.bytes.len())?;
    }
    alone.begin_many();
    let has_begun = alone.has_begun();
    let (start, reply_bytes_max) = (out.len(), session.server.settings.request_bytes.load(Relaxed));
    reply::array(out, transaction.len());
    for (spec, args) in transaction.commands() {
        let before = out.len();
        session.feed_monitors(spec, &args, &session.client.address);
        session.track(spec, &args);
        // The rules may have changed since it was queued.
        let permitted = acl::permit(session, spec, &args, Context::Multi);
        let outcome = permitted.and_then(|()| execute_within(session, alone, spec, args, out));
        if has_begun && !alone.has_begun() {
            return Err("ERR the server stops; nothing was changed".into());
        }
        // Without a limit, a transaction that reads large values again and again could take any amount of memory.
        events::report(&session.server.notices, alone, spec.id, &args, session.client.id);
        let too_long = out.len() - start > reply_bytes_max;
        if let Err(refusal) = if too_long { Err(REPLY_TOO_LONG.into()) } else { outcome } {
            session.figures.of(spec.id).failed.fetch_add(1, Relaxed);
            out.truncate(before);
            session.refuse(out, &refusal);
        }
    }
    // A delay inside EXEC would delay other clients.
    session.sleep = None;
    // If the commit fails, nothing was stored, and the error replaces all replies.
    Ok(alone.commit_many()?)
}

/// Executes a command within EXEC or a script, while the gate is closed.
pub(super) fn execute_within(
    session: &mut SessionState,
    alone: &mut Exclusive<'_>,
    spec: &'static Spec,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    match Handler::of(spec.id) {
        Handler::Session(_) if matches!(spec.id, Id::SSubscribe | Id::Monitor | Id::Migrate) => {
            let article = if spec.id == Id::SSubscribe { "a " } else { "" };
            let name = spec.name.to_uppercase();
            Err(format!("ERR {name} isn't allowed for {article}DENY BLOCKING client").into())
        }
        Handler::Session(execute) => execute(session, args, out),
        Handler::Scan(_) if spec.id == Id::DbSize => {
            alone.len(session.database).map(|len| reply::count(out, len)).map_err(Refusal::from)
        }
        Handler::Scan(execute) => {
            let staged = if spec.id == Id::Keys { alone.staged_keys(session.database)? } else { Vec::new() };
            execute(&session.server.space, &mut session.call(args, out), &staged)
        }
        Handler::Lookup(execute) | Handler::LookupMany(execute) => {
            execute(&mut Turn::Alone(alone), &mut session.call(args, out))
        }
        Handler::Edit(plan) => {
            let mut call = session.call(args, out);
            plan(&call, alone.now_ms()).and_then(|plan| edit::execute(alone, &mut call, &plan))
        }
        Handler::Collection(command) => collection::execute(alone, command, &mut session.call(args, out)),
        Handler::Change(execute) => execute(alone, &mut session.call(args, out)),
        Handler::Transaction(execute) => execute(session, alone, args, out),
    }
}
