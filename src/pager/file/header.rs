//! The header: the first frame of a table's file. Format: docs/format.md.
//!
//! Not here: what the pager's user keeps in it, the **root** (`table/`).

use super::create::{not_a_table, not_yet_made};
use super::map_frames::{MAP_GROUP_COUNT, ZONE_FRAMES};
use super::sums::nonzero;
use crate::checksum::crc32c;
use crate::error::{Error, ErrorKind, Result};
use crate::io::File;
use crate::little_endian::{u32_at, u64_at};
use crate::pager::pool::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use std::path::Path;

/// First bytes of a table file. On disk.
pub(crate) const MAGIC: [u8; 8] = *b"SPLITPNT";
/// First bytes of a dictionary, which is no damaged table. On disk.
pub(crate) const DICTIONARY: &[u8] = b"SPLITDCT";
/// Format version this library writes. On disk.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// Bytes of the header in use, whatever the frame size.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Offset of the user's root in the header.
pub(crate) const ROOT_START: usize = 256;
/// Bytes the pager's user may keep in the header.
pub(crate) const ROOT_BYTES: usize = HEADER_BYTES - ROOT_START - 8;
/// Frames before the first that is allocated: the header and zone 0's map frames.
pub(crate) const FIRST_FRAMES: u32 = 3;

/// Highest number of a checkpoint or a segment of the log. No writer reaches it, so there is always a next one. On
/// disk.
pub(crate) const NUMBER_MAX: u64 = 1 << 63;

/// Offset of the table's id in the header.
pub(in crate::pager) const TABLE_ID: usize = 32 + 4 * MAP_GROUP_COUNT;

/// The fields of the header, without the root.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub frame_bytes: usize,
    /// A number chosen when the table was created; its log and its journal carry it.
    pub table_id: u64,
    pub sequence: u64,
    pub frame_count: u32,
    pub map_groups: [u32; MAP_GROUP_COUNT],
}

impl Header {
    pub(crate) fn parse(bytes: &[u8]) -> std::result::Result<Header, String> {
        let reserved = [28..32, TABLE_ID + 8..ROOT_START, ROOT_START + ROOT_BYTES..HEADER_BYTES - 4];
        if reserved.into_iter().any(|range| bytes[range].iter().any(|&b| b != 0)) {
            return Err("reserved bytes are not zero".into());
        }
        Self::parse_fields(bytes)
    }

