//! The command line.
//!
//! Everything wrong with it ends in exit status 125, so that no mistake of the caller can be
//! taken for the program's own status. A value that cannot be read is reported in one line.

use crate::bench_cache::BenchArguments;
use crate::capture_arguments::CaptureArguments;
use crate::chaos;
use crate::choice;
use crate::columns;
use crate::disk::DiskArguments;
use crate::duration;
use crate::estimate::arguments::{self as estimate_arguments, EstimateArguments};
use crate::eval_arguments::EvalArguments;
use crate::help;
use crate::metrics::MetricsArguments;
use crate::refusal::{EXIT_REFUSED, Refusal};
use crate::set::SetArguments;
use crate::settings::Settings;
use crate::show_settings::SettingsArguments;
use crate::size::{self, Budget};
use crate::status::StatusArguments;
use crate::streams;
use crate::trace::TraceArguments;
use crate::tune::{self, Tune};
use crate::version;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use coldpress_codec::CodecKind;
use coldpress_interface::triggers::Triggers;
use coldpress_storage::StorageKind;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

const CAPTURE_HELP: &str = "\
Examples:
  coldpress capture 4242 -o redis.pages
  coldpress capture 4242 -o redis.pages --limit 32M
  sudo coldpress capture 4242 -o cold.pages --inactive 30s

The file holds pages of 4096 bytes and nothing else. Zero and same-filled pages are counted and \
left out; the counts are in redis.pages.json. Evaluate it with: coldpress eval redis.pages";

