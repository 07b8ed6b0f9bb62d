//! The filter: tells whether a position can be in the file, so that a lookup of an absent key reads no page.
//!
//! Positions come in ascending order and are cut into *segments* of [`SEGMENT_KEYS`] distinct ones. Each segment is a
//! binary fuse filter: an array of fingerprints in which three slots belong to each position, and XOR to the position's
//! fingerprint. The three are in neighbouring blocks of the array, so they touch few memory pages.
//!
//! ```text
//! position -> segment, by its first position -> hash under its seed -> slots a, b, c
//! may be there   if slot[a] ^ slot[b] ^ slot[c] == fingerprint
//! ```
//!
//! Cost: 9.5 bits per key for 8-bit fingerprints, which let one absent key in 256 pass; 19 bits for 16-bit ones, which
//! let one in 65,536 pass. Segments are independent, so a build of any size needs memory for only a few of them
//! ([`SEGMENT_BUILD_BYTES`] each), and an update rebuilds them while it merges records.
//! Source: Graf & Lemire 2022, Binary Fuse Filters: Fast and Smaller Than Xor Filters. Differs: segments in hash order.
//! Not here: writing the section (`build/filter_writer.rs`).

/// Distinct positions per segment; the last segment has the rest.
pub(crate) const SEGMENT_KEYS: usize = 1 << 16;

/// Bytes that [`solve`] takes, including the segment's positions and its result: at most 52 per position.
pub(crate) const SEGMENT_BUILD_BYTES: u64 = 52 * SEGMENT_KEYS as u64;

/// Words before the directory: fingerprint bits and zeros, number of keys, of segments, and of words of slots.
const HEADER_WORDS: usize = 4;
/// Words per segment in the directory: its first position, and its [`Shape`].
const DIRECTORY_WORDS: usize = 2;

/// Blocks longer than the writer makes are refused: they would only spread a position's slots.
const BLOCK_LOG2_MAX: u32 = 18;
/// A segment has no more blocks than this, so that no number here overflows.
const BLOCKS_MAX: u32 = 1 << 24;

/// Seeds tried before a segment is left without a filter.
const SEEDS_MAX: u32 = 256;
/// After this many seeds a segment gets another block.
const SEEDS_PER_SIZE: u32 = 8;

/// The number of bits of a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterBits {
    Eight,
    Sixteen,
}

impl FilterBits {
    pub fn new(bits: u32) -> Option<FilterBits> {
        match bits {
            8 => Some(FilterBits::Eight),
            16 => Some(FilterBits::Sixteen),
            _ => None,
        }
    }

    pub fn count(self) -> u32 {
        match self {
            FilterBits::Eight => 8,
            FilterBits::Sixteen => 16,
        }
    }
}

/// The layout of a segment's slots, and their hashing. If all zero, there are no slots, and any position may be
/// present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shape {
    seed: u32,
    /// log2 of the number of slots per block.
    block_log2: u32,
    /// Blocks that can contain a position's first slot. There are two more.
    blocks: u32,
}

impl Shape {
    /// The shape for `keys` positions. The sizes are those of the paper, in integers so that every machine makes the
    /// same file.
    fn for_keys(keys: usize) -> Shape {
        // The smallest numbers of keys at which the block size doubles to 8, 16, ... slots: powers of 3.33.
        const DOUBLES_AT: [usize; 9] = [3, 9, 28, 91, 304, 1010, 3361, 11_191, 37_264];
        let block_log2 = 2 + DOUBLES_AT.iter().filter(|at| keys >= **at).count() as u32;
        let slots = keys * 7 / 8 + keys * 5 / (keys.max(2).ilog2() as usize);
        let blocks = (slots.div_ceil(1 << block_log2) as u32).saturating_sub(2).max(1);
        Shape { seed: 0, block_log2, blocks }
    }

    fn slots(self) -> usize {
        if self.blocks == 0 { 0 } else { (self.blocks as usize + 2) << self.block_log2 }
    }

