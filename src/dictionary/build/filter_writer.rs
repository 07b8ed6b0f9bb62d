//! The filter section, built while records pass in hash order.
//!
//! Several segments are solved at once, one per thread; their slots wait in a [`NumberList`] until the pages are
//! written.
//! Memory: [`SEGMENT_BUILD_BYTES`](filter::SEGMENT_BUILD_BYTES) per thread, a list for slots, 16 bytes per segment
//! (`memory.rs`).

use super::memory::Shares;
use super::numbers::NumberList;
use super::parallel::in_parallel;
use super::plan::Plan;
use super::progress::ProgressCounter;
use crate::checksum::crc32c_append;
use crate::dictionary::format::ends::{Section, SectionKind};
use crate::dictionary::index::filter::{self, Directory, FilterBits, SEGMENT_KEYS};
use crate::error::{Error, Result};
use crate::io::File;
use std::path::Path;

/// Words written at a time.
const WRITE_WORDS: usize = 1 << 15;

pub(crate) struct FilterWriter {
    bits: FilterBits,
    threads: usize,
    /// Positions of segments not yet solved.
    held: Vec<u64>,
    last: Option<u64>,
    keys: u64,
    directory: Directory,
    slots: NumberList,
}

impl FilterWriter {
    pub fn new(plan: &Plan, shares: &Shares, bits: FilterBits) -> Self {
        FilterWriter {
            bits,
            threads: shares.filter_threads.max(1),
            held: Vec::new(),
            last: None,
            keys: 0,
            directory: Directory::default(),
            slots: NumberList::new(&plan.storage, &plan.temporary, shares.list),
        }
    }

    /// Takes the positions of the next records, in ascending order; equal positions count once.
    pub fn push(&mut self, positions: &[u64]) -> Result<()> {
        for &position in positions {
            if self.last.replace(position) == Some(position) {
                continue;
            }
            if self.held.len() == self.threads * SEGMENT_KEYS {
                self.solve()?;
            }
            self.held.push(position);
            self.keys += 1;
        }
        Ok(())
    }

    fn solve(&mut self) -> Result<()> {
        let segments = self.held.chunks(SEGMENT_KEYS).collect();
        for segment in in_parallel(self.threads, segments, |_, positions| Ok(filter::solve(self.bits, positions)))? {
            self.directory.add(&segment);
            segment.words.iter().try_for_each(|word| self.slots.push(*word))?;
        }
        self.held.clear();
        Ok(())
    }

    /// Writes the section at `offset` of `file`, which errors call `path`.
    pub fn finish(mut self, file: &dyn File, path: &Path, offset: u64, progress: &ProgressCounter) -> Result<Section> {
        self.solve()?;
        let mut section = Section { kind: SectionKind::Filter, checksum: 0, offset, bytes: 0 };
        let mut buffer = self.directory.words(self.bits, self.keys);
        for word in progress.watch(self.slots.numbers()) {
            if buffer.len() >= WRITE_WORDS {
                append(&mut section, &mut buffer, file, path)?;
            }
            buffer.push(word?);
        }
        append(&mut section, &mut buffer, file, path)?;
        Ok(section)
    }
}

fn append(section: &mut Section, words: &mut Vec<u64>, file: &dyn File, path: &Path) -> Result<()> {
    words.iter_mut().for_each(|word| *word = word.to_le());
    let bytes: &[u8] = bytemuck::cast_slice(words);
    file.write_at(bytes, section.offset + section.bytes).map_err(|e| Error::io(path, "write the filter of", e))?;
    section.checksum = crc32c_append(section.checksum, bytes);
    section.bytes += bytes.len() as u64;
    words.clear();
    Ok(())
}
