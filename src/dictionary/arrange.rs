//! Records in the order that an index gives them inside its chunks or partitions.
//!
//! Records come in hash order and are held until a chunk (or partition) is complete; its function is searched, on several threads for
//! several chunks, and its records are written in the order that the function gives.
//!
//! Memory: the records of the chunks that are searched at once, and of at least one; or of a partition a thread. If those of the chunks,
//! or of the partition that is not complete yet, are more than [`Arranger::new`] is allowed, it is an error, as other indexes need
//! none of it; whole partitions that wait for as many as there are threads are not counted.

use super::assemble::Plan;
use super::format::SectionKind;
use super::index::{Index, chunk, mphf};
use super::run::Run;
use super::write::DataWriter;
use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// Chunks that are searched at once, by all threads together.
const CHUNKS_AT_ONCE: usize = 128;
/// Less if their records have so many bytes: a chunk then is enough work for a thread.
const BYTES_AT_ONCE: usize = 64 << 20;
/// A partition ends with the record that brings it to so many bytes, if not before by its keys.
const PARTITION_BYTES: usize = 64 << 20;

/// Holds records back until their order is known.
pub(super) struct Arranger {
    kind: Kind,
    held: Run,
    /// Whole partitions that wait for as many as there are threads.
    waiting: Vec<Run>,
    threads: usize,
    bytes_max: usize,
}

enum Kind {
    Chunks(chunk::ChunkOptions, Box<chunk::Builder>),
    Partitions(mphf::MphfOptions, mphf::Builder),
}

impl Arranger {
    /// For the order of the index that `plan` asks for, in at most as much memory as the plan allows to sort.
    pub fn new(plan: &Plan) -> Self {
        let kind = match plan.index {
            Index::Chunk { .. } => {
                let options = plan.index.chunk_options();
                Kind::Chunks(options, Box::new(chunk::Builder::new(&options)))
            }
            Index::Mphf { partition_keys } => {
                Kind::Partitions(mphf::MphfOptions { partition_keys }, mphf::Builder::default())
            }
            _ => unreachable!("indexes in hash order arrange nothing"),
        };
        let bytes_max = usize::try_from(plan.memory_bytes).unwrap_or(usize::MAX);
        Arranger { kind, held: Run::default(), waiting: Vec::new(), threads: plan.threads.max(1), bytes_max }
    }

    /// Takes the next records, and writes what is complete.
    pub fn push(&mut self, run: &Run, writer: &mut DataWriter<'_>) -> Result<()> {
        match &self.kind {
            Kind::Chunks(options, _) => {
                let options = *options;
                let at_once = options.chunk_keys as usize * CHUNKS_AT_ONCE;
                let mut from = 0;
                while from < run.len() {
                    let to = run.len().min(from + (at_once - self.held.len()).min(options.chunk_keys as usize));
                    self.held.append(run, from..to);
                    from = to;
                    let complete = self.held.len() >= options.chunk_keys as usize;
                    if self.held.len() == at_once || (complete && self.held.bytes.len() >= BYTES_AT_ONCE) {
                        self.write_chunks(false, writer)?;
                    }
                    self.check_memory()?;
                }
                Ok(())
            }
            Kind::Partitions(options, _) => {
                let options = *options;
                self.push_to_partition(options, run, writer)
            }
        }
    }

    fn push_to_partition(&mut self, options: mphf::MphfOptions, run: &Run, writer: &mut DataWriter<'_>) -> Result<()> {
        let mut from = 0;
        let mut bytes = self.held.bytes.len();
        for (index, &next) in run.positions.iter().enumerate() {
            let last = if index > from { Some(&run.positions[index - 1]) } else { self.held.positions.last() };
            let held = self.held.len() + index - from;
            if let Some(&last) = last
                && (options.ends(held, last, next) || (bytes >= PARTITION_BYTES && last != next))
            {
                self.held.append(run, from..index);
                self.waiting.push(std::mem::take(&mut self.held));
                if self.waiting.len() == self.threads {
                    self.write_partitions(writer)?;
                }
                (from, bytes) = (index, 0);
            }
            let span = run.span(index);
            bytes += span.key_len as usize + span.value_len as usize;
        }
        self.held.append(run, from..run.len());
        self.check_memory()
    }

