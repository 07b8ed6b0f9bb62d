//! The binary protocol, which many clients use by default, on the same keys as the text protocol.
//!
//! A connection whose first byte is 0x80 uses it to its end. A get uses shared entry unless the key has no CAS number;
//! changes use exclusive entry. Answers contain CAS numbers, so a set that is answered gives its key one.
//!
//! Source: the behavior of memcached 1.6.18. Not here: packets (`packet.rs`), what commands mean (`classic.rs`).

use super::entry::{Executed, Work};
use super::{MemcachedSession, OUTPUT_BYTES};
use crate::command::spec::Id;
use crate::keyspace::{Attributes, Exclusive, SpaceError};
use crate::memcached::classic::{self, Counted, Stored, Storing, deadline};
use crate::memcached::packet::{self, Command, Next, Packet, Status};
use crate::memcached::request::Mode;
use crate::memcached::{DATABASE, MEMCACHED_VERSION, stats};
use crate::session::Flow;
use std::sync::atomic::Ordering::*;

/// Why a request is refused.
enum Refused {
    Status(Status),
    Space(SpaceError),
}

impl From<SpaceError> for Refused {
    fn from(error: SpaceError) -> Self {
        Refused::Space(error)
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Refused::Status(status)
    }
}

/// The result of a request: its answer is written, or it is refused.
type Answered<T = ()> = std::result::Result<T, Refused>;

