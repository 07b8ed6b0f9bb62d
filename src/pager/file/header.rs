//! What a header says of the table. Format: docs/format.md.
//!
//! Not here: what it says of the file's blocks, and which of the two headers counts (`headers.rs`); what the pager's
//! user keeps in it, the **root** (`table/`).

use super::map_frames::{FIRST_FRAMES, MAP_GROUP_COUNT, ZONE_FRAMES};
use super::sums::nonzero;
use crate::checksum::crc32c;
use crate::error::{Error, ErrorKind};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::pool::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};

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

/// Highest number of a checkpoint or a segment of the log. No writer reaches it, so there is always a next one. On
/// disk.
pub(crate) const NUMBER_MAX: u64 = 1 << 63;

/// Offset of the table's id in the header.
pub(in crate::pager) const TABLE_ID: usize = 32 + 4 * MAP_GROUP_COUNT;

/// The fields of a header that describe the table.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub frame_bytes: usize,
    /// A number chosen when the table was created; its log carries it.
    pub table_id: u64,
    pub sequence: u64,
    pub frame_count: u32,
    pub map_groups: [u32; MAP_GROUP_COUNT],
}

impl Header {
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
            let end = u64::from(*group) + (1 << k);
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

    /// The bytes of a header with the user's `root`, without the fields of the file's blocks and the checksum.
    pub(in crate::pager) fn encode(&self, root: &[u8]) -> Vec<u8> {
        assert!(root.len() <= ROOT_BYTES);
        let mut bytes = vec![0; HEADER_BYTES];
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
