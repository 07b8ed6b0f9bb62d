//! Repeatable numbers: a stream, a mixer, and shuffled orders that need no memory.
//!
//! Inputs of hundreds of millions of records are generated from their number, a piece at a time: [`mix`] makes a
//! unique key from it, [`Order`] maps positions to numbers. The results are the same on every machine.
//!
//! Source: splitmix64 (Steele, Lea & Flood 2014); cycle walking (Black & Rogaway 2002).

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns a random-looking number, distinct for each `x`: the last step of splitmix64.
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns a number below `bound` from a random one; its bias is too small to affect a benchmark.
pub fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// A repeatable stream of numbers.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(GOLDEN);
        number
    }

    /// Returns a key of 16 bytes.
    pub fn pair_key(&mut self) -> [u8; 16] {
        let (a, b) = (self.next().to_le_bytes(), self.next().to_le_bytes());
        [a, b].concat().try_into().expect("16 bytes")
    }
}

/// A permutation of the numbers below a count, evaluated at any position.
pub struct Order {
    count: u64,
    mask: u64,
    shift: u32,
    seed: u64,
}

impl Order {
    /// A different permutation for each `seed`.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = count.max(4).next_power_of_two().trailing_zeros();
        Order { count, mask: (1 << bits) - 1, shift: bits.div_ceil(2), seed: mix(seed) }
    }

    /// Returns the number at position `at`. Follows a permutation of a power of two until the result is below the
    /// count: at most two steps on average.
    pub fn at(&self, at: u64) -> u64 {
        debug_assert!(at < self.count, "position beyond the end of the order");
        let mut x = at;
        loop {
            // Each step is invertible within the bits of the mask, so the map is a bijection.
            for constant in [0xD6E8_FEB8_6659_FD93, 0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB] {
                x = x.wrapping_add(self.seed) & self.mask;
                x = x.wrapping_mul(constant) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_number_once() {
        for count in [1, 2, 3, 5, 64, 1000, 1025] {
            let order = Order::new(count, 7);
            let mut numbers: Vec<u64> = (0..count).map(|i| order.at(i)).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn orders_of_other_seeds_are_others() {
        let first = |seed| (0..20).map(|i| Order::new(1000, seed).at(i)).collect::<Vec<_>>();
        assert_ne!(first(1), first(2));
        assert_eq!(first(1), first(1));
    }
}
