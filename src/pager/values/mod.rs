//! Large values, which go to the file at once.
//!
//! Not here: which values, and the record of the log that refers to one (`table/stored.rs`).

mod place;
pub(super) mod through;

use super::allocate::Allocator;
use super::load::Frames;
use through::Through;

/// Values in the file of these frames.
pub(crate) struct Values<'p> {
    pub(super) frames: &'p Frames,
    pub(super) allocator: Allocator<'p>,
    pub(super) through: &'p Through,
}
