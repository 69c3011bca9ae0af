//! `cargo xtask test`: everything that must pass before a change is kept.
//!
//! First come the checks and all that is built, some at the same time, then the tests. A check or a build that fails ends
//! the run; tests that fail do not hide those after them. What failed is named at the end, with the command that repeats
//! it.
//!
//! The preload library has no standard library and its own panic handler, so it is checked on its own and is not under
//! the test harness. The codecs and storages are built once more for a target that has neither vectors nor C nor a
//! standard library: the pager's crates must not lean on any of them. The simulation runs the engine, and the pager,
//! for thirty million steps on each of its machines. Some of the tests of codecs, storages and engine run under Miri,
//! more by `cargo xtask miri`; where there is no nightly toolchain, and none to be had, that is skipped, loudly. The
//! tests of a tier on another machine start redis and moto (S3), which is installed from PyPI below the target
//! directory. The promises are tests of the finished command on real programs ([`promises`]): they run in release, and
//! those that measure memory or time with little or nothing beside them. Some run a second time with a pager that has
//! every assertion.

use crate::miri;
use crate::promises;
use crate::steps::{self, Step};
use anyhow::Result;
use coldpress_harness::install::{self, Package, Probe, PythonProgram, program};
use coldpress_harness::workspace;
use std::sync::Mutex;
use std::thread::JoinHandle;

/// Options of the test task.
#[derive(clap::Args, Debug)]
pub struct Options {}

/// Clients that the tests of `crates/nbd` run against its server, those of `coldpress disk` too, which need a file
/// system.
const NBD_CLIENTS: &[Package] = &[
    program("qemu-utils", "qemu-img"),
    program("libnbd-bin", "nbdcopy"),
    program("nbdkit", "nbdkit"),
    program("fio", "fio"),
    program("e2fsprogs", "mke2fs"),
];

/// What is off by default: a tier on another machine.
const FEATURES: &str = "--features coldpress-cli/remote,coldpress-remote/redis,coldpress-remote/s3";

/// Tests the crates, but for what needs another profile.
const CRATES: &str = "test --workspace --exclude coldpress-preload --exclude coldpress-promises";

/// All of them but the examples in documentation. The lints have built the examples that are programs.
const TARGETS: &str = "--lib --bins --tests";

/// For the server that speaks S3, which the tests of `crates/remote` start: it comes from PyPI. They start redis, too.
const PYTHON_ENVIRONMENTS: &[Package] = &[Package {
    name: "python3-venv",
    probe: Probe::Command(&["python3", "-c", "import ensurepip, venv"]),
}];

/// The server that speaks S3.
const MOTO: PythonProgram = PythonProgram {
    name: "moto_server",
    package: "moto",
    extras: "[server]",
    version: "5.2.1",
};

/// It is installed while the first steps run: that takes most of a minute, and waits for the network.
static INSTALLING_MOTO: Mutex<Option<JoinHandle<Result<()>>>> = Mutex::new(None);

fn begin_to_install_moto() {
    let installing = std::thread::spawn(|| MOTO.install());
    *INSTALLING_MOTO.lock().expect("nobody panicked") = Some(installing);
}

/// Waits until it is installed. Tests that need it look for it on the path otherwise, and say so if they are skipped.
fn await_moto() -> Result<()> {
    let installing = INSTALLING_MOTO.lock().expect("nobody panicked").take();
    let ended = installing.map(|thread| thread.join().expect("it does not panic"));
    if let Some(Err(error)) = ended {
        eprintln!("moto, a server that speaks S3, cannot be had: {error:#}");
    }
    Ok(())
}

fn of_crates() -> Result<Step> {
    let step = Step::new(
        "Tests of the crates",
        format!("{CRATES} {FEATURES} {TARGETS} --no-fail-fast -- --show-output"),
    );
    let moto = MOTO.path()?.display().to_string();
    Ok(step.with("COLDPRESS_MOTO_SERVER", moto).needs(await_moto))
}

/// Those of the tests that leave what Miri is too slow to make. Built for them all: with other features they would be
/// built once more.
fn of_tables() -> Step {
    Step::new(
        "Tables for Miri",
        format!("{CRATES} {FEATURES} --test codec -- dense_tables::"),
    )
}

fn of_documentation() -> Step {
    Step::new(
        "Examples in the documentation",
        format!("{CRATES} {FEATURES} --doc --no-fail-fast"),
    )
    .beside_others()
}

