//! Dictionaries, in tests that need more than a terminal: any bytes, many rows, Parquet, damage, signals, a full disk,
//! resuming.

use super::signals::{
    Running, end_of, first_number, heeded, let_it_block, row, send, stopped_at_its_start, stopped_by, write_many_rows,
};
use super::{awkward_pairs, directory, json, pairs_of_raw, raw, run, run_well, splitpoint};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const INDEXES: [&str; 5] = ["page", "trie", "trie-sparse", "chunk", "none"];

/// Returns the names of the files in a directory.
fn files(place: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn write(place: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    fs::write(place.join(name), bytes).unwrap();
}

fn rows(count: usize) -> String {
    (0..count).map(row).collect()
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn any_bytes_round_trip_through_a_dictionary_in_every_format() {
    let place = directory();
    let pairs = awkward_pairs();
    write(place.path(), "in.raw", raw(&pairs));
    run_well(place.path(), &["dict", "build", "in.raw", "first.spd"]);
    for format in ["tsv", "jsonl", "raw"] {
        let file = format!("dumped.{format}");
        write(place.path(), &file, run_well(place.path(), &["dict", "dump", "first.spd", "--format", format]));
        run_well(place.path(), &["dict", "build", &file, "again.spd", "--compress", "lz4"]);
        let again = run_well(place.path(), &["dict", "dump", "again.spd", "--format", "raw"]);
        assert!(pairs_of_raw(&again) == pairs, "{format}");
    }
}

#[test]
fn any_bytes_come_out_of_csv() {
    let place = directory();
    let pairs = awkward_pairs();
    let field = |bytes: &[u8]| {
        [
            b"\"",
            &bytes.iter().flat_map(|byte| vec![*byte; 1 + usize::from(*byte == b'"')]).collect::<Vec<_>>()[..],
            b"\"",
        ]
        .concat()
    };
    let csv: Vec<u8> = pairs
        .iter()
        .flat_map(|(key, value)| [&b"x,"[..], &field(value), b",", &field(key), b"\r\n"].concat())
        .collect();
    write(place.path(), "in.csv", [b"no,value,key\r\n", &csv[..]].concat());
    run_well(place.path(), &["dict", "build", "in.csv", "c.spd", "--key", "key", "--value", "value"]);
    assert!(pairs_of_raw(&run_well(place.path(), &["dict", "dump", "c.spd", "--format", "raw"])) == pairs);
}

#[test]
fn the_english_words_are_found_in_every_index_and_after_every_change_of_it() {
    let place = directory();
    let words = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/english-words.txt")).unwrap();
    let words: Vec<&str> = words.lines().step_by(7).collect();
    write(place.path(), "words.txt", words.join("\n"));
    let mut before = "none.spd".to_owned();
    run_well(
        place.path(),
        &["dict", "build", "words.txt", &before, "--format", "lines", "--number", "--index", "none"],
    );
    for index in INDEXES {
        let name = format!("{index}.spd");
        run_well(place.path(), &["dict", "reindex", &before, &name, "--index", index]);
        let stat = json(place.path(), &["dict", "stat", &name, "--json"]);
        assert_eq!((stat["index"].as_str(), stat["pairs"].as_u64()), (Some(index), Some(words.len() as u64)));
        run_well(place.path(), &["dict", "check", &name]);
        let mut get = splitpoint(place.path());
        get.args(["dict", "get", &name, "-"]).stdin(fs::File::open(place.path().join("words.txt")).unwrap());
        let found = get.output().unwrap();
        let numbers: String = (1..=words.len()).map(|number| format!("{number}\n")).collect();
        assert!(found.status.success() && found.stdout == numbers.as_bytes(), "{index}: {}", said(&found));
        before = name;
    }
}

#[test]
fn a_batch_leaves_what_a_build_of_its_result_would() {
    let place = directory();
    let changed = |n: usize| if n.is_multiple_of(3) { format!("key{n}\tchanged\n") } else { row(n) };
    write(place.path(), "old.tsv", rows(10_000));
    write(place.path(), "batch.tsv", (0..12_000).step_by(3).map(changed).collect::<String>());
    write(place.path(), "gone.txt", (0..20_000).step_by(5).map(|n| format!("key{n}\n")).collect::<String>());
    // A key that is both deleted and in the batch is present: deletions go first.
    let result = (0..10_000).chain((10_000..12_000).filter(|n| n % 3 == 0));
    let result = result.filter(|n| n % 3 == 0 || n % 5 != 0).map(changed).collect::<String>();
    write(place.path(), "result.tsv", result);
    for index in INDEXES {
        run_well(place.path(), &["dict", "build", "old.tsv", "d.spd", "--index", index]);
        run_well(place.path(), &["dict", "update", "d.spd", "batch.tsv", "d.spd", "--delete", "gone.txt"]);
        run_well(place.path(), &["dict", "check", "d.spd"]);
        run_well(place.path(), &["dict", "build", "result.tsv", "expected.spd", "--index", index]);
        let dump = |name| run_well(place.path(), &["dict", "dump", name]);
        assert!(dump("d.spd") == dump("expected.spd"), "{index}");
    }
}

#[test]
fn dict_stat_json_has_the_fields_that_scripts_rely_on() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(5000));
    for index in INDEXES {
        run_well(place.path(), &["dict", "build", "rows.tsv", "d.spd", "--index", index]);
        let stat = json(place.path(), &["dict", "stat", "d.spd", "--json"]);
        for field in ["pairs", "data_bytes", "index_bytes", "pages", "ranks_bytes", "key_bytes", "file_bytes"] {
            assert!(stat[field].is_u64(), "{field}: {}", stat[field]);
        }
        assert!(stat["index_bits_per_key"].is_f64() && stat["hash"] == "xxh3" && stat["seed"] == "0");
        assert_eq!((stat["index"].as_str(), stat["pairs"].as_u64()), (Some(index), Some(5000)));
        assert_eq!(stat["ranks_bytes"] != 0, !matches!(index, "page" | "none"), "{index}: {stat}");
        assert_eq!(stat["one_read"], index != "none");
        assert_eq!(stat["key_len"]["min"], 4);
    }
}

