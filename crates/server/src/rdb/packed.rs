//! Small collections as one string: listpacks, and the forms before them.
//!
//! ```text
//! listpack   bytes, u32 | elements, u16 | elements | FF
//!            element    encoding and bytes | their length, backwards, in groups of 7 bits
//! ziplist    bytes, u32 | last element, u32 | elements, u16 | elements | FF
//!            element    length of the one before | encoding and bytes
//! zipmap     fields | field length, name, value length, unused bytes, value ... | FF
//! intset     bytes of a number, u32 | numbers, u32 | the numbers in order
//! ```
//!
//! Numbers are little-endian unless noted. Source: the RDB format; a listpack is written as Redis writes it.

use super::{Result, bad};
use crate::command::number::parse_integer;

const END: u8 = 0xff;
/// The count in a listpack or ziplist with more elements than 16 bits can count.
const UNCOUNTED: u16 = u16::MAX;
const LISTPACK_HEAD_BYTES: usize = 6;
const ZIPLIST_HEAD_BYTES: usize = 10;

/// An element: bytes, or a number that is stored as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packed<'p> {
    Bytes(&'p [u8]),
    Number(i64),
}

impl Packed<'_> {
    pub(super) fn to_vec(self) -> Vec<u8> {
        match self {
            Packed::Bytes(bytes) => bytes.to_vec(),
            Packed::Number(number) => number.to_string().into_bytes(),
        }
    }

    /// The number, also if it is stored as digits.
    pub(super) fn number(self) -> Option<i64> {
        match self {
            Packed::Bytes(bytes) => parse_integer(bytes),
            Packed::Number(number) => Some(number),
        }
    }
}

/// Takes bytes from the front.
#[derive(Clone, Copy)]
struct Cut<'p>(&'p [u8]);

impl<'p> Cut<'p> {
    fn take(&mut self, count: usize) -> Option<&'p [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        let [byte] = self.bytes()?;
        Some(byte)
    }

    fn sized(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.bytes()?)).ok()
    }
}

/// The elements of a listpack or ziplist, one after another; an error ends them.
pub(super) struct Elements<'p> {
    cut: Cut<'p>,
    read: fn(&mut Cut<'p>) -> Option<Packed<'p>>,
    /// How many follow, if the head says.
    left: Option<u16>,
    name: &'static str,
    has_ended: bool,
}

/// The elements of a listpack.
pub(super) fn listpack(bytes: &[u8]) -> Result<Elements<'_>> {
    Elements::of(bytes, LISTPACK_HEAD_BYTES, "listpack", listpack_element)
}

/// The elements of a ziplist.
pub(super) fn ziplist(bytes: &[u8]) -> Result<Elements<'_>> {
    Elements::of(bytes, ZIPLIST_HEAD_BYTES, "ziplist", ziplist_element)
}

impl<'p> Elements<'p> {
    fn of(
        bytes: &'p [u8],
        head_bytes: usize,
        name: &'static str,
        read: fn(&mut Cut<'p>) -> Option<Packed<'p>>,
    ) -> Result<Elements<'p>> {
        let mut cut = Cut(bytes);
        let damaged = || bad(format!("a {name} that is damaged"));
        let head = cut.take(head_bytes).ok_or_else(damaged)?;
        let said = head.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if said.map(|said| said as usize) != Some(bytes.len()) {
            return Err(damaged());
        }
        let count = head.last_chunk().map_or(UNCOUNTED, |bytes| u16::from_le_bytes(*bytes));
        Ok(Elements { cut, read, left: Some(count).filter(|count| *count != UNCOUNTED), name, has_ended: false })
    }

    fn step(&mut self) -> Option<Option<Packed<'p>>> {
        if *self.cut.0.first()? == END {
            return (self.cut.0.len() == 1 && self.left.is_none_or(|left| left == 0)).then_some(None);
        }
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        (self.read)(&mut self.cut).map(Some)
    }

    /// Returns the next element, which must exist.
    pub(super) fn expect(&mut self) -> Result<Packed<'p>> {
        self.next().unwrap_or_else(|| Err(bad(format!("a {} that ends too early", self.name))))
    }

    /// Returns the next element, which must be a number.
    pub(super) fn number(&mut self) -> Result<i64> {
        self.expect()?.number().ok_or_else(|| bad(format!("a {} with text in place of a number", self.name)))
    }
}

