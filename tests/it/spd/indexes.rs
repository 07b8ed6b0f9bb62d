//! Which index a file has, and the ones by pages and by perfect hash functions (docs/dictionary-format.md).

use super::chunk::Chunks;
use super::sequence::{self, bits};
use super::trie::Trie;
use super::{Reader, Result, must};
use crate::spt::u64_at;
use std::ops::Range;

const SPLIT_MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// What an index says of a position.
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
    Functions(Functions),
}

impl Index {
    pub fn parse(file: &[u8], reader: &Reader) -> Result<Index> {
        let footer = &reader.footer;
        let words = |kind: u32| {
            let section = footer.sections.iter().find(|section| section.kind == kind)?;
            let bytes = &file[section.offset..section.offset + section.bytes];
            Some((0..section.bytes / 8).map(|n| u64_at(bytes, 8 * n)).collect::<Vec<u64>>())
        };
        let mut kinds: Vec<u32> = footer.sections.iter().map(|section| section.kind).collect();
        kinds.sort_unstable();
        let ranks_wanted = !reader.records_of_one_size();
        let (kind, order) = match &kinds[..] {
            [] => (0, 0),
            [1] => (1, 0),
            [kind @ 2..=4] if !ranks_wanted => (*kind, kind - 2),
            [kind @ 2..=4, 5] if ranks_wanted => (*kind, kind - 2),
            _ => return Err(format!("sections of kinds {kinds:?}")),
        };
        must(reader.header.order == order, || format!("index {kind} with order {}", reader.header.order))?;
        let ranked = |index| -> Result<Index> {
            let last = footer.pairs.saturating_sub(1);
            let ranks =
                words(5).map(|words| Pages::parse(&words, last, reader, |unit| unit.ranks.start)).transpose()?;
            Ok(Index::Ranked { index, ranks, records: footer.pairs })
        };
        let of = |kind| words(kind).expect("looked at above");
        match kind {
            0 => Ok(Index::None),
            1 => Ok(Index::Pages(Pages::parse(&of(1), u64::MAX, reader, |unit| unit.position)?)),
            2 => ranked(Ranked::Trie(Trie::parse(&of(2), footer.pairs)?)),
            3 => ranked(Ranked::Chunks(Chunks::parse(&of(3), footer.pairs)?)),
            _ => ranked(Ranked::Functions(Functions::parse(&of(4), footer.pairs)?)),
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
                    Ranked::Functions(functions) => functions.place(position)?,
                };
                must(ranks.start <= ranks.end && ranks.end <= *records, || format!("ranks {ranks:?}"))?;
                Ok(Place::Ranks(ranks))
            }
        }
    }

    /// Pages that hold the record of a rank, where records have no one size.
    pub fn pages_of_rank(&self, rank: u64) -> Range<usize> {
        match self {
            Index::Ranked { ranks: Some(ranks), .. } => ranks.of(rank),
            _ => unreachable!("asked for with ranks alone"),
        }
    }

    /// Are the records in the order that goes with the index?
    pub fn check_order(&self, reader: &Reader) -> Result<()> {
        let count = reader.records.len() as u64;
        let groups = match self {
            Index::Ranked { index: Ranked::Chunks(chunks), .. } => chunks.groups(),
            Index::Ranked { index: Ranked::Functions(functions), .. } => functions.groups(count),
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
            Index::Ranked { index: Ranked::Functions(functions), .. } => functions.check(&ends),
            _ => Ok(()),
        }
    }
}

/// Which pages hold a position, or a rank.
pub struct Pages {
    scale: u64,
    blocks: bool,
    bins: Vec<u64>,
}

