//! CSV: fields separated by commas, quoted if they hold commas, quotes or line ends.
//!
//! What RFC 4180 does not allow is a bad row if bytes would be lost or rows swallowed: text after a closing quote, and
//! a quote that is not closed. The next row is then read from the line after. A quote in an unquoted field is literal.
//! Excel's first line `sep=;` chooses the separator. The `csv` crate is not used, because it accepts every text.
//!
//! Fields are unquoted into one reused buffer. A record has the length limit of any other row, and at most
//! [`COLUMNS_MAX`] columns. One that exceeds a limit is skipped to its end, across line ends within its quotes.

use super::columns::{Columns, Picked, PickedValue};
use super::{BadRow, Pair, Row, Scratch, Source, bad_line};
use crate::failure::Result;
use crate::input::{BYTE_ORDER_MARK, Input, Taken};

/// Each column takes eight bytes in addition to its content, which may be empty.
const COLUMNS_MAX: usize = 1 << 20;

pub struct Csv<'i> {
    input: Input<'i>,
    columns: Columns,
    picked: Option<Picked>,
    /// A key of several columns, and the other columns as JSON.
    scratch: Scratch,
    fields: Fields,
    /// `None` until the first line was looked at.
    separator: Option<u8>,
    /// Line ends before the next record.
    lines: LineEnds,
    /// The line where the last record begins, from 1.
    number: u64,
    /// The rest of a bad record's first line is skipped.
    skips_line: bool,
    /// The scan of a record that exceeds a limit, whose rest is skipped.
    skipped: Option<Scan>,
    record_bytes_max: usize,
}

enum Record {
    Fields,
    Bad(String),
    /// A bad record without an end.
    Lost(String),
    Interrupted,
    End,
}

impl<'i> Csv<'i> {
    pub fn new(input: Input<'i>, columns: Columns) -> Self {
        let record_bytes_max = usize::try_from(input.row_bytes_max()).unwrap_or(usize::MAX);
        Self {
            input,
            columns,
            picked: None,
            scratch: Scratch::default(),
            fields: Fields::default(),
            separator: None,
            lines: LineEnds::default(),
            number: 0,
            skips_line: false,
            skipped: None,
            record_bytes_max,
        }
    }

    fn record(&mut self) -> Result<Record> {
        if self.skips_line && !self.skip_line()? {
            return Ok(Record::Interrupted);
        }
        if let Some(record) = self.skip_record()? {
            return Ok(record);
        }
        let Some(separator) = self.separator()? else { return Ok(Record::Interrupted) };
        if !self.skip_line_ends()? {
            return Ok(Record::Interrupted);
        }
        self.number = self.lines.count + 1;
        self.fields.clear();
        let mut scan = Scan::new(separator);
        loop {
            let (record, ended) = match self.input.peek_up_to(scan.at + 1)? {
                Taken::Bytes(range) => {
                    let record = self.input.bytes(range);
                    (record, record.len() <= scan.at)
                }
                Taken::Interrupted => return Ok(Record::Interrupted),
                Taken::TooLong => return Ok(self.too_long(scan, self.input.limit_met())),
                Taken::Short(_) | Taken::End => return Ok(Record::End),
            };
            match scan.record(record, ended, &mut self.fields) {
                Ok(Scanned::Whole) if scan.at <= self.record_bytes_max => {
                    self.lines.add(&record[..scan.at]);
                    self.input.consume(scan.at);
                    return Ok(Record::Fields);
                }
                Ok(Scanned::Part) if scan.at <= self.record_bytes_max => {}
                Ok(_) => {
                    let most = self.record_bytes_max;
                    return Ok(self.too_long(scan, format!("record is longer than {most} bytes")));
                }
                Err(Fault::Limit(what)) => return Ok(self.too_long(scan, what)),
                Err(Fault::Quote(what)) => {
                    self.skips_line = true;
                    return Ok(Record::Bad(what));
                }
            }
        }
    }

