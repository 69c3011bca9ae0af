//! `coldpress set`: changes settings of a program that runs, and says what was and what is in force.

use crate::ask;
use crate::budget::BudgetInForce;
use crate::managed;
use crate::memory_limit;
use crate::process;
use crate::refusal::Refusal;
use crate::report;
use crate::rule;
use crate::settings::{self, Settings};
use crate::size::format_budget;
use crate::statistics_file::Live;
use crate::streams::{print, say};
use crate::tune::{self, Tune};
use clap::Args;
use coldpress_interface::control::{BUDGET, COLD_AFTER, NO_BUDGET, Request, TRIGGERS, TUNABLES};
use coldpress_interface::figures::Figures;
use coldpress_interface::statistics::Statistics;
use coldpress_interface::triggers::Triggers;
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The help text behind the options.
pub const HELP: &str = "\
Keys:
  budget=<SIZE|PERCENT>   memory the program may hold: 64M, 1.5G, 65%, or none
  cold-after=<DURATION>   compress pages untouched for this long: 500ms, 30s, 5m, or none
  trigger=<LIST>          what may compress: eager,pressure,critical, a part of them, or none
  tune.<NAME>=<VALUE>     a tunable of the engine: tune.threshold=60 (docs/tunables.md)

Examples:
  coldpress set 4242 budget=512M
  coldpress set 4242 budget=none cold-after=30s trigger=eager
  coldpress set 4242 tune.read_ahead_pages=0

Codec and storage stay as they were chosen at the start. Children that are forked later begin with \
what is in force then.";

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// What can be changed.
const KEYS: [&str; 3] = ["budget", "cold-after", "trigger"];

/// Arguments of `coldpress set`.
#[derive(Debug, Args)]
pub struct SetArguments {
    /// The process or program, as coldpress status lists it
    #[arg(value_name = "PID|PROGRAM")]
    process: String,
    /// What to change: budget=512M, cold-after=30s, trigger=eager,critical
    #[arg(value_name = "KEY=VALUE", required = true)]
    changes: Vec<String>,
    /// Print what was and what is in force as JSON
    #[arg(long)]
    json: bool,
}

/// Changes settings of a process.
pub fn set(arguments: &SetArguments) -> Result<u8, Refusal> {
    let settings = read(&arguments.changes).map_err(Refusal::new)?;
    let live = managed::only(&arguments.process)?;
    let pid = live.pid;
    let done = Done::of(&settings, &live)?;
    let program = process::name(pid);
    for line in done.remarks()? {
        say!("{program}: {line}");
    }
    let (before, now) = done.both()?;
    if arguments.json {
        let value = json!({
            "pid": pid,
            "program": program,
            "before": to_json(before, done.answer.before.figures()),
            "now": to_json(now, done.answer.after.figures()),
        });
        print(&format!("{value:#}\n"))?;
    } else {
        let mut lines = lines(&done.request, before, now);
        let figures = [done.answer.before.figures(), done.answer.after.figures()];
        lines.extend(settings.tune.iter().flat_map(|tune| tuned(tune, figures)));
        print(&(lines.join("\n") + "\n"))?;
    }
    Ok(0)
}

/// Sets the budget of the process of this id that began at this time, as `set PID budget=TEXT` does. What was and what is
/// in force, in one line.
#[cfg(feature = "top")]
pub fn set_budget(pid: u32, start_ticks: u64, text: &str) -> Result<String, Refusal> {
    let settings = read(&[format!("budget={text}")]).map_err(Refusal::new)?;
    let live = managed::find(pid)?;
    let same = process::Identity::of(pid).is_some_and(|one| one.start_time_ticks == start_ticks);
    if !same {
        return Err(Refusal::new(format!("process {pid} has ended")));
    }
    let done = Done::of(&settings, &live)?;
    let (before, now) = done.both()?;
    let change = match (value(before, BUDGET), value(now, BUDGET)) {
        (was, is) if was == is => format!("budget: {is} (as before)"),
        (was, is) => format!("budget: {was} → {is}"),
    };
    let mut told = vec![change];
    told.extend(done.remarks()?);
    Ok(told.join("; "))
}

/// A change that a pager has made.
struct Done {
    pid: u32,
    request: Request,
    budget: Option<BudgetInForce>,
    answer: ask::Answer,
}

