//! Bytes as operations on a new table: it answers as a `BTreeMap` does, and is whole in the end.
//!
//! ```text
//! shape, place, { operation, key, value length }...
//! ```
//!
//! Small pages, few keys, values close to the lengths where a record becomes an extent, so that everything overflows,
//! splits and collides. A scan walks all of it, a few pairs at a time: a key that was present throughout is returned
//! once.
//!
//! Source: `src/table/tests/mod.rs`, which draws such operations by chance. Not here: threads, faults of the disk.

use super::directory;
use super::input::Input;
use splitpoint::{Table, TableOptions};
use std::collections::{BTreeMap, BTreeSet};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Operations of one input.
const OPERATIONS_MAX: usize = 256;
/// Bytes of values that one input may store; afterwards they are short, and few are filled in.
const VALUES_BYTES: usize = 1 << 18;

/// A value that is filled in.
const FILLED_BYTES: usize = 20;

enum Place {
    Memory,
    /// In memory as far as the smallest cache goes.
    Spilling,
    File(tempfile::TempDir),
}

struct Run {
    options: TableOptions,
    place: Place,
    table: Table,
    model: Pairs,
    scan: Scan,
    values_bytes: usize,
}

/// A scan that continues between operations.
#[derive(Default)]
struct Scan {
    cursor: u64,
    given: BTreeSet<Vec<u8>>,
    /// There since the scan began.
    stayed: BTreeSet<Vec<u8>>,
}

pub fn run(bytes: &[u8]) {
    let input = &mut Input::new(bytes);
    let options = shape(input.byte());
    let place = match input.byte() % 4 {
        0 | 1 => Place::Memory,
        2 => Place::Spilling,
        _ => Place::File(directory()),
    };
    let table = open(&options, &place);
    let mut run = Run { options, place, table, model: Pairs::new(), scan: Scan::default(), values_bytes: 0 };
    for n in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        run = run.operation(input, n);
    }
    run.compare();
}

fn shape(byte: u8) -> TableOptions {
    let page_bytes = [512, 512, 512, 512, 1024, 1024, 4096, 16384][usize::from(byte & 7)];
    let options = TableOptions::new().page_bytes(page_bytes).seed(1);
    let options = match byte >> 3 & 7 {
        0 => options.fill_factor(1),
        1 => options.fill_factor(3),
        2 => options.fill_factor(60),
        3 => options.fill_percent(10),
        4 => options.fill_percent(400),
        _ => options,
    };
    match byte >> 6 {
        // Few hashes, some of which differ in the highest bit alone.
        0 => options.user_hash("bad", |key| (key.len() as u64 % 2) << 63 | (key.len() as u64 / 2 % 2) << 1),
        _ => options,
    }
}

fn open(options: &TableOptions, place: &Place) -> Table {
    let options = options.clone();
    match place {
        Place::Memory => options.in_memory(),
        Place::Spilling => options.cache_bytes(1).in_memory(),
        Place::File(directory) => options.open(directory.path().join("t.spt")),
    }
    .expect("a table")
}

/// Few keys, so that they meet; one empty, some too long for a record.
fn key(n: u8) -> Vec<u8> {
    match n % 64 {
        0 => Vec::new(),
        n @ 1..48 => format!("key-{n}").into_bytes(),
        n => vec![n; 30 * usize::from(n - 47)],
    }
}

fn fill_key(n: u8) -> Vec<u8> {
    format!("fill {n}").into_bytes()
}

