//! A client of the Redis protocol: requests of one read become batches.
//!
//! ```text
//! input -> parse up to BATCH_MAX requests in place -> for each run of the same command:
//!     GET GET GET ...      one get_many        shared; also MGET, EXISTS, TOUCH, STRLEN
//!     SET SET SET ...      one put_many        shared while the database is plain, else exclusive
//!     APPEND APPEND ...    one append_many     shared while the database is plain, else exclusive
//!     DEL DEL ...          one remove_many     of one key each; one by one if the database is not plain
//!     anything else        one command         lookups shared, writes exclusive
//! ```
//!
//! The commands of a connection take effect in order, so a run ends at the first other command. Equal keys in a run
//! need no special handling, because `put_many` and `append_many` keep the order.
//!
//! Not here: what commands mean (`command`), sockets (`connection.rs`).

mod runs;

use super::Version;
use super::parse::{ParseLimits, Parsed, Parser, Span};
use super::reply;
use crate::clients::Client;
use crate::command::call::{self, Args, Call, Outcome, Refusal, Turn};
use crate::command::number::parse_integer;
use crate::command::table::{self, Flags, Handler, Id, Names, Spec};
use crate::command::{self, cluster};
use crate::figures::Figures;
use crate::foreign::ForeignLog;
use crate::keyspace::{Exclusive, Patience, Shared, Watch};
use crate::planted::{Bug, planted};
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
    pub(crate) server: Arc<Server>,
    pub(crate) client: Arc<Client>,
    figures: Arc<Figures>,
    parser: Parser,
    args: Vec<Span>,
    requests: Vec<Request>,
    /// The most keys to look up in one call of the table; smaller after lookups that the output had no room for.
    lookup_run_max: usize,
    pub(crate) database: usize,
    pub(crate) version: Version,
    pub(crate) authenticated: bool,
    pub(crate) replies: Replies,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watch: Watch,
    pub(crate) closing: bool,
    /// The command asks for this delay before its reply.
    pub(crate) sleep: Option<Duration>,
    /// Whether the client connected by TLS, and so gets the nodes' TLS addresses.
    pub(crate) is_tls: bool,
    unsynced: bool,
}

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// No reply to the command after this one.
    SkipNext,
    Skip,
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
}

/// Commands between MULTI and EXEC.
#[derive(Default)]
pub(crate) struct Transaction {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    commands: Vec<(&'static Spec, usize)>,
    /// Whether a command was refused, so that EXEC will be refused.
    refused: bool,
    /// In a cluster: the slot of the keys so far, and whether the keys have several slots.
    slot: Option<u16>,
    is_across_slots: bool,
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
                    ForeignLog::note(&self.server, &self.client, what);
                    return (end, Flow::Close);
                }
            }
        }
    }

    fn take_unsynced(&mut self) -> bool {
        std::mem::take(&mut self.unsynced)
    }

    fn take_pushes(&mut self, out: &mut Vec<u8>) {
        self.client.take_pushes(out);
    }

    fn reads_ahead(&self) -> bool {
        self.authenticated
    }

    fn close(&mut self) {
        self.forget_watch();
        self.server.channels.unsubscribe_all(&self.client);
        self.server.clients.remove(self.client.id);
    }
}

fn end_of(ending: &Ending) -> usize {
    match *ending {
        Ending::Read(end, _) | Ending::More(end) | Ending::Broken(end, _) | Ending::Foreign(end, _) => end,
    }
}

impl RespSession {
    /// A session for a client that has just connected.
    pub fn new(server: Arc<Server>, client: Arc<Client>, figures: Arc<Figures>) -> RespSession {
        let authenticated = !server.settings.needs_password();
        RespSession {
            server,
            client,
            figures,
            parser: Parser::default(),
            args: Vec::new(),
            requests: Vec::new(),
            lookup_run_max: RUN_MAX,
            database: 0,
            version: Version::Resp2,
            authenticated,
            replies: Replies::On,
            transaction: None,
            watch: Watch::default(),
            closing: false,
            sleep: None,
            is_tls: false,
            unsynced: false,
        }
    }

