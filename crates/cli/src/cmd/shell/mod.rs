//! `shell`: commands on one table or dictionary, typed or piped in.
//!
//! On a terminal, lines are edited with history and completion (`editor.rs`); otherwise they are read as they come,
//! without a prompt, and a failed one makes the exit status 1. `words.rs` splits a line. Each change is in the file
//! when its command returns.

mod editor;
mod words;

use super::filter::KeyFilter;
use super::store::{Store, Wanted};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::tsv;
use crate::input::{Input, Taken};
use crate::interrupt::Interrupt;
use crate::number::{count_of, size};
use crate::open::{CacheArgs, StoreKind, stored};
use crate::output::Output;
use crate::types;
use editor::Editor;
use splitpoint::Table;
use splitpoint_server::keyspace::ServedFile;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The number of pairs that `list` shows by default.
const LISTED: u64 = 20;

const EXAMPLES: &str = "\
Examples:
  splitpoint shell users.spt
  printf 'put alice admin\\nget alice\\n' | splitpoint shell users.spt

Commands: get KEY...  put KEY VALUE  append KEY VALUE  del KEY...  exists KEY...
rename OLD NEW  count  list [N]  more  stat  check  sync  help  quit
Also: scan for list, and the names of gdbmtool: fetch, store, delete, status.
Words in quotes may hold spaces; \\t \\n \\r \\\\ \\xHH are escapes.";

/// Type commands for one table or dictionary, with history and completion
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Shell {
    /// The table or dictionary; a missing table is created with the first pair
    file: PathBuf,
    /// Change nothing, so that another process may write
    #[arg(long, short)]
    read_only: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl Shell {
    pub fn run(self) -> Result<()> {
        let mut session = Session::open(&self.file, self.cache, self.read_only)?;
        if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            session.typed()?;
        } else {
            session.piped()?;
        }
        session.close()
    }
}

struct Session<'s> {
    file: &'s Path,
    cache: CacheArgs,
    /// `None` before the first pair of a table that does not exist yet.
    store: Option<Store>,
    read_only: bool,
    /// The position where `more` continues.
    cursor: Option<u64>,
    failed: bool,
    /// Watched while commands are piped in.
    interrupt: Option<Rc<Interrupt>>,
}

enum Next {
    Command,
    Quit,
}

/// A command: its names, of which help shows the first; its arguments; its description.
type Help = (&'static [&'static str], &'static str, &'static str);

const HELP: &[Help] = &[
    (&["get", "fetch"], "KEY...", "print values"),
    (&["put", "store"], "KEY VALUE", "store a value, replacing any earlier one"),
    (&["append"], "KEY VALUE", "add to the end of a value"),
    (&["del", "delete", "rm"], "KEY...", "delete keys and their values"),
    (&["exists"], "KEY...", "say which keys are present"),
    (&["rename"], "OLD NEW", "move a value to another key"),
    (&["count"], "", "print the number of pairs"),
    (&["list", "scan"], "[N]", "print the first 20 or N pairs, in hash order"),
    (&["more"], "[N]", "print the next ones"),
    (&["stat", "status"], "", "describe the file"),
    (&["check"], "", "read every page and name every fault"),
    (&["sync"], "", "make every change durable now"),
    (&["help", "?"], "", "print this list"),
    (&["quit", "exit"], "", "leave; so does Ctrl-D"),
];

impl<'s> Session<'s> {
    fn open(file: &'s Path, cache: CacheArgs, read_only: bool) -> Result<Self> {
        let store = match (file.exists(), read_only) {
            (false, false) => None,
            (_, true) => Some(Store::open(file, cache.into())?),
            (true, false) if stored(file).is_ok_and(|kind| kind == Some(StoreKind::Dictionary)) => {
                Some(Store::open(file, cache.into())?)
            }
            (true, false) => Some(Store::Table(Box::new(cache.open_or_create(file)?))),
        };
        Ok(Self { file, cache, store, read_only, cursor: None, failed: false, interrupt: None })
    }

    fn close(self) -> Result<()> {
        if let Some(Store::Table(table)) = self.store
            && !self.read_only
        {
            table.close()?;
        }
        if self.failed { Err(Failure::no_already_printed()) } else { Ok(()) }
    }

