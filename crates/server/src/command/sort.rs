//! SORT and SORT_RO: the elements of a list, set or sorted set in another order, or values that belong to them.
//!
//! ```text
//! elements -> weight of each (itself, or BY pattern) -> sort, LIMIT -> values (GET pattern ...) -> reply or list
//! ```
//!
//! Texts are compared byte by byte.

use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::double::{parse_bound, parse_score};
use super::reply;
use super::spec::Id;
use super::strings::integer;
use crate::keyspace::collections::fields::Fields;
use crate::keyspace::collections::list::{End, List, ListMut};
use crate::keyspace::collections::sorted::SortedSet;
use crate::keyspace::{Exclusive, Kind, SpaceError};
use std::cmp::Ordering;
use std::ops::Range;

/// The options.
#[derive(Default)]
struct Options<'a> {
    /// The pattern of the keys that decide the order; one without `*` keeps the order that the elements have.
    by: Option<&'a [u8]>,
    /// The patterns of the values to return instead of the element.
    get: Vec<&'a [u8]>,
    /// Elements to skip, and how many to return; negative: all.
    limit: Option<(i64, i64)>,
    descending: bool,
    alphabetic: bool,
    target: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: &Args<'a>, may_store: bool, is_clustered: bool) -> Result<Options<'a>, Refusal> {
        let (mut options, mut at) = (Options::default(), 2);
        while at < args.len() {
            let left = args.len() - at - 1;
            match () {
                () if args.is(at, "asc") => options.descending = false,
                () if args.is(at, "desc") => options.descending = true,
                () if args.is(at, "alpha") => options.alphabetic = true,
                () if left >= 2 && args.is(at, "limit") => {
                    options.limit = Some((integer(args.at(at + 1))?, integer(args.at(at + 2))?));
                    at += 2;
                }
                () if may_store && left >= 1 && args.is(at, "store") => {
                    options.target = Some(args.at(at + 1));
                    at += 1;
                }
                () if left >= 1 && args.is(at, "by") => {
                    let pattern = args.at(at + 1);
                    if is_clustered && star(pattern).is_some() {
                        return Err("ERR BY option of SORT denied in cluster mode.".into());
                    }
                    options.by = Some(pattern);
                    at += 1;
                }
                () if left >= 1 && args.is(at, "get") => {
                    if is_clustered {
                        return Err("ERR GET option of SORT denied in cluster mode.".into());
                    }
                    options.get.push(args.at(at + 1));
                    at += 1;
                }
                () => return Err(SYNTAX.into()),
            }
            at += 1;
        }
        Ok(options)
    }

    /// The range of `len` elements that is wanted.
    fn range(&self, len: usize) -> Range<usize> {
        let Some((skip, count)) = self.limit else { return 0..len };
        let start = usize::try_from(skip).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(len);
        start..start.saturating_add(count).min(len)
    }
}

/// Whether a request for SORT reads keys whose names depend on elements.
pub(super) fn reads_other_keys(id: Id, args: &Args<'_>) -> bool {
    let options = matches!(id, Id::Sort | Id::SortRo).then(|| Options::parse(args, id == Id::Sort, false));
    options.and_then(Result::ok).is_some_and(|options| {
        options.by.is_some_and(|pattern| star(pattern).is_some()) || options.get.iter().any(|pattern| *pattern != b"#")
    })
}

/// The index of a pattern's `*`, up to the first zero byte as C reads it.
fn star(pattern: &[u8]) -> Option<usize> {
    pattern.iter().take_while(|byte| **byte != 0).position(|byte| *byte == b'*')
}

/// The bytes that may still be read: many elements may name the same long value.
struct Budget(usize);

