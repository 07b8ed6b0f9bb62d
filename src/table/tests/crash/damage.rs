//! A disk that reports success but misbehaves: writes that are lost or misdirected, bits that flip.
//!
//! A workload runs on a working disk; then its calls are replayed on a disk that makes one error. Afterwards each key
//! has its right value or returns an error. The header is not damaged: it has its own checksum, so an old one is as
//! valid as a new one (docs/testing.md, "What is not shown").

use super::content_of;
use super::workload::{Content, History, PATH, Run, Workload};
use crate::error::ErrorKind;
use crate::io::simulated::{Crash, Event, Simulated, State, Tally};
use crate::random::Random;
use crate::table::{Table, TableOptions};
use std::path::Path;
use std::sync::Arc;

/// Frames of tables with small pages.
const FRAME_BYTES: usize = 4096;
const HEADER_BYTES: usize = 4096;

/// The fate of one frame of a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrong {
    Lost,
    /// Written to this frame instead.
    Astray(usize),
    /// One bit is flipped.
    Flipped(usize),
}

/// A completed workload: its calls to the disk, and the content that it leaves.
pub(super) struct Ran {
    pub workload: Workload,
    pub trace: Vec<Event>,
    pub content: Content,
}

pub(super) fn run(seed: u64, ops: usize) -> Result<Ran, String> {
    let workload = Workload::new(seed, ops);
    let run = Run::new(&workload, Simulated::new(State::default()), None, History::default()).finish()?;
    // Dropping the table closed it.
    let (trace, content) = (run.disk.trace(), Content::clone(run.history.now()));
    Ok(Ran { trace, content, workload })
}

impl Ran {
    /// Returns each frame but the header that was written to the table's file: call and offset.
    fn frames_written(&self) -> Vec<(usize, usize)> {
        let of_table = self.trace.iter().find_map(|event| match event {
            Event::Create(path, inode) if path == Path::new(PATH) => Some(*inode),
            _ => None,
        });
        let mut frames = Vec::new();
        for (call, event) in self.trace.iter().enumerate() {
            if let Event::Write { inode, offset, bytes } = event
                && Some(*inode) == of_table
            {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                // Values written through need not start or end at the border of a frame.
                let first = start / FRAME_BYTES * FRAME_BYTES;
                frames.extend((first..end).step_by(FRAME_BYTES).filter(|&at| at > 0).map(|at| (call, at)));
            }
        }
        frames
    }

    /// Returns the disk at the end, after one frame of one write went wrong.
    fn replay(&self, (wrong_call, at): (usize, usize), wrong: Wrong) -> State {
        let mut state = State::default();
        for (call, event) in self.trace.iter().enumerate() {
            let before = state.content(Path::new(PATH)).unwrap_or_default().to_vec();
            state.apply(call as u64, event);
            let Event::Write { inode, .. } = event else { continue };
            if call != wrong_call {
                continue;
            }
            let frame = |file: &[u8], at: usize| -> Vec<u8> {
                (at..at + FRAME_BYTES).map(|i| file.get(i).copied().unwrap_or(0)).collect()
            };
            let now = frame(state.content(Path::new(PATH)).unwrap_or_default(), at);
            let mut put = |at: usize, bytes: Vec<u8>| {
                state.apply(call as u64, &Event::Write { inode: *inode, offset: at as u64, bytes: bytes.into() });
            };
            match wrong {
                Wrong::Lost => put(at, frame(&before, at)),
                Wrong::Astray(to) => {
                    put(at, frame(&before, at));
                    put(to, now);
                }
                Wrong::Flipped(bit) => {
                    let mut flipped = now;
                    flipped[bit / 8 % FRAME_BYTES] ^= 1 << (bit % 8);
                    put(at, flipped);
                }
            }
        }
        state
    }
}

