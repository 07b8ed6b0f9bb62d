//! Bytes of a file or pipe, returned by the line or by the byte count, without a copy.
//!
//! One buffer: `[returned | start .. end: read, not yet returned | free]`. A row that does not fit makes it grow by
//! doubling what has actually been read, so a length that the input merely claims costs nothing. A row longer than
//! [`ROW_BYTES_MAX`], or than the memory that can be allocated, is reported as [`Taken::TooLong`] and never aborts. A
//! signal wakes a waiting read. Compressed input is recognized by its first bytes and decompressed (`compressed.rs`).

use crate::compressed::{self, Compression};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use splitpoint::ErrorKind;
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;

/// The default limit for a row. An input without line ends stops here instead of filling memory.
pub const ROW_BYTES_MAX: u64 = 1 << 30;

/// The mark that some programs put before UTF-8 text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Large enough that a system call costs little compared to the data it returns.
const BUFFER_BYTES: usize = 256 << 10;

/// Bytes that show whether the input is compressed.
const SIGNATURE_BYTES: usize = 4;
/// The capacity of a pipe.
const HEAD_BYTES: usize = 64 << 10;

/// The result of [`Input::line`], [`Input::exactly`] or [`Input::header`]. Ranges are for [`Input::bytes`], valid until
/// the next call.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Bytes(Range<usize>),
    /// The row is longer than the limit or than free memory; [`Input::limit_met`] says which. The next call of
    /// [`Input::line`] skips the rest of the line.
    TooLong,
    /// The input ended inside the row, after that many bytes.
    Short(usize),
    /// A signal came while we waited.
    Interrupted,
    End,
}

pub struct Input<'i> {
    source: Box<dyn Read + 'i>,
    /// The name for messages: the file as the user gave it, or `stdin`.
    pub name: String,
    /// Length of a regular file; `None` for pipes and compressed files.
    pub file_bytes: Option<u64>,
    /// The regular file, and where in it the input begins; `None` for pipes and compressed files.
    file: Option<(File, u64)>,
    /// The compression of the file, and the number of its bytes read.
    compressed: Option<(Compression, Rc<Cell<u64>>)>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position in the input of `buffer[0]`.
    position: u64,
    row_bytes_max: u64,
    /// A row ended because memory for it could not be allocated.
    no_memory: bool,
    /// The rest of the current line is skipped before the next one is read.
    skips_line: bool,
}

impl<'i> Input<'i> {
    /// `-` is standard input. `certain`: the format is known, so rows may begin like compressed data.
    pub fn open(path: &Path, certain: bool, interrupt: &'i Interrupt) -> Result<Self> {
        let stdin = path.as_os_str() == "-";
        let name = if stdin { "stdin".to_owned() } else { path.display().to_string() };
        let file = if stdin { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { open(path) };
        let file = file.map_err(|error| Failure::io(&name, &error))?;
        let metadata = file.metadata().map_err(|error| Failure::io(&name, &error))?;
        if metadata.is_dir() {
            return Err(Failure::usage(format!(
                "{name}: is a directory; give a file of pairs, or - for standard input"
            )));
        }
        let file_bytes = metadata.is_file().then_some(metadata.len());
        let again = metadata.is_file().then(|| Ok((file.try_clone()?, (&file).stream_position()?))).transpose();
        let again = again.map_err(|error: io::Error| Failure::io(&name, &error))?;
        let read = Rc::new(Cell::new(0));
        let mut source = Wakeable { file, interrupt, read: Rc::clone(&read) };
        let fully = certain && !compressed::is_named(path);
        let (head, whole) = head(&mut source, fully).map_err(|error| Failure::io(&name, &error))?;
        if metadata.is_file() && whole && head.is_empty() && compressed::is_named(path) {
            let what = "is empty, which no compressed file is; compress its contents again, or give another file";
            return Err(Failure::of_kind(ErrorKind::Corrupt, format_args!("{name}: {what}")));
        }
        let compression = Compression::of(&head).filter(|found| !fully || found.decodes(&head, whole));
        let all = io::Read::chain(io::Cursor::new(head), source);
        Ok(match compression {
            None => Self { file_bytes, file: again, ..Self::new(Box::new(all), name) },
            Some(compression) => {
                let source = compression.reader(all).map_err(|error| Failure::io(&name, &error))?;
                Self { compressed: Some((compression, read)), ..Self::new(source, name) }
            }
        })
    }

    pub fn new(source: Box<dyn Read + 'i>, name: String) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self {
            source,
            name,
            file_bytes: None,
            file: None,
            compressed: None,
            buffer,
            start: 0,
            end: 0,
            position: 0,
            row_bytes_max: ROW_BYTES_MAX,
            no_memory: false,
            skips_line: false,
        }
    }

