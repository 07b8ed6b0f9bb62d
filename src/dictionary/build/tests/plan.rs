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
    assert_eq!(divided(16), (4, 1, 32, 10, 1));
}
