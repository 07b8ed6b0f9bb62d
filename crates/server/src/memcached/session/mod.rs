//! A client of the memcached protocol: requests of one read become batches.
//!
//! ```text
//! input -> a line, and its value -> request ->
//!     get k, get a b, ...     up to RUN_MAX keys: one get_many        shared
//!     gets k, mg k v c, ...   up to RUN_MAX keys: one get_many        shared, unless one changes an attribute
//!     set k f t n, ...        one put_many                            shared while the database is plain
//!     add, cas, incr, touch,  one edit_many                           shared while the database is plain
//!     gat, ...
//!     anything else           one command                             exclusive
//! ```
//!
//! A run ends at the first command of another kind, so the commands of a connection take effect in order.

mod binary;
mod runs;

use super::activity::Activity;
use super::classic::{self, Counted, Stored, Storing};
use super::dump::{self, Dump};
use super::meta;
use super::request::{self, Get, Meta, Mode, Request, Store, words};
use super::state::Outcomes;
use super::stats;
use super::{DATABASE, MEMCACHED_VERSION};
use crate::clients::Client;
use crate::command::call::Args;
use crate::command::call::Span;
use crate::command::spec::Id;
use crate::figures::Figures;
use crate::foreign;
use crate::keyspace::{
    Attributes, Edit, Exclusive, New, Old, Patience, Result, SHORT_VALUE_BYTES, Shared, SpaceError, Waits, now_ms,
};
use crate::server::Server;
use crate::session::{Flow, Session};
use memchr::memchr;
use runs::{Kind, Run};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// The most lookups or stores in one call of the table.
const RUN_MAX: usize = 64;
/// How long a client waits before it tries again while a script runs for long.
const SCRIPT_PAUSE: Duration = Duration::from_millis(10);
/// The most commands executed while the gate is closed once.
const ALONE_MAX: usize = 64;
/// Once there is this much output, the client must read before more requests are executed.
const OUTPUT_BYTES: usize = 256 << 10;
/// The longest line, and the longest line of a get of many keys, in bytes.
const LINE_BYTES_MAX: usize = 2048;
const GET_LINE_BYTES_MAX: usize = 1 << 20;

/// The session of a memcached client.
pub struct MemcachedSession {
    server: Arc<Server>,
    client: Arc<Client>,
    figures: Arc<Figures>,
    authenticated: bool,
    /// The version of the users, and whether `default` was then allowed everything.
    permitted: Option<(u64, bool)>,
    /// Bytes of a refused value that must still be skipped.
    swallow: usize,
    /// Bytes at the beginning of the input that were searched and contain no line end.
    scanned: usize,
    /// Whether the client speaks the binary protocol; `None` before its first byte.
    is_binary: Option<bool>,
    /// The number of keys already answered of the first request of the input, a get.
    answered: usize,
    /// A dump that the client has not read to its end.
    dump: Option<Dump>,
    unsynced: bool,
}

