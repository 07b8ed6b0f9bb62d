//! A client of the Redis protocol: requests of one read become batches.
//!
//! ```text
//! input -> parse up to BATCH_MAX requests in place -> for each run of equal commands:
//!     GET GET GET ...      one get_many        beside others; likewise MGET, EXISTS, TOUCH, STRLEN
//!     SET SET SET ...      one put_many        beside others while the database is plain, else alone
//!     APPEND APPEND ...    one append_many     likewise
//!     DEL DEL ...          one remove_many     of one key each; one by one where the database is not plain
//!     anything else        one command         lookups beside others, writes alone
//! ```
//!
//! Commands of a connection take effect in their order, so a run ends where another command comes, and equal keys in a
//! run need no care: `put_many` and `append_many` keep the order.
//!
//! Not here: what commands mean (`command`), sockets (`connection.rs`).

use super::Version;
use super::parse::{ParseLimits, Parsed, Parser, Span};
use super::reply;
use crate::clients::Client;
use crate::command::call::{self, Args, Call, Outcome, Refusal, Turn};
use crate::command::number::parse_integer;
use crate::command::table::{self, Flags, Id, Names, Spec};
use crate::command::{self, cluster, connection, introspect, strings};
use crate::figures::Figures;
use crate::foreign::ForeignLog;
use crate::keyspace::{self, Exclusive, Patience, Shared, Watch};
use crate::planted::{Bug, planted};
use crate::server::Server;
use crate::session::{Flow, Session};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// Requests parsed before they are executed.
const BATCH_MAX: usize = 256;
/// Keys of one call of the table at most.
const RUN_MAX: usize = 64;
/// Output after which the client has to read first.
const OUTPUT_BYTES: usize = 256 << 10;

/// See the head of this file.
pub struct RespSession {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Arc<Client>,
    figures: Arc<Figures>,
    parser: Parser,
    args: Vec<Span>,
    requests: Vec<Request>,
    /// Keys looked up by one call of the table at most.
    lookup_run_max: usize,
    pub(crate) database: usize,
    pub(crate) version: Version,
    pub(crate) authenticated: bool,
    pub(crate) replies: Replies,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watch: Watch,
    pub(crate) closing: bool,
    /// The client wants to wait for this time.
    pub(crate) sleep: Option<Duration>,
    /// Whether the client came by TLS, and is told addresses for it.
    pub(crate) is_tls: bool,
    unsynced: bool,
}

/// Whether a client wants replies (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// None for the command after this one.
    SkipNext,
    Skip,
}

/// A request of a batch.
#[derive(Clone, Copy)]
struct Request {
    /// Where it begins in the input; where its arguments begin in the list, and how many they are.
    start: usize,
    first: usize,
    count: usize,
    spec: Option<&'static Spec>,
    /// Its arguments are words of a line.
    words: bool,
}

impl Request {
    /// How many keys it has if one call of the table can do it together with others; else `None`.
    #[inline]
    fn run_keys(&self) -> Option<usize> {
        match (self.spec?.id, self.count) {
            // Several keys of a DEL have to be removed as one change.
            (Id::Get | Id::StrLen | Id::Del | Id::Unlink, 2) | (Id::Set, 3) | (Id::Append, 3 | 5) => Some(1),
            (Id::MGet | Id::Exists | Id::Touch, count @ 2..) => Some(count - 1),
            _ => None,
        }
    }
}

/// Commands between MULTI and EXEC.
#[derive(Default)]
pub(crate) struct Transaction {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    commands: Vec<(&'static Spec, usize)>,
    /// A command was refused: EXEC will be.
    refused: bool,
    /// The slot of the keys so far, in a cluster, and whether they have several.
    slot: Option<u16>,
    is_across_slots: bool,
}

/// How parsing a batch ended.
enum Ending {
    /// All that came whole is parsed, up to here; the second number is the least length of the next one.
    Read(usize, usize),
    /// There may be more from here on.
    More(usize),
    /// From here on the input has no meaning.
    Broken(usize, String),
    /// From here on the input is of another protocol.
    Foreign(usize, &'static str),
}

/// Why a batch was not executed to its end: the first request that was not, and how to go on.
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

    /// For a client that came by TLS.
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
                    // The parser has room for the words of one line.
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
                    // A request by itself needs no arrays for many.
                    Id::Set if count == 1 => self.set_run::<1>(entry, args, out).then_some(count),
                    Id::Set => self.set_run::<RUN_MAX>(entry, args, out).then_some(count),
                    Id::Del | Id::Unlink => self.remove_run(entry, args, out),
                    _ if count == 1 && request.count == 2 => self.lookup_run::<1>(entry, id, args, out),
                    _ => self.lookup_run::<RUN_MAX>(entry, id, args, out),
                };
                self.database = database;
                // A database with lifetimes takes stores and appends alone, but still as a batch.
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

