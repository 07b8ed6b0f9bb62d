//! A client of the Redis protocol: requests of one read become batches.
//!
//! ```text
//! input -> parse up to BATCH_MAX requests in place -> for each run of the same command:
//!     GET GET GET ...      one get_many        shared; also MGET, EXISTS, TOUCH, STRLEN
//!     SET SET SET ...      one put_many        shared while the database is plain, else exclusive
//!     APPEND APPEND ...    one append_many     shared while the database is plain, else exclusive
//!     DEL DEL ...          one remove_many     of one key each; one by one if the database is not plain
//!     SETEX SETEX ...      one put_many        also SET with a lifetime
//!     INCR INCR ...        one edit_many       other edits (command/edit.rs); one by one if the database is not plain
//!     HSET LPUSH ZADD ...  one change_many     shared while the collections are small and the database is plain;
//!                                              else exclusive and one change, or one by one
//!     anything else        one command         lookups shared, writes exclusive
//! ```
//!
//! The commands of a connection take effect in order, so a run ends at the first other command. Equal keys in a run
//! need no special handling, because `put_many` and `append_many` keep the order.
//!
//! Not here: what commands mean (`command`), sockets (`connection.rs`).

mod runs;

use super::parse::{ParseLimits, Parsed, Parser};
use crate::clients::Client;
use crate::command::acl::{self, Context};
use crate::command::blocking;
use crate::command::call::{Args, Outcome, Refusal, Span, Turn};
use crate::command::cluster;
use crate::command::collection;
use crate::command::dispatch::Handler;
use crate::command::edit;
use crate::command::events;
use crate::command::number::parse_integer;
use crate::command::reply::{self, Version};
use crate::command::script::BUSY;
use crate::command::spec::{self, Flags, Id, Names, Spec};
use crate::command::state::{Replies, SessionState};
use crate::figures::Figures;
use crate::keyspace::{Exclusive, LONG_VALUE_BYTES, Patience, Shared, Waits};
use crate::server::Server;
use crate::session::{Flow, Session};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// The most requests that are parsed before they are executed.
const BATCH_MAX: usize = 256;
/// The most keys of one call of the table.
const RUN_MAX: usize = 64;
/// Once there is this much output, the client must read before more requests are executed.
const OUTPUT_BYTES: usize = 256 << 10;

/// The session of a Redis client.
pub struct RespSession {
    pub(crate) state: SessionState,
    parser: Parser,
    args: Vec<Span>,
    requests: Vec<Request>,
    /// The most keys to look up in one call of the table; smaller after lookups that the output had no room for.
    lookup_run_max: usize,
    large: LargeKey,
    unsynced: bool,
}

/// The key of the collection at which a run last needed exclusive entry: it is not tried in place each time.
#[derive(Default)]
struct LargeKey {
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
struct Request {
    /// Where it begins in the input, where its arguments begin in the list, and the number of arguments.
    start: usize,
    first: usize,
    count: usize,
    spec: Option<&'static Spec>,
    /// Whether its arguments are words of a line.
    words: bool,
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

/// How parsing a batch ended.
enum Ending {
    /// All complete requests are parsed: where they end, and the least length of the next request.
    Read(usize, usize),
    /// The batch is full; more requests may begin here.
    More(usize),
    /// The input has no meaning from here on.
    Broken(usize, String),
    /// The input is of another protocol from here on.
    Foreign(usize, &'static str),
}

/// Where and why a batch stopped early: the first request not executed, and how the connection continues.
type Stop = Option<(usize, Flow)>;

impl Session for RespSession {
    fn execute(&mut self, input: &[u8], out: &mut Vec<u8>, patience: Patience) -> (usize, Flow) {
        let mut at = 0;
        loop {
            self.requests.clear();
            let ending = self.parse_batch(input, at);
            let requests = std::mem::take(&mut self.requests);
            let spans = std::mem::take(&mut self.args);
            let stop = self.execute_batch(input, &requests, &spans, out, patience);
            (self.requests, self.args) = (requests, spans);
            if let Some((index, flow)) = stop {
                let start = self.requests.get(index).map_or(end_of(&ending), |request| request.start);
                self.parser = Parser::default();
                self.args.clear();
                return (start, flow);
            }
            let done = self.requests.last().map_or(0, |last| last.first + last.count);
            self.args.drain(..done);
            match ending {
                Ending::Read(end, need) => return (end, Flow::Read(need)),
                Ending::More(end) => at = end,
                Ending::Broken(end, what) => {
                    reply::error(out, format!("ERR Protocol error: {what}"));
                    self.parser = Parser::default();
                    self.args.clear();
                    return (end, Flow::Close);
                }
                Ending::Foreign(end, what) => {
                    self.state.server.foreign.note(self.state.server.started, &self.state.client, what);
                    return (end, Flow::Close);
                }
            }
        }
    }

