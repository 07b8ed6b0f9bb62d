//! Files of other programs, and other processes that use a dictionary's names at the same time.
//!
//! Only a dictionary's own files are emptied, replaced or removed, and a reader reuses an open file only if the path
//! still names that file.

#![allow(clippy::disallowed_methods, reason = "tests look at directories and files")]

use super::model::{Model, builder, check, in_directory, pairs};
use crate::checksum::crc32c;
use crate::dictionary::{Compression, Dictionary, DictionaryBuilder, DictionaryOptions, Index};
use crate::error::ErrorKind;
use crate::io::{Disk, File, Mode, Storage};
use std::fs;
use std::io::Result;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A disk on which another process writes a shard as soon as a manifest is renamed.
struct Beside;

impl Storage for Beside {
    fn open(&self, path: &Path, mode: Mode) -> Result<Box<dyn File>> {
        Disk.open(path, mode)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        Disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        Disk.rename(from, to)?;
        if to.ends_with("manifest") { fs::write(to.with_file_name("0-2.spd"), "another's") } else { Ok(()) }
    }

    fn make_directory(&self, path: &Path, like: Option<&Path>) -> Result<bool> {
        Disk.make_directory(path, like)
    }

    fn names_in(&self, directory: &Path) -> Result<Vec<String>> {
        Disk.names_in(directory)
    }

    fn sync_names(&self, path: &Path) -> Result<()> {
        Disk.sync_names(path)
    }
}

#[test]
fn shards_that_the_next_writer_made_are_not_removed_by_the_last_one() {
    in_directory(|path| {
        let mut build = builder(Index::page()).shards(2).storage(Arc::new(Beside)).start(&path).unwrap();
        build.push(b"a", b"1").unwrap();
        build.finish().unwrap();
        assert_eq!(names_in(&path), ["0-1.spd", "0-2.spd", "1-1.spd", "manifest"]);
    });
}

#[test]
fn an_update_to_a_directory_of_the_same_manifest_writes_what_is_other_there() {
    let place = tempfile::tempdir().unwrap();
    let (monday, tuesday) = (place.path().join("monday"), place.path().join("tuesday"));
    let old = pairs("fixed", 1000, 1);
    let mut new: Model = old.keys().map(|key| (key.clone(), b"tuesday!".to_vec())).collect();
    let builder = builder(Index::page()).shards(4);
    builder.build(&monday, &old).unwrap();
    builder.build(&tuesday, &new).unwrap();
    assert_eq!(fs::read(monday.join("manifest")).unwrap(), fs::read(tuesday.join("manifest")).unwrap());
    let mut update = Dictionary::update(&tuesday, &monday, &builder).unwrap();
    let key = old.keys().next().unwrap();
    update.put(key, b"changed!").unwrap();
    update.finish().unwrap();
    new.insert(key.clone(), b"changed!".to_vec());
    let content: Model = Dictionary::open(&monday).unwrap().iter().map(|pair| pair.unwrap()).collect();
    assert!(content == new);
}

#[test]
fn a_directory_of_other_files_is_not_made_one_of_shards() {
    for (name, content) in
        [("2024-01.spd", "needed"), ("0-2.spd", "needed"), ("notes.txt", ""), ("manifest", "of a ship")]
    {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(name), content).unwrap();
        let refused = builder(Index::page()).shards(2).build(place.path(), [(b"a", b"b")]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotADictionary, "{name}: {refused}");
        assert_eq!(names_in(place.path()), [name]);
        assert_eq!(fs::read(place.path().join(name)).unwrap(), content.as_bytes());
    }
}

#[test]
fn of_a_directory_of_shards_only_what_was_named_as_a_shard_is_removed() {
    in_directory(|path| {
        let builder = builder(Index::page()).shards(2);
        builder.build(&path, [(b"a", b"b")]).unwrap();
        let others = ["2024-01.spd", "0-1.spd.bak", "00-1.spd", "16384-1.spd", "1-9.spd", "notes.txt"];
        let leftovers = ["0-2.spd", "1-2.spd-unfinished", "1-2.spd-unfinished2", "7-1.spd", "0-1.spd-9-9.tmp"];
        others.iter().chain(&leftovers).for_each(|name| fs::write(path.join(name), "").unwrap());
        builder.build(&path, [(b"a", b"c")]).unwrap();
        let mut expected = vec!["0-2.spd", "1-2.spd", "manifest"];
        expected.extend(others);
        expected.sort_unstable();
        assert_eq!(names_in(&path), expected);
    });
}

