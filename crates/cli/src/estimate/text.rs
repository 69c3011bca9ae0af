//! The estimate of one process, for people.

use crate::estimate::arguments::Chosen;
use crate::estimate::assemble::Estimate;
use crate::estimate::commands::{Commands, budget_argument};
use crate::estimate::content::Content;
use crate::estimate::model::Expected;
use crate::estimate::seen::{Seen, Touched};
use crate::grid::{self, left, right};
use crate::help;
use crate::size::{format_bytes, format_count, format_short, short_count};
use crate::streams::visible;

const PAGE: f64 = 4096.0;

/// Everything that is known. `width`: that of the terminal, if there is one; commands are left whole, to be copied.
pub fn detail(estimate: &Estimate, chosen: &Chosen, width: Option<usize>) -> String {
    let mut text = in_lines(&head(estimate), width);
    text += &ages(estimate, width);
    text += "\n";
    text += &settings(estimate, chosen.budget, width);
    text += "\n";
    for (name, what) in facts(estimate) {
        text += &in_lines(&format!("{name:14}{what}\n"), width);
    }
    for (name, command) in commands(estimate, &chosen.commands) {
        text += &format!("{name:14}{command}\n");
    }
    text
}

fn in_lines(text: &str, width: Option<usize>) -> String {
    width.map_or_else(|| text.to_owned(), |width| help::wrapped(text, width))
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
        Touched::ByMapping { .. } => format!(
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
    let load = load(seen).map_or(String::new(), |load| format!("meanwhile {load}\n"));
    format!(
        "{} ({pid}): {} of private anonymous memory, {} of it manageable\n{how}\n{load}",
        visible(name),
        format_bytes(model.native_bytes() as u64),
        format_bytes((model.pages() * PAGE) as u64),
    )
}

/// How busy it was while it was watched, and what that means for the estimate.
pub fn load(seen: &Seen) -> Option<String> {
    let share = seen.cpu_share?;
    Some(match share {
        share if share < IDLE => "it was idle: what it touches under load was not seen".to_owned(),
        share => format!("it used {:.0} % of a CPU", share * 100.0),
    })
}

/// A program that uses less of a CPU does nothing.
const IDLE: f64 = 0.005;

/// For how long how much was left alone.
fn ages(estimate: &Estimate, width: Option<usize>) -> String {
    let rows = age_rows(estimate).into_iter().map(|(what, bytes, share)| {
        vec![
            what,
            format_short(bytes as u64),
            format!("{:.0} %", share * 100.0),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    match rows.is_empty() {
        true => String::new(),
        false => {
            let headings = [left("UNTOUCHED FOR"), right("MEMORY"), right("SHARE")];
            format!("\n{}", grid::fitted(&headings, rows, width))
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
    let (mut before, mut from) = (0.0, String::new());
    for time in told.chain([last]) {
        let within = model.touched_pages(time);
        let to = seconds(time);
        let what = match from.is_empty() {
            true => format!("less than {to}"),
            false => format!("{from} to {to}"),
        };
        let pages_then = (within - before).max(0.0);
        rows.push((what, pages_then * PAGE, pages_then / pages.max(1.0)));
        (before, from) = (within, to);
    }
    let rest = (pages - before).max(0.0);
    rows.push((
        format!("{from} or more"),
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
fn settings(estimate: &Estimate, budget: Option<u64>, width: Option<usize>) -> String {
    let model = &estimate.model;
    let mut rows = Vec::new();
    if estimate.knows_ages() {
        rows.push(row(estimate, "default", &model.by_default()));
        if let Some(later) = model.later() {
            rows.push(row(estimate, "default, denser", &later));
        }
    }
    for bytes in budgets(estimate, budget) {
        let name = format!("--budget {}", budget_argument(bytes));
        rows.push(match model.under(bytes as f64) {
            Some(expected) => row(estimate, &name, &expected),
            None => [&*name, "out of", "reach"].map(str::to_owned).to_vec(),
        });
    }
    rows.push(row(estimate, LEAST, &model.least()));
    let headings = [
        left("SETTINGS"),
        right("HOLDS"),
        right("BETWEEN"),
        right("SAVES"),
        right("SHARE"),
        right("BACK/S"),
        right("CPU"),
    ];
    grid::fitted(&headings, rows, width)
}

/// The row of what would be held if everything were compressed.
const LEAST: &str = "least possible";

/// The budgets to be told of: that which was asked for, and the one to try.
pub fn budgets(estimate: &Estimate, asked: Option<u64>) -> Vec<u64> {
    asked
        .into_iter()
        .chain(estimate.suggested_budget())
        .collect()
}

fn row(estimate: &Estimate, name: &str, expected: &Expected) -> Vec<String> {
    let native = estimate.native_bytes();
    let saved = native - expected.held_bytes;
    let short = |bytes: f64| format_short(bytes.max(0.0) as u64);
    let (refaults, processor) = match name {
        LEAST => ("–".to_owned(), "–".to_owned()),
        _ => (refaults(expected), processor(expected)),
    };
    vec![
        name.to_owned(),
        match expected.is_bound {
            true => format!("~{}", short(expected.held_bytes)),
            false => short(expected.held_bytes),
        },
        match expected.most_bytes > expected.least_bytes {
            true => format!(
                "{}–{}",
                short(expected.least_bytes),
                short(expected.most_bytes)
            ),
            false => "–".to_owned(),
        },
        match (saved > 0.0, expected.is_bound) {
            (true, true) => format!("~{}", short(saved)),
            (true, false) => short(saved),
            (false, _) => "nothing".to_owned(),
        },
        format!("{:.0} %", (saved / native.max(1.0)).max(0.0) * 100.0),
        refaults,
        processor,
    ]
}

/// Pages that come back in a second, or that it is no more.
pub fn refaults(expected: &Expected) -> String {
    let count = short_count(expected.refaults_s.round() as u64);
    match expected.is_bound {
        true => format!("≤{count}"),
        false => count,
    }
}

/// The share of a CPU that compression costs, or that it is no more.
pub fn processor(expected: &Expected) -> String {
    match (expected.processor_share() * 100.0, expected.is_bound) {
        (share, _) if share >= 99.95 => ">100 %".to_owned(),
        (share, true) => format!("≤{share:.1} %"),
        (share, false) => format!("{share:.1} %"),
    }
}

fn facts(estimate: &Estimate) -> Vec<(&'static str, String)> {
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
        let watched = seconds(estimate.seen.watched_s);
        let longer = seconds(estimate.seen.watched_s * 6.0);
        lines.push((
            "not seen",
            match model.by_default().is_bound {
                true => format!(
                    "how often what was touched in {watched} is touched again: ~ is a guess between bounds, ≤ a bound; to see more: --watch {}",
                    longer.replace(' ', "").replace("min", "m")
                ),
                false => format!(
                    "what is used less often than every {watched}: it would come back; to see more: --watch {}",
                    longer.replace(' ', "").replace("min", "m")
                ),
            },
        ));
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
    let needed = estimate.needed_budget();
    if let Some(why) = needed.and_then(|bytes| estimate.not_allowed(bytes)) {
        lines.push(("no budget", why));
    }
    if let Some(why) = &estimate.unfit {
        lines.push(("but", format!("run would not manage it: it is {why}")));
    }
    lines
}

/// What to type.
fn commands(estimate: &Estimate, commands: &Commands) -> Vec<(&'static str, String)> {
    if estimate.unfit.is_some() {
        return Vec::new();
    }
    if estimate.native_bytes() <= estimate.model.least().held_bytes {
        let nothing = "run would save nothing: what it holds hardly compresses, or is too little";
        return vec![("to try", nothing.to_owned())];
    }
    let command = quoted_line(&estimate.command_line);
    let with_budget = estimate
        .suggested_budget()
        .map(|bytes| ("or", commands.under(bytes, &command)));
    let first = ("to try", commands.by_default(&command));
    [first].into_iter().chain(with_budget).collect()
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
pub mod tests {
    use super::*;
    use crate::estimate::model::{Group, Model};
    use crate::estimate::survey::Survey;
    use coldpress_codec::CodecKind;
    use coldpress_eval::Fate;
    use coldpress_storage::StorageKind;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        assert_eq!(quoted("--port=6379"), "--port=6379");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn times_are_short() {
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(seconds(60.2), "1 min");
        assert_eq!(seconds(10.0), "10 s");
    }

    /// As large as it may be, and a process of a long name.
    pub fn largest(is_bound: bool) -> Estimate {
        let content = Content::of((0..1000).map(|n| Fate::Stored(500 + n % 2000)), 1.0);
        let growth = if is_bound { 1.0 } else { 0.0 };
        let group = Group {
            pages: 200e9 / 4096.0 * 5.0,
            touched: vec![0.01, 0.01 + growth * 0.2, 0.01 + growth * 0.7],
            fresh: vec![0.0; 3],
            content,
        };
        let model = Model {
            unmanaged_bytes: 1e9,
            times: vec![1.0, 5.0, 10.0],
            groups: vec![group],
            windows: 4.0,
            threads: 4.0,
            peak: 1.0,
            aged_sample: None,
            anew: Some(0.5),
        };
        Estimate {
            pid: 4_194_304,
            name: "a-program-of-15".to_owned(),
            command_line: vec!["x".repeat(400)],
            unfit: None,
            seen: Seen {
                survey: Survey::default(),
                watched_s: 10.0,
                cpu_share: Some(0.0),
                times: model.times.clone(),
                touched: Touched::ByMapping {
                    before: Vec::new(),
                    after: Vec::new(),
                },
            },
            storing: crate::estimate::content::storing(CodecKind::best(), StorageKind::default()),
            content,
            packing: 1.0,
            model,
            group_bytes: None,
        }
    }

    /// A budget was suggested that the memory group does not allow, so that `run` would lower it.
    #[test]
    fn no_budget_is_suggested_that_the_memory_group_does_not_allow() {
        let mut estimate = largest(false);
        let chosen = Chosen {
            storing: estimate.storing,
            budget: None,
            commands: Commands::default(),
        };
        let needed = estimate.suggested_budget().unwrap();
        let told = |estimate: &Estimate| detail(estimate, &chosen, None);
        assert_eq!(told(&estimate).matches("--budget ").count(), 2);
        estimate.group_bytes = Some(needed + (65 << 20));
        assert_eq!(told(&estimate).matches("--budget ").count(), 2);
        estimate.group_bytes = Some(needed + (63 << 20));
        let text = told(&estimate);
        assert!(
            !text.contains("--budget ") && text.contains("to try ") && text.contains("no budget "),
            "{text}"
        );
        assert!(estimate.suggested_budget().is_none() && estimate.needed_budget().is_some());
    }

    #[test]
    fn it_fits_a_terminal() {
        for is_bound in [false, true] {
            let estimate = largest(is_bound);
            let chosen = Chosen {
                storing: estimate.storing,
                budget: Some(800 << 30),
                commands: Commands::default(),
            };
            let text = detail(&estimate, &chosen, Some(80));
            let is_command = |line: &&str| line.starts_with("to try ") || line.starts_with("or  ");
            let lines = text.lines().filter(|line| !is_command(line));
            grid::assert_fits(&lines.collect::<Vec<_>>().join("\n"), 80);
            assert_eq!(text.contains(" ~"), is_bound, "{text}");
            for words in ["it was idle", "1 s to 10 s", "10 s or more", "--watch 1m"] {
                assert!(text.contains(words), "{words}: {text}");
            }
        }
    }

    #[test]
    fn what_would_be_more_than_a_cpu_is_no_number() {
        let expected = Expected {
            refaults_s: 26_000.0,
            ..Expected::default()
        };
        assert_eq!(processor(&expected), ">100 %");
        let bound = Expected {
            refaults_s: 100.0,
            is_bound: true,
            ..Expected::default()
        };
        assert_eq!(
            (refaults(&bound), processor(&bound)),
            ("≤100".to_owned(), "≤0.5 %".to_owned())
        );
    }
}
