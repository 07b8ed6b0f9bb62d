//! Converts the output of `strace -f -y` to a trace.
//!
//! Each path in a call is looked up name by name; reads, writes and mappings touch pages. strace reports no inode or
//! block numbers, so they are allocated as ext2 would, one block group for each directory, in order of first use. Not
//! modelled: file offsets after `dup` or `fork` (they restart at 0), symbolic links, reads by the kernel itself.
//!
//! Lines that are not calls, and calls that touch no file, are skipped and counted: strace also writes other messages.

use super::Proceed;
use super::disk::{Disk, PAGE_BYTES};
use super::trace::{Error, Event, Lines, NAME_LEN_MAX, NAMES_MAX, PAGES_MAX, Trace, is_trace};
use std::collections::HashMap;
use std::io::BufRead;

/// The longest line, and the most unfinished calls.
const LINE_MAX: u64 = 64 << 10;
const UNFINISHED_MAX: usize = 1024;
/// The most components of a path.
const DEPTH_MAX: usize = 128;
/// The pages whose blocks are allocated together, and the most pages of one call.
const CHUNK_PAGES: u32 = 16;
const CALL_PAGES_MAX: u64 = 4096;
const BLOCK_BYTES: u32 = 1024;
const DEVICE: u32 = 0x0801;
const ROOT: u32 = 2;

/// A converted trace.
#[derive(Debug)]
pub struct Converted {
    /// The trace.
    pub trace: Trace,
    /// The number of lines read.
    pub lines: usize,
    /// The number of lines that produced no event.
    pub skipped: usize,
}

/// Converts strace output.
///
/// # Errors
/// [`Error::Line`] for a line that is too long or exceeds a limit, or if no line produced an event; [`Error::Io`];
/// [`Error::Stopped`].
pub fn convert(reader: impl BufRead, proceed: Proceed<'_>) -> Result<Converted, Error> {
    let mut converter = Converter::new();
    let mut lines = Lines::new(reader, LINE_MAX, proceed);
    let (mut count, mut skipped) = (0, 0);
    while let Some(line) = lines.next()? {
        count += 1;
        let before = converter.trace.events.len();
        // strace escapes paths, so a line that is not UTF-8 is not a call.
        if let Ok(line) = std::str::from_utf8(line) {
            converter.line(line).map_err(|what| Error::Line { line: count, what })?;
        }
        skipped += usize::from(converter.trace.events.len() == before);
    }
    if converter.trace.events.is_empty() {
        let what = "no call up to here touches a file; record with `strace -f -y -e trace=%file,%desc -o FILE`";
        return Err(Error::Line { line: count.max(1), what: what.to_owned() });
    }
    Ok(Converted { trace: converter.trace, lines: count, skipped })
}

/// Returns whether the start of a file looks like output of strace: a line has a finished or an unfinished call.
pub fn is_strace(start: &[u8]) -> bool {
    const LINES: usize = 8;
    if is_trace(start) {
        return false;
    }
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    start.split(|&byte| byte == b'\n').take(LINES).filter_map(|line| std::str::from_utf8(line).ok()).any(|line| {
        let (_, call) = process_of(line);
        let unfinished = call.strip_suffix("<unfinished ...>").and_then(|call| call.split_once('('));
        unfinished.is_some_and(|(name, _)| is_name(call_name(name)))
            || Call::parse(call).is_some_and(|call| is_name(call.name))
    })
}

struct Converter {
    trace: Trace,
    disk: Disk,
    groups: u32,
    /// The inode of each directory and name.
    nodes: HashMap<(u32, u32), u32>,
    /// The block of each directory.
    directory_blocks: HashMap<u32, u32>,
    /// The first block of each run of [`CHUNK_PAGES`] pages of a file.
    chunks: HashMap<(u32, u32), u32>,
    unfinished: HashMap<u32, String>,
    /// The working directory of each process.
    directories: HashMap<u32, String>,
    /// The file offset of each process and descriptor.
    positions: HashMap<(u32, u32), u64>,
}

