//! Lines from a terminal, with history and completion, by rustyline.
//!
//! The history is `splitpoint/history` in `$XDG_STATE_HOME` or `~/.local/state`; where that cannot be written there is
//! none. First words complete to commands, later ones to words of this session: keys of a hash table have no order in
//! which to look for a prefix.

use crate::failure::{Failure, Result};
use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

const HISTORY_LINES: usize = 1000;
/// The most words of this session kept for completion.
const WORDS_MAX: usize = 10_000;

pub struct Editor {
    lines: rustyline::Editor<Words, FileHistory>,
    history: Option<PathBuf>,
}

impl Editor {
    pub fn new(commands: impl Iterator<Item = &'static str>) -> Result<Self> {
        let mut lines = rustyline::Editor::new().map_err(failed)?;
        lines.set_max_history_size(HISTORY_LINES).map_err(failed)?;
        lines.set_helper(Some(Words { commands: commands.collect(), seen: BTreeSet::new() }));
        let history = history_path();
        if let Some(path) = &history {
            // Absent the first time.
            let _ = lines.load_history(path);
        }
        Ok(Self { lines, history })
    }

    /// Reads the next line; `None` after Ctrl-D. Ctrl-C cancels a line.
    pub fn line(&mut self) -> Result<Option<String>> {
        loop {
            match self.lines.readline("> ") {
                Ok(line) => {
                    let _ = self.lines.add_history_entry(&line);
                    return Ok(Some(line));
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Completes to the words of `line` from now on.
    pub fn remember_words(&mut self, line: &str) {
        if let Some(words) = self.lines.helper_mut()
            && words.seen.len() < WORDS_MAX
        {
            words.seen.extend(line.split_whitespace().skip(1).map(str::to_owned));
        }
    }

    pub fn save(&mut self) -> Result<()> {
        if let Some(path) = &self.history {
            // It is not a failure if the history cannot be saved.
            let _ = path.parent().map(std::fs::create_dir_all);
            let _ = self.lines.save_history(path);
        }
        Ok(())
    }
}

fn history_path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("splitpoint/history"))
}

fn failed(error: ReadlineError) -> Failure {
    let error = match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    };
    Failure::io("the terminal", &error)
}

/// The completions of a word.
struct Words {
    commands: Vec<&'static str>,
    seen: BTreeSet<String>,
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..position];
        let start = before.rfind(' ').map_or(0, |space| space + 1);
        let prefix = &before[start..];
        let found = if before[..start].trim().is_empty() {
            self.commands.iter().filter(|name| name.starts_with(prefix)).map(|name| (*name).to_owned()).collect()
        } else {
            let from = self.seen.range(prefix.to_owned()..);
            from.take_while(|word| word.starts_with(prefix)).cloned().collect()
        };
        Ok((start, found))
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}
