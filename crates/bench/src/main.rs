//! Measurements of the table: `splitpoint-bench WORKLOAD [FILE] [--threads N]`.
//!
//! Inputs are made before the clock starts and every answer is compared. Figures: docs/benchmarks.md.

mod durability;
mod lookups;

use splitpoint::{Durability, Table, TableOptions};
use std::error::Error;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut threads = 1;
    if let Some(at) = arguments.iter().position(|a| a == "--threads") {
        threads = arguments.get(at + 1).ok_or("--threads: how many?")?.parse()?;
        arguments.drain(at..at + 2);
    }
    let file = arguments.get(1).cloned();
    match arguments.first().map(String::as_str) {
        Some("pairs") => pairs(file, 10_000_000),
        Some("pairs-small") => pairs(file, 1_000_000),
        Some("get-many") => lookups::run(file, 10_000_000, threads),
        Some("put-many") => lookups::writes(file, 10_000_000),
        Some("put-many-small") => lookups::writes(file, 1_000_000),
        Some("get-many-small") => lookups::run(file, 1_000_000, threads),
        Some("put") => put_only(file, 5_000_000),
        Some("put-few") => put_only(file, 300_000),
        Some("std") => std_map(10_000_000),
        Some("udatabase") => udatabase(file, 524_288),
        Some(workload @ ("durable" | "os" | "stall")) => {
            let path = file.ok_or("durable, os and stall need a FILE: there is nothing to be safe in memory")?;
            match workload {
                "durable" => durability::durable(&path),
                "os" => durability::os(&path, 3_000_000),
                _ => durability::stall(&path),
            }
        }
        _ => Err(
            "usage: splitpoint-bench pairs|pairs-small|get-many|get-many-small|put-many|put-many-small|udatabase|durable|os|stall [FILE] [--threads N]"
                .into(),
        ),
    }
}

/// A repeatable stream of numbers (splitmix64, Steele, Lea & Flood 2014).
struct Random(u64);