#[test]
fn a_filter_is_kept_until_an_option_changes_it() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(5000));
    write(place.path(), "more.tsv", "a\tb\n");
    let steps: [(&[&str], u64); 5] = [
        (&["dict", "build", "rows.tsv", "d.spd", "--filter", "8"], 8),
        (&["dict", "update", "d.spd", "more.tsv", "d.spd"], 8),
        (&["dict", "reindex", "d.spd", "d.spd", "--index", "chunk"], 8),
        (&["dict", "reindex", "d.spd", "d.spd", "--filter", "16"], 16),
        (&["dict", "update", "d.spd", "more.tsv", "d.spd", "--filter", "0"], 0),
    ];
    for (arguments, bits) in steps {
        run_well(place.path(), arguments);
        run_well(place.path(), &["dict", "check", "d.spd"]);
        let stat = json(place.path(), &["dict", "stat", "d.spd", "--json"]);
        assert_eq!(stat["filter_bits"], bits, "{arguments:?}");
        assert_eq!(stat["filter_bytes"] != 0, bits != 0, "{arguments:?}: {stat}");
    }
    assert!(!run(place.path(), &["dict", "build", "rows.tsv", "e.spd", "--filter", "9"]).status.success());
}

#[test]
fn build_json_has_the_fields_that_scripts_rely_on() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(5000));
    write(place.path(), "more.tsv", "a\tb\n");
    for arguments in [
        &["dict", "build", "rows.tsv", "d.spd", "--json"][..],
        &["dict", "update", "d.spd", "more.tsv", "d.spd", "--json"],
        &["dict", "reindex", "d.spd", "d.spd", "--index", "chunk", "--json"],
    ] {
        let report = json(place.path(), arguments);
        for field in ["pairs", "pairs_per_s", "input_bytes", "data_bytes", "index_bytes", "rows_skipped"] {
            assert!(report[field].is_u64(), "{arguments:?} {field}: {report}");
        }
        assert!(report["seconds"].is_f64() && report["index_bits_per_key"].is_f64());
        assert!(report["pairs"].as_u64().unwrap() >= 5000);
    }
}