impl<'p> Iterator for Elements<'p> {
    type Item = Result<Packed<'p>>;

    fn next(&mut self) -> Option<Result<Packed<'p>>> {
        if self.has_ended {
            return None;
        }
        let step = self.step();
        self.has_ended = !matches!(step, Some(Some(_)));
        match step {
            None => Some(Err(bad(format!("a {} that is damaged", self.name)))),
            Some(element) => element.map(Ok),
        }
    }
}

fn listpack_element<'p>(cut: &mut Cut<'p>) -> Option<Packed<'p>> {
    let before = cut.0.len();
    let first = cut.byte()?;
    let element = match first {
        0..0x80 => Packed::Number(first.into()),
        0x80..0xc0 => Packed::Bytes(cut.take(usize::from(first & 0x3f))?),
        0xc0..0xe0 => {
            let number = i16::from_be_bytes([first & 0x1f, cut.byte()?]);
            Packed::Number((number << 3 >> 3).into())
        }
        0xe0..0xf0 => {
            let len = usize::from(first & 0x0f) << 8 | usize::from(cut.byte()?);
            Packed::Bytes(cut.take(len)?)
        }
        0xf0 => {
            let len = cut.sized()?;
            Packed::Bytes(cut.take(len)?)
        }
        0xf1 => Packed::Number(i16::from_le_bytes(cut.bytes()?).into()),
        0xf2 => Packed::Number(three_bytes(cut.bytes()?)),
        0xf3 => Packed::Number(i32::from_le_bytes(cut.bytes()?).into()),
        0xf4 => Packed::Number(i64::from_le_bytes(cut.bytes()?)),
        _ => return None,
    };
    let (back, len) = back_length(before - cut.0.len());
    (cut.take(len)? == &back[..len]).then_some(element)
}

fn three_bytes([a, b, c]: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)
}

/// The length of an element as encoded after it, and how many bytes that takes.
fn back_length(len: usize) -> ([u8; 5], usize) {
    let bytes = match len {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    let mut back = [0; 5];
    for (index, byte) in back[..bytes].iter_mut().enumerate() {
        let group = (len >> (7 * (bytes - 1 - index)) & 0x7f) as u8; // seven bits
        *byte = group | if index > 0 { 0x80 } else { 0 };
    }
    (back, bytes)
}

fn ziplist_element<'p>(cut: &mut Cut<'p>) -> Option<Packed<'p>> {
    const LONG: u8 = 0xfe;
    if cut.byte()? == LONG {
        cut.take(4)?;
    }
    let first = cut.byte()?;
    Some(match first {
        0..0x40 => Packed::Bytes(cut.take(usize::from(first))?),
        0x40..0x80 => {
            let len = usize::from(first & 0x3f) << 8 | usize::from(cut.byte()?);
            Packed::Bytes(cut.take(len)?)
        }
        0x80 => {
            let len = usize::try_from(u32::from_be_bytes(cut.bytes()?)).ok()?;
            Packed::Bytes(cut.take(len)?)
        }
        0xc0 => Packed::Number(i16::from_le_bytes(cut.bytes()?).into()),
        0xd0 => Packed::Number(i32::from_le_bytes(cut.bytes()?).into()),
        0xe0 => Packed::Number(i64::from_le_bytes(cut.bytes()?)),
        0xf0 => Packed::Number(three_bytes(cut.bytes()?)),
        0xf1..0xfe => Packed::Number(i64::from(first & 0x0f) - 1),
        0xfe => Packed::Number(i8::from_le_bytes(cut.bytes()?).into()),
        _ => return None,
    })
}

/// The names and values of a zipmap, in turn; an error ends them.
pub(super) fn zipmap(bytes: &[u8]) -> impl Iterator<Item = Result<Packed<'_>>> {
    // The first byte is the number of fields, unless there are many.
    let mut cut = Cut(bytes.get(1..).unwrap_or_default());
    let (mut is_value, mut has_ended) = (false, false);
    std::iter::from_fn(move || {
        if has_ended {
            return None;
        }
        let step = zipmap_element(&mut cut, is_value);
        has_ended = !matches!(step, Some(Some(_)));
        is_value = !is_value;
        match step {
            None => Some(Err(bad("a zipmap that is damaged"))),
            Some(element) => element.map(Ok),
        }
    })
}

