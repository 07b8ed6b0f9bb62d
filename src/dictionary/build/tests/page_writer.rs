//! Pages are written in units that the system can cache as large pages.

use super::*;
use crate::io::simulated::{Event, Simulated, State};
use crate::io::{Mode, Storage};

#[test]
fn all_writes_but_the_last_end_at_a_multiple_of_their_length() {
    for page_bytes in [512u32, 4096, 65_536] {
        let disk = Simulated::new(State::default());
        let path = Path::new("/d/a.spd");
        let file: Arc<dyn File> = Arc::from(disk.open(path, Mode::New).unwrap());
        let firsts = PageFirsts::default();
        let mut pages = PageWriter::new(file, path, page_bytes, CHECKSUM_BYTES, firsts).unwrap();
        pages.begin_cell(0, 0).unwrap();
        for _ in 0..70 {
            pages.write(&[7; 100_001]).unwrap();
        }
        let written = pages.finish().unwrap();
        let mut end = u64::from(page_bytes);
        let mut ends = Vec::new();
        for event in disk.trace() {
            if let Event::Write { offset, bytes, .. } = event {
                assert_eq!(offset, end);
                end += bytes.len() as u64;
                ends.push(end);
            }
        }
        assert_eq!(ends.pop(), Some((written.pages + 1) * u64::from(page_bytes)));
        let multiples: Vec<u64> = (1..=3).map(|number| number * WRITE_BYTES as u64).collect();
        assert_eq!(ends, multiples, "pages of {page_bytes} bytes");
    }
}
