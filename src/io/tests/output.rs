//! Output files: the state of the path before and after, for each kind of file that can exist there.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at the files from outside")]

use super::*;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_file_keeps_its_owner_and_its_permissions() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("page.html");
    OutputFile::write(&path, "new").unwrap();
    let own = fs::metadata(&path).unwrap();
    for permissions in [0o600, 0o640, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(permissions)).unwrap();
        let owner = if own.uid() == 0 { 12_345 } else { own.uid() }; // only root gives files away
        chown(&path, Some(owner), None).unwrap();
        OutputFile::write(&path, format!("{permissions:o}")).unwrap();
        assert_eq!((mode(&path), fs::metadata(&path).unwrap().uid()), (permissions, owner));
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{permissions:o}"));
    }
    assert_eq!(names_in(place.path()), ["page.html"]);
}

#[test]
fn a_link_stays_a_link_and_its_target_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let (elsewhere, link) = (place.path().join("elsewhere"), place.path().join("link"));
    fs::create_dir(&elsewhere).unwrap();
    symlink("elsewhere/page.html", &link).unwrap();
    for text in ["absent before", "replaced"] {
        OutputFile::write(&link, text).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), PathBuf::from("elsewhere/page.html"));
        assert_eq!(fs::read_to_string(elsewhere.join("page.html")).unwrap(), text);
    }
    assert_eq!(names_in(&elsewhere), ["page.html"]);
}

#[test]
fn a_device_and_a_pipe_are_written_through_and_stay() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let link = place.path().join("link");
    symlink("pipe", &link).unwrap();
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || fs::read_to_string(pipe).unwrap())
    };
    OutputFile::write(&link, "through").unwrap();
    assert_eq!(reader.join().unwrap(), "through");
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    symlink("/dev/null", place.path().join("null")).unwrap();
    OutputFile::write(place.path().join("null"), "nothing").unwrap();
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let full = OutputFile::write("/dev/full", "no room");
    assert!(!Path::new("/dev/full").exists() || full.unwrap_err().kind() == ErrorKind::StorageFull);
    assert_eq!(names_in(place.path()), ["link", "null", "pipe"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_descriptor_is_written_at_its_own_position() {
    use std::os::fd::AsRawFd;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log");
    fs::write(&path, "before, ").unwrap();
    let log = fs::OpenOptions::new().append(true).open(&path).unwrap();
    OutputFile::write(format!("/proc/self/fd/{}", log.as_raw_fd()), "then, ").unwrap();
    let link = place.path().join("link");
    symlink(format!("/dev/fd/{}", log.as_raw_fd()), &link).unwrap();
    OutputFile::write(&link, "after").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before, then, after");
}

#[test]
fn an_unfinished_file_changes_nothing_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (old, new) = (place.path().join("old"), place.path().join("new"));
    fs::write(&old, "old").unwrap();
    for path in [&old, &new] {
        let mut file = OutputFile::create(path).unwrap();
        file.write_all(b"half of").unwrap();
        drop(file);
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert_eq!(names_in(place.path()), ["old"]);
}

#[test]
fn files_of_a_killed_process_are_removed_and_those_of_a_live_one_are_not() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let mut living = OutputFile::create(at("a")).unwrap();
    fs::write(at(".splitpoint-1"), "half of").unwrap();
    fs::write(at("kept"), "kept").unwrap();
    symlink("kept", at(".splitpoint-2")).unwrap();
    fs::create_dir(at(".splitpoint-3")).unwrap();
    let second = OutputFile::create(at("b")).unwrap();
    let third = OutputFile::create(at("c")).unwrap();
    for (file, text) in [(second, "b"), (third, "c")] {
        let mut file = file;
        file.write_all(text.as_bytes()).unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(at(text)).unwrap(), text);
    }
    living.write_all(b"a").unwrap();
    living.finish().unwrap();
    assert_eq!(fs::read_to_string(at("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(at("kept")).unwrap(), "kept");
    assert_eq!(names_in(place.path()), [".splitpoint-2", ".splitpoint-3", "a", "b", "c", "kept"]);
}

#[test]
fn unfinished_files_are_known_by_name() {
    for name in [".splitpoint-0", "d/.splitpoint-4711-3", ".splitpoint-backup-12", ".splitpoint-backup-0-log7"] {
        assert!(OutputFile::is_unfinished(name), "{name}");
    }
    for name in
        [".splitpoint", ".splitpoint-", ".splitpoint-x", "x.splitpoint-0", ".splitpoint-0/a", ".splitpoint-backup-"]
    {
        assert!(!OutputFile::is_unfinished(name), "{name}");
    }
}

#[test]
fn a_name_may_be_as_long_as_a_name_can_be() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("n".repeat(255));
    OutputFile::write(&path, "long").unwrap();
    OutputFile::write(&path, "longer").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "longer");
}

#[test]
fn directories_and_files_in_absent_ones_are_errors() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(OutputFile::write(place.path(), "").unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(OutputFile::write(place.path().join("no/file"), "").unwrap_err().kind(), ErrorKind::NotFound);
    symlink("loop", place.path().join("loop")).unwrap();
    assert!(OutputFile::write(place.path().join("loop"), "").is_err());
    assert_eq!(names_in(place.path()), ["loop"]);
}