/// Checks that each key has its value or returns an error. Returns whether an error was found.
fn values_or_errors(ran: &Ran, state: State) -> Result<bool, String> {
    let left = state.survivors(Crash::KeepAll, &mut Random::new(&[]), &mut Tally::default());
    let table: Table = match ran.workload.open(&Simulated::new(left)) {
        Ok(table) => table,
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotATable) => return Ok(true),
        Err(e) => return Err(format!("open: {e}")),
    };
    let mut errors = false;
    for (key, value) in &ran.content {
        match table.get(key) {
            Ok(found) if found.as_deref() == Some(&value[..]) => {}
            Ok(found) => return Err(format!("{} bytes of {}", found.map_or(0, |v| v.len()), value.len())),
            Err(e) if e.kind() == ErrorKind::Corrupt => errors = true,
            Err(e) => return Err(format!("get: {e}")),
        }
    }
    let found = table.verify().map_or(true, |faults| !faults.is_empty());
    if errors && !found { Err("an error that verify does not find".into()) } else { Ok(found) }
}

/// Makes `cases` writes go wrong, one per run. Returns how many were detected.
pub(super) fn writes_go_wrong(seed: u64, ops: usize, cases: usize) -> Result<u64, String> {
    let ran = run(seed, ops)?;
    let frames = ran.frames_written();
    let mut random = Random::new(&[seed, 7]);
    let mut noticed = 0;
    for _ in 0..cases {
        // Prefer late writes: early ones are overwritten.
        let frame = frames[frames.len() - 1 - random.below(frames.len().min(80))];
        let wrong = match random.below(3) {
            0 => Wrong::Lost,
            1 => Wrong::Astray(frames[random.below(frames.len())].1),
            _ => Wrong::Flipped(random.below(8 * FRAME_BYTES)),
        };
        let state = ran.replay(frame, wrong);
        noticed +=
            u64::from(values_or_errors(&ran, state).map_err(|e| format!("seed {seed}, {frame:?} {wrong:?}: {e}"))?);
    }
    Ok(noticed)
}

#[test]
fn a_lost_or_misdirected_write_gives_the_value_or_an_error() {
    let seeds = super::seeds(0..6);
    let enough = 10 * (seeds.end - seeds.start) - 10;
    let noticed: u64 = seeds.map(|seed| writes_go_wrong(seed, 60, 60).unwrap_or_else(|e| panic!("{e}"))).sum();
    assert!(noticed > enough, "{noticed} noticed, too few to mean anything");
}

#[test]
fn any_byte_that_is_other_than_written_is_noticed_or_not_in_use() {
    let disk = Simulated::new(State::default());
    let mut options = TableOptions::new().page_bytes(512).seed(1);
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    let table = options.clone().open(PATH).unwrap();
    for round in 0..3u8 {
        (0..400u32).for_each(|n| table.put(&n.to_be_bytes(), &[round; 90]).unwrap());
        table.checkpoint().unwrap();
    }
    let expected = content_of(&table, false).unwrap();
    table.close().unwrap();
    let whole = disk.state().content(Path::new(PATH)).unwrap().to_vec();
    let mut random = Random::new(&[7]);
    let mut is_noticed = |at: usize, bit: u8| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        let mut state = State::default();
        state.add_file(Path::new(PATH), &bytes);
        options.storage = Arc::new(Simulated::new(state));
        let found = options.clone().open(PATH).map_err(|e| e.to_string());
        let content = found.and_then(|table: Table| content_of(&table, false));
        assert!(content.as_ref().is_ok_and(|content| *content == expected) || content.is_err(), "byte {at}");
        content.is_err()
    };
    let mut some = (0..1500).map(|_| is_noticed(random.below(whole.len()), random.below(8) as u8)).collect::<Vec<_>>();
    some.retain(|noticed| *noticed);
    assert!((500..1400).contains(&some.len()), "{} of 1500 are noticed", some.len());
    for at in (0..2 * HEADER_BYTES).step_by(61) {
        assert!(!is_noticed(at, 3), "byte {at}: the other header has the same checkpoint");
    }
    for at in 0..40 {
        // One of the two homes of the bitmap is in use.
        let homes = [2, 3].map(|block| is_noticed(block * FRAME_BYTES + 100 * at, 5));
        assert!(homes[0] != homes[1], "byte {at}: {homes:?}");
    }
}
