//! Counting what test programs say they did.
//!
//! Read line by line as the lines appear: `test result:` lines give passed, failed and ignored;
//! a line that starts with `SKIPPED:` tells that a promise was not tested, and why. The test
//! harness counts such a test as passed; we do not: its name is known from the section
//! (`---- name stdout ----`) that `--show-output` prints its output in.

use std::collections::BTreeSet;

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
}

impl Tally {
    /// Takes one line of output. Returns whether it must be shown even where output is terse.
    pub fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(rest) = line.strip_prefix("test result:") {
            self.result(rest);
            self.programs += 1;
            self.section = None;
        } else if let Some(name) = line.strip_prefix("---- ") {
            let name = name.trim_end_matches(" ----");
            let name = name.strip_suffix(" stdout").unwrap_or(name);
            self.section = Some(name.to_owned());
        } else if line == "successes:" || line == "failures:" {
            self.section = None;
        } else if line.starts_with("SKIPPED:") {
            self.skip_lines.push(line.to_owned());
            if let Some(test) = &self.section {
                self.skipped_tests.insert((self.programs, test.clone()));
            }
        }
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
        text.lines().for_each(|line| tally.line(line));
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
    fn a_skip_outside_of_tests_takes_nothing_away() {
        let t = tally(
            "SKIPPED: loom is not installed\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!((t.passed(), t.failed(), t.skipped()), (2, 0, 1));
    }
}