    /// Reads lines from a terminal. If the reader of our output has closed it, the session ends.
    fn typed(&mut self) -> Result<()> {
        let mut editor = Editor::new(HELP.iter().flat_map(|(names, ..)| names.iter().copied()))?;
        let what = match &self.store {
            Some(store @ Store::Table(_)) => format!("table, {}", count_of(store.len(), "pair")),
            Some(store) => format!("dictionary, {}, read only", count_of(store.len(), "pair")),
            None => "new table".to_owned(),
        };
        Output::stdout().line(&format!("{}: {what}. `help` lists the commands.", self.file.display()))?;
        while let Some(line) = editor.line()? {
            match self.execute(&line) {
                Ok(Next::Quit) => break,
                Ok(Next::Command) => editor.remember_words(&line),
                // A mistake at the terminal is not a failure of the session.
                Err(failure) => drop(failure.report()),
            }
        }
        editor.save()
    }

    fn piped(&mut self) -> Result<()> {
        let interrupt = Rc::new(Interrupt::watch()?);
        self.interrupt = Some(interrupt.clone());
        let mut input = Input::open(Path::new("-"), true, &interrupt)?;
        let mut number: u64 = 0;
        loop {
            interrupt.stop_if_caught("commands before are done")?;
            number += 1;
            let line = match input.line()? {
                Taken::Bytes(range) => String::from_utf8(input.bytes(range).to_vec()),
                Taken::Interrupted => continue,
                Taken::TooLong => return Err(Failure::usage(format_args!("stdin:{number}: the command is too long"))),
                Taken::Short(_) | Taken::End => return Ok(()),
            };
            let done = match line {
                Ok(line) => self.execute(&line),
                Err(_) => Err(Failure::usage("the command is not UTF-8; \\xHH writes any byte")),
            };
            match done {
                Ok(Next::Quit) => return Ok(()),
                Ok(Next::Command) => {}
                // The commands that follow may change the table.
                Err(failure) if failure.is_end_of_output() => {}
                Err(failure) => {
                    self.failed = true;
                    failure.at(format_args!("stdin:{number}")).report();
                }
            }
        }
    }

    fn execute(&mut self, line: &str) -> Result<Next> {
        let words = words::split(line).map_err(Failure::usage)?;
        let Some((name, arguments)) = words.split_first() else { return Ok(Next::Command) };
        let name = String::from_utf8_lossy(name);
        if name.starts_with('#') {
            return Ok(Next::Command);
        }
        let Some((names, usage, _)) = HELP.iter().find(|(names, ..)| names.contains(&&*name)) else {
            let name = escapes::quoted(name.as_bytes());
            return Err(Failure::usage(format_args!("there is no command {name}; `help` lists them")));
        };
        let wrong = || Err(Failure::usage(format_args!("it is `{} {usage}`", names[0])));
        let mut out = Output::stdout();
        match (names[0], arguments) {
            ("get", [_, ..]) => self.get(arguments, &mut out)?,
            ("put", [key, value]) => {
                let table = self.table()?;
                types::check_pair(table, key, value)?;
                ServedFile::of(table)?.put(key, value)?;
            }
            ("append", [key, value]) => {
                let table = self.table()?;
                types::check_tail(table, key, value)?;
                ServedFile::of(table)?.append(key, value)?;
            }
            ("del", [_, ..]) => self.delete(arguments)?,
            ("exists", [_, ..]) => self.exists(arguments, &mut out)?,
            ("rename", [old, new]) => self.rename(old, new)?,
            ("count", []) => out.line(&self.store.as_ref().map_or(Ok(0), Store::count_keys)?.to_string())?,
            ("list" | "more", [] | [_]) => {
                let Some(limit) = count_in(arguments) else { return wrong() };
                let from = if names[0] == "list" { Some(0) } else { self.cursor };
                self.list(from, limit, &mut out)?;
            }
            ("stat", []) => self.stat(&mut out)?,
            ("check", []) => self.check(&mut out)?,
            ("sync", []) => self.table()?.sync()?,
            ("help", []) => {
                for (names, usage, what) in HELP {
                    out.line(&format!("{:<22} {what}", format!("{} {usage}", names[0])))?;
                }
            }
            ("quit", []) => return Ok(Next::Quit),
            _ => return wrong(),
        }
        out.flush()?;
        Ok(Next::Command)
    }

