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
//! `batch.rs` walks through a batch, `lookups.rs` and `runs.rs` execute the runs, `one.rs` everything else.
//!
//! Not here: what commands mean (`command`), sockets (`connection.rs`).

mod batch;
mod lookups;
mod one;
mod runs;

use super::parse::{ParseLimits, Parsed, Parser};
use crate::clients::Client;
use crate::command::call::{Args, Refusal, Span};
use crate::command::reply;
use crate::command::script::BUSY;
use crate::command::spec::{Id, Names};
use crate::command::state::{Replies, SessionState};
use crate::figures::Figures;
use crate::keyspace::Patience;
use crate::server::Server;
use crate::session::{Flow, Session};
use batch::{LargeKey, Request};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Instant;

/// The most requests that are parsed before they are executed.
const BATCH_MAX: usize = 256;
/// The most keys of one call of the table.
const RUN_MAX: usize = 64;
/// Once there is this much output, the client must read before more requests are executed.
const OUTPUT_BYTES: usize = 256 << 10;
/// The most arguments for which a session keeps memory between requests.
const ARGS_KEPT: usize = 4096;

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

impl Session for RespSession {
    fn execute(&mut self, input: &[u8], out: &mut Vec<u8>, patience: Patience) -> (usize, Flow) {
        let state = &mut self.state;
        state.server.settings.admit(&mut state.authenticated, &mut state.is_guest);
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
                self.drop_args(self.args.len());
                return (start, flow);
            }
            let done = self.requests.last().map_or(0, |last| last.first + last.count);
            self.drop_args(done);
            match ending {
                Ending::Read(end, need) => return (end, Flow::Read(need)),
                Ending::More(end) => at = end,
                Ending::Broken(end, what) => {
                    reply::error(out, format!("ERR Protocol error: {what}"));
                    self.parser = Parser::default();
                    self.drop_args(self.args.len());
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
        let before = out.len();
        let has_ended = self.state.end_wait(late, out);
        if has_ended {
            self.unsynced = true;
            self.settle_reply(before, out);
        }
        has_ended
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

    /// Drops the first `count` arguments, and memory that only a long request needs.
    #[inline]
    fn drop_args(&mut self, count: usize) {
        self.args.drain(..count);
        if self.args.capacity() > ARGS_KEPT && self.args.len() <= ARGS_KEPT {
            self.args.shrink_to(ARGS_KEPT);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{KeySpace, SpaceOptions};
    use crate::settings::Settings;

    #[test]
    fn the_memory_of_a_long_request_is_freed_after_it() {
        let space = Arc::new(KeySpace::open(SpaceOptions::default()).unwrap());
        let server = Arc::new(Server::new(space, Settings::default(), false));
        let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
        let mut session = RespSession::new(server.clone(), client, server.add_figures());
        let (keys, mut out) = ("$1\r\nk\r\n".repeat(100_000), Vec::new());
        // Also of one that is refused, and of one that comes in two pieces.
        for name in ["EXISTS", "GET"] {
            let long = format!("*100001\r\n${}\r\n{name}\r\n{keys}", name.len());
            let (used, flow) = session.execute(&long.as_bytes()[..500_000], &mut out, Patience::MayWait);
            assert!(used == 0 && matches!(flow, Flow::Read(_)), "{used}, {flow:?}");
            assert!(session.args.capacity() > ARGS_KEPT);
            let (used, flow) = session.execute(long.as_bytes(), &mut out, Patience::MayWait);
            assert_eq!((used, flow), (long.len(), Flow::Read(1)));
            assert!(session.args.capacity() <= ARGS_KEPT, "{}", session.args.capacity());
        }
        assert_eq!(out, b":0\r\n-ERR wrong number of arguments for 'get' command\r\n");
    }
}
