//! Cells of Parquet as text: every type of a column that is not a list, with every digit that the file has.
//!
//! | type | text |
//! |---|---|
//! | bytes, strings | verbatim |
//! | integers, decimals | decimal digits |
//! | floating point | the shortest digits that read back as the same number; `NaN`, `inf`, `-inf` |
//! | dates, times | `2024-02-29`, `23:59:59.999999`, with as many digits as the unit has |
//! | timestamps, INT96 | `2024-02-29 23:59:59.999999`, and ` +00:00` if they are in UTC |

use chrono::{DateTime, Datelike, Timelike};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::data_type::{ByteArray, Decimal, Int96};
use parquet::record::Field;
use parquet::schema::types::ColumnDescriptor;
use std::fmt::Display;
use std::io::Write;

const DAY_S: i64 = 24 * 60 * 60;

/// The conversion of a column's values to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bytes,
    Signed,
    Unsigned,
    Bool,
    Float,
    Half,
    Decimal {
        precision: i32,
        scale: i32,
    },
    Date,
    /// A time with this many digits of a second.
    Time {
        digits: u32,
    },
    Timestamp {
        digits: u32,
        utc: bool,
    },
}

impl Kind {
    /// # Errors
    /// What the column is instead: a list, or a type of its own.
    pub fn of(column: &ColumnDescriptor) -> Result<Self, String> {
        use ConvertedType as C;
        use LogicalType as L;
        if column.max_rep_level() > 0 {
            return Err("a list; keys and values are single columns".into());
        }
        let (logical, converted) = (column.logical_type_ref(), column.converted_type());
        let decimal = Self::Decimal { precision: column.type_precision(), scale: column.type_scale() };
        let kind = match (column.physical_type(), logical, converted) {
            (Type::BOOLEAN, ..) => Some(Self::Bool),
            // A column without values.
            (Type::INT32, Some(L::Unknown), _) => Some(Self::Signed),
            (Type::FLOAT | Type::DOUBLE, ..) => Some(Self::Float),
            (Type::INT96, ..) => Some(Self::Timestamp { digits: 9, utc: true }),
            (_, Some(L::Decimal(_)), _) | (_, None, C::DECIMAL) => Some(decimal),
            (Type::FIXED_LEN_BYTE_ARRAY, Some(L::Float16), _) => Some(Self::Half),
            (Type::FIXED_LEN_BYTE_ARRAY, _, C::INTERVAL) => None,
            (Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY, ..) => Some(Self::Bytes),
            (Type::INT32 | Type::INT64, Some(L::Integer(integer)), _) if !integer.is_signed => Some(Self::Unsigned),
            (_, Some(L::Integer(_)), _) => Some(Self::Signed),
            (_, Some(L::Date), _) => Some(Self::Date),
            (_, Some(L::Time(time)), _) => Some(Self::Time { digits: digits(&time.unit) }),
            (_, Some(L::Timestamp(time)), _) => {
                Some(Self::Timestamp { digits: digits(&time.unit), utc: time.is_adjusted_to_u_t_c })
            }
            (_, None, C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64) => Some(Self::Unsigned),
            (_, None, C::NONE | C::INT_8 | C::INT_16 | C::INT_32 | C::INT_64) => Some(Self::Signed),
            (_, None, C::DATE) => Some(Self::Date),
            (_, None, C::TIME_MILLIS) => Some(Self::Time { digits: 3 }),
            (_, None, C::TIME_MICROS) => Some(Self::Time { digits: 6 }),
            (_, None, C::TIMESTAMP_MILLIS) => Some(Self::Timestamp { digits: 3, utc: true }),
            (_, None, C::TIMESTAMP_MICROS) => Some(Self::Timestamp { digits: 6, utc: true }),
            _ => None,
        };
        kind.ok_or_else(|| {
            let name = match logical {
                Some(logical) => format!("{logical:?}").split([' ', '{', '(']).next().unwrap_or_default().to_owned(),
                None => converted.to_string(),
            };
            format!("{name}, which has no text here; convert it to a string")
        })
    }

    pub fn is_of_keys(self) -> bool {
        matches!(self, Self::Bytes | Self::Signed | Self::Unsigned)
    }

