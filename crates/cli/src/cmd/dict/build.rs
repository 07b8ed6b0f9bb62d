//! `dict build`: builds a dictionary from files, pipes, tables and other dictionaries.
//!
//! [`Build::run`] inspects the inputs. A single table that may keep its hash function is frozen, without a sort. All
//! other input is fed pair by pair to the library's sort ([`Build::sort`]), which writes the dictionary. Not here: the
//! inputs (`source/`), options shared with other commands (`options.rs`).

use super::options::{HashArgs, INDEX_HELP, IndexArgs, ShapeArgs, WorkArgs};
use super::{Report, bar_of_pairs, ended, report_left_out, watched};
use crate::access;
use crate::cmd::TABLE_SUFFIXES;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::open::{databases, require_directory_of};
use crate::output::say;
use crate::source::{End, FORMATS_HELP, InputFile, Inputs, Kind, Read, SourceArgs, accepted, twice};
use crate::types::Types;
use clap::ValueEnum;
use splitpoint::{DictionaryBuilder, HashKind};
use splitpoint_server::keyspace::ServedFile;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

const EXAMPLES: &str = "\
Examples:
  splitpoint dict build users.tsv users.spd
  splitpoint dict build 2024.csv 2025.csv all.spd --key id --value name --duplicates last
  splitpoint dict build hashes.raw hashes.spd --index chunk --filter 8
  zcat a.jsonl.gz | splitpoint dict build - a.spd --format jsonl --on-error skip
  splitpoint dict build huge.tsv huge.spd --shards 16 --resume

A signal (Ctrl-C) ends the build and leaves OUT unchanged. With --resume, after
a signal or a bad row the pairs read so far are kept, and the same command
continues there, also with --on-error skip added. After any other end it
continues from the last checkpoint: one per GiB of pairs, and one after the last
pair if they do not fit in memory. A single table is frozen without a sort.";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{FORMATS_HELP}\n\n{INDEX_HELP}")
}

/// Build a dictionary from files, pipes, tables and dictionaries
#[derive(clap::Args)]
#[command(after_help = after_help(), override_usage = "splitpoint dict build [OPTIONS] INPUT... OUT")]
pub struct Build {
    /// The pairs: files, tables, dictionaries; - is standard input; the last argument is the dictionary, which
    /// replaces an existing one when it is complete
    // One list: clap would end a list that is followed by another argument at the first option.
    #[arg(required = true, value_name = "INPUT... OUT")]
    inputs_and_out: Vec<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    shape: ShapeArgs,
    /// What to do with a key that occurs twice [default: error; last from a server, first in a cdb file]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "error|first|last")]
    duplicates: Option<Duplicates>,
    /// The default for duplicate keys, if it is not an error.
    #[arg(skip)]
    otherwise: Option<Duplicates>,
    #[command(flatten)]
    hash: HashArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// Make a directory of N files instead of one file; each is built, updated and checked separately
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    shards: Option<u32>,
    /// Keep checkpoints of the sort if the build ends early, and continue from the last one if there is one
    #[arg(long)]
    resume: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Duplicates {
    Error,
    First,
    Last,
}

impl From<Duplicates> for splitpoint::dictionary::Duplicates {
    fn from(duplicates: Duplicates) -> Self {
        match duplicates {
            Duplicates::Error => Self::Error,
            Duplicates::First => Self::First,
            Duplicates::Last => Self::Last,
        }
    }
}

impl Build {
    /// The command with default options. `otherwise` is the treatment of duplicate keys if `duplicates` is not given.
    pub fn of(
        inputs: Vec<PathBuf>,
        out: PathBuf,
        source: SourceArgs,
        duplicates: Option<Duplicates>,
        otherwise: Duplicates,
        json: bool,
    ) -> Self {
        Self {
            inputs_and_out: inputs.into_iter().chain([out]).collect(),
            source,
            index: IndexArgs::default(),
            shape: ShapeArgs::default(),
            duplicates,
            otherwise: Some(otherwise),
            hash: HashArgs::default(),
            work: WorkArgs::default(),
            shards: None,
            resume: false,
            json,
        }
    }

