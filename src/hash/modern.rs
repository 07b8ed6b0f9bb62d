//! Modern hash functions: XXH3, rapidhash, SipHash-1-3, FNV-1a, CRC-32C, MurmurHash3.
//!
//! Functions that need tuning come from crates; FNV-1a and MurmurHash3 are short and implemented here. The publications
//! define the results, not the crates: the tests compare published vectors.
//!
//! Cost: `splitpoint lab hash` measures each on given keys (docs/hashing.md, "Time").
//! Not here: ids and names (`mod.rs`), older functions (`historical.rs`).

use std::hash::Hasher;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};
use siphasher::sip::SipHasher13;

/// XXH3, 64 bits: Yann Collet, xxHash 0.8.0, 2020, which froze the algorithm.
///
/// Multiplies 16 bytes at a time up to 240 bytes; longer keys are mixed in stripes of 64. No defence against an
/// attacker, even with a secret seed.
#[inline]
pub(super) fn xxh3(key: &[u8], seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, seed)
}

/// [`xxh3`] of short keys with one seed: what depends on the seed alone is computed once, which is a quarter of the
/// instructions of such a hash.
#[derive(Clone, Copy)]
pub(super) struct ShortXxh3 {
    /// For keys of 4 to 8 bytes.
    flip: u64,
    /// For keys of 9 to 16 bytes.
    flips: [u64; 2],
}

impl ShortXxh3 {
    pub(super) fn new(seed: u64) -> ShortXxh3 {
        // Each is the exclusive or of two words of the secret, at bytes 8 and 16, 24 and 32, 40 and 48.
        const SECRET: [u64; 3] = [
            0x1cad_21f7_2c81_017c ^ 0xdb97_9083_e96d_d4de,
            0x1f67_b3b7_a4a4_4072 ^ 0x78e5_c0cc_4ee6_79cb,
            0x2172_ffcc_7dd0_5a82 ^ 0x8e24_43f7_7446_08b8,
        ];
        let mixed = seed ^ u64::from((seed as u32).swap_bytes()) << 32;
        ShortXxh3 {
            flip: SECRET[0].wrapping_sub(mixed),
            flips: [SECRET[1].wrapping_add(seed), SECRET[2].wrapping_sub(seed)],
        }
    }

    /// The hash of a key of 4 to 16 bytes; `None` for others.
    #[inline(always)]
    pub(super) fn hash(self, key: &[u8]) -> Option<u64> {
        if key.len() <= 8 { self.hash_4_to_8(key) } else { self.hash_9_to_16(key) }
    }

    /// The hash of a key of 4 to 8 bytes; `None` for others.
    #[inline(always)]
    pub(super) fn hash_4_to_8(self, key: &[u8]) -> Option<u64> {
        let (Some(first), Some(last), true) = (key.first_chunk(), key.last_chunk(), key.len() <= 8) else {
            return None;
        };
        let word = u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
        Some(self.hash_word(word, key.len()))
    }

    /// The hash of a key of 9 to 16 bytes; `None` for others.
    #[inline(always)]
    pub(super) fn hash_9_to_16(self, key: &[u8]) -> Option<u64> {
        let (Some(first), Some(last), 9..=16) = (key.first_chunk(), key.last_chunk(), key.len()) else {
            return None;
        };
        let (low, high) = (u64::from_le_bytes(*first) ^ self.flips[0], u64::from_le_bytes(*last) ^ self.flips[1]);
        let product = u128::from(low) * u128::from(high);
        let sum = (key.len() as u64).wrapping_add(low.swap_bytes()).wrapping_add(high);
        let mut h = sum.wrapping_add(product as u64 ^ (product >> 64) as u64);
        h ^= h >> 37;
        h = h.wrapping_mul(0x1656_6791_9e37_79f9);
        Some(h ^ h >> 32)
    }

    /// The hash of a key of `len` bytes, 4 to 8: its first four bytes are the upper half of `word`, its last four the
    /// lower half.
    #[inline(always)]
    fn hash_word(self, word: u64, len: usize) -> u64 {
        const PRIME: u64 = 0x9fb2_1c65_1e98_df25;
        let mut h = word ^ self.flip;
        h ^= h.rotate_left(49) ^ h.rotate_left(24);
        h = h.wrapping_mul(PRIME);
        h ^= (h >> 35).wrapping_add(len as u64);
        h = h.wrapping_mul(PRIME);
        h ^ h >> 28
    }
}

/// rapidhash V3, 64 bits: Nicolas De Carli, 2025, after Wang Yi's wyhash.
///
/// The crate promises stable output only for its module `v3`, not for its hashers (`fast`, `quality`). `seed_cpp` seeds
/// like the C original, with its default secrets, and costs one multiplication a call. Published key pairs collide
/// under every seed, so it is no defence against an attacker.
#[inline]
pub(super) fn rapidhash(key: &[u8], seed: u64) -> u64 {
    rapidhash_v3_inline::<true, false, false>(key, &RapidSecrets::seed_cpp(seed))
}

