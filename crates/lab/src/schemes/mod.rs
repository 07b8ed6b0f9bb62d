//! The access methods before and beside ours, as small models: how each finds a key's place, and what that costs.
//!
//! | module | scheme | how it finds a place |
//! |---|---|---|
//! | `dbm` | dbm, ndbm | as many hash bits as a bitmap of splits says |
//! | `sdbm` | sdbm | the same by a radix trie laid out in an array |
//! | `gdbm` | gdbm | extendible hashing: a directory that doubles |
//! | `hsearch`, `chained` | System V's hsearch, with its options at compile time | a table of a size that is declared |
//! | `dynahash` | dynahash | linear hashing in memory, controlled splits |
//! | `hybrid` | the 1991 package, and ours | linear hashing on pages, hybrid splits |
//! | `study` | | feeds keys to a scheme and measures it over their number |
//!
//! The models keep keys and count bytes; they store no values and touch no file. Work is counted in pages or entries, never in
//! time, so that a study gives the same figures everywhere. Hashes have 32 bits, as they had then, and the low ones count first.
//!
//! Source: Seltzer & Yigit 1991, "Existing UNIX Hashing Techniques"; what a program does beyond that is said where it is modelled.

mod chained;
mod dbm;
mod dynahash;
mod function;
mod gdbm;
mod hsearch;
mod hybrid;
mod pages;
mod sdbm;
mod study;
#[cfg(test)]
mod tests;

pub use function::Function;
pub use study::{Distinct, GivenUp, Point, Refusals, Study, WORK_MAX, absent_keys};

use std::fmt;

/// Bits of a hash that a scheme may use.
pub const HASH_BITS: u32 = 32;
/// Smallest page: less holds no pair worth the name.
pub const PAGE_BYTES_MIN: usize = 64;
/// Largest page: the paper's.
pub const PAGE_BYTES_MAX: usize = 32 << 10;

/// Bytes of a pointer in the tables in memory; in 1991 it was 4.
const POINTER_BYTES: u64 = 8;
/// What System V's tables hold of a pair: pointers to its key and its data.
const ENTRY_BYTES: u64 = 2 * POINTER_BYTES;

/// A model of an access method.
///
/// Keys are borrowed for `'k`: a study feeds millions of the user's.
pub trait Scheme<'k> {
    /// Stores a pair of `key` and a value of `value_bytes`; one that is there stays as it is.
    ///
    /// # Errors
    /// The scheme cannot hold the pair. Its pairs are as before; room that it made in vain stays made.
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused>;

    /// Looks for `key`.
    fn find(&self, key: &[u8]) -> Found;

    /// What it has cost so far. O(1).
    fn figures(&self) -> Figures;
}

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Is the key there?
    pub found: bool,
    /// Pages read, or entries looked at.
    pub touched: u64,
}

/// What a scheme has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Pairs stored.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub pair_bytes: u64,
    /// Bytes of all that holds pairs: pages written, or in memory the table with its nodes and the pairs.
    pub store_bytes: u64,
    /// The length of the file with its holes; 0 in memory.
    pub file_bytes: u64,
    /// Bytes in memory that lead from a hash to a place: bitmap, trie, directory, table.
    pub addressing_bytes: u64,
    /// Buckets split.
    pub splits: u64,
    /// The most that one insert did: pages written, or entries moved.
    pub longest_pause: u64,
    /// Entries compared and moved by all inserts: what the model itself has to do.
    pub work: u64,
}

impl Figures {
    /// Bytes of pairs over bytes of what holds them, in percent.
    pub fn utilisation_percent(&self) -> f64 {
        if self.store_bytes == 0 { 0.0 } else { 100.0 * self.pair_bytes as f64 / self.store_bytes as f64 }
    }

    fn stored(&mut self, pair: &Pair) {
        self.pairs += 1;
        self.pair_bytes += pair.bytes() as u64;
    }

    fn paused(&mut self, work: u64) {
        self.longest_pause = self.longest_pause.max(work);
    }
}

/// Why a pair cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// Key, value and their place on the page are more than a page.
    PairTooLarge {
        /// With what the page keeps of it.
        pair_bytes: usize,
        /// What a page has for pairs.
        page_bytes: usize,
    },
    /// The pairs of its page and this one agree in all hash bits that a split may look at.
    Collisions {
        /// How many bits that are.
        bits: u32,
    },
    /// The table has the size that was declared, and is full.
    TableFull {
        /// Places in it.
        slots: usize,
    },
    /// The directory would have to double beyond what the model allows it.
    DirectoryTooLarge {
        /// Entries it has.
        entries: usize,
    },
    /// All addresses of overflow pages are taken.
    OverflowAddresses {
        /// How many there are.
        pages: u64,
    },
    /// More work for one insert than the scheme allows itself.
    SplitsInVain {
        /// How many it tries.
        splits: u32,
    },
}

