//! One table by several names: links, renames and removals while it is open, moved directories, mounts of a file.
//!
//! A table's log is found only by its name. So a process that opens the file must look for the log where its last
//! writer put it, and no other table may take it for its own. docs/architecture.md, "Names".

use super::{Running, process};
use splitpoint::{Backup, Dictionary, DictionaryBuilder, ErrorKind, PublishedCounters, Salvaged, Table, TableOptions};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The names that a process may open, by number, relative to its directory.
const NAMES: [&str; 6] = ["t.spt", "link.spt", "chain.spt", "there/absolute.spt", "there/up.spt", "linked/t.spt"];

/// Opens the table by one of [`NAMES`] and makes a put that is only in the log, then waits to be killed. If the second
/// argument is 1, it opens the table by a path relative to its directory, which it leaves after the open.
pub fn hold(place: &Path, arguments: &[u64]) {
    let &[name, moves] = arguments else { panic!("arguments") };
    let table = if moves == 1 {
        std::env::set_current_dir(place).unwrap();
        let table = Table::open(NAMES[name as usize]).unwrap();
        std::env::set_current_dir("/").unwrap();
        table
    } else {
        Table::open(place.join(NAMES[name as usize])).unwrap()
    };
    table.put(b"checkpointed", b"1").unwrap();
    table.checkpoint().unwrap();
    table.put(b"later", b"2").unwrap();
    fs::write(place.join("held"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// Opens `d.spd` by a relative path, and reloads it in another directory, which has a dictionary of that name.
pub fn reload_elsewhere(place: &Path, _: &[u64]) {
    std::env::set_current_dir(place).unwrap();
    let mut dictionary = Dictionary::open("d.spd").unwrap();
    std::env::set_current_dir(place.join("there")).unwrap();
    assert!(!dictionary.reload().unwrap());
    assert_eq!(dictionary.get(b"here").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(dictionary.path(), place.join("d.spd"));
    assert_eq!(dictionary.shards()[0].path, place.join("d.spd"));
}

#[test]
fn a_dictionary_reloads_what_it_opened_after_a_change_of_directory() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("there")).unwrap();
    let builder = DictionaryBuilder::new();
    builder.build(place.path().join("d.spd"), [("here", "1")]).unwrap();
    builder.build(place.path().join("there/d.spd"), [("there", "2")]).unwrap();
    assert!(process("reload_elsewhere", place.path(), &[]).status().unwrap().success());
}

/// Creates links to `t.spt`, which may or may not exist, from here and from `there`.
fn links(place: &Path) {
    fs::create_dir(place.join("there")).unwrap();
    symlink("t.spt", place.join("link.spt")).unwrap();
    symlink(place.join("there/up.spt"), place.join("chain.spt")).unwrap();
    symlink(place.join("t.spt"), place.join("there/absolute.spt")).unwrap();
    symlink("../t.spt", place.join("there/up.spt")).unwrap();
    symlink(place, place.join("linked")).unwrap();
}

fn killed_at(place: &Path, arguments: &[u64]) {
    let _ = fs::remove_file(place.join("held"));
    let mut holder = Running::start(&mut process("hold_by_name", place, arguments));
    holder.wait_for(&place.join("held"));
    assert_eq!(holder.kill(), None);
}

fn has_all(path: &Path, when: &str) {
    let table = Table::open(path).unwrap_or_else(|e| panic!("{when}: {e}"));
    assert_eq!(table.get(b"checkpointed").unwrap().as_deref(), Some(&b"1"[..]), "{when}");
    assert_eq!(table.get(b"later").unwrap().as_deref(), Some(&b"2"[..]), "{when}");
    assert_eq!(table.verify().unwrap(), [], "{when}");
    table.close().unwrap();
}

/// Returns the names in the directory of `path` that begin with its file name.
fn beside(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let there = fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut there: Vec<String> = there.filter(|n| n.starts_with(&format!("{name}-"))).collect();
    there.sort();
    there
}

/// Copies the files `names` of `place`, as a kill at this moment would leave them.
fn copied(place: &Path, names: &[(&str, &str)]) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for (from, to) in names {
        fs::copy(place.join(from), copy.path().join(to)).unwrap();
    }
    copy
}

#[test]
fn what_was_written_through_a_link_is_there_by_any_other_name() {
    for there_before in [false, true] {
        for (written, name) in NAMES.iter().enumerate() {
            for read in NAMES {
                let place = tempfile::tempdir().unwrap();
                links(place.path());
                if there_before {
                    Table::open(place.path().join("t.spt")).unwrap().close().unwrap();
                }
                killed_at(place.path(), &[written as u64, 0]);
                assert_eq!(beside(&place.path().join("t.spt")), ["t.spt-log0", "t.spt-log1"], "by {name}");
                let reader = TableOptions::new().read_only(true).open(place.path().join(read)).unwrap();
                assert_eq!(reader.get(b"later").unwrap().as_deref(), Some(&b"2"[..]), "by {name}, read by {read}");
                drop(reader);
                has_all(&place.path().join(read), &format!("written by {name}, opened by {read}"));
            }
        }
    }
}

#[test]
fn a_process_that_changes_its_directory_keeps_its_log_where_the_table_is() {
    let place = tempfile::tempdir().unwrap();
    links(place.path());
    for name in 0..NAMES.len() as u64 {
        killed_at(place.path(), &[name, 1]);
        has_all(&place.path().join("t.spt"), NAMES[name as usize]);
    }
}

#[test]
fn links_in_a_circle_and_links_to_nowhere_are_errors_that_name_them() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    symlink("b.spt", path("a.spt")).unwrap();
    symlink("a.spt", path("b.spt")).unwrap();
    symlink("none/t.spt", path("far.spt")).unwrap();
    for name in ["a.spt", "far.spt"] {
        let error = Table::open(path(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains(if name == "a.spt" { "a.spt" } else { "none/t.spt" }), "{error}");
    }
    let refused = TableOptions::new().create_new(true).open(path("far.spt")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
}

#[test]
fn other_users_of_a_name_follow_its_links_too() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    links(place.path());
    let table = TableOptions::new().publish_counters(true).open(path("link.spt")).unwrap();
    table.put(b"k", b"v").unwrap();
    for name in NAMES {
        assert!(PublishedCounters::read(path(name)).unwrap().is_some(), "{name}");
    }
    let copy = copied(place.path(), &[("t.spt", "t.spt"), ("t.spt-log0", "t.spt-log0")]);
    symlink("t.spt", copy.path().join("link.spt")).unwrap();
    Backup::new().save_file(copy.path().join("link.spt"), path("copy.bak")).unwrap();
    assert_eq!(Table::open(path("copy.bak")).unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    let mut losses = 0;
    splitpoint::salvage(copy.path().join("link.spt"), |found| {
        losses += usize::from(matches!(found, Salvaged::Fault(_)));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(losses, 1, "the log is not reported");
    table.close().unwrap();
    // The restore replaces the target of a link and keeps the link.
    Backup::new().overwrite(true).restore(path("copy.bak"), path("link.spt")).unwrap();
    assert!(fs::symlink_metadata(path("link.spt")).unwrap().is_symlink());
    assert_eq!(Table::open(path("t.spt")).unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_file_with_two_hard_links_is_refused_for_writing_and_read_while_nobody_writes() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    killed_at(place.path(), &[0, 0]);
    fs::hard_link(path("t.spt"), path("hard.spt")).unwrap();
    for name in ["t.spt", "hard.spt"] {
        for options in [TableOptions::new(), TableOptions::new().create(false)] {
            let error = options.open(path(name)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            for word in [name, "2 hard links", "Remove the other"] {
                assert!(error.to_string().contains(word), "\"{error}\" does not say {word:?}");
            }
        }
        // The log is found by only one name.
        let reader = TableOptions::new().read_only(true).open(path(name)).unwrap();
        assert_eq!(reader.get(b"checkpointed").unwrap().as_deref(), Some(&b"1"[..]));
    }
    fs::remove_file(path("hard.spt")).unwrap();
    has_all(&path("t.spt"), "the other link removed");

    let table = Table::open(path("t.spt")).unwrap();
    fs::hard_link(path("t.spt"), path("hard.spt")).unwrap();
    let error = TableOptions::new().read_only(true).open(path("hard.spt")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(error.to_string().contains("hard links"), "{error}");
    let error = Backup::new().save_file(path("hard.spt"), path("copy.bak")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    table.put(b"while it has two names", b"").unwrap();
    table.close().unwrap();
}

/// Opens `t.spt`, puts something, and lets `change` act on its name.
fn open_and(place: &Path, change: impl FnOnce(&Path)) -> Table {
    let path = place.join("t.spt");
    let table = Table::open(&path).unwrap();
    table.put(b"checkpointed", b"1").unwrap();
    table.checkpoint().unwrap();
    table.put(b"later", b"2").unwrap();
    change(&path);
    table
}

fn is_moved(result: splitpoint::Result<()>) {
    let error = result.unwrap_err();
    assert!([ErrorKind::Io, ErrorKind::Poisoned].contains(&error.kind()), "{error}");
    for word in ["t.spt", "renamed or removed", "its log"] {
        assert!(error.to_string().contains(word), "\"{error}\" does not say {word:?}");
    }
}

#[test]
fn a_table_renamed_while_it_is_open_shares_nothing_with_one_made_under_its_old_name() {
    for makes_checkpoint in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let first = open_and(place.path(), |path| fs::rename(path, path.with_file_name("u.spt")).unwrap());
        // Its writes still go to its own log.
        first.put(b"after the rename", b"3").unwrap();
        let second = Table::open(path("t.spt")).unwrap();
        assert_eq!((second.len(), second.replayed()), (0, 0));
        for i in 0..1000u32 {
            second.put(&i.to_le_bytes(), b"second").unwrap();
            first.put(&i.to_le_bytes(), b"first").unwrap();
        }
        if makes_checkpoint {
            is_moved(first.checkpoint());
            is_moved(first.put(b"k", b"v"));
            is_moved(first.close());
        } else {
            drop(first);
        }
        second.checkpoint().unwrap();
        second.put(b"second's last", b"").unwrap();
        // The second process, now killed, lost nothing.
        let all = fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let all: Vec<String> = all.collect();
        let same: Vec<(&str, &str)> = all.iter().map(|name| (&name[..], &name[..])).collect();
        let copy = copied(place.path(), &same);
        let table = Table::open(copy.path().join("t.spt")).unwrap();
        assert_eq!((table.len(), table.get(&key(7)).unwrap().unwrap()), (1001, b"second".into()));
        assert_eq!(table.verify().unwrap(), []);
        table.close().unwrap();
        // Nor did the first: its file, renamed back to match its log, has everything.
        let logs = ["t.spt-log0", "t.spt-log1"].iter().filter(|log| all.iter().any(|name| name == *log));
        let logs: Vec<(&str, &str)> = logs.map(|&log| (log, log)).chain([("u.spt", "t.spt")]).collect();
        let copy = copied(copy.path(), &logs);
        let table = Table::open(copy.path().join("t.spt")).unwrap();
        assert_eq!(table.get(b"after the rename").unwrap().as_deref(), Some(&b"3"[..]), "{all:?}");
        assert_eq!((table.len(), table.get(&key(7)).unwrap().unwrap()), (1003, b"first".into()));
        assert_eq!(table.verify().unwrap(), []);
        drop(table);
        second.close().unwrap();
        assert_eq!(Table::open(path("t.spt")).unwrap().len(), 1001);
    }
}

fn key(i: u32) -> [u8; 4] {
    i.to_le_bytes()
}

#[test]
fn logs_that_killed_and_removed_tables_left_leave_a_table_one_segment_or_an_error() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.spt");
    while beside(&path).len() < 8 {
        killed_at(place.path(), &[0, 0]);
        fs::remove_file(&path).unwrap();
    }
    let logs = beside(&path);
    let open = || TableOptions::new().log_bytes(1 << 16).open(&path).unwrap();
    let error = open().put(b"k", b"v").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("remove the log's files")), "{error}");

    fs::remove_file(place.path().join("t.spt-log3")).unwrap();
    let content = || logs.iter().filter(|log| !log.ends_with('3')).map(|log| fs::read(place.path().join(log)).unwrap());
    let before: Vec<Vec<u8>> = content().collect();
    // Threads write many times the size of the segment, and wait for the checkpoint that frees it.
    let table = open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || (thread..2000).step_by(4).for_each(|i| table.put(&key(i), &[7; 1000]).unwrap()));
        }
    });
    assert!(table.counters().checkpoints > 10, "{:?}", table.counters());
    let copy = tempfile::tempdir().unwrap();
    for name in ["t.spt"].into_iter().chain(logs.iter().map(String::as_str)) {
        fs::copy(place.path().join(name), copy.path().join(name)).unwrap();
    }
    let killed = Table::open(copy.path().join("t.spt")).unwrap();
    assert!(killed.replayed() > 0, "nothing was in the log alone");
    assert_eq!((killed.len(), killed.verify().unwrap()), (2000, vec![]));
    table.close().unwrap();
    assert_eq!(Table::open(&path).unwrap().len(), 2000);
    assert!(before.into_iter().eq(content()), "the log of another table was changed");
}

