//! The kinds of index: each maps a position to the few pages that a lookup reads.
//!
//! In addition a file may have a filter (`filter.rs`), which recognizes most absent keys.
//!
//! Each kind is a section of 64-bit words after the data. [`Index`] has the options for making one; [`LoadedIndex`] is
//! an open one, its words in memory or mapped. A kind returns pages, or ranks (the numbers of records). Ranks are
//! converted to pages by arithmetic if records have one size, otherwise with a second section.
//!
//! | kind | returns | bits | source |
//! |---|---|---|---|
//! | `page` | pages | 6.2 a page | PaCHash: Kurpicz, Lehmann & Sanders 2023 |
//! | `trie` | the rank, or the block of ranks | 2.5 a key, or less | Lim, Andersen & Kaminsky 2013 |
//! | `chunk` | the rank | 1.5 to 1.9 a key | ours, by Consensus: Lehmann, Sanders, Walzer & Ziegler 2025 |
//! | `none` | nothing: hash order is searched | 0 | Lim et al., "drop the index whenever desired" |

pub(crate) mod chunk;
pub(crate) mod elias_fano;
pub(crate) mod filter;
pub(crate) mod page_index;
mod popcnt;
pub(crate) mod trie;

use crate::dictionary::format::ends::SectionKind;
use crate::dictionary::format::layout::Order;
use crate::error::Result;
use crate::io::View;
pub use chunk::Effort;
use chunk::{ChunkOptions, Chunks};
use filter::Filter;
use page_index::{Located, PageIndex};
use std::ops::Range;
use std::sync::Arc;
use trie::{PageShape, Trie, TrieOptions};

/// The kind of a dictionary's index and its options.
///
/// With any index a lookup is one read of the data; without one (`None`) it is several.
///
/// # Examples
/// ```
/// use splitpoint::dictionary::Index;
/// assert_eq!(Index::default(), Index::page());
/// assert_eq!(Index::trie().name(), "trie");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Index {
    /// Which pages can hold a hash: about 6.2 bits a page, for records of any sizes.
    Page {
        /// Doubling it costs one more bit per page, and lookups then read fewer pages that do not have the key.
        bins_per_page: u32,
    },
    /// Entropy-coded tries: the rank of a key in 2.5 bits.
    Trie {
        /// Average number of keys per virtual bucket, the paper's *g*: a power of two.
        bucket_keys: u32,
        /// The number of keys up to which a trie is coded with Huffman's method; larger ones use Elias' gamma code. The
        /// paper's *hmax*.
        huffman_max: u32,
        /// The number of keys from which a trie stores where its right half begins: 0 for never, as in the paper, or at
        /// least 32.
        #[doc(hidden)] // a matter of measurement
        skip_min: u32,
        /// 1: the index returns the rank of a key. Above 1: it returns the block of this many keys, in fewer bits (the
        /// paper's *sparse index*). 0: it returns the page if records have one size and fit in a page; otherwise as for
        /// 1.
        #[doc(hidden)] // chosen by `trie` or `trie_sparse`
        block_items: u32,
    },
    /// Chunks of keys without hash order inside: the rank in 1.5 to 1.9 bits.
    ///
    /// The records of a chunk are in memory together during the build, and are stored in the chunk's own order.
    Chunk {
        /// Trades a longer build for fewer bits.
        effort: Effort,
    },
    /// No index: the pages are searched. Several reads per lookup.
    None,
}

impl Index {
    /// The default.
    pub fn page() -> Index {
        Index::Page { bins_per_page: page_index::BINS_PER_PAGE }
    }

    /// Tries of 256 keys per bucket, Huffman codes up to 64, as in the paper's evaluation, and skip pointers from 64
    /// keys on: 2.64 bits per key. Without pointers (`skip_min: 0`, as in the paper) it is 2.51, and lookups are
    /// slower.
    pub fn trie() -> Index {
        Index::Trie { bucket_keys: 256, huffman_max: 64, skip_min: 64, block_items: 1 }
    }

    /// The paper's sparse index for blocks of `block_items` keys, with skip pointers. 0: the blocks are the pages, if
    /// records have one size and fit in a page; otherwise as for 1. For 255 records per page it takes 0.25 bits per
    /// key.
    pub fn trie_sparse(block_items: u32) -> Index {
        Index::Trie { bucket_keys: 256, huffman_max: 64, skip_min: 64, block_items }
    }

    /// Chunks of 512 keys, 1.69 bits a key.
    pub fn chunk() -> Index {
        Index::Chunk { effort: Effort::Balanced }
    }