    /// Whether the text is valid JSON.
    pub fn is_json(self) -> bool {
        matches!(self, Self::Signed | Self::Unsigned | Self::Bool | Self::Float | Self::Half)
    }

    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Signed | Self::Unsigned => "an integer",
            Self::Bool => "a boolean",
            Self::Float | Self::Half => "a floating-point number",
            Self::Decimal { .. } => "a decimal",
            Self::Date => "a date",
            Self::Time { .. } => "a time",
            Self::Timestamp { .. } => "a timestamp",
        }
    }

    pub fn bool(self, value: bool, text: &mut Vec<u8>) {
        write(value, text);
    }

    pub fn int32(self, value: i32, text: &mut Vec<u8>) {
        match self {
            Self::Unsigned => write(value.cast_unsigned(), text),
            Self::Decimal { precision, scale } => decimal(Decimal::from_i32(value, precision, scale), text),
            _ => self.int64(i64::from(value), text),
        }
    }

    pub fn int64(self, value: i64, text: &mut Vec<u8>) {
        match self {
            Self::Unsigned => write(value.cast_unsigned(), text),
            Self::Decimal { precision, scale } => decimal(Decimal::from_i64(value, precision, scale), text),
            Self::Date => match DateTime::from_timestamp(value.saturating_mul(DAY_S), 0) {
                Some(date) => write(format_args!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day()), text),
                None => write(format_args!("{value} days since 1970-01-01"), text),
            },
            Self::Time { digits } => match time_of_day(value, digits) {
                Some(time) => write(time, text),
                None => write(format_args!("{value}e-{digits} s since midnight"), text),
            },
            Self::Timestamp { digits, utc } => {
                let second = 10_i64.pow(digits);
                let nanos = value.rem_euclid(second) * 10_i64.pow(9 - digits);
                timestamp(value.div_euclid(second), nanos, digits, utc, text);
            }
            _ => write(value, text),
        }
    }

    /// Nanoseconds of the day, then the Julian day.
    pub fn int96(self, value: &Int96, text: &mut Vec<u8>) {
        const EPOCH: i64 = 2_440_588; // the Julian day of 1970-01-01
        let &[low, high, day] = value.data() else { return };
        let nanos = (u64::from(high) << 32 | u64::from(low)).cast_signed();
        let seconds = (i64::from(day) - EPOCH) * DAY_S + nanos.div_euclid(1_000_000_000);
        timestamp(seconds, nanos.rem_euclid(1_000_000_000), 9, true, text);
    }

    pub fn float(self, value: f32, text: &mut Vec<u8>) {
        if value.is_finite() {
            return serde_json::to_writer(text, &value).expect("a number is JSON and a Vec takes every write");
        }
        write(value, text);
    }

    pub fn double(self, value: f64, text: &mut Vec<u8>) {
        if value.is_finite() {
            return serde_json::to_writer(text, &value).expect("a number is JSON and a Vec takes every write");
        }
        write(value, text);
    }

    pub fn bytes(self, value: &ByteArray, text: &mut Vec<u8>) {
        match self {
            Self::Decimal { precision, scale } => decimal(Decimal::from_bytes(value.clone(), precision, scale), text),
            Self::Half => match *value.data() {
                [low, high] => self.float(half::f16::from_le_bytes([low, high]).to_f32(), text),
                _ => text.extend_from_slice(b"NaN"),
            },
            _ => text.extend_from_slice(value.data()),
        }
    }
}

fn digits(unit: &TimeUnit) -> u32 {
    match unit {
        TimeUnit::MILLIS => 3,
        TimeUnit::MICROS => 6,
        TimeUnit::NANOS => 9,
    }
}

fn write(value: impl Display, text: &mut Vec<u8>) {
    write!(text, "{value}").expect("a Vec takes every write");
}

fn decimal(value: Decimal, text: &mut Vec<u8>) {
    write(Field::Decimal(value), text);
}

fn time_of_day(value: i64, digits: u32) -> Option<String> {
    let second = 10_i64.pow(digits);
    let (seconds, fraction) = (value.div_euclid(second), value.rem_euclid(second));
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let width = digits as usize;
    (0..second * DAY_S).contains(&value).then(|| format!("{hours:02}:{minutes:02}:{seconds:02}.{fraction:0width$}"))
}

fn timestamp(seconds: i64, nanos: i64, digits: u32, utc: bool, text: &mut Vec<u8>) {
    let zone = if utc { " +00:00" } else { "" };
    let Some(time) = u32::try_from(nanos).ok().and_then(|nanos| DateTime::from_timestamp(seconds, nanos)) else {
        return write(format_args!("{seconds}.{nanos:09} s since 1970-01-01{zone}"), text);
    };
    let (year, month, day) = (time.year(), time.month(), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let (fraction, width) = (nanos / 10_i64.pow(9 - digits), digits as usize);
    write(
        format_args!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{fraction:0width$}{zone}"),
        text,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn times_keep_every_digit_before_and_after_the_epoch() {
        let stamp = |digits, utc, value| text(|text| Kind::Timestamp { digits, utc }.int64(value, text));
        assert_eq!(stamp(9, false, 1), "1970-01-01 00:00:00.000000001");
        assert_eq!(stamp(6, true, -1), "1969-12-31 23:59:59.999999 +00:00");
        assert_eq!(stamp(3, true, i64::MAX), "9223372036854775.807000000 s since 1970-01-01 +00:00");
        assert_eq!(text(|text| Kind::Date.int32(19_782, text)), "2024-02-29");
        assert_eq!(text(|text| Kind::Date.int32(i32::MAX, text)), "2147483647 days since 1970-01-01");
        assert_eq!(text(|text| Kind::Time { digits: 6 }.int64(86_399_999_999, text)), "23:59:59.999999");
        assert_eq!(text(|text| Kind::Time { digits: 3 }.int32(-1, text)), "-1e-3 s since midnight");
        let int96 = Int96::from(vec![123_456_789, 0, 2_440_589]);
        let kind = Kind::Timestamp { digits: 9, utc: true };
        assert_eq!(text(|text| kind.int96(&int96, text)), "1970-01-02 00:00:00.123456789 +00:00");
    }

    #[test]
    fn numbers_are_the_shortest_text_that_reads_back() {
        for (value, expected) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (1e300, "1e+300"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(|text| Kind::Float.double(value, text)), expected);
        }
        assert_eq!(text(|text| Kind::Float.float(0.1, text)), "0.1");
        assert_eq!(text(|text| Kind::Half.bytes(&vec![0, 0x3c].into(), text)), "1.0");
        let decimal = Kind::Decimal { precision: 5, scale: 2 };
        assert_eq!(text(|text| decimal.int32(-5, text)), "-0.05");
        assert_eq!(text(|text| Kind::Unsigned.int64(-1, text)), "18446744073709551615");
    }
}