#[test]
fn a_table_removed_while_it_is_open_shares_nothing_with_one_made_under_its_name() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.spt");
    let first = open_and(place.path(), |path| fs::remove_file(path).unwrap());
    let second = Table::open(&path).unwrap();
    second.put(b"k", b"second").unwrap();
    assert_eq!(second.get(b"later").unwrap(), None);
    is_moved(first.checkpoint());
    assert_eq!(first.get(b"later").unwrap().unwrap(), b"2", "it can still be read");
    drop(first);
    second.put(b"k2", b"second").unwrap();
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(place.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    assert_eq!(Table::open(copy.path().join("t.spt")).unwrap().len(), 2);
    second.close().unwrap();
}

#[test]
fn a_table_that_gets_its_name_back_works_when_reopened() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.spt");
    let aside = place.path().join("aside.spt");
    let table = open_and(place.path(), |path| fs::rename(path, &aside).unwrap());
    is_moved(table.checkpoint());
    assert_eq!(beside(&aside), [""; 0], "nothing is made by the other name");
    drop(table);
    fs::rename(&aside, &path).unwrap();
    has_all(&path, "the name given back");
    assert_eq!(beside(&path), [""; 0]);
}

#[test]
fn a_directory_renamed_while_its_table_is_open_takes_all_of_the_table_along() {
    let place = tempfile::tempdir().unwrap();
    let (old, new) = (place.path().join("old"), place.path().join("new"));
    fs::create_dir(&old).unwrap();
    let table = open_and(&old, |_| fs::rename(&old, &new).unwrap());
    table.put(b"after the rename", b"3").unwrap();
    is_moved(table.checkpoint());
    // A new directory under the old name has another table.
    fs::create_dir(&old).unwrap();
    let other = Table::open(old.join("t.spt")).unwrap();
    other.put(b"k", b"other").unwrap();
    is_moved(table.close());
    other.put(b"k2", b"other").unwrap();
    other.close().unwrap();
    let table = Table::open(new.join("t.spt")).unwrap();
    assert_eq!(table.get(b"after the rename").unwrap().as_deref(), Some(&b"3"[..]));
    table.close().unwrap();
    has_all(&new.join("t.spt"), "by the new name");
    assert_eq!(Table::open(old.join("t.spt")).unwrap().len(), 2);
}