impl Refused {
    /// Will every later key be refused as well?
    pub fn is_final(self) -> bool {
        matches!(self, Refused::TableFull { .. })
    }

    /// One word for the kind, for reports that machines read.
    pub fn name(self) -> &'static str {
        match self {
            Refused::PairTooLarge { .. } => "pair_too_large",
            Refused::Collisions { .. } => "collisions",
            Refused::TableFull { .. } => "table_full",
            Refused::DirectoryTooLarge { .. } => "directory_too_large",
            Refused::OverflowAddresses { .. } => "overflow_addresses",
            Refused::SplitsInVain { .. } => "splits_in_vain",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::PairTooLarge { pair_bytes, page_bytes } => {
                write!(f, "the pair takes {pair_bytes} bytes, a page has {page_bytes}")
            }
            Refused::Collisions { bits } => {
                write!(f, "its page is full of keys that agree in all {bits} bits of the hash")
            }
            Refused::TableFull { slots } => write!(f, "the table is full, all {slots} places of it"),
            Refused::DirectoryTooLarge { entries } => {
                write!(f, "its bucket is full, and the directory is not doubled beyond {entries} entries")
            }
            Refused::OverflowAddresses { pages } => write!(f, "all {pages} addresses of overflow pages are taken"),
            Refused::SplitsInVain { splits } => {
                write!(f, "its page is still full after {splits} splits, as many as it tries")
            }
        }
    }
}

/// A pair as the models keep it.
#[derive(Clone, Copy, Debug)]
struct Pair<'k> {
    hash: u32,
    key: &'k [u8],
    value_bytes: u32,
}

impl<'k> Pair<'k> {
    fn new(function: Function, key: &'k [u8], value_bytes: usize) -> Self {
        // A value above 4 GiB fits no page and no chain of a model: it counts as 4 GiB.
        Pair { hash: function.hash(key), key, value_bytes: u32::try_from(value_bytes).unwrap_or(u32::MAX) }
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.value_bytes as usize
    }

    fn is(&self, hash: u32, key: &[u8]) -> bool {
        self.hash == hash && self.key == key
    }
}

/// What the user chooses of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// How many entries are declared to come, for tables that ask.
    pub nelem: usize,
    /// Pairs a bucket on average before a split, where splits are controlled; else each scheme's own choice.
    pub fill_factor: Option<u64>,
    /// Bytes of an average pair, for the paper's equation (1).
    pub average_pair_bytes: usize,
    /// The function for all schemes; else each has its own.
    pub function: Option<splitpoint::HashKind>,
}

impl Options {
    /// Is anything out of range? In words, if so.
    pub fn wrong(&self) -> Option<String> {
        if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes) {
            return Some(format!("pages of {} bytes; give {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}", self.page_bytes));
        }
        if self.fill_factor == Some(0) {
            return Some("a fill factor of 0; give 1 or more".to_owned());
        }
        (self.nelem > hsearch::SLOTS_MAX)
            .then(|| format!("{} entries; give {} or fewer", self.nelem, hsearch::SLOTS_MAX))
    }

    /// The paper's equation (1), for the fill factor: `(average pair + 4) * fill_factor >= page`.
    fn equation_one(&self) -> u64 {
        self.page_bytes.div_ceil(self.average_pair_bytes + 4).max(1) as u64
    }
}

/// The schemes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemeKind {
    /// dbm and ndbm.
    Dbm,
    /// sdbm.
    Sdbm,
    /// gdbm.
    Gdbm,
    /// hsearch as compiled by default: multiplication, double hashing.
    Hsearch,
    /// hsearch compiled with DIV: division, linear probing.
    HsearchDiv,
    /// hsearch compiled with BRENT: entries rearranged as they come.
    HsearchBrent,
    /// hsearch compiled with CHAINED: new entries at the front.
    HsearchChained,
    /// hsearch compiled with CHAINED and SORTUP.
    HsearchSortUp,
    /// hsearch compiled with CHAINED and SORTDOWN.
    HsearchSortDown,
    /// dynahash.
    Dynahash,
    /// The package of the 1991 paper: chains of overflow pages.
    Hash1991,
    /// Splitpoint's table: one overflow page of fitting size a bucket.
    Splitpoint,
}

