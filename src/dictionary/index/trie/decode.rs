//! Follows a position down the trie of its bucket.
//!
//! Going left costs decoding the code at the root. Going right requires skipping the left subtrie: with its skip
//! pointer; or code by code down to tries of [`SMALL`] keys, and those with the skip table, several codes per access.
//! Sparse indexes are read code by code, because which subtries are not stored depends on their ranks.
//!
//! The words are not trusted: reading ends where the bucket's bits do, every code consumes at least one bit, and
//! recursion is bounded.
//! Source: Lim, Andersen & Kaminsky 2013, sections 2.4 and 2.6. Not here: how the tables are made (`tables.rs`).

use std::ops::Range;
use std::sync::Arc;

use super::bits::Reader;
use super::section::{
    Blocks, HEADER_WORDS, MAGIC, PageShape, SUPERBLOCK_HEAD, TrieLayout, TrieOptions, WIDE, check_layout,
};
use super::skip::Classes;
use super::tables::{SMALL, Tables, WINDOW};

/// The maximum nesting of left subtries: one for each bit of the position, then halves of up to 2^48 equal ones.
pub(super) const NESTED_MAX: u32 = 64 + 50;

/// An index that passed the checks: its header, and tables to decode it with.
///
/// The caller keeps the words and passes the same ones to each call.
pub(crate) struct Trie {
    options: TrieOptions,
    is_dense: bool,
    layout: TrieLayout,
    classes: Classes,
    tables: Arc<Tables>,
    blocks: Blocks,
    /// The size from which tries have a skip pointer.
    skip_from: u64,
}

impl Trie {
    /// Reads the header; O(1).
    ///
    /// # Errors
    /// A sentence that says what is wrong with the header, to be appended to the name of the file.
    pub fn open(words: &[u64]) -> Result<Trie, String> {
        let Some((header, _)) = words.split_first_chunk::<HEADER_WORDS>() else {
            return Err(format!("trie index of {} words, its header alone has {HEADER_WORDS}", words.len()));
        };
        if header[0] != MAGIC {
            return Err(format!("trie index begins with {:016x}, not with {MAGIC:016x}", header[0]));
        }
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let (bucket_keys, huffman_max) = halves(header[2]);
        let (skip_min, block_items) = halves(header[3]);
        let (record_bytes, body_bytes) = halves(header[7]);
        let page = PageShape { record_bytes, body_bytes };
        let options = TrieOptions { bucket_keys, huffman_max, skip_min, block_items, page };
        options.check().map_err(|e| format!("trie index: {e}"))?;
        let (bucket_bits, superblock_bits) = halves(header[4]);
        let layout =
            TrieLayout { pairs: header[1], bucket_bits, superblock_bits, trie_bits: header[5], wide_count: header[6] };
        check_layout(&layout, words.len() as u64)?;
        let classes = Classes::read(&header[8..], skip_min != 0)?;
        let blocks = options.blocks();
        let skip_from = options.skip_from();
        let is_dense = options.is_dense();
        let trie = Trie { options, is_dense, layout, classes, tables: Tables::of(huffman_max), blocks, skip_from };
        let last = trie.bucket(words, (1 << bucket_bits) - 1);
        if last.is_none_or(|b| b.rank + b.count != layout.pairs || b.end != layout.trie_bits) {
            return Err("trie index: the last bucket does not end with the pairs and the tries".to_owned());
        }
        Ok(trie)
    }

    /// The ranks that a pair at `position` may have: exactly one; or those of all pairs with this position; or, in a
    /// sparse index, those of some pairs of one block. If there is no such pair, any ranks or none.
    pub fn locate(&self, words: &[u64], position: u64) -> Range<u64> {
        let Some((mut reader, mut place)) = self.start(words, position) else { return 0..0 };
        if self.descend(&mut reader, &mut place).is_none() {
            // The words contradict themselves: return no ranks.
            place.give_up();
        }
        place.ranks()
    }

