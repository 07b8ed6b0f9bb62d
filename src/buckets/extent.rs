//! Extents: values, and keys, too large for a page.
//!
//! An extent is a run of units (`pager/allocate/`), from any unit on; it may cross the ends of frames. A record refers
//! to it with an [`Extent`]. Its content is the key, unless the record has the key, then the value. The capacity grows
//! geometrically when a value is appended to, so most appends write only the tail.
//!
//! Source: replaces the paper's big pairs on chained overflow pages. Size classes as in Kim & Lomet were not needed:
//! units of a 64th of a frame waste 1.3 % of a 2.5-kB value. Format: docs/format.md, "Extent".

use super::linear_hash::Buckets;
use super::page::{PAIR_IN_EXTENT, Record, VALUE_IN_EXTENT};
use crate::error::Result;
use crate::little_endian::{u32_at, u64_at};
use crate::pager::pool::refuse_to_wait_with_values;
use crate::pager::words::Bytes;
use crate::pager::{FRAME_UNITS, StoredValue};
use std::ops::Range;

/// Bytes of a reference to an extent.
pub(crate) const EXTENT_BYTES: usize = 20;

/// Bytes that are copied together: they stay in the processor's cache.
const PART_BYTES: usize = 1 << 16;

/// Reference to an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First unit.
    pub unit: u64,
    /// Its length in units.
    pub capacity: u32,
    /// Bytes of the key at its start; 0 if the record has the key.
    pub key_bytes: u32,
    /// Bytes of the value after it.
    pub value_bytes: u32,
}

impl Extent {
    pub(super) fn to_bytes(self) -> [u8; EXTENT_BYTES] {
        let mut bytes = [0; EXTENT_BYTES];
        bytes[..8].copy_from_slice(&self.unit.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.key_bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.value_bytes.to_le_bytes());
        bytes
    }

    /// The form of a record that refers to this extent.
    pub(super) fn form(&self) -> u8 {
        if self.key_bytes > 0 { PAIR_IN_EXTENT } else { VALUE_IN_EXTENT }
    }

    /// Whether the record has the key.
    pub(crate) fn is_without_key(&self) -> bool {
        self.key_bytes == 0
    }

    pub(super) fn content_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }
}

impl Buckets {
    /// The extent a record refers to, checked against the size of the file.
    pub(super) fn parse_extent(&self, record: Record<'_>) -> Result<Extent> {
        let bytes = record.value;
        if bytes.len() != EXTENT_BYTES {
            return Err(self
                .pager
                .corrupt(format!("an extent's reference has {} bytes, expected {EXTENT_BYTES}", bytes.len())));
        }
        let extent = Extent {
            unit: u64_at(bytes, 0),
            capacity: u32_at(bytes, 8),
            key_bytes: u32_at(bytes, 12),
            value_bytes: u32_at(bytes, 16),
        };
        // The key is entirely in the record or entirely in the extent.
        if record.form != extent.form() {
            return Err(self.pager.corrupt(format!(
                "extent at unit {}: {} bytes of key in a record of form {}",
                extent.unit, extent.key_bytes, record.form
            )));
        }
        let room = u64::from(extent.capacity) * self.pager.unit_bytes() as u64;
        let end = extent.unit.checked_add(u64::from(extent.capacity));
        let units = u64::from(self.pager.frame_count()) * u64::from(FRAME_UNITS);
        if extent.content_bytes() > room || end.is_none_or(|end| end > units) {
            return Err(self.pager.corrupt(format!(
                "extent at unit {}: {} bytes in {} units of a file of {units}",
                extent.unit,
                extent.content_bytes(),
                extent.capacity
            )));
        }
        Ok(extent)
    }

    /// Units for `bytes`.
    pub(super) fn units_for(&self, bytes: u64) -> u32 {
        // Lengths are below 2^33, so units of 64 bytes and more below 2^27.
        bytes.div_ceil(self.pager.unit_bytes() as u64).max(1) as u32
    }

    /// A new extent with room for `room_bytes`, filled with `key` and the parts of the value.
    pub(super) fn new_extent(&self, key: &[u8], value: [&[u8]; 2], room_bytes: u64) -> Result<Extent> {
        let value_bytes = value[0].len() + value[1].len();
        let capacity = self.units_for(room_bytes.max((key.len() + value_bytes) as u64));
        let extent = Extent {
            unit: self.pager.allocate_extent(capacity)?,
            capacity,
            key_bytes: key.len() as u32, // lengths are checked against KEY_LEN_MAX and VALUE_LEN_MAX on entry
            value_bytes: value_bytes as u32,
        };
        let mut at = 0;
        for part in [key, value[0], value[1]] {
            if let Err(e) = self.write_extent(&extent, at, part) {
                self.free_extent(&extent);
                return Err(e);
            }
            at += part.len() as u64;
        }
        Ok(extent)
    }

