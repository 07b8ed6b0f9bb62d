//! Tests files: crashes, restarts, files of other programs.

use super::*;
use crate::keyspace::collections::fields::{Fields, FieldsMut};
use crate::keyspace::heads::mark_of;
use std::path::Path;

/// Copies the files of a table, the log cut to `log_bytes`, as a crash may leave them.
fn crashed(from: &Path, to: &Path, log_bytes: u64) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            let copy = to.join(file.file_name());
            std::fs::copy(file.path(), &copy).unwrap();
            if file.file_name().to_string_lossy().contains("-log") {
                let file = std::fs::OpenOptions::new().write(true).open(&copy).unwrap();
                let len = file.metadata().unwrap().len();
                file.set_len(log_bytes.min(len)).unwrap();
                file.set_len(len).unwrap();
            }
        }
    }
}

#[test]
fn a_crash_at_any_byte_of_the_log_leaves_a_value_with_its_lifetime() {
    STOPPED_CLOCK.set(Some(START_MS));
    let folder = tempfile::tempdir().unwrap();
    let (live, at_ms) = (folder.path().join("live"), |number: u64| START_MS + 1000 + number);
    std::fs::create_dir(&live).unwrap();
    let space = in_file(&live.join("t")).unwrap();
    for number in 0..40u64 {
        put(&space, b"k", number.to_string().as_bytes(), Attributes::expiring(at_ms(number)));
        let shared = space.share(Patience::MayWait).unwrap();
        let edit = |_: usize, old: Option<Old<'_>>, new: &mut New<'_>| {
            let value = [old.unwrap().value, b"+"].concat();
            new.put(Attributes::expiring(at_ms(number + 100)), &value)
        };
        assert_eq!(shared.edit_many(0, &[b"k"], (100, 0), edit).0, 1);
    }
    let mut found = std::collections::BTreeSet::new();
    for cut in (0..6000).step_by(7) {
        let copy = folder.path().join(cut.to_string());
        crashed(&live, &copy, cut);
        let Ok(after) = in_file(&copy.join("t")) else { panic!("cut to {cut}") };
        if let Some((value, attributes)) = get(&after, b"k") {
            let text = String::from_utf8(value).unwrap();
            let number: u64 = text.trim_end_matches('+').parse().unwrap();
            let expected = at_ms(if text.ends_with('+') { number + 100 } else { number });
            assert_eq!(attributes, Attributes::expiring(expected), "cut to {cut}: {text}");
            found.insert(text);
        }
        drop(after);
        std::fs::remove_dir_all(&copy).unwrap();
    }
    assert!(found.len() > 60, "{found:?}");
}

#[test]
fn a_file_of_another_program_keeps_its_values_when_lifetimes_come() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let values: Vec<Vec<u8>> = (0..=255u8).map(|first| vec![first; 30]).collect();
    {
        let table = Table::open(&path).unwrap();
        values.iter().enumerate().for_each(|(n, value)| table.put(&[n as u8], value).unwrap());
        table.close().unwrap();
    }
    let later = Attributes::expiring(now_ms() + 1_000_000);
    let check = |space: &KeySpace| {
        for (n, value) in values.iter().enumerate() {
            assert_eq!(get(space, &[n as u8]).unwrap(), (value.clone(), Attributes::NONE), "{n}");
        }
    };
    {
        let space = in_file(&path).unwrap();
        check(&space);
        assert_eq!(space.len(0), 256);
        put(&space, b"new", &[0xFF; 40], later);
        assert_eq!(space.len(0), 257);
        check(&space);
    }
    let space = in_file(&path).unwrap();
    check(&space);
    assert_eq!(get(&space, b"new").unwrap(), (vec![0xFF; 40], later));
    assert_eq!((space.len(0), space.lifetimes(0).unwrap().0), (257, 1));
    // A value that begins like a head of this file.
    let mark = mark_of(space.databases[0].heads.load(Relaxed));
    put(&space, b"like", &[mark.as_slice(), &[0xF9; 20]].concat(), Attributes::NONE);
    assert_eq!(get(&space, b"like").unwrap().0, [mark.as_slice(), &[0xF9; 20]].concat());
    let mut alone = space.close(Patience::MayWait).unwrap();
    for byte in mark.iter().chain(&[0xF9; 9]) {
        alone.append(0, b"grown", &[*byte]).unwrap();
    }
    drop(alone);
    assert_eq!(get(&space, b"grown").unwrap(), ([mark.as_slice(), &[0xF9; 9]].concat(), Attributes::NONE));
}

#[test]
fn a_flush_among_other_changes_of_a_file_changes_nothing_before_they_are_committed() {
    let folder = tempfile::tempdir().unwrap();
    let space = in_file(&folder.path().join("t")).unwrap();
    put(&space, b"k", b"v", Attributes::NONE);
    put(&space, &[marks::MARK.as_slice(), b"h"].concat(), b"v", Attributes::expiring(START_MS * 2));
    for commits in [false, true] {
        let mut alone = space.close(Patience::MayWait).unwrap();
        alone.begin_many();
        alone.put(0, b"before", b"v", Lifetime::Clear).unwrap();
        alone.flush(0).unwrap();
        alone.put(0, b"after", b"v", Lifetime::Clear).unwrap();
        if commits {
            alone.commit().unwrap()
        } else {
            alone.roll_back()
        }
        drop(alone);
        assert_eq!(space.len(0), if commits { 1 } else { 2 });
    }
    assert_eq!(get(&space, b"after").unwrap().0, b"v");
}

