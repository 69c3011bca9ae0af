//! `cargo xtask security`: what one security domain can time of another, and what remains.
//!
//! Two levels, both the real code: two engines in one process (the example `security` of the engine),
//! and two processes under `coldpress run`. In every round the states of the other's memory take turns;
//! each is compared with the first. The second is the first once more: what it shows is noise, or what
//! would be wrong with the comparison.

mod statistics;

use anyhow::{Context, Result, bail};
use coldpress_harness::figures::median;
use coldpress_harness::progress::Progress;
use coldpress_harness::text::{Table, time};
use coldpress_harness::{install, workspace};
use coldpress_promises::{Workplace, neighbours, skip};
use serde_json::{Value, json};
use statistics::{Comparison, compare};

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Rounds of the two engines, and trials of the guesses.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(8..))]
    rounds: u64,
    /// Rounds of the two processes.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(8..))]
    process_rounds: u64,
    /// Print all comparisons as JSON.
    #[arg(long)]
    json: bool,
}

/// Series by state and operation; the first state is what others are compared with.
struct Setting {
    name: String,
    operations: Vec<String>,
    states: Vec<String>,
    times: Vec<Vec<Vec<f64>>>,
}

/// Measures, and prints what was seen.
pub fn run(options: &Options) -> Result<u8> {
    workspace::continue_in_release()?;
    install::packages(&[install::GCC])?;
    let engine = engines(options.rounds)?;
    let mut settings = engine["settings"]
        .as_array()
        .context("the example printed no settings")?
        .iter()
        .map(setting)
        .collect::<Result<Vec<_>>>()?;
    let mut skipped = None;
    match skip::is_root() {
        true => settings.push(processes(options.process_rounds)?),
        false => skipped = Some("SKIPPED: two processes under coldpress run: needs root"),
    }
    let guesses = engine["guesses"].as_array().context("no guesses")?;
    if options.json {
        let settings: Vec<Value> = settings.iter().map(setting_json).collect();
        let guesses = guesses.iter().map(guess_json).collect::<Result<Vec<_>>>()?;
        let all = json!({ "settings": settings, "guesses": guesses, "skipped": skipped });
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(0);
    }
    let compared: usize = settings
        .iter()
        .map(|s| s.operations.len() * (s.states.len() - 1))
        .sum();
    for setting in &settings {
        print_setting(setting, compared);
    }
    print_guesses(guesses)?;
    println!(
        "Medians over the rounds. Difference: median of the differences to the first state within each\n\
         round, with its 95 % interval. p: Wilcoxon's signed-rank test; {compared} comparisons, so one in\n\
         twenty is below 0.05 by chance, and SEEN stands where it is below {:.1e}. Told apart: how often\n\
         one visit to each state tells which is which; 50 % is chance.",
        0.05 / compared as f64
    );
    if let Some(line) = skipped {
        println!("{line}");
    }
    Ok(0)
}

