//! Skip pointers: the length of a left subtrie in bits, stored as the difference from the expected length.
//!
//! The expected length is a line for each power of two of keys, which the encoder fits to the first tries it writes,
//! and stores. The difference has a fixed width per line; a difference that does not fit is stored as all ones,
//! followed by the length in a gamma code.
//!
//! Cost: 0.12 bits per key in buckets of 256 for tries of 64 or more. A bad fit costs bits, never correctness.
//! Source: own; the paper has none.

use super::bits::{Backward, Reader};

/// The number of lines, one per power of two of keys; the last also covers all larger tries.
pub(super) const CLASSES: usize = 16;
/// Widths that are tried by the encoder and accepted by the reader.
const WIDTHS: std::ops::RangeInclusive<u32> = 2..=24;
/// A class with fewer measured lengths gets the line of the class below, doubled.
const MEASURED_MIN: usize = 16;

/// bits(left) = base + (left - 2^class) * slope / 256, known to `width` bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Class {
    base: u32,
    slope: u16,
    width: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Classes([Class; CLASSES]);

impl Classes {
    /// Lines for random hashes, accurate enough to start a fit with.
    pub(super) fn guessed() -> Classes {
        let class = |c: usize| Class { base: (614 << c) >> 8, slope: 614, width: 4 + c as u32 / 2 };
        Classes(std::array::from_fn(class))
    }

    /// Fits the lines to measured (keys, bits) of left subtries.
    pub(super) fn fitted(measured: &[(u64, u64)]) -> Classes {
        let mut classes = Classes::guessed();
        for c in 0..CLASSES {
            let of_class: Vec<(i64, i64)> = measured
                .iter()
                .filter(|&&(left, _)| number(left) == c)
                .map(|&(left, bits)| (left as i64 - (1 << c), bits as i64))
                .collect();
            if of_class.len() >= MEASURED_MIN {
                classes.0[c] = Class::fitted(&of_class);
            } else if c > 0 {
                classes.0[c] = classes.0[c - 1].doubled();
            }
        }
        classes
    }

    /// Reads the lines from a header. They are all 0 if there are no pointers.
    pub(super) fn read(words: &[u64], used: bool) -> Result<Classes, String> {
        let mut classes = [Class::default(); CLASSES];
        for (class, &word) in classes.iter_mut().zip(words) {
            *class = Class { base: word as u32, slope: (word >> 32) as u16, width: (word >> 48) as u32 };
            if if used { !WIDTHS.contains(&class.width) } else { word != 0 } {
                return Err(format!("trie index: {word:x} describes no skip pointer"));
            }
        }
        Ok(Classes(classes))
    }

    pub(super) fn write(&self) -> [u64; CLASSES] {
        self.0.map(|class| u64::from(class.base) | u64::from(class.slope) << 32 | u64::from(class.width) << 48)
    }

    /// Writes the pointer past a left subtrie of `left` keys and `bits` bits.
    pub(super) fn put(&self, row: &mut Backward, left: u64, bits: u64) {
        let (class, expected) = self.expected(left);
        let all_ones = (1 << class.width) - 1;
        let stored = bits.wrapping_add(class.centre()).wrapping_sub(expected);
        if stored >= all_ones {
            row.put_gamma(bits + 1);
        }
        row.put(stored.min(all_ones), class.width);
    }

    /// Reads the pointer past a left subtrie of `left` keys. Returns the length of the subtrie in bits.
    #[inline]
    pub(super) fn take(&self, reader: &mut Reader<'_>, left: u64) -> Option<u64> {
        let (class, expected) = self.expected(left);
        let stored = reader.take(class.width)?;
        if stored == (1 << class.width) - 1 {
            return Some(reader.take_gamma()? - 1);
        }
        Some(expected.wrapping_add(stored).wrapping_sub(class.centre()))
    }

    #[inline]
    fn expected(&self, left: u64) -> (&Class, u64) {
        let c = number(left);
        let class = &self.0[c];
        (class, u64::from(class.base) + ((left - (1 << c)).saturating_mul(class.slope.into()) >> 8))
    }
}

impl Class {
    /// The number stored for a length that is exactly as expected.
    #[inline]
    fn centre(&self) -> u64 {
        (1 << (self.width - 1)) - 1
    }

    /// The least-squares line through (keys above the class's minimum, bits), and the width with the fewest bits in
    /// total.
    fn fitted(points: &[(i64, i64)]) -> Class {
        let count = points.len() as i128;
        let sum = |f: fn(&(i64, i64)) -> i128| points.iter().map(f).sum::<i128>();
        let (sx, sy) = (sum(|p| p.0.into()), sum(|p| p.1.into()));
        let (sxx, sxy) = (sum(|p| i128::from(p.0).pow(2)), sum(|p| i128::from(p.0) * i128::from(p.1)));
        let spread = count * sxx - sx * sx;
        let slope = (256 * (count * sxy - sx * sy)).checked_div(spread).unwrap_or(0).clamp(0, u16::MAX.into());
        let base = ((sy - ((sx * slope) >> 8)) / count).clamp(0, u32::MAX.into());
        let class = |width| Class { base: base as u32, slope: slope as u16, width };
        WIDTHS.map(class).min_by_key(|class| class.cost(points)).expect("there are widths")
    }

    /// The bits of all pointers with this class's width.
    fn cost(&self, points: &[(i64, i64)]) -> u64 {
        let cost = |&(above, bits): &(i64, i64)| {
            let expected = i64::from(self.base) + ((above * i64::from(self.slope)) >> 8);
            let fits = ((bits - expected + self.centre() as i64) as u64) < (1 << self.width) - 1;
            u64::from(self.width) + if fits { 0 } else { 2 * u64::from((bits as u64 + 1).ilog2()) + 1 }
        };
        points.iter().map(cost).sum()
    }

    /// The line for twice the keys: two such tries, and a little more.
    fn doubled(&self) -> Class {
        Class {
            base: self.base.saturating_mul(2).saturating_add(4),
            slope: self.slope,
            width: (self.width + 1).min(16),
        }
    }
}

/// The class of tries of `left` >= 1 keys.
#[inline]
fn number(left: u64) -> usize {
    (left.ilog2() as usize).min(CLASSES - 1)
}
