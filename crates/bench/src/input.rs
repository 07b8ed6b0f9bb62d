//! Input pairs, generated from their number on demand.
//!
//! A [`Source`] generates pair `i` of an input, and keys that are never put. A [`Piece`] holds some of
//! them, generated before the clock starts, so that large inputs take little memory.
//!
//! Not here: streams of appends (`stream.rs`).

use crate::engine::Outcome;
use crate::random::{Random, below, mix};
use crate::workload::{Input, repository_file};

/// The dictionary of the words.
const WORDS_FILE: &str = "data/english-words.txt";

/// The pairs of an input.
pub struct Source {
    count: u64,
    kind: Kind,
}

enum Kind {
    Mixed { key_bytes: usize, value_bytes: usize, seed: u64 },
    Listed(Vec<(Vec<u8>, Vec<u8>)>),
    Records { seed: u64, value_bytes_max: u64, bytes: Vec<u8> },
    Urls { seed: u64, value_bytes: usize, bytes: Vec<u8> },
}

impl Source {
    /// Creates the source of `input` with `count` pairs; for accounts, two pairs per account.
    pub fn new(input: &Input, count: u64) -> Outcome<Source> {
        let kind = match *input {
            Input::Mixed { key_bytes, value_bytes, seed } => Kind::Mixed { key_bytes, value_bytes, seed },
            Input::Words => Kind::Listed(words(count)?),
            Input::Accounts { seed } => Kind::Listed(accounts(count, seed)),
            Input::Records { value_bytes_max, seed } => {
                let mut random = Random(mix(seed));
                // Values are slices of it, so it is longer than the longest value by the largest offset.
                let bytes = (0..value_bytes_max + RECORD_STARTS).map(|_| random.next() as u8).collect();
                Kind::Records { seed, value_bytes_max, bytes }
            }
            Input::Urls { value_bytes, seed } => {
                let mut random = Random(mix(seed));
                let bytes = (0..value_bytes + VALUE_STARTS).map(|_| random.next() as u8).collect();
                Kind::Urls { seed, value_bytes: value_bytes.max(8) as usize, bytes }
            }
            Input::Appends { .. } => return Err("appends are a stream, not pairs".into()),
        };
        let count = if let Kind::Listed(list) = &kind { list.len() as u64 } else { count };
        Ok(Source { count, kind })
    }

    /// Returns the number of pairs.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Appends pair `i` to `to` and returns where its key ends; numbers from the count on give pairs outside the input.
    pub fn write(&self, i: u64, to: &mut Vec<u8>) -> usize {
        match &self.kind {
            &Kind::Mixed { key_bytes, value_bytes, seed } => {
                // The first 8 bytes of a key are a distinct number for each i.
                to.extend_from_slice(&mix(i ^ seed).to_le_bytes());
                mixed_words(i, seed, 1, key_bytes, |_, word| to.extend_from_slice(word));
                let middle = to.len();
                mixed_words(i, !seed, 0, value_bytes, |_, word| to.extend_from_slice(word));
                middle
            }
            Kind::Listed(list) => {
                let (key, value) = &list[(i % self.count) as usize];
                to.extend_from_slice(key);
                if i >= self.count {
                    to.push(b'~'); // no word and no name ends with this
                }
                let middle = to.len();
                to.extend_from_slice(value);
                middle
            }
            Kind::Records { seed, value_bytes_max, bytes } => {
                to.extend_from_slice(format!("key-{i:08}").as_bytes());
                let middle = to.len();
                let start = below(mix(i ^ seed), RECORD_STARTS) as usize;
                let len = below(mix(!i ^ seed), value_bytes_max + 1) as usize;
                to.extend_from_slice(&bytes[start..start + len]);
                middle
            }
            &Kind::Urls { seed, value_bytes, ref bytes } => {
                url(mix(i ^ seed), to);
                let middle = to.len();
                let (head, tail) = url_value(i, seed, value_bytes, bytes);
                to.extend_from_slice(&head);
                to.extend_from_slice(tail);
                middle
            }
        }
    }

    /// Appends the key of pair `i` to `to`.
    pub fn write_key(&self, i: u64, to: &mut Vec<u8>) {
        match &self.kind {
            Kind::Urls { seed, .. } => url(mix(i ^ seed), to),
            _ => {
                let middle = self.write(i, to);
                to.truncate(middle);
            }
        }
    }

