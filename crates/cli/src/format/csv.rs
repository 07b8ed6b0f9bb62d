//! CSV: fields separated by commas, quoted if they hold commas, quotes or line ends.
//!
//! Fields are unquoted into one reused buffer. A record has the length limit of any other row, and at most
//! [`COLUMNS_MAX`] columns. Source: RFC 4180; deviations are read like the `csv-core` crate does.

use super::columns::{Columns, Picked, PickedValue};
use super::{BadRow, Pair, Row, Source};
use crate::failure::Result;
use crate::input::{Input, Taken};
use csv_core::{ReadRecordResult, Reader};

/// Each column takes eight bytes besides its content, which may be empty.
const COLUMNS_MAX: usize = 1 << 20;

pub struct Csv<'i> {
    input: Input<'i>,
    reader: Reader,
    columns: Columns,
    picked: Option<Picked>,
    /// The other columns as JSON.
    others: Vec<u8>,
    /// The fields of a record, concatenated, and where each ends.
    fields: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
    /// Line ends before the next record.
    lines: u64,
    /// The line where the last record begins, from 1.
    number: u64,
    record_bytes_max: usize,
}

enum Record {
    Fields,
    Bad(String),
    Interrupted,
    End,
}

impl<'i> Csv<'i> {
    pub fn new(input: Input<'i>, columns: Columns) -> Self {
        let picked = columns.picked_unseen();
        let record_bytes_max = usize::try_from(input.row_bytes_max()).unwrap_or(usize::MAX);
        Self {
            input,
            reader: Reader::new(),
            columns,
            picked,
            others: Vec::new(),
            fields: vec![0; 4096],
            ends: vec![0; 64],
            count: 0,
            lines: 0,
            number: 0,
            record_bytes_max,
        }
    }

    fn record(&mut self) -> Result<Record> {
        if !self.skip_line_ends()? {
            return Ok(Record::Interrupted);
        }
        self.number = self.lines + 1;
        let (mut written, mut quotes) = (0, 0);
        self.count = 0;
        loop {
            let (bytes, at_end) = match self.input.peek()? {
                Taken::Bytes(range) => (self.input.bytes(range), false),
                Taken::Interrupted => return Ok(Record::Interrupted),
                _ => (&[][..], true),
            };
            let (result, read, wrote, ended) =
                self.reader.read_record(bytes, &mut self.fields[written..], &mut self.ends[self.count..]);
            self.lines += memchr::memchr_iter(b'\n', &bytes[..read]).count() as u64;
            quotes += memchr::memchr_iter(b'"', &bytes[..read]).count();
            self.input.consume(read);
            written += wrote;
            self.count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.fields.len() >= self.record_bytes_max => {
                    let most = self.record_bytes_max;
                    return Ok(Record::Bad(format!("record is longer than {most} bytes")));
                }
                ReadRecordResult::OutputFull => {
                    let bytes = (self.fields.len() * 2).min(self.record_bytes_max);
                    if self.fields.try_reserve_exact(bytes - self.fields.len()).is_err() {
                        return Ok(Record::Bad(format!("no memory for a record of more than {written} bytes")));
                    }
                    self.fields.resize(bytes, 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() >= COLUMNS_MAX => {
                    return Ok(Record::Bad(format!("record has more than {COLUMNS_MAX} columns")));
                }
                ReadRecordResult::OutputEndsFull => self.ends.resize((self.ends.len() * 2).min(COLUMNS_MAX), 0),
                // An unclosed quote makes the rest of the file one field.
                ReadRecordResult::Record if at_end && quotes % 2 == 1 && self.lines >= self.number => {
                    return Ok(Record::Bad("a quote opened here is never closed".into()));
                }
                ReadRecordResult::Record => return Ok(Record::Fields),
                ReadRecordResult::End => return Ok(Record::End),
            }
        }
    }

    /// So that a record's line is that of its first byte. `false`: a signal came.
    fn skip_line_ends(&mut self) -> Result<bool> {
        loop {
            let bytes = match self.input.peek()? {
                Taken::Bytes(range) => self.input.bytes(range),
                Taken::Interrupted => return Ok(false),
                _ => return Ok(true),
            };
            let ends = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            self.lines += memchr::memchr_iter(b'\n', &bytes[..ends]).count() as u64;
            let more = ends == bytes.len();
            self.input.consume(ends);
            if !more {
                return Ok(true);
            }
        }
    }

    fn field(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.fields[start..self.ends[index]]
    }

    fn place(&self) -> String {
        format!("{}:{}", self.input.name, self.number)
    }

    fn bad(&self, what: String, goes_on: bool) -> Row<'static> {
        Row::Bad(BadRow { place: self.place(), what, goes_on })
    }
}

impl Source for Csv<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        match self.record()? {
            Record::Fields => {}
            Record::Bad(what) => return Ok(self.bad(what, false)),
            Record::Interrupted => return Ok(Row::Interrupted),
            Record::End => return Ok(Row::End),
        }
        if self.picked.is_none() {
            let first: Vec<_> = (0..self.count).map(|index| self.field(index)).collect();
            self.picked = Some(self.columns.pick(&self.place(), &first)?);
            if self.columns.header {
                return self.next_row();
            }
        }
        let picked = self.picked.as_ref().expect("it was made above");
        if let Err(what) = picked.check(self.count) {
            return Ok(self.bad(what, true));
        }
        let (key, number) = (picked.key, self.number);
        match picked.value {
            PickedValue::Column(value) => {
                Ok(Row::Pair(Pair { key: self.field(key), value: self.field(value) }, number))
            }
            PickedValue::Others => {
                let mut others = std::mem::take(&mut self.others);
                picked.others((0..self.count).map(|index| self.field(index)), &mut others);
                self.others = others;
                Ok(Row::Pair(Pair { key: self.field(key), value: &self.others }, number))
            }
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    /// A record may be several lines.
    fn next_number(&self) -> u64 {
        self.lines + 1
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }

    fn columns(&self) -> Option<String> {
        self.picked.as_ref().map(Picked::describe)
    }
}

