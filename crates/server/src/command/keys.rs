//! Commands on keys, independent of their values.

use super::call::{Call, NO_SUCH_KEY, Outcome, Refusal, SYNTAX, Turn};
use super::number::parse_integer;
use super::pattern::matches;
use super::reply;
use super::strings::integer;
use crate::keyspace::collections::fields::Fields;
use crate::keyspace::collections::sorted::SortedSet;
use crate::keyspace::{DATABASE_COUNT, Exclusive, KeySpace, Kind, now_ms};
use std::collections::HashSet;

/// DEL key ..., UNLINK key ...
pub(crate) fn del(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let mut removed = 0;
    for key in call.args.from(1) {
        removed += i64::from(alone.remove(call.database, key)?);
    }
    reply::integer(call.out, removed);
    Ok(())
}

/// EXISTS key ..., TOUCH key ...
pub(crate) fn exists(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let mut present = 0;
    for key in call.args.from(1) {
        present += i64::from(turn.contains(call.database, key)?);
    }
    reply::integer(call.out, present);
    Ok(())
}

/// TYPE key
pub(crate) fn type_of(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let attributes = turn.attributes(call.database, call.args.at(1))?;
    reply::simple(call.out, attributes.map_or("none", |attributes| attributes.kind.name()));
    Ok(())
}