    /// Parses the fields that headers of all versions have.
    pub(in crate::pager) fn parse_fields(bytes: &[u8]) -> std::result::Result<Header, String> {
        let frame_bytes = u32_at(bytes, 12) as usize;
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&frame_bytes) || !frame_bytes.is_power_of_two() {
            return Err(format!(
                "frames of {frame_bytes} bytes, expected a power of two from {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX}"
            ));
        }
        let frame_count = u32_at(bytes, 24);
        if frame_count < FIRST_FRAMES {
            return Err(format!("{frame_count} frames, expected {FIRST_FRAMES} or more"));
        }
        let mut map_groups = [0; MAP_GROUP_COUNT];
        let mut ended = false;
        for (k, group) in map_groups.iter_mut().enumerate() {
            *group = u32_at(bytes, 32 + 4 * k);
            ended |= *group == 0;
            let end = u64::from(*group) + (2 << k);
            if *group != 0 && (ended || *group < FIRST_FRAMES || end > u64::from(frame_count)) {
                return Err(format!("map group {k} starts at frame {group} of {frame_count}"));
            }
        }
        let mapped = (1u64 << map_groups.iter().take_while(|&&g| g != 0).count()) * u64::from(ZONE_FRAMES);
        if mapped < u64::from(frame_count) {
            return Err(format!("map frames for {mapped} frames of {frame_count}"));
        }
        let (table_id, sequence) = (u64_at(bytes, TABLE_ID), u64_at(bytes, 16));
        if !(1..=NUMBER_MAX).contains(&sequence) {
            return Err(format!("checkpoint {sequence}, expected 1 to 2^63"));
        }
        Ok(Header { frame_bytes, table_id, sequence, frame_count, map_groups })
    }

    /// Reads the header of `file`, at `path`, and the root in it.
    pub(in crate::pager) fn read(path: &Path, file: &dyn File) -> Result<(Header, Vec<u8>)> {
        let file_bytes = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
        let shown = path.display();
        let not_ours = |what: &str| not_a_table(path, what);
        if file_bytes == 0 {
            return Err(not_yet_made(path));
        }
        if file_bytes < 12 {
            return Err(not_ours(&format!("it has {file_bytes} bytes")));
        }
        let mut bytes = vec![0; HEADER_BYTES.min(file_bytes as usize)];
        file.read_at(&mut bytes, 0).map_err(|e| Error::io(path, "read the header of", e))?;
        if bytes.starts_with(DICTIONARY) {
            return Err(Error::new(ErrorKind::NotATable, format!("{shown}: a dictionary, not a table, of Splitpoint"))
                .with_hint("Open it as a dictionary; thawed it becomes a table."));
        }
        if bytes[..8] != MAGIC {
            return Err(not_ours(&format!("it starts with {}", crate::error::quote(&bytes[..8]))));
        }
        let version = u32_at(&bytes, 8);
        if version != FORMAT_VERSION {
            return Err(version_error(&shown, version));
        }
        if bytes.len() < HEADER_BYTES {
            return Err(Error::corrupt_table(format!(
                "{shown}: cut to {file_bytes} bytes, the header alone has {HEADER_BYTES}"
            )));
        }
        let (stored, computed) = (u32_at(&bytes, HEADER_BYTES - 4), header_sum(&bytes));
        if stored != computed {
            return Err(Error::corrupt_table(format!(
                "{shown}: header: checksum mismatch, stored {stored:08x}, computed {computed:08x}"
            )));
        }
        let header = Header::parse(&bytes).map_err(|what| Error::corrupt_table(format!("{shown}: header: {what}")))?;
        let needed = u64::from(header.frame_count) * header.frame_bytes as u64;
        if file_bytes < needed {
            return Err(Error::corrupt_table(format!("{shown}: cut to {file_bytes} bytes of {needed}")));
        }
        let mut rest = vec![0; header.frame_bytes - HEADER_BYTES];
        file.read_at(&mut rest, HEADER_BYTES as u64).map_err(|e| Error::io(path, "read the header of", e))?;
        if rest.iter().any(|&b| b != 0) {
            return Err(Error::corrupt_table(format!("{shown}: header: reserved bytes are not zero")));
        }
        Ok((header, bytes[ROOT_START..ROOT_START + ROOT_BYTES].to_vec()))
    }

    /// The first frame of the file, with the user's `root` in it.
    pub(in crate::pager) fn encode(&self, root: &[u8]) -> Vec<u8> {
        assert!(root.len() <= ROOT_BYTES);
        let mut bytes = vec![0; self.frame_bytes];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.frame_bytes as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.frame_count.to_le_bytes());
        for (i, group) in self.map_groups.iter().enumerate() {
            bytes[32 + 4 * i..36 + 4 * i].copy_from_slice(&group.to_le_bytes());
        }
        bytes[TABLE_ID..TABLE_ID + 8].copy_from_slice(&self.table_id.to_le_bytes());
        bytes[ROOT_START..ROOT_START + root.len()].copy_from_slice(root);
        let sum = header_sum(&bytes[..HEADER_BYTES]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// The header's own checksum.
pub(crate) fn header_sum(bytes: &[u8]) -> u32 {
    nonzero(crc32c(&bytes[..HEADER_BYTES - 4]))
}

pub(crate) fn version_error(shown: &impl std::fmt::Display, version: u32) -> Error {
    Error::new(ErrorKind::Version, format!("{shown}: format version {version}, this library reads {FORMAT_VERSION}"))
        .with_hint("Upgrade splitpoint, or dump the table with the version that wrote it.")
}
