//! Tests of segments that grow with their table, or that another program truncates, and of the calls that they take.

use super::*;
use crate::io::simulated::{Event, Simulated, State};
use std::sync::{OnceLock, Weak};

/// Reads all records, which must be those of `record`, in order. Returns their number.
fn read_all(log: &Log) -> u32 {
    let (mut reader, mut block, mut count) = (log.reader().unwrap(), Block::default(), 0);
    let limits = BlockLimits { bytes: 1 << 20, records: usize::MAX };
    while reader.read(&mut block, limits, |_, _| 0).unwrap() {
        for (kind, body) in (0..block.len()).map(|index| block.record(index)) {
            assert_eq!((kind, block.bytes(body)), (1, &record(count)[..]));
            count += 1;
        }
    }
    count
}

fn record(n: u32) -> [u8; 100] {
    [n as u8; 100]
}

fn log(disk: &Arc<Simulated>, file: &Arc<dyn File>, log_bytes: Option<u64>) -> Log {
    log_for(Safety::Process, disk, file, log_bytes)
}

fn log_for(safety: Safety, disk: &Arc<Simulated>, file: &Arc<dyn File>, log_bytes: Option<u64>) -> Log {
    let storage: Arc<dyn Storage> = disk.clone();
    Log::new(storage, Path::new("table"), file.clone(), 7, 1, Some(safety), log_bytes)
}

/// Adds records until the segment is full. Returns the number of records that the log then has.
fn fill(log: &Log, mut count: u32) -> u32 {
    while let Some(mut room) = log.reserve(record_bytes(record(0).len())).unwrap() {
        room.append(1, &[&record(count)]).unwrap();
        count += 1;
    }
    count
}

#[test]
fn a_segment_grows_with_the_table_up_to_twice_its_length_and_a_replay_has_all_of_it() {
    const SEGMENT_BYTES: u64 = RECORDS_START + 30_000;
    const LARGE_TABLE_BYTES: u64 = 1 << 40;
    let disk = Arc::new(Simulated::new(State::default()));
    let file: Arc<dyn File> = disk.open(Path::new("table"), Mode::New).unwrap().into();
    let growing = log(&disk, &file, None);
    growing.segment_bytes.store(SEGMENT_BYTES, Relaxed);
    let small = fill(&growing, 0);
    assert!(!growing.has_room(1000));
    growing.grow(LARGE_TABLE_BYTES);
    assert!(growing.has_room(1000));
    let large = fill(&growing, small);
    let of_segment = |segments: u64| (segments * SEGMENT_BYTES - RECORDS_START) / record_bytes(record(0).len());
    assert_eq!((u64::from(small), u64::from(large)), (of_segment(1), of_segment(2)));
    // It does not grow further.
    growing.grow(LARGE_TABLE_BYTES);
    assert_eq!(fill(&growing, large), large);
    drop(growing);
    assert_eq!(read_all(&log(&disk, &file, None)), large);
}

#[test]
fn a_log_grows_by_few_writes_of_zeros_that_end_soon_after_its_records() {
    const RECORDS: u32 = 28_000;
    const FIRST_MAX: u64 = 1 << 17;
    for (safety, writes_max, beyond_max) in [(Safety::Process, 36, 3 << 16), (Safety::Disk, 8, 1 << 20)] {
        let disk = Arc::new(Simulated::new(State::default()));
        let file: Arc<dyn File> = disk.open(Path::new("table"), Mode::New).unwrap().into();
        let log = log_for(safety, &disk, &file, Some(8 << 20));
        let record_bytes = record_bytes(record(0).len());
        for n in 0..RECORDS {
            log.reserve(record_bytes).unwrap().unwrap().append(1, &[&record(n | 1)]).unwrap();
        }
        let zeros = |event: &Event| match event {
            Event::Write { bytes, .. } if bytes.iter().all(|&byte| byte == 0) => Some(bytes.len() as u64),
            _ => None,
        };
        let zeros: Vec<u64> = disk.trace().iter().filter_map(zeros).collect();
        let used = RECORDS_START + u64::from(RECORDS) * record_bytes;
        assert!(zeros.len() <= writes_max, "{safety:?}: {} writes of zeros", zeros.len());
        assert!(zeros[..2].iter().sum::<u64>() <= FIRST_MAX, "{safety:?}: {zeros:?}: the first record waits for few");
        assert!(zeros.iter().sum::<u64>() <= used + beyond_max, "{safety:?}: {zeros:?} for {used} bytes");
    }
}

#[test]
fn a_sync_is_a_question_for_the_length_and_a_write_and_a_sync() {
    let disk = Arc::new(Simulated::new(State::default()));
    let file: Arc<dyn File> = disk.open(Path::new("table"), Mode::New).unwrap().into();
    let log = log_for(Safety::Disk, &disk, &file, None);
    let put = || log.reserve(record_bytes(record(1).len())).unwrap().unwrap().append(1, &[&record(1)]).unwrap();
    log.sync_to(put()).unwrap();
    let before = disk.trace().len();
    log.sync_to(put()).unwrap();
    let calls = &disk.trace()[before..];
    assert!(matches!(calls, [Event::Look, Event::Write { .. }, Event::Sync(_)]), "{calls:?}");
}

