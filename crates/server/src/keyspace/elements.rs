//! Elements of a collection, one after another: for each its length as a varint, then its bytes.
//!
//! A field of a hash is two elements, its name and its value. Bytes that this module did not write end the run early.

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

/// The elements of a run.
pub(crate) fn iter(run: &[u8]) -> Elements<'_> {
    Elements { run, at: 0 }
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
    fn elements_come_back_and_cut_ones_do_not() {
        let long = vec![7; 70_000];
        let elements: [&[u8]; 5] = [b"", b"a", &long[..127], &long[..128], &long];
        let mut run = Vec::new();
        for element in elements {
            push(&mut run, element);
        }
        assert_eq!(iter(&run).collect::<Vec<_>>(), elements);
        for cut in [0, 1, 5, 200, run.len() - 1] {
            assert!(iter(&run[..cut]).count() < elements.len());
        }
        assert_eq!(iter(&[0xFF; 20]).count(), 0);
    }
}
