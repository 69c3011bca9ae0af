//! A snapshot as metric families, through `prometheus-client`.
//!
//! Plain numbers go by the table in [`names`]; here is what has a form of its own: texts become labels or one series for each
//! choice, the budget may be infinite, the histogram of faults is made coarser, times of the kernel's clocks become times of
//! day.
//!
//! Every sample of a process has the labels `pid` and `program`. What its pager does not know, since it is older, is left
//! out. Nothing is kept from one snapshot to the next, so a process that has ended leaves no series.

use super::fault_histogram::{by_octave, estimated_sum_seconds};
use super::names::{self, Family};
use super::snapshot::{Process, Snapshot};
use crate::report;
use crate::rule;
use crate::tune;
use coldpress_engine::metrics::figure::Kind;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::statistics::{Failure, Rule, Statistics};
use coldpress_interface::triggers::Triggers;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Labels of a sample.
type Labels = Vec<(&'static str, String)>;

/// A snapshot that is to be encoded.
#[derive(Debug)]
pub struct Of(pub Snapshot);

impl Collector for Of {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let out = &mut encoder;
        let snapshot = &self.0;
        about_this_command(out, snapshot)?;
        about_processes(out, snapshot)?;
        limits_and_choices(out, snapshot)?;
        rejected(out, snapshot)?;
        faults(out, snapshot)?;
        generations(out, snapshot)?;
        let numbers: Vec<_> = snapshot.processes.iter().map(Process::numbers).collect();
        for family in names::families() {
            plain(out, snapshot, &numbers, &family)?;
        }
        tunables(out, snapshot)
    }
}

/// Begins a family: HELP, TYPE and UNIT. `name` has the unit at its end, and no prefix.
fn begin<'a>(
    out: &'a mut DescriptorEncoder<'_>,
    (name, unit): (&'a str, &'a Option<Unit>),
    help: &str,
    kind: MetricType,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    // The encoder puts the unit behind the name.
    let suffix = unit.as_ref().map_or(0, |unit| unit.as_str().len() + 1);
    let name = &name[..name.len() - suffix];
    out.encode_descriptor(name, help, unit.as_ref(), kind)
}

fn unit_of(name: &str) -> Option<Unit> {
    names::unit_of(name).map(|unit| match unit {
        "bytes" => Unit::Bytes,
        "seconds" => Unit::Seconds,
        other => Unit::Other(other.to_owned()),
    })
}

/// A family of gauges that are not in the table: one row for each sample.
fn gauges(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (Labels, f64)>,
) -> fmt::Result {
    let unit = unit_of(name);
    let mut family = begin(out, (name, &unit), help, MetricType::Gauge)?;
    for (labels, value) in samples {
        let mut metric = family.encode_family(&labels)?;
        // As a whole number where it is one.
        match value {
            value if value.fract() == 0.0 && value.abs() < 9e15 => {
                metric.encode_gauge(&(value as i64))?;
            }
            value => metric.encode_gauge(&value)?,
        }
    }
    Ok(())
}

fn infos(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = Labels>,
) -> fmt::Result {
    let mut family = begin(out, (name, &None), help, MetricType::Info)?;
    for labels in samples {
        family.encode_info(&labels)?;
    }
    Ok(())
}

/// The labels that every sample of a process has.
fn labels_of(process: &Process) -> Labels {
    vec![
        ("pid", process.pid.to_string()),
        ("program", process.program.clone()),
    ]
}

