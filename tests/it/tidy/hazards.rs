//! The table of hazards in docs/architecture.md names tests that exist.
//!
//! Each row of the table names what detects a failure of its guard: tests by name, or a mutant
//! (`tests/mutants/`). A row without a test says "none yet".

use super::{File, files, none, root};

const DOCUMENT: &str = "docs/architecture.md";
const NO_TEST: &str = "none yet";

/// Returns the names in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns whether `text` has a test of this name.
pub(super) fn is_test(name: &str, text: &str) -> bool {
    let head = format!("fn {name}(");
    let declares = |line: &str| line.trim_start().starts_with(&head) || line.starts_with("pub") && line.contains(&head);
    // Attributes such as `ignore` may be in between; a state machine gets its attribute from its macro.
    let mut before: Vec<&str> = Vec::new();
    text.lines().any(|line| {
        let found = declares(line) && before.iter().rev().take(5).any(|l| is_mark(l));
        before.push(line);
        found
    })
}

/// Returns whether there is a test or a mutant of this name.
fn exists(name: &str, files: &[File]) -> bool {
    // A scenario of threads is in a list that a test iterates over.
    let is_scenario =
        |text: &str| text.contains(&format!("\nfn {name}(")) && text.contains(&format!("\n    (\"{name}"));
    let mutant = format!("tests/mutants/{name}.patch");
    files.iter().any(|f| f.path == mutant || f.is("rs") && (is_test(name, f.text()) || is_scenario(f.text())))
}

fn is_mark(line: &str) -> bool {
    line.contains("#[test]") || line.contains("prop_state_machine!")
}

/// Returns what is wrong with the rows of the table in `document`.
fn breaches(document: &str, files: &[File]) -> Vec<String> {
    let lines = document.lines().enumerate().skip_while(|(_, line)| *line != "## Hazards").skip(1);
    let rows = lines.take_while(|(_, line)| !line.starts_with("## ")).filter(|(_, line)| line.starts_with('|'));
    let mut breaches = Vec::new();
    for (number, row) in rows.skip(2) {
        let place = format!("{DOCUMENT}:{}", number + 1);
        let test = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        let missing = quoted(test).filter(|name| !exists(name, files));
        breaches.extend(missing.map(|name| format!("{place}: there is no test or mutant `{name}`")));
        match (quoted(test).next(), test.contains(NO_TEST)) {
            (None, false) => breaches.push(format!("{place}: name a test, or say \"{NO_TEST}\"")),
            (Some(name), true) => breaches.push(format!("{place}: says \"{NO_TEST}\", and names `{name}`")),
            _ => {}
        }
    }
    breaches
}

#[test]
fn every_hazard_names_a_test_that_exists() {
    let text = std::fs::read_to_string(root().join(DOCUMENT)).expect("the document is there");
    assert!(text.contains("\n## Hazards\n"), "{DOCUMENT} has no section Hazards");
    none(breaches(&text, &files()));
}

#[test]
fn a_hazard_without_its_test_is_seen() {
    let tests = "#[test]\n#[ignore]\nfn a_is_b() {}\n\n#[test]\nfn a_is_bc() {}\n//\n//\n//\n//\nfn helps() {}";
    let files = [
        File { path: "tests/it/a.rs".into(), bytes: tests.into() },
        File { path: "tests/mutants/same_salt.patch".into(), bytes: Vec::new() },
    ];
    let document = |test: &str| format!("## Hazards\n\n| loss | test |\n|---|---|\n| all | {test} |\n");
    for good in ["`a_is_b`, mutant `same_salt`", "`a_is_bc`", "none yet"] {
        assert_eq!(breaches(&document(good), &files), [""; 0], "{good}");
    }
    for bad in ["`a_is`", "`helps`", "mutant `salt`", "none yet; `a_is_b`", "by hand", "`a_is_b`, `gone`"] {
        assert_eq!(breaches(&document(bad), &files).len(), 1, "{bad}");
    }
}
