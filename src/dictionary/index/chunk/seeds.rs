//! The search for the seeds of a chunk: forward from node to node, and back when a node has none left.
//!
//! A node's window is the 32 bits of the string that end with its own bits. Its candidates are tried in ascending
//! order; the first that splits its keys in halves is taken and the next node is tried. If none is left, the search
//! returns to the previous node and continues after its candidate. In most cases that node is a cousin, not a parent:
//! it does not change the later node's keys, only its window.
//!
//! Keys are 32 bits, mixed from the position. The top bit of `key * window` selects the side that a key goes to; in a
//! leaf the top two bits select its place. Nodes are searched level by level, and a level's keys are partitioned when
//! all its nodes have seeds.
//!
//! The result depends only on the positions and the budgets, not on the machine: it uses integers, and a limit on steps
//! rather than time. Not here: the record that the bits are stored in (`build.rs`), AVX2 instructions (`wide.rs`).

use super::options::key_of;
use super::section::put_bits;
use super::shape::{PREAMBLE, SIZE_LOG2_MAX, SIZE_LOG2_MIN, TreeShape};

const SIZE_MAX: usize = 1 << SIZE_LOG2_MAX;
const NODES_MAX: usize = (1 << (SIZE_LOG2_MAX - SIZE_LOG2_MIN + 1)) - 1;

/// The state of the search at a node.
#[derive(Clone, Copy, Default)]
struct Visit {
    /// The window with zeros for its own bits.
    window: u32,
    /// The node's own bits in the candidate that was taken.
    taken: u32,
    /// The first candidate not tested, and the number of candidates.
    next: u32,
    end: u32,
    /// The candidates, of the eight from `first` on, that split and have not been taken yet.
    splitting: u8,
    first: u32,
}

/// The keys of a chunk, each node's together, and the record of each key.
struct Keys {
    keys: [u32; SIZE_MAX],
    records: [u16; SIZE_MAX],
    /// Buffers for the keys that go to the upper side, while a node's keys are partitioned.
    upper_keys: [u32; SIZE_MAX / 2 + 1],
    upper_records: [u16; SIZE_MAX / 2 + 1],
}

/// Finds the seeds of all nodes, or `None` if no seeds fit or `tested_max` keys were tested.
#[inline(always)]
pub(super) fn search(
    tests: impl Tests,
    shape: &TreeShape,
    positions: &[u64],
    order: &mut Vec<u32>,
    tested_max: u64,
) -> Option<Vec<u64>> {
    let mut keys = Keys::new(positions);
    let mut visits = [Visit::default(); NODES_MAX];
    let own_bits = own_bits(shape);
    let node_count = shape.node_count();
    let mut tested = 0;
    let mut node = 0;
    // The first node whose keys are not partitioned by its current seed.
    let mut changed = 0;
    visits[0].enter(PREAMBLE, own_bits[0]);
    loop {
        let own = keys.of(shape, node);
        if visits[node].advance(tests, own, &mut tested) {
            let window = visits[node].seed();
            node += 1;
            if node == node_count {
                break;
            }
            if (node + 1).is_power_of_two() {
                (changed..node).for_each(|parted| keys.part(shape, parted, visits[parted].seed()));
                changed = node;
            }
            visits[node].enter(window, own_bits[node]);
        } else {
            // Equal keys of unequal positions stay together down to the leaf, whatever the seeds.
            let hopeless = own.len() == 4 && has_twins(own);
            if node == 0 || hopeless || tested > tested_max {
                return None;
            }
            node -= 1;
            changed = changed.min(node);
        }
    }
    let first_leaf = node_count / 2;
    order.clear();
    order.resize(shape.size(), 0);
    for (leaf, visit) in visits[first_leaf..node_count].iter().enumerate() {
        for i in 4 * leaf..4 * leaf + 4 {
            let place = keys.keys[i].wrapping_mul(visit.seed()) >> 30;
            order[4 * leaf + place as usize] = keys.records[i].into();
        }
    }
    Some(string(shape, &own_bits, &visits))
}

/// The number of own bits in each node's seed.
fn own_bits(shape: &TreeShape) -> [u8; NODES_MAX] {
    let mut bits = [0; NODES_MAX];
    let mut above = 0;
    for (i, level) in shape.levels().iter().enumerate() {
        for node in 0..1 << i {
            bits[(1 << i) - 1 + node] = (level.depth(node as u32) - above) as u8;
            above = level.depth(node as u32);
        }
    }
    bits
}

/// The own bits of all nodes, the root's at the top.
fn string(shape: &TreeShape, own_bits: &[u8; NODES_MAX], visits: &[Visit; NODES_MAX]) -> Vec<u64> {
    let mut words = vec![0; shape.seed_bits().div_ceil(64) as usize];
    let mut at = shape.seed_bits();
    for node in 0..shape.node_count() {
        at -= u32::from(own_bits[node]);
        put_bits(&mut words, at.into(), visits[node].taken.into(), own_bits[node].into());
    }
    words
}

fn has_twins(keys: &[u32]) -> bool {
    keys.iter().enumerate().any(|(i, key)| keys[..i].contains(key))
}

impl Visit {
    #[inline(always)]
    fn enter(&mut self, window_before: u32, own_bits: u8) {
        let window = window_before.checked_shl(own_bits.into()).unwrap_or(0);
        *self = Visit { window, end: 1 << own_bits, ..Visit::default() };
    }