    /// Calls [`Trie::locate`] for each position and pushes the results in order.
    pub fn locate_many(&self, words: &[u64], positions: &[u64], ranges: &mut Vec<Range<u64>>) {
        ranges.extend(positions.iter().map(|&position| self.locate(words, position)));
    }

    /// The options it was built with.
    pub fn options(&self) -> TrieOptions {
        self.options
    }

    /// Pairs in the index.
    pub fn pairs(&self) -> u64 {
        self.layout.pairs
    }

    /// Virtual buckets.
    pub fn bucket_count(&self) -> u64 {
        1 << self.layout.bucket_bits
    }

    /// The number of buckets per superblock.
    pub fn superblock_buckets(&self) -> u64 {
        1 << self.layout.superblock_bits
    }

    /// The number of superblocks with wide offsets: a large number indicates a poor hash function.
    pub fn wide_superblock_count(&self) -> u64 {
        self.layout.wide_count
    }

    /// Bits of all tries, skip pointers included.
    pub fn bits_of_tries(&self) -> u64 {
        self.layout.trie_bits
    }

    /// Bits of the two-level table, wide superblocks included.
    pub fn bits_of_buckets(&self) -> u64 {
        let wide = self.layout.wide_count * self.layout.wide_words() as u64;
        64 * (self.layout.superblock_count() * self.layout.superblock_words() as u64 + wide)
    }

    /// Bits of all words.
    #[cfg(test)]
    pub fn bits(&self) -> u64 {
        64 * (self.layout.words().expect("checked by open"))
    }
}

/// The entry of a bucket in the two-level table.
pub(super) struct Bucket {
    /// Number of ranks before it.
    pub rank: u64,
    pub count: u64,
    /// The range of its trie's bits.
    pub at: u64,
    pub end: u64,
}

/// The subtrie that a lookup has reached: `count` keys from `rank` on. They are distinguished by the bits of `path`,
/// the highest first.
#[derive(Default)]
pub(super) struct Subtrie {
    rank: u64,
    pub count: u64,
    path: u64,
    /// The number of bits of the position used so far.
    pub depth: u32,
}

impl Subtrie {
    /// Ends the lookup with no ranks.
    pub fn give_up(&mut self) {
        self.count = 0;
    }

    /// Moves to the left or right subtrie; both have keys.
    #[inline]
    fn choose(&mut self, left: u64) {
        let right = self.path >> 63;
        self.rank += left * right;
        self.count = if right == 1 { self.count - left } else { left };
        self.deeper();
    }

    #[inline]
    fn deeper(&mut self) {
        self.path <<= 1;
        self.depth += 1;
    }

    fn goes_right(&self) -> bool {
        self.path >> 63 == 1
    }

    pub fn ranks(&self) -> Range<u64> {
        self.rank..self.rank + self.count
    }
}

impl Trie {
    /// The entry of bucket `number` in the table; `None` if it contradicts itself.
    #[inline]
    pub(super) fn bucket(&self, words: &[u64], number: u64) -> Option<Bucket> {
        let layout = &self.layout;
        let (superblock, i) =
            (number >> layout.superblock_bits, (number & ((1 << layout.superblock_bits) - 1)) as usize);
        let at = HEADER_WORDS + superblock as usize * layout.superblock_words();
        let place = words.get(at..at + layout.superblock_words())?;
        if place[0] & WIDE != 0 {
            return self.wide_bucket(words, place[1], i);
        }
        let entry = |i: usize| place[SUPERBLOCK_HEAD + i / 2] >> (32 * (i % 2)) & 0xffff_ffff;
        let (start, end) = (if i == 0 { 0 } else { entry(i - 1) }, entry(i));
        self.checked((place[0], place[1]), (start >> 16, start & 0xffff), (end >> 16, end & 0xffff))
    }

    #[cold]
    fn wide_bucket(&self, words: &[u64], number: u64, i: usize) -> Option<Bucket> {
        if number >= self.layout.wide_count {
            return None;
        }
        let at = self.layout.wide_at() + number * self.layout.wide_words() as u64 + 2 * i as u64;
        let ends = words.get(at as usize..at as usize + 4)?;
        self.checked((0, 0), (ends[0], ends[1]), (ends[2], ends[3]))
    }

