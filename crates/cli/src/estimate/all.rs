//! `coldpress estimate --all`: a line for each process that holds much, those first that would save most.

use crate::estimate::arguments::{Chosen, EstimateArguments};
use crate::estimate::assemble::Estimate;
use crate::estimate::seen::Subject;
use crate::estimate::watch;
use crate::estimate::{commands, json, text};
use crate::grid::{self, left, right};
use crate::help;
use crate::managed;
use crate::own_name;
use crate::process;
use crate::progress::Bar;
use crate::refusal::Refusal;
use crate::size::{format_bytes, format_short};
use crate::streams::{print, say, visible};
use crate::unmanaged;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;

/// What holds less that could be managed is left out.
const LEAST_BYTES: u64 = 64 << 20;
/// Pages of each process whose content is looked at.
const SAMPLE_PAGES: u64 = 2_048;

/// Prints the table.
pub fn estimate(arguments: &EstimateArguments, chosen: &Chosen) -> Result<u8, Refusal> {
    let found = Found::look();
    found.tell();
    let bar = Bar::new();
    let seen = match found.subjects.is_empty() {
        true => Vec::new(),
        false => watch::watch(&found.subjects, arguments.ages, arguments.watching(), &bar),
    };
    let mut estimates = Vec::new();
    bar.begin("looking at pages", found.subjects.len() as u64);
    for (subject, seen) in found.subjects.iter().zip(seen) {
        // What has ended meanwhile has no line.
        let of = |seen| Estimate::of(subject, seen, chosen.storing, SAMPLE_PAGES);
        match seen.and_then(of) {
            Ok(estimate) => estimates.push(estimate),
            Err(why) => say!("left out: {why}"),
        }
        bar.advance(1);
    }
    drop(bar);
    let is_much = |estimate: &Estimate| estimate.seen.survey.managed_pages() * 4096 >= LEAST_BYTES;
    estimates.retain(is_much);
    estimates.sort_by(|one, other| saving(other).total_cmp(&saving(one)));
    if arguments.json {
        let all: Vec<Value> = estimates
            .iter()
            .map(|one| json::process(one, None))
            .collect();
        print(&format!("{:#}\n", json!(all)))?;
    } else if estimates.is_empty() {
        say!(
            "no process of yours has {} or more that could be managed; a single one: {} estimate PID",
            format_bytes(LEAST_BYTES),
            own_name::get()
        );
    } else {
        print(&table(&estimates, help::table_width()))?;
        if estimates.iter().any(|one| !one.knows_ages()) {
            say!("HOLDS with a ≥ is the least possible: which pages are used is not known there");
        }
        let is_guess = |one: &Estimate| one.knows_ages() && one.model.by_default().is_bound;
        if estimates.iter().any(is_guess) {
            say!(
                "HOLDS with a ~ is a guess: not seen for long enough; its bounds: {} estimate PID",
                own_name::get()
            );
        }
        for one in &estimates {
            if let Some(why) = &one.unfit {
                say!(
                    "{} ({}): run would not manage it: it is {why}",
                    one.name,
                    one.pid
                );
            }
        }
    }
    Ok(0)
}

/// The processes that are worth a look, and what was passed over.
struct Found {
    subjects: Vec<Subject>,
    managed: usize,
    refused: Vec<String>,
}

impl Found {
    fn look() -> Self {
        let mut found = Self {
            subjects: Vec::new(),
            managed: 0,
            refused: Vec::new(),
        };
        // SAFETY: the call takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        let own = std::process::id();
        let under: HashSet<u32> = managed::all(managed::runs())
            .iter()
            .map(|live| live.pid)
            .collect();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for pid in numbers.filter(|pid| *pid != own) {
            let is_ours = user == 0 || managed::owner(pid) == Some(user);
            let holds_much =
                unmanaged::private_bytes(pid).is_some_and(|bytes| bytes >= LEAST_BYTES);
            match () {
                _ if !is_ours || !holds_much => {}
                _ if under.contains(&pid) => found.managed += 1,
                _ => match Subject::open(pid) {
                    Ok(subject) => found.subjects.push(subject),
                    Err(_) => found
                        .refused
                        .push(format!("{} ({pid})", process::name(pid))),
                },
            }
        }
        found
    }

    /// Says what is not in the table.
    fn tell(&self) {
        if self.managed > 0 {
            say!(
                "{} under Coldpress already, not estimated: {} status",
                self.managed,
                own_name::get()
            );
        }
        if !self.refused.is_empty() {
            say!(
                "may not be looked at by this user, left out: {}; it takes root, or a debugger's rights to them",
                self.refused.join(", ")
            );
        }
    }
}

fn saving(estimate: &Estimate) -> f64 {
    match estimate.unfit {
        Some(_) => 0.0,
        None => estimate.native_bytes() - held(estimate),
    }
}

/// What would be held by default, or the least where ages are not known.
fn held(estimate: &Estimate) -> f64 {
    match estimate.knows_ages() {
        true => estimate.model.by_default().held_bytes,
        false => estimate.model.least().held_bytes,
    }
}

fn table(estimates: &[Estimate], width: Option<usize>) -> String {
    let rows = estimates.iter().map(|estimate| {
        let expected = estimate.model.by_default();
        let native = estimate.native_bytes();
        let saved = saving(estimate).max(0.0);
        let least = match (estimate.knows_ages(), expected.is_bound) {
            (false, _) => "≥",
            (true, true) => "~",
            (true, false) => "",
        };
        let budget = estimate.suggested_budget();
        let budget = budget.filter(|_| estimate.unfit.is_none());
        vec![
            estimate.pid.to_string(),
            visible(&estimate.name),
            format_short(native as u64),
            format!("{least}{}", format_short(held(estimate) as u64)),
            format_short(saved as u64),
            format!("{:.0} %", saved * 100.0 / native.max(1.0)),
            match estimate.knows_ages() {
                true => text::refaults(&expected),
                false => "–".to_owned(),
            },
            budget.map_or("–".to_owned(), commands::budget_argument),
        ]
    });
    let headings = [
        right("PID"),
        left("COMMAND").cut_end(),
        right("NATIVE"),
        right("HOLDS"),
        right("SAVES"),
        right("SHARE"),
        right("BACK/S"),
        right("BUDGET"),
    ];
    grid::fitted(&headings, rows.collect(), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_a_terminal() {
        let all = [false, true].map(text::tests::largest);
        let table = table(&all, Some(80));
        assert_eq!(table.lines().count(), 3);
        grid::assert_fits(&table, 80);
    }
}
