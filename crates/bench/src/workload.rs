//! Workload files, `workloads/NAME.toml`: what is put in, what is done, by whom, and what has to come out.
//!
//! Each has an input; forms of it (`tiny` for tests, `short`, `full`), each with its sizes and the answers that are
//! expected; and variants, which say what is done with it and which engines do it. A run of one variant by one engine with
//! one setting is a case, and gets a process of its own.
//!
//! Not here: what the parts of a variant do (`loads/`), what the sources make (`input.rs`, `stream.rs`).

use crate::engine::{Engine, Outcome, Place};
use crate::engines;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A workload file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The file's name without its end.
    #[serde(skip)]
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// Which figures and rows it answers.
    #[cfg_attr(not(feature = "report"), expect(dead_code, reason = "the page tells it"))]
    pub answers: Vec<String>,
    /// What is put in.
    pub input: Input,
    /// What is done.
    pub variant: Vec<Variant>,
    /// Sizes and expected answers by the form's name.
    pub form: BTreeMap<String, Form>,
    /// What is told of the results.
    #[serde(default)]
    pub table: Vec<Table>,
}

/// A table of results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What documents call it.
    pub name: String,
    /// What its lines are.
    #[serde(default)]
    pub rows: Rows,
    /// The variant whose engines or cases are the lines; all variants if not given.
    pub variant: Option<String>,
    /// The variant to use instead in results of some form, by the form's name: forms differ in their sizes.
    #[serde(default)]
    pub variant_in: BTreeMap<String, String>,
    /// Of lines that are variants: by which `engine:setting`.
    #[serde(default)]
    pub engines: Vec<String>,
    /// Of lines that are variants: those that have no line.
    #[serde(default)]
    pub without_variants: Vec<String>,
    /// Of lines that are variants with a count: one more for so many, on the straight line that fits them best.
    pub extrapolate_to: Option<u64>,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// What the lines of a table are.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rows {
    /// Engines with a setting, the best by the first column first.
    #[default]
    Engines,
    /// All cases, or those of a variant, in their order.
    Cases,
    /// Variants, in their order.
    Variants,
}

/// A column of a table: the median of a figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Above it.
    pub title: String,
    /// Of another variant than the line's.
    pub variant: Option<String>,
    /// The part; of several between `+`, the sum.
    pub part: String,
    /// The metric.
    pub metric: String,
}

/// What is put in.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase", deny_unknown_fields)]
pub enum Input {
    /// Keys and values from a mixer, of fixed sizes.
    Mixed {
        /// Bytes of a key, 8 at least.
        key_bytes: usize,
        /// Bytes of a value.
        value_bytes: usize,
        /// Another seed, other pairs.
        seed: u64,
    },
    /// Words of the dictionary in `data/`, spread over it; values are their numbers from 1.
    Words,
    /// Accounts of a password file, two pairs each: by name and by number.
    Accounts {
        /// Another seed, other people.
        seed: u64,
    },
    /// Short keys and values of up to so many bytes, all lengths alike often.
    Records {
        /// The longest value.
        value_bytes_max: u64,
        /// Another seed, other values.
        seed: u64,
    },
    /// Keys like URLs, of 111 bytes on average, and values of one size.
    Urls {
        /// Bytes of a value, 8 at least.
        value_bytes: u64,
        /// Another seed, other pairs.
        seed: u64,
    },
    /// Appends of 16 bytes to keys of 8.
    Appends {
        /// Which key is appended to how often.
        keys: KeyChoice,
        /// Another seed, other keys in another order.
        seed: u64,
    },
}

/// Which key is appended to how often.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyChoice {
    /// Each key once, and the other appends to any.
    Uniform,
    /// The r-th key in proportion to r^-exponent. One that has 16 KiB is full, and its rank goes on with a fresh key.
    Zipf {
        /// The exponent.
        exponent: f64,
    },
    /// Final values of 1 to 1024 records, so many of n in proportion to n^-exponent, appended in shuffled order.
    Sizes {
        /// The exponent.
        exponent: f64,
    },
}

/// What is done with the input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Where the store keeps its pairs.
    pub place: Place,
    /// The steps, in order.
    pub parts: Vec<Part>,
    /// `engine`, `engine:setting`, `*` for all that can with all their settings, `-engine` for one that is left out.
    pub engines: Vec<String>,
    /// Forms that have it; all if none is named.
    #[serde(default)]
    pub forms: Vec<String>,
    /// Instead of the form's count, in forms that have at least as many.
    pub count: Option<u64>,
    /// Instead of the form's repeats.
    pub repeats: Option<u32>,
    /// What comes out with that count.
    pub expected: Option<Expected>,
    /// Of dictionaries: their pairs come from a file that is not in the system's cache, instead of from the generator.
    #[serde(default)]
    pub from_file: bool,
    /// Instead of the engines' own settings: every combination of these words' numbers, added to a setting that is named ...
    #[serde(default)]
    pub grid: BTreeMap<String, Vec<u64>>,
    /// ... each with every one of these.
    #[serde(default)]
    pub with: Vec<String>,
}

