//! Hash functions of one 32-bit word, for every cache: the alternatives of the paper's section 5, with constants that
//! the user chooses.
//!
//! Tabulation has one table of 256 random words for each byte of the key; the hash is the xor of four entries. The
//! tables come from splitmix64, so they are the same in every run.
//!
//! Source: Lever 2000, section 5 and Appendix B; Zobrist 1970; Knuth 3, 6.4.

/// Knuth's multiplier: prime, and 2^32 times the golden ratio.
pub const MULTIPLIER: u32 = 2_654_435_761;

/// Random words: one table for each byte of a key.
static TABLES: [[u32; 256]; 4] = tables();

const fn tables() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut index: u32 = 0;
    while index < 1024 {
        let mut x = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        tables[index as usize / 256][index as usize % 256] = ((x ^ (x >> 31)) >> 32) as u32;
        index += 1;
    }
    tables
}

#[inline]
pub(super) fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

/// A function of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordFunction {
    /// The low bits of the key itself.
    Untransformed,
    /// The product, shifted right. Without a shift, its top bits.
    Multiply {
        /// The multiplier.
        by: u32,
        /// The shift, below 32.
        shift: Option<u32>,
    },
    /// Steiner's: 127 times the key, plus the key shifted right by 10 and by 18.
    ShiftAdd,
    /// The key plus itself shifted right by this many bits; `None` shifts by the bits of the table.
    Fold {
        /// The shift, below 32.
        shift: Option<u32>,
    },
    /// A table lookup for each byte.
    Tabulation,
}

impl WordFunction {
    /// Returns the bucket of `key`, below `1 << bits`.
    #[inline]
    pub fn bucket(self, key: u32, bits: u32) -> u32 {
        match self {
            Self::Multiply { by, shift: None } => key.wrapping_mul(by) >> (32 - bits),
            Self::Fold { shift: None } => key.wrapping_add(key >> bits) & mask(bits),
            _ => self.hash(key) & mask(bits),
        }
    }

    /// Returns the 32-bit hash of `key`; for a product without a shift, the whole product.
    #[inline]
    pub fn hash(self, key: u32) -> u32 {
        match self {
            Self::Untransformed => key,
            Self::Multiply { by, shift } => key.wrapping_mul(by) >> shift.unwrap_or(0),
            Self::ShiftAdd => (key << 7).wrapping_sub(key).wrapping_add(key >> 10).wrapping_add(key >> 18),
            Self::Fold { shift } => key.wrapping_add(key >> shift.unwrap_or(16)),
            Self::Tabulation => {
                let [a, b, c, d] = key.to_le_bytes().map(usize::from);
                TABLES[0][a] ^ TABLES[1][b] ^ TABLES[2][c] ^ TABLES[3][d]
            }
        }
    }

    /// Returns a hash whose low bits select the bucket, for a table of any size. A product without a shift is
    /// bit-reversed, so that its top bits come first.
    pub fn low_bits(self, key: u32) -> u32 {
        match self {
            Self::Multiply { shift: None, .. } => self.hash(key).reverse_bits(),
            _ => self.hash(key),
        }
    }

    /// Parses a function as the user writes it: `untransformed`, `multiply[:MULTIPLIER[:SHIFT]]`, `shift-add`,
    /// `fold[:SHIFT]`, `tabulation`.
    ///
    /// # Errors
    /// Returns the reason, for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut number = |what: &str, limit: u32| {
            let Some(text) = parts.next() else { return Ok(None) };
            let value = text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
            match value {
                Ok(value) if value <= limit => Ok(Some(value)),
                _ => Err(format!("{what} {text:?}: a number from 0 to {limit}")),
            }
        };
        let function = match name {
            "untransformed" => Self::Untransformed,
            "multiply" => Self::Multiply {
                by: number("multiplier", u32::MAX)?.unwrap_or(MULTIPLIER),
                shift: number("shift", 31)?,
            },
            "shift-add" => Self::ShiftAdd,
            "fold" => Self::Fold { shift: number("shift", 31)? },
            "tabulation" => Self::Tabulation,
            _ => return Err(format!("no function {name:?}; {WORD_FUNCTIONS}")),
        };
        match parts.next() {
            Some(extra) => Err(format!("{name} takes no {extra:?}; {WORD_FUNCTIONS}")),
            None => Ok(function),
        }
    }
}

/// The forms that [`WordFunction::parse`] accepts.
pub const WORD_FUNCTIONS: &str =
    "use untransformed, multiply[:MULTIPLIER[:SHIFT]], shift-add, fold[:SHIFT] or tabulation";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_match_values_computed_by_hand() {
        let key = 100_000;
        // 100,000 x 2,654,435,761, of which 32 bits are 1,714,711,712 (see functions.rs).
        let product = (265_443_576_100_000_u64 % (1 << 32)) as u32;
        let multiply = |shift| WordFunction::Multiply { by: MULTIPLIER, shift };
        assert_eq!(multiply(None).bucket(key, 13), product >> 19);
        assert_eq!(multiply(Some(11)).bucket(key, 13), (product >> 11) & 0x1FFF);
        assert_eq!(WordFunction::Untransformed.bucket(key, 10), 100_000 % 1024);
        assert_eq!(WordFunction::ShiftAdd.bucket(key, 14), 12_700_097 % 16_384);
        assert_eq!(WordFunction::Fold { shift: Some(8) }.bucket(key, 10), (100_000 + 390) % 1024);
        assert_eq!(WordFunction::Fold { shift: None }.bucket(key, 10), (100_000 + 97) % 1024);
        // splitmix64 from seed 0: its first outputs are e220a8397b1dcdaf and 6e789e6aa1b965f4.
        assert_eq!(TABLES[0][..2], [0xE220_A839, 0x6E78_9E6A]);
        let expected = TABLES[0][0xA0] ^ TABLES[1][0x86] ^ TABLES[2][0x01] ^ TABLES[3][0];
        assert_eq!(WordFunction::Tabulation.bucket(0x0001_86A0, 16), expected & 0xFFFF);
    }

    #[test]
    fn low_bits_of_a_product_are_its_top_bits_in_reverse() {
        let multiply = WordFunction::Multiply { by: MULTIPLIER, shift: None };
        for key in [1, 77, 100_000, u32::MAX] {
            let reversed = multiply.low_bits(key) & mask(12);
            assert_eq!(reversed.reverse_bits() >> 20, multiply.bucket(key, 12));
        }
    }

    #[test]
    fn functions_are_parsed_and_wrong_ones_explained() {
        let multiply = |by, shift| Ok(WordFunction::Multiply { by, shift });
        assert_eq!(WordFunction::parse("multiply"), multiply(MULTIPLIER, None));
        assert_eq!(WordFunction::parse("multiply:0x11:7"), multiply(17, Some(7)));
        assert_eq!(WordFunction::parse("tabulation"), Ok(WordFunction::Tabulation));
        assert_eq!(WordFunction::parse("fold:4"), Ok(WordFunction::Fold { shift: Some(4) }));
        for wrong in ["", "xxh3", "multiply:x", "multiply:1:32", "multiply:1:2:3", "tabulation:1", "fold:99"] {
            assert!(WordFunction::parse(wrong).is_err(), "{wrong}");
        }
    }
}
