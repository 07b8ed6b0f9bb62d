//! The patches of `tests/mutants/` apply to the current sources, and name tests that exist.
//!
//! `make mutants` runs them, which takes an hour; this test only keeps them from becoming stale.

use super::hazards::is_test;
use super::{File, files, none, root};
use std::process::Command;

/// Returns what is wrong with the commands at the start of a patch.
fn breaches(patch: &File, rust: &[File]) -> Vec<String> {
    let commands = patch.text().lines().take_while(|line| !line.is_empty());
    let wrong = commands.filter_map(|command| {
        let path = command.split_once("cargo test ").and_then(|(_, words)| words.rsplit(' ').next());
        let exists = path.is_some_and(|path| {
            let mut names = path.rsplit("::");
            let (test, module) = (names.next().unwrap_or_default(), names.next());
            let is_here = |file: &&File| module.is_none_or(|module| is_module(module, file));
            rust.iter().filter(is_here).any(|file| is_test(test, file.text()))
        });
        (!exists).then(|| format!("{}: begin with `cargo test ...` of a test that exists, not `{command}`", patch.path))
    });
    let wrong: Vec<String> = wrong.collect();
    if patch.text().starts_with('\n') { vec![format!("{}: name a test", patch.path)] } else { wrong }
}

/// Whether a file is this module, or has it.
fn is_module(module: &str, file: &File) -> bool {
    let path = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.rsplit('/').next() == Some(module) || file.text().contains(&format!("mod {module} {{"))
}

#[test]
fn every_mutant_applies_and_names_tests_that_exist() {
    let (patches, others): (Vec<File>, Vec<File>) =
        files().into_iter().partition(|file| file.path.starts_with("tests/mutants/") && file.is("patch"));
    let rust: Vec<File> = others.into_iter().filter(|file| file.is("rs")).collect();
    assert!(patches.len() > 50, "{} patches", patches.len());
    let mut wrong = Vec::new();
    for patch in &patches {
        wrong.extend(breaches(patch, &rust));
        let applies = Command::new("git").args(["apply", "--check", &patch.path]).current_dir(root()).output();
        let applies = applies.expect("these tests need git: apt install git");
        if !applies.status.success() {
            let why = String::from_utf8_lossy(&applies.stderr);
            wrong.push(format!("{}: does not apply to the source; make it anew: {why}", patch.path));
        }
    }
    none(wrong);
}

#[test]
fn a_mutant_without_its_test_is_seen() {
    let rust = [File { path: "tests/it/a.rs".into(), bytes: "mod tests {\n#[test]\nfn a_is_b() {}\n}\n".into() }];
    let breaches = |head: &str| {
        let bytes = format!("{head}\n\nA is not b.\n").into();
        breaches(&File { path: "tests/mutants/a.patch".into(), bytes }, &rust).len()
    };
    assert_eq!(breaches("cargo test --lib -- tests::a_is_b"), 0);
    assert_eq!(breaches("cargo test --test it -- a::a_is_b"), 0);
    assert_eq!(breaches("SPLITPOINT_SEED=3 cargo test --lib -- a_is_b\ncargo test -- a_is_b"), 0);
    for bad in [
        "",
        "cargo test -- tests::a_is_c",
        "cargo test -- b::a_is_b",
        "tests::a_is_b",
        "cargo test -- a_is_b\ncargo test -- b",
    ] {
        assert_eq!(breaches(bad), 1, "{bad}");
    }
}
