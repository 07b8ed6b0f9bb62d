//! Executes the requests of a batch, in their order: a run of one command by one call of the table, changes of
//! collections together, everything else one by one (`one.rs`).

use super::one::{Step, Work};
use super::{OUTPUT_BYTES, RUN_MAX, RespSession};
use crate::command::blocking;
use crate::command::call::{Args, Refusal, Span, Turn};
use crate::command::dispatch::Handler;
use crate::command::reply::Version;
use crate::command::spec::{Flags, Id, Spec};
use crate::command::state::Replies;
use crate::keyspace::{LONG_VALUE_BYTES, Patience, Shared, Waits};
use crate::session::Flow;
use std::time::Instant;

/// The key of the collection at which a run last needed exclusive entry: it is not tried in place each time.
#[derive(Default)]
pub(super) struct LargeKey {
    key: Vec<u8>,
    /// Runs that began with it since.
    runs: u8,
}

impl LargeKey {
    /// Longer keys are not remembered.
    const BYTES_MAX: usize = 64;
    /// After this many runs it is tried again: the collection may have become small.
    const RUNS_MAX: u8 = 64;

    /// Whether a run that begins with `key` needs exclusive entry, as far as is known.
    #[inline]
    fn is(&mut self, key: &[u8]) -> bool {
        if self.key != key || key.is_empty() {
            return false;
        }
        self.runs += 1;
        if self.runs == Self::RUNS_MAX {
            self.key.clear();
        }
        true
    }

    fn remember(&mut self, key: &[u8]) {
        if key.len() <= Self::BYTES_MAX {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.runs = 0;
        }
    }
}

/// A request of a batch.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// Where it begins in the input, where its arguments begin in the list, and the number of arguments.
    pub(super) start: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) spec: Option<&'static Spec>,
    /// Whether its arguments are words of a line.
    pub(super) words: bool,
}

impl Request {
    /// Its number of keys if it can share one call of the table with other requests; else `None`.
    #[inline]
    fn run_keys(&self) -> Option<usize> {
        self.spec?.run_keys(self.count)
    }

    /// Whether it reads only a few pages, whatever the size of its values and collections.
    #[inline]
    fn reads_little(&self) -> bool {
        const ARGS_MAX: usize = 64;
        let Some(spec) = self.spec else { return true };
        // With a count, the client chooses how much these read.
        let pops = matches!(spec.id, Id::LPop | Id::RPop | Id::SPop | Id::ZPopMin | Id::ZPopMax) && self.count > 2
            || spec.id == Id::XAutoClaim;
        self.count <= ARGS_MAX && !pops && (spec.flags.has(Flags::FAST) || self.run_keys().is_some())
    }
}

/// The bytes of the arguments of a batch's requests.
#[derive(Clone, Copy)]
struct Batch<'b> {
    input: &'b [u8],
    /// The words of a line, which are not in the input.
    words: &'b [u8],
    spans: &'b [Span],
}

impl<'b> Batch<'b> {
    #[inline]
    fn args(&self, request: &Request) -> Args<'b> {
        Args {
            request: if request.words { self.words } else { &self.input[request.start..] },
            spans: &self.spans[request.first..request.first + request.count],
        }
    }

    #[inline]
    fn args_of(self, requests: &'b [Request]) -> impl Iterator<Item = Args<'b>> + Clone {
        requests.iter().map(move |request| self.args(request))
    }
}

/// How many requests were executed; an error: how many before the batch stopped, and how the connection continues.
type Executed = Result<usize, (usize, Flow)>;

/// Where and why a batch stopped early: the first request not executed, and how the connection continues.
pub(super) type Stop = Option<(usize, Flow)>;

/// Commands that end a script do not wait for a thread: all threads could be waiting for the script.
fn ends_script(request: &Request) -> bool {
    request.spec.is_some_and(|spec| matches!(spec.id, Id::Script | Id::Shutdown))
}

impl RespSession {
    pub(super) fn execute_batch(
        &mut self,
        input: &[u8],
        requests: &[Request],
        spans: &[Span],
        out: &mut Vec<u8>,
        patience: Patience,
    ) -> Stop {
        if requests.is_empty() {
            return None;
        }
        let server = self.state.server.clone();
        let may_read = match server.space.disk_waits(self.state.database) {
            _ if patience == Patience::MayWait => false,
            Waits::Often if !requests.iter().all(ends_script) => return Some((0, Flow::Wait)),
            waits => waits != Waits::Never,
        };
        server.space.note_len(input.len());
        let may_be_long = patience == Patience::EventLoop && server.space.has_long_values();
        let words = std::mem::take(&mut self.parser.words);
        let batch = Batch { input, words: &words, spans };
        let mut work = Work { server: &server, patience, shared: None, clock: Instant::now(), may_read, may_be_long };
        let mut index = 0;
        let stop = loop {
            let Some(next) = requests.get(index) else { break None };
            if let Some(flow) = self.flow_before(next, &work, out) {
                break Some((index, flow));
            }
            match self.execute_next(batch, &requests[index..], &mut work, out) {
                Ok(done) => index += done,
                Err((done, flow)) => break Some((index + done, flow)),
            }
        };
        drop(work);
        self.parser.words = words;
        stop
    }

