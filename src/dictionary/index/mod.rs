//! The kinds of index: how a position becomes the few pages that are read.
//!
//! Each kind is a section of 64-bit words behind the data. [`Index`] says which is wanted; [`Loaded`] is one that was opened, its
//! words in memory or mapped. A kind gives pages, or ranks (which record it is), of which pages are made by arithmetic where
//! records have one size, else by a second section.
//!
//! | kind | gives | bits | source |
//! |---|---|---|---|
//! | `page` | pages | 6.2 a page | PaCHash: Kurpicz, Lehmann & Sanders 2023 |
//! | `trie` | the rank, or the block of ranks | 2.5 a key, or less | Lim, Andersen & Kaminsky 2013 |
//! | `chunk` | the rank | 1.5 to 1.9 a key | ours, by Consensus: Lehmann, Sanders, Walzer & Ziegler 2025 |
//! | `mphf` | the rank | 1.95 a key | PHast: Beling & Sanders 2025 |
//! | `none` | nothing: hash order is searched | 0 | Lim et al., "drop the index whenever desired" |

pub(crate) mod chunk;
pub(crate) mod elias_fano;
pub(crate) mod mphf;
pub(crate) mod page;
pub(crate) mod trie;

use super::format::{Order, SectionKind};
use crate::io::View;
use page::PageIndex;
use std::ops::Range;
use std::sync::Arc;
use trie::{Trie, TrieOptions};

/// Which index a dictionary has, and how it is made.
///
/// All find the pages of a key, so that a lookup is one read of the data (`None` needs several).
///
/// # Examples
/// ```
/// use splitpoint::Index;
/// assert_eq!(Index::default(), Index::page());
/// assert_eq!(Index::trie().name(), "trie");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Index {
    /// Which pages can hold a hash: about 6.2 bits a page, for records of any sizes.
    Page {
        /// More of them: fewer pages read in vain; a bit a page for each doubling.
        bins_per_page: u32,
    },
    /// Entropy-coded tries: the rank of a key in 2.5 bits.
    Trie {
        /// Keys a virtual bucket on average, the paper's *g*: a power of two.
        bucket_keys: u32,
        /// Tries of up to so many keys are coded by Huffman's method, larger ones by Elias' gamma: the paper's *hmax*.
        huffman_max: u32,
        /// Tries of at least so many keys say where their right half begins; 0 for none, as in the paper.
        skip_min: u32,
        /// 1: the rank of each key. More: which block of so many keys, in fewer bits (the paper's *sparse index*).
        block_items: u32,
    },
    /// No index: the pages are searched. Several reads a lookup.
    None,
}

impl Index {
    /// The default.
    pub fn page() -> Index {
        Index::Page { bins_per_page: page::BINS_PER_PAGE }
    }

    /// As in the paper's evaluation: 256 keys a bucket, Huffman up to 64.
    pub fn trie() -> Index {
        Index::Trie { bucket_keys: 256, huffman_max: 64, skip_min: 0, block_items: 1 }
    }

    /// The paper's sparse index for blocks of `block_items` keys.
    pub fn trie_sparse(block_items: u32) -> Index {
        Index::Trie { bucket_keys: 256, huffman_max: 64, skip_min: 0, block_items }
    }

    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            Index::Page { .. } => "page",
            Index::Trie { block_items: 1, .. } => "trie",
            Index::Trie { .. } => "trie-sparse",
            Index::None => "none",
        }
    }

    /// How its tries are made, if it has some.
    pub(super) fn trie_options(self) -> Option<TrieOptions> {
        match self {
            Index::Trie { bucket_keys, huffman_max, skip_min, block_items } => {
                Some(TrieOptions { bucket_keys, huffman_max, skip_min, block_items })
            }
            _ => None,
        }
    }

    /// In which order it wants the records.
    pub(super) fn order(self) -> Order {
        match self {
            Index::Page { .. } | Index::Trie { .. } | Index::None => Order::Hash,
        }
    }

    /// Does it give ranks?
    pub(super) fn gives_ranks(self) -> bool {
        matches!(self, Index::Trie { .. })
    }
}

impl Default for Index {
    fn default() -> Self {
        Index::page()
    }
}

/// The words of a section.
pub(super) enum Words {
    Loaded(Vec<u64>),
    Viewed { view: Arc<dyn View>, bytes: Range<usize> },
}

impl Words {
    #[inline]
    pub fn get(&self) -> &[u64] {
        match self {
            Words::Loaded(words) => words,
            // Sections begin at multiples of 4096 in a mapping, which begins at one; else there are none, and nothing is found.
            Words::Viewed { view, bytes } => {
                bytemuck::try_cast_slice(&view.bytes()[bytes.clone()]).unwrap_or_default()
            }
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Words::Loaded(words) => words.len() as u64 * 8,
            Words::Viewed { bytes, .. } => bytes.len() as u64,
        }
    }
}

/// Where the record of a position is, if it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Pages(Range<u64>),
    Ranks(Range<u64>),
    /// Anywhere: search.
    Unknown,
}

/// An index that was opened.
pub(super) enum Loaded {
    Page(PageIndex, Words),
    Trie(Box<Trie>, Words),
    None,
}

impl Loaded {
    /// Opens the words of a section of kind `kind` over `pairs` records in `pages` pages.
    pub fn open(kind: SectionKind, words: Words, pairs: u64, pages: u64) -> Result<Loaded, String> {
        let _ = pairs;
        match kind {
            SectionKind::Pages => Ok(Loaded::Page(open_pages(&words, pages)?, words)),
            SectionKind::Trie => Ok(Loaded::Trie(Box::new(Trie::open(words.get())?), words)),
            other => Err(format!("an index of kind {}", other as u32)),
        }
    }

    #[inline]
    pub fn place(&self, position: u64) -> Place {
        match self {
            Loaded::Page(index, words) => Place::Pages(index.pages_of(words.get(), position)),
            Loaded::Trie(index, words) => Place::Ranks(index.locate(words.get(), position)),
            Loaded::None => Place::Unknown,
        }
    }

    /// The ranks, among them `rank`, whose records are in an order of the index's own.
    pub fn group(&self, rank: u64) -> Option<Range<u64>> {
        let _ = rank;
        match self {
            Loaded::Page(..) | Loaded::Trie(..) | Loaded::None => None,
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Loaded::Page(_, words) | Loaded::Trie(_, words) => words.bytes(),
            Loaded::None => 0,
        }
    }
}

/// A page index for just these pages.
pub(super) fn open_pages(words: &Words, pages: u64) -> Result<PageIndex, String> {
    let index = PageIndex::open(words.get())?;
    if index.pages() == pages { Ok(index) } else { Err(format!("an index of {} pages for {pages}", index.pages())) }
}
