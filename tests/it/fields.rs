//! The fields of a table file: the location of each number that a hostile file could change.
//!
//! The second reader (`spt.rs`) walks a good file and records each field with its meaning. Tests that damage files
//! choose among these, since most bytes of a file are unused and damage there has no effect.
//!
//! Not here: the hostile values (`corruption.rs`).

use crate::spt::{self, Reader, u16_at, u32_at, u64_at};

/// A field in the file whose value tests change.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub at: usize,
    pub bytes: usize,
    pub what: What,
    /// The unit that contains it; 0 in the header, in nodes and in bitmaps.
    pub unit: usize,
}

/// The meaning of a field, which determines the hostile values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Count,
    Byte,
    /// Reference to an overflow page.
    Next,
    /// Offset of a record in its page.
    Offset,
    /// First byte of a record, which contains the form.
    Head,
    /// First unit of an extent.
    Unit,
    /// First frame of a map group.
    MapGroup,
    /// First frame of a bucket group.
    Group,
    UsedBits,
    /// The block of a frame or a node.
    Block,
}

/// Returns every field of a good file.
pub fn fields_of(reader: &Reader<'_>) -> Vec<Field> {
    let g = &reader.geometry;
    let mut fields = Vec::new();
    let mut field = |at, bytes, what| fields.push(Field { at, bytes, what, unit: 0 });
    for at in [12, 24, spt::LENGTH_AT] {
        field(at, 4, What::Count);
    }
    for at in [spt::MAP_AT, spt::ROOM_AT] {
        field(at, 4, What::Block);
    }
    for k in 0..spt::MAP_GROUP_COUNT.min(4) {
        field(spt::MAP_GROUPS_AT + 4 * k, 4, What::MapGroup);
    }
    for (at, bytes) in [(0, 4), (4, 2), (6, 2), (24, 4), (28, 4), (32, 4), (40, 8), (48, 8), (56, 8)] {
        field(spt::ROOT_AT + at, bytes, What::Count);
    }
    let groups = spt::group_of(g.max_bucket).0 + 3;
    for group in 0..groups.min(spt::GROUP_COUNT) {
        field(spt::GROUPS_AT + 4 * group, 4, What::Group);
    }
    for frame in 0..g.frame_count.min(64) {
        field(reader.entry_at(frame).expect("frame 0 has a leaf"), 4, What::Block);
    }
    for node in &reader.nodes {
        for at in [16, 24, 28, 32] {
            field(node.block * g.frame_bytes + at, 4, What::Count);
        }
    }
    for bitmap in &reader.bitmaps {
        for word in 0..g.length.div_ceil(64).min(8) {
            field(bitmap.block * g.frame_bytes + 8 * word, 8, What::UsedBits);
        }
    }
    // Offsets in the frames from here on.
    let mut field = |at: usize, bytes, what| {
        let unit = at / g.unit_bytes();
        fields.extend(reader.in_file(at).map(|at| Field { at, bytes, what, unit }));
    };
    for frame in 0..g.frame_count.min(64) {
        field(g.bits_at(frame), 8, What::UsedBits);
    }
    for found in reader.pages().unwrap() {
        let at = found.at;
        for (offset, bytes) in [(0, 1), (1, 1)] {
            field(at + offset, bytes, What::Byte);
        }
        for (offset, bytes) in [(2, 2), (4, 2), (6, 2), (16, 8)] {
            field(at + offset, bytes, What::Count);
        }
        field(at + 8, 8, What::Next);
        for (slot, record) in found.page.records.iter().enumerate() {
            field(at + spt::PAGE_HEADER_BYTES + spt::SLOT_BYTES * slot + 2, 2, What::Offset);
            field(at + record.at, 1, What::Head);
            field(at + record.at + 1, 1, What::Byte);
            if record.form != 0 {
                field(at + record.value_at, 8, What::Unit);
                for offset in [8, 12, 16] {
                    field(at + record.value_at + offset, 4, What::Count);
                }
            }
        }
    }
    fields
}

/// Returns the value of a field.
pub fn number_at(file: &[u8], at: usize, bytes: usize) -> u64 {
    match bytes {
        1 => file[at].into(),
        2 => u16_at(file, at).into(),
        4 => u32_at(file, at).into(),
        _ => u64_at(file, at),
    }
}
