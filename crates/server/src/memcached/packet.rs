//! Parses a packet of the binary protocol into a request, in place, and writes the packets that answer it.
//!
//! ```text
//! 0x80 opcode key-length(2) extras-length data-type 0 0 body-length(4) opaque(4) cas(8)   extras key value
//! 0x81 opcode key-length(2) extras-length data-type status(2) ...                         the answer, with its opaque
//! ```
//!
//! The quiet form of a command suppresses the expected answer: success, or for a get a miss.
//!
//! Source: memcached's protocol_binary.txt. Not here: what the commands do (`session/binary.rs`).

use super::request::{KEY_BYTES_MAX, Mode};

pub(super) const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
const HEADER_BYTES: usize = 24;
/// The longest request before the password was given, in bytes.
const BODY_BYTES_MAX_BEFORE_AUTH: usize = 4096;

/// The status of an answer, as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Status {
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
    NotSupported = 0x83,
    Internal = 0x84,
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
            Status::NotSupported => "Not supported",
            Status::Internal => "Internal error",
        }
    }
}

/// The command of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
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
pub(super) struct Packet<'a> {
    opcode: u8,
    pub(super) command: Option<Command>,
    pub(super) quiet: bool,
    /// Whether the answer to a get includes the key.
    with_key: bool,
    pub(super) extras: &'a [u8],
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    opaque: [u8; 4],
    pub(super) cas: u64,
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
pub(super) enum Next<'a> {
    Is(Packet<'a>, usize),
    /// An incomplete request: the least number of bytes that it has.
    Incomplete(usize),
    /// A request with a value that is too large: its header, its bytes received so far, and its bytes still to come.
    TooLarge(Packet<'a>, usize, usize),
    /// Bytes that cannot begin a request.
    Broken,
}

pub(super) fn parse(input: &[u8], value_bytes_max: usize, authenticated: bool) -> Next<'_> {
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
    let request = Packet {
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

impl Packet<'_> {
    pub(super) fn answer(&self, out: &mut Vec<u8>, status: Status, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) {
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

    /// Answers success, unless the command is quiet.
    pub(super) fn answer_done(&self, out: &mut Vec<u8>, cas: u64, value: &[u8]) {
        if !self.quiet {
            self.answer(out, Status::Ok, cas, b"", b"", value);
        }
    }

    /// Answers a get: flags, the key if requested, the value.
    pub(super) fn answer_value(&self, out: &mut Vec<u8>, cas: u64, flags: u32, value: &[u8]) {
        let key = if self.with_key { self.key } else { b"" };
        self.answer(out, Status::Ok, cas, &flags.to_be_bytes(), key, value);
    }

    pub(super) fn refuse(&self, out: &mut Vec<u8>, status: Status) {
        // The key, if the client asked for it, tells which of many gets missed.
        if self.with_key && status == Status::NotFound {
            return self.answer(out, status, 0, b"", self.key, b"");
        }
        self.answer(out, status, 0, b"", b"", status.text().as_bytes());
    }

    /// The bytes of a number in the extras; 0 if there are no extras.
    pub(super) fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        self.extras.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    pub(super) fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.number(at))
    }

    /// Whether the command has the key, extras and value that it needs, and no others.
    pub(super) fn is_valid(&self) -> bool {
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
