//! Keys with types and lifetimes: `load` of dumps of Redis and of typed JSON lines, `dump` of both.
//!
//! Comparisons with real servers: `crates/server/tests/moves.py`.

use super::signals::{Running, end_of, let_it_block, send};
use super::{directory, json, run, run_well, splitpoint};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Dumps of 14 keys, one of them in database 3, as Redis 6.0, Redis 7.0 and Valkey 8.1 wrote them.
pub const GOLDEN: [&[u8]; 3] = [
    include_bytes!("../../../server/src/rdb/golden/redis-6.0.rdb"),
    include_bytes!("../../../server/src/rdb/golden/redis-7.0.rdb"),
    include_bytes!("../../../server/src/rdb/golden/valkey-8.1.rdb"),
];

/// A length that splits a value.
const WITHIN_A_VALUE: usize = 4000;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Creates a directory with the dump of Redis 7.0 as `dump.rdb`.
fn with_dump() -> tempfile::TempDir {
    let place = directory();
    fs::write(place.path().join("dump.rdb"), GOLDEN[1]).unwrap();
    place
}

/// Returns the rows of a dump in order. Hashes and sets have no order, so the bytes of each row are sorted.
fn rows(place: &Path, file: &str) -> Vec<Vec<u8>> {
    let dumped = run_well(place, &["dump", file, "--format", "jsonl"]);
    let mut rows: Vec<_> = dumped.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    rows.iter_mut().for_each(|row| row.sort_unstable());
    rows.sort();
    rows
}

fn refused(place: &Path, arguments: &[&str], status: i32, what: &str) {
    let output = run(place, arguments);
    let message = said(&output);
    assert!(output.status.code() == Some(status) && message.contains(what), "{arguments:?}: {message}");
}

#[test]
fn dumps_of_redis_and_valkey_come_back_in_every_way() {
    for golden in GOLDEN {
        let place = with_dump();
        let place = place.path();
        fs::write(place.join("dump.rdb"), golden).unwrap();
        let report = json(place, &["load", "a.spt", "dump.rdb", "--json"]);
        let figures = ["rows", "table_pairs", "rows_expired", "rows_repeated"].map(|name| report[name].as_u64());
        assert_eq!(figures, [14, 14, 0, 0].map(Some));
        let expected = rows(place, "a.spt");
        assert_eq!(expected.len(), 14 + 1);
        for format in ["rdb", "jsonl"] {
            let dumped = run_well(place, &["dump", "a.spt", "--format", format]);
            for stored in ["b.spt", "b.spt-db3"] {
                let _ = fs::remove_file(place.join(stored));
            }
            // From a pipe, recognized by its content; and once more over the existing pairs.
            for _ in 0..2 {
                let child = splitpoint(place).args(["load", "b.spt"]).stdin(Stdio::piped()).spawn();
                let mut child = child.unwrap();
                child.stdin.take().unwrap().write_all(&dumped).unwrap();
                assert!(child.wait().unwrap().success());
                assert!(rows(place, "b.spt") == expected, "{format}");
            }
        }
        // Each part has its share of every database.
        let parts = [1, 2, 3, 4]
            .map(|part| run_well(place, &["dump", "a.spt", "--format", "jsonl", "--part", &format!("{part}/4")]));
        let lines: usize = parts.iter().map(|part| part.split_inclusive(|byte| *byte == b'\n').count()).sum();
        assert_eq!(lines, 14);
        run_well(place, &["check", "a.spt"]);
        run_well(place, &["check", "a.spt-db3"]);
    }
}

