//! Writes records to data pages, and collects the numbers that indexes are made of.
//!
//! Records come in the order in which they are stored. Each becomes a cell of the stream, or part of a compressed
//! block. On the way pairs and bytes are counted, and the positions and ranks that the index needs are kept. Not here:
//! pages (`page_writer.rs`), indexes (`index/`), which record comes next (`merge.rs`).

use super::far::FarSources;
use super::numbers::NumberList;
use super::page_writer::{PageFirsts, PageWriter};
use crate::dictionary::format::block::{self, BlockWriter};
use crate::dictionary::format::ends::{FileHeader, Footer};
use crate::dictionary::format::layout::{Compression, Layout};
use crate::dictionary::format::{page, record};
use crate::dictionary::run::{Far, Record, Run};
use crate::error::Result;
use crate::io::File;
use std::path::Path;
use std::sync::Arc;

/// The numbers that indexes are made of; `None` for those that the index does not need.
pub(crate) struct IndexNumbers {
    /// The position of the first record of the cell that covers the first byte of each page.
    pub page_positions: Option<NumberList>,
    /// Its rank.
    pub page_ranks: Option<NumberList>,
    /// The position of every record.
    pub positions: Option<NumberList>,
}

/// A value, or its location and length.
#[derive(Clone, Copy)]
enum Value<'v> {
    Near(&'v [u8]),
    Far(Far, u32),
}

impl Value<'_> {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Value::Near(value) => value.len(),
            Value::Far(_, len) => *len as usize,
        }
    }
}

pub(crate) struct DataWriter {
    pages: PageWriter,
    layout: Layout,
    blocks: Option<BlockWriter>,
    positions: Option<NumberList>,
    footer: Footer,
    far: FarSources,
    /// A value that was read from elsewhere to become part of a block.
    value: Vec<u8>,
}

impl DataWriter {
    /// Writes after the header's page of `file`, which errors call `path`. `far` holds the values that are not in the
    /// records.
    pub fn new(
        file: Arc<dyn File>,
        path: &Path,
        header: &FileHeader,
        numbers: IndexNumbers,
        far: FarSources,
    ) -> Result<Self> {
        let firsts = PageFirsts { positions: numbers.page_positions, ranks: numbers.page_ranks };
        let head = page::head_bytes(header.layout, header.compression);
        Ok(DataWriter {
            pages: PageWriter::new(file, path, header.page_bytes, head, firsts)?,
            layout: header.layout,
            blocks: (header.compression != Compression::None).then(|| BlockWriter::new(header.block_bytes)),
            positions: numbers.positions,
            footer: Footer { key_len: (u32::MAX, 0), value_len: (u32::MAX, 0), ..Footer::default() },
            far,
            value: Vec::new(),
        })
    }

    /// Writes one record, which has the layout's lengths and is not a deletion.
    #[inline]
    pub fn push_record(&mut self, position: u64, record: Record<'_>) -> Result<()> {
        let value = record.value.expect("deletions end in the merge");
        match record.far_len {
            None => self.push(position, record.key, Value::Near(value)),
            Some(len) => self.push(position, record.key, Value::Far(Far::parse(value), len)),
        }
    }

    #[inline]
    fn push(&mut self, position: u64, key: &[u8], value: Value<'_>) -> Result<()> {
        let value_len = value.len();
        debug_assert!(match self.layout {
            Layout::Varied => true,
            Layout::Fixed { key_len, value_len: len } => key.len() == key_len as usize && value_len == len as usize,
        });
        if let Some(positions) = &mut self.positions {
            positions.push(position)?;
        }
        self.count(key.len(), value_len);
        let rank = self.footer.pairs;
        self.footer.pairs += 1;
        let (head, head_bytes) = record::head(self.layout, key.len(), value_len);
        let head = &head[..head_bytes];
        if self.blocks.is_some() {
            return self.push_to_block((position, rank), head, key, value);
        }
        self.pages.begin_cell(position, rank)?;
        self.pages.write(head)?;
        self.pages.write(key)?;
        self.write_value(value)
    }

    #[inline]
    fn write_value(&mut self, value: Value<'_>) -> Result<()> {
        match value {
            Value::Near(value) => self.pages.write(value),
            Value::Far(far, len) => self.far.copy(far, len, &mut |bytes| self.pages.write(bytes)),
        }
    }

