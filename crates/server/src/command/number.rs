//! Numbers as Redis reads and writes them.

/// Parses a whole number in canonical form: no plus, no leading zeros, no blanks.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(byte - b'0'); // 19 digits fit
    }
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// A decimal number: exact to 17 decimal places or, if it is too large for that, the nearest `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decimal {
    /// In units of 10^-17.
    Exact(i128),
    /// Beyond about 10^20.
    Float(f64),
}

const PLACES: usize = 17;
const UNIT: i128 = 10i128.pow(PLACES as u32);

impl Decimal {
    /// The longest text that is read, as in Redis.
    pub(crate) const TEXT_BYTES_MAX: usize = (5 << 10) - 1;

    /// Parses a number: digits, a point, an exponent.
    pub(crate) fn parse(text: &[u8]) -> Option<Decimal> {
        if text.is_empty() || text.len() > Self::TEXT_BYTES_MAX || text[0].is_ascii_whitespace() {
            return None;
        }
        if let Some(units) = exact_units(text) {
            return Some(Decimal::Exact(units));
        }
        let text = std::str::from_utf8(text).ok()?;
        let float: f64 = text.parse().ok()?;
        (!float.is_nan()).then_some(Decimal::Float(float))
    }

    /// The sum; `None` if it is not a finite number.
    pub(crate) fn plus(self, other: Decimal) -> Option<Decimal> {
        if let (Decimal::Exact(a), Decimal::Exact(b)) = (self, other) {
            return Some(Decimal::Exact(a + b)); // each is below 2^126
        }
        let sum = self.to_f64() + other.to_f64();
        sum.is_finite().then_some(Decimal::Float(sum))
    }

    /// The nearest `f64`.
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Decimal::Exact(units) => units as f64 / UNIT as f64,
            Decimal::Float(float) => float,
        }
    }

    /// The number as digits, with a point if it has a fraction.
    pub(crate) fn text(self) -> String {
        let text = match self {
            Decimal::Exact(units) => {
                let sign = if units < 0 { "-" } else { "" };
                let units = units.unsigned_abs();
                format!("{sign}{}.{:017}", units / UNIT as u128, units % UNIT as u128)
            }
            Decimal::Float(float) => format!("{float:.17}"),
        };
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" { "0".to_owned() } else { text.to_owned() }
    }
}

/// Parses a number in units of 10^-17; `None` if it is too large, has too many places, or is not a number.
fn exact_units(text: &[u8]) -> Option<i128> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let exponent_at = rest.iter().position(|b| b.eq_ignore_ascii_case(&b'e'));
    let (mantissa, exponent) = match exponent_at {
        Some(at) => (&rest[..at], std::str::from_utf8(&rest[at + 1..]).ok()?.parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let point = mantissa.iter().position(|&b| b == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = (&mantissa[..point], mantissa.get(point + 1..).unwrap_or_default());
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut units: i128 = 0;
    for byte in whole.iter().chain(fraction) {
        if !byte.is_ascii_digit() {
            return None;
        }
        units = units.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
    }
    let places = i32::try_from(PLACES).ok()?;
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?.checked_add(places)?;
    if units != 0 {
        let factor = 10i128.checked_pow(shift.unsigned_abs())?;
        if shift >= 0 {
            units = units.checked_mul(factor)?;
        } else {
            // Half a unit is rounded up.
            units = units / factor + i128::from(units % factor >= factor / 2);
        }
    }
    const MAX: i128 = 1 << 125;
    (units < MAX).then_some(if negative { -units } else { units })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        assert_eq!(parse_integer(b"0"), Some(0));
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_integer(b"9223372036854775807"), Some(i64::MAX));
        for wrong in ["", "-", "+1", "01", "-0", " 1", "1 ", "9223372036854775808", "-9223372036854775809", "1.0", "x"]
        {
            assert_eq!(parse_integer(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn decimals_add_exactly() {
        let sum = |a: &str, b: &str| {
            Decimal::parse(a.as_bytes()).unwrap().plus(Decimal::parse(b.as_bytes()).unwrap()).unwrap().text()
        };
        assert_eq!(sum("0.1", "0.2"), "0.3");
        assert_eq!(sum("10.50", "0.1"), "10.6");
        assert_eq!(sum("5.0e3", "2.0e2"), "5200");
        assert_eq!(sum("-5", "5.0"), "0");
        assert_eq!(sum("3", "-4.25"), "-1.25");
        assert_eq!(sum("1e300", "1").len(), 301);
        // As digits without a point, the greatest `i128`.
        assert_eq!(sum("1.70141183460469231731687303715884105727", "0"), "1.70141183460469232");
        assert_eq!(sum("-1.70141183460469231731687303715884105727", "0"), "-1.70141183460469232");
        assert!(Decimal::parse(b"abc").is_none());
        assert!(Decimal::parse(b"").is_none());
        assert!(Decimal::parse(b" 1").is_none());
        assert!(Decimal::parse(b"1 ").is_none());
        assert!(Decimal::parse(b".").is_none());
        for huge in ["1e2147483647", "0e2147483647", "1.5e-2147483648"] {
            assert!(Decimal::parse(huge.as_bytes()).is_some(), "{huge}");
        }
        assert!(Decimal::parse(b"inf").unwrap().plus(Decimal::Exact(0)).is_none());
    }

    #[test]
    fn decimals_are_as_long_as_in_redis() {
        assert_eq!(Decimal::parse(&[b'0'; 5119]), Some(Decimal::Exact(0)));
        assert_eq!(Decimal::parse(&[b'0'; 5120]), None);
    }
}
