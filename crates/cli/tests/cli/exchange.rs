//! Pairs exchanged with other databases through their own tools: they read what we write, and we read what they write.
//!
//! A test whose tools are missing is skipped with a message; `make test` installs them where it may.

use super::{awkward_pairs, directory, pairs_of_raw, raw, run, run_well, splitpoint};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Whether all programs are installed; prints a message if not.
fn has(what: &str, programs: &[&str], package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let missing = programs.iter().find(|program| !folders.iter().any(|folder| folder.join(program).is_file()));
    if let Some(program) = missing {
        eprintln!("SKIPPED: {what}, because {program} is not installed (package {package})");
    }
    missing.is_none()
}

/// Every byte, long values, awkward keys; no empty keys and values, which GDBM's and LMDB's tools reject.
fn pairs_without_empty() -> Pairs {
    awkward_pairs().into_iter().filter(|(key, value)| !key.is_empty() && !value.is_empty()).collect()
}

/// Makes a table of `pairs` as `t.spt`.
fn table(place: &Path, pairs: &Pairs) {
    fs::write(place.join("in.raw"), raw(pairs)).unwrap();
    run_well(place, &["load", "t.spt", "in.raw"]);
}

/// Returns the pairs of a table.
fn pairs_of(place: &Path, table: &str) -> Pairs {
    pairs_of_raw(&run_well(place, &["dump", table, "--format", "raw"]))
}

/// Returns a pipe with the bytes of a file.
fn pipe_of(file: &Path) -> Stdio {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let bytes = fs::read(file).unwrap();
    std::thread::spawn(move || std::io::Write::write_all(&mut writer, &bytes)); // an error: nobody reads the rest
    reader.into()
}

