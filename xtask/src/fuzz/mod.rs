//! `cargo xtask fuzz [--seconds N] [--executions N] [--jobs N] [--sanitizer address|none] [TARGET…]`: fuzzing the
//! codecs and the NBD server, one target after the other.
//!
//! | | |
//! |---|---|
//! | `build.rs` | how a target is built, and what it is told |
//! | `jobs.rs` | running it, in several processes that share a corpus |
//!
//! A limit in seconds of the clock says little of what was done on a busy machine, so the closing table has the CPU
//! seconds in user mode, as the kernel counted them, and the executions, as libFuzzer did. A finding ends its target
//! and not the run; the exit status is 1.

mod build;
mod jobs;

use anyhow::{Context, Result, bail};
use build::{How, Limits, Sanitizer};
use coldpress_harness::child::Running;
use coldpress_harness::install::{self, program};
use coldpress_harness::text::{self, Table};
use coldpress_harness::workspace;
use jobs::{Outcome, Report};

/// Options of the fuzz task.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Seconds by the clock for each target; 600 unless given, and no limit with --executions.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Executions after which each target ends, those of all its jobs together.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    executions: Option<u64>,
    /// Processes for each target. They share its corpus; a finding of one ends all.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: u32,
    /// What the targets are built with.
    #[arg(long, value_enum, default_value_t = Sanitizer::Address)]
    sanitizer: Sanitizer,
    /// Targets, as the files in fuzz/fuzz_targets are called; all that begin with decode_ unless given.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

impl Options {
    /// How each target is built and run.
    fn how(&self) -> Result<How> {
        let limits = match (self.seconds, self.executions) {
            (None, None) => Limits {
                seconds: Some(600),
                executions: None,
            },
            (seconds, executions) => Limits {
                seconds,
                executions,
            },
        };
        if let Some(few) = self.executions.filter(|all| *all < u64::from(self.jobs)) {
            bail!(
                "{few} executions are fewer than {} jobs; give --executions {} or more, or fewer --jobs",
                self.jobs,
                self.jobs
            );
        }
        Ok(How {
            limits,
            jobs: self.jobs,
            sanitizer: self.sanitizer,
        })
    }
}

/// Fuzzes; 1 if something was found.
pub fn run(options: &Options) -> Result<u8> {
    let targets = choose(&options.targets, &all_targets()?)?;
    let how = options.how()?;
    // libfuzzer-sys is C++.
    install::packages(&[install::GCC, install::GXX, program("clang", "clang")])?;
    install::nightly(&[])?;
    install::cargo_program("cargo-fuzz")?;
    make_seeds()?;
    let mut reports = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        println!("\n== {}/{} {}", number + 1, targets.len(), how.line(target));
        let report = jobs::fuzz(target, &how)?;
        println!("== {target}: {}", report.outcome);
        reports.push(report);
    }
    print!("\n{}", table(&reports));
    let bad: Vec<_> = reports
        .iter()
        .filter(|report| report.outcome != Outcome::Clean)
        .collect();
    for report in &bad {
        if let Outcome::Found(file) = &report.outcome {
            println!(
                "\n{}: repeat it with:\n  {} {file}",
                report.target,
                how.command(&report.target)
            );
        }
    }
    Ok(u8::from(!bad.is_empty()))
}

/// The targets there are, by name.
fn all_targets() -> Result<Vec<String>> {
    let directory = workspace::root().join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(&directory)
        .with_context(|| format!("cannot read {}", directory.display()))?;
    let mut names = Vec::new();
    for file in files {
        let path = file?.path();
        if let (Some(name), true) = (
            path.file_stem(),
            path.extension().is_some_and(|e| e == "rs"),
        ) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Those named, in the order named; without names the decoders.
fn choose(named: &[String], all: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("there is no target {unknown}; there are: {}", all.join(" "));
    }
    Ok(match named {
        [] => all
            .iter()
            .filter(|name| name.starts_with("decode_"))
            .cloned()
            .collect(),
        named => named.to_vec(),
    })
}

fn make_seeds() -> Result<()> {
    let arguments = [
        "run",
        "--quiet",
        "--manifest-path",
        jobs::MANIFEST,
        "--bin",
        "seeds",
    ];
    eprintln!("making the seeds: cargo {}", arguments.join(" "));
    let mut command = workspace::cargo();
    let running = Running::start_group(command.args(arguments), "the seeds")?;
    if !running.wait()?.success() {
        bail!("no seeds; repeat it with: cargo {}", arguments.join(" "));
    }
    Ok(())
}

fn table(reports: &[Report]) -> Table {
    let mut table = Table::new(&["target", "CPU s", "executions", "a second", "outcome"]);
    for report in reports {
        let shown = |number: Option<u64>| number.map_or("–".into(), text::thousands);
        table.row(&[
            report.target.clone(),
            format!("{:.1}", report.cpu_seconds),
            shown(report.executions),
            shown(report.a_second()),
            report.outcome.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn how(words: &[&str]) -> Result<How> {
        let line = Line::try_parse_from([&["fuzz"], words].concat())?;
        line.options.how()
    }

    #[test]
    fn decoders_are_the_default_and_unknown_targets_are_refused() {
        let all = all_targets().unwrap();
        assert!(all.iter().any(|name| name.starts_with("encode_")));
        let chosen = choose(&[], &all).unwrap();
        assert!(!chosen.is_empty() && chosen.iter().all(|name| name.starts_with("decode_")));
        let named = ["encode_lzo".to_owned(), "decode_lzo".to_owned()];
        assert_eq!(choose(&named, &all).unwrap(), named);
        assert!(choose(&["decode_nothing".to_owned()], &all).is_err());
    }

    #[test]
    fn ten_minutes_are_the_default_unless_executions_are_counted() {
        let limits = |words: &[&str]| {
            let limits = how(words).unwrap().limits;
            (limits.seconds, limits.executions)
        };
        assert_eq!(limits(&[]), (Some(600), None));
        assert_eq!(limits(&["--executions", "7"]), (None, Some(7)));
        let both = ["--executions", "7", "--seconds", "9"];
        assert_eq!(limits(&both), (Some(9), Some(7)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            ["--jobs", "0"],
            ["--executions", "0"],
            ["--sanitizer", "thread"],
        ] {
            assert!(how(&words).is_err(), "{words:?}");
        }
        let refused = how(&["--jobs", "3", "--executions", "2"]).unwrap_err();
        assert!(refused.to_string().contains("--executions 3 or more"));
    }

    #[test]
    fn the_table_names_every_target() {
        let report = Report {
            target: "decode_lzo".into(),
            cpu_seconds: 12.34,
            seconds: 2.0,
            executions: Some(1_000),
            outcome: Outcome::Clean,
        };
        let text = table(&[report]).to_string();
        assert!(
            text.ends_with("decode_lzo   12.3       1 000       500  nothing found\n"),
            "{text}"
        );
    }
}
