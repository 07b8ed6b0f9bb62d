//! The content of a recorded disk after a power loss.
//!
//! A disk keeps everything written before the last flush. Of the writes since, it may keep or lose anything, in any
//! order, by sectors of 512 bytes. [`Loss`] lists the ways that are tried. One write is never torn: the superblock of
//! ext4 (1 KiB) and of btrfs (4 KiB). Each has one checksum, and both file systems rely on its being written whole;
//! with half of one they do not mount.

use crate::disk::{Event, Image, Recording, SECTOR_BYTES};
use fastrand::Rng;

/// Which of the writes since the last flush survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All writes.
    Nothing,
    /// No writes.
    Unflushed,
    /// A random choice of the writes.
    Mix,
    /// A random choice of the sectors of each write.
    Torn,
    /// All writes before a random one, and the first sectors of that one.
    After,
    /// All but one write.
    One,
}

/// Every way, in the order of their names on the command line.
pub const LOSSES: [Loss; 6] = [Loss::Nothing, Loss::Unflushed, Loss::Mix, Loss::Torn, Loss::After, Loss::One];

/// Returns a possible content of the disk after a power loss that follows the first `at` events.
pub fn image_after(recording: &Recording, at: usize, loss: Loss, rng: &mut Rng) -> Image {
    let events = &recording.events[..at];
    let flushed = events.iter().rposition(|e| matches!(e, Event::Flush)).map_or(0, |last| last + 1);
    let mut image = recording.base.clone();
    let unflushed = &events[flushed..];
    for event in &events[..flushed] {
        if let Event::Write { offset, bytes } = event {
            image.write(*offset, bytes);
        }
    }
    let chosen = if unflushed.is_empty() { 0 } else { rng.usize(..unflushed.len()) };
    let keep_percent = [25, 50, 75, 95][rng.usize(..4)];
    for (number, event) in unflushed.iter().enumerate() {
        let Event::Write { offset, bytes } = event else { continue };
        let whole = match loss {
            Loss::Nothing => true,
            Loss::Unflushed => false,
            Loss::Mix => rng.u32(..100) < keep_percent,
            Loss::One => number != chosen,
            Loss::After if number != chosen => number < chosen,
            Loss::After | Loss::Torn if is_superblock(*offset, bytes) => rng.bool(),
            Loss::After => {
                let sectors = rng.usize(..=bytes.len() / SECTOR_BYTES);
                image.write(*offset, &bytes[..sectors * SECTOR_BYTES]);
                false
            }
            Loss::Torn => {
                for (sector, bytes) in bytes.chunks(SECTOR_BYTES).enumerate() {
                    if rng.u32(..100) < keep_percent {
                        image.write(*offset + (sector * SECTOR_BYTES) as u64, bytes);
                    }
                }
                false
            }
        };
        if whole {
            image.write(*offset, bytes);
        }
    }
    image
}

fn is_superblock(offset: u64, bytes: &[u8]) -> bool {
    // The offset of the superblock, the offset of its magic number in it, and the magic number.
    const EXT4: (u64, usize, &[u8]) = (1024, 56, &[0x53, 0xef]);
    const BTRFS: (u64, usize, &[u8]) = (64 << 10, 64, b"_BHRfS_M");
    [EXT4, BTRFS].iter().any(|(place, magic_at, magic)| {
        let within = place.checked_sub(offset).and_then(|within| usize::try_from(within).ok());
        within.and_then(|within| bytes.get(within + magic_at..)).is_some_and(|rest| rest.starts_with(magic))
    })
}

/// Picks a moment for a crash: any, or next to a flush, where one event decides the fate of many writes.
pub fn moment(recording: &Recording, rng: &mut Rng) -> usize {
    let events = &recording.events;
    let any = rng.usize(..=events.len());
    if rng.bool() {
        return any;
    }
    let next = events[any..].iter().position(|e| matches!(e, Event::Flush)).map_or(events.len(), |n| any + n);
    // Immediately before or after the flush.
    (next + rng.usize(..=1)).min(events.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, byte: u8) -> Event {
        Event::Write { offset, bytes: vec![byte; 1024].into() }
    }

    fn sectors(image: &Image) -> [u8; 8] {
        std::array::from_fn(|sector| {
            let mut bytes = [0; SECTOR_BYTES];
            image.read((sector * SECTOR_BYTES) as u64, &mut bytes);
            assert!(bytes.iter().all(|b| *b == bytes[0]), "a sector is torn");
            bytes[0]
        })
    }

    /// Writes sectors 0 and 1, flushes, writes sectors 2 and 3, 4 and 5, and 0 and 1 again, and flushes.
    fn recorded() -> Recording {
        let events = vec![write(0, 1), Event::Flush, write(1024, 2), write(2048, 3), write(0, 4), Event::Flush];
        Recording { base: Image::zeros(4096), events }
    }

    fn tried(loss: Loss, at: usize) -> Vec<[u8; 8]> {
        let mut found: Vec<_> =
            (0..5000).map(|seed| sectors(&image_after(&recorded(), at, loss, &mut Rng::with_seed(seed)))).collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn what_was_flushed_is_kept_and_of_the_rest_what_the_loss_says() {
        assert_eq!(tried(Loss::Nothing, 5), [[4, 4, 2, 2, 3, 3, 0, 0]]);
        assert_eq!(tried(Loss::Unflushed, 5), [[1, 1, 0, 0, 0, 0, 0, 0]]);
        assert_eq!(tried(Loss::Unflushed, 6), [[4, 4, 2, 2, 3, 3, 0, 0]]);
        assert_eq!(tried(Loss::Unflushed, 1), [[0; 8]]);
        assert_eq!(tried(Loss::Mix, 5).len(), 8);
        assert_eq!(tried(Loss::Torn, 5).len(), 64);
        assert_eq!(tried(Loss::One, 5).len(), 3);
        // Zero to two complete writes; of the unfinished one, zero to two sectors.
        assert_eq!(tried(Loss::After, 5).len(), 7);
    }

    #[test]
    fn a_superblock_is_not_torn() {
        for (offset, magic_at, magic) in [(64 << 10, 64, b"_BHRfS_M".as_slice()), (0, 1080, &[0x53, 0xef])] {
            let mut bytes = vec![9; 4096];
            bytes[magic_at..magic_at + magic.len()].copy_from_slice(magic);
            let events = vec![Event::Write { offset, bytes: bytes.clone().into() }];
            let recording = Recording { base: Image::zeros(1 << 20), events };
            for seed in 0..50 {
                let image = image_after(&recording, 1, Loss::Torn, &mut Rng::with_seed(seed));
                let mut found = vec![0; 4096];
                image.read(offset, &mut found);
                assert!(found == bytes || found == [0; 4096]);
            }
        }
    }

    #[test]
    fn moments_are_everywhere_and_mostly_next_to_flushes() {
        let recording = recorded();
        let mut counts = [0; 7];
        (0..7000).for_each(|seed| counts[moment(&recording, &mut Rng::with_seed(seed))] += 1);
        assert!(counts.iter().all(|n| *n > 400), "{counts:?}");
        assert!(counts[5] > counts[3] && counts[6] > counts[3], "{counts:?}");
    }
}
