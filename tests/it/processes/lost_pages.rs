//! Mapped pages that the system cannot provide: pages of the log that a write stores to, because another program
//! truncated the file, or because the file system copies on write and has no space for the copy; and pages of a table
//! larger than its cache, when it is read.
//!
//! Such an access raises SIGBUS. The library turns it into an error; the table opens again with every write that the
//! log still has. Any other SIGBUS has the effect that it had before the library installed its handler. A bug in the
//! library would end the process, so each test runs in a process of its own.
#![expect(unsafe_code, reason = "faults and handlers of a host program: mmap, sigaction")]

use super::{Running, process, task_arguments, this_binary, with_task};
use splitpoint::{Durability, ErrorKind, Table, TableOptions};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::{mem, ptr};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(place: &Path) -> Table {
    TableOptions::new().durability(Durability::Os).open(place.join("t.spt")).unwrap()
}

fn put(table: &Table, pairs: &mut Pairs, n: u32) -> splitpoint::Result<()> {
    let (key, value) = (format!("key {n}").into_bytes(), vec![n as u8; 100]);
    table.put(&key, &value)?;
    pairs.insert(key, value);
    Ok(())
}

/// Puts until a put fails; `None` if none does.
fn put_until_error(table: &Table, pairs: &mut Pairs) -> Option<splitpoint::Error> {
    (10_000..60_000).find_map(|n| put(table, pairs, n).err())
}

fn holds(table: &Table, pairs: &Pairs) {
    assert_eq!(table.verify().unwrap(), []);
    for (key, value) in pairs {
        assert_eq!(table.get(key).unwrap().as_ref(), Some(value), "\"{}\"", key.escape_ascii());
    }
}

/// Returns the part of the log that was changed last.
fn log_of(place: &Path) -> PathBuf {
    let parts = (0..8).map(|slot| place.join(format!("t.spt-log{slot}"))).filter(|path| path.exists());
    parts.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).unwrap()
}

/// Cuts the log to `bytes`, as another program would.
fn cut(place: &Path, bytes: u64) {
    fs::File::options().write(true).open(log_of(place)).unwrap().set_len(bytes).unwrap();
}

/// Makes a table with 500 pairs in a checkpoint and 500 more in the log; returns the first 500, the handle, and all.
fn half_in_the_log(place: &Path) -> (Pairs, Table, Pairs) {
    let mut pairs = Pairs::new();
    let table = open(place);
    (0..500).for_each(|n| put(&table, &mut pairs, n).unwrap());
    table.close().unwrap();
    let checkpoint = pairs.clone();
    let table = open(place);
    (500..1000).for_each(|n| put(&table, &mut pairs, n).unwrap());
    (checkpoint, table, pairs)
}

// --------------------------------------------------------------------------------------------- A truncated log

/// Argument: 0 truncates the log after its last record, 1 completely; 2 truncates it after the last record and then
/// syncs; 3 then makes a checkpoint.
pub fn cut_log(place: &Path, arguments: &[u64]) {
    let (checkpoint, table, mut pairs) = half_in_the_log(place);
    let bytes = fs::read(log_of(place)).unwrap();
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1;
    if arguments == [3] {
        cut(place, used);
        // Puts to the rest of the page, which is no longer in the file.
        put(&table, &mut pairs, 10_000).unwrap();
        table.checkpoint().unwrap();
        put(&table, &mut pairs, 10_001).unwrap();
        table.close().unwrap();
        return holds(&open(place), &pairs);
    }
    let refused = match arguments {
        [0] => {
            cut(place, used);
            let mut later = pairs.clone();
            let refused = put_until_error(&table, &mut later).unwrap();
            let in_page = (4096 - used % 4096) / 100;
            assert!((later.len() - pairs.len()) as u64 <= in_page, "{} of {in_page}", later.len() - pairs.len());
            refused
        }
        [1] => {
            cut(place, 0);
            put_until_error(&table, &mut pairs.clone()).unwrap()
        }
        _ => {
            cut(place, used);
            table.sync().unwrap_err()
        }
    };
    assert!(matches!(refused.kind(), ErrorKind::Io | ErrorKind::Poisoned), "{refused}");
    assert!(refused.to_string().contains("another program cut it"), "{refused}");
    assert_eq!(table.put(b"k", b"v").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(table.sync().unwrap_err().kind(), ErrorKind::Poisoned);
    drop(table);
    let table = open(place);
    // Puts after the truncation are lost, like the truncated ones.
    let expected = if arguments == [1] { &checkpoint } else { &pairs };
    holds(&table, expected);
    assert_eq!(table.len(), expected.len() as u64);
    table.put(b"it goes on", b"1").unwrap();
    table.close().unwrap();
}

#[test]
fn a_log_that_another_program_cuts_is_an_error_and_the_rest_opens() {
    for how in 0..4 {
        let place = tempfile::tempdir().unwrap();
        let status = Running::start(&mut process("cut_log", place.path(), &[how])).end();
        assert!(status.success(), "way {how}: {status}");
    }
}

// --------------------------------------------------------------------------------------------- A truncated table

/// Truncates a table larger than its cache, after all of it was read, and continues to read.
pub fn cut_table(place: &Path, _: &[u64]) {
    let open = || TableOptions::new().cache_bytes(1).open(place.join("t.spt")).unwrap();
    let mut pairs = Pairs::new();
    let table = open();
    (0..20_000).for_each(|n| put(&table, &mut pairs, n).unwrap());
    table.close().unwrap();
    let table = open();
    holds(&table, &pairs);
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(place).output().unwrap().stdout;
    let kind = String::from_utf8_lossy(&kind).trim().to_owned();
    if ["ext2/ext3", "xfs", "btrfs", "tmpfs", "overlayfs"].contains(&kind.as_str()) {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.lines().any(|line| line.ends_with("t.spt")), "frames are not read through a mapping");
    } else {
        println!("SKIPPED: frames may be read without a mapping on this file system ({kind})");
    }
    let file = fs::File::options().write(true).open(place.join("t.spt")).unwrap();
    // Within a page, the rest of which a mapping shows as zeros.
    file.set_len((file.metadata().unwrap().len() / 2).next_multiple_of(4096) + 2048).unwrap();
    let (mut found, mut refused) = (0, 0);
    for (key, value) in &pairs {
        match table.get(key) {
            Ok(there) => {
                assert_eq!(there.as_ref(), Some(value));
                found += 1;
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
                assert!(e.to_string().contains("is gone: another program cut the file"), "{e}");
                refused += 1;
            }
        }
    }
    assert!(found > 5000 && refused > 5000, "{found} found, {refused} refused");
}

