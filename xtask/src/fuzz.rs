//! `cargo xtask fuzz [--seconds N] [TARGET…]`: fuzzing the codecs, one target after the other.
//!
//! Each target is built by cargo-fuzz and then started by us and not by `cargo fuzz run`, which
//! would leave it running where we are ended; the options are the same. The C is built by clang with the
//! sanitizer, for all targets alike, so that it is built once (`fuzz/README.md`).
//!
//! libFuzzer counts its limit in seconds of the clock. On a busy machine that says little of what was done, so
//! the closing table has the CPU seconds in user mode, as the kernel counted them, and the
//! executions, as libFuzzer did. A finding ends its target and not the run; the exit status is 1.

use anyhow::{Context, Result, bail};
use coldpress_harness::child::{self, Running};
use coldpress_harness::install::{self, program};
use coldpress_harness::text::{self, Table};
use coldpress_harness::workspace;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Options of the fuzz task.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Seconds by the clock for each target.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Targets, as the files in fuzz/fuzz_targets are called; all that begin with decode_ unless given.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

const MANIFEST: &str = "fuzz/Cargo.toml";
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// libzstd's own definition: without it, it lays zones into our contexts, which `zstd.rs` refuses.
const C_COMPILER: [(&str, &str); 2] = [
    ("CC", "clang"),
    (
        "CFLAGS",
        "-fsanitize=address,fuzzer-no-link -DZSTD_ADDRESS_SANITIZER=0",
    ),
];

/// What one target did.
struct Report {
    target: String,
    cpu_seconds: f64,
    /// None where the target ended before it could say.
    executions: Option<u64>,
    outcome: Outcome,
}

/// How one target ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Clean,
    /// The file that holds the input.
    Found(String),
    /// Ended otherwise than by a finding, which is no better.
    Failed(String),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Clean => f.write_str("nothing found"),
            Outcome::Found(file) => write!(f, "FOUND: {file}"),
            Outcome::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