    fn check_memory(&self) -> Result<()> {
        let need = self.held.bytes.len();
        if need <= self.bytes_max {
            return Ok(());
        }
        let name = match self.kind {
            Kind::Chunks(..) => "chunk",
            Kind::Partitions(..) => "mphf",
        };
        let have = self.bytes_max;
        let message = format!(
            "an index of kind {name} holds the records of a group in memory, here more than {need} bytes where {have} are allowed. \
             Allow more, or take the index `page`, which holds none."
        );
        Err(Error::new(ErrorKind::OutOfMemory, message))
    }

    /// Writes the chunks that are complete; with `all`, what is left over too.
    fn write_chunks(&mut self, all: bool, writer: &mut DataWriter<'_>) -> Result<()> {
        let Kind::Chunks(options, builder) = &mut self.kind else { unreachable!("called for chunks") };
        let whole = options.chunk_keys as usize;
        let mut chunks: Vec<Range<usize>> = (0..self.held.len() / whole).map(|n| n * whole..(n + 1) * whole).collect();
        let mut done = chunks.last().map_or(0, |chunk| chunk.end);
        if all {
            for size in chunk::cut((self.held.len() - done) as u64) {
                chunks.push(done..done + size as usize);
                done += size as usize;
            }
        }
        let held = &self.held;
        let solved = in_parallel(self.threads, &chunks, |chunk| {
            let mut order = Vec::new();
            let solved = chunk::solve(options, &held.positions[chunk.clone()], &mut order);
            (solved, order)
        });
        for (chunk, (solved, order)) in chunks.iter().zip(&solved) {
            builder.add(&held.positions[chunk.clone()], solved);
            write_in_order(held, chunk.start, order, writer)?;
        }
        self.keep_from(done);
        Ok(())
    }

    fn write_partitions(&mut self, writer: &mut DataWriter<'_>) -> Result<()> {
        let Kind::Partitions(options, builder) = &mut self.kind else { unreachable!("called for partitions") };
        let solved = in_parallel(self.threads, &self.waiting, |partition| {
            let mut order = Vec::new();
            mphf::solve(*options, &partition.positions, &mut order).map(|solved| (solved, order))
        });
        for (partition, solved) in self.waiting.drain(..).zip(solved) {
            let (solved, order) = solved?;
            builder.add(solved);
            write_in_order(&partition, 0, &order, writer)?;
        }
        Ok(())
    }

    fn keep_from(&mut self, from: usize) {
        let mut rest = Run::default();
        rest.append(&self.held, from..self.held.len());
        self.held = rest;
    }

    /// Writes what is left, and gives the index.
    pub fn finish(mut self, writer: &mut DataWriter<'_>) -> Result<(SectionKind, Vec<u64>)> {
        match self.kind {
            Kind::Chunks(..) => self.write_chunks(true, writer)?,
            Kind::Partitions(..) => {
                if !self.held.is_empty() {
                    self.waiting.push(std::mem::take(&mut self.held));
                }
                self.write_partitions(writer)?;
            }
        }
        Ok(match self.kind {
            Kind::Chunks(_, builder) => (SectionKind::Chunk, builder.finish()),
            Kind::Partitions(_, builder) => (SectionKind::Mphf, builder.finish()),
        })
    }
}

fn write_in_order(held: &Run, first: usize, order: &[u32], writer: &mut DataWriter<'_>) -> Result<()> {
    for &number in order {
        let index = first + number as usize;
        let value = held.value(index).expect("deletions end in the merge");
        writer.push(held.positions[index], held.key(index), value)?;
    }
    Ok(())
}

/// `work` on each of `items`, on up to `threads` threads; results in order.
fn in_parallel<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let work = &work;
    std::thread::scope(|scope| {
        let parts = items.chunks(items.len().div_ceil(threads));
        let running: Vec<_> =
            parts.map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<_>>())).collect();
        let results = running.into_iter().map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        results.flatten().collect()
    })
}