/// The first record of a file: the names of its columns.
pub const HEADER: &[u8] = b"key,value\n";

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) {
    write_field(pair.key, row);
    row.push(b',');
    write_field(pair.value, row);
    row.push(b'\n');
}

fn write_field(field: &[u8], row: &mut Vec<u8>) {
    let needs_quotes = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !field.iter().any(needs_quotes) {
        return row.extend_from_slice(field);
    }
    row.push(b'"');
    for part in field.split_inclusive(|byte| *byte == b'"') {
        row.extend_from_slice(part);
        if part.ends_with(b"\"") {
            row.push(b'"');
        }
    }
    row.push(b'"');
}

/// Whether `text` is CSV as far as it goes: records of one count of at least two fields. `ends` says that nothing
/// comes after it; the last record of a longer text is not counted.
pub fn is_csv(text: &[u8], ends: bool) -> Option<usize> {
    let (mut reader, mut fields, mut field_ends) = (Reader::new(), vec![0; text.len() + 1], vec![0; 4096]);
    let (mut rest, mut records, mut width) = (text, 0, 0);
    loop {
        let (result, read, _, count) = reader.read_record(rest, &mut fields, &mut field_ends);
        rest = &rest[read..];
        match result {
            ReadRecordResult::Record => {}
            ReadRecordResult::InputEmpty if ends => {
                // The end of the input ends the last record.
                let (result, _, _, more) = reader.read_record(&[], &mut fields, &mut field_ends[count..]);
                let last = count + more;
                let complete = matches!(result, ReadRecordResult::End) || last == width || records == 0;
                records += usize::from(matches!(result, ReadRecordResult::Record));
                width = if width == 0 { last } else { width };
                return (complete && records > 0 && width > 1).then_some(records);
            }
            ReadRecordResult::InputEmpty | ReadRecordResult::End => {
                return (records > 0 && width > 1).then_some(records);
            }
            ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => return None,
        }
        if records > 0 && count != width {
            return None;
        }
        (records, width) = (records + 1, count);
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::Column;
    use super::*;

    type OwnedRow = std::result::Result<(u64, Vec<u8>, Vec<u8>), String>;

    fn read(text: &[u8], key: Column, value: Column, header: bool) -> Vec<OwnedRow> {
        let columns = Columns { key, value: Some(value), header };
        let mut csv = Csv::new(Input::new(Box::new(text), "in".into()), columns);
        let mut rows = Vec::new();
        loop {
            match csv.next_row().unwrap() {
                Row::Pair(pair, number) => rows.push(Ok((number, pair.key.to_vec(), pair.value.to_vec()))),
                Row::Bad(bad) => {
                    rows.push(Err(bad.to_string()));
                    if !bad.goes_on {
                        return rows;
                    }
                }
                Row::Interrupted | Row::End => return rows,
            }
        }
    }

    #[test]
    fn fields_may_hold_commas_quotes_and_line_ends_and_rows_are_named_by_their_first_line() {
        let text = b"\xef\xbb\xbfid,\"the name\",rest\r\n1,\"a,\"\"b\"\"\nc\",x\r\n\r\n2,d,y\n3";
        let rows = read(text, Column::Name("the name".into()), Column::Number(1), true);
        let expected = [
            Ok((2, b"a,\"b\"\nc".to_vec(), b"1".to_vec())),
            Ok((5, b"d".to_vec(), b"2".to_vec())),
            Err("in:6: 1 column, so no column 2".to_owned()),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_no_field_of_the_whole_rest() {
        let rows = read(b"k,v\na,\"b\nc,d\n", Column::Number(1), Column::Number(2), false);
        assert_eq!(rows[0], Ok((1, b"k".to_vec(), b"v".to_vec())));
        assert_eq!(rows[1], Err("in:2: a quote opened here is never closed".to_owned()));
    }

    #[test]
    fn a_record_takes_no_more_memory_than_its_limits() {
        let columns = || Columns { key: Column::Number(1), value: Some(Column::Number(2)), header: false };
        let bad = |csv: &mut Csv<'_>| match csv.next_row().unwrap() {
            Row::Bad(bad) => bad.to_string(),
            _ => panic!("it was taken"),
        };
        let long = vec![b'x'; 20_001];
        let mut csv = Csv::new(Input::new(Box::new(&long[..]), "in".into()), columns());
        csv.record_bytes_max = 20_000;
        assert_eq!(bad(&mut csv), "in:1: record is longer than 20000 bytes");
        assert_eq!(csv.fields.len(), 20_000);
        let wide = vec![b','; COLUMNS_MAX + 1];
        let mut csv = Csv::new(Input::new(Box::new(&wide[..]), "in".into()), columns());
        assert_eq!(bad(&mut csv), format!("in:1: record has more than {COLUMNS_MAX} columns"));
        assert_eq!(csv.ends.len(), COLUMNS_MAX);
    }

    #[test]
    fn a_record_longer_than_every_buffer_comes_whole() {
        let long = vec![b'x'; 1 << 20];
        let text = [&long[..], b",", &vec![b','; 1000], b"last"].concat();
        let rows = read(&text, Column::Number(1), Column::Number(1002), false);
        assert_eq!(rows, [Ok((1, long, b"last".to_vec()))]);
    }
}
