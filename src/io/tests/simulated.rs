//! The simulated disk: what a kill and a power loss leave of writes, names and stores.

use super::*;

const A: &str = "/d/a";
const B: &str = "/d/b";

/// Makes a disk with a synced file `A` of two sectors of ones.
fn disk() -> (Simulated, Box<dyn File>) {
    let disk = Simulated::new(State::default());
    let file = disk.open(Path::new(A), Mode::New).unwrap();
    file.write_at(&[1; 2 * SECTOR_BYTES], 0).unwrap();
    file.sync().unwrap();
    disk.sync_names(Path::new(A)).unwrap();
    (disk, file)
}

fn survivors(disk: &Simulated, crash: Crash, seed: u64) -> Simulated {
    Simulated::new(disk.state().survivors(crash, &mut Random::new(&[seed]), &mut Tally::default()))
}

fn content(disk: &Simulated, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(Path::new(path), Mode::Read).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

/// Returns what many crashes leave: the contents of each sector of `A`, and the lengths of the file.
fn found(disk: &Simulated, crash: Crash) -> (Vec<std::collections::BTreeSet<u8>>, Vec<usize>) {
    let mut sectors = vec![std::collections::BTreeSet::new(); 3];
    let mut lens = Vec::new();
    for seed in 0..400 {
        let bytes = content(&survivors(disk, crash, seed), A).unwrap();
        for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            assert!(sector.iter().all(|&b| b == sector[0]), "a sector is written whole or not at all");
            sectors[number].insert(sector[0]);
        }
        lens.push(bytes.len());
    }
    lens.sort_unstable();
    lens.dedup();
    (sectors, lens)
}

#[test]
fn an_unsynced_sector_is_any_version_since_the_sync_and_its_neighbours_are_not_touched() {
    let (disk, file) = disk();
    file.write_at(&[2; SECTOR_BYTES], 0).unwrap();
    file.write_at(&[3; SECTOR_BYTES], 0).unwrap();
    let set = |bytes: &[u8]| bytes.iter().copied().collect();
    for (crash, versions) in [
        (Crash::Kill, &[3][..]),
        (Crash::KeepAll, &[3]),
        (Crash::LoseUnsynced, &[1]),
        (Crash::Prefix, &[1, 2, 3]),
        (Crash::Zeros, &[3]),
        (Crash::Mix, &[1, 2, 3]),
    ] {
        assert_eq!(found(&disk, crash), (vec![set(versions), set(&[1]), set(&[])], vec![1024]), "{crash:?}");
    }
    file.sync().unwrap();
    assert_eq!(found(&disk, Crash::Mix), (vec![set(&[3]), set(&[1]), set(&[])], vec![1024]));
    file.write_at(&[4; SECTOR_BYTES], 1024).unwrap();
    assert_eq!(found(&disk, Crash::Zeros).0, [set(&[3]), set(&[1]), set(&[0, 4])]);
}

#[test]
fn a_store_into_a_mapping_outlives_the_process_and_may_be_half_on_the_disk_before_a_sync() {
    let (disk, file) = disk();
    file.set_len(PAGE_BYTES).unwrap();
    file.sync().unwrap();
    let map = file.map(PAGE_BYTES).unwrap().expect("there are mappings");
    map.prepare(0, 1024).unwrap();
    map.store(0, &[2; SECTOR_BYTES]).unwrap();
    map.store(0, &[3; SECTOR_BYTES]).unwrap();
    assert_eq!(content(&disk, A).unwrap()[..SECTOR_BYTES], [3; SECTOR_BYTES]);
    let left = |crash, seed| content(&survivors(&disk, crash, seed), A).unwrap();
    assert_eq!(left(Crash::Kill, 0)[..SECTOR_BYTES], [3; SECTOR_BYTES]);
    assert_eq!(left(Crash::LoseUnsynced, 0)[..SECTOR_BYTES], [1; SECTOR_BYTES]);
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let bytes = left(Crash::Mix, seed);
        assert_eq!(bytes[SECTOR_BYTES..2 * SECTOR_BYTES], [1; SECTOR_BYTES]);
        let mut of = bytes[..SECTOR_BYTES].to_vec();
        of.sort_unstable();
        of.dedup();
        seen.insert(of);
    }
    for versions in [&[1][..], &[2], &[3], &[1, 2], &[2, 3]] {
        assert!(seen.remove(versions), "{versions:?}");
    }
    assert_eq!(seen, BTreeSet::new(), "a store mixes with what was there before it");
    file.sync().unwrap();
    assert_eq!(content(&survivors(&disk, Crash::LoseUnsynced, 0), A).unwrap()[..SECTOR_BYTES], [3; SECTOR_BYTES]);
}

