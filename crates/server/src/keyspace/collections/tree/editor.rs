//! Changes of a tree: its nodes are read when a change needs them, and stored together.

use super::{BAD_ENTRY, Entries, Entry, FREE, Key, NoEntry, Place, check_level, damaged_node, entries_of, order};
use crate::keyspace::collections::elements;
use crate::keyspace::collections::shape::{NODES, Tree};
use crate::keyspace::pairs::PairsMut;
use crate::keyspace::{Result, SpaceError};
use splitpoint::{Error, ErrorKind};
use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};

/// A longer node is divided.
const NODE_BYTES: usize = 1024;
/// The capacity for a node and an element that is added to it.
const NODE_CAPACITY: usize = NODE_BYTES + 128;
/// A shorter node is merged with a neighbour, if together they are not longer than [`MERGED_BYTES`].
const MERGED_BELOW_BYTES: usize = NODE_BYTES / 4;
const MERGED_BYTES: usize = NODE_BYTES / 4 * 3;
/// Nodes that a change keeps in memory before it stores some.
const LOADED_MAX: usize = 1000;

/// Nodes that a change has read, and may have changed.
#[derive(Default)]
pub(in crate::keyspace::collections) struct Loaded(BTreeMap<u64, Node>);

struct Node {
    run: Vec<u8>,
    was_there: bool,
    is_changed: bool,
}

/// An inner node on the way to a leaf, and the child's position in it.
struct Step {
    number: u64,
    at: usize,
    is_last: bool,
}

/// The path from the root to a leaf.
struct Path {
    steps: Vec<Step>,
    leaf: u64,
}

/// The right half of a node that was divided.
struct Divided {
    separator: (f64, Vec<u8>),
    number: u64,
    count: u64,
}

/// A new node: its separator from the node before, its number, and how many elements it has.
type Child = ((f64, Vec<u8>), u64, u64);

/// Changes a tree. The nodes are stored by [`store`](Self::store).
pub(in crate::keyspace::collections) struct Editor<'t, 'k> {
    pub(in crate::keyspace::collections) alone: &'t mut (dyn PairsMut + 'k),
    pub(in crate::keyspace::collections) place: Place,
    pub(in crate::keyspace::collections) tree: &'t mut Tree,
    pub(in crate::keyspace::collections) loaded: &'t mut Loaded,
}

