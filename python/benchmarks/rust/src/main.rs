//! Builds a dictionary of pairs that lie in memory, and prints how many it took a second.
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
    let start = Instant::now();
    let mut build = DictionaryBuilder::new().start(&path)?;
    for (key, value) in keys.chunks(KEY).zip(values.chunks(VALUE)) {
        build.push(key, value)?;
    }
    assert_eq!(build.finish()?, pairs);
    println!("{}", pairs as f64 / start.elapsed().as_secs_f64());
    std::fs::remove_file(path)?;
    Ok(())
}
