//! Reading one dictionary file.
//!
//! ```text
//! checked.rs      which pages were compared      rest.rs   a file's remaining pages, read and checked ahead
//! page_source.rs  the bytes of some pages, mapped or copied
//! pages.rs        reads and checks pages, joins them to pieces of the stream
//! record_format.rs, interpolation.rs   where a record is expected
//! search.rs       a key in some pages            blocks.rs  a key in compressed blocks
//! wanted.rs       what a lookup does with the value
//! file.rs         header, footer and index of a file
//! cells.rs        the stream, cell by cell       lookup.rs  a lookup         many.rs   many lookups at once
//! walk.rs         all records, in hash order     resume.rs  records from a position on
//! within.rs       those of a range of positions, also in a thread
//! long.rs         values of a walk that are read piece by piece
//! ```
//!
//! Each file uses those above it in this list. Nothing changes after opening, so any number of threads can use one file
//! at the same time.

pub(crate) mod blocks;
pub(crate) mod cells;
pub(crate) mod checked;
pub(crate) mod file;
pub(crate) mod interpolation;
pub(crate) mod long;
pub(crate) mod lookup;
pub(crate) mod many;
pub(crate) mod page_source;
pub(crate) mod pages;
pub(crate) mod record_format;
pub(crate) mod rest;
pub(crate) mod resume;
pub(crate) mod search;
pub(crate) mod walk;
pub(crate) mod wanted;
pub(crate) mod within;
