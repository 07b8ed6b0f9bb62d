//! Slots are computed as in Redis Cluster.

use super::*;

#[test]
fn slots_are_those_of_redis_cluster() {
    // The check value of CRC-16/XMODEM, and the result of CLUSTER KEYSLOT.
    assert_eq!(crc16(b"123456789"), 0x31C3);
    assert_eq!(slot(b"123456789"), 12739);
    assert_eq!(slot(b"foo"), 12182);
    assert_eq!(slot(b"somekey"), 11058);
    assert_eq!(slot(b"foo{hash_tag}"), 2515);
    assert_eq!(slot(b"bar{hash_tag}"), 2515);
    assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
    // Nothing between the braces, or no closing one: the whole key is hashed.
    assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16384);
    assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % 16384);
}