#[test]
fn a_key_stays_where_it_is_if_the_file_of_its_new_database_cannot_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let space = in_file(&folder.path().join("t")).unwrap();
    put(&space, b"k", b"v", Attributes::NONE);
    std::fs::create_dir(folder.path().join("t-db1")).unwrap();
    let mut alone = space.close(Patience::MayWait).unwrap();
    alone.begin();
    alone.copy((0, b"k"), (1, b"k")).unwrap();
    assert!(alone.remove(0, b"k").unwrap());
    assert!(alone.commit().is_err());
    drop(alone);
    assert_eq!(get(&space, b"k").unwrap().0, b"v");
}

#[test]
fn a_transaction_changes_its_copy_of_a_string_in_place() {
    STOPPED_CLOCK.set(Some(START_MS));
    let folder = tempfile::tempdir().unwrap();
    let space = in_file(&folder.path().join("t")).unwrap();
    let later = Attributes::expiring(START_MS + 1000);
    put(&space, b"plain", &[1; 100_000], Attributes::NONE);
    put(&space, b"expires", &[1; 100_000], later);
    let mark = mark_of(space.databases[0].heads.load(Relaxed));
    let mut alone = space.close(Patience::MayWait).unwrap();
    alone.begin_many();
    for key in [b"plain".as_slice(), b"expires"] {
        assert_eq!(alone.put_part(0, key, 0, &[2]).unwrap(), 100_000);
        let copy = |alone: &Exclusive<'_>| alone.staged(0, key).unwrap().unwrap().as_ptr();
        let before = copy(&alone);
        for at in [0, 5, 50_000, 99_999] {
            assert_eq!(alone.put_part(0, key, at, &[3]).unwrap(), 100_000);
            assert_eq!(copy(&alone), before, "byte {at}");
        }
        // The value is extended, then begins like a head.
        assert_eq!(alone.put_part(0, key, 100_001, &[4]).unwrap(), 100_002);
        assert_eq!(alone.append(0, key, &[5; 3]).unwrap(), 100_005);
        for (at, byte) in mark.iter().enumerate() {
            assert_eq!(alone.put_part(0, key, at, &[*byte]).unwrap(), 100_005);
        }
        assert_eq!(alone.append(0, key, &[6]).unwrap(), 100_006);
    }
    let staged: usize = [b"plain".as_slice(), b"expires"]
        .iter()
        .map(|key| key.len() + alone.staged(0, key).unwrap().unwrap().len())
        .sum();
    assert_eq!(alone.staged_bytes(), staged);
    alone.commit().unwrap();
    drop(alone);
    let mut expected = vec![1; 100_000];
    expected[..6].copy_from_slice(&mark);
    (expected[50_000], expected[99_999]) = (3, 3);
    expected.extend([0, 4, 5, 5, 5, 6]);
    assert_eq!(get(&space, b"plain").unwrap(), (expected.clone(), Attributes::NONE));
    assert_eq!(get(&space, b"expires").unwrap(), (expected, later));
}

#[test]
fn a_file_with_lifetimes_of_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    Table::open(&path).unwrap().put(b"\0sp\xffh", &[1]).unwrap();
    let error = in_file(&path).err().unwrap().to_string();
    assert!(error.contains("t: ") && error.contains("version 1") && error.contains("load the dump"), "{error}");
}

#[test]
fn a_file_opened_again_has_its_collections_and_removes_what_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions { file: Some(folder.path().join("t")), ..SpaceOptions::default() };
    {
        let space = KeySpace::open(options.clone()).unwrap();
        let mut alone = space.close(Patience::MayWait).unwrap();
        for key in [b"kept".as_slice(), b"gone"] {
            let mut set = FieldsMut::open(&mut alone, 0, key, Kind::Set).unwrap();
            (0..5000u32).for_each(|number| assert!(set.put(&number.to_le_bytes(), b"").unwrap()));
            set.finish().unwrap();
        }
        assert!(alone.remove(0, b"gone").unwrap());
    }
    let space = KeySpace::open(options).unwrap();
    assert_eq!(space.len(0), 1);
    let before = hidden_pairs(&space);
    space.sweep_segments(|| true).unwrap();
    assert!(hidden_pairs(&space) < before / 2 + 10);
    let mut alone = space.close(Patience::MayWait).unwrap();
    let set = Fields::open(&mut alone, 0, b"kept", Kind::Set).unwrap().unwrap();
    for number in 0..5000u32 {
        assert!(set.get(&mut alone, &number.to_le_bytes(), &mut Vec::new()).unwrap());
    }
    // New collections have other segments.
    let mut other = FieldsMut::open(&mut alone, 0, b"other", Kind::Set).unwrap();
    (0..5000u32).for_each(|number| assert!(other.put(&number.to_be_bytes(), b"").unwrap()));
    other.finish().unwrap();
    assert_eq!(Fields::open(&mut alone, 0, b"kept", Kind::Set).unwrap().unwrap().len(), 5000);
    assert_eq!(space.len(0), 2);
}

#[test]
fn a_typed_table_is_served_if_it_holds_strings() {
    let folder = tempfile::tempdir().unwrap();
    for (number, types) in ["str -> bytes", "str -> i64", "u64 -> str", "json -> pickle"].iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let table = splitpoint::Table::open(&path).unwrap();
        table.adopt_types(types).unwrap();
        table.close().unwrap();
        let served = KeySpace::open(SpaceOptions { file: Some(path), ..SpaceOptions::default() });
        assert_eq!(served.is_ok(), number == 0, "{types}");
    }
}