    /// The session of a client that connected by TLS.
    pub fn over_tls(self) -> RespSession {
        RespSession { is_tls: true, ..self }
    }

    fn parse_batch(&mut self, input: &[u8], from: usize) -> Ending {
        let settings = &self.server.settings;
        let limits = ParseLimits {
            args: settings.args.load(Relaxed),
            bulk_bytes: settings.bulk_bytes.load(Relaxed),
            request_bytes: settings.request_bytes.load(Relaxed),
            authenticated: self.authenticated,
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
        let spec = Names::get().find(self.args[first].bytes(request));
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
        let server = self.server.clone();
        if patience == Patience::EventLoop && server.may_read_disk.load(Relaxed) {
            return Some((0, Flow::Wait));
        }
        let words = std::mem::take(&mut self.parser.words);
        let args_of = |request: &Request| Args {
            request: if request.words { &words } else { &input[request.start..] },
            spans: &spans[request.first..request.first + request.count],
        };
        let mut shared: Option<Shared<'_>> = None;
        let mut clock = Instant::now();
        let mut index = 0;
        let database_before = self.database;
        let stop = loop {
            let Some(request) = requests.get(index) else { break None };
            if out.len() > OUTPUT_BYTES {
                break Some((index, Flow::Write));
            }
            if patience == Patience::MayWait && self.client.is_killed() {
                break Some((index, Flow::Close));
            }
            let run = self.run_at(&requests[index..]);
            if let Some((id, count)) = run {
                if shared.is_none() {
                    shared = server.space.share(patience);
                }
                let Some(entry) = &shared else { break Some((index, Flow::Wait)) };
                let args = requests[index..index + count].iter().map(args_of);
                let database = self.database;
                if planted(Bug::RunBeforeSelect) {
                    self.database = database_before;
                }
                let done = match id {
                    Id::Append => self.append_run(Turn::Shared(entry), args, out),
                    // A single request needs no arrays for many.
                    Id::Set if count == 1 => self.set_run::<1>(entry, args, out).then_some(count),
                    Id::Set => self.set_run::<RUN_MAX>(entry, args, out).then_some(count),
                    Id::Del | Id::Unlink => self.remove_run(entry, args, out),
                    _ if count == 1 && request.count == 2 => self.lookup_run::<1>(entry, id, args, out),
                    _ => self.lookup_run::<RUN_MAX>(entry, id, args, out),
                };
                self.database = database;
                // A database with lifetimes needs exclusive entry for writes, but still takes them as a batch.
                let done = match done {
                    None if matches!(id, Id::Set | Id::Append) => {
                        shared = None;
                        let Some(mut alone) = server.space.close(patience) else { break Some((index, Flow::Wait)) };
                        let args = requests[index..index + count].iter().map(args_of);
                        match id {
                            Id::Set => self.set_run_alone(&mut alone, args, out).then_some(count),
                            _ => self.append_run(Turn::Alone(&mut alone), args, out),
                        }
                    }
                    done => done,
                };
                if let Some(done) = done {
                    index += done;
                    clock = self.note(id, done, clock, || args_of(request));
                    continue;
                }
            }
            let args = args_of(request);
            let Some(spec) = request.spec else {
                let before = out.len();
                self.refuse_command(out, &command::unknown(&args));
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
        if !self.authenticated || self.transaction.is_some() || self.replies != Replies::On {
            return None;
        }
        if self.client.subscriptions() > 0 && self.version == Version::Resp2 || self.server.clients.are_paused() {
            return None;
        }
        let is_lookup = matches!(spec.handler, Handler::Lookup(_));
        if !is_lookup && self.server.space.dictionary().is_some() {
            return None;
        }
        let most = if is_lookup { self.lookup_run_max } else { RUN_MAX };
        let mut keys = 0;
        let fits = |request: &&Request| {
            keys += request.run_keys().unwrap_or(most + 1);
            request.spec.is_some_and(|spec| spec.id == id) && keys <= most
        };
        let count = requests.iter().take_while(fits).count();
        (count > 0).then_some((id, count))
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
        if let Err(mut refusal) = self.admit(spec, &args) {
            if spec.id == Id::Exec {
                self.transaction = None;
                self.forget_watch();
                let text = refusal.text();
                let text = text.strip_prefix(b"ERR ").unwrap_or(&text);
                refusal = Refusal::about("EXECABORT Transaction discarded because of: ", text, "");
            }
            self.figures.of(spec.id).rejected.fetch_add(1, Relaxed);
            self.refuse_command(out, &refusal);
        } else if self.is_queued(spec) {
            self.queue(spec, &args);
            out.extend_from_slice(b"+QUEUED\r\n");
        } else {
            if let Some(time) = server.clients.pause(spec.flags.has(Flags::WRITE) || spec.id == Id::Exec) {
                return Step::Pause(time);
            }
            if patience == Patience::EventLoop && is_long(spec, &args) {
                return Step::Wait;
            }
            let outcome = match spec.handler {
                Handler::Session(execute) => {
                    *shared = None;
                    execute(self, args, out)
                }
                Handler::Scan(execute) => execute(&server.space, &mut self.call(args, out), &[]),
                Handler::Lookup(execute) => {
                    if shared.is_none() {
                        *shared = server.space.share(patience);
                    }
                    let Some(entry) = shared else { return Step::Wait };
                    execute(&mut Turn::Shared(entry), &mut self.call(args, out))
                }
                Handler::Change(_) | Handler::Transaction(_) => {
                    *shared = None;
                    let Some(mut alone) = server.space.close(patience) else { return Step::Wait };
                    self.unsynced = true;
                    let outcome = self.change(&mut alone, spec, args, out);
                    drop(alone);
                    if matches!(spec.id, Id::FlushDb | Id::FlushAll) {
                        server.compact_cleared();
                    }
                    outcome
                }
            };
            if let Err(refusal) = outcome {
                self.figures.of(spec.id).failed.fetch_add(1, Relaxed);
                out.truncate(before);
                self.refuse(out, &refusal);
            }
        }
        self.settle_reply(before, out);
        match self.sleep.take() {
            _ if self.closing => Step::Close,
            Some(time) => Step::Sleep(time),
            None => Step::Done,
        }
    }

    /// Removes the reply that begins at `before` if the client does not want it.
    #[inline]
    fn settle_reply(&mut self, before: usize, out: &mut Vec<u8>) {
        match self.replies {
            Replies::On => {}
            Replies::Off | Replies::Skip => out.truncate(before),
            Replies::SkipNext => {}
        }
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip if planted(Bug::SkipLasts) => Replies::Skip,
            Replies::Skip => Replies::On,
            other => other,
        };
    }

    /// Executes a command that changes the key space, or a whole transaction.
    fn change(&mut self, alone: &mut Exclusive<'_>, spec: &'static Spec, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
        let execute = match spec.handler {
            Handler::Change(execute) => execute,
            Handler::Transaction(execute) => return execute(self, alone, args, out),
            _ => return Ok(()), // executed by the caller
        };
        if spec.flags.has(Flags::DENYOOM) {
            alone.make_room(bytes_of(spec, &args))?;
        }
        alone.begin();
        let mut call = self.call(args, out);
        match execute(alone, &mut call) {
            Ok(()) => Ok(alone.commit()?),
            Err(refusal) => {
                alone.roll_back();
                Err(refusal)
            }
        }
    }

    /// WATCH key ...
    pub(crate) fn watch(&mut self, alone: &mut Exclusive<'_>, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
        if self.transaction.is_some() {
            return Err("ERR WATCH inside MULTI is not allowed".into());
        }
        let most = self.server.settings.request_bytes.load(Relaxed);
        for key in args.from(1) {
            if self.watch.bytes() + key.len() > most {
                return Err("ERR too many watched keys".into());
            }
            alone.watch(&mut self.watch, self.database, key)?;
        }
        reply::ok(out);
        Ok(())
    }

    /// UNWATCH. Without effect in a transaction, where EXEC has already ended the watch.
    pub(crate) fn unwatch(&mut self, alone: &mut Exclusive<'_>, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
        alone.unwatch(&mut self.watch)?;
        reply::ok(out);
        Ok(())
    }

    /// EXEC: the queued commands as one change.
    pub(crate) fn exec(&mut self, alone: &mut Exclusive<'_>, _: Args<'_>, out: &mut Vec<u8>) -> Outcome {
        let Some(transaction) = self.transaction.take() else { return Err("ERR EXEC without MULTI".into()) };
        let changed = alone.unwatch(&mut self.watch)?;
        if transaction.refused {
            return Err("EXECABORT Transaction discarded because of previous errors.".into());
        }
        if transaction.is_across_slots {
            return Err(cluster::CROSS_SLOT.into());
        }
        if changed {
            reply::null_array(out, self.version);
            return Ok(());
        }
        if transaction.commands.iter().any(|(spec, _)| spec.flags.has(Flags::DENYOOM)) {
            alone.make_room(transaction.bytes.len())?;
        }
        alone.begin();
        let (start, reply_bytes_max) = (out.len(), self.server.settings.request_bytes.load(Relaxed));
        reply::array(out, transaction.commands.len());
        let mut spans = transaction.spans.as_slice();
        for &(spec, count) in &transaction.commands {
            let (these, rest) = spans.split_at(count);
            spans = rest;
            let args = Args { request: &transaction.bytes, spans: these };
            let before = out.len();
            let outcome = match spec.handler {
                Handler::Session(execute) => execute(self, args, out),
                Handler::Scan(_) if spec.id == Id::DbSize => {
                    alone.len(self.database).map(|len| reply::count(out, len)).map_err(Refusal::from)
                }
                Handler::Scan(execute) => {
                    let staged = if spec.id == Id::Keys { alone.staged_keys(self.database)? } else { Vec::new() };
                    execute(&self.server.space, &mut call_of(self, args, out), &staged)
                }
                Handler::Lookup(execute) => execute(&mut Turn::Alone(alone), &mut call_of(self, args, out)),
                Handler::Change(execute) => execute(alone, &mut call_of(self, args, out)),
                Handler::Transaction(execute) => execute(self, alone, args, out),
            };
            // Without a limit, a transaction that reads large values again and again could take any amount of memory.
            let too_long = out.len() - start > reply_bytes_max;
            if let Err(refusal) = if too_long { Err(call::REPLY_TOO_LONG.into()) } else { outcome } {
                self.figures.of(spec.id).failed.fetch_add(1, Relaxed);
                out.truncate(before);
                self.refuse(out, &refusal);
            }
        }
        // A delay inside EXEC would delay other clients.
        self.sleep = None;
        // If the commit fails, nothing was stored, and the error replaces all replies.
        Ok(alone.commit()?)
    }

    /// Whether the command is allowed now, with these arguments.
    fn admit(&self, spec: &Spec, args: &Args<'_>) -> Outcome {
        let subcommand = spec.subcommand(args)?;
        let name = || match subcommand {
            Some((subcommand, _)) => format!("{}|{subcommand}", spec.name),
            None => spec.name.to_owned(),
        };
        let arity_fits = subcommand.is_none_or(|(_, arity)| table::fits(arity, args.len()));
        if !spec.accepts(args.len()) || !arity_fits {
            return Err(format!("ERR wrong number of arguments for '{}' command", name()).into());
        }
        if !self.authenticated && !spec.flags.has(Flags::NO_AUTH) {
            return Err("NOAUTH Authentication required.".into());
        }
        if self.transaction.is_some() && spec.flags.has(Flags::NO_MULTI) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        let subscribed = self.version == Version::Resp2 && self.client.subscriptions() > 0;
        if subscribed && !spec.flags.has(Flags::SUBSCRIBED) {
            return Err(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                this context",
                name()
            )
            .into());
        }
        match self.server.space.dictionary() {
            Some(dictionary) => cluster::admit(self, dictionary, spec, args),
            None => Ok(()),
        }
    }

    fn is_queued(&self, spec: &Spec) -> bool {
        self.transaction.is_some() && !spec.flags.has(Flags::NOW)
    }

    fn queue(&mut self, spec: &'static Spec, args: &Args<'_>) {
        let most = self.server.settings.request_bytes.load(Relaxed);
        let has_topology = self.server.space.dictionary().is_some_and(|dictionary| dictionary.has_topology());
        let slot = if has_topology { cluster::slot_of(spec, args).unwrap_or_default() } else { None };
        let Some(transaction) = &mut self.transaction else { return };
        // The queue is limited to the size of the longest request; beyond it EXEC is refused.
        let bytes: usize = args.from(0).map(<[u8]>::len).sum();
        if transaction.bytes.len() + bytes > most || transaction.spans.len() + args.len() > most / 8 {
            transaction.refused = true;
            return;
        }
        transaction.is_across_slots |= slot.is_some() && transaction.slot.is_some_and(|other| Some(other) != slot);
        transaction.slot = transaction.slot.or(slot);
        for argument in args.from(0) {
            let start = transaction.bytes.len();
            transaction.bytes.extend_from_slice(argument);
            transaction.spans.push(Span::of(start..transaction.bytes.len()));
        }
        transaction.commands.push((spec, args.len()));
    }

    pub(crate) fn forget_watch(&mut self) {
        self.server.space.forget_watch(&mut self.watch);
    }

    fn call<'c, 'a>(&self, args: Args<'a>, out: &'c mut Vec<u8>) -> Call<'c, 'a> {
        call_of(self, args, out)
    }

    /// Answers a request that is refused before execution; a transaction that it belongs to will be refused too.
    fn refuse_command(&mut self, out: &mut Vec<u8>, refusal: &Refusal) {
        if let Some(transaction) = &mut self.transaction {
            transaction.refused = !planted(Bug::RefusalForgotten);
        }
        if planted(Bug::RefusalEndsMulti) {
            self.transaction = None;
        }
        self.refuse(out, refusal);
    }

    fn refuse(&self, out: &mut Vec<u8>, refusal: &Refusal) {
        self.figures.errors.fetch_add(1, Relaxed);
        reply::error(out, refusal.text());
    }

    /// Counts commands and their time. Returns the time now.
    #[inline]
    fn note<'a>(&self, id: Id, count: usize, since: Instant, args: impl FnOnce() -> Args<'a>) -> Instant {
        let now = Instant::now();
        let nanos = now.duration_since(since).as_nanos() as u64; // 584 years
        self.figures.note(id, count as u64, nanos);
        self.client.last_command.store(id as u8, Relaxed);
        self.client.queued.store(self.transaction.as_ref().map_or(0, |t| t.commands.len() + 1), Relaxed);
        self.client.watched.store(self.watch.len(), Relaxed);
        if nanos / 1000 >= self.server.slow_log.threshold_us.load(Relaxed) {
            self.server.slow_log.add(&args(), nanos / 1000, &self.client);
        }
        now
    }
}