#[test]
fn a_segment_of_a_length_that_the_user_has_set_does_not_grow() {
    let disk = Arc::new(Simulated::new(State::default()));
    let file: Arc<dyn File> = disk.open(Path::new("table"), Mode::New).unwrap().into();
    let fixed = log(&disk, &file, Some(1 << 18));
    let count = fill(&fixed, 0);
    fixed.grow(1 << 40);
    assert_eq!(fill(&fixed, count), count);
}

#[test]
fn a_sync_does_not_write_over_the_hole_that_another_program_cut_into_a_full_segment() {
    const RECORDS: u64 = 700;
    let segment_bytes = RECORDS_START + RECORDS * record_bytes(record(0).len());
    let disk = Arc::new(Simulated::new(State::default()));
    let file: Arc<dyn File> = disk.open(Path::new("table"), Mode::New).unwrap().into();
    let log = log_for(Safety::Disk, &disk, &file, Some(2 * segment_bytes));
    assert_eq!(u64::from(fill(&log, 0)), RECORDS);
    let segment = disk.open(Path::new("table-log0"), Mode::Write).unwrap();
    assert_eq!(segment.len().unwrap(), segment_bytes);
    segment.set_len(RECORDS_START).unwrap();
    // The last records end where the file now ends.
    let error = log.sync().unwrap_err();
    assert!(error.message().contains("another program cut it"), "{error}");
}

/// Returns the thread and number of each record of the log.
fn read_numbers(log: &Log) -> Vec<(u8, u32)> {
    let (mut reader, mut block, mut numbers) = (log.reader().unwrap(), Block::default(), Vec::new());
    let limits = BlockLimits { bytes: 1 << 20, records: usize::MAX };
    while reader.read(&mut block, limits, |_, _| 0).unwrap() {
        for (_, body) in (0..block.len()).map(|index| block.record(index)) {
            let [thread, number @ .., last] = block.bytes(body) else { panic!("an empty record") };
            assert_eq!(thread, last);
            numbers.push((*thread, u32::from_le_bytes(number.try_into().unwrap())));
        }
    }
    numbers
}

#[test]
fn records_that_threads_leave_for_another_to_place_are_in_the_log_once_and_in_the_order_of_their_ends() {
    const THREADS: u8 = 20; // more than there are slots
    const COUNT: u32 = 300;
    let disk = Arc::new(Simulated::new(State::default()));
    let file: Arc<dyn File> = disk.open(Path::new("table"), Mode::New).unwrap().into();
    let shared = log(&disk, &file, None);
    let body = |thread: u8, number: u32| [&[thread][..], &number.to_le_bytes(), &[thread]].concat();
    let append = |thread, number| {
        let body = body(thread, number);
        shared.reserve(record_bytes(body.len())).unwrap().unwrap().append(1, &[&body]).unwrap()
    };
    append(THREADS, 0); // so that there is a segment
    // While the end of the log is in use, every thread leaves its first record or waits for the lock.
    let in_use = shared.tail();
    let mut ends = std::thread::scope(|scope| {
        let append = &append;
        let threads = (0..THREADS).map(|thread| {
            scope.spawn(move || (0..COUNT).map(|number| (append(thread, number), (thread, number))).collect::<Vec<_>>())
        });
        let threads: Vec<_> = threads.collect();
        std::thread::yield_now();
        drop(in_use);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    ends.sort_unstable();
    drop(shared);
    let expected = std::iter::once((THREADS, 0)).chain(ends.into_iter().map(|(_, of)| of));
    assert_eq!(read_numbers(&log(&disk, &file, None)), expected.collect::<Vec<_>>());
}

/// A disk that reports which files are removed, and lets a test examine the log at that moment.
struct Watched {
    disk: Arc<Simulated>,
    log: OnceLock<Weak<Log>>,
    /// For each removal of a file, whether other threads could have used the log.
    free: Mutex<Vec<bool>>,
}

impl Storage for Watched {
    fn open(&self, path: &Path, mode: Mode) -> std::io::Result<Box<dyn File>> {
        self.disk.open(path, mode)
    }

    fn remove(&self, path: &Path) -> std::io::Result<()> {
        let log = self.log.get().and_then(Weak::upgrade).expect("there is a log");
        let is_free = log.tail.try_lock().is_ok() && log.durable.try_lock().is_ok();
        self.free.lock().unwrap().push(is_free);
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.disk.rename(from, to)
    }

    fn sync_names(&self, path: &Path) -> std::io::Result<()> {
        self.disk.sync_names(path)
    }
}

#[test]
fn writers_continue_while_a_long_segment_is_removed() {
    let disk = Arc::new(Simulated::new(State::default()));
    let file: Arc<dyn File> = disk.open(Path::new("table"), Mode::New).unwrap().into();
    let watched = Arc::new(Watched { disk, log: OnceLock::new(), free: Mutex::default() });
    let log = Arc::new(Log::new(watched.clone(), Path::new("table"), file, 7, 1, Some(Safety::Process), Some(1 << 18)));
    watched.log.set(Arc::downgrade(&log)).unwrap();
    // A record that is longer than a segment: its segment is not used again.
    let long = vec![1; 1 << 20];
    log.switch(record_bytes(long.len())).unwrap();
    log.reserve(record_bytes(long.len())).unwrap().unwrap().append(1, &[&long]).unwrap();
    let number = log.switch(0).unwrap();
    log.release(number).unwrap();
    assert_eq!(*watched.free.lock().unwrap(), [true]);
}
