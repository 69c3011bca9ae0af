//! Tables and JSON of both measurements.

use super::ageing::{Aged, PHASES, Phase};
use super::holder::Memory;
use super::iops::{KINDS, LOADS, Loaded, Run};
use coldpress_harness::figures::median;
use coldpress_harness::text::{Table, mib, thousands, time};
use serde_json::{Value, json};

fn memory(bytes: Option<u64>) -> String {
    bytes.map_or("–".to_owned(), mib)
}

/// Medians over the iterations, and by how much the last third of the iterations differs from the first.
pub fn aged(all: &[Aged]) -> Table {
    let mut headings = vec!["disk".to_owned()];
    headings.extend(PHASES.iter().map(|phase| format!("{phase} MiB/s")));
    headings.extend(["fill p99", "randwrite p99", "randread p99"].map(str::to_owned));
    headings.extend(["last third", "told", "process"].map(str::to_owned));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for aged in all {
        let of = |phase, figure: fn(&Phase) -> f64| median(&aged.over(phase, figure));
        let mut cells = vec![aged.name.clone()];
        let rates = (0..PHASES.len()).map(|phase| of(phase, |phase| phase.bytes_per_second));
        cells.extend(rates.map(|rate| format!("{:.1}", rate / f64::from(1 << 20))));
        cells.extend([0, 2, 4].map(|phase| time(of(phase, |phase| phase.p99_ns))));
        cells.push(drift(&aged.over(0, |phase| phase.bytes_per_second)));
        cells.extend([memory(aged.memory.told), memory(aged.memory.resident)]);
        table.row(&cells);
    }
    table
}

/// By how much the median of the last third is above that of the first.
fn drift(values: &[f64]) -> String {
    let third = values.len() / 3;
    if third == 0 {
        return "–".to_owned();
    }
    let (first, last) = (&values[..third], &values[values.len() - third..]);
    format!("{:+.0} %", (median(last) / median(first) - 1.0) * 100.0)
}

