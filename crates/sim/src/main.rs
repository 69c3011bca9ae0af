//! `coldpress-sim`: runs the simulation; `cargo xtask sim` builds and calls it.
//!
//! Progress goes to standard error, the closing table (or JSON) to standard output. Exit status 0:
//! every read was right and every kind of fault fired; 1: not so; 2: the arguments are wrong.

use clap::Parser;
use coldpress_codec::CodecKind;
use coldpress_sim::codec::Inner;
use coldpress_sim::inject::Kind;
use coldpress_sim::{Failure, Mode, Report, Settings};
use coldpress_storage::StorageKind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs the engine on a simulated machine.
#[derive(Parser)]
struct Arguments {
    /// Everything that happens follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps, of both machines together: transitions of a thread.
    #[arg(long, default_value_t = 1_000_000)]
    steps: u64,
    /// kernel: pages owned, under the locks of VMOs; pager: pages of another kernel, and the pager of the product.
    /// Without, half of the steps each.
    #[arg(long, value_parser = mode)]
    mode: Option<Mode>,
    /// The codec of the kernel's machine: cheap, or one of coldpress run.
    #[arg(long, default_value = "cheap", value_parser = codec)]
    codec: Inner,
    /// The storage; without, each world has another.
    #[arg(long, value_parser = storage)]
    storage: Option<StorageKind>,
    /// Steps of a world.
    #[arg(long, default_value_t = 100_000)]
    world_steps: u64,
    /// Begin with this world: brings a failure back without the worlds before it.
    #[arg(long, default_value_t = 0)]
    world: u64,
    /// A kind of fault that shall not happen.
    #[arg(long, value_parser = kind)]
    without: Vec<Kind>,
    /// Tell every step that concerns this segment or VMO (as a report numbers them), as it happens.
    #[arg(long, default_value_t = 0)]
    follow: u32,
    /// Also flip bits of the links of split objects: what then happens is known to be wrong.
    #[arg(long)]
    damage_links: bool,
    /// The table as JSON.
    #[arg(long)]
    json: bool,
}

fn mode(name: &str) -> Result<Mode, String> {
    let mode = Mode::ALL.into_iter().find(|mode| mode.name() == name);
    let names = Mode::ALL.map(Mode::name).join(", ");
    mode.ok_or_else(|| format!("no machine is called {name}; there is: {names}"))
}

fn kind(name: &str) -> Result<Kind, String> {
    let kind = Kind::ALL.iter().find(|kind| kind.name() == name);
    let names = Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>();
    let unknown = || {
        format!(
            "no kind of fault is called {name}; there is: {}",
            names.join(", ")
        )
    };
    kind.copied().ok_or_else(unknown)
}

fn codec(name: &str) -> Result<Inner, String> {
    match name {
        "cheap" => Ok(Inner::Cheap),
        name => CodecKind::from_name(name)
            .map(Inner::Real)
            .map_err(|error| error.to_string()),
    }
}

fn storage(name: &str) -> Result<StorageKind, String> {
    let names = StorageKind::ALL.map(StorageKind::name).join(", ");
    StorageKind::from_name(name)
        .ok_or_else(|| format!("no storage is called {name}; there is: {names}"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic of a simulated thread is told with its seed.
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::capture();
        eprintln!("{panic}\n{backtrace}");
    }));
    let modes = match arguments.mode {
        Some(mode) => vec![mode],
        None => Mode::ALL.to_vec(),
    };
    let steps = arguments.steps / modes.len() as u64;
    let mut passed = true;
    for mode in modes {
        let mut settings = Settings {
            codec: arguments.codec,
            storage: arguments.storage,
            world_steps: arguments.world_steps,
            first_world: arguments.world,
            follow: arguments.follow,
            ..Settings::new(mode, arguments.seed, steps)
        };
        if arguments.damage_links {
            settings.without.clear();
        }
        settings.without.extend(&arguments.without);
        passed &= run(&settings, arguments.json);
    }
    ExitCode::from(u8::from(!passed))
}

fn run(settings: &Settings, json: bool) -> bool {
    let begun = Instant::now();
    let mut told = begun;
    let result = coldpress_sim::run(settings, |report| {
        if told.elapsed() >= Duration::from_secs(2) {
            told = Instant::now();
            let percent = report.steps * 100 / settings.steps.max(1);
            let rate = report.steps as f64 / begun.elapsed().as_secs_f64() / 1e6;
            eprintln!(
                "{} machine: {percent} %, {rate:.2} million steps a second",
                settings.mode.name()
            );
        }
    });
    match result {
        Ok(report) => tell(&report, begun.elapsed(), json),
        Err(failure) => {
            tell_failure(&failure, settings);
            false
        }
    }
}

/// Whether every kind fired.
fn tell(report: &Report, took: Duration, json: bool) -> bool {
    let seconds = took.as_secs_f64();
    let missing = report.missing();
    if json {
        let kinds: serde_json::Map<_, _> = report
            .kinds()
            .map(|(kind, count)| (kind.text().to_owned(), count.into()))
            .collect();
        let value = serde_json::json!({
            "machine": report.mode.name(),
            "seed": report.seed,
            "steps": report.steps,
            "worlds": report.worlds,
            "seconds": seconds,
            "hash": format!("{:016x}", report.hash),
            "faults": kinds,
        });
        println!("{value:#}");
    } else {
        println!("{report}");
        let nanoseconds = seconds * 1e9 / report.steps.max(1) as f64;
        println!("{seconds:.1} s, {nanoseconds:.0} ns a step");
    }
    for kind in &missing {
        eprintln!("FAILED: it never happened: {}", kind.text());
    }
    missing.is_empty()
}

fn tell_failure(failure: &Failure, settings: &Settings) {
    eprintln!("{}", failure.transitions);
    eprintln!(
        "FAILED: seed {}, world {}, step {}: {}",
        failure.seed, failure.world, failure.step, failure.found
    );
    let codec = match settings.codec {
        Inner::Cheap => "cheap".to_owned(),
        Inner::Real(kind) => kind.to_string(),
    };
    let storage = settings
        .storage
        .map(|storage| format!(" --storage {storage}"));
    let without = settings
        .without
        .iter()
        .map(|kind| format!(" --without {}", kind.name()));
    eprintln!(
        "bring it back with: cargo xtask sim --seed {} --mode {} --codec {codec}{} --world-steps {} \
         --steps {} --world {}{}",
        failure.seed,
        settings.mode.name(),
        storage.unwrap_or_default(),
        settings.world_steps,
        settings.world_steps,
        failure.world,
        without.collect::<String>()
    );
}
