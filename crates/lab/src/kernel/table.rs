//! Chained hash tables as in the kernel, and the replay of the operations of a cache on its table.
//!
//! A bucket is a doubly linked list through the objects, newest first, so an object is removed without a search.
//! Objects are slots of an array and links are slot numbers, which costs the same loads as pointers, in safe Rust.
//!
//! Cost: a find reads the head of a bucket and one node for each object compared.
//! Source: Lever 2000, sections 2 and 3. Not here: trees of pages (`trees.rs`).

use super::functions::Function;

/// No slot.
pub const NONE: u32 = u32::MAX;

/// An operation on a hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Looks up a key; the slot is the expected result, [`NONE`] for a miss.
    Find,
    /// Inserts a key into a slot.
    Insert,
    /// Removes the key from its slot.
    Remove,
}

/// An [`Action`] with its key and slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op<K> {
    /// The operation.
    pub action: Action,
    /// The slot of the object.
    pub slot: u32,
    /// The key of the object.
    pub key: K,
}

/// All operations of one cache on its table, in order.
#[derive(Clone, Debug)]
pub struct Stream<K> {
    /// The operations in order.
    pub ops: Vec<Op<K>>,
    /// The number of slots.
    pub slots: usize,
    /// The number of `ops` that belong to the load; the rest clean up.
    pub mark: usize,
}

impl<K> Default for Stream<K> {
    fn default() -> Self {
        Self { ops: Vec::new(), slots: 0, mark: 0 }
    }
}

impl<K> Stream<K> {
    /// Returns the number of lookups in `ops`.
    pub fn lookups(&self) -> u64 {
        self.ops.iter().filter(|op| op.action == Action::Find).count() as u64
    }

    /// Returns the number of unsuccessful lookups in `ops`.
    pub fn unsuccessful(&self) -> u64 {
        self.ops.iter().filter(|op| op.action == Action::Find && op.slot == NONE).count() as u64
    }
}

/// A table of cached objects.
pub trait Table<K> {
    /// Returns the slot of the key or [`NONE`], and the number of objects compared.
    fn find(&self, key: &K) -> (u32, u32);
    /// Called after a successful [`find`](Self::find), for tables that remember the last object.
    #[inline]
    fn found(&mut self, _slot: u32, _key: &K) {}
    /// Inserts a new key into a free slot.
    fn insert(&mut self, slot: u32, key: K);
    /// Removes the key in the slot.
    fn remove(&mut self, slot: u32, key: &K);
    /// Returns the number of objects in each bucket, tree or list.
    fn sizes(&self) -> Vec<usize>;
}

#[derive(Clone, Copy)]
struct Node<K> {
    key: K,
    next: u32,
    /// [`NONE`] for the first node of a bucket.
    previous: u32,
}

/// A chained hash table of `1 << bits` buckets.
pub struct Chains<K, F> {
    heads: Vec<u32>,
    /// By slot; the contents of unused slots do not matter.
    nodes: Vec<Node<K>>,
    function: F,
    bits: u32,
}

impl<K: Copy, F: Function<K>> Chains<K, F> {
    /// Creates an empty table for slots below `slots`; `blank` is any key.
    pub fn new(function: F, bits: u32, slots: usize, blank: K) -> Self {
        let nodes = vec![Node { key: blank, next: NONE, previous: NONE }; slots];
        Self { heads: vec![NONE; 1 << bits], nodes, function, bits }
    }

    /// Returns the bucket of `key`.
    #[inline]
    pub fn bucket_of(&self, key: &K) -> u32 {
        self.function.bucket(key, self.bits)
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

    fn sizes(&self) -> Vec<usize> {
        let sizes = self.heads.iter().map(|head| {
            std::iter::successors(self.node(*head), |node| self.node(node.next)).take(self.nodes.len()).count()
        });
        sizes.collect()
    }
}

/// The counts of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Successful lookups.
    pub successful: u64,
    /// Unsuccessful lookups.
    pub unsuccessful: u64,
    /// Objects compared in successful lookups.
    pub compared_in_successful: u64,
    /// Objects compared in unsuccessful lookups.
    pub compared_in_unsuccessful: u64,
}

impl Counts {
    /// Returns the number of all lookups.
    pub fn lookups(&self) -> u64 {
        self.successful + self.unsuccessful
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.successful += other.successful;
        self.unsuccessful += other.unsuccessful;
        self.compared_in_successful += other.compared_in_successful;
        self.compared_in_unsuccessful += other.compared_in_unsuccessful;
    }
}

/// Replays `ops` on `table` and counts. Asserts that every lookup finds the expected slot.
pub fn replay<K: Copy + Eq, T: Table<K>>(ops: &[Op<K>], table: &mut T) -> Counts {
    let mut counts = Counts::default();
    for op in ops {
        match op.action {
            Action::Find => {
                let (found, compared) = table.find(&op.key);
                assert!(found == op.slot, "a table finds exactly what its cache holds");
                if found == NONE {
                    counts.unsuccessful += 1;
                    counts.compared_in_unsuccessful += u64::from(compared);
                } else {
                    table.found(found, &op.key);
                    counts.successful += 1;
                    counts.compared_in_successful += u64::from(compared);
                }
            }
            Action::Insert => table.insert(op.slot, op.key),
            Action::Remove => table.remove(op.slot, &op.key),
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
    fn a_bucket_is_searched_newest_first() {
        let mut table = Chains::new(BufferFunction::Stock, 8, 3, key(0));
        (0..3).for_each(|slot| table.insert(slot, key(slot * 256 + 7)));
        assert_eq!(table.find(&key(2 * 256 + 7)), (2, 1));
        assert_eq!(table.find(&key(7)), (0, 3));
        assert_eq!(table.find(&key(3 * 256 + 7)), (NONE, 3));
        assert_eq!(table.find(&key(8)), (NONE, 0));
    }

    #[test]
    fn objects_are_removed_from_the_front_the_middle_and_the_end() {
        for removed in 0..3 {
            let mut table = Chains::new(BufferFunction::Stock, 8, 3, key(0));
            (0..3).for_each(|slot| table.insert(slot, key(slot * 256)));
            table.remove(removed, &key(removed * 256));
            for slot in 0..3 {
                let expected = if slot == removed { NONE } else { slot };
                assert_eq!(table.find(&key(slot * 256)).0, expected, "{removed} removed");
            }
            assert_eq!(table.sizes().into_iter().max(), Some(2));
        }
    }
}