    /// The bucket between `start` and `end`, which are relative to `origin`, each as (bits, ranks); `None` if it is not
    /// within the index.
    #[inline]
    fn checked(&self, origin: (u64, u64), start: (u64, u64), end: (u64, u64)) -> Option<Bucket> {
        let at = |place: (u64, u64)| Some((origin.0.checked_add(place.0)?, origin.1.checked_add(place.1)?));
        let (start, end) = (at(start)?, at(end)?);
        let ordered =
            start.0 <= end.0 && start.1 <= end.1 && end.0 <= self.layout.trie_bits && end.1 <= self.layout.pairs;
        ordered.then(|| Bucket { rank: start.1, count: end.1 - start.1, at: start.0, end: end.0 })
    }

    /// The trie of the bucket of `position`; `None` if the words contradict themselves.
    #[inline]
    pub(super) fn start<'a>(&self, words: &'a [u64], position: u64) -> Option<(Reader<'a>, Subtrie)> {
        let depth = self.layout.bucket_bits;
        let bucket = self.bucket(words, position.checked_shr(64 - depth).unwrap_or(0))?;
        let tries = words.get(self.layout.tries_at() as usize..self.layout.wide_at() as usize)?;
        let place = Subtrie { rank: bucket.rank, count: bucket.count, path: position << depth, depth };
        Some((Reader::new(tries, bucket.at, bucket.end), place))
    }

    /// Descends to the end of the path; `None` if the bits contradict themselves.
    #[inline]
    pub(super) fn descend(&self, reader: &mut Reader<'_>, place: &mut Subtrie) -> Option<()> {
        if !self.is_dense {
            return self.descend_sparse(reader, place);
        }
        while place.count > SMALL && place.depth < 64 {
            let left = self.choose_large(reader, place)?;
            self.pass_large(reader, left, NESTED_MAX)?;
        }
        while place.count >= 2 && place.depth < 64 {
            let left = self.choose_small(reader, place)?;
            self.pass_small(reader, left)?;
        }
        Some(())
    }

    /// Descends one bit in a trie of more than [`SMALL`] keys. Returns the size of the trie to skip before the next
    /// code, or 0.
    #[inline]
    pub(super) fn choose_large(&self, reader: &mut Reader<'_>, place: &mut Subtrie) -> Option<u64> {
        let left = self.tables.root(reader, place.count)?;
        if left == 0 {
            place.deeper();
            return Some(0);
        }
        let pass = match self.take_skip(reader, place.count, left)? {
            _ if !place.goes_right() => 0,
            Some(bits) => {
                reader.jump(bits)?;
                0
            }
            None => left,
        };
        place.choose(left);
        Some(pass)
    }

    /// Descends in a trie of up to [`SMALL`] keys.
    #[inline]
    pub(super) fn choose_small(&self, reader: &mut Reader<'_>, place: &mut Subtrie) -> Option<u64> {
        reader.need(WINDOW)?;
        let look = self.tables.descent(place.count, reader.window());
        if look.both_len() != 0 && look.left() != 0 {
            reader.pass(if place.goes_right() { look.both_len() } else { look.code_len() });
            place.choose(look.left());
            return Some(0);
        }
        // Rare: the window has only the code, or not even that, or there is nothing to choose.
        let left = self.tables.root(reader, place.count)?;
        if left == 0 {
            place.deeper();
            return Some(0);
        }
        let pass = if place.goes_right() { left } else { 0 };
        place.choose(left);
        Some(pass)
    }

    /// Whether a pointer has the length of the left subtrie.
    #[inline(always)]
    fn has_skip(&self, size: u64, left: u64) -> bool {
        size >= self.skip_from && !self.blocks.hold(0, left)
    }

    /// The length of the left subtrie in bits, if a pointer has it.
    #[inline(always)]
    pub(super) fn take_skip(&self, reader: &mut Reader<'_>, size: u64, left: u64) -> Option<Option<u64>> {
        if self.has_skip(size, left) { Some(Some(self.classes.take(reader, left)?)) } else { Some(None) }
    }

    /// Skips a trie of any size.
    fn pass_large(&self, reader: &mut Reader<'_>, mut size: u64, nested: u32) -> Option<()> {
        while size > SMALL {
            let left = self.tables.root(reader, size)?;
            if left == 0 {
                continue;
            }
            match self.take_skip(reader, size, left)? {
                Some(bits) => reader.jump(bits)?,
                None => self.pass_large(reader, left, nested.checked_sub(1)?)?,
            }
            size -= left;
        }
        self.pass_small(reader, size)
    }

    /// Skips a trie of up to [`SMALL`] keys.
    #[inline]
    fn pass_small(&self, reader: &mut Reader<'_>, size: u64) -> Option<()> {
        if size < 2 {
            return Some(());
        }
        self.pass_state(reader, size as u8)
    }

    /// Skips the tries of a state of the skip table.
    fn pass_state(&self, reader: &mut Reader<'_>, mut state: u8) -> Option<()> {
        // The states on the stack are disjoint parts of one trie of SMALL keys, each of 2 or more keys; 0 is below them
        // all.
        let mut stack = [0u8; 16];
        let mut top = 1usize;
        loop {
            reader.need(WINDOW)?;
            let step = self.tables.step(state, reader.window());
            if step.passed() == 0 {
                self.pass_long(reader, state)?;
            }
            reader.pass(step.passed());
            let below = stack[(top - 1) & 15];
            stack[top & 15] = step.push();
            top += usize::from(step.push() != 0);
            state = step.next();
            if state == 0 {
                state = below;
                top -= 1;
                if state == 0 {
                    return Some(());
                }
            }
        }
    }

    /// Skips the tries of a state whose first code is longer than the window.
    #[cold]
    pub(super) fn pass_long(&self, reader: &mut Reader<'_>, state: u8) -> Option<()> {
        let (&size, rest) = self.tables.parts(state).split_first()?;
        let mut left = 0;
        // A loop and not recursion: untrusted bits may repeat this any number of times.
        while left == 0 {
            left = self.tables.root(reader, size)?;
        }
        self.pass_small(reader, left)?;
        self.pass_small(reader, size - left)?;
        rest.iter().try_for_each(|&size| self.pass_small(reader, size))
    }

    fn descend_sparse(&self, reader: &mut Reader<'_>, place: &mut Subtrie) -> Option<()> {
        let blocks = self.blocks;
        let mut within = blocks.within(place.rank);
        while !blocks.end_at(within, place.count) && place.depth < 64 {
            let left = self.tables.root(reader, place.count)?;
            if left == 0 {
                place.deeper();
                continue;
            }
            // With a pointer, whether or not the left subtrie is stored.
            let bits = if self.has_skip(place.count, left) { Some(self.classes.take(reader, left)?) } else { None };
            if place.goes_right() {
                match bits {
                    Some(bits) => reader.jump(bits)?,
                    None if !blocks.end_at(within, left) => self.pass_sparse(reader, left, within, NESTED_MAX)?,
                    None => {}
                }
                within = blocks.advance(within, left);
            }
            place.choose(left);
        }
        Some(())
    }

    /// Skips a trie that extends over more than one block and begins at `within` of a block.
    fn pass_sparse(&self, reader: &mut Reader<'_>, mut size: u64, mut within: u64, nested: u32) -> Option<()> {
        let blocks = self.blocks;
        while !blocks.end_at(within, size) {
            let left = self.tables.root(reader, size)?;
            if left == 0 {
                continue;
            }
            if self.has_skip(size, left) {
                let bits = self.classes.take(reader, left)?;
                reader.jump(bits)?;
            } else if !blocks.end_at(within, left) {
                self.pass_sparse(reader, left, within, nested.checked_sub(1)?)?;
            }
            size -= left;
            within = blocks.advance(within, left);
        }
        Some(())
    }
}
