//! A snapshot as text, in either of two formats.
//!
//! | format | for | media type |
//! |---|---|---|
//! | OpenMetrics 1.0 | Prometheus since 2.5, and whatever else asks for it | `application/openmetrics-text` |
//! | Prometheus text 0.0.4 | older scrapers, node_exporter's textfile collector, `promtool check metrics` | `text/plain` |
//!
//! `prometheus-client` writes OpenMetrics. The older format is made from that line by line: it has no units and no end mark,
//! the family of a counter is named like its samples, and an info is a gauge.

use super::collector::Of;
use super::names::PREFIX;
use super::snapshot::Snapshot;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    Openmetrics,
    /// The text format of Prometheus, 0.0.4.
    Prometheus,
}

impl Format {
    /// Its media type, with version and character set.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Openmetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Reads the name of a format.
pub fn parse_format(text: &str) -> Result<Format, String> {
    match text {
        "openmetrics" => Ok(Format::Openmetrics),
        "prometheus" => Ok(Format::Prometheus),
        _ => Err(format!(
            "{text:?} is no format: write openmetrics or prometheus"
        )),
    }
}

/// What is so now, as text.
pub fn now(format: Format) -> String {
    of(Snapshot::take(), format)
}

/// A snapshot as text.
pub fn of(snapshot: Snapshot, format: Format) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Of(snapshot)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut text, &registry);
    // As both formats write it. No label holds a line break that is not escaped.
    let text = text.replace(" inf\n", " +Inf\n");
    match format {
        Format::Openmetrics => text,
        Format::Prometheus => in_the_older_format(&text),
    }
}

/// OpenMetrics text, made by the encoder, in the older format.
fn in_the_older_format(text: &str) -> String {
    let mut older = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            // The type, which comes next, says how the family is named.
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, text)) = help.take() {
                older += &format!("# HELP {name}{suffix} {text}\n");
            }
            older += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with('#') {
            older += line;
            older.push('\n');
        }
    }
    older
}

#[cfg(test)]
pub mod tests {
    use super::super::snapshot::Process;
    use super::*;
    use crate::statistics_file::Copy;
    use coldpress_engine::metrics::figure;
    use coldpress_engine::tunables::TABLE;
    use coldpress_interface::control::NO_BUDGET;
    use coldpress_interface::page::Page;
    use coldpress_interface::statistics::{Failure, MAGIC, Rule, VERSION};
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering::Relaxed;

    /// A page of which everything is known.
    pub fn full_page(pid: u32) -> Box<Page> {
        let page = Box::new(Page::new());
        let s = &page.statistics;
        s.magic.store(MAGIC, Relaxed);
        s.version.store(VERSION, Relaxed);
        s.pid.store(pid.into(), Relaxed);
        s.filled_bytes.store(u64::MAX, Relaxed);
        s.budget_bytes.store(64 << 20, Relaxed);
        s.payload_bytes.store(1234, Relaxed);
        s.pager_cpu_ns.store(1_500_000_000, Relaxed);
        s.rule.store(Rule::ColdAge as u64, Relaxed);
        s.triggers.store(5, Relaxed);
        s.codec.set(b"press");
        s.fail(Failure::MoveBusy);
        s.fault_service.record(3_000);
        s.fault_service.record(50);
        page.figures
            .engine
            .fill(figure::every().map(|figure| (figure.name, 7)));
        page.figures
            .tunables
            .fill(TABLE.iter().map(|row| (row.name, 1)));
        page
    }

