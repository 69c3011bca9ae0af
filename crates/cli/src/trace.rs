//! `coldpress trace`: a trace of decisions as a table over time, as JSON, or as a picture.

use crate::duration::format_nanoseconds;
use crate::grid::{self, Heading, left, right};
use crate::help;
use crate::output_file;
use crate::refusal::Refusal;
use crate::rule::plain;
use crate::size::{format_short, short_count};
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
    /// Print all columns, in lines of up to 170 characters
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print JSON: every record
    #[arg(long)]
    json: bool,
}

/// Shows a trace.
pub fn trace(arguments: &TraceArguments) -> Result<u8, Refusal> {
    let drawn_on_output = arguments
        .svg
        .as_deref()
        .is_some_and(output_file::is_standard_output);
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
        print(&table(&trace, arguments.all, help::table_width()))?;
    }
    Ok(0)
}

/// When a column is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Always,
    /// With `--all`.
    WithAll,
}

/// A column: its heading, when it is shown, and what stands in it for some records.
struct Column {
    name: &'static str,
    shown: Shown,
    cell: fn(&[Record]) -> String,
}

const fn column(name: &'static str, shown: Shown, cell: fn(&[Record]) -> String) -> Column {
    Column { name, shown, cell }
}

const COLUMNS: [Column; 14] = [
    column("SECONDS", Shown::Always, |slice| {
        format!("{:.2}", last(slice).seconds())
    }),
    column("TOTAL", Shown::Always, |slice| {
        format_short(last(slice).get("total_bytes"))
    }),
    column("PEAK", Shown::WithAll, |slice| {
        let peak = slice.iter().map(|record| record.get("peak_bytes")).max();
        format_short(peak.unwrap_or(0))
    }),
    column("CONTENT", Shown::Always, |slice| {
        format_short(last(slice).get("content_bytes"))
    }),
    column("COLD-AGE", Shown::Always, |slice| {
        match last(slice).get("cold_after_ms") {
            0 => "none".to_owned(),
            age_ms => format_nanoseconds(age_ms.saturating_mul(1_000_000)),
        }
    }),
    column("EVICTED", Shown::Always, |slice| {
        short_count(TRIGGERS.iter().map(|name| sum(slice, name)).sum())
    }),
    column("EAGER", Shown::WithAll, |slice| {
        short_count(sum(slice, TRIGGERS[0]))
    }),
    column("PRESSURE", Shown::WithAll, |slice| {
        short_count(sum(slice, TRIGGERS[1]))
    }),
    column("CRITICAL", Shown::WithAll, |slice| {
        short_count(sum(slice, TRIGGERS[2]))
    }),
    column("FAILED", Shown::WithAll, |slice| {
        short_count(sum(slice, "failed_compressions"))
    }),
    column("SPARED", Shown::WithAll, |slice| {
        short_count(sum(slice, "second_chances"))
    }),
    column("BACK", Shown::Always, |slice| {
        short_count(slice.iter().map(Record::refaults).sum())
    }),
    column("AHEAD", Shown::WithAll, |slice| {
        short_count(sum(slice, "read_ahead"))
    }),
    column("RULE", Shown::Always, shares),
];

/// What is counted for each trigger.
const TRIGGERS: [&str; 3] = [
    "eager_compressions",
    "pressure_compressions",
    "critical_compressions",
];

fn last(slice: &[Record]) -> &Record {
    &slice[slice.len() - 1]
}

fn sum(slice: &[Record], name: &str) -> u64 {
    slice.iter().map(|record| record.get(name)).sum()
}

fn table(trace: &Trace, is_all: bool, width: Option<usize>) -> String {
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
    let shown = || {
        COLUMNS
            .iter()
            .filter(|column| is_all || column.shown == Shown::Always)
    };
    let heading = |column: &Column| -> Heading<'static> {
        match column.name {
            "RULE" if is_all => left(column.name),
            "RULE" => left(column.name).cut_end(),
            name => right(name),
        }
    };
    let headings: Vec<Heading<'_>> = shown().map(heading).collect();
    let rows = slices(&trace.records);
    let rows = rows.map(|slice| shown().map(|column| (column.cell)(slice)).collect());
    all += &grid::fitted(&headings, rows.collect(), width);
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
    if !is_all {
        all += "evictions by trigger, failed ones, second chances, read-ahead: --all\n";
    }
    all
}

/// The records in so many parts of equal time as there are rows.
fn slices(records: &[Record]) -> impl Iterator<Item = &[Record]> {
    let end = records.last().map_or(0, |record| record.get("t_ms")) + 1;
    let part = move |record: &Record| record.get("t_ms") * ROWS as u64 / end;
    records.chunk_by(move |one, two| part(one) == part(two))
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
        "memory_group" => "the coldest pages are evicted, and faults wait: the group is full",
        "near_budget" => "the coldest pages are evicted: memory is near the budget",
        "above_budget" => "the coldest pages are evicted, and faults wait: above the budget",
        "out_of_reach" => "it cannot be kept: what is left does not compress, or is in use",
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
        let table = table(&trace_file::fixtures::trace(), true, Some(80));
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

    /// A long run: large numbers, long times, and each rule in force for a part of each row.
    #[test]
    fn it_fits_a_terminal() {
        let mut trace = trace_file::fixtures::trace();
        for record in &mut trace.records {
            let rules = Rule::ALL
                .iter()
                .map(|rule| (rule.name().to_owned(), json!(100)));
            record.0["t_ms"] = json!(record.get("t_ms") * 9_999);
            record
                .0
                .insert("rules_ms".to_owned(), Value::Object(rules.collect()));
            for name in ["total_bytes", "content_bytes", "peak_bytes"] {
                record
                    .0
                    .insert(name.to_owned(), json!((1023u64 << 30) + (950 << 20)));
            }
            for name in TRIGGERS.into_iter().chain(["faults_decompressed"]) {
                record.0.insert(name.to_owned(), json!(1_234_567));
            }
            record
                .0
                .insert("cold_after_ms".to_owned(), json!(3_599_123));
        }
        let table = table(&trace, false, Some(80));
        grid::assert_fits(&table, 80);
        assert!(table.contains("EVICTED") && table.contains("…"), "{table}");
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
