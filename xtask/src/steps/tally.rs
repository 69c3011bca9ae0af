//! Counting what test programs say they did.
//!
//! Read line by line as the lines appear: `test result:` lines give passed, failed and ignored;
//! a line that starts with `SKIPPED:` tells that a promise was not tested, and why. The test
//! harness counts such a test as passed; we do not: its name is known from the section
//! (`---- name stdout ----`) that `--show-output` prints its output in. The sections of tests that
//! failed are kept, to be repeated at the end: what is between is thousands of lines. Panics that tests which pass
//! have meant to see are not to be shown at all: they look like failures.

use std::collections::BTreeSet;

/// Lines that are kept of what a failed test printed.
const KEPT_LINES: usize = 40;

/// Sums over all test programs so far.
#[derive(Debug, Default)]
pub struct Tally {
    harness_passed: u64,
    failed: u64,
    ignored: u64,
    skip_lines: Vec<String>,
    /// Tests that said SKIPPED: and were counted as passed, by program and name.
    skipped_tests: BTreeSet<(u64, String)>,
    /// Number of test programs that have ended.
    programs: u64,
    section: Option<String>,
    /// Whether the sections are those of tests that failed.
    among_failures: bool,
    /// Within what a panic has printed that a test which passed has meant to see.
    meant: bool,
    /// What tests that failed have printed: a headline and lines.
    failures: Vec<Vec<String>>,
}

impl Tally {
    /// Takes one line of output, and says whether it is to be shown.
    pub fn line(&mut self, line: &str) -> bool {
        let line = line.trim_end();
        let passed = self.section.is_some() && !self.among_failures;
        let ends = line.is_empty() || line.starts_with("---- ") || line.starts_with("SKIPPED:");
        self.meant &= !ends;
        self.meant |= passed && line.starts_with("thread '") && line.contains("panicked at ");
        let shown = !self.meant;
        // The last line of what it printed.
        self.meant &= !line.starts_with("note: ");
        if let Some(rest) = line.strip_prefix("test result:") {
            self.result(rest);
            self.programs += 1;
            self.section = None;
            self.among_failures = false;
        } else if let Some(name) = line.strip_prefix("---- ") {
            let name = name.trim_end_matches(" ----");
            let name = name.strip_suffix(" stdout").unwrap_or(name);
            self.section = Some(name.to_owned());
            if self.among_failures {
                self.failures.push(vec![line.to_owned()]);
            }
        } else if line == "successes:" || line == "failures:" {
            self.section = None;
            self.among_failures = line == "failures:";
        } else if line.starts_with("SKIPPED:") {
            self.skip_lines.push(line.to_owned());
            if let Some(test) = &self.section {
                self.skipped_tests.insert((self.programs, test.clone()));
            }
        } else if self.among_failures && self.section.is_some() {
            self.output_of_failure(line);
        }
        shown
    }

    /// A line that a failed test has printed: kept, unless it is a frame of a backtrace.
    fn output_of_failure(&mut self, line: &str) {
        let text = line.trim_start();
        let numbered = text.split_once(": ").map(|(number, _)| number);
        let is_frame =
            text.starts_with("at ") || numbered.is_some_and(|n| n.parse::<u16>().is_ok());
        if let Some(kept) = self.failures.last_mut()
            && kept.len() <= KEPT_LINES
            && !text.is_empty()
            && !is_frame
        {
            kept.push(line.to_owned());
        }
    }

    /// Adds what was read from another stream.
    pub fn add(&mut self, other: Self) {
        self.harness_passed += other.harness_passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.skip_lines.extend(other.skip_lines);
        let programs = self.programs;
        let skipped = other.skipped_tests.into_iter();
        self.skipped_tests
            .extend(skipped.map(|(program, test)| (programs + program, test)));
        self.programs += other.programs + 1;
        self.failures.extend(other.failures);
    }

