//! The build of one file, from the sort's pairs to its name.

use super::intake::Intake;
use super::merge::write_merged;
use super::plan::Plan;
use super::sort::{Sorted, Sorter};
use super::writer::begin_file;
use crate::dictionary::read::file::DictionaryFile;
use crate::error::Result;
use crate::io::Granted;
use crate::io::atomic::AtomicFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that is being built. It is created immediately, so that a second writer of the same file fails immediately.
pub(crate) struct NewFile {
    path: PathBuf,
    output: Box<AtomicFile>,
}

impl NewFile {
    /// The file that `path` leads to.
    pub fn begin(plan: &Plan, path: &Path) -> Result<NewFile> {
        let path = plan.resolve(path)?;
        let output = Box::new(begin_file(&plan.storage, &path, plan.granted_at(&path)?)?);
        Ok(NewFile { path, output })
    }

    pub fn granted(&self) -> Granted {
        self.output.granted()
    }

    pub fn intake(&self, plan: &Plan) -> Result<Intake> {
        Intake::new(plan, std::slice::from_ref(&self.path))
    }

    /// Writes the file from what `intake` took and from `old`, and publishes it. Returns its number of pairs.
    pub fn finish(self, plan: &Plan, intake: Intake, old: Option<&Arc<DictionaryFile>>) -> Result<u64> {
        // A forked child must fail here, before an error could remove the file.
        let sorter = intake.finish()?.pop().expect("one sort for one file");
        let plan = plan.for_writing(&self.path, 1);
        let (pairs, sorted) = write_sorted(plan, sorter, old, false, || Ok(*self.output))?;
        // The next sort overwrites what this one left, and once the dictionary has its name this is not a failure.
        let _ = sorted.done();
        Ok(pairs.expect("written, as it is not kept"))
    }
}

/// Writes what `sorter` took, merged with `old`, to the file that `output` begins. Returns its number of pairs; `None`
/// if nothing was taken and `old` is kept in this case. Also returns the sort: the caller removes its saved files once
/// the dictionary has its name.
pub(crate) fn write_sorted(
    plan: Plan,
    sorter: Sorter,
    old: Option<&Arc<DictionaryFile>>,
    old_is_kept: bool,
    output: impl FnOnce() -> Result<AtomicFile>,
) -> Result<(Option<u64>, Sorted)> {
    let forecast = sorter.forecast().with_old(old.map(|old| &**old), sorter.removals());
    let shares = plan.shares(&forecast)?;
    let mut sorted = sorter.finish_within(shares.sort)?;
    let mut pairs = None;
    if !old_is_kept || sorted.records() > 0 {
        pairs = Some(write_merged(plan, shares, output()?, old, &mut sorted)?.pairs);
    }
    sorted.end();
    Ok((pairs, sorted))
}
