//! `coldpress status PID`: one process in detail.

use crate::by_mapping::{self, Line};
use crate::closing;
use crate::columns::{Sizes, Value};
use crate::duration::format_nanoseconds;
use crate::grid::{self, Headings, left, right};
use crate::memory_limit;
use crate::memory_table::{self, Form};
use crate::report::{self, PERCENTILES};
use crate::rule;
use crate::size::{format_budget, format_bytes, format_count};
use crate::sums::pager_cpu_ns;
use crate::tune;
use coldpress_interface::figures::Figures;
use coldpress_interface::statistics::{Failure, Rule, Statistics};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn get(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}

/// How much of a process is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Settings in force, memory, ages.
    #[default]
    Glance,
    /// What it costs, too: faults and waits, CPU time, what storage is made of.
    Costs,
    /// Every tunable and figure, under its name in `docs/metrics.md`.
    All,
}

/// How a process is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Sizes in bytes.
    pub sizes: Sizes,
    /// How much.
    pub depth: Depth,
    /// The width to keep to, if there is one.
    pub width: Option<usize>,
}

/// What is known of a process. `mappings`: its memory by mapping, or why it is not known.
pub fn detail(
    program: &str,
    s: &Statistics,
    figures: &Figures,
    mappings: Result<Vec<Line>, String>,
    style: Style,
) -> String {
    let (lines, why) = match mappings {
        Ok(lines) => (lines, None),
        Err(why) => (by_mapping::unknown(s), Some(why)),
    };
    let form = Form {
        sizes: style.sizes,
        ranges: style.depth == Depth::All,
        width: style.width,
    };
    let mut parts = vec![
        at_a_glance(program, s, &by_mapping::total(&lines)),
        in_force(s),
        memory_table::table(&lines, why.as_deref(), form),
        ages(s, style),
    ];
    if style.depth != Depth::Glance {
        parts.extend([costs(s, style.sizes), latencies(s), compressed_for(s)]);
    }
    parts.push(match style.depth {
        Depth::Glance => "what it costs: -v; every figure and tunable: --all\n".to_owned(),
        Depth::Costs => "every figure and tunable: --all\n".to_owned(),
        Depth::All => [tunables(figures), counters(s, figures, style.sizes)].join("\n"),
    });
    parts.join("\n")
}

/// What a person wants to know: memory now, and what `run` would say if the program ended here.
fn at_a_glance(program: &str, s: &Statistics, total: &Line) -> String {
    let (held, content) = (total.held_bytes(), total.content_bytes());
    let more = if held > content {
        ": the pager takes more than it saves"
    } else {
        ""
    };
    let mut text = format!(
        "{program} ({}): {} now, natively {}{more}\n",
        get(&s.pid),
        format_bytes(held),
        format_bytes(content)
    );
    if get(&s.evictions) > 0 {
        let limit = memory_limit::group_bytes_of(get(&s.pid) as u32);
        let lines = closing::so_far(s, limit);
        lines.iter().for_each(|line| text += &format!("{line}\n"));
    }
    text
}

fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<34} {value}");
}

fn in_force(s: &Statistics) -> String {
    let mut text = String::new();
    let (codec, storage) = report::names(s);
    let unknown = || "-".to_owned();
    row(
        &mut text,
        "rule in force",
        &rule::explain(s).unwrap_or_else(unknown),
    );
    row(&mut text, "budget", &format_budget(get(&s.budget_bytes)));
    row(&mut text, "cold age", &rule::cold_age(s));
    let triggers = rule::triggers(s).map(|on| on.to_string());
    row(&mut text, "triggers", &triggers.unwrap_or_else(unknown));
    row(
        &mut text,
        "compressed so far by",
        &rule::driven_by(s).unwrap_or_else(unknown),
    );
    row(&mut text, "codec, storage", &format!("{codec}, {storage}"));
    text
}

