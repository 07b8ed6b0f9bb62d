//! Red-black trees: the page cache of Arcangeli's patch, with one tree of pages for each inode instead of a hash table.
//!
//! Nodes are slots of one array as in `table.rs`; one extra node is the leaf of all trees. A find compares the pages on
//! one path, at most twice the logarithm of the inode's page count.
//!
//! Source: Guibas & Sedgewick 1978, rebalancing as in Cormen, Leiserson & Rivest, chapter 14; Lever 2000, Section 3.1.

use super::functions::PageKey;
use super::table::{NONE, Stream, Table};

/// A child: [`LEFT`] or [`RIGHT`]; the other one is `1 - side`.
type Side = usize;
const LEFT: Side = 0;
const RIGHT: Side = 1;

#[derive(Clone, Copy)]
struct Node {
    offset: u32,
    child: [u32; 2],
    parent: u32,
    red: bool,
}

/// A tree of pages for each inode.
pub struct Trees {
    /// By slot; the last node is the leaf of all trees, which is black.
    nodes: Vec<Node>,
    roots: Vec<u32>,
    sizes: Vec<usize>,
}

impl Trees {
    /// Creates empty trees for all inodes and slots of `stream`.
    pub fn new(stream: &Stream<PageKey>) -> Self {
        let owners = stream.ops.iter().map(|op| op.key.owner as usize + 1).max().unwrap_or(0);
        Self::with_capacity(owners, stream.slots)
    }

    fn with_capacity(owners: usize, slots: usize) -> Self {
        let leaf = u32::try_from(slots).expect("a slot number has 32 bits");
        let blank = Node { offset: 0, child: [leaf; 2], parent: leaf, red: false };
        Self { nodes: vec![blank; slots + 1], roots: vec![leaf; owners], sizes: vec![0; owners] }
    }

    fn leaf(&self) -> u32 {
        self.nodes.len() as u32 - 1
    }

    fn node(&mut self, slot: u32) -> &mut Node {
        &mut self.nodes[slot as usize]
    }

    fn child(&self, slot: u32, side: Side) -> u32 {
        self.nodes[slot as usize].child[side]
    }

    fn parent(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].parent
    }

    fn is_red(&self, slot: u32) -> bool {
        self.nodes[slot as usize].red
    }

    /// Returns which child of its parent a node is.
    fn side(&self, slot: u32) -> Side {
        usize::from(self.child(self.parent(slot), RIGHT) == slot)
    }

    /// Replaces the subtree `old` by `new`.
    fn replace(&mut self, owner: usize, old: u32, new: u32) {
        let parent = self.parent(old);
        if parent == self.leaf() {
            self.roots[owner] = new;
        } else {
            let side = self.side(old);
            self.node(parent).child[side] = new;
        }
        self.node(new).parent = parent;
    }

    /// Rotates `slot` down to `side`; its other child replaces it.
    fn rotate(&mut self, owner: usize, slot: u32, side: Side) {
        let up = self.child(slot, 1 - side);
        let between = self.child(up, side);
        self.node(slot).child[1 - side] = between;
        if between != self.leaf() {
            self.node(between).parent = slot;
        }
        self.replace(owner, slot, up);
        self.node(up).child[side] = slot;
        self.node(slot).parent = up;
    }

    /// Restores the rule that no red node has a red child, after the red node `slot` was inserted.
    fn rebalance_after_insert(&mut self, owner: usize, mut slot: u32) {
        while self.is_red(self.parent(slot)) {
            let parent = self.parent(slot);
            let grandparent = self.parent(parent);
            let side = self.side(parent);
            let uncle = self.child(grandparent, 1 - side);
            if self.is_red(uncle) {
                self.node(parent).red = false;
                self.node(uncle).red = false;
                self.node(grandparent).red = true;
                slot = grandparent;
                continue;
            }
            if self.side(slot) != side {
                slot = parent;
                self.rotate(owner, slot, side);
            }
            let parent = self.parent(slot);
            self.node(parent).red = false;
            self.node(grandparent).red = true;
            self.rotate(owner, grandparent, 1 - side);
        }
        let root = self.roots[owner];
        self.node(root).red = false;
    }

    /// Restores equal black heights, after a black node was removed above `slot`.
    fn rebalance_after_remove(&mut self, owner: usize, mut slot: u32) {
        while slot != self.roots[owner] && !self.is_red(slot) {
            let parent = self.parent(slot);
            let side = self.side(slot);
            let mut sibling = self.child(parent, 1 - side);
            if self.is_red(sibling) {
                self.node(sibling).red = false;
                self.node(parent).red = true;
                self.rotate(owner, parent, side);
                sibling = self.child(parent, 1 - side);
            }
            let (near, far) = (self.child(sibling, side), self.child(sibling, 1 - side));
            if !self.is_red(near) && !self.is_red(far) {
                self.node(sibling).red = true;
                slot = parent;
                continue;
            }
            if !self.is_red(far) {
                self.node(near).red = false;
                self.node(sibling).red = true;
                self.rotate(owner, sibling, 1 - side);
                sibling = self.child(parent, 1 - side);
            }
            self.node(sibling).red = self.is_red(parent);
            self.node(parent).red = false;
            let far = self.child(sibling, 1 - side);
            self.node(far).red = false;
            self.rotate(owner, parent, side);
            slot = self.roots[owner];
        }
        self.node(slot).red = false;
    }
}