    fn words(self, bits: FilterBits) -> usize {
        self.slots().div_ceil(64 / bits.count() as usize)
    }

    fn word(self) -> u64 {
        u64::from(self.seed) | u64::from(self.block_log2) << 16 | u64::from(self.blocks) << 32
    }

    fn from_word(word: u64) -> Option<Shape> {
        let shape =
            Shape { seed: word as u32 & 0xffff, block_log2: (word >> 16) as u32 & 0xff, blocks: (word >> 32) as u32 };
        let sound = shape.block_log2 <= BLOCK_LOG2_MAX && shape.blocks <= BLOCKS_MAX && shape.word() == word;
        (sound && (shape.blocks > 0 || word == 0)).then_some(shape)
    }

    fn slots_by_hash(self) -> SlotsByHash {
        SlotsByHash {
            added: u64::from(self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            firsts: u64::from(self.blocks) << self.block_log2,
            block: 1 << self.block_log2,
        }
    }
}

/// Maps a position to its slots. Computed once from a [`Shape`].
#[derive(Clone, Copy)]
struct SlotsByHash {
    added: u64,
    /// Number of slots that can be a position's first; 0 if there are no slots.
    firsts: u64,
    /// Slots per block.
    block: u64,
}

impl SlotsByHash {
    /// The hash of a position: murmur3's finalizer, which is invertible, so different positions have different hashes.
    #[inline]
    fn hash(self, position: u64) -> u64 {
        let mut x = position.wrapping_add(self.added);
        x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        x ^ x >> 33
    }

    /// The three slots of a hash. They differ, as they are in three blocks.
    #[inline]
    fn of(self, hash: u64) -> [usize; 3] {
        let SlotsByHash { firsts, block, .. } = self;
        let first = ((u128::from(hash) * u128::from(firsts)) >> 64) as u64;
        let mask = block - 1;
        [first, (first + block) ^ (hash >> 18 & mask), (first + 2 * block) ^ (hash & mask)].map(|slot| slot as usize)
    }
}

/// The fingerprint of a hash; the caller takes its low bits.
#[inline]
fn fingerprint(hash: u64) -> u16 {
    (hash ^ hash >> 32) as u16
}

// ---------------------------------------------------------------------------------------------
// Writing

/// A finished segment: its directory entry and its slots.
pub(crate) struct Segment {
    first_position: u64,
    shape: Shape,
    pub words: Vec<u64>,
}

/// Makes the segment of `positions`, which ascend strictly. If no seed works, it has no slots.
pub(crate) fn solve(bits: FilterBits, positions: &[u64]) -> Segment {
    let first_position = positions.first().copied().unwrap_or_default();
    let size = Shape::for_keys(positions.len());
    for seed in 0..SEEDS_MAX {
        let shape = Shape { seed, blocks: size.blocks + seed / SEEDS_PER_SIZE, ..size };
        if let Some(words) = fill(bits, shape, positions) {
            return Segment { first_position, shape, words };
        }
    }
    Segment { first_position, shape: Shape::default(), words: Vec::new() }
}

/// Computes the fingerprints of all slots by peeling: a position that is alone in some slot is assigned last, so that
/// this slot can correct its XOR whatever the other slots hold. `None` if some positions are not alone anywhere.
fn fill(bits: FilterBits, shape: Shape, positions: &[u64]) -> Option<Vec<u64>> {
    // For each slot: the number of positions that use it, and the XOR of their hashes.
    let mut counts = vec![0u32; shape.slots()];
    let mut hashes = vec![0u64; shape.slots()];
    let slots = shape.slots_by_hash();
    for &position in positions {
        let hash = slots.hash(position);
        for slot in slots.of(hash) {
            counts[slot] += 1;
            hashes[slot] ^= hash;
        }
    }
    let mut alone: Vec<u32> = (0..counts.len() as u32).filter(|slot| counts[*slot as usize] == 1).collect();
    let mut peeled: Vec<(u32, u64)> = Vec::with_capacity(positions.len());
    while let Some(slot) = alone.pop() {
        if counts[slot as usize] == 0 {
            continue;
        }
        let hash = hashes[slot as usize];
        peeled.push((slot, hash));
        for slot in slots.of(hash).map(|slot| slot as u32) {
            counts[slot as usize] -= 1;
            hashes[slot as usize] ^= hash;
            if counts[slot as usize] == 1 {
                alone.push(slot);
            }
        }
    }
    if peeled.len() < positions.len() {
        return None;
    }
    let mut words = vec![0; shape.words(bits)];
    for (own, hash) in peeled.into_iter().rev() {
        // Its own slot is still 0.
        let value = slots.of(hash).into_iter().fold(fingerprint(hash), |sum, slot| sum ^ get(bits, &words, slot));
        set(bits, &mut words, own as usize, value);
    }
    Some(words)
}

/// The value of slot `slot`, zero-extended if it has eight bits.
#[inline(always)]
fn get(bits: FilterBits, words: &[u64], slot: usize) -> u16 {
    match bits {
        FilterBits::Eight => words.get(slot / 8).map_or(0, |word| (word >> (8 * (slot % 8))) as u8).into(),
        FilterBits::Sixteen => words.get(slot / 4).map_or(0, |word| (word >> (16 * (slot % 4))) as u16),
    }
}

/// Sets a slot, which must be 0, to the low bits of `value`.
fn set(bits: FilterBits, words: &mut [u64], slot: usize, value: u16) {
    match bits {
        FilterBits::Eight => words[slot / 8] |= u64::from(value as u8) << (8 * (slot % 8)),
        FilterBits::Sixteen => words[slot / 4] |= u64::from(value) << (16 * (slot % 4)),
    }
}

/// Header and directory of a filter whose segments were added in order.
#[derive(Default)]
pub(crate) struct Directory {
    entries: Vec<u64>,
    slot_words: u64,
}

impl Directory {
    pub fn add(&mut self, segment: &Segment) {
        self.entries.extend([segment.first_position, segment.shape.word()]);
        self.slot_words += segment.words.len() as u64;
    }