    /// Refuses a record that exceeds a limit. The next call skips the rest of it, because a line end within quotes
    /// starts no row.
    fn too_long(&mut self, scan: Scan, what: String) -> Record {
        self.skipped = Some(scan);
        Record::Bad(what)
    }

    /// Skips the rest of a record that exceeds a limit, without storing it. `Some`: no record can be read now.
    fn skip_record(&mut self) -> Result<Option<Record>> {
        self.fields.discards = true;
        while let Some(scan) = &mut self.skipped {
            let (bytes, ended) = match self.input.peek()? {
                Taken::Bytes(range) => (self.input.bytes(range), false),
                Taken::Interrupted => return Ok(Some(Record::Interrupted)),
                _ => (&[][..], true),
            };
            let scanned = scan.record(bytes, ended, &mut self.fields);
            let skipped = std::mem::take(&mut scan.at);
            self.lines.add(&bytes[..skipped]);
            self.input.consume(skipped);
            match scanned {
                Ok(Scanned::Part) => {}
                Ok(Scanned::Whole) => self.skipped = None,
                Err(_) => {
                    let what = "the end of this record cannot be found: a quote is never closed, or text follows a \
                                closing quote; no later row is read";
                    return Ok(Some(Record::Lost(what.into())));
                }
            }
        }
        Ok(None)
    }

    /// Returns the separator, which the first line may choose. `None`: a signal came.
    fn separator(&mut self) -> Result<Option<u8>> {
        let mut wanted = 1;
        while self.separator.is_none() {
            let (bytes, ended) = match self.input.peek_up_to(wanted)? {
                Taken::Bytes(range) => (self.input.bytes(range.clone()), range.len() < wanted),
                Taken::Interrupted => return Ok(None),
                _ => (&[][..], true),
            };
            let begins = begins_like_separator(bytes);
            if begins && !ended && bytes.len() < SEPARATOR_LINE_BYTES {
                wanted = bytes.len() + 1;
                continue;
            }
            let chosen = separator_line(bytes);
            self.separator = Some(chosen.unwrap_or(b','));
            self.skips_line = chosen.is_some();
        }
        if self.skips_line && !self.skip_line()? {
            return Ok(None);
        }
        Ok(self.separator)
    }

    /// Skips the rest of the line. `false`: a signal came.
    fn skip_line(&mut self) -> Result<bool> {
        loop {
            let bytes = match self.input.peek()? {
                Taken::Bytes(range) => self.input.bytes(range),
                Taken::Interrupted => return Ok(false),
                _ => &[],
            };
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            self.skips_line = end.is_none() && !bytes.is_empty();
            let skipped = end.unwrap_or(bytes.len());
            self.input.consume(skipped);
            if !self.skips_line {
                return Ok(true);
            }
        }
    }

    /// Skips line ends, so that a record's line is that of its first byte. `false`: a signal came.
    fn skip_line_ends(&mut self) -> Result<bool> {
        loop {
            let bytes = match self.input.peek()? {
                Taken::Bytes(range) => self.input.bytes(range),
                Taken::Interrupted => return Ok(false),
                _ => return Ok(true),
            };
            let ends = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            self.lines.add(&bytes[..ends]);
            let more = ends == bytes.len();
            self.input.consume(ends);
            if !more {
                self.lines.after_return = false;
                return Ok(true);
            }
        }
    }

    fn place(&self) -> String {
        format!("{}:{}", self.input.name, self.number)
    }
}

