//! Small models of historical access methods and of Splitpoint's: how each addresses a key, and the cost.
//!
//! | module | scheme | addressing |
//! |---|---|---|
//! | `dbm` | dbm, ndbm | a bitmap of splits gives the number of hash bits |
//! | `sdbm` | sdbm | a radix trie in an array gives the number of hash bits |
//! | `gdbm` | gdbm | extendible hashing: a directory that doubles |
//! | `hsearch`, `chained` | System V's hsearch, with its compile-time options | a table of declared size |
//! | `dynahash` | dynahash | linear hashing in memory, controlled splits |
//! | `hybrid` | the 1991 package, Splitpoint | linear hashing on pages, hybrid splits |
//! | `study` | | inserts keys into a scheme and measures it on the way |
//!
//! The models store keys and count bytes; they store no values and write no file. Work is counted in pages or entries,
//! never in time, so a study has the same result on every machine. Hashes have 32 bits, as in the original programs,
//! and low bits are used first.
//!
//! Source: Seltzer & Yigit 1991, "Existing UNIX Hashing Techniques"; each module names what it takes from the program
//! itself.

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

/// The hash bits that a scheme may use.
pub const HASH_BITS: u32 = 32;
/// The smallest page.
pub const PAGE_BYTES_MIN: usize = 64;
/// The largest page: the paper's.
pub const PAGE_BYTES_MAX: usize = 32 << 10;

/// Bytes of a pointer in the in-memory tables; 4 in 1991.
const POINTER_BYTES: u64 = 8;
/// An entry of System V's tables: pointers to the key and the data.
const ENTRY_BYTES: u64 = 2 * POINTER_BYTES;

/// A model of an access method.
///
/// Keys are borrowed for `'k`: a study inserts millions of the user's keys without copying them.
pub trait Scheme<'k> {
    /// Stores `key` with a value of `value_bytes`. Leaves a key that is present unchanged.
    ///
    /// # Errors
    /// The scheme cannot store the pair. Its pairs are unchanged, but splits done on the way remain.
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused>;

    /// Looks up `key`.
    fn find(&self, key: &[u8]) -> Found;

    /// Returns the costs so far. O(1).
    fn figures(&self) -> Figures;
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whether the key is present.
    pub found: bool,
    /// Pages read, or entries compared.
    pub touched: u64,
}

/// The costs of a scheme so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Pairs stored.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub pair_bytes: u64,
    /// Bytes that hold the pairs: pages written, or in memory the table, its nodes and the pairs.
    pub store_bytes: u64,
    /// The length of the file with its holes; 0 in memory.
    pub file_bytes: u64,
    /// Bytes of memory for addressing: bitmap, trie, directory or table.
    pub addressing_bytes: u64,
    /// Buckets split.
    pub splits: u64,
    /// The largest cost of one insert: pages written, or entries moved.
    pub longest_pause: u64,
    /// Entries compared and moved by all inserts: the work of the model itself.
    pub work: u64,
}

impl Figures {
    /// Returns the bytes of pairs in percent of the bytes that hold them.
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
    /// Key, value and their overhead exceed a page.
    PairTooLarge {
        /// With the overhead.
        pair_bytes: usize,
        /// The bytes of a page that are available for pairs.
        page_bytes: usize,
    },
    /// The pairs of its page and this one agree in all hash bits that a split may use.
    Collisions {
        /// The number of those bits.
        bits: u32,
    },
    /// The table has its declared size and is full.
    TableFull {
        /// The slots of the table.
        slots: usize,
    },
    /// The directory would have to double beyond the limit of the model.
    DirectoryTooLarge {
        /// The entries of the directory.
        entries: usize,
    },
    /// All overflow page addresses are in use.
    OverflowAddresses {
        /// The number of addresses.
        pages: u64,
    },
    /// The page is still full after the maximum number of splits for one insert.
    SplitLimit {
        /// The limit.
        splits: u32,
    },
}

impl Refused {
    /// Returns whether every later key will be rejected too.
    pub fn is_final(self) -> bool {
        matches!(self, Refused::TableFull { .. })
    }

    /// Returns the name of the reason in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Refused::PairTooLarge { .. } => "pair_too_large",
            Refused::Collisions { .. } => "collisions",
            Refused::TableFull { .. } => "table_full",
            Refused::DirectoryTooLarge { .. } => "directory_too_large",
            Refused::OverflowAddresses { .. } => "overflow_addresses",
            Refused::SplitLimit { .. } => "split_limit",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::PairTooLarge { pair_bytes, page_bytes } => {
                write!(f, "the pair takes {pair_bytes} bytes, a page has room for {page_bytes}")
            }
            Refused::Collisions { bits } => {
                write!(f, "its page is full of keys that agree in all {bits} hash bits")
            }
            Refused::TableFull { slots } => write!(f, "all {slots} slots of the table are taken"),
            Refused::DirectoryTooLarge { entries } => {
                write!(f, "its bucket is full, and the directory has reached its limit of {entries} entries")
            }
            Refused::OverflowAddresses { pages } => write!(f, "all {pages} overflow page addresses are in use"),
            Refused::SplitLimit { splits } => {
                write!(f, "its page is still full after {splits} splits, the most that one insert may do")
            }
        }
    }
}

