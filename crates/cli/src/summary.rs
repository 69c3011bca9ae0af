//! What `run` tells at the end: one line for people, one file for programs.

use crate::budget::BudgetInForce;
use crate::duration::{format_cold_after, format_nanoseconds};
use crate::follow::Totals;
use crate::report::{self, SCHEMA_VERSION};
use crate::rule;
use crate::size::{format_bytes, format_count};
use crate::supervise::Ending;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::figures::Figures;
use coldpress_interface::statistics::{Failure, Rule, Statistics};
use serde_json::{Map, Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The line on standard error.
pub fn line(program: &str, statistics: &Statistics, budget: &BudgetInForce) -> String {
    let get = |word: &AtomicU64| word.load(Relaxed);
    let mut line = format!(
        "{program}: content peaked at {}, held in {} ({}), saved up to {}; {} evictions{}, {} faults",
        format_bytes(get(&statistics.peak_content_bytes)),
        format_bytes(get(&statistics.peak_total_bytes)),
        limits(statistics, budget),
        format_bytes(get(&statistics.peak_saved_bytes)),
        format_count(get(&statistics.evictions)),
        match rule::driven_by(statistics) {
            Some(shares) => format!(" ({shares})"),
            None => String::new(),
        },
        format_count(get(&statistics.faults)),
    );
    let quantile = |q: f64| {
        statistics
            .fault_service
            .quantile_ns(q)
            .map(format_nanoseconds)
    };
    if let (Some(p50), Some(p99)) = (quantile(0.5), quantile(0.99)) {
        line += &format!(", service p50 {p50} p99 {p99}");
    }
    let cpu_ns = get(&statistics.pager_user_time_ns) + get(&statistics.pager_system_time_ns);
    line += &format!("; pager CPU {}", format_nanoseconds(cpu_ns));
    let (codec, storage) = report::names(statistics);
    line += &format!("; codec {codec}, storage {storage}");
    let recoded = get(&statistics.recoded_pages);
    if recoded > 0 {
        line += &format!(
            "; {} pages stored anew, by {} smaller",
            format_count(recoded),
            format_bytes(get(&statistics.recode_saved_bytes))
        );
    }
    if let Some(above) = above_budget(statistics) {
        line += &format!(
            "; the budget could not be kept: up to {} above it",
            format_bytes(above)
        );
    }
    let alarms = [
        (
            get(&statistics.stalled_faults),
            "faults stalled for more than a second",
        ),
        (
            statistics.failed(Failure::Corrupt),
            "pages failed their checksum",
        ),
        (
            statistics.failed(Failure::InstallRefused),
            "pages could not be put in place",
        ),
    ];
    for (count, what) in alarms {
        if count > 0 {
            line += &format!("; WARNING: {} {what}", format_count(count));
        }
    }
    line
}

/// The line on standard error where several programs were managed together.
pub fn line_of_all(program: &str, totals: &Totals, budget: &BudgetInForce) -> String {
    if totals.programs == 0 {
        return format!(
            "{program}: no program of it was managed: none held 4 MiB or more after its first 50 ms"
        );
    }
    let mut line = format!(
        "{program}: {} programs managed ({} for each); saved up to {}, the sum of what each saved at most; \
         {} ({}) held most, {} of {} content; {} evictions, {} faults; pagers' CPU {}",
        format_count(totals.programs),
        match budget.bytes {
            NO_BUDGET => "no budget".to_owned(),
            bytes => format!("budget {}", format_bytes(bytes)),
        },
        format_bytes(totals.saved_bytes),
        totals.largest.program,
        totals.largest.pid,
        format_bytes(totals.largest.peak_total_bytes),
        format_bytes(totals.largest.peak_content_bytes),
        format_count(totals.evictions),
        format_count(totals.faults),
        format_nanoseconds(totals.cpu_ns),
    );
    if totals.running > 0 {
        line += &format!("; {} of them still run", format_count(totals.running));
    }
    for (count, what) in [
        (totals.stalled, "faults stalled for more than a second"),
        (
            totals.lost,
            "pages failed their checksum or could not be put in place",
        ),
    ] {
        if count > 0 {
            line += &format!("; WARNING: {} {what}", format_count(count));
        }
    }
    line
}

/// How far memory stood above the budget at its peak, where reclaim found that it could not do
/// better. A program that was only faster than reclaim for a moment does not count, nor does a
/// twentieth.
fn above_budget(statistics: &Statistics) -> Option<u64> {
    let get = |word: &AtomicU64| word.load(Relaxed);
    let gave_up =
        get(&statistics.budget_misses) > 0 || get(&statistics.rule) == Rule::OutOfReach as u64;
    let budget = get(&statistics.budget_bytes);
    let above = get(&statistics.peak_total_bytes).saturating_sub(budget);
    (gave_up && budget != NO_BUDGET && above > budget / 20).then_some(above)
}

/// Budget and cold age, as they were at the end.
fn limits(statistics: &Statistics, budget: &BudgetInForce) -> String {
    let mut limits = match statistics.budget_bytes.load(Relaxed) {
        NO_BUDGET => "no budget".to_owned(),
        bytes => format!("budget {}", format_bytes(bytes)),
    };
    let by_the_group =
        budget.group_bytes.is_some() && statistics.budget_bytes.load(Relaxed) == budget.bytes;
    if by_the_group {
        limits += ", by the limit of its memory group";
    }
    match statistics.cold_after_ms.load(Relaxed) {
        0 => limits,
        age_ms => limits + ", cold age " + &format_cold_after(age_ms),
    }
}

/// The object for `--stats`: the statistics, if the pager started, and how the program ended.
pub fn to_json(
    program: &str,
    pid: u32,
    statistics: Option<(&Statistics, &Figures)>,
    budget: &BudgetInForce,
    ending: Ending,
) -> Value {
    let mut object = match statistics {
        Some((statistics, figures)) => report::to_json(program, statistics, figures),
        None => Map::from_iter([("schema_version".to_owned(), json!(SCHEMA_VERSION))]),
    };
    let (status, signal) = match ending {
        Ending::Exited(status) => (Some(status), None),
        Ending::Killed(signal) => (None, Some(signal)),
    };
    for (name, value) in [
        ("program", json!(program)),
        ("pid", json!(pid)),
        ("pager_started", json!(statistics.is_some())),
        ("exit_status", json!(status)),
        ("signal", json!(signal)),
        ("budget_asked_bytes", json!(budget.asked())),
        ("memory_group_limit_bytes", json!(budget.group_bytes)),
    ] {
        object.insert(name.to_owned(), value);
    }
    object.into()
}

/// Writes `value` so that a reader sees the old file or the whole new one. A target that exists
/// and is no regular file (`/dev/null`, a pipe) is written directly.
pub fn write_json(target: &Path, value: &Value) -> io::Result<()> {
    let text = format!("{value:#}\n");
    if fs::metadata(target).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(target, text);
    }
    let temporary = temporary_beside(target)?;
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, target));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Whether `target` could be written, to be known before the program has run for hours.
pub fn check_writable(target: &Path) -> io::Result<()> {
    if target.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if target.exists() && !target.is_file() {
        return Ok(());
    }
    let temporary = temporary_beside(target)?;
    fs::write(&temporary, "")?;
    fs::remove_file(&temporary)
}

