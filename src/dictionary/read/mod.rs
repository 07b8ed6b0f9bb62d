//! Reading one dictionary file.
//!
//! ```text
//! checked.rs  which pages were compared      rest.rs   a file's rest, read and checked ahead
//! mapped.rs   pages in a window, where they lie
//! pages.rs    pages in, by `pread` or from a mapping, checked, joined to pieces of the stream
//! search.rs   a key within a piece        in_place.rs   a key in mapped pages
//! file.rs     header, footer and index of a file; a lookup
//! many.rs     many lookups at once        walk.rs   all records, in hash order
//! resume.rs   records from a position on      within.rs   those of a range of positions, and on a thread
//! long.rs     values that are read some at a time
//! ```
//!
//! Each takes from those above it in this list. Nothing changes after the open, so any number of threads use one file
//! at once.

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
