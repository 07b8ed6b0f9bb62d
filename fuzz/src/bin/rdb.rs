//! Fuzzes Redis's serialization of values: `make fuzz TARGET=rdb`.
//!
//! The bytes are read as what DUMP returns, without a checksum, and as a dump file. A value that is read is written in
//! Redis's encoding and read again: it has to be the same. The limit on memory is that of all targets.
#![no_main]

use splitpoint_server::rdb::{self, Form, Limits, Reader, Value};

const LIMITS: Limits = Limits { string_bytes: 1 << 20, value_bytes: 1 << 22 };

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // Version 12, and a checksum of 0, which is none.
    let payload = [input, &[12, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    if let Ok(value) = rdb::decode(&payload, LIMITS) {
        let mut again = Vec::new();
        rdb::encode(&mut again, &value, Form::Elements);
        let read = rdb::decode(&again, Limits::FILE).expect("what was written is read");
        assert_eq!(without_lifetimes(read), without_lifetimes(value));
    }
    if let Ok(mut reader) = Reader::new(input, LIMITS) {
        while let Ok(Some(_)) = reader.next_entry() {}
    }
});

/// Version 10, which is written, has no lifetimes of fields.
fn without_lifetimes(mut value: Value) -> Value {
    if let Value::Hash(fields) = &mut value {
        fields.iter_mut().for_each(|field| field.expires_at_ms = 0);
    }
    value
}
