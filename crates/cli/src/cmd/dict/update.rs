//! `dict update`: merges a batch of pairs and deletions with a dictionary into a new one.

use super::options::{INDEX_HELP, IndexArgs, WorkArgs};
use super::{Report, bar_of_pairs, ended, watched};
use crate::cmd::dictionary::open;
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::{Scratch, tsv};
use crate::input::{Input, Taken};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::open::require_directory_of;
use crate::source::{End, FORMATS_HELP, Inputs, SourceArgs, accepted};
use crate::types::{Origin, Types};
use splitpoint::{Dictionary, DictionaryBuilder, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  splitpoint dict update users.spd changes.tsv users.spd
  splitpoint dict update users.spd new.csv changed.csv users2.spd --delete gone.txt
  splitpoint dict update users.spd users.spd --delete gone.txt
  splitpoint dict diff old.spd new.spd | splitpoint dict update users.spd --changes - users.spd

OLD is read once and NEW written once, whatever the size of the batch. A pair
replaces an existing pair of its key; the last of several wins. Deletions come
first, then --changes: a key that is also in a BATCH is present at the end. Pages, compression and
hash function are OLD's, and so are the index without --index and the filter
without --filter. A reader that has OLD open keeps it until it reopens.";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{FORMATS_HELP}\n\n{INDEX_HELP}")
}

/// Put and delete many pairs at once, in a new dictionary
#[derive(clap::Args)]
#[command(after_help = after_help(), override_usage = "splitpoint dict update [OPTIONS] OLD [BATCH]... NEW")]
pub struct Update {
    /// The dictionary
    old: PathBuf,
    /// The pairs to put, in the formats of `dict build`; the last argument is the new dictionary, which may be OLD
    #[arg(required = true, value_name = "BATCH... NEW")]
    batches_and_new: Vec<PathBuf>,
    /// A file of keys to delete, one per line; \t \n \r \\ \xHH for bytes; empty lines are skipped; - is standard input
    #[arg(long, value_name = "KEYS")]
    delete: Option<PathBuf>,
    /// A file of changes from `dict diff`: +KEY TAB VALUE puts a pair, -KEY deletes a key; - is standard input
    #[arg(long, value_name = "FILE")]
    changes: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

impl Update {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let start = Instant::now();
        let Some((new, batches)) = self.batches_and_new.split_last() else {
            return Err(Failure::usage("NEW is missing"));
        };
        self.check(batches)?;
        require_directory_of(new)?;
        let mut inputs = Inputs::look(batches, &self.source, &interrupt)?;
        inputs.must_be = self.types(&inputs.types()?)?;
        let builder = self.builder()?;
        let bar = bar_of_pairs();
        let mut update = Dictionary::update(&self.old, new, &watched(builder, &interrupt, &bar))?;
        let unchanged = format!("nothing was written, {} is unchanged", new.display());
        if let Some(keys) = &self.delete {
            // An empty line is more likely a mistake than a request to delete the empty key.
            let mut delete = |key: &[u8]| if key.is_empty() { Ok(()) } else { delete(key, &mut update) };
            each_line(keys, &interrupt, &unchanged, &mut delete)?;
        }
        if let Some(changes) = &self.changes {
            let mut lines = Changes { types: inputs.must_be.as_ref(), ..Changes::default() };
            each_line(changes, &interrupt, &unchanged, &mut |line| lines.make(line, &mut update))?;
            if !lines.ended {
                let name = if changes.as_os_str() == "-" { "stdin".into() } else { changes.to_string_lossy() };
                let count = count_of(lines.count, "change");
                return Err(Failure::no(format_args!(
                    "{name}: ends after {count} without the last line that `dict diff` writes, so it was cut off; \
                     {unchanged}"
                )));
            }
        }
        let end = inputs.feed(&mut |pair, _| accepted(update.put(pair.key, pair.value)));
        let end = end.map_err(|failure| match inputs.read.rows {
            0 => failure,
            _ => failure.and(format_args!("So {unchanged}")),
        })?;
        let rows = count_of(inputs.read.rows, "row");
        match end {
            End::Inputs => {
                let checked = inputs.read.refuse_if_all_bad();
                checked.map_err(|failure| failure.and(format_args!("So {unchanged}")))?;
            }
            End::Bad(bad) => {
                let advice = inputs.advice(&bad);
                return Err(Failure::no(format_args!("{bad}. Stopped after {rows}, {unchanged}{advice}")));
            }
            End::Signal(signal) => {
                return Err(Failure::stopped(signal, format_args!("{rows} read, {unchanged}")));
            }
        }
        ended(update.finish(), &bar, &interrupt, &unchanged)?;
        Report { path: new, read: inputs.read, start, json: self.json }.report()
    }

