//! Records that are passed to a sort together.

/// Consecutive records of the source with the same lengths, whose places ascend by one.
#[derive(Clone, Copy)]
pub(crate) struct Alike<'a> {
    /// Keys and values, each value directly after its key.
    pub bytes: &'a [u8],
    pub key_len: usize,
    /// `None` for deletions.
    pub value_len: Option<usize>,
    pub first_place: u64,
    pub count: usize,
}

impl<'a> Alike<'a> {
    pub fn stride(&self) -> usize {
        self.key_len + self.value_len.unwrap_or(0)
    }

    /// Splits off the first `count` records.
    pub fn split(self, count: usize) -> (Alike<'a>, Alike<'a>) {
        let (first, rest) = self.bytes.split_at(count * self.stride());
        let first_place = self.first_place.wrapping_add(count as u64);
        (Alike { bytes: first, count, ..self }, Alike { bytes: rest, first_place, count: self.count - count, ..self })
    }

    /// Key, value and place of each record.
    pub fn records(self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>, u64)> {
        (0..self.count).map(move |i| {
            let (key, value) = self.bytes[i * self.stride()..][..self.stride()].split_at(self.key_len);
            (key, self.value_len.map(|_| value), self.first_place.wrapping_add(i as u64))
        })
    }
}