    /// How the connection continues if `request` must not be executed now.
    #[inline]
    fn flow_before(&mut self, request: &Request, work: &Work<'_>, out: &[u8]) -> Option<Flow> {
        if out.len() > OUTPUT_BYTES {
            return Some(Flow::Write);
        }
        let is_killed = work.patience == Patience::MayWait && self.state.client.is_killed();
        if is_killed || !self.state.refresh_user() {
            return Some(Flow::Close);
        }
        let waits_often = || work.server.space.disk_waits(self.state.database) == Waits::Often;
        let waits = work.may_read && !ends_script(request) && (!request.reads_little() || waits_often());
        waits.then_some(Flow::Wait)
    }

    /// Executes the first of `requests`, and those after it that one call of the table can take with it.
    #[inline]
    fn execute_next<'b>(
        &mut self,
        batch: Batch<'b>,
        requests: &'b [Request],
        work: &mut Work<'_>,
        out: &mut Vec<u8>,
    ) -> Executed {
        if let Some((id, count)) = self.run_at(requests) {
            let done = self.execute_run(batch, id, &requests[..count], work, out)?;
            if done > 0 {
                return Ok(done);
            }
        }
        let count = self.changes_at(requests);
        // A single change gains too little to try in place what may be a large collection.
        if count > 1 {
            let done = self.execute_changes(batch, &requests[..count], work, out)?;
            if done > 0 {
                return Ok(done);
            }
        }
        let (request, args) = (&requests[0], batch.args(&requests[0]));
        let Some(spec) = request.spec else {
            let before = out.len();
            self.refuse_command(out, &Refusal::unknown(&args));
            self.settle_reply(before, out);
            return Ok(1);
        };
        let step = self.execute_one(spec, args, work, out);
        if let Step::Done | Step::Block(_) | Step::Sleep(_) = step {
            work.clock = self.note(spec.id, 1, work.clock, || args);
        }
        match step {
            Step::Done => Ok(1),
            Step::Wait => Err((0, Flow::Wait)),
            Step::Close => Err((1, Flow::Close)),
            Step::Block(time) => Err((1, Flow::Block(time))),
            Step::Pause(time) => Err((0, Flow::Sleep(time))),
            Step::Sleep(time) => Err((1, Flow::Sleep(time))),
        }
    }

    /// Executes a run of one command, or the first part of it; 0 if its requests must be executed one by one.
    #[inline]
    fn execute_run<'b>(
        &mut self,
        batch: Batch<'b>,
        id: Id,
        mut run: &'b [Request],
        work: &mut Work<'_>,
        out: &mut Vec<u8>,
    ) -> Executed {
        let (first, may_be_long) = (&run[0], work.may_be_long);
        let Some(entry) = work.enter() else { return self.cannot_enter(id, out) };
        if may_be_long {
            run = match self.first_long(batch, id, run, entry) {
                Some(0) => return Err((0, Flow::Wait)),
                Some(short) => &run[..short],
                None => run,
            };
        }
        if let (Some(_), Some(spec)) = (&self.state.tracking, first.spec) {
            batch.args_of(run).for_each(|args| self.state.track(spec, &args));
        }
        let (args, edits) = (batch.args_of(run), self.edits(id, first));
        let done = match id {
            Id::Append => self.append_run(Turn::Shared(entry), args, out),
            _ if edits => self.edit_run(entry, id, args, out),
            // A single request needs no arrays for many.
            Id::Set if run.len() == 1 => self.set_run::<1>(entry, args, out),
            Id::Set => self.set_run::<RUN_MAX>(entry, args, out),
            Id::Del | Id::Unlink => self.remove_run(entry, args, out),
            _ if run.len() == 1 && first.count == 2 => self.lookup_run::<1>(entry, id, args, out),
            _ => self.lookup_run::<RUN_MAX>(entry, id, args, out),
        };
        // A database with lifetimes needs exclusive entry for writes, but still takes them as a batch.
        let done = match done {
            None if matches!(id, Id::Set | Id::SetEx | Id::PSetEx | Id::Append) => {
                work.shared = None;
                let Some(mut alone) = work.server.close(work.patience) else { return self.cannot_enter(id, out) };
                let args = batch.args_of(run);
                let done = match id {
                    Id::Append => self.append_run(Turn::Alone(&mut alone), args, out),
                    _ if edits => self.store_run_alone(&mut alone, id, args, out),
                    _ => self.set_run_alone(&mut alone, args, out),
                };
                blocking::serve(work.server, &mut alone);
                done
            }
            done => done,
        };
        if let Some(done) = done {
            work.clock = self.note(id, done, work.clock, || batch.args(first));
        }
        Ok(done.unwrap_or(0))
    }

    /// The first request of a run with a long value in it, or that reads one.
    fn first_long(&self, batch: Batch<'_>, id: Id, run: &[Request], entry: &Shared<'_>) -> Option<usize> {
        let (database, is_read) = (self.state.database, matches!(id, Id::Get | Id::MGet));
        let is_long = |word: &[u8]| {
            let len = || entry.value_len(database, word).ok().flatten().unwrap_or(0);
            word.len().max(if is_read { len() } else { 0 }) >= LONG_VALUE_BYTES
        };
        run.iter().position(|request| batch.args(request).from(1).any(is_long))
    }

    /// Executes changes of collections, or the first of them; 0 if they must be executed one by one.
    fn execute_changes<'b>(
        &mut self,
        batch: Batch<'b>,
        changes: &'b [Request],
        work: &mut Work<'_>,
        out: &mut Vec<u8>,
    ) -> Executed {
        let Some(spec) = changes[0].spec else { return Ok(0) };
        let key = batch.args(&changes[0]).at(1);
        let commands = || changes.iter().map(|request| (request.spec, batch.args(request)));
        let mut done = None;
        if !self.large.is(key) {
            let Some(entry) = work.enter() else { return self.cannot_enter(spec.id, out) };
            done = self.collection_run(entry, commands(), out);
            if done.is_none() {
                self.large.remember(key);
            }
        }
        if done.is_none() {
            work.shared = None;
            let Some(mut alone) = work.server.close(work.patience) else { return self.cannot_enter(spec.id, out) };
            done = self.change_run(&mut alone, commands(), out);
        }
        let done = done.unwrap_or(0);
        for same in changes[..done].chunk_by(|a, b| a.spec.map(|spec| spec.id) == b.spec.map(|spec| spec.id)) {
            let Some(spec) = same[0].spec else { break };
            work.clock = self.note(spec.id, same.len(), work.clock, || batch.args(&same[0]));
        }
        Ok(done)
    }

    /// The key space cannot be entered now: refuses a request if a script has run for long, else the batch waits.
    #[cold]
    fn cannot_enter(&mut self, id: Id, out: &mut Vec<u8>) -> Executed {
        if self.refuse_busy(id, out) { Ok(1) } else { Err((0, Flow::Wait)) }
    }

    /// The run at the beginning of `requests`: its command, and how many requests one call of the table can execute.
    #[inline]
    fn run_at(&self, requests: &[Request]) -> Option<(Id, usize)> {
        let spec = requests[0].spec?;
        let id = spec.id;
        requests[0].run_keys()?;
        if !self.takes_runs() {
            return None;
        }
        let is_lookup = spec.flags.has(Flags::READONLY);
        if !is_lookup && self.state.server.space.dictionary().is_some() {
            return None;
        }
        let most = if is_lookup { self.lookup_run_max } else { RUN_MAX };
        let (mut keys, is_edit) = (0, self.edits(id, &requests[0]));
        let fits = |request: &&Request| {
            keys += request.run_keys().unwrap_or(most + 1);
            request.spec.is_some_and(|spec| spec.id == id) && keys <= most && self.edits(id, request) == is_edit
        };
        let count = requests.iter().take_while(fits).count();
        (count > 0).then_some((id, count))
    }

    /// Whether nothing about the client or the server requires that commands are executed one by one.
    #[inline]
    fn takes_runs(&self) -> bool {
        let state = &self.state;
        state.authenticated
            && state.transaction.is_none()
            && state.replies == Replies::On
            && (state.client.subscriptions() == 0 || state.version != Version::Resp2)
            && !state.server.clients.are_paused()
            && !state.server.monitors.are_there()
            && state.caching.is_none()
            && state.user.is_unrestricted()
    }

    /// How many requests at the beginning of `requests` change collections and may be executed together.
    #[inline]
    fn changes_at(&self, requests: &[Request]) -> usize {
        // Other clients wait as long as for one command with as many arguments.
        const ARGS_MAX: usize = 1024;
        let mut args = 0;
        let fits = |request: &&Request| {
            args += request.count;
            let changes = |spec: &Spec| matches!(Handler::of(spec.id), Handler::Collection(_));
            args <= ARGS_MAX && request.spec.is_some_and(|spec| changes(spec) && spec.accepts(request.count))
        };
        let count = requests.iter().take(RUN_MAX).take_while(fits).count();
        let is_allowed = || {
            let space = &self.state.server.space;
            self.takes_runs() && space.allows_runs() && space.dictionary().is_none()
        };
        if count > 0 && is_allowed() { count } else { 0 }
    }

    /// Whether a request of a run is an edit: not a SET without options.
    #[inline]
    fn edits(&self, id: Id, request: &Request) -> bool {
        (id != Id::Set || request.count > 3) && matches!(Handler::of(id), Handler::Edit(_))
    }
}