/// A pair in a model.
#[derive(Clone, Copy, Debug)]
struct Pair<'k> {
    hash: u32,
    key: &'k [u8],
    value_bytes: u32,
}

impl<'k> Pair<'k> {
    fn new(function: Function, key: &'k [u8], value_bytes: usize) -> Self {
        // A value above 4 GiB counts as 4 GiB, which fits in no page or chain of a model either.
        Pair { hash: function.hash(key), key, value_bytes: u32::try_from(value_bytes).unwrap_or(u32::MAX) }
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.value_bytes as usize
    }

    fn is(&self, hash: u32, key: &[u8]) -> bool {
        self.hash == hash && self.key == key
    }
}

/// The parameters of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// The declared number of entries, for tables of declared size.
    pub nelem: usize,
    /// The fill factor in pairs, for controlled splits; `None` for the default of each scheme.
    pub fill_factor: Option<u64>,
    /// The mean bytes of a pair, for the paper's equation (1).
    pub average_pair_bytes: usize,
    /// The hash function for all schemes; `None` for each scheme's own.
    pub function: Option<splitpoint::HashKind>,
}

impl Options {
    /// Returns the first option that is out of range, with the legal range; `None` if all are legal.
    pub fn invalid(&self) -> Option<String> {
        if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes) {
            return Some(format!("pages of {} bytes; give {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}", self.page_bytes));
        }
        if self.fill_factor == Some(0) {
            return Some("a fill factor of 0; give 1 or more".to_owned());
        }
        (self.nelem > hsearch::SLOTS_MAX)
            .then(|| format!("{} entries; give {} or fewer", self.nelem, hsearch::SLOTS_MAX))
    }

    /// Returns the fill factor by the paper's equation (1): `(average pair + 4) * fill_factor >= page`.
    fn equation_one(&self) -> u64 {
        self.page_bytes.div_ceil(self.average_pair_bytes + 4).max(1) as u64
    }
}

/// The modelled schemes.
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
    /// hsearch compiled with BRENT: inserts may rearrange entries.
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
    /// Splitpoint's table: overflow pages of variable size.
    Splitpoint,
}

impl SchemeKind {
    /// All schemes, in the paper's order.
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

    /// Returns the name in reports, options and JSON.
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

    /// Returns the scheme of this name; `ndbm` is dbm.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "ndbm" { "dbm" } else { name };
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Returns whether it stores pairs in a file. If so, its costs are counted in pages, otherwise in entries.
    pub fn on_disk(self) -> bool {
        use SchemeKind::*;
        matches!(self, Dbm | Sdbm | Gdbm | Hash1991 | Splitpoint)
    }

    /// Returns its hash function: the one in `options`, or its own.
    pub fn function(self, options: &Options) -> Function {
        use SchemeKind::*;
        let own = match self {
            // ndbm's own function uses a table of constants; sdbm's replaces it here.
            Dbm | Sdbm => Function::Package(splitpoint::HashKind::Sdbm),
            Gdbm => Function::Gdbm,
            HsearchDiv => Function::ByteSum,
            Hsearch | HsearchBrent | HsearchChained | HsearchSortUp | HsearchSortDown => Function::Multiplied,
            Dynahash => Function::Package(splitpoint::HashKind::Dynahash),
            // Differs from hash4 of that package only in the initial value: keys of equal length collide under
            // both or neither.
            Hash1991 => Function::Package(splitpoint::HashKind::Djb2),
            Splitpoint => Function::Package(splitpoint::HashKind::DEFAULT),
        };
        options.function.map_or(own, Function::Package)
    }

    /// Creates an empty table. `options` must be [valid](Options::invalid).
    pub fn empty<'k>(self, options: &Options) -> Box<dyn Scheme<'k> + 'k> {
        use chained::{Chained, Order};
        use hsearch::{Hsearch, Probing};
        let function = self.function(options);
        let (page_bytes, nelem) = (options.page_bytes, options.nelem);
        let fill_factor = |own: u64| options.fill_factor.unwrap_or(own);
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
            SchemeKind::Dynahash => Box::new(dynahash::Dynahash::new(function, fill_factor(dynahash::FILL_FACTOR))),
            SchemeKind::Hash1991 => {
                Box::new(hybrid::Hybrid::of_1991(function, page_bytes, fill_factor(options.equation_one())))
            }
            SchemeKind::Splitpoint => {
                Box::new(hybrid::Hybrid::of_splitpoint(function, page_bytes, options.fill_factor))
            }
        }
    }
}
