//! Ordered lists: the memory areas of a process in 2.2.5, one list for each owner, with the area found last.
//!
//! A find compares areas from the lowest address on. With a cache, it first compares the area found last, as `find_vma`
//! does (`mmap_cache`). 2.2.5 changes to a balanced tree above 32 areas; `trees.rs` has one.
//!
//! Source: Linux 2.2, mm/mmap.c.

use super::functions::PageKey;
use super::table::{NONE, Stream, Table};

/// An ordered list of areas for each owner.
pub struct Lists {
    /// By owner: slots and offsets, ascending by offset.
    lists: Vec<Vec<(u32, u32)>>,
    /// By owner: the area found last; `None` without a cache.
    last: Option<Vec<(u32, u32)>>,
}

impl Lists {
    /// Creates empty lists for all owners of `stream`.
    pub fn new(stream: &Stream<PageKey>, cached: bool) -> Self {
        let owners = stream.ops.iter().map(|op| op.key.owner as usize + 1).max().unwrap_or(0);
        Self { lists: vec![Vec::new(); owners], last: cached.then(|| vec![(NONE, 0); owners]) }
    }
}

impl Table<PageKey> for Lists {
    fn find(&self, key: &PageKey) -> (u32, u32) {
        let owner = key.owner as usize;
        let mut compared = 0;
        if let Some((slot, offset)) = self.last.as_ref().map(|last| last[owner]).filter(|(slot, _)| *slot != NONE) {
            compared += 1;
            if offset == key.offset {
                return (slot, compared);
            }
        }
        for (slot, offset) in &self.lists[owner] {
            compared += 1;
            if *offset >= key.offset {
                return (if *offset == key.offset { *slot } else { NONE }, compared);
            }
        }
        (NONE, compared)
    }

    fn found(&mut self, slot: u32, key: &PageKey) {
        if let Some(last) = &mut self.last {
            last[key.owner as usize] = (slot, key.offset);
        }
    }

    fn insert(&mut self, slot: u32, key: PageKey) {
        let list = &mut self.lists[key.owner as usize];
        let at = list.partition_point(|(_, offset)| *offset < key.offset);
        list.insert(at, (slot, key.offset));
    }

    fn remove(&mut self, _slot: u32, key: &PageKey) {
        let owner = key.owner as usize;
        self.lists[owner].retain(|(_, offset)| *offset != key.offset);
        if let Some(last) = &mut self.last
            && last[owner].1 == key.offset
        {
            last[owner] = (NONE, 0);
        }
    }

    fn sizes(&self) -> Vec<usize> {
        self.lists.iter().map(Vec::len).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(offset: u32) -> PageKey {
        PageKey { inode: 0, offset, owner: 0 }
    }

    #[test]
    fn a_find_compares_from_the_lowest_address_and_the_last_area_first() {
        for cached in [false, true] {
            let mut lists = Lists { lists: vec![Vec::new()], last: cached.then(|| vec![(NONE, 0)]) };
            for (slot, offset) in [(0, 30), (1, 10), (2, 20)] {
                lists.insert(slot, key(offset));
            }
            assert_eq!(lists.find(&key(30)), (0, 3));
            lists.found(0, &key(30));
            assert_eq!(lists.find(&key(30)), (0, if cached { 1 } else { 3 }));
            assert_eq!(lists.find(&key(15)), (NONE, if cached { 3 } else { 2 }));
            lists.remove(0, &key(30));
            assert_eq!(lists.find(&key(30)), (NONE, 2));
        }
    }
}