#[test]
fn a_reader_takes_shards_of_the_same_names_in_another_directory_for_new() {
    let place = tempfile::tempdir().unwrap();
    let (path, other) = (place.path().join("a.spd"), place.path().join("b.spd"));
    let builder = builder(Index::page()).shards(4);
    let old = pairs("fixed", 1000, 1);
    let mut new = old.clone();
    let key = old.keys().next().unwrap();
    new.insert(key.clone(), b"changed!".to_vec());
    builder.build(&path, &old).unwrap();
    builder.build(&other, &new).unwrap();
    let mut dictionary = Dictionary::open(&path).unwrap();
    assert!(!dictionary.reload().unwrap());
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(dictionary.reload().unwrap());
    assert_eq!(dictionary.get(key).unwrap().as_deref(), Some(&b"changed!"[..]));
    assert!(!dictionary.reload().unwrap());
}

#[test]
fn a_reader_sees_other_values_of_the_same_checksum() {
    // They differ by the polynomial of CRC-32C.
    let [old, new] = [[0u8; 8], [0xF1, 0x76, 0xEC, 0x05, 1, 0, 0, 0]];
    assert_eq!(crc32c(&old), crc32c(&new));
    in_directory(|path| {
        let link = path.with_file_name("link.spd");
        symlink(&path, &link).unwrap();
        builder(Index::page()).build(&path, [(b"key", old)]).unwrap();
        let mut dictionaries = [&path, &link].map(|path| Dictionary::open(path).unwrap());
        assert!(dictionaries.iter_mut().all(|dictionary| !dictionary.reload().unwrap()));
        let before = dictionaries[0].clone();
        builder(Index::page()).build(&path, [(b"key", new)]).unwrap();
        for dictionary in &mut dictionaries {
            assert!(dictionary.reload().unwrap());
            assert!(dictionary.files[0].footer == before.files[0].footer, "the checksums differ");
            assert_eq!(dictionary.get(b"key").unwrap().as_deref(), Some(&new[..]));
            assert!(!dictionary.reload().unwrap());
        }
    });
}

#[test]
fn an_update_or_reindexing_is_not_resumed() {
    for shards in [0, 2] {
        in_directory(|path| {
            let builder = builder(Index::page());
            builder.clone().shards(shards).build(&path, [(b"a", b"b")]).unwrap();
            let resuming = builder.resume(7);
            let refused = Dictionary::update(&path, &path, &resuming).err().map(|e| e.kind());
            assert_eq!(refused, Some(ErrorKind::InvalidArgument));
            let refused = resuming.reindex(&path, &path).err().map(|e| e.kind());
            assert_eq!(refused, Some(ErrorKind::InvalidArgument));
        });
    }
}

#[test]
fn a_build_that_lost_its_name_never_takes_another_files() {
    for finish in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.spd");
        let mut build = builder(Index::page()).start(&path).unwrap();
        build.push(b"a", b"b").unwrap();
        fs::remove_file(beside(&path, "-unfinished")).unwrap();
        fs::write(beside(&path, "-unfinished"), "another's").unwrap();
        if finish {
            let error = build.finish().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains("removed or renamed"), "{error}");
        } else {
            drop(build);
        }
        assert_eq!(names_in(place.path()), ["a.spd-unfinished"]);
        assert_eq!(fs::read(beside(&path, "-unfinished")).unwrap(), b"another's");
    }
}

