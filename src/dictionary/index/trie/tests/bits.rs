//! Bits read back as they were written.

use super::*;

#[test]
fn what_was_put_before_and_appended_is_read_in_order() {
    let mut forward = Forward::behind(vec![7]);
    let mut numbers = Vec::new();
    for row in 0..40u64 {
        let mut backward = Backward::default();
        let of_row: Vec<u64> = (1..row).map(|i| i.pow(3 + row as u32 % 5) + (1 << ((row + i) % 63))).collect();
        for &number in of_row.iter().rev() {
            backward.put_gamma(number);
            backward.put(number & 0x7f, 7);
        }
        forward.append(&backward);
        numbers.extend(of_row);
    }
    let len = forward.len();
    let words = forward.into_words();
    assert_eq!(words.len() as u64, 1 + len.div_ceil(64));
    let mut reader = Reader::new(&words[1..], 0, len);
    for number in numbers {
        assert_eq!(reader.take(7), Some(number & 0x7f));
        assert_eq!(reader.take_gamma(), Some(number));
    }
    assert_eq!(reader.at, len);
    assert_eq!(reader.need(64).is_some(), reader.have == 64);
    assert_eq!(reader.jump(1).and_then(|()| reader.need(64)), None);
}