#[test]
fn a_damaged_dictionary_fails_its_check() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(5000));
    run_well(place.path(), &["dict", "build", "rows.tsv", "d.spd"]);
    let mut bytes = fs::read(place.path().join("d.spd")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    write(place.path(), "d.spd", bytes);
    let check = run(place.path(), &["dict", "check", "d.spd"]);
    let expected = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{expected}");
    assert!(expected.starts_with("d.spd: page ") && expected.contains("Build it again"), "{expected}");
}

#[test]
fn a_signal_in_a_build_that_waits_for_input_leaves_nothing() {
    for (signal, number) in heeded() {
        let place = directory();
        let mut build = splitpoint(place.path());
        build.args(["dict", "build", "-", "d.spd"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut build = Running(Some(build.spawn().unwrap()));
        let child = build.0.as_mut().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        write_many_rows(&mut stdin);
        let_it_block();
        send(signal, child);
        let output = end_of(&mut build);
        drop(stdin);
        let said = stopped_by(&output, signal, number);
        assert!(first_number(&said) > 0, "{said}");
        assert!(said.ends_with("rows read, nothing was built, d.spd is unchanged\n"), "{said}");
        assert!(files(place.path()).is_empty(), "{:?}", files(place.path()));
    }
}

#[test]
fn a_signal_during_the_writing_leaves_the_old_dictionary() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(100_000));
    run_well(place.path(), &["load", "t.spt", "rows.tsv"]);
    run_well(place.path(), &["dict", "build", "rows.tsv", "d.spd"]);
    run_well(place.path(), &["dict", "build", "rows.tsv", "old.spd", "--index", "trie"]);
    let before = files(place.path());
    for (signal, number) in heeded() {
        for arguments in [
            &["freeze", "t.spt", "old.spd"][..],
            &["dict", "reindex", "d.spd", "old.spd", "--index", "trie"],
            &["dict", "build", "t.spt", "old.spd"],
            &["dict", "build", "t.spt", "old.spd", "--resume"],
            &["dict", "update", "d.spd", "rows.tsv", "old.spd"],
            &["dict", "build", "rows.tsv", "old.spd", "--memory", "4M"],
        ] {
            let said = stopped_by(&stopped_at_its_start(place.path(), arguments, signal, number), signal, number);
            assert!(said.contains("nothing was ") && said.contains("old.spd is unchanged"), "{arguments:?}: {said}");
            assert_eq!(files(place.path()), before, "{arguments:?}");
            // Unchanged, or new if the run finished before the signal came.
            run_well(place.path(), &["dict", "check", "old.spd"]);
            assert_eq!(json(place.path(), &["dict", "stat", "old.spd", "--json"])["pairs"], 100_000);
        }
    }
}

#[test]
fn a_signal_after_the_last_row_leaves_nothing() {
    for (signal, number) in heeded() {
        let place = directory();
        let input = rows(200_000);
        let in_writing = (0..50).find(|tried| {
            let mut build = splitpoint(place.path());
            build.args(["dict", "build", "-", "d.spd", "--index", "trie"]);
            build.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut build = Running(Some(build.spawn().unwrap()));
            let mut stdin = build.0.as_mut().unwrap().stdin.take().unwrap();
            stdin.write_all(input.as_bytes()).unwrap();
            drop(stdin);
            // A little later each time, until it hits the writing.
            std::thread::sleep(std::time::Duration::from_millis(*tried));
            send(signal, build.0.as_ref().unwrap());
            let output = end_of(&mut build);
            if output.status.success() {
                fs::remove_file(place.path().join("d.spd")).unwrap();
                return false;
            }
            let said = stopped_by(&output, signal, number);
            assert!(said.ends_with("nothing was built, d.spd is unchanged\n"), "{said}");
            assert!(files(place.path()).is_empty(), "{:?}", files(place.path()));
            !said.contains("read")
        });
        assert!(in_writing.is_some(), "no signal came in the writing");
    }
}