impl Done {
    /// Asks for it, and waits until it is done.
    fn of(settings: &Settings, live: &Live) -> Result<Self, Refusal> {
        let pid = live.pid;
        let (request, budget) = request(settings, pid).map_err(Refusal::in_one_line)?;
        let answer = ask::ask(live, &request, PATIENCE)?;
        Ok(Self {
            pid,
            request,
            budget,
            answer,
        })
    }

    /// What was in force, and what is.
    fn both(&self) -> Result<(&Statistics, &Statistics), Refusal> {
        let unusable = |error| Refusal::new(format!("process {}: {error}", self.pid));
        let before = self.answer.before.statistics(self.pid).map_err(unusable)?;
        let now = self.answer.after.statistics(self.pid).map_err(unusable)?;
        Ok((before, now))
    }

    /// What the user has to know besides.
    fn remarks(&self) -> Result<Vec<String>, Refusal> {
        let (_, now) = self.both()?;
        let usable = || memory_limit::usable_bytes_of(self.pid).ok();
        let budget = self.budget.as_ref();
        let explanation = budget.and_then(|budget| budget.explanation(usable));
        let others = without_effect(&self.request, now).into_iter();
        Ok(explanation
            .into_iter()
            .chain(others.map(str::to_owned))
            .collect())
    }
}

/// Reads the changes. The error is one line.
fn read(changes: &[String]) -> Result<Settings, String> {
    let keys = KEYS.join(", ");
    let mut settings = Settings::default();
    for change in changes {
        let (key, value) = change.split_once('=').ok_or_else(|| {
            format!("{change:?} has no value: write KEY=VALUE; keys are {keys}, tune.NAME")
        })?;
        if let Some(name) = key.strip_prefix("tune.") {
            let (name, word) = tune::value_of(name, value)?;
            settings.tune.get_or_insert_default().set(name, word);
            continue;
        }
        let setting = settings::named(key)
            .ok_or_else(|| format!("there is no key {key:?}: keys are {keys}, tune.NAME"))?;
        if !KEYS.contains(&key) {
            return Err(format!(
                "{key} cannot be changed while the program runs: keys are {keys}, tune.NAME"
            ));
        }
        (setting.read)(&mut settings, value).map_err(|why| format!("{key}: {why}"))?;
    }
    Ok(settings)
}

/// What the pager of process `pid` is to be asked for, and the budget, if it is to be changed.
fn request(settings: &Settings, pid: u32) -> Result<(Request, Option<BudgetInForce>), Refusal> {
    let mut request = Request::default();
    let mut in_force = None;
    if let Some(budget) = settings.budget {
        let asked = budget.resolve(|| memory_limit::usable_bytes_of(pid))?;
        let budget = BudgetInForce::of(asked, memory_limit::group_bytes_of(pid))?;
        request.keys |= BUDGET;
        request.budget_bytes = budget.bytes;
        in_force = Some(budget);
    }
    if let Some(milliseconds) = settings.cold_after_ms {
        request.keys |= COLD_AFTER;
        request.cold_after_ms = milliseconds;
    }
    if let Some(triggers) = settings.triggers {
        request.keys |= TRIGGERS;
        request.triggers = triggers.bits();
    }
    if let Some(tune) = &settings.tune {
        request.keys |= TUNABLES;
        request.tunables = tune.request().map_err(Refusal::new)?;
    }
    Ok((request, in_force))
}

/// What was asked for and will not show, and why; and what else goes on.
fn without_effect(request: &Request, now: &Statistics) -> Vec<&'static str> {
    let Some(triggers) = rule::triggers(now) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if request.keys & BUDGET != 0 && request.budget_bytes != NO_BUDGET && !triggers.keep_a_budget()
    {
        lines.push("nothing keeps the budget: the triggers pressure and critical are off");
    }
    let by_age = now.cold_after_ms.load(Relaxed) > 0 && triggers.has(Triggers::EAGER);
    if request.keys & (BUDGET | COLD_AFTER) == BUDGET && request.budget_bytes != NO_BUDGET && by_age
    {
        lines.push("pages are still evicted by their age, too; to end that: cold-after=none");
    }
    if request.keys & COLD_AFTER != 0 && request.cold_after_ms > 0 && !triggers.has(Triggers::EAGER)
    {
        lines.push("no page goes for its age: the trigger eager is off");
    }
    lines
}