/// How this batch has entered the key space.
enum Entry<'k> {
    Outside,
    Shared(Shared<'k>),
    /// Exclusive, and the number of commands it may still execute.
    Alone(Exclusive<'k>, usize),
}

/// Stops before the end of the input: where the next request to execute begins, and what the connection does first.
struct Pause(usize, Flow);

impl Pause {
    /// The pause of a thread of the event loop that would have to wait.
    fn to_wait(at: usize) -> Pause {
        Pause(at, Flow::Wait)
    }
}

impl Session for MemcachedSession {
    fn execute(&mut self, input: &[u8], out: &mut Vec<u8>, patience: Patience) -> (usize, Flow) {
        let server = self.server.clone();
        // Bounds the number of keys, since each may read the disk.
        const FEW_BYTES: usize = 2048;
        let waits = match server.space.disk_waits(0) {
            _ if patience == Patience::MayWait => false,
            Waits::Never => false,
            Waits::Seldom => self.dump.is_some() || input.len() > FEW_BYTES,
            Waits::Often => true,
        };
        if waits {
            return (0, Flow::Wait);
        }
        server.space.note_len(input.len());
        if !self.is_permitted() {
            if self.is_binary != Some(true) {
                out.extend_from_slice(b"SERVER_ERROR the rules of the user default do not allow everything\r\n");
            }
            return (0, Flow::Close);
        }
        let mut batch = Batch { server: &server, patience, entry: Entry::Outside, clock: Instant::now() };
        let is_binary = match (self.is_binary, input.first()) {
            (None, Some(&byte)) => {
                if byte != binary::REQUEST && !foreign::can_begin(byte) {
                    server.foreign.note(server.started, &self.client, "bytes of another protocol");
                    return (0, Flow::Close);
                }
                *self.is_binary.insert(byte == binary::REQUEST)
            }
            (known, _) => known.unwrap_or(false),
        };
        let executed = match is_binary {
            true => self.execute_binary(&mut batch, input, out),
            false => self.execute_all(&mut batch, input, out),
        };
        match executed {
            Ok(ending) => ending,
            Err(Pause(at, flow)) => {
                self.scanned = 0;
                // A thread that may wait is refused entry only by a script that runs for long.
                let is_refused = patience == Patience::MayWait && flow == Flow::Wait;
                (at, if is_refused { Flow::Sleep(SCRIPT_PAUSE) } else { flow })
            }
        }
    }

    fn take_unsynced(&mut self) -> bool {
        std::mem::take(&mut self.unsynced)
    }

    fn reads_ahead(&self) -> bool {
        self.authenticated
    }

    fn failure(&self, what: &str) -> String {
        format!("SERVER_ERROR {what}\r\n")
    }

    fn close(&mut self) {
        self.server.clients.remove(self.client.id);
    }
}

/// The state that the commands of one read share.
struct Batch<'k> {
    server: &'k Server,
    patience: Patience,
    entry: Entry<'k>,
    clock: Instant,
}

impl<'k> Batch<'k> {
    /// Enters shared.
    fn shared(&mut self) -> Option<&Shared<'k>> {
        if !matches!(self.entry, Entry::Shared(_)) {
            self.entry = Entry::Outside;
            self.entry = Entry::Shared(self.server.share(self.patience)?);
        }
        match &self.entry {
            Entry::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// Enters exclusively, for one command.
    fn alone(&mut self) -> Option<&mut Exclusive<'k>> {
        if !matches!(self.entry, Entry::Alone(_, 1..)) {
            self.entry = Entry::Outside;
            self.entry = Entry::Alone(self.server.close(self.patience)?, ALONE_MAX);
        }
        match &mut self.entry {
            Entry::Alone(alone, left) => {
                *left -= 1;
                Some(alone)
            }
            _ => None,
        }
    }
}

impl MemcachedSession {
    /// Creates a session for a client that has just connected.
    pub fn new(server: Arc<Server>, client: Arc<Client>, figures: Arc<Figures>) -> MemcachedSession {
        let authenticated = !server.settings.needs_password();
        MemcachedSession {
            server,
            client,
            figures,
            authenticated,
            permitted: None,
            swallow: 0,
            scanned: 0,
            is_binary: None,
            answered: 0,
            dump: None,
            unsynced: false,
        }
    }

    /// Whether the rules of `default`, as which all memcached clients act, allow everything. Single requests are not
    /// checked.
    fn is_permitted(&mut self) -> bool {
        let users = &self.server.settings.users;
        let version = users.version();
        match self.permitted {
            Some((known, permitted)) if known == version => permitted,
            _ => {
                let permitted = users.usual().is_unrestricted();
                self.permitted = Some((version, permitted));
                permitted
            }
        }
    }