    pub fn run(mut self) -> Result<()> {
        self.source.own_rule = self.duplicates.is_none();
        let [inputs @ .., _] = &self.inputs_and_out[..] else { return Err(no_out()) };
        if inputs.is_empty() {
            return Err(no_out());
        }
        let interrupt = Interrupt::watch()?;
        let start = Instant::now();
        let mut inputs = Inputs::look(inputs, &self.source, &interrupt)?;
        inputs.must_be = Types::of(&inputs.types()?);
        let duplicates = self.duplicates(&inputs)?;
        let builder = self.builder(&inputs, duplicates)?;
        let existed = self.out().exists();
        let read = match &inputs.files[..] {
            // A file with lifetimes of a server is read below, where only its keys are taken.
            [InputFile { path, bytes, .. }]
                if self.freezes(&inputs) && !ServedFile::of(&self.source.cache.open_to_read(path)?)?.has_marks() =>
            {
                let (table, others) = (self.source.cache.open_to_read(path)?, databases(path)?.1);
                let bar = bar_of_pairs();
                let frozen = table.freeze(self.out(), &watched(builder, &interrupt, &bar));
                let rows = ended(frozen, &bar, &interrupt, &self.left_nothing())?;
                report_left_out(path, &others, self.out());
                Read { rows, bytes: bytes.unwrap_or(0), ..Read::default() }
            }
            _ => {
                self.sort(builder, duplicates, &mut inputs, &interrupt)?;
                if !existed && inputs.are_stored() {
                    access::share(self.out(), inputs.files.iter().map(|file| file.path.as_path()));
                }
                inputs.read
            }
        };
        Report { path: self.out(), read, start, json: self.json }.report()
    }

    fn out(&self) -> &Path {
        self.inputs_and_out.last().map_or(Path::new(""), |out| out)
    }

    /// Whether a table is frozen: it is the only input, keeps its hash function and goes to one file.
    fn freezes(&self, inputs: &Inputs<'_>) -> bool {
        matches!(inputs.files[..], [InputFile { kind: Some(Kind::Table), .. }])
            && self.hash.hash.is_none()
            && self.hash.seed.is_none()
            && self.shards.is_none()
    }

    /// Decides how to treat duplicate keys.
    fn duplicates(&self, inputs: &Inputs<'_>) -> Result<Duplicates> {
        let server = inputs.files.iter().find(|file| file.kind == Some(Kind::Redis));
        match (self.duplicates, server) {
            (Some(Duplicates::Error), Some(server)) => Err(twice(server)),
            (None, Some(_)) => Ok(Duplicates::Last),
            (chosen, _) => Ok(chosen.or(self.otherwise).unwrap_or(Duplicates::Error)),
        }
    }

    fn builder(&self, inputs: &Inputs<'_>, duplicates: Duplicates) -> Result<DictionaryBuilder> {
        if self.out().as_os_str() == "-" {
            return Err(Failure::usage("a dictionary cannot be written to standard output; give OUT a file name"));
        }
        if self.shards.is_none() && self.out().is_dir() {
            let out = self.out().display();
            return Err(Failure::usage(format_args!(
                "{out}: is a directory; --shards N makes or replaces a dictionary in a directory; otherwise give OUT \
                 another name"
            )));
        }
        require_directory_of(self.out())?;
        let mut builder = DictionaryBuilder::new().duplicates(duplicates.into());
        if !self.freezes(inputs) {
            builder = builder.permissions(access::common(inputs.files.iter().map(|file| file.path.as_path())));
        }
        builder = builder.hash(self.hash.hash.unwrap_or(HashKind::DEFAULT)).seed(self.hash.seed.unwrap_or(0));
        if let Some(index) = self.index.index()? {
            builder = builder.index(index);
        }
        builder = builder.filter(self.index.filter.unwrap_or(0));
        builder = self.work.bound(self.shape.shape(builder)?).types(&inputs.types()?);
        if let Some(count) = self.shards {
            builder = builder.shards(count);
        }
        let places = inputs.places.clone();
        builder = builder.place_names(move |place| places.name(place));
        if self.resume {
            builder = builder.resume(self.identity(inputs, duplicates)?);
        }
        Ok(builder)
    }

    /// Identifies what is sorted: equal for the same pairs sorted the same way. How the file is made from them is not
    /// part of it.
    fn identity(&self, inputs: &Inputs<'_>, duplicates: Duplicates) -> Result<u64> {
        let mut identity = DefaultHasher::new();
        for file in &inputs.files {
            let metadata = file.path.metadata().ok().filter(|metadata| metadata.is_file() || metadata.is_dir());
            let Some(metadata) = metadata else {
                return Err(Failure::usage(format_args!(
                    "--resume reads its inputs again, but {} is not a file; give files",
                    if file.path.as_os_str() == "-" { "standard input".into() } else { file.name() }
                )));
            };
            (&file.path, metadata.len(), metadata.modified().ok()).hash(&mut identity);
            if file.kind == Some(Kind::Table) {
                if ServedFile::of(&self.source.cache.open_to_read(&file.path)?)?.has_marks() {
                    return Err(Failure::usage(format_args!(
                        "{}: a server has kept lifetimes, flags or collections in it, so keys may expire, and --resume \
                         could not find its position again; build without --resume",
                        file.name()
                    )));
                }
                TABLE_SUFFIXES.map(|suffix| file_beside(&file.path, suffix)).hash(&mut identity);
            }
        }
        (self.source.identity(), duplicates).hash(&mut identity);
        (self.hash.hash.map(HashKind::name), self.hash.seed).hash(&mut identity);
        self.shards.hash(&mut identity);
        Ok(identity.finish())
    }