/// Runs a tool with `arguments`, with `input` as its standard input if that is a file's name.
fn tool(place: &Path, arguments: &[&str], input: Option<&str>) -> Vec<u8> {
    let mut command = Command::new(arguments[0]);
    command.args(&arguments[1..]).current_dir(place);
    command.stdin(input.map_or(Stdio::null(), |name| File::open(place.join(name)).unwrap().into()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Writes our dump in `format` to the file `out`.
fn dump(place: &Path, format: &str, out: &str) {
    fs::write(place.join(out), run_well(place, &["dump", "t.spt", "--format", format])).unwrap();
}

/// Loads `file`, whose format must be recognized as `format`, and compares.
fn load_and_compare(place: &Path, file: &str, format: &str, expected: &Pairs) {
    let table = format!("{file}.spt");
    let said = String::from_utf8(run_well(place, &["load", &table, file])).unwrap();
    assert!(said.contains(&format!(" from {format} ")), "{file}: {said}");
    let found = pairs_of(place, &table);
    assert!(found == *expected, "{file}: {} pairs, {} expected", found.len(), expected.len());
}

#[test]
fn gdbm_loads_our_dumps_and_we_load_its() {
    if !has("GDBM", &["gdbm_dump", "gdbm_load"], "gdbmtool") {
        return;
    }
    let place = directory();
    let place = place.path();
    let pairs = pairs_without_empty();
    table(place, &pairs);
    for (format, theirs) in [("gdbm", "ascii"), ("gdbm-flat", "binary")] {
        let database = format!("{format}.gdbm");
        dump(place, format, "ours.dump");
        tool(place, &["gdbm_load", "ours.dump", &database], None);
        let again = format!("{format}.dump");
        tool(place, &["gdbm_dump", "-H", theirs, &database, &again], None);
        load_and_compare(place, &again, format, &pairs);
    }
}

#[test]
fn an_empty_value_of_a_gdbm_dump_is_read() {
    if !has("GDBM", &["gdbm_dump", "gdbmtool"], "gdbmtool") {
        return;
    }
    let place = directory();
    fs::write(place.path().join("store"), "store key \"\"\nstore other 1\n").unwrap();
    tool(place.path(), &["gdbmtool", "-n", "-f", "store", "e.gdbm"], None);
    tool(place.path(), &["gdbm_dump", "e.gdbm", "e.dump"], None);
    let pairs = vec![(b"key".to_vec(), vec![]), (b"other".to_vec(), b"1".to_vec())];
    load_and_compare(place.path(), "e.dump", "gdbm", &pairs);
}

#[test]
fn berkeley_db_loads_our_dumps_and_we_load_its() {
    let find = |name: &'static str| ["db5.3_", "db_"].map(|prefix| format!("{prefix}{name}"));
    let (load, dump_by) = (find("load"), find("dump"));
    let (load, dump_by) =
        if Path::new("/usr/bin").join(&load[0]).exists() { (&load[0], &dump_by[0]) } else { (&load[1], &dump_by[1]) };
    if !has("Berkeley DB", &[load, dump_by], "db5.3-util") {
        return;
    }
    let place = directory();
    let place = place.path();
    let pairs = awkward_pairs();
    table(place, &pairs);
    for (format, option) in [("db", "-p"), ("db-hex", "-k")] {
        for kind in ["btree", "hash"] {
            let database = format!("{format}-{kind}.db");
            dump(place, format, "ours.dump");
            tool(place, &[load, "-t", kind, "-f", "ours.dump", &database], None);
            let again = format!("{format}-{kind}.dump");
            tool(place, &[dump_by, option, "-f", &again, &database], None);
            load_and_compare(place, &again, "db", &pairs);
        }
    }
}

#[test]
fn lmdb_loads_our_dump_and_we_load_its() {
    if !has("LMDB", &["mdb_load", "mdb_dump"], "lmdb-utils") {
        return;
    }
    let place = directory();
    let place = place.path();
    let pairs = pairs_without_empty();
    table(place, &pairs);
    dump(place, "mdb", "ours.dump");
    tool(place, &["mdb_load", "-n", "ours.mdb"], Some("ours.dump"));
    fs::write(place.join("hex.dump"), tool(place, &["mdb_dump", "-n", "ours.mdb"], None)).unwrap();
    load_and_compare(place, "hex.dump", "db", &pairs);
    // LMDB 0.9.24 does not escape backslashes with -p, so its text is exact only without them.
    let plain: Pairs =
        pairs.iter().filter(|(key, value)| !key.contains(&b'\\') && !value.contains(&b'\\')).cloned().collect();
    fs::remove_file(place.join("t.spt")).unwrap();
    table(place, &plain);
    dump(place, "mdb", "plain.dump");
    tool(place, &["mdb_load", "-n", "plain.mdb"], Some("plain.dump"));
    fs::write(place.join("print.dump"), tool(place, &["mdb_dump", "-p", "-n", "plain.mdb"], None)).unwrap();
    load_and_compare(place, "print.dump", "db", &plain);
}

#[test]
fn many_pairs_fit_in_the_map_that_an_lmdb_dump_asks_for() {
    if !has("LMDB", &["mdb_load", "mdb_stat"], "lmdb-utils") {
        return;
    }
    let place = directory();
    let place = place.path();
    // Values just above what fits in a page of LMDB with another: each takes more than a page.
    let value = vec![b'v'; 2100];
    let pairs: Pairs = (0..5000_u32).map(|number| (number.to_string().into_bytes(), value.clone())).collect();
    table(place, &pairs);
    dump(place, "mdb", "ours.dump");
    tool(place, &["mdb_load", "-n", "ours.mdb"], Some("ours.dump"));
    let stat = String::from_utf8(tool(place, &["mdb_stat", "-n", "ours.mdb"], None)).unwrap();
    assert!(stat.contains("Entries: 5000"), "{stat}");
}

#[test]
fn cdb_is_made_of_our_text_and_we_load_its_text_and_its_files() {
    if !has("cdb", &["cdb"], "tinycdb") {
        return;
    }
    let place = directory();
    let place = place.path();
    let pairs = awkward_pairs();
    table(place, &pairs);
    dump(place, "cdbmake", "ours.text");
    tool(place, &["cdb", "-c", "ours.cdb", "ours.text"], None);
    fs::copy(place.join("ours.cdb"), place.join("file")).unwrap();
    load_and_compare(place, "file", "cdb", &pairs);
    fs::write(place.join("theirs.text"), tool(place, &["cdb", "-d", "ours.cdb"], None)).unwrap();
    load_and_compare(place, "theirs.text", "cdbmake", &pairs);
    let piped = splitpoint(place).args(["load", "p.spt", "-"]).stdin(pipe_of(&place.join("file"))).output().unwrap();
    let said = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(piped.status.code() == Some(14) && said.contains("is a cdb file; give it as a file"), "{said}");
    // A file without pairs, and a truncated one.
    fs::write(place.join("empty.text"), "\n").unwrap();
    tool(place, &["cdb", "-c", "empty.cdb", "empty.text"], None);
    load_and_compare(place, "empty.cdb", "cdb", &Vec::new());
    let bytes = fs::read(place.join("file")).unwrap();
    fs::write(place.join("cut.cdb"), &bytes[..bytes.len() - 100]).unwrap();
    let output = run(place, &["load", "cut.spt", "cut.cdb"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!place.join("cut.spt").exists());
}

#[test]
fn repeated_keys_of_a_cdb_have_the_value_that_cdb_finds() {
    if !has("cdb", &["cdb"], "tinycdb") {
        return;
    }
    let place = directory();
    let place = place.path();
    fs::write(place.join("twice.text"), "+1,5:a->first\n+1,3:b->one\n+1,6:a->second\n+1,5:a->third\n\n").unwrap();
    tool(place, &["cdb", "-c", "twice.cdb", "twice.text"], None);
    assert_eq!(tool(place, &["cdb", "-q", "-n", "1", "twice.cdb", "a"], None), b"first");
    run_well(place, &["put", "base.spt", "a", "base"]);
    run_well(place, &["freeze", "base.spt", "base.spd"]);
    for from in ["twice.cdb", "twice.text"] {
        let mut made = Vec::new();
        for (number, command) in [
            "load N.spt FROM",
            "load base.spt FROM",
            "merge N.spt FROM",
            "merge N.spt base.spd FROM",
            "merge N.spd FROM",
            "merge N.spd base.spd FROM",
            "dict build FROM N.spd",
            "dict update base.spd FROM N.spd",
        ]
        .iter()
        .enumerate()
        .filter(|(_, command)| from == "twice.cdb" || !command.starts_with("merge"))
        {
            let command = command.replace("FROM", from).replace('N', &format!("{from}-{number}"));
            let arguments: Vec<&str> = command.split(' ').collect();
            let said = String::from_utf8(run_well(place, &arguments)).unwrap();
            // A dictionary that is merged counts the pair that it had, too.
            let repeated = if command.contains("spd base.spd") { 3 } else { 2 };
            assert!(said.contains(&format!("; {repeated} rows with the key of an earlier one")), "{command}: {said}");
            made.extend(
                arguments
                    .iter()
                    .rev()
                    .find(|name| name.contains('-') || **name == "base.spt")
                    .copied()
                    .map(str::to_owned),
            );
        }
        for file in made {
            assert_eq!(run_well(place, &["get", &file, "a"]), b"first\n", "{file}");
        }
        // The user's option applies to all of them.
        for (duplicates, value) in [("last", "third"), ("first", "first"), ("append", "firstsecondthird")] {
            let _ = fs::remove_file(place.join("chosen.spt"));
            run_well(place, &["load", "chosen.spt", from, "--duplicates", duplicates]);
            assert_eq!(run_well(place, &["get", "chosen.spt", "a"]), format!("{value}\n").as_bytes(), "{duplicates}");
        }
        assert_eq!(run(place, &["dict", "build", from, "no.spd", "--duplicates", "error"]).status.code(), Some(26));
    }
    fs::write(place.join("once"), "a\tfirst\nb\tone\n").unwrap();
    run_well(place, &["load", "once.spt", "once"]);
    run_well(place, &["diff", "twice.cdb", "once.spt"]);
    let report = super::json(place, &["load", "json.spt", "twice.cdb", "--json"]);
    assert_eq!((report["rows"].as_u64(), report["rows_repeated"].as_u64()), (Some(4), Some(2)));
}

#[test]
fn a_hard_link_in_an_archive_is_a_pair_with_the_contents_of_its_target() {
    if !has("tar", &["tar", "gzip"], "tar and gzip") {
        return;
    }
    let place = directory();
    let place = place.path();
    let long = "d".repeat(120);
    fs::create_dir_all(place.join("tree").join(&long)).unwrap();
    fs::write(place.join("tree/a"), "shared").unwrap();
    fs::write(place.join("tree").join(&long).join("z"), vec![7; 100_000]).unwrap();
    for (target, link) in
        [("tree/a".to_owned(), "tree/b".to_owned()), (format!("tree/{long}/z"), format!("tree/{long}/y"))]
    {
        fs::hard_link(place.join(target), place.join(link)).unwrap();
    }
    run_well(place, &["load", "tree.spt", "--tree", "tree"]);
    let expected = pairs_of(place, "tree.spt");
    assert_eq!(expected.len(), 4);
    for format in ["gnu", "pax", "posix"] {
        for name in [".", "a"] {
            let archive = format!("{format}-{}.tar", name.len());
            // Archives the files as `./a` and so on, or by name in another order than the tree's.
            let names: &[&str] = if name == "." { &["."] } else { &["b", "a", &long] };
            let format = format!("--format={format}");
            tool(place, &[&["tar", &format, "-cf", &archive, "-C", "tree"], names].concat(), None);
            let compressed = format!("{archive}.gz");
            fs::write(place.join(&compressed), tool(place, &["gzip", "-c", &archive], None)).unwrap();
            for (from, is_pipe) in [(&archive, false), (&archive, true), (&compressed, false), (&compressed, true)] {
                for command in ["load", "dict build"] {
                    let out = place.join("out");
                    let _ = fs::remove_file(&out);
                    let input = if is_pipe { "-" } else { from };
                    let files = if command == "load" { ["out", input] } else { [input, "out"] };
                    let mut made = splitpoint(place);
                    made.args(command.split(' ')).args(files);
                    if is_pipe {
                        made.stdin(pipe_of(&place.join(from)));
                    }
                    let output = made.output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success() && !said.contains("link"), "{command} {from}: {said}");
                    let mut found = pairs_of(place, "out");
                    for (key, _) in &mut found {
                        *key = key.strip_prefix(b"./").unwrap_or(key).to_vec();
                    }
                    found.sort();
                    assert!(found == expected, "{command} {from} {is_pipe}");
                }
            }
        }
    }
    // A link whose target is not in the archive.
    tool(place, &["tar", "-cf", "part.tar", "-C", "tree", "a", "b"], None);
    let bytes = fs::read(place.join("part.tar")).unwrap();
    fs::write(place.join("part.tar"), &bytes[1024..]).unwrap();
    let output = run(place, &["load", "part.spt", "part.tar"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("\"b\": is a hard link to \"a\": its target is not before it"), "{said}");
}

#[test]
fn a_key_with_a_byte_order_mark_comes_first_in_a_sorted_dump() {
    let place = directory();
    let place = place.path();
    let keys: [&[u8]; 3] = [b"\xef\xbb\xbfkey", b"\xef\xbb\xbf", b"\xf0other"];
    let pairs: Pairs = keys.iter().map(|key| (key.to_vec(), b"1".to_vec())).collect();
    table(place, &pairs);
    run_well(place, &["freeze", "t.spt", "t.spd"]);
    let mut sorted = pairs.clone();
    sorted.sort();
    for command in ["dump t.spt", "dump t.spd", "dict dump t.spd", "scan t.spt", "dump t.spt --format csv"] {
        let mut text = run_well(place, &command.split(' ').collect::<Vec<_>>());
        let is_csv = command.ends_with("csv");
        if is_csv {
            text.drain(..b"key,value\n".len());
        }
        let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        // Sorted as if without quotes and backslashes: each of the rows comes first once.
        for _ in 0..lines.len() {
            lines.rotate_left(1);
            fs::write(place.join("rows"), lines.concat()).unwrap();
            for out in ["sorted.spt", "sorted.spd"] {
                let _ = fs::remove_file(place.join(out));
                let files =
                    if out == "sorted.spt" { vec!["load", out, "rows"] } else { vec!["dict", "build", "rows", out] };
                let options: &[&str] = if is_csv { &["--format", "csv", "--no-header"] } else { &[] };
                run_well(place, &[&files[..], options].concat());
                assert!(pairs_of(place, out) == sorted, "{command} to {out}");
            }
        }
    }
    let output = run(place, &["dump", "t.spt", "--format", "lines"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("does not fit in a plain line"), "{said}");
}

#[test]
fn a_tree_is_written_with_the_names_that_tar_has_and_read_without_unfinished_files() {
    let place = directory();
    let place = place.path();
    let pairs: Pairs = vec![(b"./a".to_vec(), b"1".to_vec()), (b"./d/b".to_vec(), b"2".to_vec())];
    table(place, &pairs);
    run_well(place, &["dump", "t.spt", "--tree", "out"]);
    assert_eq!(
        (fs::read(place.join("out/a")).unwrap(), fs::read(place.join("out/d/b")).unwrap()),
        (b"1".into(), b"2".into())
    );
    for other in ["a", "./d", "d"] {
        run_well(place, &["put", "t.spt", other, "3"]);
        let output = run(place, &["dump", "t.spt", "--tree", "no"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("is a key, too"), "{other}: {said}");
        assert!(!place.join("no").exists());
        run_well(place, &["del", "t.spt", other]);
    }
    // Files that a killed process left.
    let left = ["out/.splitpoint-0", "out/d/.splitpoint-4711-3", "out/.splitpoint-backup-0"];
    for left in left {
        fs::write(place.join(left), "half of").unwrap();
    }
    for kind in ["tree", "tar"] {
        let mut arguments = vec!["load", "again.spt", "out", "--tree"];
        if kind == "tar" {
            tool(place, &["tar", "-cf", "out.tar", "-C", "out", "a", "d", ".splitpoint-0"], None);
            arguments = vec!["load", "again.spt", "out.tar"];
        }
        let output = run(place, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("of splitpoint left out"), "{said}");
        let again = pairs_of(place, "again.spt");
        assert_eq!(again, [(b"a".to_vec(), b"1".to_vec()), (b"d/b".to_vec(), b"2".to_vec())]);
        fs::remove_file(place.join("again.spt")).unwrap();
    }
    run_well(place, &["dump", "t.spt", "--tree", "out", "--force"]);
    assert!(!place.join(left[0]).exists(), "the next run removes it");
    fs::write(place.join(".splitpoint-backup-0"), "half of").unwrap();
    run_well(place, &["backup", "t.spt", "t.bak"]);
    assert!(!place.join(".splitpoint-backup-0").exists(), "the next backup removes it");
    run_well(place, &["put", "t.spt", ".splitpoint-7", "3"]);
    let output = run(place, &["dump", "t.spt", "--tree", "no"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a name of unfinished files"));
}

#[test]
fn sqlite_runs_our_sql_and_reads_our_csv_and_we_load_its_csv() {
    if !has("SQLite", &["sqlite3"], "sqlite3") {
        return;
    }
    let place = directory();
    let place = place.path();
    let pairs = awkward_pairs();
    table(place, &pairs);
    dump(place, "sql", "ours.sql");
    tool(place, &["sqlite3", "ours.db"], Some("ours.sql"));
    let query = "SELECT hex(CAST(key AS BLOB)), hex(CAST(value AS BLOB)) FROM pairs";
    let rows = String::from_utf8(tool(place, &["sqlite3", "-tabs", "ours.db", query], None)).unwrap();
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let mut found: Pairs =
        rows.lines().filter_map(|row| row.split_once('\t')).map(|(key, value)| (bytes(key), bytes(value))).collect();
    found.sort();
    assert!(found == pairs, "{} pairs, {} expected", found.len(), pairs.len());
    // SQLite's CSV cannot contain zero bytes.
    let text: Pairs = pairs.into_iter().filter(|(key, value)| !key.contains(&0) && !value.contains(&0)).collect();
    fs::remove_file(place.join("t.spt")).unwrap();
    table(place, &text);
    dump(place, "csv", "ours.csv");
    tool(place, &["sqlite3", "-csv", "csv.db", ".import ours.csv pairs"], None);
    let csv = tool(place, &["sqlite3", "-csv", "-header", "csv.db", "SELECT key, value FROM pairs"], None);
    fs::write(place.join("theirs"), csv).unwrap();
    load_and_compare(place, "theirs", "csv (key key, value value)", &text);
}

#[test]
fn compressed_files_are_read_whatever_their_name() {
    if !has("compression", &["gzip", "zstd"], "gzip and zstd") {
        return;
    }
    let place = directory();
    let place = place.path();
    let pairs: Pairs = (0..50_000).map(|n| (format!("key{n}").into_bytes(), format!("{n}").into_bytes())).collect();
    let mut sorted = pairs.clone();
    sorted.sort();
    table(place, &pairs);
    dump(place, "jsonl", "rows");
    fs::write(place.join("gzipped"), tool(place, &["gzip", "-c", "rows"], None)).unwrap();
    fs::write(place.join("zstandard"), tool(place, &["zstd", "-c", "rows"], None)).unwrap();
    load_and_compare(place, "gzipped", "jsonl", &sorted);
    load_and_compare(place, "zstandard", "jsonl", &sorted);
    // From a pipe, and truncated.
    let whole = fs::read(place.join("zstandard")).unwrap();
    fs::write(place.join("cut"), &whole[..whole.len() - 10]).unwrap();
    for (name, status) in [("zstandard", 0), ("cut", 13)] {
        let mut load = splitpoint(place);
        load.args(["load", "piped.spt", "-"]).stdin(File::open(place.join(name)).unwrap());
        let output = load.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(status == 0 || said.contains("damaged Zstandard data"), "{said}");
    }
}

#[test]
fn gzip_and_zstd_input_is_read() {
    if !has("compression", &["gzip", "zstd", "pzstd"], "gzip and zstd") {
        return;
    }
    let place = directory();
    let place = place.path();
    let pairs: Pairs = vec![(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())];
    table(place, &pairs);
    dump(place, "tsv", "rows");
    let gzipped = tool(place, &["gzip", "-c", "rows"], None);
    fs::write(place.join("padded"), [&gzipped[..], &[0; 1000]].concat()).unwrap();
    fs::write(place.join("skippable"), tool(place, &["pzstd", "-q", "-c", "rows"], None)).unwrap();
    for name in ["padded", "skippable"] {
        load_and_compare(place, name, "tsv", &pairs);
        let table = format!("explicit-{name}.spt");
        run_well(place, &["load", &table, name, "--format", "tsv"]);
        assert!(pairs_of(place, &table) == pairs, "{name}");
    }
}

#[test]
fn any_first_key_makes_the_round_trip_through_pipes() {
    let place = directory();
    let place = place.path();
    let keys: [&[u8]; 22] = [
        b"{\"a\":1}",
        b" {",
        b"[{",
        b"\xef\xbb\xbfkey",
        b"(\xb5/\xfdkey",
        b"P*M\x18key",
        b"\x1f\x8b\x08\x00key",
        b"\xcf\x9aW\x13",
        b"\x8f1\x11\x9a",
        b"\xff\xfe",
        b"# GDBM dump file",
        b"!\r\n! GDBM FLAT FILE DUMP",
        b"VERSION=3",
        b"+1,1:a->b",
        b"PK\x03\x04",
        b"PAR1",
        b"SPLITPNT",
        b"sep=;",
        b"sep=\t",
        b"0123456789abcdef\xde\xc0\xef\xbe",
        b"",
        b"key,value",
    ];
    for key in keys {
        for value in [&b"{\"a\":1}"[..], b"\0\xff"] {
            let pairs: Pairs = vec![(key.to_vec(), value.to_vec())];
            let made = directory();
            table(made.path(), &pairs);
            for format in ["tsv", "csv", "jsonl", "raw", "gdbm", "gdbm-flat", "db", "cdbmake"] {
                let dumped = run_well(made.path(), &["dump", "t.spt", "--format", format]);
                fs::write(place.join("dumped"), dumped).unwrap();
                // Raw has no signature, so it is not recognized.
                for chosen in [Some(format), None].into_iter().filter(|chosen| chosen.is_some() || format != "raw") {
                    let mut load = splitpoint(made.path());
                    load.args(["load", "again.spt", "-"]).stdin(pipe_of(&place.join("dumped")));
                    load.args(chosen.map(|format| ["--format", format]).into_iter().flatten());
                    let output = load.output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    let what = format!("{} as {format}, {chosen:?}: {said}", key.escape_ascii());
                    assert!(output.status.success(), "{what}");
                    assert!(pairs_of(made.path(), "again.spt") == pairs, "{what}");
                    fs::remove_file(made.path().join("again.spt")).unwrap();
                }
            }
        }
    }
}