impl Source for Csv<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        match self.record()? {
            Record::Fields => {}
            Record::Bad(what) => {
                // Without a header, no row has names.
                let goes_on = self.picked.is_some() || !self.columns.header;
                return Ok(Row::Bad(BadRow { place: self.place(), what, goes_on }));
            }
            Record::Lost(what) => return Ok(Row::Bad(BadRow { place: self.place(), what, goes_on: false })),
            Record::Interrupted => return Ok(Row::Interrupted),
            Record::End => return Ok(Row::End),
        }
        if self.picked.is_none() {
            let first: Vec<_> = self.fields.all().collect();
            self.picked = Some(self.columns.pick(&self.place(), &first)?);
            if self.columns.header {
                return self.next_row();
            }
        }
        let Self { input, picked, fields, scratch, number, .. } = self;
        let picked = picked.as_ref().expect("it was made above");
        let made = picked.check(fields.count(), fields.all().skip(picked.width())).and_then(|()| {
            if picked.key.len() > 1 {
                picked.join(|index| fields.field(index), &mut scratch.key)?;
            }
            if picked.value == PickedValue::Others { picked.others(fields.all(), &mut scratch.value) } else { Ok(()) }
        });
        if let Err(what) = made {
            return Ok(bad_line(input, *number, what));
        }
        let key = if picked.key.len() == 1 { fields.field(picked.key[0]) } else { &scratch.key };
        let value = match picked.value {
            PickedValue::Column(value) => fields.field(value),
            PickedValue::Others => &scratch.value,
        };
        Ok(Row::Pair(Pair { key, value }, *number))
    }

    fn number(&self) -> u64 {
        self.number
    }

    /// A record may span several lines.
    fn next_number(&self) -> u64 {
        self.lines.count + 1
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }

    fn columns(&self) -> Option<String> {
        self.picked.as_ref().map(Picked::describe)
    }
}

/// A count of line ends: newlines, carriage returns, and pairs of both.
#[derive(Default)]
struct LineEnds {
    count: u64,
    /// The last byte was a carriage return, so that a newline ends no other line.
    after_return: bool,
}

impl LineEnds {
    /// Adds the line ends in the next bytes.
    fn add(&mut self, bytes: &[u8]) {
        for at in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            let after_return = at.checked_sub(1).map_or(self.after_return, |before| bytes[before] == b'\r');
            self.count += u64::from(bytes[at] == b'\r' || !after_return);
        }
        self.after_return = bytes.last().map_or(self.after_return, |last| *last == b'\r');
    }
}

/// The fields of a record, concatenated, and where each ends.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Fields are not stored, because their record is skipped.
    discards: bool,
}

/// Why a record is bad.
enum Fault {
    /// It exceeds a limit or memory; its end can be found.
    Limit(String),
    /// Its quotes are wrong, so that its end is unknown.
    Quote(String),
}

impl Fields {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.discards = false;
    }

    fn push(&mut self, part: &[u8]) -> std::result::Result<(), Fault> {
        if self.discards {
            return Ok(());
        }
        let bytes = self.bytes.len() + part.len();
        let no_memory = |_| Fault::Limit(format!("no memory for a record of {bytes} bytes or more"));
        self.bytes.try_reserve(part.len()).map_err(no_memory)?;
        self.bytes.extend_from_slice(part);
        Ok(())
    }

    fn end(&mut self) -> std::result::Result<(), Fault> {
        if self.discards {
            return Ok(());
        }
        if self.ends.len() == COLUMNS_MAX {
            return Err(Fault::Limit(format!("record has more than {COLUMNS_MAX} columns")));
        }
        self.ends.push(self.bytes.len());
        Ok(())
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    fn field(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count()).map(|index| self.field(index))
    }
}

/// A record that is read part by part.
struct Scan {
    separator: u8,
    /// Bytes of the record read so far.
    at: usize,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote within quotes, which closes them or is the first of two.
    Quote,
}

enum Scanned {
    /// The record; its line end comes next.
    Whole,
    /// All bytes read so far belong to the record, which is not complete.
    Part,
}

impl Scan {
    fn new(separator: u8) -> Self {
        Self { separator, at: 0, state: State::FieldStart }
    }

