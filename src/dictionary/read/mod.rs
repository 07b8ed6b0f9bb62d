//! Reading one dictionary file.
//!
//! ```text
//! checked.rs  which pages were compared      rest.rs   a file's remaining pages, read and checked ahead
//! mapped.rs   pages in a window, accessed in place
//! pages.rs    reads pages with `pread` or from a mapping, checks them, joins them to pieces of the stream
//! search.rs   a key within a piece        in_place.rs   a key in mapped pages
//! file.rs     header, footer and index of a file; a lookup
//! many.rs     many lookups at once        walk.rs   all records, in hash order
//! resume.rs   records from a position on      within.rs   those of a range of positions, also in a thread
//! long.rs     values that are read piece by piece
//! ```
//!
//! Each file uses those above it in this list. Nothing changes after opening, so any number of threads can use one file
//! at the same time.

pub(crate) mod checked;
pub(crate) mod file;
pub(crate) mod in_place;
pub(crate) mod long;
pub(crate) mod many;
pub(crate) mod mapped;
pub(crate) mod pages;
pub(crate) mod rest;
pub(crate) mod resume;
pub(crate) mod search;
pub(crate) mod walk;
pub(crate) mod within;
