//! `cargo xtask reverts`: takes fixes of the pager back, one at a time, and shows the seed by which the simulation finds each.
//!
//! A fix is taken back by a patch (`crates/sim/reverts`), whose first line says what is wrong then. It is applied to a copy of the
//! working tree in the target directory; the simulation is built there, with every assertion, and runs the pager until it
//! finds something, for a minute at the most. First of all it runs with nothing taken back, and must find nothing.
//!
//! The copy keeps files that are as they were, so that only what a patch has changed is built: half a minute each.

use anyhow::{Context, Result, bail, ensure};
use coldpress_harness::child::Running;
use coldpress_harness::{output, workspace};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Options of the task.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only patches whose name has one of these words in it
    names: Vec<String>,
    /// Everything that happens in the simulation follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the table as JSON too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Where the patches are.
const PATCHES: &str = "crates/sim/reverts";
/// So long the simulation looks for what is wrong.
const LIMIT: Duration = Duration::from_secs(60);
/// More steps than it makes in that time.
const STEPS: &str = "1000000000";
/// Steps in which nothing is found where nothing was taken back.
const STEPS_WITHOUT: &str = "50000000";

/// A fix that can be taken back.
struct Revert {
    name: String,
    /// What is wrong then.
    wrong: String,
    path: PathBuf,
}

/// What the simulation found.
struct Found {
    seed: u64,
    world: u64,
    step: u64,
    what: String,
    after: Duration,
}

fn reverts() -> Result<Vec<Revert>> {
    let directory = workspace::root().join(PATCHES);
    let entries =
        fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut reverts = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "patch")
        {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let wrong = text.lines().next().unwrap_or_default();
        ensure!(
            !wrong.is_empty() && !wrong.starts_with("diff"),
            "{} does not begin with what is wrong when it is applied",
            path.display()
        );
        let stem = path.file_stem().expect("a file has a name");
        reverts.push(Revert {
            name: stem.to_string_lossy().into_owned(),
            wrong: wrong.trim_end_matches('.').to_owned(),
            path,
        });
    }
    reverts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(reverts)
}

/// Which way a patch is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forth,
    Back,
}

/// A copy of the working tree, in which patches are applied.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Brings it up to date with the working tree.
    fn make() -> Result<Self> {
        let directory = workspace::target_dir()?.join("reverts");
        let copy = Self {
            tree: directory.join("tree"),
            target: directory.join("target"),
        };
        let files = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(workspace::root())
            .output()
            .context("cannot start git")?;
        ensure!(files.status.success(), "git ls-files failed");
        for name in String::from_utf8(files.stdout)?.split_terminator('\0') {
            let (from, to) = (workspace::root().join(name), copy.tree.join(name));
            let Ok(new) = fs::read(&from) else {
                // It was deleted, and is still in the index.
                let _ = fs::remove_file(&to);
                continue;
            };
            if fs::read(&to).is_ok_and(|old| old == new) {
                continue;
            }
            fs::create_dir_all(to.parent().expect("a file lies in a directory"))?;
            fs::write(&to, new).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(copy)
    }

    fn apply(&self, patch: &Path, direction: Direction) -> Result<()> {
        let mut git = Command::new("git");
        git.args(["apply", "--whitespace=nowarn"])
            .args((direction == Direction::Back).then_some("--reverse"))
            .arg(patch)
            .current_dir(&self.tree)
            // It is no repository, and lies in one.
            .env(
                "GIT_CEILING_DIRECTORIES",
                self.tree.parent().expect("it has one"),
            );
        let status = git.status().context("cannot start git")?;
        ensure!(
            status.success(),
            "{} does not apply: the code that it takes back has changed; make it anew",
            patch.display()
        );
        Ok(())
    }

    /// Builds the simulation; its path.
    fn build(&self) -> Result<PathBuf> {
        let status = workspace::cargo()
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", &self.target)
            .args([
                "build",
                "--quiet",
                "--profile",
                "sim",
                "-p",
                "coldpress-sim",
            ])
            .status()
            .context("cannot start cargo")?;
        ensure!(status.success(), "the simulation does not build");
        Ok(self.target.join("sim/coldpress-sim"))
    }
}

