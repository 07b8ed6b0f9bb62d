//! Which hash function a scheme uses: its own of old, or one of the package for all.
//!
//! Schemes take the low bits first. Where a program took the leading ones, the function here gives its bits reversed.

use splitpoint::HashKind;

/// A function from keys to 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// One of the package, its low 32 bits.
    Package(HashKind),
    /// gdbm's: bytes shifted in, then a step of a linear congruential generator; 31 bits, the leading ones first.
    Gdbm,
    /// System V's word for a key: its length and the sum of its bytes. Used as it is, by division.
    ByteSum,
    /// That word by Knuth's factor, the leading bits first: System V's multiplication.
    Multiplied,
}

impl Function {
    /// The hash of `key`.
    pub fn hash(self, key: &[u8]) -> u32 {
        match self {
            Function::Package(kind) => kind.hash(key, 0) as u32,
            Function::Gdbm => gdbm(key),
            Function::ByteSum => byte_sum(key),
            // Knuth's of a key of four bytes is the product of that word.
            Function::Multiplied => (HashKind::Knuth.hash(&byte_sum(key).to_le_bytes(), 0) as u32).reverse_bits(),
        }
    }

    /// For tables of figures.
    pub fn name(self) -> &'static str {
        match self {
            Function::Package(kind) => kind.name(),
            Function::Gdbm => "gdbm",
            Function::ByteSum => "sum",
            Function::Multiplied => "sum*knuth",
        }
    }
}

/// What a 31-bit word keeps.
const LOW_31: u32 = u32::MAX >> 1;

fn gdbm(key: &[u8]) -> u32 {
    let start = 0x238F_13AF_u32.wrapping_mul(key.len() as u32);
    let mixed = key
        .iter()
        .enumerate()
        .fold(start, |value, (index, &byte)| value.wrapping_add(u32::from(byte) << (index * 5 % 24)) & LOW_31);
    let stepped = mixed.wrapping_mul(1_103_515_243).wrapping_add(12_345) & LOW_31;
    stepped.reverse_bits() >> 1
}

fn byte_sum(key: &[u8]) -> u32 {
    key.iter().fold(key.len() as u32, |sum, &byte| sum.wrapping_add(byte.into()))
}