fn temporary_beside(target: &Path) -> io::Result<PathBuf> {
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(target.with_file_name(temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_reads_as_documented() {
        let statistics = Statistics::new();
        statistics.peak_content_bytes.store(851_863_142, Relaxed);
        statistics.peak_total_bytes.store(555_850_138, Relaxed);
        statistics.budget_bytes.store(528 << 20, Relaxed);
        statistics.evictions.store(182_331, Relaxed);
        statistics.faults.store(97_110, Relaxed);
        statistics.pager_user_time_ns.store(1_900_000_000, Relaxed);
        statistics.peak_saved_bytes.store(296_013_004, Relaxed);
        statistics.pressure_compressions.store(3, Relaxed);
        statistics.critical_compressions.store(1, Relaxed);
        statistics.codec.set(b"press");
        statistics.storage.set(b"three-slot");
        let budget = BudgetInForce::of(528 << 20, None).unwrap();
        let idle = line("python3", &statistics, &budget);
        assert_eq!(
            idle,
            "python3: content peaked at 812.4 MiB, held in 530.1 MiB (budget 528.0 MiB), saved up to 282.3 MiB; \
             182,331 evictions (pressure 75 %, critical 25 %), 97,110 faults; pager CPU 1.9 s; codec press, storage three-slot"
        );
        statistics.recoded_pages.store(1_200, Relaxed);
        statistics.recode_saved_bytes.store(3 << 20, Relaxed);
        let denser = line("python3", &statistics, &budget);
        assert!(
            denser.ends_with("; 1,200 pages stored anew, by 3.0 MiB smaller"),
            "{denser}"
        );
        let bound = BudgetInForce::of(1 << 30, Some(64 << 20)).unwrap();
        assert!(
            !line("p", &statistics, &bound).contains("memory group"),
            "it was set since"
        );
        statistics.budget_bytes.store(60 << 20, Relaxed);
        let bound = line("python3", &statistics, &bound);
        assert!(bound.contains("(budget 60.0 MiB, by the limit of its memory group), saved"));
        statistics.budget_bytes.store(NO_BUDGET, Relaxed);
        statistics.cold_after_ms.store(60_000, Relaxed);
        let free = BudgetInForce::of(NO_BUDGET, None).unwrap();
        assert!(line("p", &statistics, &free).contains("(no budget, cold age 1 min)"));
        statistics.fault_service.record(3_000);
        statistics.stalled_faults.store(2, Relaxed);
        let busy = line("python3", &statistics, &budget);
        assert!(
            busy.contains("97,110 faults, service p50 3.1 µs p99 3.1 µs"),
            "{busy}"
        );
        assert!(busy.ends_with("WARNING: 2 faults stalled for more than a second"));
    }

    #[test]
    fn several_programs_are_told_together() {
        let mut totals = Totals {
            programs: 14,
            saved_bytes: 282 << 20,
            evictions: 182_331,
            ..Totals::default()
        };
        totals.largest.program = "cc1plus".to_owned();
        totals.largest.pid = 4242;
        totals.largest.peak_total_bytes = 530 << 20;
        totals.largest.peak_content_bytes = 812 << 20;
        let budget = BudgetInForce::of(1 << 30, None).unwrap();
        let none = line_of_all("sh", &Totals::default(), &budget);
        assert!(
            none.starts_with("sh: no program of it was managed"),
            "{none}"
        );
        let line = line_of_all("sh", &totals, &budget);
        assert!(
            line.starts_with(
                "sh: 14 programs managed (budget 1.0 GiB for each); saved up to 282.0 MiB"
            ),
            "{line}"
        );
        assert!(
            line.contains(
                "cc1plus (4242) held most, 530.0 MiB of 812.0 MiB content; 182,331 evictions"
            ),
            "{line}"
        );
        assert!(!line.contains("still run") && !line.contains("WARNING"));
        (totals.running, totals.lost) = (2, 1);
        let line = line_of_all("sh", &totals, &budget);
        assert!(
            line.contains("; 2 of them still run; WARNING: 1 pages"),
            "{line}"
        );
    }

    #[test]
    fn a_budget_that_could_not_be_kept_is_confessed() {
        let statistics = Statistics::new();
        let budget = BudgetInForce::of(100 << 20, None).unwrap();
        let said = |statistics| line("p", statistics, &budget).contains("could not be kept");
        statistics.budget_bytes.store(100 << 20, Relaxed);
        statistics.peak_total_bytes.store(150 << 20, Relaxed);
        assert!(!said(&statistics), "the program was faster for a moment");
        statistics.budget_misses.store(3, Relaxed);
        let text = line("p", &statistics, &budget);
        assert!(
            text.contains("; the budget could not be kept: up to 50.0 MiB above it"),
            "{text}"
        );
        statistics.peak_total_bytes.store(104 << 20, Relaxed);
        assert!(!said(&statistics), "a little");
        statistics.peak_total_bytes.store(150 << 20, Relaxed);
        statistics.budget_misses.store(0, Relaxed);
        statistics.rule.store(Rule::OutOfReach as u64, Relaxed);
        assert!(said(&statistics));
        statistics.budget_bytes.store(NO_BUDGET, Relaxed);
        assert!(!said(&statistics));
    }

    #[test]
    fn the_file_is_replaced_whole_or_not_at_all() {
        let directory = std::env::temp_dir().join(format!("coldpress-json-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let target = directory.join("out.json");
        let value = to_json(
            "p",
            7,
            None,
            &BudgetInForce::of(1 << 30, None).unwrap(),
            Ending::Killed(9),
        );
        assert_eq!(
            (&value["pager_started"], &value["signal"]),
            (&json!(false), &json!(9))
        );
        check_writable(&target).unwrap();
        write_json(&target, &value).unwrap();
        write_json(&target, &value).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&target).unwrap()).unwrap();
        assert_eq!(read, value);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        assert!(check_writable(&directory).is_err());
        assert!(check_writable(&directory.join("no/x.json")).is_err());
        assert!(write_json(Path::new("/dev/null"), &value).is_ok());
        assert!(Path::new("/dev/null").exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
