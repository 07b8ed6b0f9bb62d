//! GDBM files, read in place: those that GDBM 1.23 wrote (`tests/cli/gdbm/make.c`), every layout, and every damage.

use super::{Value, directory, fs, json, pairs_of_raw, run, run_well};
use std::collections::BTreeSet;
use std::path::Path;

type Pairs = BTreeSet<(Vec<u8>, Vec<u8>)>;

const STANDARD: &[u8] = include_bytes!("gdbm/standard.gdbm");
const EXTENDED: &[u8] = include_bytes!("gdbm/extended.gdbm");

/// Returns the pairs of the two files.
fn expected() -> Pairs {
    let numbered = (0..80).filter(|number| number % 7 != 0);
    let numbered = numbered.map(|number| (format!("key{number}").into_bytes(), format!("value {number}").into_bytes()));
    let others = [
        (b"long".to_vec(), vec![b'x'; 1500]),
        (b"\xff\0\x80\x7f!".to_vec(), b"\0\xff\n".to_vec()),
        (b"k".to_vec(), Vec::new()),
    ];
    numbered.chain(others).collect()
}

fn loaded(place: &Path, file: &str) -> Pairs {
    let _ = fs::remove_file(place.join("t.spt"));
    run_well(place, &["load", "t.spt", file]);
    pairs_of_raw(&run_well(place, &["dump", "t.spt", "--format", "raw"])).into_iter().collect()
}

#[test]
fn files_of_gdbm_are_read_in_both_formats() {
    let place = directory();
    for (name, bytes) in [("standard", STANDARD), ("extended", EXTENDED)] {
        fs::write(place.path().join(name), bytes).unwrap();
        assert_eq!(loaded(place.path(), name), expected(), "{name}");
    }
}

#[test]
fn load_diff_and_merge_take_them_like_tables() {
    let place = directory();
    let place = place.path();
    fs::write(place.join("a.gdbm"), STANDARD).unwrap();
    fs::write(place.join("b.gdbm"), EXTENDED).unwrap();
    let report = json(place, &["load", "t.spt", "a.gdbm", "--json"]);
    assert_eq!(report["formats"][0], "gdbm-file");
    assert_eq!(report["rows"], 71);
    let equal = |a: &str, b: &str| {
        let last: Value = serde_json::from_slice(&run_well(place, &["diff", a, b, "--json"])).unwrap();
        assert_eq!(last["equal"], 71, "{a} {b}");
    };
    equal("a.gdbm", "t.spt");
    equal("t.spt", "b.gdbm");
    equal("a.gdbm", "b.gdbm");
    run_well(place, &["put", "more.spt", "one more", "1"]);
    run_well(place, &["merge", "m.spt", "a.gdbm", "more.spt"]);
    assert_eq!(run_well(place, &["count", "m.spt"]), b"72\n");
    run_well(place, &["merge", "m.spd", "a.gdbm", "more.spt"]);
    assert_eq!(run_well(place, &["count", "m.spd"]), b"72\n");
    let differ = run(place, &["diff", "m.spd", "b.gdbm"]);
    assert_eq!((differ.status.code(), &differ.stdout[..]), (Some(1), &b"-one more\t1\n"[..]));
}

#[test]
fn a_pipe_and_a_compressed_file_are_refused() {
    let place = directory();
    fs::write(place.path().join("a.gdbm"), STANDARD).unwrap();
    for command in ["cat a.gdbm | splitpoint load t.spt -", "gzip -k a.gdbm && splitpoint load t.spt a.gdbm.gz"] {
        let shell = ["PATH=", &Path::new(super::PROGRAM).parent().unwrap().display().to_string(), ":$PATH; ", command];
        let output = std::process::Command::new("sh").args(["-c", &shell.concat()]).current_dir(place.path()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(14), "{command}");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains("give it as a file, neither compressed nor through a pipe"), "{message}");
    }
    assert!(!place.path().join("t.spt").exists());
}

#[test]
fn a_file_that_a_program_writes_is_refused() {
    let place = directory();
    let path = place.path().join("a.gdbm");
    fs::write(&path, STANDARD).unwrap();
    let writer = fs::File::open(&path).unwrap();
    writer.try_lock().unwrap();
    let output = run(place.path(), &["load", "t.spt", "a.gdbm"]);
    assert_eq!(output.status.code(), Some(20), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn rows_before_and_after_a_damaged_record_are_loaded_if_wanted() {
    let place = directory();
    let mut damaged = STANDARD.to_vec();
    let at = damaged.windows(5).position(|bytes| bytes == b"key11").unwrap();
    damaged[at + 3] = b'9';
    fs::write(place.path().join("a.gdbm"), damaged).unwrap();
    let stopped = run(place.path(), &["load", "t.spt", "a.gdbm"]);
    let message = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert!(stopped.status.code() == Some(1) && message.contains("its hash is another"), "{message}");
    let report = json(place.path(), &["load", "u.spt", "a.gdbm", "--json", "--on-error", "skip"]);
    assert_eq!((&report["rows"], &report["rows_skipped"]), (&Value::from(70), &Value::from(1)));
}

#[test]
fn headers_that_claim_too_much_are_errors() {
    let place = directory();
    let mut short = STANDARD.to_vec();
    short.truncate(20);
    let mut cases = vec![short];
    for (at, with) in [(9, 0xffu8), (13, 0x7f), (16, 0x11), (20, 30), (25, 0), (27, 0x7f), (28, 200)] {
        let mut bytes = STANDARD.to_vec();
        bytes[at] = with;
        cases.push(bytes);
    }
    for bytes in cases {
        fs::write(place.path().join("a.gdbm"), bytes).unwrap();
        let output = run(place.path(), &["load", "t.spt", "a.gdbm"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(13), "{message}");
        assert!(message.contains("is a GDBM file, but its header is damaged"), "{message}");
    }
}
