//! Sizes in bytes as options of the program take them; `CONFIG SET` has Redis's different grammar.

/// Parses a size in bytes: `512`, `64K`, `1M`, `2GiB`. K, M, G, T and KiB... are powers of 1024; kB, MB... of 1000.
///
/// # Errors
/// Says what is expected instead.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not a size; write bytes, or a number with K, M, G, T (powers of 1024) or kB, MB, GB, TB (of \
             1000)"
        )
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = unit_bytes(unit.trim()).ok_or_else(wrong)?;
    number.checked_mul(factor).ok_or_else(|| format!("{text} is more than 2^64 bytes"))
}

fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (prefix, base) = match unit.strip_suffix("ib") {
        Some(prefix) if !prefix.is_empty() => (prefix, 1024u64),
        _ => match unit.strip_suffix('b') {
            Some(prefix) => (prefix, 1000),
            None => (unit.as_str(), 1024),
        },
    };
    let power = ["", "k", "m", "g", "t"].iter().position(|known| *known == prefix)?;
    base.checked_pow(u32::try_from(power).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_and_decimal_units() {
        for (text, bytes) in [
            ("512", 512),
            ("64K", 65_536),
            ("1M", 1 << 20),
            ("2GiB", 2 << 30),
            ("3kB", 3000),
            ("1 tb", 1_000_000_000_000),
            ("7b", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_refuse_what_is_none() {
        for text in ["", "K", "-1", "1.5M", "12Q", "99999999999T", "ib", "1ib"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
