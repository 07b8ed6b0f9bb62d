//! Whether records have the same lengths.

/// The key and value length that records share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub key_len: u32,
    pub value_len: u32,
}

impl Fixed {
    #[inline]
    pub(crate) fn stride(self) -> usize {
        self.key_len as usize + self.value_len as usize
    }
}

/// The lengths shared by the records so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// There are no records.
    None,
    Fixed(Fixed),
    Varied,
}

/// The lengths shared by the records to be stored; deletions are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutLengths {
    /// There is no record yet.
    None,
    /// All have this key length and this value length.
    One(u32, u32),
    Several,
}