    /// The words before the slots, for `keys` distinct positions in all.
    pub fn words(&self, bits: FilterBits, keys: u64) -> Vec<u64> {
        let segments = (self.entries.len() / DIRECTORY_WORDS) as u64;
        let mut words = vec![bits.count().into(), keys, segments, self.slot_words];
        words.extend(&self.entries);
        words
    }
}

// ---------------------------------------------------------------------------------------------
// Reading

/// A filter that passed the checks. It keeps no slots: pass each call the words that were passed to [`Filter::open`].
pub(crate) struct Filter {
    bits: FilterBits,
    keys: u64,
    segments: Vec<OpenSegment>,
}

#[derive(Clone, Copy)]
struct OpenSegment {
    first_position: u64,
    slots: SlotsByHash,
    /// The number of slots before its first one, in all words.
    before: usize,
}

/// The location of the answer for a position.
#[derive(Clone, Copy)]
pub(crate) enum Probe {
    /// In the directory.
    Known(bool),
    /// In these slots, whose XOR is compared with the fingerprint.
    Slots([usize; 3], u16),
}

/// Segments scanned from the expected one on, before a search of all.
const STEPS_MAX: usize = 4;

impl Filter {
    /// Reads header and directory, and checks that the number of words matches them.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn open(words: &[u64]) -> Result<Filter, String> {
        let Some((&[bits, keys, count, slot_words], rest)) = words.split_first_chunk::<HEADER_WORDS>() else {
            return Err(format!("a filter of {} words, without its header", words.len()));
        };
        let bits = u32::try_from(bits).ok().and_then(FilterBits::new);
        let bits = bits.ok_or_else(|| "a filter with fingerprints that have neither 8 nor 16 bits".to_owned())?;
        if count != keys.div_ceil(SEGMENT_KEYS as u64) {
            return Err(format!("a filter of {count} segments for {keys} keys"));
        }
        let directory = usize::try_from(count).ok().and_then(|count| count.checked_mul(DIRECTORY_WORDS));
        let Some((directory, slots)) = directory.and_then(|words| rest.split_at_checked(words)) else {
            return Err(format!("a filter of {count} segments in {} words", words.len()));
        };
        let mut segments: Vec<OpenSegment> = Vec::with_capacity(directory.len() / DIRECTORY_WORDS);
        let mut at = words.len() - slots.len();
        for entry in directory.chunks_exact(DIRECTORY_WORDS) {
            let shape = Shape::from_word(entry[1]);
            let shape = shape.ok_or_else(|| format!("a filter with a segment of shape {:016x}", entry[1]))?;
            if segments.last().is_some_and(|last| last.first_position >= entry[0]) {
                return Err("a filter whose segments do not ascend".to_owned());
            }
            let before = at.saturating_mul(64 / bits.count() as usize);
            segments.push(OpenSegment { first_position: entry[0], slots: shape.slots_by_hash(), before });
            at = at.saturating_add(shape.words(bits));
        }
        if slots.len() as u64 != slot_words || at != words.len() {
            return Err(format!("a filter with {} words of slots, which its directory contradicts", slots.len()));
        }
        Ok(Filter { bits, keys, segments })
    }