fn tunables(figures: &Figures) -> String {
    let mut text = String::new();
    for (name, value) in tune::in_force(figures) {
        let _ = writeln!(text, "{name:<40} {value}");
    }
    text
}

/// Pages in place by age.
fn ages(s: &Statistics, style: Style) -> String {
    if !s.answers() {
        return String::new();
    }
    let mut rows = Vec::new();
    let bytes = |pages: u64| Value::Bytes(pages * 4096).text(style.sizes);
    let mut push = |age: String, pages: u64, more: &str| {
        rows.push(vec![
            age,
            format_count(pages),
            bytes(pages),
            more.to_owned(),
        ]);
    };
    let ages = s.generation_age_ms.iter().map(get);
    let generations = s.generation_pages.iter().map(get).zip(ages);
    for (generation, (pages, age_ms)) in generations.enumerate() {
        let age = format_nanoseconds(age_ms.saturating_mul(1_000_000));
        match generation {
            0 => push("touched since".to_owned(), pages, "never evicted"),
            1 => push(age, pages, "evicted only with older neighbours"),
            _ if pages > 0 || age_ms > 0 => push(age, pages, ""),
            _ => {}
        }
    }
    let failed = get(&s.failed_pages);
    push("-".to_owned(), failed, "cannot be evicted now; tried again");
    let headings = [
        right("UNTOUCHED FOR"),
        right("PAGES"),
        right("MEMORY"),
        left("").cut_end(),
    ];
    grid::fitted(&headings, rows, style.width)
}

/// What compression costs the program, and where memory of storage goes.
fn costs(s: &Statistics, sizes: Sizes) -> String {
    let mut text = String::new();
    let bytes = |word: &AtomicU64| Value::Bytes(get(word)).text(sizes);
    let refaults = get(&s.faults_decompressed) + get(&s.faults_copied) + get(&s.faults_same_filled);
    let mut add = |name: &str, value: String| row(&mut text, name, &value);
    add("pages evicted", format_count(get(&s.evictions)));
    add(
        "pages that did not compress",
        format_count(get(&s.failed_pages)),
    );
    add("faults", format_count(get(&s.faults)));
    add("  on evicted pages", format_count(refaults));
    add(
        "  threads waited for them",
        format_nanoseconds(get(&s.fault_wait_ns)),
    );
    add(
        "  longest wait",
        format_nanoseconds(get(&s.longest_fault_wait_ns)),
    );
    add("CPU time of the pager", format_nanoseconds(pager_cpu_ns(s)));
    add(
        "CPU time of the program",
        format_nanoseconds(get(&s.program_cpu_ns)),
    );
    add("compressed storage", bytes(&s.storage_bytes));
    add("  compressed pages", bytes(&s.payload_bytes));
    add("  their headers", bytes(&s.object_header_bytes));
    add("  gaps between them", bytes(&s.fragmentation_bytes));
    add("  kept for what comes next", bytes(&s.idle_frames_bytes));
    text
}

fn latencies(s: &Statistics) -> String {
    let duration = |ns: Option<u64>| ns.map_or("-".to_owned(), format_nanoseconds);
    let mut service = vec![
        "fault service".to_owned(),
        format_count(s.fault_service.count()),
    ];
    for (_, share) in PERCENTILES {
        service.push(duration(s.fault_service.quantile_ns(share)));
    }
    service.push("-".to_owned());
    let mut rows = vec![service];
    let codec = |name: &str, count: u64, words: [&AtomicU64; 5]| {
        let mut row = vec![name.to_owned(), format_count(count)];
        row.extend(words.map(|word| duration(Some(get(word)).filter(|&ns| ns > 0))));
        row
    };
    rows.push(codec(
        "decompression",
        get(&s.decompressions),
        [
            &s.decompression_p50_ns,
            &s.decompression_p90_ns,
            &s.decompression_p99_ns,
            &s.decompression_p999_ns,
            &s.decompression_longest_ns,
        ],
    ));
    rows.push(codec(
        "compression",
        get(&s.compression_attempts),
        [
            &s.compression_p50_ns,
            &s.compression_p90_ns,
            &s.compression_p99_ns,
            &s.compression_p999_ns,
            &s.compression_longest_ns,
        ],
    ));
    let headings = [
        ("LATENCY", true),
        ("COUNT", false),
        ("P50", false),
        ("P90", false),
        ("P99", false),
        ("P99.9", false),
        ("LONGEST", false),
    ];
    grid::aligned(&headings, Headings::Shown, rows)
}

