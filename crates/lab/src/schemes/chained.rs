//! System V's hsearch compiled with CHAINED: one linked list for each slot of a table whose size is declared.
//!
//! New entries go to the front of a list. With SORTUP and SORTDOWN lists are sorted by key, so a miss ends halfway.
//! The table never fills up; its lists grow.
//!
//! Source: Seltzer & Yigit 1991, "hsearch". Not here: open addressing (`hsearch.rs`).

use super::hsearch::SLOTS_MAX;
use super::{ENTRY_BYTES, Figures, Found, Function, POINTER_BYTES, Pair, Refused, Scheme};
use std::cmp::Ordering;

/// The order of entries in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Front,
    Up,
    Down,
}

pub(super) struct Chained<'k> {
    function: Function,
    order: Order,
    /// The first entry of each list: its index plus 1, or 0 for an empty list.
    heads: Vec<u32>,
    entries: Vec<Entry<'k>>,
    figures: Figures,
}

struct Entry<'k> {
    pair: Pair<'k>,
    next: u32,
}

/// The result of a search in a list.
struct Walk {
    /// The entry before `key`, or before its insertion point; 0 is the head.
    before: u32,
    found: bool,
    touched: u64,
}

impl<'k> Chained<'k> {
    pub fn new(function: Function, nelem: usize, order: Order) -> Self {
        let heads = vec![0; nelem.clamp(2, SLOTS_MAX).next_power_of_two()];
        Chained { function, order, heads, entries: Vec::new(), figures: Figures::default() }
    }

    fn head(&self, hash: u32) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    fn walk(&self, hash: u32, key: &[u8]) -> Walk {
        let (mut before, mut touched) = (0, 0);
        let mut next = self.heads[self.head(hash)];
        while let Some(entry) = next.checked_sub(1).map(|index| &self.entries[index as usize]) {
            touched += 1;
            match (self.order, key.cmp(entry.pair.key)) {
                (_, Ordering::Equal) => return Walk { before, found: true, touched },
                (Order::Up, Ordering::Less) | (Order::Down, Ordering::Greater) => break,
                _ => {}
            }
            before = next;
            next = entry.next;
        }
        Walk { before, found: false, touched }
    }
}

impl<'k> Scheme<'k> for Chained<'k> {
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused> {
        let pair = Pair::new(self.function, key, value_bytes);
        let Walk { before, found, touched } = self.walk(pair.hash, key);
        self.figures.work += touched + 1;
        if found {
            return Ok(());
        }
        let head = self.head(pair.hash);
        let number = self.entries.len() as u32 + 1;
        let before = if self.order == Order::Front { 0 } else { before };
        let link = match before.checked_sub(1) {
            None => &mut self.heads[head],
            Some(index) => &mut self.entries[index as usize].next,
        };
        let next = std::mem::replace(link, number);
        self.entries.push(Entry { pair, next });
        self.figures.paused(1);
        self.figures.stored(&pair);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Found {
        let Walk { found, touched, .. } = self.walk(self.function.hash(key), key);
        Found { found, touched }
    }

    fn figures(&self) -> Figures {
        let addressing_bytes = self.heads.len() as u64 * POINTER_BYTES;
        let node_bytes = self.figures.pairs * (ENTRY_BYTES + POINTER_BYTES);
        Figures {
            store_bytes: addressing_bytes + node_bytes + self.figures.pair_bytes,
            addressing_bytes,
            ..self.figures
        }
    }
}