/// Whether a command may take so long that it would delay other clients of the event loop.
fn is_long(spec: &Spec, args: &Args<'_>) -> bool {
    const ARGS_MAX: usize = 10_000;
    const BYTES_MAX: usize = 1 << 20;
    spec.flags.has(Flags::WAITS) || args.len() > ARGS_MAX || spec.id == Id::SetRange && bytes_of(spec, args) > BYTES_MAX
}

/// The number of bytes that a command may add to the key space.
fn bytes_of(spec: &Spec, args: &Args<'_>) -> usize {
    let offset = || args.get(2).and_then(parse_integer).and_then(|offset| usize::try_from(offset).ok()).unwrap_or(0);
    let before = if spec.id == Id::SetRange { offset() } else { 0 };
    args.from(1).map(<[u8]>::len).sum::<usize>().saturating_add(before)
}

fn call_of<'c, 'a>(session: &RespSession, args: Args<'a>, out: &'c mut Vec<u8>) -> Call<'c, 'a> {
    Call {
        args,
        database: session.database,
        version: session.version,
        out,
        value_bytes_max: session.server.settings.bulk_bytes.load(Relaxed),
        reply_bytes_max: session.server.settings.request_bytes.load(Relaxed),
    }
}

/// The result of executing one request.
enum Step {
    Done,
    Wait,
    Close,
    /// Done; send the reply after this delay.
    Sleep(Duration),
    /// Not done because of CLIENT PAUSE; try again after this time.
    Pause(Duration),
}