    /// Its name, as used on the command line.
    #[doc(hidden)] // the program's
    pub fn name(self) -> &'static str {
        match self {
            Index::Page { .. } => "page",
            Index::Trie { block_items: 1, .. } => "trie",
            Index::Trie { .. } => "trie-sparse",
            Index::Chunk { .. } => "chunk",
            Index::None => "none",
        }
    }

    /// The options of its tries, if it has tries, for records in pages of shape `page`; `None` if records have several
    /// sizes.
    pub(crate) fn trie_options(self, page: Option<PageShape>) -> Option<TrieOptions> {
        match self {
            Index::Trie { bucket_keys, huffman_max, skip_min, block_items } => {
                let page_of_none = PageShape::default();
                let options = TrieOptions { bucket_keys, huffman_max, skip_min, block_items, page: page_of_none };
                Some(options.in_pages(page))
            }
            _ => None,
        }
    }

    /// The options of its chunks; the defaults if it has none.
    pub(crate) fn chunk_options(self) -> ChunkOptions {
        let effort = if let Index::Chunk { effort } = self { effort } else { Effort::Balanced };
        // Larger chunks pay off only with the long search: see the test `figures` of chunks.
        ChunkOptions { chunk_keys: if effort == Effort::Small { 1024 } else { 512 }, effort }
    }

    /// Checks that the numbers are in range.
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Index::Page { bins_per_page: 1..=1024 } | Index::Chunk { .. } | Index::None => Ok(()),
            Index::Page { bins_per_page } => Err(format!("{bins_per_page} bins a page: from 1 to 1024")),
            Index::Trie { .. } => self.trie_options(None).map_or(Ok(()), |options| options.check()),
        }
    }

    /// The order of records that this index requires.
    pub(crate) fn order(self) -> Order {
        match self {
            Index::Page { .. } | Index::Trie { .. } | Index::None => Order::Hash,
            Index::Chunk { .. } => Order::Chunks,
        }
    }

    /// Whether it returns ranks.
    pub(crate) fn gives_ranks(self) -> bool {
        matches!(self, Index::Trie { .. } | Index::Chunk { .. })
    }
}

impl Default for Index {
    fn default() -> Self {
        Index::page()
    }
}

/// The words of a section.
pub(crate) enum Words {
    Loaded(Vec<u64>),
    Viewed { view: Arc<dyn View>, bytes: Range<usize> },
}

impl Words {
    #[inline]
    pub fn get(&self) -> &[u64] {
        match self {
            Words::Loaded(words) => words,
            // Sections begin at multiples of 4096 in a mapping that is itself aligned; otherwise there are no words,
            // and nothing is found.
            Words::Viewed { view, bytes } => bytemuck::try_cast_slice(&view.bytes()[bytes.clone()]).unwrap_or_default(),
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Words::Loaded(words) => words.len() as u64 * 8,
            Words::Viewed { bytes, .. } => bytes.len() as u64,
        }
    }
}

/// The possible locations of a position's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Candidates {
    Pages(Located),
    Ranks(Range<u64>),
    /// There is no index: search.
    Anywhere,
}

/// An open index.
pub(crate) enum LoadedIndex {
    Page(PageIndex, Words),
    Trie(Box<Trie>, Words),
    Chunk(Box<Chunks>, Words),
    None,
}

impl LoadedIndex {
    /// Opens the words of a section of kind `kind` over `pairs` records, in order `order`, in `pages` pages.
    pub fn open(kind: SectionKind, words: Words, order: Order, pairs: u64, pages: u64) -> Result<LoadedIndex, String> {
        let (loaded, wants, indexed) = match kind {
            SectionKind::Pages => {
                let index = open_pages(&words, pages)?;
                (LoadedIndex::Page(index, words), Order::Hash, pairs)
            }
            SectionKind::Trie => {
                let index = Trie::open(words.get())?;
                let indexed = index.pairs();
                (LoadedIndex::Trie(Box::new(index), words), Order::Hash, indexed)
            }
            SectionKind::Chunk => {
                let index = Chunks::open(words.get())?;
                let indexed = index.pairs();
                (LoadedIndex::Chunk(Box::new(index), words), Order::Chunks, indexed)
            }
            SectionKind::Ranks | SectionKind::Filter => return Err("a section of another use".to_owned()),
        };
        if indexed != pairs {
            return Err(format!("an index of {indexed} pairs for {pairs}"));
        }
        if wants != order { Err("an index for records in another order".to_owned()) } else { Ok(loaded) }
    }

    #[inline]
    pub fn candidates(&self, position: u64) -> Candidates {
        match self {
            LoadedIndex::Page(index, words) => Candidates::Pages(index.locate(words.get(), position)),
            LoadedIndex::Trie(index, words) => Candidates::Ranks(index.locate(words.get(), position)),
            LoadedIndex::Chunk(index, words) => Candidates::Ranks(index.locate(words.get(), position)),
            LoadedIndex::None => Candidates::Anywhere,
        }
    }

