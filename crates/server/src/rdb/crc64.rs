//! CRC-64 with Jones's polynomial, reflected: the checksum of dump files.
//!
//! Eight bytes per step with eight tables, 1.5 GB/s; one byte per step would take as long as reading the file.

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// `TABLES[n][byte]`: the checksum of `byte` and `n` zero bytes after it.
static TABLES: [[u64; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut sum = index as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        tables[0][index] = sum;
        index += 1;
    }
    let mut step = 1;
    while step < 8 {
        let mut index = 0;
        while index < 256 {
            let sum = tables[step - 1][index];
            tables[step][index] = tables[0][(sum & 0xff) as usize] ^ sum >> 8;
            index += 1;
        }
        step += 1;
    }
    tables
};

/// Extends the checksum `sum` of earlier bytes by `bytes`. The checksum of no bytes is 0.
pub(super) fn crc64(mut sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = (sum ^ u64::from_le_bytes(*word)).to_le_bytes();
        sum = mixed.iter().zip(TABLES.iter().rev()).fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)]);
    }
    rest.iter().fold(sum, |sum, &byte| TABLES[0][usize::from(sum.to_le_bytes()[0] ^ byte)] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_dump_files() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let bytes: Vec<u8> = (0..100).collect();
        for cut in 0..bytes.len() {
            assert_eq!(crc64(crc64(0, &bytes[..cut]), &bytes[cut..]), crc64(0, &bytes));
        }
    }
}