/// Reads a name or a value of a zipmap: `Some(None)` at its end, `None` if it is damaged.
fn zipmap_element<'p>(cut: &mut Cut<'p>, is_value: bool) -> Option<Option<Packed<'p>>> {
    const LONG: u8 = 0xfe;
    let first = cut.byte()?;
    if first == END {
        return (!is_value && cut.0.is_empty()).then_some(None);
    }
    let len = if first == LONG { cut.sized()? } else { usize::from(first) };
    let unused = if is_value { usize::from(cut.byte()?) } else { 0 };
    let element = Packed::Bytes(cut.take(len)?);
    cut.take(unused)?;
    Some(Some(element))
}

/// The numbers of an intset, which must ascend.
pub(super) fn intset(bytes: &[u8]) -> Result<impl Iterator<Item = Result<i64>>> {
    let damaged = || bad("an intset that is damaged");
    let mut cut = Cut(bytes);
    let (width, count) = cut.sized().zip(cut.sized()).ok_or_else(damaged)?;
    let is_possible = matches!(width, 2 | 4 | 8) && cut.0.len().checked_div(width) == Some(count);
    if !is_possible || !cut.0.len().is_multiple_of(width) {
        return Err(damaged());
    }
    let shift = 64 - 8 * width as u32; // 2, 4 or 8
    let mut before: Option<i64> = None;
    Ok(cut.0.chunks_exact(width).map(move |bytes| {
        let mut number = [0; 8];
        number[..width].copy_from_slice(bytes);
        let number = i64::from_le_bytes(number) << shift >> shift;
        let ascends = before.replace(number).is_none_or(|before| before < number);
        if ascends { Ok(number) } else { Err(damaged()) }
    }))
}