#[test]
fn a_table_larger_than_its_cache_that_another_program_cuts_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let status = Running::start(&mut process("cut_table", place.path(), &[])).end();
    assert!(status.success(), "{status}");
}

// --------------------------------------------------------------------------------------------- Other causes of SIGBUS

/// What a host program did with SIGBUS before it opened a table, the event, and the expected result.
const HOSTS: &[(&str, Action, Event, Outcome)] = &[
    ("default", Action::Default, Event::Fault, Outcome::Killed),
    ("default, sent", Action::Default, Event::Sent, Outcome::Killed),
    ("ignored", Action::Ignored, Event::Fault, Outcome::Killed),
    ("ignored, sent", Action::Ignored, Event::Sent, Outcome::Exit(0)),
    ("handler with the address", Action::Address, Event::Fault, Outcome::Exit(42)),
    ("handler", Action::Plain, Event::Fault, Outcome::Exit(43)),
    ("handler, sent", Action::Plain, Event::Sent, Outcome::Exit(43)),
    ("handler that returns once", Action::Once, Event::Fault, Outcome::Killed),
];

enum Action {
    Default,
    Ignored,
    Address,
    Plain,
    Once,
}

enum Event {
    Fault,
    Sent,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Killed,
    Exit(i32),
}

impl Outcome {
    fn of(status: ExitStatus) -> Option<Outcome> {
        let killed = status.signal().map(|signal| (signal == libc::SIGBUS).then_some(Outcome::Killed));
        killed.unwrap_or_else(|| status.code().map(Outcome::Exit))
    }
}

/// The address of the host program's own mapping, which has no file behind it.
static HOLE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

extern "C" fn with_address(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid siginfo.
    let address = unsafe { (*info).si_addr() } as usize;
    let right = address == HOLE.load(std::sync::atomic::Ordering::SeqCst);
    // SAFETY: it ends the process, which a handler may.
    unsafe { libc::_exit(if right { 42 } else { 1 }) };
}

extern "C" fn plain(_: libc::c_int) {
    // SAFETY: as above.
    unsafe { libc::_exit(43) };
}

extern "C" fn returning(_: libc::c_int) {}

fn host_action(action: &Action) {
    let (handler, flags) = match action {
        Action::Default => (libc::SIG_DFL, 0),
        Action::Ignored => (libc::SIG_IGN, 0),
        Action::Address => (with_address as *const () as usize, libc::SA_SIGINFO),
        Action::Plain => (plain as *const () as usize, 0),
        Action::Once => (returning as *const () as usize, libc::SA_RESETHAND),
    };
    // SAFETY: all zeros is a valid action.
    let mut set: libc::sigaction = unsafe { mem::zeroed() };
    set.sa_sigaction = handler;
    set.sa_flags = flags;
    // SAFETY: the handlers are functions of the type that the flags declare.
    assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, &set, ptr::null_mut()) }, 0);
}

