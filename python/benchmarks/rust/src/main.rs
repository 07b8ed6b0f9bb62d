//! Builds a dictionary of pairs in memory, and prints the pairs per second, and per second of processor time of all
//! threads.
//!
//! `build-rate PAIRS PATH`: a pair is a key of 16 digits and a value of 32 bytes, as in compare.py, in two buffers as
//! Arrow has them.

use splitpoint::DictionaryBuilder;
use std::time::Instant;

const KEY: usize = 16;
const VALUE: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(pairs), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("usage: build-rate PAIRS PATH".into());
    };
    let pairs: u64 = pairs.parse()?;
    // Multiplication by an odd number gives all numbers of 32 bits once, in an order that looks random.
    let number = |n: u64| n.wrapping_mul(0x9E37_79B1) & 0xFFFF_FFFF;
    let keys: Vec<u8> = (0..pairs).flat_map(|n| format!("{:016}", number(n)).into_bytes()).collect();
    let values = vec![b'v'; pairs as usize * VALUE];
    let (start, cpu_start) = (Instant::now(), cpu_seconds()?);
    let mut build = DictionaryBuilder::new().start(&path)?;
    for (key, value) in keys.chunks(KEY).zip(values.chunks(VALUE)) {
        build.push(key, value)?;
    }
    assert_eq!(build.finish()?, pairs);
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds()? - cpu_start);
    println!("{} {}", pairs as f64 / wall, pairs as f64 / cpu);
    std::fs::remove_file(path)?;
    Ok(())
}

/// The processor time of this process, to a hundredth of a second.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may have blanks; user and system time are fields 14 and 15.
    let after_name = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
    let ticks: Vec<f64> = after_name.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}