    fn take_unsynced(&mut self) -> bool {
        std::mem::take(&mut self.unsynced)
    }

    fn take_pushes(&mut self, out: &mut Vec<u8>) {
        self.state.client.take_pushes(out);
    }

    fn is_unblocked(&self) -> bool {
        self.state.waiter.as_ref().is_some_and(|waiter| waiter.is_answered())
    }

    fn unblock(&mut self, late: bool, out: &mut Vec<u8>) -> bool {
        self.unsynced = true;
        self.state.end_wait(late, out)
    }

    fn reads_ahead(&self) -> bool {
        self.state.authenticated
    }

    fn close(&mut self) {
        self.state.abandon_wait();
        self.state.forget_watch();
        self.state.stop_notices();
        self.state.server.channels.unsubscribe_all(&self.state.client);
        self.state.server.clients.remove(self.state.client.id);
    }
}

fn end_of(ending: &Ending) -> usize {
    match *ending {
        Ending::Read(end, _) | Ending::More(end) | Ending::Broken(end, _) | Ending::Foreign(end, _) => end,
    }
}

impl RespSession {
    /// Creates a session for a client that has just connected.
    pub fn new(server: Arc<Server>, client: Arc<Client>, figures: Arc<Figures>) -> RespSession {
        RespSession {
            state: SessionState::new(server, client, figures),
            parser: Parser::default(),
            args: Vec::new(),
            requests: Vec::new(),
            lookup_run_max: RUN_MAX,
            large: LargeKey::default(),
            unsynced: false,
        }
    }

    /// The server.
    pub fn server(&self) -> Arc<Server> {
        self.state.server.clone()
    }

    /// Marks this as the session of a client that connected by TLS.
    pub fn over_tls(mut self) -> RespSession {
        self.state.is_tls = true;
        self
    }

    fn parse_batch(&mut self, input: &[u8], from: usize) -> Ending {
        let settings = &self.state.server.settings;
        let limits = ParseLimits {
            args: settings.args.load(Relaxed),
            bulk_bytes: settings.bulk_bytes.load(Relaxed),
            request_bytes: settings.request_bytes.load(Relaxed),
            authenticated: self.state.authenticated,
        };
        let (mut at, mut first) = (from, 0);
        while self.requests.len() < BATCH_MAX {
            match self.parser.parse(&input[at..], &mut self.args, &limits) {
                Parsed::Request(bytes) => {
                    self.push_request(&input[at..], at, first, false);
                    first = self.args.len();
                    at += bytes;
                }
                Parsed::Words(bytes) => {
                    // The parser can hold the words of only one line.
                    self.push_request(&[], at, first, true);
                    return Ending::More(at + bytes);
                }
                Parsed::Nothing(bytes) => at += bytes,
                Parsed::Incomplete(need) => return Ending::Read(at, need),
                Parsed::Broken(what) => return Ending::Broken(at, what),
                Parsed::Foreign(what) => return Ending::Foreign(at, what),
            }
        }
        Ending::More(at)
    }

