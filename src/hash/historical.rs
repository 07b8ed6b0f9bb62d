//! The hash functions of databases before 1995, for comparison and for repeating old measurements.
//!
//! All have 32 bits, treat bytes as unsigned, and take no seed, so an attacker who chooses keys chooses their bucket.
//! New tables should use the default function.
//!
//! Source: Seltzer & Yigit 1991 and the `hash_func.c` of 4.4BSD (hash1 to hash4).
//! Differs: written from the formulas; each function names its differences from 4.4BSD.
//! Not here: modern functions (`modern.rs`).

/// sdbm, `h = h * 65599 + c`: Ozan Yigit, 1989.
///
/// Used in sdbm, Perl's SDBM_File, gawk, and as hash3 in 4.4BSD. sdbm used C's `char`, so its files differ for bytes
/// above 127 where `char` is signed. Weakness: linear, and 65599 is -1 modulo 64, so the low 6 bits are the alternating
/// sum of the bytes: equal for "ac" and "bd".
#[inline]
pub(super) fn sdbm(key: &[u8]) -> u32 {
    polynomial(key, 0, 65_599)
}

/// djb2, `h = h * 33 + c` from 5381: Dan Bernstein, comp.lang.c, about 1990; the same step by Chris Torek.
///
/// Used in cdb (with xor instead of the sum) and, starting at 0 as in Torek's version, as hash4, the default of the
/// 1991 package. The two versions differ by the constant 5381 * 33^length, so keys of equal length collide in both or
/// in neither. Weakness: 33 is small, so short keys use few of the 32 bits, and "az" collides with "bY".
#[inline]
pub(super) fn djb2(key: &[u8]) -> u32 {
    polynomial(key, 5381, 33)
}

/// `h = h * factor + c` from `start`, all modulo 2^32.
#[inline]
fn polynomial(key: &[u8], start: u32, factor: u32) -> u32 {
    key.iter().fold(start, |h, &c| h.wrapping_mul(factor).wrapping_add(c.into()))
}

/// Phong's linear congruential hash, `h = 0x63c63cd9 * h + 0x9c39c33d + c`: Phong Vo, AT&T Bell Laboratories.
///
/// Used in Netscape's mail (starting at 1) and as hash2 in 4.4BSD. Weakness: linear like `sdbm` and `djb2`. The large
/// factor spreads short keys over the word, but the lowest bit is the parity of the bytes and the length.
#[inline]
pub(super) fn phong(key: &[u8]) -> u32 {
    key.iter().fold(0, |h: u32, &c| {
        let step = h.wrapping_mul(0x63c6_3cd9).wrapping_add(0x9c39_c33d);
        step.wrapping_add(c.into())
    })
}

/// The function of dynahash, `h = h * 37 ^ (c - ' ')`: Per-Ake Larson, "Dynamic Hash Tables", CACM 31(4), 1988.
///
/// Used in Esmond Pitt's dynahash, from there in early PostgreSQL, and as hash1 in 4.4BSD. These reduce the result
/// modulo 1048583, which leaves buckets above 2^20 empty; this function does not. Weakness: 37 is small, like 33 in
/// `djb2`, and a leading space has no effect: " a" collides with "a".
#[inline]
pub(super) fn dynahash(key: &[u8]) -> u32 {
    key.iter().fold(0, |h: u32, &c| h.wrapping_mul(37) ^ u32::from(c).wrapping_sub(0x20))
}