    /// Sets the longest row from now on.
    pub fn limit_rows(&mut self, bytes_max: u64) {
        self.row_bytes_max = bytes_max;
    }

    pub fn row_bytes_max(&self) -> u64 {
        self.row_bytes_max
    }

    /// The message for [`Taken::TooLong`].
    pub fn limit_met(&self) -> String {
        let (most, there) = (self.row_bytes_max, self.end - self.start);
        if self.no_memory {
            return format!("no memory for a row of more than {there} bytes (is this a file of rows?)");
        }
        format!("row is longer than {most} bytes (is this a file of rows?); --max-row raises the limit")
    }

    /// Bytes returned so far.
    pub fn taken_bytes(&self) -> u64 {
        self.position + self.start as u64
    }

    /// Bytes of the file that [`taken_bytes`](Self::taken_bytes) came from: fewer if it is compressed.
    pub fn taken_of_file(&self) -> u64 {
        self.compressed.as_ref().map_or_else(|| self.taken_bytes(), |(_, read)| read.get())
    }

    /// Returns the regular file, to read parts of it a second time, and where in it the input begins; `None` for pipes
    /// and compressed files.
    pub fn again(&self) -> Option<(File, u64)> {
        let (file, begin) = self.file.as_ref()?;
        Some((file.try_clone().ok()?, *begin))
    }

    pub fn compression(&self) -> Option<Compression> {
        self.compressed.as_ref().map(|(compression, _)| *compression)
    }

    /// Skips the mark that some programs put before UTF-8 text.
    pub fn skip_byte_order_mark(&mut self) -> Result<()> {
        if let Taken::Bytes(range) = self.peek()?
            && self.bytes(range).starts_with(&BYTE_ORDER_MARK[..1])
            && let Taken::Bytes(range) = self.peek_up_to(BYTE_ORDER_MARK.len())?
            && self.bytes(range).starts_with(BYTE_ORDER_MARK)
        {
            self.consume(BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Returns the bytes read but not yet returned, at least one; [`consume`](Self::consume) marks them as returned.
    pub fn peek(&mut self) -> Result<Taken> {
        while self.start == self.end {
            match self.fill()? {
                Fill::More => {}
                Fill::Interrupted => return Ok(Taken::Interrupted),
                Fill::NoMemory => return Ok(Taken::TooLong),
                Fill::End => return Ok(Taken::End),
            }
        }
        Ok(Taken::Bytes(self.start..self.end))
    }

    /// Like [`peek`](Self::peek), but waits for `wanted` bytes unless the input ends before; may return more.
    pub fn peek_up_to(&mut self, wanted: usize) -> Result<Taken> {
        while self.end - self.start < wanted {
            match self.fill()? {
                Fill::More => {}
                Fill::Interrupted => return Ok(Taken::Interrupted),
                Fill::NoMemory => return Ok(Taken::TooLong),
                Fill::End if self.start == self.end => return Ok(Taken::End),
                Fill::End => break,
            }
        }
        Ok(Taken::Bytes(self.start..self.end))
    }

    /// Consumes the first `count` bytes of the last [`peek`](Self::peek).
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Returns the next line without its newline; the last line may lack one.
    pub fn line(&mut self) -> Result<Taken> {
        if self.skips_line && !self.skip_line()? {
            return Ok(Taken::Interrupted);
        }
        let mut searched = 0;
        loop {
            if let Some(newline) = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]) {
                let line = self.start..self.start + searched + newline;
                self.start = line.end + 1;
                return Ok(Taken::Bytes(line));
            }
            searched = self.end - self.start;
            if searched as u64 > self.row_bytes_max {
                self.skips_line = true;
                return Ok(Taken::TooLong);
            }
            match self.fill()? {
                Fill::More => {}
                Fill::Interrupted => return Ok(Taken::Interrupted),
                Fill::NoMemory => {
                    self.skips_line = true;
                    return Ok(Taken::TooLong);
                }
                Fill::End if searched == 0 => return Ok(Taken::End),
                Fill::End => return Ok(self.take(searched)),
            }
        }
    }

    /// Returns the next `count` bytes of a row, or [`Taken::Short`] if the input ends first.
    pub fn exactly(&mut self, count: u64) -> Result<Taken> {
        self.exactly_within(count, self.row_bytes_max)
    }

    /// Like [`exactly`](Self::exactly) for the bytes of a header, to which the limit for rows does not apply. The
    /// caller bounds `count`.
    pub fn header(&mut self, count: u64) -> Result<Taken> {
        self.exactly_within(count, u64::MAX)
    }

    fn exactly_within(&mut self, count: u64, most: u64) -> Result<Taken> {
        loop {
            let there = self.end - self.start;
            if there as u64 >= count.min(most.saturating_add(1)) {
                let fits = count <= most;
                return Ok(if fits { self.take(usize::try_from(count).unwrap_or(there)) } else { Taken::TooLong });
            }
            match self.fill()? {
                Fill::More => {}
                Fill::Interrupted => return Ok(Taken::Interrupted),
                Fill::NoMemory => return Ok(Taken::TooLong),
                Fill::End if there == 0 => return Ok(Taken::End),
                Fill::End => return Ok(Taken::Short(there)),
            }
        }
    }

    fn take(&mut self, count: usize) -> Taken {
        let range = self.start..self.start + count;
        self.start = range.end;
        Taken::Bytes(range)
    }

    /// Skips the rest of a line; `false` if a signal came first.
    fn skip_line(&mut self) -> Result<bool> {
        loop {
            if let Some(newline) = memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += newline + 1;
                break;
            }
            self.start = self.end;
            match self.fill()? {
                Fill::More | Fill::NoMemory => {}
                Fill::Interrupted => return Ok(false),
                Fill::End => break,
            }
        }
        (self.skips_line, self.no_memory) = (false, false);
        Ok(true)
    }