impl Pages {
    /// `first` gives the number of a unit.
    fn parse(words: &[u64], greatest: u64, reader: &Reader, first: impl Fn(&super::Unit) -> u64) -> Result<Pages> {
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
            let unit = reader.units.partition_point(|unit| unit.stream.start <= page * body) - 1;
            let wanted = pages.bin(first(&reader.units[unit]));
            must(bin == wanted, || format!("bin {bin} of page {}, not {wanted}", page + 1))?;
        }
        Ok(pages)
    }

    fn bin(&self, x: u64) -> u64 {
        if self.scale == 0 { x } else { ((u128::from(x) * u128::from(self.scale)) >> 64) as u64 }
    }

    /// Data pages, from 0.
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

/// Perfect hash functions, one a partition.
pub struct Functions {
    thresholds: Vec<u64>,
    ranks: Vec<u64>,
    /// Position, first rank, count.
    extras: Vec<(u64, u64, u64)>,
    /// The levels of each.
    functions: Vec<Vec<Level>>,
}

enum Level {
    List(Vec<u64>),
    Seeds { keys: u64, buckets: u64, mask: u64, step: u64, seed_bits: u64, seeds: Vec<u64>, holes: Vec<u64> },
}

impl Level {
    fn keys(&self) -> u64 {
        match self {
            Level::List(positions) => positions.len() as u64,
            Level::Seeds { keys, .. } => *keys,
        }
    }
}

impl Functions {
    fn parse(words: &[u64], records: u64) -> Result<Functions> {
        let &[stored, p, e, ..] = words else { return Err("functions without a header".into()) };
        must(stored == records, || format!("functions of {stored} records"))?;
        must(u128::from(p) * 3 + u128::from(e) * 3 + 3 <= words.len() as u128, || "words of functions".into())?;
        let (p, e) = (p as usize, e as usize);
        let part = |n: usize| words[3 + n * p..3 + (n + 1) * p].to_vec();
        let (thresholds, ranks, starts) = (part(0), part(1), part(2));
        must(thresholds.is_sorted_by(|a, b| a < b), || "thresholds".into())?;
        must(ranks.is_sorted_by(|a, b| a < b) && ranks.first().is_none_or(|rank| *rank == 0), || "ranks".into())?;
        let end = 3 + 3 * p + 3 * e;
        must(starts.first().is_none_or(|start| *start == end as u64) && starts.is_sorted(), || "starts".into())?;
        must(p > 0 || words.len() == end, || "words behind no functions".into())?;
        let extras: Vec<_> = words[3 + 3 * p..end].chunks(3).map(|e| (e[0], e[1], e[2])).collect();
        must(extras.is_sorted_by(|a, b| a.0 < b.0), || "the order of extras".into())?;
        let legal =
            |extra: &(u64, u64, u64)| extra.2 >= 2 && extra.1.checked_add(extra.2).is_some_and(|end| end <= records);
        must(extras.iter().all(legal), || "an extra".into())?;
        let mut functions = Vec::new();
        for n in 0..p {
            let end = starts.get(n + 1).map_or(words.len(), |end| *end as usize);
            let function = words.get(starts[n] as usize..end).ok_or("a function is not in the section")?;
            functions.push(levels(function).map_err(|e| format!("function {n}: {e}"))?);
        }
        let own = |levels: &Vec<Level>| levels.first().map_or(0, Level::keys);
        let sum = functions.iter().map(own).sum::<u64>() + extras.iter().map(|extra| extra.2).sum::<u64>();
        must(sum == records, || format!("functions and extras of {sum} records"))?;
        Ok(Functions { thresholds, ranks, extras, functions })
    }