/// SipHash-1-3, 64 bits: Aumasson & Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012, with one round for
/// each word and three at the end, as in the hash tables of Rust and Python.
///
/// The only function here that resists attackers, as long as the key words stay secret. The seed of a table is the
/// first word; the second is 0.
#[inline]
pub(super) fn siphash13(key: &[u8], words: [u64; 2]) -> u64 {
    // `write`, not `Hash::hash`: the latter would add a length prefix.
    let mut hasher = SipHasher13::new_with_keys(words[0], words[1]);
    hasher.write(key);
    hasher.finish()
}

/// FNV-1a, 64 bits: Fowler, Noll & Vo, IEEE POSIX P1003.2 review, 1991; constants as in RFC 9923.
///
/// One dependent multiplication for each byte: fast on short keys, slow on long ones. The low n bits depend only on the
/// low n bits of each byte.
#[inline]
pub(super) fn fnv1a(key: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    key.iter().fold(OFFSET_BASIS, |h, &c| (h ^ u64::from(c)).wrapping_mul(PRIME))
}

/// CRC-32C, 32 bits: Castagnoli, Braeuer & Herrmann, IEEE Transactions on Communications 41(6), 1993; parameters as
/// in RFC 3720 (iSCSI).
///
/// Rather a checksum: it is linear, so keys that differ in the same bits have hashes that differ in the same bits.
#[inline]
pub(super) fn crc32c(key: &[u8]) -> u32 {
    crate::checksum::crc32c(key)
}

/// MurmurHash3_x64_128: Austin Appleby, SMHasher, 2011. Returns both words; a table uses the first.
///
/// The seed has 32 bits in the original and 64 here; results are equal if the upper half is 0. Published key sets
/// collide under every seed (Aumasson, Bernstein & Bosslet 2012).
#[inline]
pub(super) fn murmur3(key: &[u8], seed: u64) -> [u64; 2] {
    let (mut h1, mut h2) = (seed, seed);
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let [k1, k2] = words_of(block);
        h1 = (h1 ^ murmur3_k1(k1)).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ murmur3_k2(k2)).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }

    // The original skips the words of an empty tail; padded with 0, they change nothing.
    let mut last = [0; 16];
    last[..tail.len()].copy_from_slice(tail);
    let [k1, k2] = words_of(&last);
    let len = key.len() as u64;
    h1 ^= murmur3_k1(k1) ^ len;
    h2 ^= murmur3_k2(k2) ^ len;

    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (fmix64(h1), fmix64(h2));
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    [h1, h2]
}

#[inline]
fn murmur3_k1(k: u64) -> u64 {
    k.wrapping_mul(MURMUR3_C1).rotate_left(31).wrapping_mul(MURMUR3_C2)
}

#[inline]
fn murmur3_k2(k: u64) -> u64 {
    k.wrapping_mul(MURMUR3_C2).rotate_left(33).wrapping_mul(MURMUR3_C1)
}

const MURMUR3_C1: u64 = 0x87c3_7b91_1142_53d5;
const MURMUR3_C2: u64 = 0x4cf5_ad43_2745_937f;