#[test]
fn a_stopped_thaw_makes_no_table() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(100_000));
    run_well(place.path(), &["dict", "build", "rows.tsv", "d.spd"]);
    for (signal, number) in heeded() {
        let output = stopped_at_its_start(place.path(), &["thaw", "d.spd", "t.spt"], signal, number);
        assert_eq!(stopped_by(&output, signal, number), "t.spt was not created\n");
        assert_eq!(files(place.path()), ["d.spd", "rows.tsv"]);
    }
    run_well(place.path(), &["load", "t.spt", "/dev/null"]);
    let output = run(place.path(), &["thaw", "d.spd", "t.spt"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(json(place.path(), &["stat", "t.spt", "--json"])["pairs"], 100_000);
}

#[test]
fn a_thaw_leaves_files_of_other_names_alone() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(1000));
    run_well(place.path(), &["dict", "build", "rows.tsv", "d.spd"]);
    let others = ["t.spt-new", "t.spt-new-log0", "t.spt-new-log"];
    others.iter().for_each(|name| write(place.path(), name, name));
    run_well(place.path(), &["thaw", "d.spd", "t.spt"]);
    for name in others {
        assert_eq!(fs::read(place.path().join(name)).unwrap(), name.as_bytes());
    }
    assert_eq!(json(place.path(), &["stat", "t.spt", "--json"])["pairs"], 1000);
}

