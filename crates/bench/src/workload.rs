//! Workload files, `workloads/NAME.toml`: inputs, operations, engines and expected answers.
//!
//! A workload has an input; forms (`tiny` for tests, `short`, `full`), each with its sizes and expected answers; and
//! variants, each with its operations and engines. One variant by one engine with one setting is a case, and runs in a
//! process of its own.
//!
//! Not here: the parts of a variant (`loads/`), the sources (`input.rs`, `stream.rs`).

use crate::engine::{Engine, Outcome, Place};
use crate::engines;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A workload file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The file's name without its extension.
    #[serde(skip)]
    pub name: String,
    /// One line about it.
    pub title: String,
    /// The figures and rows that it reproduces.
    #[cfg_attr(not(feature = "report"), expect(dead_code, reason = "the page prints it"))]
    pub answers: Vec<String>,
    /// The input.
    pub input: Input,
    /// The variants.
    pub variant: Vec<Variant>,
    /// Sizes and expected answers by the form's name.
    pub form: BTreeMap<String, Form>,
    /// The tables of its results.
    #[serde(default)]
    pub table: Vec<Table>,
}

/// A table of results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its name in documents.
    pub name: String,
    /// Its kind of lines.
    #[serde(default)]
    pub rows: Rows,
    /// The variant whose engines or cases are the lines; all variants if not given.
    pub variant: Option<String>,
    /// The variant to use instead for results of a form, by the form's name: forms differ in their sizes.
    #[serde(default)]
    pub variant_in: BTreeMap<String, String>,
    /// For lines that are variants: the `engine:setting` to show.
    #[serde(default)]
    pub engines: Vec<String>,
    /// For lines that are variants: variants without a line.
    #[serde(default)]
    pub without_variants: Vec<String>,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// The kind of lines of a table.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rows {
    /// Engines with a setting, best first by the first column.
    #[default]
    Engines,
    /// All cases, or those of a variant, in file order.
    Cases,
    /// Variants, in file order.
    Variants,
}

/// A column of a table: the median of a figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Title.
    pub title: String,
    /// Another variant than the line's.
    pub variant: Option<String>,
    /// The part; several joined by `+` are added.
    pub part: String,
    /// The metric.
    pub metric: String,
}

/// The input.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase", deny_unknown_fields)]
pub enum Input {
    /// Keys and values from a mixer, of fixed sizes.
    Mixed {
        /// Bytes of a key, at least 8.
        key_bytes: usize,
        /// Bytes of a value.
        value_bytes: usize,
        /// A different seed gives different pairs.
        seed: u64,
    },
    /// Words of the dictionary in `data/`, spread over it; values are their numbers from 1.
    Words,
    /// Accounts of a password file, two pairs each: by name and by number.
    Accounts {
        /// A different seed gives different people.
        seed: u64,
    },
    /// Short keys, and values of up to a maximum length, all lengths equally likely.
    Records {
        /// The longest value.
        value_bytes_max: u64,
        /// A different seed gives different values.
        seed: u64,
    },
    /// Keys like URLs, of 111 bytes on average, and values of one size.
    Urls {
        /// Bytes of a value, at least 8.
        value_bytes: u64,
        /// A different seed gives different pairs.
        seed: u64,
    },
    /// Appends of 16 bytes to 8-byte keys.
    Appends {
        /// The distribution of appends over keys.
        keys: KeyChoice,
        /// A different seed gives different keys in a different order.
        seed: u64,
    },
}

/// The distribution of appends over keys.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyChoice {
    /// Each key once, the other appends to any key.
    Uniform,
    /// The r-th key in proportion to r^-exponent. A key is full at 16 KiB, and its rank continues with a fresh key.
    Zipf {
        /// The exponent.
        exponent: f64,
    },
    /// Final values of 1 to 1024 records, with the number of values of n records in proportion to n^-exponent,
    /// shuffled.
    Sizes {
        /// The exponent.
        exponent: f64,
    },
}

/// The operations on an input, and the engines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The location of the store's pairs.
    pub place: Place,
    /// The steps, in order.
    pub parts: Vec<Part>,
    /// `engine`, `engine:setting`, `*` for all suitable engines with all their settings, `-engine` to leave one out.
    pub engines: Vec<String>,
    /// Forms that have it; all by default.
    #[serde(default)]
    pub forms: Vec<String>,
    /// Replaces the form's count, in forms with at least as many.
    pub count: Option<u64>,
    /// Replaces the form's repeats.
    pub repeats: Option<u32>,
    /// The expected answers with that count.
    pub expected: Option<Expected>,
    /// For dictionaries: pairs come from a file that is not in the page cache, instead of from the generator.
    #[serde(default)]
    pub from_file: bool,
    /// Replaces the engines' own settings by every combination of these words and numbers, added to a named setting ...
    #[serde(default)]
    pub grid: BTreeMap<String, Vec<u64>>,
    /// ... and to each of these.
    #[serde(default)]
    pub with: Vec<String>,
}

