//! Shards written separately and published together equal those of one build or update; and a job that cannot publish
//! changes nothing.

#![allow(clippy::disallowed_methods, reason = "tests look at directories and files")]

use super::model::{Model, builder, pairs};
use crate::dictionary::shard_job::{ShardBase, ShardFile, ShardJob};
use crate::dictionary::{Dictionary, DictionaryBuilder, Duplicates, Index};
use crate::error::{ErrorKind, Result};
use crate::random::Random;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory for a dictionary, and one for its unfinished files.
struct Place {
    all: tempfile::TempDir,
    dictionary: PathBuf,
    unfinished: PathBuf,
}

impl Place {
    fn new() -> Place {
        let all = tempfile::tempdir().unwrap();
        let (dictionary, unfinished) = (all.path().join("a.spd"), all.path().join("unfinished"));
        fs::create_dir(&unfinished).unwrap();
        Place { all, dictionary, unfinished }
    }

    fn job(&self, builder: &DictionaryBuilder, base: ShardBase) -> Result<ShardJob> {
        ShardJob::new(&self.dictionary, builder, base)
    }

    /// Writes all changes with one writer.
    fn write(&self, job: &ShardJob, changes: &[Change]) -> Result<Vec<ShardFile>> {
        let all = 0..job.last_slots().len() as u32;
        let mut writer = job.start(all, self.unfinished.join("all"))?;
        for (place, (key, value)) in changes.iter().enumerate() {
            match value {
                Some(value) => writer.put(key, value, place as u64)?,
                None => writer.remove(key, place as u64)?,
            }
        }
        writer.finish()
    }
}

type Change = (Vec<u8>, Option<Vec<u8>>);

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the pairs of `model` as changes.
fn changes_of(model: &Model) -> Vec<Change> {
    model.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect()
}

/// Writes each shard with a separate writer, and publishes.
fn run_apart(place: &Place, job: &ShardJob, changes: &[Change]) -> Result<u64> {
    let mut files = Vec::new();
    for shard in 0..job.last_slots().len() as u32 {
        let mut writer = job.start(shard..shard + 1, place.unfinished.join(format!("task{shard}")))?;
        for (number, (key, value)) in changes.iter().enumerate().filter(|(_, (key, _))| job.shard_of(key) == shard) {
            match value {
                Some(value) => writer.put(key, value, number as u64)?,
                None => writer.remove(key, number as u64)?,
            }
        }
        files.extend(writer.finish()?);
    }
    job.publish(files)
}

#[test]
fn shards_written_apart_are_those_of_one_build_and_one_update() {
    for (index, kind) in [(Index::page(), "fixed"), (Index::trie(), "words"), (Index::chunk(), "fixed")] {
        let builder = builder(index).shards(5);
        let (place, whole) = (Place::new(), Place::new());
        let mut model = pairs(kind, 3000, 5);
        builder.build(&whole.dictionary, &model).unwrap();
        let job = place.job(&builder, ShardBase::of(&place.dictionary).unwrap()).unwrap();
        assert_eq!(job.base(), ShardBase::Absent);
        assert_eq!(run_apart(&place, &job, &changes_of(&model)).unwrap(), model.len() as u64);
        has_all(&place.dictionary, &model);
        same_files(&place, &whole);

        let mut random = Random::from_seed(3);
        let (keys, mut changes) = (model.keys().cloned().collect::<Vec<_>>(), Vec::new());
        let mut update = Dictionary::update(&whole.dictionary, &whole.dictionary, &builder).unwrap();
        for key in &keys {
            let chance = random.up_to(5);
            if chance > 1 {
                continue;
            }
            let value = (chance == 0).then(|| model[key].iter().map(|byte| byte ^ 1).collect::<Vec<_>>());
            match &value {
                Some(value) => drop((model.insert(key.clone(), value.clone()), update.put(key, value).unwrap())),
                None => drop((model.remove(key), update.remove(key).unwrap())),
            }
            changes.push((key.clone(), value));
        }
        update.finish().unwrap();
        let base = ShardBase::of(&place.dictionary).unwrap();
        assert_eq!(base, ShardBase::Generation(1));
        // Page size and compression stay those of the old files, whatever the builder says.
        let other = DictionaryBuilder::new().index(index).page_bytes(2048).shards(2);
        let job = place.job(&other, base).unwrap();
        assert_eq!(job.last_slots().len(), 5);
        assert_eq!(run_apart(&place, &job, &changes).unwrap(), model.len() as u64);
        has_all(&place.dictionary, &model);
        same_files(&place, &whole);
        assert_eq!(names_in(&place.unfinished), [""; 0]);
        assert_eq!(names_in(place.all.path()), ["a.spd", "unfinished"]);
    }
}

