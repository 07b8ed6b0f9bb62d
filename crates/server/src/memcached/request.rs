//! Parses a line of the memcached protocol into a request, in place: only base64 keys are copied.
//!
//! ```text
//! set k 0 0 5\r\n      -> Store { key: k, flags: 0, exptime: 0, data_len: 5 }; the value follows the line
//! mg k v t\r\n         -> MetaGet(Meta { key: k, words: "v t", value: true, .. })
//! ```
//!
//! Words are separated by spaces alone, a line ends with LF or CR LF, and a zero byte ends it early, as in memcached.

use super::dump::DumpKind;
use super::number;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use memchr::memchr;
use std::borrow::Cow;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;
/// The most words of a meta command, its name included.
const META_WORDS_MAX: usize = 19;
/// The longest word with an opaque, in bytes, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;
/// The longest value that a line can announce, in bytes.
const DATA_BYTES_MAX: i32 = i32::MAX - 2;

const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_FLAG: &str = "CLIENT_ERROR invalid or duplicate flag";
const UNKNOWN: &str = "ERROR";

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// get, gets, gat, gats: the values of keys.
    Get(Get<'a>),
    /// set, add, replace, append, prepend, cas.
    Store(Store<'a>),
    /// delete
    Delete {
        /// The key.
        key: &'a [u8],
        /// Whether no answer is sent (noreply).
        quiet: bool,
    },
    /// incr, decr
    Count {
        /// The key.
        key: &'a [u8],
        /// The amount to add or subtract.
        delta: u64,
        /// Whether to add.
        up: bool,
        /// Whether no answer is sent (noreply).
        quiet: bool,
    },
    /// touch
    Touch {
        /// The key.
        key: &'a [u8],
        /// When it expires, as sent.
        exptime: i32,
        /// Whether no answer is sent (noreply).
        quiet: bool,
    },
    /// flush_all
    Flush {
        /// Seconds until the keys are removed.
        delay_s: i32,
        /// Whether no answer is sent (noreply).
        quiet: bool,
    },
    /// verbosity
    Verbosity {
        /// Whether no answer is sent (noreply).
        quiet: bool,
    },
    /// stats, and its arguments.
    Stats(&'a [u8]),
    /// stats cachedump: the slab class, and the limit of items.
    CacheDump(u32, u32),
    /// lru_crawler metadump and mgdump.
    Dump(DumpKind),
    /// lru_crawler with a subcommand that changes nothing here.
    Crawler,
    /// cache_memlimit
    MemoryLimit {
        /// The new limit.
        megabytes: u32,
        /// Whether no answer is sent (noreply).
        quiet: bool,
    },
    /// version
    Version,
    /// quit
    Quit,
    /// mg
    MetaGet(Meta<'a>),
    /// ms, and the length of its value.
    MetaSet(Meta<'a>, usize),
    /// md
    MetaDelete(Meta<'a>),
    /// ma
    MetaCount(Meta<'a>),
    /// mn
    MetaNoop,
    /// me
    MetaDebug(Cow<'a, [u8]>),
}

/// What get, gets, gat or gats asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// The keys, between spaces; at least one, none too long.
    pub keys: &'a [u8],
    /// The number of keys.
    pub count: usize,
    /// Whether the answer includes CAS numbers.
    pub with_cas: bool,
    /// gat: the new expiry time of the keys.
    pub exptime: Option<i32>,
}

/// A request to store a value, whose bytes follow the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// How to store it, and on which condition.
    pub mode: Mode,
    /// The key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// When it expires, as sent.
    pub exptime: i32,
    /// The CAS number that the key must have; 0 for none.
    pub cas: u64,
    /// Bytes of the value.
    pub data_len: usize,
    /// Whether no answer is sent (noreply).
    pub quiet: bool,
}

/// How a value is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Unconditionally.
    #[default]
    Set,
    /// If the key is absent.
    Add,
    /// If the key is present.
    Replace,
    /// After the existing value.
    Append,
    /// Before the existing value.
    Prepend,
    /// If the key has this CAS number.
    Cas,
}

/// A meta command: its key and its flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta<'a> {
    /// The key, decoded.
    pub key: Cow<'a, [u8]>,
    /// The key as sent.
    pub sent_key: &'a [u8],
    /// The words after the key (for ms: after the length), separated by spaces.
    pub words: &'a [u8],
    /// b: the key is base64.
    pub binary: bool,
    /// v: the value is to be returned.
    pub value: bool,
    /// q: the usual answers are suppressed.
    pub quiet: bool,
    /// u: the request does not count as a use of the key.
    pub no_update: bool,
    /// I: ms accepts a value with an older CAS number; md marks the value as stale instead of removing it.
    pub invalidate: bool,
    /// h, l: the answer includes the key's use.
    pub activity: bool,
    /// N: an absent key is created with this expiry time.
    pub vivify: Option<i32>,
    /// T: the new expiry time.
    pub exptime: Option<i32>,
    /// R: a client that asks when less time than this remains gets the flag to renew the value.
    pub recache: Option<i32>,
    /// F: the client's flags.
    pub flags: u32,
    /// C: the CAS number to compare.
    pub cas: Option<u64>,
    /// M: the mode of ms or ma.
    pub mode: Option<u8>,
    /// D: the amount by which ma changes the number.
    pub delta: Option<u64>,
    /// J: the number that N creates.
    pub initial: u64,
}

/// A line that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The answer; empty for none.
    pub text: &'static str,
    /// Bytes after the line that belong to it and must be skipped.
    pub swallow: usize,
}

impl Refused {
    fn with(text: &'static str) -> Refused {
        Refused { text, swallow: 0 }
    }

    fn quietly() -> Refused {
        Refused { text: "", swallow: 0 }
    }
}

type Parsed<'a> = Result<Request<'a>, Refused>;

/// Splits a line into words.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|&byte| byte != b' ')?;
        let word = &rest[start..];
        let len = word.iter().position(|&byte| byte == b' ').unwrap_or(word.len());
        rest = &word[len..];
        Some(&word[..len])
    })
}

