//! Records in, data pages out: which bytes stand where, and what the indexes will want to know.
//!
//! Records come in the order in which they are to lie. Each becomes a unit of the stream, or part of a compressed block; on the
//! way pairs and bytes are counted, and the positions and ranks that the chosen indexes are made of are put by.
//! Not here: pages (`pages.rs`), indexes (`index/`), which record comes next (`build.rs`, `merge.rs`).

use super::block::Blocks;
use super::format::{Compression, Footer, Header, Layout};
use super::pages::{self, Firsts, PageWriter};
use super::record;
use super::spool::Spool;
use crate::error::Result;
use crate::io::File;
use std::path::Path;
use std::sync::Arc;

/// What indexes want to know; what is `None` is not asked for.
pub(super) struct Wanted<'s> {
    /// The position of the first record of the unit that covers the first byte of each page.
    pub page_positions: Option<Spool<'s>>,
    /// Its rank.
    pub page_ranks: Option<Spool<'s>>,
    /// The position of every record.
    pub positions: Option<Spool<'s>>,
}

struct PageFirsts<'s> {
    positions: Option<Spool<'s>>,
    ranks: Option<Spool<'s>>,
}

impl Firsts for PageFirsts<'_> {
    fn page(&mut self, position: u64, rank: u64) -> Result<()> {
        if let Some(positions) = &mut self.positions {
            positions.push(position)?;
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.push(rank)?;
        }
        Ok(())
    }
}

pub(super) struct DataWriter<'s> {
    pages: PageWriter<PageFirsts<'s>>,
    layout: Layout,
    blocks: Option<Blocks>,
    positions: Option<Spool<'s>>,
    footer: Footer,
}

impl<'s> DataWriter<'s> {
    /// Writes behind the header's page of `file`, which errors call `path`.
    pub fn new(file: Arc<dyn File>, path: &Path, header: &Header, wanted: Wanted<'s>) -> Result<Self> {
        let firsts = PageFirsts { positions: wanted.page_positions, ranks: wanted.page_ranks };
        let head = pages::head_bytes(header.layout, header.compression);
        Ok(DataWriter {
            pages: PageWriter::new(file, path, header.page_bytes, head, firsts)?,
            layout: header.layout,
            blocks: (header.compression != Compression::None).then(|| Blocks::new(header.block_bytes)),
            positions: wanted.positions,
            footer: Footer { key_len: (u32::MAX, 0), value_len: (u32::MAX, 0), ..Footer::default() },
        })
    }

    /// Writes one record; whoever calls it sees to it that its lengths are the layout's.
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
        self.pages.begin_unit(position, rank)?;
        self.pages.write(head)?;
        self.pages.write(key)?;
        self.pages.write(value)
    }

    /// Writes records of the fixed layout that stand one behind another in `bytes`; `position` gives that of one by its number.
    pub fn push_fixed(&mut self, bytes: &[u8], mut position: impl FnMut(usize) -> u64) -> Result<()> {
        let Layout::Fixed { key_len, value_len } = self.layout else { unreachable!("records of one length") };
        let record_bytes = key_len as usize + value_len as usize;
        let count = bytes.len() / record_bytes;
        if self.blocks.is_some() {
            for (index, record) in bytes.chunks_exact(record_bytes).enumerate() {
                let (key, value) = record.split_at(key_len as usize);
                self.push(position(index), key, value)?;
            }
            return Ok(());
        }
        if count == 0 {
            return Ok(());
        }
        if let Some(positions) = &mut self.positions {
            for index in 0..count {
                positions.push(position(index))?;
            }
        }
        let rank = self.footer.pairs;
        self.footer.pairs += count as u64;
        self.footer.key_bytes += count as u64 * u64::from(key_len);
        self.footer.value_bytes += count as u64 * u64::from(value_len);
        (self.footer.key_len, self.footer.value_len) = ((key_len, key_len), (value_len, value_len));
        self.pages.write_fixed(bytes, record_bytes, rank, position)
    }

    #[inline]
    fn count(&mut self, key_len: usize, value_len: usize) {
        let footer = &mut self.footer;
        footer.key_bytes += key_len as u64;
        footer.value_bytes += value_len as u64;
        // Keys and values have at most 2^32 - 1 bytes, which whoever takes them in checks.
        let (key_len, value_len) = (key_len as u32, value_len as u32);
        footer.key_len = (footer.key_len.0.min(key_len), footer.key_len.1.max(key_len));
        footer.value_len = (footer.value_len.0.min(value_len), footer.value_len.1.max(value_len));
    }

    fn write_block(&mut self) -> Result<()> {
        let Some(blocks) = &mut self.blocks else { return Ok(()) };
        let packed = blocks.pack();
        self.pages.begin_unit(packed.position, packed.rank)?;
        self.pages.write(&packed.head)?;
        self.pages.write(packed.stored)?;
        blocks.clear();
        Ok(())
    }

    /// Writes what is left; gives the footer but for its sections, and what was put by for indexes.
    pub fn finish(mut self) -> Result<(Footer, Wanted<'s>)> {
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
        let wanted = Wanted { page_positions: firsts.positions, page_ranks: firsts.ranks, positions: self.positions };
        Ok((footer, wanted))
    }
}
