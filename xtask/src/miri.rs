//! `cargo xtask miri`: codecs, storages and engine under Miri, which finds undefined behaviour that
//! a processor forgives: reads of what was never written, pointers used beyond what they were
//! made from, references that overlap.
//!
//! Miri runs no C and no vectors: it sees the portable path of every codec written in Rust.
//! It is some thousand times slower than the processor, so the tests do less under `cfg(miri)`,
//! and the tables of press-dense, which Miri is too slow to make, are made by the
//! processor before. Test files that are empty under Miri are in [`LEFT_OUT`]; single tests say
//! themselves that they are ignored. Both are counted as skipped. Of the engine, whose tests with
//! thousands of pages would take days, some run: see [`ENGINE`].
//!
//! `cargo xtask test` runs some of it, of every kind: [`some`].
//!
//! `-Zmiri-ignore-leaks`: what tests keep to the end of the program is no finding.

use crate::steps::{self, Step};
use anyhow::{Context, Result};
use coldpress_harness::install;
use coldpress_harness::workspace;

/// Options of the miri task.
#[derive(clap::Args, Debug)]
pub struct Options {}

const FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation";

/// Test files of the codecs that have no tests under Miri, and why.
const LEFT_OUT: [(&str, &str); 4] = [
    (
        "no_allocation.rs",
        "2 tests count calls of malloc, nothing else",
    ),
    (
        "press_format.rs",
        "6 tests compare the paths, of which Miri has one",
    ),
    ("zstd_dictionary.rs", "6 tests of a library in C"),
    ("zstd_frames.rs", "4 tests of a library in C"),
];

/// One state for all codecs in turn: too long for Miri, and no file of its own.
const STATES: (&str, &str) = (
    "states_pass_from_one_codec_to_another",
    "takes every pair of codecs; under Miri it was not seen to end",
);

/// What is run of the engine: its own tests, and a page of every kind on its whole way: taken out,
/// compressed, stored, restored. LZ4 of Rust is their codec (`crates/machine`).
const ENGINE: [&str; 2] = [
    "+nightly miri test -p coldpress-engine --lib -- --skip figures::latency --skip vmo::directory",
    "+nightly miri test -p coldpress-engine --test engine \
     -- --exact round_trip::every_kind_of_page_comes_back_bit_for_bit",
];

/// What is not, and why.
const ENGINE_LEFT_OUT: [(&str, &str); 2] = [
    (
        "figures::latency and vmo::directory",
        "4 tests of the engine try too many numbers for Miri",
    ),
    (
        "all other tests of the engine",
        "they take too many pages, or threads; two of VMOs were not seen to end under Miri",
    ),
];

fn step(headline: &'static str, arguments: &'static str) -> Step {
    Step::new(headline, arguments)
        .with("MIRIFLAGS", FLAGS)
        // Miri takes a minute to print where a test has panicked that is meant to.
        .with("RUST_BACKTRACE", "0")
        .needs(|| install::nightly(&["miri", "rust-src"]))
}

/// The variable that says where the tables are (`crates/codec/tests/common/tables.rs`).
pub fn tables() -> Result<(&'static str, String)> {
    let directory = workspace::target_dir()?.join("miri");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let file = directory.join("dense-tables");
    Ok(("COLDPRESS_DENSE_TABLES", file.display().to_string()))
}

/// The steps: the codecs', the storages' and the engine's under Miri, and before them what they need.
fn all() -> Result<Vec<Step>> {
    let mut codecs = step(
        "The codecs under Miri, on the portable path",
        "+nightly miri test -p coldpress-codec --no-default-features --tests \
         -- --skip states_pass_from_one_codec_to_another",
    );
    for (what, why) in LEFT_OUT.into_iter().chain([STATES]) {
        codecs = codecs.leaves_out(what, why);
    }
    let storages = step(
        "The storages under Miri",
        "+nightly miri test -p coldpress-storage --tests",
    );
    let own = step("The engine's own tests under Miri", ENGINE[0]);
    let mut engine = step("The way of a page under Miri", ENGINE[1]);
    for (what, why) in ENGINE_LEFT_OUT {
        engine = engine.leaves_out(what, why);
    }
    let (variable, file) = tables()?;
    let make = Step::new(
        "Tables for Miri",
        "test -p coldpress-codec --test codec dense_tables::",
    );
    Ok(vec![
        make.with(variable, &file),
        codecs.with(variable, &file),
        storages,
        own,
        engine,
    ])
}

/// What `cargo xtask test` runs of it, after the tests that leave the tables: each codec both ways
/// and on cut bytes, each storage with all that it can do, a page of every kind through the engine.
pub fn some() -> Result<[Step; 2]> {
    let (variable, file) = tables()?;
    let codecs = step(
        "Some of the codecs under Miri",
        "+nightly miri test -p coldpress-codec --no-default-features \
         --test codec -- --exact damaged_input::truncated round_trip::a_page_comes_back",
    );
    // Built together: most of one is most of the other.
    let others = step(
        "Some of the storages, and the way of a page, under Miri",
        "+nightly miri test -p coldpress-storage -p coldpress-engine --test storage --test engine \
         -- any_storage:: round_trip::every_kind_of_page_comes_back_bit_for_bit",
    );
    let steps = [codecs.with(variable, file), others];
    Ok(steps.map(Step::in_background))
}

/// Runs them under Miri; 1 if something was found.
pub fn run(_options: &Options) -> Result<u8> {
    // The storages' tests are built with the codecs in C, though none is called.
    install::packages(&[install::GCC])?;
    steps::run(&all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a condition on the whole file, a file has tests under Miri.
    #[test]
    fn files_without_tests_under_miri_are_named_as_left_out() {
        let mut found = Vec::new();
        for of in ["codec", "storage"] {
            let directory = workspace::root().join("crates").join(of).join("tests");
            for file in std::fs::read_dir(directory).unwrap() {
                let path = file.unwrap().path();
                let text = match path.extension().is_some_and(|e| e == "rs") {
                    true => std::fs::read_to_string(&path).unwrap(),
                    false => continue,
                };
                if text.lines().any(|line| line.starts_with("#![cfg(")) {
                    let tests = text.matches("#[test]").count();
                    let name = path.file_name().unwrap().to_string_lossy().into_owned();
                    found.push((name, format!("{tests} tests")));
                }
            }
        }
        found.sort();
        let named = LEFT_OUT.map(|(name, why)| (name.to_owned(), why[..7].to_owned()));
        assert_eq!(found, named);
    }
}