/// Parses a line, given without its end.
pub fn parse(line: &[u8]) -> Parsed<'_> {
    let line = &line[..memchr(0, line).unwrap_or(line.len())];
    let name = words(line).next().ok_or(Refused::with(UNKNOWN))?;
    let rest = &line[offset(line, name) + name.len()..];
    match name {
        b"get" | b"bget" => get(rest, false, false),
        b"gets" => get(rest, true, false),
        b"gat" => get(rest, false, true),
        b"gats" => get(rest, true, true),
        b"set" => store(rest, Mode::Set),
        b"add" => store(rest, Mode::Add),
        b"replace" => store(rest, Mode::Replace),
        b"append" => store(rest, Mode::Append),
        b"prepend" => store(rest, Mode::Prepend),
        b"cas" => store(rest, Mode::Cas),
        b"incr" => count(rest, true),
        b"decr" => count(rest, false),
        b"delete" => delete(rest),
        b"touch" => touch(rest),
        b"flush_all" => flush(rest),
        b"verbosity" => verbosity(rest),
        b"stats" => stats(rest),
        b"lru_crawler" => lru_crawler(rest),
        b"cache_memlimit" => memory_limit(rest),
        b"version" => Ok(Request::Version),
        b"quit" => Ok(Request::Quit),
        b"mn" => Ok(Request::MetaNoop),
        b"mg" => Ok(Request::MetaGet(meta(rest, false, "CLIENT_ERROR options flags are too long")?.0)),
        b"ms" => meta_set(rest),
        b"md" => meta(rest, false, TOO_MANY_WORDS).map(|(meta, _)| Request::MetaDelete(meta)).map_err(bad_flag),
        b"ma" => meta(rest, false, TOO_MANY_WORDS).map_err(bad_flag).and_then(|(meta, _)| match meta.mode {
            None | Some(b'I' | b'i' | b'+' | b'D' | b'd' | b'-') => Ok(Request::MetaCount(meta)),
            Some(_) => Err(Refused::with("CLIENT_ERROR invalid mode for ma M token")),
        }),
        b"me" => meta_debug(rest),
        b"shutdown" => Err(Refused::with("ERROR: shutdown not enabled")),
        _ => Err(Refused::with(UNKNOWN)),
    }
}