/// One line for each key that was asked for.
fn lines(request: &Request, before: &Statistics, now: &Statistics) -> Vec<String> {
    let asked = [BUDGET, COLD_AFTER, TRIGGERS].into_iter().zip(KEYS);
    asked
        .filter(|(key, _)| request.keys & key != 0)
        .map(|(key, name)| match (value(before, key), value(now, key)) {
            (was, is) if was == is => format!("{name:<10}  {is} (as before)"),
            (was, is) => format!("{name:<10}  {was} → {is}"),
        })
        .collect()
}

/// One line for each tunable that was asked for.
fn tuned(tune: &Tune, [before, now]: [&Figures; 2]) -> Vec<String> {
    let value = |figures: &Figures, name| {
        let word = figures.tunables.get(name);
        word.and_then(|word| tune::shown(name, word))
            .unwrap_or_else(|| "-".to_owned())
    };
    tune.names()
        .map(|name| match (value(before, name), value(now, name)) {
            (was, is) if was == is => format!("{name}  {is} (as before)"),
            (was, is) => format!("{name}  {was} → {is}"),
        })
        .collect()
}

fn value(s: &Statistics, key: u64) -> String {
    match key {
        BUDGET => format_budget(s.budget_bytes.load(Relaxed)),
        COLD_AFTER => rule::cold_age(s),
        _ => rule::triggers(s).map_or("-".to_owned(), |on| on.to_string()),
    }
}

fn to_json(s: &Statistics, figures: &Figures) -> Value {
    let budget = Some(s.budget_bytes.load(Relaxed)).filter(|&bytes| bytes != NO_BUDGET);
    json!({
        "budget_bytes": budget,
        "cold_after_ms": s.cold_after_ms.load(Relaxed),
        "triggers": rule::triggers(s).map(|on| on.to_string()),
        "tunables": report::tunables(figures),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Settings, String> {
        let changes: Vec<String> = text.split(' ').map(str::to_owned).collect();
        read(&changes)
    }

    #[test]
    fn changes_are_read_and_what_is_wrong_is_one_line() {
        let read = read_text("budget=none cold-after=1m trigger=eager").unwrap();
        let (request, _) = request(&read, std::process::id()).unwrap();
        assert_eq!(request.keys, BUDGET | COLD_AFTER | TRIGGERS);
        assert_eq!((request.cold_after_ms, request.triggers), (60_000, 1));
        for (text, word) in [
            ("budget", "\"budget\" has no value: write KEY=VALUE"),
            (
                "bugdet=1G",
                "there is no key \"bugdet\": keys are budget, cold-after, trigger, tune.NAME",
            ),
            (
                "tune.treshold=5",
                "there is no tunable \"treshold\": did you mean",
            ),
            (
                "tune.threshold=0",
                "kernel.compression.threshold cannot be '0'",
            ),
            ("codec=lz4", "codec cannot be changed"),
            ("budget=lots", "budget: cannot read \"lots\""),
            ("cold-after=", "cold-after: cannot read \"\""),
            ("trigger=lazy", "trigger: \"lazy\" is no trigger"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.starts_with(word) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_change_is_told_as_from_what_to_what() {
        let page = |budget, cold_after: u64, triggers: Triggers| {
            let page = Statistics::new();
            page.filled_bytes.store(u64::MAX, Relaxed);
            page.budget_bytes.store(budget, Relaxed);
            page.cold_after_ms.store(cold_after, Relaxed);
            page.triggers.store(triggers.bits(), Relaxed);
            page
        };
        let before = page(NO_BUDGET, 30_000, Triggers::ALL);
        let now = page(64 << 20, 30_000, Triggers::NONE);
        let request = Request {
            keys: BUDGET | COLD_AFTER | TRIGGERS,
            budget_bytes: 64 << 20,
            cold_after_ms: 30_000,
            triggers: 0,
            ..Request::default()
        };
        let expected = [
            "budget      none → 64.0 MiB",
            "cold-after  30 s (as before)",
            "trigger     eager,pressure,critical → none",
        ];
        assert_eq!(lines(&request, &before, &now), expected);
        assert_eq!(without_effect(&request, &now).len(), 2);
        assert_eq!(without_effect(&request, &before).len(), 0);
        let alone = Request {
            keys: BUDGET,
            ..request
        };
        assert!(without_effect(&alone, &before)[0].contains("by their age, too"));
    }
}