fn steps() -> Result<Vec<Step>> {
    let binary = workspace::target_dir()?.join("release/coldpress");
    let binary = binary.display().to_string();
    let (tables, file) = miri::tables()?;
    let [codecs, storages_and_engine] = miri::some()?;
    let checked = workspace::target_dir()?.join("checked/libcoldpress_preload.so");
    let checked = promises::checked(&binary, &checked.display().to_string());
    // At idle priority, after what leaves the tables: they have the time that others wait.
    let mut tests = vec![of_tables().with(tables, &file), storages_and_engine, codecs];
    // Nothing else: they count the programs that an ordinary user has managed.
    tests.push(of_crates()?);
    // At the same time, the longest first.
    tests.push(checked);
    tests.extend(promises::beside_others(&binary)?);
    tests.extend([of_documentation(), promises::unit_tests()]);
    tests.extend([promises::one_by_one(&binary), promises::alone(&binary)]);
    let tests = tests.into_iter().map(Step::hides_nothing);
    Ok(checks_and_builds().into_iter().chain(tests).collect())
}

/// What comes before the tests, and must pass for them to mean anything. Two builds that write to the same directory
/// wait for each other, so that what takes long is ordered by that: the lints, the documentation and the tests of the
/// crates want one, the command and the promises another.
fn checks_and_builds() -> Vec<Step> {
    let formatting = Step::new("Formatting", "fmt --all --check");
    let lints = Step::new(
        "Lints",
        format!(
            "clippy --workspace --exclude coldpress-preload --all-targets {FEATURES} -- -D warnings"
        ),
    );
    let lints_of_preload = Step::new(
        "Lints of the preload library",
        "clippy --profile checked -p coldpress-preload --lib -- -D warnings",
    );
    // With the features of the lints: with others, half of what there is is checked once more.
    let documentation = Step::new(
        "Documentation",
        format!("doc --workspace --exclude coldpress-preload --no-deps {FEATURES}"),
    )
    .with("RUSTDOCFLAGS", "-D warnings");
    let documentation_of_preload = Step::new(
        "Documentation of the preload library",
        "doc --profile checked -p coldpress-preload --no-deps",
    )
    .with("RUSTDOCFLAGS", "-D warnings");
    let bare = Step::new(
        "Codecs, storages and the engine without vectors, C and a standard library",
        "build -p coldpress-codec -p coldpress-storage -p coldpress-engine \
         --no-default-features --target x86_64-unknown-none",
    )
    .needs(|| install::target("x86_64-unknown-none"));
    let release = Step::new(
        "The command and the preload library",
        "build --release -p coldpress-cli -p coldpress-preload",
    );
    let checked = Step::new(
        "The preload library with every assertion",
        "build --profile checked -p coldpress-preload",
    );
    let crates = Step::new(
        "The tests of the crates, built",
        format!("{CRATES} {FEATURES} {TARGETS} --no-run"),
    );
    let at_the_same_time = [
        lints,
        release,
        documentation,
        checked,
        lints_of_preload,
        documentation_of_preload,
        crates,
        promises::build(),
        bare,
    ];
    let at_the_same_time = at_the_same_time.map(Step::beside_others);
    std::iter::once(formatting)
        .chain(at_the_same_time)
        .collect()
}

/// Runs all steps; 1 if one failed.
pub fn run(_options: &Options) -> Result<u8> {
    install::packages(&[promises::PACKAGES, NBD_CLIENTS, PYTHON_ENVIRONMENTS].concat())?;
    install::components(&[("fmt", "rustfmt"), ("clippy", "clippy")])?;
    begin_to_install_moto();
    steps::run(&steps()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The packages that such a build is made of, each with its features.
    fn built(selection: &str) -> BTreeSet<String> {
        let mut tree = workspace::cargo();
        tree.args(["tree", "--locked", "--no-dedupe", "--prefix", "none"]);
        tree.args(["--format", "{p} [{f}]"]);
        let output = tree.args(selection.split(' ')).output().expect("cargo");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let packages = String::from_utf8(output.stdout).expect("text");
        packages.lines().map(str::to_owned).collect()
    }

    /// What this task is built from is built before everything else, and is used again by lints and tests if they want it
    /// with the features that it has.
    #[test]
    fn what_the_task_is_built_from_is_built_once() {
        let workspace = "--workspace --exclude coldpress-preload --edges normal,build,dev";
        let tests = built(&format!("{workspace} {FEATURES}"));
        let task = built("-p xtask --edges normal,build");
        assert!(task.len() > 50, "{task:?}");
        let twice: Vec<_> = task.difference(&tests).collect();
        assert!(
            twice.is_empty(),
            "built once more for the tests, with other features (xtask/Cargo.toml): {twice:#?}"
        );
    }
}
