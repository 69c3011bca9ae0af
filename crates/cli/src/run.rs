//! `coldpress run`: check everything, start the program with the pager preloaded, end as it ends.

use crate::arguments::RunArguments;
use crate::budget::BudgetInForce;
use crate::chaos;
use crate::config_file;
use crate::doctor;
use crate::environment;
use crate::follow::Followed;
use crate::memory_limit;
use crate::preload_library;
use crate::program::{self, Program};
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::signals::{self, Signals};
use crate::size::Budget;
use crate::spawn::{self, Launch, SpawnError};
use crate::statistics_dir;
use crate::statistics_file::Copy;
use crate::summary;
use crate::supervise::{self, Ending};
use crate::tier::{Access, Assessment, Tier};
use coldpress_codec::CodecKind;
use coldpress_interface::control::{COLD_AFTER_AUTO, NO_BUDGET};
use coldpress_interface::triggers::Triggers;
use std::ffi::OsStr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// Runs the program; the result is its own exit status.
pub fn run(arguments: &RunArguments) -> Result<u8, Refusal> {
    let chosen = settings(arguments)?;
    let quiet = chosen.quiet.unwrap_or(false);
    let (tunables, chosen) = tuned(chosen).map_err(|why| Refusal::new(format!("--tune: {why}")))?;
    let asked = chosen.budget.unwrap_or(Budget::Unlimited);
    let asked = asked.resolve(memory_limit::usable_bytes)?;
    let budget = BudgetInForce::of(asked, memory_limit::group_bytes())?;
    // Without a budget only age makes cold pages go.
    let cold_after_ms = chosen.cold_after_ms.unwrap_or(match asked {
        NO_BUDGET => COLD_AFTER_AUTO,
        _ => 0,
    });
    let program = program::find(&arguments.program[0])?;
    let device = check_machine()?;
    let library = preload_library::find()?;
    let statistics_dir = statistics_dir::prepare()?;
    if let Some(target) = &chosen.stats {
        summary::check_writable(target).map_err(|error| {
            Refusal::new(format!(
                "--stats: {} cannot be written: {error}",
                target.display()
            ))
        })?;
    }
    let trace = chosen.trace.as_deref().map(trace_file).transpose()?;
    let chaos = chaos::seed(arguments.chaos);
    let settings = environment::Settings {
        budget_bytes: budget.bytes,
        cold_after_ms,
        triggers: chosen.triggers.unwrap_or(Triggers::ALL),
        codec: chosen.codec.unwrap_or_else(CodecKind::best),
        storage: chosen.storage.unwrap_or_default(),
        recode_after_ms: chosen.recode_after_ms.filter(|&age| age != COLD_AFTER_AUTO),
        tunables: &tunables,
        chaos,
        follow: chosen.follow.unwrap_or(false),
        trace: trace.as_deref(),
        statistics_dir: &statistics_dir,
        device,
        library: &library,
    };
    let text = |text: &OsStr| {
        environment::argument(text).ok_or_else(|| Refusal::new("an argument holds a zero byte"))
    };
    let launch = Launch {
        path: text(program.path.as_os_str())?,
        arguments: arguments
            .program
            .iter()
            .map(|argument| text(argument))
            .collect::<Result<_, _>>()?,
        environment: settings.environment(),
        device,
    };
    if let Some(line) = budget.explanation()
        && !quiet
    {
        eprintln!("coldpress: {}: {line}", program.name);
    }
    let signals = Signals::take();
    let child = spawn::start(&launch, &signals).map_err(|error| refuse_start(&program, error))?;
    let mut followed = chosen
        .follow
        .unwrap_or(false)
        .then(|| Followed::new(child.pid, &statistics_dir, &library));
    let (ending, copy) = supervise::supervise(child, &statistics_dir, &signals, followed.as_mut());
    let end = End {
        pid: child.pid,
        copy: copy.as_ref(),
        ending,
    };
    tell(&chosen, &program, &library, &budget, &end, followed);
    if let Some(seed) = chaos
        && !quiet
        && let Some(Ok(statistics)) = copy.as_ref().map(|copy| copy.statistics(child.pid))
    {
        eprintln!(
            "coldpress: {}",
            chaos::line(&program.name, seed, statistics)
        );
    }
    Ok(end_as(ending))
}

/// The file of a trace, as the pager can open it wherever the program goes. An old one is removed, so that
/// what is there afterwards is of this run.
fn trace_file(file: &Path) -> Result<PathBuf, Refusal> {
    let refused = |why: String| Refusal::new(format!("--trace: {}: {why}", file.display()));
    let cannot = |error: std::io::Error| refused(format!("cannot be written: {error}"));
    let absolute = std::path::absolute(file).map_err(cannot)?;
    if absolute.as_os_str().len() > LONGEST_TRACE_PATH {
        return Err(refused(format!(
            "its path is longer than {LONGEST_TRACE_PATH} bytes"
        ))
        .mend("Name one in a directory nearer to the root: --trace /tmp/decisions.trace"));
    }
    summary::check_writable(&absolute).map_err(cannot)?;
    if absolute.is_file() {
        std::fs::remove_file(&absolute).map_err(cannot)?;
    }
    Ok(absolute)
}

