//! One bucket of a damaged file: its primary page, its overflow pages, the extents of its pairs.
//!
//! The same walk as in `buckets/overflow.rs` and `buckets/extent.rs`, on untrusted frames: it reports and skips what it
//! cannot follow. A page is used only if `page::check` finds no fault, and a key only if its hash belongs there.

use super::{Flow, Salvage, State};
use crate::buckets::extent::EXTENT_BYTES;
use crate::buckets::page::{self, INLINE, PAIR_IN_EXTENT, Record, VALUE_IN_EXTENT};
use crate::error::quote;
use crate::little_endian::{u32_at, u64_at};
use crate::pager::FRAME_UNITS;

/// A bucket's page.
pub(super) struct Primary {
    pub page: Vec<u8>,
    /// Its offset in the file.
    pub at: u64,
    pub proved: bool,
}

/// A pair that was found.
pub(super) struct Candidate<'p> {
    /// Offset of its record in the file.
    pub at: u64,
    pub key: &'p [u8],
    /// `None` if the value is damaged; the damage has been reported.
    pub value: Option<&'p [u8]>,
    /// The checksums match in all frames that contain the pair or lead to it.
    pub proved: bool,
}

/// A page of a bucket, primary or overflow.
struct At<'p> {
    place: &'p str,
    at: u64,
    proved: bool,
}

type Visit<'v, 'a> = dyn FnMut(&mut Salvage<'a>, Candidate<'_>) -> Flow + 'v;

impl<'a> Salvage<'a> {
    /// Passes to `visit` every pair of a bucket whose key's hash satisfies `belongs`.
    pub(super) fn walk(
        &mut self,
        place: &str,
        primary: Primary,
        belongs: &dyn Fn(u64) -> bool,
        visit: &mut Visit<'_, 'a>,
    ) -> Flow {
        let Primary { page: mut bytes, mut at, mut proved } = primary;
        let unit_bytes = (self.file.frame_bytes() / FRAME_UNITS as usize) as u64;
        let mut name = place.to_string();
        let mut frame_bytes = Vec::new();
        loop {
            if let Err(damage) = page::check(&bytes) {
                let proved = if proved { "its checksum matches, but " } else { "" };
                return self.lose(name, format!("{proved}{}; its pairs are lost", damage.0));
            }
            self.page(&At { place: &name, at, proved }, &bytes, belongs, visit)?;
            let next = page::next(&bytes);
            if next == 0 {
                return Flow::Continue(());
            }
            let (unit, len) = (next >> 16, (next & 0xFFFF) as u32);
            name = format!("{place}, overflow page at unit {unit}");
            let (frame, start) = (unit / u64::from(FRAME_UNITS), (unit % u64::from(FRAME_UNITS)) as u32);
            if len == 0 || start + len > FRAME_UNITS || frame >= u64::from(self.file.frame_count()) {
                return self.lose(name, format!("{len} units are not in the file; its pairs are lost"));
            }
            if !self.reach(u64::from(len) * unit_bytes) {
                return self.lose(name, "references form a cycle; its pairs are lost");
            }
            let state = self.file.read(frame as u32, &mut frame_bytes);
            self.report_notes()?;
            if let State::Damaged(what) = state {
                return self.lose(name, format!("frame {frame}: {what}; its pairs are lost"));
            }
            proved &= state == State::Proved;
            at = unit * unit_bytes;
            let start = start as usize * unit_bytes as usize;
            bytes.clear();
            bytes.extend_from_slice(&frame_bytes[start..start + len as usize * unit_bytes as usize]);
            if page::kind(&bytes) != page::KIND_OVERFLOW {
                return self.lose(name, format!("it is of kind {}; its pairs are lost", page::kind(&bytes)));
            }
        }
    }

