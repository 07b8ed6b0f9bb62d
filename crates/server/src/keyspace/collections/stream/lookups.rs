//! Finds records in a stream's tree: by their beginnings, or by rank.

use super::records::{Record, bad_record};
use super::{EntryId, Stream};
use crate::keyspace::Result;
use crate::keyspace::pairs::Pairs;
use std::ops::Range;

impl Stream {
    /// The number of records before those that begin with `prefix`; `with_equal` includes these.
    pub(super) fn rank(&self, pairs: &mut (impl Pairs + ?Sized), prefix: &[u8], with_equal: bool) -> Result<u64> {
        if self.tree.nodes == 0 {
            return Ok(0);
        }
        let is_before = |(_, member): (f64, &[u8])| member < prefix || with_equal && member.starts_with(prefix);
        Ok(self.tree.count_before(pairs, self.place(), is_before)?.min(self.records))
    }

    /// The ranks of the records that begin with `prefix`.
    pub(super) fn ranks(&self, pairs: &mut (impl Pairs + ?Sized), prefix: &[u8]) -> Result<Range<u64>> {
        let start = self.rank(pairs, prefix, false)?;
        Ok(start..self.rank(pairs, prefix, true)?.max(start))
    }

    pub(super) fn count(&self, pairs: &mut (impl Pairs + ?Sized), prefix: Record) -> Result<u64> {
        let Range { start, end } = self.ranks(pairs, &prefix.0)?;
        Ok(end - start)
    }

    /// Calls `take` with the records of a range of ranks until it returns `false`.
    pub(super) fn for_ranks(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        ranks: Range<u64>,
        is_reverse: bool,
        take: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        if ranks.is_empty() {
            return Ok(());
        }
        let mut outcome = Ok(());
        let take = &mut |(_, member): (f64, &[u8])| match take(member) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                outcome = Err(error);
                false
            }
        };
        self.tree.for_range(pairs, self.place(), (self.records, ranks), is_reverse, take)?;
        outcome
    }

    /// The record that begins with `prefix`.
    pub(super) fn find(&self, pairs: &mut (impl Pairs + ?Sized), prefix: &[u8]) -> Result<Option<Vec<u8>>> {
        let rank = self.rank(pairs, prefix, false)?;
        let mut found = None;
        self.for_ranks(pairs, rank..self.records.min(rank + 1), false, &mut |member| {
            found = member.starts_with(prefix).then(|| member.to_vec());
            Ok(false)
        })?;
        Ok(found)
    }

    /// Finds the record that begins with `prefix`; `parse` gets the bytes after the prefix.
    pub(super) fn find_as<T>(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        prefix: Record,
        what: &str,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let found = self.find(pairs, &prefix.0)?;
        found.map(|member| parse(&member[prefix.0.len()..]).ok_or_else(|| bad_record(what))).transpose()
    }

    /// Up to `most` records that begin with `prefix`, from `from` on; `parse` gets the bytes after the prefix.
    pub(super) fn all_as<T>(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        (prefix, from): (Record, Option<EntryId>),
        most: usize,
        what: &str,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut ranks = self.ranks(pairs, &prefix.0)?;
        let at = prefix.0.len();
        if let Some(from) = from.filter(|from| *from != EntryId::MIN && !ranks.is_empty()) {
            ranks.start = self.rank(pairs, &prefix.id(from).0, false)?.clamp(ranks.start, ranks.end);
        }
        let mut found = Vec::new();
        if most > 0 {
            self.for_ranks(pairs, ranks, false, &mut |member| {
                let parsed = member.get(at..).and_then(&parse);
                found.push(parsed.ok_or_else(|| bad_record(what))?);
                Ok(found.len() < most)
            })?;
        }
        Ok(found)
    }
}
