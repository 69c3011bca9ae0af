//! `coldpress estimate -- PROGRAM`: runs a program as it is, watches it over its life, says at the end what `run` would
//! have held.
//!
//! The program is started, supervised and ended as `run` does it (`spawn`, `supervise`), without a pager, a library or a
//! variable more. Of all that it starts the process is watched that holds most, in stretches that double up to the
//! length of `--watch`; what has gone on since the last whole stretch is lost with the program's end, since the memory of
//! a process that has ended cannot be looked at. Standard output is the program's, so all goes to standard error, as
//! the summary of `run` does.

use crate::environment;
use crate::estimate::arguments::EstimateArguments;
use crate::estimate::assemble::{Estimate, SAMPLE_PAGES};
use crate::estimate::model::Expected;
use crate::estimate::seen::Subject;
use crate::estimate::watch::{Means, Readings};
use crate::estimate::{chart, json, text};
use crate::follow::LOOK;
use crate::inherited;
use crate::output_file;
use crate::own_name;
use crate::program::{self, Program};
use crate::refusal::Refusal;
use crate::signals::Signals;
use crate::size::{format_bytes, format_count};
use crate::spawn::{self, Launch};
use crate::streams::say;
use crate::supervise::{self, Ending, Watched};
use crate::unmanaged;
use coldpress_eval::Storing;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// The first stretch.
const FIRST: Duration = Duration::from_secs(1);
/// What holds less is no program to be watched yet.
const LEAST_BYTES: u64 = 1 << 20;

/// Runs the program; the result is its own exit status.
pub fn estimate(arguments: &EstimateArguments, budget: Option<u64>) -> Result<u8, Refusal> {
    if arguments.ages == Means::Damon {
        return Err(Refusal::new(
            "--ages damon is for a process that runs: a program that is started is watched by clear-refs",
        ));
    }
    let program = program::find(&arguments.program[0])?;
    let outputs = [&arguments.svg, &arguments.stats];
    for output in outputs.into_iter().flatten() {
        output_file::check(output)?;
    }
    let launch = launch(&program, arguments)?;
    let signals = Signals::take();
    let let_go = || {
        let kept: Vec<_> = outputs
            .into_iter()
            .flatten()
            .filter_map(|target| output_file::descriptor_of(target))
            .collect();
        inherited::let_go(&kept);
        if outputs.into_iter().flatten().all(|name| name.is_absolute()) {
            inherited::leave_directory();
        }
    };
    let child = spawn::start(&launch, &signals, let_go);
    let child = child.map_err(|error| error.refusal(&program.path))?;
    let life = Life::new(child.pid, program.name.clone(), arguments, budget);
    let (ending, life) = supervise::supervise(child, &signals, life);
    life.write(arguments, ending);
    Ok(ending.end_as())
}

/// The program as it is.
fn launch(program: &Program, arguments: &EstimateArguments) -> Result<Launch, Refusal> {
    let text = |text: &OsStr| {
        environment::argument(text).ok_or_else(|| Refusal::new("an argument holds a zero byte"))
    };
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        environment::argument(OsStr::from_bytes(
            &[name.as_bytes(), b"=", value.as_bytes()].concat(),
        ))
    });
    Ok(Launch {
        path: text(program.path.as_os_str())?,
        arguments: arguments
            .program
            .iter()
            .map(|argument| text(argument))
            .collect::<Result<_, _>>()?,
        environment: variables.collect(),
        device: None,
        ends_with_us: false,
        tells_root: false,
    })
}

/// One stretch of a program's life.
struct Stretch {
    from_s: f64,
    to_s: f64,
    estimate: Estimate,
    expected: Expected,
}

/// A program's life as far as it was seen.
struct Life {
    root: u32,
    name: String,
    words: Vec<String>,
    began: Instant,
    storing: Storing,
    means: Means,
    budget: Option<u64>,
    longest: Duration,
    next: Duration,
    /// Until when is looked, if not to the end.
    until: Option<Duration>,
    current: Option<(Subject, Readings)>,
    looked_s: f64,
    stretches: Vec<Stretch>,
    /// Why something could not be looked at.
    why: Option<String>,
    told: bool,
}