const TOO_MANY_WORDS: &str = "CLIENT_ERROR options flags too long";

/// The offset in `line` of `word`, which is a part of it.
fn offset(line: &[u8], word: &[u8]) -> usize {
    word.as_ptr() as usize - line.as_ptr() as usize
}

fn get(rest: &[u8], with_cas: bool, touch: bool) -> Parsed<'_> {
    let mut keys = words(rest);
    let mut rest = rest;
    let mut exptime = None;
    let Some(first) = keys.clone().next() else { return Err(Refused::with(UNKNOWN)) };
    if touch {
        keys.next();
        rest = &rest[offset(rest, first) + first.len()..];
        exptime = Some(number::i32(first).ok_or(Refused::with("CLIENT_ERROR invalid exptime argument"))?);
    }
    let mut count = 0;
    for key in keys {
        if key.len() > KEY_BYTES_MAX {
            return Err(Refused::with(BAD_LINE));
        }
        count += 1;
    }
    Ok(Request::Get(Get { keys: rest, count, with_cas, exptime }))
}

/// The words of a command that has between `min` and `max` of them, and whether the last is `noreply`.
fn arguments<const N: usize>(rest: &[u8], min: usize) -> Result<([&[u8]; N], usize, bool), Refused> {
    let mut found: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    for word in words(rest) {
        *found.get_mut(count).ok_or(Refused::with(UNKNOWN))? = word;
        count += 1;
    }
    if count < min {
        return Err(Refused::with(UNKNOWN));
    }
    Ok((found, count, count > 0 && found[count - 1] == b"noreply"))
}

/// A refusal that `noreply` silences.
fn unless_quiet(quiet: bool, text: &'static str) -> Refused {
    if quiet { Refused::quietly() } else { Refused::with(text) }
}

fn store(rest: &[u8], mode: Mode) -> Parsed<'_> {
    let ([key, flags, exptime, data_len, fifth, _], count, quiet) = arguments::<6>(rest, 4)?;
    let (min, max) = if mode == Mode::Cas { (5, 6) } else { (4, 5) };
    if count < min || count > max {
        return Err(Refused::with(UNKNOWN));
    }
    let bad = unless_quiet(quiet, BAD_LINE);
    if key.len() > KEY_BYTES_MAX {
        return Err(bad);
    }
    let flags = number::u32(flags).ok_or(bad)?;
    let exptime = number::i32(exptime).ok_or(bad)?;
    let data_len = number::i32(data_len).ok_or(bad)?;
    let cas = if mode == Mode::Cas { number::u64(fifth).ok_or(bad)? } else { 0 };
    if !(0..=DATA_BYTES_MAX).contains(&data_len) {
        return Err(bad);
    }
    Ok(Request::Store(Store { mode, key, flags, exptime, cas, data_len: data_len as usize, quiet }))
}

fn count(rest: &[u8], up: bool) -> Parsed<'_> {
    let ([key, delta, _], _, quiet) = arguments::<3>(rest, 2)?;
    if key.len() > KEY_BYTES_MAX {
        return Err(unless_quiet(quiet, BAD_LINE));
    }
    let refused = unless_quiet(quiet, "CLIENT_ERROR invalid numeric delta argument");
    Ok(Request::Count { key, delta: number::u64(delta).ok_or(refused)?, up, quiet })
}

