//! Commands on the entries of streams, except for reading new ones (`stream_reads.rs`).
//!
//! How streams are stored: `keyspace/collections/stream/`. Not here: consumer groups (`stream_groups.rs`), XINFO
//! (`stream_info.rs`).

use super::call::{Args, Call, NO_SUCH_KEY, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::collection::Collection;
use super::number::parse_integer;
use super::reply;
use super::strings::integer;
use crate::keyspace::collections::elements;
use crate::keyspace::collections::stream::{EntryId, Stream, StreamMut};
use crate::keyspace::{self, Exclusive, Pairs, PairsMut};

const INVALID_ID: &str = "ERR Invalid stream ID specified as stream command argument";

pub(super) fn open(
    turn: &mut (impl Pairs + ?Sized),
    call: &Call<'_, '_>,
    key: usize,
) -> keyspace::Result<Option<Stream>> {
    Stream::open(turn, call.database, call.args.at(key))
}

pub(super) fn open_mut<'e, 'k>(
    pairs: &'e mut (dyn PairsMut + 'k),
    call: &Call<'_, 'e>,
    key: usize,
) -> keyspace::Result<StreamMut<'e, 'k>> {
    StreamMut::open(pairs, call.database, call.args.at(key))
}

/// Parses a number of 64 bits as Redis does: in canonical form, else as C's strtoull does.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_integer(text) {
        return u64::try_from(number).ok();
    }
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != 0x0B)?;
    let (is_negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// Parses an ID as it is written. A sequence of `None` is `*`.
fn parse_parts(text: &[u8], missing_seq: u64) -> Option<(u64, Option<u64>)> {
    const LEN_MAX: usize = 127;
    if text.len() > LEN_MAX {
        return None;
    }
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    match text.iter().position(|&byte| byte == b'-') {
        None => Some((unsigned(text)?, Some(missing_seq))),
        Some(at) if &text[at + 1..] == b"*" => Some((unsigned(&text[..at])?, None)),
        Some(at) => Some((unsigned(&text[..at])?, Some(unsigned(&text[at + 1..])?))),
    }
}

/// Parses an ID, `-` and `+` excluded. `missing_seq`: the sequence number of one that has none.
pub(super) fn strict_id(text: &[u8], missing_seq: u64) -> Result<EntryId, Refusal> {
    match parse_parts(text, missing_seq) {
        Some((ms, Some(seq))) => Ok(EntryId { ms, seq }),
        _ => Err(INVALID_ID.into()),
    }
}

/// Parses an ID, or `-` or `+`.
pub(super) fn any_id(text: &[u8], missing_seq: u64) -> Result<EntryId, Refusal> {
    match text {
        b"-" => Ok(EntryId::MIN),
        b"+" => Ok(EntryId::MAX),
        _ => strict_id(text, missing_seq),
    }
}

/// Parses the beginning of an interval; `(` excludes it.
pub(super) fn interval_start(text: &[u8]) -> Result<EntryId, Refusal> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            strict_id(rest, 0)?.next().ok_or_else(|| "ERR invalid start ID for the interval".into())
        }
        _ => any_id(text, 0),
    }
}

/// Parses the end of an interval; `(` excludes it.
pub(super) fn interval_end(text: &[u8]) -> Result<EntryId, Refusal> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            strict_id(rest, u64::MAX)?.previous().ok_or_else(|| "ERR invalid end ID for the interval".into())
        }
        _ => any_id(text, u64::MAX),
    }
}

/// Parses several IDs.
pub(super) fn ids_from(args: &Args<'_>, index: usize) -> Result<Vec<EntryId>, Refusal> {
    args.from(index).map(|text| strict_id(text, 0)).collect()
}

/// A refusal that quotes two names, each up to its first zero byte as Redis does.
pub(super) fn about_two(before: &str, one: &[u8], between: &str, other: &[u8], after: &str) -> Refusal {
    let cut = |text: &[u8]| text.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
    let parts = [before.as_bytes(), &cut(one), between.as_bytes(), &cut(other), after.as_bytes()];
    Refusal::Text(parts.concat().into())
}

/// Replies with a number of 64 bits as Redis shows it: signed.
pub(super) fn reply_unsigned(out: &mut Vec<u8>, number: u64) {
    reply::integer(out, number as i64);
}

