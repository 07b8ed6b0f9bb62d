//! Tables that decode tries many codes at a time; one set per `huffman_max`, shared by all indexes of the process.
//!
//! A lookup that goes right must skip the whole left subtrie, so skipping takes most of its time. A **skip table**
//! skips small tries. Its state is what is still to be skipped: the sizes of up to [`PARTS_MAX`] consecutive tries. One
//! access with the next [`WINDOW`] bits tells how many of them are whole codes, and what is left to skip: a state to
//! continue with and one to push on the stack. A **descent table** has, for a small trie, the code at its root and the
//! length of its left subtrie, if both fit in the window. Codes of larger tries have a table indexed by their first
//! [`FIRST`] bits; longer codes, which are rare, are decoded canonically.
//!
//! ```text
//! state (9), window 1101001011:   9 = 4 + 5 | 4 = 2 + 2 | 2 = 1 + 1 | ...    7 bits skipped, then state (2), stack (5)
//! ```
//!
//! Cost: depends on [`WINDOW`], [`SMALL`] and [`TUPLE_MAX`]. The skip table has 2^WINDOW u16 per state, and good codes
//! access all of it equally often, so what matters is which cache it fits in. Not part of the format. Measured by the
//! table in `tests/mod.rs`. Source: the paper decodes bit by bit; decoding with tables of window bits is folklore.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::bits::Reader;
use super::code::{Codes, LENGTH_MAX, gamma_left};

/// The number of bits that index the tables for small tries.
pub(super) const WINDOW: u32 = 10;
/// The largest trie in these tables. An entry has four bits for each of its numbers below.
pub(super) const SMALL: u64 = 16;
/// States of more than one trie have at most this many keys in total, and at most [`PARTS_MAX`] parts.
const TUPLE_MAX: u64 = 9;
const PARTS_MAX: usize = 4;
/// Numbers of states fit in six bits; 0: nothing to pass; 1: no state; 2..=SMALL: single tries.
const STATES: usize = 64;
/// The number of bits of a larger trie's code that index its table.
const FIRST: u32 = 9;
const _: () = assert!(SMALL <= 16 && WINDOW <= 15 && FIRST <= 15);

/// An entry of the skip table.
#[derive(Clone, Copy)]
pub(super) struct Step(u16);

impl Step {
    fn new(passed: u32, next: u8, push: u8) -> Step {
        Step(passed as u16 | u16::from(next) << 4 | u16::from(push) << 10)
    }

    /// Number of bits in whole codes; 0 if the first code is longer than the window.
    #[inline(always)]
    pub(super) fn passed(self) -> u32 {
        u32::from(self.0 & 15)
    }

    /// The next state; 0 to take it from the stack.
    #[inline(always)]
    pub(super) fn next(self) -> u8 {
        (self.0 >> 4 & 63) as u8
    }

    /// The state to push on the stack; 0 for none.
    #[inline(always)]
    pub(super) fn push(self) -> u8 {
        (self.0 >> 10) as u8
    }
}

/// An entry of the descent table.
#[derive(Clone, Copy)]
pub(super) struct Descent(u16);

impl Descent {
    /// The code's length; 0 if it is longer than the window.
    #[inline(always)]
    pub(super) fn code_len(self) -> u32 {
        u32::from(self.0 & 15)
    }

    /// The symbol.
    #[inline(always)]
    pub(super) fn left(self) -> u64 {
        u64::from(self.0 >> 4 & 15)
    }

    /// Length of the code and the left subtrie; 0 if they do not fit in the window.
    #[inline(always)]
    pub(super) fn both_len(self) -> u32 {
        u32::from(self.0 >> 8)
    }
}

/// The canonical code of one size, for codes longer than [`FIRST`].
struct Canonical {
    /// By length: first code, number of codes, index of the first among `symbols`.
    lengths: Vec<(u64, u64, usize)>,
    symbols: Vec<u16>,
}