/// What the pager has room for.
const LONGEST_TRACE_PATH: usize = 250;

/// What the command line, the environment and the file say.
fn settings(arguments: &RunArguments) -> Result<Settings, Refusal> {
    let upper = arguments.settings().over(Settings::from_environment()?);
    let named = std::env::var_os("COLDPRESS_CONFIG").filter(|name| !name.is_empty());
    Ok(match arguments.config.clone().or(named.map(Into::into)) {
        Some(path) => upper.over(config_file::read(&path)?),
        None => upper,
    })
}

/// The tunables for the pager, and the settings, in which codec and storage are what the tunables say of them.
fn tuned(chosen: Settings) -> Result<(String, Settings), String> {
    let mut tune = chosen.tune.clone().unwrap_or_default();
    let (codec, storage) = tune.codec_and_storage()?;
    for (option, twice) in [
        ("codec", codec.is_some() && chosen.codec.is_some()),
        ("storage", storage.is_some() && chosen.storage.is_some()),
    ] {
        if twice {
            return Err(format!("--{option} says what that is"));
        }
    }
    let chosen = Settings {
        codec: chosen.codec.or(codec),
        storage: chosen.storage.or(storage),
        ..chosen
    };
    Ok((tune.for_the_pager(), chosen))
}

/// The full tier, or a refusal. Returns the device descriptor that the program must inherit.
fn check_machine() -> Result<Option<RawFd>, Refusal> {
    let assessment = Assessment::take();
    match assessment.access {
        Some(Access::SystemCall) if assessment.tier == Tier::Full => Ok(None),
        Some(Access::Device { descriptor, .. }) if assessment.tier == Tier::Full => {
            Ok(Some(descriptor))
        }
        _ => Err(doctor::refuse(&assessment)),
    }
}

/// `execve` failed although the file looked right: it changed meanwhile, or a limit was met.
fn refuse_start(program: &Program, error: SpawnError) -> Refusal {
    let shown = program.path.display();
    match error {
        SpawnError::Fork(_) => Refusal::new(format!("{shown}: {error}")),
        SpawnError::Execute(cause) => match cause.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Refusal::not_found(format!(
                "{shown}: it, or the interpreter it names, does not exist"
            )),
            _ => Refusal::not_executable(format!("{shown}: cannot be executed: {cause}")),
        },
    }
}

/// How the program ended, and what it left.
struct End<'a> {
    pid: u32,
    copy: Option<&'a Copy>,
    ending: Ending,
}

/// Prints the summary and writes the JSON file. Nothing here changes the exit status: it is the
/// program's.
fn tell(
    chosen: &Settings,
    program: &Program,
    library: &Path,
    budget: &BudgetInForce,
    end: &End<'_>,
    followed: Option<Followed>,
) {
    let pid = end.pid;
    let statistics = end.copy.and_then(|copy| copy.statistics(pid).ok());
    let all = followed.map(|followed| followed.finish(statistics));
    let quiet = chosen.quiet == Some(true);
    match (&all, statistics) {
        _ if quiet => {}
        (Some((totals, _)), Some(_)) if totals.programs > 1 => eprintln!(
            "coldpress: {}",
            summary::line_of_all(&program.name, totals, budget)
        ),
        (_, Some(statistics)) => eprintln!(
            "coldpress: {}",
            summary::line(&program.name, statistics, budget)
        ),
        (Some((totals, _)), None) => eprintln!(
            "coldpress: {}",
            summary::line_of_all(&program.name, totals, budget)
        ),
        (None, None) => {}
    }
    if let Some(line) = all.as_ref().and_then(|(_, unmanaged)| unmanaged.line())
        && !quiet
    {
        eprintln!("coldpress: {}: not managed: {line}", program.name);
    }
    if statistics.is_none() && all.is_none() {
        eprintln!(
            "coldpress: {}: the pager did not start in it, so it ran without compression: it left no statistics file. \
             Perhaps it cleared LD_PRELOAD, or the loader could not load {}",
            program.name,
            library.display()
        );
    }
    if let Some(target) = &chosen.stats {
        let figures = end.copy.map(Copy::figures);
        let seen = statistics.zip(figures);
        let mut value = summary::to_json(&program.name, pid, seen, budget, end.ending);
        if let (Some((totals, unmanaged)), Some(object)) = (&all, value.as_object_mut()) {
            object.insert("follow".to_owned(), totals.to_json(unmanaged));
        }
        if let Err(error) = summary::write_json(target, &value) {
            eprintln!(
                "coldpress: --stats: {} could not be written: {error}",
                target.display()
            );
        }
    }
}

/// Ends as the program ended: by the same signal, or with the status to be returned.
fn end_as(ending: Ending) -> u8 {
    match ending {
        Ending::Exited(status) => status,
        Ending::Killed(signal) => {
            signals::die_by(signal);
            128u8.saturating_add(signal.to_ne_bytes()[0])
        }
    }
}
