//! Fuzzes `targets/dictionary.rs`: `make fuzz TARGET=dictionary`.
#![no_main]

#[global_allocator]
static ALLOCATOR: splitpoint_fuzz::Allocator = splitpoint_fuzz::allocator();

libfuzzer_sys::fuzz_target!(|input: &[u8]| splitpoint_fuzz::run(
    &ALLOCATOR,
    splitpoint_fuzz::targets::dictionary::run,
    input
));