    #[inline]
    fn push_request(&mut self, request: &[u8], start: usize, first: usize, words: bool) {
        let request = if words { &self.parser.words } else { request };
        let name = self.args[first].bytes(request);
        // Often the command of the request before.
        let spec = match self.requests.last().and_then(|last| last.spec) {
            Some(spec) if spec.name.as_bytes().eq_ignore_ascii_case(name) => Some(spec),
            _ => Names::get().find(name),
        };
        self.requests.push(Request { start, first, count: self.args.len() - first, spec, words });
    }

    fn execute_batch(
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
        // Commands that end a script do not wait for a thread: all threads could be waiting for the script.
        let ends_script =
            |request: &Request| request.spec.is_some_and(|spec| matches!(spec.id, Id::Script | Id::Shutdown));
        let may_read = match server.space.disk_waits(self.state.database) {
            _ if patience == Patience::MayWait => false,
            Waits::Often if !requests.iter().all(ends_script) => return Some((0, Flow::Wait)),
            waits => waits != Waits::Never,
        };
        server.space.note_len(input.len());
        let may_be_long = patience == Patience::EventLoop && server.space.has_long_values();
        let words = std::mem::take(&mut self.parser.words);
        let args_of = |request: &Request| Args {
            request: if request.words { &words } else { &input[request.start..] },
            spans: &spans[request.first..request.first + request.count],
        };
        let mut shared: Option<Shared<'_>> = None;
        let mut clock = Instant::now();
        let mut index = 0;
        let stop = loop {
            let Some(request) = requests.get(index) else { break None };
            if out.len() > OUTPUT_BYTES {
                break Some((index, Flow::Write));
            }
            if patience == Patience::MayWait && self.state.client.is_killed() {
                break Some((index, Flow::Close));
            }
            if !self.state.refresh_user() {
                break Some((index, Flow::Close));
            }
            if may_read
                && !ends_script(request)
                && (!request.reads_little() || server.space.disk_waits(self.state.database) == Waits::Often)
            {
                break Some((index, Flow::Wait));
            }
            let run = self.run_at(&requests[index..]);
            if let Some((id, mut count)) = run {
                if shared.is_none() {
                    shared = server.share(patience);
                }
                let Some(entry) = &shared else {
                    if self.refuse_busy(id, out) {
                        index += 1;
                        continue;
                    }
                    break Some((index, Flow::Wait));
                };
                if may_be_long {
                    let (database, is_read) = (self.state.database, matches!(id, Id::Get | Id::MGet));
                    let is_long = |word: &[u8]| {
                        let len = || entry.value_len(database, word).ok().flatten().unwrap_or(0);
                        word.len().max(if is_read { len() } else { 0 }) >= LONG_VALUE_BYTES
                    };
                    let mut those = requests[index..index + count].iter();
                    match those.position(|request| args_of(request).from(1).any(is_long)) {
                        Some(0) => break Some((index, Flow::Wait)),
                        Some(first_long) => count = first_long,
                        None => {}
                    }
                }
                if self.state.tracking.is_some()
                    && let Some(spec) = request.spec
                {
                    requests[index..index + count].iter().for_each(|request| self.state.track(spec, &args_of(request)));
                }
                let args = requests[index..index + count].iter().map(args_of);
                let done = match id {
                    Id::Append => self.append_run(Turn::Shared(entry), args, out),
                    _ if self.edits(id, request) => self.edit_run(entry, id, args, out),
                    // A single request needs no arrays for many.
                    Id::Set if count == 1 => self.set_run::<1>(entry, args, out).then_some(count),
                    Id::Set => self.set_run::<RUN_MAX>(entry, args, out).then_some(count),
                    Id::Del | Id::Unlink => self.remove_run(entry, args, out),
                    _ if count == 1 && request.count == 2 => self.lookup_run::<1>(entry, id, args, out),
                    _ => self.lookup_run::<RUN_MAX>(entry, id, args, out),
                };
                // A database with lifetimes needs exclusive entry for writes, but still takes them as a batch.
                let done = match done {
                    None if matches!(id, Id::Set | Id::SetEx | Id::PSetEx | Id::Append) => {
                        shared = None;
                        let Some(mut alone) = server.close(patience) else {
                            if self.refuse_busy(id, out) {
                                index += 1;
                                continue;
                            }
                            break Some((index, Flow::Wait));
                        };
                        let args = requests[index..index + count].iter().map(args_of);
                        let done = match id {
                            Id::Append => self.append_run(Turn::Alone(&mut alone), args, out),
                            _ if self.edits(id, request) => self.store_run_alone(&mut alone, id, args, out),
                            _ => self.set_run_alone(&mut alone, args, out).then_some(count),
                        };
                        blocking::serve(&server, &mut alone);
                        done
                    }
                    done => done,
                };
                if let Some(done) = done {
                    index += done;
                    clock = self.note(id, done, clock, || args_of(request));
                    continue;
                }
            }
            let count = self.changes_at(&requests[index..]);
            // A single change gains too little to try in place what may be a large collection.
            if count > 1 {
                let key = args_of(request).at(1);
                let commands = || requests[index..index + count].iter().map(|request| (request.spec, args_of(request)));
                let mut done = None;
                if !self.large.is(key) {
                    if shared.is_none() {
                        shared = server.share(patience);
                    }
                    let Some(entry) = &shared else {
                        if request.spec.is_some_and(|spec| self.refuse_busy(spec.id, out)) {
                            index += 1;
                            continue;
                        }
                        break Some((index, Flow::Wait));
                    };
                    done = self.collection_run(entry, commands(), out);
                    if done.is_none() {
                        self.large.remember(key);
                    }
                }
                if done.is_none() {
                    shared = None;
                    let Some(mut alone) = server.close(patience) else {
                        if request.spec.is_some_and(|spec| self.refuse_busy(spec.id, out)) {
                            index += 1;
                            continue;
                        }
                        break Some((index, Flow::Wait));
                    };
                    done = self.change_run(&mut alone, commands(), out);
                }
                if let Some(done) = done {
                    let end = index + done;
                    while let Some(first) = requests[index..end].first() {
                        let is_same = |request: &&Request| request.spec.map(|s| s.id) == first.spec.map(|s| s.id);
                        let same = requests[index..end].iter().take_while(is_same).count();
                        let Some(spec) = first.spec else { break };
                        clock = self.note(spec.id, same, clock, || args_of(first));
                        index += same;
                    }
                    continue;
                }
            }
            let args = args_of(request);
            let Some(spec) = request.spec else {
                let before = out.len();
                self.refuse_command(out, &Refusal::unknown(&args));
                self.settle_reply(before, out);
                index += 1;
                continue;
            };
            match self.execute_one(&server, spec, args, out, patience, &mut shared) {
                Step::Done => index += 1,
                Step::Wait => break Some((index, Flow::Wait)),
                Step::Close => {
                    break Some((index + 1, Flow::Close));
                }
                Step::Block(time) => {
                    self.note(spec.id, 1, clock, || args);
                    break Some((index + 1, Flow::Block(time)));
                }
                Step::Pause(time) => break Some((index, Flow::Sleep(time))),
                Step::Sleep(time) => {
                    self.note(spec.id, 1, clock, || args);
                    break Some((index + 1, Flow::Sleep(time)));
                }
            }
            clock = self.note(spec.id, 1, clock, || args);
        };
        drop(shared);
        self.parser.words = words;
        stop
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

    /// Executes one request, or queues it.
    fn execute_one<'k>(
        &mut self,
        server: &'k Server,
        spec: &'static Spec,
        args: Args<'_>,
        out: &mut Vec<u8>,
        patience: Patience,
        shared: &mut Option<Shared<'k>>,
    ) -> Step {
        let before = out.len();
        // The beginning of what CLIENT REPLY suppresses.
        let mut unwanted = before;
        if let Err(refusal) = self.admit(spec, &args) {
            self.refuse_known(spec.id, out, refusal);
        } else if self.is_queued(spec) {
            if self.refuse_busy(spec.id, out) {
                return Step::Done;
            }
            // Queued commands take memory, too.
            let mut room = Ok(());
            if server.space.is_pressed() {
                *shared = None;
                let Some(mut alone) = server.close(patience) else { return Step::Wait };
                room = alone.make_room(bytes_of(spec, &args));
            }
            match room.map_err(Refusal::from).and_then(|()| self.queue(spec, &args)) {
                Ok(()) => out.extend_from_slice(b"+QUEUED\r\n"),
                Err(refusal) => self.refuse_known(spec.id, out, refusal),
            }
        } else {
            if let Some(time) = server.clients.pause(spec.flags.has(Flags::WRITE) || spec.id == Id::Exec) {
                return Step::Pause(time);
            }
            if patience == Patience::EventLoop && is_long(spec, &args) {
                // The threads that may wait could all be waiting for the script.
                if matches!(Handler::of(spec.id), Handler::Transaction(_)) && self.refuse_busy(spec.id, out) {
                    return Step::Done;
                }
                return Step::Wait;
            }
            // Once it is certain that the command is executed now.
            let feed = |state: &SessionState| {
                if spec.id != Id::Exec {
                    state.feed_monitors(spec, &args, &state.client.address);
                }
            };
            let outcome = match Handler::of(spec.id) {
                Handler::Session(execute) => {
                    *shared = None;
                    feed(&self.state);
                    self.unsynced |= spec.flags.has(Flags::WRITE);
                    execute(&mut self.state, args, out)
                }
                Handler::Scan(execute) => {
                    feed(&self.state);
                    execute(&server.space, &mut self.state.call(args, out), &[])
                }
                Handler::Lookup(execute) => {
                    if shared.is_none() {
                        *shared = server.share(patience);
                    }
                    let Some(entry) = shared else {
                        return if self.refuse_busy(spec.id, out) { Step::Done } else { Step::Wait };
                    };
                    feed(&self.state);
                    self.state.track(spec, &args);
                    execute(&mut Turn::Shared(entry), &mut self.state.call(args, out))
                }
                Handler::LookupMany(_)
                | Handler::Edit(_)
                | Handler::Collection(_)
                | Handler::Change(_)
                | Handler::Transaction(_) => {
                    *shared = None;
                    let Some(mut alone) = server.close(patience) else {
                        return if self.refuse_busy(spec.id, out) { Step::Done } else { Step::Wait };
                    };
                    self.unsynced = true;
                    feed(&self.state);
                    self.state.track(spec, &args);
                    let outcome = self.change(&mut alone, spec, args, out);
                    events::report(&server.notices, &mut alone, spec.id, &args, self.state.client.id);
                    blocking::serve(server, &mut alone);
                    drop(alone);
                    if matches!(spec.id, Id::FlushDb | Id::FlushAll) {
                        server.compact_cleared();
                    }
                    outcome
                }
            };
            if std::mem::take(&mut self.state.unsettled) {
                server.notices.settle(&server.space);
            }
            if spec.id == Id::Exec {
                self.state.feed_monitors(spec, &args, &self.state.client.address);
            }
            if self.state.transaction.is_none() && spec.id != Id::Client {
                self.state.caching = None;
            }
            match outcome {
                Ok(()) if is_push(spec.id) => unwanted = out.len(),
                Ok(()) => {}
                Err(refusal) => {
                    self.state.figures.of(spec.id).failed.fetch_add(1, Relaxed);
                    out.truncate(before);
                    self.state.refuse(out, &refusal);
                }
            }
        }
        self.settle_reply(unwanted, out);
        match self.state.sleep.take() {
            _ if self.state.closing => Step::Close,
            _ if self.state.wait.is_some() => Step::Block(self.state.wait.take().flatten()),
            Some(time) => Step::Sleep(time),
            None => Step::Done,
        }
    }

