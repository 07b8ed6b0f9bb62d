//! The binary protocol, which many clients use by default, on the same keys as the text protocol.
//!
//! ```text
//! 0x80 opcode key-length(2) extras-length data-type 0 0 body-length(4) opaque(4) cas(8)   extras key value
//! 0x81 opcode key-length(2) extras-length data-type status(2) ...                         the answer, with its opaque
//! ```
//!
//! The quiet form of a command suppresses the expected answer: success, or for a get a miss. A connection whose first
//! byte is 0x80 uses the binary protocol to its end. Answers contain CAS numbers, so a set that is answered gives its
//! key one.
//!
//! Source: memcached's protocol_binary.txt and the behavior of 1.6.18. Not here: what commands mean (`classic.rs`).

use super::super::classic::{self, Counted, Stored, Storing, deadline};
use super::super::request::{KEY_BYTES_MAX, Mode};
use super::super::{DATABASE, MEMCACHED_VERSION, stats};
use super::{Batch, MemcachedSession, OUTPUT_BYTES, Pause};
use crate::command::spec::Id;
use crate::keyspace::{Attributes, Exclusive, SpaceError};
use crate::session::Flow;
use std::sync::atomic::Ordering::*;

pub(super) const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const HEADER_BYTES: usize = 24;
/// The longest request before the password was given, in bytes.
const BODY_BYTES_MAX_BEFORE_AUTH: usize = 4096;

/// The status of an answer, as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Status {
    Ok = 0,
    NotFound = 1,
    Exists = 2,
    TooLarge = 3,
    Invalid = 4,
    NotStored = 5,
    NoNumber = 6,
    AuthError = 0x20,
    Unknown = 0x81,
    OutOfMemory = 0x82,
}

impl Status {
    fn text(self) -> &'static str {
        match self {
            Status::Ok => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NoNumber => "Non-numeric server-side value for incr or decr",
            Status::AuthError => "Auth failure.",
            Status::Unknown => "Unknown command",
            Status::OutOfMemory => "Out of memory",
        }
    }
}

impl From<SpaceError> for Status {
    fn from(error: SpaceError) -> Self {
        if !matches!(error, SpaceError::MemoryLimit) {
            tracing::warn!(%error, "a command of the binary protocol");
        }
        Status::OutOfMemory
    }
}

/// The command of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// Returns the value, sets a new expiry time, or both.
    Get {
        value: bool,
        touch: bool,
    },
    Store(Mode),
    Delete,
    Count {
        up: bool,
    },
    Quit,
    Flush,
    Noop,
    Version,
    Stat,
    Verbosity,
    Mechanisms,
    Auth,
}

/// A request, parsed in place.
struct Binary<'a> {
    opcode: u8,
    command: Option<Command>,
    quiet: bool,
    /// Whether the answer to a get includes the key.
    with_key: bool,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    opaque: [u8; 4],
    cas: u64,
}

/// The command of an opcode, whether it is quiet, and whether its answer includes the key.
fn command_of(opcode: u8) -> (Option<Command>, bool, bool) {
    use Command::*;
    let get = Get { value: true, touch: false };
    let gat = Get { value: true, touch: true };
    let (command, quiet, with_key) = match opcode {
        0x00 => (get, false, false),
        0x09 => (get, true, false),
        0x0c => (get, false, true),
        0x0d => (get, true, true),
        0x01 => (Store(Mode::Set), false, false),
        0x11 => (Store(Mode::Set), true, false),
        0x02 => (Store(Mode::Add), false, false),
        0x12 => (Store(Mode::Add), true, false),
        0x03 => (Store(Mode::Replace), false, false),
        0x13 => (Store(Mode::Replace), true, false),
        0x0e => (Store(Mode::Append), false, false),
        0x19 => (Store(Mode::Append), true, false),
        0x0f => (Store(Mode::Prepend), false, false),
        0x1a => (Store(Mode::Prepend), true, false),
        0x04 => (Delete, false, false),
        0x14 => (Delete, true, false),
        0x05 => (Count { up: true }, false, false),
        0x15 => (Count { up: true }, true, false),
        0x06 => (Count { up: false }, false, false),
        0x16 => (Count { up: false }, true, false),
        0x07 => (Quit, false, false),
        0x17 => (Quit, true, false),
        0x08 => (Flush, false, false),
        0x18 => (Flush, true, false),
        0x0a => (Noop, false, false),
        0x0b => (Version, false, false),
        0x10 => (Stat, false, false),
        0x1b => (Verbosity, false, false),
        0x1c => (Get { value: false, touch: true }, false, false),
        0x1d => (gat, false, false),
        0x1e => (gat, true, false),
        0x23 => (gat, false, true),
        0x24 => (gat, true, true),
        0x20 => (Mechanisms, false, false),
        0x21 | 0x22 => (Auth, false, false),
        _ => return (None, false, false),
    };
    (Some(command), quiet, with_key)
}