/// Replies with an ID.
pub(super) fn reply_id(out: &mut Vec<u8>, id: EntryId) {
    reply::bulk(out, id.to_string().as_bytes());
}

/// Replies with an entry: its ID, and its fields and values.
pub(super) fn reply_entry(out: &mut Vec<u8>, id: EntryId, fields: &[u8]) {
    reply::array(out, 2);
    reply_id(out, id);
    reply::array(out, elements::iter(fields).count());
    elements::iter(fields).for_each(|element| reply::bulk(out, element));
}

/// Replies with the entry with this ID. Returns whether it exists.
pub(super) fn reply_entry_at(
    out: &mut Vec<u8>,
    stream: &Stream,
    pairs: &mut (impl Pairs + ?Sized),
    id: EntryId,
) -> keyspace::Result<bool> {
    let before = out.len();
    stream.for_entries(pairs, (id, id), false, &mut |id, fields| {
        reply_entry(out, id, fields);
        false
    })?;
    Ok(out.len() > before)
}

/// [`reply_entry_at`] of an entry that was found before: its absence is damage.
pub(super) fn reply_known_entry(
    out: &mut Vec<u8>,
    stream: &Stream,
    pairs: &mut (impl Pairs + ?Sized),
    id: EntryId,
) -> keyspace::Result<()> {
    if reply_entry_at(out, stream, pairs, id)? {
        return Ok(());
    }
    Err(keyspace::damaged(format_args!("entry {id} of a stream is not where its ID leads")))
}

/// Replies with an array of at most `most` entries of a range. Returns their IDs.
pub(super) fn reply_range(
    out: &mut Vec<u8>,
    stream: &Stream,
    pairs: &mut (impl Pairs + ?Sized),
    range: (EntryId, EntryId),
    (is_reverse, most): (bool, u64),
    bytes_max: usize,
) -> Result<Vec<EntryId>, Refusal> {
    let (mut found, mut ids) = (Vec::new(), Vec::new());
    if most > 0 {
        stream.for_entries(pairs, range, is_reverse, &mut |id, fields| {
            reply_entry(&mut found, id, fields);
            ids.push(id);
            (ids.len() as u64) < most && found.len() <= bytes_max
        })?;
    }
    if found.len() > bytes_max {
        return Err(REPLY_TOO_LONG.into());
    }
    reply::array(out, ids.len());
    out.append(&mut found);
    Ok(ids)
}

/// What XADD and XTRIM trim.
#[derive(Clone, Copy, Debug)]
enum Trim {
    MaxLen(u64),
    MinId(EntryId),
}

/// The options of XADD and XTRIM.
#[derive(Debug, Default)]
struct Options {
    trim: Option<Trim>,
    /// Whether to trim approximately, and at most `limit` entries.
    is_about: bool,
    /// 0: no limit.
    limit: u64,
    only_present: bool,
    /// The ID of XADD: none for `*`, and its sequence number none for `ms-*`.
    id: Option<(u64, Option<u64>)>,
}

/// Entries that Redis keeps in a node: approximate trimming removes whole nodes.
const NODE_ENTRIES: u64 = 100;
const NODE_BYTES: u64 = 4096;

