//! `coldpress trace`: a trace of decisions as a table over time, as JSON, or as a picture.

use crate::duration::format_cold_after;
use crate::grid;
use crate::output_file;
use crate::refusal::Refusal;
use crate::rule::plain;
use crate::size::{format_bytes, format_count};
use crate::streams::{print, visible};
use crate::trace_file::{self, Record, Trace};
use crate::trace_plot;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The help text's end.
pub const HELP: &str = "\
Examples:
  coldpress run --trace redis.trace -- redis-server
  coldpress trace redis.trace
  coldpress trace redis.trace --svg redis.svg

A trace may be looked at while the program still runs: it is brought up to date once a second.";

/// Rows of the table.
const ROWS: usize = 24;

/// Arguments of `coldpress trace`.
#[derive(Debug, Args)]
pub struct TraceArguments {
    /// The file that coldpress run --trace has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Draw memory, evictions, refaults, cold age and rules over time, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON: every record
    #[arg(long)]
    json: bool,
}

/// Shows a trace.
pub fn trace(arguments: &TraceArguments) -> Result<u8, Refusal> {
    let drawn_on_output = arguments.svg.as_deref().is_some_and(output_file::is_dash);
    output_file::one_on_standard_output(&[
        ("--json", arguments.json),
        ("--svg -", drawn_on_output),
    ])?;
    let trace = trace_file::read(&arguments.file)?;
    if let Some(target) = &arguments.svg {
        output_file::write(target, trace_plot::plot(&trace).as_bytes())?;
    }
    if arguments.json {
        let records: Vec<&_> = trace.records.iter().map(|record| &record.0).collect();
        let all = json!({ "head": trace.head, "records": records });
        print(&format!("{all:#}\n"))?;
    } else if arguments.svg.is_none() {
        print(&table(&trace))?;
    }
    Ok(0)
}

fn table(trace: &Trace) -> String {
    let text = |name: &str| {
        let text = trace.head.get(name).and_then(Value::as_str);
        visible(text.unwrap_or("?"))
    };
    let mut all = format!(
        "{} ({}), {}, {}\n",
        text("program"),
        trace.head.get("pid").unwrap_or(&Value::Null),
        text("codec"),
        text("storage")
    );
    if trace.records.is_empty() {
        return all + "nothing was recorded yet\n";
    }
    let headings = [
        ("SECONDS", false),
        ("TOTAL", false),
        ("PEAK", false),
        ("CONTENT", false),
        ("COLD-AGE", false),
        ("EAGER", false),
        ("PRESSURE", false),
        ("CRITICAL", false),
        ("FAILED", false),
        ("SPARED", false),
        ("BACK", false),
        ("AHEAD", false),
        ("RULE", true),
    ];
    let rows: Vec<Vec<String>> = slices(&trace.records).map(row).collect();
    all += &grid::aligned(&headings, true, rows);
    let mut rules: Vec<&str> = trace
        .records
        .iter()
        .flat_map(Record::rules_ms)
        .map(|(name, _)| name)
        .collect();
    rules.sort_unstable();
    rules.dedup();
    for rule in rules {
        all += &format!("{}: {}\n", plain(rule), meaning(rule));
    }
    all
}

/// The records in so many parts of equal time as there are rows.
fn slices(records: &[Record]) -> impl Iterator<Item = &[Record]> {
    let end = records.last().map_or(0, |record| record.get("t_ms")) + 1;
    let part = move |record: &Record| record.get("t_ms") * ROWS as u64 / end;
    records.chunk_by(move |one, two| part(one) == part(two))
}

fn row(slice: &[Record]) -> Vec<String> {
    let last = &slice[slice.len() - 1];
    let sum = |name: &str| slice.iter().map(|record| record.get(name)).sum::<u64>();
    let peak = slice.iter().map(|record| record.get("peak_bytes")).max();
    vec![
        format!("{:.2}", last.seconds()),
        format_bytes(last.get("total_bytes")),
        format_bytes(peak.unwrap_or(0)),
        format_bytes(last.get("content_bytes")),
        format_cold_after(last.get("cold_after_ms")),
        format_count(sum("eager_compressions")),
        format_count(sum("pressure_compressions")),
        format_count(sum("critical_compressions")),
        format_count(sum("failed_compressions")),
        format_count(sum("second_chances")),
        format_count(slice.iter().map(Record::refaults).sum()),
        format_count(sum("read_ahead")),
        shares(slice),
    ]
}

/// The rules of some records, with their shares of the time.
fn shares(slice: &[Record]) -> String {
    let mut times = BTreeMap::<&str, u64>::new();
    for (rule, ms) in slice.iter().flat_map(Record::rules_ms) {
        *times.entry(rule).or_default() += ms;
    }
    let all: u64 = times.values().sum();
    let mut times: Vec<(&str, u64)> = times
        .into_iter()
        .filter(|(_, ms)| ms * 100 >= all)
        .collect();
    times.sort_by_key(|(_, ms)| u64::MAX - ms);
    let names = times.iter().map(|(rule, ms)| match times.len() {
        1 => plain(rule),
        _ => format!("{} {:.0} %", plain(rule), *ms as f64 * 100.0 / all as f64),
    });
    names.collect::<Vec<_>>().join(", ")
}

fn meaning(rule: &str) -> &'static str {
    match rule {
        "within_budget" => "nothing is evicted",
        "cold_age" => "pages older than the cold age are evicted",
        "guarded" => "nothing is evicted for its age: too many refaults",
        "short_of_memory" => "the coldest pages are evicted: the machine is short of memory",
        "near_budget" => "the coldest pages are evicted: memory is near the budget",
        "above_budget" => {
            "the coldest pages are evicted, and faults wait: memory is above the budget"
        }
        "out_of_reach" => "the budget cannot be kept: what is left does not compress, or is in use",
        "chaos" => "pages are evicted at random, for a test",
        "switched_off" => "the trigger that would evict pages is switched off",
        _ => "of another version",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldpress_interface::statistics::Rule;

    #[test]
    fn the_table_says_what_was_decided_when() {
        let table = table(&trace_file::fixtures::trace());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "p (7), press, ?");
        assert!(lines[1].contains("TOTAL") && lines[1].trim_end().ends_with("RULE"));
        assert_eq!(lines.len(), 2 + ROWS + 2, "{table}");
        assert!(lines[2].trim_end().ends_with("within budget"), "{table}");
        assert!(
            lines[1 + ROWS].trim_end().ends_with("near budget"),
            "{table}"
        );
        assert!(
            lines[1 + ROWS].trim_start().starts_with("10.00 "),
            "{table}"
        );
        let last = lines[lines.len() - 1];
        assert_eq!(last, "within budget: nothing is evicted");
        let pressure = |line: &&str| line.contains("1,900");
        assert!(
            lines.iter().any(pressure),
            "380 a tenth of a second: {table}"
        );
    }

    #[test]
    fn every_rule_has_a_meaning() {
        for rule in Rule::ALL {
            assert_ne!(meaning(rule.name()), meaning("nonsense"), "{}", rule.name());
        }
    }

    #[test]
    fn shares_are_named_where_there_are_several() {
        let trace = trace_file::fixtures::trace();
        assert_eq!(shares(&trace.records[..50]), "within budget");
        assert_eq!(
            shares(&trace.records[40..80]),
            "near budget 75 %, within budget 25 %"
        );
    }
}