/// Knuth's multiplicative hash, `fold(key) * 2654435761`: The Art of Computer Programming 3, section 6.4.
///
/// Used, on one word, in System V's hsearch and in the Linux kernel's page and buffer caches. The factor is from Lever
/// 2000: a prime near 2^32 divided by the golden ratio. The fold is the exclusive or of the key's 32-bit little-endian
/// words, the last one padded with zero bytes. Weakness: the fold ignores the order of words and trailing zeros. The
/// low n bits of the product depend only on the low n bits of the fold; Knuth uses the *high* bits.
#[inline]
pub(super) fn knuth(key: &[u8]) -> u32 {
    let (words, tail) = key.as_chunks::<4>();
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    let folded = words.iter().fold(u32::from_le_bytes(last), |fold, word| fold ^ u32::from_le_bytes(*word));
    folded.wrapping_mul(2_654_435_761)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values: computed from the formulas with big integers; one and two bytes by hand:
    // 'a' = 97, so "aa" is 97 * 65600 = 6363200 under sdbm and (5381 * 33 + 97) * 33 + 97 = 5863207 under djb2.
    // "\xff\x80 ~\0" has bytes above 127 (signed characters), a space, and a zero byte (C strings).

    #[test]
    fn sdbm_gives_known_hashes() {
        assert_eq!(sdbm(b""), 0);
        assert_eq!(sdbm(b"a"), 97);
        assert_eq!(sdbm(b"aa"), 6_363_200);
        assert_eq!(sdbm(b"%$sniglet^&"), 0xaa50_3fcb);
        assert_eq!(sdbm(b"\xff\x80 ~\0"), 0xfc1b_10a1);
    }

    #[test]
    fn djb2_gives_known_hashes() {
        assert_eq!(djb2(b""), 5381);
        assert_eq!(djb2(b"a"), 177_670);
        assert_eq!(djb2(b"aa"), 5_863_207);
        assert_eq!(djb2(b"%$sniglet^&"), 0x263e_9568);
        assert_eq!(djb2(b"\xff\x80 ~\0"), 0x1a4c_3182);
    }

    #[test]
    fn phong_gives_known_hashes() {
        assert_eq!(phong(b""), 0);
        assert_eq!(phong(b"a"), 0x9c39_c39e); // 0x9c39c33d + 0x61
        assert_eq!(phong(b"aa"), 0xf93d_9c8c);
        assert_eq!(phong(b"%$sniglet^&"), 0xf1f3_39fa);
        assert_eq!(phong(b"\xff\x80 ~\0"), 0x2a27_aaee);
    }

    #[test]
    fn dynahash_gives_known_hashes() {
        assert_eq!(dynahash(b""), 0);
        assert_eq!(dynahash(b"a"), 65);
        assert_eq!(dynahash(b"aa"), (65 * 37) ^ 65);
        assert_eq!(dynahash(b"\0"), 0xffff_ffe0); // 0 - 32, as C's unsigned arithmetic has it
        assert_eq!(dynahash(b"%$sniglet^&"), 0x77d3_5a9f);
        assert_eq!(dynahash(b"\xff\x80 ~\0"), 0xe6fd_fd71);
    }

    #[test]
    fn knuth_gives_known_hashes() {
        assert_eq!(knuth(b""), 0);
        assert_eq!(knuth(b"\x01"), 2_654_435_761);
        assert_eq!(knuth(b"\0\0\0\0\x01"), 2_654_435_761);
        assert_eq!(knuth(b"%$sniglet^&"), 0x9854_abb8);
        assert_eq!(knuth(b"\xff\x80 ~\0"), 0xaa3a_b74f);
    }

    /// Compares the linear functions with a sum over positions.
    #[test]
    fn linear_functions_equal_their_closed_form() {
        for key in keys() {
            assert_eq!(u64::from(sdbm(&key)), closed_form(&key, 65_599, 0, 0), "sdbm, {key:?}");
            assert_eq!(u64::from(djb2(&key)), closed_form(&key, 33, 0, 5381), "djb2, {key:?}");
            assert_eq!(u64::from(phong(&key)), closed_form(&key, 0x63c6_3cd9, 0x9c39_c33d, 0), "phong, {key:?}");
        }
    }

    /// Compares it with a recursion from the last byte, with signed integers.
    #[test]
    fn dynahash_equals_its_recursive_form() {
        fn recursive(key: &[u8]) -> i128 {
            let Some((&last, rest)) = key.split_last() else { return 0 };
            let modulus = 1 << 32;
            (recursive(rest) * 37).rem_euclid(modulus) ^ (i128::from(last) - 32).rem_euclid(modulus)
        }
        for key in keys() {
            assert_eq!(i128::from(dynahash(&key)), recursive(&key), "{key:?}");
        }
    }

    /// Compares it bit by bit: byte i is at bit 8 * (i mod 4), and the xor of bits is their sum modulo 2.
    #[test]
    fn knuth_equals_its_bitwise_form() {
        for key in keys() {
            let mut counts = [0u32; 32];
            for (i, byte) in key.iter().enumerate() {
                for bit in 0..8 {
                    counts[i % 4 * 8 + bit] += u32::from(byte >> bit & 1);
                }
            }
            let folded = counts.iter().rev().fold(0u64, |word, count| word * 2 + u64::from(count % 2));
            assert_eq!(u64::from(knuth(&key)), folded * 2_654_435_761 % (1 << 32), "{key:?}");
        }
    }

    #[test]
    fn weaknesses_are_as_described() {
        assert_eq!(sdbm(b"ac") % 64, sdbm(b"bd") % 64);
        assert_eq!(djb2(b"az"), djb2(b"bY"));
        assert_eq!(phong(b"ab") % 2, phong(b"ba") % 2);
        assert_eq!(dynahash(b" a"), dynahash(b"a"));
        assert_eq!(knuth(b"abcdefgh"), knuth(b"efghabcd"));
        assert_eq!(knuth(b"a"), knuth(b"a\0\0"));
    }

    /// Compares Torek's version, which starts at 0, with Bernstein's, which starts at 5381.
    #[test]
    fn djb2_differs_from_toreks_by_5381_times_a_power_of_33() {
        for key in keys() {
            let power = 33u32.wrapping_pow(key.len().try_into().unwrap());
            assert_eq!(djb2(&key).wrapping_sub(5381u32.wrapping_mul(power)), polynomial(&key, 0, 33));
        }
    }

    fn closed_form(key: &[u8], factor: u64, each: u64, start: u64) -> u64 {
        let modulus = 1u64 << 32;
        let mut power = 1;
        let mut sum = 0;
        for &byte in key.iter().rev() {
            sum = (sum + power * (each + u64::from(byte)) % modulus) % modulus;
            power = power * factor % modulus;
        }
        (sum + power * start % modulus) % modulus
    }

    /// Returns keys of 0 to 39 bytes, with bytes of all values.
    fn keys() -> impl Iterator<Item = Vec<u8>> {
        (0..40u32).flat_map(|len| (0..8u32).map(move |k| (0..len).map(|i| (i * 97 + k * 53 + len) as u8).collect()))
    }
}
