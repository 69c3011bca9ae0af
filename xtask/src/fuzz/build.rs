//! How a fuzz target is built by cargo-fuzz, and what libFuzzer is told.
//!
//! The C is built by clang with the same instrumentation as the Rust, for all targets alike, so that it is built once
//! (`fuzz/README.md`).

use coldpress_harness::workspace;
use std::process::Command;

/// What watches the targets beside their assertions.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sanitizer {
    /// AddressSanitizer, and comparisons traced.
    Address,
    /// Neither: assertions and coverage alone, faster by far.
    None,
}

/// When a target ends without a finding: by the first of these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) seconds: Option<u32>,
    /// Of all jobs together.
    pub(super) executions: Option<u64>,
}

/// How targets are built and run.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) limits: Limits,
    pub(super) jobs: u32,
    pub(super) sanitizer: Sanitizer,
}

impl How {
    /// The environment for the C. ZSTD_ADDRESS_SANITIZER is libzstd's own definition: without it, it lays zones into
    /// our contexts, which `zstd.rs` refuses.
    fn environment(&self) -> [(&'static str, &'static str); 2] {
        let flags = match self.sanitizer {
            Sanitizer::Address => "-fsanitize=address,fuzzer-no-link -DZSTD_ADDRESS_SANITIZER=0",
            Sanitizer::None => "-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp",
        };
        [("CC", "clang"), ("CFLAGS", flags)]
    }

    /// What cargo-fuzz is told of it.
    fn options(&self) -> &'static [&'static str] {
        match self.sanitizer {
            Sanitizer::Address => &[],
            Sanitizer::None => &["--sanitizer", "none", "--no-trace-compares"],
        }
    }

    /// The command that builds a target.
    pub(super) fn build(&self, target: &str) -> Command {
        let mut command = workspace::cargo_of_rustup();
        command
            .args(["+nightly", "fuzz", "build"])
            .args(self.options())
            .arg(target)
            .envs(self.environment());
        command
    }

    /// The command that builds a target and runs it by hand, without what libFuzzer is told.
    pub(super) fn command(&self, target: &str) -> String {
        let [(cc, compiler), (cflags, flags)] = self.environment();
        let command = format!("{cc}={compiler} {cflags}='{flags}' cargo +nightly fuzz run");
        [&[command.as_str()], self.options(), &[target]]
            .concat()
            .join(" ")
    }

    /// What libFuzzer is told in the job of this number.
    pub(super) fn arguments(&self, target: &str, job: u32) -> Vec<String> {
        let mut arguments = Vec::new();
        if let Some(seconds) = self.limits.seconds {
            arguments.push(format!("-max_total_time={seconds}"));
        }
        if let Some(executions) = self.limits.executions {
            let jobs = u64::from(self.jobs);
            let share = executions / jobs + u64::from(u64::from(job) < executions % jobs);
            arguments.push(format!("-runs={share}"));
        }
        arguments.push(format!("-max_len={}", longest(target)));
        arguments.extend(["-rss_limit_mb=1024", "-print_final_stats=1"].map(String::from));
        arguments
    }

    /// The command that does the same by hand, and how often at once.
    pub(super) fn line(&self, target: &str) -> String {
        let line = format!(
            "{} -- {}",
            self.command(target),
            self.arguments(target, 0).join(" ")
        );
        match self.jobs {
            1 => line,
            jobs => format!("({jobs} at once) {line}"),
        }
    }
}

/// The longest input in bytes: a page and a little, or a plan of a short session.
fn longest(target: &str) -> u32 {
    match target {
        "decode_nbd_session" => 128,
        _ => 4200,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(sanitizer: Sanitizer, jobs: u32, executions: Option<u64>) -> How {
        let limits = Limits {
            seconds: executions.is_none().then_some(5),
            executions,
        };
        How {
            limits,
            jobs,
            sanitizer,
        }
    }

    #[test]
    fn jobs_have_all_executions_together() {
        let how = how(Sanitizer::None, 3, Some(101));
        let shares = [0, 1, 2].map(|job| how.arguments("decode_lzo", job)[0].clone());
        assert_eq!(shares, ["-runs=34", "-runs=34", "-runs=33"]);
    }

    #[test]
    fn the_line_is_what_is_done() {
        let address = how(Sanitizer::Address, 1, None).line("decode_lzo");
        assert_eq!(
            address,
            "CC=clang CFLAGS='-fsanitize=address,fuzzer-no-link -DZSTD_ADDRESS_SANITIZER=0' \
             cargo +nightly fuzz run decode_lzo -- \
             -max_total_time=5 -max_len=4200 -rss_limit_mb=1024 -print_final_stats=1"
        );
        let none = how(Sanitizer::None, 2, Some(10)).line("decode_nbd_session");
        assert_eq!(
            none,
            "(2 at once) CC=clang CFLAGS='-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp' \
             cargo +nightly fuzz run --sanitizer none --no-trace-compares decode_nbd_session -- \
             -runs=5 -max_len=128 -rss_limit_mb=1024 -print_final_stats=1"
        );
    }
}