#[test]
fn the_error_of_a_reader_of_a_truncated_table_does_not_mention_a_checkpoint() {
    for bytes in [0, 100, 8192] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("t.spt");
        let table = Table::open(&path).unwrap();
        (0..20_000).for_each(|i| table.put(&key(i), b"v").unwrap());
        table.close().unwrap();
        let reader = TableOptions::new().read_only(true).open(&path).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes).unwrap();
        let errors: Vec<_> = (0..20_000).filter_map(|i| reader.get(&key(i)).err()).collect();
        assert!(!errors.is_empty());
        for error in errors {
            assert_ne!(error.kind(), ErrorKind::Stale, "{bytes}: {error}");
        }
    }
}

#[test]
fn a_reader_of_a_renamed_table_keeps_its_checkpoint() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let put_all = |name: &str, value: &[u8]| {
        let table = Table::open(path(name)).unwrap();
        (0..20_000).for_each(|i| table.put(&key(i), value).unwrap());
        table.close().unwrap();
    };
    put_all("t.spt", b"v");
    let reader = TableOptions::new().read_only(true).cache_bytes(1).open(path("t.spt")).unwrap();
    fs::rename(path("t.spt"), path("u.spt")).unwrap();
    (0..3).for_each(|n| put_all("u.spt", &[n]));
    assert!((0..20_000).all(|i| reader.get(&key(i)).unwrap().unwrap() == b"v"));
    fs::remove_file(path("u.spt")).unwrap();
    assert_eq!(reader.verify().unwrap(), []);
}