#[test]
fn thaws_at_the_same_time_make_one_whole_table() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(100_000));
    run_well(place.path(), &["dict", "build", "rows.tsv", "d.spd"]);
    let mut thaws: Vec<_> = (0..4)
        .map(|_| {
            let mut thaw = splitpoint(place.path());
            thaw.args(["thaw", "d.spd", "t.spt"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let done = thaws.iter_mut().filter_map(|thaw| thaw.wait().unwrap().success().then_some(())).count();
    assert!(done > 0);
    assert_eq!(json(place.path(), &["stat", "t.spt", "--json"])["pairs"], 100_000);
    run_well(place.path(), &["check", "t.spt"]);
    assert_eq!(files(place.path()), ["d.spd", "rows.tsv", "t.spt"]);
}

#[test]
fn a_build_that_ended_in_the_writing_continues_after_the_reading() {
    let place = directory();
    let pairs: String = (0..200_000).map(|n| format!("key{n}\t{n:0100}\n")).collect();
    write(place.path(), "rows.tsv", format!("{pairs}no pair\nlast\tone\n"));
    let build = "dict build rows.tsv d.spd --resume --memory 4M --on-error skip";
    let arguments: Vec<_> = build.split(' ').collect();
    // Enough for each of the sort's files, but not for the dictionary.
    let first = with_files_of_at_most(place.path(), 8 << 20, build);
    assert_eq!(first.status.code(), Some(12), "{}", said(&first));
    assert!(files(place.path()).len() > 1 && !files(place.path()).contains(&"d.spd".to_owned()));
    let second = run(place.path(), &arguments);
    assert!(second.status.success(), "{}", said(&second));
    assert_eq!(said(&second), "splitpoint: continues after 200,001 pairs\n");
    assert_eq!(files(place.path()), ["d.spd", "rows.tsv"]);
    run_well(place.path(), &["dict", "check", "d.spd"]);
    assert_eq!(json(place.path(), &["dict", "stat", "d.spd", "--json"])["pairs"], 200_001);
    assert_eq!(run_well(place.path(), &["dict", "get", "d.spd", "last"]), b"one\n");
}

#[test]
fn a_build_continues_with_another_amount_of_memory() {
    let place = directory();
    let build = "dict build rows.tsv d.spd --resume --memory";
    write(place.path(), "rows.tsv", (0..200_000).map(|n| format!("key{n}\t{n:0100}\n")).collect::<String>());
    assert_eq!(with_files_of_at_most(place.path(), 8 << 20, &format!("{build} 4M")).status.code(), Some(12));
    let second = run(place.path(), &format!("{build} 1M").split(' ').collect::<Vec<_>>());
    assert!(second.status.success(), "{}", said(&second));
    assert_eq!(said(&second), "splitpoint: continues after 200,000 pairs\n");
    run_well(place.path(), &["dict", "check", "d.spd"]);
}

#[test]
fn a_build_with_another_row_limit_starts_over() {
    let place = directory();
    let build = "dict build rows.tsv d.spd --resume --memory 4M --on-error skip --max-row";
    // More than is read at once, because the limit applies only to longer rows.
    let long = format!("first\t1\nlong\t{}\n", "x".repeat(600_000));
    let others: String = (0..200_000).map(|n| format!("key{n}\t{n:0100}\n")).collect();
    write(place.path(), "rows.tsv", long + &others);
    assert_eq!(with_files_of_at_most(place.path(), 8 << 20, &format!("{build} 64K")).status.code(), Some(12));
    let second = run(place.path(), &format!("{build} 1M").split(' ').collect::<Vec<_>>());
    assert!(second.status.success(), "{}", said(&second));
    assert!(said(&second).starts_with("splitpoint: starts over and removes 200,001 pairs"), "{}", said(&second));
    assert_eq!(json(place.path(), &["dict", "stat", "d.spd", "--json"])["pairs"], 200_002);
}

#[test]
fn a_build_does_not_continue_with_fewer_pairs_than_were_saved() {
    let place = directory();
    let path = place.path().join("rows.tsv");
    let first = format!("{}no pair\n", rows(10));
    write(place.path(), "rows.tsv", &first);
    let build = ["dict", "build", "rows.tsv", "d.spd", "--resume"];
    assert_eq!(run(place.path(), &build).status.code(), Some(1));
    // The same length and time of modification, as after a change within the clock's resolution.
    let modified = path.metadata().unwrap().modified().unwrap();
    write(place.path(), "rows.tsv", format!("key\t{}\n", "x".repeat(first.len() - 5)));
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let second = run(place.path(), &build);
    let expected = "an earlier build saved 10 pairs, but the inputs now have 1 pair; nothing was built";
    assert!(second.status.code() == Some(1) && said(&second).contains(expected), "{}", said(&second));
    assert!(!place.path().join("d.spd").exists());
    run_well(place.path(), &build[..4]);
    assert_eq!(files(place.path()), ["d.spd", "rows.tsv"]);
}

#[test]
fn a_build_stopped_at_a_bad_row_continues_there() {
    let place = directory();
    write(place.path(), "rows.tsv", format!("{}no pair\nlast\tone\n", rows(10)));
    let build = ["dict", "build", "rows.tsv", "d.spd", "--resume"];
    let first = run(place.path(), &build);
    assert_eq!(first.status.code(), Some(1));
    let expected = "d.spd is unchanged; the same command continues from here; --on-error skip continues\n";
    assert!(said(&first).ends_with(expected), "{}", said(&first));
    let second = run(place.path(), &[&build[..], &["--on-error", "skip"]].concat());
    assert!(second.status.success(), "{}", said(&second));
    assert!(said(&second).starts_with("splitpoint: continues after 10 pairs\n"), "{}", said(&second));
    assert_eq!(json(place.path(), &["dict", "stat", "d.spd", "--json"])["pairs"], 11);
    assert_eq!(files(place.path()), ["d.spd", "rows.tsv"]);
}

#[test]
fn a_changed_log_makes_a_table_another_input() {
    let place = directory();
    write(place.path(), "rows.tsv", format!("{}no pair\n", rows(10)));
    run_well(place.path(), &["put", "t.spt", "key", "value"]);
    let build = ["dict", "build", "t.spt", "rows.tsv", "d.spd", "--resume"];
    assert_eq!(run(place.path(), &build).status.code(), Some(1));
    // Not a valid log, but with the name of one.
    write(place.path(), "t.spt-log3", "");
    let again = run(place.path(), &build);
    assert!(said(&again).starts_with("splitpoint: starts over and removes 11 pairs"), "{}", said(&again));
}

#[test]
fn many_shards_need_no_more_open_files_than_a_process_may_have() {
    let place = directory();
    write(place.path(), "rows.tsv", (0..400_000).map(|n| format!("key{n}\t{n:040}\n")).collect::<String>());
    let build = "dict build rows.tsv d.spd --shards 128 --memory 8M";
    let script = format!("ulimit -n 700; exec '{}' {build}", super::PROGRAM);
    let output = Command::new("sh").args(["-c", &script]).current_dir(place.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(json(place.path(), &["dict", "stat", "d.spd", "--json"])["pairs"], 400_000);
}

#[test]
fn another_input_is_another_build() {
    let place = directory();
    let build = "dict build rows.tsv d.spd --resume --memory 4M";
    write(place.path(), "rows.tsv", (0..200_000).map(|n| format!("key{n}\t{n:0100}\n")).collect::<String>());
    assert_eq!(with_files_of_at_most(place.path(), 8 << 20, build).status.code(), Some(12));
    write(place.path(), "rows.tsv", "a\tb\n");
    let second = run(place.path(), &build.split(' ').collect::<Vec<_>>());
    let expected = "splitpoint: starts over and removes 200,000 pairs saved by a build with other inputs or options\n";
    assert!(second.status.success() && said(&second) == expected, "{}", said(&second));
    assert_eq!(run_well(place.path(), &["dict", "dump", "d.spd"]), b"a\tb\n");
    assert_eq!(files(place.path()), ["d.spd", "rows.tsv"]);
}

/// Runs with a limit on file lengths, which looks like a full disk.
fn with_files_of_at_most(place: &Path, bytes: u64, arguments: &str) -> std::process::Output {
    let blocks = bytes / 512;
    let script = format!("ulimit -f {blocks}; trap '' XFSZ; exec '{}' {arguments}", super::PROGRAM);
    Command::new("sh").args(["-c", &script]).current_dir(place).output().unwrap()
}

#[test]
fn a_limit_on_file_lengths_is_an_error_and_no_signal() {
    let place = directory();
    write(place.path(), "rows.tsv", rows(20_000));
    run_well(place.path(), &["dict", "build", "rows.tsv", "d.spd"]);
    for arguments in ["dict dump d.spd > dumped", "dict build rows.tsv e.spd", "dict build rows.tsv e.spd --shards 3"] {
        // Without a trap for SIGXFSZ, whose default action ends a program.
        let script = format!("ulimit -f 8; '{}' {arguments}", super::PROGRAM);
        let output = Command::new("sh").args(["-c", &script]).current_dir(place.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(12), "{arguments}: {}", said(&output));
        let expected = if arguments.contains("dump") { "standard output: " } else { "ulimit -f" };
        assert!(said(&output).contains(expected), "{arguments}: {}", said(&output));
        assert!(!place.path().join("e.spd").exists(), "{arguments}");
    }
}

#[test]
fn options_may_stand_between_the_inputs_and_the_dictionary() {
    let place = directory();
    write(place.path(), "words.txt", "one\ntwo\n");
    run_well(place.path(), &["dict", "build", "words.txt", "-f", "lines", "d.spd"]);
    assert_eq!(json(place.path(), &["dict", "stat", "d.spd", "--json"])["pairs"], 2);
    let no_out = run(place.path(), &["dict", "build", "words.txt", "-f", "lines"]);
    assert_eq!(no_out.status.code(), Some(2));
    assert!(said(&no_out).contains("OUT is missing"), "{}", said(&no_out));
}

#[test]
fn a_build_of_shards_continues_from_its_last_checkpoint() {
    let place = directory();
    let build = "dict build rows.tsv d.spd --shards 3 --resume --memory 4M";
    write(place.path(), "rows.tsv", (0..200_000).map(|n| format!("key{n}\t{n:0100}\n")).collect::<String>());
    assert_eq!(with_files_of_at_most(place.path(), 4 << 20, build).status.code(), Some(12));
    let second = run(place.path(), &build.split(' ').collect::<Vec<_>>());
    assert!(second.status.success(), "{}", said(&second));
    assert_eq!(said(&second), "splitpoint: continues after 200,000 pairs\n");
    assert_eq!(files(place.path()), ["d.spd", "rows.tsv"]);
    assert_eq!(files(&place.path().join("d.spd")), ["0-1.spd", "1-1.spd", "2-1.spd", "manifest"]);
    run_well(place.path(), &["dict", "check", "d.spd"]);
    assert_eq!(json(place.path(), &["dict", "stat", "d.spd", "--json"])["pairs"], 200_000);
}

#[test]
fn a_full_disk_leaves_the_old_dictionary() {
    let place = directory();
    write(place.path(), "few.tsv", rows(10));
    write(place.path(), "rows.tsv", rows(100_000));
    run_well(place.path(), &["load", "t.spt", "rows.tsv"]);
    run_well(place.path(), &["dict", "build", "few.tsv", "d.spd"]);
    run_well(place.path(), &["dict", "build", "few.tsv", "few.spd"]);
    let (before, old) = (files(place.path()), fs::read(place.path().join("d.spd")).unwrap());
    for arguments in [
        "dict build rows.tsv d.spd",
        "dict build rows.tsv d.spd --memory 4M",
        "dict update few.spd rows.tsv d.spd",
        "freeze t.spt d.spd",
    ] {
        let output = with_files_of_at_most(place.path(), 1 << 20, arguments);
        assert_eq!(output.status.code(), Some(12), "{arguments}: {}", said(&output));
        assert_eq!(files(place.path()), before, "{arguments}");
        assert!(fs::read(place.path().join("d.spd")).unwrap() == old, "{arguments}");
    }
}

#[cfg(feature = "parquet")]
mod of_parquet {
    use super::*;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FixedLenByteArrayType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use serde_json::Value;
    use std::sync::Arc;

    const GROUP_ROWS: i64 = 3000;
    const GROUPS: i64 = 2;

    fn code(id: i64) -> [u8; 4] {
        u32::try_from(id).unwrap().to_le_bytes()
    }

    /// Writes two row groups, more rows than are decoded together; in the second column each tenth is null.
    fn write_parquet(place: &Path, name: &str, compression: Compression) {
        let schema = "message people {
            required int64 id; optional binary name (UTF8); required fixed_len_byte_array(4) code;
            required int32 age (UINT_32); required double weight; required int32 born (DATE); }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let file = fs::File::create(place.join(name)).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
        for group in 0..GROUPS {
            let ids: Vec<i64> = (group * GROUP_ROWS..(group + 1) * GROUP_ROWS).collect();
            let mut rows = writer.next_row_group().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column
                .typed::<Int64Type>()
                .write_batch(&ids.iter().map(|id| id - 5).collect::<Vec<_>>(), None, None)
                .unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            let levels: Vec<i16> = ids.iter().map(|id| i16::from(id % 10 != 0)).collect();
            let names: Vec<ByteArray> =
                ids.iter().filter(|id| *id % 10 != 0).map(|id| format!("name {id}").as_str().into()).collect();
            column.typed::<ByteArrayType>().write_batch(&names, Some(&levels), None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            let codes: Vec<_> = ids.iter().map(|id| ByteArray::from(code(*id).to_vec()).into()).collect();
            column.typed::<FixedLenByteArrayType>().write_batch(&codes, None, None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<Int32Type>().write_batch(&vec![-1; ids.len()], None, None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<DoubleType>().write_batch(&vec![1.5; ids.len()], None, None).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<Int32Type>().write_batch(&vec![1; ids.len()], None, None).unwrap();
            column.close().unwrap();
            rows.close().unwrap();
        }
        writer.close().unwrap();
    }

    #[test]
    fn a_column_called_by_a_number_is_meant_by_its_name() {
        let place = directory();
        let place = place.path();
        let names = ["2", "1", "v"];
        let fields: String = names.iter().map(|name| format!("required binary {name} (UTF8); ")).collect();
        let schema = Arc::new(parse_message_type(&format!("message n {{ {fields} }}")).unwrap());
        let file = fs::File::create(place.join("n.parquet")).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        let mut rows = writer.next_row_group().unwrap();
        for value in ["key", "value", "x"] {
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&[value.into()], None, None).unwrap();
            column.close().unwrap();
        }
        rows.close().unwrap();
        writer.close().unwrap();
        for (columns, expected) in
            [(["2", "1"], "key\tvalue\n"), (["@2", "@1"], "value\tkey\n"), (["3", "1"], "x\tvalue\n")]
        {
            let [key, value] = columns;
            run_well(place, &["dict", "build", "n.parquet", "n.spd", "--key", key, "--value", value]);
            assert_eq!(run_well(place, &["dict", "dump", "n.spd"]), expected.as_bytes(), "{columns:?}");
        }
        let refused = run(place, &["load", "n.spt", "n.parquet", "--key", "@4"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(said(&refused).contains(r#"no column @4; there are 3: "2", "1", "v""#), "{}", said(&refused));
    }

    #[test]
    fn columns_are_bytes_strings_and_integers_as_text_and_nulls_are_bad_rows() {
        let place = directory();
        for compression in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::ZSTD(ZstdLevel::default()),
            Compression::LZ4_RAW,
        ] {
            write_parquet(place.path(), "p.parquet", compression);
            let named = ["dict", "build", "p.parquet", "p.spd", "--value", "name"];
            let build = run(place.path(), &named);
            assert_eq!(build.status.code(), Some(1), "{}", said(&build));
            assert!(
                said(&build).starts_with("splitpoint: p.parquet: row 1: column name is null. "),
                "{}",
                said(&build)
            );
            let report = json(place.path(), &[&named[..], &["--on-error", "skip", "--json"]].concat());
            assert_eq!((report["pairs"].as_u64(), report["rows_skipped"].as_u64()), (Some(5400), Some(600)));
            assert_eq!(run_well(place.path(), &["dict", "get", "p.spd", "-4", "5994"]), b"name 1\nname 5999\n");
            run_well(place.path(), &["dict", "build", "p.parquet", "c.spd", "--key", "code", "--value", "id"]);
            let pairs = pairs_of_raw(&run_well(place.path(), &["dict", "dump", "c.spd", "--format", "raw"]));
            let mut expected: Vec<_> =
                (0..GROUPS * GROUP_ROWS).map(|id| (code(id).to_vec(), (id - 5).to_string().into_bytes())).collect();
            expected.sort();
            assert!(pairs == expected, "{compression:?}");
            run_well(place.path(), &["dict", "build", "p.parquet", "a.spd", "--key", "1", "--value", "age"]);
            assert_eq!(run_well(place.path(), &["dict", "get", "a.spd", "7"]), b"4294967295\n");
        }
    }

    #[test]
    fn columns_that_are_not_chosen_are_one_value_of_json() {
        let place = directory();
        write_parquet(place.path(), "p.parquet", Compression::SNAPPY);
        run_well(place.path(), &["dict", "build", "p.parquet", "p.spd"]);
        let values = run_well(place.path(), &["dict", "get", "p.spd", "-5", "-4"]);
        let values: Vec<Value> =
            values.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        assert_eq!(values.len(), 2);
        assert_eq!((values[0]["name"].is_null(), &values[1]["name"]), (true, &Value::from("name 1")));
        assert_eq!((&values[0]["age"], &values[0]["weight"]), (&Value::from(4_294_967_295_u64), &Value::from(1.5)));
        assert_eq!(values[0]["born"], "1970-01-02");
        assert!(values[0]["code"].is_string() || values[0]["code_base64"].is_string(), "{}", values[0]);
        // A table accepts them too, recognized by their content.
        fs::rename(place.path().join("p.parquet"), place.path().join("p")).unwrap();
        let loaded = json(place.path(), &["load", "t.spt", "p", "--key", "code", "--value", "id", "--json"]);
        assert_eq!((&loaded["rows"], &loaded["formats"][0]), (&Value::from(6000), &Value::from("parquet")));
    }

    #[test]
    fn a_key_given_twice_is_named_by_its_rows() {
        let place = directory();
        write_parquet(place.path(), "p.parquet", Compression::UNCOMPRESSED);
        let build = run(place.path(), &["dict", "build", "p.parquet", "p.spd", "--key", "age", "--value", "id"]);
        assert_eq!(build.status.code(), Some(26));
        let expected = "splitpoint: p.parquet: row 2: duplicate key \"4294967295\" (first at p.parquet: row 1). \
                        Choose which value to keep (--duplicates last, or first).\n";
        assert_eq!(said(&build), expected);
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let place = directory();
        write_parquet(place.path(), "p.parquet", Compression::SNAPPY);
        let good = fs::read(place.path().join("p.parquet")).unwrap();
        for tried in 0..60 {
            let mut bytes = good.clone();
            let at = bytes.len() * tried / 60;
            bytes[at] ^= 0xff;
            bytes.truncate(bytes.len() - tried % 3);
            write(place.path(), "bad.parquet", bytes);
            let build = ["dict", "build", "bad.parquet", "p.spd", "--on-error", "skip", "--duplicates", "last"];
            for columns in [&[][..], &["--value", "name"]] {
                let build = run(place.path(), &[&build[..], columns].concat());
                let status = build.status.code();
                assert!(matches!(status, Some(0 | 1 | 2 | 13)), "byte {at}: {status:?} {}", said(&build));
            }
        }
    }
}
