//! A cdb file, read from its first record to its last; `cdb -c` makes one from the text of `cdbmake.rs`.
//!
//! ```text
//! 256 x { u32 position, u32 slots }      where the hash tables are
//! records: u32 key length, u32 value length, key, value      to the position of the first hash table
//! hash tables                            two slots per record; not used
//! ```
//!
//! All numbers are little-endian. There is no signature, so the hash tables are checked: they must follow the records,
//! and their slots determine the number of records. Source: Bernstein, "A structure for constant databases".

use super::{Pair, Row, Source, lost_at_pair};
use crate::failure::Result;
use crate::input::{Input, Taken};
use crate::number::count_of;

const CONTENTS_BYTES: usize = 2048;
const HEADER_BYTES: u64 = 8;

pub struct File<'i> {
    input: Input<'i>,
    pairs: u64,
    /// The end of the records, and their number.
    contents: Option<(u64, u64)>,
    /// All records were read.
    ended: bool,
}

impl<'i> File<'i> {
    pub fn new(input: Input<'i>) -> Self {
        Self { input, pairs: 0, contents: None, ended: false }
    }

    fn lost(&mut self, what: String) -> Row<'static> {
        self.pairs += 1;
        lost_at_pair(&self.input, self.pairs, what)
    }

    /// Reads the contents; `None` if a signal came.
    fn contents(&mut self) -> Result<Option<std::result::Result<(u64, u64), String>>> {
        let head = match self.input.peek_up_to(CONTENTS_BYTES)? {
            Taken::Bytes(range) => self.input.bytes(range),
            Taken::Interrupted => return Ok(None),
            _ => b"",
        };
        let Some(contents) = head.get(..CONTENTS_BYTES) else {
            return Ok(Some(Err("a cdb file was expected, which has more than 2048 bytes".into())));
        };
        let file_bytes = self.input.file_bytes.unwrap_or(u64::from(u32::MAX));
        let Some(found) = records_of(contents, file_bytes) else {
            return Ok(Some(Err("a cdb file was expected, but its hash tables lie outside it".into())));
        };
        self.input.consume(CONTENTS_BYTES);
        Ok(Some(Ok(found)))
    }

    /// Reads the hash tables of a pipe or of compressed data, so that its writer can finish and its checksum is
    /// verified.
    fn end(&mut self) -> Result<Row<'static>> {
        self.ended = true;
        while self.input.file_bytes.is_none() {
            match self.input.peek()? {
                Taken::Bytes(range) => self.input.consume(range.len()),
                Taken::Interrupted => return Ok(Row::Interrupted),
                _ => break,
            }
        }
        Ok(Row::End)
    }
}

/// Returns the end of the records, and their number, from the contents of a file of `file_bytes`.
fn records_of(contents: &[u8], file_bytes: u64) -> Option<(u64, u64)> {
    let (mut end, mut slots_total) = (u64::MAX, 0);
    for table in contents.chunks_exact(8) {
        let (position, slots) = (number(&table[..4]), number(&table[4..]));
        if position < CONTENTS_BYTES as u64 || position + slots * 8 > file_bytes {
            return None;
        }
        end = end.min(position);
        slots_total += slots;
    }
    (slots_total % 2 == 0).then_some((end, slots_total / 2))
}

/// Whether a file is a cdb, by its first bytes: it has no signature, but its last hash table ends where the file does.
pub fn is_cdb(head: &[u8], file_bytes: u64) -> bool {
    let Some(contents) = head.get(..CONTENTS_BYTES) else { return false };
    let ends = contents.chunks_exact(8).map(|table| number(&table[..4]) + number(&table[4..]) * 8);
    ends.max() == Some(file_bytes) && records_of(contents, file_bytes).is_some()
}

