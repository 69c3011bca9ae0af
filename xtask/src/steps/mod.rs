//! Steps that run in order: cargo commands, each shown, repeatable by hand, and counted. Neighbours that say so
//! ([`Step::beside_others`]) run at the same time, one a processor. Those in the background
//! ([`Step::in_background`]) begin in their turn, and have what time of the processors the steps after them leave.
//!
//! A step that fails ends the run, but for a test ([`Step::hides_nothing`]): the steps after it still run. Each failure
//! is named at the end, with the command that repeats it. A step may need something installed: where that cannot be had
//! it is skipped, loudly, counted among the skips, and with `COLDPRESS_FORBID_SKIPS=1` a failure. Tests that say
//! `SKIPPED:` themselves are counted by [`tally`] from what they print. What a step leaves out for good
//! ([`Step::leaves_out`]) is told and counted alike, and never a failure.

mod tally;

use anyhow::Result;
use coldpress_harness::child::Running;
use coldpress_harness::workspace;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;
use tally::Tally;

/// One step: a cargo command.
pub struct Step {
    headline: String,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// Installs what the step needs, where it is missing.
    need: Option<fn() -> Result<()>>,
    left_out: Vec<String>,
    company: Company,
    hides_nothing: bool,
}

/// What may run at the same time as a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    /// Steps in the background.
    Background,
    /// Those and its neighbours of this kind.
    Neighbours,
    /// It is in the background itself: any but those that are alone.
    Any,
    /// Nothing.
    None,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

impl Step {
    /// `cargo` with these arguments, of which the first may be a toolchain: `+nightly`.
    pub fn new(headline: impl Into<String>, arguments: impl AsRef<str>) -> Step {
        Step {
            headline: headline.into(),
            arguments: arguments.as_ref().split(' ').map(str::to_owned).collect(),
            environment: Vec::new(),
            need: None,
            left_out: Vec::new(),
            company: Company::Background,
            hides_nothing: false,
        }
    }

    /// Nothing after it needs that it passes: the run goes on where it fails.
    pub fn hides_nothing(mut self) -> Step {
        self.hides_nothing = true;
        self
    }

    /// It may run at the same time as its neighbours that may as well: it keeps one processor busy and measures
    /// nothing. What it prints is shown in one piece.
    pub fn beside_others(mut self) -> Step {
        self.company = Company::Neighbours;
        self
    }

    /// It runs at idle priority, one such step after the other, while the steps after it run. None of them may need what
    /// it makes. What it prints is shown in one piece.
    pub fn in_background(mut self) -> Step {
        self.company = Company::Any;
        self
    }

    /// It measures, so the steps in the background end before it begins.
    pub fn alone(mut self) -> Step {
        self.company = Company::None;
        self
    }

    /// With `name` in the environment.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Step {
        self.environment.push((name, value.into()));
        self
    }

    /// Only where `need` says Ok.
    pub fn needs(mut self, need: fn() -> Result<()>) -> Step {
        self.need = Some(need);
        self
    }

    /// Says that something is left out, and why.
    pub fn leaves_out(mut self, what: &str, why: &str) -> Step {
        self.left_out.push(format!("SKIPPED: {what}: {why}"));
        self
    }

    /// The command as one types it.
    pub fn line(&self) -> String {
        let quoted = |value: &str| match value.contains(' ') {
            true => format!("'{value}'"),
            false => value.to_owned(),
        };
        let settings = self.environment.iter();
        let settings = settings.map(|(name, value)| format!("{name}={} ", quoted(value)));
        settings.collect::<String>() + "cargo " + &self.arguments.join(" ")
    }

    fn command(&self) -> Command {
        let names_toolchain = self.arguments.first().is_some_and(|a| a.starts_with('+'));
        let cargo = match names_toolchain {
            true => workspace::cargo_of_rustup(),
            false => workspace::cargo(),
        };
        let mut command = match self.company {
            Company::Any => at_idle_priority(cargo),
            _ => cargo,
        };
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Gets what the step needs; where it cannot be had, the line that says so.
    fn skip_line(&self) -> Option<String> {
        let error = self.need.and_then(|need| need().err())?;
        Some(format!("SKIPPED: {}: {error:#}", self.headline))
    }
}