impl Run {
    fn operation(mut self, input: &mut Input<'_>, n: usize) -> Run {
        // Higher bytes are newer operations, so that seeds keep their meaning.
        let operation = match input.byte() {
            byte @ 0..240 => byte % 24,
            byte => byte,
        };
        let k = key(input.byte());
        match operation {
            240..246 => self.batch(k, input, n),
            246..250 => self.get_many(k, input),
            250..253 => self.many(k, input, n, Table::put_many, |old, value| *old = value),
            253..=255 => {
                self.many(k, input, n, |table, pairs| table.append_many(pairs).map(drop), |old, tail| old.extend(tail))
            }
            0..4 => {
                let value = self.value(input, n);
                self.table.put(&k, &value).expect("put");
                self.model.insert(k, value);
            }
            4..6 => {
                let value = self.value(input, n);
                let absent = !self.model.contains_key(&k);
                assert_eq!(self.table.insert_new(&k, &value).expect("insert"), absent);
                self.model.entry(k).or_insert(value);
            }
            6..10 => {
                let tail = self.value(input, n);
                self.table.append(&k, &tail).expect("append");
                self.model.entry(k).or_default().extend(tail);
            }
            10..13 => self.remove(&k),
            13 | 14 => {
                let value = self.value(input, n);
                self.update(k, value);
            }
            15 => self.get(&k),
            16 => self.scan_on(input.byte()),
            17 => {
                let (from, count) = (input.byte(), input.byte());
                let count = if self.values_bytes > VALUES_BYTES { count % 8 } else { count };
                self.values_bytes += FILLED_BYTES * usize::from(count);
                for i in 0..count {
                    let k = fill_key(from.wrapping_add(i));
                    self.table.put(&k, &[i; FILLED_BYTES]).expect("put");
                    self.model.insert(k, vec![i; FILLED_BYTES]);
                }
            }
            18 => {
                let (from, count) = (input.byte(), input.byte());
                (0..count).for_each(|i| self.remove(&fill_key(from.wrapping_add(i))));
            }
            19 => self.compare(),
            20 => {
                self.table.clear().expect("clear");
                self.model.clear();
                self.scan.stayed.clear();
            }
            21 => self.table.compact().expect("compact"),
            22 => self.table.sync().expect("sync"),
            _ => return self.reopen(),
        }
        self
    }

    /// A value by its length: mostly short, some about where records become extents, some of many frames.
    fn value(&mut self, input: &mut Input<'_>, n: usize) -> Vec<u8> {
        let class = input.byte();
        let len = match class {
            0..160 => usize::from(class % 64),
            160..240 => 64 + 2 * usize::from(input.byte()),
            _ => input.number(2) as usize, // two bytes
        };
        let len = if self.values_bytes + len > VALUES_BYTES { len % 64 } else { len };
        self.values_bytes += len;
        (0..len).map(|i| (i * 7 + n) as u8).collect()
    }

    /// Some keys, of which one may come twice, one of them this.
    fn keys(&self, first: Vec<u8>, input: &mut Input<'_>) -> Vec<Vec<u8>> {
        let more = input.byte() as usize % 40;
        std::iter::once(first).chain((0..more).map(|_| key(input.byte()))).collect()
    }

    /// Changes that are made together, or dropped.
    fn batch(&mut self, first: Vec<u8>, input: &mut Input<'_>, n: usize) {
        let mut model = self.model.clone();
        let mut changes = Vec::new();
        for key in self.keys(first, input) {
            let kind = input.byte() % 8;
            let value = if kind < 6 { self.value(input, n) } else { Vec::new() };
            match kind {
                0..3 => drop(model.insert(key.clone(), value.clone())),
                3..6 => model.entry(key.clone()).or_default().extend(&value),
                _ => drop(model.remove(&key)),
            }
            changes.push((kind, key, value));
        }
        let mut batch = self.table.batch();
        for (kind, key, value) in &changes {
            match kind {
                0..3 => batch.put(key, value),
                3..6 => batch.append(key, value),
                _ => batch.remove(key),
            }
            .expect("a change in a batch");
        }
        assert_eq!(batch.len(), changes.len());
        if input.byte() % 8 == 7 {
            return;
        }
        batch.commit().expect("a batch");
        self.model = model;
        // A key that was gone in between need not be given.
        for (_, key, _) in changes.iter().filter(|(kind, ..)| *kind >= 6) {
            self.scan.stayed.remove(key);
        }
    }

    fn get_many(&self, first: Vec<u8>, input: &mut Input<'_>) {
        let keys = self.keys(first, input);
        let expected: Vec<_> = keys.iter().map(|key| self.model.get(key).cloned()).collect();
        assert!(self.table.get_many(&keys).expect("get_many") == expected, "get_many gives other values");
    }