impl Options {
    /// Parses the options from the third argument on. Also returns the index of XADD's ID.
    fn parse(args: &Args<'_>, is_add: bool) -> Result<(Options, usize), Refusal> {
        let (mut options, mut limit) = (Options::default(), None);
        let mut index = 2;
        while index < args.len() {
            let more = args.len() - 1 - index;
            if is_add && args.at(index) == b"*" {
                break;
            } else if more > 0 && (args.is(index, "maxlen") || args.is(index, "minid")) {
                if options.trim.is_some() {
                    let text = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
                    return Err(text.into());
                }
                let is_len = args.is(index, "maxlen");
                let mark = if more >= 2 { args.at(index + 1) } else { b"" };
                options.is_about = mark == b"~";
                index += 1 + usize::from(matches!(mark, b"~" | b"="));
                options.trim = Some(if is_len {
                    let len = u64::try_from(integer(args.at(index))?);
                    Trim::MaxLen(len.map_err(|_| "ERR The MAXLEN argument must be >= 0.")?)
                } else {
                    Trim::MinId(strict_id(args.at(index), 0)?)
                });
            } else if more > 0 && args.is(index, "limit") {
                index += 1;
                let given = u64::try_from(integer(args.at(index))?);
                limit = Some(given.map_err(|_| "ERR The LIMIT argument must be >= 0.")?);
            } else if is_add && args.is(index, "nomkstream") {
                options.only_present = true;
            } else if is_add {
                options.id = Some(parse_parts(args.at(index), 0).ok_or(INVALID_ID)?);
                break;
            } else {
                return Err(SYNTAX.into());
            }
            index += 1;
        }
        if options.trim.is_none() && limit.is_some_and(|limit| limit > 0) {
            return Err("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy".into());
        }
        if options.trim.is_none() && !is_add {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        if limit.is_some() && !options.is_about {
            return Err("ERR syntax error, LIMIT cannot be used without the special ~ option".into());
        }
        options.limit = limit.unwrap_or(100 * NODE_ENTRIES);
        Ok((options, index))
    }

    /// Trims a stream. Returns how many entries it removed.
    fn trim(&self, stream: &mut StreamMut<'_, '_>) -> keyspace::Result<u64> {
        let (now, alone) = stream.read()?;
        let mut count = match self.trim {
            None => 0,
            Some(Trim::MaxLen(len)) => now.len().saturating_sub(len),
            Some(Trim::MinId(id)) => now.count_before(alone, id)?,
        };
        if self.is_about {
            let per = (NODE_BYTES / now.entry_bytes().max(1)).clamp(1, NODE_ENTRIES);
            // A node ends after `per` entries, counted from the first that was ever added.
            let before = now.added.wrapping_sub(now.len());
            let whole = |count: u64| count.saturating_sub(before.wrapping_add(count) % per);
            if count < now.len() {
                count = whole(count);
            }
            if self.limit > 0 && count > self.limit {
                count = whole(self.limit);
            }
        }
        stream.trim(count)?;
        Ok(count)
    }
}

/// XADD key \[NOMKSTREAM\] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value ...
pub(crate) fn xadd<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    const NOT_GREATER: &str = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    let args = call.args;
    let (options, at) = Options::parse(&args, true)?;
    let fields = args.len().saturating_sub(at + 1);
    if fields < 2 || !fields.is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'xadd' command".into());
    }
    if options.id == Some((0, Some(0))) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let stream = collection.stream(call)?;
    let now_ms = stream.now_ms();
    if options.only_present && !stream.is_present() {
        reply::null(call.out, call.version);
        return Ok(());
    }
    let last = stream.last();
    let next = last.next().ok_or("ERR The stream has exhausted the last possible ID, unable to add more items")?;
    let id = match options.id {
        None if now_ms > last.ms => EntryId { ms: now_ms, seq: 0 },
        None => next,
        Some((ms, Some(seq))) => EntryId { ms, seq },
        Some((ms, None)) if ms == last.ms => EntryId { ms, seq: last.seq.checked_add(1).ok_or(NOT_GREATER)? },
        Some((ms, None)) => EntryId { ms, seq: 0 },
    };
    if id <= last {
        return Err(NOT_GREATER.into());
    }
    if args.from(at + 1).map(<[u8]>::len).sum::<usize>() > call.value_bytes_max {
        return Err("ERR Elements are too large to be stored".into());
    }
    stream.append(id, args.from(at + 1))?;
    let trimmed = options.trim.is_some() && options.trim(stream)? > 0;
    stream.note_change(true, if trimmed { &["xadd", "xtrim"] } else { &["xadd"] });
    reply_id(call.out, id);
    Ok(())
}

/// XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count]
pub(crate) fn xtrim(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (options, _) = Options::parse(&call.args, false)?;
    let mut stream = open_mut(alone, call, 1)?;
    let trimmed = if stream.is_present() { options.trim(&mut stream)? } else { 0 };
    if trimmed > 0 {
        stream.finish(true, &["xtrim"])?;
    }
    reply::count(call.out, trimmed);
    Ok(())
}

/// XLEN key
pub(crate) fn xlen(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let len = open(turn, call, 1)?.map_or(0, |stream| stream.len());
    reply::count(call.out, len);
    Ok(())
}