const EVAL_HELP: &str = "\
Examples:
  coldpress eval corpus/*.pages
  coldpress eval --codec lz4:1 --codec press --sample 2000 redis.pages
  coldpress eval --table rfc1 cold.pages
  coldpress eval --json --plot eval.svg corpus/*.pages > eval.json

Files are made by: coldpress capture PID -o FILE, or all at once by: cargo xtask corpus";

const RUN_HELP: &str = "\
Examples:
  coldpress run -- redis-server
  coldpress run --budget 1G -- python3 train.py
  coldpress run --budget 25% --cold-after 30s -- redis-server
  coldpress run --budget 1G -- make -j4
  coldpress run --budget 512MiB --stats out.json -q -- ./program --its-option

Settings come from the command line, else from the environment (COLDPRESS_BUDGET, \
COLDPRESS_COLD_AFTER, COLDPRESS_TRIGGER, COLDPRESS_CODEC, COLDPRESS_STORAGE, \
COLDPRESS_RECODE_AFTER, COLDPRESS_FOLLOW, COLDPRESS_STATS, COLDPRESS_TRACE, COLDPRESS_QUIET, \
COLDPRESS_VERBOSE, COLDPRESS_TUNE), else from files: coldpress.toml and coldpress.toml.d/*.conf in \
~/.config/coldpress, /run/coldpress, /etc/coldpress, /usr/local/lib/coldpress and /usr/lib/coldpress. --config (or \
COLDPRESS_CONFIG) replaces all these files by one. Files are TOML with the names of the options: budget = \"1G\", \
cold-after = \"30s\", quiet = true; tunables are in a table [tune]. coldpress settings shows where each setting comes \
from. Budget, cold age, triggers and tunables can be changed while the program runs: coldpress set --help

Exit status: the program's own; 125 if coldpress refuses (coldpress doctor tells why), \
126 if the program cannot be executed, 127 if it is not found.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "coldpress", version, long_version = version::long(), max_term_width = 100)]
#[command(about = "Runs programs in less memory by compressing the pages they do not use")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// What the command is asked to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program with its cold memory compressed, within a budget if you give one
    #[command(
        after_help = RUN_HELP,
        override_usage = "coldpress run [OPTIONS] -- <PROGRAM> [ARGUMENTS]..."
    )]
    Run(RunArguments),
    /// Check whether run works here; if not, print the commands that mend it
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the settings that a run without options would have, and where each comes from
    #[command(after_help = crate::show_settings::HELP)]
    Settings(SettingsArguments),
    /// Change budget, cold age or triggers of a program while it runs
    #[command(after_help = crate::set::HELP)]
    Set(SetArguments),
    /// Show the programs that run under Coldpress
    #[command(after_help = columns::help())]
    Status(StatusArguments),
    /// Show the programs that run under Coldpress, live
    #[cfg(feature = "top")]
    #[command(after_help = crate::top::HELP)]
    Top(crate::top::TopArguments),
    /// Export figures of the programs that run under Coldpress to Prometheus, as OpenMetrics
    #[command(after_help = crate::metrics::HELP)]
    Metrics(MetricsArguments),
    /// Show what reclaim decided, and when, from the file of run --trace
    #[command(after_help = crate::trace::HELP)]
    Trace(TraceArguments),
    /// Estimate what run would save, without injecting anything
    #[command(
        after_help = estimate_arguments::HELP,
        override_usage = "coldpress estimate [OPTIONS] <PID>\n       coldpress estimate [OPTIONS] --all\n       coldpress estimate [OPTIONS] -- <PROGRAM> [ARGUMENTS]..."
    )]
    Estimate(EstimateArguments),
    /// Sample the private anonymous pages of a live process
    #[command(after_help = CAPTURE_HELP)]
    Capture(CaptureArguments),
    /// Measure codecs and storages on captured pages
    #[command(after_help = EVAL_HELP)]
    Eval(EvalArguments),
    /// Serve a compressed RAM disk over NBD, and manage running ones
    Disk(DiskArguments),
    /// Measure the discardable cache when memory runs short
    Bench(BenchArguments),
    /// Print completions for a shell
    #[command(after_help = crate::completions::HELP)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page, or the names of all
    Manual {
        /// The page: coldpress-run
        page: Option<String>,
        /// Write all pages into this directory, such as ~/.local/share/man/man1
        #[arg(long, value_name = "DIR", conflicts_with = "page")]
        to: Option<PathBuf>,
    },
}

/// Arguments of `coldpress run`. Their comments are the help text.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Memory to aim at: 64M, 1.5G, 512MiB, or a share such as 25% of the machine's memory, or of its memory group's limit
    /// where that is less
    /// [default: the limit of its memory group, or none]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE|PERCENT", value_parser = Budget::parse)]
    pub budget: Option<Budget>,
    /// Evict pages untouched for this long although there is room: 500ms, 30 (seconds), 5m, 1h,
    /// none, or auto: the shortest age at which few pages refault
    /// [default: none with --budget, auto without]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = duration::parse_cold_after)]
    pub cold_after: Option<u64>,
    /// What may evict: eager (a page's age), pressure (memory near the budget),
    /// critical (memory above it), a list of these, or none [default: all]
    #[arg(long, value_name = "LIST", value_parser = choice::parse_triggers)]
    pub trigger: Option<Triggers>,
    /// How pages are compressed: lz4, zstd:1, …
    /// [default: press where the processor has vectors for it, otherwise lz4]
    #[arg(long, value_name = "NAME", value_parser = choice::parse_codec)]
    pub codec: Option<CodecKind>,
    /// How compressed pages are kept: press, two-slot, three-slot, size-class
    /// [default: press]
    #[arg(long, value_name = "NAME", value_parser = choice::parse_storage)]
    pub storage: Option<StorageKind>,
    /// Recompress pages that stay compressed for this long, denser: 5m, none, or auto. If
    /// storage takes most of the budget, all pages are compressed denser at once, except with none
    /// [default: auto: minutes, where the codec is press and the processor has AVX2]
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = duration::parse_recode_after)]
    pub recode_after: Option<u64>,
    /// Manage the programs that the program starts, too (the default). Each process has
    /// the whole budget for itself. A process that holds less than 4 MiB or lives for less
    /// than 50 ms gets no pager. Static, setuid and 32-bit programs run as without
    /// Coldpress; those that hold much memory are named at the end
    #[arg(long, overrides_with = "no_follow")]
    pub follow: bool,
    /// Manage the program and its forked children, until they execute another program
    #[arg(long, overrides_with = "follow")]
    pub no_follow: bool,
    /// Write the final statistics to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
    /// Record reclaim's decisions in this file; other processes record in FILE.PID.
    /// Show it with: coldpress trace FILE
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write cold compressed pages back to this file, encrypted, if the program does not fit into its
    /// budget compressed. It must not exist, and has no name while it is used. A block device is
    /// overwritten
    #[arg(long, value_name = "PATH", conflicts_with = "raw_clones")]
    pub writeback: Option<PathBuf>,
    /// Use no more than this of the write-back file: 10G [default: the machine's memory, or
    /// the whole device]
    #[arg(long, value_name = "SIZE", requires = "writeback", value_parser = size::parse_size)]
    pub writeback_size: Option<u64>,
    /// Write no more than this to the write-back file in a day: 10G [default: no limit]
    #[arg(long, value_name = "SIZE", requires = "writeback", value_parser = size::parse_size)]
    pub writeback_limit: Option<u64>,
    /// For tests: evict pages at random, hot or cold, whatever the budget
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true, value_parser = chaos::parse_seed)]
    pub chaos: Option<Option<u64>>,
    /// With --chaos: pause for this long after each round; with 10ms most programs are
    /// a few times slower
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", requires = "chaos", value_parser = duration::parse_milliseconds)]
    pub chaos_rest: Option<u64>,
    /// Also give children their memory that the program makes by a clone instruction of its own
    /// (Go with cgo, in a new user namespace); without, they end by SIGSEGV. Needs CAP_SYS_PTRACE.
    /// If such a child's parent ends before all is copied, the child reads zeros
    #[arg(long)]
    pub raw_clones: bool,
    /// Kill the program when coldpress is killed; else it goes on
    #[arg(long)]
    pub die_with_coldpress: bool,
    /// Print no summary at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Set a tunable of the engine (repeatable): threshold=60, lru_action=none, same_filled=off,
    /// or by its whole name: kernel.compression.threshold=60. All of them: docs/tunables.md
    #[arg(long, value_name = "NAME=VALUE", value_parser = tune::parse)]
    pub tune: Vec<Tune>,
    /// Print a longer summary: evictions, faults, latencies, processor time, settings
    #[arg(short, long)]
    pub verbose: bool,
    /// Read settings from this TOML file, instead of those of the machine and the user
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

impl RunArguments {
    /// What the command line says.
    pub fn settings(&self) -> Settings {
        Settings {
            budget: self.budget,
            cold_after_ms: self.cold_after,
            triggers: self.trigger,
            codec: self.codec,
            storage: self.storage,
            recode_after_ms: self.recode_after,
            follow: match (self.follow, self.no_follow) {
                (_, true) => Some(false),
                (true, _) => Some(true),
                _ => None,
            },
            stats: self.stats.clone(),
            trace: self.trace.clone(),
            quiet: self.quiet.then_some(true),
            tune: self.tune.iter().cloned().reduce(|one, next| next.over(one)),
            verbose: self.verbose.then_some(true),
        }
    }
}

/// The definition of the command line, for what is made of it.
pub fn definition() -> clap::Command {
    CommandLine::command()
}

/// Parses the command line. The error is for [`tell`].
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    CommandLine::try_parse_from(arguments).map(|line| line.command)
}

/// Prints help, version, or what is wrong with the command line. Returns the exit status.
pub fn tell(error: &clap::Error) -> Result<u8, Refusal> {
    if let Some(line) = one_line(error) {
        return Err(Refusal::new(line));
    }
    if error.use_stderr() {
        let _ = error.print();
        let invalid = error.get(ContextKind::InvalidArg).map(ToString::to_string);
        if error.kind() == ErrorKind::UnknownArgument && invalid.as_deref() == Some("--json") {
            crate::streams::say!(
                "the figures of a run as JSON: coldpress run --stats FILE, or --stats - for standard output"
            );
        }
        return Ok(EXIT_REFUSED);
    }
    streams::check_output()?;
    let text = error.render();
    let text = match io::stdout().is_terminal() {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    streams::print(&help::wrapped(&text, help::width(io::stdout())))?;
    Ok(0)
}

/// The message for a value that one of our own parsers refused.
fn one_line(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    // `--chaos[=<SEED>]`, `--budget <SIZE>`, `<PID>`, `[PID]...`
    let option = option.trim_start_matches(['[', '<']);
    let end = option.find([' ', '[', ']', '=', '<', '>']);
    let option = &option[..end.unwrap_or(option.len())];
    Some(format!("{option}: {}", error.source()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(line: &str) -> Result<Command, clap::Error> {
        CommandLine::try_parse_from(line.split(' ')).map(|line| line.command)
    }

    #[test]
    fn the_definition_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn what_the_readme_types_is_understood() {
        let lines = include_str!("../README.md").lines();
        let typed: Vec<&str> = lines.filter_map(|line| line.strip_prefix("$ ")).collect();
        assert!(typed.len() > 3);
        for line in typed.iter().filter(|line| line.starts_with("coldpress ")) {
            assert!(parse_text(line).is_ok(), "{line}");
        }
    }

    /// An option that could not stand in the file, or a setting without an option.
    #[test]
    fn every_setting_is_an_option_of_run() {
        let line = CommandLine::command();
        let run = line.find_subcommand("run").unwrap();
        let help = run.clone().render_long_help().to_string();
        for setting in crate::settings::SETTINGS {
            let options = run.get_arguments().filter_map(clap::Arg::get_long);
            assert!(options.into_iter().any(|option| option == setting.name));
            assert!(help.contains(&setting.variable()), "{}", setting.name);
        }
        // Chaos, a file to write back to, and with whom the program ends, are for one run.
        let others = [
            "config",
            "help",
            "chaos",
            "chaos-rest",
            "die-with-coldpress",
            "raw-clones",
            "no-follow",
            "writeback",
            "writeback-size",
            "writeback-limit",
        ];
        let positional = |a: &&clap::Arg| a.get_long().is_some_and(|l| !others.contains(&l));
        let options = run.get_arguments().filter(positional).count();
        assert_eq!(options, crate::settings::SETTINGS.len());
    }

    #[test]
    fn chaos_takes_a_seed_and_never_the_program() {
        for (line, chaos) in [
            ("coldpress run --chaos 7", Some(None)),
            ("coldpress run --chaos=9 7", Some(Some(9))),
            ("coldpress run 7", None),
        ] {
            let Ok(Command::Run(run)) = parse_text(line) else {
                panic!("{line}")
            };
            assert_eq!(
                (run.chaos, run.program),
                (chaos, vec!["7".into()]),
                "{line}"
            );
        }
        assert!(parse_text("coldpress run --chaos=0 7").is_err());
    }

    #[test]
    fn the_programs_options_are_its_own() {
        for line in [
            "coldpress run --budget 1G -q -- prog -x --stats y -- z",
            "coldpress run -q --budget 1G prog -x --stats y -- z",
        ] {
            let Ok(Command::Run(run)) = parse_text(line) else {
                panic!("{line}")
            };
            assert_eq!(
                run.program,
                ["prog", "-x", "--stats", "y", "--", "z"],
                "{line}"
            );
            assert!(run.quiet && run.stats.is_none());
        }
    }

    #[test]
    fn bad_values_are_reported_in_one_line() {
        let error = parse_text("coldpress run --budget lots -- true").unwrap_err();
        let line = one_line(&error).unwrap();
        assert!(
            line.starts_with("--budget: cannot read \"lots\"") && !line.contains('\n'),
            "{line}"
        );
        let error = parse_text("coldpress run --budget 1G --cold-after soon -- true").unwrap_err();
        assert!(
            one_line(&error)
                .unwrap()
                .starts_with("--cold-after: cannot read \"soon\"")
        );
        let error = parse_text("coldpress run --budget 1G --codec gzip -- true").unwrap_err();
        assert!(
            one_line(&error)
                .unwrap()
                .starts_with("--codec: cannot use \"gzip\"")
        );
        let error = parse_text("coldpress run --budget 1G --storage bag -- true").unwrap_err();
        assert!(one_line(&error).unwrap().contains("three-slot"));
        let error = parse_text("coldpress run --chaos=0 -- true").unwrap_err();
        assert!(one_line(&error).unwrap().starts_with("--chaos: "));
        for text in ["-1", "-1G", "-64M"] {
            let error = parse_text(&format!("coldpress run --budget {text} -- true")).unwrap_err();
            let line = one_line(&error).unwrap();
            assert!(
                line.starts_with("--budget: cannot read \"-") && line.contains("64M"),
                "{line}"
            );
        }
        let error = parse_text("coldpress run --cold-after -1s -- true").unwrap_err();
        assert!(
            one_line(&error)
                .unwrap()
                .starts_with("--cold-after: cannot read \"-1s\"")
        );
        let error = parse_text("coldpress run --nonsense -- true").unwrap_err();
        assert_eq!(one_line(&error), None);
    }
}
