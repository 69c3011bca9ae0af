//! The table of the comparison, its remarks, and its JSON.

use crate::pages::{Program, Round};
use coldpress_harness::figures::median_if_any;
use coldpress_harness::text::{Table, mib, thousands, time};
use serde_json::{Value, json};
use std::fmt::Write;

/// Where a round took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// As it is.
    Native,
    /// Under `coldpress run`.
    Coldpress,
    /// In a cgroup, with swap on zram.
    Zram,
}

impl Series {
    /// All of them, in the order of the columns and of the turns.
    pub const ALL: [Series; 3] = [Series::Native, Series::Coldpress, Series::Zram];

    /// Heading of the column.
    pub fn name(self) -> &'static str {
        match self {
            Series::Native => "native",
            Series::Coldpress => "coldpress",
            Series::Zram => "zram",
        }
    }
}

/// Everything the comparison found.
pub struct Findings {
    parameters: Value,
    threshold_ns: u64,
    budget_percent: u64,
    /// Resident memory of the program on its own, in bytes.
    pub native_bytes: u64,
    /// Budget given to coldpress, in bytes.
    pub budget_bytes: u64,
    /// What coldpress was seen to hold, which zram shall hold too, in bytes.
    pub target_bytes: u64,
    /// Limit of the cgroup that led there, in bytes.
    pub limit_bytes: u64,
    /// Runs under the limit that the kernel's OOM killer ended, and that were repeated.
    pub kills: u32,
    /// All counted rounds.
    pub rounds: Vec<(Series, Round)>,
    /// What could not be measured, and why.
    pub skipped: Vec<String>,
}

impl Findings {
    /// Nothing found yet.
    pub fn new(program: &Program, budget_percent: u64) -> Findings {
        Findings {
            parameters: json!({
                "mebibytes": program.mebibytes, "seconds": program.seconds,
                "seed": program.seed, "threshold_ns": program.threshold_ns,
                "budget_percent": budget_percent,
            }),
            threshold_ns: program.threshold_ns,
            budget_percent,
            native_bytes: 0,
            budget_bytes: 0,
            target_bytes: 0,
            limit_bytes: 0,
            kills: 0,
            rounds: Vec::new(),
            skipped: Vec::new(),
        }
    }

    fn of(&self, series: Series) -> Vec<&Round> {
        let rounds = self.rounds.iter().filter(|(s, _)| *s == series);
        rounds.map(|(_, round)| round).collect()
    }

    /// Median of `value` over the rounds of `series`; `None` where it has no rounds or the
    /// value does not exist there.
    fn median(&self, series: Series, value: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.of(series).into_iter().filter_map(value).collect();
        median_if_any(&values)
    }
}

fn some_if(condition: bool, value: f64) -> Option<f64> {
    condition.then_some(value)
}

/// CPU time of an out-and-in cycle in ns, where there were cycles.
fn cycle_cpu(round: &Round, seconds: f64) -> Option<f64> {
    some_if(round.cycles() > 0.0, seconds * 1e9 / round.cycles())
}

/// A gauge of the pager's statistics.
fn gauge(round: &Round, name: &str) -> Option<f64> {
    Some(round.statistics.as_ref()?.get(name)? as f64)
}

/// Storage beyond the compressed data: fragmentation, headers, idle frames.
fn beside_payload(round: &Round) -> Option<f64> {
    Some(gauge(round, "storage_bytes")? - gauge(round, "payload_bytes")?)
}

/// The pager's memory, or the pool's, beyond the compressed data.
fn overhead(round: &Round) -> Option<f64> {
    match round.pool {
        Some(pool) => Some(pool.used as f64 - pool.compressed as f64),
        None => Some(gauge(round, "overhead_bytes")? + beside_payload(round)?),
    }
}

/// By how much memory held may differ before the report says so, as a share.
const UNEQUAL: f64 = 0.02;

/// The table of medians, which grows row by row.
struct Medians<'a> {
    findings: &'a Findings,
    table: Table,
}

