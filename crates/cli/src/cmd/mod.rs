//! The commands, one file each, and what they share: an argument as bytes, the message about an absent key, the check
//! that an output is not a file that is read. `keys.rs` reads many keys from arguments, `store.rs` opens either a table
//! or a dictionary.

mod append;
mod backup;
mod check;
mod compact;
mod count;
mod del;
pub mod dict;
mod dictionary;
mod dictionary_stat;
mod diff;
mod dump;
mod exists;
mod filter;
mod freeze;
mod get;
mod keys;
#[cfg(feature = "lab")]
mod lab;
mod load;
mod manual;
mod merge;
mod put;
mod rename;
mod restore;
mod salvage;
mod scan;
mod serve;
mod shell;
mod stat;
mod store;
mod thaw;
mod typed_copy;
mod watch;
mod write_tree;

use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::Format;
use crate::number::count_of;
use splitpoint::OutputFile;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The suffixes of a table's files: its own and its logs (docs/format.md).
pub const TABLE_SUFFIXES: [&str; 9] = ["", "-log0", "-log1", "-log2", "-log3", "-log4", "-log5", "-log6", "-log7"];

/// In the order in which users encounter them.
#[derive(clap::Subcommand)]
pub enum Command {
    Load(load::Load),
    Dump(dump::Dump),
    Get(get::Get),
    Put(put::Put),
    Append(append::Append),
    Del(del::Del),
    Exists(exists::Exists),
    Rename(rename::Rename),
    Count(count::Count),
    Scan(scan::Scan),
    Shell(shell::Shell),
    Diff(diff::Diff),
    Merge(merge::Merge),
    Stat(stat::Stat),
    Check(check::Check),
    Compact(compact::Compact),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Freeze(freeze::Freeze),
    Thaw(thaw::Thaw),
    Dict(dict::Dict),
    Serve(Box<serve::Serve>),
    #[cfg(feature = "lab")]
    Lab(lab::Lab),
    /// Study hash functions and tables, in a build that has the commands
    #[cfg(not(feature = "lab"))]
    #[command(hide = true, disable_help_flag = true)]
    Lab {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        _arguments: Vec<std::ffi::OsString>,
    },
    Completions(manual::Completions),
    Man(manual::ManPages),
}

impl Command {
    /// `program` is the declaration of all commands, for those that print it.
    pub fn run(self, program: fn() -> clap::Command) -> Result<()> {
        match self {
            Self::Load(load) => load.run(),
            Self::Dump(dump) => dump.run(),
            Self::Get(get) => get.run(),
            Self::Put(put) => put.run(),
            Self::Append(append) => append.run(),
            Self::Del(del) => del.run(),
            Self::Exists(exists) => exists.run(),
            Self::Rename(rename) => rename.run(),
            Self::Count(count) => count.run(),
            Self::Scan(scan) => scan.run(),
            Self::Shell(shell) => shell.run(),
            Self::Diff(diff) => diff.run(),
            Self::Merge(merge) => merge.run(),
            Self::Stat(stat) => stat.run(),
            Self::Check(check) => check.run(),
            Self::Compact(compact) => compact.run(),
            Self::Backup(backup) => backup.run(),
            Self::Restore(restore) => restore.run(),
            Self::Freeze(freeze) => freeze.run(),
            Self::Thaw(thaw) => thaw.run(),
            Self::Dict(dict) => dict.run(),
            Self::Serve(serve) => serve.run(),
            #[cfg(feature = "lab")]
            Self::Lab(lab) => lab.run(),
            #[cfg(not(feature = "lab"))]
            Self::Lab { .. } => {
                Err(Failure::usage("this program was built without the lab; rebuild it with `--features lab`"))
            }
            Self::Completions(completions) => completions.run(program()),
            Self::Man(pages) => pages.run(program()),
        }
    }
}

/// Identifies the files of a table or dictionary by device and inode: the file and its logs, or the files of the
/// directory.
fn own_files(file: &Path) -> Vec<(u64, u64)> {
    // A table's logs are beside the file that a symbolic link leads to.
    let file = OutputFile::target(file).unwrap_or_else(|_| file.to_owned());
    let with_logs = TABLE_SUFFIXES.into_iter().map(|suffix| {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        PathBuf::from(path)
    });
    let in_directory = fs::read_dir(&file).into_iter().flatten().flatten().map(|entry| entry.path());
    with_logs.chain(in_directory).filter_map(|path| identity(&path)).collect()
}

/// Describes the output that a signal has cut short.
fn stopped(rows: u64, format: Format) -> String {
    let rows = count_of(rows, "row");
    match format {
        Format::Tsv | Format::Csv | Format::Jsonl | Format::Raw | Format::Lines => {
            format!("{rows} written, all complete")
        }
        _ => format!("{rows} written, without the end that {} has", format.name()),
    }
}

/// Refuses an output that would replace one of the files `own`, which the command reads.
fn refuse_own(own: &[(u64, u64)], output: &Path) -> Result<()> {
    match identity(output) {
        Some(found) if own.contains(&found) => {
            let output = output.display();
            Err(Failure::usage(format_args!("{output}: is a file that this command reads; choose another path")))
        }
        _ => Ok(()),
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns the bytes of an argument, with its escapes undone if asked for.
fn argument_bytes(argument: &OsStr, escaped: bool) -> Result<Vec<u8>> {
    let bytes = argument.as_bytes();
    if !escaped {
        return Ok(bytes.to_vec());
    }
    let mut unescaped = Vec::new();
    escapes::unescape(bytes, &mut unescaped)
        .map_err(|what| Failure::usage(format_args!("argument {}: {what}", escapes::quoted(bytes))))?;
    Ok(unescaped)
}

/// The message about an absent key. `is_there` looks for the key that it would be with --escaped, since `scan` and
/// `dump` write keys escaped.
fn key_absent(path: &Path, key: &[u8], is_there: impl FnOnce(&[u8]) -> Result<bool>) -> Result<String> {
    let mut unescaped = Vec::new();
    let has_escapes = escapes::unescape(key, &mut unescaped).is_ok() && unescaped != key;
    let advice = if has_escapes && is_there(&unescaped)? {
        format!("; with --escaped it is {}, which is there", escapes::quoted(&unescaped))
    } else {
        String::new()
    };
    Ok(format!("{}: no key {}{advice}", path.display(), escapes::quoted(key)))
}
