//! `cargo xtask bench watch`: a compiler that waits for files to change.
//!
//! `tsc --watch` (Debian's node-typescript) compiles a project that is made for it, then waits: as it is, and with
//! `coldpress run --` in front and no option. What it holds is looked at each second while it waits: node collects its
//! whole heap a minute or more after it was busy, so that one look may find the best moment or the worst. Then one file
//! changes, and it is measured how long the compiler takes to say that all is well again.

use crate::machine::Machine;
use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::figures::median;
use coldpress_harness::install::{self, Package, program};
use coldpress_harness::output;
use coldpress_harness::process::{Status, largest};
use coldpress_harness::text::{Table, mib};
use coldpress_harness::workspace;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Files of the project
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(20..10_000))]
    files: u32,
    /// Seconds that the compiler waits, and is looked at
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How often both take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const PACKAGES: [Package; 2] = [program("nodejs", "node"), program("node-typescript", "tsc")];

/// The longest that a compilation may take.
const LIMIT: Duration = Duration::from_secs(600);

const HOWS: [&str; 2] = ["native", "coldpress run --"];

/// One run.
struct Seen {
    /// Until all was compiled.
    first: Duration,
    /// `RssAnon` while it waits, each second.
    waiting_bytes: Vec<u64>,
    /// From the change of a file to the answer.
    again: Duration,
}

impl Seen {
    /// `RssAnon` on average while it waits.
    fn average_bytes(&self) -> f64 {
        let sum: u64 = self.waiting_bytes.iter().sum();
        sum as f64 / self.waiting_bytes.len() as f64
    }

    /// `RssAnon` in the end.
    fn last_bytes(&self) -> f64 {
        self.waiting_bytes.last().copied().unwrap_or(0) as f64
    }
}

/// Runs all of it.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&PACKAGES)?;
    let machine = Machine::now();
    let (dir, _guard) = workspace::temporary_dir("watch")?;
    let coldpress = workspace::coldpress()?;
    write_project(&dir, options.files)?;
    let mut seen: [Vec<Seen>; 2] = Default::default();
    for round in 1..=options.rounds {
        for (how, seen) in seen.iter_mut().enumerate() {
            let command = match how {
                0 => None,
                _ => Some(coldpress.as_path()),
            };
            let one = watch(&dir, command, options.seconds)?;
            eprintln!(
                "round {round}/{}: {}: compiled in {:.1} s, holds {} ({} in the end), compiled again in {:.1} s",
                options.rounds,
                HOWS[how],
                one.first.as_secs_f64(),
                mib(one.average_bytes() as u64),
                mib(one.last_bytes() as u64),
                one.again.as_secs_f64()
            );
            seen.push(one);
        }
    }
    let table = table(&seen);
    println!("\n{table}");
    println!(
        "\n{} files, looked at each second for {} s of waiting; medians of {} round(s).\n{machine}",
        options.files, options.seconds, options.rounds
    );
    if let Some(path) = &options.json {
        let sides = HOWS.into_iter().zip(&seen).map(|(how, seen)| {
            json!({"how": how, "runs": seen.iter().map(json).collect::<Vec<Value>>()})
        });
        let all = json!({
            "files": options.files, "waited_seconds": options.seconds,
            "sides": sides.collect::<Vec<_>>(), "machine": machine.json(),
        });
        output::json(path, &all)?;
    }
    Ok(0)
}

fn table(seen: &[Vec<Seen>; 2]) -> Table {
    let mut table = Table::new(&[
        "tsc --watch",
        "first compilation",
        "RssAnon while it waits",
        "in the end",
        "after a change",
    ]);
    let of_all =
        |seen: &[Seen], of: fn(&Seen) -> f64| median(&seen.iter().map(of).collect::<Vec<_>>());
    for (how, seen) in HOWS.into_iter().zip(seen) {
        let seconds = |of| format!("{:.1} s", of_all(seen, of));
        let bytes = |of| mib(of_all(seen, of) as u64);
        table.row(&[
            how.to_owned(),
            seconds(|one| one.first.as_secs_f64()),
            bytes(Seen::average_bytes),
            bytes(Seen::last_bytes),
            seconds(|one| one.again.as_secs_f64()),
        ]);
    }
    table
}

