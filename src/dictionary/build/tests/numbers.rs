//! Numbers come back in order, from memory and from a file.

#![allow(clippy::disallowed_methods, reason = "a test looks at the directory")]

use super::*;
use crate::io::Disk;

#[test]
fn numbers_come_back_in_order_and_leave_no_file() {
    let directory = tempfile::tempdir().unwrap();
    for (count, memory_bytes) in [(0u64, 8), (1, 8), (100, 80), (100_000, 1000), (100_000, 1 << 20)] {
        let storage: Arc<dyn Storage> = Arc::new(Disk);
        let mut list = NumberList::new(&storage, &directory.path().join("a.spd"), memory_bytes);
        for number in 0..count {
            list.push(number * 3).unwrap();
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let numbers: Result<Vec<u64>> = list.numbers().collect();
        assert_eq!(numbers.unwrap(), (0..count).map(|number| number * 3).collect::<Vec<_>>());
    }
}
