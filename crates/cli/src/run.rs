//! `coldpress run`: check everything, start the program with the pager preloaded, end as it ends.

use crate::arguments::RunArguments;
use crate::budget::BudgetInForce;
use crate::chaos;
use crate::closing;
use crate::environment;
use crate::follow::{Members, Outcome};
use crate::in_force;
use crate::inherited;
use crate::mapping::Mapping;
use crate::memory_limit::{self, Groups};
use crate::notices::Notices;
use crate::output_file;
use crate::process;
use crate::program::{self, Program};
use crate::readiness::{self, Ready};
use crate::refusal::Refusal;
use crate::run_file::RunFile;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::spawn::{self, Child, Launch};
use crate::statistics_file;
use crate::streams::say;
use crate::summary;
use crate::supervise::{self, Ending};
use crate::trace_target::TraceTarget;
use crate::tracers::Tracers;
use crate::unmanaged::Unmanaged;
use crate::write_back_file::WriteBackFile;
use coldpress_codec::CodecKind;
use coldpress_interface::control::{COLD_AFTER_AUTO, NO_BUDGET};
use coldpress_interface::statistics::Statistics;
use coldpress_interface::triggers::Triggers;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Runs the program; the result is its own exit status.
pub fn run(arguments: &RunArguments) -> Result<u8, Refusal> {
    let prepared = Prepared::check(arguments)?;
    let quiet = prepared.is_quiet();
    let launch = prepared.launch(arguments)?;
    prepared.explain_budget();
    let began = Instant::now();
    let killed_before = prepared.groups.killed();
    let signals = Signals::take();
    let child = prepared.start(&launch, &signals)?;
    let Prepared {
        chosen,
        budget,
        groups,
        program,
        ready: Ready { library, .. },
        trace,
        chaos,
        write_back,
        run_file,
        ..
    } = prepared;
    let follow = chosen.follow.unwrap_or(true);
    let unmanaged = Unmanaged::new(child.pid, &library, follow, budget.bytes);
    let notices = Notices::new(quiet || chaos.is_some());
    let tracers = Tracers::new(quiet);
    let members = Members::new(child, run_file, unmanaged, notices, tracers);
    let (ending, outcome) = supervise::supervise(child, &signals, members);
    let end = End {
        pid: child.pid,
        ending,
        elapsed_ns: began.elapsed().as_nanos() as u64,
        killed_in_group: groups.killed().saturating_sub(killed_before),
        outcome,
    };
    tell(&chosen, &program, &library, &budget, &end);
    if write_back.is_some() && !quiet {
        for line in end.wrote_nothing_back(&program.name) {
            say!("{line}");
        }
    }
    if let Some(trace) = trace {
        trace.finish(end.outcome.totals.trace_error, quiet);
    }
    if let Some(seed) = chaos
        && !quiet
        && let Some(statistics) = end.first()
    {
        say!("{}", chaos::line(&program.name, seed, statistics));
    }
    Ok(ending.end_as())
}

/// What is known, and what is there, before the program starts.
struct Prepared {
    chosen: Settings,
    /// The engine's tunables, as the pager takes them.
    tunables: String,
    budget: BudgetInForce,
    groups: Groups,
    program: Program,
    ready: Ready,
    trace: Option<TraceTarget>,
    /// Pages are evicted at random: the seed.
    chaos: Option<u64>,
    write_back: Option<WriteBackFile>,
    run_file: RunFile,
}

impl Prepared {
    /// Checks all that can be checked; the first that is wrong is the refusal.
    fn check(arguments: &RunArguments) -> Result<Self, Refusal> {
        let chosen = in_force::settings(arguments.settings(), arguments.config.clone())?;
        let (tunables, chosen) = in_force::tuned(chosen)?;
        let budget = in_force::budget(&chosen)?;
        let program = program::find(&arguments.program[0])?;
        let ready = readiness::check()?;
        // What others that were killed have left.
        statistics_file::scan(&ready.statistics_dir);
        in_force::outputs(&chosen)?;
        let chaos = chaos::seed(arguments.chaos)?;
        let storage = chosen.storage.unwrap_or_default();
        let write_back = WriteBackFile::of_run(arguments, storage)?;
        if let Some(doubt) = write_back.as_ref().and_then(WriteBackFile::doubt) {
            say!("{doubt}");
        }
        let run_file = RunFile::create(&ready.statistics_dir)?;
        // Last: an earlier trace is gone from here on.
        let trace = chosen.trace.as_deref();
        let trace = trace.map(TraceTarget::prepare).transpose()?;
        Ok(Self {
            chosen,
            tunables,
            budget,
            groups: Groups::now(),
            program,
            ready,
            trace,
            chaos,
            write_back,
            run_file,
        })
    }

    fn is_quiet(&self) -> bool {
        self.chosen.quiet.unwrap_or(false)
    }

