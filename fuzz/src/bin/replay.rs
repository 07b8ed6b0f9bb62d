//! Fuzzes `targets/replay.rs`: `make fuzz TARGET=replay`.
#![no_main]

#[global_allocator]
static ALLOCATOR: splitpoint_fuzz::Allocator = splitpoint_fuzz::allocator();

libfuzzer_sys::fuzz_target!(|input: &[u8]| splitpoint_fuzz::run(
    &ALLOCATOR,
    splitpoint_fuzz::targets::replay::run,
    input
));
