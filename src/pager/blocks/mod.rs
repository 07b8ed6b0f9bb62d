//! The next file: nothing that is still needed is written over. Modelled here before it is built.
//!
//! A *frame* keeps its address in memory. A *block* is its place in the file. The **block map** has, for each frame,
//! the block with its last written content and the checksum of that content. It is a tree of frame-sized nodes; a
//! node's block and checksum are in its parent, those of the top node in the header. So one checksum proves the whole
//! file.
//!
//! ```text
//! header     two copies in different blocks: number, random id, id of the parent, top node {block, checksum}, length
//! node       per entry {block u32, checksum u32}; a leaf has the entries of frames
//! bitmap     one for each 32,768 blocks, in two fixed homes; the tree says which home counts, and its checksum
//!
//! the rule   a block that a checkpoint in use, or a record of the log, refers to is never written
//! in use     the last complete checkpoint, and each that a reader or a backup holds
//! freed      a block waits with (birth, death), the first and last checkpoint that have it; birth 0 if the log refers
//!            to it or it is older than this open; used again once checkpoint death + 1 is durable and no held number
//!            is from birth to death
//! open       write the header again, sync; until a checkpoint of this handle is durable, write only beyond the length
//!            found, and make a checkpoint of each sync
//! checkpoint freeze, reserve -> frozen frames, nodes, bitmaps -> sync -> header into the other slot -> sync -> free
//!            what waited, release the log -> header into the first slot too, unsynced
//! ```
//!
//! What is live for a frame, besides whether it is in memory and frozen:
//!
//! | block | written when | may be written again | freed |
//! |---|---|---|---|
//! | none | never | | |
//! | period | by an eviction or a move since the last freeze | yes, until the next freeze | at once |
//! | sealed | with a value that the log refers to | no | waits, birth 0 |
//! | old | before the last freeze, or by the checkpoint | no | waits |
//!
//! Not here: today's file (`pager/checkpoint/`), the life of a frame in memory (`pool/life.rs`).

#[cfg(test)]
mod model;
