//! Features that a process or a file system may lack: standard descriptors; locks, durable names, owners, permissions.
//!
//! A filter for system calls simulates such a file system: the kernel returns an error instead of running the call.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "close, prctl")]

use super::process;
use splitpoint::{Backup, Dictionary, DictionaryBuilder, Error, ErrorKind, OutputFile, Table, TableOptions};
use std::fs;
use std::path::Path;

fn names_in(place: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn run(task: &str, place: &Path, arguments: &[u64]) {
    let status = process(task, place, arguments).status().unwrap();
    assert!(status.success(), "{task} {arguments:?}: {status}");
}

/// Opens and creates files of all kinds after closing the standard descriptors in `arguments`, and writes to these
/// descriptors.
pub fn use_without_descriptors(place: &Path, arguments: &[u64]) {
    for &descriptor in arguments {
        // SAFETY: this process belongs to one test, and no other code in it uses this descriptor.
        assert_eq!(unsafe { libc::close(descriptor as i32) }, 0);
    }
    let write = || {
        for &descriptor in arguments {
            // SAFETY: the buffer has this many bytes. The descriptor may be closed, which is an error.
            unsafe { libc::write(descriptor as i32, b"a warning".as_ptr().cast(), 9) };
        }
    };
    let table = TableOptions::new().log_bytes(1 << 16).publish_counters(true).open(place.join("t.spt")).unwrap();
    for n in 0..2000u32 {
        table.put(&n.to_le_bytes(), &[7; 100]).unwrap();
        write();
    }
    let mut build = DictionaryBuilder::new().memory_bytes(1 << 20).shards(2).start(place.join("d.spd")).unwrap();
    for n in 0..2000u32 {
        build.push(&n.to_le_bytes(), &[7; 100]).unwrap();
        write();
    }
    build.finish().unwrap();
    let dictionary = Dictionary::open(place.join("d.spd")).unwrap();
    OutputFile::write(place.join("report"), "text").unwrap();
    table.backup(place.join("copy.spt")).unwrap();
    write();
    for &descriptor in arguments {
        let path = fs::read_link(format!("/proc/self/fd/{descriptor}"));
        assert!(!path.as_ref().is_ok_and(|path| path.starts_with(place)), "{path:?} has descriptor {descriptor}");
    }
    table.close().unwrap();
    assert_eq!((dictionary.len(), dictionary.verify().unwrap()), (2000, vec![]));
}

#[test]
fn no_file_gets_a_standard_descriptor() {
    for closed in [&[2][..], &[1], &[0], &[0, 1, 2]] {
        let place = tempfile::tempdir().unwrap();
        run("use_without_descriptors", place.path(), closed);
        for name in ["t.spt", "copy.spt"] {
            let table = Table::open(place.path().join(name)).unwrap();
            assert_eq!((table.len(), table.verify().unwrap()), (2000, vec![]));
        }
        assert_eq!(fs::read_to_string(place.path().join("report")).unwrap(), "text");
    }
}

/// Makes these system calls of this thread fail from now on.
fn refuse(calls: &[(libc::c_long, i32)]) {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    const NUMBER: u32 = 0; // offset of the call's number in the filter's input
    let mut steps = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER)];
    for &(call, error) in calls {
        steps.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32));
        steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32));
    }
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the call takes only numbers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program points to its steps, which outlive the call.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Features that a file system may lack without harm, one after another.
const HARMLESS: &[&[(libc::c_long, i32)]] = &[
    // Syncs of directories: files are synced by `fdatasync`.
    &[(libc::SYS_fsync, libc::EINVAL)],
    &[(libc::SYS_fsync, libc::EOPNOTSUPP)],
    &[(libc::SYS_fchmod, libc::EPERM), (libc::SYS_fchown, libc::EPERM)],
    &[(libc::SYS_fchmod, libc::EOPNOTSUPP), (libc::SYS_fchown, libc::EINVAL)],
    &[(libc::SYS_fallocate, libc::EOPNOTSUPP)],
];

