//! Bringing frames in from the file, and out of a full cache.
//!
//! Not here: the memory of frames and their latches (`pool/`), checkpoints (`checkpoint/`).

pub(super) mod announce;
pub(super) mod around;
pub(super) mod evict;
pub(super) mod spill;
