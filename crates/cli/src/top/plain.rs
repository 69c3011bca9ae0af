//! Without a terminal: the table of `status` at every interval, or a line of JSON.

use super::model::Model;
use super::reading::{self, Reading, Wanted};
use super::row::Row;
use crate::refusal::Refusal;
use crate::status;
use crate::streams::{print, say};
use coldpress_interface::control::NO_BUDGET;
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Prints until somebody ends it, or once.
pub fn run(wanted: &Wanted, interval: Duration, once: bool, as_json: bool) -> Result<u8, Refusal> {
    let began = Instant::now();
    let mut model = Model::new();
    let mut is_first = true;
    loop {
        if as_json {
            let (readings, _) = reading::all(wanted);
            let at_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            model.take(readings, at_ns);
            print(&format!("{}\n", line(&model)))?;
        } else {
            let (_, live) = reading::all(wanted);
            let gap = if is_first { "" } else { "\n" };
            match live.is_empty() {
                // No process that begins later has that number as a rule; one of that name may.
                true if is_first && wanted.is_named() && (once || wanted.are_numbers()) => {
                    return Err(Refusal::new(wanted.nothing_to_show()));
                }
                true if once => say!("{}", wanted.nothing_to_show()),
                true if is_first => say!("{}; waiting for one", wanted.nothing_to_show()),
                true => {}
                // A blank line between two tables.
                false => print(&format!("{gap}{}", status::table_of(&live)))?,
            }
        }
        is_first = false;
        if once {
            return Ok(0);
        }
        std::thread::sleep(interval);
    }
}

fn line(model: &Model) -> Value {
    let day = SystemTime::now().duration_since(UNIX_EPOCH);
    let at_ms = day.map_or(0, |day| u64::try_from(day.as_millis()).unwrap_or(u64::MAX));
    let programs: Vec<Value> = model.rows.iter().map(of_row).collect();
    json!({ "sampled_at_ms": at_ms, "programs": programs })
}

/// Keys that `status --json` has, too, mean what they mean there.
fn of_row(row: &Row) -> Value {
    let Reading {
        key,
        program,
        budget_bytes,
        total_bytes,
        content_bytes,
        faults,
        pager_cpu_ns,
        longest_wait_ns,
        rule_name,
        ..
    } = &row.reading;
    json!({
        "pid": key.pid,
        "start_time_ticks": key.start_ticks,
        "program": program,
        "budget_bytes": (*budget_bytes != NO_BUDGET).then_some(budget_bytes),
        "total_bytes": total_bytes,
        "content_bytes": content_bytes,
        "saved_bytes": row.reading.saved_bytes(),
        "saved_share": row.reading.saved_share(),
        "faults": faults,
        "faults_per_second": row.faults_per_second,
        "pager_cpu_ns": pager_cpu_ns,
        "pager_processor_share": row.pager_share,
        "longest_fault_wait_ns": longest_wait_ns,
        "rule": rule_name,
    })
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::reading;
    use super::*;

    #[test]
    fn a_line_has_rates_as_soon_as_they_are_known() {
        let mut model = Model::new();
        model.take(vec![reading(1, "a", 50, 1_000)], 1_000_000_000);
        let first = line(&model);
        assert!(first["programs"][0]["faults_per_second"].is_null());
        assert!(first["programs"][0]["budget_bytes"].is_null());
        assert_eq!(first["programs"][0]["saved_bytes"], 50 << 20);
        assert_eq!(first["programs"][0]["rule"], "within_budget");
        model.take(vec![reading(1, "a", 50, 1_500)], 2_000_000_000);
        let second = line(&model);
        assert_eq!(second["programs"][0]["faults_per_second"], 500.0);
        assert!(!second.to_string().contains('\n'));
    }
}
