//! What `run --verbose` adds to the lines at the end: what an expert asks for.

use super::get;
use crate::budget::BudgetInForce;
use crate::duration::{format_cold_after, format_nanoseconds};
use crate::follow::Totals;
use crate::report;
use crate::rule;
use crate::size::{format_bytes, format_count};
use crate::sums::pager_cpu_ns;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::statistics::Statistics;

/// The lines for a program.
pub fn of_program(s: &Statistics, budget: &BudgetInForce) -> Vec<String> {
    let mut lines = vec![format!(
        "evictions {}{}, faults {}",
        format_count(get(&s.evictions)),
        match rule::driven_by(s) {
            Some(shares) => format!(" ({shares})"),
            None => String::new(),
        },
        format_count(get(&s.faults)),
    )];
    let quantile = |q: f64| s.fault_service.quantile_ns(q).map(format_nanoseconds);
    if let (Some(p50), Some(p99)) = (quantile(0.5), quantile(0.99)) {
        lines.push(format!(
            "fault service p50 {p50}, p99 {p99}; waited for faults {}",
            format_nanoseconds(get(&s.fault_wait_ns))
        ));
    }
    let (pager, program) = (pager_cpu_ns(s), get(&s.program_cpu_ns));
    if pager + program > 0 {
        lines.push(format!(
            "processor time: pager {}, program {}",
            format_nanoseconds(pager),
            format_nanoseconds(program)
        ));
    }
    let recoded = get(&s.recoded_pages);
    if recoded > 0 {
        lines.push(format!(
            "{} pages recompressed, {} smaller",
            format_count(recoded),
            format_bytes(get(&s.recode_saved_bytes))
        ));
    }
    lines.extend(written_back(s));
    let (codec, storage) = report::names(s);
    lines.push(format!("codec {codec}, storage {storage}"));
    lines.push(limits(s, budget));
    lines
}

/// What was written back, if anything was.
fn written_back(s: &Statistics) -> Vec<String> {
    let (written, read) = (get(&s.write_backs), get(&s.read_backs));
    if written == 0 {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "written back: {} pages ({} to the file), {} read back",
        format_count(written),
        format_bytes(get(&s.write_back_file_bytes)),
        format_count(read)
    )];
    if read > 0 {
        lines.push(format!(
            "reading a page back: p50 {}, p99 {}, longest {}",
            format_nanoseconds(get(&s.read_back_p50_ns)),
            format_nanoseconds(get(&s.read_back_p99_ns)),
            format_nanoseconds(get(&s.read_back_longest_ns))
        ));
    }
    lines
}

/// The lines for several programs. `first`: the figures of the first process, which alone writes back.
pub fn of_all(totals: &Totals, first: Option<&Statistics>) -> Vec<String> {
    let mut lines = vec![
        format!(
            "evictions {}, faults {}; pagers' processor time {}",
            format_count(totals.sums.evictions),
            format_count(totals.sums.faults),
            format_nanoseconds(totals.sums.pager_cpu_ns)
        ),
        format!(
            "sum of what each saved at most: {}",
            format_bytes(totals.saved_bytes)
        ),
    ];
    lines.extend(first.into_iter().flat_map(written_back));
    lines
}

/// Budget and cold age, as they were at the end.
fn limits(s: &Statistics, budget: &BudgetInForce) -> String {
    let mut limits = match get(&s.budget_bytes) {
        NO_BUDGET => "no budget".to_owned(),
        bytes => format!("budget {}", format_bytes(bytes)),
    };
    if budget.group_bytes.is_some() && get(&s.budget_bytes) == budget.bytes {
        limits += ", by the limit of its memory group";
    }
    match get(&s.cold_after_ms) {
        0 => limits,
        age_ms => limits + ", cold age " + &format_cold_after(age_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closing::tests::{MS, fits, page};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn experts_get_more() {
        let s = page();
        s.pressure_compressions.store(3, Relaxed);
        s.critical_compressions.store(1, Relaxed);
        s.recoded_pages.store(1_200, Relaxed);
        s.recode_saved_bytes.store(3 << 20, Relaxed);
        s.fault_service.record(3_000);
        s.program_cpu_ns.store(1_900 * MS, Relaxed);
        let budget = BudgetInForce::of(1 << 30, Some(64 << 20)).unwrap();
        let lines = of_program(&s, &budget);
        assert_eq!(
            lines,
            [
                "evictions 29,745 (pressure 75 %, critical 25 %), faults 100,000",
                "fault service p50 3.1 µs, p99 3.1 µs; waited for faults 200 ms",
                "processor time: pager 920 ms, program 1.9 s",
                "1,200 pages recompressed, 3.0 MiB smaller",
                "codec press, storage press",
                "budget 60.0 MiB, by the limit of its memory group",
            ]
        );
        fits(&lines);
        s.budget_bytes.store(NO_BUDGET, Relaxed);
        s.cold_after_ms.store(60_000, Relaxed);
        let free = BudgetInForce::of(NO_BUDGET, None).unwrap();
        s.write_backs.store(7, Relaxed);
        let lines = of_all(&Totals::default(), Some(&s));
        assert_eq!(lines[2..], written_back(&s), "as of one program");
        assert_eq!(lines.len(), 3);
        s.write_backs.store(0, Relaxed);
        assert_eq!(
            of_program(&s, &free).last().unwrap(),
            "no budget, cold age 1 min"
        );
    }
}