    fn sort(
        &self,
        builder: DictionaryBuilder,
        duplicates: Duplicates,
        inputs: &mut Inputs<'_>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let bar = bar_of_pairs();
        let mut build = watched(builder, interrupt, &bar).start(self.out())?;
        let (resumed, discarded) = (build.resumed_pairs(), build.discarded_pairs());
        if discarded > 0 {
            let pairs = count_of(discarded, "pair");
            say(format_args!(
                "splitpoint: starts over and removes {pairs} saved by a build with other inputs or options"
            ));
        }
        if resumed > 0 {
            say(format_args!("splitpoint: continues after {}", count_of(resumed, "pair")));
        }
        // Otherwise the inputs would be read only to name places in messages about duplicates.
        if build.resumed_all() && (duplicates != Duplicates::Error || inputs.name_unread()) {
            inputs.read.rows = resumed;
            return ended(build.finish(), &bar, interrupt, &self.left_by_writing()).map(|_| ());
        }
        let mut pairs = 0;
        let end = inputs.feed(&mut |pair, place| {
            // Pairs that an earlier build saved are read again and counted, not pushed.
            pairs += 1;
            if pairs <= resumed {
                return Ok(None);
            }
            let taken = accepted(build.push_at(pair.key, pair.value, place))?;
            // A refused pair is a bad row, and not counted again.
            pairs -= u64::from(taken.is_some());
            Ok(taken)
        });
        let end = end.map_err(|failure| match inputs.read.rows {
            0 => failure,
            _ => failure.and(format_args!("So {}", self.left_nothing())),
        })?;
        let rows = count_of(inputs.read.rows, "row");
        match end {
            End::Inputs if pairs < resumed => {
                let (saved, now) = (count_of(resumed, "pair"), count_of(pairs, "pair"));
                return Err(Failure::no(format_args!(
                    "an earlier build saved {saved}, but the inputs now have {now}; {}. Build without --resume, which \
                     removes the saved pairs",
                    self.left_nothing()
                )));
            }
            End::Inputs => {
                let checked = inputs.read.refuse_if_all_bad();
                checked.map_err(|failure| failure.and(format_args!("So {}", self.left_nothing())))?;
            }
            End::Bad(bad) => {
                build.save()?;
                let advice = inputs.advice(&bad);
                return Err(Failure::no(format_args!(
                    "{bad}. Stopped after {rows}, {}{advice}",
                    self.left_by_reading()
                )));
            }
            End::Signal(signal) => {
                build.save()?;
                return Err(Failure::stopped(signal, format_args!("{rows} read, {}", self.left_by_reading())));
            }
        }
        let stored = ended(build.finish(), &bar, interrupt, &self.left_by_writing())?;
        inputs.read.repeated = inputs.read.rows.saturating_sub(stored);
        Ok(())
    }

    fn left_nothing(&self) -> String {
        format!("nothing was built, {} is unchanged", self.out().display())
    }

    /// The message about what is kept if the build ends during reading: the pairs read so far.
    fn left_by_reading(&self) -> String {
        if !self.resume {
            return self.left_nothing();
        }
        format!("{} is unchanged; the same command continues from here", self.out().display())
    }

    /// The message about what is kept if the build ends during writing: the sort saves only what does not fit in
    /// memory.
    fn left_by_writing(&self) -> String {
        if !self.resume {
            return self.left_nothing();
        }
        let out = self.out().display();
        format!(
            "{out} is unchanged; the same command continues from the last checkpoint, if the pairs did not fit in \
             memory"
        )
    }
}

fn no_out() -> Failure {
    Failure::usage("OUT is missing: give the inputs, then the dictionary to build")
}

/// Returns the length and modification time of a table's file with this suffix, if it exists.
fn file_beside(table: &Path, suffix: &str) -> Option<(u64, Option<SystemTime>)> {
    let mut path = table.as_os_str().to_owned();
    path.push(suffix);
    let metadata = Path::new(&path).metadata().ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}