impl Table<PageKey> for Trees {
    #[inline]
    fn find(&self, key: &PageKey) -> (u32, u32) {
        let (mut slot, mut compared) = (self.roots[key.owner as usize], 0);
        while slot != self.leaf() {
            let node = &self.nodes[slot as usize];
            compared += 1;
            if node.offset == key.offset {
                return (slot, compared);
            }
            slot = node.child[usize::from(key.offset > node.offset)];
        }
        (NONE, compared)
    }

    fn insert(&mut self, slot: u32, key: PageKey) {
        let owner = key.owner as usize;
        let leaf = self.leaf();
        let (mut parent, mut side, mut at) = (leaf, LEFT, self.roots[owner]);
        while at != leaf {
            parent = at;
            side = usize::from(key.offset > self.nodes[at as usize].offset);
            at = self.child(at, side);
        }
        *self.node(slot) = Node { offset: key.offset, child: [leaf; 2], parent, red: true };
        if parent == leaf {
            self.roots[owner] = slot;
        } else {
            self.node(parent).child[side] = slot;
        }
        self.sizes[owner] += 1;
        self.rebalance_after_insert(owner, slot);
    }

    fn remove(&mut self, slot: u32, key: &PageKey) {
        let owner = key.owner as usize;
        let leaf = self.leaf();
        let [left, right] = self.nodes[slot as usize].child;
        let (moved, lost_black);
        if left == leaf || right == leaf {
            moved = if left == leaf { right } else { left };
            lost_black = !self.is_red(slot);
            self.replace(owner, slot, moved);
        } else {
            // The next page gets the position and color of `slot`; its right child gets the position of the next page.
            let mut next = right;
            while self.child(next, LEFT) != leaf {
                next = self.child(next, LEFT);
            }
            lost_black = !self.is_red(next);
            moved = self.child(next, RIGHT);
            if self.parent(next) == slot {
                self.node(moved).parent = next;
            } else {
                self.replace(owner, next, moved);
                self.node(next).child[RIGHT] = right;
                self.node(right).parent = next;
            }
            self.replace(owner, slot, next);
            self.node(next).child[LEFT] = left;
            self.node(left).parent = next;
            self.node(next).red = self.is_red(slot);
        }
        self.sizes[owner] -= 1;
        if lost_black {
            self.rebalance_after_remove(owner, moved);
        }
    }

    fn sizes(&self) -> Vec<usize> {
        self.sizes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeMap;

    fn key(owner: u32, page: u32) -> PageKey {
        PageKey { inode: 0, offset: page, owner }
    }

    /// Returns the black height below `slot`. Asserts all red-black rules, and appends the pages in order.
    fn black_height(trees: &Trees, slot: u32, pages: &mut Vec<u32>) -> u32 {
        if slot == trees.leaf() {
            return 1;
        }
        let node = trees.nodes[slot as usize];
        for child in node.child.into_iter().filter(|child| *child != trees.leaf()) {
            assert_eq!(trees.parent(child), slot);
            assert!(!(node.red && trees.is_red(child)), "a red node has a red child");
        }
        let left = black_height(trees, node.child[LEFT], pages);
        pages.push(node.offset);
        let right = black_height(trees, node.child[RIGHT], pages);
        assert_eq!(left, right, "unequal black heights");
        left + u32::from(!node.red)
    }

    #[test]
    fn trees_agree_with_a_map_and_keep_the_red_black_rules() {
        let mut random = Random::new(7);
        let mut trees = Trees::with_capacity(2, 300);
        let mut models = [BTreeMap::new(), BTreeMap::new()];
        let mut free: Vec<u32> = (0..300).collect();
        for step in 0..20_000 {
            let owner = random.below(2) as u32;
            let model = &mut models[owner as usize];
            // Alternate between growing and shrinking trees.
            let page = random.below(if step % 5000 < 2500 { 150 } else { 20 }) as u32;
            match model.get(&page).copied() {
                Some(slot) if random.below(3) > 0 => {
                    trees.remove(slot, &key(owner, page));
                    model.remove(&page);
                    free.push(slot);
                }
                Some(slot) => assert_eq!(trees.find(&key(owner, page)).0, slot),
                None => {
                    assert_eq!(trees.find(&key(owner, page)).0, NONE);
                    let slot = free.swap_remove(random.below(free.len() as u64) as usize);
                    trees.insert(slot, key(owner, page));
                    model.insert(page, slot);
                }
            }
            let mut pages = Vec::new();
            let root = trees.roots[owner as usize];
            assert!(!trees.is_red(root) && !trees.is_red(trees.leaf()));
            black_height(&trees, root, &mut pages);
            assert!(pages.iter().eq(models[owner as usize].keys()));
        }
        assert!(trees.sizes().into_iter().eq(models.iter().map(BTreeMap::len)));
    }

    #[test]
    fn a_path_is_at_most_twice_the_logarithm() {
        let mut trees = Trees::with_capacity(1, 4096);
        (0..4096).for_each(|page| trees.insert(page, key(0, page)));
        let longest = (0..4096).map(|page| trees.find(&key(0, page)).1).max();
        assert!(longest.is_some_and(|longest| longest <= 2 * 13), "{longest:?}");
    }
}