#[test]
fn an_unsynced_length_is_kept_or_lost() {
    let (disk, file) = disk();
    file.write_at(&[2; SECTOR_BYTES], 1024).unwrap();
    assert_eq!(found(&disk, Crash::Mix).1, [1024, 1536]);
    file.set_len(512).unwrap();
    assert_eq!(found(&disk, Crash::Mix).1, [512, 1024, 1536]);
    assert_eq!(found(&disk, Crash::LoseUnsynced).1, [1024]);
}

#[test]
fn names_are_lost_until_their_directory_is_synced() {
    let (disk, _) = disk();
    let other = disk.open(Path::new(B), Mode::New).unwrap();
    other.write_at(b"content", 0).unwrap();
    other.sync().unwrap();
    assert_eq!(content(&survivors(&disk, Crash::LoseUnsynced, 0), B), None);
    disk.sync_names(Path::new(B)).unwrap();
    assert_eq!(content(&survivors(&disk, Crash::LoseUnsynced, 0), B).as_deref(), Some(&b"content"[..]));
    disk.rename(Path::new(B), Path::new(A)).unwrap();
    let lost = survivors(&disk, Crash::LoseUnsynced, 0);
    assert_eq!((content(&lost, A).unwrap().len(), content(&lost, B).unwrap().len()), (1024, 7));
    let kept = survivors(&disk, Crash::KeepAll, 0);
    assert_eq!((content(&kept, A).unwrap().len(), content(&kept, B)), (7, None));
    disk.remove(Path::new(A)).unwrap();
    assert_eq!(content(&survivors(&disk, Crash::KeepAll, 0), A), None);
    assert_eq!(content(&survivors(&disk, Crash::Kill, 0), A), None);
    assert_eq!(content(&survivors(&disk, Crash::NamesBack, 0), A).unwrap().len(), 7);
    disk.sync_names(Path::new(A)).unwrap();
    assert_eq!(content(&survivors(&disk, Crash::NamesBack, 0), A), None);
}

#[test]
fn what_a_failed_sync_lost_no_later_sync_writes() {
    let lost = (0..50).filter(|&calls| {
        let (disk, file) = disk();
        file.write_at(&[2; 2 * SECTOR_BYTES], 0).unwrap();
        // The call's number is the seed of what it writes, so the result differs each time.
        (0..calls).for_each(|_| drop(file.len()));
        disk.plan(Some(Plan { fault: Fault::Io, at: disk.calls(), lasting: false }));
        assert!(file.sync().is_err());
        file.sync().unwrap();
        content(&survivors(&disk, Crash::KeepAll, 0), A).unwrap() != [2; 2 * SECTOR_BYTES]
    });
    let lost = lost.count();
    assert!(0 < lost && lost < 50, "{lost} of 50 lost something");
}

#[test]
fn calls_fail_as_planned() {
    let (disk, file) = disk();
    let fail = |fault, lasting| disk.plan(Some(Plan { fault, at: disk.calls(), lasting }));
    fail(Fault::NoSpace, true);
    assert_eq!(file.write_at(&[2], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.reserve(1).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(file.set_len(10).is_ok() && file.read_at(&mut [0], 0).is_ok() && file.sync().is_ok());
    fail(Fault::Short, false);
    assert!(file.write_at(&[3; 10], 0).is_err());
    file.write_at(&[4], 9).unwrap();
    let bytes = content(&disk, A).unwrap();
    let done = bytes.iter().take_while(|&&b| b == 3).count();
    assert!(done < 9 && bytes[done..9].iter().all(|&b| b == 1), "{bytes:?}");
    fail(Fault::Dead, true);
    assert!(file.write_at(&[5], 0).is_err() && file.read_at(&mut [0], 0).is_err() && file.sync().is_err());
    disk.plan(None);
    assert_eq!(content(&disk, A).unwrap(), bytes);
}