impl Budget {
    /// Takes the bytes of a key and of its value.
    fn take(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Refusal> {
        const OVERHEAD_BYTES: usize = 32;
        let bytes = key.len() + value.map_or(0, <[u8]>::len) + OVERHEAD_BYTES;
        self.0 = self.0.checked_sub(bytes).ok_or(REPLY_TOO_LONG)?;
        Ok(())
    }
}

/// The value that a pattern names for an element: the element for `#`, a string, or after `->` a field of a hash.
fn value_of(
    turn: &mut Turn<'_, '_>,
    database: usize,
    pattern: &[u8],
    element: &[u8],
    budget: &mut Budget,
) -> Result<Option<Vec<u8>>, Refusal> {
    if pattern == b"#" {
        budget.take(b"", Some(element))?;
        return Ok(Some(element.to_vec()));
    }
    let Some(at) = star(pattern) else {
        budget.take(b"", None)?;
        return Ok(None);
    };
    let (before, after) = (&pattern[..at], &pattern[at + 1..]);
    let arrow = after.windows(2).position(|bytes| bytes == b"->").filter(|arrow| arrow + 2 < after.len());
    let (after, field) = arrow.map_or((after, None), |arrow| (&after[..arrow], Some(&after[arrow + 2..])));
    let key = [before, element, after].concat();
    let mut value = None;
    let found = match field {
        None => turn.with_value(database, &key, |found| value = found.map(<[u8]>::to_vec)),
        Some(field) => Fields::open(turn, database, &key, Kind::Hash).and_then(|hash| {
            let mut bytes = Vec::new();
            if let Some(hash) = hash
                && hash.get(turn, field, &mut bytes)?
            {
                value = Some(bytes);
            }
            Ok(())
        }),
    };
    match found {
        // A value of another type counts as absent.
        Ok(()) | Err(SpaceError::WrongType) => {
            budget.take(&key, value.as_deref())?;
            Ok(value)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the elements in stored order; in reverse order for a list or sorted set if `descending`.
fn elements_of(
    turn: &mut Turn<'_, '_>,
    (database, key): (usize, &[u8]),
    descending: bool,
    bytes_max: usize,
) -> Result<(Kind, Vec<Vec<u8>>), Refusal> {
    let kind = turn.attributes(database, key)?.map_or(Kind::List, |attributes| attributes.kind);
    let (mut elements, mut bytes) = (Vec::new(), 0);
    let mut take = |element: &[u8]| {
        bytes += element.len() + size_of::<Vec<u8>>();
        elements.push(element.to_vec());
        bytes <= bytes_max
    };
    match kind {
        Kind::List => {
            if let Some(list) = List::open(turn, database, key)? {
                match descending {
                    false => list.for_range(turn, 0..list.len(), |_, element| take(element))?,
                    true => list.for_each_back(turn, |_, element| take(element))?,
                }
            }
        }
        Kind::Set => {
            if let Some(set) = Fields::open(turn, database, key, Kind::Set)? {
                set.for_each(turn, |member, _| take(member))?;
            }
        }
        Kind::SortedSet => {
            if let Some(set) = SortedSet::open(turn, database, key)? {
                set.for_range(turn, 0..set.len(), descending, |member, _| take(member))?;
            }
        }
        Kind::String | Kind::Hash | Kind::Stream => return Err(SpaceError::WrongType.into()),
    }
    if bytes > bytes_max { Err(REPLY_TOO_LONG.into()) } else { Ok((kind, elements)) }
}

/// What decides the order of elements.
enum Weights {
    Numbers(Vec<f64>),
    /// An absent text comes first.
    Texts(Vec<Option<Vec<u8>>>),
}

impl Weights {
    fn of(
        turn: &mut Turn<'_, '_>,
        database: usize,
        options: &Options<'_>,
        elements: &[Vec<u8>],
        mut budget: Budget,
    ) -> Result<Weights, Refusal> {
        let mut of = |element: &[u8]| match options.by {
            Some(pattern) => value_of(turn, database, pattern, element, &mut budget),
            None => Ok(Some(element.to_vec())),
        };
        if options.alphabetic {
            return Ok(Weights::Texts(elements.iter().map(|element| of(element)).collect::<Result<_, _>>()?));
        }
        let number = |value: Option<Vec<u8>>| match value {
            None => Some(0.0),
            Some(text) => number(&text),
        };
        let mut numbers = Vec::with_capacity(elements.len());
        for element in elements {
            numbers.push(number(of(element)?).ok_or("ERR One or more scores can't be converted into double")?);
        }
        Ok(Weights::Numbers(numbers))
    }

    fn compare(&self, elements: &[Vec<u8>], one: usize, other: usize) -> Ordering {
        match self {
            Weights::Numbers(numbers) => {
                let order = numbers[one].partial_cmp(&numbers[other]).unwrap_or(Ordering::Equal);
                order.then_with(|| elements[one].cmp(&elements[other]))
            }
            Weights::Texts(texts) => texts[one].cmp(&texts[other]),
        }
    }
}

/// Parses a number as C's `strtod` reads a whole string, within the range of a double.
fn number(text: &[u8]) -> Option<f64> {
    let number = parse_bound(text)?;
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != 0x0b);
    // A score has to be in range, too.
    start.map_or(Some(number), |start| parse_score(&text[start..])).filter(|number| !number.is_subnormal())
}

/// What SORT returns or stores: `None` for a value that is absent.
fn sorted(
    turn: &mut Turn<'_, '_>,
    call: &Call<'_, '_>,
    options: &Options<'_>,
) -> Result<Vec<Option<Vec<u8>>>, Refusal> {
    let database = call.database;
    let keeps_order = options.by.is_some_and(|pattern| star(pattern).is_none());
    let key = call.args.at(1);
    let (kind, elements) = elements_of(turn, (database, key), keeps_order && options.descending, call.reply_bytes_max)?;
    let mut order: Vec<usize> = (0..elements.len()).collect();
    if !keeps_order {
        let weights = Weights::of(turn, database, options, &elements, Budget(call.reply_bytes_max))?;
        sort(&mut order, options.descending, |one, other| weights.compare(&elements, one, other));
    } else if kind == Kind::Set && (options.target.is_some() || call.in_script) {
        // A set has no order of its own, so a stored list, or what a script reads, would differ each time.
        sort(&mut order, options.descending, |one, other| elements[one].cmp(&elements[other]));
    }
    let (mut values, mut budget) = (Vec::new(), Budget(call.reply_bytes_max));
    let patterns: &[&[u8]] = if options.get.is_empty() { &[b"#"] } else { &options.get };
    for &index in &order[options.range(elements.len())] {
        for pattern in patterns {
            values.push(value_of(turn, database, pattern, &elements[index], &mut budget)?);
        }
    }
    Ok(values)
}

fn sort(order: &mut [usize], descending: bool, compare: impl Fn(usize, usize) -> Ordering) {
    match descending {
        false => order.sort_by(|&one, &other| compare(one, other)),
        true => order.sort_by(|&one, &other| compare(other, one)),
    }
}

fn send(call: &mut Call<'_, '_>, values: &[Option<Vec<u8>>]) {
    reply::array(call.out, values.len());
    values.iter().for_each(|value| reply::bulk_or_null(call.out, value.as_deref(), call.version));
}

/// SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] \[ALPHA\]
pub(crate) fn sort_ro(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let options = Options::parse(&call.args, false, turn.space().dictionary().is_some())?;
    let values = sorted(turn, call, &options)?;
    send(call, &values);
    Ok(())
}

/// SORT: SORT_RO with [STORE destination].
pub(crate) fn sort_and_store(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let options = Options::parse(&call.args, true, alone.space().dictionary().is_some())?;
    let values = sorted(&mut Turn::Alone(alone), call, &options)?;
    let Some(target) = options.target else {
        send(call, &values);
        return Ok(());
    };
    alone.remove(call.database, target)?;
    let mut list = ListMut::open(alone, call.database, target)?;
    for value in &values {
        list.push(End::Right, value.as_deref().unwrap_or_default())?;
    }
    list.finish()?;
    reply::count(call.out, values.len() as u64);
    Ok(())
}
