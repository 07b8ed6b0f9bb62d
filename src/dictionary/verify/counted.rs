//! Totals of a file's records, to be compared with its footer and filter.

use crate::dictionary::format::ends::Footer;
use crate::dictionary::run::Run;

#[derive(Default)]
pub(super) struct Counted {
    records: u64,
    key_bytes: u64,
    value_bytes: u64,
    key_len: (u32, u32),
    value_len: (u32, u32),
    /// The number of distinct positions.
    pub positions: u64,
    last_position: Option<u64>,
    first_position: Option<u64>,
}

impl Counted {
    /// Adds the lengths of the records of `run`.
    pub fn lengths(&mut self, run: &Run) {
        for index in 0..run.len() {
            let span = run.span(index);
            let (key_len, value_len) = (span.key_len, span.value_len);
            self.key_bytes += u64::from(key_len);
            self.value_bytes += u64::from(value_len);
            if self.records == 0 {
                (self.key_len, self.value_len) = ((key_len, key_len), (value_len, value_len));
            }
            self.records += 1;
            self.key_len = (self.key_len.0.min(key_len), self.key_len.1.max(key_len));
            self.value_len = (self.value_len.0.min(value_len), self.value_len.1.max(value_len));
        }
    }

    /// Adds the next positions, which ascend.
    pub fn positions(&mut self, positions: &[u64]) {
        for &position in positions {
            self.positions += u64::from(self.last_position.replace(position) != Some(position));
        }
        self.first_position = self.first_position.or(positions.first().copied());
    }

    /// Adds the totals of `next`, which come from the records after these.
    pub fn join(&mut self, next: &Counted) {
        if next.records == 0 {
            return;
        }
        if self.records == 0 {
            (self.key_len, self.value_len) = (next.key_len, next.value_len);
        }
        self.records += next.records;
        self.key_bytes += next.key_bytes;
        self.value_bytes += next.value_bytes;
        self.key_len = (self.key_len.0.min(next.key_len.0), self.key_len.1.max(next.key_len.1));
        self.value_len = (self.value_len.0.min(next.value_len.0), self.value_len.1.max(next.value_len.1));
        self.positions += next.positions - u64::from(self.last_position == next.first_position);
        self.last_position = next.last_position;
        self.first_position = self.first_position.or(next.first_position);
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether the footer has the same totals.
    pub fn agrees_with(&self, footer: &Footer) -> bool {
        (self.key_bytes, self.value_bytes) == (footer.key_bytes, footer.value_bytes)
            && (footer.pairs == 0 || (self.key_len, self.value_len) == (footer.key_len, footer.value_len))
    }
}