    fn place(&self, position: u64) -> Result<Range<u64>> {
        let Some(n) = self.thresholds.iter().rposition(|first| *first <= position) else { return Ok(0..0) };
        if let Some((_, first, count)) = self.extras.iter().find(|extra| extra.0 == position) {
            return Ok(*first..first + count);
        }
        let levels = &self.functions[n];
        for (d, level) in levels.iter().enumerate() {
            let mut place = match level {
                Level::List(positions) => match positions.binary_search(&position) {
                    Ok(place) => place as u64,
                    Err(_) => return Ok(0..0),
                },
                Level::Seeds { keys, buckets, mask, step, seed_bits, seeds, .. } => {
                    let h = finalized(position.wrapping_add((d as u64 + 1).wrapping_mul(SPLIT_MIX)));
                    let share = |of: u64| ((u128::from(h) * u128::from(of)) >> 64) as u64;
                    let seed = bits(seeds, share(*buckets) * seed_bits, *seed_bits);
                    if seed == 0 {
                        continue;
                    }
                    (share(keys - mask) + (((h & 0xFFFF) + seed * step) & mask)).min(keys - 1)
                }
            };
            for above in levels[..d].iter().rev() {
                let Level::Seeds { holes, .. } = above else { return Err("a level behind a list".into()) };
                place = *holes.get(place as usize).ok_or("a place that is no hole")?;
            }
            let rank = self.ranks[n] + place;
            return Ok(rank..rank + 1);
        }
        Ok(0..0)
    }

    pub fn extras(&self) -> usize {
        self.extras.len()
    }

    pub fn groups(&self, records: u64) -> Vec<Range<u64>> {
        let end = |n: usize| self.ranks.get(n + 1).copied().unwrap_or(records);
        (0..self.ranks.len()).map(|n| self.ranks[n]..end(n)).collect()
    }

    /// First and last position of each partition.
    fn check(&self, ends: &[(u64, u64)]) -> Result<()> {
        must(self.thresholds.iter().eq(ends.iter().map(|(first, _)| first)), || {
            "thresholds are not first positions".into()
        })?;
        for (n, (first, last)) in ends.iter().enumerate() {
            let own = self.functions[n].first().map_or(0, Level::keys);
            for (_, rank, _) in self.extras.iter().filter(|extra| (*first..=*last).contains(&extra.0)) {
                must(*rank >= self.ranks[n] + own, || format!("an extra before the end of function {n}"))?;
            }
        }
        Ok(())
    }
}

fn levels(words: &[u64]) -> Result<Vec<Level>> {
    let mut levels = Vec::new();
    let mut at = 0;
    let mut wanted = None;
    while at < words.len() {
        let &[counts, shape, ..] = &words[at..] else { return Err("a level is cut".into()) };
        let (keys, bumped) = (counts & 0xFFFF_FFFF, counts >> 32);
        must(wanted.is_none_or(|bumped| bumped == keys), || format!("{keys} keys on level {}", levels.len()))?;
        at += 2;
        if shape == 0 {
            let positions = words.get(at..at + keys as usize).ok_or("a list is cut")?.to_vec();
            must(bumped == 0 && positions.is_sorted_by(|a, b| a < b), || "a list".into())?;
            at += keys as usize;
            levels.push(Level::List(positions));
        } else {
            let (buckets, mask) = (shape & 0xFFFF_FFFF, shape >> 32 & 0xFFFF);
            let (step, seed_bits) = (shape >> 48 & 0xFF, shape >> 56);
            must((1..=16).contains(&seed_bits) && buckets > 0 && mask < keys, || "the shape of a level".into())?;
            let seed_words = (buckets * seed_bits).div_ceil(64) as usize;
            let seeds = words.get(at..at + seed_words).ok_or("seeds are cut")?.to_vec();
            at += seed_words;
            let mut holes = Vec::new();
            if bumped > 0 {
                let (numbers, used) = sequence::parse(&words[at..], keys - 1)?;
                at += used;
                holes = numbers;
            }
            must(holes.len() as u64 == bumped, || format!("{} holes for {bumped} bumped keys", holes.len()))?;
            levels.push(Level::Seeds { keys, buckets, mask, step, seed_bits, seeds, holes });
        }
        wanted = Some(bumped);
    }
    must(wanted.is_none_or(|bumped| bumped == 0), || "keys that no level has".into())?;
    must(levels.len() <= 24, || format!("{} levels", levels.len()))?;
    Ok(levels)
}

fn finalized(z: u64) -> u64 {
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