    fn text(program: &str, format: Format, change: fn(&Page)) -> String {
        let page = full_page(42);
        change(&page);
        let snapshot = Snapshot {
            processes: vec![Process::new(42, program, Copy::of_page(&page))],
            unreadable: 1,
            clock: super::super::snapshot::Clock::default(),
        };
        of(snapshot, format)
    }

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|have| have == line), "{line}\n{text}");
    }

    #[test]
    fn figures_stand_under_their_names_in_base_units() {
        let text = text("prog", Format::Openmetrics, |_| ());
        let of = r#"pid="42",program="prog""#;
        has(&text, "# TYPE coldpress_compressed_bytes gauge");
        has(&text, "# UNIT coldpress_compressed_bytes bytes");
        has(&text, &format!("coldpress_compressed_bytes{{{of}}} 1234"));
        has(&text, "# TYPE coldpress_pager_cpu_seconds counter");
        has(
            &text,
            &format!("coldpress_pager_cpu_seconds_total{{{of}}} 1.5"),
        );
        has(&text, "# UNIT coldpress_rejected_pages pages");
        has(
            &text,
            &format!(r#"coldpress_rejected_pages_total{{{of},reason="move_busy"}} 1"#),
        );
        has(&text, &format!("coldpress_budget_bytes{{{of}}} 67108864"));
        has(
            &text,
            &format!(r#"coldpress_rule{{{of},rule="cold_age"}} 1"#),
        );
        has(&text, &format!(r#"coldpress_rule{{{of},rule="chaos"}} 0"#));
        has(
            &text,
            &format!(r#"coldpress_trigger_enabled{{{of},trigger="pressure"}} 0"#),
        );
        has(&text, "coldpress_managed_processes 1");
        has(&text, "coldpress_unreadable_processes 1");
        let bucket = |le: &str, count| {
            format!(r#"coldpress_fault_duration_seconds_bucket{{le="{le}",{of}}} {count}"#)
        };
        has(&text, &bucket("0.000001024", 1));
        has(&text, &bucket("0.000002048", 1));
        has(&text, &bucket("0.000004096", 2));
        has(&text, &bucket("+Inf", 2));
        assert!(text.ends_with("# EOF\n"));
        let info = text
            .lines()
            .find(|l| l.starts_with("coldpress_process_info"));
        assert!(info.unwrap().contains(r#"codec="press""#), "{info:?}");
    }

    #[test]
    fn no_budget_is_infinite_and_what_an_older_pager_does_not_know_is_left_out() {
        let text = text("prog", Format::Openmetrics, |page| {
            page.statistics.budget_bytes.store(NO_BUDGET, Relaxed);
            page.statistics.filled_bytes.store(0, Relaxed);
            page.figures.engine.fill(std::iter::empty());
        });
        has(
            &text,
            "coldpress_budget_bytes{pid=\"42\",program=\"prog\"} +Inf",
        );
        assert!(text.contains("\ncoldpress_faults_total{"));
        for absent in [
            "rule{",
            "pager_left{",
            "kept_by_form_total{",
            "generation_pages{",
        ] {
            assert!(!text.contains(&format!("\ncoldpress_{absent}")), "{absent}");
        }
    }

    /// Two samples of one name with the same labels make the whole answer invalid.
    #[test]
    fn no_series_stands_twice_and_families_are_not_interleaved() {
        for format in [Format::Openmetrics, Format::Prometheus] {
            let text = text("prog", format, |_| ());
            let mut series = BTreeSet::new();
            let mut families = BTreeSet::new();
            for line in text.lines() {
                if let Some(family) = line.strip_prefix("# TYPE ") {
                    assert!(families.insert(family.to_owned()), "{line}");
                } else if !line.starts_with('#') {
                    let (name, _) = line.rsplit_once(' ').unwrap();
                    assert!(series.insert(name.to_owned()), "{line}");
                }
            }
            assert!(series.len() > 200, "{}", series.len());
        }
    }

    #[test]
    fn names_of_programs_may_hold_anything() {
        let text = text("a\"b\\c\n# EOF é", Format::Openmetrics, |_| ());
        has(
            &text,
            "coldpress_compressed_bytes{pid=\"42\",program=\"a\\\"b\\\\c\\n# EOF é\"} 1234",
        );
        assert_eq!(text.lines().filter(|line| *line == "# EOF").count(), 1);
    }

    #[test]
    fn the_older_format_names_counters_like_their_samples() {
        let text = text("prog", Format::Prometheus, |_| ());
        has(&text, "# TYPE coldpress_pager_cpu_seconds_total counter");
        has(&text, "# TYPE coldpress_process_info gauge");
        has(&text, "# TYPE coldpress_fault_duration_seconds histogram");
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
        let helps = text
            .lines()
            .filter(|line| line.starts_with("# HELP "))
            .count();
        let types = text
            .lines()
            .filter(|line| line.starts_with("# TYPE "))
            .count();
        assert_eq!(helps, types);
    }
}