fn has_all(directory: &Path, model: &Model) {
    let dictionary = Dictionary::open(directory).unwrap();
    let all: Model = dictionary.iter().map(|pair| pair.unwrap()).collect();
    assert!(all == *model, "{} pairs, where {} are expected", all.len(), model.len());
    assert_eq!(dictionary.verify().unwrap(), []);
}

fn same_files(place: &Place, whole: &Place) {
    assert_eq!(names_in(&place.dictionary), names_in(&whole.dictionary));
    for name in names_in(&whole.dictionary) {
        let [one, other] = [place, whole].map(|place| fs::read(place.dictionary.join(&name)).unwrap());
        assert!(one == other, "{name} differs");
    }
}

#[test]
fn shards_without_changes_keep_their_files_and_new_ones_are_empty() {
    let place = Place::new();
    let builder = builder(Index::page()).shards(4);
    let job = place.job(&builder, ShardBase::Absent).unwrap();
    let one = [(b"a".to_vec(), Some(b"1".to_vec()))];
    let files = place.write(&job, &one).unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(job.publish(files).unwrap(), 1);
    assert_eq!(names_in(&place.dictionary), ["0-1.spd", "1-1.spd", "2-1.spd", "3-1.spd", "manifest"]);
    let job = place.job(&builder, ShardBase::Generation(1)).unwrap();
    let files = place.write(&job, &[(b"a".to_vec(), None)]).unwrap();
    let changed = files[0].shard;
    assert_eq!(job.publish(files).unwrap(), 0);
    let expected = (0..4).map(|shard| format!("{shard}-{}.spd", if shard == changed { 2 } else { 1 }));
    assert_eq!(names_in(&place.dictionary), expected.chain(["manifest".into()]).collect::<Vec<_>>());
}

