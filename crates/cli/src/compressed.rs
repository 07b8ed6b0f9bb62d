//! Compressed input, recognized by its first bytes: gzip and Zstandard, one member after another.
//!
//! Rows of a format that the user named may begin with the same bytes. Such an input is compressed if its name ends in
//! `.gz` or `.zst`, or if its first 64 KiB decode without an error.
//!
//! Memory: 32 KiB for gzip; for Zstandard the window that the file asks for, at most 128 MiB.

use flate2::bufread::GzDecoder;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Input counts as compressed if it decodes up to this length without an error.
const DECODED_BYTES: u64 = 1 << 20;
/// The largest window that `zstd` itself accepts without `--long`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    Gzip,
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip data",
            Self::Zstd => "Zstandard data",
        })
    }
}

impl Compression {
    pub fn of(head: &[u8]) -> Option<Self> {
        match *head {
            // Method 8, and only known flags.
            [0x1f, 0x8b, 8, flags, ..] if flags < 0x20 => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            // A skippable frame, with which pzstd begins.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Whether `head`, all of an input if `whole`, decodes without an error.
    pub fn decodes(self, head: &[u8], whole: bool) -> bool {
        let decoded = self.reader(head).and_then(|reader| io::copy(&mut reader.take(DECODED_BYTES), &mut io::sink()));
        decoded.map_or_else(|error| !whole && error.kind() == io::ErrorKind::UnexpectedEof, |_| true)
    }

    pub fn reader<'r>(self, compressed: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            Self::Gzip => Box::new(Gzip::Member(GzDecoder::new(BufReader::new(Box::new(compressed))))),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(compressed)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        })
    }
}

type Compressed<'r> = BufReader<Box<dyn Read + 'r>>;

/// The members of gzip data, and zero bytes after the last: `gzip -d` skips this padding of tapes and disks too.
enum Gzip<'r> {
    Member(GzDecoder<Compressed<'r>>),
    /// After a member.
    Between(Compressed<'r>),
    Padding(Compressed<'r>),
    End,
}

impl Read for Gzip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let next = match self {
                Self::Member(member) => {
                    let count = member.read(buffer)?;
                    if count > 0 || buffer.is_empty() {
                        return Ok(count);
                    }
                    None
                }
                Self::Between(rest) | Self::Padding(rest) => Some(rest.fill_buf()?.first().copied()),
                Self::End => return Ok(0),
            };
            *self = match (std::mem::replace(self, Self::End), next) {
                (Self::Member(member), _) => Self::Between(member.into_inner()),
                (Self::Between(mut rest) | Self::Padding(mut rest), Some(Some(0))) => {
                    let zeros = rest.buffer().iter().take_while(|byte| **byte == 0).count();
                    rest.consume(zeros);
                    Self::Padding(rest)
                }
                (Self::Between(rest), Some(Some(_))) => Self::Member(GzDecoder::new(rest)),
                (Self::Padding(_), Some(Some(_))) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "other bytes follow the padding after it"));
                }
                _ => Self::End,
            };
        }
    }
}

/// Whether a file's name says that it is compressed.
pub fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["gz", "tgz", "zst", "tzst"].iter().any(|known| extension == *known))
}

/// Whether the error is a Zstandard window above the limit.
pub fn needs_larger_window(error: &io::Error) -> bool {
    error.to_string().contains("requires too much memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_not_taken_for_compressed() {
        assert_eq!(Compression::of(b"a\t1\n"), None);
        assert_eq!(Compression::of(b"\x1f\x8b"), None);
        assert_eq!(Compression::of(b"\x1f\x8b\x08\xff"), None);
    }

    fn gzip(contents: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::read::GzEncoder::new(contents, flate2::Compression::fast());
        let mut compressed = Vec::new();
        encoder.read_to_end(&mut compressed).unwrap();
        compressed
    }

    fn contents(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        compression.reader(bytes)?.read_to_end(&mut contents).map(|_| contents)
    }

    #[test]
    fn zeros_after_gzip_data_are_padding_and_other_bytes_an_error() {
        let member = gzip(b"a\t1\n");
        for zeros in [0, 1, 511, 100_000] {
            let padded = [&member[..], &member, &vec![0; zeros]].concat();
            assert_eq!(contents(Compression::Gzip, &padded).unwrap(), b"a\t1\na\t1\n", "{zeros}");
            let garbage = [&padded[..], b"x"].concat();
            assert!(contents(Compression::Gzip, &garbage).is_err(), "{zeros}");
        }
        assert!(contents(Compression::Gzip, &[&member[..], &[0], &member].concat()).is_err());
    }

    #[test]
    fn zstandard_data_may_begin_with_a_skippable_frame() {
        let frame = zstd::encode_all(&b"a\t1\n"[..], 1).unwrap();
        for magic in 0x50..=0x5f {
            let bytes = [&[magic, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &frame].concat();
            assert_eq!(Compression::of(&bytes), Some(Compression::Zstd));
            assert_eq!(contents(Compression::Zstd, &bytes).unwrap(), b"a\t1\n");
        }
    }

    #[test]
    fn rows_that_begin_like_compressed_data_do_not_decode() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let rows = match compression {
                Compression::Gzip => [&b"\x1f\x8b\x08\x00"[..], &b"key\tvalue\n".repeat(1000)].concat(),
                Compression::Zstd => [&b"(\xb5/\xfd"[..], &b"key\tvalue\n".repeat(1000)].concat(),
            };
            assert_eq!(Compression::of(&rows), Some(compression));
            assert!(!compression.decodes(&rows, true) && !compression.decodes(&rows[..500], false), "{compression}");
            assert!(!compression.decodes(&rows[..8], true), "{compression}");
        }
        let compressed = gzip(&b"key\tvalue\n".repeat(1000));
        assert!(Compression::Gzip.decodes(&compressed, true) && Compression::Gzip.decodes(&compressed[..20], false));
    }
}
