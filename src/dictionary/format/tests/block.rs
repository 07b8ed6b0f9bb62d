//! A block that claims more bytes than possible allocates no memory.

use super::*;

#[test]
fn a_block_that_claims_too_much_takes_no_memory() {
    let stored = lz4_flex::block::compress(&[7; 1 << 20]);
    let head = BlockHead { raw_bytes: 1 << 20, stored_bytes: stored.len() as u64, records: 1, position: 0 };
    assert_eq!(head.check(), Ok(head));
    let mut raw = Vec::new();
    assert!(unpack(&head, &stored, (1 << 20) - 1, &mut raw).is_err());
    assert_eq!(raw.capacity(), 0);
    assert_eq!(unpack(&head, &stored, 1 << 20, &mut raw), Ok(&[7; 1 << 20][..]));
}