/// Requests a second and p99, medians over the rounds.
pub fn iops(all: &[Loaded]) -> Table {
    let mut headings = vec!["disk".to_owned()];
    for kind in KINDS {
        for (clients, depth) in LOADS {
            headings.push(format!("{kind} {clients}×{depth}"));
            headings.push("p99".to_owned());
        }
        headings.push("CPU".to_owned());
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for loaded in all {
        let mut cells = vec![loaded.name.clone()];
        for kind in 0..KINDS.len() {
            for load in 0..LOADS.len() {
                cells.push(thousands(loaded.median(kind, load, |run| run.iops) as u64));
                cells.push(time(loaded.median(kind, load, |run| run.p99_ns)));
            }
            let last = LOADS.len() - 1;
            cells.push(
                match loaded.runs[kind][last].first().map(|run| run.cpu_ns) {
                    Some(Some(_)) => {
                        time(loaded.median(kind, last, |run| run.cpu_ns.unwrap_or(0.0)))
                    }
                    _ => "–".to_owned(),
                },
            );
        }
        table.row(&cells);
    }
    table
}

/// How many times the requests a second of `base` each other has.
pub fn ratios(all: &[Loaded], base: &str) -> Option<Table> {
    against(all, base, "IOPS ×", |of, base| {
        of(&|run| run.iops) / base(&|run| run.iops).max(1.0)
    })
}

/// How many times the p99 of each other is in that of `base`: more is better, as for requests a second.
pub fn p99_ratios(all: &[Loaded], base: &str) -> Option<Table> {
    against(all, base, "p99 ÷", |of, base| {
        base(&|run| run.p99_ns) / of(&|run| run.p99_ns).max(1.0)
    })
}

/// The median of a figure of a run.
type Medians<'a> = &'a dyn Fn(&dyn Fn(&Run) -> f64) -> f64;

/// Holds all others against `base`, for each kind and load.
fn against(
    all: &[Loaded],
    base: &str,
    what: &str,
    ratio: impl Fn(Medians<'_>, Medians<'_>) -> f64,
) -> Option<Table> {
    let base = all.iter().find(|loaded| loaded.name == base)?;
    let mut headings = vec![format!("{what} {}", base.name)];
    for kind in KINDS {
        let loads = LOADS.iter();
        headings.extend(loads.map(|(clients, depth)| format!("{kind} {clients}×{depth}")));
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for loaded in all.iter().filter(|loaded| loaded.name != base.name) {
        let mut cells = vec![loaded.name.clone()];
        for kind in 0..KINDS.len() {
            let ratio = |load| {
                ratio(&|figure| loaded.median(kind, load, figure), &|figure| {
                    base.median(kind, load, figure)
                })
            };
            cells.extend((0..LOADS.len()).map(|load| format!("{:.2}", ratio(load))));
        }
        table.row(&cells);
    }
    Some(table)
}

/// What the image takes.
pub fn held(all: &[Loaded]) -> Table {
    let mut table = Table::new(&["disk", "told", "process", "recompressed", "process", "s"]);
    for loaded in all {
        let after = loaded.recompressed.unwrap_or_default();
        table.row(&[
            loaded.name.clone(),
            memory(loaded.memory.told),
            memory(loaded.memory.resident),
            memory(after.told),
            memory(after.resident),
            loaded
                .recompression_seconds
                .map_or("–".to_owned(), |seconds| format!("{seconds:.0}")),
        ]);
    }
    table
}

fn memory_json(memory: Memory) -> Value {
    json!({ "told_bytes": memory.told, "resident_bytes": memory.resident })
}

/// All iterations.
pub fn aged_json(all: &[Aged]) -> Value {
    let phase = |(name, phase): (&&str, &Phase)| {
        let figures = json!({
            "bytes_per_second": phase.bytes_per_second,
            "mean_ns": phase.mean_ns, "p99_ns": phase.p99_ns,
        });
        ((*name).to_owned(), figures)
    };
    let disks = all.iter().map(|aged| {
        let iterations = aged.iterations.iter();
        let iterations = iterations.map(|phases| {
            let phases = PHASES.iter().zip(phases).map(phase);
            Value::Object(phases.collect())
        });
        json!({
            "disk": aged.name, "memory": memory_json(aged.memory),
            "iterations": iterations.collect::<Vec<_>>(),
        })
    });
    disks.collect()
}

/// All runs.
pub fn iops_json(all: &[Loaded]) -> Value {
    let disks = all.iter().map(|loaded| {
        let mut runs = Vec::new();
        for (kind, of_kind) in KINDS.iter().zip(&loaded.runs) {
            for ((clients, depth), of_load) in LOADS.iter().zip(of_kind) {
                runs.extend(of_load.iter().enumerate().map(|(round, run)| {
                    json!({
                        "kind": kind, "clients": clients, "depth": depth, "round": round + 1,
                        "iops": run.iops, "p99_ns": run.p99_ns, "cpu_ns": run.cpu_ns,
                    })
                }));
            }
        }
        json!({
            "disk": loaded.name, "memory": memory_json(loaded.memory),
            "recompressed": loaded.recompressed.map(memory_json),
            "recompression_seconds": loaded.recompression_seconds, "runs": runs,
        })
    });
    disks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(name: &str, iops: f64) -> Loaded {
        let run = Run {
            iops,
            p99_ns: 600_000.0 / iops,
            cpu_ns: Some(500.0),
        };
        Loaded {
            name: name.to_owned(),
            memory: Memory {
                told: Some(3 << 20),
                resident: None,
            },
            recompressed: None,
            recompression_seconds: None,
            runs: std::array::from_fn(|_| std::array::from_fn(|_| vec![run, run])),
        }
    }

    #[test]
    fn ratios_are_to_the_base() {
        let all = [loaded("a", 300.0), loaded("b", 100.0)];
        let table = ratios(&all, "b").unwrap().to_string();
        assert!(table.contains("3.00") && !table.contains("1.00"), "{table}");
        assert!(ratios(&all, "c").is_none());
        let table = p99_ratios(&all, "b").unwrap().to_string();
        assert!(table.contains("3.00") && !table.contains("0.33"), "{table}");
        let table = iops(&all).to_string();
        assert!(
            table.contains("2.00 µs") && table.contains("500 ns"),
            "{table}"
        );
        assert!(held(&all).to_string().contains("3.0 MiB"));
        assert_eq!(iops_json(&all)[0]["runs"].as_array().unwrap().len(), 12);
    }

    #[test]
    fn the_last_third_is_held_against_the_first() {
        assert_eq!(drift(&[100.0, 50.0, 110.0]), "+10 %");
        assert_eq!(drift(&[1.0, 2.0]), "–");
        let phase = Phase {
            bytes_per_second: 3.0 * f64::from(1 << 20),
            mean_ns: 1e6,
            p99_ns: 2e6,
        };
        let all = [Aged {
            name: "x".into(),
            iterations: vec![[phase; PHASES.len()]; 3],
            memory: Memory::default(),
        }];
        let table = aged(&all).to_string();
        assert!(
            table.contains("3.0") && table.contains("2.00 ms"),
            "{table}"
        );
        assert_eq!(aged_json(&all)[0]["iterations"][2]["fill"]["p99_ns"], 2e6);
    }
}
