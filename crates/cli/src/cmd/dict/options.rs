//! Options shared by the commands for dictionaries: index, file layout, memory and threads.

use crate::cmd::load::parse_hash;
use crate::failure::{Failure, Result};
use crate::number::{parse_memory, parse_size_u32};
use clap::ValueEnum;
use splitpoint::dictionary::{Compression, Effort, Index};
use splitpoint::{DictionaryBuilder, HashKind};
use std::path::PathBuf;

/// The help section of the index options.
pub const INDEX_HELP: &str = "\
Indexes: page, the default, for records of any size, one read per lookup; chunk,
1.5 to 1.9 bits per key, reorders the records; trie, 2.6 bits, keeps hash order,
trie-sparse takes fewer; none searches the pages. chunk and trie return ranks:
records of varying size need a second, small index from ranks to pages.
--filter 8 adds 9.5 bits per key, and 99.6 % of lookups of absent keys read no
data; --filter 16 adds 19 bits, and it is 99.998 %.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IndexName {
    Page,
    Trie,
    TrieSparse,
    Chunk,
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum EffortName {
    Fast,
    Balanced,
    Small,
}

/// Default keys per block of a sparse index.
const BLOCK_ITEMS: u32 = 16;

#[derive(clap::Args, Default)]
pub struct IndexArgs {
    /// The index
    #[arg(long, short, value_enum, hide_possible_values = true, value_name = "page|trie|trie-sparse|chunk|none")]
    pub index: Option<IndexName>,
    /// Average keys per virtual bucket, a power of two (trie, trie-sparse) [default: 256]
    #[arg(long, value_name = "N")]
    g: Option<u32>,
    /// Largest trie that is Huffman-coded, in keys; larger ones use Elias gamma (trie, trie-sparse) [default: 64]
    #[arg(long, value_name = "N")]
    hmax: Option<u32>,
    /// Smallest trie, in keys, that stores where its right half begins: faster, larger; 0 for none (trie, trie-sparse)
    /// [default: 64]
    #[arg(long, value_name = "N")]
    skip: Option<u32>,
    /// Keys per block; 0: as many as fit a page if all records have one size, else 1 (trie-sparse) [default: 16]
    #[arg(long, value_name = "N")]
    block_items: Option<u32>,
    /// Bits per key against build time (chunk) [default: balanced]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "fast|balanced|small")]
    effort: Option<EffortName>,
    /// Add a filter of 8 or 16 bits to the index, so that lookups of absent keys read nothing; 0 for none
    #[arg(long, value_name = "8|16|0", value_parser = parse_filter)]
    pub filter: Option<u32>,
}

fn parse_filter(text: &str) -> std::result::Result<u32, String> {
    match text {
        "0" => Ok(0),
        "8" => Ok(8),
        "16" => Ok(16),
        _ => Err("expected 8, 16, or 0 for none".to_owned()),
    }
}

impl IndexArgs {
    /// Returns the chosen index; `None` if no option chose one.
    ///
    /// # Errors
    /// An option that belongs to another kind of index than the chosen one.
    pub fn index(&self) -> Result<Option<Index>> {
        self.check()?;
        let trie = |mut index| {
            let Index::Trie { bucket_keys, huffman_max, skip_min, .. } = &mut index else {
                unreachable!("a trie is one")
            };
            *bucket_keys = self.g.unwrap_or(*bucket_keys);
            *huffman_max = self.hmax.unwrap_or(*huffman_max);
            *skip_min = self.skip.unwrap_or(*skip_min);
            index
        };
        Ok(self.index.map(|name| match name {
            IndexName::Page => Index::page(),
            IndexName::Trie => trie(Index::trie()),
            IndexName::TrieSparse => trie(Index::trie_sparse(self.block_items.unwrap_or(BLOCK_ITEMS))),
            IndexName::Chunk => Index::Chunk {
                effort: match self.effort {
                    Some(EffortName::Fast) => Effort::Fast,
                    None | Some(EffortName::Balanced) => Effort::Balanced,
                    Some(EffortName::Small) => Effort::Small,
                },
            },
            IndexName::None => Index::None,
        }))
    }

    fn check(&self) -> Result<()> {
        let trie = matches!(self.index, Some(IndexName::Trie | IndexName::TrieSparse));
        let sparse = self.index == Some(IndexName::TrieSparse);
        let chunk = self.index == Some(IndexName::Chunk);
        for (option, given, goes, with) in [
            ("--g", self.g.is_some(), trie, "trie or trie-sparse"),
            ("--hmax", self.hmax.is_some(), trie, "trie or trie-sparse"),
            ("--skip", self.skip.is_some(), trie, "trie or trie-sparse"),
            ("--block-items", self.block_items.is_some(), sparse, "trie-sparse"),
            ("--effort", self.effort.is_some(), chunk, "chunk"),
        ] {
            if given && !goes {
                return Err(Failure::usage(format_args!("{option} needs --index {with}")));
            }
        }
        if self.block_items == Some(1) {
            return Err(Failure::usage(
                "--block-items must be 0, or at least 2; for one key per block use --index trie",
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum CompressName {
    None,
    Lz4,
}

/// The layout of records in the file.
#[derive(clap::Args, Default)]
pub struct ShapeArgs {
    /// Bytes of a page, a power of two from 512 to 64K: what most lookups read [default: 4K]
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    page_size: Option<u32>,
    /// Compress records, several together
    #[arg(long, value_enum, hide_possible_values = true, value_name = "none|lz4")]
    compress: Option<CompressName>,
    /// With --compress lz4: bytes of records compressed together [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    block_size: Option<u32>,
}

impl ShapeArgs {
    pub fn shape(&self, mut builder: DictionaryBuilder) -> Result<DictionaryBuilder> {
        if let Some(bytes) = self.page_size {
            builder = builder.page_bytes(bytes);
        }
        let lz4 = matches!(self.compress, Some(CompressName::Lz4));
        if lz4 {
            builder = builder.compression(Compression::Lz4);
        }
        match self.block_size {
            Some(_) if !lz4 => Err(Failure::usage("--block-size needs --compress lz4")),
            Some(bytes) => Ok(builder.block_bytes(bytes)),
            None => Ok(builder),
        }
    }
}

/// Resources that the work may use.
#[derive(clap::Args, Default)]
pub struct WorkArgs {
    /// Memory for sorting; the index comes on top [default: 1GiB, less in a small container]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// Threads [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Directory for temporary files, about as large as the pairs [default: that of the dictionary]
    #[arg(long, value_name = "DIR")]
    temp: Option<PathBuf>,
}

impl WorkArgs {
    pub fn bound(&self, mut builder: DictionaryBuilder) -> DictionaryBuilder {
        if let Some(bytes) = self.memory {
            builder = builder.memory_bytes(bytes);
        }
        if let Some(threads) = self.threads {
            builder = builder.threads(threads);
        }
        if let Some(directory) = &self.temp {
            builder = builder.temporary_directory(directory);
        }
        builder
    }
}

#[derive(clap::Args, Default)]
pub struct HashArgs {
    /// Hash function [default: xxh3; for a single table, the table's]
    #[arg(long, value_name = "NAME", value_parser = parse_hash)]
    pub hash: Option<HashKind>,
    /// Seed of the hash function [default: 0; for a single table, the table's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}
