//! Runs of changes: requests of one command that one call of the table executes together, and their replies.
//!
//! A run that fails in the middle is answered up to the failure, and the rest is another run. Changes of large
//! collections are the exception (`change_run`): they are of several commands and keys, and over a file one batch.

use super::{OUTPUT_BYTES, RUN_MAX, RespSession};
use crate::command::call::{Args, Refusal, Turn};
use crate::command::collection::{self, Collection};
use crate::command::dispatch::Handler;
use crate::command::edit::Plan;
use crate::command::events;
use crate::command::reply;
use crate::command::spec::{Id, Spec};
use crate::command::strings;
use crate::keyspace::{self, Attributes, Edit, Exclusive, New, Old, PairsMut, SHORT_VALUE_BYTES, Shared, SpaceError};
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

impl RespSession {
    /// Answers SETs, up to the first that needs exclusive entry. Returns how many; `None` if the first does.
    pub(super) fn set_run<'a, const MOST: usize>(
        &mut self,
        shared: &Shared<'_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut pairs: [(&[u8], &[u8]); MOST] = [(&[], &[]); MOST];
        let count = pairs_of(args, &mut pairs);
        let stored = shared.put_many(self.state.database, &pairs[..count], |_| Attributes::NONE);
        self.end_stores(stored, count, out)
    }

    /// Answers the first of `count` requests that stored their pairs. Returns how many; `None` if the first must be
    /// answered by itself.
    fn end_stores(&mut self, stored: (usize, keyspace::Result<()>), count: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.unsynced |= stored.0 > 0;
        let done = keyspace::answerable(stored, count);
        (0..done).for_each(|_| reply::ok(out));
        (done > 0).then_some(done)
    }

    /// [`set_run`](Self::set_run) with exclusive entry.
    pub(super) fn set_run_alone<'a>(
        &mut self,
        alone: &mut Exclusive<'_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut pairs: [(&[u8], &[u8]); RUN_MAX] = [(&[], &[]); RUN_MAX];
        let count = pairs_of(args, &mut pairs);
        self.unsynced = true;
        alone.make_room(pairs[..count].iter().map(|(_, value)| value.len()).sum()).ok()?;
        let stored = alone.put_many(self.state.database, &pairs[..count], |_| Attributes::NONE);
        events::report_run(&self.state.server.notices, alone, "set", self.state.client.id);
        self.end_stores(stored, count, out)
    }

    /// Answers APPENDs up to the first with an invalid option. Returns how many; `None` if they must be answered one by
    /// one.
    pub(super) fn append_run<'a>(
        &mut self,
        turn: Turn<'_, '_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let value_bytes_max = self.state.server.settings.bulk_bytes.load(Relaxed);
        let mut pairs: [(&[u8], &[u8]); RUN_MAX] = [(&[], &[]); RUN_MAX];
        let mut limits = [value_bytes_max; RUN_MAX];
        let mut count = 0;
        for args in args {
            let Ok(limit) = strings::append_limit(&args, value_bytes_max) else { break };
            (pairs[count], limits[count]) = ((args.at(1), args.at(2)), limit);
            count += 1;
        }
        let (before, mut done) = (out.len(), 0);
        let figures = &self.state.figures;
        let take = |index: usize, len: Option<usize>| {
            match len {
                Some(len) => reply::count(out, len as u64),
                None => {
                    let refusal = strings::too_long(limits[index], value_bytes_max);
                    reply::error(out, refusal.text());
                    figures.note_failures(Id::Append, &refusal.text(), 1);
                }
            }
            done = index + 1;
        };
        let (pairs, limit) = (&pairs[..count], |index: usize| limits[index]);
        let appended = match turn {
            Turn::Shared(shared) => shared.append_many(self.state.database, pairs, limit, take),
            Turn::Alone(alone) => {
                if alone.make_room(pairs.iter().map(|(_, tail)| tail.len()).sum()).is_err() {
                    // Answer them one by one instead, each with its own error.
                    return None;
                }
                let appended = alone.append_many(self.state.database, pairs, limit, take).map(|()| true);
                events::report_run(&self.state.server.notices, alone, "append", self.state.client.id);
                appended
            }
        };
        self.end_run(appended, done, count, before, out)
    }

    /// Answers edits up to the first with an invalid argument, or that needs exclusive entry. Returns how many; `None`
    /// if the first must be answered by itself.
    pub(super) fn edit_run<'a>(
        &mut self,
        shared: &Shared<'_>,
        id: Id,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let (mut keys, mut plans): ([&[u8]; RUN_MAX], _) = ([&[]; RUN_MAX], [None; RUN_MAX]);
        let count = self.plans_of(id, shared.now_ms(), args, &mut keys, &mut plans);
        let (keys, plans) = (&keys[..count], &plans[..count]);
        let before = out.len();
        if let Some((pairs, attributes)) = stores_of(keys, plans) {
            let stored = shared.put_many(self.state.database, &pairs[..count], |index| attributes[index]);
            return self.end_stores(stored, count, out);
        }
        let new_bytes = || plans.iter().flatten().map(Plan::new_bytes);
        let bytes = (SHORT_VALUE_BYTES + new_bytes().max().unwrap_or(0), new_bytes().sum());
        let (now_ms, version) = (shared.now_ms(), self.state.version);
        // The request that was begun last, and where its reply begins.
        let mut begun = (0, before);
        let figures = &self.state.figures;
        let edit = |index: usize, old: Option<Old<'_>>, new: &mut New<'_>| {
            begun = (index, out.len());
            let Some(plan) = &plans[index] else { return Edit::Alone };
            plan.apply(old, new, now_ms, version, out).unwrap_or_else(|refusal| {
                reply::error(out, refusal.text());
                figures.note_failures(id, &refusal.text(), 1);
                Edit::Keep
            })
        };
        let (done, outcome) = shared.edit_many(self.state.database, keys, bytes, edit);
        if begun.0 == done {
            // It was not executed.
            out.truncate(begun.1);
        }
        self.end_run(outcome.map(|()| true), done, count, before, out)
    }

    /// Answers edits that store values unconditionally, with exclusive entry; `None` if there are others, or
    /// if each must be reported separately.
    pub(super) fn store_run_alone<'a>(
        &mut self,
        alone: &mut Exclusive<'_>,
        id: Id,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let (mut keys, mut plans): ([&[u8]; RUN_MAX], _) = ([&[]; RUN_MAX], [None; RUN_MAX]);
        if alone.is_observed() {
            return None;
        }
        let count = self.plans_of(id, alone.now_ms(), args, &mut keys, &mut plans);
        let (pairs, attributes) = stores_of(&keys[..count], &plans[..count])?;
        self.unsynced = true;
        alone.make_room(pairs[..count].iter().map(|(_, value)| value.len()).sum()).ok()?;
        let stored = alone.put_many(self.state.database, &pairs[..count], |index| attributes[index]);
        self.end_stores(stored, count, out)
    }

    /// The keys and plans of requests, up to the first that is refused. Returns how many.
    fn plans_of<'a>(
        &mut self,
        id: Id,
        now_ms: u64,
        args: impl Iterator<Item = Args<'a>>,
        keys: &mut [&'a [u8]; RUN_MAX],
        plans: &mut [Option<Plan<'a>>; RUN_MAX],
    ) -> usize {
        let Handler::Edit(plan_of) = Handler::of(id) else { return 0 };
        let (mut count, mut unused) = (0, Vec::new());
        for args in args {
            let Ok(plan) = plan_of(&self.state.call(args, &mut unused), now_ms) else { break };
            (keys[count], plans[count]) = (args.at(1), Some(plan));
            count += 1;
        }
        count
    }

    /// Answers DELs of one key each. Returns how many; `None` if they must be answered one by one.
    pub(super) fn remove_run<'a>(
        &mut self,
        shared: &Shared<'_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut keys: [&[u8]; RUN_MAX] = [&[]; RUN_MAX];
        let mut count = 0;
        for (slot, args) in keys.iter_mut().zip(args) {
            *slot = args.at(1);
            count += 1;
        }
        let (before, mut done) = (out.len(), 0);
        let removed = shared.remove_many(self.state.database, &keys[..count], |index, was_present| {
            reply::integer(out, was_present.into());
            done = index + 1;
        });
        self.end_run(removed, done, count, before, out)
    }

    /// Executes changes of small collections in place, up to the first that needs exclusive entry. Returns how many;
    /// `None` if the first does.
    pub(super) fn collection_run<'a>(
        &mut self,
        shared: &Shared<'_>,
        commands: impl Iterator<Item = (Option<&'static Spec>, Args<'a>)>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        // The latch of a bucket is held for the whole command.
        const ARGS_MAX: usize = 64;
        const ARGS_BYTES_MAX: usize = 4096;
        // A little more than the values of small collections, and of streams, which are longer.
        const VALUE_BYTES_MAX: usize = 640;
        const STREAM_BYTES_MAX: usize = 1280;
        let (mut keys, mut args_of, mut count): ([&[u8]; RUN_MAX], [_; RUN_MAX], _) =
            ([&[]; RUN_MAX], [None; RUN_MAX], 0);
        let (mut value_bytes_max, mut bytes) = (VALUE_BYTES_MAX, 0);
        for (spec, args) in commands {
            let Some((spec, Handler::Collection(command))) = spec.map(|spec| (spec, Handler::of(spec.id))) else {
                break;
            };
            let args_bytes = args.from(1).map(<[u8]>::len).sum::<usize>();
            if args.len() > ARGS_MAX || args_bytes > ARGS_BYTES_MAX {
                break;
            }
            if spec.group == "stream" {
                value_bytes_max = STREAM_BYTES_MAX;
            }
            bytes += args_bytes;
            (keys[count], args_of[count]) = (args.at(1), Some((spec.id, command, args)));
            count += 1;
        }
        let before = out.len();
        // The command that was begun last, and where its reply begins.
        let mut begun = (0, before);
        let state = &self.state;
        let change = |index: usize, pairs: &mut dyn PairsMut| {
            begun = (index, out.len());
            let Some((id, command, args)) = args_of[index] else { return Err(SpaceError::Alone) };
            match collection::execute(pairs, command, &mut state.call(args, out)) {
                Ok(()) => Ok(true),
                Err(Refusal::Space(SpaceError::Alone)) => Err(SpaceError::Alone),
                Err(refusal) => {
                    out.truncate(begun.1);
                    state.figures.of(id).failed.fetch_add(1, Relaxed);
                    state.refuse(out, &refusal);
                    Ok(false)
                }
            }
        };
        let (done, outcome) = shared.change_many(self.state.database, &keys[..count], (value_bytes_max, bytes), change);
        if begun.0 == done {
            // It was not executed.
            out.truncate(begun.1);
        }
        if done == 0 && outcome.is_ok() {
            return None;
        }
        self.end_run(outcome.map(|()| true), done, count, before, out)
    }

    /// Executes changes of collections with one exclusive entry, over a file as one change, until the output is long
    /// or the time is up. Returns how many; `None` if they must be executed one by one.
    pub(super) fn change_run<'a>(
        &mut self,
        alone: &mut Exclusive<'_>,
        commands: impl Iterator<Item = (Option<&'static Spec>, Args<'a>)> + Clone,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        // Other clients wait for all of them. Staged values are copies.
        const BYTES_MAX: usize = 1 << 18;
        const TIME_MAX: Duration = Duration::from_micros(400);
        let bytes = commands.clone().flat_map(|(_, args)| args.from(1)).map(<[u8]>::len).sum();
        if bytes > BYTES_MAX || !alone.allows_runs(bytes) {
            return None;
        }
        let (start, mut ids, since) = (out.len(), [None; RUN_MAX], Instant::now());
        let is_over = |out: &Vec<u8>| out.len() > OUTPUT_BYTES || since.elapsed() > TIME_MAX;
        let mut commands = commands.map_while(|(spec, args)| {
            let spec = spec?;
            let Handler::Collection(command) = Handler::of(spec.id) else { return None };
            Some((spec, command, args))
        });
        let (mut done, mut next) = (0, commands.next());
        // Up to here, each command is executed by itself.
        let mut single = 0;
        alone.begin_run();
        let can_undo = alone.has_begun();
        while let Some((first, _, args)) = next.filter(|_| done < single || !is_over(out)) {
            // The commands at this key share what they read and what they store.
            let (key, begun, before, again) = (args.at(1), done, out.len(), (next, commands.clone()));
            alone.set_savepoint();
            let mut collection = Collection::Unopened(&mut *alone);
            let mut refused = None;
            while let Some((spec, command, args)) = next
                && spec.group == first.group
                && args.at(1) == key
                && !(done > begun && (done <= single || collection.is_over() || is_over(out)))
                && refused.is_none()
            {
                let start = out.len();
                ids[done] = Some(spec.id);
                done += 1;
                next = commands.next();
                if let Err(refusal) = command(&mut collection, &mut self.state.call(args, out)) {
                    out.truncate(start);
                    refused = Some(refusal);
                }
            }
            let is_undefined = refused.as_ref().is_some_and(Refusal::leaves_undefined);
            // In memory, what comes before the failure is made.
            let stored = if is_undefined && can_undo { Ok(()) } else { collection.finish() };
            if can_undo && (is_undefined || stored.is_err()) {
                alone.undo();
                out.truncate(before);
                if done > begun + 1 {
                    single = done;
                    (done, (next, commands)) = (begun, again);
                    continue;
                }
            }
            if let Err(error) = stored {
                out.truncate(before);
                self.refuse_all(&ids[begun..done], &error.into(), out);
                continue;
            }
            let made = done - begun - usize::from(refused.is_some());
            alone.note_commands(key, made.saturating_sub(1));
            if let Some(refusal) = refused {
                self.refuse_all(&ids[done - 1..done], &refusal, out);
            }
        }
        self.unsynced = true;
        if let Err(error) = alone.commit() {
            // None of the changes was made.
            out.truncate(start);
            self.refuse_all(&ids[..done], &error.into(), out);
        }
        (done > 0).then_some(done)
    }

    /// Answers each of these commands with a refusal.
    fn refuse_all(&self, ids: &[Option<Id>], refusal: &Refusal, out: &mut Vec<u8>) {
        for id in ids.iter().flatten() {
            self.state.figures.of(*id).failed.fetch_add(1, Relaxed);
            self.state.refuse(out, refusal);
        }
    }

    /// Ends a run of `count` writes, of which `done` were made, with replies from `before` on. The write that failed is
    /// answered with the error; the writes after it become another run.
    fn end_run(
        &mut self,
        result: keyspace::Result<bool>,
        done: usize,
        count: usize,
        before: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        self.unsynced |= !matches!(result, Ok(false));
        let Err(error) = result else { return (done > 0).then_some(done) };
        let refusal = Refusal::from(error);
        if done < count {
            self.state.refuse(out, &refusal);
            return Some(done + 1);
        }
        // All were made, but are not as durable as their replies say.
        out.truncate(before);
        (0..count).for_each(|_| self.state.refuse(out, &refusal));
        Some(count)
    }
}

/// What to store, if all plans, at least one, store unconditionally.
type Stores<'a> = ([(&'a [u8], &'a [u8]); RUN_MAX], [Attributes; RUN_MAX]);

fn stores_of<'a>(keys: &[&'a [u8]], plans: &[Option<Plan<'a>>]) -> Option<Stores<'a>> {
    let (mut pairs, mut attributes): Stores<'a> = ([(&[], &[]); RUN_MAX], [Attributes::NONE; RUN_MAX]);
    for (index, plan) in plans.iter().enumerate() {
        let (value, of_this) = plan.as_ref()?.store_always()?;
        (pairs[index], attributes[index]) = ((keys[index], value), of_this);
    }
    (!plans.is_empty()).then_some((pairs, attributes))
}

fn pairs_of<'a>(args: impl Iterator<Item = Args<'a>>, pairs: &mut [(&'a [u8], &'a [u8])]) -> usize {
    let mut count = 0;
    for (slot, args) in pairs.iter_mut().zip(args) {
        *slot = (args.at(1), args.at(2));
        count += 1;
    }
    count
}
