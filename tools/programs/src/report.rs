//! The table of programs, as Markdown, and the JSON.

use crate::chaos;
use crate::{Finding, Managed};
use coldpress_harness::managed::Statistics;
use serde_json::{Value, json};

/// Bytes in MiB, without the unit.
fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// A number with commas between its thousands.
fn count(number: u64) -> String {
    coldpress_harness::text::thousands(number).replace(' ', ",")
}

fn counted(managed: &Managed, name: &str) -> String {
    let statistics = managed.done.statistics.as_ref();
    let number = statistics.and_then(|s| s.get(name));
    number.map_or("–".into(), count)
}

/// The tables of programs under a budget and of those under random eviction.
pub fn markdown(findings: &[Finding]) -> String {
    let mut out = String::new();
    let (chaos, budgeted): (Vec<_>, Vec<_>) = findings.iter().partition(|f| f.subject.is_chaos);
    if !budgeted.is_empty() {
        out += "| program | native peak | `eval`: pages need | not manageable | budget | of native | peak | held, mean | evictions | faults | time, native | coldpress | output |\n";
        out += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    }
    for finding in budgeted {
        let (packed, unevictable) = finding.need.map_or(("–".into(), "–".into()), |need| {
            (mebibytes(need.packed), mebibytes(need.unevictable))
        });
        let share = format!("{:.0} %", 100.0 * finding.budget_share());
        out += &row(&[
            format!("{}: {}", finding.subject.name, finding.subject.does),
            mebibytes(finding.native_peak),
            packed,
            unevictable,
            mebibytes(finding.budget),
            share,
            of_managed(finding, |m| mebibytes(m.peak)),
            of_managed(finding, |m| mebibytes(m.held)),
            of_managed(finding, |m| counted(m, "evictions")),
            of_managed(finding, |m| counted(m, "faults")),
            format!("{:.1} s", finding.native_seconds),
            of_managed(finding, |m| format!("{:.1} s", m.done.seconds)),
            verdict(finding),
        ]);
    }
    if !chaos.is_empty() {
        out += "\n| under random eviction | pages | evictions | a page | faults | time, native | coldpress | verdict |\n";
        out += "|---|---|---|---|---|---|---|---|\n";
    }
    for finding in chaos {
        out += &row(&[
            format!("{}: {}", finding.subject.name, finding.subject.does),
            of_managed(finding, |m| counted(m, "tracked_pages")),
            of_managed(finding, |m| counted(m, "evictions")),
            of_managed(finding, |m| {
                let a_page = m.done.statistics.as_ref().and_then(chaos::evictions_a_page);
                a_page.map_or("–".into(), |n| format!("{n:.1}"))
            }),
            of_managed(finding, |m| counted(m, "faults")),
            format!("{:.1} s", finding.native_seconds),
            of_managed(finding, |m| format!("{:.1} s", m.done.seconds)),
            verdict(finding),
        ]);
    }
    out += "\nMemory in MiB: private anonymous memory of the process, the pager's included, looked at every 5 ms.\n\
            The budget is 1.15 times what `eval` says, and what cannot be managed.\n";
    out
}

fn of_managed(finding: &Finding, show: impl Fn(&Managed) -> String) -> String {
    finding.managed.as_ref().map_or("–".into(), show)
}

fn verdict(finding: &Finding) -> String {
    let good = if finding.subject.is_chaos {
        "passes"
    } else {
        "identical"
    };
    if finding.complaints.is_empty() {
        good
    } else {
        "**FAILED**"
    }
    .to_owned()
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// All figures.
pub fn json(findings: &[Finding]) -> Value {
    let rows = findings.iter().map(|finding| {
        json!({
            "program": finding.subject.name,
            "native_seconds": finding.native_seconds,
            "native_peak_bytes": finding.native_peak,
            "need": finding.need.map(|need| json!({
                "packed_bytes": need.packed, "unevictable_bytes": need.unevictable,
            })),
            "budget_bytes": finding.budget,
            "managed": finding.managed.as_ref().map(|managed| json!({
                "seconds": managed.done.seconds,
                "peak_bytes": managed.peak,
                "held_mean_bytes": managed.held,
                "statistics": managed.done.statistics.as_ref().map(|Statistics(value)| value.clone()),
                "figures": managed.done.figures.iter()
                    .map(|figure| (figure.name.to_owned(), json!(figure.value)))
                    .collect::<serde_json::Map<_, _>>(),
            })),
            "complaints": finding.complaints,
        })
    });
    Value::Array(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::SUBJECTS;

    #[test]
    fn every_row_has_the_cells_of_its_table() {
        let findings: Vec<_> = SUBJECTS
            .iter()
            .map(|subject| Finding::failed(subject, "no".into()))
            .collect();
        let text = markdown(&findings);
        for table in text.split("\n\n") {
            let rows = table.lines().filter(|line| line.starts_with('|'));
            let cells: Vec<_> = rows.map(|row| row.matches('|').count()).collect();
            assert!(cells.iter().all(|&n| n == cells[0]), "{table}");
        }
        assert_eq!(text.matches("**FAILED**").count(), SUBJECTS.len());
        assert_eq!(json(&findings).as_array().unwrap().len(), SUBJECTS.len());
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(mebibytes(3 << 19), "1.5");
    }
}
