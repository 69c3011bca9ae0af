//! The `coldpress` command: runs programs in less memory, and tells what it does and needs.
//!
//! * `run` starts a program with the pager's library preloaded ([`run`]);
//! * `doctor` tells whether this machine lets the pager work, and how to mend it ([`doctor`]);
//! * `settings` shows which settings a run has, and where they come from ([`show_settings`]);
//! * `set` changes settings of a program that runs ([`set`]);
//! * `status` shows the processes under a pager ([`status`]);
//! * `top` shows them live (behind the cargo feature of that name);
//! * `metrics` tells their figures as OpenMetrics ([`metrics`]);
//! * `trace` shows what was decided when in a run ([`trace`]);
//! * `estimate` says what `run` would save, before it is used ([`estimate`]);
//! * `capture` samples the pages of a live process ([`capture`]);
//! * `eval` measures codecs and storages on captured pages ([`eval`]);
//! * `bench cache` measures the discardable cache when memory runs short;
//! * `disk` serves a compressed RAM disk, and asks one that is served ([`disk`]);
//! * `completions` and `manual` print what packages install ([`completions`], [`manual`]).
//!
//! Data goes to standard output, messages to standard error. Exit statuses are the program's
//! own for `run`, otherwise 0; 125 where Coldpress refuses, 126 where the program cannot be
//! executed, 127 where it was not found.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod advice;
mod anonymous_pages;
mod arguments;
mod ask;
mod at_start;
mod bench_cache;
mod budget;
mod by_mapping;
mod capture;
mod capture_arguments;
mod carried_library;
mod chaos;
mod choice;
mod closing;
mod columns;
mod completions;
mod config_file;
mod config_layers;
mod config_trust;
mod damon;
mod decimal;
mod detail;
mod disk;
mod disposition;
mod doctor;
#[cfg(test)]
mod documents;
mod duration;
mod elf;
mod environment;
mod estimate;
mod eval;
mod eval_arguments;
mod figure_help;
mod follow;
mod grid;
mod handed_over;
mod help;
mod host;
mod in_force;
mod inactive;
mod inherited;
mod managed;
mod manual;
mod mapping;
mod memory_limit;
mod memory_table;
mod mend;
mod messages;
mod metrics;
mod missing_tier;
mod notices;
mod on_signal;
mod output_file;
mod own_name;
mod pid;
mod preload_library;
mod privilege;
mod process;
mod program;
mod progress;
mod readiness;
mod refusal;
mod report;
mod rule;
mod run;
mod run_file;
#[cfg(test)]
mod schema;
mod script;
mod set;
mod settings;
mod show_settings;
mod signals;
mod size;
mod smaps;
mod spawn;
mod spread;
mod statistics_dir;
mod statistics_file;
mod status;
mod streams;
mod summary;
mod sums;
mod supervise;
mod tier;
#[cfg(feature = "top")]
mod top;
mod trace;
mod trace_file;
mod trace_plot;
mod trace_target;
mod tracers;
mod trial;
mod tune;
mod unmanaged;
mod userfaultfd;
mod version;
mod write_back_file;

use arguments::Command;
use refusal::Refusal;

fn main() {
    at_start::ignore_signals();
    own_name::note();
    let result = match arguments::parse(std::env::args_os()) {
        Ok(command) => execute(command),
        Err(error) => arguments::tell(&error),
    };
    let code = result.unwrap_or_else(|refusal| {
        if !refusal.is_quiet() {
            streams::say!("{refusal}");
        } else if !at_start::pipe_was_ignored() {
            signals::die_by(libc::SIGPIPE);
        }
        refusal.code()
    });
    std::process::exit(code.into());
}

fn execute(command: Command) -> Result<u8, Refusal> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Settings(arguments) => show_settings::show(&arguments),
        Command::Set(arguments) => set::set(&arguments),
        Command::Status(arguments) => status::status(&arguments),
        #[cfg(feature = "top")]
        Command::Top(arguments) => top::top(&arguments),
        Command::Metrics(arguments) => metrics::metrics(&arguments),
        Command::Trace(arguments) => trace::trace(&arguments),
        Command::Estimate(arguments) => estimate::estimate(&arguments),
        Command::Capture(arguments) => capture::capture(&arguments),
        Command::Eval(arguments) => eval::eval(&arguments),
        Command::Disk(arguments) => disk::disk(&arguments),
        Command::Bench(arguments) => bench_cache::bench(&arguments),
        Command::Completions { shell } => completions::completions(shell),
        Command::Manual { page, to } => manual::manual(page.as_deref(), to.as_deref()),
    }
}