    fn execute_all(
        &mut self,
        batch: &mut Batch<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(usize, Flow), Pause> {
        if let Some(flow) = self.go_on_dumping(batch, out) {
            return Ok((0, flow));
        }
        let mut run = Run::new();
        let mut at = 0;
        let (end, flow) = loop {
            if self.swallow > 0 {
                let count = self.swallow.min(input.len() - at);
                at += count;
                self.swallow -= count;
            }
            if out.len() > OUTPUT_BYTES {
                break (at, Flow::Write);
            }
            let (line, after) = match self.line(&input[at..]) {
                Line::Is(line, bytes) => (line, at + bytes),
                Line::Incomplete(need) => break (at, Flow::Read(need)),
                Line::TooLong => {
                    self.flush(batch, &mut run, out)?;
                    out.extend_from_slice(b"CLIENT_ERROR line too long\r\n");
                    break (at, Flow::Close);
                }
            };
            if foreign::is_http(line) {
                self.flush(batch, &mut run, out)?;
                batch.server.foreign.note(batch.server.started, &self.client, "an HTTP request");
                break (at, Flow::Close);
            }
            let start = at;
            at = after;
            match self.execute_line(batch, &mut run, start, line, &input[after..], out)? {
                Step::Done(data_bytes) => at += data_bytes,
                Step::More(need) => break (start, Flow::Read(after - start + need)),
                Step::End(flow) => break (at, flow),
            }
        };
        self.flush(batch, &mut run, out)?;
        Ok((end, flow))
    }

    /// Executes the request that `line` begins, or adds it to the run; `rest` begins with its data.
    fn execute_line<'i>(
        &mut self,
        batch: &mut Batch<'_>,
        run: &mut Run<'i>,
        start: usize,
        line: &'i [u8],
        rest: &'i [u8],
        out: &mut Vec<u8>,
    ) -> std::result::Result<Step, Pause> {
        match request::parse(line) {
            _ if !self.authenticated => {
                return Ok(match self.authenticate(line, rest, out) {
                    Ok(bytes) => Step::Done(bytes),
                    Err(Flow::Read(need)) => Step::More(need),
                    Err(flow) => Step::End(flow),
                });
            }
            Ok(Request::Get(get)) if get.exptime.is_none() => {
                let kind = if get.with_cas { Kind::Gets } else { Kind::Get };
                self.add_get(batch, run, kind, start, &get, out)?;
            }
            Ok(Request::MetaGet(meta)) if meta::mostly_reads(&meta) => {
                self.make_place(batch, run, Kind::MetaGet, start, out)?;
                run.metas.push(meta);
                run.places[run.len] = (start, 0);
                run.len += 1;
            }
            Ok(Request::Store(store)) => return self.store_data(batch, run, start, &store, rest, out),
            Ok(Request::MetaSet(meta, data_len)) => {
                let Some(data) = self.data(rest, data_len) else { return Ok(Step::More(data_len + 2)) };
                self.flush(batch, run, out)?;
                match data {
                    Data::Is(data) => {
                        self.meta_set(batch, start, line, &meta, data, out)?;
                        return Ok(Step::Done(data.len() + 2));
                    }
                    Data::Bad(bytes) => {
                        out.extend_from_slice(BAD_CHUNK);
                        return Ok(Step::Done(bytes));
                    }
                    Data::TooLarge => self.refuse_large(batch, start, Some(&meta.key), data_len, false, out)?,
                }
            }
            Ok(Request::Dump(kind)) => {
                self.flush(batch, run, out)?;
                self.dump = Some(Dump::new(kind));
                if let Some(flow) = self.go_on_dumping(batch, out) {
                    return Ok(Step::End(flow));
                }
            }
            Ok(Request::Quit) => {
                self.flush(batch, run, out)?;
                return Ok(Step::End(Flow::Close));
            }
            Ok(request) => {
                self.flush(batch, run, out)?;
                self.execute_one(batch, start, line, &request, out)?;
            }
            Err(refused) => {
                self.flush(batch, run, out)?;
                self.figures.errors.fetch_add(1, Relaxed);
                self.swallow = refused.swallow;
                if !refused.text.is_empty() {
                    out.extend_from_slice(refused.text.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        Ok(Step::Done(0))
    }

    /// Adds the data at the beginning of `rest` to the run, or refuses it.
    fn store_data<'i>(
        &mut self,
        batch: &mut Batch<'_>,
        run: &mut Run<'i>,
        start: usize,
        store: &Store<'i>,
        rest: &'i [u8],
        out: &mut Vec<u8>,
    ) -> std::result::Result<Step, Pause> {
        match self.data(rest, store.data_len) {
            None => Ok(Step::More(store.data_len + 2)),
            Some(Data::Is(data)) => {
                self.add_store(batch, run, start, store, data, out)?;
                Ok(Step::Done(data.len() + 2))
            }
            Some(Data::Bad(bytes)) => {
                self.flush(batch, run, out)?;
                if !store.quiet {
                    out.extend_from_slice(BAD_CHUNK);
                }
                Ok(Step::Done(bytes))
            }
            Some(Data::TooLarge) => {
                self.flush(batch, run, out)?;
                // As in memcached, refusing a new value also removes the old one.
                let key = (store.mode == Mode::Set).then_some(store.key);
                self.refuse_large(batch, start, key, store.data_len, store.quiet, out)?;
                Ok(Step::Done(0))
            }
        }
    }
}

/// How the walk through the input continues after a request.
enum Step {
    /// After this many bytes of data behind its line.
    Done(usize),
    /// Its data is not there yet: this many bytes behind its line are needed.
    More(usize),
    /// No further request is executed now.
    End(Flow),
}

const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";

/// The beginning of the input.
enum Line<'a> {
    /// A line without its end, and its length including the end.
    Is(&'a [u8], usize),
    /// No line end yet: the least number of bytes that may contain one.
    Incomplete(usize),
    TooLong,
}

/// The block after a line that announces a value.
enum Data<'a> {
    Is(&'a [u8]),
    /// A block that does not end with a line break, and its number of bytes.
    Bad(usize),
    TooLarge,
}

impl MemcachedSession {
    fn line<'a>(&mut self, input: &'a [u8]) -> Line<'a> {
        // Bytes already searched are not searched again, however small the pieces.
        let from = std::mem::take(&mut self.scanned).min(input.len());
        if let Some(end) = memchr(b'\n', &input[from..]).map(|end| from + end) {
            let line = &input[..end];
            // As in memcached, a lone CR is a line by itself.
            let line = if end > 1 { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
            return if end > GET_LINE_BYTES_MAX { Line::TooLong } else { Line::Is(line, end + 1) };
        }
        let words = input.trim_ascii_start();
        let many_keys = [b"get ".as_slice(), b"gets ", b"gat ", b"gats "].iter().any(|name| words.starts_with(name));
        if input.len() > if many_keys { GET_LINE_BYTES_MAX } else { LINE_BYTES_MAX } {
            return Line::TooLong;
        }
        self.scanned = input.len();
        Line::Incomplete(input.len() + 1)
    }

    /// The value after a line; `None` if it is incomplete.
    fn data<'a>(&self, rest: &'a [u8], len: usize) -> Option<Data<'a>> {
        if len > self.server.settings.bulk_bytes.load(Relaxed) {
            return Some(Data::TooLarge);
        }
        let whole = rest.get(..len + 2)?;
        Some(whole.strip_suffix(b"\r\n").map_or(Data::Bad(len + 2), Data::Is))
    }

