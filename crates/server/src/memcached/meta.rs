//! The meta commands mg, ms, md, ma and me. An answer has one word for each flag that asks for one, in their order.

use super::DATABASE;
use super::activity::{Activity, Use};
use super::classic::{Counted, Stored, Storing, count, deadline, expire_at, put, store, write_number};
use super::request::{Meta, Mode, words};
use crate::keyspace::{Attributes, Exclusive, Result};

/// The properties of a key that the words of an answer can show.
pub(super) struct Facts<'a> {
    pub(super) len: usize,
    pub(super) attributes: Attributes,
    pub(super) activity: Option<Use>,
    pub(super) now_ms: u64,
    pub(super) meta: &'a Meta<'a>,
}

impl Facts<'_> {
    /// Writes the answer's word for a flag, or nothing for a flag that asks for none.
    fn write(&self, out: &mut Vec<u8>, word: &[u8]) {
        match word[0] {
            b's' => write_number(out, b" s", self.len as u64),
            b't' => match seconds_left(&self.attributes, self.now_ms) {
                None => out.extend_from_slice(b" t-1"),
                Some(seconds) => write_number(out, b" t", seconds),
            },
            b'c' => write_number(out, b" c", self.attributes.cas),
            b'f' => write_number(out, b" f", self.attributes.flags.into()),
            b'l' => write_number(out, b" l", self.activity.map_or(0, |activity| activity.idle_s.into())),
            b'h' => write_number(out, b" h", self.activity.map_or(0, |activity| activity.fetched.into())),
            _ => write_echo(out, self.meta, word),
        }
    }

    /// `HD` or `VA length`, then a word for each flag.
    #[inline]
    pub(super) fn write_hit(&self, out: &mut Vec<u8>) {
        if self.meta.value {
            write_number(out, b"VA ", self.len as u64);
        } else {
            out.extend_from_slice(b"HD");
        }
        words(self.meta.words).for_each(|word| self.write(out, word));
    }
}

/// Seconds until a key expires, rounded up; `None` if it never does.
fn seconds_left(attributes: &Attributes, now_ms: u64) -> Option<u64> {
    (attributes.expires_at_ms != 0).then(|| attributes.expires_at_ms.saturating_sub(now_ms).div_ceil(1000))
}

/// Writes the words that repeat parts of the request: O and k.
fn write_echo(out: &mut Vec<u8>, meta: &Meta<'_>, word: &[u8]) {
    match word[0] {
        b'O' => {
            out.push(b' ');
            out.extend_from_slice(word);
        }
        b'k' => {
            out.extend_from_slice(b" k");
            out.extend_from_slice(meta.sent_key);
            out.extend_from_slice(if meta.binary { b" b" } else { b"" });
        }
        _ => {}
    }
}

/// Writes an answer of two letters and the repeated words, with its line end.
fn write_line(out: &mut Vec<u8>, code: &[u8], meta: &Meta<'_>) {
    out.extend_from_slice(code);
    words(meta.words).for_each(|word| write_echo(out, meta, word));
    out.extend_from_slice(b"\r\n");
}

/// The answer of mg for a missing key.
pub(super) fn write_miss(out: &mut Vec<u8>, meta: &Meta<'_>) {
    if !meta.quiet {
        write_line(out, b"EN", meta);
    }
}

/// Whether the flags of this mg allow an answer with shared entry, if also [`only_reads`] holds.
pub(super) fn mostly_reads(meta: &Meta<'_>) -> bool {
    meta.exptime.is_none() && !meta.activity
}

/// Whether answering this mg for this key changes nothing.
pub(super) fn only_reads(meta: &Meta<'_>, attributes: &Attributes, present: bool, now_ms: u64) -> bool {
    if !present {
        return meta.vivify.is_none();
    }
    let gives_cas = attributes.cas == 0 && words(meta.words).any(|word| word[0] == b'c');
    let claims = meta.recache.is_some_and(|recache| needs_recache(recache, attributes, now_ms));
    attributes.marks == 0 && !gives_cas && !claims
}

/// Whether the key has less time left than flag R states.
fn needs_recache(recache: i32, attributes: &Attributes, now_ms: u64) -> bool {
    let limit = deadline(recache, now_ms).saturating_sub(now_ms).div_ceil(1000);
    seconds_left(attributes, now_ms).is_some_and(|left| left < limit)
}

