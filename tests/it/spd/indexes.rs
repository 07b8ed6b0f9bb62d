//! The kinds of index, and the index by pages (docs/dictionary-format.md).

use super::chunk::Chunks;
use super::sequence;
use super::trie::Trie;
use super::{Reader, Result, must};
use crate::spt::u64_at;
use std::ops::Range;

/// The answer of an index for a position.
#[derive(Debug)]
pub enum Place {
    Pages(Range<usize>),
    Ranks(Range<u64>),
}

pub enum Index {
    None,
    Pages(Pages),
    Ranked { index: Ranked, ranks: Option<Pages>, records: u64 },
}

pub enum Ranked {
    Trie(Trie),
    Chunks(Chunks),
}

impl Index {
    pub fn parse(file: &[u8], reader: &Reader) -> Result<Index> {
        let footer = &reader.footer;
        let words = |kind: u32| {
            let section = footer.sections.iter().find(|section| section.kind == kind)?;
            let bytes = &file[section.offset..section.offset + section.bytes];
            Some((0..section.bytes / 8).map(|n| u64_at(bytes, 8 * n)).collect::<Vec<u64>>())
        };
        let kinds = footer.sections.iter().map(|section| section.kind);
        let mut kinds: Vec<u32> = kinds.filter(|kind| *kind != 6).collect();
        kinds.sort_unstable();
        let ranks_wanted = !reader.records_of_one_size();
        let (kind, order) = match &kinds[..] {
            [] => (0, 0),
            [1] => (1, 0),
            [kind @ 2..=3] if !ranks_wanted => (*kind, kind - 2),
            [kind @ 2..=3, 5] if ranks_wanted => (*kind, kind - 2),
            _ => return Err(format!("sections of kinds {kinds:?}")),
        };
        must(reader.header.order == order, || format!("index {kind} with order {}", reader.header.order))?;
        let ranked = |index| -> Result<Index> {
            let last = footer.pairs.saturating_sub(1);
            let ranks =
                words(5).map(|words| Pages::parse(&words, last, reader, |cell| cell.ranks.start)).transpose()?;
            Ok(Index::Ranked { index, ranks, records: footer.pairs })
        };
        let section = |kind| words(kind).expect("looked at above");
        match kind {
            0 => Ok(Index::None),
            1 => Ok(Index::Pages(Pages::parse(&section(1), u64::MAX, reader, |cell| cell.position)?)),
            2 => ranked(Ranked::Trie(Trie::parse(&section(2), footer.pairs)?)),
            _ => ranked(Ranked::Chunks(Chunks::parse(&section(3), footer.pairs)?)),
        }
    }

    pub fn place(&self, position: u64) -> Result<Place> {
        match self {
            Index::None => Ok(Place::Pages(0..usize::MAX >> 20)),
            Index::Pages(pages) => Ok(Place::Pages(pages.of(position))),
            Index::Ranked { index, records, .. } => {
                let ranks = match index {
                    Ranked::Trie(trie) => trie.place(position)?,
                    Ranked::Chunks(chunks) => chunks.place(position)?,
                };
                must(ranks.start <= ranks.end && ranks.end <= *records, || format!("ranks {ranks:?}"))?;
                Ok(Place::Ranks(ranks))
            }
        }
    }

    /// Returns the pages that hold the record of a rank, if record sizes differ.
    pub fn pages_of_rank(&self, rank: u64) -> Range<usize> {
        match self {
            Index::Ranked { ranks: Some(ranks), .. } => ranks.of(rank),
            _ => unreachable!("asked for with ranks alone"),
        }
    }

    /// Checks that the records are in the order of the index.
    pub fn check_order(&self, reader: &Reader) -> Result<()> {
        let count = reader.records.len() as u64;
        let groups = match self {
            Index::Ranked { index: Ranked::Chunks(chunks), .. } => chunks.groups(),
            _ => (0..count).map(|rank| rank..rank + 1).collect(),
        };
        let mut sorted = Vec::new();
        let mut ends = Vec::new();
        for group in groups {
            let records = &reader.records[group.start as usize..group.end as usize];
            let mut keys: Vec<_> = records.iter().map(|record| (record.position, &record.key)).collect();
            keys.sort();
            ends.push((keys[0].0, keys[keys.len() - 1].0));
            sorted.extend(keys);
        }
        must(sorted.is_sorted_by(|a, b| a < b), || "the order of records".into())?;
        match self {
            Index::Ranked { index: Ranked::Chunks(chunks), .. } => chunks.check(&ends),
            _ => Ok(()),
        }
    }
}

/// Maps a position, or a rank, to pages.
pub struct Pages {
    scale: u64,
    blocks: bool,
    bins: Vec<u64>,
}

impl Pages {
    /// Parses an index of pages; `first` returns the number of a cell.
    fn parse(words: &[u64], greatest: u64, reader: &Reader, first: impl Fn(&super::Cell) -> u64) -> Result<Pages> {
        must(words.len() >= 2, || "an index of pages without a header".into())?;
        let (scale, flags) = (words[0], words[1]);
        must(flags == u64::from(reader.header.compressed), || format!("flags {flags} of an index of pages"))?;
        let mut pages = Pages { scale, blocks: flags == 1, bins: Vec::new() };
        let (bins, used) = sequence::parse(&words[2..], pages.bin(greatest))?;
        must(words.len() == 2 + used, || "words behind an index of pages".into())?;
        must(bins.len() == reader.footer.pages, || format!("an index of {} pages", bins.len()))?;
        pages.bins = bins;
        let body = reader.header.body_bytes();
        for (page, &bin) in pages.bins.iter().enumerate() {
            let cell = reader.cells.partition_point(|cell| cell.stream.start <= page * body) - 1;
            let wanted = pages.bin(first(&reader.cells[cell]));
            must(bin == wanted, || format!("bin {bin} of page {}, not {wanted}", page + 1))?;
        }
        Ok(pages)
    }

    fn bin(&self, x: u64) -> u64 {
        if self.scale == 0 { x } else { ((u128::from(x) * u128::from(self.scale)) >> 64) as u64 }
    }

    /// Returns the data pages of a position or rank, from 0.
    fn of(&self, x: u64) -> Range<usize> {
        let bin = self.bin(x);
        let less = self.bins.iter().filter(|b| **b < bin).count();
        let end = self.bins.iter().filter(|b| **b <= bin).count();
        let mut first = less.saturating_sub(1);
        if self.blocks && less > 0 {
            first = self.bins.iter().position(|b| *b == self.bins[less - 1]).expect("it is there").saturating_sub(1);
        }
        first..end
    }
}