/// Whether input of unknown length is a cdb, by its first bytes: each hash table begins where the previous one ends.
pub fn begins_like_cdb(head: &[u8]) -> bool {
    let Some(contents) = head.get(..CONTENTS_BYTES) else { return false };
    let tables = contents.chunks_exact(8).map(|table| (number(&table[..4]), number(&table[4..]) * 8));
    let mut ends = tables.clone().map(|(position, bytes)| position + bytes);
    let first = tables.clone().next().map(|(position, _)| position);
    first >= Some(CONTENTS_BYTES as u64) && tables.skip(1).all(|(position, _)| ends.next() == Some(position))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Source for File<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        if self.ended {
            return self.end();
        }
        let (end, records) = match self.contents {
            Some(contents) => contents,
            None => match self.contents()? {
                None => return Ok(Row::Interrupted),
                Some(Err(what)) => return Ok(self.lost(what)),
                Some(Ok(contents)) => *self.contents.insert(contents),
            },
        };
        let at = self.input.taken_bytes();
        if at == end && self.pairs == records {
            return self.end();
        }
        if at == end {
            let (records, pairs) = (count_of(records, "record"), self.pairs);
            return Ok(self.lost(format!("the hash tables say {records}, but there are {pairs}")));
        }
        let lengths = match self.input.header(HEADER_BYTES)? {
            Taken::Bytes(range) => {
                let header = self.input.bytes(range);
                Some((number(&header[..4]), number(&header[4..])))
            }
            Taken::Interrupted => return Ok(Row::Interrupted),
            _ => None,
        };
        let fits = |(key, value): &(u64, u64)| at + HEADER_BYTES + key + value <= end;
        let Some((key_bytes, value_bytes)) = lengths.filter(fits) else {
            return Ok(self.lost(format!("a record was expected at byte {at} that ends before byte {end}")));
        };
        let taken = self.input.exactly(key_bytes + value_bytes)?;
        match taken {
            Taken::Bytes(range) => {
                self.pairs += 1;
                let (key, value) = self.input.bytes(range).split_at(usize::try_from(key_bytes).unwrap_or(0));
                Ok(Row::Pair(Pair { key, value }, self.pairs))
            }
            Taken::Interrupted => Ok(Row::Interrupted),
            Taken::TooLong => {
                let limit = self.input.limit_met();
                Ok(self.lost(format!("a record of {} bytes at byte {at}: {limit}", key_bytes + value_bytes)))
            }
            Taken::Short(_) | Taken::End => Ok(self.lost(format!("the file ends in the record at byte {at}"))),
        }
    }

    fn number(&self) -> u64 {
        self.pairs
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One record of 10 bytes, in the hash table 3 of two slots, as cdb makes it.
    fn cdb() -> Vec<u8> {
        let mut cdb = Vec::new();
        for table in 0..256_u32 {
            let slots: u32 = if table == 3 { 2 } else { 0 };
            let position: u32 = if table <= 3 { 2058 } else { 2074 };
            cdb.extend_from_slice(&position.to_le_bytes());
            cdb.extend_from_slice(&slots.to_le_bytes());
        }
        cdb.extend_from_slice(b"\x01\0\0\0\x01\0\0\0kv");
        cdb.extend_from_slice(&[7; 16]);
        cdb
    }

    type OwnedRow = std::result::Result<(Vec<u8>, Vec<u8>), String>;

    fn rows(bytes: &[u8]) -> Vec<OwnedRow> {
        // The record has 2 bytes; the limit does not apply to its header.
        let mut input = Input::new(Box::new(bytes), "in".into());
        input.limit_rows(2);
        let mut file = File::new(input);
        let mut rows = Vec::new();
        loop {
            match file.next_row().unwrap() {
                Row::Pair(pair, _) => rows.push(Ok((pair.key.to_vec(), pair.value.to_vec()))),
                Row::Bad(bad) => return rows.into_iter().chain([Err(bad.to_string())]).collect(),
                Row::Entry(entry, _) => panic!("{entry:?}"),
                Row::Interrupted | Row::End => return rows,
            }
        }
    }

    #[test]
    fn a_cdb_is_known_by_its_tables() {
        let cdb = cdb();
        assert!(is_cdb(&cdb, cdb.len() as u64));
        assert!(!is_cdb(&cdb, cdb.len() as u64 + 1));
        assert!(!is_cdb(&[b'a'; 4096], 4096));
        assert!(!is_cdb(&[0; 4096], 4096));
    }

    /// Fails where compressed data has a wrong checksum.
    struct Broken;

    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::InvalidData.into())
        }
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let bytes = cdb();
        let pipe = std::io::Read::chain(&bytes[..], Broken);
        let mut file = File::new(Input::new(Box::new(pipe), "in".into()));
        assert!(matches!(file.next_row().unwrap(), Row::Pair(..)));
        assert!(file.next_row().is_err());
    }

    #[test]
    fn records_come_up_to_the_tables_and_their_number_is_checked() {
        assert_eq!(rows(&cdb()), [Ok((b"k".to_vec(), b"v".to_vec()))]);
        let mut short = cdb();
        short[3 * 8 + 4] = 4;
        assert_eq!(rows(&short)[1], Err("in: pair 2: the hash tables say 2 records, but there are 1".to_owned()));
        let mut long = cdb();
        long[CONTENTS_BYTES + 4] = 200;
        assert_eq!(
            rows(&long),
            [Err("in: pair 1: a record was expected at byte 2048 that ends before byte 2058".into())]
        );
        assert!(rows(&cdb()[..2000])[0].as_ref().unwrap_err().contains("more than 2048 bytes"));
    }
}