    /// What the pager is told.
    fn settings(&self, arguments: &RunArguments) -> environment::Settings<'_> {
        let chosen = &self.chosen;
        // Without a budget only age makes cold pages go.
        let cold_after_ms = chosen
            .cold_after_ms
            .unwrap_or(match self.budget.asked_bytes {
                NO_BUDGET => COLD_AFTER_AUTO,
                _ => 0,
            });
        environment::Settings {
            budget_bytes: self.budget.bytes,
            asked_budget_bytes: self.budget.asked_bytes,
            memory_groups: self.groups.for_the_pager(),
            cold_after_ms,
            triggers: chosen.triggers.unwrap_or(Triggers::ALL),
            codec: chosen.codec.unwrap_or_else(CodecKind::best),
            storage: chosen.storage.unwrap_or_default(),
            recode_after_ms: chosen.recode_after_ms.filter(|&age| age != COLD_AFTER_AUTO),
            tunables: &self.tunables,
            chaos: self.chaos,
            chaos_rest_ms: arguments.chaos_rest.unwrap_or(0),
            raw_clones: arguments.raw_clones,
            follow: chosen.follow.unwrap_or(true),
            trace: self.trace.as_ref().map(TraceTarget::path),
            run_file: self.run_file.path(),
            device: self.ready.device,
            write_back: self.write_back.as_ref().map(WriteBackFile::for_the_pager),
            library: &self.ready.library,
        }
    }

    /// What the program is started with.
    fn launch(&self, arguments: &RunArguments) -> Result<Launch, Refusal> {
        let settings = self.settings(arguments);
        let text = |text: &OsStr| {
            environment::argument(text).ok_or_else(|| Refusal::new("an argument holds a zero byte"))
        };
        Ok(Launch {
            path: text(self.program.path.as_os_str())?,
            arguments: arguments
                .program
                .iter()
                .map(|argument| text(argument))
                .collect::<Result<_, _>>()?,
            environment: settings.environment(),
            device: self.ready.device,
            write_back: self.write_back.as_ref().map(WriteBackFile::descriptor),
            ends_with_us: arguments.die_with_coldpress,
            tells_root: true,
        })
    }

    /// Says what the budget is, where it is not simply the one that was asked for.
    fn explain_budget(&self) {
        let explanation = self
            .budget
            .explanation(|| memory_limit::usable_bytes().ok());
        if let Some(line) = explanation
            && !self.is_quiet()
        {
            say!("{}: {line}", self.program.name);
        }
    }

    /// Starts the program. What was inherited and is written at the end stays open here; the rest is let go of. So
    /// is the working directory, unless a name of what is written is relative to it.
    fn start(&self, launch: &Launch, signals: &Signals) -> Result<Child, Refusal> {
        let outputs = [&self.chosen.stats, &self.chosen.trace];
        let written_at_the_end: Vec<_> = outputs
            .into_iter()
            .flatten()
            .filter_map(|target| output_file::descriptor_of(target))
            .collect();
        let is_anywhere = |name: &PathBuf| name.is_absolute() || name == "-";
        let names_are_absolute = outputs.into_iter().flatten().all(is_anywhere);
        let let_go = || {
            inherited::let_go(&written_at_the_end);
            if names_are_absolute {
                inherited::leave_directory();
            }
        };
        let started = spawn::start(launch, signals, let_go);
        let_go_of_code();
        started.map_err(|error| error.refusal(&self.program.path))
    }
}

/// Lets go of the code that starting took. Where memory is short the kernel kills the process that holds most, and a
/// few megabytes of code are more than a small program's child holds. What is needed again comes from the file.
fn let_go_of_code() {
    for line in process::read("/proc/self/maps").unwrap_or_default().lines() {
        let Some((start, end)) = code_of_a_file(line) else {
            continue;
        };
        // SAFETY: a private mapping of a file that was never writable: nothing in it differs from the file, from which
        // it is read again.
        unsafe {
            let (start, bytes) = (start as *mut libc::c_void, (end - start) as usize);
            libc::madvise(start, bytes, libc::MADV_DONTNEED);
        }
    }
}

/// Where the code lies that a line of `/proc/PID/maps` tells of. `None`: it tells of something else.
fn code_of_a_file(line: &str) -> Option<(u64, u64)> {
    let mapping = Mapping::parse(line)?;
    (mapping.permissions == "r-xp" && mapping.is_of_a_file).then_some(mapping.range)
}

/// How the program ended, and what the run came to.
struct End {
    pid: u32,
    ending: Ending,
    elapsed_ns: u64,
    /// Processes of its memory group that the kernel has killed meanwhile.
    killed_in_group: u64,
    outcome: Outcome,
}

impl End {
    /// What is said where the kernel has killed it, or others of its memory group.
    fn killed(&self, program: &str) -> Option<String> {
        let limit = memory_limit::group_bytes();
        closing::killed(program, self.ending, self.killed_in_group, limit)
    }

    /// Whether the kernel has killed the program since its memory group was full.
    fn is_killed_for_memory(&self) -> bool {
        self.killed_in_group > 0 && self.ending == Ending::Killed(libc::SIGKILL)
    }

