//! The bytes of a dictionary file; docs/dictionary-format.md is the norm.
//!
//! ```text
//! layout.rs   lengths, compression and order of records
//! record.rs   one pair                   block.rs   several of them, compressed
//! page.rs     the head of a page, before its body
//! ends.rs     the header at the start of the file and the footer at its end
//! ```

pub(crate) mod block;
pub(crate) mod ends;
pub(crate) mod layout;
pub(crate) mod page;
pub(crate) mod record;