#[test]
fn what_a_user_keeps_under_the_name_of_an_unfinished_file_stays() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("users.spd");
    for suffix in ["-unfinished", "-unfinished2"] {
        let kept = beside(&path, suffix);
        builder(Index::page()).build(&kept, [(b"a", b"b")]).unwrap();
        let whole = fs::read(&kept).unwrap();
        fs::write(&kept, b"a text that someone needs").unwrap();
        let refused = builder(Index::page()).build(&path, [(b"a", b"c")]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotADictionary, "{refused}");
        assert!(refused.to_string().contains("move"), "{refused}");
        assert_eq!(fs::read(&kept).unwrap(), b"a text that someone needs");
        // What a killed build left has no header, or is complete except for its name.
        for content in [&b""[..], &[0; 4096], &[&[0; 512][..], b"pages"].concat(), &whole] {
            fs::write(&kept, content).unwrap();
            builder(Index::page()).build(&path, [(b"a", b"c")]).unwrap();
            assert_eq!(names_in(place.path()), ["users.spd"]);
        }
    }
}

#[test]
fn what_a_user_keeps_under_the_name_of_a_temporary_file_stays() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("users.spd");
    for suffix in ["-sort-000", "-sort-255", "-sort-values"] {
        let kept = beside(&path, suffix);
        fs::write(&kept, b"a text that someone needs").unwrap();
        let refused = builder(Index::page()).resume(7).build(&path, [(b"a", b"b")]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains(suffix), "{refused}");
        assert_eq!(names_in(place.path()), [format!("users.spd{suffix}")]);
        // Without `resume` no temporary file keeps a name.
        builder(Index::page()).build(&path, [(b"a", b"b")]).unwrap();
        assert_eq!(fs::read(&kept).unwrap(), b"a text that someone needs");
        fs::remove_file(&kept).unwrap();
        builder(Index::page()).resume(7).build(&path, [(b"a", b"c")]).unwrap();
        assert_eq!(names_in(place.path()), ["users.spd"]);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_damaged_manifest_is_mended_by_a_build() {
    in_directory(|path| {
        let builder = builder(Index::page()).shards(3);
        builder.build(&path, [(b"a", b"b")]).unwrap();
        builder.build(&path, [(b"a", b"c")]).unwrap();
        let mut text = fs::read(path.join("manifest")).unwrap();
        *text.last_mut().unwrap() ^= 1;
        fs::write(path.join("manifest"), text).unwrap();
        assert_eq!(Dictionary::open(&path).err().map(|e| e.kind()), Some(ErrorKind::Corrupt));
        builder.build(&path, [(b"a", b"d")]).unwrap();
        assert_eq!(Dictionary::open(&path).unwrap().get(b"a").unwrap().as_deref(), Some(&b"d"[..]));
        assert_eq!(names_in(&path), ["0-3.spd", "1-3.spd", "2-3.spd", "manifest"]);
    });
}

#[test]
fn a_file_has_the_permissions_of_the_one_that_it_replaces() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for wanted in [0o600, 0o644, 0o666] {
        in_directory(|path| {
            let builder = builder(Index::page());
            builder.build(&path, [(b"a", b"b")]).unwrap();
            set(&path, wanted);
            builder.build(&path, [(b"a", b"c")]).unwrap();
            assert_eq!(mode(&path), wanted);
            // Written twice: all sizes are equal once the odd record is removed.
            builder.build(&path, [(&b"a"[..], &b"c"[..]), (b"odd", b"size")]).unwrap();
            let mut update = Dictionary::update(&path, &path, &builder).unwrap();
            update.remove(b"odd").unwrap();
            update.finish().unwrap();
            assert_eq!(mode(&path), wanted);
        });
        in_directory(|path| {
            let builder = builder(Index::page()).shards(2);
            builder.build(&path, [(b"a", b"b")]).unwrap();
            set(&path.join("manifest"), wanted);
            builder.build(&path, [(b"a", b"c")]).unwrap();
            for name in ["manifest", "0-2.spd", "1-2.spd"] {
                assert_eq!(mode(&path.join(name)), wanted, "{name}");
            }
        });
    }
}

/// Returns permissions and owner.
fn access(path: &Path) -> (u32, u32) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.mode() & 0o777, metadata.uid())
}

/// Sets both. Only root can give files away; a test that is not root uses its own user.
fn set_access(path: &Path, mode: u32, user: u32) -> (u32, u32) {
    let own = fs::metadata(path).unwrap().uid();
    let user = if own == 0 { user } else { own };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    chown(path, Some(user), None).unwrap();
    (mode, user)
}