    fn many(
        &mut self,
        first: Vec<u8>,
        input: &mut Input<'_>,
        n: usize,
        call: impl Fn(&Table, &[(Vec<u8>, Vec<u8>)]) -> splitpoint::Result<()>,
        note: impl Fn(&mut Vec<u8>, Vec<u8>),
    ) {
        let keys = self.keys(first, input);
        let pairs: Vec<_> = keys.into_iter().map(|key| (key, self.value(input, n))).collect();
        call(&self.table, &pairs).expect("put_many or append_many");
        pairs.into_iter().for_each(|(key, value)| note(self.model.entry(key).or_default(), value));
    }

    fn remove(&mut self, key: &[u8]) {
        assert_eq!(self.table.remove(key).expect("remove"), self.model.remove(key).is_some());
        self.scan.stayed.remove(key);
    }

    /// Prepends `value` to the value of the key; removes the key if both have the same length.
    fn update(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let changed = |old: Option<&[u8]>| {
            let old = old.unwrap_or(b"");
            (old.len() != value.len()).then(|| [&value, old].concat())
        };
        let expected = changed(self.model.get(&key).map(|v| &v[..]));
        assert_eq!(self.table.update(&key, changed).expect("update"), expected.is_some());
        match expected {
            Some(value) => drop(self.model.insert(key, value)),
            None => {
                self.model.remove(&key);
                self.scan.stayed.remove(&key);
            }
        }
    }

    fn get(&self, key: &[u8]) {
        let expected = self.model.get(key);
        assert_eq!(self.table.get(key).expect("get").as_ref(), expected);
        assert_eq!(self.table.get_ref(key).expect("get_ref").as_deref(), expected.map(|v| &v[..]));
        assert_eq!(self.table.contains(key).expect("contains"), expected.is_some());
        let mut buffer = vec![1, 2, 3];
        assert_eq!(self.table.get_into(key, &mut buffer).expect("get_into"), expected.is_some());
        assert_eq!(&buffer, expected.unwrap_or(&Vec::new()));
    }

    /// Takes a few more pairs from the scan. At its end, checks that it missed none, and begins another.
    fn scan_on(&mut self, count: u8) {
        if self.scan.cursor == 0 {
            self.scan = Scan { stayed: self.model.keys().cloned().collect(), ..Scan::default() };
        }
        let mut scan = self.table.scan_from(self.scan.cursor);
        let mut given = 0;
        while given <= u32::from(count) || !scan.at_boundary() {
            let Some((key, value)) = scan.next_ref().expect("a scan") else { break };
            given += 1;
            assert_eq!(self.model.get(key).map(|v| &v[..]), Some(value), "a scan gives another value");
            let new = self.scan.given.insert(key.to_vec());
            assert!(new, "{} was given twice", key.escape_ascii());
        }
        match scan.cursor() {
            Some(cursor) => self.scan.cursor = cursor,
            None => {
                let missed = self.scan.stayed.difference(&self.scan.given).next();
                assert_eq!(missed, None, "a scan missed it");
                self.scan = Scan::default();
            }
        }
    }

    fn reopen(self) -> Run {
        if !matches!(self.place, Place::File(_)) {
            return self;
        }
        self.table.close().expect("close");
        let table = open(&self.options, &self.place);
        assert_eq!(table.len(), self.model.len() as u64);
        Run { table, ..self }
    }

    /// All pairs, their number, and what the table says of itself.
    fn compare(&self) {
        let pairs: Vec<_> = self.table.scan().map(|pair| pair.expect("a scan")).collect();
        assert_eq!((pairs.len() as u64, self.table.len()), (self.model.len() as u64, self.model.len() as u64));
        assert!(Pairs::from_iter(pairs) == self.model, "a scan gives other pairs");
        assert_eq!(self.table.verify().expect("verify"), []);
        let stat = self.table.survey().expect("stat");
        let payload: usize = self.model.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(stat.payload_bytes, payload as u64);
    }
}
