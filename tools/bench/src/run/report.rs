//! The tables of the comparison and the JSON.

use super::Finding;
use super::sides::Round;
pub use crate::report::Series;
use coldpress_harness::figures::median_if_any;
use coldpress_harness::text::{mib, thousands, time};
use serde_json::{Value, json};
use std::fmt::Write;

/// By how much memory held may differ before the report says so, as a share.
const UNEQUAL: f64 = 0.03;

impl Finding {
    fn of(&self, series: Series) -> impl Iterator<Item = &Round> {
        let rounds = self.rounds.iter().filter(move |(s, _)| *s == series);
        rounds.map(|(_, round)| round)
    }

    fn median(&self, series: Series, value: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        median_if_any(&self.of(series).filter_map(value).collect::<Vec<_>>())
    }
}

/// What of a row is better.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
    Neither,
}

/// One table a workload, medians over the rounds; the last column says who is ahead.
pub fn markdown(findings: &[Finding], rounds: u64) -> String {
    let mut out = String::new();
    for finding in findings {
        out += &table(finding);
    }
    // Writing to a string cannot fail.
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let _ = writeln!(
        out,
        "Medians of {rounds} interleaved round(s) on {processors} CPUs, no thread pinned but coldpress's own fault handlers (one to each CPU). \
         Held: pages, storage or pool, and swap cache; 95 of 100 samples are below. Reclaim a page out: CPU of the reclaim thread by \
         evictions (coldpress; what restoring and handling costs is not in it), time between the tracepoints of memcg reclaim by \
         pswpout (zram). CPU beyond native: all threads of all processes of the run, less the native run's, by out-and-in cycle; \
         the work is the same. Not in what zram holds: its table and the swap map."
    );
    out
}

/// The table of a workload, which grows row by row.
struct Rows<'a> {
    finding: &'a Finding,
    out: String,
}

impl Rows<'_> {
    /// Adds the medians of `value` on each side, as `show` shows them; nothing where no side has one.
    fn row(
        &mut self,
        name: &str,
        better: Better,
        show: &dyn Fn(f64) -> String,
        value: &dyn Fn(&Round) -> Option<f64>,
    ) {
        let medians = Series::ALL.map(|series| self.finding.median(series, value));
        if medians.iter().all(Option::is_none) {
            return;
        }
        let cells = medians.map(|median| median.map_or("–".to_owned(), show));
        let ahead = ahead(better, medians[1], medians[2]);
        self.out += &format!("| {name} | {} | {ahead} |\n", cells.join(" | "));
    }

    /// What the program or its client measured.
    fn figures(&mut self) {
        let mut names: Vec<(&'static str, bool)> = Vec::new();
        let rounds = self.finding.rounds.iter();
        for figure in rounds.flat_map(|(_, round)| &round.figures) {
            if names.iter().all(|(name, _)| *name != figure.name) {
                names.push((figure.name, figure.is_rate));
            }
        }
        for (name, is_rate) in names {
            let show = |v: f64| match is_rate {
                true => thousands(v as u64),
                false => format!("{v:.1}"),
            };
            let better = if is_rate { Better::More } else { Better::Less };
            self.row(name, better, &show, &|round| {
                let figure = round.figures.iter().find(|figure| figure.name == name);
                figure.map(|figure| figure.value)
            });
        }
    }

    /// Time, memory held, and pages that went either way.
    fn totals(&mut self) {
        let finding = self.finding;
        let of_work = |seconds: f64| of_work(finding, seconds);
        let seconds = |v: f64| format!("{v:.1} s");
        let bytes = |v: f64| mib(v as u64);
        let count = |v: f64| thousands(v as u64);
        let some_pages = |pages: u64| (pages > 0).then_some(pages as f64);
        self.row("time", Better::Less, &seconds, &|r| of_work(r.seconds));
        self.row("CPU", Better::Less, &seconds, &|r| of_work(r.cpu_seconds));
        self.row("held", Better::Neither, &bytes, &|r| Some(r.held));
        self.row("held, peak", Better::Neither, &bytes, &|r| {
            Some(r.held_peak)
        });
        self.row("resident", Better::Neither, &bytes, &|r| Some(r.resident));
        self.row("pages out", Better::Neither, &count, &|r| {
            some_pages(r.pages_out)
        });
        self.row("pages in", Better::Neither, &count, &|r| {
            some_pages(r.pages_in)
        });
    }

    /// What a page costs that goes out, and one that comes in.
    fn costs(&mut self) {
        let finding = self.finding;
        self.row(
            "reclaim a page out",
            Better::Less,
            &time,
            &Round::reclaim_a_page,
        );
        let native = finding.median(Series::Native, |r| Some(r.cpu_seconds));
        self.row("CPU beyond native, a cycle", Better::Less, &time, &|r| {
            let cycles = (r.pages_in + r.pages_out) as f64 / 2.0;
            let beyond = of_work(finding, r.cpu_seconds)? - native?;
            (cycles > 0.0).then_some(beyond.max(0.0) * 1e9 / cycles)
        });
        for name in ["p50", "p99"] {
            let heading = format!("fault service {name} (pager's own)");
            let service = |r: &Round| service_ns(r, name);
            self.row(&heading, Better::Neither, &time, &service);
        }
    }
}

/// Seconds of work; `None` for the toucher, which touches for a fixed time: neither that nor its CPU time says anything.
fn of_work(finding: &Finding, seconds: f64) -> Option<f64> {
    (finding.name != super::TOUCHES).then_some(seconds)
}