impl Medians<'_> {
    /// Adds the medians of `value` in each place, as `show` shows them.
    fn row(
        &mut self,
        name: &str,
        show: &dyn Fn(f64) -> String,
        value: &dyn Fn(&Round) -> Option<f64>,
    ) {
        let mut cells = vec![name.to_owned()];
        for series in Series::ALL {
            let median = self.findings.median(series, value);
            cells.push(median.map_or("–".to_owned(), show));
        }
        self.table.row(&cells);
    }

    /// Touches, and those of them that met a fault.
    fn touches(&mut self) {
        let native = self.findings.median(Series::Native, |r| Some(r.rate()));
        self.row("touches/s", &count, &|r| Some(r.rate()));
        self.row(
            "  against native",
            &|v| format!("{:.2} %", 100.0 * v),
            &|r| Some(r.rate() / native?),
        );
        self.row("slow touches (faults)", &count, &|r| Some(r.slow));
        self.row("  p50", &time, &|r| some_if(r.slow > 0.0, r.p50_ns));
        self.row("  p99", &time, &|r| some_if(r.slow > 0.0, r.p99_ns));
        self.row("  mean", &time, &|r| some_if(r.slow > 0.0, r.mean_ns));
        self.row("pages in", &count, &|r| {
            some_if(r.cycles() > 0.0, r.pages_in)
        });
        self.row("pages out", &count, &|r| {
            some_if(r.cycles() > 0.0, r.pages_out)
        });
    }

    /// CPU time, in all and for each of what it was spent on.
    fn cpu(&mut self) {
        // What a touch costs when nothing is ever cold.
        let native = |r: &Round| Some(r.cpu() / r.touches);
        let touch = self.findings.median(Series::Native, native);
        let net = |r: &Round| Some(r.cpu() - touch? * r.touches);
        self.row("CPU of the phase, user", &seconds, &|r| {
            Some(r.user_seconds)
        });
        self.row("CPU of the phase, kernel", &seconds, &|r| {
            Some(r.system_seconds)
        });
        self.row("CPU an out-and-in cycle", &time, &|r| cycle_cpu(r, r.cpu()));
        self.row("  less native touching", &time, &|r| cycle_cpu(r, net(r)?));
        self.row("CPU a slow touch", &time, &|r| {
            some_if(r.slow > 0.0 && r.cycles() > 0.0, r.cpu() * 1e9 / r.slow)
        });
        self.row("CPU a touch", &time, &|r| Some(r.cpu() * 1e9 / r.touches));
    }

    /// Memory held, and what it is made of.
    fn memory(&mut self) {
        let bytes = |v: f64| mib(v as u64);
        self.row("held in all, mean", &bytes, &|r| Some(r.held_mean));
        self.row("held in all, peak", &bytes, &|r| Some(r.held_peak));
        self.row("  RssAnon, mean", &bytes, &|r| Some(r.resident_mean));
        self.row("  storage or pool", &bytes, &|r| match r.pool {
            Some(pool) => Some(pool.used as f64),
            None => gauge(r, "storage_bytes"),
        });
        self.row("  compressed data in it", &bytes, &|r| match r.pool {
            Some(pool) => Some(pool.compressed as f64),
            None => gauge(r, "payload_bytes"),
        });
        self.row("  overhead in all", &bytes, &overhead);
        self.row("    fragmentation", &bytes, &|r| match r.pool {
            Some(_) => overhead(r),
            None => beside_payload(r),
        });
        self.row("    pager's own", &bytes, &|r| gauge(r, "overhead_bytes"));
        self.row("held in all, peak of filling", &bytes, &|r| {
            Some(r.filling_peak)
        });
    }

    /// What remains: filling, migrations, and whether contents were right.
    fn others(&mut self) {
        self.row("filling", &seconds, &|r| Some(r.fill_seconds));
        self.row("migrations between CPUs", &count, &|r| {
            Some(r.placement.2 as f64)
        });
        self.row("wrong contents", &count, &|r| Some(r.wrong as f64));
    }
}

fn count(value: f64) -> String {
    thousands(value as u64)
}

fn seconds(value: f64) -> String {
    format!("{value:.2} s")
}