    /// Whether `found` is the value of pair `i`. Cheap, because it runs under the clock.
    pub fn is_value(&self, i: u64, found: &[u8]) -> bool {
        match self.kind {
            Kind::Mixed { value_bytes, seed, .. } => {
                let mut right = found.len() == value_bytes;
                mixed_words(i, !seed, 0, value_bytes, |at, word| right &= found.get(at..at + word.len()) == Some(word));
                right
            }
            Kind::Urls { seed, value_bytes, ref bytes } => {
                let (head, tail) = url_value(i, seed, value_bytes, bytes);
                found.len() == head.len() + tail.len() && found.starts_with(&head) && found.ends_with(tail)
            }
            _ => {
                let mut pair = Vec::new();
                let middle = self.write(i, &mut pair);
                pair[middle..] == *found
            }
        }
    }
}

/// Returns the value of pair `i` of URLs: eight unique bytes, then a slice of `bytes`.
fn url_value(i: u64, seed: u64, value_bytes: usize, bytes: &[u8]) -> ([u8; 8], &[u8]) {
    let start = below(mix(!i ^ seed), VALUE_STARTS) as usize;
    (mix(i ^ !seed).to_le_bytes(), &bytes[start..start + value_bytes - 8])
}

/// Yields the offset of each word of a key or value from its `first`, and the word; the last one is cut to fit.
fn mixed_words(i: u64, of: u64, first: usize, bytes: usize, mut take: impl FnMut(usize, &[u8])) {
    for j in first..bytes.div_ceil(8) {
        let word = mix(mix(i ^ of) ^ (j as u64) << 32).to_le_bytes();
        take(8 * j, &word[..(bytes - 8 * j).min(8)]);
    }
}

/// Writes a URL-like key of 62 to 160 bytes, unique for each `number`: one of some thousand hosts, shared folders, and
/// a page name that ends in the number.
fn url(number: u64, to: &mut Vec<u8>) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz-_/aei";
    let end = to.len() + 62 + below(mix(number), 99) as usize;
    to.extend_from_slice(b"http://www.");
    let letters = |to: &mut Vec<u8>, mut random: u64, count: usize| {
        for _ in 0..count {
            to.push(LETTERS[(random & 31) as usize]);
            random >>= 5;
        }
    };
    letters(to, mix(number & 0xFFF), 9);
    to.extend_from_slice(b".co.uk/");
    let mut step = number & 0x3FF_FFFF;
    while to.len() + 16 < end {
        step = mix(step);
        let count = (end - 16 - to.len()).min(12);
        letters(to, step, count);
    }
    let digit = |shift: u32| b"0123456789abcdef"[(number >> shift & 15) as usize];
    to.extend((0..16).map(|i| digit(60 - 4 * i)));
}

/// Range of offsets of record values in their source.
const RECORD_STARTS: u64 = 8192;
/// Range of offsets of URL values in their source.
const VALUE_STARTS: u64 = 1 << 20;

/// Some pairs of a source, in one reused block of memory.
#[derive(Default)]
pub struct Piece {
    bytes: Vec<u8>,
    /// The start and end of each key; its value ends where the next key begins.
    places: Vec<(u32, u32)>,
}

/// Size at which a piece ends: small enough to leave part of the CPU cache to the store.
const PIECE_BYTES: usize = 1 << 20;
/// Pairs at which a piece ends.
const PIECE_PAIRS: usize = 1 << 15;

impl Piece {
    /// Allocates memory for pieces and touches it.
    pub fn new() -> Piece {
        let mut piece = Piece { bytes: vec![1; PIECE_BYTES + (64 << 10)], places: vec![(1, 1); PIECE_PAIRS + 1] };
        piece.clear();
        piece
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Generates pairs of the given numbers until it is full; false if there are none left.
    pub fn fill(&mut self, source: &Source, numbers: &mut impl Iterator<Item = u64>) -> bool {
        self.clear();
        while self.places.len() < PIECE_PAIRS && self.bytes.len() < PIECE_BYTES {
            let Some(i) = numbers.next() else { break };
            let start = self.bytes.len();
            let middle = source.write(i, &mut self.bytes);
            self.places.push((start as u32, middle as u32)); // a piece is a few MiB
        }
        !self.places.is_empty()
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the pairs, in order.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        (0..self.places.len()).map(|i| self.pair(i))
    }

    /// Returns pair `i` of the piece.
    pub fn pair(&self, i: usize) -> (&[u8], &[u8]) {
        let (start, middle) = self.places[i];
        let end = self.places.get(i + 1).map_or(self.bytes.len(), |next| next.0 as usize);
        (&self.bytes[start as usize..middle as usize], &self.bytes[middle as usize..end])
    }
}

/// Returns `count` words, evenly spread over the dictionary, and their numbers from 1.
fn words(count: u64) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
    let path = repository_file(WORDS_FILE);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let all: Vec<&str> = text.lines().collect();
    if count > all.len() as u64 {
        return Err(format!("{WORDS_FILE} has {} words, not {count}", all.len()).into());
    }
    let spread = |i: u64| all[(i * all.len() as u64 / count) as usize];
    Ok((0..count).map(|i| (spread(i).into(), (i + 1).to_string().into_bytes())).collect())
}