    /// Refuses a request because a script has run for long. `false` if none has.
    #[cold]
    fn refuse_busy(&mut self, id: Id, out: &mut Vec<u8>) -> bool {
        let is_busy = self.state.server.scripts.is_busy();
        if is_busy {
            let before = out.len();
            self.refuse_known(id, out, BUSY.into());
            self.settle_reply(before, out);
        }
        is_busy
    }

    /// Removes the reply that begins at `before` if the client does not want it.
    #[inline]
    fn settle_reply(&mut self, before: usize, out: &mut Vec<u8>) {
        match self.state.replies {
            Replies::On => {}
            Replies::Off | Replies::Skip => out.truncate(before),
            Replies::SkipNext => {}
        }
        self.state.replies = match self.state.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            other => other,
        };
    }

    /// Executes a command that changes the key space, or a whole transaction.
    fn change(&mut self, alone: &mut Exclusive<'_>, spec: &'static Spec, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
        let handler = Handler::of(spec.id);
        if let Handler::Transaction(execute) = handler {
            return execute(&mut self.state, alone, args, out);
        }
        if spec.flags.has(Flags::DENYOOM) {
            alone.make_room(bytes_of(spec, &args))?;
        }
        alone.begin();
        let mut call = self.state.call(args, out);
        let outcome = match handler {
            Handler::LookupMany(execute) => execute(&mut Turn::Alone(alone), &mut call),
            Handler::Collection(command) => collection::execute(alone, command, &mut call),
            Handler::Change(execute) => execute(alone, &mut call),
            Handler::Edit(plan) => plan(&call, alone.now_ms()).and_then(|plan| edit::execute(alone, &mut call, &plan)),
            _ => Ok(()), // executed by the caller
        };
        match outcome {
            Ok(()) => Ok(alone.commit()?),
            // Fields that had expired go, whatever the command answers.
            Err(refusal) if matches!(handler, Handler::Collection(_)) && !refusal.leaves_undefined() => {
                alone.commit()?;
                Err(refusal)
            }
            Err(refusal) => {
                alone.roll_back();
                Err(refusal)
            }
        }
    }