impl SchemeKind {
    /// All of them, in the paper's order.
    pub const ALL: &[SchemeKind] = &[
        SchemeKind::Dbm,
        SchemeKind::Sdbm,
        SchemeKind::Gdbm,
        SchemeKind::Hsearch,
        SchemeKind::HsearchDiv,
        SchemeKind::HsearchBrent,
        SchemeKind::HsearchChained,
        SchemeKind::HsearchSortUp,
        SchemeKind::HsearchSortDown,
        SchemeKind::Dynahash,
        SchemeKind::Hash1991,
        SchemeKind::Splitpoint,
    ];

    /// The name for tables, options and JSON.
    pub fn name(self) -> &'static str {
        match self {
            SchemeKind::Dbm => "dbm",
            SchemeKind::Sdbm => "sdbm",
            SchemeKind::Gdbm => "gdbm",
            SchemeKind::Hsearch => "hsearch",
            SchemeKind::HsearchDiv => "hsearch-div",
            SchemeKind::HsearchBrent => "hsearch-brent",
            SchemeKind::HsearchChained => "hsearch-chained",
            SchemeKind::HsearchSortUp => "hsearch-sortup",
            SchemeKind::HsearchSortDown => "hsearch-sortdown",
            SchemeKind::Dynahash => "dynahash",
            SchemeKind::Hash1991 => "hash-1991",
            SchemeKind::Splitpoint => "splitpoint",
        }
    }

    /// The kind of a name; `ndbm` is dbm.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "ndbm" { "dbm" } else { name };
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Does it keep pairs on pages of a file, so that pages are what is counted?
    pub fn on_disk(self) -> bool {
        use SchemeKind::*;
        matches!(self, Dbm | Sdbm | Gdbm | Hash1991 | Splitpoint)
    }

    /// Its function: the one that is asked for, or its own.
    pub fn function(self, options: &Options) -> Function {
        use SchemeKind::*;
        let own = match self {
            // ndbm's own function is a table of numbers; its clone's stands in for it.
            Dbm | Sdbm => Function::Package(splitpoint::HashKind::Sdbm),
            Gdbm => Function::Gdbm,
            HsearchDiv => Function::ByteSum,
            Hsearch | HsearchBrent | HsearchChained | HsearchSortUp | HsearchSortDown => Function::Multiplied,
            Dynahash => Function::Package(splitpoint::HashKind::Dynahash),
            // hash4 of that package but for its start: keys of one length collide under both or neither.
            Hash1991 => Function::Package(splitpoint::HashKind::Djb2),
            Splitpoint => Function::Package(splitpoint::HashKind::DEFAULT),
        };
        options.function.map_or(own, Function::Package)
    }

    /// An empty table; `options` are not [wrong](Options::wrong).
    pub fn empty<'k>(self, options: &Options) -> Box<dyn Scheme<'k> + 'k> {
        use chained::{Chained, Order};
        use hsearch::{Hsearch, Probing};
        let function = self.function(options);
        let (page_bytes, nelem) = (options.page_bytes, options.nelem);
        let filled_to = |own: u64| options.fill_factor.unwrap_or(own);
        match self {
            SchemeKind::Dbm => Box::new(dbm::Dbm::new(function, page_bytes)),
            SchemeKind::Sdbm => Box::new(sdbm::Sdbm::new(function, page_bytes)),
            SchemeKind::Gdbm => Box::new(gdbm::Gdbm::new(function, page_bytes)),
            SchemeKind::Hsearch => Box::new(Hsearch::new(function, nelem, Probing::Double)),
            SchemeKind::HsearchDiv => Box::new(Hsearch::new(function, nelem, Probing::Linear)),
            SchemeKind::HsearchBrent => Box::new(Hsearch::new(function, nelem, Probing::Brent)),
            SchemeKind::HsearchChained => Box::new(Chained::new(function, nelem, Order::Front)),
            SchemeKind::HsearchSortUp => Box::new(Chained::new(function, nelem, Order::Up)),
            SchemeKind::HsearchSortDown => Box::new(Chained::new(function, nelem, Order::Down)),
            SchemeKind::Dynahash => Box::new(dynahash::Dynahash::new(function, filled_to(dynahash::FILL_FACTOR))),
            SchemeKind::Hash1991 => {
                Box::new(hybrid::Hybrid::of_1991(function, page_bytes, filled_to(options.equation_one())))
            }
            SchemeKind::Splitpoint => {
                Box::new(hybrid::Hybrid::of_splitpoint(function, page_bytes, options.fill_factor))
            }
        }
    }
}