fn delete(rest: &[u8]) -> Parsed<'_> {
    let ([key, second, _], count, last_is_noreply) = arguments::<3>(rest, 1)?;
    // An argument that once was a time must be 0.
    let quiet = count > 1 && last_is_noreply;
    let valid = match count {
        1 => true,
        2 => second == b"0" || quiet,
        _ => second == b"0" && quiet,
    };
    if !valid {
        return Err(unless_quiet(quiet, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(unless_quiet(quiet, BAD_LINE));
    }
    Ok(Request::Delete { key, quiet })
}

fn touch(rest: &[u8]) -> Parsed<'_> {
    let ([key, exptime, _], _, quiet) = arguments::<3>(rest, 2)?;
    if key.len() > KEY_BYTES_MAX {
        return Err(unless_quiet(quiet, BAD_LINE));
    }
    let refused = unless_quiet(quiet, "CLIENT_ERROR invalid exptime argument");
    Ok(Request::Touch { key, exptime: number::i32(exptime).ok_or(refused)?, quiet })
}

fn flush(rest: &[u8]) -> Parsed<'_> {
    let ([delay, _], count, quiet) = arguments::<2>(rest, 0)?;
    let mut delay_s = 0;
    if count != usize::from(quiet) {
        let refused = unless_quiet(quiet, "CLIENT_ERROR invalid exptime argument");
        delay_s = number::i32(delay).ok_or(refused)?;
    }
    Ok(Request::Flush { delay_s, quiet })
}

fn verbosity(rest: &[u8]) -> Parsed<'_> {
    let ([level, _], _, quiet) = arguments::<2>(rest, 1)?;
    number::u32(level).ok_or(unless_quiet(quiet, BAD_LINE))?;
    Ok(Request::Verbosity { quiet })
}

fn stats(rest: &[u8]) -> Parsed<'_> {
    const CLASS_MAX: u32 = 63;
    let mut following = words(rest);
    if following.next() != Some(b"cachedump") {
        return Ok(Request::Stats(rest.trim_ascii()));
    }
    let mut next = || following.next().and_then(number::u32).ok_or(Refused::with("CLIENT_ERROR bad command line"));
    match (next()?, next()?) {
        (class @ 1..=CLASS_MAX, limit) => Ok(Request::CacheDump(class, limit)),
        _ => Err(Refused::with("CLIENT_ERROR Illegal slab id")),
    }
}

fn lru_crawler(rest: &[u8]) -> Parsed<'_> {
    let mut following = words(rest);
    match (following.next(), following.next()) {
        (Some(b"metadump"), Some(_)) => Ok(Request::Dump(DumpKind::Meta)),
        (Some(b"mgdump"), Some(_)) => Ok(Request::Dump(DumpKind::Get)),
        (Some(b"enable" | b"disable"), None) | (Some(b"crawl" | b"sleep" | b"tocrawl"), Some(_)) => {
            Ok(Request::Crawler)
        }
        _ => Err(Refused::with(UNKNOWN)),
    }
}

fn memory_limit(rest: &[u8]) -> Parsed<'_> {
    const LEAST: u32 = 8;
    let ([megabytes, _], count, quiet) = arguments::<2>(rest, 1)?;
    let megabytes = number::u32(megabytes).filter(|_| count == 1 || quiet).ok_or(unless_quiet(quiet, UNKNOWN))?;
    if megabytes < LEAST {
        let text = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
        return Err(unless_quiet(quiet, text));
    }
    Ok(Request::MemoryLimit { megabytes, quiet })
}

fn meta_set(rest: &[u8]) -> Parsed<'_> {
    let (meta, data_len) = meta(rest, true, TOO_MANY_WORDS)?;
    let known = |mode: u8| b"EAPRSeaprs".contains(&mode);
    if meta.mode.is_some_and(|mode| !known(mode)) {
        return Err(Refused { text: "CLIENT_ERROR invalid mode for ms M token", swallow: data_len.saturating_add(2) });
    }
    Ok(Request::MetaSet(meta, data_len))
}