/// A listpack that is being written.
pub(super) struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Listpack {
    pub(super) fn new() -> Listpack {
        Listpack { bytes: vec![0; LISTPACK_HEAD_BYTES], count: 0 }
    }

    /// Bytes so far, including the end.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a string, as a number if it is one in canonical form.
    pub(super) fn push(&mut self, element: &[u8]) {
        const DIGITS_MAX: usize = 20;
        match parse_integer(&element[..element.len().min(DIGITS_MAX + 1)]) {
            Some(number) => self.push_number(number),
            None => self.push_bytes(element),
        }
    }

    pub(super) fn push_number(&mut self, number: i64) {
        let start = self.bytes.len();
        let bytes = number.to_le_bytes();
        match number {
            0..128 => self.bytes.push(bytes[0]),
            -4096..4096 => self.bytes.extend([0xc0 | bytes[1] & 0x1f, bytes[0]]),
            -0x8000..0x8000 => self.bytes.extend([0xf1, bytes[0], bytes[1]]),
            -0x80_0000..0x80_0000 => self.bytes.extend([0xf2, bytes[0], bytes[1], bytes[2]]),
            -0x8000_0000..0x8000_0000 => {
                self.bytes.push(0xf3);
                self.bytes.extend_from_slice(&bytes[..4]);
            }
            _ => {
                self.bytes.push(0xf4);
                self.bytes.extend_from_slice(&bytes);
            }
        }
        self.end_element(start);
    }

    fn push_bytes(&mut self, element: &[u8]) {
        let start = self.bytes.len();
        match element.len() {
            len @ 0..64 => self.bytes.push(0x80 | len as u8),
            len @ 64..4096 => self.bytes.extend_from_slice(&(0xe000 | len as u16).to_be_bytes()),
            len => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes()); // a value is shorter than 2^32
            }
        }
        self.bytes.extend_from_slice(element);
        self.end_element(start);
    }

    fn end_element(&mut self, start: usize) {
        let (back, len) = back_length(self.bytes.len() - start);
        self.bytes.extend_from_slice(&back[..len]);
        self.count += 1;
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let len = self.bytes.len() as u32; // callers keep listpacks short
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
        let count = u16::try_from(self.count).unwrap_or(UNCOUNTED);
        self.bytes[4..LISTPACK_HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

/// Writes the intset of these numbers.
pub(super) fn write_intset(mut numbers: Vec<i64>) -> Vec<u8> {
    numbers.sort_unstable();
    let fits = |bits: u32| numbers.iter().all(|number| number >> (bits - 1) == 0 || number >> (bits - 1) == -1);
    let width = [2, 4].into_iter().find(|width| fits(8 * width)).unwrap_or(8);
    let mut bytes = width.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(numbers.len() as u32).to_le_bytes()); // callers keep intsets short
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()[..width as usize]));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listpack_has_the_elements_that_it_was_given() {
        let long = vec![b'x'; 300_000];
        let mut texts: Vec<Vec<u8>> = [0, 1, 63, 64, 120, 127, 128, 4095, 4096, 16_370, 16_383, 300_000]
            .iter()
            .map(|&len| long[..len].to_vec())
            .collect();
        for bits in 0..63 {
            for number in [(1_i64 << bits) - 1, 1 << bits, -(1 << bits), -(1 << bits) - 1] {
                texts.push(number.to_string().into_bytes());
            }
        }
        texts.extend(["-0", "007", "+1", "9223372036854775808", "-9223372036854775808"].map(|text| text.into()));
        let mut written = Listpack::new();
        texts.iter().for_each(|text| written.push(text));
        let len = written.len();
        let bytes = written.end();
        assert_eq!(bytes.len(), len);
        let read: Vec<Vec<u8>> = listpack(&bytes).unwrap().map(|element| element.unwrap().to_vec()).collect();
        assert_eq!(read, texts);
    }

    #[test]
    fn an_intset_is_as_narrow_as_its_numbers() {
        let all = |bytes: &[u8]| -> Result<Vec<i64>> { intset(bytes)?.collect() };
        for (numbers, bytes) in [
            (vec![3, 1, -2], 8 + 3 * 2),
            (vec![i64::from(i16::MAX), i64::from(i16::MIN)], 8 + 2 * 2),
            (vec![i64::from(i16::MAX) + 1], 8 + 4),
            (vec![i64::from(i32::MIN)], 8 + 4),
            (vec![i64::MIN, i64::MAX, 0], 8 + 3 * 8),
        ] {
            let written = write_intset(numbers.clone());
            let mut sorted = numbers;
            sorted.sort_unstable();
            assert_eq!((written.len(), all(&written).unwrap()), (bytes, sorted));
        }
        assert!(all(&[3, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(all(&[2, 0, 0, 0, 9, 0, 0, 0, 1, 0]).is_err());
        assert!(all(&[2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0]).is_err());
    }

    #[test]
    fn a_ziplist_and_a_zipmap_are_read() {
        // "ab", 5, -300, 100000, and 70000000000 after a length of five bytes.
        let mut bytes = vec![0; ZIPLIST_HEAD_BYTES];
        bytes.extend([0, 2, b'a', b'b', 4, 0xf6, 2, 0xc0]);
        bytes.extend((-300_i16).to_le_bytes());
        bytes.extend([4, 0xf0, 0xa0, 0x86, 0x01, 0xfe, 5, 0, 0, 0, 0xe0]);
        bytes.extend(70_000_000_000_i64.to_le_bytes());
        bytes.push(END);
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[8] = 5;
        let found: Vec<_> = ziplist(&bytes).unwrap().map(|element| element.unwrap().to_vec()).collect();
        assert_eq!(found, [&b"ab"[..], b"5", b"-300", b"100000", b"70000000000"]);
        let map = b"\x02\x03foo\x03\x02bar\0\0\x05hello\x01\0x\xff";
        let found: Vec<_> = zipmap(map).map(|element| element.unwrap().to_vec()).collect();
        assert_eq!(found, [&b"foo"[..], b"bar", b"hello", b"x"]);
        for cut in 0..bytes.len() {
            assert!(ziplist(&bytes[..cut]).and_then(Iterator::collect::<Result<Vec<_>>>).is_err());
        }
        for cut in 0..map.len() {
            assert!(zipmap(&map[..cut]).collect::<Result<Vec<_>>>().is_err());
        }
    }
}