pub(super) struct Tables {
    codes: Codes,
    huffman_max: u64,
    /// By size and first bits of the code: length and symbol << 4; length 0 if the code is longer.
    first: Vec<u16>,
    canonical: Vec<Canonical>,
    skip: Vec<Step>,
    descend: Vec<Descent>,
    /// The sizes of the tries of each state.
    states: Vec<Vec<u64>>,
}

impl Tables {
    /// The tables for `huffman_max`, made on first use, which takes some milliseconds.
    pub(super) fn of(huffman_max: u32) -> Arc<Tables> {
        static MADE: OnceLock<Mutex<BTreeMap<u32, Arc<Tables>>>> = OnceLock::new();
        let mut made = MADE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(made.entry(huffman_max).or_insert_with(|| Arc::new(Tables::new(Codes::new(huffman_max)))))
    }

    fn new(codes: Codes) -> Tables {
        let mut tables = Tables {
            huffman_max: codes.huffman_max(),
            first: vec![0; (codes.huffman_max() as usize + 1) << FIRST],
            canonical: (0..=codes.huffman_max()).map(|size| Canonical::new(&codes, size)).collect(),
            skip: vec![Step(0); STATES << WINDOW],
            descend: vec![Descent(0); (SMALL as usize + 1) << WINDOW],
            states: states(),
            codes,
        };
        tables.fill_first();
        tables.fill_skip();
        tables.fill_descend();
        tables
    }

    pub(super) fn codes(&self) -> &Codes {
        &self.codes
    }

    /// Reads the code at the root of a trie of `size` >= 2 keys. Returns the symbol, with the reader after its code.
    #[inline]
    pub(super) fn root(&self, reader: &mut Reader<'_>, size: u64) -> Option<u64> {
        if size > self.huffman_max {
            return gamma_left(size, reader.take_gamma()?);
        }
        reader.need(FIRST)?;
        let entry = self.first[(size as usize) << FIRST | (reader.window() & ((1 << FIRST) - 1)) as usize];
        if entry & 15 != 0 {
            reader.pass(u32::from(entry & 15));
            return Some(u64::from(entry >> 4));
        }
        reader.need(LENGTH_MAX)?;
        let (left, length) = self.canonical[size as usize].decode(reader.window())?;
        reader.pass(length);
        Some(left)
    }

    /// One access to the skip table.
    #[inline(always)]
    pub(super) fn step(&self, state: u8, window: u64) -> Step {
        self.skip[usize::from(state) << WINDOW | (window & ((1 << WINDOW) - 1)) as usize]
    }

    /// One access to the descent table.
    #[inline(always)]
    pub(super) fn descent(&self, size: u64, window: u64) -> Descent {
        self.descend[(size as usize) << WINDOW | (window & ((1 << WINDOW) - 1)) as usize]
    }

    /// The sizes of the tries of a state, in the order in which they are skipped.
    pub(super) fn parts(&self, state: u8) -> &[u64] {
        &self.states[usize::from(state)]
    }

    fn fill_first(&mut self) {
        let codes = &self.codes;
        for size in 2..=codes.huffman_max() {
            let row = &mut self.first[(size as usize) << FIRST..][..1 << FIRST];
            for (left, (code, length)) in codes.of(size).enumerate().filter(|(_, (_, length))| *length <= FIRST) {
                for above in 0..1 << (FIRST - length) {
                    row[(above << length) | code as usize] = (left as u16) << 4 | length as u16;
                }
            }
        }
    }

    fn fill_skip(&mut self) {
        for state in 2..self.states.len() {
            for window in 0..1 << WINDOW {
                self.skip[state << WINDOW | window] = self.longest_step(&self.states[state], window as u64);
            }
        }
    }

    /// Decodes the window to its end, and keeps the last point at which the remainder is a state.
    fn longest_step(&self, sizes: &[u64], window: u64) -> Step {
        let (mut pending, mut passed, mut step) = (sizes.to_vec(), 0, Step(0));
        while let Some((left, length)) = pending.first().and_then(|&size| self.code_in(size, window, passed)) {
            passed += length;
            let size = pending.remove(0);
            let parts = [left, size - left];
            pending.splice(0..0, parts.into_iter().filter(|&part| part >= 2));
            if let Some((next, push)) = self.named(&pending) {
                step = Step::new(passed, next, push);
            }
        }
        step
    }

