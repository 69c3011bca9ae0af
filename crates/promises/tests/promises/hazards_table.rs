//! docs/hazards.md answers for each hazard in both tiers: with tests that exist, or with a reason.

use coldpress_promises::hazards::HAZARDS;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const PROMISES: &str = "crates/promises/tests/promises";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies in crates/")
}

/// Rows of all tables, cell by cell.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| "));
    lines
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .filter(|row: &Vec<&str>| row[0] != "hazard")
        .collect()
}

/// The file of a test as the document names it.
fn file(name: &str) -> PathBuf {
    let (dir, name) = match name.split_once('/') {
        Some(("u", name)) => ("crates/uffd/tests", name),
        Some(("c", name)) => ("crates/cli/tests", name),
        _ => (PROMISES, name),
    };
    root().join(dir).join(name)
}

/// Whether the answer of a cell is good: tests that exist, a reason, or that `run` refuses.
fn check(cell: &str, row: &[&str]) -> usize {
    if cell == "refused" {
        return 0;
    }
    if let Some(why) = cell.strip_prefix("no: ") {
        assert!(why.len() > 5, "no reason: {row:?}");
        return 0;
    }
    let quoted = cell.split('`').skip(1).step_by(2);
    let named: Vec<&str> = quoted.filter(|q| q.contains(".rs")).collect();
    assert!(!named.is_empty(), "no test and no reason: {row:?}");
    for test in &named {
        let (name, function) = test.split_once("::").unwrap_or((test, ""));
        let code = std::fs::read_to_string(file(name));
        let code = code.unwrap_or_else(|error| panic!("{test}: {error}"));
        assert!(code.contains("#[test]"), "{test} has no test");
        if function.is_empty() {
            continue;
        }
        let before = code.split(&format!("fn {function}()")).next();
        let before = before.filter(|before| before.len() < code.len());
        let before = before.unwrap_or_else(|| panic!("there is no {test}"));
        let last = before.rsplit("\n\n").next().unwrap_or("");
        assert!(last.contains("#[test]"), "{test} is no test");
    }
    named.len()
}

#[test]
fn each_hazard_has_its_tests_in_both_tiers() {
    let text = std::fs::read_to_string(root().join("docs/hazards.md")).expect("docs/hazards.md");
    let mut seen = BTreeSet::new();
    let mut tests = 0;
    for row in rows(&text) {
        let [hazard, full, user_mode_only] = row[..] else {
            panic!("not three cells: {row:?}");
        };
        assert!(seen.insert(hazard.to_owned()), "twice: {hazard}");
        tests += check(full, &row) + check(user_mode_only, &row);
    }
    assert!(
        seen.len() >= 65 && tests >= 90,
        "{} rows, {tests} tests",
        seen.len()
    );
}

/// Whoever adds a hazard program has to say in a test what it is for.
#[test]
fn each_program_is_run_by_a_test() {
    let tests = std::fs::read_dir(root().join(PROMISES)).expect("tests");
    let tests: String = tests
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .collect();
    for hazard in HAZARDS {
        let by_name = tests.contains(&format!("\"{}\"", hazard.name));
        let by_program = tests.contains(&format!("\"{}\"", hazard.program));
        assert!(by_name || by_program, "no test runs `{}`", hazard.name);
    }
}

/// Rows of the table of programs that came to harm: what is natively, was, and is now, and tests that exist.
#[test]
fn each_program_that_came_to_harm_has_its_test() {
    let text = std::fs::read_to_string(root().join("docs/limits.md")).expect("docs/limits.md");
    let (_, table) = text
        .split_once("## Programs that came to harm")
        .expect("the table");
    let all: Vec<_> = rows(table)
        .into_iter()
        .filter(|row| row[0] != "program")
        .collect();
    let mut tested = 0;
    for row in &all {
        let [_, _, _, _, test] = row[..] else {
            panic!("not five cells: {row:?}");
        };
        let mut names = test.split('`').skip(1).step_by(2);
        let Some(file) = names.next() else {
            continue;
        };
        let path = root().join(PROMISES).join(format!("{file}.rs"));
        let code = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
        for name in names {
            let name = name.trim_end_matches('*');
            assert!(code.contains(name), "{file} has no {name}");
        }
        tested += 1;
    }
    assert!(
        all.len() >= 90 && tested >= 85,
        "{} of {}",
        tested,
        all.len()
    );
}