    /// Moves the rest to the front, makes room if there is none, and reads once.
    fn fill(&mut self) -> Result<Fill> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.position += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            if self.buffer.try_reserve_exact(self.end).is_err() {
                self.no_memory = true;
                return Ok(Fill::NoMemory);
            }
            self.buffer.resize(self.end * 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(Fill::End),
                Ok(count) => {
                    self.end += count;
                    return Ok(Fill::More);
                }
                Err(error) if is_signal(&error) => return Ok(Fill::Interrupted),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// The failure of a read: of the file, or of the compressed data in it.
    fn failed(&self, error: &io::Error) -> Failure {
        let Some((compression, _)) = self.compressed.as_ref().filter(|_| error.raw_os_error().is_none()) else {
            return Failure::io(&self.name, error);
        };
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
            _ => error.to_string(),
        };
        let (name, bytes) = (&self.name, self.position + self.end as u64);
        if compressed::needs_larger_window(error) {
            return Failure::of_kind(
                ErrorKind::OutOfMemory,
                format_args!(
                    "{name}: its Zstandard window is larger than 128 MiB; decompress it first, as in \
                     `zstd -dc --long=31 FILE | splitpoint load TABLE -`"
                ),
            );
        }
        let message = format!("{name}: damaged {compression} after {bytes} bytes of contents: {what}");
        Failure::of_kind(ErrorKind::Corrupt, message)
    }
}

/// Opens a file to be read. A named pipe is opened before it has a writer: the first read waits for one, and a signal
/// wakes that read but not an open.
fn open(path: &Path) -> io::Result<File> {
    if !cfg!(target_os = "linux") || !std::fs::metadata(path)?.file_type().is_fifo() {
        return File::open(path);
    }
    let pipe = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    // Linux reports the end of a pipe only after a first writer has come, also from here on.
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(pipe)
}

enum Fill {
    More,
    Interrupted,
    /// The buffer is full and cannot grow.
    NoMemory,
    End,
}

/// Reads the first bytes: at least [`SIGNATURE_BYTES`], unless the input ends or a signal comes first; if `fully` and
/// they begin like compressed data, as many as fit. Returns `true` if the input ended.
fn head(source: &mut impl Read, fully: bool) -> io::Result<(Vec<u8>, bool)> {
    let mut head = vec![0; HEAD_BYTES];
    let mut read = 0;
    let mut ended = false;
    while read < SIGNATURE_BYTES || fully && read < HEAD_BYTES && Compression::of(&head[..read]).is_some() {
        match source.read(&mut head[read..]) {
            Ok(0) => {
                ended = true;
                break;
            }
            Ok(count) => read += count,
            // The next read meets the signal again.
            Err(error) if is_signal(&error) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(read);
    Ok((head, ended))
}

/// Whether a read ended because of a signal, by [`Wakeable`]. A network file system that gives up also reports
/// ETIMEDOUT, but with a number of the system.
fn is_signal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
}

/// A file whose reads end with [`io::ErrorKind::TimedOut`] when a signal comes first. (A handler is not enough: the
/// system restarts a read that a signal interrupts.)
struct Wakeable<'i> {
    file: File,
    interrupt: &'i Interrupt,
    /// Bytes read so far.
    read: Rc<Cell<u64>>,
}