/// A step. Every answer is compared.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Puts every pair.
    Put,
    /// Syncs to the disk.
    Sync,
    /// Closes and opens again; only the close is timed.
    Reopen,
    /// Looks up every key in another order than that of the puts, and checks the value's length.
    Read,
    /// Looks up every key in the order of `Read`, and compares the value.
    Get,
    /// Get, in the order of the puts.
    GetInOrder,
    /// Get, 256 keys per call; skipped by engines without such a call.
    GetMany,
    /// Looks up as many absent keys.
    Miss,
    /// Miss, 256 keys per call.
    MissMany,
    /// Scans the keys.
    Keys,
    /// Scans the pairs.
    Scan,
    /// Removes a tenth of the pairs.
    RemoveTenth,
    /// Removes every pair.
    Remove,
    /// Closes the store and frees its memory.
    Close,
    /// Appends, one per call.
    Append,
    /// Appends, 256 per call.
    AppendMany,
    /// Appends, one per call, each timed.
    AppendTimed,
    /// Builds a dictionary of all pairs, from generating the first until it is on the disk.
    Build,
    /// The dictionary's properties, above all its index.
    Figures,
    /// Get, by two threads.
    GetByTwo,
    /// Get, after the same lookups in the same open dictionary.
    GetAgain,
    /// Get-many, after the same lookups in the same open dictionary.
    GetManyAgain,
    /// Get, by 16 threads, with an initially cold page cache.
    GetCold,
    /// Get-many, by one thread, with an initially cold page cache.
    GetManyCold,
    /// Get with the dictionary read by `pread` instead of mapped; skipped without that choice, as are the next three.
    GetPread,
    /// Get-many, by `pread`.
    GetManyPread,
    /// Miss, by `pread`.
    MissPread,
    /// Cold get, by `pread`.
    GetColdPread,
    /// The rank of every key; only for functions.
    Ranks,
    /// Merges a tenth as many new pairs into a new dictionary; skipped without updates.
    UpdateTenth,
    /// Copies the file of the update, or the first, and syncs it. Must be last after an update: the first file is
    /// removed.
    Copy,
    /// Six batches of equal size: builds the first, merges the others one after another.
    UpdateBatches,
    /// After each of those batches, builds from scratch.
    RebuildBatches,
}

/// The sizes of a form, and its answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// Pairs put, or keys appended to; for accounts, the accounts.
    pub count: u64,
    /// Appends; ignored for sizes, which determine the number.
    #[serde(default)]
    pub appends: u64,
    /// Windows of timed appends.
    #[serde(default)]
    pub windows: u64,
    /// Lookups per part in a dictionary, of its pairs in shuffled order; the number of pairs if not given.
    pub lookups: Option<u64>,
    /// Lookups per part with a cold page cache; a tenth if not given.
    pub cold_lookups: Option<u64>,
    /// Processes per case, one after another.
    pub rounds: u32,
    /// The number of times that a process runs all parts; it reports the median.
    #[serde(default = "once")]
    pub repeats: u32,
    /// Engines that the form is too large for, unless named on the command line.
    #[serde(default)]
    pub without: Vec<String>,
    /// A process that takes longer is killed and counts as failed.
    #[serde(default = "ten_minutes")]
    pub limit_s: u64,
    /// Free disk that a case needs, at least; with less it is refused before it begins.
    #[serde(default)]
    pub free_disk_bytes: u64,
    /// The expected answers; zeros until `splitpoint-bench answers` has filled them in.
    #[serde(default)]
    pub expected: Expected,
}

fn once() -> u32 {
    1
}

fn ten_minutes() -> u64 {
    600
}

/// The digests of a form's input and of a store that took it, printed by `splitpoint-bench answers`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Expected {
    /// Pairs in the store after the puts or appends.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub payload_bytes: u64,
    /// Digest of the input, in order.
    pub input_digest: String,
    /// Digest of all pairs in the store afterwards.
    pub final_digest: String,
}

/// One variant by one engine with one setting.
#[derive(Clone)]
pub struct Case<'w> {
    /// Its workload.
    pub workload: &'w Workload,
    /// Its operations.
    pub variant: &'w Variant,
    /// Its engine.
    pub engine: &'static dyn Engine,
    /// The engine's setting.
    pub setting: String,
    /// The sizes and expected answers.
    pub form: Form,
}

/// Returns the directory of this package, with the workloads.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a file of the repository, by its path from the root.
pub fn repository_file(path: &str) -> PathBuf {
    package().ancestors().nth(2).unwrap_or(package()).join(path)
}

