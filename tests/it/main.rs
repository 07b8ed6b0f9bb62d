//! Tests of the library from outside: what its files are, and what it makes of files that are something else.
//!
//! | module | what is there |
//! |---|---|
//! | `spt` | a second reader of the file format, written from docs/format.md |
//! | `golden` | how each file of `fixtures/v1` came about, and what is in it |
//! | `format` | golden files and docs/format.md against the library and the second reader |
//!
//! One binary, so that the library is linked once.

mod format;
mod golden;
mod spt;