/// `command` as what runs only where a processor would be idle; it begins with neither arguments nor redirections.
fn at_idle_priority(command: Command) -> Command {
    // Of util-linux, which every Debian has.
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(command.get_program());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        idle.current_dir(directory);
    }
    idle
}

/// Runs all steps; 1 if one failed.
pub fn run(steps: &[Step]) -> Result<u8> {
    Run::new(steps, std::io::stdout(), std::io::stderr()).all()
}

struct Run<'a, O, M> {
    steps: &'a [Step],
    tally: Mutex<Tally>,
    output: Mutex<O>,
    messages: Mutex<M>,
}

impl<'a, O: Write + Send, M: Write + Send> Run<'a, O, M> {
    fn new(steps: &'a [Step], output: O, messages: M) -> Self {
        Self {
            steps,
            tally: Mutex::new(Tally::default()),
            output: Mutex::new(output),
            messages: Mutex::new(messages),
        }
    }

    fn all(self) -> Result<u8> {
        let (failures, reached) = self.in_their_turn()?;
        let steps = self.steps;
        let mut end = String::from("\n");
        let tally = self.tally.lock().expect("no reader panicked");
        for line in tally.skip_lines() {
            end += &format!("{line}\n");
        }
        let mut failed = tally.failed();
        for step in failures.iter().map(|&number| &steps[number]) {
            let (headline, line) = (&step.headline, step.line());
            end += &format!("FAILED: {headline}; repeat it with:\n  {line}\n");
        }
        failed = failed.max(failures.len() as u64);
        for line in tally.failure_lines() {
            end += &format!("{line}\n");
        }
        if reached < steps.len() {
            end += &format!(
                "not run after that: {} of {} steps\n",
                steps.len() - reached,
                steps.len()
            );
        }
        let (passed, skipped) = (tally.passed(), tally.skipped());
        end += &format!("{passed} passed, {failed} failed, {skipped} skipped\n");
        self.show(&end);
        Ok(u8::from(failed > 0))
    }

    /// Runs the steps until one fails that hides others: the numbers of those that failed, and of the first that was
    /// not run.
    fn in_their_turn(&self) -> Result<(Vec<usize>, usize)> {
        let steps = self.steps;
        let turn = Mutex::new(());
        std::thread::scope(|scope| {
            let (mut failures, mut first) = (Vec::new(), 0);
            let mut background = Vec::new();
            while first < steps.len() && self.goes_on_after(&failures) {
                let neighbours = steps[first..].iter();
                let neighbours = neighbours.take_while(|s| s.company == Company::Neighbours);
                let mut end = first + neighbours.count().max(1);
                match steps[first].company {
                    Company::Any => {
                        let turn = &turn;
                        background.push(scope.spawn(move || {
                            let _turn = turn.lock().expect("no other one panicked");
                            self.behind(first)
                        }));
                    }
                    Company::None if !background.is_empty() => {
                        for step in background.drain(..) {
                            failures.extend(step.join().expect("it does not panic")?);
                        }
                        // Whether it is still to be run is asked once more.
                        end = first;
                    }
                    _ if end - first > 1 => failures.extend(self.together(first..end)?),
                    _ => failures.extend(self.one(first)?),
                }
                first = end;
            }
            for step in background {
                failures.extend(step.join().expect("it does not panic")?);
            }
            failures.sort_unstable();
            Ok((failures, first))
        })
    }

    /// Whether steps are still run after those have failed.
    fn goes_on_after(&self, failures: &[usize]) -> bool {
        let mut failures = failures.iter();
        failures.all(|&number| self.steps[number].hides_nothing)
    }

