//! Records in the order that the chunk index gives them inside its chunks.
//!
//! Records come in hash order and are held until a chunk is complete. The search for its function runs on several
//! threads for several chunks at once; then the records are written in the order that the function gives.
//!
//! Memory: the records of the chunks that are searched at once. Chunks are written as soon as the records held are half
//! of what [`Plan::memory_bytes`] allows; a single chunk that needs more than all of it is an error.

use super::data::DataWriter;
use super::parallel::in_parallel;
use super::plan::{Plan, too_little_memory};
use crate::dictionary::index::chunk;
use crate::dictionary::run::Run;
use crate::error::Result;
use std::ops::Range;

/// Chunks that are searched at once, by all threads together.
const CHUNKS_AT_ONCE: usize = 128;
/// Fewer chunks are searched at once if their records have this many bytes: one chunk is then enough work for a thread.
const BYTES_AT_ONCE: usize = 64 << 20;

/// Holds records back until their order is known.
pub(crate) struct Reorderer {
    options: chunk::ChunkOptions,
    builder: chunk::Builder,
    held: Run,
    threads: usize,
    bytes_max: usize,
}

impl Reorderer {
    /// For the index that `plan` asks for, in at most the memory that the plan allows.
    pub fn new(plan: &Plan) -> Self {
        let options = plan.index.chunk_options();
        let bytes_max = usize::try_from(plan.memory_bytes).unwrap_or(usize::MAX);
        let builder = chunk::Builder::new(&options);
        Reorderer { options, builder, held: Run::default(), threads: plan.threads.max(1), bytes_max }
    }

    /// Takes the next records, and writes the chunks that are complete.
    pub fn push(&mut self, run: &Run, writer: &mut DataWriter) -> Result<()> {
        let chunk_keys = self.options.chunk_keys as usize;
        let at_once = chunk_keys * CHUNKS_AT_ONCE;
        let mut from = 0;
        while from < run.len() {
            let to = run.len().min(from + (at_once - self.held.len()).min(chunk_keys));
            self.held.append(run, from..to);
            from = to;
            let enough = self.held.bytes.len() >= BYTES_AT_ONCE.min(self.bytes_max / 2);
            if self.held.len() == at_once || (enough && self.held.len() >= chunk_keys) {
                self.write_chunks(false, writer)?;
            }
            self.check_memory()?;
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<()> {
        if self.held.bytes.len() <= self.bytes_max {
            return Ok(());
        }
        let (need, have) = (self.held.bytes.len() as u64, self.bytes_max as u64);
        Err(too_little_memory(self.options.chunk_keys.into(), need, have))
    }

    /// Writes the chunks that are complete; with `all`, the remaining records too.
    fn write_chunks(&mut self, all: bool, writer: &mut DataWriter) -> Result<()> {
        let whole = self.options.chunk_keys as usize;
        let mut chunks: Vec<Range<usize>> = (0..self.held.len() / whole).map(|n| n * whole..(n + 1) * whole).collect();
        let mut done = chunks.last().map_or(0, |chunk| chunk.end);
        if all {
            for size in chunk::cut((self.held.len() - done) as u64) {
                chunks.push(done..done + size as usize);
                done += size as usize;
            }
        }
        let held = &self.held;
        let solved = in_parallel(self.threads, chunks.clone(), |_, chunk| {
            let mut order = Vec::new();
            let solved = chunk::solve(&self.options, &held.positions[chunk], &mut order);
            Ok((solved, order))
        })?;
        for (chunk, (solved, order)) in chunks.iter().zip(&solved) {
            self.builder.add(&held.positions[chunk.clone()], solved);
            write_in_order(held, chunk.start, order, writer)?;
        }
        let mut rest = Run::default();
        rest.append(&self.held, done..self.held.len());
        self.held = rest;
        Ok(())
    }

    /// Writes the remaining records, and gives the index.
    pub fn finish(mut self, writer: &mut DataWriter) -> Result<Vec<u64>> {
        self.write_chunks(true, writer)?;
        Ok(self.builder.finish())
    }
}

fn write_in_order(held: &Run, first: usize, order: &[u32], writer: &mut DataWriter) -> Result<()> {
    for &number in order {
        let index = first + number as usize;
        writer.push_record(held.positions[index], held.record(index))?;
    }
    Ok(())
}