/// The finalizer of [`murmur3`]: a bijection of 64-bit words in which every output bit depends on every input bit.
#[inline]
pub(super) fn fmix64(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[inline]
fn words_of(block: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(*block);
    [both as u64, (both >> 64) as u64] // the low and the high half
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: `XSUM_XXH3_testdata` in xxHash 0.8.3's sanity check, on its pseudorandom buffer.
    #[test]
    fn xxh3_matches_the_vectors_of_its_author() {
        const SEED: u64 = 11_400_714_785_074_694_797;
        let vectors = [
            (0, 0x2d06_8005_38d3_94c2, 0xa8a6_b918_b2f0_364a),
            (1, 0xc44b_dff4_074e_ecdb, 0x032b_e332_dd76_6ef8),
            (6, 0x27b5_6a84_cd2d_7325, 0x8458_9c11_6ab5_9ab9),
            (12, 0xa713_daf0_dfbb_77e7, 0xe730_3e1b_2336_de0e),
            (24, 0xa3fe_70bf_9d35_10eb, 0x850e_80fc_35bd_d690),
            (48, 0x397d_a259_ecba_1f11, 0xadc2_cbaa_44ac_c616),
            (80, 0xbcde_fbbb_2c47_c90a, 0xc6dd_0cb6_9953_2e73),
            (195, 0xcd94_217e_e362_ec3a, 0xba68_003d_370c_b3d9),
            (403, 0xcdeb_804d_65c6_dea4, 0x6259_f6ec_fd64_43fd),
            (512, 0x617e_4959_9013_cb6b, 0x3ce4_57de_14c2_7708),
            (2048, 0xdd59_e2c3_a5f0_38e0, 0x66f8_1670_669a_babc),
            (2240, 0x6e73_a905_39cf_2948, 0x757b_a848_7d1b_5247),
            (2367, 0xcb37_aeb9_e5d3_61ed, 0xd2db_3415_b942_b42a),
        ];
        let mut state: u64 = 2_654_435_761;
        let buffer: Vec<u8> = std::iter::repeat_with(|| {
            let byte = (state >> 56) as u8;
            state = state.wrapping_mul(SEED);
            byte
        })
        .take(2367)
        .collect();
        for (len, unseeded, seeded) in vectors {
            assert_eq!(xxh3(&buffer[..len], 0), unseeded, "{len} bytes");
            assert_eq!(xxh3(&buffer[..len], SEED), seeded, "{len} bytes, seeded");
        }
    }

    #[test]
    fn short_keys_have_the_same_xxh3() {
        let key: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(37)).collect();
        for seed in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            let short = ShortXxh3::new(seed);
            for (start, len) in (0..16).flat_map(|start| (0..24).map(move |len| (start, len))) {
                let key = &key[start..start + len];
                let expected = (4..=16).contains(&len).then(|| xxh3(key, seed));
                assert_eq!(short.hash(key), expected, "{len} bytes, seed {seed}");
            }
        }
    }

    /// Source: SMHasher3, `hashes/rapidhash.cpp`, "rapidhash v3, 64-bit".
    #[test]
    fn rapidhash_matches_the_verification_value_of_smhasher() {
        let value = verification_value(|key, seed| rapidhash(key, seed).to_le_bytes());
        assert_eq!(value, 0x1fdc_65ee);
    }

    /// Source: the first nine vectors of Rust's standard library (key bytes 0 to 15, message of n bytes 0, 1, 2, ...).
    /// The paper's vectors are for SipHash-2-4.
    #[test]
    fn siphash13_matches_the_vectors_of_the_standard_library() {
        let words = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let vectors: [[u8; 8]; 9] = [
            [0xdc, 0xc4, 0x0f, 0x05, 0x58, 0x01, 0xac, 0xab],
            [0x93, 0xca, 0x57, 0x7d, 0xf3, 0x9b, 0xf4, 0xc9],
            [0x4d, 0xd4, 0xc7, 0x4d, 0x02, 0x9b, 0xcb, 0x82],
            [0xfb, 0xf7, 0xdd, 0xe7, 0xb8, 0x0a, 0xf8, 0x8b],
            [0x28, 0x83, 0xd3, 0x88, 0x60, 0x57, 0x75, 0xcf],
            [0x67, 0x3b, 0x53, 0x49, 0x2f, 0xd5, 0xf9, 0xde],
            [0xa7, 0x22, 0x9f, 0xc5, 0x50, 0x2b, 0x0d, 0xc5],
            [0x40, 0x11, 0xb1, 0x9b, 0x98, 0x7d, 0x92, 0xd3],
            [0x8e, 0x9a, 0x29, 0x8d, 0x11, 0x95, 0x90, 0x36],
        ];
        for (len, vector) in vectors.iter().enumerate() {
            let message: Vec<u8> = (0..).take(len).collect();
            assert_eq!(siphash13(&message, words).to_le_bytes(), *vector, "{len} bytes");
        }
    }

    /// Source: RFC 9923 and Noll's `test_fnv.c`.
    #[test]
    fn fnv1a_matches_the_vectors_of_its_authors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"b"), 0xaf63_df4c_8601_f1a5);
        assert_eq!(fnv1a(b"foob"), 0xdd12_0e79_0c25_12af);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    /// Source: the usual check value, and RFC 3720, B.4.
    #[test]
    fn crc32c_matches_the_vectors_of_iscsi() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
        let descending: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(&descending), 0x113f_db5c);
    }

    /// Source: SMHasher, `main.cpp`, "MurmurHash3 for x64, 128-bit".
    #[test]
    fn murmur3_matches_the_verification_value_of_its_author() {
        let value = verification_value(|key, seed| {
            let [h1, h2] = murmur3(key, seed);
            (u128::from(h2) << 64 | u128::from(h1)).to_le_bytes()
        });
        assert_eq!(value, 0x6384_ba69);
    }

    /// The tail is padded with zero bytes, so only the length distinguishes these keys.
    #[test]
    fn murmur3_distinguishes_a_padded_tail_from_zero_bytes() {
        for len in 0..33 {
            assert_ne!(murmur3(&vec![0; len], 0), murmur3(&vec![0; len + 1], 0), "{len} bytes");
        }
    }

    /// Returns SMHasher's check value of a function: hashes the keys {}, {0}, {0, 1}, ... with the seeds 256, 255, ...,
    /// then the concatenated results; the check value is the first four bytes.
    fn verification_value<const N: usize>(hash: impl Fn(&[u8], u64) -> [u8; N]) -> u32 {
        let key: Vec<u8> = (0..=254).collect();
        let results: Vec<u8> = (0..=255).flat_map(|len| hash(&key[..len], 256 - len as u64)).collect();
        let [a, b, c, d, ..] = hash(&results, 0)[..] else { unreachable!("a hash has four bytes or more") };
        u32::from_le_bytes([a, b, c, d])
    }
}
