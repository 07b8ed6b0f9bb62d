//! The workload whose system calls fail: a sequence of steps. Each prints one line before the next one begins.
//!
//! The workload continues after a failed step: the next one uses the handle as it is, and a later `Open` opens the
//! table again.

use crate::changes::{Change, Pairs, dictionary_pairs};
use crate::look::words;
use crate::workload::{DICTIONARIES, TABLE, apply, builder, publish};
use splitpoint::{Backup, Dictionary, Durability, ErrorKind, Table, TableOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::path::Path;

pub const BACKUP: &str = "backup.spt";
const SEED: u64 = 3;

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    Open,
    Change(Vec<Change>),
    Sync,
    Checkpoint,
    Compact,
    Backup,
    /// Brings the backup up to date.
    Update,
    Close,
    /// Reads and checks everything; the answer is a digest of it.
    Read,
    /// Publishes a dictionary: the number of its name, and the version.
    Publish(usize, usize),
    Words(usize),
}

/// The names of the workloads: a table of each durability, and dictionaries.
pub const SCENARIOS: [&str; 4] = ["sync", "os", "none", "dictionaries"];

pub fn durability(scenario: &str) -> Durability {
    match scenario {
        "sync" => Durability::Sync,
        "none" => Durability::None,
        _ => Durability::Os,
    }
}

pub fn steps(scenario: &str) -> Vec<Step> {
    use Step::{Backup, Checkpoint, Close, Compact, Open, Publish, Read, Sync, Update, Words};
    if scenario == "dictionaries" {
        let versions = |name| [Publish(name, 0), Words(name), Publish(name, 1), Words(name)];
        return versions(0).into_iter().chain(versions(1)).collect();
    }
    let put = |key: &str, len: usize| Change::Put(key.into(), vec![key.len() as u8 + len as u8; len]);
    let append = |key: &str, len: usize| Change::Append(key.into(), vec![7; len]);
    let one = |change: Change| Step::Change(vec![change]);
    let mut steps = vec![Open];
    steps.extend((0..8).map(|i| one(put(&format!("k{i}"), 100 + 40 * i))));
    steps.extend([one(put("big", 20_000)), one(append("big", 3000)), one(append("k1", 50))]);
    steps.push(Step::Change(vec![put("k2", 9), append("k3", 30), put("k20", 400), Change::Remove("k4".into())]));
    steps.extend([one(Change::Remove("k5".into())), Sync, Checkpoint, one(append("big", 100)), one(put("k6", 5))]);
    // More than half a log segment, so that a thread writes checkpoints unasked.
    steps.extend((0..4).map(|i| one(put(&format!("wide{i}"), 30_000))));
    // More than the cache holds, with values at limits of the layout; some are overwritten and removed immediately.
    steps.extend([512, 4096, 16 << 10, 64 << 10, 200_000].map(|len| one(put(&format!("at{len}"), len))));
    steps.extend([one(put("wide0", 50_000)), one(Change::Remove("at65536".into())), one(put("at16384", 60_000))]);
    steps.extend([Backup, one(put("k7", 60)), Compact, one(append("k7", 6)), Update, Read, Close]);
    steps.extend([Open, Read, one(put("k9", 70)), Sync, one(Change::Remove("wide1".into())), Close]);
    steps
}

impl Step {
    /// Applies the step to a table's pairs.
    pub fn apply(&self, pairs: &mut Pairs) {
        if let Step::Change(changes) = self {
            changes.iter().for_each(|change| change.apply(pairs));
        }
    }
}

/// Returns a digest of all pairs.
pub fn digest(pairs: &Pairs) -> u64 {
    let mut hasher = DefaultHasher::new();
    pairs.hash(&mut hasher);
    hasher.finish()
}

pub fn dictionary_digest(version: usize) -> u64 {
    digest(&dictionary_pairs(SEED, version))
}

fn options(durability: Durability) -> TableOptions {
    TableOptions::new().page_bytes(512).cache_bytes(0).log_bytes(1 << 17).durability(durability).seed(1)
}

/// Runs the steps in `folder`; for each prints `ok DIGEST` or `err KIND MESSAGE` and waits for a byte.
pub fn run(folder: &Path, scenario: &str) -> Result<(), String> {
    let mut table = None;
    wait()?;
    for step in steps(scenario) {
        let answer = match do_step(folder, durability(scenario), &step, &mut table) {
            Ok(digest) => format!("ok {digest}"),
            Err((kind, why)) => format!("err {kind} {}", why.replace('\n', " ")),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}").and_then(|()| out.flush()).map_err(|e| e.to_string())?;
        wait()?;
    }
    Ok(())
}

fn wait() -> Result<(), String> {
    std::io::stdin().lock().read_exact(&mut [0]).map_err(|e| e.to_string())
}

type Answer = Result<u64, (String, String)>;

fn failed(e: splitpoint::Error) -> (String, String) {
    (format!("{:?}", e.kind()), e.to_string())
}

fn do_step(folder: &Path, durability: Durability, step: &Step, table: &mut Option<Table>) -> Answer {
    match step {
        Step::Open => {
            *table = None;
            *table = Some(options(durability).open(folder.join(TABLE)).map_err(failed)?);
        }
        Step::Publish(name, version) => {
            // If version 0 failed, there is nothing to update.
            let path = folder.join(DICTIONARIES[*name]);
            if *version == 0 || path.exists() {
                publish(SEED, &path, *name, *version).map_err(failed)?;
            } else {
                builder(*name).build(&path, dictionary_pairs(SEED, *version)).map_err(failed)?;
            }
        }
        Step::Words(name) => {
            let dictionary = Dictionary::open(folder.join(DICTIONARIES[*name])).map_err(failed)?;
            let kind = |why: &str| if why.contains("os error") { "Io" } else { "Wrong" };
            return words(&dictionary).map(|pairs| digest(&pairs)).map_err(|why| (kind(&why).to_owned(), why));
        }
        Step::Close => {
            let table = table.take().ok_or_else(no_table)?;
            table.close().map_err(failed)?;
        }
        _ => {
            let table = table.as_ref().ok_or_else(no_table)?;
            match step {
                Step::Change(changes) => apply(table, changes),
                Step::Sync => table.sync(),
                Step::Checkpoint => table.checkpoint(),
                Step::Compact => table.compact(),
                Step::Backup => Backup::new().save(table, folder.join(BACKUP)),
                Step::Update => Backup::new().update(table, folder.join(BACKUP)),
                _ => return read(table),
            }
            .map_err(failed)?;
        }
    }
    Ok(0)
}

/// Reads a whole table. `verify` reads the file and reports a failing read as a fault. It is skipped on a handle that
/// refuses writes: there it would compare frames with the checksums of a failed checkpoint.
fn read(table: &Table) -> Answer {
    let pairs: Pairs = table.scan().collect::<Result<_, _>>().map_err(failed)?;
    if table.sync().is_err() {
        return Ok(digest(&pairs));
    }
    let faults = table.verify().map_err(failed)?;
    match faults.first().map(ToString::to_string) {
        None => Ok(digest(&pairs)),
        Some(fault) if fault.contains("os error") => Err((format!("{:?}", ErrorKind::Io), fault)),
        Some(fault) => Err(("Wrong".to_owned(), fault)),
    }
}

fn no_table() -> (String, String) {
    (format!("{:?}", ErrorKind::Poisoned), "no table is open".into())
}
