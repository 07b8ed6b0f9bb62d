//! What the lengths of records have in common.

/// Key and value length that records have in common.
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

/// What the records so far have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// There were none.
    None,
    Fixed(Fixed),
    Varied,
}

/// What the records to be stored have in common, leaving out deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutLengths {
    /// No record has come yet.
    None,
    /// All have this key length and this value length.
    One(u32, u32),
    Several,
}