fn compressed_for(s: &Statistics) -> String {
    let buckets = &s.decompressed_within_log_seconds;
    let last = buckets.len() - 1;
    let rows = buckets.iter().enumerate().map(|(bucket, count)| {
        let name = match bucket {
            0 => "below 1 s".to_owned(),
            bucket if bucket == last => format!("{} s and more", 1 << (bucket - 1)),
            bucket => format!("{} to {} s", 1 << (bucket - 1), 1 << bucket),
        };
        vec![name, format_count(get(count))]
    });
    let headings = [("COMPRESSED FOR", false), ("PAGES THAT CAME BACK", false)];
    grid::aligned(&headings, Headings::Shown, rows.collect())
}

fn counters(s: &Statistics, figures: &Figures, sizes: Sizes) -> String {
    let mut text = String::new();
    let engine = report::engine_figures(s, figures);
    for (name, value) in report::fields(s, figures).chain(engine) {
        row(&mut text, name, &for_people(s, name, value, sizes));
    }
    row(&mut text, "not evicted, by reason", "");
    for reason in Failure::ALL {
        let count = format_count(s.failed(reason));
        row(&mut text, &format!("  {}", reason.name()), &count);
    }
    text
}

fn for_people(s: &Statistics, name: &str, value: u64, sizes: Sizes) -> String {
    match name {
        "budget_bytes" => Value::Budget(value).text(sizes),
        "triggers" => rule::triggers(s).map_or(value.to_string(), |on| on.to_string()),
        "rule" => Rule::from_word(value).map_or(value.to_string(), |rule| rule.name().to_owned()),
        "stalled_address" => format!("{value:#x}"),
        _ if name.ends_with("_bytes") => Value::Bytes(value).text(sizes),
        _ if name.ends_with("_at_ns") => value.to_string(),
        _ if name.ends_with("_ns") => format_nanoseconds(value),
        _ => format_count(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Style = Style {
        sizes: Sizes::WithUnit,
        depth: Depth::All,
        width: None,
    };

    fn sample() -> Statistics {
        let s = Statistics::new();
        s.filled_bytes.store(u64::MAX, Relaxed);
        s.pid.store(4242, Relaxed);
        s.codec.set(b"press");
        s.storage.set(b"three-slot");
        s.budget_bytes.store(64 << 20, Relaxed);
        s.triggers.store(7, Relaxed);
        s.rule.store(3, Relaxed);
        s.fail(Failure::MoveBusy);
        s.fault_service.record(3_000);
        s.decompressed_within_log_seconds[8].store(5, Relaxed);
        s.generation_pages[2].store(1_000, Relaxed);
        s.generation_age_ms[2].store(2_500, Relaxed);
        s.decompressions.store(77, Relaxed);
        s.decompression_p99_ns.store(14_000, Relaxed);
        s
    }

    fn heap() -> Line {
        Line {
            range: Some((0x7f00_0000, 0x7f40_0000)),
            name: "[heap]".to_owned(),
            committed_bytes: 1 << 20,
            compressed_bytes: 2 << 20,
            ..Line::default()
        }
    }

    #[test]
    fn everything_is_there() {
        let (s, figures) = (sample(), Figures::default());
        let zeros = coldpress_engine::metrics::figure::every().map(|figure| (figure.name, 0));
        figures.engine.fill(zeros);
        figures
            .tunables
            .fill([("kernel.compression.threshold", 63)].into_iter());
        let line = heap();
        let text = detail("prog", &s, &figures, Ok(vec![line.clone()]), ALL);
        for (name, _) in report::fields(&s, &figures) {
            assert!(text.contains(name), "{name}");
        }
        for figure in coldpress_engine::metrics::figure::every() {
            assert!(text.contains(figure.name), "{}", figure.name);
        }
        for reason in Failure::ALL {
            assert!(text.contains(reason.name()));
        }
        let has = |words: &[&str]| {
            let line = |line: &str| words.iter().all(|word| line.contains(word));
            assert!(text.lines().any(line), "{words:?}: {text}");
        };
        has(&["prog (4242): 1.0 MiB now, natively 3.0 MiB"]);
        has(&["rule in force", "the coldest: near budget"]);
        has(&[
            "7f000000-7f400000",
            "1.0 MiB",
            "2.0 MiB",
            "3.0 MiB",
            "[heap]",
        ]);
        has(&["2.5 s", "1,000", "3.9 MiB"]);
        has(&["kernel.compression.threshold", "63"]);
        has(&["decompression", "77", "14 µs"]);
        has(&["fault service", "3.1 µs"]);
        has(&["128 s and more", "5"]);
        let plain = detail(
            "prog",
            &s,
            &figures,
            Ok(vec![line.clone()]),
            Style {
                sizes: Sizes::Bytes,
                ..ALL
            },
        );
        assert!(plain.contains("67108864") && plain.contains("3145728"));
        let without = detail("prog", &s, &figures, Err("it is stopped".to_owned()), ALL);
        assert!(without.contains("(not by mapping: it is stopped)"));
        let short = detail(
            "prog",
            &s,
            &figures,
            Ok(vec![line.clone()]),
            Style::default(),
        );
        for left_out in [
            "kernel.compression.threshold",
            "fault service",
            "peak_total_bytes",
        ] {
            assert!(
                text.contains(left_out) && !short.contains(left_out),
                "{left_out}"
            );
        }
        assert!(
            short.contains("rule in force") && short.ends_with("tunable: --all\n"),
            "{short}"
        );
        // What -v adds is in words, and no name of a figure.
        let style = Style {
            depth: Depth::Costs,
            ..Style::default()
        };
        let costs = detail("prog", &s, &figures, Ok(vec![line]), style);
        assert!(costs.contains("longest wait") && costs.contains("fault service"));
        assert!(!costs.contains('_'), "{costs}");
    }

    #[test]
    fn holding_more_than_natively_is_explained() {
        let s = sample();
        let own = Line {
            own_bytes: 5 << 20,
            ..Line::default()
        };
        let style = Style::default();
        let text = detail(
            "prog",
            &s,
            &Figures::default(),
            Ok(vec![heap(), own]),
            style,
        );
        let expected =
            "prog (4242): 6.0 MiB now, natively 3.0 MiB: the pager takes more than it saves\n";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn it_fits_a_terminal() {
        let s = sample();
        for word in &s.generation_pages {
            word.store(12_345_678, Relaxed);
        }
        let name = "/usr/lib/x86_64-linux-gnu/a/very/long/path/to/a/library.so";
        let line = Line {
            name: name.to_owned(),
            range: Some((0x7fff_ffff_0000, 0x7fff_ffff_f000)),
            ..heap()
        };
        for depth in [Depth::Glance, Depth::Costs] {
            let style = Style {
                depth,
                width: Some(80),
                ..Style::default()
            };
            let text = detail(
                "prog",
                &s,
                &Figures::default(),
                Ok(vec![line.clone()]),
                style,
            );
            grid::assert_fits(&text, 80);
        }
    }

    #[test]
    fn an_older_pager_says_less() {
        let s = sample();
        s.filled_bytes.store(0, Relaxed);
        let text = detail("prog", &s, &Figures::default(), Err("x".to_owned()), ALL);
        assert!(
            !text.contains("UNTOUCHED FOR")
                && text.contains("rule in force                      -")
        );
    }
}
