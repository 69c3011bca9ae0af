//! Promise: docs/zircon-cases.md has a row for every case that is known, each with a test that exists or
//! a reason, the figures at its head are those of its rows, and a test that bears the name of a case is
//! named by its row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Zircon's test files, and how many cases are known of each: 244, and 22 that are older, or in Rust only.
const FILES: [(&str, usize); 15] = [
    ("compression_unittest.cc", 7),
    ("evictor_unittest.cc", 7),
    ("page_queues_unittest.cc", 10),
    ("continuous_attribution_unittest.cc", 16),
    ("vmpl_unittest.cc", 55),
    ("vmo_unittest.cc", 72),
    ("aspace_unittest.cc", 45),
    ("pmm_unittest.cc", 22),
    ("slab_unittest.cc", 4),
    ("vmo_lock_unittest.cc", 6),
    ("vmo_unittest.rs", 8),
    ("vmpl_unittest.rs", 2),
    ("vmo_unittest.cc (older)", 6),
    ("evictor_unittest.cc (older)", 6),
    ("total", 266),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/zircon-cases.md")).unwrap()
}

/// The cells of the rows of a table whose header begins with `header`.
fn rows<'a>(text: &'a str, header: &str) -> Vec<Vec<&'a str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(header));
    let table = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &'a str| {
        let line = line.trim_matches('|');
        line.split(" | ").map(str::trim).collect()
    };
    table.map(cells).collect()
}

/// Whether the row names tests of ours that assert what the case does.
fn is_tested(answer: &str) -> bool {
    answer.starts_with('`')
}

/// Whether it names tests that assert some of it.
fn is_tested_in_part(answer: &str) -> bool {
    answer.starts_with("in part: `")
}

fn names_tests(answer: &str) -> bool {
    is_tested(answer) || is_tested_in_part(answer)
}

fn cases(text: &str) -> Vec<Vec<&str>> {
    rows(text, "| file | case |")
}

#[test]
fn every_known_case_has_one_row() {
    let text = document();
    let mut seen = BTreeSet::new();
    let mut counts = BTreeMap::<&str, usize>::new();
    for row in cases(&text) {
        let [file, case, answer] = row[..] else {
            panic!("not three cells: {row:?}");
        };
        assert!(seen.insert((file, case)), "twice: {file} {case}");
        *counts.entry(file).or_default() += 1;
        let has_reason = answer.strip_prefix("no: ").is_some_and(|why| why.len() > 5);
        let tells_what_is_not = !is_tested_in_part(answer) || answer.contains("` (");
        assert!(names_tests(answer) || has_reason, "no answer: {row:?}");
        assert!(tells_what_is_not, "no word on what is left out: {row:?}");
    }
    counts.insert("total", seen.len());
    assert_eq!(counts, BTreeMap::from(FILES));
}

#[test]
fn every_test_that_is_named_exists() {
    let text = document();
    let mut named = 0;
    for row in cases(&text).into_iter().filter(|row| names_tests(row[2])) {
        let quoted = row[2].split('`').skip(1).step_by(2);
        for test in quoted.filter(|quoted| quoted.contains(".rs::")) {
            let (path, name) = test.split_once("::").unwrap();
            let name = name.rsplit("::").next().unwrap();
            let code = std::fs::read_to_string(root().join(path));
            let code = code.unwrap_or_else(|error| panic!("{path}: {error}"));
            let found = code.split(&format!("fn {name}(")).collect::<Vec<_>>();
            assert_eq!(found.len(), 2, "{path} has no test {name}");
            let before = found[0].rsplit("\n\n").next().unwrap();
            assert!(before.contains("#[test]"), "{test} is no test");
            named += 1;
        }
    }
    assert!(named >= 150);
}

#[test]
fn no_test_bears_the_name_of_a_case_that_it_does_not_cover() {
    let text = document();
    let rows = cases(&text);
    let mut files = vec![
        root().join("crates/engine/tests"),
        root().join("crates/arena/tests"),
    ];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let code = std::fs::read_to_string(&path).unwrap_or_default();
        for name in code.split("#[test]\nfn ").skip(1) {
            let name = name.split('(').next().unwrap();
            let case = format!("`{name}`");
            for row in rows.iter().filter(|row| row[1] == case) {
                assert!(names_tests(row[2]), "{}: {row:?}", path.display());
            }
        }
    }
}

#[test]
fn the_figures_are_those_of_the_rows() {
    let text = document();
    let figures = rows(&text, "| Zircon's file |");
    assert_eq!(figures.len(), FILES.len());
    let cases = cases(&text);
    for row in figures {
        let file = row[0];
        let of_file = || {
            cases
                .iter()
                .filter(|case| file == "total" || case[0] == file)
        };
        let number = |with: &dyn Fn(&str) -> bool| of_file().filter(|case| with(case[2])).count();
        let told = [
            number(&is_tested),
            number(&is_tested_in_part),
            number(&|answer| answer.starts_with("no: ")),
        ];
        let told = told.map(|number| number.to_string());
        assert_eq!(row[1], of_file().count().to_string(), "{file}");
        assert_eq!(row[2..5], told, "{file}");
    }
}