#[test]
fn a_job_whose_directory_has_changed_is_refused_and_changes_nothing() {
    let place = Place::new();
    let builder = builder(Index::page()).shards(2);
    let first = place.job(&builder, ShardBase::Absent).unwrap();
    first.check_directory().unwrap();
    assert_eq!(names_in(place.all.path()), ["unfinished"]);
    let files = place.write(&first, &[(b"a".to_vec(), Some(b"1".to_vec()))]).unwrap();
    builder.build(&place.dictionary, [(b"other", b"1")]).unwrap();
    let before = names_in(&place.dictionary);
    assert_eq!(first.check_directory().unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(first.publish(files).unwrap_err().kind(), ErrorKind::Stale);

    let second = place.job(&builder, ShardBase::of(&place.dictionary).unwrap()).unwrap();
    let files = place.write(&second, &[(b"a".to_vec(), Some(b"1".to_vec()))]).unwrap();
    let mut update = Dictionary::update(&place.dictionary, &place.dictionary, &builder).unwrap();
    assert_eq!(second.publish(files.clone()).unwrap_err().kind(), ErrorKind::Locked);
    update.put(b"third", b"1").unwrap();
    update.finish().unwrap();
    assert_eq!(second.publish(files).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(place.job(&builder, ShardBase::Generation(1)).err().unwrap().kind(), ErrorKind::Stale);
    // The old files of the first shard may be gone.
    let written = place.write(&second, &[(b"third".to_vec(), None)]);
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(Dictionary::open(&place.dictionary).unwrap().len(), 2);
    assert_eq!(names_in(&place.dictionary).len(), before.len());
    // A job that replaces anything succeeds.
    let any = place.job(&builder, ShardBase::Any).unwrap();
    assert_eq!(any.publish([]).unwrap(), 0);
}

#[test]
fn a_dictionary_made_anew_with_the_generation_of_the_old_one_is_refused() {
    let place = Place::new();
    let builder = builder(Index::page());
    let change = [(b"a".to_vec(), Some(b"1".to_vec()))];
    // With another manifest, and with an equal one.
    for shards in [2, 4] {
        builder.clone().shards(4).build(&place.dictionary, [(b"a", b"0")]).unwrap();
        let job = place.job(&builder, ShardBase::Generation(1)).unwrap();
        let files = place.write(&job, &change).unwrap();
        fs::remove_dir_all(&place.dictionary).unwrap();
        builder.clone().shards(shards).build(&place.dictionary, [(b"a", b"2")]).unwrap();
        assert_eq!(job.publish(files).unwrap_err().kind(), ErrorKind::Stale, "{shards} shards");
        let dictionary = Dictionary::open(&place.dictionary).unwrap();
        assert_eq!(dictionary.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(names_in(&place.dictionary).len(), shards as usize + 1);
        fs::remove_dir_all(&place.dictionary).unwrap();
    }
    builder.clone().shards(4).build(&place.dictionary, [(b"a", b"0")]).unwrap();
    let job = place.job(&builder, ShardBase::Generation(1)).unwrap();
    fs::remove_dir_all(&place.dictionary).unwrap();
    // Two keys of one slot.
    let two = [(&b"a"[..], &b"2"[..]), (b"{a}b", b"2")];
    builder.clone().shards(4).build(&place.dictionary, two).unwrap();
    assert_eq!(place.write(&job, &change).unwrap_err().kind(), ErrorKind::Stale);
}

#[test]
fn the_mark_of_a_base_covers_every_shard() {
    let place = Place::new();
    let builder = builder(Index::page()).shards(2);
    let new = place.job(&builder, ShardBase::Absent).unwrap();
    assert_eq!(new.base_mark().unwrap(), 0);
    for shard in 0..2 {
        let key = [(0..=u8::MAX).find(|byte| new.shard_of(&[*byte]) == shard).unwrap()];
        let [first, same, other] = [b"1", b"1", b"2"].map(|value| {
            builder.build(&place.dictionary, [(key, value)]).unwrap();
            let mark = place.job(&builder, ShardBase::Generation(1)).unwrap().base_mark().unwrap();
            fs::remove_dir_all(&place.dictionary).unwrap();
            mark
        });
        assert_eq!(first, same, "shard {shard}");
        assert_ne!(first, other, "shard {shard}");
    }
    builder.build(&place.dictionary, [(b"a", b"1")]).unwrap();
    let job = place.job(&builder, ShardBase::Generation(1)).unwrap();
    fs::remove_dir_all(&place.dictionary).unwrap();
    assert_eq!(job.base_mark().unwrap_err().kind(), ErrorKind::Stale);
}

#[test]
fn files_that_are_no_shards_of_the_job_are_refused_and_removed() {
    let place = Place::new();
    let builder = builder(Index::page()).shards(2);
    let job = place.job(&builder, ShardBase::Absent).unwrap();
    let model = pairs("fixed", 100, 1);
    let files = place.write(&job, &changes_of(&model)).unwrap();
    assert_eq!(files.len(), 2);
    let twice = job.publish([files[0].clone(), files[0].clone()]).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidArgument);
    let third = ShardFile { shard: 2, ..files[0].clone() };
    assert_eq!(job.publish([third]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let gone = ShardFile { path: place.unfinished.join("none.spd"), ..files[1].clone() };
    assert_eq!(job.publish([files[0].clone(), gone]).unwrap_err().kind(), ErrorKind::Io);
    // With another page size.
    let other = Place::new();
    let wide = other.job(&builder.clone().page_bytes(1024), ShardBase::Absent).unwrap();
    let wide = other.write(&wide, &changes_of(&model)).unwrap();
    let files = place.write(&job, &changes_of(&model)).unwrap();
    assert_eq!(job.publish([files[0].clone(), wide[1].clone()]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(names_in(place.all.path()), ["unfinished"], "a directory was made and stays");
    assert_eq!(ShardBase::of(&place.dictionary).unwrap(), ShardBase::Absent);
}

#[test]
fn a_writer_refuses_keys_of_other_shards_and_keys_given_twice() {
    let place = Place::new();
    let builder = builder(Index::page()).shards(3).place_names(|place| format!("row {place}"));
    let job = place.job(&builder, ShardBase::Any).unwrap();
    let mine = job.shard_of(b"a");
    let other = (0..100u8).find(|byte| job.shard_of(&[*byte]) != mine).unwrap();
    let mut writer = job.start(mine..mine + 1, place.unfinished.join("t")).unwrap();
    writer.put(b"a", b"1", 4).unwrap();
    let error = writer.put(&[other], b"1", 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().starts_with("row 5: key"), "{error}");
    writer.remove(b"a", 9).unwrap();
    let error = writer.finish().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Duplicate, "row 9: duplicate key \"a\" (first at row 4)"));
    assert_eq!(names_in(&place.unfinished), [""; 0]);
    let last = place.job(&builder.clone().duplicates(Duplicates::Last), ShardBase::Any).unwrap();
    let files = place.write(&last, &[(b"a".to_vec(), Some(b"1".to_vec())), (b"a".to_vec(), None)]).unwrap();
    assert_eq!(last.publish(files).unwrap(), 0);
    for shards in [0..0, 3..4, 0..4] {
        let refused = job.start(shards, place.unfinished.join("t")).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_dictionary_in_one_file_and_a_directory_of_other_files_are_no_base() {
    let place = Place::new();
    builder(Index::page()).build(&place.dictionary, [(b"a", b"1")]).unwrap();
    assert_eq!(ShardBase::of(&place.dictionary).unwrap_err().kind(), ErrorKind::InvalidArgument);
    fs::write(place.unfinished.join("notes.txt"), "needed").unwrap();
    let job = ShardJob::new(&place.unfinished, &builder(Index::page()), ShardBase::Any).unwrap();
    assert_eq!(job.check_directory().unwrap_err().kind(), ErrorKind::NotADictionary);
    assert_eq!(names_in(&place.unfinished), ["notes.txt"]);
}