impl Workload {
    /// Returns the workload of that name.
    pub fn named(name: &str) -> Outcome<Workload> {
        let path = package().join("workloads").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let workload = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Workload { name: name.to_owned(), ..workload })
    }

    /// Returns all workloads, by name.
    pub fn all() -> Outcome<Vec<Workload>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(package().join("workloads"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "toml") {
                names.extend(path.file_stem().and_then(|s| s.to_str()).map(str::to_owned));
            }
        }
        names.sort_unstable();
        names.iter().map(|name| Workload::named(name)).collect()
    }

    /// Returns the named workloads, where `append` selects `append-uniform` and its like; all if the list is empty.
    pub fn chosen(names: &[String]) -> Outcome<Vec<Workload>> {
        let mut all = Workload::all()?;
        let means = |name: &String, workload: &Workload| {
            *name == workload.name || workload.name.starts_with(&format!("{name}-"))
        };
        if let Some(unknown) = names.iter().find(|name| !all.iter().any(|workload| means(name, workload))) {
            return Err(format!("no workload {unknown}; `splitpoint-bench list` shows them all").into());
        }
        all.retain(|workload| names.is_empty() || names.iter().any(|name| means(name, workload)));
        Ok(all)
    }

    /// Returns the form of that name.
    pub fn form(&self, name: &str) -> Outcome<&Form> {
        self.form.get(name).ok_or_else(|| format!("workload {} has no form {name}", self.name).into())
    }

    /// Returns the variant of that name.
    pub fn variant(&self, name: &str) -> Outcome<&Variant> {
        let found = self.variant.iter().find(|variant| variant.name == name);
        found.ok_or_else(|| format!("workload {} has no variant {name}", self.name).into())
    }

    /// Returns every case of a form by these engines; by all engines if the list is empty.
    pub fn cases(&self, form: &str, engines: &[String]) -> Outcome<Vec<Case<'_>>> {
        let mut cases = Vec::new();
        for variant in &self.variant {
            let Some(form) = variant.form(form, self.form(form)?) else { continue };
            for (engine, setting) in variant.runs() {
                let is_left_out = form.without.iter().any(|name| is_named(name, engine, &setting));
                if !is_left_out && engines.is_empty() || engines.iter().any(|name| is_named(name, engine, &setting)) {
                    cases.push(Case { workload: self, variant, engine, setting, form: form.clone() });
                }
            }
        }
        Ok(cases)
    }
}

/// Whether `name`, an engine or `engine:setting`, matches.
fn is_named(name: &str, engine: &dyn Engine, setting: &str) -> bool {
    name.split_once(':').map_or(name == engine.name(), |(e, s)| e == engine.name() && s == setting)
}

impl Variant {
    /// Returns the form of that name with this variant's changes; `None` if the variant does not have it.
    pub fn form(&self, name: &str, form: &Form) -> Option<Form> {
        if !self.forms.is_empty() && !self.forms.iter().any(|own| own == name) || self.count > Some(form.count) {
            return None;
        }
        let mut form = form.clone();
        form.count = self.count.unwrap_or(form.count);
        form.repeats = self.repeats.unwrap_or(form.repeats);
        form.expected = self.expected.clone().unwrap_or(form.expected);
        Some(form)
    }

    /// Returns engines and settings, in file order, without those that this build or an engine does not know.
    fn runs(&self) -> Vec<(&'static dyn Engine, String)> {
        let mut runs: Vec<(&'static dyn Engine, String)> = Vec::new();
        for wanted in &self.engines {
            let (name, setting) = wanted.split_once(':').map_or((&wanted[..], None), |(e, s)| (e, Some(s)));
            let is_meant = |e: &dyn Engine| if name == "*" { !e.is_special() } else { name == e.name() };
            for engine in engines::all().into_iter().filter(|engine| is_meant(*engine)) {
                let settings = match setting {
                    None if self.grid.is_empty() && self.with.is_empty() => engine.settings(self.place),
                    named => self.combinations(named),
                };
                let settings = settings.into_iter().filter(|setting| engine.takes(self.place, setting));
                for setting in settings {
                    if !runs.iter().any(|(e, s)| e.name() == engine.name() && *s == setting) {
                        runs.push((engine, setting));
                    }
                }
            }
        }
        let is_left_out = |engine: &dyn Engine| self.engines.iter().any(|e| e.strip_prefix('-') == Some(engine.name()));
        runs.retain(|(engine, _)| !is_left_out(*engine));
        runs
    }

    /// Returns the named setting with each of `with` and every combination of the grid's numbers.
    fn combinations(&self, named: Option<&str>) -> Vec<String> {
        let mut settings = vec![named.unwrap_or_default().to_owned()];
        let extend = |settings: Vec<String>, words: &[String]| -> Vec<String> {
            let comma = |setting: &str, word: &str| if setting.is_empty() || word.is_empty() { "" } else { "," };
            let each = |setting: &String| -> Vec<String> {
                words.iter().map(|word| format!("{setting}{}{word}", comma(setting, word))).collect()
            };
            settings.iter().flat_map(each).collect()
        };
        if !self.with.is_empty() {
            settings = extend(settings, &self.with);
        }
        for (word, numbers) in &self.grid {
            let words: Vec<String> = numbers.iter().map(|number| format!("{word}={number}")).collect();
            settings = extend(settings, &words);
        }
        settings
    }
}
