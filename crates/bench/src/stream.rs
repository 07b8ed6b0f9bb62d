//! Streams of appends: 16-byte records for 8-byte keys, in a random-looking order, generated without memory.
//!
//! The load of "Big Memory, Part 3": 212 million records, 78 million keys. Record `i` is generated from `i` alone. Its
//! key depends on the [`KeyChoice`]:
//!
//! * *uniform*: positions of a shuffled order below the key count belong to the key of that number, so that each key
//!   occurs; the others choose any key.
//! * *sizes*: positions are laid out value by value so that the final values have exactly the wanted sizes, then
//!   shuffled.
//! * *zipf*: a rank is drawn for each record. A rank with more records than fit a value ([`RECORDS_MAX`]) continues
//!   with a fresh key, after equal parts of the stream.
//!
//! Source: rejection inversion, Hörmann & Derflinger 1996. Logarithms are our own ([`ln`], [`exp`]), because C
//! libraries differ in the last bit, and then the answers would differ.

use crate::engine::Outcome;
use crate::random::{Order, below, mix};
use crate::workload::KeyChoice;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 16;
/// Bytes of a key.
pub const KEY_BYTES: usize = 8;
/// Records of the longest value: 16 KiB.
pub const RECORDS_MAX: u64 = 1024;
/// Expected records of a rank's key; far enough below [`RECORDS_MAX`] that random variation does not exceed it.
const RECORDS_AIM: u64 = 860;

/// All appends of a form.
pub struct Stream {
    appends: u64,
    seed: u64,
    order: Order,
    choice: Choice,
}

enum Choice {
    Uniform { keys: u64 },
    Sizes { ends: Vec<u64> },
    Zipf { draw: Zipf, appends: u64 },
}

/// A record: its key's number, and the bytes of key and record.
pub struct Record {
    /// Distinct for each key. Below the key count, except fresh keys of a full rank, which start at [`FRESH`].
    pub number: u64,
    /// The key's bytes.
    pub key: [u8; KEY_BYTES],
    /// The appended bytes.
    pub tail: [u8; RECORD_BYTES],
}

/// Fresh keys of a rank are numbered from here: generation times this, plus the rank.
pub const FRESH: u64 = 1 << 40;

impl Stream {
    /// Creates a stream of `appends` records for `keys` keys; with `Sizes`, the sizes determine the number of records.
    pub fn new(choice: KeyChoice, keys: u64, appends: u64, seed: u64) -> Outcome<Stream> {
        if keys == 0 || appends < keys && !matches!(choice, KeyChoice::Sizes { .. }) {
            return Err(format!("{appends} appends cannot touch {keys} keys").into());
        }
        let (choice, appends) = match choice {
            KeyChoice::Uniform => (Choice::Uniform { keys }, appends),
            KeyChoice::Zipf { exponent } => (Choice::Zipf { draw: Zipf::new(keys, exponent), appends }, appends),
            KeyChoice::Sizes { exponent } => {
                let ends = size_ends(keys, exponent);
                let appends = *ends.last().expect("1024 sizes");
                (Choice::Sizes { ends }, appends)
            }
        };
        Ok(Stream { appends, seed: mix(seed), order: Order::new(appends, seed), choice })
    }

    /// Returns the number of records.
    pub fn appends(&self) -> u64 {
        self.appends
    }

    /// Returns record `i`.
    pub fn record(&self, i: u64) -> Record {
        let number = self.number(i);
        let key = mix(number ^ self.seed);
        let mut tail = [0; RECORD_BYTES];
        tail[..8].copy_from_slice(&i.to_le_bytes());
        tail[8..].copy_from_slice(&mix(i ^ key).to_le_bytes());
        Record { number, key: key.to_le_bytes(), tail }
    }

    fn number(&self, i: u64) -> u64 {
        match &self.choice {
            Choice::Uniform { keys } => match self.order.at(i) {
                place if place < *keys => place,
                place => below(mix(place ^ self.seed), *keys),
            },
            Choice::Sizes { ends } => {
                let place = self.order.at(i);
                let size = ends.partition_point(|&end| end <= place);
                place - if size == 0 { 0 } else { ends[size - 1] }
            }
            Choice::Zipf { draw, appends } => {
                let rank = draw.rank(i ^ self.seed);
                let generations = (draw.share(rank) * *appends as f64 / RECORDS_AIM as f64).ceil() as u64;
                (i * generations.max(1) / appends) * FRESH + rank
            }
        }
    }
}

/// End of the n-th records of all values that have one, laid out by n, for n from 1.
fn size_ends(keys: u64, exponent: f64) -> Vec<u64> {
    let weight = |n: u64| exp(-exponent * ln(n as f64));
    let total: f64 = (1..=RECORDS_MAX).map(weight).sum();
    let (mut end, mut below_n) = (0, 0.0);
    (1..=RECORDS_MAX)
        .map(|n| {
            end += (keys as f64 * (1.0 - below_n / total)).round() as u64;
            below_n += weight(n);
            end
        })
        .collect()
}