/// XRANGE key start end [COUNT count]; XREVRANGE key end start [COUNT count]
pub(crate) fn xrange(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, is_reverse: bool) -> Outcome {
    let args = call.args;
    let (start, end) = if is_reverse { (3, 2) } else { (2, 3) };
    let range = (interval_start(args.at(start))?, interval_end(args.at(end))?);
    let mut most = u64::MAX;
    for index in (4..args.len()).step_by(2) {
        if !args.is(index, "count") || index + 1 == args.len() {
            return Err(SYNTAX.into());
        }
        most = u64::try_from(integer(args.at(index + 1))?).unwrap_or(0);
    }
    match open(turn, call, 1)? {
        None => reply::array(call.out, 0),
        Some(_) if most == 0 => reply::null_array(call.out, call.version),
        Some(stream) => {
            let bytes_max = call.reply_bytes_max;
            reply_range(call.out, &stream, turn, range, (is_reverse, most), bytes_max)?;
        }
    }
    Ok(())
}

/// XDEL key id ...
pub(crate) fn xdel<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let stream = collection.stream(call)?;
    let mut removed = 0;
    if stream.is_present() {
        for id in ids_from(&call.args, 2)? {
            if stream.remove_entry(id)? {
                stream.note_deleted(id);
                removed += 1;
            }
        }
    }
    if removed > 0 {
        stream.note_change(true, &["xdel"]);
    }
    reply::count(call.out, removed);
    Ok(())
}

/// XSETID key last-id [ENTRIESADDED count] [MAXDELETEDID id]
pub(crate) fn xsetid(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let last = strict_id(args.at(2), 0)?;
    let (mut added, mut max_deleted) = (None, None);
    for index in (3..args.len()).step_by(2) {
        let Some(value) = args.get(index + 1) else { return Err(SYNTAX.into()) };
        if args.is(index, "entriesadded") {
            let given = u64::try_from(integer(value)?);
            added = Some(given.map_err(|_| "ERR entries_added must be positive")?);
        } else if args.is(index, "maxdeletedid") {
            let id = strict_id(value, 0)?;
            if last < id {
                let text = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
                return Err(text.into());
            }
            max_deleted = Some(id).filter(|id| *id != EntryId::MIN);
        } else {
            return Err(SYNTAX.into());
        }
    }
    let mut stream = open_mut(alone, call, 1)?;
    if !stream.is_present() {
        return Err(NO_SUCH_KEY.into());
    }
    let (now, alone) = stream.read()?;
    if now.edge(alone, true)?.is_some_and(|top| last < top) {
        return Err("ERR The ID specified in XSETID is smaller than the target stream top item".into());
    }
    if now.len() > 0 && added.is_some_and(|added| now.len() > added) {
        return Err("ERR The entries_added specified in XSETID is smaller than the target stream length".into());
    }
    stream.set_counters(last, added, max_deleted);
    stream.finish(false, &["xsetid"])?;
    reply::ok(call.out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let read = |text: &str| strict_id(text.as_bytes(), 7).ok().map(|id| (id.ms, id.seq));
        let cases = [
            ("5", Some((5, 7))),
            ("5-3", Some((5, 3))),
            ("05-+3", Some((5, 3))),
            ("18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX))),
            (" 1- 2", Some((1, 2))),
            ("1-2\0x", Some((1, 2))),
            ("1--02", Some((1, u64::MAX - 1))),
            ("18446744073709551616", None),
            ("-", None),
            ("+", None),
            ("1-", None),
            ("-1", None),
            ("1-2-3", None),
            ("1--2", None),
            ("1-*", None),
            ("", None),
            ("x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected, "{text:?}");
        }
        assert!(strict_id(&[b'0'; 128], 0).is_err());
        assert_eq!(interval_start(b"(5").unwrap(), EntryId { ms: 5, seq: 1 });
        assert_eq!(interval_end(b"(5").unwrap(), EntryId { ms: 5, seq: u64::MAX - 1 });
        assert_eq!(interval_end(b"(5-0").unwrap(), EntryId { ms: 4, seq: u64::MAX });
        assert!(interval_end(b"(0-0").is_err() && interval_start(b"(-").is_err() && interval_start(b"(").is_err());
    }
}