impl MemcachedSession {
    /// `Session::execute` for a client that speaks the binary protocol.
    pub(super) fn execute_binary(
        &mut self,
        work: &mut Work<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Executed<(usize, Flow)> {
        let mut at = 0;
        loop {
            at += self.skip_refused(&input[at..]);
            if out.len() > OUTPUT_BYTES {
                return Ok((at, Flow::Write));
            }
            let value_bytes_max = work.server.settings.bulk_bytes.load(Relaxed);
            match packet::parse(&input[at..], value_bytes_max, self.authenticated) {
                Next::Incomplete(bytes) => return Ok((at, Flow::Read(bytes.max(input.len() - at + 1)))),
                Next::Broken => {
                    self.figures.errors.fetch_add(1, Relaxed);
                    return Ok((at, Flow::Close));
                }
                Next::TooLarge(_, bytes, _) if !self.authenticated => return Ok((at + bytes, Flow::Close)),
                Next::TooLarge(request, bytes, more) => {
                    if request.command == Some(Command::Store(Mode::Set)) {
                        self.remove_refused(work, at, request.key)?;
                    }
                    self.figures.errors.fetch_add(1, Relaxed);
                    self.outcomes().too_large.fetch_add(1, Relaxed);
                    request.refuse(out, Status::TooLarge);
                    at += bytes;
                    self.swallow = more;
                }
                Next::Is(request, bytes) => {
                    let before = out.len();
                    if let Err(refused) = self.execute_packet(work, at, &request, out)? {
                        out.truncate(before);
                        self.refuse_packet(&request, refused, out);
                    }
                    at += bytes;
                    if request.command == Some(Command::Quit) && request.is_valid() {
                        return Ok((at, Flow::Close));
                    }
                }
            }
        }
    }

    /// Counts a refused request, and answers it, unless it is a quiet get of an absent key.
    fn refuse_packet(&self, request: &Packet<'_>, refused: Refused, out: &mut Vec<u8>) {
        let is_get = matches!(request.command, Some(Command::Get { .. }));
        let status = match refused {
            Refused::Status(Status::NotFound) if is_get && request.quiet => return,
            Refused::Status(Status::NotFound) if is_get => Status::NotFound,
            Refused::Status(status) => {
                self.figures.errors.fetch_add(1, Relaxed);
                status
            }
            Refused::Space(error) => {
                self.note_refused(&error);
                match error {
                    SpaceError::MemoryLimit => Status::OutOfMemory,
                    error => {
                        // The answer has no room for it.
                        tracing::warn!(%error, "a request of the binary protocol");
                        if let SpaceError::Table(_) = error { Status::Internal } else { Status::NotSupported }
                    }
                }
            }
        };
        request.refuse(out, status);
    }

    /// Executes the request that begins at `start`, if it is allowed and valid.
    fn execute_packet(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        request: &Packet<'_>,
        out: &mut Vec<u8>,
    ) -> Executed<Answered> {
        let Some(command) = request.command else { return Ok(Err(Status::Unknown.into())) };
        let is_before_auth = matches!(command, Command::Mechanisms | Command::Auth | Command::Version | Command::Quit);
        if !self.authenticated && !is_before_auth {
            return Ok(Err(Status::AuthError.into()));
        }
        if !request.is_valid() {
            return Ok(Err(Status::Invalid.into()));
        }
        let done = match command {
            Command::Get { value: true, touch: false } => {
                if let Some(found) = self.get_shared(work, start, request, out)? {
                    self.note(work, Id::Get, 1, &[b"get", request.key]);
                    return Ok(found);
                }
                // The key has no CAS number yet: it gets one with exclusive entry.
                self.get_alone(work.alone(start)?, request, true, false, out).map(|()| Id::Get)
            }
            Command::Get { .. } | Command::Store(_) | Command::Delete | Command::Count { .. } | Command::Flush => {
                let alone = work.alone(start)?;
                self.unsynced = true;
                self.change_binary(alone, command, request, out)
            }
            _ => self.answer_outside(command, request, out),
        };
        Ok(done.map(|id| self.note(work, id, 1, &[b"binary", request.key])))
    }

    /// Answers a command that does not use the key space. Returns the Redis command that does the same.
    fn answer_outside(&mut self, command: Command, request: &Packet<'_>, out: &mut Vec<u8>) -> Answered<Id> {
        match command {
            Command::Quit | Command::Noop | Command::Verbosity => {
                request.answer_done(out, 0, b"");
                Ok(Id::Ping)
            }
            Command::Version => {
                request.answer_done(out, 0, MEMCACHED_VERSION.as_bytes());
                Ok(Id::Ping)
            }
            Command::Mechanisms | Command::Auth if !self.server.settings.needs_password() => {
                Err(Status::Unknown.into())
            }
            Command::Mechanisms => {
                request.answer_done(out, 0, b"PLAIN");
                Ok(Id::Auth)
            }
            Command::Auth => {
                // Any user is accepted, as in the text protocol: `[authorize-as] 0 user 0 password`.
                let password = request.value.splitn(3, |&b| b == 0).nth(2).unwrap_or_default();
                self.authenticated = request.key == b"PLAIN" && self.server.settings.is_password(password);
                self.is_guest = false;
                self.outcomes().auth.count(self.authenticated);
                if !self.authenticated {
                    return Err(Status::AuthError.into());
                }
                request.answer_done(out, 0, b"Authenticated");
                Ok(Id::Auth)
            }
            Command::Stat => {
                let mut text = Vec::new();
                stats::stats(&self.server, request.key, &mut text);
                for line in text.split(|&b| b == b'\n').filter_map(|line| line.strip_prefix(b"STAT ")) {
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    let blank = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
                    let value = line.get(blank + 1..).unwrap_or_default();
                    request.answer(out, Status::Ok, 0, b"", &line[..blank], value);
                }
                request.answer_done(out, 0, b"");
                Ok(Id::Info)
            }
            // The caller handles these.
            _ => Err(Status::Unknown.into()),
        }
    }

    /// Executes a get with shared entry; `None` if the key has no CAS number yet.
    fn get_shared(
        &mut self,
        work: &mut Work<'_>,
        start: usize,
        request: &Packet<'_>,
        out: &mut Vec<u8>,
    ) -> Executed<Option<Answered>> {
        let shared = work.shared(start)?;
        let mut answered = None;
        let found = shared.get_records(DATABASE, &[request.key], |_, record| match record {
            None => answered = Some(false),
            Some(record) if record.attributes.cas == 0 => {}
            Some(record) => {
                request.answer_value(out, record.attributes.cas, record.attributes.flags, record.value);
                answered = Some(true);
            }
        });
        if let Err(error) = found {
            return Ok(Some(Err(error.into())));
        }
        let Some(hit) = answered else { return Ok(None) };
        self.note_hits(hit.into(), 1);
        if hit {
            self.note_use(request.key, true);
        }
        Ok(Some(if hit { Ok(()) } else { Err(Status::NotFound.into()) }))
    }

    /// Executes a get that sets the key's CAS number or expiry time.
    fn get_alone(
        &mut self,
        alone: &mut Exclusive<'_>,
        request: &Packet<'_>,
        with_value: bool,
        touch: bool,
        out: &mut Vec<u8>,
    ) -> Answered {
        let (key, mut value) = (request.key, Vec::new());
        let found = if with_value { alone.get(DATABASE, key, &mut value)? } else { alone.contains(DATABASE, key)? };
        if with_value {
            self.note_hits(found.into(), 1);
        }
        if touch {
            self.outcomes().touch.count(found);
        }
        if !found {
            return Err(Status::NotFound.into());
        }
        self.unsynced = true;
        alone.cas_of(DATABASE, key)?;
        let attributes = alone.attributes(DATABASE, key)?;
        if touch {
            classic::touch(alone, key, request.u32_at(0) as i32)?; // as memcached reads it
        }
        self.note_use(key, true);
        request.answer_value(out, attributes.cas, attributes.flags, &value);
        Ok(())
    }

    /// Executes a command with exclusive entry. Returns the Redis command that does the same.
    fn change_binary(
        &mut self,
        alone: &mut Exclusive<'_>,
        command: Command,
        request: &Packet<'_>,
        out: &mut Vec<u8>,
    ) -> Answered<Id> {
        match command {
            Command::Get { value, touch } => {
                self.get_alone(alone, request, value, touch, out)?;
                Ok(if value { Id::GetEx } else { Id::Expire })
            }
            Command::Store(mode) => {
                self.store_binary(alone, mode, request, out)?;
                Ok(if matches!(mode, Mode::Append | Mode::Prepend) { Id::Append } else { Id::Set })
            }
            Command::Delete => {
                if request.cas != 0 && alone.cas_of(DATABASE, request.key)?.is_some_and(|cas| cas != request.cas) {
                    return Err(Status::Exists.into());
                }
                let removed = alone.remove(DATABASE, request.key)?;
                self.outcomes().delete.count(removed);
                if !removed {
                    return Err(Status::NotFound.into());
                }
                request.answer_done(out, 0, b"");
                Ok(Id::Del)
            }
            Command::Count { up } => {
                self.count_binary(alone, up, request, out)?;
                Ok(if up { Id::IncrBy } else { Id::DecrBy })
            }
            Command::Flush => {
                self.flush_all(alone, request.u32_at(0) as i32)?;
                request.answer_done(out, 0, b"");
                Ok(Id::FlushDb)
            }
            // The caller handles these.
            _ => Err(Status::Unknown.into()),
        }
    }

    fn store_binary(
        &mut self,
        alone: &mut Exclusive<'_>,
        mode: Mode,
        request: &Packet<'_>,
        out: &mut Vec<u8>,
    ) -> Answered {
        let with_cas = request.cas != 0 && matches!(mode, Mode::Set | Mode::Add | Mode::Replace);
        let storing = Storing {
            mode: if with_cas { Mode::Cas } else { mode },
            flags: request.u32_at(0),
            expires_at_ms: deadline(request.u32_at(4) as i32, alone.now_ms()), // as memcached reads it
            cas: request.cas,
            ..Storing::default()
        };
        match (self.store(alone, request.key, request.value, storing)?, mode) {
            (Stored::Yes, _) => answer_changed(alone, request, b"", out),
            (Stored::Exists, _) | (Stored::No, Mode::Add) => Err(Status::Exists.into()),
            (Stored::NotFound, _) | (Stored::No, Mode::Replace) => Err(Status::NotFound.into()),
            (Stored::No, _) => Err(Status::NotStored.into()),
        }
    }

    fn count_binary(
        &mut self,
        alone: &mut Exclusive<'_>,
        up: bool,
        request: &Packet<'_>,
        out: &mut Vec<u8>,
    ) -> Answered {
        let (key, delta) = (request.key, u64::from_be_bytes(request.number(0)));
        alone.make_room(0)?;
        let counted = classic::count(alone, key, delta, up, request.cas)?;
        self.count_outcome(up, counted);
        let number = match counted {
            Counted::Is(number, _) => number,
            Counted::NoNumber => return Err(Status::NoNumber.into()),
            Counted::Exists => return Err(Status::Exists.into()),
            Counted::NotFound => {
                const NEVER: u32 = u32::MAX;
                let expires = request.u32_at(16);
                if expires == NEVER {
                    return Err(Status::NotFound.into());
                }
                let initial = u64::from_be_bytes(request.number(8));
                let expires_at_ms = deadline(expires as i32, alone.now_ms()); // as memcached reads it
                let attributes = Attributes { expires_at_ms, ..Attributes::default() };
                classic::put(alone, key, itoa::Buffer::new().format(initial).as_bytes(), attributes)?;
                initial
            }
        };
        self.note_use(key, false);
        answer_changed(alone, request, &number.to_be_bytes(), out)
    }
}

/// Answers a change with the key's new CAS number, unless the command is quiet.
fn answer_changed(alone: &mut Exclusive<'_>, request: &Packet<'_>, value: &[u8], out: &mut Vec<u8>) -> Answered {
    let cas = if request.quiet { None } else { alone.cas_of(DATABASE, request.key)? };
    request.answer_done(out, cas.unwrap_or(0), value);
    Ok(())
}
