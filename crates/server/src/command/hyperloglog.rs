//! PFADD, PFCOUNT, PFMERGE: the approximate number of distinct elements, in a value of at most 12 KiB.
//!
//! Values have exactly Redis's bytes, so they can be exchanged by DUMP and RESTORE:
//!
//! ```text
//! "HYLL"  encoding  0 0 0  cardinality (8 bytes; the highest bit is set if it is out of date)  registers
//! dense   16,384 registers of 6 bits, lowest bits first
//! sparse  runs: 00nnnnnn          n + 1 registers are 0
//!               01nnnnnn nnnnnnnn n + 1 registers are 0
//!               1vvvvvnn          n + 1 registers are v + 1
//! ```
//!
//! An element's hash chooses a register by its low 14 bits; the register keeps the largest number of trailing zeros
//! seen in the rest, plus one.
//!
//! Source: Redis's hyperloglog.c, and for the estimator Otmar Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches", 2017.

use super::call::{Call, Outcome, Refusal};
use super::reply;
use crate::keyspace::{Exclusive, Lifetime};

const HEADER_BYTES: usize = 16;
const REGISTERS: usize = 1 << 14;
const REGISTER_BITS: usize = 6;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * REGISTER_BITS / 8;
const ENCODING: usize = 4;
const CARDINALITY: std::ops::Range<usize> = 8..16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The largest register of the sparse encoding, and the longest value in it.
const SPARSE_REGISTER_MAX: u8 = 32;
const SPARSE_BYTES_MAX: usize = 3000;
/// Bits of a hash after the bits that choose the register.
const RANK_BITS: usize = 50;

const NOT_A_SKETCH: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
const CORRUPT: &str = "INVALIDOBJ Corrupted HLL object detected";

/// PFADD key [element ...]
pub(super) fn pfadd(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.at(1);
    let found = read(alone, call.database, key)?;
    let mut changed = found.is_none();
    let mut sketch = found.unwrap_or_else(Sketch::new);
    for element in call.args.from(2) {
        let (index, rank) = place_of(element);
        changed |= sketch.raise(index, rank)?;
    }
    if changed {
        sketch.forget_cardinality();
        alone.put(call.database, key, &sketch.0, Lifetime::Keep)?;
    }
    reply::integer(call.out, changed.into());
    Ok(())
}

/// PFCOUNT key ...: for several keys, the number of elements of their union. For one key, stores the estimate with it.
pub(super) fn pfcount(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 2 {
        let mut union = vec![0; REGISTERS];
        for key in call.args.from(1) {
            if let Some(sketch) = read(alone, call.database, key)? {
                sketch.merge_into(&mut union)?;
            }
        }
        let mut histogram = [0; 64];
        union.iter().for_each(|&rank| histogram[usize::from(rank)] += 1);
        reply::count(call.out, estimate(&histogram));
        return Ok(());
    }
    let key = call.args.at(1);
    let Some(mut sketch) = read(alone, call.database, key)? else {
        reply::integer(call.out, 0);
        return Ok(());
    };
    let cardinality = match sketch.cardinality() {
        Some(cardinality) => cardinality,
        None => {
            let cardinality = estimate(&sketch.histogram()?);
            sketch.0[CARDINALITY].copy_from_slice(&cardinality.to_le_bytes());
            if alone.space().dictionary().is_none() {
                alone.put(call.database, key, &sketch.0, Lifetime::Keep)?;
            }
            cardinality
        }
    };
    reply::integer(call.out, cardinality as i64); // as Redis does; a corrupt one may be any number below 2^63
    Ok(())
}

/// PFMERGE destination [source ...]
pub(super) fn pfmerge(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (mut union, mut is_dense) = (vec![0; REGISTERS], false);
    for key in call.args.from(1) {
        if let Some(sketch) = read(alone, call.database, key)? {
            is_dense |= sketch.0[ENCODING] == DENSE;
            sketch.merge_into(&mut union)?;
        }
    }
    let key = call.args.at(1);
    let mut merged = read(alone, call.database, key)?.unwrap_or_else(Sketch::new);
    if is_dense {
        merged.make_dense()?;
    }
    for (index, &rank) in union.iter().enumerate().filter(|(_, rank)| **rank > 0) {
        merged.raise(index, rank)?;
    }
    merged.forget_cardinality();
    alone.put(call.database, key, &merged.0, Lifetime::Keep)?;
    reply::ok(call.out);
    Ok(())
}