    /// Returns the table to change, created if missing.
    fn table(&mut self) -> Result<&Table> {
        let file = self.file.display();
        if self.read_only {
            return Err(Failure::usage(format_args!("{file}: was opened with --read-only")));
        }
        if self.store.is_none() {
            self.store = Some(Store::Table(Box::new(self.cache.open_or_create(self.file)?)));
        }
        match &self.store {
            Some(Store::Table(table)) => Ok(table),
            _ => Err(Failure::usage(format_args!(
                "{file}: is a dictionary, which changes in batches: `splitpoint dict update`"
            ))),
        }
    }

    fn get(&self, keys: &[Vec<u8>], out: &mut Output) -> Result<()> {
        let mut value = Vec::new();
        let mut row = Vec::new();
        for key in keys {
            if !self.store.as_ref().map_or(Ok(false), |store| store.get_into(key, &mut value))? {
                // An absent key is more important to report than a failure to print the values before it.
                let _ = out.flush();
                return Err(self.absent(key));
            }
            row.clear();
            escapes::escape(&value, &mut row);
            row.push(b'\n');
            out.write(&row)?;
        }
        Ok(())
    }

    fn absent(&self, key: &[u8]) -> Failure {
        // Escapes are undone in every line.
        super::key_absent(self.file, key, |_| Ok(false)).map_or_else(|failure| failure, Failure::no)
    }

    fn delete(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        for key in keys {
            if !ServedFile::of(self.table()?)?.remove(key)? {
                return Err(self.absent(key));
            }
        }
        Ok(())
    }

    fn exists(&self, keys: &[Vec<u8>], out: &mut Output) -> Result<()> {
        for key in keys {
            let is = self.store.as_ref().map_or(Ok(false), |store| store.contains(key))?;
            out.line(&format!("{}: {}", escapes::quoted(key), if is { "yes" } else { "no" }))?;
        }
        Ok(())
    }

    fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<()> {
        let table = self.table()?;
        types::check_key(table, new)?;
        let (file, mut value) = (ServedFile::of(table)?, Vec::new());
        if !file.get_into(old, &mut value)? {
            return Err(self.absent(old));
        }
        if file.contains(new)? {
            return Err(Failure::no(format_args!("the key {} exists; delete it first", escapes::quoted(new))));
        }
        Ok(file.rename(old, new, &value)?)
    }

    fn list(&mut self, from: Option<u64>, limit: u64, out: &mut Output) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let Some(cursor) = from else { return Err(Failure::no("there are no more pairs; `list` begins again")) };
        let caught = || self.interrupt.as_ref().and_then(|interrupt| interrupt.caught());
        let wanted = Wanted { cursor, filter: &KeyFilter::default(), limit, caught: &caught };
        let mut row = Vec::new();
        (self.cursor, _) = store.scan(&wanted, &mut |pair| {
            row.clear();
            tsv::write(pair, &mut row);
            out.write(&row)
        })?;
        Ok(())
    }

    fn stat(&self, out: &mut Output) -> Result<()> {
        let pairs = count_of(self.store.as_ref().map_or(0, Store::len), "pair");
        let bytes = match &self.store {
            None => 0,
            Some(Store::Table(table)) => table.counters().file_bytes,
            Some(Store::Dictionary(dictionary)) => dictionary.stat()?.file_bytes,
        };
        let bytes = size(bytes);
        let kind = match &self.store {
            None => "new table".to_owned(),
            Some(Store::Table(table)) => {
                format!("table, hash {}", table.hash_function().name())
            }
            Some(Store::Dictionary(dictionary)) => format!("dictionary, index {}", dictionary.stat()?.index),
        };
        out.line(&format!("{}: {kind}, {pairs}, {bytes}", self.file.display()))
    }

    fn check(&self, out: &mut Output) -> Result<()> {
        let faults = match &self.store {
            None => Vec::new(),
            Some(Store::Table(table)) => table.verify()?,
            Some(Store::Dictionary(dictionary)) => dictionary.verify()?,
        };
        for fault in &faults {
            out.line(&format!("{}: {}", fault.place, fault.what))?;
        }
        if !faults.is_empty() {
            return Err(Failure::no(format_args!(
                "{}: {}",
                self.file.display(),
                count_of(faults.len() as u64, "fault")
            )));
        }
        out.line("ok")
    }
}

/// Returns the number in the arguments of `list` and `more`.
fn count_in(arguments: &[Vec<u8>]) -> Option<u64> {
    match arguments {
        [] => Some(LISTED),
        [count] => std::str::from_utf8(count).ok()?.parse().ok(),
        _ => None,
    }
}