    /// Computes where the answer for `position` is, without reading it.
    #[inline]
    pub fn probe(&self, position: u64) -> Probe {
        let Some(segment) = self.segment_of(position) else { return Probe::Known(false) };
        if segment.slots.firsts == 0 {
            return Probe::Known(true);
        }
        let hash = segment.slots.hash(position);
        let slots = segment.slots.of(hash).map(|slot| segment.before + slot);
        Probe::Slots(slots, fingerprint(hash))
    }

    /// Calls `touch` with the indices of the words that [`answer`](Self::answer) will read.
    #[inline]
    pub fn places(&self, probe: Probe, touch: impl FnMut(usize)) {
        let Probe::Slots(slots, _) = probe else { return };
        let slots_per_word = 64 / self.bits.count() as usize;
        slots.map(|slot| slot / slots_per_word).into_iter().for_each(touch);
    }

    /// Reads the answer: whether a key may be at the position, always true if there is one, rarely if not.
    #[inline]
    pub fn answer(&self, words: &[u64], probe: Probe) -> bool {
        let (slots, fingerprint) = match probe {
            Probe::Known(answer) => return answer,
            Probe::Slots(slots, fingerprint) => (slots, fingerprint),
        };
        // Each arm separately, as this is most of the cost of an absent key.
        match self.bits {
            FilterBits::Eight => {
                let [a, b, c] = slots.map(|slot| get(FilterBits::Eight, words, slot));
                (fingerprint ^ a ^ b ^ c) as u8 == 0
            }
            FilterBits::Sixteen => {
                let [a, b, c] = slots.map(|slot| get(FilterBits::Sixteen, words, slot));
                fingerprint ^ a ^ b ^ c == 0
            }
        }
    }

    /// The segment whose range contains `position`. Positions are uniform, so it is near the proportional index.
    #[inline]
    fn segment_of(&self, position: u64) -> Option<&OpenSegment> {
        let segments = &self.segments;
        let mut at = ((u128::from(position) * segments.len() as u128) >> 64) as usize;
        for _ in 0..STEPS_MAX {
            if at > 0 && segments[at].first_position > position {
                at -= 1;
            } else if segments.get(at + 1).is_some_and(|next| next.first_position <= position) {
                at += 1;
            } else {
                return segments.get(at);
            }
        }
        let behind = segments.partition_point(|segment| segment.first_position <= position);
        segments.get(behind.saturating_sub(1))
    }

    pub fn bits(&self) -> FilterBits {
        self.bits
    }

    /// The number of distinct positions.
    pub fn keys(&self) -> u64 {
        self.keys
    }
}

#[cfg(test)]
#[path = "tests/filter.rs"]
mod tests;