/// The sketch at `key`; `None` if the key is absent. Reads only the header of a value that is not a sketch.
fn read(alone: &mut Exclusive<'_>, database: usize, key: &[u8]) -> Result<Option<Sketch>, Refusal> {
    if !alone.contains(database, key)? {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    alone.get_part(database, key, |len| 0..len.min(HEADER_BYTES), &mut bytes)?;
    if bytes.len() == HEADER_BYTES && bytes.starts_with(b"HYLL") {
        alone.get(database, key, &mut bytes)?;
    }
    Sketch::parse(bytes).map(Some)
}

/// The register of an element, and its rank there.
fn place_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, 0xadc8_3b19);
    let rank = ((hash >> 14) | 1 << RANK_BITS).trailing_zeros() + 1;
    (hash as usize % REGISTERS, rank as u8) // at most RANK_BITS + 1
}

/// MurmurHash64A, reading little-endian words.
fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, tail) = bytes.as_chunks::<8>();
    for &word in words {
        let mut word = u64::from_le_bytes(word).wrapping_mul(M);
        word ^= word >> 47;
        hash = (hash ^ word.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M);
    hash ^ hash >> 47
}

/// A run of equal registers in the sparse encoding.
struct Run {
    rank: u8,
    len: usize,
    /// Bytes of its encoding.
    bytes: usize,
}

impl Run {
    /// The run at the beginning of `bytes`, which is not empty. As in Redis, a missing second byte reads as zero.
    fn parse(bytes: &[u8]) -> Run {
        let low = usize::from(bytes[0] & 0x3f);
        match bytes[0] >> 6 {
            0 => Run { rank: 0, len: low + 1, bytes: 1 },
            1 => Run { rank: 0, len: (low << 8 | usize::from(bytes.get(1).copied().unwrap_or(0))) + 1, bytes: 2 },
            _ => Run { rank: (bytes[0] >> 2 & 0x1f) + 1, len: usize::from(bytes[0] & 3) + 1, bytes: 1 },
        }
    }

    /// Appends the encoding of `len` registers of this rank: at most [`REGISTERS`] zeros, or 4 of another rank.
    fn write(out: &mut Vec<u8>, rank: u8, len: usize) {
        match (rank, len) {
            (_, 0) => {}
            (0, 1..=64) => out.push((len - 1) as u8),
            (0, _) => out.extend_from_slice(&[0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]), // 14 bits
            _ => out.push(0x80 | (rank - 1) << 2 | (len - 1) as u8),
        }
    }
}

/// The bytes of a value: a checked header, and registers that may be corrupt in the sparse encoding.
struct Sketch(Vec<u8>);

impl Sketch {
    fn new() -> Sketch {
        let mut bytes = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        Run::write(&mut bytes, 0, REGISTERS);
        Sketch(bytes)
    }

    fn parse(bytes: Vec<u8>) -> Result<Sketch, Refusal> {
        let is_valid = bytes.len() >= HEADER_BYTES
            && bytes.starts_with(b"HYLL")
            && (bytes[ENCODING] == SPARSE || bytes[ENCODING] == DENSE && bytes.len() == DENSE_BYTES);
        if is_valid { Ok(Sketch(bytes)) } else { Err(NOT_A_SKETCH.into()) }
    }

    /// The stored estimate; `None` if it is out of date.
    fn cardinality(&self) -> Option<u64> {
        let mut number = [0; 8];
        number.copy_from_slice(&self.0[CARDINALITY]);
        Some(u64::from_le_bytes(number)).filter(|number| number >> 63 == 0)
    }

    fn forget_cardinality(&mut self) {
        self.0[CARDINALITY.end - 1] |= 0x80;
    }