/// Runs the simulation of the pager; what it found. `None`: nothing, in so many steps or until the time was over.
fn simulate(program: &Path, seed: u64, steps: &str) -> Result<Option<Found>> {
    let begun = Instant::now();
    let mut command = Command::new(program);
    command
        .args([
            "--mode",
            "pager",
            "--seed",
            &seed.to_string(),
            "--steps",
            steps,
        ])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let running = Running::start(&mut command, "the simulation")?;
    let errors = running.errors().context("its standard error is ours")?;
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(errors).lines().map_while(Result::ok);
        lines
            .filter(|line| line.starts_with("FAILED: seed "))
            .last()
    });
    while running.ended()?.is_none() {
        if begun.elapsed() > LIMIT {
            drop(running);
            let _ = reader.join();
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let line = reader.join().ok().flatten();
    line.map(|line| {
        let found = parse(&line).with_context(|| format!("not understood: {line}"))?;
        Ok(Found {
            after: begun.elapsed(),
            ..found
        })
    })
    .transpose()
}

/// Reads `FAILED: seed 1, world 2, step 3: what`.
fn parse(line: &str) -> Option<Found> {
    let rest = line.strip_prefix("FAILED: seed ")?;
    let (seed, rest) = rest.split_once(", world ")?;
    let (world, rest) = rest.split_once(", step ")?;
    let (step, what) = rest.split_once(": ")?;
    Some(Found {
        seed: seed.parse().ok()?,
        world: world.parse().ok()?,
        step: step.parse().ok()?,
        what: what.to_owned(),
        after: Duration::ZERO,
    })
}

fn line(name: &str, world: &str, step: &str, seconds: &str, found: &str) -> String {
    format!("{name:<26} {world:>6} {step:>8} {seconds:>8}  {found}")
}

/// Takes them back; 1 if one was not found.
pub fn run(options: &Options) -> Result<u8> {
    let mut reverts = reverts()?;
    if !options.names.is_empty() {
        reverts.retain(|r| options.names.iter().any(|name| r.name.contains(name)));
        if reverts.is_empty() {
            bail!("no patch in {PATCHES} has such a name");
        }
    }
    let copy = Copy::make()?;
    eprintln!("nothing taken back: {STEPS_WITHOUT} steps");
    if let Some(found) = simulate(&copy.build()?, options.seed, STEPS_WITHOUT)? {
        bail!(
            "the simulation finds something although nothing was taken back: {}",
            found.what
        );
    }
    println!(
        "{}",
        line("taken back", "world", "step", "seconds", "found")
    );
    let mut rows = Vec::new();
    let mut missed = 0;
    for revert in &reverts {
        eprintln!("{}: {}", revert.name, revert.wrong);
        copy.apply(&revert.path, Direction::Forth)?;
        let found = copy
            .build()
            .and_then(|program| simulate(&program, options.seed, STEPS));
        copy.apply(&revert.path, Direction::Back)?;
        let found = found?;
        missed += usize::from(found.is_none());
        println!(
            "{}",
            match &found {
                Some(f) => line(
                    &revert.name,
                    &f.world.to_string(),
                    &f.step.to_string(),
                    &format!("{:.1}", f.after.as_secs_f64()),
                    &f.what,
                ),
                None => line(&revert.name, "", "", "", "NOT FOUND within a minute"),
            }
        );
        rows.push(serde_json::json!({
            "name": revert.name,
            "wrong": revert.wrong,
            "seed": found.as_ref().map(|f| f.seed),
            "world": found.as_ref().map(|f| f.world),
            "step": found.as_ref().map(|f| f.step),
            "seconds": found.as_ref().map(|f| f.after.as_secs_f64()),
            "found": found.as_ref().map(|f| f.what.clone()),
        }));
    }
    println!(
        "\nseed {}: {} of {} found within a minute",
        options.seed,
        reverts.len() - missed,
        reverts.len()
    );
    if let Some(path) = &options.json {
        output::json(path, &serde_json::json!({ "reverts": rows }))?;
    }
    Ok(u8::from(missed > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_says_what_it_is_and_applies() {
        let reverts = reverts().unwrap();
        assert!(reverts.len() > 10);
        for revert in reverts {
            let status = Command::new("git")
                .args(["apply", "--check"])
                .arg(&revert.path)
                .current_dir(workspace::root())
                .status()
                .unwrap();
            assert!(status.success(), "{} does not apply any more", revert.name);
        }
    }

    #[test]
    fn what_the_simulation_says_is_read() {
        let found = parse("FAILED: seed 5, world 7, step 91: program: page 3: wrong").unwrap();
        assert_eq!((found.seed, found.world, found.step), (5, 7, 91));
        assert_eq!(found.what, "program: page 3: wrong");
        assert!(parse("FAILED: it never happened").is_none());
    }
}