/// A step. Where answers come, each is compared.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Every pair in.
    Put,
    /// Onto the disk.
    Sync,
    /// Closed and opened again, untimed but for the closing.
    Reopen,
    /// Every key looked up, in another order than that of the puts; the value's length looked at.
    Read,
    /// The same with the value compared.
    Get,
    /// In the order of the puts.
    GetInOrder,
    /// As get, 256 keys a call; left out by engines that have no such call.
    GetMany,
    /// As many keys that are absent.
    Miss,
    /// The same, 256 keys a call.
    MissMany,
    /// A scan of the keys.
    Keys,
    /// A scan of the pairs.
    Scan,
    /// A tenth of the pairs out.
    RemoveTenth,
    /// Every pair out.
    Remove,
    /// The store closed, and what it had in memory given back.
    Close,
    /// Appends, one a call.
    Append,
    /// Appends, 256 a call.
    AppendMany,
    /// Appends one a call, each timed by itself.
    AppendTimed,
    /// A dictionary of all pairs, from making the first of them until it is on the disk.
    Build,
    /// What the dictionary says of itself, its index above all.
    Figures,
    /// As get, by two threads.
    GetByTwo,
    /// As get, get-many, miss and get-by-two, the dictionary mapped; left out where that is no choice.
    GetMapped,
    /// See `GetMapped`.
    GetManyMapped,
    /// See `GetMapped`.
    MissMapped,
    /// See `GetMapped`.
    GetMappedByTwo,
    /// As get, by 16 threads, nothing of the dictionary in the system's cache at first.
    GetCold,
    /// The same, mapped.
    GetColdMapped,
    /// The rank of every key; for functions alone.
    Ranks,
    /// A tenth as many new pairs merged into a new dictionary; left out where there are no updates.
    UpdateTenth,
    /// That file, or the first, read and written again, to the disk. After an update the last part: the first is removed.
    Copy,
    /// Six batches of equal size: the first built, the others merged one after another.
    UpdateBatches,
    /// The same pairs, after each batch built from scratch.
    RebuildBatches,
}

/// Sizes of a form, and its answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// Pairs put in, or keys that are appended to; of accounts, the accounts.
    pub count: u64,
    /// Appends; of sizes, as many as they come to.
    #[serde(default)]
    pub appends: u64,
    /// Windows that the appends are timed in.
    #[serde(default)]
    pub windows: u64,
    /// Lookups of a part in a dictionary, of its pairs in shuffled order; as many as pairs if not given.
    pub lookups: Option<u64>,
    /// The same where the system's cache is empty; a tenth if not given.
    pub cold_lookups: Option<u64>,
    /// Processes a case is run in, one after the other.
    pub rounds: u32,
    /// How often a process does all parts; what it tells is the median.
    #[serde(default = "once")]
    pub repeats: u32,
    /// Engines that it is too large for, unless they are asked for by name.
    #[serde(default)]
    pub without: Vec<String>,
    /// A process that takes longer is ended, and counts as failed.
    #[serde(default = "ten_minutes")]
    pub limit_s: u64,
    /// What has to come out; zeros while a new file waits for `splitpoint-bench answers`.
    #[serde(default)]
    pub expected: Expected,
}

fn once() -> u32 {
    1
}

fn ten_minutes() -> u64 {
    600
}

/// What a form's input is and a store then holds: `splitpoint-bench answers` makes it, from the input alone.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Expected {
    /// Pairs in the store after the puts or appends.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub payload_bytes: u64,
    /// Of all that is put in, in order.
    pub input_digest: String,
    /// Of all pairs in the store then.
    pub final_digest: String,
}

/// One variant by one engine with one setting.
#[derive(Clone)]
pub struct Case<'w> {
    /// Of which workload.
    pub workload: &'w Workload,
    /// What is done.
    pub variant: &'w Variant,
    /// By whom.
    pub engine: &'static dyn Engine,
    /// How it is set.
    pub setting: String,
    /// The sizes, and what has to come out.
    pub form: Form,
}

/// The folder of this package, where workloads lie.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository, by its path from the root.
pub fn repository_file(path: &str) -> PathBuf {
    package().ancestors().nth(2).unwrap_or(package()).join(path)
}

impl Workload {
    /// The workload of that name.
    pub fn named(name: &str) -> Outcome<Workload> {
        let path = package().join("workloads").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let workload = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Workload { name: name.to_owned(), ..workload })
    }

    /// All workloads, by name.
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

    /// Those named, where `append` stands for `append-uniform` and its like; all where none is named.
    pub fn chosen(names: &[String]) -> Outcome<Vec<Workload>> {
        let mut all = Workload::all()?;
        let means = |name: &String, workload: &Workload| {
            *name == workload.name || workload.name.starts_with(&format!("{name}-"))
        };
        if let Some(unknown) = names.iter().find(|name| !all.iter().any(|workload| means(name, workload))) {
            return Err(format!("no workload {unknown}; `splitpoint-bench list` tells which there are").into());
        }
        all.retain(|workload| names.is_empty() || names.iter().any(|name| means(name, workload)));
        Ok(all)
    }

    /// The form of that name.
    pub fn form(&self, name: &str) -> Outcome<&Form> {
        self.form.get(name).ok_or_else(|| format!("workload {} has no form {name}", self.name).into())
    }

    /// The variant of that name.
    pub fn variant(&self, name: &str) -> Outcome<&Variant> {
        let found = self.variant.iter().find(|variant| variant.name == name);
        found.ok_or_else(|| format!("workload {} has no variant {name}", self.name).into())
    }

    /// Every case of a form by these engines; all engines where none is named.
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

/// Whether `name`, an engine or `engine:setting`, means this one.
fn is_named(name: &str, engine: &dyn Engine, setting: &str) -> bool {
    name.split_once(':').map_or(name == engine.name(), |(e, s)| e == engine.name() && s == setting)
}

impl Variant {
    /// The form that is called so, as it is for this variant; none if it has none.
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

    /// Engines and settings, in the order of the file; left out is what this build or an engine does not know.
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

    /// The named setting with each of `with` and every combination of the grid's numbers.
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