fn bad_flag(refused: Refused) -> Refused {
    let is_flag = ![UNKNOWN, BAD_LINE, TOO_MANY_WORDS, LONG_OPAQUE].contains(&refused.text);
    if is_flag { Refused::with(BAD_FLAG) } else { refused }
}

const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";

/// Parses the key and flags of a meta command, and for ms the length of its value.
fn meta<'a>(rest: &'a [u8], is_set: bool, too_many: &'static str) -> Result<(Meta<'a>, usize), Refused> {
    let mut words = words(rest);
    let key = words.next().ok_or(Refused::with(UNKNOWN))?;
    if key.len() > KEY_BYTES_MAX {
        return Err(Refused::with(BAD_LINE));
    }
    let mut last = key;
    let mut data_len = 0;
    if is_set {
        last = words.next().ok_or(Refused::with(BAD_LINE))?;
    }
    if words.clone().count() + 2 + usize::from(is_set) > META_WORDS_MAX {
        return Err(Refused::with(too_many));
    }
    if is_set {
        let len = number::i32(last).filter(|len| (0..=DATA_BYTES_MAX).contains(len));
        data_len = len.ok_or(Refused::with(BAD_LINE))? as usize; // not negative
    }
    let flags = &rest[offset(rest, last) + last.len()..];
    let mut meta = Meta { key: Cow::Borrowed(key), sent_key: key, words: flags, ..Meta::default() };
    match meta.read_flags(flags) {
        Ok(()) => Ok((meta, data_len)),
        // Skip the value that follows, so that it is not taken for the next command.
        Err(text) => Err(Refused { text, swallow: if is_set { data_len.saturating_add(2) } else { 0 } }),
    }
}

impl Meta<'_> {
    fn read_flags(&mut self, flags: &[u8]) -> Result<(), &'static str> {
        let mut seen = [false; 127];
        let mut wrong = None;
        for word in words(flags) {
            let (letter, argument) = (word[0], &word[1..]); // words are not empty
            match seen.get_mut(usize::from(letter)) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err("CLIENT_ERROR duplicate flag"),
            }
            // If there are several faults, the last is reported.
            let seconds = |wrong: &mut Option<&'static str>| {
                let seconds = number::i32(argument);
                *wrong = if seconds.is_none() { Some(BAD_TOKEN) } else { *wrong };
                seconds
            };
            match letter {
                b'b' => {
                    self.binary = true;
                    match decode(self.sent_key) {
                        Some(key) => self.key = Cow::Owned(key),
                        None => wrong = Some("CLIENT_ERROR error decoding key"),
                    }
                }
                b'N' => self.vivify = seconds(&mut wrong),
                b'T' => self.exptime = seconds(&mut wrong),
                b'R' => self.recache = seconds(&mut wrong),
                b'h' | b'l' => self.activity = true,
                b'v' => self.value = true,
                b'u' => self.no_update = true,
                b'q' => self.quiet = true,
                b'I' => self.invalidate = true,
                b'F' => match number::u32(argument) {
                    Some(flags) => self.flags = flags,
                    None => wrong = wrong.or(Some(BAD_LINE)),
                },
                b'C' => match number::u64(argument) {
                    Some(cas) => self.cas = Some(cas),
                    None => wrong = Some(BAD_TOKEN),
                },
                b'M' => match argument {
                    &[mode] => self.mode = Some(mode),
                    _ => wrong = Some("CLIENT_ERROR incorrect length for M token"),
                },
                b'J' => match number::u64(argument) {
                    Some(initial) => self.initial = initial,
                    None => wrong = Some("CLIENT_ERROR invalid numeric initial value"),
                },
                b'D' => match number::u64(argument) {
                    Some(delta) => self.delta = Some(delta),
                    None => wrong = Some("CLIENT_ERROR invalid numeric delta value"),
                },
                b'O' if word.len() > OPAQUE_BYTES_MAX => wrong = wrong.or(Some(LONG_OPAQUE)),
                b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' => {}
                _ => return Err("CLIENT_ERROR invalid flag"),
            }
        }
        wrong.map_or(Ok(()), Err)
    }
}