#[test]
fn a_restore_does_not_take_the_log_of_a_table_that_is_open_by_another_name() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    Table::open(path("t.spt")).unwrap().close().unwrap();
    fs::copy(path("t.spt"), path("copy.bak")).unwrap();
    let table = open_and(place.path(), |path| fs::rename(path, path.with_file_name("u.spt")).unwrap());
    let error = Backup::new().restore(path("copy.bak"), path("t.spt")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(error.to_string().contains("t.spt-log"), "{error}");
    assert!(!path("t.spt").exists());
    drop(table);
    fs::rename(path("u.spt"), path("t.spt")).unwrap();
    has_all(&path("t.spt"), "a restore was refused");
}

#[test]
fn a_copy_of_a_table_that_is_open_by_another_name_does_not_write_to_its_log() {
    // A copy has the same table id, which identifies the log.
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let table = open_and(place.path(), |path| {
        fs::rename(path, path.with_file_name("u.spt")).unwrap();
        fs::copy(path.with_file_name("u.spt"), path).unwrap();
    });
    match Table::open(path("t.spt")) {
        Ok(copy) => {
            let error = copy.put(b"copy's", b"").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
            assert!(error.to_string().contains("t.spt-log"), "{error}");
        }
        Err(e) => assert_eq!(e.kind(), ErrorKind::Locked, "{e}"),
    }
    table.put(b"k", b"v").unwrap();
    drop(table);
    fs::rename(path("u.spt"), path("t.spt")).unwrap();
    let table = Table::open(path("t.spt")).unwrap();
    assert_eq!((table.len(), table.get(b"copy's").unwrap()), (3, None));
}