/// `COPY source destination [DB database] [REPLACE]`
pub(crate) fn copy(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (from, to) = (call.args.at(1), call.args.at(2));
    let (mut database, mut replace) = (call.database, false);
    let mut index = 3;
    while index < call.args.len() {
        if call.args.is(index, "replace") {
            replace = true;
        } else if call.args.is(index, "db") && index + 1 < call.args.len() {
            index += 1;
            database = super::strings::database(call.args.at(index))?;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    if (call.database, from) == (database, to) {
        return Err("ERR source and destination objects are the same".into());
    }
    let done = alone.contains(call.database, from)? && (replace || !alone.contains(database, to)?);
    if done {
        alone.copy((call.database, from), (database, to))?;
    }
    reply::integer(call.out, done.into());
    Ok(())
}

/// MOVE key database
pub(crate) fn move_to(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (key, database) = (call.args.at(1), super::strings::database(call.args.at(2))?);
    if database == call.database {
        return Err("ERR source and destination objects are the same".into());
    }
    let done = alone.contains(call.database, key)? && !alone.contains(database, key)?;
    if done {
        alone.copy((call.database, key), (database, key))?;
        alone.remove(call.database, key)?;
    }
    reply::integer(call.out, done.into());
    Ok(())
}

/// RENAME key newkey; with `only_absent` RENAMENX.
pub(crate) fn rename(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, only_absent: bool) -> Outcome {
    let (from, to) = (call.args.at(1), call.args.at(2));
    if !alone.contains(call.database, from)? {
        return Err(NO_SUCH_KEY.into());
    }
    let refused = only_absent && (from == to || alone.contains(call.database, to)?);
    if !refused && from != to {
        alone.rename(call.database, from, to)?;
    }
    if only_absent {
        reply::integer(call.out, (!refused).into())
    } else {
        reply::ok(call.out)
    }
    Ok(())
}

/// DBSIZE
pub(crate) fn db_size(space: &KeySpace, call: &mut Call<'_, '_>) -> Outcome {
    reply::count(call.out, space.len(call.database));
    Ok(())
}

/// RANDOMKEY
pub(crate) fn random_key(space: &KeySpace, call: &mut Call<'_, '_>) -> Outcome {
    let found = space.random_key(call.database)?;
    reply::bulk_or_null(call.out, found.as_deref(), call.version);
    Ok(())
}

/// KEYS pattern. `staged`: keys that the transaction under way has added or removed.
pub(crate) fn keys(space: &KeySpace, call: &mut Call<'_, '_>, staged: &[(Vec<u8>, bool)]) -> Outcome {
    const AT_ONCE: usize = 1000;
    let pattern = call.args.at(1);
    let (mut cursor, mut count) = (0, 0);
    let mut found = Vec::new();
    let gone = staged.iter().filter(|(_, present)| !present).map(|(key, _)| key.as_slice());
    let gone: HashSet<&[u8]> = gone.collect();
    loop {
        cursor = space.scan(call.database, cursor, AT_ONCE, now_ms(), |key| {
            if matches(pattern, key) && !gone.contains(key) {
                count += 1;
                reply::bulk(&mut found, key);
            }
        })?;
        if cursor == 0 {
            break;
        }
    }
    for (key, _) in staged.iter().filter(|(key, present)| *present && matches(pattern, key)) {
        count += 1;
        reply::bulk(&mut found, key);
    }
    reply::array(call.out, count);
    call.out.append(&mut found);
    Ok(())
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
pub(crate) fn scan(space: &KeySpace, call: &mut Call<'_, '_>) -> Outcome {
    const COUNT: usize = 10;
    /// Larger values of COUNT are reduced to this one, so that other clients do not wait long.
    const COUNT_MAX: usize = 10_000;
    let args = call.args;
    let text = args.at(1);
    let cursor = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
    let cursor = cursor.ok_or("ERR invalid cursor")?;
    let (mut pattern, mut count, mut wanted) = (None, COUNT, None);
    let mut index = 2;
    while index < args.len() {
        let Some(value) = args.get(index + 1) else { return Err(SYNTAX.into()) };
        if args.is(index, "match") {
            pattern = Some(value);
        } else if args.is(index, "count") {
            let number = integer(value)?;
            count = usize::try_from(number).ok().filter(|&n| n > 0).ok_or(SYNTAX)?.min(COUNT_MAX);
        } else if args.is(index, "type") {
            wanted = Some(value);
        } else {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    let is_wanted = |kind: Kind| wanted.is_none_or(|name| name.eq_ignore_ascii_case(kind.name().as_bytes()));
    let (mut found, mut taken) = (Vec::new(), 0);
    let next = space.scan_typed(call.database, cursor, count.max(COUNT), now_ms(), |key, kind| {
        if is_wanted(kind) && pattern.is_none_or(|pattern| matches(pattern, key)) {
            taken += 1;
            reply::bulk(&mut found, key);
        }
    })?;
    reply::scanned(call.out, next, taken, &found);
    Ok(())
}

/// `OBJECT subcommand [key]`
pub(crate) fn object(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    if args.is(1, "help") {
        let lines = [
            "ENCODING <key>",
            "    Returns the encoding that Redis would use for the value.",
            "FREQ <key>",
            "    Returns the access frequency of a key, under an LFU policy.",
            "IDLETIME <key>",
            "    Returns 0: idle times are not tracked.",
            "REFCOUNT <key>",
            "    Returns 1 for any key.",
        ];
        reply::help(call.out, "OBJECT", &lines);
        return Ok(());
    }
    let known = ["encoding", "refcount", "idletime", "freq"].iter().any(|word| args.is(1, word));
    if !known || args.len() != 3 {
        return Err(Refusal::unknown_subcommand(&args, "OBJECT"));
    }
    let frequency = turn.space().frequency(args.at(2));
    if args.is(1, "freq")
        && let Some(frequency) = frequency
    {
        match turn.contains(call.database, args.at(2))? {
            true => reply::integer(call.out, frequency.into()),
            false => reply::null(call.out, call.version),
        }
        return Ok(());
    }
    if args.is(1, "idletime") && frequency.is_some() && turn.contains(call.database, args.at(2))? {
        return Err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
            between policies at runtime LRU and LFU data will take some time to adjust."
            .into());
    }
    if args.is(1, "freq") && turn.contains(call.database, args.at(2))? {
        return Err(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
            switching between policies at runtime LRU and LFU data will take some time to adjust."
                .into(),
        );
    }
    let mut value = Vec::new();
    let attributes = turn.attributes(call.database, args.at(2))?;
    if let Some(kind) = attributes.map(|attributes| attributes.kind).filter(|kind| *kind != Kind::String) {
        if args.is(1, "encoding") {
            reply::bulk(call.out, collection_encoding(turn, call.database, args.at(2), kind)?.as_bytes());
        } else {
            reply::integer(call.out, args.is(1, "refcount").into());
        }
        return Ok(());
    }
    let len = turn.get_part(call.database, args.at(2), |len| 0..len.min(INTEGER_DIGITS_MAX), &mut value)?;
    match len {
        None => reply::null(call.out, call.version),
        Some(len) if args.is(1, "encoding") => reply::bulk(call.out, encoding_of(&value, len).as_bytes()),
        Some(_) => reply::integer(call.out, args.is(1, "refcount").into()),
    }
    Ok(())
}

/// The encoding that Redis would report for a collection.
fn collection_encoding(
    turn: &mut Turn<'_, '_>,
    database: usize,
    key: &[u8],
    kind: Kind,
) -> Result<&'static str, Refusal> {
    match kind {
        Kind::List => return Ok("quicklist"),
        Kind::Stream => return Ok("stream"),
        Kind::SortedSet => {
            return Ok(SortedSet::open(turn, database, key)?.map_or("skiplist", |set| set.encoding()));
        }
        _ => {}
    }
    Ok(Fields::open(turn, database, key, kind)?.map_or("hashtable", |fields| fields.encoding()))
}

/// Characters of the longest integer.
const INTEGER_DIGITS_MAX: usize = 20;

/// The encoding that Redis would report for a value of `len` bytes that SET stored and that begins with `value`.
fn encoding_of(value: &[u8], len: usize) -> &'static str {
    const EMBEDDED_MAX: usize = 44;
    match len {
        1..=INTEGER_DIGITS_MAX if parse_integer(value).is_some() => "int",
        0..=EMBEDDED_MAX => "embstr",
        _ => "raw",
    }
}

/// SWAPDB index1 index2
pub(crate) fn swap_db(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    if alone.space().dictionary().is_some() {
        return Err("ERR SWAPDB is not allowed in cluster mode".into());
    }
    let [one, other] = [(1, "ERR invalid first DB index"), (2, "ERR invalid second DB index")]
        .map(|(index, wrong)| parse_integer(call.args.at(index)).and_then(|n| i32::try_from(n).ok()).ok_or(wrong));
    let known = |number: i32| usize::try_from(number).ok().filter(|number| *number < DATABASE_COUNT);
    let (Some(one), Some(other)) = (known(one?), known(other?)) else {
        return Err("ERR DB index is out of range".into());
    };
    if alone.has_begun_many() {
        return Err("ERR SWAPDB over a file cannot be part of a transaction or script; send it alone".into());
    }
    alone.swap(one, other)?;
    reply::ok(call.out);
    Ok(())
}

/// FLUSHDB, FLUSHALL [ASYNC | SYNC]: both modes do the same here.
pub(crate) fn flush(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, all: bool) -> Outcome {
    let known = call.args.len() == 1 || call.args.len() == 2 && (call.args.is(1, "async") || call.args.is(1, "sync"));
    if !known {
        return Err(SYNTAX.into());
    }
    let mut databases = if all { 0..DATABASE_COUNT } else { call.database..call.database + 1 };
    // All of them or none: EXEC and scripts keep what a failed command has changed.
    databases.clone().try_for_each(|database| alone.may_flush(database))?;
    databases.try_for_each(|database| alone.flush(database))?;
    reply::ok(call.out);
    Ok(())
}