    /// Before a client has given the password, it may only send the password: `set KEY 0 0 LENGTH` with the
    /// value `USER PASSWORD`. Returns the length of the value.
    fn authenticate(&mut self, line: &[u8], rest: &[u8], out: &mut Vec<u8>) -> std::result::Result<usize, Flow> {
        const TOKEN_BYTES_MAX: usize = 2048;
        let Ok(Request::Store(Store { mode: Mode::Set, data_len: len @ ..=TOKEN_BYTES_MAX, .. })) =
            request::parse(line)
        else {
            out.extend_from_slice(b"CLIENT_ERROR unauthenticated\r\n");
            return Ok(0);
        };
        let Some(whole) = rest.get(..len + 2) else { return Err(Flow::Read(len + 2)) };
        let answer: &[u8] = match whole.strip_suffix(b"\r\n").map(|token| token.splitn(2, |&b| b == b' ')) {
            None => b"CLIENT_ERROR bad command line termination\r\n",
            Some(mut token) => match (token.next(), token.next()) {
                (Some(_), Some(password)) => {
                    self.authenticated = self.server.settings.is_password(password);
                    self.outcomes().auth.count(self.authenticated);
                    if self.authenticated { b"STORED\r\n" } else { b"CLIENT_ERROR authentication failure\r\n" }
                }
                _ => b"CLIENT_ERROR bad authentication token format\r\n",
            },
        };
        out.extend_from_slice(answer);
        Ok(len + 2)
    }