    fn check(&self, batches: &[PathBuf]) -> Result<()> {
        if batches.is_empty() && self.delete.is_none() && self.changes.is_none() {
            let what = "nothing to do: give a BATCH before NEW, --delete KEYS or --changes FILE";
            return Err(Failure::usage(what));
        }
        let inputs = batches.iter().chain(&self.delete).chain(&self.changes);
        if inputs.filter(|path| path.as_os_str() == "-").count() > 1 {
            return Err(Failure::usage("standard input can be read only once; give - once"));
        }
        Ok(())
    }

    /// Returns the types that the dictionary records, if any.
    ///
    /// # Errors
    /// Batches of other types.
    fn types(&self, of_batches: &str) -> Result<Option<Types>> {
        let old = open(&self.old)?;
        if of_batches.is_empty() || old.types().is_empty() || old.types() == of_batches {
            return Ok(Types::of(old.types()));
        }
        let what = format!("{}: has the types {}, the changes have {of_batches}", self.old.display(), old.types());
        Err(Failure::of_kind(ErrorKind::WrongTypes, what))
    }

    fn builder(&self) -> Result<DictionaryBuilder> {
        let old = open(&self.old)?;
        let index = self.index.index()?.unwrap_or_else(|| old.index());
        let filter = self.index.filter.unwrap_or_else(|| old.filter());
        Ok(self.work.bound(DictionaryBuilder::new().index(index).filter(filter)))
    }
}

/// The reason why the change on a line cannot be made.
enum Unmade {
    Line(String),
    Update(splitpoint::Error),
}

impl From<String> for Unmade {
    fn from(what: String) -> Self {
        Self::Line(what)
    }
}

impl From<splitpoint::Error> for Unmade {
    fn from(error: splitpoint::Error) -> Self {
        Self::Update(error)
    }
}

fn delete(escaped: &[u8], update: &mut splitpoint::dictionary::Update) -> std::result::Result<(), Unmade> {
    let mut key = Vec::new();
    escapes::unescape(escaped, &mut key)?;
    Ok(update.remove(&key)?)
}

/// The changes in the format of `dict diff`.
#[derive(Default)]
struct Changes<'t> {
    types: Option<&'t Types>,
    count: u64,
    /// Whether the last line, which has the number of changes before it, was read.
    ended: bool,
    scratch: Scratch,
}

impl Changes<'_> {
    fn make(&mut self, line: &[u8], update: &mut splitpoint::dictionary::Update) -> std::result::Result<(), Unmade> {
        if self.ended {
            return Err("a line after the last one of `dict diff`".to_owned().into());
        }
        match line.split_first() {
            Some((b'+', pair)) => {
                let pair = tsv::parse(pair, &mut self.scratch)?;
                if let Some(what) = self.types.and_then(|types| types.refuse(pair.key, pair.value, Origin::Bytes)) {
                    return Err(what.into());
                }
                update.put(pair.key, pair.value)?;
            }
            Some((b'-', key)) => delete(key, update)?,
            Some((b'=', count)) if count == self.count.to_string().as_bytes() => {
                self.ended = true;
                return Ok(());
            }
            _ => {
                let (expected, line) = (self.count, escapes::quoted(line));
                return Err(format!("expected +KEY TAB VALUE, -KEY, or ={expected} at the end, not {line}").into());
            }
        }
        self.count += 1;
        Ok(())
    }
}

/// Calls `take` for each line of a file.
fn each_line(
    path: &Path,
    interrupt: &Interrupt,
    unchanged: &str,
    take: &mut dyn FnMut(&[u8]) -> std::result::Result<(), Unmade>,
) -> Result<()> {
    let mut input = Input::open(path, true, interrupt)?;
    input.skip_byte_order_mark()?;
    let mut number: u64 = 0;
    loop {
        if let Some(signal) = interrupt.caught() {
            return Err(Failure::stopped(signal, unchanged));
        }
        let line = match input.line()? {
            Taken::Bytes(range) => input.bytes(range),
            Taken::Interrupted => continue,
            Taken::TooLong => {
                let name = &input.name;
                return Err(Failure::no(format_args!("{name}:{}: {}; {unchanged}", number + 1, input.limit_met())));
            }
            Taken::Short(_) | Taken::End => return Ok(()),
        };
        number += 1;
        match take(line.strip_suffix(b"\r").unwrap_or(line)) {
            Ok(()) => {}
            Err(Unmade::Line(what)) => {
                return Err(Failure::no(format_args!("{}:{number}: {what}; {unchanged}", input.name)));
            }
            Err(Unmade::Update(error)) => return Err(error.into()),
        }
    }
}
