//! Test: `docs/metrics.md` names each figure of `status --json` in OpenMetrics. With `COLDPRESS_WRITE_DOCS=1` it writes the
//! table anew.

use super::exposition::tests::full_page;
use super::names::{self, Family};
use crate::report;
use coldpress_engine::metrics::figure::Kind;
use coldpress_interface::statistics::Failure;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const HEADING: &str = "## OpenMetrics";
const COMMAND: &str = "COLDPRESS_WRITE_DOCS=1 cargo test -p coldpress-cli --bin coldpress metrics";

/// Figures that have a form of their own: key in `status --json`, name of the samples, type.
const SPECIAL_NAMES: &[(&str, &str, &str)] = &[
    ("program", "label `program` of every sample", ""),
    ("pid", "label `pid` of every sample", ""),
    (
        "version",
        "`coldpress_process_info`, label `layout`",
        "info",
    ),
    ("codec", "`coldpress_process_info`, label `codec`", "info"),
    (
        "storage",
        "`coldpress_process_info`, label `storage`",
        "info",
    ),
    (
        "run_pid",
        "`coldpress_process_info`, label `run_pid`",
        "info",
    ),
    (
        "start_time_ticks",
        "`coldpress_process_start_time_seconds` (since 1970)",
        "gauge",
    ),
    (
        "measured_at_ns",
        "`coldpress_measured_at_seconds` (since 1970)",
        "gauge",
    ),
    (
        "budget_bytes",
        "`coldpress_budget_bytes` (`+Inf`: none)",
        "gauge",
    ),
    (
        "rule",
        "`coldpress_rule{rule}` (1: it is in force)",
        "gauge",
    ),
    (
        "triggers",
        "`coldpress_trigger_enabled{trigger}` (1: it is on)",
        "gauge",
    ),
    (
        "failures",
        "`coldpress_rejected_pages_total{reason}`",
        "counter",
    ),
    (
        "tunables",
        "`coldpress_tunable_info{tunable,value}`",
        "info",
    ),
    (
        "generations",
        "`coldpress_generation_pages{generation}`, `coldpress_generation_untouched_seconds{generation}`",
        "gauge",
    ),
    (
        "fault_service",
        "`coldpress_fault_duration_seconds`",
        "histogram",
    ),
];

/// The names of plain figures, by key.
fn plain() -> BTreeMap<String, (String, &'static str)> {
    let row = |family: &Family| {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let name = family.sample_name();
        let named = family.members.iter().map(move |member| {
            let label = member
                .label
                .map(|(label, value)| format!("{{{label}=\"{value}\"}}"));
            let name = format!("`{name}{}`", label.unwrap_or_default());
            (member.key.to_owned(), (name, kind))
        });
        named.collect::<Vec<_>>()
    };
    names::families().iter().flat_map(row).collect()
}

/// Each key of `status --json`, with its name here and its type.
fn rows() -> BTreeMap<String, (String, &'static str)> {
    let page = full_page(42);
    let printed = report::to_json("prog", &page.statistics, &page.figures);
    let mut plain = plain();
    let mut rows = BTreeMap::new();
    for key in printed.keys().filter(|key| *key != "schema_version") {
        let special = SPECIAL_NAMES.iter().find(|(name, ..)| name == key);
        let row = match special {
            Some((_, name, kind)) => ((*name).to_owned(), *kind),
            None if Failure::ALL.iter().any(|reason| reason.name() == key) => (
                format!("`coldpress_rejected_pages_total{{reason=\"{key}\"}}`"),
                "counter",
            ),
            None => plain
                .remove(key)
                .unwrap_or_else(|| panic!("{key} has no name in OpenMetrics")),
        };
        rows.insert(key.clone(), row);
    }
    // What only an older pager tells has the name of what tells it better.
    plain.retain(|key, _| !["compaction_frames", "recoded_pages"].contains(&key.as_str()));
    assert!(plain.is_empty(), "no figures: {plain:?}");
    rows
}

fn section() -> String {
    let mut text = format!(
        "{HEADING}\n\n\
         `coldpress metrics` exports each of these figures under one name, with the labels `pid` and `program`, in bytes and\n\
         seconds; texts are labels. The sum of `coldpress_fault_duration_seconds` is estimated from finer buckets, with an\n\
         error of at most an eighth; `coldpress_fault_wait_seconds_total` is exact and covers all faults. There are also\n\
         `coldpress_build_info{{version}}`, `coldpress_managed_processes` and `coldpress_unreadable_processes`.\n\
         `{COMMAND}` writes the table,\n\
         and without the variable that test fails if the table differs from what the command prints.\n\n\
         | key | in OpenMetrics | type |\n|---|---|---|\n"
    );
    for (key, (name, kind)) in rows() {
        text += &format!("| `{key}` | {name} | {kind} |\n");
    }
    text
}

#[test]
fn the_document_names_every_figure_as_the_command_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let mut text = fs::read_to_string(&path).unwrap();
    let wanted = section();
    if std::env::var_os("COLDPRESS_WRITE_DOCS").is_some() && !text.contains(&wanted) {
        let behind = "\n## `zx_info_kmem";
        let end = text.find(behind).unwrap() + 1;
        let start = text.find(&format!("{HEADING}\n")).unwrap_or(end);
        text.replace_range(start..end, &(wanted.clone() + "\n"));
        fs::write(&path, &text).unwrap();
    }
    assert!(
        text.contains(&wanted),
        "docs/metrics.md is out of date: {COMMAND}"
    );
}