    /// Whether the command is allowed now, with these arguments.
    fn admit(&mut self, spec: &'static Spec, args: &Args<'_>) -> Outcome {
        let subcommand = spec.subcommand(args)?;
        let name = || match subcommand {
            Some((subcommand, _)) => format!("{}|{subcommand}", spec.name),
            None => spec.name.to_owned(),
        };
        let arity_fits = subcommand.is_none_or(|(_, arity)| spec::fits(arity, args.len()));
        if !spec.accepts(args.len()) || !arity_fits {
            return Err(format!("ERR wrong number of arguments for '{}' command", name()).into());
        }
        if !self.state.authenticated && !spec.flags.has(Flags::NO_AUTH) {
            return Err("NOAUTH Authentication required.".into());
        }
        let context = if self.state.transaction.is_some() { Context::Multi } else { Context::TopLevel };
        acl::permit(&mut self.state, spec, args, context)?;
        if self.state.transaction.is_some() && spec.flags.has(Flags::NO_MULTI) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        let subscribed = self.state.version == Version::Resp2 && self.state.client.subscriptions() > 0;
        if subscribed && !spec.flags.has(Flags::SUBSCRIBED) {
            return Err(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                this context",
                name()
            )
            .into());
        }
        match self.state.server.space.dictionary() {
            Some(dictionary) => cluster::admit(&self.state, dictionary, spec, args),
            None => Ok(()),
        }
    }

