//! The estimate of one process, for people.

use crate::estimate::assemble::Estimate;
use crate::estimate::content::Content;
use crate::estimate::model::Expected;
use crate::estimate::seen::Touched;
use crate::grid;
use crate::own_name;
use crate::size::{format_bytes, format_count};
use crate::streams::visible;

const PAGE: f64 = 4096.0;

/// Everything that is known.
pub fn detail(estimate: &Estimate, budget: Option<u64>) -> String {
    let mut text = head(estimate);
    text += &ages(estimate);
    text += "\n";
    text += &settings(estimate, budget);
    text += "\n";
    for (name, what) in lines(estimate) {
        text += &format!("{name:14}{what}\n");
    }
    text
}

fn head(estimate: &Estimate) -> String {
    let Estimate {
        name,
        pid,
        seen,
        model,
        ..
    } = estimate;
    let how = match &seen.touched {
        Touched::Unknown(why) => format!("which pages are used is not known: {}", visible(why)),
        Touched::ByMapping(_) => format!(
            "watched for {:.0} s by the kernel's notes of what was touched, which were cleared once (clear_refs); \
             nothing else was changed",
            seen.watched_s
        ),
        Touched::ByPage(idle) => format!(
            "watched for {:.0} s: {} pages, by DAMON; nothing was changed",
            seen.watched_s,
            format_count(idle.len() as u64)
        ),
    };
    format!(
        "{} ({pid}): {} of private anonymous memory, {} of it manageable\n{how}\n",
        visible(name),
        format_bytes(model.native_bytes() as u64),
        format_bytes((model.pages() * PAGE) as u64),
    )
}