impl Converter {
    fn new() -> Self {
        Self {
            trace: Trace::new(BLOCK_BYTES),
            disk: Disk::new(BLOCK_BYTES),
            groups: 0,
            nodes: HashMap::new(),
            directory_blocks: HashMap::new(),
            chunks: HashMap::new(),
            unfinished: HashMap::new(),
            directories: HashMap::new(),
            positions: HashMap::new(),
        }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (process, call) = process_of(line);
        if let Some(begun) = call.strip_suffix("<unfinished ...>") {
            if self.unfinished.len() < UNFINISHED_MAX {
                self.unfinished.insert(process, begun.to_owned());
            }
            return Ok(());
        }
        if let Some((_, rest)) = call.strip_prefix("<... ").and_then(|call| call.split_once(" resumed>")) {
            let Some(begun) = self.unfinished.remove(&process) else { return Ok(()) };
            return self.call(process, &format!("{begun}{rest}"));
        }
        self.call(process, call)
    }

    fn call(&mut self, process: u32, call: &str) -> Result<(), String> {
        let Some(Call { name, arguments, result }) = Call::parse(call) else { return Ok(()) };
        let argument = |index: usize| arguments.get(index).copied().unwrap_or_default();
        let number = |index: usize| argument(index).parse::<u64>().ok();
        match name {
            "open" | "creat" | "stat" | "lstat" | "access" | "execve" | "readlink" | "mkdir" | "truncate" | "chmod"
            | "utime" | "statfs" => {
                self.path(process, "", argument(0), result)?;
            }
            "openat" | "newfstatat" | "faccessat" | "faccessat2" | "readlinkat" | "statx" | "mkdirat" | "fchmodat"
            | "utimensat" | "execveat" => {
                self.path(process, argument(0), argument(1), result)?;
            }
            "chdir" => {
                if result.starts_with('0')
                    && let Some(path) = self.path(process, "", argument(0), result)?
                {
                    self.directories.insert(process, path);
                }
            }
            "unlink" | "rmdir" => self.remove(process, "", argument(0), result)?,
            "unlinkat" => self.remove(process, argument(0), argument(1), result)?,
            "rename" | "link" => {
                self.path(process, "", argument(0), result)?;
                self.path(process, "", argument(1), "0")?;
            }
            "renameat" | "renameat2" | "linkat" => {
                self.path(process, argument(0), argument(1), result)?;
                self.path(process, argument(2), argument(3), "0")?;
            }
            "lseek" => {
                if let (Some((descriptor, _)), Ok(to)) = (descriptor_of(argument(0)), result.parse()) {
                    self.set_position(process, descriptor, to);
                }
            }
            "read" | "readv" | "write" | "writev" => {
                if let (Some((descriptor, _)), Some(bytes)) = (descriptor_of(argument(0)), first_number(result)) {
                    let from = self.positions.get(&(process, descriptor)).copied().unwrap_or(0);
                    self.pages(argument(0), from, bytes, name.starts_with('w'))?;
                    self.set_position(process, descriptor, from.saturating_add(bytes));
                }
            }
            "pread64" | "pwrite64" => {
                if let (Some(from), Some(bytes)) = (number(3), first_number(result)) {
                    self.pages(argument(0), from, bytes, name.starts_with("pw"))?;
                }
            }
            "mmap" => {
                let from = argument(5).strip_prefix("0x").map_or(number(5), |hex| u64::from_str_radix(hex, 16).ok());
                if let (Some(bytes), Some(from)) = (number(1), from) {
                    self.pages(argument(4), from, bytes, false)?;
                }
            }
            _ => {}
        }
        // A new descriptor starts at offset 0.
        if let ("open" | "openat" | "creat", Some((descriptor, _))) = (name, descriptor_of(result)) {
            self.positions.remove(&(process, descriptor));
        }
        Ok(())
    }

    fn set_position(&mut self, process: u32, descriptor: u32, at: u64) {
        self.positions.insert((process, descriptor), at);
    }