    /// The run at the beginning of `requests`: its command, and how many of them one call of the table can do.
    #[inline]
    fn run_at(&self, requests: &[Request]) -> Option<(Id, usize)> {
        let id = requests[0].spec?.id;
        requests[0].run_keys()?;
        if !self.authenticated || self.transaction.is_some() || self.replies != Replies::On {
            return None;
        }
        if self.client.subscriptions() > 0 && self.version == Version::Resp2 {
            return None;
        }
        let is_lookup = class_of(id) == Class::Lookup;
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

    /// Answers lookups of at most `MOST` keys until the output is long. Returns how many; `None`: they are to be
    /// answered one by one.
    fn lookup_run<'a, const MOST: usize>(
        &mut self,
        shared: &Shared<'_>,
        id: Id,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut keys: [&[u8]; MOST] = [&[]; MOST];
        // Where a request begins: its number of keys.
        let mut firsts = [0u8; MOST];
        let (mut key_count, mut count) = (0, 0);
        for args in args {
            firsts[key_count] = (args.len() - 1) as u8; // at most RUN_MAX
            for key in args.from(1) {
                keys[key_count] = key;
                key_count += 1;
            }
            count += 1;
        }
        if let Some(dictionary) = self.server.space.dictionary() {
            // Those for other nodes get their redirections one by one.
            key_count = dictionary.count_served(&keys[..key_count], &firsts);
            if key_count == 0 {
                return None;
            }
            count = firsts[..key_count].iter().filter(|&&keys| keys > 0).count();
        }
        let (before, version) = (out.len(), self.version);
        let (mut hits, mut looked, mut done, mut stopped) = (0, 0, 0, false);
        // Keys of the request that are to come, and those that were present.
        let (mut left, mut present) = (0, 0);
        let take = |index: usize, value: Found<'_>| {
            if firsts[index] > 0 {
                if out.len() > OUTPUT_BYTES && !stopped {
                    stopped = true;
                    done -= usize::from(planted(Bug::AnsweredTwice));
                }
                (left, present) = (firsts[index], 0);
                if !stopped {
                    done += 1;
                    if id == Id::MGet {
                        reply::array(out, usize::from(left));
                        if planted(Bug::PushWithinReply) {
                            self.client.take_pushes(out);
                        }
                    }
                }
            }
            if stopped {
                return;
            }
            looked += 1;
            let len = match value {
                Found::Value(value) => value.map(<[u8]>::len),
                Found::Len(len) => len,
            };
            hits += u64::from(len.is_some());
            match (id, value) {
                (Id::Get | Id::MGet, Found::Value(value)) => reply::bulk_or_null(out, value, version),
                (Id::StrLen, _) => reply::count(out, len.unwrap_or(0) as u64),
                _ => {
                    (left, present) = (left - 1, present + u64::from(len.is_some()));
                    if left == 0 {
                        reply::count(out, present);
                    }
                }
            }
        };
        let keys = &keys[..key_count];
        let mut take = take;
        let found = match id {
            Id::Get | Id::MGet => shared.get_many(self.database, keys, |index, value| take(index, Found::Value(value))),
            // Large values are not read for these.
            _ => keys.iter().enumerate().try_for_each(|(index, key)| {
                shared.value_len(self.database, key).map(|len| take(index, Found::Len(len)))
            }),
        };
        if id != Id::Exists {
            shared.note_use(keys);
        }
        if found.is_err() {
            // One by one, each with its own answer.
            out.truncate(before);
            return None;
        }
        // Large values: what is not answered was copied in vain, so the next run is shorter.
        self.lookup_run_max = if done < count { looked.max(1) } else { (2 * self.lookup_run_max).min(RUN_MAX) };
        let misses = looked as u64 - hits;
        if hits > 0 {
            self.figures.hits.fetch_add(hits, Relaxed);
        }
        if misses > 0 {
            self.figures.misses.fetch_add(misses, Relaxed);
        }
        Some(done)
    }

    fn set_run<'a, const MOST: usize>(
        &mut self,
        shared: &Shared<'_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut pairs: [(&[u8], &[u8]); MOST] = [(&[], &[]); MOST];
        let count = pairs_of(args, &mut pairs);
        match shared.put_many(self.database, &pairs[..count]) {
            Ok(true) => {
                self.unsynced = true;
                (0..count).for_each(|_| reply::ok(out));
                true
            }
            // Not plain; or the first pairs are stored, and storing them again changes nothing.
            Ok(false) | Err(_) => false,
        }
    }

    fn set_run_alone<'a>(
        &mut self,
        alone: &mut Exclusive<'_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut pairs: [(&[u8], &[u8]); RUN_MAX] = [(&[], &[]); RUN_MAX];
        let count = pairs_of(args, &mut pairs);
        self.unsynced = true;
        let bytes = pairs[..count].iter().map(|(_, value)| value.len()).sum();
        let stored = alone.make_room(bytes).and_then(|()| alone.put_many(self.database, &pairs[..count]));
        if stored.is_ok() {
            (0..count).for_each(|_| reply::ok(out));
        }
        // After an error one by one, each with its own answer: storing a pair again changes nothing.
        stored.is_ok()
    }

    /// Answers APPENDs up to one with an option that is none. Returns how many; `None`: they are to be answered one by
    /// one.
    fn append_run<'a>(
        &mut self,
        turn: Turn<'_, '_>,
        args: impl Iterator<Item = Args<'a>>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let value_bytes_max = self.server.settings.bulk_bytes.load(Relaxed);
        let mut pairs: [(&[u8], &[u8]); RUN_MAX] = [(&[], &[]); RUN_MAX];
        let mut limits = [value_bytes_max; RUN_MAX];
        let mut count = 0;
        for args in args {
            let Ok(limit) = strings::append_limit(&args, value_bytes_max) else { break };
            (pairs[count], limits[count]) = ((args.at(1), args.at(2)), limit);
            count += 1;
        }
        let (before, mut done, mut refused, mut late) = (out.len(), 0, 0, Vec::new());
        let take = |index: usize, len: Option<usize>| {
            match len {
                Some(len) => reply::count(out, len as u64),
                None => {
                    let out = if planted(Bug::RefusalLast) { &mut late } else { &mut *out };
                    reply::error(out, strings::too_long(limits[index], value_bytes_max).text());
                    refused += 1;
                }
            }
            done = index + 1;
        };
        let (pairs, limit) = (&pairs[..count], |index: usize| limits[index]);
        let appended = match turn {
            Turn::Shared(shared) => shared.append_many(self.database, pairs, limit, take),
            Turn::Alone(alone) => {
                if alone.make_room(pairs.iter().map(|(_, tail)| tail.len()).sum()).is_err() {
                    // One by one, each with its own answer.
                    return None;
                }
                alone.append_many(self.database, pairs, limit, take).map(|()| true)
            }
        };
        out.append(&mut late);
        self.figures.errors.fetch_add(refused, Relaxed);
        self.end_run(appended, done, count, before, out)
    }

    /// DEL of one key each. Returns how many are answered; `None`: they are to be answered one by one.
    fn remove_run<'a>(
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
        let removed = shared.remove_many(self.database, &keys[..count], |index, was_present| {
            reply::integer(out, was_present.into());
            done = index + 1;
        });
        self.end_run(removed, done, count, before, out)
    }

    /// The end of a run of `count` writes, of which `done` are made, with replies from `before` on: the one that failed
    /// is answered with the error, those behind it are another run.
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
            self.refuse(out, &refusal);
            return Some(done + 1);
        }
        // All are made, and not as durable as their replies say.
        out.truncate(before);
        (0..count).for_each(|_| self.refuse(out, &refusal));
        Some(count)
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
            if patience == Patience::EventLoop && is_long(spec, &args) {
                return Step::Wait;
            }
            let outcome = match class_of(spec.id) {
                Class::Connection => {
                    *shared = None;
                    connection::execute(self, spec.id, args, out)
                }
                Class::Scan => {
                    let mut call = self.call(args, out);
                    introspect::scan(spec.id, &server.space, &mut call, &[])
                }
                Class::Lookup => {
                    if shared.is_none() {
                        *shared = server.space.share(patience);
                    }
                    let Some(entry) = shared else { return Step::Wait };
                    let mut call = self.call(args, out);
                    command::look_up(spec.id, &mut Turn::Shared(entry), &mut call)
                }
                Class::Change => {
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

    /// Takes back the reply that begins at `before` if the client does not want it.
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

    /// A command that changes the key space, or a whole transaction.
    fn change(&mut self, alone: &mut Exclusive<'_>, spec: &'static Spec, args: Args<'_>, out: &mut Vec<u8>) -> Outcome {
        match spec.id {
            Id::Exec => return self.exec(alone, out),
            Id::Watch => {
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
                return Ok(());
            }
            Id::Unwatch => {
                alone.unwatch(&mut self.watch)?;
                reply::ok(out);
                return Ok(());
            }
            _ => {}
        }
        if spec.flags.has(Flags::DENYOOM) {
            alone.make_room(bytes_of(spec, &args))?;
        }
        alone.begin();
        let mut call = self.call(args, out);
        match command::change(spec.id, alone, &mut call) {
            Ok(()) => Ok(alone.commit()?),
            Err(refusal) => {
                alone.roll_back();
                Err(refusal)
            }
        }
    }

    /// EXEC: the queued commands as one change.
    fn exec(&mut self, alone: &mut Exclusive<'_>, out: &mut Vec<u8>) -> Outcome {
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
            let outcome = match class_of(spec.id) {
                Class::Connection => connection::execute(self, spec.id, args, out),
                Class::Scan if spec.id == Id::DbSize => {
                    alone.len(self.database).map(|len| reply::count(out, len)).map_err(Refusal::from)
                }
                Class::Scan => {
                    let staged = if spec.id == Id::Keys { alone.staged_keys(self.database)? } else { Vec::new() };
                    introspect::scan(spec.id, &self.server.space, &mut call_of(self, args, out), &staged)
                }
                Class::Lookup => command::look_up(spec.id, &mut Turn::Alone(alone), &mut call_of(self, args, out)),
                Class::Change => command::change(spec.id, alone, &mut call_of(self, args, out)),
            };
            // Values that are asked for again and again would take any amount of memory.
            let too_long = out.len() - start > reply_bytes_max;
            if let Err(refusal) = if too_long { Err(call::REPLY_TOO_LONG.into()) } else { outcome } {
                self.figures.of(spec.id).failed.fetch_add(1, Relaxed);
                out.truncate(before);
                self.refuse(out, &refusal);
            }
        }
        // Where nothing was stored, every reply is the same error.
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
        let now = [Id::Exec, Id::Discard, Id::Multi, Id::Watch, Id::Quit, Id::Reset];
        self.transaction.is_some() && !now.contains(&spec.id)
    }

    fn queue(&mut self, spec: &'static Spec, args: &Args<'_>) {
        let most = self.server.settings.request_bytes.load(Relaxed);
        let has_topology = self.server.space.dictionary().is_some_and(|dictionary| dictionary.has_topology());
        let slot = if has_topology { cluster::slot_of(spec, args).unwrap_or_default() } else { None };
        let Some(transaction) = &mut self.transaction else { return };
        // As large as a request may be, or EXEC is refused.
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

    /// A request that cannot be executed at all; it also spoils the transaction that it belongs to.
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

/// Whether a command may take so long that others would have to wait for the event loop.
fn is_long(spec: &Spec, args: &Args<'_>) -> bool {
    const ARGS_MAX: usize = 10_000;
    const BYTES_MAX: usize = 1 << 20;
    spec.flags.has(Flags::WAITS) || args.len() > ARGS_MAX || spec.id == Id::SetRange && bytes_of(spec, args) > BYTES_MAX
}

/// Bytes that a command may add.
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

fn pairs_of<'a>(args: impl Iterator<Item = Args<'a>>, pairs: &mut [(&'a [u8], &'a [u8])]) -> usize {
    let mut count = 0;
    for (slot, args) in pairs.iter_mut().zip(args) {
        *slot = (args.at(1), args.at(2));
        count += 1;
    }
    count
}

/// What a lookup found: the value, or only its length.
#[derive(Clone, Copy)]
enum Found<'v> {
    Value(Option<&'v [u8]>),
    Len(Option<usize>),
}

/// What executing one request came to.
enum Step {
    Done,
    Wait,
    Close,
    Sleep(Duration),
}

/// What a command needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// The session and the server.
    Connection,
    /// The tables, without the gate.
    Scan,
    /// The key space beside others.
    Lookup,
    /// The key space alone.
    Change,
}

fn class_of(id: Id) -> Class {
    use Id::*;
    match id {
        Get | MGet | StrLen | GetRange | SubStr | Exists | Type | Touch | Object | Ttl | PTtl | ExpireTime
        | PExpireTime | Memory | Dump => Class::Lookup,
        Scan | Keys | RandomKey | DbSize | HtStats => Class::Scan,
        Set | SetNx | SetEx | PSetEx | GetSet | GetEx | GetDel | MSet | MSetNx | Append | SetRange | Incr | Decr
        | IncrBy | DecrBy | IncrByFloat | Del | Unlink | Copy | Rename | RenameNx | Restore | Expire | PExpire
        | ExpireAt | PExpireAt | Persist | FlushDb | FlushAll | Exec | Watch | Unwatch => Class::Change,
        _ => Class::Connection,
    }
}
