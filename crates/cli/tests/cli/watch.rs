//! `stat --watch`: on a table in use, on a file that no process has open, and with malformed counters.

use super::signals::{Running, end_of, heeded, send};
use super::*;

fn watch(place: &Path, arguments: &[&str]) -> (Running, BufReader<std::process::ChildStdout>) {
    let mut child = splitpoint(place)
        .args(["stat", "t.spt", "--watch", "0.1"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (Running(Some(child)), lines)
}

fn line(lines: &mut impl BufRead) -> Value {
    let mut text = String::new();
    lines.read_line(&mut text).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"))
}

#[test]
fn a_load_is_watched_while_it_runs() {
    let place = directory();
    let mut load = splitpoint(place.path());
    let load = load.args(["load", "t.spt", "-", "--stats"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut load = Running(Some(load.spawn().unwrap()));
    let mut rows = load.0.as_mut().unwrap().stdin.take().unwrap();
    let stats = place.path().join("t.spt-stats");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !stats.exists() || stats.metadata().unwrap().len() == 0 {
        assert!(Instant::now() < deadline, "the load published nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (mut watcher, mut lines) = watch(place.path(), &["--json"]);
    let first = line(&mut lines);
    assert_eq!((&first["source"], &first["process"]), (&"process".into(), &load.0.as_ref().unwrap().id().into()));
    let written: String = (0..5000).map(|i| format!("key {i}\tvalue\n")).collect();
    rows.write_all(written.as_bytes()).unwrap();
    // How much the load has read by then depends on its buffer; at least some of it. The counters are read one after
    // the other, so they agree once it waits for more.
    let (mut last, mut rate) = (first, 0f64);
    while last["puts"].as_u64().unwrap() == 0 || last["puts"] != last["pairs"] {
        assert!(Instant::now() < deadline, "{last}");
        last = line(&mut lines);
        rate = rate.max(last["puts_per_s"].as_f64().unwrap());
    }
    assert!(rate > 0.0, "{last}");
    drop(rows);
    // The load has ended: from here on the file is shown.
    while last["source"] == "process" {
        assert!(Instant::now() < deadline, "{last}");
        last = line(&mut lines);
    }
    assert_eq!((&last["source"], &last["pairs"]), (&"file".into(), &5000.into()));
    assert!(!stats.exists());
    assert!(end_of(&mut load).status.success());
    for (signal, number) in heeded().take(1) {
        send(signal, watcher.0.as_ref().unwrap());
        let ended = end_of(&mut watcher);
        assert_eq!(ended.status.code(), Some(128 + number as i32));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(
            said.contains("has it open") && said.contains("no process publishes") && said.contains("stopped by"),
            "{said}"
        );
    }
}

#[test]
fn an_unopened_file_is_walked_when_it_changes() {
    let place = directory();
    run_well(place.path(), &["put", "t.spt", "a", "1"]);
    let (_watcher, mut lines) = watch(place.path(), &["--json"]);
    assert_eq!(line(&mut lines)["pairs"], 1);
    run_well(place.path(), &["put", "t.spt", "b", "2"]);
    assert_eq!(line(&mut lines)["pairs"], 2);
}

#[test]
fn the_figures_come_in_columns_under_a_heading() {
    let place = directory();
    run_well(place.path(), &["put", "t.spt", "a", "1"]);
    let (_watcher, lines) = watch(place.path(), &[]);
    let printed: Vec<_> = lines.lines().take(2).map(Result::unwrap).collect();
    assert!(printed[0].contains("ovf pairs%"), "{printed:?}");
    assert_eq!(printed[1].split_whitespace().next(), Some("1"), "{printed:?}");
}

#[test]
fn malformed_counters_are_an_error_and_change_nothing() {
    let place = directory();
    run_well(place.path(), &["put", "t.spt", "a", "1"]);
    for bytes in [&b""[..], b"SPLITSTA", &[0xFF; 512], &[0; 100_000]] {
        fs::write(place.path().join("t.spt-stats"), bytes).unwrap();
        let output = run(place.path(), &["stat", "t.spt", "--watch", "0.1"]);
        assert_eq!(output.status.code(), Some(13), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("t.spt-stats: not a file of published counters"), "{said}");
        // The table itself is unchanged.
        assert_eq!(run_well(place.path(), &["get", "t.spt", "a"]), b"1\n");
        let refused = run(place.path(), &["load", "t.spt", "-", "--stats"]);
        assert_eq!(refused.status.code(), if bytes.is_empty() { Some(0) } else { Some(2) }, "{refused:?}");
    }
}

#[test]
fn an_invalid_interval_is_wrong_usage() {
    let place = directory();
    assert_eq!(run(place.path(), &["stat", "t.spt", "--watch", "never"]).status.code(), Some(2));
    assert_ne!(run(place.path(), &["stat", "absent.spt", "--watch"]).status.code(), Some(0));
}