/// The beginning of the input.
enum Next<'a> {
    Is(Binary<'a>, usize),
    /// An incomplete request: the least number of bytes that it has.
    Incomplete(usize),
    /// A request with a value that is too large: its header, its bytes received so far, and its bytes still to come.
    TooLarge(Binary<'a>, usize, usize),
    /// Bytes that cannot begin a request.
    Broken,
}

fn parse(input: &[u8], value_bytes_max: usize, authenticated: bool) -> Next<'_> {
    match input.first() {
        Some(&REQUEST) | None => {}
        Some(_) => return Next::Broken,
    }
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else { return Next::Incomplete(HEADER_BYTES) };
    let key_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let extras_bytes = usize::from(header[4]);
    let body_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let before_value = extras_bytes + key_bytes;
    if before_value > body_bytes {
        return Next::Broken;
    }
    let is_large =
        body_bytes - before_value > value_bytes_max || !authenticated && body_bytes > BODY_BYTES_MAX_BEFORE_AUTH;
    let wanted = HEADER_BYTES + if is_large { before_value } else { body_bytes };
    let Some(whole) = input.get(..wanted) else { return Next::Incomplete(wanted) };
    let (extras, rest) = whole[HEADER_BYTES..].split_at(extras_bytes);
    let (key, value) = rest.split_at(key_bytes);
    let (command, quiet, with_key) = command_of(header[1]);
    let [.., o0, o1, o2, o3, c0, c1, c2, c3, c4, c5, c6, c7] = *header;
    let request = Binary {
        opcode: header[1],
        command,
        quiet,
        with_key,
        extras,
        key,
        value,
        opaque: [o0, o1, o2, o3],
        cas: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
    };
    if is_large {
        return Next::TooLarge(request, wanted, body_bytes - before_value);
    }
    Next::Is(request, wanted)
}

impl Binary<'_> {
    fn answer(&self, out: &mut Vec<u8>, status: Status, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) {
        out.reserve(HEADER_BYTES + extras.len() + key.len() + value.len());
        out.extend_from_slice(&[RESPONSE, self.opcode]);
        out.extend_from_slice(&(key.len() as u16).to_be_bytes()); // at most KEY_BYTES_MAX, or of a statistic
        out.extend_from_slice(&[extras.len() as u8, 0]); // at most 4
        out.extend_from_slice(&(status as u16).to_be_bytes());
        let body_bytes = extras.len() + key.len() + value.len();
        out.extend_from_slice(&(body_bytes as u32).to_be_bytes()); // values are shorter than 4 GiB less a request
        out.extend_from_slice(&self.opaque);
        out.extend_from_slice(&cas.to_be_bytes());
        [extras, key, value].into_iter().for_each(|part| out.extend_from_slice(part));
    }

    fn refuse(&self, out: &mut Vec<u8>, status: Status) {
        // The key, if the client asked for it, tells which of many gets missed.
        if self.with_key && status == Status::NotFound {
            return self.answer(out, status, 0, b"", self.key, b"");
        }
        self.answer(out, status, 0, b"", b"", status.text().as_bytes());
    }

    /// Reads bytes of the extras as a number.
    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        self.extras[at..].first_chunk().copied().unwrap_or([0; N])
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.number(at))
    }

    /// Whether the command has the key, extras and value that it needs, and no others.
    fn is_valid(&self) -> bool {
        let (extras, key, value) = (self.extras.len(), self.key.len(), self.value.len());
        let has_key = (1..=KEY_BYTES_MAX).contains(&key);
        match self.command {
            None => true,
            Some(Command::Get { touch, .. }) => has_key && value == 0 && extras == if touch { 4 } else { 0 },
            Some(Command::Store(Mode::Append | Mode::Prepend)) => has_key && extras == 0,
            Some(Command::Store(_)) => has_key && extras == 8,
            Some(Command::Delete) => has_key && value == 0 && extras == 0,
            Some(Command::Count { .. }) => has_key && value == 0 && extras == 20,
            Some(Command::Flush) => key == 0 && value == 0 && (extras == 0 || extras == 4),
            Some(Command::Quit | Command::Noop | Command::Version | Command::Mechanisms) => key + value + extras == 0,
            Some(Command::Verbosity) => key == 0 && value == 0 && extras == 4,
            Some(Command::Stat) => value == 0 && extras == 0,
            Some(Command::Auth) => (1..=KEY_BYTES_MAX).contains(&key) && extras == 0,
        }
    }
}

