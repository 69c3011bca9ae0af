//! `cargo xtask bench victims`: what each choice of pages to evict costs in refaults, at equal memory.
//!
//! Traces of touched pages are replayed through the engine and through policies that others have published. All hold as
//! many pages; what is counted is refaults: touches of a page that was evicted. Nothing here depends on how fast or how
//! busy the machine is.
//!
//! | module | holds |
//! |---|---|
//! | [`trace`], `synthetic`, `record` | touches in a file; made by a seed; of a real program |
//! | `engine` | the engine, driven as the pager drives it |
//! | `reference`, over `lists`; `belady` | CLOCK, LRU, two lists as in Linux, ARC, S3-FIFO; the bound |

mod belady;
mod engine;
mod lists;
mod record;
mod reference;
mod synthetic;
mod trace;

use anyhow::{Context, Result, bail};
use coldpress_harness::text::{Table, thousands};
use coldpress_harness::{install, output, workspace};
use coldpress_programs::place::Place;
use coldpress_programs::subjects;
use engine::{Coldpress, Sight, Work};
use reference::{Arc, Clock, Lru, Policy, S3Fifo, TwoLists};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use trace::Trace;

/// Options of the comparison.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// A trace that is made (store, store-zipf, slabs, slabs-zipf, scans, loop, phases, dense-hot), or a file of
    /// --record; else all that are made
    traces: Vec<String>,
    /// Instead: record what a program of `cargo xtask programs` touches, into NAME.touches; needs root and perf
    #[arg(long, value_name = "NAME", conflicts_with = "traces")]
    record: Vec<String>,
    /// With --record: where the files go
    #[arg(long, value_name = "DIRECTORY", default_value = "target/touches")]
    into: PathBuf,
    /// With --record: size of all data, in percent of the usual one
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=1000))]
    scale: u64,
    /// With --record: touches at most
    #[arg(long, default_value_t = 2_000_000)]
    most: usize,
    /// Memory, in percent of the touched pages (can be repeated)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100), default_values_t = [50, 65])]
    memory: Vec<u64>,
    /// Where accessed bits are given to the engine: once in so many milliseconds
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    bits: u64,
    /// Write everything to this file as JSON (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(1800);

/// What one policy did.
struct Outcome {
    policy: &'static str,
    refaults: u64,
    work: Option<Work>,
}

/// All policies on one trace with so much memory.
struct Comparison {
    trace: String,
    touches: usize,
    pages: usize,
    memory_percent: u64,
    memory: usize,
    outcomes: Vec<Outcome>,
}

/// Touches of pages that were there once and are not.
fn refaults(policy: &mut dyn Policy, trace: &Trace) -> u64 {
    let mut seen = vec![false; trace.pages];
    let is_refault = |&&page: &&u32| {
        let there = policy.touch(page);
        std::mem::replace(&mut seen[page as usize], true) && !there
    };
    trace.touches.iter().filter(is_refault).count() as u64
}

/// The engine first, the bound last.
fn compare(trace: &Trace, memory_percent: u64, bits_ms: u64) -> Comparison {
    let (pages, touched) = (trace.pages, trace.touched_pages());
    let memory = (touched * memory_percent as usize / 100).max(2);
    let sights = [
        ("coldpress", Sight::Refaults),
        ("coldpress, bits", Sight::Bits(bits_ms)),
    ];
    let mut outcomes = Vec::new();
    for (policy, sight) in sights {
        let mut ours = Coldpress::new(pages, memory, sight);
        let refaults = refaults(&mut ours, trace);
        outcomes.push(Outcome {
            policy,
            refaults,
            work: Some(ours.work()),
        });
    }
    let others: [(&str, Box<dyn Policy>); 5] = [
        ("CLOCK", Box::new(Clock::new(pages, memory))),
        ("LRU", Box::new(Lru::new(pages, memory))),
        ("two lists", Box::new(TwoLists::new(pages, memory))),
        ("ARC", Box::new(Arc::new(pages, memory))),
        ("S3-FIFO", Box::new(S3Fifo::new(pages, memory))),
    ];
    outcomes.extend(others.into_iter().map(|(policy, mut other)| Outcome {
        policy,
        refaults: refaults(&mut *other, trace),
        work: None,
    }));
    let held = outcomes[0].work.map_or(0.0, |work| work.held) as usize;
    let held = if held == 0 { memory } else { held };
    outcomes.push(Outcome {
        policy: "CLOCK, as held",
        refaults: refaults(&mut Clock::new(pages, held), trace),
        work: None,
    });
    outcomes.push(Outcome {
        policy: "Belady",
        refaults: belady::refaults(&trace.touches, pages, memory),
        work: None,
    });
    Comparison {
        trace: trace.name.clone(),
        touches: trace.touches.len(),
        pages: touched,
        memory_percent,
        memory,
        outcomes,
    }
}