impl Editor<'_, '_> {
    /// Makes the tree empty: a leaf without elements.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(in crate::keyspace::collections) fn begin(&mut self) -> Result<()> {
        *self.tree = Tree { root: 0, height: 1, nodes: 0, free: 0 };
        self.tree.root = self.new_node(vec![0])?;
        Ok(())
    }

    /// Builds the tree from elements that are sorted and distinct. Writes each node once.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(in crate::keyspace::collections) fn build<'m>(
        &mut self,
        elements: impl Iterator<Item = Key<'m>>,
    ) -> Result<()> {
        *self.tree = Tree { root: 0, height: 0, nodes: 0, free: 0 };
        let (mut run, mut last) = (vec![0], None::<Key<'m>>);
        // The nodes of a level, and the separator and the element count of the next one.
        let (mut nodes, mut first, mut count): (Vec<Child>, _, u64) = (Vec::new(), (0.0, Vec::new()), 0);
        for key in elements {
            let before = run.len();
            Entry::push(&mut run, key);
            if run.len() > NODE_BYTES && count > 0 {
                let next = [&[0], &run[before..]].concat();
                run.truncate(before);
                nodes.push((first, self.add_built(std::mem::replace(&mut run, next))?, count));
                let (score, member) = last.map_or(key, |last| separator(last, key));
                (first, count) = ((score, member.to_vec()), 0);
            }
            (last, count) = (Some(key), count + 1);
        }
        nodes.push((first, self.add_built(run)?, count));
        self.tree.height = 1;
        while nodes.len() > 1 {
            if self.tree.height == Tree::HEIGHT_MAX {
                return Err(self.damaged(nodes[0].1, "is of the highest level"));
            }
            nodes = self.build_level(nodes)?;
            self.tree.height += 1;
        }
        self.tree.root = nodes[0].1;
        Ok(())
    }

    /// Builds the inner nodes above these. Each has at least two children, so each level has fewer nodes.
    fn build_level(&mut self, nodes: Vec<Child>) -> Result<Vec<Child>> {
        let level = self.tree.height as u8; // below `Tree::HEIGHT_MAX`
        let (mut above, mut run, mut children) = (Vec::<Child>::new(), vec![level], 0);
        let len = nodes.len();
        for (index, (key, number, count)) in nodes.into_iter().enumerate() {
            if run.len() > NODE_BYTES && children >= 2 && index + 2 <= len {
                if let Some(full) = above.last_mut() {
                    full.1 = self.add_built(std::mem::replace(&mut run, vec![level]))?;
                }
                children = 0;
            }
            if children == 0 {
                above.push((key.clone(), 0, 0));
            }
            let parent = above.last_mut().expect("the first child adds one");
            parent.2 += count;
            Entry::push_child(&mut run, (key.0, &key.1), number, count);
            children += 1;
        }
        let number = self.add_built(run)?;
        if let Some(last) = above.last_mut() {
            last.1 = number;
        }
        Ok(above)
    }

    /// Adds a new, complete node.
    fn add_built(&mut self, run: Vec<u8>) -> Result<u64> {
        if self.loaded.0.len() > LOADED_MAX {
            self.store()?;
        }
        self.new_node(run)
    }

    /// Stores the changed nodes.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(in crate::keyspace::collections) fn store(&mut self) -> Result<()> {
        let Place { database, id } = self.place;
        for (number, node) in std::mem::take(&mut self.loaded.0).into_iter().filter(|(_, node)| node.is_changed) {
            self.alone.put_segment(database, (id, NODES + number), node.was_there, Some(&node.run))?;
        }
        Ok(())
    }

    fn damaged(&self, number: u64, what: &str) -> SpaceError {
        damaged_node(self.place.id, number, what)
    }

    /// Loads a node of any kind.
    fn load_any(&mut self, number: u64) -> Result<&mut Node> {
        match self.loaded.0.entry(number) {
            btree_map::Entry::Occupied(node) => Ok(node.into_mut()),
            btree_map::Entry::Vacant(free) => {
                let (Place { database, id }, mut run) = (self.place, Vec::with_capacity(NODE_CAPACITY));
                if number >= self.tree.nodes || !self.alone.segment(database, id, NODES + number, &mut run)? {
                    return Err(damaged_node(id, number, "is missing"));
                }
                Ok(free.insert(Node { run, was_there: true, is_changed: false }))
            }
        }
    }

    /// A node of a level, for reading.
    fn node(&mut self, number: u64, level: u64) -> Result<&[u8]> {
        let place = self.place;
        let run = &self.load_any(number)?.run;
        check_level(place, (number, level), run)?;
        Ok(run)
    }

    /// A node that is loaded, to be changed.
    fn change(&mut self, number: u64) -> Result<&mut Vec<u8>> {
        let node = self.load_any(number)?;
        node.is_changed = true;
        Ok(&mut node.run)
    }

    fn new_node(&mut self, run: Vec<u8>) -> Result<u64> {
        let Some(number) = self.tree.free.checked_sub(1) else {
            let number = self.tree.nodes;
            if number > u64::from(u32::MAX) {
                let what = "a sorted set has more nodes than can be numbered";
                return Err(Error::new(ErrorKind::TooLong, what).into());
            }
            self.tree.nodes += 1;
            let node = Node { run, was_there: false, is_changed: true };
            self.loaded.0.insert(number, node);
            return Ok(number);
        };
        let bytes = &self.load_any(number)?.run;
        let next = match bytes.split_first() {
            Some((&FREE, next)) => next.try_into().ok().map(u64::from_le_bytes),
            _ => None,
        };
        let next = next.filter(|next| *next <= self.tree.nodes && *next != number + 1);
        self.tree.free = next.ok_or_else(|| self.damaged(number, "is free and in use"))?;
        *self.change(number)? = run;
        Ok(number)
    }

    fn free_node(&mut self, number: u64) -> Result<()> {
        let next = self.tree.free;
        let run = self.change(number)?;
        run.clear();
        run.push(FREE);
        run.extend_from_slice(&next.to_le_bytes());
        self.tree.free = number + 1;
        Ok(())
    }

    /// Descends to a leaf. `is_passed` gets each child of a node but the last, in order, with the next child,
    /// and returns whether the wanted child comes after it.
    fn descend(&mut self, mut is_passed: impl FnMut(&Entry<'_>, &Entry<'_>) -> bool) -> Result<Path> {
        if self.loaded.0.len() > LOADED_MAX {
            self.store()?;
        }
        let (mut number, mut steps, place) = (self.tree.root, Vec::new(), self.place);
        for level in (1..self.tree.height).rev() {
            let mut entries = Entries::of_node(self.node(number, level)?);
            let bad = |NoEntry| damaged_node(place.id, number, BAD_ENTRY);
            let first = entries.next().ok_or_else(|| damaged_node(place.id, number, "has no children"))?;
            let (mut chosen, mut is_last) = (first.map_err(bad)?, true);
            for next in entries {
                let next = next.map_err(bad)?;
                if !is_passed(&chosen, &next) {
                    is_last = false;
                    break;
                }
                chosen = next;
            }
            let child = chosen.node;
            steps.push(Step { number, at: chosen.start, is_last });
            number = child;
        }
        self.node(number, 0)?;
        Ok(Path { steps, leaf: number })
    }

    /// Changes the element counts of the nodes on a path.
    fn count(&mut self, path: &Path, change: i64) -> Result<()> {
        path.steps.iter().try_for_each(|step| self.count_child(step.number, step.at, change))
    }

    fn count_child(&mut self, number: u64, at: usize, change: i64) -> Result<()> {
        let place = self.place;
        let run = self.change(number)?;
        let entry = Entry::parse(run, at, false).map(|entry| (entry.end, entry.count.checked_add_signed(change)));
        let Some((end, Some(count))) = entry else {
            return Err(damaged_node(place.id, number, "has fewer elements than were removed"));
        };
        run[end - 8..end].copy_from_slice(&count.to_le_bytes());
        Ok(())
    }

    /// Adds an element that the tree does not have. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`ErrorKind::Corrupt`].
    pub(in crate::keyspace::collections) fn insert(&mut self, key: Key<'_>) -> Result<()> {
        let mut path = self.descend(|_, next| order(next.key, key) != Ordering::Greater)?;
        let (place, leaf) = (self.place, path.leaf);
        let run = self.change(leaf)?;
        let mut at = run.len();
        for entry in Entries::of_node(run) {
            let entry = entry.map_err(|NoEntry| damaged_node(place.id, leaf, BAD_ENTRY))?;
            match order(entry.key, key) {
                Ordering::Less => {}
                Ordering::Equal => return Err(damaged_node(place.id, leaf, "has an element without a score")),
                Ordering::Greater => {
                    at = entry.start;
                    break;
                }
            }
        }
        // If elements are added in order, this leaves full nodes behind.
        let is_last = at == run.len() && path.steps.iter().all(|step| step.is_last);
        let mut element = Vec::with_capacity(key.1.len() + 13);
        Entry::push(&mut element, key);
        elements::replace(run, at..at, &element);
        self.count(&path, 1)?;
        let (mut number, mut level) = (leaf, 0);
        while let Some(Divided { separator, number: right, count }) = self.divide(number, level, is_last)? {
            let separator = (separator.0, separator.1.as_slice());
            match path.steps.pop() {
                Some(step) => {
                    let moved = i64::try_from(count).map_err(|_| self.damaged(number, BAD_ENTRY))?;
                    self.count_child(step.number, step.at, -moved)?;
                    let run = self.change(step.number)?;
                    let end = Entry::parse(run, step.at, false).map_or(run.len(), |entry| entry.end);
                    let mut child = Vec::with_capacity(separator.1.len() + 25);
                    Entry::push_child(&mut child, separator, right, count);
                    elements::replace(run, end..end, &child);
                    (number, level) = (step.number, level + 1);
                }
                None => {
                    let left: u64 = entries_of(self.place, number, self.node(number, level)?)?
                        .iter()
                        .fold(0, |sum, entry| sum.saturating_add(entry.count));
                    let mut run = vec![level as u8 + 1]; // below `Tree::HEIGHT_MAX`
                    Entry::push_child(&mut run, (0.0, b""), number, left);
                    Entry::push_child(&mut run, separator, right, count);
                    if self.tree.height == Tree::HEIGHT_MAX {
                        return Err(self.damaged(number, "is of the highest level"));
                    }
                    self.tree.root = self.new_node(run)?;
                    self.tree.height += 1;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Divides a node that is too long. Returns the new right one.
    fn divide(&mut self, number: u64, level: u64, is_last: bool) -> Result<Option<Divided>> {
        let place = self.place;
        let run = self.node(number, level)?;
        if run.len() <= NODE_BYTES {
            return Ok(None);
        }
        let entries = entries_of(place, number, run)?;
        // Each half of an inner node has at least two children, so every level has fewer nodes than the one below.
        let least = if level == 0 { 1 } else { 2 };
        if entries.len() < 2 * least {
            return Ok(None);
        }
        let half = entries.iter().position(|entry| entry.start >= run.len() / 2).unwrap_or(entries.len());
        let index = if is_last { entries.len() - least } else { half.clamp(least, entries.len() - least) };
        let (left, right) = (entries[index - 1], entries[index]);
        let key = if level == 0 { separator(left.key, right.key) } else { right.key };
        let key = (key.0, key.1.to_vec());
        let count = entries[index..].iter().fold(0u64, |sum, entry| sum.saturating_add(entry.count));
        let start = right.start;
        let moved = [&[level as u8], &run[start..]].concat(); // as in `run`
        self.change(number)?.truncate(start);
        let right = self.new_node(moved)?;
        Ok(Some(Divided { separator: key, number: right, count }))
    }

    /// Removes an element that the tree has. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`ErrorKind::Corrupt`].
    pub(in crate::keyspace::collections) fn remove(&mut self, key: Key<'_>) -> Result<()> {
        let path = self.descend(|_, next| order(next.key, key) != Ordering::Greater)?;
        let (place, leaf) = (self.place, path.leaf);
        let run = self.change(leaf)?;
        let mut found = None;
        for entry in Entries::of_node(run) {
            let entry = entry.map_err(|NoEntry| damaged_node(place.id, leaf, BAD_ENTRY))?;
            if order(entry.key, key) == Ordering::Equal {
                found = Some(entry.start..entry.end);
                break;
            }
        }
        let found = found.ok_or_else(|| damaged_node(place.id, leaf, "lacks an element that has a score"))?;
        run.drain(found);
        self.count(&path, -1)?;
        self.merge(path)
    }

    /// Removes elements of one leaf from a rank on: at least one and at most `most`. Calls `take` with them.
    /// O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`ErrorKind::Corrupt`].
    pub(in crate::keyspace::collections) fn remove_from(
        &mut self,
        rank: u64,
        most: u64,
        mut take: impl FnMut(Key<'_>),
    ) -> Result<u64> {
        let mut skip = rank;
        let path = self.descend(|entry, _| {
            let is_passed = skip >= entry.count;
            skip -= if is_passed { entry.count } else { 0 };
            is_passed
        })?;
        let (place, leaf) = (self.place, path.leaf);
        let run = self.change(leaf)?;
        let (mut start, mut end, mut removed) = (run.len(), run.len(), 0);
        for entry in Entries::of_node(run) {
            let entry = entry.map_err(|NoEntry| damaged_node(place.id, leaf, BAD_ENTRY))?;
            if skip > 0 {
                skip -= 1;
                continue;
            }
            if removed == most {
                end = entry.start;
                break;
            }
            start = start.min(entry.start);
            removed += 1;
            take(entry.key);
        }
        if removed == 0 {
            return Err(damaged_node(place.id, leaf, "has fewer elements than the nodes above say"));
        }
        run.drain(start..end);
        self.count(&path, -(removed as i64))?; // elements of a node
        self.merge(path)?;
        Ok(removed)
    }

    /// Merges nodes on a path, beginning with a leaf that has lost elements.
    fn merge(&mut self, mut path: Path) -> Result<()> {
        let (mut number, mut level) = (path.leaf, 0);
        while let Some(step) = path.steps.pop() {
            let len = self.node(number, level)?.len();
            if len == 1 {
                let run = self.change(step.number)?;
                let end = Entry::parse(run, step.at, false).map_or(run.len(), |entry| entry.end);
                run.drain(step.at..end);
                self.free_node(number)?;
            } else if len >= MERGED_BELOW_BYTES || !self.merge_with_neighbour(&step, level)? {
                return Ok(());
            }
            (number, level) = (step.number, level + 1);
        }
        // A root with one child makes room for it, which lowers the tree.
        while self.tree.height > 1 {
            let (root, place, level) = (self.tree.root, self.place, self.tree.height - 1);
            let children = entries_of(place, root, self.node(root, level)?)?;
            match children[..] {
                [] => {
                    *self.change(root)? = vec![0];
                    self.tree.height = 1;
                }
                [Entry { node, .. }] => {
                    self.node(node, level - 1)?;
                    self.free_node(root)?;
                    self.tree.root = node;
                    self.tree.height -= 1;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Merges a child with the one after it or the one before, if together they are short. Returns whether it did.
    fn merge_with_neighbour(&mut self, step: &Step, level: u64) -> Result<bool> {
        let place = self.place;
        // The child, and its neighbours before and after it.
        let mut near = Vec::new();
        for entry in Entries::of_node(self.node(step.number, level + 1)?) {
            let entry = entry.map_err(|NoEntry| damaged_node(place.id, step.number, BAD_ENTRY))?;
            if entry.start < step.at {
                near.clear();
            }
            near.push((entry.node, entry.count, (entry.key.0, entry.key.1.to_vec()), entry.start..entry.end));
            if entry.start > step.at {
                break;
            }
        }
        // Tries the pair with the next node first.
        for pair in near.windows(2).rev() {
            let [left, right] = pair else { continue };
            let is_short = self.node(left.0, level)?.len() + self.node(right.0, level)?.len() <= MERGED_BYTES;
            if level == 0 && !is_short {
                continue;
            }
            let in_left = entries_of(place, left.0, self.node(left.0, level)?)?.len();
            let right_run = self.node(right.0, level)?;
            let in_right = entries_of(place, right.0, right_run)?;
            // Merges inner nodes with long keys, too, so every level has fewer nodes than the one below.
            if left.0 == right.0 || !is_short && in_left + in_right.len() > 3 {
                continue;
            }
            let mut moved = Vec::with_capacity(right_run.len());
            match in_right.first() {
                // The first child's key means nothing in its node.
                Some(first) if level > 0 => {
                    Entry::push_child(&mut moved, (right.2.0, &right.2.1), first.node, first.count);
                    moved.extend_from_slice(&right_run[first.end..]);
                }
                _ => moved.extend_from_slice(&right_run[1..]),
            }
            self.change(left.0)?.extend_from_slice(&moved);
            self.free_node(right.0)?;
            let count = i64::try_from(right.1).map_err(|_| self.damaged(step.number, BAD_ENTRY))?;
            self.count_child(step.number, left.3.start, count)?;
            self.change(step.number)?.drain(right.3.clone());
            return Ok(true);
        }
        Ok(false)
    }
}

/// The shortest part of `right`, a node's first key, that is greater than `left`, the key before it.
fn separator<'m>(left: Key<'_>, right: Key<'m>) -> Key<'m> {
    if left.0 < right.0 {
        return (right.0, b"");
    }
    let equal = left.1.iter().zip(right.1).take_while(|(a, b)| a == b).count();
    (right.0, &right.1[..right.1.len().min(equal + 1)])
}
