//! Reading a log while another process adds to it.
//!
//! ```text
//! scout    read on to an end -> look: does it count? -> no: read on, in this segment or the next
//!                                                    -> gone: a checkpoint has the records, and their room was reused
//! lead_on  the reader's segments are found again -> it reads up to the scout's end, and no further
//! ```
//!
//! **When an end counts.** The reader found no complete record at the end of segment S. Afterwards it looks at the
//! files again: first at the segments' headers, then at the number of the last checkpoint. The end counts if S still
//! has its header, no segment continues it there, and no checkpoint after S's beginning is complete. Then every write
//! that had returned before the read was found: had there been one further on, it would be in S, where the reader
//! looked, or in a segment that continues S at this place. Such a segment is only reused once a later checkpoint is
//! complete, and the look would have found that checkpoint.
//!
//! A record that is being stored does not match its checksum, so it is an end, like any incomplete record. It was not
//! acknowledged when it was read.
//!
//! The scout gives the reader a fixed end, so a reader that is slower than the writer reaches it. The scout does not
//! interpret records. A replay ends earlier if the disk lost a value in a power loss: the records from there on count
//! as absent until the log has another end.
//!
//! Not here: the records (`replay.rs`), what is done with them (`table/follower.rs`).

use super::Log;
use super::replay::{Block, BlockLimits, Found, Reader, find};
use super::segment::End;
use crate::error::{ErrorKind, Result};

/// The records after the position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    Nothing,
    Records,
    /// The records after this position are gone: a later checkpoint has them.
    Gone,
}

impl Log {
    /// Lets `reader` read on to the present end of the log. `last_checkpoint` returns the number of the last complete
    /// checkpoint.
    ///
    /// # Errors
    /// The errors of a replay.
    pub(crate) fn lead_on(&self, reader: &mut Reader, last_checkpoint: impl Fn() -> Result<u64>) -> Result<Ahead> {
        let Some(end) = self.scout(reader, last_checkpoint)? else { return Ok(Ahead::Gone) };
        let Some(again) = self.again(reader)? else { return Ok(Ahead::Gone) };
        (reader.found, reader.current, reader.until) = (again.found, again.current, Some(end));
        if reader.has_read_to(end) {
            return Ok(Ahead::Nothing);
        }
        reader.lost_until = None;
        Ok(Ahead::Records)
    }

    /// Whether there is anything after the position of `reader`.
    ///
    /// # Errors
    /// The errors of a replay.
    pub(crate) fn ahead_of(&self, reader: &Reader, last_checkpoint: impl Fn() -> Result<u64>) -> Result<Ahead> {
        Ok(match self.scout(reader, last_checkpoint)? {
            None => Ahead::Gone,
            Some(end) if reader.has_read_to(end) => Ahead::Nothing,
            Some(_) => Ahead::Records,
        })
    }

    /// Whether the segment that `reader` is in still has its records, and no later checkpoint has them.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Corrupt`].
    pub(crate) fn has_records_of(&self, reader: &Reader, last_checkpoint: impl Fn() -> Result<u64>) -> Result<bool> {
        let found = self.find()?;
        Ok(is_current(&found, reader, last_checkpoint()?))
    }

    /// The present end of the log, from the position of `reader` on; `None` if the records there are gone.
    fn scout(&self, reader: &Reader, last_checkpoint: impl Fn() -> Result<u64>) -> Result<Option<End>> {
        const LIMITS: BlockLimits = BlockLimits { bytes: 2 << 20, records: usize::MAX };
        let Some(mut scout) = self.again(reader)? else { return Ok(None) };
        scout.fills_blocks = false;
        let mut block = Block::default();
        loop {
            while scout.read(&mut block, LIMITS, |_, _| 0)? {}
            let found = self.find()?;
            // After the segments: see the head of this file.
            let last = last_checkpoint()?;
            let end = scout.current.as_ref().map(|current| current.end());
            if found.iter().any(|segment| segment.continues(scout.sequence, end.as_ref())) {
                scout.found = found;
            } else {
                return Ok(is_current(&found, &scout, last).then(|| scout.position()));
            }
        }
    }

    /// A reader at the position of `reader`, with the segments that exist now; `None` if its segment is gone.
    fn again(&self, reader: &Reader) -> Result<Option<Reader>> {
        let mut again = Reader::of_segments(self.find()?, reader.sequence);
        if let Some(current) = &reader.current {
            let Some(index) = position_of(&again.found, reader) else { return Ok(None) };
            again.current = Some(current.again(again.found.remove(index))?);
        }
        Ok(Some(again))
    }

    fn find(&self) -> Result<Vec<Found>> {
        // A header that is just being written may look damaged.
        const TRIES: usize = 10;
        let find = || find(self.storage.as_ref(), &self.table, self.table_id);
        for _ in 1..TRIES {
            match find() {
                Err(e) if e.kind() == ErrorKind::Corrupt => {}
                found => return found,
            }
        }
        find()
    }
}

/// The index in `found` of the segment that `reader` is in.
fn position_of(found: &[Found], reader: &Reader) -> Option<usize> {
    let header = reader.current.as_ref()?.segment.header;
    found.iter().position(|segment| segment.header == header)
}

/// Whether the segment that `reader` is in has its header still, and began at checkpoint `last` or later.
fn is_current(found: &[Found], reader: &Reader, last: u64) -> bool {
    match &reader.current {
        None => reader.sequence == last,
        Some(current) => current.segment.header.number >= last && position_of(found, reader).is_some(),
    }
}