/// The example's output.
fn engines(rounds: u64) -> Result<Value> {
    let package = ["-p", "coldpress-engine", "--example", "security"];
    eprintln!("two engines: {rounds} rounds");
    let output = workspace::cargo()
        .args(["run", "--quiet", "--release"])
        .args(package)
        .args(["--", &rounds.to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the example `security` of the engine failed");
    }
    serde_json::from_slice(&output.stdout).context("it printed no JSON")
}

fn processes(rounds: u64) -> Result<Setting> {
    let binary = workspace::build_release()?;
    let place = Workplace::new("security");
    let states = neighbours::STATES.len();
    let mut progress = Progress::begin("two processes");
    let done = |n: usize| progress.update(|| format!("round {n} of {rounds}"));
    let samples = neighbours::measure(&binary, &place, rounds as usize, states, done)?;
    progress.finish(&format!("{rounds} rounds"));
    let counted = samples.counted.iter().flatten();
    for &(absent, faults) in counted {
        if absent != faults {
            bail!("{absent} own pages were out and took {faults} faults: it should be one each");
        }
    }
    Ok(Setting {
        name: "two processes under coldpress run".into(),
        operations: neighbours::OPERATIONS.map(String::from).to_vec(),
        states: neighbours::STATES.map(String::from).to_vec(),
        times: samples.times.iter().map(|of| of.to_vec()).collect(),
    })
}

fn setting(value: &Value) -> Result<Setting> {
    let text = |value: &Value| {
        value
            .as_str()
            .map(String::from)
            .context("a name is missing")
    };
    let list = |value: &Value| value.as_array().cloned().context("a list is missing");
    let states = list(&value["states"])?;
    Ok(Setting {
        name: text(&value["name"])?,
        operations: list(&value["operations"])?
            .iter()
            .map(text)
            .collect::<Result<_>>()?,
        states: states
            .iter()
            .map(|s| text(&s["state"]))
            .collect::<Result<_>>()?,
        times: states
            .iter()
            .map(|state| list(&state["samples"])?.iter().map(numbers).collect())
            .collect::<Result<_>>()?,
    })
}

fn numbers(value: &Value) -> Result<Vec<f64>> {
    let values = value.as_array().context("samples are missing")?;
    values
        .iter()
        .map(|n| n.as_f64().context("not a number"))
        .collect()
}

impl Setting {
    /// Every comparison: operation, state, and what it says.
    fn compared(&self) -> impl Iterator<Item = (usize, usize, Comparison)> {
        let pairs = (0..self.operations.len())
            .flat_map(|operation| (1..self.states.len()).map(move |state| (operation, state)));
        pairs.map(|(operation, state)| {
            let of = &self.times[state][operation];
            (operation, state, compare(&self.times[0][operation], of))
        })
    }
}

fn print_setting(setting: &Setting, compared: usize) {
    let rounds = setting.times[0][0].len();
    println!("{}, {rounds} rounds", setting.name);
    let mut table = Table::new(&[
        "what is timed, and the other's memory",
        "median",
        "difference",
        "95 %",
        "p",
        "told apart",
        "",
    ]);
    for (operation, state, found) in setting.compared() {
        if state == 1 {
            let first = median(&setting.times[0][operation]);
            let name = &setting.operations[operation];
            table.row(&[format!("{name}, {}", setting.states[0]), time(first)]);
        }
        let seen = found.p < 0.05 / compared as f64;
        table.row(&[
            format!("  {}", setting.states[state]),
            time(median(&setting.times[state][operation])),
            format!("{:+.0} ns", found.difference),
            format!("{:+.0} to {:+.0}", found.from, found.to),
            format!("{:.2}", found.p),
            format!("{:.0} %", found.told_apart * 100.0),
            if seen { "SEEN".into() } else { String::new() },
        ]);
    }
    println!("{table}");
}

fn print_guesses(guesses: &[Value]) -> Result<()> {
    println!("One engine: a secret in one page with bytes that the attacker chooses");
    let mut table = Table::new(&[
        "guard",
        "right guess",
        "wrong guesses",
        "found",
        "by chance",
    ]);
    for guess in guesses {
        let trials = guess["trials"].as_u64().context("no trials")?;
        let candidates = guess["candidates"].as_u64().context("no candidates")?;
        let guard = match guess["guard"].as_str() {
            Some("None") => "none",
            Some("OptOut") => "the VMO is marked: never compressed",
            Some("OwnPage") => "the secret has a page of its own",
            _ => bail!("an unknown guard: {}", guess["guard"]),
        };
        table.row(&[
            guard.to_owned(),
            time(median(&numbers(&guess["right_ns"])?)),
            time(median(&numbers(&guess["wrong_ns"])?)),
            format!("{} of {trials}", guess["found"]),
            format!("{} of {trials}", trials / candidates),
        ]);
    }
    println!("{table}");
    Ok(())
}

fn setting_json(setting: &Setting) -> Value {
    let rows = setting.compared().map(|(operation, state, found)| {
        json!({
            "operation": setting.operations[operation], "state": setting.states[state],
            "first_ns": median(&setting.times[0][operation]),
            "median_ns": median(&setting.times[state][operation]),
            "difference_ns": found.difference, "from_ns": found.from, "to_ns": found.to,
            "p": found.p, "told_apart": found.told_apart,
        })
    });
    json!({
        "name": setting.name, "first_state": setting.states[0],
        "rounds": setting.times[0][0].len(), "comparisons": rows.collect::<Vec<_>>(),
    })
}

fn guess_json(guess: &Value) -> Result<Value> {
    Ok(json!({
        "guard": guess["guard"], "candidates": guess["candidates"], "trials": guess["trials"],
        "found": guess["found"],
        "right_median_ns": median(&numbers(&guess["right_ns"])?),
        "wrong_median_ns": median(&numbers(&guess["wrong_ns"])?),
    }))
}
