//! The conditions of `scan`, `dump` and `count` on pairs: a prefix of the key, a regular expression, a limit.

use crate::escapes;
use regex::bytes::Regex;

/// Conditions on keys. A key must meet all that are given.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct KeyFilter {
    /// Only keys that begin with TEXT; \t \n \r \\ \xHH are escapes
    #[arg(long, value_name = "TEXT", value_parser = parse_prefix, allow_hyphen_values = true)]
    key_prefix: Option<Prefix>,
    /// Only keys that contain a match of REGEX, as in '^user:[0-9]+$'; (?-u:\xff) matches a byte that is not UTF-8
    #[arg(long, value_name = "REGEX", value_parser = parse_regex, allow_hyphen_values = true)]
    key_regex: Option<Regex>,
}

/// The number of pairs that a command shows.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Limit {
    /// Stop after N pairs; `scan` shows a few more if several keys share one hash
    #[arg(long, short, value_name = "N")]
    pub limit: Option<u64>,
}

/// The prefix, with its escapes undone.
#[derive(Clone, Debug)]
struct Prefix(Vec<u8>);

fn parse_prefix(text: &str) -> Result<Prefix, String> {
    let mut bytes = Vec::new();
    escapes::unescape(text.as_bytes(), &mut bytes)?;
    Ok(Prefix(bytes))
}

fn parse_regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}

impl KeyFilter {
    pub fn takes(&self, key: &[u8]) -> bool {
        self.key_prefix.as_ref().is_none_or(|prefix| key.starts_with(&prefix.0))
            && self.key_regex.as_ref().is_none_or(|regex| regex.is_match(key))
    }

    pub fn takes_all(&self) -> bool {
        self.key_prefix.is_none() && self.key_regex.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(prefix: Option<&str>, regex: Option<&str>) -> KeyFilter {
        KeyFilter {
            key_prefix: prefix.map(|text| parse_prefix(text).unwrap()),
            key_regex: regex.map(|text| parse_regex(text).unwrap()),
        }
    }

    #[test]
    fn a_key_must_meet_every_condition_and_may_be_any_bytes() {
        assert!(filter(None, None).takes(b"") && filter(None, None).takes_all());
        assert!(filter(Some("us"), Some("7$")).takes(b"user:7"));
        assert!(!filter(Some("us"), Some("7$")).takes(b"user:8"));
        assert!(!filter(Some("us"), Some("7$")).takes(b"bus:7"));
        assert!(filter(Some("\\xff\\t"), None).takes(b"\xff\tx"));
        assert!(filter(None, Some("(?-u:\\xff)")).takes(b"a\xff"));
        assert!(filter(None, Some("(?-u)^.$")).takes(b"\xfe"));
        assert!(!filter(None, Some("^.$")).takes(b"\xfe"));
    }

    #[test]
    fn a_pattern_that_would_need_much_memory_is_refused() {
        assert!(parse_regex("(((a{1000}){1000}){1000})").unwrap_err().contains("size limit"));
        assert!(parse_regex("(").unwrap_err().contains("unclosed group"));
        assert!(parse_prefix("\\q").is_err());
    }
}