/// How much was touched within which time.
fn ages(estimate: &Estimate) -> String {
    let rows = age_rows(estimate).into_iter().map(|(what, bytes, share)| {
        vec![
            what,
            format_bytes(bytes as u64),
            format!("{:.0} %", share * 100.0),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    match rows.is_empty() {
        true => String::new(),
        false => {
            let headings = [("TOUCHED", true), ("MEMORY", false), ("SHARE", false)];
            format!("\n{}", grid::aligned(&headings, true, rows))
        }
    }
}

/// Ages, bytes, and shares of what can be managed.
pub fn age_rows(estimate: &Estimate) -> Vec<(String, f64, f64)> {
    let model = &estimate.model;
    let pages = model.pages();
    let Some(&last) = model.times.last() else {
        return Vec::new();
    };
    let told = [1.0, 10.0, 60.0]
        .into_iter()
        .filter(|time| *time < last * 0.9);
    let mut rows = Vec::new();
    let mut before = 0.0;
    for time in told.chain([last]) {
        let within = model.touched_pages(time);
        let what = match before {
            0.0 => format!("within {}", seconds(time)),
            _ => format!("before that, within {}", seconds(time)),
        };
        rows.push((
            what,
            (within - before).max(0.0) * PAGE,
            (within - before).max(0.0) / pages.max(1.0),
        ));
        before = within;
    }
    let rest = (pages - before).max(0.0);
    rows.push((
        "not while watched".to_owned(),
        rest * PAGE,
        rest / pages.max(1.0),
    ));
    rows
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.95 => format!("{:.0} ms", s * 1000.0),
        s if (59.5..60.5).contains(&s) => "1 min".to_owned(),
        s => format!("{s:.0} s"),
    }
}

/// What would be held with which settings.
fn settings(estimate: &Estimate, budget: Option<u64>) -> String {
    let model = &estimate.model;
    let mut rows = Vec::new();
    if estimate.knows_ages() {
        rows.push(row(estimate, "default", &model.by_default()));
        if let Some(later) = model.later() {
            rows.push(row(estimate, "default, all denser", &later));
        }
    }
    for bytes in budgets(estimate, budget) {
        let name = format!("--budget {}", budget_argument(bytes));
        rows.push(match model.under(bytes as f64) {
            Some(expected) => row(estimate, &name, &expected),
            None => vec![name, "out of reach".to_owned()],
        });
    }
    rows.push(row(estimate, "least possible", &model.least()));
    let headings = [
        ("SETTINGS", true),
        ("HOLDS", false),
        ("95 % BETWEEN", false),
        ("SAVES", false),
        ("SHARE", false),
        ("BACK/S", false),
        ("CPU", false),
    ];
    grid::aligned(&headings, true, rows)
}

/// The budgets to be told of: that which was asked for, and the one to try.
pub fn budgets(estimate: &Estimate, asked: Option<u64>) -> Vec<u64> {
    let suggested = estimate
        .knows_ages()
        .then(|| estimate.model.suggested_budget());
    asked.into_iter().chain(suggested.flatten()).collect()
}

fn row(estimate: &Estimate, name: &str, expected: &Expected) -> Vec<String> {
    let native = estimate.native_bytes();
    let saved = native - expected.held_bytes;
    let is_least = name == "least possible";
    let mib = |bytes: f64| format!("{:.1}", bytes.max(0.0) / (1 << 20) as f64);
    vec![
        name.to_owned(),
        format_bytes(expected.held_bytes.max(0.0) as u64),
        match expected.most_bytes > expected.least_bytes {
            true => format!(
                "{}–{} MiB",
                mib(expected.least_bytes),
                mib(expected.most_bytes)
            ),
            false => "–".to_owned(),
        },
        match saved > 0.0 {
            true => format_bytes(saved as u64),
            false => "nothing".to_owned(),
        },
        format!("{:.0} %", (saved / native.max(1.0)).max(0.0) * 100.0),
        match is_least {
            true => "–".to_owned(),
            false => format_count(expected.refaults_s.round() as u64),
        },
        match is_least {
            true => "–".to_owned(),
            false => format!("{:.1} %", expected.processor_share() * 100.0),
        },
    ]
}

/// A budget as the option takes it.
pub fn budget_argument(bytes: u64) -> String {
    match bytes % (1 << 20) {
        0 => format!("{}M", bytes >> 20),
        _ => format!("{bytes}"),
    }
}

fn lines(estimate: &Estimate) -> Vec<(&'static str, String)> {
    let model = &estimate.model;
    let mut lines = vec![
        ("content", content(&estimate.content, estimate)),
        ("not managed", not_managed(estimate)),
        (
            "the pager",
            format!("about {}", format_bytes(model.overhead_bytes() as u64)),
        ),
    ];
    if estimate.knows_ages() {
        lines.push((
            "reached",
            match model.settles_quickly() {
                true => "by default within a minute or so".to_owned(),
                false => {
                    "by default in minutes: at first so many pages come back that run waits longer"
                        .to_owned()
                }
            },
        ));
    }
    if let Some(why) = &estimate.unfit {
        lines.push(("but", format!("run would not manage it: it is {why}")));
        return lines;
    }
    let command = quoted_line(&estimate.command_line);
    let budget = model.suggested_budget().filter(|_| estimate.knows_ages());
    lines.push(("to try", format!("{} run -- {command}", own_name::get())));
    if let Some(bytes) = budget {
        lines.push((
            "or",
            format!(
                "{} run --budget {} -- {command}",
                own_name::get(),
                budget_argument(bytes)
            ),
        ));
    }
    lines
}

fn content(content: &Content, estimate: &Estimate) -> String {
    let pages = content.pages.max(1) as f64;
    let percent = |count: usize| format!("{:.1} %", count as f64 * 100.0 / pages);
    let stored = content.stored();
    let became = match stored {
        0 => "none".to_owned(),
        stored => format!(
            "{:.0} % of their size ({}, {})",
            content.stored_bytes * 100.0 / (stored as f64 * PAGE),
            estimate.storing.codec,
            estimate.storing.storage
        ),
    };
    format!(
        "{} pages looked at: zero {}, otherwise same-filled {}, incompressible {}; the others become {became}",
        format_count(content.pages as u64),
        percent(content.zero),
        percent(content.same_filled),
        percent(content.incompressible),
    )
}

fn not_managed(estimate: &Estimate) -> String {
    let survey = &estimate.seen.survey;
    let mut reasons: Vec<_> = survey.unmanaged.iter().collect();
    reasons.sort_by_key(|(_, bytes)| u64::MAX - **bytes);
    let mut parts: Vec<String> = reasons
        .into_iter()
        .map(|(reason, bytes)| format!("{} {}", reason.text(), format_bytes(*bytes)))
        .collect();
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    format!(
        "{}; besides, in no budget: files and shared memory {}",
        parts.join(", "),
        format_bytes(survey.other_bytes)
    )
}

/// A command line as a shell takes it; the end of a long one is left out.
pub fn quoted_line(words: &[String]) -> String {
    const MOST_BYTES: usize = 160;
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let line = visible(&quoted.join(" "));
    match line.len() <= MOST_BYTES && !line.is_empty() {
        true => line,
        false => {
            let first = quoted.first().map_or("PROGRAM", String::as_str);
            format!("{} …", visible(first))
        }
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        assert_eq!(quoted("--port=6379"), "--port=6379");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn budgets_are_written_as_the_option_reads_them() {
        for bytes in [8 << 20, 181 << 20, 10_000_001] {
            let text = budget_argument(bytes);
            let read = crate::size::parse_bytes(&text);
            assert_eq!(read, Some(bytes), "{text}");
        }
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(seconds(60.2), "1 min");
        assert_eq!(seconds(10.0), "10 s");
    }
}
