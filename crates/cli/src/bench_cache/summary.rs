//! Medians of all rounds, by size taken and kind.

use super::bars::{self, Verdict};
use super::child::Run;
use super::content::Described;
use super::plan::Plan;
use super::scenario::Measured;
use serde::Serialize;
use serde_json::Value;

/// Everything that is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub machine: Machine,
    pub scale: Scale,
    pub entries: Described,
    pub sizes: Vec<Size>,
}

/// Where it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub processor: String,
    pub processors: u64,
    pub kernel: String,
    /// Swap space of the machine.
    pub swap_bytes: u64,
    /// Programs that wanted to run, on average over the last minute, when all was done.
    pub load: String,
}

/// How large everything was.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scale {
    pub capacity_bytes: u64,
    pub hot_bytes: u64,
    pub cold_bytes: u64,
    pub limit_bytes: u64,
    pub compressed_bytes: u64,
    pub rounds: u64,
}

/// What was measured while so much was taken.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    pub reclaim_bytes: u64,
    pub rows: Vec<Row>,
    pub verdicts: Vec<Verdict>,
}

/// One kind.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub kind: &'static str,
    /// Rounds that ended for want of memory.
    pub killed: usize,
    /// Medians of the others.
    pub median: Option<Measured>,
}

impl Summary {
    /// Of all `runs`.
    pub fn new(plan: &Plan, entries: Described, runs: &[Run]) -> Summary {
        let scale = Scale {
            capacity_bytes: plan.capacity_bytes,
            hot_bytes: plan.hot_bytes,
            cold_bytes: plan.cold_bytes,
            limit_bytes: plan.limit_bytes,
            compressed_bytes: plan.compressed_bytes,
            rounds: plan.rounds,
        };
        let size = |&reclaim_bytes: &u64| {
            let row = |kind: &super::kind::Kind| {
                let of = |run: &&Run| run.kind == kind.name() && run.reclaim_bytes == reclaim_bytes;
                let runs: Vec<&Run> = runs.iter().filter(of).collect();
                let measured: Vec<Measured> = runs.iter().filter_map(|run| run.measured).collect();
                Row {
                    kind: kind.name(),
                    killed: runs.len() - measured.len(),
                    median: median(&measured),
                }
            };
            let rows: Vec<Row> = plan.kinds.iter().map(row).collect();
            Size {
                reclaim_bytes,
                verdicts: bars::verdicts(&rows, &scale),
                rows,
            }
        };
        Summary {
            machine: Machine::look(),
            scale,
            entries,
            sizes: plan.reclaim_bytes.iter().map(size).collect(),
        }
    }
}

impl Scale {
    /// The largest share of the cold set that fits into `room_bytes` beside the hot set.
    pub fn bound(&self, room_bytes: u64) -> f64 {
        let left = room_bytes.saturating_sub(self.hot_bytes);
        (left as f64 / self.cold_bytes as f64).min(1.0)
    }
}

impl Machine {
    fn look() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let first = |text: &str| text.split_whitespace().next().unwrap_or("?").to_owned();
        let cpuinfo = read("/proc/cpuinfo");
        let field = |key: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        Machine {
            processor: field("model name").unwrap_or_else(|| "an unknown processor".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            swap_bytes: swap_bytes(&read("/proc/swaps")),
            load: first(&read("/proc/loadavg")),
        }
    }
}

/// Sum of the sizes in the text of `/proc/swaps`, which gives KiB in the third column.
fn swap_bytes(swaps: &str) -> u64 {
    let sizes = swaps.lines().skip(1).filter_map(|line| {
        let size: u64 = line.split_whitespace().nth(2)?.parse().ok()?;
        Some(size * 1024)
    });
    sizes.sum()
}

/// The median of each figure by itself; the upper of two.
fn median(all: &[Measured]) -> Option<Measured> {
    let values: Vec<Value> = all.iter().map(|one| serde_json::json!(one)).collect();
    let median = median_value(&values.iter().collect::<Vec<_>>())?;
    serde_json::from_value(median).ok()
}

fn median_value(values: &[&Value]) -> Option<Value> {
    if let Value::Object(fields) = values.first()? {
        let field = |key: &String| {
            let of_all: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
            Some((key.clone(), median_value(&of_all)?))
        };
        return fields
            .keys()
            .map(field)
            .collect::<Option<_>>()
            .map(Value::Object);
    }
    let mut numbers: Vec<u64> = values.iter().filter_map(|value| value.as_u64()).collect();
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).map(|&number| number.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_cache::scenario::Pass;

    #[test]
    fn medians_are_of_each_figure_by_itself() {
        let measured = |hits, reclaim_ns| Measured {
            hot_after: Pass {
                hits,
                ..Pass::default()
            },
            reclaim_ns,
            ..Measured::default()
        };
        let all = [measured(1, 30), measured(3, 10), measured(2, 20)];
        let one = median(&all).unwrap();
        assert_eq!((one.hot_after.hits, one.reclaim_ns), (2, 20));
        assert_eq!(median(&all[..2]).unwrap().reclaim_ns, 30);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_bound_is_what_room_is_left_beside_the_hot_set() {
        let scale = Scale {
            capacity_bytes: 64,
            hot_bytes: 4,
            cold_bytes: 56,
            limit_bytes: 72,
            compressed_bytes: 0,
            rounds: 1,
        };
        assert_eq!(scale.bound(4 + 14), 0.25);
        assert_eq!((scale.bound(3), scale.bound(1000)), (0.0, 1.0));
    }

    #[test]
    fn swap_is_summed() {
        let text = "Filename Type Size Used Priority\n/dev/zram0 partition 1024 0 100\n/swap file 2048 0 -2\n";
        assert_eq!(swap_bytes(text), 3072 * 1024);
        assert_eq!(swap_bytes("Filename Type Size Used Priority\n"), 0);
    }
}
