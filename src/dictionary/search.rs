//! A key within a piece of the stream.
//!
//! Records in hash order are found by their hashes: fixed ones by interpolation, others by a binary search among the starts that the
//! pages name and a walk over the records from there. Records in another order are walked over. Keys are compared in full, so
//! what is found is what was asked for.

use super::block;
use super::format::{Compression, Layout};
use super::read::Piece;
use super::record;
use crate::hash::HashFunction;
use crate::linear;
use std::ops::Range;

/// What is looked for.
#[derive(Clone, Copy)]
pub(super) struct Sought<'k> {
    pub key: &'k [u8],
    pub position: u64,
    pub hash: &'k HashFunction,
    /// Where in a piece of fixed records in hash order it is, if hashes are spread evenly.
    pub near: Option<Near>,
}

/// How the positions in a piece are expected to ascend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    /// That of the first record, about.
    pub first: u64,
    /// From one record to the next, on average.
    pub gap: u64,
}

impl Near {
    /// The number of the record at `position`.
    #[inline]
    pub fn guess(&self, position: u64) -> usize {
        (position.saturating_sub(self.first) / self.gap.max(1)) as usize
    }
}

impl Sought<'_> {
    fn position_of(&self, key: &[u8]) -> u64 {
        linear::Position::of(self.hash.hash(key)).0
    }
}

/// How the records of a piece lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub layout: Layout,
    pub compression: Compression,
    /// In hash order?
    pub ordered: bool,
    /// Raw bytes that no block exceeds.
    pub block_bytes_max: u64,
}

/// The value of the key in `piece`; `None` if no record that lies wholly in it has the key. `raw` is for blocks.
///
/// # Errors
/// What is wrong with a block.
pub(super) fn find<'p>(
    shape: Shape,
    piece: Piece<'p>,
    sought: Sought<'_>,
    raw: &'p mut Vec<u8>,
) -> std::result::Result<Option<&'p [u8]>, &'static str> {
    match (shape.compression, shape.layout) {
        (Compression::None, Layout::Fixed { key_len, value_len }) => {
            let record_bytes = key_len as usize + value_len as usize;
            let bytes = match piece.records {
                Some((from, to)) => piece.bytes.get(from..to).unwrap_or_default(),
                None => {
                    // From the first record that begins in the piece.
                    let skip = (piece.offset.next_multiple_of(record_bytes as u64) - piece.offset) as usize;
                    piece.bytes.get(skip..).unwrap_or_default()
                }
            };
            Ok(find_fixed(bytes, key_len as usize, record_bytes, shape.ordered, sought))
        }
        (Compression::None, Layout::Varied) => Ok(match find_varied(shape, piece, sought) {
            Found::Value(value) => Some(value),
            Found::Cut(_) | Found::Nowhere | Found::NotYet => None,
        }),
        (Compression::Lz4, _) => find_in_blocks(shape, piece, sought, raw),
    }
}

fn find_fixed<'p>(
    bytes: &'p [u8],
    key_len: usize,
    record_bytes: usize,
    ordered: bool,
    sought: Sought<'_>,
) -> Option<&'p [u8]> {
    if sought.key.len() != key_len {
        return None;
    }
    let count = bytes.len() / record_bytes;
    let record = |index: usize| &bytes[index * record_bytes..(index + 1) * record_bytes];
    let range = if ordered && count > WALK_MAX {
        let position = |index: usize| sought.position_of(&record(index)[..key_len]);
        match sought.near {
            Some(near) => {
                let guess = near.guess(sought.position).min(count - 1);
                touch_around(bytes, guess * record_bytes, LINES_AROUND);
                equal_range_near(count, guess, near.gap, sought.position, position)
            }
            None => equal_range(0..count, sought.position, position),
        }
    } else {
        0..count
    };
    range.map(record).find(|record| &record[..key_len] == sought.key).map(|record| &record[key_len..])
}

/// Where a piece has so few starts, the keys of its records are compared one after another, which is faster than to hash some first.
const FEW_STARTS: usize = 5;

/// Fewer than this are looked at one by one.
const WALK_MAX: usize = 8;