/// The report for people.
pub fn text(findings: &Findings) -> String {
    let mut medians = Medians {
        findings,
        table: Table::new(&["medians", "native", "coldpress", "zram"]),
    };
    medians.touches();
    medians.cpu();
    medians.memory();
    medians.others();
    let mut out = format!("\n{}\n", medians.table);
    remarks(findings, &mut out);
    out
}

fn remarks(findings: &Findings, out: &mut String) {
    // Writing to a string cannot fail.
    for series in Series::ALL {
        let rounds = findings.of(series);
        let places = rounds
            .iter()
            .map(|r| format!("{}→{}", r.placement.0, r.placement.1));
        let places: Vec<_> = places.collect();
        if !places.is_empty() {
            let _ = writeln!(
                out,
                "CPU at the start → end, {}: {}",
                series.name(),
                places.join(", ")
            );
        }
    }
    let _ = writeln!(
        out,
        "native {} · budget {} % = {} · wanted of both {} · cgroup limit {}",
        mib(findings.native_bytes),
        findings.budget_percent,
        mib(findings.budget_bytes),
        mib(findings.target_bytes),
        mib(findings.limit_bytes)
    );
    let _ = writeln!(
        out,
        "A slow touch is one of more than {} ns as the program sees it, interruptions by other\n\
         threads included. Cycles: half of pages in + pages out (zram: pswpin, pswpout; coldpress:\n\
         its statistics). CPU is that of all threads of the process: the pager's threads are in it;\n\
         so is the kernel's reclaim of a cgroup, which runs in the process; kswapd would not be, but\n\
         has nothing to do here. Not in what zram holds: its table (disk size / 4096 entries) and\n\
         the swap map. Touches are uniformly random: nothing is hot, and choosing well gains nothing.",
        findings.threshold_ns
    );
    let held = |series| findings.median(series, |r| Some(r.held_mean));
    if let (Some(ours), Some(kernels)) = (held(Series::Coldpress), held(Series::Zram))
        && (ours / kernels - 1.0).abs() > UNEQUAL
    {
        let _ = writeln!(
            out,
            "UNEQUAL: coldpress held {:+.1} % against what zram held: this is no comparison at the same\n\
             memory, and whoever held more is flattered by it.",
            100.0 * (ours / kernels - 1.0)
        );
    }
    let peak = findings.median(Series::Coldpress, |r| Some(r.held_peak.max(r.filling_peak)));
    if let Some(peak) = peak.filter(|&peak| peak > findings.budget_bytes as f64 * (1.0 + UNEQUAL)) {
        let _ = writeln!(
            out,
            "OVER BUDGET: coldpress held up to {} under a budget of {}.",
            mib(peak as u64),
            mib(findings.budget_bytes)
        );
    }
    if findings.kills > 0 {
        let _ = writeln!(
            out,
            "zram: the kernel's OOM killer ended {} run(s), calibration included, with swap space\n\
             free; they were repeated and are not in the figures.",
            findings.kills
        );
    }
    for line in &findings.skipped {
        let _ = writeln!(out, "{line}");
    }
}

/// The report for programs.
pub fn json(findings: &Findings) -> Value {
    let rounds = findings.rounds.iter();
    let rounds =
        rounds.map(|(series, round)| json!({"place": series.name(), "figures": round.json()}));
    json!({
        "parameters": findings.parameters,
        "native_bytes": findings.native_bytes,
        "budget_bytes": findings.budget_bytes,
        "target_bytes": findings.target_bytes,
        "cgroup_limit_bytes": findings.limit_bytes,
        "zram_oom_kills": findings.kills,
        "rounds": rounds.collect::<Vec<_>>(),
        "skipped": findings.skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_places_show_as_dashes() {
        let program = Program {
            path: "".into(),
            mebibytes: 1,
            seconds: 1.0,
            seed: 1,
            threshold_ns: 1000,
        };
        let mut findings = Findings::new(&program, 65);
        let round = Round {
            touches: 100.0,
            seconds: 2.0,
            ..Round::default()
        };
        findings.rounds.push((Series::Native, round));
        let text = text(&findings);
        let line = text.lines().find(|l| l.starts_with("touches/s")).unwrap();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>(),
            ["touches/s", "50", "–", "–"]
        );
    }
}
