//! Numbers for people: reads `64K`, writes `172,823`, `1.7 MiB` and `3.1 ms`.

pub use splitpoint_server::parse_size;
use std::time::Duration;

/// Parses a size of working memory, which must not be 0.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("no work is possible without memory; give 64M or more".into()),
        bytes => Ok(bytes),
    }
}

/// Like [`parse_size`], for options that the library takes as a `u32`.
pub fn parse_size_u32(text: &str) -> Result<u32, String> {
    u32::try_from(parse_size(text)?).map_err(|_| format!("{text} is more than {} bytes", u32::MAX))
}

/// Adds separators: `1234567` -> `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count of things: `1 row`, `1,234 rows`.
pub fn count_of(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Formats a size: `1.7 MiB`.
pub fn size(bytes: u64) -> String {
    let mut amount = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if amount < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{amount:.1} {unit}") };
        }
        amount /= 1024.0;
    }
    format!("{amount:.1} TiB")
}

/// Formats about three digits and a unit: `870 ns`, `3.1 ms`, `12.0 s`.
pub fn seconds(seconds: f64) -> String {
    let (amount, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "us"),
        s => return format!("{:.0} ns", s * 1e9),
    };
    if amount >= 100.0 { format!("{amount:.0} {unit}") } else { format!("{amount:.1} {unit}") }
}

/// Returns a count per second, rounded; 0 if no time has passed.
pub fn per_second(count: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (count as f64 / seconds).round() as u64 } else { 0 }
}

/// Returns a count per second over a duration.
pub fn rate(count: u64, time: Duration) -> u64 {
    per_second(count, time.as_secs_f64())
}

/// Parses seconds, as for `--watch` and `--timeout`.
pub fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("{text:?} is not a number of seconds from 0.1 to 86400"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_within_a_day() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "x", "nan", "inf", "1e9"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([grouped(0), grouped(999), grouped(1000), grouped(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([size(999), size(1024), size(1_743_363)], ["999 B", "1.0 KiB", "1.7 MiB"]);
        assert_eq!(
            [seconds(8.7e-7), seconds(0.0031), seconds(0.25), seconds(12.0)],
            ["870 ns", "3.1 ms", "250 ms", "12.0 s"]
        );
    }
}