/// Ranks from 0, rank r in proportion to (r + 1)^-exponent.
pub struct Zipf {
    count: f64,
    exponent: f64,
    first: f64,
    last: f64,
    accept: f64,
    total: f64,
}

impl Zipf {
    pub fn new(count: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { count: count as f64, exponent, first: 0.0, last: 0.0, accept: 0.0, total: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(count as f64 + 0.5);
        zipf.accept = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        // The first thousand one by one, the rest by the integral: accurate to a millionth.
        let counted = count.min(1000);
        let head: f64 = (1..=counted).map(|r| zipf.weight(r as f64)).sum();
        zipf.total = head + zipf.last - zipf.integral(counted as f64 + 0.5);
        zipf
    }

    fn weight(&self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// Computes the integral of `weight` from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < 1e-9 { ln(x) } else { (exp(rest * ln(x)) - 1.0) / rest }
    }

    /// Computes the inverse of the integral.
    fn inverse(&self, integral: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < 1e-9 { exp(integral) } else { exp(ln(1.0 + rest * integral) / rest) }
    }

    /// Returns the weight of a rank.
    fn share(&self, rank: u64) -> f64 {
        self.weight(rank as f64 + 1.0) / self.total
    }

    /// Returns the rank for a uniform random number.
    pub fn rank(&self, number: u64) -> u64 {
        let mut random = mix(number);
        loop {
            let unit = (random >> 11) as f64 / (1_u64 << 53) as f64;
            let u = self.last + unit * (self.first - self.last);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.accept || u >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
            random = mix(random);
        }
    }
}

/// Computes the natural logarithm from the four basic operations, which are the same everywhere.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut power = ((bits >> 52) & 0x7FF) as f64 - 1023.0;
    let mut part = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if part > std::f64::consts::SQRT_2 {
        (part, power) = (part / 2.0, power + 1.0);
    }
    // ln part = 2 artanh((part - 1) / (part + 1)), a series in the square of a number below 0.172.
    let z = (part - 1.0) / (part + 1.0);
    let series = (0..11).rev().fold(0.0, |sum, n| sum * z * z + 1.0 / f64::from(2 * n + 1));
    power * std::f64::consts::LN_2 + 2.0 * z * series
}

/// Computes e to the power of `x`, for `x` of at most some hundreds.
fn exp(x: f64) -> f64 {
    let power = (x / std::f64::consts::LN_2).round();
    let rest = x - power * std::f64::consts::LN_2;
    let series = (1..14).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    f64::from_bits(((power as i64 + 1023) as u64) << 52) * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn counts(stream: &Stream) -> HashMap<u64, u64> {
        let mut counts = HashMap::new();
        (0..stream.appends()).for_each(|i| *counts.entry(stream.record(i).number).or_insert(0) += 1);
        counts
    }

    #[test]
    fn logarithms_are_right() {
        for x in [1e-9_f64, 0.3, 1.0, 1.5, 2.0, 1234.5, 7.8e7] {
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "ln {x}");
        }
        for x in [-30.0_f64, -0.7, 0.0, 0.01, 1.0, 18.2] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-14, "exp {x}");
        }
    }

    #[test]
    fn uniform_streams_touch_every_key() {
        let stream = Stream::new(KeyChoice::Uniform, 9750, 26_500, 1).expect("sizes in order");
        let counts = counts(&stream);
        assert_eq!((counts.len(), counts.values().sum::<u64>()), (9750, 26_500));
        assert!(counts.values().all(|&count| count < 20));
    }

    #[test]
    fn zipf_streams_prefer_low_ranks_and_fill_no_value() {
        let stream = Stream::new(KeyChoice::Zipf { exponent: 0.99 }, 100_000, 300_000, 1).expect("sizes in order");
        let counts = counts(&stream);
        let of_rank = |rank| counts.iter().filter(|(number, _)| *number % FRESH == rank).map(|(_, c)| c).sum::<u64>();
        let Choice::Zipf { draw, .. } = &stream.choice else { panic!("a stream by Zipf") };
        for rank in [0, 1, 9, 99] {
            let expected = draw.share(rank) * 300_000.0;
            assert!((of_rank(rank) as f64 - expected).abs() < 5.0 * expected.sqrt(), "rank {rank}: {}", of_rank(rank));
        }
        let largest = counts.values().max().copied();
        assert!(largest.is_some_and(|l| (RECORDS_AIM / 2..=RECORDS_MAX).contains(&l)), "{largest:?}");
    }

    #[test]
    fn sizes_of_values_follow_zipf() {
        let stream = Stream::new(KeyChoice::Sizes { exponent: 2.25 }, 100_000, 100_000, 1).expect("sizes in order");
        let counts = counts(&stream);
        let of_size = |n| counts.values().filter(|&&c| c == n).count() as f64;
        assert_eq!(counts.len(), 100_000);
        for n in [2, 3, 5] {
            let expected = of_size(1) * (n as f64).powf(-2.25);
            assert!((of_size(n) - expected).abs() < 2.0, "{} of size {n}, not {expected}", of_size(n));
        }
        assert!(counts.values().all(|&count| count <= RECORDS_MAX));
    }
}