#[test]
fn a_new_file_has_the_owner_and_permissions_of_the_dictionary_it_is_made_from() {
    for mode in [0o600, 0o640, 0o666] {
        for shards in [0, 2] {
            let place = tempfile::tempdir().unwrap();
            let (old, new) = (place.path().join("old.spd"), place.path().join("new.spd"));
            let builder = builder(Index::page()).shards(shards);
            builder.build(&old, [(b"a", b"b")]).unwrap();
            let (old_file, new_file) = match shards {
                0 => (old.clone(), new.clone()),
                _ => (old.join("manifest"), new.join("manifest")),
            };
            let file = set_access(&old_file, mode, 12_345);
            let directory = (shards > 0).then(|| set_access(&old, 0o700, 12_345));
            for again in [false, true] {
                let mut update = Dictionary::update(&old, &new, &builder).unwrap();
                update.put(b"odd", b"sized").unwrap();
                update.finish().unwrap();
                builder.reindex(&old, &old).unwrap();
                assert_eq!(access(&old_file), file);
                let (file, directory) = if again {
                    // Existing files keep theirs.
                    (set_access(&new_file, 0o604, 12_346), directory.map(|_| set_access(&new, 0o711, 12_346)))
                } else {
                    (file, directory)
                };
                Dictionary::update(&old, &new, &builder).unwrap().finish().unwrap();
                assert_eq!(access(&new_file), file, "{shards} shards, again: {again}");
                assert_eq!(directory.map(|_| access(&new)), directory);
                if shards > 0 {
                    let names = names_in(&new);
                    assert!(names.iter().all(|name| access(&new.join(name)) == file), "{names:?}");
                }
            }
        }
    }
}

#[test]
fn a_builder_sets_the_permissions_of_new_files() {
    in_directory(|path| {
        for shards in [0, 2] {
            let builder = builder(Index::page()).shards(shards).permissions(0o600);
            builder.build(&path, [(b"a", b"b")]).unwrap();
            let files =
                if shards == 0 { vec![path.clone()] } else { names_in(&path).iter().map(|n| path.join(n)).collect() };
            assert!(files.iter().all(|file| access(file).0 == 0o600), "{files:?}");
            let _ = fs::remove_file(&path);
        }
    });
}

#[test]
fn a_link_stays_a_link_and_its_target_is_replaced() {
    for shards in [0, 2] {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let (link, target) = (place.path().join("link.spd"), elsewhere.join("target.spd"));
        symlink("elsewhere/target.spd", &link).unwrap();
        let builder = builder(Index::page()).shards(shards);
        builder.build(&link, [(b"a", b"b")]).unwrap();
        builder.build(&link, [(b"a", b"c")]).unwrap();
        let mut update = Dictionary::update(&link, &link, &builder).unwrap();
        update.put(b"b", b"d").unwrap();
        update.finish().unwrap();
        builder.reindex(&link, &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("elsewhere/target.spd"));
        for path in [&link, &target] {
            assert_eq!(Dictionary::open(path).unwrap().len(), 2);
        }
        assert_eq!(
            (names_in(place.path()), names_in(&elsewhere)),
            (vec!["elsewhere".into(), "link.spd".into()], vec!["target.spd".into()])
        );
    }
}

#[test]
fn a_build_ends_where_it_began_whatever_its_links_become() {
    let place = tempfile::tempdir().unwrap();
    let link = place.path().join("link.spd");
    symlink("first.spd", &link).unwrap();
    let mut build = builder(Index::page()).start(&link).unwrap();
    build.push(b"a", b"b").unwrap();
    fs::remove_file(&link).unwrap();
    symlink("second.spd", &link).unwrap();
    build.finish().unwrap();
    assert_eq!(names_in(place.path()), ["first.spd", "link.spd"]);
}

