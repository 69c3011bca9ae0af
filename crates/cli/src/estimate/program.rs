//! `coldpress estimate -- PROGRAM`: runs a program as it is, watches it over its life, says at the end what `run` would
//! have held.
//!
//! The program is started, supervised and ended as `run` does it (`spawn`, `supervise`), without a pager, a library or a
//! variable more. Of all that it starts the process is watched that holds most, in stretches that double up to the
//! length of `--watch`; what has gone on since the last whole stretch is lost with the program's end, since the memory of
//! a process that has ended cannot be looked at. Standard output is the program's, so all goes to standard error, as
//! the summary of `run` does.

use crate::duration::format_nanoseconds;
use crate::environment;
use crate::estimate::arguments::{Chosen, EstimateArguments};
use crate::estimate::assemble::{Estimate, SAMPLE_PAGES};
use crate::estimate::costs;
use crate::estimate::model::{Expected, Model};
use crate::estimate::seen::Subject;
use crate::estimate::watch::{Means, Readings};
use crate::estimate::{chart, json, text};
use crate::follow::LOOK;
use crate::inherited;
use crate::output_file;
use crate::program::{self, Program};
use crate::refusal::Refusal;
use crate::signals::Signals;
use crate::size::{format_bytes, format_count};
use crate::spawn::{self, Launch};
use crate::streams::say;
use crate::supervise::{self, Ending, Watched};
use crate::unmanaged;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// The first stretch.
const FIRST: Duration = Duration::from_secs(1);
/// What holds less is no program to be watched yet.
const LEAST_BYTES: u64 = 1 << 20;