impl Watched for Life {
    type Outcome = Self;

    fn look(&mut self) -> Duration {
        let elapsed = self.began.elapsed();
        if self.until.is_some_and(|until| elapsed >= until) {
            if !self.told {
                self.tell();
            }
            return Duration::from_secs(1);
        }
        let Some((subject, mut readings)) = self.current.take() else {
            self.begin();
            return LOOK;
        };
        readings.look(subject.pid);
        match readings.next() {
            Some(next) => {
                self.current = Some((subject, readings));
                next.clamp(Duration::from_millis(10), LOOK)
            }
            None => {
                self.conclude(&subject, readings);
                Duration::from_millis(10)
            }
        }
    }

    fn finish(mut self) -> Self {
        if !self.told {
            self.tell();
        }
        self
    }
}

impl Life {
    fn new(root: u32, name: String, arguments: &EstimateArguments, budget: Option<u64>) -> Self {
        let words = arguments.program.iter();
        Self {
            root,
            name,
            words: words
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            began: Instant::now(),
            storing: arguments.storing(),
            means: arguments.ages,
            budget,
            longest: arguments.watching(),
            next: FIRST.min(arguments.watching()),
            until: arguments.watch_for.map(Duration::from_millis),
            current: None,
            looked_s: 0.0,
            stretches: Vec::new(),
            why: None,
            told: false,
        }
    }

    /// Begins to watch the process that holds most.
    fn begin(&mut self) {
        let all = std::iter::once(self.root).chain(unmanaged::descendants(self.root));
        let sizes = all.filter_map(|pid| Some((unmanaged::private_bytes(pid)?, pid)));
        let Some((_, pid)) = sizes.filter(|(bytes, _)| *bytes >= LEAST_BYTES).max() else {
            return;
        };
        match Subject::open(pid) {
            Ok(subject) => {
                self.current = Some((subject, Readings::begin(pid, self.next, self.means)))
            }
            Err(why) => self.why = Some(why.to_string()),
        }
    }

    /// A stretch is over.
    fn conclude(&mut self, subject: &Subject, readings: Readings) {
        let seen = readings.finish(subject);
        let of = |seen| Estimate::of(subject, seen, self.storing, SAMPLE_PAGES);
        match seen.and_then(of) {
            Ok(estimate) => {
                let to_s = self.began.elapsed().as_secs_f64();
                let expected = match estimate.knows_ages() {
                    true => estimate.model.by_default_after(to_s),
                    false => estimate.model.least(),
                };
                self.stretches.push(Stretch {
                    from_s: self.looked_s,
                    to_s,
                    estimate,
                    expected,
                });
                self.looked_s = to_s;
                self.next = (self.next * 2).min(self.longest);
            }
            // It has ended: what held most may be another one now.
            Err(why) => self.why = Some(why.to_string()),
        }
    }

    /// The average over the time that was seen.
    fn average(&self, of: impl Fn(&Stretch) -> f64) -> f64 {
        let time: f64 = self.stretches.iter().map(|one| one.to_s - one.from_s).sum();
        let sum = |one: &Stretch| of(one) * (one.to_s - one.from_s);
        self.stretches.iter().map(sum).sum::<f64>() / time.max(f64::MIN_POSITIVE)
    }

    /// The budget to try: the most that any stretch asks for.
    fn suggested_budget(&self) -> Option<u64> {
        let budgets = self
            .stretches
            .iter()
            .map(|one| one.estimate.model.suggested_budget());
        budgets.max()?
    }

