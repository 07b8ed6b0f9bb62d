//! Fuzz targets as a library: what each program of `src/bin` runs with every input.
//!
//! The targets are in `targets/`, which is a module of the root's tests too (`tests/it/seeds.rs`): there the committed
//! inputs run on any Rust, without a fuzzer. So the modules that targets use are those of the tests, found at the same
//! names: `crate::spd`, `crate::spt` and `crate::fields`. How to run and what to do with a finding: docs/testing.md,
//! "Fuzzing".

use cap::Cap;
use std::alloc::System;

#[path = "../../tests/it/fields.rs"]
pub mod fields;
#[path = "../../tests/it/spd.rs"]
pub mod spd;
#[path = "../../tests/it/spt.rs"]
pub mod spt;
pub mod targets;

/// Memory that one input may have at once. The largest file of a target has some 200 KB, and what is put into it a few
/// MB; a checkpoint is written by the mebibyte.
pub const MEMORY_BYTES: usize = 64 << 20;

/// A program's allocator: [`run`] sets its limit.
pub type Allocator = Cap<System>;

/// An allocator without a limit yet.
pub const fn allocator() -> Allocator {
    Cap::new(System, usize::MAX)
}

/// Runs `target` with `input`, which may allocate [`MEMORY_BYTES`] and no more: beyond it the process aborts, and the
/// fuzzer keeps the input.
pub fn run(allocator: &Allocator, target: targets::Target, input: &[u8]) {
    allocator.set_limit(allocator.allocated() + MEMORY_BYTES).expect("above what is allocated");
    target(input);
    // The fuzzer's own state between inputs does not count.
    allocator.set_limit(usize::MAX).expect("no limit is above everything");
}