fn with(mut labels: Labels, label: (&'static str, impl ToString)) -> Labels {
    labels.push((label.0, label.1.to_string()));
    labels
}

/// Every process with its page.
fn pages(snapshot: &Snapshot) -> impl Iterator<Item = (&Process, &Statistics)> {
    let processes = snapshot.processes.iter();
    processes.filter_map(|process| Some((process, process.statistics()?)))
}

fn about_this_command(out: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    let help = "The command that tells this.";
    infos(out, "build", help, std::iter::once(version))?;
    let count = [(Vec::new(), snapshot.processes.len() as f64)];
    let help = "Processes under a pager that this user may see.";
    gauges(out, "managed_processes", help, count.into_iter())?;
    let count = [(Vec::new(), snapshot.unreadable as f64)];
    let help = "Of other processes under a pager: those whose figures this command cannot read, since they have a pager of another version.";
    gauges(out, "unreadable_processes", help, count.into_iter())
}

fn about_processes(out: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let info = |(process, page): (&Process, &Statistics)| {
        let (codec, storage) = report::names(page);
        let run = match page.run_pid.load(Relaxed) {
            0 => String::new(),
            pid => pid.to_string(),
        };
        let labels = with(labels_of(process), ("codec", codec));
        let labels = with(labels, ("storage", storage));
        with(
            with(labels, ("run_pid", run)),
            ("layout", page.version.load(Relaxed)),
        )
    };
    let help = "How pages are compressed and kept, the process that coldpress run started it under, and the layout of its statistics.";
    infos(out, "process", help, pages(snapshot).map(info))?;
    let clock = snapshot.clock;
    let started = pages(snapshot).map(|(process, page)| {
        let ticks = page.start_time_ticks.load(Relaxed);
        (labels_of(process), clock.of_ticks(ticks))
    });
    let help = "When the process began, in seconds since 1970.";
    gauges(out, "process_start_time_seconds", help, started)?;
    let measured = pages(snapshot).map(|(process, page)| {
        let at = page.measured_at_ns.load(Relaxed);
        (labels_of(process), clock.of_monotonic(at))
    });
    let help = "When memory was last measured, in seconds since 1970.";
    gauges(out, "measured_at_seconds", help, measured)
}

fn limits_and_choices(out: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let budgets = pages(snapshot).map(|(process, page)| {
        let bytes = match page.budget_bytes.load(Relaxed) {
            NO_BUDGET => f64::INFINITY,
            bytes => bytes as f64,
        };
        (labels_of(process), bytes)
    });
    gauges(
        out,
        "budget_bytes",
        "Budget in force; +Inf: there is none.",
        budgets,
    )?;
    let rules = pages(snapshot).filter(|(_, page)| page.answers());
    let rules = rules.flat_map(|(process, page)| {
        let in_force = Rule::from_word(page.rule.load(Relaxed));
        Rule::ALL.into_iter().map(move |rule| {
            let labels = with(labels_of(process), ("rule", rule.name()));
            (labels, f64::from(in_force == Some(rule)))
        })
    });
    let help = "Why pages are taken, or not, in this moment: 1 for the rule that is in force.";
    gauges(out, "rule", help, rules)?;
    let triggers = pages(snapshot)
        .filter_map(|(process, page)| Some((process, rule::triggers(page)?)))
        .flat_map(|(process, on)| {
            [
                ("eager", Triggers::EAGER),
                ("pressure", Triggers::PRESSURE),
                ("critical", Triggers::CRITICAL),
            ]
            .map(|(name, trigger)| {
                let labels = with(labels_of(process), ("trigger", name));
                (labels, f64::from(on.has(trigger)))
            })
        });
    let help = "Whether a trigger is switched on.";
    gauges(out, "trigger_enabled", help, triggers)
}

fn rejected(out: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let name = "rejected_pages";
    let help = "Pages that were not taken, and refusals of the kernel, by reason.";
    let unit = unit_of(name);
    let mut family = begin(out, (name, &unit), help, MetricType::Counter)?;
    for (process, page) in pages(snapshot) {
        for reason in Failure::ALL {
            let labels = with(labels_of(process), ("reason", reason.name()));
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, u64, f64>(&page.failed(reason), None)?;
        }
    }
    Ok(())
}

fn faults(out: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let name = "fault_duration_seconds";
    let help = "Time that restoring faults took, from message to page, without the kernel's own part. The sum is estimated from finer buckets: at most an eighth off.";
    let unit = unit_of(name);
    let mut family = begin(out, (name, &unit), help, MetricType::Histogram)?;
    for (process, page) in pages(snapshot) {
        let buckets = by_octave(&page.fault_service);
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = estimated_sum_seconds(&page.fault_service);
        let labels = labels_of(process);
        let mut metric = family.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn generations(out: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = |figure: fn(&Statistics, usize) -> f64| {
        let known = pages(snapshot).filter(|(_, page)| page.answers());
        known.flat_map(move |(process, page)| {
            let numbers = 0..page.generation_pages.len();
            numbers.map(move |number| {
                let labels = with(labels_of(process), ("generation", number));
                (labels, figure(page, number))
            })
        })
    };
    let counts = each(|page, number| page.generation_pages[number].load(Relaxed) as f64);
    let help = "Pages in place by age; generation 0 is the newest.";
    gauges(out, "generation_pages", help, counts)?;
    let ages = each(|page, number| page.generation_age_ms[number].load(Relaxed) as f64 / 1e3);
    let help = "How long the pages of a generation were not touched, at least.";
    gauges(out, "generation_untouched_seconds", help, ages)
}

/// A family of the table.
fn plain(
    out: &mut DescriptorEncoder<'_>,
    snapshot: &Snapshot,
    numbers: &[BTreeMap<&'static str, u64>],
    family: &Family,
) -> fmt::Result {
    let unit = unit_of(&family.name);
    let kind = match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
    };
    let mut encoder = begin(out, (&family.name, &unit), &family.help, kind)?;
    for (process, numbers) in snapshot.processes.iter().zip(numbers) {
        for member in &family.members {
            let Some(&number) = numbers.get(member.key) else {
                continue;
            };
            let mut labels = labels_of(process);
            labels.extend(member.label.map(|(label, value)| (label, value.to_owned())));
            let mut metric = encoder.encode_family(&labels)?;
            let scaled = number as f64 / member.divisor as f64;
            match (family.kind, member.divisor) {
                (Kind::Gauge, 1) => metric.encode_gauge(&number)?,
                (Kind::Gauge, _) => metric.encode_gauge(&scaled)?,
                (Kind::Counter, 1) => {
                    metric.encode_counter::<NoLabelSet, u64, f64>(&number, None)?;
                }
                (Kind::Counter, _) => {
                    metric.encode_counter::<NoLabelSet, f64, f64>(&scaled, None)?;
                }
            }
        }
    }
    Ok(())
}

fn tunables(out: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = snapshot.processes.iter().flat_map(|process| {
        let all = tune::in_force(process.figures()).into_iter();
        all.map(|(name, value)| {
            let labels = with(labels_of(process), ("tunable", name));
            with(labels, ("value", value))
        })
    });
    infos(out, "tunable", "The engine's tunables in force.", each)
}
