//! The hash function of a scheme: its historical one, or one of the package.
//!
//! The models use low bits first. Where the original program used high bits first, the function here returns them
//! reversed.

use splitpoint::HashKind;

/// A function from keys to 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The low 32 bits of a function of the package.
    Package(HashKind),
    /// gdbm's: bytes shifted and added, then one step of a linear congruential generator; 31 bits, high bits first.
    Gdbm,
    /// System V's hash by division: the length of the key plus the sum of its bytes.
    ByteSum,
    /// System V's hash by multiplication: the byte sum times Knuth's factor, high bits first.
    Multiplied,
}

impl Function {
    /// Returns the hash of `key`.
    pub fn hash(self, key: &[u8]) -> u32 {
        match self {
            Function::Package(kind) => kind.hash(key, 0) as u32,
            Function::Gdbm => gdbm(key),
            Function::ByteSum => byte_sum(key),
            // For a key of four bytes, `Knuth` is the product of that word.
            Function::Multiplied => (HashKind::Knuth.hash(&byte_sum(key).to_le_bytes(), 0) as u32).reverse_bits(),
        }
    }

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Function::Package(kind) => kind.name(),
            Function::Gdbm => "gdbm",
            Function::ByteSum => "sum",
            Function::Multiplied => "sum*knuth",
        }
    }
}

/// The low 31 bits.
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