    /// Continues reading `record`, the bytes from its beginning. `ended`: no more come.
    ///
    /// # Errors
    /// What is wrong with it. After [`Fault::Limit`] the scan can be continued.
    fn record(&mut self, record: &[u8], ended: bool, fields: &mut Fields) -> std::result::Result<Scanned, Fault> {
        while let Some(byte) = record.get(self.at) {
            let rest = &record[self.at..];
            match self.state {
                State::FieldStart if *byte == b'"' => {
                    self.at += 1;
                    self.state = State::Quoted;
                }
                State::FieldStart | State::Unquoted => {
                    let end = memchr::memchr3(self.separator, b'\n', b'\r', rest);
                    let part = &rest[..end.unwrap_or(rest.len())];
                    fields.push(part)?;
                    self.at += part.len();
                    self.state = State::Unquoted;
                    if end.is_some() && self.field_ends(record[self.at], fields)? {
                        return Ok(Scanned::Whole);
                    }
                }
                State::Quoted => {
                    let quote = memchr::memchr(b'"', rest);
                    let part = &rest[..quote.unwrap_or(rest.len())];
                    fields.push(part)?;
                    self.at += part.len() + usize::from(quote.is_some());
                    self.state = if quote.is_some() { State::Quote } else { State::Quoted };
                }
                State::Quote if *byte == b'"' => {
                    fields.push(b"\"")?;
                    self.at += 1;
                    self.state = State::Quoted;
                }
                State::Quote if [self.separator, b'\n', b'\r'].contains(byte) => {
                    if self.field_ends(*byte, fields)? {
                        return Ok(Scanned::Whole);
                    }
                }
                State::Quote => {
                    let lines = lines_in(&record[..self.at]);
                    return Err(Fault::Quote(match lines {
                        0 => "text after a closing quote; a quote within a quoted field is written twice".into(),
                        _ => format!(
                            "a quote opened here is closed {lines} lines below, where text follows it: a quote that \
                             is missing, or within a quoted field, where it is written twice"
                        ),
                    }));
                }
            }
        }
        match self.state {
            _ if !ended => Ok(Scanned::Part),
            State::Quoted => Err(Fault::Quote("a quote opened here is never closed".into())),
            State::FieldStart | State::Unquoted | State::Quote => fields.end().map(|()| Scanned::Whole),
        }
    }

    /// Whether the record ends, too.
    fn field_ends(&mut self, byte: u8, fields: &mut Fields) -> std::result::Result<bool, Fault> {
        fields.end()?;
        let more = byte == self.separator;
        if more {
            self.at += 1;
            self.state = State::FieldStart;
        }
        Ok(!more)
    }
}

fn lines_in(bytes: &[u8]) -> u64 {
    let mut lines = LineEnds::default();
    lines.add(bytes);
    lines.count
}

/// `"sep=;"` and a line end of two bytes.
const SEPARATOR_LINE_BYTES: usize = 9;

fn begins_like_separator(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    text.iter().zip(b"sep=").all(|(byte, expected)| byte.eq_ignore_ascii_case(expected))
}

