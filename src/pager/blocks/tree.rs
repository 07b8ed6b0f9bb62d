//! A tree of entries in the file: the block map, and that of the bitmaps.
//!
//! ```text
//! entry   {block, checksum, birth: u32} of a frame, a bitmap, or a node of the level below; block 0: absent
//! node    64 bytes: magic, table id, checkpoint, tree, level, number, checksum; then entries up to the block's end
//! level 0 has the entries of frames or bitmaps; each higher level has those of the nodes below; the last has one node
//! ```
//!
//! The entry of the top node is in the header, so its checksum proves all of the tree. The nodes above level 0 are a
//! 300th of it: they are in memory, and each checkpoint writes them all. Nodes of level 0 name their table, checkpoint
//! and place, so that salvage can find them alone.

use crate::checksum::{crc32c, crc32c_append};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::file::headers::{ENTRY_BYTES, Entry};

/// First bytes of a node. On disk.
const MAGIC: [u8; 8] = *b"SPLITNOD";
/// Bytes of a node before its entries. On disk.
pub(super) const NODE_HEADER_BYTES: usize = 64;
/// Which tree a node is of. On disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Map = 1,
    Room = 2,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Map => "block map",
            Kind::Room => "tree of bitmaps",
        }
    }
}

/// Where a node is in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId {
    pub kind: Kind,
    pub level: u32,
    pub number: u32,
}

/// Entries in a node.
pub(crate) fn fanout(block_bytes: usize) -> usize {
    (block_bytes - NODE_HEADER_BYTES) / ENTRY_BYTES
}

/// The bytes of a node, and their checksum.
pub(crate) fn encode_node(
    block_bytes: usize,
    table_id: u64,
    checkpoint: u64,
    id: NodeId,
    entries: &[Entry],
) -> (Vec<u8>, u32) {
    let mut bytes = vec![0; block_bytes];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&table_id.to_le_bytes());
    bytes[16..24].copy_from_slice(&checkpoint.to_le_bytes());
    bytes[24..28].copy_from_slice(&(id.kind as u32).to_le_bytes());
    bytes[28..32].copy_from_slice(&id.level.to_le_bytes());
    bytes[32..36].copy_from_slice(&id.number.to_le_bytes());
    for (place, entry) in bytes[NODE_HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES).zip(entries) {
        place.copy_from_slice(&entry.to_bytes());
    }
    let sum = node_sum(&bytes);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    (bytes, sum)
}

fn node_sum(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&bytes[..60]), &bytes[64..])
}

/// The entries of a node that must be `id` and have the checksum `sum`.
///
/// # Errors
/// What is wrong with the node.
pub(crate) fn parse_node(bytes: &[u8], table_id: u64, id: NodeId, sum: u32) -> Result<Vec<Entry>, String> {
    let what = || format!("node {} of level {} of the {}", id.number, id.level, id.kind.name());
    let computed = node_sum(bytes);
    if computed != sum || u32_at(bytes, 60) != sum {
        return Err(format!("{}: checksum mismatch, stored {sum:08x}, computed {computed:08x}", what()));
    }
    let place = [u32_at(bytes, 24), u32_at(bytes, 28), u32_at(bytes, 32)];
    if bytes[..8] != MAGIC || u64_at(bytes, 8) != table_id || place != [id.kind as u32, id.level, id.number] {
        return Err(format!("{}: its block has another node", what()));
    }
    Ok(bytes[NODE_HEADER_BYTES..].chunks_exact(ENTRY_BYTES).map(Entry::parse).collect())
}

/// The number of nodes of each level of a tree of `count` entries, from level 0 on.
pub(super) fn level_sizes(count: usize, fanout: usize) -> Vec<usize> {
    let mut sizes = vec![count.div_ceil(fanout).max(1)];
    while let Some(&size) = sizes.last().filter(|&&size| size > 1) {
        sizes.push(size.div_ceil(fanout));
    }
    sizes
}

/// The entries of the nodes of level 0 of a tree with this top node, and the blocks of the nodes above. `read` fills a
/// block.
///
/// # Errors
/// Returns the errors of `read`, and what is wrong with a node.
pub(super) fn read_upper<E: From<String>>(
    kind: Kind,
    count: usize,
    top: Entry,
    (block_bytes, table_id): (usize, u64),
    mut read: impl FnMut(u32, &mut [u8]) -> Result<(), E>,
) -> Result<(Vec<Entry>, Vec<u32>), E> {
    let mut blocks = Vec::new();
    let mut bytes = vec![0; block_bytes];
    let nodes = descend(kind, count, top, block_bytes, |id, entry, child_count| {
        read(entry.block, &mut bytes)?;
        blocks.push(entry.block);
        parse_upper(&bytes, table_id, id, entry.sum, child_count).map_err(E::from)
    })?;
    Ok((nodes, blocks))
}

/// The entries of the nodes of level 0 of a tree with this top node. `children` returns those of a node above, as many
/// as it is asked for.
///
/// # Errors
/// Returns the errors of `children`.
pub(crate) fn descend<E>(
    kind: Kind,
    count: usize,
    top: Entry,
    block_bytes: usize,
    mut children: impl FnMut(NodeId, Entry, usize) -> Result<Vec<Entry>, E>,
) -> Result<Vec<Entry>, E> {
    let fanout = fanout(block_bytes);
    let sizes = level_sizes(count, fanout);
    let mut nodes = vec![top];
    for level in (1..sizes.len()).rev() {
        let mut below = Vec::new();
        for (number, &entry) in nodes.iter().enumerate() {
            let id = NodeId { kind, level: level as u32, number: number as u32 };
            below.extend(children(id, entry, fanout.min(sizes[level - 1] - number * fanout))?);
        }
        nodes = below;
    }
    Ok(nodes)
}

/// The entries of a node above level 0 that has `child_count` children. Errors: [`parse_node`].
pub(crate) fn parse_upper(
    bytes: &[u8],
    table_id: u64,
    id: NodeId,
    sum: u32,
    child_count: usize,
) -> Result<Vec<Entry>, String> {
    let mut entries = parse_node(bytes, table_id, id, sum)?;
    if entries.split_off(child_count).iter().any(|entry| !entry.is_none()) {
        return Err(format!("the {} has more nodes than the table needs", id.kind.name()));
    }
    Ok(entries)
}

/// A node as it names itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoneNode {
    pub table_id: u64,
    pub checkpoint: u64,
    pub id: NodeId,
    pub sum: u32,
}

impl LoneNode {
    /// The node in a block, if its own checksum matches.
    pub(crate) fn parse(bytes: &[u8]) -> Option<LoneNode> {
        if !bytes.starts_with(&MAGIC) || bytes.len() < NODE_HEADER_BYTES || u32_at(bytes, 60) != node_sum(bytes) {
            return None;
        }
        let kind = [Kind::Map, Kind::Room].into_iter().find(|&kind| kind as u32 == u32_at(bytes, 24))?;
        let id = NodeId { kind, level: u32_at(bytes, 28), number: u32_at(bytes, 32) };
        Some(LoneNode { table_id: u64_at(bytes, 8), checkpoint: u64_at(bytes, 16), id, sum: u32_at(bytes, 60) })
    }
}