    fn show(&self, text: impl AsRef<[u8]>) {
        // Nothing to be done where our own output is closed.
        let _ = Shared(&self.output).write_all(text.as_ref());
    }

    fn headline(&self, number: usize) -> String {
        let step = &self.steps[number];
        let (number, of) = (number + 1, self.steps.len());
        format!("\n== {number}/{of} {}: {}\n", step.headline, step.line())
    }

    /// Says what is left out, and what cannot be run; how the step ends if it cannot.
    fn prepare(&self, number: usize) -> Option<Outcome> {
        let step = &self.steps[number];
        let tell = |line: &str| {
            self.show(format!("{line}\n"));
            self.tally.lock().expect("no reader panicked").line(line);
        };
        step.left_out.iter().for_each(|line| tell(line));
        tell(&step.skip_line()?);
        let outcome = skipped(std::env::var_os("COLDPRESS_FORBID_SKIPS").as_deref());
        if outcome == Outcome::Failed {
            self.show("it was skipped and COLDPRESS_FORBID_SKIPS=1\n");
        }
        Some(outcome)
    }

    /// Runs one step; its number if it failed.
    fn one(&self, number: usize) -> Result<Vec<usize>> {
        self.show(self.headline(number));
        let begun = Instant::now();
        let outcome = match self.prepare(number) {
            Some(outcome) => outcome,
            None => {
                let (output, messages) = (Shared(&self.output), Shared(&self.messages));
                perform(&self.steps[number], &self.tally, output, messages)?
            }
        };
        self.show(verdict(outcome, begun));
        Ok(Vec::from_iter(
            (outcome == Outcome::Failed).then_some(number),
        ))
    }

    /// Runs one step of the background; its number if it failed.
    fn behind(&self, number: usize) -> Result<Option<usize>> {
        let outcome = match self.prepare(number) {
            Some(outcome) => outcome,
            None => {
                let headline = &self.steps[number].headline;
                self.show(format!("\n== in the background: {headline}\n"));
                self.in_one_piece(number)?
            }
        };
        Ok((outcome == Outcome::Failed).then_some(number))
    }

    /// Runs one step, and shows what it has printed at its end.
    fn in_one_piece(&self, number: usize) -> Result<Outcome> {
        let begun = Instant::now();
        let shown = Mutex::new(self.headline(number).into_bytes());
        let step = &self.steps[number];
        let outcome = perform(step, &self.tally, Shared(&shown), Shared(&shown))?;
        let mut shown = shown.into_inner().expect("no reader panicked");
        shown.extend_from_slice(verdict(outcome, begun).as_bytes());
        self.show(shown);
        Ok(outcome)
    }

    /// Runs some steps, one a processor; the numbers of those that failed, in their order.
    fn together(&self, numbers: Range<usize>) -> Result<Vec<usize>> {
        let (mut waiting, mut failed) = (Vec::new(), Vec::new());
        for number in numbers {
            match self.prepare(number) {
                None => waiting.push(number),
                Some(Outcome::Failed) => failed.push(number),
                Some(_) => {}
            }
        }
        let headlines = waiting
            .iter()
            .map(|&number| self.steps[number].headline.as_str());
        let headlines = headlines.collect::<Vec<_>>().join("; ");
        self.show(format!("\n== at the same time: {headlines}\n"));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let failed = Mutex::new(failed);
        let waiting = Mutex::new(waiting.into_iter());
        let may_go_on = || self.goes_on_after(&failed.lock().expect("no worker panicked"));
        let next = || match may_go_on() {
            true => waiting.lock().expect("no worker panicked").next(),
            false => None,
        };
        let work = || -> Result<()> {
            while let Some(number) = next() {
                if self.in_one_piece(number)? == Outcome::Failed {
                    failed.lock().expect("no worker panicked").push(number);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
            let mut ends = workers.into_iter().map(|worker| worker.join());
            ends.try_for_each(|end| end.expect("no worker panicked"))
        })?;
        let mut failed = failed.into_inner().expect("no worker panicked");
        failed.sort_unstable();
        Ok(failed)
    }
}

/// What several threads write to, a line or more at a time.
struct Shared<'a, W>(&'a Mutex<W>);