const FIRST_NAMES: [&str; 12] =
    ["alan", "barbara", "claude", "donald", "edsger", "frances", "grace", "hedy", "ivan", "jean", "ken", "lynn"];
const LAST_NAMES: [&str; 12] = [
    "Allen",
    "Bartik",
    "Conway",
    "Dijkstra",
    "Hopper",
    "Knuth",
    "Lamarr",
    "Liskov",
    "Shannon",
    "Sutherland",
    "Thompson",
    "Turing",
];
const SHELLS: [&str; 4] = ["/bin/sh", "/bin/csh", "/bin/bash", "/usr/bin/zsh"];

/// Generates a password file of people: for each account the rest of the line by name, and the whole line by number.
fn accounts(count: u64, seed: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut random = Random(mix(seed));
    let mut pairs = Vec::new();
    for i in 0..count {
        let mut one_of = |list: &[&'static str]| list[below(random.next(), list.len() as u64) as usize];
        let (first, last, shell) = (one_of(&FIRST_NAMES), one_of(&LAST_NAMES), one_of(&SHELLS));
        let name = format!("{}{}{i}", &first[..1], last.to_lowercase());
        let (number, group) = (1000 + i, 100 + below(random.next(), 10));
        let (room, phone) = (below(random.next(), 600), below(random.next(), 10_000));
        let rest = format!("x:{number}:{group}:{first} {last},room {room},{phone:04},:/home/{name}:{shell}");
        pairs.push((name.clone().into_bytes(), rest.clone().into_bytes()));
        pairs.push((number.to_string().into_bytes(), format!("{name}:{rest}").into_bytes()));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn urls_differ_and_have_111_bytes_on_average() {
        let source = Source::new(&Input::Urls { value_bytes: 100, seed: 1 }, 20_000).expect("no file is read");
        let (mut keys, mut bytes, mut pair) = (BTreeSet::new(), 0, Vec::new());
        for i in 0..20_000 {
            pair.clear();
            let middle = source.write(i, &mut pair);
            bytes += middle;
            assert!(pair[..middle].starts_with(b"http://www.") && (62..=160).contains(&middle));
            assert!(keys.insert(pair[..middle].to_vec()), "two keys are {:?}", pair[..middle].escape_ascii());
            let mut key = Vec::new();
            source.write_key(i, &mut key);
            assert_eq!(key, pair[..middle]);
        }
        assert!((110..=112).contains(&(bytes / 20_000)), "{} bytes a key", bytes / 20_000);
    }

    #[test]
    fn only_the_own_value_is_the_value() {
        for input in [
            Input::Urls { value_bytes: 100, seed: 1 },
            Input::Mixed { key_bytes: 12, value_bytes: 4, seed: 1 },
            Input::Mixed { key_bytes: 16, value_bytes: 24, seed: 1 },
            Input::Records { value_bytes_max: 50, seed: 1 },
        ] {
            let source = Source::new(&input, 100).expect("no file is read");
            let mut pair = Vec::new();
            let middle = source.write(7, &mut pair);
            let mut value = pair[middle..].to_vec();
            assert!(source.is_value(7, &value) && !source.is_value(8, &value), "{input:?}");
            value.push(0);
            assert!(!source.is_value(7, &value), "{input:?}: one byte more");
            value.pop();
            *value.last_mut().expect("a value with bytes") ^= 1;
            assert!(!source.is_value(7, &value), "{input:?}: another last byte");
        }
    }
}