#[test]
fn a_dump_without_types_says_what_is_not_in_it() {
    let place = with_dump();
    let place = place.path();
    run_well(place, &["load", "a.spt", "dump.rdb"]);
    refused(place, &["dump", "a.spt"], 31, "`splitpoint dump` writes them as jsonl or rdb");
    run_well(place, &["load", "b.spt", "dump.rdb", "--ttl", "ignore"]);
    fs::rename(place.join("b.spt-db3"), place.join("c.spt-db3")).unwrap();
    run_well(place, &["put", "c.spt", "k", "v"]);
    let output = run(place, &["dump", "c.spt"]);
    assert_eq!(output.stdout, b"k\tv\n");
    assert!(said(&output).contains("database 3, in c.spt-db3, is not in the dump; --format jsonl has it"));
    let dumped = String::from_utf8(run_well(place, &["dump", "c.spt", "--format", "jsonl"])).unwrap();
    assert!(dumped.contains(r#"{"key":"other","type":"string","value":"database","database":3}"#), "{dumped}");
}

#[test]
fn a_damaged_or_truncated_dump_names_the_byte_and_keeps_the_keys_before() {
    let place = with_dump();
    let place = place.path();
    let golden = GOLDEN[1];
    let damaged = |at: usize| {
        let mut bytes = golden.to_vec();
        bytes[at] ^= 0x55;
        bytes
    };
    let truncated = (0..60).chain((60..golden.len()).step_by(1201)).map(|len| golden[..len].to_vec());
    for bytes in truncated.chain((0..200).step_by(7).chain((200..golden.len()).step_by(1203)).map(damaged)) {
        fs::write(place.join("bad.rdb"), &bytes).unwrap();
        let output = run(place, &["load", "t.spt", "bad.rdb", "--format", "rdb"]);
        let message = said(&output);
        assert!(output.status.code() == Some(1) && message.contains("bad.rdb: pair "), "{}: {message}", bytes.len());
        assert!(message.contains(": byte "), "{message}");
        if place.join("t.spt").exists() {
            run_well(place, &["check", "t.spt"]);
        }
        let _ = fs::remove_file(place.join("t.spt"));
        let _ = fs::remove_file(place.join("t.spt-db3"));
    }
    // A complete dump followed by commands: an append-only file.
    fs::write(place.join("bad.rdb"), [golden, b"*1\r\n$4\r\nPING\r\n"].concat()).unwrap();
    refused(place, &["load", "t.spt", "bad.rdb"], 1, "the dump has ended, and more bytes follow");
}

#[test]
fn small_dumps_of_large_values_take_little_memory() {
    let place = directory();
    let place = place.path();
    let lzf = |len: u32| {
        // Each three bytes decode to 264.
        let mut packed = vec![0, b'a'];
        packed.extend([0xe0, 0xff, 0x00].repeat(((len - 1) / 264) as usize));
        let packed_len = u32::try_from(packed.len()).unwrap();
        let len = 1 + (len - 1) / 264 * 264;
        [&[0xc3, 0x80][..], &packed_len.to_be_bytes(), &[0x80], &len.to_be_bytes(), &packed].concat()
    };
    let file = |body: &[u8]| [b"REDIS0010\xfe\x00", body].concat();
    for (body, what) in [
        // 2^62 elements of which one exists, and a string of 2^62 bytes.
        (b"\x01\x01k\x81\x40\0\0\0\0\0\0\0\x01a".to_vec(), "it ends within a value"),
        (b"\x00\x01k\x81\x40\0\0\0\0\0\0\0ab".to_vec(), "--max-row raises the limit"),
        // 24 MiB that decode to 2 GiB, as one string and as elements of a list.
        ([b"\x00\x01k".to_vec(), lzf(2 << 30)].concat(), "--max-row raises the limit"),
        ([b"\x01\x01k\x80\0\0\0\x10".to_vec(), lzf(128 << 20).repeat(16)].concat(), "--max-row raises the limit"),
    ] {
        fs::write(place.join("big.rdb"), file(&body)).unwrap();
        let script = format!("ulimit -v 2500000; exec '{}' load t.spt big.rdb --cache 16M", super::PROGRAM);
        let output = Command::new("sh").args(["-c", &script]).current_dir(place).output().unwrap();
        assert!(output.status.code() == Some(1) && said(&output).contains(what), "{}", said(&output));
        assert!(!place.join("t.spt").exists());
    }
}

#[test]
fn an_expired_key_that_a_dump_still_has_is_no_difference() {
    let place = directory();
    let place = place.path();
    let expired = [&[0xfc][..], &1u64.to_le_bytes(), b"\x00\x03old\x01v"].concat();
    let dump = [b"REDIS0010\xfe\x00", &expired[..], b"\x00\x04here\x01v\xff\0\0\0\0\0\0\0\0"].concat();
    fs::write(place.join("dump.rdb"), dump).unwrap();
    run_well(place, &["load", "t.spt", "dump.rdb"]);
    for [a, b] in [["dump.rdb", "t.spt"], ["t.spt", "dump.rdb"], ["dump.rdb", "dump.rdb"]] {
        assert_eq!(json(place, &["diff", a, b, "--json"])["equal"], 1);
    }
}

#[test]
fn keys_that_are_there_stay_or_go_as_the_option_says() {
    let place = with_dump();
    let place = place.path();
    let old = r#"{"key":"hash","value":"old"}"#;
    for (option, expected) in [(&[][..], false), (&["--duplicates", "last"], false), (&["--duplicates", "first"], true)]
    {
        fs::write(place.join("old.jsonl"), old).unwrap();
        run_well(place, &["load", "t.spt", "old.jsonl"]);
        run_well(place, &[&["load", "t.spt", "dump.rdb"], option].concat());
        let dumped = String::from_utf8(run_well(place, &["dump", "t.spt", "--format", "jsonl"])).unwrap();
        assert_eq!(dumped.contains(old), expected, "{option:?}");
        assert_eq!(dumped.lines().count(), 14);
        fs::remove_file(place.join("t.spt")).unwrap();
    }
    refused(place, &["load", "t.spt", "dump.rdb", "dump.rdb", "--duplicates", "error"], 1, "duplicate key ");
    refused(place, &["load", "u.spt", "dump.rdb", "--duplicates", "append"], 1, "is for pairs alone");
}

#[test]
fn lifetimes_are_kept_ignored_or_left_out_and_expired_keys_counted() {
    let place = with_dump();
    let place = place.path();
    let skipped = run(place, &["load", "s.spt", "dump.rdb", "--ttl", "skip"]);
    assert!(skipped.status.success() && said(&skipped).contains("1 key with a lifetime"), "{}", said(&skipped));
    run_well(place, &["load", "i.spt", "dump.rdb", "--ttl", "ignore"]);
    for (file, keys, lifetimes) in [("s.spt", 13, 0), ("i.spt", 14, 0)] {
        let dumped = String::from_utf8(run_well(place, &["dump", file, "--format", "jsonl"])).unwrap();
        assert_eq!((dumped.lines().count(), dumped.matches("expires_at_ms").count()), (keys, lifetimes));
    }
    refused(place, &["load", "t.spt", "dump.rdb", "--timeout", "5"], 2, "--timeout are for a server");
    fs::write(
        place.join("over.jsonl"),
        "{\"key\":\"over\",\"value\":\"1\",\"expires_at_ms\":1}\n{\"key\":\"k\",\"value\":\"\"}\n",
    )
    .unwrap();
    let report = json(place, &["load", "o.spt", "over.jsonl", "--json"]);
    assert_eq!(
        (&report["rows_expired"], &report["table_pairs"], &report["rows_repeated"]),
        (&1.into(), &1.into(), &0.into())
    );
}

#[test]
fn pairs_of_a_dump_are_for_every_command_and_other_keys_for_load_alone() {
    let place = with_dump();
    let place = place.path();
    refused(place, &["dict", "build", "dump.rdb", "d.spd"], 1, "`splitpoint load` stores it in a table");
    run_well(place, &["dict", "build", "dump.rdb", "d.spd", "--on-error", "skip"]);
    assert_eq!(run_well(place, &["get", "d.spd", "number"]), b"-70000\n");
    // A key that a table with types has under another key.
    fs::write(place.join("key.tsv"), "\\x00sp\\xffkey\tv\n").unwrap();
    run_well(place, &["load", "p.spt", "key.tsv"]);
    fs::write(place.join("key.rdb"), run_well(place, &["dump", "p.spt", "--format", "rdb"])).unwrap();
    run_well(place, &["dict", "build", "key.rdb", "k.spd"]);
    assert_eq!(run_well(place, &["dump", "k.spd"]), b"\\x00sp\xffkey\tv\n");
    run_well(place, &["load", "t.spt", "key.rdb", "dump.rdb"]);
    let dumped = run_well(place, &["dump", "t.spt", "--format", "jsonl", "--key-prefix", "\\x00sp"]);
    assert_eq!(
        String::from_utf8_lossy(&dumped),
        "{\"key_base64\":\"AHNw/2tleQ==\",\"type\":\"string\",\"value\":\"v\"}\n"
    );
    refused(place, &["load", "u.spt", "key.tsv", "dump.rdb"], 1, "load the inputs with types and lifetimes first");
    run_well(place, &["load", "v.spt", "dump.rdb", "key.tsv"]);
    assert_eq!(run_well(place, &["dump", "v.spt", "--format", "jsonl", "--key-prefix", "\\x00sp"]), dumped);
}

#[test]
fn a_table_of_types_or_with_a_server_takes_no_keys_of_a_server() {
    let place = with_dump();
    let place = place.path();
    refused(place, &["load", "t.spt", "dump.rdb", "--types", "str -> str"], 1, "a table without types holds both");
    let serve = splitpoint(place).args(["serve", "--resp", "none", "--unix", "s", "--file", "t.spt"]).spawn();
    let mut serve = Running(Some(serve.unwrap()));
    while std::os::unix::net::UnixStream::connect(place.join("s")).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let output = run(place, &["load", "t.spt", "dump.rdb"]);
    assert!(!output.status.success() && said(&output).contains("t.spt: "), "{}", said(&output));
    send("TERM", serve.0.as_ref().unwrap());
    end_of(&mut serve);
    run_well(place, &["load", "t.spt", "dump.rdb"]);
}

#[test]
fn a_full_disk_ends_a_load_with_keys_of_a_server() {
    let place = directory();
    let place = place.path();
    let rows: String = (0..20_000)
        .map(|n| {
            format!("{{\"key\":\"key {n}\",\"type\":\"list\",\"value\":[\"a\",\"{n}\"],\"database\":{}}}\n", n % 2)
        })
        .collect();
    fs::write(place.join("rows.jsonl"), rows).unwrap();
    for blocks in [16, 128, 512] {
        let script =
            format!("ulimit -f {blocks}; trap '' XFSZ; exec '{}' load t.spt rows.jsonl --cache 64K", super::PROGRAM);
        let output = Command::new("sh").args(["-c", &script]).current_dir(place).output().unwrap();
        assert_eq!(output.status.code(), Some(12), "{}", said(&output));
        run_well(place, &["load", "t.spt", "rows.jsonl"]);
        assert_eq!(
            run_well(place, &["dump", "t.spt", "--format", "jsonl"]).split(|byte| *byte == b'\n').count(),
            20_001
        );
        for file in ["t.spt", "t.spt-db1"] {
            run_well(place, &["check", file]);
            fs::remove_file(place.join(file)).unwrap();
        }
    }
}

#[test]
fn a_signal_ends_a_load_between_two_keys() {
    let place = directory();
    let place = place.path();
    let mut loading = splitpoint(place);
    loading.args(["load", "t.spt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut loading = Running(Some(loading.spawn().unwrap()));
    let mut input = loading.0.as_mut().unwrap().stdin.take().unwrap();
    // It stores the earlier keys, and waits within a value.
    input.write_all(&GOLDEN[1][..WITHIN_A_VALUE]).unwrap();
    while !place.join("t.spt").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    send("TERM", loading.0.as_ref().unwrap());
    let output = end_of(&mut loading);
    assert_eq!(output.status.code(), Some(143), "{}", said(&output));
    assert!(said(&output).contains("stopped by SIGTERM: "), "{}", said(&output));
    drop(input);
    run_well(place, &["check", "t.spt"]);
}

#[test]
fn files_of_other_databases_are_as_private_as_the_table() {
    let place = with_dump();
    let place = place.path();
    fs::set_permissions(place.join("dump.rdb"), fs::Permissions::from_mode(0o600)).unwrap();
    run_well(place, &["load", "t.spt", "dump.rdb"]);
    for file in ["t.spt", "t.spt-db3"] {
        assert_eq!(fs::metadata(place.join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn flags_of_memcached_are_in_json_lines_and_missed_in_a_dump_of_redis() {
    let place = directory();
    let place = place.path();
    let row = "{\"key\":\"k\",\"type\":\"string\",\"value\":\"v\",\"flags\":7}\n";
    fs::write(place.join("f.jsonl"), row).unwrap();
    run_well(place, &["load", "t.spt", "f.jsonl"]);
    assert_eq!(run_well(place, &["dump", "t.spt", "--format", "jsonl"]), row.as_bytes());
    let dump = run(place, &["dump", "t.spt", "--format", "rdb"]);
    assert!(said(&dump).contains("memcached's flags of 1 key are not in the dump"), "{}", said(&dump));
}

#[test]
fn a_dump_has_the_databases_as_swapdb_left_them() {
    let place = with_dump();
    let place = place.path();
    run_well(place, &["load", "t.spt", "dump.rdb"]);
    fs::write(place.join("t.spt-order"), "3 1 2 0 4 5 6 7 8 9 10 11 12 13 14 15\n").unwrap();
    let dumped = String::from_utf8(run_well(place, &["dump", "t.spt", "--format", "jsonl"])).unwrap();
    assert_eq!((dumped.lines().count(), dumped.matches("\"database\":3").count()), (14, 13), "{dumped}");
    fs::write(place.join("dump.rdb"), run_well(place, &["dump", "t.spt", "--format", "rdb"])).unwrap();
    run_well(place, &["load", "u.spt", "dump.rdb"]);
    assert!(rows(place, "u.spt") == rows(place, "t.spt"));
    refused(place, &["load", "t.spt", "dump.rdb"], 31, "SWAPDB has exchanged its databases");
}

#[test]
fn a_backup_and_a_restore_say_which_databases_are_not_copied() {
    let place = with_dump();
    let place = place.path();
    let says = |arguments: &[&str], what: &str| {
        let output = run(place, arguments);
        assert!(output.status.success() && said(&output).contains(what), "{arguments:?}: {}", said(&output));
    };
    run_well(place, &["load", "t.spt", "dump.rdb"]);
    let expected = rows(place, "t.spt");
    let is_missing = "t.spt: database 3, in t.spt-db3, is not in the copy; `splitpoint backup t.spt-db3 t.bak-db3`";
    says(&["backup", "t.spt", "t.bak"], is_missing);
    says(&["backup", "t.spt", "t.bak", "--update"], is_missing);
    says(&["restore", "t.bak", "t.spt", "--force"], "t.spt: database 3, in t.spt-db3, was not replaced");
    run_well(place, &["backup", "t.spt-db3", "t.bak-db3"]);
    says(&["restore", "t.bak", "u.spt"], "t.bak: database 3, in t.bak-db3, was not restored");
    run_well(place, &["restore", "t.bak-db3", "u.spt-db3"]);
    assert!(rows(place, "u.spt") == expected);
    // Database 0 is still in t.spt, and 5 in t.spt-db3.
    fs::write(place.join("t.spt-order"), "0 1 2 5 4 3 6 7 8 9 10 11 12 13 14 15\n").unwrap();
    says(
        &["backup", "t.spt", "t.bak", "--force"],
        "database 5, in t.spt-db3, is not in the copy; `splitpoint backup t.spt-db3 t.bak-db5`",
    );
}

#[test]
fn a_dictionary_of_one_file_says_which_databases_are_not_in_it() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    run_well(place, &["put", "t.spt", "a", "1"]);
    run_well(place, &["put", "t.spt-db3", "b", "2"]);
    for command in [&["freeze", "t.spt", "t.spd"] as &[&str], &["dict", "build", "t.spt", "t.spd"]] {
        let output = run(place, command);
        let expected = "t.spt: database 3, in t.spt-db3, is not in t.spd";
        assert!(output.status.success() && said(&output).contains(expected), "{command:?}: {}", said(&output));
    }
}

#[test]
fn a_file_whose_databases_swapdb_exchanged_is_neither_copied_nor_replaced() {
    let place = with_dump();
    let place = place.path();
    run_well(place, &["load", "t.spt", "dump.rdb"]);
    run_well(place, &["backup", "t.spt", "t.bak"]);
    fs::write(place.join("t.spt-order"), "3 1 2 0 4 5 6 7 8 9 10 11 12 13 14 15\n").unwrap();
    let expected = rows(place, "t.spt");
    let what = "t.spt: holds database 3 since a SWAPDB, ";
    for arguments in [
        &["backup", "t.spt", "u.bak"][..],
        &["backup", "t.spt", "t.bak", "--update"],
        &["backup", "t.bak", "t.spt", "--force"],
        &["restore", "t.spt", "u.spt"],
        &["restore", "t.bak", "t.spt", "--force"],
    ] {
        refused(place, arguments, 31, what);
    }
    assert!(!place.join("u.bak").exists() && !place.join("u.spt").exists());
    assert!(rows(place, "t.spt") == expected);
}

#[test]
fn a_failed_first_load_keeps_a_table_that_another_process_made() {
    let place = with_dump();
    let place = place.path();
    let mut load = splitpoint(place);
    load.args(["load", "t.spt", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut load = Running(Some(load.spawn().unwrap()));
    let mut input = load.0.as_mut().unwrap().stdin.take().unwrap();
    let_it_block();
    run_well(place, &["load", "t.spt", "dump.rdb"]);
    let expected = rows(place, "t.spt");
    // The first row fails: the other process stored a hash under this key.
    input.write_all(b"hash\tx\n").unwrap();
    drop(input);
    let output = end_of(&mut load);
    assert!(output.status.code() == Some(31) && said(&output).contains("has a hash"), "{}", said(&output));
    assert!(rows(place, "t.spt") == expected);
}

#[test]
fn load_and_merge_keep_the_types_lifetimes_and_databases_of_a_served_table() {
    let place = with_dump();
    let place = place.path();
    let row = "{\"key\":\"k\",\"type\":\"string\",\"value\":\"v\",\"expires_at_ms\":4102444800000,\"flags\":7}\n";
    fs::write(place.join("expiring.jsonl"), row).unwrap();
    run_well(place, &["load", "expiring.spt", "expiring.jsonl"]);
    run_well(place, &["load", "types.spt", "dump.rdb"]);
    run_well(place, &["load", "swapped.spt", "dump.rdb"]);
    fs::write(place.join("swapped.spt-order"), "3 1 2 0 4 5 6 7 8 9 10 11 12 13 14 15\n").unwrap();
    run_well(place, &["put", "plain.spt", "k", "v"]);
    fs::copy(place.join("types.spt-db3"), place.join("plain.spt-db3")).unwrap();
    for from in ["expiring.spt", "types.spt", "swapped.spt", "plain.spt"] {
        let expected = rows(place, from);
        for command in ["load", "merge"] {
            let to = format!("{command}-{from}");
            run_well(place, &[command, &to, from]);
            assert!(rows(place, &to) == expected, "{command} {from}");
        }
    }
    refused(place, &["load", "types.spt-db3", "types.spt"], 2, "types.spt: its database 3 is the table to load into");

    // What an earlier table left is not merged with.
    fs::copy(place.join("types.spt-db3"), place.join("left.spt-db3")).unwrap();
    refused(place, &["merge", "left.spt", "types.spt"], 2, "left.spt: databases of an earlier table of this name");

    // A dictionary takes pairs alone.
    let build = run(place, &["dict", "build", "expiring.spt", "plain.spt", "d.spd", "--duplicates", "last"]);
    let message = said(&build);
    assert!(message.contains("expiring.spt: left out: lifetimes and flags that a server keeps in it\n"), "{message}");
    assert!(message.contains("plain.spt: left out: database 3, in plain.spt-db3\n"), "{message}");
    assert_eq!(run_well(place, &["dump", "d.spd"]), b"k\tv\n");
}

#[test]
fn a_load_from_a_served_table_with_text_types_keeps_lifetimes() {
    let place = directory();
    let place = place.path();
    let mark = r"\x01\x02\x03\x04\x05\x06";
    let expiring = format!(r"{mark}\xf9\xff\xff\xff\xff\xff\xff\x03\x003");
    fs::write(place.join("typed.tsv"), format!("\\x00sp\\xffh\t\\x02{mark}\ncarol\t{expiring}\n")).unwrap();
    run_well(place, &["load", "t.spt", "typed.tsv", "--types", "bytes -> bytes"]);
    run_well(place, &["load", "u.spt", "t.spt"]);
    let expected = rows(place, "t.spt");
    assert!(rows(place, "u.spt") == expected);
    assert_eq!(json(place, &["stat", "u.spt", "--json"])["types"], "bytes -> bytes");
}

#[test]
fn thaw_stores_pairs_in_a_served_file_as_load_does() {
    let place = with_dump();
    let place = place.path();
    run_well(place, &["load", "t.spt", "dump.rdb"]);
    fs::write(place.join("key.tsv"), "\\x00sp\\xffh\tv\n").unwrap();
    run_well(place, &["dict", "build", "key.tsv", "key.spd"]);
    run_well(place, &["thaw", "key.spd", "t.spt"]);
    let dumped = run_well(place, &["dump", "t.spt", "--format", "jsonl", "--key-prefix", "\\x00sp"]);
    assert_eq!(String::from_utf8_lossy(&dumped), "{\"key_base64\":\"AHNw/2g=\",\"type\":\"string\",\"value\":\"v\"}\n");
    let expected = rows(place, "t.spt");
    fs::write(place.join("hash.tsv"), "hash\tx\n").unwrap();
    run_well(place, &["dict", "build", "hash.tsv", "hash.spd"]);
    refused(place, &["thaw", "hash.spd", "t.spt"], 31, "has a hash");
    assert!(rows(place, "t.spt") == expected);
}