    /// Says what was found.
    fn tell(&mut self) {
        self.told = true;
        let name = &self.name;
        let Some(last) = self.stretches.last() else {
            let seconds = self.began.elapsed().as_secs_f64();
            match &self.why {
                Some(why) => say!("{name}: nothing to tell after {seconds:.1} s: {why}"),
                None => say!(
                    "{name}: nothing to tell: after {seconds:.1} s it was too short, or too small, to be watched"
                ),
            }
            return;
        };
        let (native, held) = (
            self.average(|one| one.estimate.native_bytes()),
            self.average(|one| one.expected.held_bytes),
        );
        let of = &last.estimate.name;
        say!(
            "{of}: would have held {} instead of {} on average, {:.0} % saved (estimate over {:.0} s)",
            format_bytes(held as u64),
            format_bytes(native as u64),
            ((native - held) / native.max(1.0)).max(0.0) * 100.0,
            self.looked_s
        );
        say!(
            "when last seen: {} ({} to {}) instead of {}{}",
            format_bytes(last.expected.held_bytes as u64),
            format_bytes(last.expected.least_bytes.max(0.0) as u64),
            format_bytes(last.expected.most_bytes as u64),
            format_bytes(last.estimate.native_bytes() as u64),
            going_on(&last.estimate)
        );
        let refaults = self.average(|one| one.expected.refaults_s);
        let share = self.average(|one| one.expected.processor_share());
        say!(
            "cost: about {} pages a second come back, {:.1} % of a CPU",
            format_count(refaults.round() as u64),
            share * 100.0
        );
        if let Some(bytes) = self.budget {
            match last.estimate.model.under(bytes as f64) {
                Some(expected) => say!(
                    "with a budget of {}: about {} pages a second come back",
                    format_bytes(bytes),
                    format_count(expected.refaults_s.round() as u64)
                ),
                None => say!("a budget of {} would be out of reach", format_bytes(bytes)),
            }
        }
        let command = text::quoted_line(&self.words);
        say!("to try: {} run -- {command}", own_name::get());
        if let Some(bytes) = self
            .suggested_budget()
            .filter(|_| self.means != Means::None)
        {
            let budget = text::budget_argument(bytes);
            say!("or: {} run --budget {budget} -- {command}", own_name::get());
        }
    }

    /// Writes the files that were asked for. Nothing here changes the exit status: it is the program's.
    fn write(&self, arguments: &EstimateArguments, ending: Ending) {
        if let Some(path) = &arguments.svg {
            match self.stretches.last() {
                Some(last) => {
                    let written = output_file::write(path, chart::plot(&last.estimate).as_bytes());
                    if let Err(refusal) = written {
                        say!("--svg: {refusal}");
                    }
                }
                None => say!("--svg: there is nothing to draw"),
            }
        }
        if let Some(path) = &arguments.stats {
            let text = format!("{:#}\n", self.to_json(ending));
            if let Err(refusal) = output_file::write(path, text.as_bytes()) {
                say!("--stats: {refusal}");
            }
        }
    }

    fn to_json(&self, ending: Ending) -> Value {
        let (status, signal) = match ending {
            Ending::Exited(status) => (Some(status), None),
            Ending::Killed(signal) => (None, Some(signal)),
        };
        let stretches = self.stretches.iter().map(|one| {
            json!({
                "from_s": one.from_s,
                "to_s": one.to_s,
                "held_bytes": one.expected.held_bytes as u64,
                "process": json::process(&one.estimate, self.budget),
            })
        });
        json!({
            "schema_version": json::SCHEMA_VERSION,
            "program": self.name,
            "exit_status": status,
            "signal": signal,
            "watched_s": self.looked_s,
            "average_native_bytes": self.average(|one| one.estimate.native_bytes()) as u64,
            "average_held_bytes": self.average(|one| one.expected.held_bytes) as u64,
            "suggested_budget_bytes": self.suggested_budget(),
            "stretches": stretches.collect::<Vec<Value>>(),
        })
    }
}

/// What it would come to if the program went on as it was last seen.
fn going_on(estimate: &Estimate) -> String {
    if !estimate.knows_ages() {
        return String::new();
    }
    let settled = format_bytes(estimate.model.by_default().held_bytes as u64);
    match estimate.model.later() {
        Some(later) => format!(
            "; going on like this {settled}, all denser {}",
            format_bytes(later.held_bytes as u64)
        ),
        None => format!("; going on like this {settled}"),
    }
}
