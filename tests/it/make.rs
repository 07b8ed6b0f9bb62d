//! Scripts that the Makefile runs: `.ci/built`, which finds what cargo has built, on a package of ten lines;
//! `.ci/stages`, on stages that pass and fail.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `.ci/built` in the package; returns the lines that it prints.
fn built(package: &Path, target_dir: Option<&str>, arguments: &[&str]) -> Vec<PathBuf> {
    let mut command = Command::new("sh");
    command.arg(".ci/built").args(arguments).current_dir(package).env("CARGO", env!("CARGO"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_") || name.starts_with("RUSTFLAGS")) {
        command.env_remove(name);
    }
    // Make passes an empty variable if none is set.
    command.env("CARGO_TARGET_DIR", target_dir.unwrap_or_default());
    let output = command.output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let paths = String::from_utf8(output.stdout).expect("UTF-8");
    paths.lines().map(|line| package.join(line)).collect()
}

#[test]
fn what_cargo_has_built_is_found_wherever_its_configuration_puts_it() {
    let place = tempfile::tempdir().expect("a folder");
    let package = place.path().canonicalize().expect("it exists").join("a package");
    let write = |name: &str, text: &str| {
        let path = package.join(name);
        std::fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/built");
    write(".ci/built", &std::fs::read_to_string(script).expect("it exists"));
    write(
        "Cargo.toml",
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [lib]\nname = \"tiny_c\"\ncrate-type = [\"staticlib\", \"rlib\"]\n",
    );
    write("src/lib.rs", "pub fn one() -> u8 {\n    1\n}\n");
    write("src/main.rs", "fn main() {}\n");
    let found = |target_dir: Option<&str>, folder: &str| {
        let folder = package.join(folder);
        assert_eq!(built(&package, target_dir, &[]), std::slice::from_ref(&folder));
        for path in built(&package, target_dir, &["--quiet", "--offline"]) {
            assert!(path.is_file() && path.starts_with(&folder), "{}, not in {}", path.display(), folder.display());
        }
        let program = built(&package, target_dir, &["--quiet", "--offline", "--bin", "tiny"]);
        assert!(program[0].ends_with("tiny"), "{program:?}");
    };
    found(None, "target");
    found(Some("by variable"), "by variable");
    write(".cargo/config.toml", "[build]\ntarget-dir = \"by config\"\n");
    found(None, "by config");
    // The variable takes precedence, as with cargo.
    found(Some("by variable"), "by variable");
}

/// Checks that scripts ask cargo where it builds, instead of naming a directory themselves.
#[test]
fn scripts_ask_cargo_where_it_builds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for script in [
        "Makefile",
        ".ci/stages",
        "crates/bench/budget",
        "crates/capi/compat/Makefile",
        "crates/capi/compat/tests/run",
        "crates/capi/tests/cost",
        "crates/capi/tests/run",
        "crates/server/benchmarks/measure.py",
        "crates/server/tests/cluster.py",
        "crates/server/tests/run",
        "crates/server/tests/servers.py",
        "fuzz/run",
        "packaging/container",
        "packaging/deb",
        "packaging/site",
        "packaging/static",
        "packaging/test-crates",
        "packaging/test-static",
        "packaging/test-wheel",
        "packaging/tools",
        "packaging/wheel",
        "python/run-spark-tests",
        "python/run-tests",
        "tests/mutants/run",
    ] {
        let text = std::fs::read_to_string(root.join(script)).expect("it exists");
        let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let fixed: Vec<_> =
            code.filter(|line| ["target/debug", "target/release"].iter().any(|d| line.contains(d))).collect();
        assert!(fixed.is_empty(), "{script}: {fixed:?}");
    }
}

#[test]
fn a_failed_stage_hides_no_other_and_is_named_with_its_log() {
    let place = tempfile::tempdir().expect("a folder");
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir(at(".ci")).expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for script in [".ci/built", ".ci/stages"] {
        std::fs::copy(root.join(script), at(script)).expect("it exists");
    }
    // A stand-in for make, which runs the stage with the given name.
    std::fs::write(
        at("make"),
        "#!/bin/sh\necho \"said by $1\"\necho 'SKIPPED: a part of it'\ncase $1 in bad*) exit 3;; esac\n",
    )
    .expect("a file");
    let run = |stages: &[&str]| {
        let mut command = Command::new("sh");
        command.arg(".ci/stages").args(stages).current_dir(place.path());
        // Without cargo the logs are in `target`.
        let output = command.env("MAKE", "sh ./make").env("CARGO", "false").output().expect("a shell");
        (output.status.success(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let (passed, said) = run(&["one", "bad-two", "three", "bad-four"]);
    assert!(!passed);
    let lines: Vec<_> = said.lines().collect();
    for (line, (stage, result)) in
        lines.iter().zip([("one", "passed"), ("bad-two", "FAILED"), ("three", "passed"), ("bad-four", "FAILED")])
    {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[..2], [stage, result], "{said}");
        assert!(words[2].parse::<u64>().is_ok() && words[3] == "s", "{said}");
        assert_eq!(words[4], format!("target/test/{stage}.log"), "{said}");
        assert!(std::fs::read_to_string(at(words[4])).expect("its log").contains(&format!("said by {stage}")));
    }
    assert_eq!(lines[4], "SKIPPED: a part of it", "once: {said}");
    assert!(said.contains("said by bad-two") && said.contains("said by bad-four"), "{said}");
    assert!(!said.contains("said by one"), "{said}");
    assert_eq!(*lines.last().expect("a line"), "test: 2 passed, 2 failed: bad-two bad-four");
    let (passed, said) = run(&["one", "three"]);
    assert!(passed && said.ends_with("test: 2 passed, 0 failed\n"), "{said}");
}
