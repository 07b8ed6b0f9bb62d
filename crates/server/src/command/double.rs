//! Doubles as Redis 7.0 reads and writes them, that is, as C does (`strtod`, `%.17g`): scores, numbers of scripts.

/// Appends a score in at most 17 digits.
pub(crate) fn write(out: &mut Vec<u8>, score: f64) {
    const DIGITS: usize = 17;
    const EXACT_BELOW: f64 = 1e15;
    if score.fract() == 0.0 && score.abs() < EXACT_BELOW && (score != 0.0 || score.is_sign_positive()) {
        out.extend_from_slice(itoa::Buffer::new().format(score as i64).as_bytes()); // a whole number
        return;
    }
    out.extend_from_slice(format_number(score, DIGITS).as_bytes());
}

/// Formats a number as C's `%.<digits>g` does.
pub(crate) fn format_number(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        return match number.is_nan() {
            true if number.is_sign_negative() => "-nan",
            true => "nan",
            false if number > 0.0 => "inf",
            false => "-inf",
        }
        .into();
    }
    let text = format!("{:.*e}", digits - 1, number);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    trimmed(&format!("{:.*}", (digits as i32 - 1 - exponent) as usize, number))
}

/// Parses a score. `None` if the argument is not a number, is too large, or is too close to zero.
pub(crate) fn parse_score(text: &[u8]) -> Option<f64> {
    let score = parse(text).filter(|score| !score.is_nan())?;
    let is_stated_infinite = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
    let is_stated_zero = || {
        let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
        let mantissa = digits.split(|byte| b"eEpP".contains(byte)).next().unwrap_or_default();
        let mantissa = mantissa.strip_prefix(b"0x").or(mantissa.strip_prefix(b"0X")).unwrap_or(mantissa);
        !mantissa.iter().any(|byte| (b'1'..=b'9').contains(byte) || byte.is_ascii_alphabetic())
    };
    let is_in_range = if score.is_infinite() { is_stated_infinite } else { score != 0.0 || is_stated_zero() };
    is_in_range.then_some(score)
}

/// Parses the end of a range of scores; numbers that are too large are infinite.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    // As C reads strings: an empty one is 0, and a zero byte ends it.
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != 0x0b)?;
    parse(&text[start..]).filter(|score| !score.is_nan())
}

fn parse(text: &[u8]) -> Option<f64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let score = match digits {
        [b'0', b'x' | b'X', digits @ ..] => parse_hexadecimal(digits)?,
        [b'+' | b'-', ..] => return None,
        digits => std::str::from_utf8(digits).ok()?.parse().ok()?,
    };
    Some(if is_negative { -score } else { score })
}

/// Parses hexadecimal digits with a point, and a binary exponent.
fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    const DIGITS_MAX: u32 = 15;
    let (digits, exponent) = match text.iter().position(|byte| byte.eq_ignore_ascii_case(&b'p')) {
        Some(at) => {
            let exponent = &text[at + 1..];
            let number = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
            if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
                return None;
            }
            let number = std::str::from_utf8(number).ok()?.parse::<i32>().unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
            (&text[..at], if exponent.starts_with(b"-") { -number } else { number })
        }
        None => (text, 0),
    };
    let (mut mantissa, mut read, mut power, mut has_point, mut has_digit) = (0u64, 0, 0i32, false, false);
    for byte in digits {
        if *byte == b'.' && !has_point {
            has_point = true;
            continue;
        }
        let digit = char::from(*byte).to_digit(16)?;
        has_digit = true;
        if read < DIGITS_MAX {
            mantissa = mantissa << 4 | u64::from(digit);
            read += u32::from(mantissa != 0);
            power = power.saturating_sub(if has_point { 4 } else { 0 });
        } else {
            // Only whether anything follows matters for rounding.
            mantissa |= u64::from(digit != 0);
            power = power.saturating_add(if has_point { 0 } else { 4 });
        }
    }
    let exponent = power.saturating_add(exponent).clamp(-3000, 3000);
    // In steps, since a power of two alone may be beyond the range.
    let mut score = mantissa as f64;
    for step in [exponent / 4, exponent / 4, exponent / 4, exponent - exponent / 4 * 3] {
        score *= 2f64.powi(step);
    }
    has_digit.then_some(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_written_as_c_does() {
        for (score, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (3.1, "3.1000000000000001"),
            (0.1, "0.10000000000000001"),
            (0.5, "0.5"),
            (1e15, "1000000000000000"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123456789012345678.0, "1.2345678901234568e+17"),
            (99999999999999990.0, "99999999999999984"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (0.00001, "1.0000000000000001e-05"),
            (-1.5e300, "-1.5000000000000001e+300"),
            (5e-324, "4.9406564584124654e-324"),
            (2.5, "2.5"),
            (1e-7, "9.9999999999999995e-08"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut out = Vec::new();
            write(&mut out, score);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn scores_are_read_as_c_does() {
        for (text, expected) in [
            ("1", 1.0),
            ("+1", 1.0),
            ("-.5", -0.5),
            ("5.", 5.0),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x1p-1074", 5e-324),
            ("0xffffffffffffffffff", 4722366482869645213695.0),
            ("1e3", 1000.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0e9999", 0.0),
            ("-0x0", -0.0),
            ("5e-324", 5e-324),
        ] {
            assert_eq!(parse_score(text.as_bytes()), Some(expected), "{text}");
        }
        for text in
            ["", " 1", "1 ", "nan", "+-1", "--1", "1e", "0x", "0xg", "0x1p", "1e400", "-1e400", "1e-400", "x", "."]
        {
            assert_eq!(parse_score(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_bound(b""), Some(0.0));
        assert_eq!(parse_bound(b"\t 1\0x"), Some(1.0));
        assert_eq!(parse_bound(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_bound(b" "), None);
        assert_eq!(parse_bound(b"nan"), None);
        assert_eq!(parse_bound(b"1 "), None);
    }
}