impl Random {
    fn pair_key(&mut self) -> [u8; 16] {
        let (a, b) = (self.next().to_le_bytes(), self.next().to_le_bytes());
        [a, b].concat().try_into().expect("16 bytes")
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

fn open(file: &Option<String>, options: TableOptions) -> Result<Table, Box<dyn Error>> {
    let options = options.durability(Durability::None);
    Ok(match file {
        Some(path) => {
            let _ = std::fs::remove_file(path);
            options.open(path)?
        }
        None => options.in_memory()?,
    })
}

fn report(what: &str, count: usize, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:<24} {:>10.3} M/s   {:>8.1} ns each", rate / 1e6, 1e9 / rate);
}

/// Ten million pairs of 16 and 32 bytes: put, get, miss, scan; then the longest single put from empty.
fn pairs(file: Option<String>, count: usize) -> Outcome {
    let mut random = Random(1);
    let keys: Vec<[u8; 16]> = (0..count).map(|_| random.pair_key()).collect();
    let value = |key: &[u8; 16]| [*key, *key].concat();
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    let table = open(&file, TableOptions::new())?;
    let mut buffer = [0; 32];
    let start = Instant::now();
    for key in &keys {
        buffer[..16].copy_from_slice(key);
        buffer[16..].copy_from_slice(key);
        table.put(key, &buffer)?;
    }
    report("put", count, start.elapsed());

    let mut found = Vec::new();
    let start = Instant::now();
    for &i in &order {
        let key = &keys[i as usize];
        assert!(table.get_into(key, &mut found)? && found[16..] == key[..]);
    }
    report("get, shuffled", count, start.elapsed());

    let start = Instant::now();
    for key in &keys {
        assert!(table.get_into(key, &mut found)? && found[16..] == key[..]);
    }
    report("get, in order of put", count, start.elapsed());

    let mut absent = keys.clone();
    absent.iter_mut().for_each(|k| k[0] ^= 0x55);
    let start = Instant::now();
    for key in &absent {
        assert!(!table.contains(key)?);
    }
    report("get, absent", count, start.elapsed());

    let start = Instant::now();
    let (mut scan, mut scanned) = (table.scan(), 0);
    while let Some((key, value)) = scan.next_ref()? {
        assert!(key == &value[..16]);
        scanned += 1;
    }
    assert!(scanned == count);
    report("scan", count, start.elapsed());

    let stat = table.stat()?;
    println!(
        "buckets {}  load {:.2}  file {:.0} MiB = {:.3} x payload  overflow pages {}  pairs in them {:.1} %  free {:.1} MiB",
        stat.buckets,
        stat.bucket_bytes as f64 / (stat.buckets as f64 * 1000.0),
        stat.file_bytes as f64 / 1048576.0,
        stat.file_bytes as f64 / stat.payload_bytes as f64,
        stat.overflow_pages,
        100.0 * stat.overflow_pairs as f64 / stat.pairs as f64,
        stat.free_bytes as f64 / 1048576.0,
    );
    let start = Instant::now();
    table.sync()?;
    println!("sync {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    for &i in &order[..count / 10] {
        assert!(table.remove(&keys[i as usize])?);
    }
    report("remove (a tenth)", count / 10, start.elapsed());
    table.close()?;

    let table = open(&file, TableOptions::new())?;
    let mut pauses: Vec<u32> = Vec::with_capacity(count);
    for key in &keys {
        let value = value(key);
        let start = Instant::now();
        table.put(key, &value)?;
        pauses.push(start.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
    }
    pauses.sort_unstable();
    let at = |share: f64| f64::from(pauses[((count - 1) as f64 * share) as usize]) / 1000.0;
    println!("put, us: median {:.2}  p99 {:.1}  p99.99 {:.1}  longest {:.0}", at(0.5), at(0.99), at(0.9999), at(1.0));
    Ok(())
}

/// The uDatabase test: records of 0 to 5000 bytes under short keys; put, get, remove.
fn udatabase(file: Option<String>, count: usize) -> Outcome {
    let mut random = Random(3);
    let source: Vec<u8> = (0..16384).map(|_| random.next() as u8).collect();
    let records: Vec<(String, usize, usize)> = (0..count)
        .map(|i| (format!("key-{i:08}"), (random.next() % 8192) as usize, (random.next() % 5001) as usize))
        .collect();
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    let table = open(&file, TableOptions::new())?;
    let start = Instant::now();
    for (key, from, len) in &records {
        table.put(key.as_bytes(), &source[*from..from + len])?;
    }
    let put = start.elapsed();
    report("put", count, put);
    table.sync()?;
    report("put and sync", count, start.elapsed());
    let mut found = Vec::new();
    let start = Instant::now();
    for &i in &order {
        let (key, from, len) = &records[i as usize];
        assert!(table.get_into(key.as_bytes(), &mut found)? && found == source[*from..from + len]);
    }
    report("get", count, start.elapsed());
    let stat = table.stat()?;
    println!(
        "file {:.0} MiB = {:.3} x payload, free {:.0} MiB, buckets {}",
        stat.file_bytes as f64 / 1048576.0,
        stat.file_bytes as f64 / stat.payload_bytes as f64,
        stat.free_bytes as f64 / 1048576.0,
        stat.buckets
    );
    let start = Instant::now();
    for &i in &order {
        assert!(table.remove(records[i as usize].0.as_bytes())?);
    }
    report("remove", count, start.elapsed());
    assert!(table.is_empty());
    Ok(())
}

/// The standard library's map under the same load, to compare runs by.
fn std_map(count: usize) -> Outcome {
    let mut random = Random(1);
    let keys: Vec<[u8; 16]> = (0..count).map(|_| random.pair_key()).collect();
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    let mut map: std::collections::HashMap<Vec<u8>, Vec<u8>> = std::collections::HashMap::new();
    let start = Instant::now();
    for key in &keys {
        map.insert(key.to_vec(), [*key, *key].concat());
    }
    report("std put", count, start.elapsed());
    let start = Instant::now();
    for &i in &order {
        let key = &keys[i as usize];
        assert!(map[&key[..]][16..] == key[..]);
    }
    report("std get", count, start.elapsed());
    Ok(())
}

/// Puts alone, for a profiler.
fn put_only(file: Option<String>, count: usize) -> Outcome {
    let mut random = Random(1);
    let keys: Vec<[u8; 16]> = (0..count).map(|_| random.pair_key()).collect();
    let table = open(&file, TableOptions::new())?;
    let mut buffer = [0; 32];
    let start = Instant::now();
    for key in &keys {
        buffer[..16].copy_from_slice(key);
        table.put(key, &buffer)?;
    }
    report("put", count, start.elapsed());
    std::process::exit(0)
}