    /// The figures of the first process.
    fn first(&self) -> Option<&Statistics> {
        self.outcome.first.as_ref()?.statistics(self.pid).ok()
    }

    /// What is said of `--writeback` where pages were taken of others only than the first process, which alone writes.
    fn wrote_nothing_back(&self, program: &str) -> Vec<String> {
        let first = self.first().map_or(0, |s| s.evictions.load(Relaxed));
        if first > 0 || self.outcome.totals.sums.evictions == 0 {
            return Vec::new();
        }
        vec![
            format!("{program}: nothing was written back: only a run's first process writes"),
            "name the program itself after --, or let a shell exec it".to_owned(),
        ]
    }

    /// The one program that is worth telling of, with its figures: what a wrapper started, or the first itself
    /// where nothing else did anything. `None`: there are several.
    fn only(&self) -> Option<(&str, &Statistics)> {
        let totals = &self.outcome.totals;
        let (member, copy) = totals.principal.as_ref()?;
        let statistics = copy.statistics(copy.pid()).ok()?;
        (totals.weighty <= 1).then_some((&member.program, statistics))
    }
}

/// Whether a page is of the first process.
fn is_first(page: &Statistics, first: Option<&Statistics>) -> bool {
    first.is_some_and(|first| first.pid.load(Relaxed) == page.pid.load(Relaxed))
}

/// Prints the summary and writes the JSON file. Nothing here changes the exit status: it is the
/// program's.
fn tell(chosen: &Settings, program: &Program, library: &Path, budget: &BudgetInForce, end: &End) {
    let (pid, first) = (end.pid, end.first());
    let Outcome {
        totals, unmanaged, ..
    } = &end.outcome;
    if chosen.quiet != Some(true) {
        let verbose = chosen.verbose == Some(true);
        let mut lines = Vec::new();
        match end.only() {
            // By the name that it was called by; the kernel's is cut.
            Some((name, only)) => {
                let is_called_so = name == "?" || program.name.starts_with(name);
                let is_called_so = is_called_so && is_first(only, first);
                let name = if is_called_so { &program.name } else { name };
                let (young, elapsed_ns) = (&totals.young, end.elapsed_ns);
                lines.extend(match end.is_killed_for_memory() {
                    true => closing::of_killed_program(name, only, young, elapsed_ns),
                    false => {
                        let limit = memory_limit::group_bytes();
                        closing::of_program(name, only, young, elapsed_ns, limit)
                    }
                });
                if verbose {
                    lines.extend(closing::verbose::of_program(only, budget));
                }
            }
            None if totals.weighty > 1 => {
                lines.extend(closing::of_all(
                    &program.name,
                    totals,
                    budget,
                    end.elapsed_ns,
                ));
                if verbose {
                    lines.extend(closing::verbose::of_all(totals, first));
                }
            }
            None => {}
        }
        for line in lines {
            say!("{line}");
        }
        if let Some(line) = unmanaged.line() {
            say!("{}: not managed: {line}", program.name);
        }
        if let Some(line) = end.killed(&program.name) {
            say!("{line}");
        }
    }
    if first.is_none() && totals.programs == 0 {
        tell_of_no_pager(&program.name, library, end);
    }
    if let Some(target) = &chosen.stats {
        let figures = end.outcome.first.as_ref().map(|copy| copy.figures());
        let seen = first.zip(figures);
        let mut value =
            summary::to_json(&program.name, pid, seen, &totals.young, budget, end.ending);
        if let Some(object) = value.as_object_mut() {
            object.insert(
                "follow".to_owned(),
                totals.to_json(unmanaged, end.elapsed_ns),
            );
        }
        if let Err(refusal) = summary::write_json(target, &value) {
            say!("--stats: {refusal}");
        }
    }
}

/// Says why there are no figures at all.
fn tell_of_no_pager(program: &str, library: &Path, end: &End) {
    let at_once = end.elapsed_ns < 1_000_000_000;
    match end.ending {
        // The loader's status, where it does not find a library of the program's.
        Ending::Killed(_) | Ending::Exited(127) if at_once => {
            say!("{program}: it ended before its pager started");
        }
        _ => say!(
            "{program}: the pager did not start in it, so it ran without compression: it left no statistics. \
             Perhaps it cleared LD_PRELOAD, or the loader could not load {}",
            library.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::code_of_a_file;

    #[test]
    fn only_code_of_files_is_let_go_of() {
        let line = |permissions, inode, name| {
            code_of_a_file(&format!(
                "55d0-55d8 {permissions} 00 fe:00 {inode}   {name}"
            ))
        };
        assert_eq!(line("r-xp", "12", "/usr/bin/a b"), Some((0x55d0, 0x55d8)));
        assert_eq!(
            line("r--p", "12", "/usr/bin/a"),
            None,
            "it may be relocated"
        );
        assert_eq!(line("rwxp", "12", "/usr/bin/a"), None);
        assert_eq!(line("r-xp", "0", "[vdso]"), None);
        assert_eq!(code_of_a_file(""), None);
    }
}
