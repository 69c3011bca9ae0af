//! `cargo xtask miri`: the codecs and storages under Miri, which finds undefined behaviour that
//! a processor forgives: reads of what was never written, pointers used beyond what they were
//! made from, references that overlap.
//!
//! Miri runs no C and no vectors: it sees the portable path of every codec written in Rust.
//! It is some thousand times slower than the processor, so the tests do less under `cfg(miri)`,
//! and the tables of press-dense, which Miri is too slow to make, are made by the
//! processor before. Test files that are empty under Miri are in [`LEFT_OUT`]; single tests say
//! themselves that they are ignored. Both are counted as skipped.
//!
//! `-Zmiri-ignore-leaks`: what tests keep to the end of the program is no finding.

use crate::install;
use crate::steps::{self, Step};
use crate::workspace;
use anyhow::{Context, Result};

/// Options of the miri task.
#[derive(clap::Args, Debug)]
pub struct Options {}

const FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation";

/// Test files of the codecs that have no tests under Miri, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    (
        "no_allocation.rs",
        "2 tests count calls of malloc, nothing else",
    ),
    (
        "press_format.rs",
        "6 tests compare the paths, of which Miri has one",
    ),
    ("zstd_frames.rs", "4 tests of a library in C"),
];

/// One state for all codecs in turn: too long for Miri, and no file of its own.
const STATES: (&str, &str) = (
    "states_pass_from_one_codec_to_another",
    "takes every pair of codecs; under Miri it was not seen to end",
);

fn step(headline: &'static str, arguments: &'static str) -> Step {
    Step::new(headline, arguments)
        .with("MIRIFLAGS", FLAGS)
        .needs(|| install::nightly(&["miri", "rust-src"]))
}

/// The variable that says where the tables are (`crates/codec/tests/common/tables.rs`).
fn tables() -> Result<(&'static str, String)> {
    let directory = workspace::target_dir()?.join("miri");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let file = directory.join("dense-tables");
    Ok(("COLDPRESS_DENSE_TABLES", file.display().to_string()))
}

/// The steps: the codecs' and the storages' under Miri, and before them what they need.
fn steps(codecs: Step, storages: Step) -> Result<Vec<Step>> {
    let (variable, file) = tables()?;
    let make = Step::new(
        "Tables for Miri",
        "test -p coldpress-codec --test dense_tables",
    );
    Ok(vec![
        make.with(variable, &file),
        codecs.with(variable, &file),
        storages,
    ])
}

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
    steps(codecs, storages)
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