fn meta_debug(rest: &[u8]) -> Parsed<'_> {
    let mut words = words(rest);
    let key = words.next().filter(|key| key.len() <= KEY_BYTES_MAX).ok_or(Refused::with(BAD_LINE))?;
    if words.next() == Some(b"b") {
        let key = decode(key).ok_or(Refused::with(BAD_LINE))?;
        return Ok(Request::MetaDebug(Cow::Owned(key)));
    }
    Ok(Request::MetaDebug(Cow::Borrowed(key)))
}

fn decode(key: &[u8]) -> Option<Vec<u8>> {
    const ENGINE: GeneralPurpose =
        GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    ENGINE.decode(key).ok().filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(line: &str) -> &'static str {
        parse(line.as_bytes()).unwrap_err().text
    }

    #[test]
    fn lines_ask_for_what_they_say() {
        let stored = Store { mode: Mode::Cas, key: b"k", flags: 7, exptime: -1, cas: 9, data_len: 3, quiet: true };
        assert_eq!(parse(b"cas k 7 -1 3 9 noreply"), Ok(Request::Store(stored)));
        let two = Get { keys: b" a  b", count: 2, with_cas: true, exptime: Some(60) };
        assert_eq!(parse(b"gats 60 a  b"), Ok(Request::Get(two)));
        assert_eq!(parse(b"delete k 0 noreply"), Ok(Request::Delete { key: b"k", quiet: true }));
        let Ok(Request::MetaGet(meta)) = parse(b"mg Zm9v b v N30 Oabc q") else { panic!() };
        assert_eq!((&*meta.key, meta.binary, meta.value, meta.vivify), (b"foo".as_slice(), true, true, Some(30)));
    }

    #[test]
    fn what_cannot_be_done_is_named_as_memcached_names_it() {
        assert_eq!(refused(""), "ERROR");
        assert_eq!(refused("get"), "ERROR");
        assert_eq!(refused("set k 0 0"), "ERROR");
        assert_eq!(refused("set k x 0 1"), BAD_LINE);
        assert_eq!(refused("set k 0 0 -1"), BAD_LINE);
        assert_eq!(refused(&format!("get {}", "k".repeat(251))), BAD_LINE);
        assert_eq!(refused("mg k v v"), "CLIENT_ERROR duplicate flag");
        assert_eq!(refused("mg k !"), "CLIENT_ERROR invalid flag");
        assert_eq!(refused("md k !"), BAD_FLAG);
        assert_eq!(refused("incr k x"), "CLIENT_ERROR invalid numeric delta argument");
        assert_eq!(parse(b"ms k 5 Mz").unwrap_err().swallow, 7);
    }

    proptest! {
        #[test]
        fn any_line_gives_a_request_or_a_refusal(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&line);
        }

        #[test]
        fn words_of_commands_in_any_order_give_a_request_or_a_refusal(
            words in proptest::collection::vec(
                prop::sample::select(vec![
                    "get", "gat", "set", "cas", "ms", "mg", "ma", "md", "me", "k", "0", "-1", "99999999999999999999",
                    "noreply", "b", "v", "T30", "N", "MA", "Mx", "C1", "", "\t",
                    "OOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOO",
                ]),
                0..30,
            )
        ) {
            let line = words.join(" ");
            let keys_fit = match parse(line.as_bytes()) {
                Ok(Request::Get(get)) => super::words(get.keys).count() == get.count,
                Ok(Request::Store(store)) => !store.key.is_empty() && store.key.len() <= KEY_BYTES_MAX,
                Ok(Request::MetaGet(meta) | Request::MetaSet(meta, _)) => !meta.key.is_empty(),
                _ => true,
            };
            prop_assert!(keys_fit, "{}", line);
        }
    }
}
