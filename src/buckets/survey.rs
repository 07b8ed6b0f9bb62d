//! A survey of a table: sizes, load, overflow, distribution of pairs over buckets.

use super::linear_hash::Buckets;
use super::page::{self, INLINE};
use super::sizes::Totals;
use crate::error::Result;
use crate::fault::{Proceed, go_on};
use crate::linear;
use std::collections::BTreeMap;

/// The figures of a table, made by [`Table::survey`](crate::Table::survey).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TableSurvey {
    /// Pairs stored.
    pub pairs: u64,
    /// Buckets, and so primary pages.
    pub buckets: u64,
    /// Bytes of a primary page.
    pub page_bytes: u32,
    /// Bytes of a frame: the unit of I/O and checksum.
    pub frame_bytes: u32,
    /// Bytes of all frames, in memory or in the file. Not the length of the file.
    pub file_bytes: u64,
    /// Bytes of all keys and values.
    pub payload_bytes: u64,
    /// Bytes of slots and records in primary and overflow pages.
    pub bucket_bytes: u64,
    /// Overflow pages.
    pub overflow_pages: u64,
    /// Bytes of overflow pages.
    pub overflow_bytes: u64,
    /// Pairs in overflow pages.
    pub overflow_pairs: u64,
    /// Extents: values or pairs too large for a page.
    pub extents: u64,
    /// Bytes of extents.
    pub extent_bytes: u64,
    /// Bytes of the file that are not in use.
    pub free_bytes: u64,
    /// The load now: bytes of slots and records in percent of the primary pages; 0 for an empty table.
    pub fill_percent: f64,
    /// The load at which the table grows, unless `fill_factor` is set.
    pub fill_target_percent: f64,
    /// The load at which it grows, in pairs per bucket, if set that way.
    pub fill_factor: Option<u32>,
    /// The hash function's name.
    pub hash: String,
    /// Its seed.
    pub seed: u64,
    /// Buckets by their number of pairs: (pairs, buckets), ascending.
    pub histogram: Vec<(u64, u64)>,
    /// Pairs in the fullest bucket.
    pub largest_bucket: u64,
    /// Buckets without a pair.
    pub empty_buckets: u64,
    /// Bytes of memory that pages currently take.
    pub memory_bytes: u64,
    /// Splits since the table was opened.
    pub splits: u64,
    /// Merges since the table was opened.
    pub merges: u64,
}

impl Buckets {
    /// Walks all buckets and measures them. If the table changes during the walk, the figures mix several moments.
    pub(crate) fn survey(&self, totals: Totals, proceed: Proceed<'_>) -> Result<TableSurvey> {
        self.pager.refuse_if_forked()?;
        let unit_bytes = self.pager.unit_bytes() as u64;
        let mut survey = TableSurvey {
            pairs: totals.pairs,
            page_bytes: self.page_bytes as u32, // at most 65536
            frame_bytes: self.pager.frame_bytes() as u32,
            file_bytes: u64::from(self.pager.frame_count()) * self.pager.frame_bytes() as u64,
            payload_bytes: totals.payload_bytes,
            bucket_bytes: totals.bucket_bytes,
            free_bytes: self.pager.allocator().free_units()? * unit_bytes,
            fill_target_percent: f64::from(self.fill.percent),
            fill_factor: self.fill.pairs,
            hash: self.hash.name().to_owned(),
            seed: self.hash.seed(),
            memory_bytes: self.pager.frames().memory_bytes(),
            splits: self.activity.splits(),
            merges: self.activity.merges(),
            ..TableSurvey::default()
        };
        let mut histogram = BTreeMap::new();
        let mut position = Some(linear::Position(0));
        while let Some(at) = position {
            go_on(proceed)?;
            let (frame, range) = self.read_bucket(at.hash())?;
            position = self.view().linear().next_bucket(at);
            let pairs = self.survey_bucket(&frame[range], &mut survey)?;
            survey.buckets += 1;
            *histogram.entry(pairs).or_insert(0) += 1;
        }
        survey.fill_percent =
            survey.bucket_bytes as f64 * 100.0 / (survey.buckets * self.page_bytes as u64).max(1) as f64;
        survey.largest_bucket = histogram.last_key_value().map_or(0, |(&pairs, _)| pairs);
        survey.empty_buckets = histogram.get(&0).copied().unwrap_or(0);
        survey.histogram = histogram.into_iter().collect();
        Ok(survey)
    }

    /// Adds one bucket's figures and returns the number of its pairs.
    fn survey_bucket(&self, primary: &[u8], survey: &mut TableSurvey) -> Result<u64> {
        let unit_bytes = self.pager.unit_bytes() as u64;
        let mut count_extents = |page: &[u8]| {
            for record in page::records(page) {
                let (_, record) = record.map_err(|d| self.damaged(d))?;
                if record.form != INLINE {
                    survey.extents += 1;
                    survey.extent_bytes += u64::from(self.parse_extent(record)?.capacity) * unit_bytes;
                }
            }
            Ok::<(), crate::Error>(())
        };
        let mut pairs = page::slot_count(primary) as u64;
        count_extents(primary)?;
        let (mut pages, mut bytes_taken, mut over) = (0, 0, 0);
        self.walk_chain(page::next(primary), |overflow, bytes| {
            pages += 1;
            bytes_taken += u64::from(overflow.len) * unit_bytes;
            over += page::slot_count(bytes) as u64;
            count_extents(bytes).map(|()| None::<()>)
        })?;
        pairs += over;
        survey.overflow_pages += pages;
        survey.overflow_bytes += bytes_taken;
        survey.overflow_pairs += over;
        Ok(pairs)
    }
}