impl<W: Write> Write for Shared<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no writer panicked").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().expect("no writer panicked").flush()
    }
}

fn verdict(outcome: Outcome, begun: Instant) -> String {
    let word = match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "FAILED",
        Outcome::Skipped => "skipped",
    };
    format!("== {word} in {:.1} s\n", begun.elapsed().as_secs_f64())
}

/// What a skip amounts to, by the value of `COLDPRESS_FORBID_SKIPS`.
fn skipped(forbid: Option<&OsStr>) -> Outcome {
    match forbid.is_some_and(|value| value == "1") {
        true => Outcome::Failed,
        false => Outcome::Skipped,
    }
}

/// Runs one step, shows its output as it comes and counts it.
fn perform(
    step: &Step,
    tally: &Mutex<Tally>,
    to: impl Write + Send,
    messages_to: impl Write + Send,
) -> Result<Outcome> {
    let mut command = step.command();
    if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let (running, output, messages) = start(&mut command, &step.headline)?;
    std::thread::scope(|scope| {
        // A test that is too quick for its own capture writes SKIPPED to either stream.
        scope.spawn(|| follow(output, to, tally));
        scope.spawn(|| follow(messages, messages_to, tally));
    });
    Ok(match running.wait()?.success() {
        true => Outcome::Passed,
        false => Outcome::Failed,
    })
}

type Pipe = Box<dyn Read + Send>;

fn start(command: &mut Command, what: &str) -> Result<(Running, Pipe, Pipe)> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::start_group(command, what)?;
    let (output, messages) = running.outputs().expect("both were piped");
    Ok((running, Box::new(output), Box::new(messages)))
}