/// `file.spt` is mounted as `t.spt`: there it may be read but not written.
pub fn use_mounted(place: &Path, _: &[u64]) {
    let error = Table::open(place.join("t.spt")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    for word in ["t.spt", "mounted by itself", "Mount its directory"] {
        assert!(error.to_string().contains(word), "\"{error}\" does not say {word:?}");
    }
    let reader = TableOptions::new().read_only(true).open(place.join("t.spt")).unwrap();
    assert_eq!(reader.get(b"k").unwrap().unwrap(), b"v");
    // A mounted directory has the table's other files in it.
    let table = Table::open(place.join("mounted/file.spt")).unwrap();
    table.put(b"k2", b"v").unwrap();
    table.close().unwrap();
}

#[test]
fn a_file_mounted_by_itself_is_refused_for_writing() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { place.path().join(name) };
    fs::create_dir(path("real")).unwrap();
    fs::create_dir(path("mounted")).unwrap();
    fs::write(path("t.spt"), "").unwrap();
    let table = Table::open(path("real/file.spt")).unwrap();
    table.put(b"k", b"v").unwrap();
    table.close().unwrap();
    let mount = "cd \"$SPLITPOINT_PLACE\" && mount --bind real/file.spt t.spt && mount --bind real mounted";
    if let Some(status) = super::with_mounts(mount, "use_mounted", place.path(), &[]) {
        assert!(status.success(), "{status}");
        assert_eq!(Table::open(path("real/file.spt")).unwrap().len(), 2);
    }
}