    /// The states for these sizes: the next one, and the one after it.
    fn named(&self, sizes: &[u64]) -> Option<(u8, u8)> {
        // State 0 has no tries: nothing is left to skip.
        let state = |sizes: &[u64]| self.states.iter().position(|s| s == sizes).map(|at| at as u8);
        (0..=sizes.len()).rev().find_map(|cut| Some((state(&sizes[..cut])?, state(&sizes[cut..])?)))
    }

    /// The code at bit `from` of a window, if it is complete: symbol and length.
    fn code_in(&self, size: u64, window: u64, from: u32) -> Option<(u64, u32)> {
        let words = [window >> from];
        let mut reader = Reader::new(&words, 0, 64);
        let left = self.root(&mut reader, size)?;
        let length = reader.at() as u32;
        (from + length <= WINDOW).then_some((left, length))
    }

    fn fill_descend(&mut self) {
        for size in 2..=SMALL {
            for window in 0..1u64 << WINDOW {
                let Some((left, length)) = self.code_in(size, window, 0) else { continue };
                let both = self.length_in(left, window, length).unwrap_or(0);
                let entry = length as u16 | (left as u16) << 4 | (both as u16) << 8;
                self.descend[(size as usize) << WINDOW | window as usize] = Descent(entry);
            }
        }
    }

    /// The end of a trie of `size` keys that begins at bit `from` of a window, if it ends within the window.
    fn length_in(&self, mut size: u64, window: u64, mut from: u32) -> Option<u32> {
        while size >= 2 {
            let (left, length) = self.code_in(size, window, from)?;
            from = self.length_in(left, window, from + length)?;
            size -= left;
        }
        Some(from)
    }
}

impl Canonical {
    fn new(codes: &Codes, size: u64) -> Canonical {
        if size < 2 {
            return Canonical { lengths: Vec::new(), symbols: Vec::new() };
        }
        let mut symbols: Vec<(u32, u64, u16)> = (0..).zip(codes.of(size)).map(|(s, (code, l))| (l, code, s)).collect();
        symbols.sort_by_key(|&(length, _, symbol)| (length, symbol));
        let of_length = |length| {
            let at = symbols.partition_point(|s| s.0 < length);
            let count = symbols.partition_point(|s| s.0 <= length) - at;
            let code = symbols.get(at).map_or(0, |s| s.1.reverse_bits() >> (64 - length));
            (if count == 0 { 0 } else { code }, count as u64, at)
        };
        Canonical { lengths: (1..=LENGTH_MAX).map(of_length).collect(), symbols: symbols.iter().map(|s| s.2).collect() }
    }

    /// Decodes the code at the low end of the window: symbol and length.
    #[cold]
    fn decode(&self, window: u64) -> Option<(u64, u32)> {
        let mut code = 0;
        for (length, &(first, count, at)) in (1..).zip(&self.lengths) {
            code = code << 1 | window >> (length - 1) & 1;
            let above = code.wrapping_sub(first);
            if above < count {
                return Some((self.symbols[at + above as usize].into(), length));
            }
        }
        None
    }
}

/// The states by number: nothing, (1), single tries, then every sequence of tries that the constants allow.
fn states() -> Vec<Vec<u64>> {
    let mut states: Vec<Vec<u64>> = vec![Vec::new(), vec![1]];
    states.extend((2..=SMALL).map(|size| vec![size]));
    let mut longest: Vec<Vec<u64>> = (2..=TUPLE_MAX).map(|size| vec![size]).collect();
    for _ in 1..PARTS_MAX {
        let with = |sizes: &Vec<u64>| {
            let (sizes, room) = (sizes.clone(), TUPLE_MAX - sizes.iter().sum::<u64>());
            (2..=room).map(move |size| [&sizes[..], &[size]].concat())
        };
        longest = longest.iter().flat_map(with).collect();
        states.extend(longest.iter().cloned());
    }
    assert!(states.len() <= STATES, "states have six bits: {}", states.len());
    states
}