impl Comparison {
    fn of(&self, policy: &str) -> u64 {
        let found = self.outcomes.iter().find(|o| o.policy == policy);
        found.map_or(0, |outcome| outcome.refaults)
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "policy",
            "refaults",
            "of CLOCK's",
            "of the bound",
            "evictions",
            "pages a call",
            "second chances",
            "held",
        ]);
        for outcome in &self.outcomes {
            let share = |of: u64| match of {
                0 => "–".to_owned(),
                of => format!("{:.3}", outcome.refaults as f64 / of as f64),
            };
            let work = |cell: &dyn Fn(&Work) -> String| {
                let cell = outcome.work.as_ref().map(cell);
                cell.unwrap_or_else(|| "–".to_owned())
            };
            table.row(&[
                outcome.policy.to_owned(),
                thousands(outcome.refaults),
                share(self.of("CLOCK")),
                share(self.of("Belady")),
                work(&|work| thousands(work.evictions)),
                work(&|work| format!("{:.1}", work.evictions as f64 / work.calls.max(1) as f64)),
                work(&|work| thousands(work.second_chances)),
                work(&|work| format!("{:.1} %", 100.0 * work.held / self.memory as f64)),
            ]);
        }
        table
    }

    fn json(&self) -> Value {
        let outcomes: Vec<Value> = self.outcomes.iter().map(Outcome::json).collect();
        json!({
            "trace": self.trace, "touches": self.touches, "pages": self.pages,
            "memory_percent": self.memory_percent, "memory_pages": self.memory, "policies": outcomes,
        })
    }
}

impl Outcome {
    fn json(&self) -> Value {
        let mut value = json!({ "policy": self.policy, "refaults": self.refaults });
        if let Some(work) = &self.work {
            value["evictions"] = work.evictions.into();
            value["calls"] = work.calls.into();
            value["second_chances"] = work.second_chances.into();
            value["held_pages"] = work.held.into();
        }
        value
    }
}

/// A trace by its name: one that is made, or a file.
fn trace(name: &str) -> Result<Trace> {
    if let Some(recipe) = synthetic::RECIPES.iter().find(|recipe| recipe.name == name) {
        return Ok(recipe.make());
    }
    let names: Vec<_> = synthetic::RECIPES.iter().map(|r| r.name).collect();
    Trace::read(name.as_ref()).with_context(|| {
        format!(
            "{name:?} is none of {} and no file that `cargo xtask bench victims --record PROGRAM` has made",
            names.join(", ")
        )
    })
}

fn record_all(options: &Options) -> Result<u8> {
    let subjects = options.record.iter().map(|name| subjects::named(name));
    let subjects = subjects.collect::<Result<Vec<_>>>()?;
    install::packages(&[record::PERF])?;
    coldpress_programs::install_for(&subjects)?;
    std::fs::create_dir_all(&options.into)?;
    for subject in subjects {
        let mut place = Place::new("touches", options.scale, LIMIT)?;
        let trace = record::record(subject, &mut place, options.most)
            .with_context(|| format!("cannot record {}", subject.name))?;
        let path = options.into.join(format!("{}.touches", subject.name));
        trace.write(&path)?;
        println!(
            "{}: {} touches of {} pages",
            path.display(),
            thousands(trace.touches.len() as u64),
            thousands(trace.touched_pages() as u64)
        );
    }
    Ok(0)
}

