//! How a plan is divided among files.

use super::*;

#[test]
fn files_written_side_by_side_share_memory_threads_and_open_files() {
    let plan = Plan { memory_bytes: 64 << 20, threads: 4, ..Plan::default() };
    let divided = |parts| {
        let (sort, write) = (plan.for_sort(Path::new("a"), parts), plan.for_writing(Path::new("a"), parts));
        (sort.memory_bytes >> 20, sort.threads, sort.open_files, write.memory_bytes >> 20, write.threads)
    };
    assert_eq!(divided(1), (64, 4, 512, 64, 4));
    assert_eq!(divided(2), (32, 2, 256, 32, 2));
    // All take pairs at the same time; four are written while twelve sorts still hold pairs.
    assert_eq!(divided(16), (4, 1, 32, 5, 1));
}

#[test]
fn the_share_of_a_file_that_is_written_leaves_what_waiting_sorts_may_hold_and_is_never_below_the_least() {
    for parts in 1..40 {
        for threads in 1..10 {
            let at_once = threads.min(parts) as u64;
            let memory_bytes = MEMORY_BYTES_MIN * parts as u64;
            let plan = Plan { memory_bytes, threads, ..Plan::default() };
            let share = plan.for_writing(Path::new("a"), parts).memory_bytes;
            let held = MEMORY_BYTES_MIN / 8 * 7 * (parts as u64 - at_once);
            assert!(share >= MEMORY_BYTES_MIN, "{parts} parts, {threads} threads: {share}");
            assert!(share * at_once + held <= memory_bytes, "{parts} parts, {threads} threads: {share}");
            // With the least memory that a filter may have, a segment of it still fits.
            let memory_bytes = memory_bytes.max(2 * SEGMENT_BUILD_BYTES * at_once);
            let plan = Plan { memory_bytes, threads, filter_bits: 8, ..Plan::default() };
            plan.check(parts).unwrap();
            let share = plan.for_writing(Path::new("a"), parts).memory_bytes;
            assert!(share >= SEGMENT_BUILD_BYTES, "{parts} parts, {threads} threads, a filter: {share}");
        }
    }
}