fn table(finding: &Finding) -> String {
    let mut rows = Rows {
        finding,
        out: format!(
            "| {} | native | coldpress | zram | ahead |\n|---|---|---|---|---|\n",
            finding.name
        ),
    };
    rows.figures();
    rows.totals();
    rows.costs();
    let mut out = rows.out;
    out.push('\n');
    notes(finding, &mut out);
    out
}

/// A percentile of the pager's histogram of service times.
fn service_ns(round: &Round, name: &str) -> Option<f64> {
    let statistics = &round.statistics.as_ref()?.0;
    let keys = [format!("fault_service_{name}_ns"), format!("{name}_ns")];
    let nested = &statistics["fault_service"];
    keys.iter()
        .find_map(|key| statistics[key].as_f64().or(nested[key].as_f64()))
}

fn ahead(better: Better, coldpress: Option<f64>, zram: Option<f64>) -> String {
    let (Some(ours), Some(theirs)) = (coldpress, zram) else {
        return String::new();
    };
    let factor = match better {
        Better::More => ours / theirs,
        Better::Less => theirs / ours,
        Better::Neither => return String::new(),
    };
    match factor {
        f if !f.is_finite() || f <= 0.0 => String::new(),
        f if f >= 1.0 => format!("coldpress {f:.2} ×"),
        f => format!("**zram {:.2} ×**", 1.0 / f),
    }
}

fn notes(finding: &Finding, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "native {} · budget {} · wanted of both {} · cgroup limit {}",
        mib(finding.native_bytes as u64),
        mib(finding.budget_bytes),
        mib(finding.target_bytes as u64),
        mib(finding.limit_bytes)
    );
    for series in Series::ALL {
        let mut sums: Vec<u64> = Vec::new();
        for round in finding.of(series) {
            sums.resize(sums.len().max(round.processors.len()), 0);
            for (sum, samples) in sums.iter_mut().zip(&round.processors) {
                *sum += samples;
            }
        }
        let all = sums.iter().sum::<u64>().max(1);
        let shares = sums
            .iter()
            .enumerate()
            .map(|(cpu, &n)| format!("CPU {cpu}: {} %", n * 100 / all));
        let shares: Vec<_> = shares.collect();
        if !shares.is_empty() {
            let _ = writeln!(out, "main thread, {}: {}", series.name(), shares.join(", "));
        }
    }
    let held = |series| finding.median(series, |r| Some(r.held));
    if finding.name != super::LOADING
        && let (Some(ours), Some(theirs)) = (held(Series::Coldpress), held(Series::Zram))
        && (ours / theirs - 1.0).abs() > UNEQUAL
    {
        let _ = writeln!(
            out,
            "UNEQUAL: coldpress held {:+.1} % against what zram held; whoever held more is flattered.",
            100.0 * (ours / theirs - 1.0)
        );
    }
    if finding.kills > 0 && finding.name != super::LOADING {
        let _ = writeln!(
            out,
            "The kernel's OOM killer ended {} zram run(s), calibration included; they were repeated and are not in the figures.",
            finding.kills
        );
    }
    for note in &finding.notes {
        let _ = writeln!(out, "{note}");
    }
    out.push('\n');
}

/// All rounds.
pub fn json(findings: &[Finding]) -> Value {
    let one = |(series, round): &(Series, Round)| {
        let figures = round
            .figures
            .iter()
            .map(|f| (f.name.to_owned(), json!(f.value)));
        json!({
            "side": series.name(), "seconds": round.seconds, "cpu_seconds": round.cpu_seconds,
            "figures": figures.collect::<serde_json::Map<_, _>>(),
            "held_bytes": round.held, "held_peak_bytes": round.held_peak, "resident_bytes": round.resident,
            "pages_in": round.pages_in, "pages_out": round.pages_out,
            "reclaim_seconds": round.reclaim_seconds,
            "statistics": round.statistics.as_ref().map(|s| s.0.clone()),
            "samples_by_cpu": round.processors,
        })
    };
    let rows = findings.iter().map(|finding| {
        json!({
            "workload": finding.name,
            "native_bytes": finding.native_bytes,
            "budget_bytes": finding.budget_bytes,
            "target_bytes": finding.target_bytes,
            "cgroup_limit_bytes": finding.limit_bytes,
            "zram_oom_kills": finding.kills,
            "notes": finding.notes,
            "rounds": finding.rounds.iter().map(one).collect::<Vec<_>>(),
        })
    });
    Value::Array(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_ahead_is_said_either_way() {
        assert_eq!(
            ahead(Better::More, Some(2.0), Some(1.0)),
            "coldpress 2.00 ×"
        );
        assert_eq!(ahead(Better::Less, Some(2.0), Some(1.0)), "**zram 2.00 ×**");
        assert_eq!(ahead(Better::Neither, Some(2.0), Some(1.0)), "");
        assert_eq!(ahead(Better::More, None, Some(1.0)), "");
    }

    #[test]
    fn sides_without_rounds_are_dashes() {
        let round = Round {
            seconds: 2.0,
            ..Round::default()
        };
        let finding = Finding {
            name: "x",
            native_bytes: 0.0,
            budget_bytes: 0,
            target_bytes: 0.0,
            limit_bytes: 0,
            kills: 0,
            rounds: vec![(Series::Native, round)],
            notes: vec![],
        };
        let text = table(&finding);
        assert!(text.contains("| time | 2.0 s | – | – |  |"), "{text}");
        assert!(!text.contains("reclaim"), "{text}");
    }
}
