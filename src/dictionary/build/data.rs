//! Records in, data pages out, and the numbers that indexes are made of.
//!
//! Records come in the order in which they are to lie. Each becomes a cell of the stream, or part of a compressed
//! block; on the way pairs and bytes are counted, and the positions and ranks that the index needs are kept. Not here:
//! pages (`pages.rs`), indexes (`index/`), which record comes next (`merge.rs`).

use super::numbers::NumberList;
use super::pages::{PageFirsts, PageWriter};
use crate::dictionary::format::block::Blocks;
use crate::dictionary::format::ends::{FileHeader, Footer};
use crate::dictionary::format::layout::{Compression, Layout};
use crate::dictionary::format::{page, record};
use crate::dictionary::run::Run;
use crate::error::Result;
use crate::io::File;
use std::path::Path;
use std::sync::Arc;

/// The numbers that indexes are made of; `None` for those that no index asked for.
pub(crate) struct IndexNumbers {
    /// The position of the first record of the cell that covers the first byte of each page.
    pub page_positions: Option<NumberList>,
    /// Its rank.
    pub page_ranks: Option<NumberList>,
    /// The position of every record.
    pub positions: Option<NumberList>,
}

pub(crate) struct DataWriter {
    pages: PageWriter,
    layout: Layout,
    blocks: Option<Blocks>,
    positions: Option<NumberList>,
    footer: Footer,
}

impl DataWriter {
    /// Writes behind the header's page of `file`, which errors call `path`.
    pub fn new(file: Arc<dyn File>, path: &Path, header: &FileHeader, numbers: IndexNumbers) -> Result<Self> {
        let firsts = PageFirsts { positions: numbers.page_positions, ranks: numbers.page_ranks };
        let head = page::head_bytes(header.layout, header.compression);
        Ok(DataWriter {
            pages: PageWriter::new(file, path, header.page_bytes, head, firsts)?,
            layout: header.layout,
            blocks: (header.compression != Compression::None).then(|| Blocks::new(header.block_bytes)),
            positions: numbers.positions,
            footer: Footer { key_len: (u32::MAX, 0), value_len: (u32::MAX, 0), ..Footer::default() },
        })
    }

    /// Writes one record, whose lengths are the layout's.
    #[inline]
    pub fn push(&mut self, position: u64, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(match self.layout {
            Layout::Varied => true,
            Layout::Fixed { key_len, value_len } => key.len() == key_len as usize && value.len() == value_len as usize,
        });
        if let Some(positions) = &mut self.positions {
            positions.push(position)?;
        }
        self.count(key.len(), value.len());
        let rank = self.footer.pairs;
        self.footer.pairs += 1;
        let (head, head_bytes) = record::head(self.layout, key, value);
        let head = &head[..head_bytes];
        if let Some(blocks) = &mut self.blocks {
            if blocks.add(position, rank, [head, key, value]) {
                self.write_block()?;
            }
            return Ok(());
        }
        self.pages.begin_cell(position, rank)?;
        self.pages.write(head)?;
        self.pages.write(key)?;
        self.pages.write(value)
    }

    /// Writes the records of `run`, which all have the lengths of the fixed layout.
    pub fn push_fixed(&mut self, run: &Run) -> Result<()> {
        let Layout::Fixed { key_len, value_len } = self.layout else { unreachable!("records of one size") };
        if self.blocks.is_some() {
            let records = run.bytes.chunks_exact(key_len as usize + value_len as usize);
            for (position, record) in run.positions.iter().zip(records) {
                let (key, value) = record.split_at(key_len as usize);
                self.push(*position, key, value)?;
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
        // The sort refuses keys and values of more than 2^32 - 1 bytes, and so does a table.
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

    /// Writes what is left; gives the footer without its sections, and the numbers for indexes.
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