#[test]
fn shards_that_are_not_of_one_dictionary_are_not_opened() {
    use crate::hash::HashKind;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.spd");
    let plain = builder(Index::page()).shards(2);
    let others: [(&str, DictionaryBuilder); 4] = [
        ("pages", plain.clone().page_bytes(1024)),
        ("compression", plain.clone().compression(Compression::Lz4)),
        ("hash", plain.clone().hash(HashKind::Djb2).seed(0)),
        ("seed", plain.clone().hash(HashKind::DEFAULT).seed(1)),
    ];
    let model = pairs("fixed", 100, 1);
    for (what, other) in others {
        plain.build(&path, &model).unwrap();
        let elsewhere = place.path().join(what);
        other.build(&elsewhere, &model).unwrap();
        let name = names_in(&path).into_iter().find(|name| name.starts_with("1-")).unwrap();
        fs::copy(elsewhere.join("1-1.spd"), path.join(&name)).unwrap();
        let refused = Dictionary::open(&path).err().unwrap_or_else(|| panic!("{what}"));
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{what}: {refused}");
        let message = refused.to_string();
        assert!(message.contains(&name) && message.contains(&name.replace("1-", "0-")), "{message}");
    }
}

#[test]
fn a_manifest_that_no_other_can_follow_is_none() {
    in_directory(|path| {
        let builder = builder(Index::page()).shards(2);
        builder.build(&path, [(b"a", b"b")]).unwrap();
        let text = fs::read_to_string(path.join("manifest")).unwrap();
        let text = text.replace("generation 1\n", &format!("generation {}\n", u64::MAX));
        let body = &text[..text.find("checksum").unwrap()];
        let sum = crc32c(body.as_bytes());
        fs::write(path.join("manifest"), format!("{body}checksum {sum:08x}\n")).unwrap();
        assert_eq!(Dictionary::open(&path).err().map(|e| e.kind()), Some(ErrorKind::Corrupt));
        builder.build(&path, [(b"a", b"c")]).unwrap();
        assert_eq!(Dictionary::open(&path).unwrap().get(b"a").unwrap().as_deref(), Some(&b"c"[..]));
    });
}

#[test]
fn a_scan_ends_with_its_first_error() {
    in_directory(|path| {
        let model: Model =
            (0..400u32).map(|n| (n.to_le_bytes().to_vec(), vec![n as u8; 30_000 + n as usize])).collect();
        builder(Index::page()).build(&path, &model).unwrap();
        check(&Dictionary::open(&path).unwrap(), &model, "undamaged");
        let mut bytes = fs::read(&path).unwrap();
        for at in ((1 << 20) + (1 << 18)..bytes.len()).step_by(1 << 19) {
            bytes[at] ^= 1;
        }
        fs::write(&path, bytes).unwrap();
        let dictionary = Dictionary::open(&path).unwrap();
        let mut pairs = dictionary.iter();
        assert!(pairs.any(|pair| pair.is_err()));
        assert!(pairs.next().is_none());
    });
}

#[test]
fn a_lookup_in_a_mapping_looks_at_the_pages_that_a_read_looks_at() {
    in_directory(|path| {
        let model: Model = (0..300u32)
            .map(|n| (format!("{n:0200}").into_bytes(), vec![0xA5; if n % 10 == 0 { 40_000 } else { 9 }]))
            // So that keys of other lengths are looked up.
            .chain([(vec![b'0'; 300], vec![])])
            .collect();
        builder(Index::page()).build(&path, &model).unwrap();
        // Damages the middle of each long value.
        let mut bytes = fs::read(&path).unwrap();
        let whole: Vec<usize> =
            (1..bytes.len() / 512).filter(|page| bytes[page * 512 + 20..][..492] == [0xA5; 492]).collect();
        assert!(whole.len() > 1000, "{}", whole.len());
        whole.iter().for_each(|page| bytes[page * 512 + 100] ^= 1);
        fs::write(&path, bytes).unwrap();
        let read = Dictionary::open(&path).unwrap();
        let mapped = DictionaryOptions::new().map_data(true).open(&path).unwrap();
        let mut answers = 0;
        for n in 0..20_000 {
            let key = format!("{n:0201}").into_bytes();
            let answer = read.get(&key);
            answers += u32::from(answer.is_ok());
            assert_eq!(mapped.get(&key).ok(), answer.ok(), "{n}");
        }
        assert!(answers > 100, "{answers}");
    });
}
