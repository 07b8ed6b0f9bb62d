//! A disk that reports success but misbehaves: writes that are lost or misdirected, a journal of another checkpoint.
//!
//! A workload runs on a working disk; then its calls are replayed on a disk that makes one error. Afterwards each key
//! has its right value or returns an error. The header is not damaged: it has its own checksum, so an old one is as
//! valid as a new one (docs/testing.md, "What is not shown").

use super::workload::{Content, History, PATH, Run, Workload};
use crate::error::ErrorKind;
use crate::io::simulated::{Crash, Event, Simulated, State, Tally};
use crate::random::Random;
use crate::table::Table;
use std::path::Path;

/// Frames of tables with small pages.
const FRAME_BYTES: usize = 4096;

/// The fate of one frame of a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrong {
    Lost,
    /// Written to this frame instead.
    Astray(usize),
    /// One bit is flipped.
    Flipped(usize),
}

/// A completed workload, and the position of its file's writes in the trace.
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
    /// Each frame but the header that was written to the table's file: call and offset.
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
                // Values written through need not start with a frame, or end with one.
                let first = start / FRAME_BYTES * FRAME_BYTES;
                frames.extend((first..end).step_by(FRAME_BYTES).filter(|&at| at > 0).map(|at| (call, at)));
            }
        }
        frames
    }

    /// The disk at the end, after one frame of one write went wrong.
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

/// Puts each journal that ever existed next to the final table. Returns their number.
pub(super) fn old_journals(seed: u64, ops: usize) -> Result<u64, String> {
    let ran = run(seed, ops)?;
    let path = Path::new("/disk/t.spt-ckpt");
    let mut state = State::default();
    let mut journals = Vec::new();
    for (call, event) in ran.trace.iter().enumerate() {
        if let (Event::Remove(removed), Some(journal)) = (event, state.content(path))
            && removed == path
        {
            journals.push(journal.to_vec());
        }
        state.apply(call as u64, event);
    }
    for (number, journal) in journals.iter().enumerate() {
        let mut state = state.clone();
        state.add_file(path, journal);
        let noticed = values_or_errors(&ran, state).map_err(|e| format!("seed {seed}, journal {number}: {e}"))?;
        // The last one makes the table what it already is.
        if noticed != (number + 1 < journals.len()) {
            return Err(format!("seed {seed}, journal {number} of {}: refused: {noticed}", journals.len()));
        }
    }
    Ok(journals.len() as u64)
}

#[test]
fn a_lost_or_misdirected_write_gives_the_value_or_an_error() {
    let seeds = super::seeds(0..6);
    let enough = 10 * (seeds.end - seeds.start) - 10;
    let noticed: u64 = seeds.map(|seed| writes_go_wrong(seed, 60, 60).unwrap_or_else(|e| panic!("{e}"))).sum();
    assert!(noticed > enough, "{noticed} noticed, too few to mean anything");
}

#[test]
fn a_journal_of_another_moment_is_refused() {
    let journals: u64 = super::seeds(0..4).map(|seed| old_journals(seed, 60).unwrap_or_else(|e| panic!("{e}"))).sum();
    assert!(journals > 3, "{journals} journals");
}
