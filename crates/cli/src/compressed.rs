//! Compressed input, recognized by its first bytes: gzip and Zstandard, one member after another.
//!
//! Memory: 32 KiB for gzip; for Zstandard the window that the file asks for, at most 128 MiB.

use crate::input::is_signal;
use flate2::read::MultiGzDecoder;
use std::fmt;
use std::io::{self, Read};

/// Bytes that decide.
const SIGNATURE_BYTES: usize = 4;
/// As much as a pipe holds.
const HEAD_BYTES: usize = 64 << 10;
/// Of the window: what `zstd` itself takes without `--long`.
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
            // Method 8, and no flag that is not known.
            [0x1f, 0x8b, 8, flags, ..] if flags < 0x20 => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    pub fn reader<'r>(self, compressed: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(compressed)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(compressed)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        })
    }
}

/// The first bytes: what the first read returns, and at least those that decide, unless the input ends or a signal
/// comes before.
pub fn head(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut read = 0;
    while read < SIGNATURE_BYTES {
        match source.read(&mut head[read..]) {
            Ok(0) => break,
            Ok(count) => read += count,
            // Reading on meets the signal again.
            Err(error) if is_signal(&error) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(read);
    Ok(head)
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
}