    fn page(&mut self, page: &At<'_>, bytes: &[u8], belongs: &dyn Fn(u64) -> bool, visit: &mut Visit<'_, 'a>) -> Flow {
        let mut content = Vec::new();
        for slot in 0..page::slot_count(bytes) {
            let Ok(record) = page::record(bytes, slot) else { continue }; // `check` found it sound
            let tag = page::slot_tag(bytes, slot);
            let at = page.at + page::slot_offset(bytes, slot) as u64;
            if record.form == INLINE {
                if self.key_fits(page, tag, record, record.key, belongs)? {
                    let candidate = Candidate { at, key: record.key, value: Some(record.value), proved: page.proved };
                    visit(self, candidate)?;
                }
                continue;
            }
            let (key_bytes, read) = self.extent(record, &mut content);
            self.report_notes()?;
            let in_extent = record.form == PAIR_IN_EXTENT;
            match read {
                Ok(proved) => {
                    let (key, value) = content.split_at(key_bytes);
                    let key = if in_extent { key } else { record.key };
                    if self.key_fits(page, tag, record, key, belongs)? {
                        visit(self, Candidate { at, key, value: Some(value), proved: page.proved && proved })?;
                    }
                }
                Err(what) if in_extent => {
                    self.lose(page.place, format!("a pair with key and value in an extent is lost: {what}"))?;
                }
                Err(what) => {
                    if self.key_fits(page, tag, record, record.key, belongs)? {
                        self.lose(page.place, format!("the value of key {} is lost: {what}", quote(record.key)))?;
                        visit(self, Candidate { at, key: record.key, value: None, proved: page.proved })?;
                    }
                }
            }
        }
        Flow::Continue(())
    }

    /// Whether the key belongs where it was found; reports it if not.
    fn key_fits(
        &mut self,
        page: &At<'_>,
        tag: u16,
        record: Record<'_>,
        key: &[u8],
        belongs: &dyn Fn(u64) -> bool,
    ) -> std::ops::ControlFlow<(), bool> {
        let Some(hash) = self.hash.as_ref().map(|hash| hash.hash(key)) else {
            return std::ops::ControlFlow::Continue(true);
        };
        let as_stored = page::tag(hash) == tag && (record.form != PAIR_IN_EXTENT || record.key == hash.to_le_bytes());
        if as_stored && belongs(hash) {
            return std::ops::ControlFlow::Continue(true);
        }
        let what = if as_stored { "belongs to another bucket" } else { "has another hash than stored" };
        self.lose(page.place, format!("key {} {what}; it is skipped", quote(key)))?;
        std::ops::ControlFlow::Continue(false)
    }

    /// Reads the extent of a record into `content`. Returns the length of its key, and whether all of it is proved.
    fn extent(&mut self, record: Record<'_>, content: &mut Vec<u8>) -> (usize, Result<bool, String>) {
        content.clear();
        let Ok(bytes) = <&[u8; EXTENT_BYTES]>::try_from(record.value) else {
            return (0, Err(format!("a reference of {} bytes, expected {EXTENT_BYTES}", record.value.len())));
        };
        let u32_at = |at: usize| u64::from(u32_at(bytes, at));
        let (unit, capacity, key_bytes, value_bytes) = (u64_at(bytes, 0), u32_at(8), u32_at(12), u32_at(16));
        let frame_bytes = self.file.frame_bytes() as u64;
        let unit_bytes = frame_bytes / u64::from(FRAME_UNITS);
        let key_right = match record.form {
            VALUE_IN_EXTENT => key_bytes == 0,
            _ => key_bytes > 0,
        };
        let len = key_bytes + value_bytes;
        let units = u64::from(self.file.frame_count()) * u64::from(FRAME_UNITS);
        if !key_right || len > capacity * unit_bytes || unit.checked_add(capacity).is_none_or(|end| end > units) {
            return (0, Err(format!("{len} bytes in {capacity} units from unit {unit} on are not in the file")));
        }
        if !self.reach(len) {
            return (0, Err("too many references lead to the same bytes".into()));
        }
        let (mut address, end) = (unit * unit_bytes, unit * unit_bytes + len);
        let mut proved = true;
        let mut frame_content = Vec::new();
        while address < end {
            let (frame, start) = ((address / frame_bytes) as u32, address % frame_bytes);
            match self.file.read(frame, &mut frame_content) {
                State::Damaged(what) => return (0, Err(format!("frame {frame}: {what}"))),
                state => proved &= state == State::Proved,
            }
            let here = (end - address).min(frame_bytes - start);
            content.extend_from_slice(&frame_content[start as usize..(start + here) as usize]);
            address += here;
        }
        (key_bytes as usize, Ok(proved))
    }

    fn reach(&mut self, bytes: u64) -> bool {
        match self.reach_left.checked_sub(bytes.max(1)) {
            Some(left) => self.reach_left = left,
            None => return false,
        }
        true
    }
}