/// mg. Returns whether the key was present.
pub(super) fn get(
    alone: &mut Exclusive<'_>,
    meta: &Meta<'_>,
    activity: Option<(&Activity, u64)>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let mut value = Vec::new();
    let now_ms = alone.now_ms();
    let mut won = false;
    let found = alone.get(DATABASE, &meta.key, &mut value)?;
    let mut attributes = alone.attributes(DATABASE, &meta.key)?;
    let before = attributes;
    let mut pending_vivify = None;
    if !found {
        let Some(exptime) = meta.vivify else {
            write_miss(out, meta);
            return Ok(false);
        };
        alone.make_room(0)?;
        pending_vivify = Some(deadline(exptime, now_ms));
        activity.iter().for_each(|(activity, now_s)| activity.note(&meta.key, *now_s, false));
    }
    if words(meta.words).any(|word| word[0] == b'c') && attributes.cas == 0 {
        attributes.cas = alone.space().new_cas();
    }
    let mut facts = Facts {
        len: value.len(),
        attributes,
        activity: activity.map(|(activity, now_s)| activity.of(&meta.key, now_s)),
        now_ms,
        meta,
    };
    if meta.value {
        write_number(out, b"VA ", value.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    for word in words(meta.words) {
        match word[0] {
            b'T' => facts.attributes.expires_at_ms = deadline(meta.exptime.unwrap_or_default(), now_ms),
            b'N' => {
                if let Some(at_ms) = pending_vivify {
                    facts.attributes.expires_at_ms = at_ms;
                    won = true;
                }
            }
            b'R' => {
                let unclaimed = before.marks & Attributes::CLAIMED == 0 && pending_vivify.is_none();
                let needs = needs_recache(meta.recache.unwrap_or_default(), &facts.attributes, now_ms);
                won |= unclaimed && needs;
            }
            _ => facts.write(out, word),
        }
    }
    let claimed = before.marks & Attributes::CLAIMED != 0;
    if claimed {
        out.extend_from_slice(b" Z");
    }
    if before.marks & Attributes::STALE != 0 {
        out.extend_from_slice(b" X");
        won |= !claimed;
    }
    if won {
        out.extend_from_slice(b" W");
        facts.attributes.marks |= Attributes::CLAIMED;
    }
    out.extend_from_slice(b"\r\n");
    if meta.value {
        out.extend_from_slice(&value);
        out.extend_from_slice(b"\r\n");
    }
    if pending_vivify.is_some() {
        put(alone, &meta.key, b"", facts.attributes)?;
    } else if facts.attributes != before {
        expire_at(alone, &meta.key, facts.attributes)?;
    }
    if let Some((activity, now_s)) = activity.filter(|_| !meta.no_update) {
        activity.note(&meta.key, now_s, true);
    }
    Ok(found)
}

/// ms
pub(super) fn set(alone: &mut Exclusive<'_>, meta: &Meta<'_>, data: &[u8], out: &mut Vec<u8>) -> Result<Stored> {
    let now_ms = alone.now_ms();
    let mode = match meta.mode.map(|mode| mode.to_ascii_uppercase()) {
        Some(b'E') => Mode::Add,
        Some(b'A') => Mode::Append,
        Some(b'P') => Mode::Prepend,
        Some(b'R') if meta.cas.is_none() => Mode::Replace,
        _ if meta.cas.is_some() => Mode::Cas,
        _ => Mode::Set,
    };
    let storing = Storing {
        mode,
        flags: meta.flags,
        expires_at_ms: deadline(meta.exptime.unwrap_or_default(), now_ms),
        cas: meta.cas.unwrap_or_default(),
        // A number that no key has had is not older than that of a key that has none yet.
        invalidate: meta.invalidate && meta.cas.is_some_and(|cas| alone.space().has_given_cas(cas)),
        vivify_at_ms: meta.vivify.map(|exptime| deadline(exptime, now_ms)),
    };
    let stored = store(alone, &meta.key, data, storing)?;
    let code: &[u8] = match stored {
        Stored::Yes if meta.quiet => return Ok(stored),
        Stored::Yes => b"HD",
        Stored::No => b"NS",
        Stored::Exists => b"EX",
        Stored::NotFound => b"NF",
    };
    out.extend_from_slice(code);
    for word in words(meta.words) {
        if word[0] == b'c' {
            let cas = if stored == Stored::Yes { alone.cas_of(DATABASE, &meta.key)? } else { None };
            write_number(out, b" c", cas.unwrap_or_default());
        } else {
            write_echo(out, meta, word);
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(stored)
}

/// md: removes a key, or with flag I marks its value as out of date.
pub(super) fn delete(alone: &mut Exclusive<'_>, meta: &Meta<'_>, out: &mut Vec<u8>) -> Result<()> {
    if !alone.contains(DATABASE, &meta.key)? {
        write_line(out, b"NF", meta);
        return Ok(());
    }
    if let Some(cas) = meta.cas
        && alone.cas_of(DATABASE, &meta.key)? != Some(cas)
    {
        write_line(out, b"EX", meta);
        return Ok(());
    }
    if meta.invalidate {
        let mut attributes = alone.attributes(DATABASE, &meta.key)?;
        if let Some(exptime) = meta.exptime {
            attributes.expires_at_ms = deadline(exptime, alone.now_ms());
        }
        attributes.marks = Attributes::STALE;
        attributes.cas = alone.space().new_cas();
        expire_at(alone, &meta.key, attributes)?;
    } else {
        alone.remove(DATABASE, &meta.key)?;
    }
    if !meta.quiet {
        write_line(out, b"HD", meta);
    }
    Ok(())
}

/// ma. Returns whether the number was stored anew rather than changed in place, or the error message if the value is
/// not a number.
pub(super) fn arithmetic(
    alone: &mut Exclusive<'_>,
    meta: &Meta<'_>,
    out: &mut Vec<u8>,
) -> Result<std::result::Result<bool, &'static str>> {
    let up = !matches!(meta.mode, Some(b'D' | b'd' | b'-'));
    let cas = meta.cas.unwrap_or_default();
    let now_ms = alone.now_ms();
    let mut made = None;
    let mut anew = false;
    let value = match count(alone, &meta.key, meta.delta.unwrap_or(1), up, cas)? {
        Counted::Is(value, longer) => {
            anew = longer;
            value
        }
        Counted::NoNumber => return Ok(Err("CLIENT_ERROR cannot increment or decrement non-numeric value")),
        Counted::Exists => {
            write_line(out, b"EX", meta);
            return Ok(Ok(false));
        }
        Counted::NotFound => {
            let Some(exptime) = meta.vivify else {
                write_line(out, b"NF", meta);
                return Ok(Ok(false));
            };
            made = Some(deadline(exptime, now_ms));
            meta.initial
        }
    };
    let mut attributes = alone.attributes(DATABASE, &meta.key)?;
    if words(meta.words).any(|word| word[0] == b'c') && attributes.cas == 0 {
        attributes.cas = alone.space().new_cas();
    }
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(value).as_bytes();
    let mut facts = Facts { len: digits.len(), attributes, activity: None, now_ms, meta };
    let start = out.len();
    if meta.value {
        write_number(out, b"VA ", digits.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    for word in words(meta.words) {
        match word[0] {
            b'T' => facts.attributes.expires_at_ms = deadline(meta.exptime.unwrap_or_default(), now_ms),
            b'N' => facts.attributes.expires_at_ms = made.unwrap_or(facts.attributes.expires_at_ms),
            b't' | b'c' | b'O' | b'k' => facts.write(out, word),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if meta.value {
        out.extend_from_slice(digits);
        out.extend_from_slice(b"\r\n");
    }
    if made.is_some() {
        put(alone, &meta.key, digits, facts.attributes)?;
    } else {
        expire_at(alone, &meta.key, facts.attributes)?;
        if meta.quiet {
            out.truncate(start);
        }
    }
    Ok(Ok(anew || made.is_some()))
}

/// me: the properties of a key in human-readable form.
pub(super) fn debug(
    alone: &mut Exclusive<'_>,
    key: &[u8],
    activity: Option<(&Activity, u64)>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut len = None;
    alone.get_many(DATABASE, &[key], |_, value| len = value.map(<[u8]>::len))?;
    let Some(len) = len else {
        out.extend_from_slice(b"EN\r\n");
        return Ok(());
    };
    let attributes = alone.attributes(DATABASE, key)?;
    let used = activity.map(|(activity, now_s)| activity.of(key, now_s));
    let expires = seconds_left(&attributes, alone.now_ms()).map_or("-1".to_owned(), |seconds| seconds.to_string());
    let fetched = if used.is_some_and(|used| used.fetched) { "yes" } else { "no" };
    let idle_s = used.map_or(0, |used| used.idle_s);
    out.extend_from_slice(b"ME ");
    out.extend_from_slice(key);
    let (cas, size) = (attributes.cas, key.len() + len);
    out.extend_from_slice(
        format!(" exp={expires} la={idle_s} cas={cas} fetch={fetched} cls=1 size={size}\r\n").as_bytes(),
    );
    Ok(())
}