pub fn use_where_calls_fail(place: &Path, arguments: &[u64]) {
    let path = place.join("t.spt");
    // With permissions that differ from those of new files, so that they are set.
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    refuse(HARMLESS[arguments[0] as usize]);
    let table = TableOptions::new().durability(splitpoint::Durability::Sync).open(&path).unwrap();
    table.put(b"key", b"value").unwrap();
    table.backup(place.join("copy.spt")).unwrap();
    table.freeze(place.join("frozen.spd"), &DictionaryBuilder::new()).unwrap();
    table.close().unwrap();
    Backup::new().overwrite(true).restore(place.join("copy.spt"), &path).unwrap();
    let directory = place.join("shards");
    DictionaryBuilder::new().shards(2).build(&directory, [(b"key", b"value")]).unwrap();
    Dictionary::update(&directory, place.join("more"), &DictionaryBuilder::new()).unwrap().finish().unwrap();
    OutputFile::write(place.join("report"), "text").unwrap();
    OutputFile::write(place.join("report"), "more text").unwrap();
    assert_eq!(Table::open(&path).unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_file_system_without_durable_names_owners_or_permissions_is_used() {
    for lacks in 0..HARMLESS.len() as u64 {
        let place = tempfile::tempdir().unwrap();
        run("use_where_calls_fail", place.path(), &[lacks]);
    }
}

const ERRORS: [i32; 3] = [libc::ENOLCK, libc::EOPNOTSUPP, libc::ENOSYS];

pub fn use_without_locks(place: &Path, arguments: &[u64]) {
    refuse(&[(libc::SYS_flock, ERRORS[arguments[0] as usize])]);
    let lacks_locks = |e: Error| {
        assert_eq!(e.kind(), ErrorKind::Io, "{e}");
        assert!(e.to_string().contains("the file system has no locks"), "{e}");
    };
    lacks_locks(Table::open(place.join("new.spt")).err().unwrap());
    lacks_locks(Table::open(place.join("old.spt")).err().unwrap());
    lacks_locks(DictionaryBuilder::new().build(place.join("new.spd"), [(b"k", b"v")]).unwrap_err());
    lacks_locks(DictionaryBuilder::new().shards(2).build(place.join("new"), [(b"k", b"v")]).unwrap_err());
    // Reading needs no lock, nor does a file without a second writer.
    let table = TableOptions::new().read_only(true).open(place.join("old.spt")).unwrap();
    assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(Dictionary::open(place.join("old.spd")).unwrap().len(), 1);
    Backup::new().save_file(place.join("old.spt"), place.join("copy.spt")).unwrap();
    OutputFile::write(place.join("report"), "text").unwrap();
}

#[test]
fn a_file_system_without_locks_is_read_and_not_written_and_the_error_says_why() {
    for error in 0..ERRORS.len() as u64 {
        let place = tempfile::tempdir().unwrap();
        let table = Table::open(place.path().join("old.spt")).unwrap();
        table.put(b"key", b"value").unwrap();
        table.close().unwrap();
        DictionaryBuilder::new().build(place.path().join("old.spd"), [(b"k", b"v")]).unwrap();
        run("use_without_locks", place.path(), &[error]);
        // A failed creation leaves no files.
        assert_eq!(names_in(place.path()), ["copy.spt", "old.spd", "old.spt", "report"]);
    }
}

pub fn use_without_syncs(place: &Path, _: &[u64]) {
    refuse(&[(libc::SYS_fdatasync, libc::EINVAL)]);
    let e = Table::open(place.join("new.spt")).err().unwrap();
    assert!(e.to_string().contains("the file system cannot make files durable"), "{e}");
    let e = DictionaryBuilder::new().build(place.join("new.spd"), [(b"k", b"v")]).unwrap_err();
    assert!(e.to_string().contains("the file system cannot make files durable"), "{e}");
}

#[test]
fn a_file_system_without_syncs_is_refused_and_nothing_is_left() {
    let place = tempfile::tempdir().unwrap();
    run("use_without_syncs", place.path(), &[]);
    assert_eq!(names_in(place.path()), [""; 0]);
}

#[test]
fn a_table_whose_log_can_have_no_name_leaves_no_file() {
    let place = tempfile::tempdir().unwrap();
    for len in 240..=256 {
        let path = place.path().join("n".repeat(len));
        match Table::open(&path) {
            Ok(table) => {
                assert!(len + "-log0".len() <= 255, "{len}");
                table.put(b"k", b"v").unwrap();
                table.close().unwrap();
                fs::remove_file(&path).unwrap();
            }
            Err(e) => {
                assert!(len + "-log0".len() > 255, "{len}: {e}");
                assert!(e.to_string().contains("Choose a shorter name"), "{e}");
            }
        }
        assert_eq!(names_in(place.path()), [""; 0], "{len}");
    }
}
