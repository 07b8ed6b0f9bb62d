//! docs/reference.md against the program: exit statuses, and the JSON fields of every command.

use super::signals::{Running, end_of, send};
use super::{PROGRAM, directory, run, run_well, splitpoint};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md")).unwrap()
}

/// Returns the names in the first column of a section's table.
fn documented(page: &str, section: &str) -> BTreeSet<String> {
    let heading = format!("\n## {section}\n");
    let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("docs/reference.md has no section {section}"));
    let section = rest.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|line| line.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns the names of all fields of all objects in `text`.
fn printed(text: &[u8]) -> BTreeSet<String> {
    fn collect(value: &Value, names: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                names.insert(name.clone());
                collect(value, names);
            }),
            Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
            _ => {}
        }
    }
    let mut names = BTreeSet::new();
    let values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    values.for_each(|value| collect(&value.unwrap(), &mut names));
    names
}

/// Fields of lists that may be empty, depending on the measured times.
const BY_TIMES: [&str; 2] = ["faster", "slower"];

struct Comparison {
    page: String,
    found: BTreeMap<String, BTreeSet<String>>,
}

impl Comparison {
    fn add(&mut self, section: &str, text: &[u8]) {
        self.found.entry(section.to_owned()).or_default().extend(printed(text));
    }

    fn check(&self) {
        let mut wrong = String::new();
        for (section, found) in &self.found {
            let documented = documented(&self.page, section);
            let missing: Vec<_> = found.difference(&documented).collect();
            let gone: Vec<_> = documented.difference(found).filter(|name| !BY_TIMES.contains(&name.as_str())).collect();
            if !missing.is_empty() || !gone.is_empty() {
                wrong += &format!(
                    "{section}: printed but not documented {missing:?}, documented but not printed {gone:?}\n"
                );
            }
        }
        assert!(wrong.is_empty(), "docs/reference.md:\n{wrong}");
    }
}