/// Argument: the index in [`HOSTS`].
pub fn bus_error_elsewhere(place: &Path, arguments: &[u64]) {
    let (_, action, event, _) = &HOSTS[arguments[0] as usize];
    host_action(action);
    // The library's handler is installed and active.
    let (_, table, mut pairs) = half_in_the_log(place);
    cut(place, 4096);
    assert!(put_until_error(&table, &mut pairs).is_some());
    match event {
        Event::Fault => {
            let file = tempfile::tempfile().unwrap();
            // SAFETY: a fresh mapping at an address that the kernel chooses.
            let hole =
                unsafe { libc::mmap(ptr::null_mut(), 4096, libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0) };
            assert_ne!(hole, libc::MAP_FAILED);
            HOLE.store(hole as usize, std::sync::atomic::Ordering::SeqCst);
            // SAFETY: the address is mapped; the test is about its lack of bytes of the file.
            unsafe { hole.cast::<u8>().write_volatile(1) };
            panic!("a store to nowhere");
        }
        // SAFETY: raise takes no pointers.
        Event::Sent => assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0),
    }
}

#[test]
fn a_bus_error_outside_the_log_has_its_previous_effect() {
    for (n, (host, _, _, outcome)) in HOSTS.iter().enumerate() {
        let place = tempfile::tempdir().unwrap();
        let status = Running::start(&mut process("bus_error_elsewhere", place.path(), &[n as u64])).end();
        assert_eq!(Outcome::of(status).as_ref(), Some(outcome), "{host}: {status}");
    }
}

// ---------------------------------------------------------------------------------------------
// File systems that copy on write

/// Fills the file system at `place` to its last block.
fn fill_up(place: &Path) -> PathBuf {
    use std::io::Write;
    let path = place.join("ballast");
    let mut file = fs::File::create(&path).unwrap();
    for bytes in [1 << 20, 1 << 12] {
        while file.write_all(&vec![1; bytes]).and_then(|()| file.sync_data()).is_ok() {}
    }
    path
}

/// Runs on a file system that copies on write. Argument: 1 if the log's blocks are shared with a copy, 2 if its files
/// are exempt from copying on write.
pub fn fill_copying_disk(place: &Path, arguments: &[u64]) {
    if arguments == [2] {
        assert!(Command::new("chattr").arg("+C").arg(place).status().unwrap().success());
    }
    let (_, table, mut pairs) = half_in_the_log(place);
    // The preallocated pages are written to disk, so that storing there needs space again.
    table.sync().unwrap();
    if arguments == [1] {
        let copied =
            Command::new("cp").arg("--reflink=always").arg(log_of(place)).arg(place.join("copy")).status().unwrap();
        assert!(copied.success(), "{copied}");
    }
    let ballast = fill_up(place);
    let before = pairs.len();
    let refused = put_until_error(&table, &mut pairs).expect("an error of a full disk");
    eprintln!("after {} puts: {refused}", pairs.len() - before);
    assert!(matches!(refused.kind(), ErrorKind::DiskFull | ErrorKind::Io), "{refused}");
    fs::remove_file(ballast).unwrap();
    let _ = fs::remove_file(place.join("copy"));
    Command::new("sync").arg("-f").arg(place).status().unwrap();
    match put(&table, &mut pairs, 1) {
        Ok(()) => eprintln!("the handle still writes"),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}"),
    }
    drop(table);
    let table = open(place);
    holds(&table, &pairs);
    table.put(b"it goes on", b"1").unwrap();
    table.close().unwrap();
}

/// Runs a task on a new file system made by `mkfs` in a file of `mib` MiB; `None` if it cannot be mounted.
fn on_loop_device(mkfs: &str, mib: u32, task: &str, arguments: &[u64]) -> Option<ExitStatus> {
    let place = tempfile::tempdir().unwrap();
    let disk = place.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(u64::from(mib) << 20).unwrap();
    let mounted = place.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    let script = "mount -o loop \"$DISK\" \"$SPLITPOINT_PLACE\" && exec \"$0\" \"$@\"";
    // The mount is visible only to the process and ends with it, and so does the loop device.
    let command = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(program).args(arguments);
        command.env("DISK", &disk);
        command
    };
    let made = Command::new(mkfs).arg("-q").arg(&disk).output();
    let tried = made.and_then(|made| {
        if !made.status.success() {
            return Ok(made);
        }
        command(Path::new("true"), &[]).env("SPLITPOINT_PLACE", &mounted).output()
    });
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        let why =
            tried.map_or_else(|e| e.to_string(), |output| String::from_utf8_lossy(&output.stderr).trim().to_owned());
        eprintln!("SKIPPED: {mkfs} on a loop device, which needs that program and root: {why}");
        return None;
    }
    let mut command = command(&this_binary(), &task_arguments());
    with_task(&mut command, task, &mounted, arguments);
    Some(Running::start(&mut command).end())
}

#[test]
#[ignore = "slow: needs root, loop devices, mkfs.btrfs and mkfs.xfs"]
fn a_full_disk_that_copies_on_write_is_an_error() {
    for (mkfs, mib, how) in [
        ("mkfs.btrfs", 128, 0),
        ("mkfs.btrfs", 128, 1),
        ("mkfs.btrfs", 128, 2),
        ("mkfs.xfs", 320, 0),
        ("mkfs.xfs", 320, 1),
    ] {
        if let Some(status) = on_loop_device(mkfs, mib, "fill_copying_disk", &[how]) {
            assert!(status.success(), "{mkfs}, way {how}: {status}");
        }
    }
}
