//! How a checkpoint finds a frame that it has frozen.

/// A frozen frame that a checkpoint copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrozenFrame {
    Copied,
    /// Copied, and the file has the same bytes.
    InFile,
    /// Not copied: the file has its bytes, and a checksum frame in memory their checksum.
    Spilled,
    /// Not copied: the shadow file has its bytes, and a checksum frame in memory their checksum.
    Shadowed,
    /// A writer saved the content before it changed the frame.
    Saved,
}
