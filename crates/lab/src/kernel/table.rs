//! The tables: chained hash tables as the kernel has them; and a replay of what a cache asked of its table.
//!
//! A bucket is a chain through the objects themselves, the newest first, linked both ways so that an object leaves without a
//! search. Objects are numbered slots of an array, and links are numbers: the same loads as with pointers, in safe Rust.
//!
//! Cost: a find reads the head of a bucket and one node for each object that it compares.
//! Source: Lever 2000, sections 2 and 3. Not here: trees of pages (`trees.rs`).

use super::functions::Function;

/// No slot.
pub const NONE: u32 = u32::MAX;

/// One thing that a cache asks of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Find the key; the slot is what the cache knows to be there, [`NONE`] for a miss.
    Find,
    /// Put the key into the slot.
    Insert,
    /// Take it out again.
    Remove,
}

/// An [`Ask`] with its key and slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op<K> {
    /// What is asked.
    pub ask: Ask,
    /// Where the object is.
    pub slot: u32,
    /// What it is found by.
    pub key: K,
}

/// All that one cache asked of its table, in order.
#[derive(Clone, Debug)]
pub struct Stream<K> {
    /// In order.
    pub ops: Vec<Op<K>>,
    /// How many slots there are.
    pub slots: usize,
    /// How many of `ops` belong to the load itself, before what it made is cleaned away.
    pub mark: usize,
}

impl<K> Default for Stream<K> {
    fn default() -> Self {
        Self { ops: Vec::new(), slots: 0, mark: 0 }
    }
}

impl<K> Stream<K> {
    /// How many of the ops are lookups.
    pub fn lookups(&self) -> u64 {
        self.ops.iter().filter(|op| op.ask == Ask::Find).count() as u64
    }
}

/// What holds the objects of a cache.
pub trait Table<K> {
    /// The slot of the key or [`NONE`], and how many objects were compared.
    fn find(&self, key: &K) -> (u32, u32);
    /// Puts a key, which is not there, into a slot, which is free.
    fn insert(&mut self, slot: u32, key: K);
    /// Takes out what is in the slot.
    fn remove(&mut self, slot: u32, key: &K);
}

#[derive(Clone, Copy)]
struct Node<K> {
    key: K,
    next: u32,
    /// [`NONE`] for the first of a bucket.
    previous: u32,
}

/// A chained hash table of `1 << bits` buckets.
pub struct Chains<K, F> {
    heads: Vec<u32>,
    /// By slot; what a slot had before it was first used does not matter.
    nodes: Vec<Node<K>>,
    function: F,
    bits: u32,
}

impl<K: Copy, F: Function<K>> Chains<K, F> {
    /// Empty, for slots below `slots`; `blank` is any key.
    pub fn new(function: F, bits: u32, slots: usize, blank: K) -> Self {
        let nodes = vec![Node { key: blank, next: NONE, previous: NONE }; slots];
        Self { heads: vec![NONE; 1 << bits], nodes, function, bits }
    }

    /// How many objects each bucket has.
    pub fn bucket_sizes(&self) -> impl Iterator<Item = usize> {
        self.heads.iter().map(|head| {
            std::iter::successors(self.node(*head), |node| self.node(node.next)).take(self.nodes.len()).count()
        })
    }

    fn node(&self, slot: u32) -> Option<&Node<K>> {
        self.nodes.get(slot as usize)
    }
}

impl<K: Copy + Eq, F: Function<K>> Table<K> for Chains<K, F> {
    #[inline]
    fn find(&self, key: &K) -> (u32, u32) {
        let (mut slot, mut compared) = (self.heads[self.function.bucket(key, self.bits) as usize], 0);
        while let Some(node) = self.node(slot) {
            compared += 1;
            if node.key == *key {
                return (slot, compared);
            }
            slot = node.next;
        }
        (NONE, compared)
    }

    #[inline]
    fn insert(&mut self, slot: u32, key: K) {
        let head = &mut self.heads[self.function.bucket(&key, self.bits) as usize];
        let next = std::mem::replace(head, slot);
        self.nodes[slot as usize] = Node { key, next, previous: NONE };
        if let Some(node) = self.nodes.get_mut(next as usize) {
            node.previous = slot;
        }
    }

    #[inline]
    fn remove(&mut self, slot: u32, key: &K) {
        let Node { next, previous, .. } = self.nodes[slot as usize];
        match self.nodes.get_mut(previous as usize) {
            Some(node) => node.next = next,
            None => self.heads[self.function.bucket(key, self.bits) as usize] = next,
        }
        if let Some(node) = self.nodes.get_mut(next as usize) {
            node.previous = previous;
        }
    }
}

/// What a replay counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lookups that found their object.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Objects compared in those that did.
    pub compared_in_hits: u64,
    /// Objects compared in those that did not.
    pub compared_in_misses: u64,
}

impl Counts {
    /// Of all kinds.
    pub fn lookups(&self) -> u64 {
        self.hits + self.misses
    }
}

/// Asks `table` what the cache asked of its own, and counts. Every answer is held against the cache's.
pub fn replay<K: Copy + Eq, T: Table<K>>(ops: &[Op<K>], table: &mut T) -> Counts {
    let mut counts = Counts::default();
    for op in ops {
        match op.ask {
            Ask::Find => {
                let (found, compared) = table.find(&op.key);
                assert!(found == op.slot, "a table finds what its cache has, and nothing else");
                if found == NONE {
                    counts.misses += 1;
                    counts.compared_in_misses += u64::from(compared);
                } else {
                    counts.hits += 1;
                    counts.compared_in_hits += u64::from(compared);
                }
            }
            Ask::Insert => table.insert(op.slot, op.key),
            Ask::Remove => table.remove(op.slot, &op.key),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::functions::{BufferFunction, BufferKey};

    fn key(block: u32) -> BufferKey {
        BufferKey { device: 0, block }
    }

    #[test]
    fn a_bucket_has_its_newest_object_first() {
        let mut table = Chains::new(BufferFunction::Stock, 8, 3, key(0));
        (0..3).for_each(|slot| table.insert(slot, key(slot * 256 + 7)));
        assert_eq!(table.find(&key(2 * 256 + 7)), (2, 1));
        assert_eq!(table.find(&key(7)), (0, 3));
        assert_eq!(table.find(&key(3 * 256 + 7)), (NONE, 3));
        assert_eq!(table.find(&key(8)), (NONE, 0));
    }

    #[test]
    fn an_object_leaves_from_the_front_the_middle_and_the_end() {
        for gone in 0..3 {
            let mut table = Chains::new(BufferFunction::Stock, 8, 3, key(0));
            (0..3).for_each(|slot| table.insert(slot, key(slot * 256)));
            table.remove(gone, &key(gone * 256));
            for slot in 0..3 {
                let expected = if slot == gone { NONE } else { slot };
                assert_eq!(table.find(&key(slot * 256)).0, expected, "{gone} gone");
            }
            assert_eq!(table.bucket_sizes().max(), Some(2));
        }
    }
}