impl Read for Wakeable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut waits = [
            PollFd::new(self.file.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.interrupt.wake_fd(), PollFlags::POLLIN),
        ];
        poll(&mut waits, PollTimeout::NONE)?;
        if waits[1].any() == Some(true) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let count = self.file.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every read fails as on a network file system whose server does not answer.
    struct Unanswered;

    impl Read for Unanswered {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(nix::errno::Errno::ETIMEDOUT as i32))
        }
    }

    #[test]
    fn a_failing_file_system_causes_no_signal() {
        assert!(Input::new(Box::new(Unanswered), "rows.tsv".into()).line().is_err());
        assert!(head(&mut Unanswered, false).is_err());
        assert!(is_signal(&io::ErrorKind::TimedOut.into()));
    }

    /// Returns one byte per read, to cross every boundary.
    struct Trickle<'b>(&'b [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn input(bytes: &[u8]) -> Input<'_> {
        Input { buffer: vec![0; 2], ..Input::new(Box::new(Trickle(bytes)), "test".into()) }
    }

    fn next_line(input: &mut Input<'_>) -> Option<Vec<u8>> {
        match input.line().unwrap() {
            Taken::Bytes(range) => Some(input.bytes(range).to_vec()),
            _ => None,
        }
    }

    #[test]
    fn lines_come_whole_whatever_the_reads_bring() {
        let bytes = b"one\n\nlonger than the buffer\nno newline";
        let mut input = input(bytes);
        let lines: Vec<_> = std::iter::from_fn(|| next_line(&mut input)).collect();
        assert_eq!(lines, [&b"one"[..], b"", b"longer than the buffer", b"no newline"]);
        assert_eq!(input.taken_bytes(), bytes.len() as u64);
        assert_eq!(input.line().unwrap(), Taken::End);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_one_read() {
        let mut input = Input { row_bytes_max: 4, ..input(b"much too long\nnext\n") };
        assert_eq!(input.line().unwrap(), Taken::TooLong);
        assert_eq!(next_line(&mut input), Some(b"next".to_vec()));
    }

    #[test]
    fn a_line_without_end_is_too_long_before_its_end_is_looked_for() {
        let mut input = Input::new(Box::new(io::repeat(b'y')), "endless".into());
        input.limit_rows(1 << 20);
        assert_eq!(input.line().unwrap(), Taken::TooLong);
        assert!(input.buffer.len() <= 4 << 20, "{}", input.buffer.len());
    }

    #[test]
    fn a_head_that_is_looked_at_is_still_to_be_read() {
        let mut input = input(b"one\ntwo\n");
        let Taken::Bytes(head) = input.peek_up_to(6).unwrap() else { panic!("there are 8 bytes") };
        assert!(input.bytes(head).starts_with(b"one\ntw"));
        assert_eq!(next_line(&mut input), Some(b"one".to_vec()));
        assert!(matches!(input.peek_up_to(100).unwrap(), Taken::Bytes(head) if head.len() == 4));
    }

    #[test]
    fn a_limit_of_any_size_leaves_headers_alone() {
        for limit in [0, 2, u64::MAX] {
            let mut input = Input { row_bytes_max: limit, ..input(b"abcdefgh") };
            assert!(matches!(input.header(3).unwrap(), Taken::Bytes(range) if input.bytes(range.clone()) == b"abc"));
            assert_eq!(input.exactly(3).unwrap() == Taken::TooLong, limit < 3, "{limit}");
            assert_eq!(input.exactly(u64::MAX).unwrap() == Taken::TooLong, limit < 3, "{limit}");
        }
    }

    #[test]
    fn a_claimed_length_is_not_allocated() {
        let mut input = input(b"abc");
        assert_eq!(input.exactly(u64::from(u32::MAX)).unwrap(), Taken::Short(3));
        assert!(input.buffer.len() < 16, "{}", input.buffer.len());
    }
}