    fn push_to_block(&mut self, place: (u64, u64), head: &[u8], key: &[u8], value: Value<'_>) -> Result<()> {
        let blocks = self.blocks.as_mut().expect("asked before");
        let raw_bytes = head.len() + key.len() + value.len();
        // A long record gets its own block, so that a lookup of its neighbours does not read it.
        if raw_bytes >= blocks.block_bytes() && !blocks.is_empty() {
            self.write_block()?;
        }
        let blocks = self.blocks.as_mut().expect("asked before");
        if raw_bytes > blocks.compressed_max() {
            self.pages.begin_cell(place.0, place.1)?;
            self.pages.write(&block::head_of_one(place.0, raw_bytes as u64))?;
            self.pages.write(head)?;
            self.pages.write(key)?;
            return self.write_value(value);
        }
        let value = match value {
            Value::Near(value) => value,
            Value::Far(far, len) => {
                self.value.clear();
                let copy = &mut self.value;
                self.far.copy(far, len, &mut |bytes| {
                    copy.extend_from_slice(bytes);
                    Ok(())
                })?;
                &self.value
            }
        };
        if blocks.add(place.0, place.1, [head, key, value]) {
            self.write_block()?;
        }
        Ok(())
    }

    /// Writes the records of `run`, which all have the lengths of the fixed layout.
    pub fn push_fixed(&mut self, run: &Run) -> Result<()> {
        let Layout::Fixed { key_len, value_len } = self.layout else { unreachable!("records of one size") };
        if self.blocks.is_some() {
            let records = run.bytes.chunks_exact(key_len as usize + value_len as usize);
            for (position, record) in run.positions.iter().zip(records) {
                let (key, value) = record.split_at(key_len as usize);
                self.push(*position, key, Value::Near(value))?;
            }
            return Ok(());
        }
        if run.is_empty() {
            return Ok(());
        }
        if let Some(positions) = &mut self.positions {
            run.positions.iter().try_for_each(|position| positions.push(*position))?;
        }
        let (rank, count) = (self.footer.pairs, run.len() as u64);
        self.footer.pairs += count;
        self.footer.key_bytes += count * u64::from(key_len);
        self.footer.value_bytes += count * u64::from(value_len);
        (self.footer.key_len, self.footer.value_len) = ((key_len, key_len), (value_len, value_len));
        self.pages.write_fixed(&run.bytes, &run.positions, rank)
    }

    #[inline]
    fn count(&mut self, key_len: usize, value_len: usize) {
        let footer = &mut self.footer;
        footer.key_bytes += key_len as u64;
        footer.value_bytes += value_len as u64;
        // Both the sort and tables refuse keys and values of more than 2^32 - 1 bytes.
        let (key_len, value_len) = (key_len as u32, value_len as u32);
        footer.key_len = (footer.key_len.0.min(key_len), footer.key_len.1.max(key_len));
        footer.value_len = (footer.value_len.0.min(value_len), footer.value_len.1.max(value_len));
    }

    fn write_block(&mut self) -> Result<()> {
        let Some(blocks) = &mut self.blocks else { return Ok(()) };
        let packed = blocks.pack();
        self.pages.begin_cell(packed.position, packed.rank)?;
        self.pages.write(&packed.head)?;
        self.pages.write(packed.stored)?;
        blocks.clear();
        Ok(())
    }

    /// Writes what is left. Returns the footer without its sections, and the numbers for indexes.
    pub fn finish(mut self) -> Result<(Footer, IndexNumbers)> {
        if self.blocks.as_ref().is_some_and(|blocks| !blocks.is_empty()) {
            self.write_block()?;
        }
        let written = self.pages.finish()?;
        let mut footer = self.footer;
        if footer.pairs == 0 {
            (footer.key_len, footer.value_len) = ((0, 0), (0, 0));
        }
        footer.pages = written.pages;
        footer.stream_bytes = written.stream_bytes;
        footer.data_checksum = written.data_checksum;
        let firsts = written.firsts;
        let numbers =
            IndexNumbers { page_positions: firsts.positions, page_ranks: firsts.ranks, positions: self.positions };
        Ok((footer, numbers))
    }
}
