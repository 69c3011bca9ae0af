//! Test: `docs/metrics.md` has every key of the JSON of `run --stats` and `status --json`, and no other. With
//! `COLDPRESS_WRITE_DOCS=1` it writes the table anew, with what the code says of each key.

use crate::budget::BudgetInForce;
use crate::figure_help;
use crate::report::{self, SCHEMA_VERSION};
use crate::summary;
use crate::sums::Young;
use crate::supervise::Ending;
use coldpress_engine::metrics::figure;
use coldpress_engine::tunables::TABLE;
use coldpress_interface::figures::Figures;
use coldpress_interface::statistics::Statistics;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

const HEADING: &str = "## JSON";
const COMMAND: &str = "COLDPRESS_WRITE_DOCS=1 cargo test -p coldpress-cli --bin coldpress schema";

/// Keys that are no words of the statistics page, with their type and meaning.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        "schema_version",
        "number",
        "Version of this table. It grows when a key goes or changes its meaning, not when keys are added.",
    ),
    ("program", "text", "Name of the program."),
    ("version", "number", "Layout of the statistics file."),
    ("pid", "number", "Process id."),
    (
        "start_time_ticks",
        "number",
        "Start time of the process: field 22 of `/proc/PID/stat`.",
    ),
    ("codec", "text", "How pages are compressed."),
    ("storage", "text", "How compressed pages are kept."),
    (
        "tunables",
        "object",
        "The engine's tunables in force, by name, as they are written ([tunables.md](tunables.md)).",
    ),
    (
        "generations",
        "array",
        "Resident pages by age, the newest first: `pages`, `untouched_for_ms`.",
    ),
    (
        "failures",
        "object",
        "Pages that were not evicted, and refusals of the kernel, by reason. `incompressible`, `no_storage`, `raced`, `corrupt`, `copy_again` and `no_metadata` are the figures with these names.",
    ),
    (
        "fault_service",
        "object",
        "Time of faults that restored content, from message to page: `count`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns` (null without any).",
    ),
    (
        "pager_started",
        "switch",
        "`--stats` only: whether there was a pager; without one there are no figures.",
    ),
    (
        "exit_status",
        "number",
        "`--stats` only: exit status of the program, or null.",
    ),
    (
        "signal",
        "number",
        "`--stats` only: the signal that ended it, or null.",
    ),
    (
        "budget_asked_bytes",
        "number",
        "`--stats` only: the value of `--budget`, or null.",
    ),
    (
        "memory_group_limit_bytes",
        "number",
        "`--stats` only: the limit of the memory group, or null.",
    ),
    (
        "summary",
        "object",
        "`--stats` only: the sums of the closing summary, for the first process.",
    ),
    (
        "follow",
        "object",
        "`--stats` only: all processes together, and processes that were not managed.",
    ),
    (
        "mappings",
        "array",
        "`status PID` only: memory by mapping, or null.",
    ),
];

/// What the code prints where everything is known, with the types.
fn printed() -> BTreeMap<String, &'static str> {
    let statistics = Statistics::new();
    statistics.filled_bytes.store(u64::MAX, Relaxed);
    let figures = Figures::default();
    figures
        .engine
        .fill(figure::every().map(|figure| (figure.name, 1)));
    figures.tunables.fill(TABLE.iter().map(|row| (row.name, 1)));
    let budget = BudgetInForce::of(1 << 30, None).unwrap();
    let seen = Some((&statistics, &figures));
    let value = summary::to_json(
        "prog",
        7,
        seen,
        &Young::default(),
        &budget,
        Ending::Exited(0),
    );
    let status = report::to_json("prog", &statistics, &figures);
    assert_eq!(status["schema_version"], SCHEMA_VERSION);
    let mut keys = BTreeMap::new();
    for (key, value) in value.as_object().unwrap() {
        assert!(status.contains_key(key) || OTHERS.iter().any(|(other, ..)| other == key));
        let kind = match value {
            Value::String(_) => "text",
            Value::Null if key == "rule" => "text",
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::Bool(_) => "switch",
            _ => "number",
        };
        keys.insert(key.clone(), kind);
    }
    // Put in by who has them.
    keys.insert("follow".to_owned(), "object");
    keys.insert("mappings".to_owned(), "array");
    keys
}

/// The section, made from the code.
fn section(engine: &[&str]) -> String {
    let mut text = format!(
        "{HEADING}\n\n\
         `coldpress run --stats FILE`, `coldpress status --json` (all processes) and `coldpress status --json PID` print objects\n\
         with these keys and all names of the table above. A key means one thing everywhere, also as text in `coldpress status\n\
         --all PID` and, for values of tunables, in `coldpress set`. `schema_version` is {SCHEMA_VERSION}. Figures that an older pager does not\n\
         have are left out. `{COMMAND}` writes the table, and\n\
         without the variable that test fails if the table differs from what the command prints.\n\n\
         | key | type | meaning |\n|---|---|---|\n"
    )
    .replace(" \n", "\n");
    for (key, kind) in printed() {
        if engine.contains(&key.as_str()) {
            continue;
        }
        let other = OTHERS.iter().find(|(other, ..)| *other == key);
        let meaning = other.map_or_else(|| figure_help::help(&key), |row| Some(row.2.to_owned()));
        let meaning = meaning.unwrap_or_else(|| panic!("{key} has no meaning"));
        text += &format!("| `{key}` | {kind} | {meaning} |\n");
    }
    text
}

fn keys_of_table<'a>(text: &'a str, header: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(header));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).unwrap()).collect()
}

#[test]
fn the_document_has_the_keys_that_the_command_prints_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let mut text = fs::read_to_string(&path).unwrap();
    let engine: Vec<&str> = figure::every().map(|figure| figure.name).collect();
    if std::env::var_os("COLDPRESS_WRITE_DOCS").is_some() {
        let start = text
            .find(HEADING)
            .unwrap_or_else(|| text.find("## `zx_info_kmem").unwrap());
        let rest = text[start..].match_indices("\n## ").find(|(at, _)| *at > 0);
        let is_there = text[start..].starts_with(HEADING);
        let end = match (is_there, rest) {
            (false, _) => start,
            (true, Some((at, _))) => start + at + 1,
            (true, None) => text.len(),
        };
        text.replace_range(start..end, &(section(&engine) + "\n"));
        fs::write(&path, &text).unwrap();
    }
    let mut documented = keys_of_table(&text, "| name | unit | kind |");
    assert_eq!(documented.len(), engine.len(), "the table of figures");
    documented.extend(keys_of_table(&text, "| key | type |"));
    let printed = printed();
    for key in printed.keys() {
        let times = documented.iter().filter(|known| **known == key).count();
        // Some figures of the engine are kept by the process under the same name and meaning.
        assert!(times == 1, "{key} is documented {times} times: {COMMAND}");
    }
    for key in &documented {
        assert!(
            printed.contains_key(*key),
            "{key} is not printed: {COMMAND}"
        );
    }
    let version = format!("`schema_version` is {SCHEMA_VERSION}.");
    assert!(text.contains(&version), "{COMMAND}");
}
