//! External sort in hash order, in bounded memory. (being built)
use super::run::{Run, Span, Spans};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashFunction;
use crate::io::Storage;
use crate::linear;
use std::path::PathBuf;

/// What becomes of a key that is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// An error that names both places.
    Error,
    /// The first value stays.
    First,
    /// The last value stays.
    Last,
}
pub(crate) struct SortOptions {
    pub hash: HashFunction,
    pub memory_bytes: u64,
    pub threads: usize,
    pub duplicates: Duplicates,
    pub temporary: PathBuf,
    pub resume: bool,
    pub resume_id: u64,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutLengths {
    None,
    One(u32, u32),
    Several,
}
pub(crate) struct Sorter<'s> {
    options: SortOptions,
    storage: &'s dyn Storage,
    records: Vec<(u64, Vec<u8>, Option<Vec<u8>>, u64)>,
}
pub(crate) struct Sorted {
    run: Option<Run>,
    n: u64,
    put: PutLengths,
    deleted: bool,
}
impl<'s> Sorter<'s> {
    pub fn new(storage: &'s dyn Storage, options: SortOptions) -> Result<Self> {
        Ok(Sorter { options, storage, records: Vec::new() })
    }
    pub fn resumed_records(&self) -> u64 {
        0
    }
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>, place: u64) -> Result<()> {
        let p = linear::position(self.options.hash.hash(key));
        self.records.push((p, key.to_vec(), value.map(|v| v.to_vec()), place));
        Ok(())
    }
    pub fn finish(mut self) -> Result<Sorted> {
        let n = self.records.len() as u64;
        self.records.sort_by(|a, b| (a.0, &a.1, a.3).cmp(&(b.0, &b.1, b.3)));
        let mut put = PutLengths::None;
        let mut deleted = false;
        for r in &self.records {
            match &r.2 {
                None => deleted = true,
                Some(v) => {
                    let l = PutLengths::One(r.1.len() as u32, v.len() as u32);
                    if put == PutLengths::None {
                        put = l
                    } else if put != l {
                        put = PutLengths::Several
                    }
                }
            }
        }
        let mut out: Vec<(u64, Vec<u8>, Option<Vec<u8>>, u64)> = Vec::new();
        for r in self.records {
            if out.last().is_some_and(|l| l.1 == r.1) {
                match self.options.duplicates {
                    Duplicates::Error => return Err(Error::new(ErrorKind::Duplicate, "dup")),
                    Duplicates::First => continue,
                    Duplicates::Last => {
                        out.pop();
                    }
                }
            }
            out.push(r);
        }
        let mut run = Run::default();
        let mut spans = Vec::new();
        for r in out {
            run.positions.push(r.0);
            spans.push(Span {
                start: run.bytes.len(),
                key_len: r.1.len() as u32,
                value_len: r.2.as_ref().map_or(0, |v| v.len()) as u32,
                deleted: r.2.is_none(),
            });
            run.bytes.extend(&r.1);
            if let Some(v) = &r.2 {
                run.bytes.extend(v)
            }
        }
        run.spans = match put {
            PutLengths::One(k, v) if !deleted => Spans::Fixed { key_len: k, value_len: v },
            _ => Spans::Varied(spans),
        };
        Ok(Sorted { run: Some(run), n, put, deleted })
    }
}
impl Sorted {
    pub fn records(&self) -> u64 {
        self.n
    }
    pub fn put_lengths(&self) -> PutLengths {
        self.put
    }
    pub fn fixed_lengths(&self) -> Option<(u32, u32)> {
        match self.put {
            PutLengths::One(k, v) if !self.deleted => Some((k, v)),
            _ => None,
        }
    }
    pub fn next_run(&mut self) -> Result<Option<Run>> {
        Ok(self.run.take().filter(|r| r.len() > 0))
    }
    pub fn recycle(&mut self, _: Run) {}
    pub fn done(self) -> Result<()> {
        Ok(())
    }
}