    /// Passes the [`candidates`](Self::candidates) of many positions to `each` in order; their memory accesses overlap.
    /// Ends with the first error that `each` returns.
    pub fn candidates_of(&self, positions: &[u64], mut each: impl FnMut(Candidates) -> Result<()>) -> Result<()> {
        let mut found = Vec::new();
        match self {
            LoadedIndex::Page(index, words) => {
                return index.locate_many(words.get(), positions, |located| each(Candidates::Pages(located)));
            }
            LoadedIndex::Trie(index, words) => index.locate_many(words.get(), positions, &mut found),
            LoadedIndex::Chunk(index, words) => index.locate_many(words.get(), positions, &mut found),
            LoadedIndex::None => return positions.iter().try_for_each(|_| each(Candidates::Anywhere)),
        }
        found.into_iter().try_for_each(|ranks| each(Candidates::Ranks(ranks)))
    }

    /// Recomputes what is derived from other words, and names any difference: damage that lookups have not noticed.
    pub fn check(&self) -> Result<(), String> {
        match self {
            LoadedIndex::Page(index, words) => index.check(words.get()),
            _ => Ok(()),
        }
    }

    /// The ranks of the chunk that contains `rank`; `None` if records are in hash order.
    pub fn group(&self, rank: u64) -> Option<Range<u64>> {
        match self {
            LoadedIndex::Chunk(index, _) if rank < index.pairs() => Some(index.ranks(index.chunk_of_rank(rank))),
            _ => None,
        }
    }

    /// Its name, as used on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            LoadedIndex::Page(..) => "page",
            LoadedIndex::Trie(index, _) if index.options().block_items != 1 => "trie-sparse",
            LoadedIndex::Trie(..) => "trie",
            LoadedIndex::Chunk(..) => "chunk",
            LoadedIndex::None => "none",
        }
    }

    /// The options that make an index like this one, as far as the file records them.
    pub fn kind(&self) -> Index {
        match self {
            LoadedIndex::Page(index, _) => Index::Page { bins_per_page: index.bins_per_page() },
            LoadedIndex::Trie(index, _) => {
                let TrieOptions { bucket_keys, huffman_max, skip_min, block_items, .. } = index.options();
                Index::Trie { bucket_keys, huffman_max, skip_min, block_items }
            }
            LoadedIndex::Chunk(index, _) => Index::Chunk { effort: index.options().effort },
            LoadedIndex::None => Index::None,
        }
    }

    /// Figures of this kind of index, as names and numbers.
    pub fn details(&self) -> Vec<(&'static str, f64)> {
        match self {
            LoadedIndex::Page(index, words) => {
                vec![("bits_per_page", words.bytes() as f64 * 8.0 / index.pages().max(1) as f64)]
            }
            LoadedIndex::Trie(index, _) => {
                let options = index.options();
                vec![
                    ("bucket_keys", options.bucket_keys.into()),
                    ("huffman_max", options.huffman_max.into()),
                    ("skip_min", options.skip_min.into()),
                    ("block_items", options.block_items.into()),
                    ("buckets", index.bucket_count() as f64),
                    ("superblock_buckets", index.superblock_buckets() as f64),
                    ("wide_superblocks", index.wide_superblock_count() as f64),
                    ("trie_bits", index.bits_of_tries() as f64),
                    ("bucket_bits", index.bits_of_buckets() as f64),
                ]
            }
            LoadedIndex::Chunk(index, _) => {
                let facts = index.facts();
                vec![
                    ("chunks", facts.chunks as f64),
                    ("escapes", facts.escapes as f64),
                    ("seed_bits", facts.seed_bits as f64),
                    ("threshold_bits", facts.threshold_bits as f64),
                ]
            }
            LoadedIndex::None => Vec::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            LoadedIndex::Page(_, words) | LoadedIndex::Trie(_, words) | LoadedIndex::Chunk(_, words) => words.bytes(),
            LoadedIndex::None => 0,
        }
    }
}

/// Opens a page index, which must be for exactly this many pages.
pub(crate) fn open_pages(words: &Words, pages: u64) -> Result<PageIndex, String> {
    let index = PageIndex::open(words.get())?;
    if index.pages() == pages { Ok(index) } else { Err(format!("an index of {} pages for {pages}", index.pages())) }
}

/// Opens a filter, which must be for no more keys than these pairs.
pub(crate) fn open_filter(words: &Words, pairs: u64) -> Result<Filter, String> {
    let filter = Filter::open(words.get())?;
    if filter.keys() <= pairs { Ok(filter) } else { Err(format!("a filter of {} keys for {pairs}", filter.keys())) }
}