/// Guesses are within so many cache lines nearly always (16-byte records, 255 a page).
pub(super) const LINES_AROUND: usize = 4;

/// Reads a byte at `at` and of so many cache lines to either side, all at once, as the search will look at some of them one after another.
#[inline]
pub(super) fn touch_around(bytes: &[u8], at: usize, lines: usize) {
    const LINE_BYTES: usize = 64;
    let first = at.saturating_sub(lines * LINE_BYTES);
    let sum = (0..2 * lines + 1).map(|line| bytes.get(first + line * LINE_BYTES).copied().unwrap_or_default());
    std::hint::black_box(sum.fold(0, u8::wrapping_add));
}

/// As [`equal_range`], beginning at `guess`: each next look is where the average `gap` says that what is sought must be.
fn equal_range_near(
    count: usize,
    guess: usize,
    gap: u64,
    sought: u64,
    position: impl Fn(usize) -> u64,
) -> Range<usize> {
    const LOOKS_MAX: u32 = 6;
    // Below `low` all are smaller, from `high` on all are larger.
    let (mut low, mut high) = (0, count);
    let mut at = guess;
    for _ in 0..LOOKS_MAX {
        let here = position(at);
        let off = (here.abs_diff(sought) / gap.max(1)) as usize;
        if here < sought {
            low = at + 1;
            // Rather too far than too near: then it is in between.
            at = low.saturating_add(off + 1);
        } else if here > sought {
            high = at;
            at = high.saturating_sub(off + 2);
        } else {
            return around(at, low..high, sought, position);
        }
        if high - low <= WALK_MAX {
            return low..high;
        }
        at = at.clamp(low, high - 1);
    }
    equal_range(low..high, sought, position)
}

/// Where among ascending positions, numbers `within`, those equal to `sought` lie, and perhaps some others.
fn equal_range(within: Range<usize>, sought: u64, position: impl Fn(usize) -> u64) -> Range<usize> {
    // Below `low` all are smaller, from `high` on all are larger.
    let (mut low, mut high) = (within.start, within.end);
    let (mut low_position, mut high_position) = (0, u64::MAX);
    let mut guesses = 0;
    if high - low > WALK_MAX {
        low_position = position(low);
        high_position = position(high - 1);
        if sought < low_position || sought > high_position {
            return 0..0;
        }
    }
    while high - low > WALK_MAX {
        // Hashes are spread evenly, so the place is near where the proportion says; if guesses come no nearer, halves do.
        let middle = if guesses < 6 {
            let share = u128::from(sought.saturating_sub(low_position)) * (high - low - 1) as u128;
            low + (share / u128::from((high_position - low_position).max(1))) as usize
        } else {
            low + (high - low) / 2
        };
        let middle = middle.clamp(low, high - 1);
        guesses += 1;
        let at = position(middle);
        if at < sought {
            (low, low_position) = (middle + 1, at);
        } else if at > sought {
            (high, high_position) = (middle, at);
        } else {
            return around(middle, low..high, sought, position);
        }
    }
    low..high
}

/// All that are equal around `middle`, which is.
fn around(middle: usize, within: Range<usize>, sought: u64, position: impl Fn(usize) -> u64) -> Range<usize> {
    let (mut from, mut to) = (middle, middle + 1);
    while from > within.start && position(from - 1) == sought {
        from -= 1;
    }
    while to < within.end && position(to) == sought {
        to += 1;
    }
    from..to
}

/// What a search among varied records came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'p> {
    Value(&'p [u8]),
    /// The record that begins there in the piece goes on behind it, and may have the key.
    Cut(usize),
    /// No record that begins in the piece has the key; one that begins behind it may.
    NotYet,
    /// Nor any behind it.
    Nowhere,
}