/// Compares, or records.
pub fn run(options: &Options) -> Result<u8> {
    workspace::continue_in_release()?;
    if !options.record.is_empty() {
        return record_all(options);
    }
    let made = synthetic::RECIPES
        .iter()
        .map(|recipe| recipe.name.to_owned());
    let names = match options.traces.is_empty() {
        true => made.collect(),
        false => options.traces.clone(),
    };
    let mut all = Vec::new();
    for name in &names {
        let trace = trace(name)?;
        if trace.touched_pages() < 256 {
            bail!("{name} has too few pages for a comparison: 256 are needed");
        }
        for &memory in &options.memory {
            let found = compare(&trace, memory, options.bits);
            println!(
                "\n{}: {} touches of {} pages; memory for {} % of them, {}\n\n{}",
                found.trace,
                thousands(found.touches as u64),
                thousands(found.pages as u64),
                found.memory_percent,
                thousands(found.memory as u64),
                found.table()
            );
            all.push(found.json());
        }
    }
    for recipe in synthetic::RECIPES
        .iter()
        .filter(|r| names.iter().any(|n| n == r.name))
    {
        println!("{}: {}", recipe.name, recipe.is);
    }
    println!(
        "\nRefaults: touches of pages that were evicted. \"bits\": the engine is given accessed bits every {} ms of \
         the trace's time. All hold the same number of pages at most. The pager begins to evict below it; \
         \"CLOCK, as held\" has the pages that it held on average since the first eviction.",
        options.bits
    );
    if let Some(path) = &options.json {
        output::json(path, &Value::from(all))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldpress_engine::queues::random::RandomPick;

    /// Touches at random, of which half go to a tenth of the pages.
    fn touches(pages: u32, count: usize) -> Trace {
        let mut random = RandomPick::new(7);
        let mut below = |bound: u32| (random.draw() >> 33) as u32 % bound;
        let mut touch = || match below(2) {
            0 => below(pages / 10),
            _ => below(pages),
        };
        Trace {
            name: "at random".into(),
            pages: pages as usize,
            touches: (0..count).map(|_| touch()).collect(),
        }
    }

    #[test]
    fn nobody_beats_the_bound_and_all_hold_what_fits() {
        let trace = touches(8192, 80_000);
        let found = compare(&trace, 50, 10);
        assert_eq!(found.outcomes.len(), 9);
        let bound = found.of("Belady");
        assert!(bound > 1000, "{bound}");
        for outcome in &found.outcomes {
            let (policy, refaults) = (outcome.policy, outcome.refaults);
            assert!(refaults >= bound, "{policy}: {refaults}, the bound {bound}");
            let most = 3 * found.of("CLOCK");
            assert!(refaults < most, "{policy}: {refaults} of {most}");
        }
        let all = compare(&trace, 100, 10);
        let exact = |o: &&Outcome| o.work.is_none() && o.policy != "CLOCK, as held";
        for outcome in all.outcomes.iter().filter(exact) {
            assert_eq!(outcome.refaults, 0, "{}", outcome.policy);
        }
    }

    #[test]
    fn the_same_trace_gives_the_same_figures() {
        let trace = touches(4096, 30_000);
        let [first, second] = [(); 2].map(|()| compare(&trace, 40, 10).json());
        assert_eq!(first, second);
    }

    #[test]
    fn what_is_neither_made_nor_a_file_is_said() {
        let error = trace("stroe").err().unwrap();
        assert!(format!("{error:#}").contains("store-zipf"), "{error:#}");
    }
}