/// Runs the program; the result is its own exit status.
pub fn estimate(arguments: &EstimateArguments, chosen: Chosen) -> Result<u8, Refusal> {
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
    let life = Life::new(child.pid, program.name.clone(), arguments, chosen);
    say!("{}", life.intent());
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
        write_back: None,
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
    chosen: Chosen,
    means: Means,
    longest: Duration,
    next: Duration,
    /// Until when is looked, if not to the end.
    until: Option<Duration>,
    current: Option<(Subject, Readings)>,
    looked_s: f64,
    stretches: Vec<Stretch>,
    /// Something held enough to be looked at.
    found: bool,
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
    fn new(root: u32, name: String, arguments: &EstimateArguments, chosen: Chosen) -> Self {
        let words = arguments.program.iter();
        Self {
            root,
            name,
            words: words
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            began: Instant::now(),
            chosen,
            means: arguments.ages,
            longest: arguments.watching(),
            next: FIRST.min(arguments.watching()),
            until: arguments.watch_for.map(Duration::from_millis),
            current: None,
            looked_s: 0.0,
            stretches: Vec::new(),
            found: false,
            why: None,
            told: false,
        }
    }

    /// What is going to happen, for who waits.
    fn intent(&self) -> String {
        let when = match self.until {
            Some(until) => format!(
                "after {}, or when it ends",
                format_nanoseconds(until.as_nanos() as u64)
            ),
            None => "when it ends (after a time: --for 1m)".to_owned(),
        };
        format!("{} runs natively; the estimate comes {when}", self.name)
    }

    /// Begins to watch the process that holds most.
    fn begin(&mut self) {
        let all = std::iter::once(self.root).chain(unmanaged::descendants(self.root));
        let sizes = all.filter_map(|pid| Some((unmanaged::private_bytes(pid)?, pid)));
        let Some((_, pid)) = sizes.filter(|(bytes, _)| *bytes >= LEAST_BYTES).max() else {
            return;
        };
        self.found = true;
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
        let of = |seen| Estimate::of(subject, seen, self.chosen.storing, SAMPLE_PAGES);
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

    /// The budget to try: the most that any stretch needs. `None`: it would save nothing, that is not known, or the
    /// memory group allows less.
    fn suggested_budget(&self) -> Option<u64> {
        let last = &self.stretches.last()?.estimate;
        self.needed_budget()
            .filter(|bytes| last.not_allowed(*bytes).is_none())
    }

    /// The budget that would do, whatever the memory group allows.
    fn needed_budget(&self) -> Option<u64> {
        if self.means == Means::None {
            return None;
        }
        Model::suggested_budget_of(self.stretches.iter().map(|one| &one.estimate.model))
    }

    /// What compression costs of a CPU on average: what comes back in each stretch, and all that has left.
    fn processor_share(&self) -> f64 {
        let left = self.stretches.last().map_or(0.0, |last| {
            last.expected.leaving_s * costs::EVICTION_CPU_NS / 1e9
        });
        self.average(|one| one.expected.refaults_s) * costs::CYCLE_CPU_NS / 1e9 + left
    }

    /// Says what was found.
    fn tell(&mut self) {
        self.told = true;
        let elapsed_s = self.began.elapsed().as_secs_f64();
        for line in self.lines(elapsed_s) {
            say!("{line}");
        }
    }

    fn lines(&self, elapsed_s: f64) -> Vec<String> {
        let Some(last) = self.stretches.last() else {
            return vec![self.nothing(elapsed_s)];
        };
        let mut lines = self.held(last);
        lines.push(self.seen(last, elapsed_s));
        lines.push(self.cost());
        if let Some(bytes) = self.chosen.budget {
            let budget = format_bytes(bytes);
            lines.push(match last.estimate.model.under(bytes as f64) {
                Some(expected) => format!(
                    "with a budget of {budget}: about {} pages a second come back, {} of a CPU",
                    text::refaults(&expected),
                    text::processor(&expected)
                ),
                None => format!("a budget of {budget} would be out of reach"),
            });
        }
        if let Some(why) = &last.estimate.unfit {
            lines.push(format!("but run would not manage it: it is {why}"));
            return lines;
        }
        let command = text::quoted_line(&self.words);
        let commands = &self.chosen.commands;
        lines.push(format!("to try: {}", commands.by_default(&command)));
        let under = |bytes| format!("or: {}", commands.under(bytes, &command));
        lines.extend(self.suggested_budget().map(under));
        let not_allowed = |bytes| last.estimate.not_allowed(bytes);
        let why = self.needed_budget().and_then(not_allowed);
        lines.extend(why.map(|why| format!("no budget to try: {why}")));
        lines
    }

    /// Why there is nothing to tell.
    fn nothing(&self, elapsed_s: f64) -> String {
        let name = &self.name;
        let first_s = self.next.as_secs_f64();
        match &self.why {
            None if !self.found => format!(
                "{name}: nothing to tell: in {elapsed_s:.1} s it held less than {} of private anonymous memory",
                format_bytes(LEAST_BYTES)
            ),
            _ if elapsed_s < 2.0 * first_s => format!(
                "{name}: nothing to tell: it ended after {elapsed_s:.1} s, before the first look of {first_s:.1} s was \
                 over; in so short a time run evicts nothing, but for a budget"
            ),
            Some(why) => format!("{name}: nothing to tell after {elapsed_s:.1} s: {why}"),
            None => format!("{name}: nothing to tell after {elapsed_s:.1} s: no look was over"),
        }
    }

    /// What would have been held.
    fn held(&self, last: &Stretch) -> Vec<String> {
        let (native, held) = (
            self.average(|one| one.estimate.native_bytes()),
            self.average(|one| one.expected.held_bytes),
        );
        let about = if self.is_bound() { "about " } else { "" };
        let expected = &last.expected;
        let between = match expected.is_bound {
            true => format!(
                " ({} to {})",
                format_bytes(expected.least_bytes.max(0.0) as u64),
                format_bytes(expected.most_bytes.max(0.0) as u64)
            ),
            false => String::new(),
        };
        let now = format!(
            "when last seen: {}{between} instead of {}{}",
            format_bytes(expected.held_bytes.max(0.0) as u64),
            format_bytes(last.estimate.native_bytes() as u64),
            going_on(&last.estimate)
        );
        let average = format!(
            "{}: would have held {about}{} instead of {} on average, {about}{:.0} % saved",
            last.estimate.name,
            format_bytes(held as u64),
            format_bytes(native as u64),
            ((native - held) / native.max(1.0)).max(0.0) * 100.0,
        );
        vec![average, now]
    }

    /// When it was looked at, and what it did meanwhile.
    fn seen(&self, last: &Stretch, elapsed_s: f64) -> String {
        let stretches = match self.stretches.len() {
            1 => "one stretch".to_owned(),
            count => format!("{count} stretches"),
        };
        let seen = format!(
            "looked at for {:.0} s of its {elapsed_s:.0} s, in {stretches}",
            self.looked_s
        );
        match text::load(&last.estimate.seen) {
            Some(load) if self.stretches.len() == 1 => format!("{seen}, in which {load}"),
            Some(load) => format!("{seen}; in the last {load}"),
            None => seen,
        }
    }

    /// Only bounds are known of some of it.
    fn is_bound(&self) -> bool {
        self.stretches.iter().any(|one| one.expected.is_bound)
    }

    fn cost(&self) -> String {
        if self.means == Means::None {
            return "cost: not known, since it was not watched which pages are used".to_owned();
        }
        let about = if self.is_bound() { "at most" } else { "about" };
        format!(
            "cost: {about} {} pages a second come back, {:.1} % of a CPU",
            format_count(self.average(|one| one.expected.refaults_s).round() as u64),
            self.processor_share() * 100.0
        )
    }

    /// Writes the files that were asked for. Nothing here changes the exit status: it is the program's.
    fn write(&self, arguments: &EstimateArguments, ending: Ending) {
        if let Some(path) = &arguments.svg {
            match self.stretches.last() {
                Some(last) => {
                    let written =
                        output_file::write_at_end(path, chart::plot(&last.estimate).as_bytes());
                    if let Err(refusal) = written {
                        say!("--svg: {refusal}");
                    }
                }
                None => say!("--svg: there is nothing to draw"),
            }
        }
        if let Some(path) = &arguments.stats {
            let text = format!("{:#}\n", self.to_json(ending));
            if let Err(refusal) = output_file::write_at_end(path, text.as_bytes()) {
                say!("--stats: {refusal}");
            }
        }
    }

    fn to_json(&self, ending: Ending) -> Value {
        let (status, signal) = match ending {
            Ending::Exited(status) => (Some(status), None),
            Ending::Killed(signal) => (None, Some(signal)),
        };
        let is_watched = self.means != Means::None;
        let stretches = self.stretches.iter().map(|one| {
            json!({
                "from_s": one.from_s,
                "to_s": one.to_s,
                "held_bytes": one.expected.held_bytes as u64,
                "process": json::process(&one.estimate, self.chosen.budget),
            })
        });
        json!({
            "schema_version": json::SCHEMA_VERSION,
            "program": self.name,
            "exit_status": status,
            "signal": signal,
            "watched_s": self.looked_s,
            "average_native_bytes": self.average(|one| one.estimate.native_bytes()) as u64,
            "average_refaults_s": is_watched.then(|| self.average(|one| one.expected.refaults_s)),
            "average_processor_share": is_watched.then(|| self.processor_share()),
            "is_bound": self.is_bound(),
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
    format!("; going on like this {settled}")
}
