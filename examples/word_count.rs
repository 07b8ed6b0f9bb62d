//! Counts with `update` how many English words start with each pair of letters, and collects the words with `append`.

#![allow(clippy::disallowed_methods, reason = "the rule is for the library: a program uses the file system")]

use splitpoint::Table;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let words = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/data/english-words.txt"))?;
    let counts = Table::in_memory()?;
    let lists = Table::in_memory()?;
    for word in words.lines() {
        let start = &word.as_bytes()[..word.len().min(2)];
        counts.update(start, |count| Some((number(count) + 1).to_le_bytes().to_vec()))?;
        lists.append(start, format!("{word} ").as_bytes())?;
    }

    let mut sorted = Vec::new();
    for pair in counts.scan() {
        let (start, count) = pair?;
        sorted.push((number(Some(&count)), start));
    }
    sorted.sort();
    println!("{} words, {} beginnings; the most frequent:", words.lines().count(), counts.len());
    for (count, start) in sorted.iter().rev().take(5) {
        let list = lists.get(start)?.unwrap_or_default();
        let first: Vec<_> = String::from_utf8_lossy(&list).split(' ').take(3).map(str::to_owned).collect();
        println!("{count:>6}  {}: {}, ...", start.escape_ascii(), first.join(", "));
    }
    assert_eq!(sorted.iter().map(|(count, _)| count).sum::<u64>(), words.lines().count() as u64);
    Ok(())
}

/// A counter as stored; 0 if absent.
fn number(stored: Option<&[u8]>) -> u64 {
    stored.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}