    /// Looks up a path, and returns it as an absolute path.
    fn path(&mut self, process: u32, directory: &str, path: &str, result: &str) -> Result<Option<String>, String> {
        let Some(full) = self.full_path(process, directory, path) else { return Ok(None) };
        let missing = result.contains("ENOENT");
        let parts = parts_of(&full);
        let mut at = ROOT;
        for (index, part) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            let Some(name) = self.name_of(part)? else { return Ok(None) };
            let inode = if last && missing { 0 } else { self.inode(at, name, !last) };
            let block = self.directory_block(at);
            self.trace.push(Event::Name { device: DEVICE, directory: at, inode, block, name })?;
            at = inode;
        }
        Ok(Some(full))
    }

    /// Returns `None` if this is not a file: an empty path, a pipe, a truncated path.
    fn full_path(&mut self, process: u32, directory: &str, path: &str) -> Option<String> {
        let path = unquoted(path)?;
        if let Some(current) = directory.strip_prefix("AT_FDCWD<").and_then(|directory| directory.strip_suffix('>')) {
            self.directories.insert(process, current.to_owned());
        }
        if path.starts_with('/') {
            return Some(path);
        }
        if path.is_empty() {
            return None;
        }
        let from = match descriptor_of(directory) {
            Some((_, directory)) => directory.to_owned(),
            None => self.directories.get(&process).cloned().unwrap_or_default(),
        };
        Some(format!("{from}/{path}"))
    }

    fn name_of(&mut self, part: &str) -> Result<Option<u32>, String> {
        if part.len() > NAME_LEN_MAX {
            return Ok(None);
        }
        if self.trace.names.len() >= NAMES_MAX {
            return Err(format!("more than {NAMES_MAX} distinct names; shorten the file"));
        }
        Ok(Some(self.trace.name(part.as_bytes())))
    }

    /// Returns the inode of a name. A new file gets one in the group of its directory, a new directory in a new group.
    fn inode(&mut self, parent: u32, name: u32, directory: bool) -> u32 {
        if let Some(inode) = self.nodes.get(&(parent, name)) {
            return *inode;
        }
        let group = if directory {
            self.groups += 1;
            self.groups
        } else {
            self.disk.group(parent)
        };
        let inode = self.disk.allocate_inode(DEVICE, group);
        self.nodes.insert((parent, name), inode);
        inode
    }

    fn directory_block(&mut self, directory: u32) -> u32 {
        let group = self.disk.group(directory);
        *self.directory_blocks.entry(directory).or_insert_with(|| self.disk.allocate_blocks(DEVICE, group, 1))
    }

    /// Returns the inode of an open file, without a lookup.
    fn file(&mut self, path: &str) -> Result<Option<u32>, String> {
        let parts = parts_of(path);
        let mut at = ROOT;
        for (index, part) in parts.iter().enumerate() {
            let Some(name) = self.name_of(part)? else { return Ok(None) };
            at = self.inode(at, name, index + 1 < parts.len());
        }
        Ok((!parts.is_empty()).then_some(at))
    }

    fn pages(&mut self, descriptor: &str, from: u64, bytes: u64, write: bool) -> Result<(), String> {
        let Some((_, path)) = descriptor_of(descriptor).filter(|(_, path)| path.starts_with('/')) else {
            return Ok(());
        };
        if bytes == 0 || path.starts_with("/dev/") || path.starts_with("/proc/") || path.starts_with("/sys/") {
            return Ok(());
        }
        let path = path.to_owned();
        let Some(inode) = self.file(&path)? else { return Ok(()) };
        let size = u64::from(PAGE_BYTES);
        let (first, last) = (from / size, from.saturating_add(bytes - 1) / size);
        for page in (first..=last).take(CALL_PAGES_MAX as usize) {
            let Some(page) = u32::try_from(page).ok().filter(|page| *page < PAGES_MAX) else { break };
            let block = self.page_block(inode, page);
            self.trace.push(Event::Page { device: DEVICE, inode, page, block, write })?;
        }
        Ok(())
    }

    fn page_block(&mut self, inode: u32, page: u32) -> u32 {
        let per_page = PAGE_BYTES / BLOCK_BYTES;
        let group = self.disk.group(inode);
        let first = self
            .chunks
            .entry((inode, page / CHUNK_PAGES))
            .or_insert_with(|| self.disk.allocate_blocks(DEVICE, group, CHUNK_PAGES * per_page));
        first.wrapping_add(page % CHUNK_PAGES * per_page)
    }

    fn remove(&mut self, process: u32, directory: &str, path: &str, result: &str) -> Result<(), String> {
        let Some(full) = self.path(process, directory, path, result)? else { return Ok(()) };
        let parts = parts_of(&full);
        let Some((last, before)) = parts.split_last().filter(|_| result.starts_with('0')) else { return Ok(()) };
        let parent = if before.is_empty() { ROOT } else { self.file(&before.join("/"))?.unwrap_or(ROOT) };
        let Some(name) = self.name_of(last)? else { return Ok(()) };
        self.nodes.remove(&(parent, name));
        self.trace.push(Event::Remove { device: DEVICE, directory: parent, name })
    }
}