impl MemcachedSession {
    /// `Session::execute` for a client that speaks the binary protocol.
    pub(super) fn execute_binary(
        &mut self,
        batch: &mut Batch<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(usize, Flow), Pause> {
        let mut at = 0;
        loop {
            let swallowed = self.swallow.min(input.len() - at);
            at += swallowed;
            self.swallow -= swallowed;
            if out.len() > OUTPUT_BYTES {
                return Ok((at, Flow::Write));
            }
            let value_bytes_max = batch.server.settings.bulk_bytes.load(Relaxed);
            match parse(&input[at..], value_bytes_max, self.authenticated) {
                Next::Incomplete(bytes) => return Ok((at, Flow::Read(bytes.max(input.len() - at + 1)))),
                Next::Broken => {
                    self.figures.errors.fetch_add(1, Relaxed);
                    return Ok((at, Flow::Close));
                }
                Next::TooLarge(_, bytes, _) if !self.authenticated => return Ok((at + bytes, Flow::Close)),
                Next::TooLarge(request, bytes, more) => {
                    if request.command == Some(Command::Store(Mode::Set)) {
                        // As in memcached, refusing a new value also removes the old one.
                        let alone = batch.alone().ok_or(Pause::to_wait(at))?;
                        self.unsynced = true;
                        if let Err(error) = alone.remove(DATABASE, request.key) {
                            tracing::warn!(%error, "removing the value of a refused set");
                        }
                    }
                    self.figures.errors.fetch_add(1, Relaxed);
                    request.refuse(out, Status::TooLarge);
                    at += bytes;
                    self.swallow = more;
                }
                Next::Is(request, bytes) => {
                    let before = out.len();
                    match self.execute_request(batch, at, &request, out) {
                        Ok(Ok(())) => {}
                        Ok(Err(status)) => {
                            out.truncate(before);
                            let is_expected =
                                status == Status::NotFound && matches!(request.command, Some(Command::Get { .. }));
                            if !(request.quiet && is_expected) {
                                self.figures.errors.fetch_add(u64::from(!is_expected), Relaxed);
                                request.refuse(out, status);
                            }
                        }
                        Err(pause) => return Err(pause),
                    }
                    at += bytes;
                    if request.command == Some(Command::Quit) && request.is_valid() {
                        return Ok((at, Flow::Close));
                    }
                }
            }
        }
    }

    /// Executes the request that begins at `start`.
    fn execute_request(
        &mut self,
        batch: &mut Batch<'_>,
        start: usize,
        request: &Binary<'_>,
        out: &mut Vec<u8>,
    ) -> std::result::Result<std::result::Result<(), Status>, Pause> {
        let Some(command) = request.command else { return Ok(Err(Status::Unknown)) };
        let is_before_auth = matches!(command, Command::Mechanisms | Command::Auth | Command::Version | Command::Quit);
        if !self.authenticated && !is_before_auth {
            return Ok(Err(Status::AuthError));
        }
        if !request.is_valid() {
            return Ok(Err(Status::Invalid));
        }
        let loud = |out: &mut Vec<u8>, cas: u64, value: &[u8]| {
            if !request.quiet {
                request.answer(out, Status::Ok, cas, b"", b"", value);
            }
        };
        let id = match command {
            Command::Quit | Command::Noop | Command::Verbosity => {
                loud(out, 0, b"");
                Id::Ping
            }
            Command::Version => {
                loud(out, 0, MEMCACHED_VERSION.as_bytes());
                Id::Ping
            }
            Command::Mechanisms if batch.server.settings.needs_password() => {
                loud(out, 0, b"PLAIN");
                Id::Auth
            }
            Command::Mechanisms => return Ok(Err(Status::Unknown)),
            Command::Auth => {
                if !batch.server.settings.needs_password() {
                    return Ok(Err(Status::Unknown));
                }
                // Any user is accepted, as in the text protocol: `[authorize-as] 0 user 0 password`.
                let password = request.value.splitn(3, |&b| b == 0).nth(2).unwrap_or_default();
                self.authenticated = request.key == b"PLAIN" && batch.server.settings.is_password(password);
                self.outcomes().auth.count(self.authenticated);
                if !self.authenticated {
                    return Ok(Err(Status::AuthError));
                }
                loud(out, 0, b"Authenticated");
                Id::Auth
            }
            Command::Stat => {
                let mut text = Vec::new();
                stats::stats(batch.server, request.key, &mut text);
                for line in text.split(|&b| b == b'\n').filter_map(|line| line.strip_prefix(b"STAT ")) {
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    let blank = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
                    let value = line.get(blank + 1..).unwrap_or_default();
                    request.answer(out, Status::Ok, 0, b"", &line[..blank], value);
                }
                loud(out, 0, b"");
                Id::Info
            }
            Command::Get { value, touch: false } if value => {
                match self.get_shared(batch, start, request, out)? {
                    Some(found) => {
                        self.note(batch, Id::Get, 1, &[b"get", request.key]);
                        return Ok(found);
                    }
                    // The key has no CAS number yet: it gets one with exclusive entry.
                    None => {
                        let alone = batch.alone().ok_or(Pause::to_wait(start))?;
                        if let Err(status) = self.get_alone(alone, request, true, false, out) {
                            return Ok(Err(status));
                        }
                    }
                }
                Id::Get
            }
            _ => {
                let alone = batch.alone().ok_or(Pause::to_wait(start))?;
                self.unsynced = true;
                match self.change_binary(alone, command, request, out) {
                    Ok(id) => id,
                    Err(status) => return Ok(Err(status)),
                }
            }
        };
        self.note(batch, id, 1, &[b"binary", request.key]);
        Ok(Ok(()))
    }

    /// Executes a get with shared entry; `None` if the key has no CAS number yet.
    fn get_shared(
        &mut self,
        batch: &mut Batch<'_>,
        start: usize,
        request: &Binary<'_>,
        out: &mut Vec<u8>,
    ) -> std::result::Result<Option<std::result::Result<(), Status>>, Pause> {
        let shared = batch.shared().ok_or(Pause::to_wait(start))?;
        let mut answered = None;
        let found = shared.get_records(DATABASE, &[request.key], |_, record| match record {
            None => answered = Some(false),
            Some(record) if record.attributes.cas == 0 => {}
            Some(record) => {
                answer_value(request, out, &record.attributes, record.value);
                answered = Some(true);
            }
        });
        if let Err(error) = found {
            return Ok(Some(Err(error.into())));
        }
        let Some(hit) = answered else { return Ok(None) };
        self.note_hits(hit.into(), (!hit).into());
        if hit {
            self.note_use(request.key, true);
        }
        Ok(Some(if hit { Ok(()) } else { Err(Status::NotFound) }))
    }

    /// Executes a get that sets the key's CAS number or expiry time.
    fn get_alone(
        &mut self,
        alone: &mut Exclusive<'_>,
        request: &Binary<'_>,
        with_value: bool,
        touch: bool,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), Status> {
        let (key, mut value) = (request.key, Vec::new());
        let found = if with_value { alone.get(DATABASE, key, &mut value)? } else { alone.contains(DATABASE, key)? };
        if with_value {
            self.note_hits(found.into(), (!found).into());
        }
        if touch {
            self.outcomes().touch.count(found);
        }
        if !found {
            return Err(Status::NotFound);
        }
        self.unsynced = true;
        alone.cas_of(DATABASE, key)?;
        let attributes = alone.attributes(DATABASE, key)?;
        if touch {
            classic::touch(alone, key, request.u32_at(0) as i32)?; // as memcached reads it
        }
        self.note_use(key, true);
        answer_value(request, out, &attributes, &value);
        Ok(())
    }

    fn change_binary(
        &mut self,
        alone: &mut Exclusive<'_>,
        command: Command,
        request: &Binary<'_>,
        out: &mut Vec<u8>,
    ) -> std::result::Result<Id, Status> {
        let key = request.key;
        let answer = |out: &mut Vec<u8>, cas: u64, value: &[u8]| {
            if !request.quiet {
                request.answer(out, Status::Ok, cas, b"", b"", value);
            }
        };
        match command {
            Command::Get { value, touch } => {
                self.get_alone(alone, request, value, touch, out)?;
                Ok(if value { Id::GetEx } else { Id::Expire })
            }
            Command::Store(mode) => {
                let with_cas = request.cas != 0 && matches!(mode, Mode::Set | Mode::Replace);
                let storing = Storing {
                    mode: if with_cas { Mode::Cas } else { mode },
                    flags: if request.extras.is_empty() { 0 } else { request.u32_at(0) },
                    expires_at_ms: match request.extras.is_empty() {
                        true => 0,
                        false => deadline(request.u32_at(4) as i32, alone.now_ms()), // as memcached reads it
                    },
                    cas: request.cas,
                    ..Storing::default()
                };
                match (self.store(alone, key, request.value, storing)?, mode) {
                    (Stored::Yes, _) => {}
                    (Stored::Exists, _) | (Stored::No, Mode::Add) => return Err(Status::Exists),
                    (Stored::NotFound, _) | (Stored::No, Mode::Replace) => return Err(Status::NotFound),
                    (Stored::No, _) => return Err(Status::NotStored),
                }
                let cas = if request.quiet { None } else { alone.cas_of(DATABASE, key)? };
                answer(out, cas.unwrap_or(0), b"");
                Ok(if matches!(mode, Mode::Append | Mode::Prepend) { Id::Append } else { Id::Set })
            }
            Command::Delete => {
                if request.cas != 0 && alone.cas_of(DATABASE, key)?.is_some_and(|cas| cas != request.cas) {
                    return Err(Status::Exists);
                }
                let removed = alone.remove(DATABASE, key)?;
                self.outcomes().delete.count(removed);
                if !removed {
                    return Err(Status::NotFound);
                }
                answer(out, 0, b"");
                Ok(Id::Del)
            }
            Command::Count { up } => {
                let delta = u64::from_be_bytes(request.number(0));
                alone.make_room(0)?;
                let counted = classic::count(alone, key, delta, up, request.cas)?;
                self.count_outcome(up, counted);
                let number = match counted {
                    Counted::Is(number, _) => number,
                    Counted::NoNumber => return Err(Status::NoNumber),
                    Counted::Exists => return Err(Status::Exists),
                    Counted::NotFound => {
                        const NEVER: u32 = u32::MAX;
                        let expires = request.u32_at(16);
                        if expires == NEVER {
                            return Err(Status::NotFound);
                        }
                        let initial = u64::from_be_bytes(request.number(8));
                        let expires_at_ms = deadline(expires as i32, alone.now_ms()); // as memcached reads it
                        let attributes = Attributes { expires_at_ms, ..Attributes::default() };
                        classic::put(alone, key, itoa::Buffer::new().format(initial).as_bytes(), attributes)?;
                        initial
                    }
                };
                self.note_use(key, false);
                let cas = if request.quiet { None } else { alone.cas_of(DATABASE, key)? };
                answer(out, cas.unwrap_or(0), &number.to_be_bytes());
                Ok(if up { Id::IncrBy } else { Id::DecrBy })
            }
            Command::Flush => {
                let delay_s = if request.extras.is_empty() { 0 } else { request.u32_at(0) as i32 };
                self.flush_all(alone, delay_s)?;
                answer(out, 0, b"");
                Ok(Id::FlushDb)
            }
            // The caller handles these.
            _ => Err(Status::Unknown),
        }
    }
}

/// Writes the answer to a get: flags, the key if requested, the value.
fn answer_value(request: &Binary<'_>, out: &mut Vec<u8>, attributes: &Attributes, value: &[u8]) {
    let key = if request.with_key { request.key } else { b"" };
    request.answer(out, Status::Ok, attributes.cas, &attributes.flags.to_be_bytes(), key, value);
}