#[test]
fn every_json_field_is_documented_and_every_documented_one_is_printed() {
    let place = directory();
    let place = place.path();
    let mut comparison = Comparison { page: page(), found: BTreeMap::new() };
    let rows: String = (0..3000).map(|number| format!("key{number}\tvalue {number}\n")).collect();
    fs::write(place.join("rows.tsv"), rows).unwrap();
    fs::write(place.join("other.tsv"), "key1\tother\nnew\t1\n").unwrap();
    fs::write(place.join("bytes.tsv"), "\\xff\t\\xfe\nk\tv\n").unwrap();
    fs::create_dir(place.join("tree")).unwrap();
    (0..40).for_each(|n| fs::write(place.join(format!("tree/{n}.txt")), vec![b'x'; n * 400]).unwrap());
    // Each line: the section of the page, then the command, whose status may be 1.
    let commands = "
        load: load t.spt rows.tsv
        load: merge m.spt t.spt
        load: load o.spt other.tsv
        Pairs: load b.spt bytes.tsv > none
        Pairs: dump b.spt --format jsonl
        Pairs: get b.spt k
        scan: scan t.spt --limit 2
        diff: diff t.spt o.spt
        stat: stat t.spt
        check: check t.spt
        compact: compact t.spt
        dict build: freeze t.spt t.spd
        dict build: dict build rows.tsv d.spd
        dict build: dict update d.spd other.tsv d.spd
        dict build: dict reindex d.spd r.spd --index none
        dict build: merge m.spd t.spt o.spt
        thaw: thaw d.spd n.spt
        stat, of a dictionary: stat d.spd
        dict build: dict reindex d.spd r.spd --index trie
        stat, of a dictionary: stat r.spd
        dict build: dict reindex d.spd r.spd --index chunk
        stat, of a dictionary: stat r.spd
        check: dict check d.spd
        lab hash: lab hash rows.tsv
        lab schemes: lab schemes rows.tsv --points 2
        lab tune: lab tune other.tsv --time 1
        lab kernel: lab kernel tree --table 3 --histogram 1 --runs 1 --scripts 2
        lab kernel: lab kernel tree --table 4 --runs 2 --scripts 128 --memory 64";
    for line in commands.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (section, command) = line.split_once(": ").unwrap();
        let (command, ignored) = command.split_once(" > ").map_or((command, false), |(command, _)| (command, true));
        let mut arguments: Vec<_> = command.split(' ').collect();
        if !command.contains("jsonl") {
            arguments.push("--json");
        }
        let output = run(place, &arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{command}: {said}");
        if !ignored {
            comparison.add(section, &output.stdout);
        }
    }
    let mut bytes = fs::read(place.join("t.spt")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(place.join("bad.spt"), bytes).unwrap();
    comparison.add("check", &run(place, &["check", "bad.spt", "--json"]).stdout);
    comparison.add("stat --watch, of a file", &watched(place, "t.spt"));
    let mut load = splitpoint(place);
    load.args(["load", "live.spt", "-", "--stats"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let load = Running(Some(load.spawn().unwrap()));
    let stats = place.join("live.spt-stats");
    while stats.metadata().map_or(0, |metadata| metadata.len()) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    comparison.add("stat --watch", &watched(place, "live.spt"));
    drop(load);
    serve(place, &["--file", "t.spt"], &mut comparison);
    serve(place, &["--dict", "d.spd"], &mut comparison);
    comparison.check();
}

/// Adds the log and the status page of a server.
fn serve(place: &Path, arguments: &[&str], comparison: &mut Comparison) {
    let mut serve = splitpoint(place);
    serve.args(["serve", "--resp", "none", "--unix", "s.sock", "--http", "127.0.0.1:0", "--log-format", "json"]);
    serve.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut serve = Running(Some(serve.spawn().unwrap()));
    let mut log = BufReader::new(serve.0.as_mut().unwrap().stderr.take().unwrap());
    let (mut said, mut address, mut listens) = (String::new(), None, false);
    while address.is_none() || !listens {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the server ended: {said}");
        said += &line;
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["message"] == "status page and metrics" {
            address = event["address"].as_str().map(str::to_owned);
        }
        listens |= event["message"] == "listening for Redis clients";
    }
    let mut client = BufReader::new(UnixStream::connect(place.join("s.sock")).unwrap());
    for request in ["CONFIG SET slowlog-log-slower-than 0", "GET key1"] {
        client.get_mut().write_all(format!("{request}\r\n").as_bytes()).unwrap();
        client.read_line(&mut String::new()).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        let mut http = TcpStream::connect(address.as_ref().unwrap()).unwrap();
        http.write_all(b"GET /status.json HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reply = String::new();
        http.read_to_string(&mut reply).unwrap();
        let (_, status) = reply.split_once("\r\n\r\n").unwrap();
        let figures: Value = serde_json::from_str(status).unwrap();
        // The first sample comes after a second or two.
        if [&figures["samples"], &figures["slow"]].iter().all(|rows| rows.get(0).is_some()) {
            break status.to_owned();
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(Duration::from_millis(50));
    };
    comparison.add("serve, /status.json", status.as_bytes());
    send("TERM", serve.0.as_ref().unwrap());
    log.read_to_string(&mut said).unwrap();
    comparison.add("serve", said.as_bytes());
    let output = end_of(&mut serve);
    assert_eq!((output.status.code(), output.stdout), (Some(0), Vec::new()), "{said}");
}

/// Returns the first line of `stat --watch`.
fn watched(place: &Path, table: &str) -> Vec<u8> {
    let mut watch = splitpoint(place);
    watch.args(["stat", table, "--watch", "0.1", "--json"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut watch = Running(Some(watch.spawn().unwrap()));
    let mut line = Vec::new();
    BufReader::new(watch.0.as_mut().unwrap().stdout.take().unwrap()).read_until(b'\n', &mut line).unwrap();
    line
}

#[test]
fn every_command_with_json_has_its_section() {
    let place = directory();
    run_well(place.path(), &["man", "--out", "man"]);
    let page = page();
    for entry in fs::read_dir(place.path().join("man")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if !text.contains("\\-\\-json") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().replace('-', " ");
        let command = name.trim_start_matches("splitpoint ");
        assert!(
            page.contains(&format!("\n## {command}\n"))
                || page.contains(&format!("`{command}`"))
                || page.contains(&format!("`{command} --json`"))
                || page.contains(&format!("`{command}` into")),
            "docs/reference.md does not say what `{command} --json` prints"
        );
    }
}

#[test]
fn every_exit_status_is_documented() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/error.rs");
    let source = fs::read_to_string(source).unwrap();
    let kinds = source.split_once("pub enum ErrorKind {").unwrap().1.split_once("\n}").unwrap().0;
    let page = page();
    let mut count = 0;
    for line in kinds.lines().map(str::trim).filter(|line| line.ends_with(',')) {
        let (kind, code) = line.trim_end_matches(',').split_once(" = ").unwrap();
        let row = format!("| {} | `{kind}` |", 10 + code.parse::<u8>().unwrap());
        assert!(page.contains(&row), "docs/reference.md has no row {row}");
        count += 1;
    }
    assert_eq!(
        page.lines()
            .filter(|line| line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit()))
            .count(),
        count + 4
    );
}

#[test]
fn exit_statuses_are_those_of_the_reference() {
    let place = directory();
    let place = place.path();
    fs::write(place.join("a.tsv"), "a\t1\n").unwrap();
    run_well(place, &["load", "t.spt", "a.tsv"]);
    for (status, command) in [
        (0, "get t.spt a"),
        (1, "get t.spt b"),
        (1, "exists t.spt a b"),
        (2, "get t.spt"),
        (2, "load n.spt a.tsv --page-size 777"),
        (2, "load n.spt a.tsv --fill-factor 0"),
        (2, "load n.spt a.tsv --durability often"),
        (2, "dict build a.tsv n.spd --page-size 777"),
        (2, "dict build a.tsv n.spd --index chunk --g 3"),
        (2, "dict build a.tsv n.spd --index trie --g 3"),
        (2, "dict build a.tsv n.spd --shards 0"),
        (2, "dict build a.tsv n.spd --index trie --hmax 100000"),
        (2, "lab hash a.tsv --function nonsense"),
        (2, "scan t.spt --limit x"),
        (11, "get absent.spt a"),
        (14, "get a.tsv a"),
        (26, "dict build a.tsv a.tsv n.spd"),
        (29, "dict reindex t.spt n.spd --index none"),
    ] {
        let output = run(place, &command.split(' ').collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{PROGRAM} {command}: {said}");
    }
    assert!(!place.join("n.spt").exists() && !place.join("n.spd").exists());
    let mut first = splitpoint(place);
    first.args(["load", "t.spt", "-", "--stats"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let _first = Running(Some(first.spawn().unwrap()));
    let deadline = Instant::now() + Duration::from_secs(20);
    while !place.join("t.spt-stats").exists() {
        assert!(Instant::now() < deadline, "the load does not open the table");
        std::thread::sleep(Duration::from_millis(5));
    }
    for (status, command) in [
        (2, "serve --resp none"),
        (2, "serve --resp 0.0.0.0:0"),
        (11, "serve --resp none --unix absent/s.sock"),
        (14, "serve --resp none --unix s.sock --file a.tsv"),
        (20, "serve --resp none --unix s.sock --file t.spt"),
    ] {
        let mut serve = splitpoint(place);
        serve.args(command.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = end_of(&mut Running(Some(serve.spawn().unwrap())));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{PROGRAM} {command}: {said}");
    }
}