/// [`find`] of varied records, which tells why there is no value.
pub(super) fn find_varied<'p>(shape: Shape, piece: Piece<'p>, sought: Sought<'_>) -> Found<'p> {
    let Some(first) = piece.starts.first().copied() else { return Found::NotYet };
    // All at once, where each by itself may be a wait.
    for start in piece.starts {
        touch_around(piece.bytes, *start, 0);
    }
    if !shape.ordered || piece.starts.len() <= FEW_STARTS {
        return walk(shape.layout, piece.bytes, first, piece.bytes.len(), sought.key);
    }
    let (from, to) = between_starts(shape.layout, &piece, sought);
    match walk(shape.layout, piece.bytes, from, to, sought.key) {
        Found::NotYet if to < piece.bytes.len() => Found::Nowhere,
        found => found,
    }
}

/// From which start on, and up to which, records can have the position.
fn between_starts(layout: Layout, piece: &Piece<'_>, sought: Sought<'_>) -> (usize, usize) {
    // A record that is cut off at the piece's end counts as behind.
    let position = |start: usize| {
        let record = record::key(layout, &piece.bytes[start..]);
        record.map(|key| sought.position_of(key))
    };
    let smaller = piece.starts.partition_point(|start| position(*start).is_some_and(|at| at < sought.position));
    let from = piece.starts[smaller.saturating_sub(1)];
    let mut larger =
        piece.starts[smaller..].iter().filter(|start| position(**start).is_some_and(|at| at > sought.position));
    (from, larger.next().copied().unwrap_or(piece.bytes.len()))
}

/// The key's value among the records that begin in `from..to`.
fn walk<'p>(layout: Layout, bytes: &'p [u8], from: usize, to: usize, key: &[u8]) -> Found<'p> {
    let mut at = from;
    while at < to {
        let Some(record) = record::parse(layout, &bytes[at..]) else {
            return match record::key(layout, &bytes[at..]) {
                Some(other) if other != key => Found::NotYet,
                _ => Found::Cut(at),
            };
        };
        if record.key == key {
            return Found::Value(record.value);
        }
        at += record.bytes;
    }
    Found::NotYet
}

fn find_in_blocks<'p>(
    shape: Shape,
    piece: Piece<'p>,
    sought: Sought<'_>,
    raw: &'p mut Vec<u8>,
) -> std::result::Result<Option<&'p [u8]>, &'static str> {
    let Some(first) = piece.starts.first() else { return Ok(None) };
    let mut at = *first;
    let mut found = None;
    // Blocks whose first position is not above; the key is in the last of them, or in one before if positions are equal.
    while let Some(head) = piece.bytes.get(at..).and_then(block::Head::parse) {
        let head = head?;
        if shape.ordered && head.position > sought.position {
            break;
        }
        let Ok(unit_bytes) = usize::try_from(head.unit_bytes()) else { break };
        let Some(unit) = piece.bytes.get(at..).and_then(|rest| rest.get(..unit_bytes)) else { break };
        let next = piece.bytes.get(at + unit_bytes..).and_then(block::Head::parse).transpose()?;
        let passed = shape.ordered && next.is_some_and(|next| next.position < sought.position);
        if !passed {
            let bytes = block::unpack(&head, &unit[block::HEAD_BYTES..], shape.block_bytes_max, raw)?;
            if let Some(value) = find_in_block(shape, bytes, sought) {
                // As offsets, since another block may be unpacked into the same memory before they are used.
                let from = value.as_ptr() as usize - bytes.as_ptr() as usize;
                found = Some((head, at, from..from + value.len()));
                break;
            }
        }
        at += unit_bytes;
    }
    let Some((head, at, value)) = found else { return Ok(None) };
    if head.stored_bytes == head.raw_bytes {
        return Ok(Some(&piece.bytes[at + block::HEAD_BYTES..][value]));
    }
    Ok(Some(&raw[value]))
}

fn find_in_block<'p>(shape: Shape, bytes: &'p [u8], sought: Sought<'_>) -> Option<&'p [u8]> {
    match shape.layout {
        Layout::Fixed { key_len, value_len } => {
            let record_bytes = key_len as usize + value_len as usize;
            find_fixed(bytes, key_len as usize, record_bytes, shape.ordered, sought)
        }
        Layout::Varied => match walk(shape.layout, bytes, 0, bytes.len(), sought.key) {
            Found::Value(value) => Some(value),
            Found::Cut(_) | Found::Nowhere | Found::NotYet => None,
        },
    }
}