    fn is_queued(&self, spec: &Spec) -> bool {
        self.state.transaction.is_some() && !spec.flags.has(Flags::NOW)
    }

    fn queue(&mut self, spec: &'static Spec, args: &Args<'_>) -> Result<(), Refusal> {
        let most = self.state.server.settings.request_bytes.load(Relaxed);
        let has_topology = self.state.server.space.dictionary().is_some_and(|dictionary| dictionary.has_topology());
        let slot = if has_topology { cluster::slot_of(spec, args).unwrap_or_default() } else { None };
        self.state.transaction.as_mut().map_or(Ok(()), |transaction| transaction.queue(spec, args, slot, most))
    }

    /// Answers a request that is refused before execution; a transaction that it belongs to will be refused too.
    fn refuse_command(&mut self, out: &mut Vec<u8>, refusal: &Refusal) {
        if let Some(transaction) = &mut self.state.transaction {
            transaction.refused = true;
        }
        self.state.refuse(out, refusal);
    }

    /// [`refuse_command`](Self::refuse_command) of a known command; EXEC ends its transaction.
    fn refuse_known(&mut self, id: Id, out: &mut Vec<u8>, mut refusal: Refusal) {
        if id == Id::Exec {
            self.state.transaction = None;
            self.state.forget_watch();
            refusal = refusal.of_exec();
        }
        self.state.figures.of(id).rejected.fetch_add(1, Relaxed);
        self.refuse_command(out, &refusal);
    }

