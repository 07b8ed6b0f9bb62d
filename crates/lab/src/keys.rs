//! Keys in memory, concatenated: 8 bytes of overhead per key.

/// Keys in insertion order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    bytes: Vec<u8>,
    /// The end of each key in `bytes`.
    ends: Vec<usize>,
}

impl Keys {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a key.
    #[inline]
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the bytes of all keys together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns key number `index`, from 0; `None` past the last.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// Iterates over all keys in insertion order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index).expect("below the length"))
    }

    /// Removes all keys and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl<K: AsRef<[u8]>> FromIterator<K> for Keys {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut all = Self::new();
        keys.into_iter().for_each(|key| all.push(key.as_ref()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_returned_unchanged_and_in_order() {
        let keys: Keys = ["one", "", "three"].into_iter().collect();
        assert_eq!((keys.len(), keys.bytes()), (3, 8));
        assert_eq!(keys.iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        assert_eq!(keys.get(3), None);
    }
}