    fn add_store<'a>(
        &mut self,
        batch: &mut Batch<'_>,
        run: &mut Run<'a>,
        start: usize,
        store: &Store<'a>,
        data: &'a [u8],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), Pause> {
        let attributes = if store.mode == Mode::Set { classic::attributes_of(store, now_ms()) } else { None };
        if let Some(attributes) = attributes {
            self.make_place(batch, run, Kind::Set, start, out)?;
            (run.keys[run.len], run.values[run.len], run.attributes[run.len]) = (store.key, data, attributes);
            run.marked[run.len] = store.quiet;
            run.len += 1;
            return Ok(());
        }
        self.flush(batch, run, out)?;
        let storing = Storing::of(store, now_ms());
        let stored = self.store_shared(batch, start, store.key, data, storing)?;
        if !store.quiet {
            match stored {
                Ok(Stored::Yes) => out.extend_from_slice(b"STORED\r\n"),
                Ok(Stored::No) => out.extend_from_slice(b"NOT_STORED\r\n"),
                Ok(Stored::Exists) => out.extend_from_slice(b"EXISTS\r\n"),
                Ok(Stored::NotFound) => out.extend_from_slice(b"NOT_FOUND\r\n"),
                Err(error) => self.refuse(out, &error),
            }
        }
        let id = match store.mode {
            Mode::Append | Mode::Prepend => Id::Append,
            Mode::Add => Id::SetNx,
            _ => Id::Set,
        };
        self.note(batch, id, 1, &[b"store", store.key]);
        Ok(())
    }

    /// Changes one key under the latch of its bucket. If that is impossible, uses exclusive entry, once there
    /// is as much room as the change needs, if any.
    fn edit(
        &mut self,
        batch: &mut Batch<'_>,
        start: usize,
        key: &[u8],
        room: Option<usize>,
        mut edit: impl FnMut(Option<Old<'_>>, &mut New<'_>, u64) -> Edit,
    ) -> std::result::Result<Result<()>, Pause> {
        self.unsynced = true;
        if !matches!(batch.entry, Entry::Alone(..)) {
            let shared = batch.shared().ok_or(Pause::to_wait(start))?;
            let more_bytes = room.unwrap_or(0);
            let (now_ms, bytes) = (shared.now_ms(), (SHORT_VALUE_BYTES + more_bytes, more_bytes));
            match shared.edit_many(DATABASE, &[key], bytes, |_, old, new| edit(old, new, now_ms)) {
                (0, Ok(())) => {}
                (_, outcome) => return Ok(outcome),
            }
        }
        let alone = batch.alone().ok_or(Pause::to_wait(start))?;
        let now_ms = alone.now_ms();
        let room = room.map_or(Ok(()), |bytes| alone.make_room(bytes));
        Ok(room.and_then(|()| alone.edit_string(DATABASE, key, |old, new| edit(old, new, now_ms))))
    }

    fn store_shared(
        &mut self,
        batch: &mut Batch<'_>,
        start: usize,
        key: &[u8],
        data: &[u8],
        storing: Storing,
    ) -> std::result::Result<Result<Stored>, Pause> {
        let len_max = self.server.settings.bulk_bytes.load(Relaxed);
        let is_joined = matches!(storing.mode, Mode::Append | Mode::Prepend);
        let (mut stored, mut is_too_long) = (Stored::No, false);
        let made = self.edit(batch, start, key, Some(data.len()), |old, new, now_ms| {
            is_too_long = is_joined && old.is_some_and(|old| old.len + data.len() > len_max);
            if is_too_long {
                return Edit::Keep;
            }
            let (what, outcome) = classic::store_edit(old, new, data, storing, now_ms);
            stored = outcome;
            what
        })?;
        Ok(match made {
            Ok(()) if is_too_long => Err(SpaceError::MemoryLimit),
            made => made.map(|()| self.note_stored(key, storing, stored)),
        })
    }

    fn note_stored(&self, key: &[u8], storing: Storing, stored: Stored) -> Stored {
        if storing.mode == Mode::Cas {
            match stored {
                Stored::Exists => drop(self.outcomes().cas_badval.fetch_add(1, Relaxed)),
                stored => self.outcomes().cas.count(stored == Stored::Yes),
            }
        }
        if stored == Stored::Yes {
            self.note_use(key, false);
        }
        stored
    }

    fn store(&self, alone: &mut Exclusive<'_>, key: &[u8], data: &[u8], storing: Storing) -> Result<Stored> {
        alone.make_room(data.len())?;
        if matches!(storing.mode, Mode::Append | Mode::Prepend) {
            self.check_length(alone, key, data)?;
        }
        let stored = classic::store(alone, key, data, storing)?;
        Ok(self.note_stored(key, storing, stored))
    }

    /// Refuses an append that would make a value longer than a client may store.
    fn check_length(&self, alone: &mut Exclusive<'_>, key: &[u8], data: &[u8]) -> Result<()> {
        let len = alone.value_len(DATABASE, key)?.unwrap_or(0);
        if len + data.len() > self.server.settings.bulk_bytes.load(Relaxed) {
            return Err(SpaceError::MemoryLimit);
        }
        Ok(())
    }

    fn refuse_large(
        &mut self,
        batch: &mut Batch<'_>,
        start: usize,
        key: Option<&[u8]>,
        data_len: usize,
        quiet: bool,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), Pause> {
        if let Some(key) = key {
            let alone = batch.alone().ok_or(Pause::to_wait(start))?;
            self.unsynced = true;
            if let Err(error) = alone.remove(DATABASE, key) {
                tracing::warn!(%error, "removing the value of a refused set");
            }
        }
        self.swallow = data_len.saturating_add(2);
        self.figures.errors.fetch_add(1, Relaxed);
        self.outcomes().too_large.fetch_add(1, Relaxed);
        if !quiet {
            out.extend_from_slice(b"SERVER_ERROR object too large for cache\r\n");
        }
        Ok(())
    }

    fn meta_set(
        &mut self,
        batch: &mut Batch<'_>,
        start: usize,
        line: &[u8],
        meta: &Meta<'_>,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), Pause> {
        let alone = batch.alone().ok_or(Pause::to_wait(start))?;
        self.unsynced = true;
        let before = out.len();
        let appends = meta.mode.is_some_and(|mode| b"APap".contains(&mode));
        let done = alone
            .make_room(data.len())
            .and_then(|()| if appends { self.check_length(alone, &meta.key, data) } else { Ok(()) })
            .and_then(|()| meta::set(alone, meta, data, out));
        match done {
            Ok(Stored::Yes) => self.note_use(&meta.key, false),
            Ok(_) => {}
            Err(error) => {
                out.truncate(before);
                self.refuse(out, &error);
            }
        }
        self.note(batch, if appends { Id::Append } else { Id::Set }, 1, &[line]);
        Ok(())
    }

    fn meta_get(&self, alone: &mut Exclusive<'_>, meta: &Meta<'_>, out: &mut Vec<u8>) {
        let before = out.len();
        match meta::get(alone, meta, self.activity(meta.activity), out) {
            Ok(found) => self.note_hits(found.into(), (!found).into()),
            Err(error) => {
                out.truncate(before);
                self.refuse(out, &error);
            }
        }
    }

    /// Executes a request that changes the key space, or that does not use it.
    fn execute_one(
        &mut self,
        batch: &mut Batch<'_>,
        start: usize,
        line: &[u8],
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), Pause> {
        let id = match request {
            Request::Stats(of) => {
                stats::stats(&self.server, of, out);
                Id::Info
            }
            &Request::CacheDump(class, limit) => {
                let shared = batch.shared().ok_or(Pause::to_wait(start))?;
                let before = out.len();
                // All items are in slab class 1; other classes are empty.
                let dumped = match class {
                    1 => dump::cache_dump(shared.space(), shared, limit as usize, out),
                    _ => Ok(()),
                };
                match dumped {
                    Ok(()) => out.extend_from_slice(b"END\r\n"),
                    Err(error) => {
                        out.truncate(before);
                        self.refuse(out, &error);
                    }
                }
                Id::Info
            }
            Request::Crawler => {
                out.extend_from_slice(b"OK\r\n");
                Id::Config
            }
            &Request::MemoryLimit { megabytes, quiet } => {
                let space = &batch.server.space;
                space.limit_memory(u64::from(megabytes) << 20, space.memory_limit().1);
                answer(out, quiet, b"OK\r\n");
                Id::Config
            }
            Request::Version => {
                out.extend_from_slice(format!("VERSION {MEMCACHED_VERSION}\r\n").as_bytes());
                Id::Ping
            }
            Request::MetaNoop => {
                out.extend_from_slice(b"MN\r\n");
                Id::Ping
            }
            Request::Verbosity { quiet } => {
                answer(out, *quiet, b"OK\r\n");
                Id::Ping
            }
            &Request::Touch { key, exptime, quiet } => {
                let mut touched = false;
                let made = self.edit(batch, start, key, None, |old, new, now_ms| {
                    touched = old.is_some();
                    classic::touch_edit(old, new, exptime, now_ms)
                })?;
                match made {
                    Ok(()) => {
                        self.outcomes().touch.count(touched);
                        self.note_use(key, true);
                        answer(out, quiet, if touched { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" });
                    }
                    Err(error) => self.refuse(out, &error),
                }
                Id::Expire
            }
            &Request::Count { key, delta, up, quiet } => {
                let mut counted = Counted::NotFound;
                let made = self.edit(batch, start, key, Some(0), |old, new, _| {
                    let (what, outcome) = classic::count_edit(old, new, delta, up, 0);
                    counted = outcome;
                    what
                })?;
                match made {
                    Ok(()) => self.answer_count(key, up, quiet, counted, out),
                    Err(error) => self.refuse(out, &error),
                }
                if up { Id::IncrBy } else { Id::DecrBy }
            }
            Request::Get(get) => {
                self.get_and_touch(batch, start, get, out)?;
                Id::GetEx
            }
            _ => {
                let alone = batch.alone().ok_or(Pause::to_wait(start))?;
                let before = out.len();
                match self.change(alone, request, out) {
                    Ok(id) => id,
                    Err(error) => {
                        out.truncate(before);
                        self.refuse(out, &error);
                        Id::Set
                    }
                }
            }
        };
        self.note(batch, id, 1, &[line]);
        Ok(())
    }

    fn change(&mut self, alone: &mut Exclusive<'_>, request: &Request<'_>, out: &mut Vec<u8>) -> Result<Id> {
        self.unsynced = true;
        Ok(match request {
            Request::MetaGet(meta) => {
                self.meta_get(alone, meta, out);
                Id::Get
            }
            Request::MetaDelete(meta) => {
                meta::delete(alone, meta, out)?;
                Id::Del
            }
            Request::MetaCount(meta) => {
                alone.make_room(0)?;
                match meta::arithmetic(alone, meta, out)? {
                    Ok(true) => self.note_use(&meta.key, false),
                    Ok(false) => {}
                    Err(text) => {
                        self.figures.errors.fetch_add(1, Relaxed);
                        out.extend_from_slice(text.as_bytes());
                        out.extend_from_slice(b"\r\n");
                    }
                }
                Id::IncrBy
            }
            Request::MetaDebug(key) => {
                let activity = self.activity(true);
                meta::debug(alone, key, activity, out)?;
                Id::Object
            }
            &Request::Delete { key, quiet } => {
                let removed = alone.remove(DATABASE, key)?;
                self.outcomes().delete.count(removed);
                answer(out, quiet, if removed { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
                Id::Del
            }
            &Request::Flush { delay_s, quiet } => {
                self.flush_all(alone, delay_s)?;
                answer(out, quiet, b"OK\r\n");
                Id::FlushDb
            }
            // The callers handle these.
            _ => Id::Ping,
        })
    }

    /// The answer of incr and decr.
    fn answer_count(&self, key: &[u8], up: bool, quiet: bool, counted: Counted, out: &mut Vec<u8>) {
        self.count_outcome(up, counted);
        match counted {
            Counted::Is(number, longer) => {
                if longer {
                    self.note_use(key, false);
                }
                if !quiet {
                    classic::write_number(out, b"", number);
                    out.extend_from_slice(b"\r\n");
                }
            }
            Counted::NotFound | Counted::Exists => answer(out, quiet, b"NOT_FOUND\r\n"),
            Counted::NoNumber => {
                answer(out, quiet, b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n")
            }
        }
    }

    /// gat, gats: returns values, with or without CAS numbers, and sets new expiry times.
    fn get_and_touch(
        &mut self,
        batch: &mut Batch<'_>,
        start: usize,
        get: &Get<'_>,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), Pause> {
        let (before, mut hits) = (out.len(), 0);
        let (space, exptime) = (&batch.server.space, get.exptime.unwrap_or_default());
        for key in words(get.keys) {
            let (at, mut is_hit) = (out.len(), false);
            let made = self.edit(batch, start, key, None, |old, new, now_ms| {
                out.truncate(at);
                let Some(old) = old else { return Edit::Keep };
                if !old.is_whole() {
                    return Edit::Alone;
                }
                is_hit = true;
                let mut attributes = Attributes { expires_at_ms: classic::deadline(exptime, now_ms), ..old.attributes };
                if get.with_cas && attributes.cas == 0 {
                    attributes.cas = space.new_cas();
                }
                let cas = get.with_cas.then_some(attributes.cas);
                classic::write_value(out, key, attributes.flags, old.value, cas);
                if attributes.expired(now_ms) { Edit::Remove } else { new.set_attributes(&old, attributes) }
            });
            match made {
                Ok(Ok(())) => hits += u64::from(is_hit),
                Ok(Err(error)) => {
                    out.truncate(before);
                    self.refuse(out, &error);
                    return Ok(());
                }
                Err(pause) => {
                    out.truncate(before);
                    return Err(pause);
                }
            }
            self.note_use(key, true);
        }
        out.extend_from_slice(b"END\r\n");
        self.note_hits(hits, get.count as u64 - hits);
        Ok(())
    }

    /// Removes all keys, now or after a delay.
    fn flush_all(&self, alone: &mut Exclusive<'_>, delay_s: i32) -> Result<()> {
        let at_ms = classic::deadline(delay_s.max(0), alone.now_ms());
        let delayed = at_ms > alone.now_ms();
        self.server.memcached.flush_at_ms.store(if delayed { at_ms } else { 0 }, Relaxed);
        if delayed { Ok(()) } else { alone.flush(DATABASE) }
    }

    /// Writes more of the current dump, if there is one. Returns how the connection continues; `None` when it is done.
    fn go_on_dumping(&mut self, batch: &mut Batch<'_>, out: &mut Vec<u8>) -> Option<Flow> {
        let mut dump = self.dump.take()?;
        let Some(shared) = batch.shared() else {
            self.dump = Some(dump);
            return Some(Flow::Wait);
        };
        match dump.write(shared, self.activity(false), OUTPUT_BYTES, out) {
            Ok(true) => None,
            Ok(false) => {
                self.dump = Some(dump);
                Some(Flow::Write)
            }
            Err(error) => {
                self.refuse(out, &error);
                None
            }
        }
    }

    /// The times of use, and the current time. With `wanted`, recording starts now if it has not yet.
    fn activity(&self, wanted: bool) -> Option<(&Activity, u64)> {
        let (cell, now_s) = (&self.server.memcached.activity, self.server.started.elapsed().as_secs());
        let activity = match wanted {
            true => Some(cell.get_or_init(|| Activity::new(self.server.space.random(), now_s))),
            false => cell.get(),
        };
        activity.map(|activity| (activity, now_s))
    }

    #[inline]
    fn note_use(&self, key: &[u8], fetched: bool) {
        if let Some(activity) = self.server.memcached.activity.get() {
            activity.note(key, self.server.clock_s.load(Relaxed), fetched);
        }
    }

    fn outcomes(&self) -> &Outcomes {
        &self.server.memcached.outcomes
    }

    fn count_outcome(&self, up: bool, counted: Counted) {
        let outcome = if up { &self.outcomes().incr } else { &self.outcomes().decr };
        match counted {
            Counted::Is(..) => outcome.count(true),
            Counted::NotFound => outcome.count(false),
            _ => {}
        }
    }

    fn note_hits(&self, hits: u64, misses: u64) {
        self.figures.hits.fetch_add(hits, Relaxed);
        self.figures.misses.fetch_add(misses, Relaxed);
    }

    #[cold]
    fn refuse(&self, out: &mut Vec<u8>, error: &SpaceError) {
        self.figures.errors.fetch_add(1, Relaxed);
        match error {
            SpaceError::MemoryLimit => {
                self.outcomes().no_memory.fetch_add(1, Relaxed);
                out.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n");
            }
            error => {
                if let SpaceError::Table(error) = error {
                    self.server.space.note_failure(error);
                }
                let text = error.to_string().replace(['\r', '\n'], " ");
                out.extend_from_slice(format!("SERVER_ERROR {text}\r\n").as_bytes());
            }
        }
    }

    /// Counts commands and their time, under the Redis command that does the same.
    #[inline]
    fn note(&self, batch: &mut Batch<'_>, id: Id, count: usize, line: &[&[u8]]) {
        let now = Instant::now();
        let nanos = now.duration_since(batch.clock).as_nanos() as u64; // 584 years
        batch.clock = now;
        self.figures.note(id, count as u64, nanos);
        if nanos / 1000 >= self.server.slow_log.threshold_us.load(Relaxed) {
            self.note_slow(line, nanos / 1000);
        }
    }

    #[cold]
    fn note_slow(&self, line: &[&[u8]], duration_us: u64) {
        let line = line.join(&b' ');
        let mut spans = Vec::new();
        for word in words(&line) {
            let start = word.as_ptr() as usize - line.as_ptr() as usize;
            spans.push(Span::of(start..start + word.len()));
        }
        self.server.slow_log.add(&Args { request: &line, spans: &spans }, duration_us, &self.client);
    }
}

fn answer(out: &mut Vec<u8>, quiet: bool, text: &[u8]) {
    if !quiet {
        out.extend_from_slice(text);
    }
}