    /// Counts commands and their time. Returns the time now.
    #[inline]
    fn note<'a>(&self, id: Id, count: usize, since: Instant, args: impl FnOnce() -> Args<'a>) -> Instant {
        let now = Instant::now();
        let nanos = now.duration_since(since).as_nanos() as u64; // 584 years
        self.state.figures.note(id, count as u64, nanos);
        self.state.client.last_command.store(id as u8, Relaxed);
        self.state.client.queued.store(self.state.transaction.as_ref().map_or(0, |t| t.len() + 1), Relaxed);
        self.state.client.watched.store(self.state.watch.len(), Relaxed);
        if nanos / 1000 >= self.state.server.slow_log.threshold_us.load(Relaxed) {
            self.state.server.slow_log.add(&args(), nanos / 1000, &self.state.client);
        }
        now
    }
}

/// Whether the replies of a command are messages, which CLIENT REPLY does not suppress.
fn is_push(id: Id) -> bool {
    use Id::{PSubscribe, PUnsubscribe, SSubscribe, SUnsubscribe, Subscribe, Unsubscribe};
    matches!(id, PSubscribe | PUnsubscribe | SSubscribe | SUnsubscribe | Subscribe | Unsubscribe)
}

/// Whether a command may take so long that it would delay other clients of the event loop.
fn is_long(spec: &Spec, args: &Args<'_>) -> bool {
    const ARGS_MAX: usize = 10_000;
    const BYTES_MAX: usize = 1 << 20;
    // These wait for the gate.
    let settles = spec.id == Id::Client && args.is(1, "tracking") || spec.id == Id::Config && args.is(1, "set");
    settles
        || spec.flags.has(Flags::WAITS)
        || args.len() > ARGS_MAX
        || spec.id == Id::SetRange && bytes_of(spec, args) > BYTES_MAX
}

/// The number of bytes that a command may add to the key space.
fn bytes_of(spec: &Spec, args: &Args<'_>) -> usize {
    let offset = || args.get(2).and_then(parse_integer).and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
    let before = if spec.id == Id::SetRange { offset() } else { 0 };
    args.from(1).map(<[u8]>::len).sum::<usize>().saturating_add(before)
}

/// The result of executing one request.
enum Step {
    Done,
    Wait,
    Close,
    /// It waits, at most for this time.
    Block(Option<Duration>),
    /// Done; send the reply after this delay.
    Sleep(Duration),
    /// Not done because of CLIENT PAUSE; try again after this time.
    Pause(Duration),
}