/// Splits `123 open(...` or `[pid 123] open(...` into process number and call; without a number it is 0.
fn process_of(line: &str) -> (u32, &str) {
    let line = line.trim_start();
    let line = line.strip_prefix("[pid").map_or(line, str::trim_start);
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = line.split_at(digits);
    (number.parse().unwrap_or(0), rest.trim_start_matches(']').trim_start())
}

/// Returns the name of a call, without the time that `-t` and `-r` write before it.
fn call_name(before_arguments: &str) -> &str {
    before_arguments.rsplit(' ').find(|word| !word.is_empty()).unwrap_or_default()
}

struct Call<'l> {
    name: &'l str,
    arguments: Vec<&'l str>,
    result: &'l str,
}

impl<'l> Call<'l> {
    fn parse(call: &'l str) -> Option<Self> {
        let (name, rest) = call.split_once('(')?;
        let (arguments, result) = rest.rsplit_once(" = ")?;
        let arguments = arguments.trim_end().strip_suffix(')')?;
        Some(Self { name: call_name(name), arguments: arguments_of(arguments), result: result.trim() })
    }
}

/// Splits at commas outside quotes, brackets and angle brackets.
fn arguments_of(text: &str) -> Vec<&str> {
    let (mut arguments, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0u32, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                arguments.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    arguments.push(text[start..].trim());
    arguments
}

/// Splits `3</etc/passwd>` into descriptor and path.
fn descriptor_of(argument: &str) -> Option<(u32, &str)> {
    let (number, rest) = argument.split_once('<')?;
    let path = rest.rsplit_once('>').map_or(rest, |(path, _)| path);
    Some((number.parse().ok()?, path))
}

fn first_number(result: &str) -> Option<u64> {
    result.split(' ').next()?.parse().ok()
}

/// Returns the text of a C string; `None` if strace truncated it.
fn unquoted(argument: &str) -> Option<String> {
    let inner = argument.strip_prefix('"')?.strip_suffix('"')?;
    let (mut bytes, mut text) = (inner.bytes().peekable(), Vec::with_capacity(inner.len()));
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        match bytes.next()? {
            b'n' => text.push(b'\n'),
            b't' => text.push(b'\t'),
            digit @ b'0'..=b'7' => {
                let mut code = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(next) = bytes.next_if(|next| (b'0'..=b'7').contains(next)) else { break };
                    code = code * 8 + u32::from(next - b'0');
                }
                text.push((code & 0xFF) as u8);
            }
            other => text.push(other),
        }
    }
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the names of a path, with `.` and `..` resolved.
fn parts_of(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/').take(2 * DEPTH_MAX) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.truncate(DEPTH_MAX);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    fn converted(text: &str) -> Result<Converted, Error> {
        convert(text.as_bytes(), &|| ControlFlow::Continue(()))
    }

    fn names(trace: &Trace) -> Vec<String> {
        let name = |event: &Event| match event {
            Event::Name { name, inode, .. } => {
                let name = String::from_utf8_lossy(trace.names.get(*name as usize)?).into_owned();
                Some(if *inode == 0 { format!("no {name}") } else { name })
            }
            _ => None,
        };
        trace.events.iter().filter_map(name).collect()
    }

    #[test]
    fn paths_are_looked_up_name_by_name_from_the_working_directory() {
        let text = "\
7 openat(AT_FDCWD</home/ann>, \"src/a\\303\\251.c\", O_RDONLY) = 3</home/ann/src/a\u{e9}.c>
7 stat(\"../no, (such)\", 0x7ffe) = -1 ENOENT (No such file or directory)
+++ exited with 0 +++
";
        let Converted { trace, lines, skipped } = converted(text).unwrap();
        assert_eq!(names(&trace), ["home", "ann", "src", "a\u{e9}.c", "home", "no no, (such)"]);
        assert_eq!((lines, skipped), (3, 1));
    }

    #[test]
    fn reads_continue_at_the_last_offset_even_if_interrupted() {
        let text = "\
7 openat(AT_FDCWD</>, \"/f\", O_RDONLY) = 3</f>
7 read(3</f>, \"...\"..., 8192) = 8192
7 read(3</f>, <unfinished ...>
8 close(4</g>) = 0
7 <... read resumed>\"x\", 8192) = 1
7 pread64(3</f>, \"x\", 10, 40960) = 10
7 mmap(NULL, 4097, PROT_READ, MAP_PRIVATE, 3</f>, 0x1000) = 0x7f0000000000
";
        let trace = converted(text).unwrap().trace;
        let pages = trace.events.iter().filter_map(|event| match event {
            Event::Page { page, .. } => Some(*page),
            _ => None,
        });
        assert_eq!(pages.collect::<Vec<_>>(), [0, 1, 2, 10, 1, 2]);
    }

    #[test]
    fn a_file_created_again_gets_a_new_inode() {
        let text = "\
open(\"/a/b\", O_CREAT) = 3</a/b>
unlink(\"/a/b\") = 0
open(\"/a/b\", O_CREAT) = 3</a/b>
";
        let trace = converted(text).unwrap().trace;
        let inode = |event: &Event| match event {
            Event::Name { inode, .. } => Some(*inode),
            _ => None,
        };
        let inodes: Vec<_> = trace.events.iter().filter_map(inode).collect();
        assert_eq!(inodes[1], inodes[3]);
        assert_ne!(inodes[3], inodes[5]);
        assert!(trace.events.iter().any(|event| matches!(event, Event::Remove { .. })));
    }

    #[test]
    fn output_of_strace_is_recognised_whatever_its_options() {
        let calls = [
            "openat(AT_FDCWD, \"/f\", O_RDONLY) = 3",
            "7 openat(AT_FDCWD</>, \"/f\", O_RDONLY) = 3</f>",
            "[pid     7] openat(AT_FDCWD</>, \"/f\", O_RDONLY) = 3</f>",
            "7 12:00:01.000002 openat(AT_FDCWD</>, \"/f\", O_RDONLY) = 3</f>",
            "7      0.000011 openat(AT_FDCWD</>, \"/f\", O_RDONLY) = 3</f>",
        ];
        for call in calls {
            assert!(is_strace(format!("strace: Process 7 attached\n{call}\n").as_bytes()), "{call}");
            assert_eq!(names(&converted(call).unwrap().trace), ["f"], "{call}");
        }
        assert!(is_strace(b"8 read(3</f>, <unfinished ...>\n"));
        for text in ["", "hello\n", "Total (all) = 5\n", "splitpoint-kernel-trace 1 1024\nname 1 2 3 4 f(x) = y"] {
            assert!(!is_strace(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn text_without_calls_and_malformed_calls_is_an_error() {
        for text in [
            "world",
            "open(",
            "open() = ",
            "= 3",
            "open(\"\\\") = 3",
            "read(3<, 1) = 9",
            "pread64(3</f>, , , 99999999999999999999) = 1",
        ] {
            let error = converted(&format!("hello\n{text}\n")).map(|converted| converted.trace.events);
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("line 2: no call"), "{text}: {error}");
        }
    }
}