/// Fuzzes; 1 if something was found.
pub fn run(options: &Options) -> Result<u8> {
    let targets = choose(&options.targets, &all_targets()?)?;
    // libfuzzer-sys is C++.
    install::packages(&[install::GCC, install::GXX, program("clang", "clang")])?;
    install::nightly(&[])?;
    install::cargo_program("cargo-fuzz")?;
    make_seeds()?;
    let mut reports = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        println!(
            "\n== {}/{} {}",
            number + 1,
            targets.len(),
            line(target, options.seconds)
        );
        let report = fuzz(target, options.seconds)?;
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
            let compiler = settings();
            println!(
                "\n{}: repeat it with:\n  {compiler}cargo +nightly fuzz run {} {file}",
                report.target, report.target
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

/// The environment as one types it.
fn settings() -> String {
    let [(cc, compiler), (cflags, flags)] = C_COMPILER;
    format!("{cc}={compiler} {cflags}='{flags}' ")
}

/// What libFuzzer is told.
fn arguments(seconds: u32) -> [String; 4] {
    [
        format!("-max_total_time={seconds}"),
        "-max_len=4200".into(),
        "-rss_limit_mb=1024".into(),
        "-print_final_stats=1".into(),
    ]
}

/// The command that does the same by hand.
fn line(target: &str, seconds: u32) -> String {
    let arguments = arguments(seconds).join(" ");
    format!(
        "{}cargo +nightly fuzz run {target} -- {arguments}",
        settings()
    )
}

fn make_seeds() -> Result<()> {
    let arguments = [
        "run",
        "--quiet",
        "--manifest-path",
        MANIFEST,
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

/// Builds one target and runs it.
fn fuzz(target: &str, seconds: u32) -> Result<Report> {
    let mut report = Report {
        target: target.to_owned(),
        cpu_seconds: 0.0,
        executions: None,
        outcome: Outcome::Failed("it does not build".into()),
    };
    let mut build = workspace::cargo_of_rustup();
    build
        .args(["+nightly", "fuzz", "build", target])
        .envs(C_COMPILER);
    if !Running::start_group(&mut build, "the build")?
        .wait()?
        .success()
    {
        return Ok(report);
    }
    let mut command = program_of(target, seconds)?;
    let before = child::user_time_of_ended();
    let running = Running::start(&mut command, target)?;
    let said = follow(running.errors().expect("it is a pipe"));
    let status = running.wait()?;
    report.cpu_seconds = (child::user_time_of_ended() - before).as_secs_f64();
    report.executions = said.executions;
    report.outcome = outcome(status, said.file);
    Ok(report)
}

/// The built target with all its arguments, as cargo-fuzz would start it.
fn program_of(target: &str, seconds: u32) -> Result<Command> {
    let program: PathBuf = workspace::target_dir_of(MANIFEST)?
        .join(TRIPLE)
        .join("release")
        .join(target);
    let artifacts = Path::new("fuzz/artifacts").join(target);
    std::fs::create_dir_all(workspace::root().join(&artifacts))?;
    let given = std::env::var("ASAN_OPTIONS").unwrap_or_default();
    let sanitizer = format!("{given}:detect_odr_violation=0");
    let mut command = Command::new(program);
    command
        .current_dir(workspace::root())
        .env("ASAN_OPTIONS", sanitizer.trim_start_matches(':'))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(arguments(seconds))
        .arg(Path::new("fuzz/corpus").join(target))
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    Ok(command)
}

/// What libFuzzer said that we need.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    executions: Option<u64>,
    file: Option<String>,
}

impl Said {
    fn line(&mut self, line: &str) {
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = number.trim().parse().ok();
        } else if let Some((_, file)) = line.split_once("Test unit written to ") {
            self.file = Some(file.trim().to_owned());
        }
    }
}

/// Copies what the target says, and keeps what we need of it.
fn follow(from: impl Read) -> Said {
    let mut from = BufReader::new(from);
    let mut said = Said::default();
    let mut line = Vec::new();
    while matches!(from.read_until(b'\n', &mut line), Ok(length) if length > 0) {
        // Nothing to be done where our own output is closed.
        let _ = std::io::stderr().write_all(&line);
        said.line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    said
}

/// A target that wrote an input has found something, however it ended then.
fn outcome(status: ExitStatus, file: Option<String>) -> Outcome {
    match (status.success(), file) {
        (_, Some(file)) => Outcome::Found(file),
        (true, None) => Outcome::Clean,
        (false, None) => Outcome::Failed(status.to_string()),
    }
}

fn table(reports: &[Report]) -> Table {
    let mut table = Table::new(&["target", "CPU s", "executions", "outcome"]);
    for report in reports {
        table.row(&[
            report.target.clone(),
            format!("{:.1}", report.cpu_seconds),
            report.executions.map_or("–".into(), text::thousands),
            report.outcome.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

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
    fn executions_and_files_are_read_from_what_it_says() {
        let mut said = Said::default();
        for line in [
            "#2\tINITED cov: 3",
            "artifact_prefix='a/'; Test unit written to a/crash-0123\n",
            "stat::number_of_executed_units: 4711\n",
        ] {
            said.line(line);
        }
        let expected = Said {
            executions: Some(4711),
            file: Some("a/crash-0123".into()),
        };
        assert_eq!(said, expected);
    }

    #[test]
    fn only_a_clean_end_without_a_file_is_clean() {
        let (good, killed) = (ExitStatus::from_raw(0), ExitStatus::from_raw(9));
        assert_eq!(outcome(good, None), Outcome::Clean);
        assert_eq!(outcome(good, Some("f".into())), Outcome::Found("f".into()));
        assert_eq!(
            outcome(killed, Some("f".into())),
            Outcome::Found("f".into())
        );
        assert!(matches!(outcome(killed, None), Outcome::Failed(_)));
    }

    #[test]
    fn the_table_names_every_target() {
        let report = Report {
            target: "decode_lzo".into(),
            cpu_seconds: 12.34,
            executions: Some(1_000),
            outcome: Outcome::Clean,
        };
        let text = table(&[report]).to_string();
        assert!(
            text.ends_with("decode_lzo   12.3       1 000  nothing found\n"),
            "{text}"
        );
    }
}
