//! The file of a table: its name, its lock, its length, whether it may still be written, and copies of it.
//!
//! Not here: the frames in it (`load/`), checkpoints (`checkpoint/`).

pub(crate) mod copy;
pub(super) mod create;
pub(super) mod health;
pub(super) mod length;
pub(super) mod mapped_reads;
pub(super) mod names;
