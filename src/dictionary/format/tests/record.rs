//! Records read back as they were written.

use super::*;

#[test]
fn a_record_is_what_was_written_and_needs_all_its_bytes() {
    for (layout, key, value) in [
        (Layout::Varied, &b""[..], &b""[..]),
        (Layout::Varied, b"key", &[7; 300]),
        (Layout::Fixed { key_len: 3, value_len: 0 }, b"key", b""),
    ] {
        let (head, head_bytes) = head(layout, key.len(), value.len());
        let bytes = [&head[..head_bytes], key, value].concat();
        assert_eq!(parse(layout, &bytes), Some(StoredRecord { key, value, bytes: bytes.len() }));
        if let Some(short) = bytes.len().checked_sub(1) {
            assert_eq!(parse(layout, &bytes[..short]), None);
        }
    }
}
