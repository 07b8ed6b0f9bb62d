//! Pairs to put in, made from their number when they are needed.
//!
//! A [`Source`] gives pair `i` of an input, and key `i` of those that are never put in. [`Piece`] is some of them, made
//! before the clock runs, so that large inputs take little memory.
//!
//! Not here: streams of appends (`stream.rs`).

use crate::engine::Outcome;
use crate::random::{Random, below, mix};
use crate::workload::{Input, repository_file};

/// The dictionary that words come from.
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
}

impl Source {
    /// That of `input`, so many pairs; of accounts, two for each.
    pub fn new(input: &Input, count: u64) -> Outcome<Source> {
        let kind = match *input {
            Input::Mixed { key_bytes, value_bytes, seed } => Kind::Mixed { key_bytes, value_bytes, seed },
            Input::Words => Kind::Listed(words(count)?),
            Input::Accounts { seed } => Kind::Listed(accounts(count, seed)),
            Input::Records { value_bytes_max, seed } => {
                let mut random = Random(mix(seed));
                // Values are pieces of it, so it is a little longer than the longest and where they start differs.
                let bytes = (0..value_bytes_max + RECORD_STARTS).map(|_| random.next() as u8).collect();
                Kind::Records { seed, value_bytes_max, bytes }
            }
            Input::Appends { .. } => return Err("appends are a stream, not pairs".into()),
        };
        let count = if let Kind::Listed(list) = &kind { list.len() as u64 } else { count };
        Ok(Source { count, kind })
    }

    /// How many pairs.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes pair `i` to the end of `to` and gives where its key ends; from the count on, pairs that are none of the input.
    fn write(&self, i: u64, to: &mut Vec<u8>) -> usize {
        match &self.kind {
            &Kind::Mixed { key_bytes, value_bytes, seed } => {
                // The first 8 bytes of a key are another number for each i.
                let word = |j: usize, of: u64| mix(mix(i ^ of) ^ (j as u64) << 32).to_le_bytes();
                to.extend_from_slice(&mix(i ^ seed).to_le_bytes());
                (1..key_bytes / 8).for_each(|j| to.extend_from_slice(&word(j, seed)));
                let middle = to.len();
                (0..value_bytes / 8).for_each(|j| to.extend_from_slice(&word(j, !seed)));
                middle
            }
            Kind::Listed(list) => {
                let (key, value) = &list[(i % self.count) as usize];
                to.extend_from_slice(key);
                if i >= self.count {
                    to.push(b'~'); // no word and no name ends so
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
        }
    }
}

/// Where in their source values of records may start.
const RECORD_STARTS: u64 = 8192;

/// Some pairs of a source, in one block of memory that is used again.
#[derive(Default)]
pub struct Piece {
    bytes: Vec<u8>,
    /// Where each key begins and ends; its value ends where the next begins.
    places: Vec<(u32, u32)>,
}

/// Bytes after which a piece ends: little enough for the processor's cache to keep something of the store.
const PIECE_BYTES: usize = 1 << 20;
/// Pairs after which it ends.
const PIECE_PAIRS: usize = 1 << 15;

impl Piece {
    /// Room for pieces, already in memory.
    pub fn new() -> Piece {
        let mut piece = Piece { bytes: vec![1; PIECE_BYTES + (64 << 10)], places: vec![(1, 1); PIECE_PAIRS + 1] };
        piece.clear();
        piece
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Takes pairs of the given numbers until it is full; false where there are none left.
    pub fn fill(&mut self, source: &Source, numbers: &mut impl Iterator<Item = u64>) -> bool {
        self.clear();
        while self.places.len() < PIECE_PAIRS && self.bytes.len() < PIECE_BYTES {
            let Some(i) = numbers.next() else { break };
            let start = self.bytes.len();
            let middle = source.write(i, &mut self.bytes);
            self.places.push((start as u32, middle as u32)); // a piece is some MiB
        }
        !self.places.is_empty()
    }

    /// How many pairs.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The pairs, in order.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        (0..self.places.len()).map(|i| self.pair(i))
    }

    /// Pair `i` of the piece.
    pub fn pair(&self, i: usize) -> (&[u8], &[u8]) {
        let (start, middle) = self.places[i];
        let end = self.places.get(i + 1).map_or(self.bytes.len(), |next| next.0 as usize);
        (&self.bytes[start as usize..middle as usize], &self.bytes[middle as usize..end])
    }
}

/// `count` words, evenly spread over the dictionary, and their numbers from 1.
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

/// A password file of made-up people: for each account the rest of the line by name, and the whole line by number.
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