    /// ` ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s`
    fn result(&mut self, text: &str) {
        let summary = text.split_once(". ").map_or(text, |(_, rest)| rest);
        for part in summary.split(';') {
            let mut words = part.split_whitespace();
            let count = words.next().and_then(|word| word.parse::<u64>().ok());
            let (Some(count), Some(kind)) = (count, words.next()) else {
                continue;
            };
            match kind {
                "passed" => self.harness_passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }

    /// Tests that really ran and passed.
    pub fn passed(&self) -> u64 {
        self.harness_passed
            .saturating_sub(self.skipped_tests.len() as u64)
    }

    /// Tests that failed.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Tests that did not run: ignored, or said SKIPPED.
    pub fn skipped(&self) -> u64 {
        self.ignored + self.skip_lines.len() as u64
    }

    /// What tests that failed have printed, without backtraces, each under a headline that names it.
    pub fn failure_lines(&self) -> impl Iterator<Item = &String> {
        self.failures.iter().flatten()
    }

    /// Every line that said SKIPPED.
    pub fn skip_lines(&self) -> &[String] {
        &self.skip_lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        text.lines().for_each(|line| {
            tally.line(line);
        });
        tally
    }

    #[test]
    fn results_of_several_programs_are_summed() {
        let t = tally(
            "running 4 tests\ntest a ... ok\n\
             test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n",
        );
        assert_eq!((t.passed(), t.failed(), t.skipped()), (5, 1, 1));
    }

    #[test]
    fn a_test_that_skips_is_not_counted_as_passed() {
        let t = tally(
            "successes:\n\n---- zram stdout ----\nSKIPPED: no zram here\n\n---- other stdout ----\nfine\n\n\
             successes:\n    zram\n    other\n\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!((t.passed(), t.failed(), t.skipped()), (1, 0, 1));
        assert_eq!(t.skip_lines(), ["SKIPPED: no zram here"]);
    }

    #[test]
    fn what_failed_tests_print_is_kept() {
        let t = tally(
            "successes:\n\n---- good stdout ----\nthread 'good' panicked, as it should\n\nsuccesses:\n    good\n\n\
             failures:\n\n---- bad stdout ----\n\nthread 'bad' panicked at here.rs:1:2:\nit held 7 MiB\n\
             stack backtrace:\n   0: begin\n             at ./src/begin.rs:1\nnote: some\n\n\
             failures:\n    bad\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\nand so on\n",
        );
        let kept: Vec<_> = t.failure_lines().map(String::as_str).collect();
        let panicked = "thread 'bad' panicked at here.rs:1:2:";
        let rest = ["it held 7 MiB", "stack backtrace:", "note: some"];
        assert_eq!(kept[..2], ["---- bad stdout ----", panicked]);
        assert_eq!(kept[2..], rest);
    }

    #[test]
    fn panics_that_are_meant_are_not_shown() {
        let mut t = Tally::default();
        let mut shown = |text: &'static str| -> Vec<&str> {
            text.lines().filter(|line| t.line(line)).collect()
        };
        let good = "successes:\n\n---- good stdout ----\nbefore\n";
        assert_eq!(shown(good).len(), 4);
        let meant = "thread 'good' (7) panicked at here.rs:1:2:\nno such object\nstack backtrace:\n   0: begin\n\
                     note: Some details are omitted\n";
        assert_eq!(shown(meant), [""; 0]);
        assert_eq!(shown("behind\n"), ["behind"]);
        // The note comes with the first one only.
        assert_eq!(
            shown("thread 'good' panicked at here.rs:1:2:\nagain\n\nand\n"),
            ["", "and"]
        );
        let skipped = "thread 'good' panicked at here.rs:1:2:\nagain\nSKIPPED: it\n";
        assert_eq!(shown(skipped), ["SKIPPED: it"]);
        let bad = "failures:\n\n---- bad stdout ----\nthread 'bad' panicked at here.rs:1:2:\nit held 7 MiB\n";
        assert_eq!(shown(bad).len(), 5);
        assert!(t.line("test result: FAILED. 1 passed; 1 failed"));
        assert!(t.line("thread 'main' panicked at here.rs:1:2:"));
    }

    #[test]
    fn streams_do_not_mix() {
        let result = |failed| {
            format!(
                "test result: ok. 1 passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out\n"
            )
        };
        let skip = |test| {
            format!(
                "successes:\n\n---- {test} stdout ----\nSKIPPED: {test}\n{}",
                result(0)
            )
        };
        let mut all = Tally::default();
        all.add(tally(&skip("zram")));
        all.add(tally(&skip("zram")));
        all.add(tally(&result(1)));
        assert_eq!((all.passed(), all.failed(), all.skipped()), (1, 1, 2));
    }

    #[test]
    fn a_skip_outside_of_tests_takes_nothing_away() {
        let t = tally(
            "SKIPPED: loom is not installed\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!((t.passed(), t.failed(), t.skipped()), (2, 0, 1));
    }
}