    #[inline(always)]
    fn seed(&self) -> u32 {
        self.window | self.taken
    }

    /// Takes the next candidate that splits `keys`; `false` if no candidate does.
    #[inline(always)]
    fn advance(&mut self, tests: impl Tests, keys: &[u32], tested: &mut u64) -> bool {
        while self.splitting == 0 {
            if self.next >= self.end {
                return false;
            }
            let (splitting, count) = splitting(tests, keys, self.window | self.next);
            // The last of eight may be beyond the end.
            self.splitting = splitting & (0xFF >> 8_u32.saturating_sub(self.end - self.next));
            self.first = self.next;
            self.next += count;
            *tested += u64::from(count) * keys.len() as u64;
        }
        self.taken = self.first + self.splitting.trailing_zeros();
        self.splitting &= self.splitting - 1;
        true
    }
}

/// The seeds from `seed` on that split `keys`, one bit each, and the number of seeds tested: eight together if there
/// are too few keys to fill a vector.
#[inline(always)]
fn splitting(tests: impl Tests, keys: &[u32], seed: u32) -> (u8, u32) {
    const FEW: &str = "the length was just compared";
    match keys.len() {
        4 => (tests.permuting(keys.try_into().expect(FEW), seed), 8),
        8 => (tests.halving::<8>(keys.try_into().expect(FEW), seed), 8),
        16 => (tests.halving::<16>(keys.try_into().expect(FEW), seed), 8),
        _ => (u8::from(tests.is_halving(keys, seed)), 1),
    }
}

/// Tests of seeds, for different kinds of processors.
pub(super) trait Tests: Copy {
    /// The seeds, of the eight from `seed` on, that send four keys to four slots, one bit each.
    fn permuting(self, keys: &[u32; 4], seed: u32) -> u8;

    /// The seeds, of the eight from `seed` on, that send half of the keys to the upper side, one bit each.
    fn halving<const N: usize>(self, keys: &[u32; N], seed: u32) -> u8;

    /// Whether a seed sends half of the keys to the upper side. Their number is a multiple of 32.
    fn is_halving(self, keys: &[u32], seed: u32) -> bool;
}

/// [`Tests`] for any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Tests for Portable {
    #[inline(always)]
    fn permuting(self, keys: &[u32; 4], seed: u32) -> u8 {
        let is_permuting = |seed: u32| {
            let places = keys.iter().fold(0_u32, |places, key| places | 1 << (key.wrapping_mul(seed) >> 30));
            places == 0b1111
        };
        (0..8).fold(0, |mask, i| mask | u8::from(is_permuting(seed.wrapping_add(i))) << i)
    }

    #[inline(always)]
    fn halving<const N: usize>(self, keys: &[u32; N], seed: u32) -> u8 {
        let up = |seed: u32| keys.iter().map(|key| key.wrapping_mul(seed) >> 31).sum::<u32>();
        (0..8).fold(0, |mask, i| mask | u8::from(up(seed.wrapping_add(i)) as usize == N / 2) << i)
    }

    #[inline(always)]
    fn is_halving(self, keys: &[u32], seed: u32) -> bool {
        let mut up = [0_u32; 16];
        for keys in keys.chunks_exact(16) {
            for (up, key) in up.iter_mut().zip(keys) {
                *up += key.wrapping_mul(seed) >> 31;
            }
        }
        up.iter().sum::<u32>() as usize == keys.len() / 2
    }
}

impl Keys {
    fn new(positions: &[u64]) -> Keys {
        let (half, halves) = ([0; SIZE_MAX / 2 + 1], [0; SIZE_MAX / 2 + 1]);
        let mut keys = Keys { keys: [0; SIZE_MAX], records: [0; SIZE_MAX], upper_keys: half, upper_records: halves };
        for (i, position) in positions.iter().enumerate() {
            keys.keys[i] = key_of(*position);
            keys.records[i] = i as u16;
        }
        keys
    }

    #[inline(always)]
    fn of(&self, shape: &TreeShape, node: usize) -> &[u32] {
        &self.keys[shape.keys_of(node)]
    }

    /// Partitions the keys of an inner node by its seed: lower side first, then upper side.
    #[inline(always)]
    fn part(&mut self, shape: &TreeShape, node: usize, seed: u32) {
        let own = shape.keys_of(node);
        let size = own.len();
        let (keys, records) = (&mut self.keys[own.clone()], &mut self.records[own]);
        let (upper_keys, upper_records) = (&mut self.upper_keys, &mut self.upper_records);
        let (mut lower, mut upper) = (0, 0);
        for i in 0..size {
            let (key, record) = (keys[i], records[i]);
            let is_up = (key.wrapping_mul(seed) >> 31) as usize;
            // Writes to both sides and counts one, as the side cannot be predicted. Neither index passes `i` or the
            // middle.
            (keys[lower], records[lower]) = (key, record);
            (upper_keys[upper], upper_records[upper]) = (key, record);
            lower += 1 - is_up;
            upper += is_up;
        }
        keys[size / 2..].copy_from_slice(&upper_keys[..size / 2]);
        records[size / 2..].copy_from_slice(&upper_records[..size / 2]);
    }
}