/// Returns the separator that the first line chooses, as Excel reads it: `sep=;`.
pub fn separator_line(text: &[u8]) -> Option<u8> {
    let line = text.split(|byte| matches!(byte, b'\n' | b'\r')).next()?;
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match *line {
        [_, _, _, _, separator] if begins_like_separator(line) && separator != b'"' => Some(separator),
        _ => None,
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
    // A reader skips a byte-order mark before the first field, which may be this one once the rows are sorted.
    if !field.iter().any(needs_quotes) && !field.starts_with(BYTE_ORDER_MARK) {
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

/// Whether `text` is CSV as far as it goes: all records have the same number of fields, at least two. `ends`: nothing
/// follows it; otherwise its last record is not counted.
pub fn is_csv(text: &[u8], ends: bool) -> Option<usize> {
    let separator = separator_line(text);
    let mut rest = match separator {
        Some(_) => &text[memchr::memchr2(b'\n', b'\r', text).unwrap_or(text.len())..],
        None => text,
    };
    let (mut fields, mut records, mut width) = (Fields::default(), 0, 0);
    loop {
        rest = &rest[rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count()..];
        fields.clear();
        let mut scan = Scan::new(separator.unwrap_or(b','));
        if rest.is_empty() || !matches!(scan.record(rest, ends, &mut fields), Ok(Scanned::Whole)) {
            return (records > 0 && width > 1).then_some(records);
        }
        if records > 0 && fields.count() != width {
            return None;
        }
        rest = &rest[scan.at..];
        (records, width) = (records + 1, fields.count());
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Column;
    use super::*;

    type OwnedRow = std::result::Result<(u64, Vec<u8>, Vec<u8>), String>;

    fn columns(key: usize, value: usize, header: bool) -> Columns {
        let [key, value] = [key, value].map(Column::Number);
        let key_separator = b"\t".to_vec();
        Columns { key: vec![key], key_separator, value: Some(value), header, chosen: true, unclear: false }
    }

    fn read(text: &[u8], columns: Columns) -> Vec<OwnedRow> {
        rows_of(Csv::new(Input::new(Box::new(text), "in".into()), columns))
    }

    fn rows_of(mut csv: Csv<'_>) -> Vec<OwnedRow> {
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
                Row::Entry(entry, _) => panic!("{entry:?}"),
                Row::Interrupted | Row::End => return rows,
            }
        }
    }

    fn row(number: u64, key: &str, value: &str) -> OwnedRow {
        Ok((number, key.into(), value.into()))
    }

    #[test]
    fn fields_may_hold_commas_quotes_and_line_ends_and_rows_are_named_by_their_first_line() {
        let text =
            b"id,\"the name\",rest\r\n1,\"a,\"\"b\"\"\nc\",x\r\n\r\n2,d,y\n3,5\" pipe,\"\"\r4,e,\n5,\"f\r\ng\",\"h\"";
        let rows = read(text, columns(2, 1, true));
        let expected = [
            row(2, "a,\"b\"\nc", "1"),
            row(5, "d", "2"),
            row(6, "5\" pipe", "3"),
            row(7, "e", "4"),
            row(8, "f\r\ng", "5"),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_row_that_is_not_as_wide_as_the_first_is_bad_unless_its_other_fields_are_empty() {
        for header in [true, false] {
            let rows = read(b"id,address\n2,Oak Road 7, Springfield\n3,Elm,,\n4\n5,Ash\n", columns(1, 2, header));
            let expected = [
                Err("in:2: 3 columns, where the first row has 2".to_owned()),
                row(3, "3", "Elm"),
                Err("in:4: 1 column, where the first row has 2".to_owned()),
                row(5, "5", "Ash"),
            ];
            assert_eq!(rows[usize::from(!header)..], expected);
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_swallows_no_other_row() {
        for (text, bad, next) in [
            (&b"a,\"b\nc,d\n"[..], "a quote opened here is never closed", "d"),
            (b"a,\"b\nc,d", "a quote opened here is never closed", "d"),
            (b"a,\"b\nc,d\ne,\"f\"\n", "a quote opened here is closed 2 lines below", "d"),
            (b"a,\"b\nc,\"d\"\n", "a quote opened here is closed 1 lines below", "d"),
            (b"a,\"b\"c\nc,d\n", "text after a closing quote", "d"),
            (b"a,\"He said \"hi\"\"\nc,d\n", "text after a closing quote", "d"),
        ] {
            let rows = read(text, columns(1, 2, false));
            assert!(rows[0].as_ref().unwrap_err().starts_with(&format!("in:1: {bad}")), "{rows:?}");
            assert_eq!(rows[1], row(2, "c", next));
        }
        assert_eq!(read(b"a,\"b", columns(1, 2, false)), [Err("in:1: a quote opened here is never closed".into())]);
        // Nothing is read by the names of a later row.
        assert_eq!(read(b"k,\"v\na,b\n", columns(1, 2, true)).len(), 1);
    }

    #[test]
    fn the_first_line_may_choose_the_separator() {
        for (line, separator) in [("sep=;\n", ';'), ("\"sep=|\"\r\n", '|'), ("SEP=\t\n", '\t'), ("sep=,\n", ',')] {
            let text = format!("{line}id{separator}name\n1{separator}\"a{separator}b\"\n");
            let rows = read(text.as_bytes(), columns(1, 2, true));
            assert_eq!(rows, [row(3, "1", &format!("a{separator}b"))], "{text}");
            assert_eq!(is_csv(text.as_bytes(), true), Some(2), "{text}");
        }
        assert_eq!(read(b"sep=,x\n1,2\n", columns(1, 2, false)), [row(1, "sep=", "x"), row(2, "1", "2")]);
        assert_eq!(read(b"sep=;", columns(1, 2, false)), []);
    }

    #[test]
    fn a_record_takes_no_more_memory_than_its_limits() {
        let long = [&vec![b'x'; 20_001][..], b",\na,b\n"].concat();
        let mut csv = Csv::new(Input::new(Box::new(&long[..]), "in".into()), columns(1, 2, false));
        csv.record_bytes_max = 20_000;
        let Row::Bad(bad) = csv.next_row().unwrap() else { panic!("it was taken") };
        assert_eq!(bad.to_string(), "in:1: record is longer than 20000 bytes");
        assert!(matches!(csv.next_row().unwrap(), Row::Pair(Pair { key: b"a", value: b"b" }, 2)));
        let wide = vec![b','; COLUMNS_MAX + 1];
        let rows = read(&wide, columns(1, 2, false));
        assert_eq!(rows, [Err(format!("in:1: record has more than {COLUMNS_MAX} columns"))]);
    }

    /// Reads `text` in two parts, of which the first has `first` bytes.
    fn read_within(record_bytes_max: usize, text: &[u8], first: usize) -> Vec<OwnedRow> {
        let parts = std::io::Read::chain(&text[..first], &text[first..]);
        let mut csv = Csv::new(Input::new(Box::new(parts), "in".into()), columns(1, 2, false));
        csv.record_bytes_max = record_bytes_max;
        rows_of(csv)
    }

    #[test]
    fn a_record_over_a_limit_ends_where_its_quotes_do() {
        let long = || Err("in:1: record is longer than 10 bytes".to_owned());
        let text = b"a,\"bcdefghij\r\nc,d\r\n\"\"e\n\",f\r\ng,h\n";
        for first in 0..text.len() {
            assert_eq!(read_within(10, text, first), [long(), row(5, "g", "h")], "{first}");
        }
        assert_eq!(read_within(10, b"a,\"bcdefghij\"\nc,d\n", 0), [long(), row(2, "c", "d")]);
        assert_eq!(read_within(10, b"abcdefghij,\n\"c\",d", 0), [long(), row(2, "c", "d")]);
        let wide = [&vec![b','; COLUMNS_MAX + 1][..], b"\"x\na,b\n\"\nc,d\n"].concat();
        let expected = [Err(format!("in:1: record has more than {COLUMNS_MAX} columns")), row(4, "c", "d")];
        assert_eq!(read(&wide, columns(1, 2, false)), expected);
        // Its end is unknown, so none of the lines that follow is a row.
        for text in [&b"a,\"bcdefghijk\nc,d\n"[..], b"a,\"bcdefghijk\nc,\"d\n"] {
            let rows = read_within(10, text, 13);
            assert_eq!((rows.len(), &rows[0]), (2, &long()));
            assert!(rows[1].as_ref().unwrap_err().starts_with("in:1: the end of this record cannot be found"));
        }
    }

    #[test]
    fn a_record_longer_than_every_buffer_comes_whole() {
        let long = "x".repeat(1 << 20);
        let text = [long.as_bytes(), b",", &vec![b','; 1000], b"last"].concat();
        let rows = read(&text, columns(1, 1002, false));
        assert_eq!(rows, [row(1, &long, "last")]);
    }
}
