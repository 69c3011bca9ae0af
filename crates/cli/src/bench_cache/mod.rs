//! `coldpress bench cache`: the benchmark of seed 004 for every kind of the discardable cache.
//!
//! A hot set is asked for eight times and a cold one twice; both are measured; memory is taken
//! until the limit leaves room for a part of the cache only, and given back; both are measured again.
//!
//! ```text
//!  this process ── for each round, size to take, kind ──▶ a process of its own
//!    │ makes the memory group, with its limit                │ loads the pages, then enters the group
//!    │ removes it                                            │ fills, measures, takes memory, measures
//!    ▼                                                       ▼
//!  medians, bars ◀────────────── one line of JSON ───────────┘
//! ```
//!
//! * B1 Nothing but the cache and the memory taken is charged to the group: pages and orders are in
//!   memory before the process enters.
//! * B2 The content of every hit is compared, outside of what is timed. One wrong byte ends the run without figures.
//! * B3 The group is removed at the end, also on failure and when a signal ends the command.
//! * B4 Rounds are outermost and kinds innermost, so that a machine that changes harms all alike.
//!
//! | concept | file |
//! |---|---|
//! | options; sizes fitted to the machine | `arguments.rs`, `plan.rs` |
//! | kinds of caches | `kind.rs` |
//! | what entries hold | `content.rs` |
//! | the memory group | `group.rs`, `removal.rs` |
//! | one measurement, in its process | `scenario.rs` |
//! | the process, and what becomes of it | `child.rs` |
//! | medians, bars | `summary.rs`, `bars.rs` |
//! | what the seed prints | `upstream.rs` |
//! | what is printed | `table.rs`, `json.rs`, `picture.rs` |

mod arguments;
mod bars;
mod child;
mod content;
mod group;
mod json;
mod kind;
mod picture;
mod plan;
mod removal;
mod scenario;
mod summary;
mod table;
mod upstream;

pub use arguments::{Bench, BenchArguments};

use crate::help;
use crate::output_file;
use crate::progress::Bar;
use crate::refusal::Refusal;
use crate::size::format_bytes;
use crate::streams::print;
use arguments::CacheArguments;
use content::Content;
use group::Place;
use plan::Plan;
use std::path::PathBuf;

/// Runs the benchmark that is asked for.
pub fn bench(arguments: &BenchArguments) -> Result<u8, Refusal> {
    let Bench::Cache(arguments) = &arguments.what;
    let plan = Plan::new(arguments)?;
    if let Some(group) = &arguments.measured_in {
        return child::measure(&plan, group, arguments.round);
    }
    whole(&plan, arguments)
}

fn whole(plan: &Plan, arguments: &CacheArguments) -> Result<u8, Refusal> {
    plan.check()?;
    let on_output =
        |path: &Option<PathBuf>| path.as_deref().is_some_and(output_file::is_standard_output);
    let (json, svg) = (on_output(&arguments.json), on_output(&arguments.svg));
    output_file::one_on_standard_output(&[("--json -", json), ("--svg -", svg)])?;
    for path in arguments.json.iter().chain(&arguments.svg) {
        output_file::check(path)?;
    }
    let place = Place::find()?;
    // Refused before the pages are read, if at all.
    place.make(plan.limit_bytes, 0)?;
    let content = Content::load(&plan.files)?.describe();
    let mut runs = Vec::new();
    let bar = Bar::new();
    let steps = plan.rounds * plan.reclaim_bytes.len() as u64;
    for round in 0..plan.rounds {
        for (number, &reclaim) in plan.reclaim_bytes.iter().enumerate() {
            let step = round * plan.reclaim_bytes.len() as u64 + number as u64 + 1;
            let what = format!("{step} of {steps}: {} taken", format_bytes(reclaim));
            bar.begin(&what, plan.kinds.len() as u64);
            for &kind in &plan.kinds {
                let group = place.make(plan.limit_bytes, runs.len() + 1)?;
                runs.push(child::run(plan, kind, reclaim, round, &group)?);
                bar.advance(1);
            }
        }
    }
    drop(bar);
    let summary = summary::Summary::new(plan, content, &runs);
    if !json && !svg {
        print(&table::text(&summary, help::table_width()))?;
    }
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", json::document(&summary, &runs));
        output_file::write(path, text.as_bytes())?;
    }
    if let Some(path) = &arguments.svg {
        output_file::write(path, picture::svg(&summary).as_bytes())?;
    }
    Ok(0)
}
