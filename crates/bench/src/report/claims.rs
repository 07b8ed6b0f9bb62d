//! The table of README.md: what Splitpoint claims against its peers, wins and losses, at its default settings.
//!
//! Each claim is a cell of a committed table: our line with default durability or default index, the best peer in the
//! same column, their ratio, and the command that repeats the measurement. All figures are of one machine. A figure
//! measured while other work ran, or only at another durability, is not claimed.

use super::seeds::{best, of_workload, ratio};
use super::shown::Shown;
use super::{figures, outside};
use crate::engine::Outcome;
use crate::results::Results;
use crate::workload::Workload;
use std::path::Path;

struct Claim {
    what: &'static str,
    /// The table of a workload, and the form of its results; or the comparison of stores with transactions.
    source: Source,
    column: &'static str,
    /// Our line.
    ours: &'static str,
}

enum Source {
    Table(&'static str, &'static str),
    Transactions,
}

const PAIRS: Source = Source::Table("pairs", "full");
const SMALL: Source = Source::Table("small", "full");

const CLAIMS: &[Claim] = &[
    Claim { what: "10 million pairs, file: put/s", source: PAIRS, column: "put/s", ours: "splitpoint, os" },
    Claim { what: "the same: get/s", source: PAIRS, column: "get/s", ours: "splitpoint, os" },
    Claim { what: "the same: memory", source: PAIRS, column: "memory", ours: "splitpoint, os" },
    Claim { what: "10 million pairs, memory: get/s", source: SMALL, column: "get/s", ours: "splitpoint" },
    Claim { what: "the same: peak memory", source: SMALL, column: "peak", ours: "splitpoint" },
    Claim {
        what: "appends, memory: append/s",
        source: Source::Table("append-uniform", "eighth"),
        column: "append/s",
        ours: "splitpoint",
    },
    Claim {
        what: "dictionary, 20 million small items: get/s",
        source: Source::Table("dictionary-small", "full"),
        column: "get/s",
        ours: "splitpoint, page",
    },
    Claim {
        what: "durable puts, one thread: put/s",
        source: Source::Transactions,
        column: "durable, 1 pair/s",
        ours: "splitpoint",
    },
];

/// Returns the table in Markdown; `None` without results.
pub fn table(workloads: &[Workload], results: &Path) -> Outcome<Option<String>> {
    let mut text =
        String::from("| | best peer | Splitpoint | ratio | `splitpoint-bench` |\n|---|---:|---:|---:|---|\n");
    let mut machines = Vec::new();
    for claim in CLAIMS {
        let Some((shown, command, machine)) = claim.source.read(workloads, results)? else { return Ok(None) };
        let line = claim.line(&shown).ok_or_else(|| format!("{}: no figures in {}", claim.what, claim.column))?;
        text += &format!("| {} | {line} | `{command}` |\n", claim.what);
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    let [machine] = &machines[..] else { return Err(format!("claims of several machines: {machines:?}").into()) };
    Ok(Some(format!("{text}\n{machine}; dates and commits: `results/`.")))
}

impl Claim {
    fn line(&self, shown: &Shown) -> Option<String> {
        let ours = best(shown, self.column, |line| line.name == self.ours)?;
        let peer = best(shown, self.column, |line| !line.is_ours)?;
        Some(format!("{}, {} | {} | {:.2}x", peer.1, peer.0, ours.1, ratio(&ours, &peer)))
    }
}

impl Source {
    /// Returns the table, the command that makes it, and the machine.
    fn read(&self, workloads: &[Workload], results: &Path) -> Outcome<Option<(Shown, String, String)>> {
        let (name, form) = match self {
            Source::Table(name, form) => (name, form),
            Source::Transactions => {
                let Some(shown) = outside::transactions(&results.join(super::seeds::FORM))? else { return Ok(None) };
                let facts = super::seeds::facts(results)?;
                let machine = facts.into_iter().find(|(name, _)| name == "cpu").map_or_else(String::new, |fact| fact.1);
                return Ok(Some((shown, "transactions".into(), machine)));
            }
        };
        let folder = results.join(form);
        let Some(shown) = of_workload(workloads, &folder, name, form)? else { return Ok(None) };
        let found = workloads.iter().find_map(|w| w.table.iter().find(|t| t.name == *name).map(|table| (w, table)));
        let (workload, table) = found.ok_or_else(|| format!("no workload has a table {name}"))?;
        let results = Results::read(&folder.join(format!("{}.csv", workload.name)))?;
        let variant = figures(table, &results, form).next().map_or("", |figure| &figure.variant[..]);
        let machine = results.fact_of(variant, "cpu").to_owned();
        Ok(Some((shown, format!("run --form {form} --workload {}", workload.name), machine)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::shown::Shot;

    #[test]
    fn a_loss_is_shown_like_a_win_and_other_settings_of_ours_count_nowhere() {
        let line = |name: &str, is_ours, value: f64| Shot {
            name: name.into(),
            is_ours,
            cells: vec![(format!("{value}"), Some(value)), (format!("{value} s"), Some(value))],
        };
        let shown = Shown {
            titles: vec!["put/s".into(), "create".into()],
            lines: vec![
                line("splitpoint, none", true, 9.0),
                line("splitpoint, os", true, 2.0),
                line("lmdb", false, 4.0),
                line("xfer", false, 99.0),
            ],
            ..Shown::default()
        };
        let claim = |column| Claim { what: "", source: PAIRS, column, ours: "splitpoint, os" };
        assert_eq!(claim("put/s").line(&shown).as_deref(), Some("4, lmdb | 2 | 0.50x"));
        assert_eq!(claim("create").line(&shown).as_deref(), Some("4 s, lmdb | 2 s | 2.00x"));
        assert_eq!(claim("absent").line(&shown), None);
    }
}
