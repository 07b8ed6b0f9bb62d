//! Puts the records of each chunk in the order that the chunk index requires.
//!
//! Records come in hash order and are held until a chunk is complete. Several threads search the functions of several
//! chunks at once; then the records are written in the order that the function defines.
//!
//! Memory: the records of the chunks that are searched at once. Chunks are written as soon as the records held reach
//! half of their share ([`Shares::chunks`]); a single chunk that needs more than half of all memory is an error.

use super::data::DataWriter;
use super::memory::{CHUNKS_AT_ONCE, Shares, too_little_memory};
use super::parallel::in_parallel;
use super::plan::Plan;
use crate::dictionary::index::chunk;
use crate::dictionary::run::Run;
use crate::error::Result;
use std::ops::Range;

/// With this many bytes of records, fewer chunks are searched at once: one chunk is then enough work for a thread.
const BYTES_AT_ONCE: usize = 64 << 20;

/// Holds records back until their order is known.
pub(crate) struct Reorderer {
    options: chunk::ChunkOptions,
    builder: chunk::Builder,
    held: Run,
    /// Records written so far.
    written: u64,
    threads: usize,
    /// Chunks are written once the records held reach this many bytes.
    bytes_wanted: usize,
    plan: Plan,
}

impl Reorderer {
    /// For the index in `plan`, within the memory that `shares` allows.
    pub fn new(plan: &Plan, shares: &Shares) -> Self {
        let options = plan.index.chunk_options();
        let bytes_wanted = usize::try_from(shares.chunks / 2).unwrap_or(usize::MAX).min(BYTES_AT_ONCE);
        let builder = chunk::Builder::new(&options);
        let threads = plan.threads.max(1);
        Reorderer { options, builder, held: Run::default(), written: 0, threads, bytes_wanted, plan: plan.clone() }
    }

    /// Takes the next records and writes the chunks that are complete.
    pub fn push(&mut self, run: &Run, writer: &mut DataWriter) -> Result<()> {
        let chunk_keys = self.options.chunk_keys as usize;
        let at_once = chunk_keys * CHUNKS_AT_ONCE as usize;
        let mut from = 0;
        while from < run.len() {
            let to = run.len().min(from + (at_once - self.held.len()).min(chunk_keys));
            self.held.append(run, from..to);
            from = to;
            let enough = self.held.bytes.len() >= self.bytes_wanted;
            if self.held.len() == at_once || (enough && self.held.len() >= chunk_keys) {
                self.write_chunks(false, writer)?;
            }
            self.check_memory()?;
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<()> {
        let held = self.held.bytes.len() as u64;
        if held <= self.plan.chunk_bytes_max() {
            return Ok(());
        }
        Err(too_little_memory(self.options.chunk_keys.into(), held, self.plan.memory_bytes))
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
        self.written += done as u64;
        // With duplicate keys the number of records was not known before.
        self.plan.check_index(self.written, 0)?;
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

    /// Writes the remaining records and returns the index.
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