    /// Writes `value` to a new extent in the file, with the key if its record does not keep it. Returns `None` if the
    /// value should be stored as others are.
    pub(crate) fn write_at_once(&self, key: &[u8], value: &[u8]) -> Result<Option<(Extent, StoredValue)>> {
        if self.fits_inline(key, value.len()) {
            return Ok(None);
        }
        let key = if self.keeps_key(key) { b"" } else { key };
        let Some(place) = self.pager.values().write([key, value])? else { return Ok(None) };
        let capacity = self.units_for((key.len() + value.len()) as u64);
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32); // lengths are checked on entry
        let extent = Extent { unit: place.unit, capacity, key_bytes, value_bytes };
        Ok(Some((extent, StoredValue::new(place.address + key.len() as u64, value))))
    }

    /// A new extent for a value of `len` bytes, which `read` appends to its buffer range by range, with the key if its
    /// record does not keep it. Returns `None` if the pair fits in a page, or if `read` appends another number of
    /// bytes.
    pub(crate) fn extent_of_parts(
        &self,
        key: &[u8],
        len: usize,
        mut read: impl FnMut(Range<usize>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<Option<Extent>> {
        if self.fits_inline(key, len) {
            return Ok(None);
        }
        let key = if self.keeps_key(key) { b"" } else { key };
        let capacity = self.units_for((key.len() + len) as u64);
        let (key_bytes, value_bytes) = (key.len() as u32, len as u32); // lengths are checked on entry
        let extent = Extent { unit: self.pager.allocate_extent(capacity)?, capacity, key_bytes, value_bytes };
        let mut fill = || {
            self.write_extent(&extent, 0, key)?;
            let (mut at, mut part) = (0, Vec::new());
            while at < len {
                let range = at..len.min(at + PART_BYTES);
                part.clear();
                read(range.clone(), &mut part)?;
                if part.len() != range.len() {
                    return Ok(None);
                }
                self.write_extent(&extent, (key.len() + at) as u64, &part)?;
                at = range.end;
            }
            Ok(Some(extent))
        };
        let filled = fill();
        if !matches!(filled, Ok(Some(_))) {
            self.free_extent(&extent);
        }
        filled
    }

    /// Writes `bytes` from byte `at` of the extent on, within its capacity.
    pub(super) fn write_extent(&self, extent: &Extent, at: u64, mut bytes: &[u8]) -> Result<()> {
        let frame_bytes = self.pager.frame_bytes();
        let mut address = extent.unit * self.pager.unit_bytes() as u64 + at;
        while !bytes.is_empty() {
            let (frame, start) = ((address / frame_bytes as u64) as u32, (address % frame_bytes as u64) as usize);
            let here = bytes.len().min(frame_bytes - start);
            self.check_apart(frame)?;
            let mut latched =
                if here == frame_bytes { self.pager.write_fresh(frame)? } else { self.pager.write(frame)? };
            latched.whole().store(start, &bytes[..here]);
            bytes = &bytes[here..];
            address += here as u64;
        }
        Ok(())
    }

    /// Passes bytes `at..at + len` of the extent to `use_part`, frame by frame, until it returns false. After an error
    /// the caller must use nothing of what `use_part` received.
    pub(super) fn read_extent(
        &self,
        extent: &Extent,
        at: u64,
        len: u64,
        mut use_part: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let frame_bytes = self.pager.frame_bytes() as u64;
        let mut address = extent.unit * self.pager.unit_bytes() as u64 + at;
        let end = address + len;
        while address < end {
            let (frame, start) = ((address / frame_bytes) as u32, address % frame_bytes);
            let here = (end - address).min(frame_bytes - start);
            self.check_apart(frame)?;
            let latched = self.pager.read(frame)?;
            if !use_part(&latched[start as usize..(start + here) as usize]) {
                break;
            }
            address += here;
        }
        Ok(())
    }

    /// Appends the value to `out`.
    pub(super) fn read_extent_value(&self, extent: &Extent, out: &mut Vec<u8>) -> Result<()> {
        out.reserve(extent.value_bytes as usize);
        self.read_extent(extent, u64::from(extent.key_bytes), u64::from(extent.value_bytes), |part| {
            out.extend_from_slice(part);
            true
        })
    }

    /// Reads the key, which must be in the extent.
    pub(super) fn read_extent_key(&self, extent: &Extent) -> Result<Vec<u8>> {
        let mut key = Vec::with_capacity(extent.key_bytes as usize);
        self.read_extent(extent, 0, u64::from(extent.key_bytes), |part| {
            key.extend_from_slice(part);
            true
        })?;
        Ok(key)
    }

    /// Whether `key` is the key in the extent.
    pub(super) fn extent_has_key(&self, extent: &Extent, key: &[u8]) -> Result<bool> {
        if extent.key_bytes as usize != key.len() {
            return Ok(false);
        }
        let mut rest = key;
        self.read_extent(extent, 0, key.len() as u64, |part| {
            let equal = rest.starts_with(part);
            rest = &rest[if equal { part.len() } else { 0 }..];
            equal
        })?;
        Ok(rest.is_empty())
    }

    /// Overwrites the value in place if the new one fits and leaves at most half unused.
    pub(super) fn overwrite_extent(&self, extent: &Extent, value: &[u8]) -> Result<Option<Extent>> {
        let new = Extent { value_bytes: value.len() as u32, ..*extent };
        let units = self.units_for(new.content_bytes());
        if units > extent.capacity || units < extent.capacity / 2 {
            return Ok(None);
        }
        // A partial overwrite could not be undone. A thread that holds a value may be refused any latch, so it never
        // overwrites in place.
        if refuse_to_wait_with_values().is_err() {
            return Ok(None);
        }
        // Only the frames at the ends may need to be read, so they are read first. An empty value has none.
        let last = new.content_bytes().saturating_sub(1);
        for at in [u64::from(extent.key_bytes).min(last), last] {
            self.read_extent(extent, at, 1, |_| false)?;
        }
        // They may have been evicted since.
        self.write_extent(extent, u64::from(extent.key_bytes), value)
            .inspect_err(|e| self.pager.poison(e.message()))?;
        Ok(Some(new))
    }

    /// Appends `tail` to the value: in place if there is room, else in a new, larger extent. Returns the extent that
    /// now has the value. The caller frees the old one if it differs.
    pub(super) fn append_extent(&self, extent: &Extent, tail: &[u8]) -> Result<Extent> {
        let new = Extent { value_bytes: extent.value_bytes + tail.len() as u32, ..*extent };
        if self.units_for(new.content_bytes()) <= extent.capacity {
            self.write_extent(extent, extent.content_bytes(), tail)?;
            return Ok(new);
        }
        let grown = Extent { capacity: self.units_for(grown_bytes(new.content_bytes())), ..new };
        let grown = Extent { unit: self.pager.allocate_extent(grown.capacity)?, ..grown };
        let copied =
            self.copy_extent(extent, &grown).and_then(|()| self.write_extent(&grown, extent.content_bytes(), tail));
        if let Err(e) = copied {
            self.free_extent(&grown);
            return Err(e);
        }
        Ok(grown)
    }

    /// Copies the content of one extent to another, in parts: only one frame is latched at any moment.
    pub(super) fn copy_extent(&self, from: &Extent, to: &Extent) -> Result<()> {
        let mut part = Vec::new();
        let mut at = 0;
        while at < from.content_bytes() {
            let len = (PART_BYTES as u64).min(from.content_bytes() - at);
            part.clear();
            self.read_extent(from, at, len, |bytes| {
                part.extend_from_slice(bytes);
                true
            })?;
            self.write_extent(to, at, &part)?;
            at += len;
        }
        Ok(())
    }

    /// Frees the units of an extent that nothing refers to any more, see [`free_units`](Self::free_units).
    pub(crate) fn free_extent(&self, extent: &Extent) {
        self.free_units(extent.unit, extent.capacity);
    }

    /// Frees units that nothing refers to any more. An error loses their space until the next
    /// compaction, but no pair, so it does not undo the change.
    pub(super) fn free_units(&self, unit: u64, len: u32) {
        let _ = self.pager.free(unit, len);
    }
}

/// Capacity for a value that grew to `bytes` by an append: a quarter more, so that n appended bytes copy O(n).
pub(super) fn grown_bytes(bytes: u64) -> u64 {
    bytes + bytes / 4
}