fn json(one: &Seen) -> Value {
    json!({
        "first_seconds": one.first.as_secs_f64(), "waiting_bytes": one.waiting_bytes,
        "again_seconds": one.again.as_secs_f64(),
    })
}

/// A project: interfaces and functions that refer to each other's.
pub(super) fn write_project(dir: &Path, files: u32) -> Result<()> {
    let source = dir.join("src");
    fs::create_dir_all(&source)?;
    fs::write(
        dir.join("tsconfig.json"),
        r#"{"compilerOptions": {"strict": true, "target": "es2020", "module": "es2020", "noEmit": true, "types": []}, "include": ["src"]}"#,
    )?;
    for file in 0..files {
        fs::write(source.join(format!("m{file}.ts")), module(file, files)?)?;
    }
    Ok(())
}

fn module(file: u32, files: u32) -> Result<String> {
    const FIELDS: u32 = 30;
    let others: BTreeSet<u32> = [
        (file * 7 + 1) % files,
        (file * 13 + 5) % files,
        (file + 1) % files,
    ]
    .into_iter()
    .filter(|&other| other != file)
    .collect();
    let mut text = String::new();
    for other in &others {
        writeln!(text, "import {{ Model{other} }} from \"./m{other}\";")?;
    }
    let types: Vec<String> = others.iter().map(|other| format!("Model{other}")).collect();
    writeln!(text, "export interface Model{file} {{")?;
    for field in 0..FIELDS {
        writeln!(
            text,
            "  field{field}: {{ id: number; name: string; tags: Map<string, Array<{}>>; next?: Model{file} }};",
            types.join(" | ")
        )?;
    }
    writeln!(text, "}}\nexport function handle{file}(x: Model{file}) {{")?;
    for field in 0..FIELDS {
        let next = (field + 1) % FIELDS;
        writeln!(
            text,
            "  const v{field} = x.field{field}.tags.get(x.field{next}.name)?.map(t => [t, x.field{field}.id] as const);"
        )?;
    }
    let names: Vec<String> = (0..FIELDS).map(|field| format!("v{field}")).collect();
    writeln!(text, "  return {{ {} }};\n}}", names.join(", "))?;
    Ok(text)
}

/// One compiler, from its start to its answer after a change. `command`: what it is started with.
fn watch(dir: &Path, command: Option<&Path>, seconds: u64) -> Result<Seen> {
    let compiler = install::find_program("tsc").context("no tsc here")?;
    let mut line = match command {
        None => Command::new(compiler),
        Some(coldpress) => {
            let mut line = Command::new(coldpress);
            line.args(["run", "--"]).arg(compiler);
            line
        }
    };
    let log = dir.join("log");
    let output = File::create(&log)?;
    line.arg("--watch")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::inherit());
    let began = Instant::now();
    let job = Running::start_group(&mut line, "tsc --watch")?;
    let first = answer(&job, &log, 1, began)?;
    let node = largest(job.id())?;
    let mut waiting_bytes = Vec::new();
    for _ in 0..seconds {
        sleep(Duration::from_secs(1));
        waiting_bytes.push(Status::open(node)?.resident()?.anonymous);
    }
    let changed = dir.join("src/m0.ts");
    let text = fs::read_to_string(&changed)?;
    let began = Instant::now();
    fs::write(&changed, format!("{text}export const changed = 1;\n"))?;
    let again = answer(&job, &log, 2, began)?;
    fs::write(&changed, text)?;
    Ok(Seen {
        first,
        waiting_bytes,
        again,
    })
}

/// Waits until the compiler has said so many times that nothing is wrong.
fn answer(job: &Running, log: &Path, times: usize, began: Instant) -> Result<Duration> {
    loop {
        let text = fs::read_to_string(log)?;
        if text.matches("Found 0 errors").count() >= times {
            return Ok(began.elapsed());
        }
        if let Some(status) = job.ended()? {
            bail!("tsc has ended: {status}\n{text}");
        }
        if text.contains("error TS") || began.elapsed() > LIMIT {
            bail!("tsc did not say that all is well:\n{text}");
        }
        sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_refers_to_others_and_never_to_itself() {
        for file in 0..20 {
            let text = module(file, 20).expect("text");
            assert!(text.contains("import { Model"), "{text}");
            assert!(
                !text.contains(&format!("import {{ Model{file} }}")),
                "{text}"
            );
        }
    }
}