/// Copies lines, counting them. What is no UTF-8 is shown as it can be.
fn follow(from: Pipe, mut to: impl Write, tally: &Mutex<Tally>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    // Of its own: the lines of a neighbour come between those of a section.
    let mut read = Tally::default();
    while matches!(from.read_until(b'\n', &mut line), Ok(length) if length > 0) {
        if read.line(&String::from_utf8_lossy(&line)) {
            // Nothing to be done where our own output is closed.
            let _ = to.write_all(&line).and_then(|()| to.flush());
        }
        line.clear();
    }
    tally.lock().expect("no reader panicked").add(read);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs them: the exit status, and what was shown.
    fn all(steps: &[Step]) -> (u8, String) {
        let (mut output, mut messages) = (Vec::new(), Vec::new());
        let code = Run::new(steps, &mut output, &mut messages).all().unwrap();
        (code, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_step_is_shown_as_it_is_typed() {
        let step = Step::new("Documentation", "doc --no-deps").with("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(
            step.line(),
            "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps"
        );
    }

    #[test]
    fn what_cannot_be_had_is_counted_as_a_skip() {
        let step = Step::new("Nothing", "--version").needs(|| anyhow::bail!("not to be had"));
        let line = step.skip_line().unwrap();
        assert_eq!(line, "SKIPPED: Nothing: not to be had");
        let mut tally = Tally::default();
        tally.line(&line);
        assert_eq!((tally.passed(), tally.failed(), tally.skipped()), (0, 0, 1));
    }

    #[test]
    fn what_is_left_out_is_counted_and_the_step_goes_on() {
        let step = Step::new("Some", "--version").leaves_out("others.rs", "too slow");
        assert_eq!(step.skip_line(), None);
        let mut tally = Tally::default();
        step.left_out.iter().for_each(|line| {
            tally.line(line);
        });
        assert_eq!(tally.skip_lines(), ["SKIPPED: others.rs: too slow"]);
        assert_eq!((tally.failed(), tally.skipped()), (0, 1));
    }

    #[test]
    fn what_a_step_has_is_no_skip() {
        let step = Step::new("Nothing", "--version");
        assert_eq!(step.skip_line(), None);
        assert_eq!(step.needs(|| Ok(())).skip_line(), None);
    }

    #[test]
    fn a_skip_is_a_failure_where_skips_are_forbidden() {
        assert_eq!(skipped(None), Outcome::Skipped);
        assert_eq!(skipped(Some("0".as_ref())), Outcome::Skipped);
        assert_eq!(skipped(Some("1".as_ref())), Outcome::Failed);
    }

    #[test]
    fn a_failure_beside_others_is_a_failure() {
        let beside = |arguments| Step::new("Beside", arguments).beside_others();
        let good = || beside("--version");
        let bad = || beside("no-such-command-of-cargo");
        let (code, output) = all(&[good(), good(), good()]);
        assert_eq!(code, 0, "{output}");
        let printed = output.lines().filter(|line| line.starts_with("cargo "));
        assert_eq!(printed.count(), 3, "{output}");
        let (code, output) = all(&[good(), bad(), good()]);
        assert_eq!(code, 1, "{output}");
        assert!(output.contains("FAILED: Beside; repeat it"), "{output}");
        let (code, output) = all(&[bad().needs(|| anyhow::bail!("not to be had")), good()]);
        assert_eq!(code, 0, "skipped, and not run: {output}");
    }

    #[test]
    fn what_is_alone_waits_for_the_background() {
        let behind = |arguments| Step::new("Behind", arguments).in_background();
        let alone = || Step::new("Alone", "--version").alone();
        let (code, output) = all(&[behind("--list"), behind("--version"), alone()]);
        assert_eq!(code, 0, "{output}");
        let at = |what: &str| output.rfind(what).expect(what);
        assert!(at("Behind: ") < at("Alone: "), "{output}");
        assert_eq!(output.matches("== passed").count(), 3, "{output}");
        let (code, output) = all(&[behind("no-such-command-of-cargo"), alone()]);
        assert_eq!(code, 1, "{output}");
        assert!(output.contains("not run after that: 1 of 2"), "{output}");
        let bad = behind("no-such-command-of-cargo").hides_nothing();
        let (code, output) = all(&[bad, alone()]);
        assert_eq!(code, 1, "{output}");
        assert!(output.contains("Alone: ") && !output.contains("not run"));
        let (code, output) = all(&[alone(), behind("no-such-command-of-cargo")]);
        assert_eq!(code, 1, "at the end it is waited for: {output}");
    }

    #[test]
    fn the_background_is_idle_and_keeps_the_environment() {
        let mut shell = Command::new("sh");
        shell.current_dir("/usr").env("HERE", "there");
        let mut idle = at_idle_priority(shell);
        let output = idle.args(["-c", "pwd; echo $HERE; chrt --pid $$"]).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(output.starts_with("/usr\nthere\n"), "{output}");
        assert!(output.contains("SCHED_IDLE"), "{output}");
    }

    #[test]
    fn a_test_that_fails_does_not_hide_the_others() {
        let counts = |steps: &[Step]| {
            let (code, output) = all(steps);
            let ran = output.lines().filter(|line| line.starts_with("cargo "));
            let named = output.matches("repeat it with").count();
            (
                code,
                ran.count(),
                named,
                output.contains("not run after that: 1 of 2 steps"),
            )
        };
        let good = || Step::new("Good", "--version");
        let bad = || Step::new("Bad", "no-such-command-of-cargo");
        assert_eq!(counts(&[bad().hides_nothing(), good()]), (1, 1, 1, false));
        assert_eq!(
            counts(&[bad().hides_nothing(), bad().hides_nothing()]),
            (1, 0, 2, false)
        );
        assert_eq!(counts(&[bad(), good()]), (1, 0, 1, true));
        let beside = [
            bad().hides_nothing().beside_others(),
            good().beside_others(),
        ];
        assert_eq!(counts(&beside), (1, 1, 1, false));
    }
}