    /// The runs of the sparse encoding, and the index of each run's first byte and first register.
    fn runs(&self) -> impl Iterator<Item = (usize, usize, Run)> + '_ {
        let (mut at, mut first) = (HEADER_BYTES, 0);
        std::iter::from_fn(move || {
            let run = Run::parse(self.0.get(at..).filter(|rest| !rest.is_empty())?);
            let found = (at, first, run);
            at += found.2.bytes;
            first += found.2.len;
            Some(found)
        })
    }

    fn dense_register(&self, index: usize) -> u8 {
        let (byte, shift) = (HEADER_BYTES + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
        let next = self.0.get(byte + 1).copied().unwrap_or(0);
        (u16::from_le_bytes([self.0[byte], next]) >> shift) as u8 & 0x3f
    }

    fn set_dense_register(&mut self, index: usize, rank: u8) {
        let (byte, shift) = (HEADER_BYTES + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
        let next = self.0.get(byte + 1).copied().unwrap_or(0);
        let word = u16::from_le_bytes([self.0[byte], next]) & !(0x3f << shift) | u16::from(rank) << shift;
        self.0[byte] = word as u8;
        if let Some(next) = self.0.get_mut(byte + 1) {
            *next = (word >> 8) as u8;
        }
    }

    /// Raises each register of `union` to this sketch's.
    fn merge_into(&self, union: &mut [u8]) -> Outcome {
        if self.0[ENCODING] == DENSE {
            union.iter_mut().enumerate().for_each(|(index, rank)| *rank = self.dense_register(index).max(*rank));
            return Ok(());
        }
        let mut end = 0;
        for (_, first, run) in self.runs() {
            end = first + run.len;
            let registers = union.get_mut(first..end).ok_or(CORRUPT)?;
            registers.iter_mut().for_each(|rank| *rank = run.rank.max(*rank));
        }
        if end == REGISTERS { Ok(()) } else { Err(CORRUPT.into()) }
    }

    /// How many registers have each rank.
    fn histogram(&self) -> Result<[u32; 64], Refusal> {
        let mut histogram = [0; 64];
        if self.0[ENCODING] == DENSE {
            (0..REGISTERS).for_each(|index| histogram[usize::from(self.dense_register(index))] += 1);
            return Ok(histogram);
        }
        let mut sum = 0;
        for (_, _, run) in self.runs() {
            sum += run.len;
            if sum > REGISTERS {
                break;
            }
            histogram[usize::from(run.rank)] += run.len as u32; // at most REGISTERS
        }
        if sum == REGISTERS { Ok(histogram) } else { Err(CORRUPT.into()) }
    }

    fn make_dense(&mut self) -> Outcome {
        if self.0[ENCODING] == DENSE {
            return Ok(());
        }
        let mut registers = vec![0; REGISTERS];
        self.merge_into(&mut registers)?;
        self.0.truncate(HEADER_BYTES);
        self.0.resize(DENSE_BYTES, 0);
        self.0[ENCODING] = DENSE;
        registers.iter().enumerate().for_each(|(index, &rank)| self.set_dense_register(index, rank));
        Ok(())
    }

    /// Raises a register to `rank`. Returns whether it was smaller.
    fn raise(&mut self, index: usize, rank: u8) -> Result<bool, Refusal> {
        if self.0[ENCODING] == DENSE {
            let is_higher = rank > self.dense_register(index);
            if is_higher {
                self.set_dense_register(index, rank);
            }
            return Ok(is_higher);
        }
        if rank > SPARSE_REGISTER_MAX {
            self.make_dense()?;
            return self.raise(index, rank);
        }
        let mut before = None;
        let mut found = None;
        for (at, first, run) in self.runs() {
            if index < first + run.len {
                found = Some((at, first, run));
                break;
            }
            before = Some(at);
        }
        let (at, first, run) = found.ok_or(CORRUPT)?;
        if run.rank >= rank {
            return Ok(false);
        }
        // The run becomes three: the registers before, the raised one, those after.
        let mut runs = Vec::with_capacity(5);
        Run::write(&mut runs, run.rank, index - first);
        Run::write(&mut runs, rank, 1);
        Run::write(&mut runs, run.rank, first + run.len - 1 - index);
        let old = at..(at + run.bytes).min(self.0.len());
        if runs.len() > run.bytes && self.0.len() + runs.len() - run.bytes > SPARSE_BYTES_MAX {
            self.make_dense()?;
            return self.raise(index, rank);
        }
        self.0.splice(old, runs);
        self.join_runs(before.unwrap_or(HEADER_BYTES));
        Ok(true)
    }

    /// Joins neighbouring runs of the same rank from byte `at` on, as far as Redis does.
    fn join_runs(&mut self, mut at: usize) {
        /// Runs to look at: a raised register can have changed no others.
        const LOOKED_AT: usize = 5;
        for _ in 0..LOOKED_AT {
            let Some(rest) = self.0.get(at..).filter(|rest| !rest.is_empty()) else { return };
            let run = Run::parse(rest);
            let next = rest.get(1..).filter(|next| !next.is_empty()).map(Run::parse);
            match next {
                Some(next) if run.rank > 0 && next.rank == run.rank && run.len + next.len <= 4 => {
                    let mut joined = Vec::with_capacity(1);
                    Run::write(&mut joined, run.rank, run.len + next.len);
                    self.0.splice(at..at + 2, joined);
                }
                _ => at += run.bytes,
            }
        }
    }
}

/// The number of distinct elements, from the number of registers with each rank.
fn estimate(histogram: &[u32; 64]) -> u64 {
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(histogram[RANK_BITS + 1])) / m);
    for &count in histogram[1..=RANK_BITS].iter().rev() {
        z = (z + f64::from(count)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    (ALPHA * m * m / z).round() as u64 // saturates
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sketch of the numbers below `count`, in decimal digits.
    fn sketch_of(count: usize) -> Sketch {
        let mut sketch = Sketch::new();
        for number in 0..count {
            let (index, rank) = place_of(number.to_string().as_bytes());
            let _ = sketch.raise(index, rank).unwrap();
        }
        sketch
    }

    #[test]
    fn values_have_the_bytes_of_redis() {
        let mut sketch = Sketch::new();
        for element in ["x", "y", "", "hello world, longer than eight"] {
            let (index, rank) = place_of(element.as_bytes());
            assert!(sketch.raise(index, rank).unwrap());
        }
        // What Redis 7.0.15 stores for these elements, after PFCOUNT.
        let stored = b"HYLL\x01\0\0\0\x04\0\0\0\0\0\0\0\x57\x31\x84\x50\x53\x84\x52\xcb\x88\x45\xa0\x84\x08";
        assert_eq!(sketch.0[HEADER_BYTES..], stored[HEADER_BYTES..]);
        assert_eq!(Sketch::parse(stored.to_vec()).unwrap().cardinality(), Some(4));
        // What it counts, and the bytes it needs, for the numbers below 1000, 2000 and 20,000.
        for (count, bytes, counted) in [(1000, 1923, 1001), (2000, DENSE_BYTES, 2007), (20_000, DENSE_BYTES, 19_891)] {
            let sketch = sketch_of(count);
            assert_eq!((sketch.0.len(), estimate(&sketch.histogram().unwrap())), (bytes, counted));
        }
    }

    #[test]
    fn sparse_and_dense_registers_are_equal() {
        for count in [0, 1, 10, 300, 3000] {
            let sketch = sketch_of(count);
            let mut dense = Sketch(sketch.0.clone());
            dense.make_dense().unwrap();
            assert_eq!(dense.histogram().unwrap(), sketch.histogram().unwrap());
            let (mut one, mut other) = (vec![0; REGISTERS], vec![0; REGISTERS]);
            dense.merge_into(&mut one).unwrap();
            sketch.merge_into(&mut other).unwrap();
            assert_eq!(one, other);
        }
    }

    #[test]
    fn estimates_are_within_three_percent() {
        for count in [1, 10, 100, 1000, 20_000, 100_000] {
            let estimate = estimate(&sketch_of(count).histogram().unwrap());
            assert!(estimate.abs_diff(count as u64) <= count as u64 * 3 / 100, "{estimate} of {count}");
        }
    }

    #[test]
    fn corrupt_runs_are_refused() {
        let cases: [&[u8]; 8] =
            [b"", b"\x00", b"\x7f", b"\x7f\xff\x00", b"\x7f\xfe", b"\xff", &[0xff; 5000], &[0x7f; 5000]];
        for runs in cases {
            let bytes = [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80", runs].concat();
            let parsed = || Sketch::parse(bytes.clone()).unwrap();
            assert!(parsed().histogram().is_err(), "{runs:x?}");
            assert!(parsed().merge_into(&mut vec![0; REGISTERS]).is_err());
            assert!(parsed().make_dense().is_err());
            // A register that no run contains.
            let _ = parsed().raise(REGISTERS - 1, 1);
            let _ = parsed().raise(0, 40);
        }
        for header in
            [&b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0"[..], b"HYLL\x00\0\0\0\0\0\0\0\0\0\0\0", b"HYLL", b"", b"12345"]
        {
            assert!(Sketch::parse(header.to_vec()).is_err());
        }
    }
}
