//! Elements of a collection, one after another: for each its length as a varint, then its bytes.
//!
//! A field of a hash is two elements, its name and its value. Before them, a field that expires has [`LIFETIME`], which
//! no length begins with, and the time in Unix milliseconds, u64. Bytes that this module did not write end the run
//! early.

use std::ops::Range;

/// Appends an element.
pub(crate) fn push(run: &mut Vec<u8>, element: &[u8]) {
    let mut len = element.len();
    while len >= 0x80 {
        run.push(len as u8 | 0x80); // the low seven bits
        len >>= 7;
    }
    run.push(len as u8); // below 0x80
    run.extend_from_slice(element);
}

/// A length of 0 in two bytes; [`push`] writes it in one.
const LIFETIME: [u8; 2] = [0x80, 0]; // on disk

/// Appends the expiry time of the field whose elements follow.
pub(super) fn push_lifetime(run: &mut Vec<u8>, expires_at_ms: u64) {
    run.extend_from_slice(&LIFETIME);
    run.extend_from_slice(&expires_at_ms.to_le_bytes());
}

/// Replaces a range of bytes with `new`.
pub(super) fn replace(run: &mut Vec<u8>, range: Range<usize>, new: &[u8]) {
    let (len, end) = (run.len(), range.start + new.len());
    if end > range.end {
        run.resize(len + (end - range.end), 0);
        run.copy_within(range.end..len, end);
    } else {
        run.copy_within(range.end.., end);
        run.truncate(len - (range.end - end));
    }
    run[range.start..end].copy_from_slice(new);
}

/// The elements of a run.
pub(crate) fn iter(run: &[u8]) -> Elements<'_> {
    Elements { run, at: 0 }
}

/// The number of elements; `None` if the run ends within one.
pub(super) fn count(run: &[u8]) -> Option<u64> {
    let mut elements = iter(run);
    let count = elements.by_ref().count() as u64;
    (elements.at == run.len()).then_some(count)
}

/// An iterator over the elements of a run.
#[derive(Clone)]
pub(crate) struct Elements<'r> {
    run: &'r [u8],
    at: usize,
}

impl Elements<'_> {
    /// Where the next element begins.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The expiry time of the field whose elements follow; 0: never. `None` if the run ends within the time.
    pub(super) fn lifetime(&mut self) -> Option<u64> {
        let Some(rest) = self.run[self.at..].strip_prefix(&LIFETIME) else { return Some(0) };
        let expires_at_ms = u64::from_le_bytes(*rest.first_chunk()?);
        self.at += LIFETIME.len() + size_of::<u64>();
        Some(expires_at_ms)
    }
}

impl<'r> Iterator for Elements<'r> {
    type Item = &'r [u8];

    #[inline]
    fn next(&mut self) -> Option<&'r [u8]> {
        let (mut len, mut shift, mut at) = (0usize, 0, self.at);
        loop {
            let byte = *self.run.get(at)?;
            at += 1;
            len |= usize::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
            if shift > 28 {
                return None;
            }
        }
        let element = self.run.get(at..at.checked_add(len)?)?;
        self.at = at + len;
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_by_a_longer_or_shorter_one() {
        for (range, new) in
            [(0..0, &b"xyz"[..]), (1..3, b"x"), (1..3, b"wxyz"), (2..4, b""), (0..4, b"1234"), (4..4, b"5")]
        {
            let (mut run, mut expected) = (b"abcd".to_vec(), b"abcd".to_vec());
            replace(&mut run, range.clone(), new);
            expected.splice(range, new.iter().copied());
            assert_eq!(run, expected);
        }
    }

    #[test]
    fn elements_come_back_and_cut_ones_do_not() {
        let long = vec![7; 70_000];
        let elements: [&[u8]; 5] = [b"", b"a", &long[..127], &long[..128], &long];
        let mut run = Vec::new();
        for element in elements {
            push(&mut run, element);
        }
        assert_eq!(iter(&run).collect::<Vec<_>>(), elements);
        assert_eq!((count(&run), count(&run[..run.len() - 1])), (Some(5), None));
        for cut in [0, 1, 5, 200, run.len() - 1] {
            assert!(iter(&run[..cut]).count() < elements.len());
        }
        assert_eq!(iter(&[0xFF; 20]).count(), 0);
    }
}
