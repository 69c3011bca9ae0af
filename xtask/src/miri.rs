//! `cargo xtask miri`: the codecs and storages under Miri, which finds undefined behaviour that
//! a processor forgives: reads of what was never written, pointers used beyond what they were
//! made from, references that overlap.
//!
//! Miri runs no C and no vectors: it sees the portable path of every codec written in Rust.
//! It is some thousand times slower than the processor, so the tests do less under `cfg(miri)`,
//! and some are left out:
//!
//! | left out | because |
//! |---|---|
//! | `damaged_input.rs`, `round_trip.rs` and `states_pass_from_one_codec_to_another` of the codecs | they take every codec in turn, some with tables to be trained: minutes of CPU for a single test; `--all` runs them |
//! | `no_allocation.rs` of both | allocations are counted, nothing else |
//! | `zstd_frames.rs` of the codecs | C |
//!
//! `-Zmiri-ignore-leaks`: what tests keep to the end of the program is no finding.

use crate::install;
use crate::steps::{self, Step};
use anyhow::Result;

/// Options of the miri task.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Also what takes far longer: damaged input to every codec, and round trips of all of them.
    #[arg(long)]
    all: bool,
}

const FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation";

fn steps(all: bool) -> Vec<Step> {
    let step = |headline, arguments| {
        Step::new(headline, arguments)
            .with("MIRIFLAGS", FLAGS)
            .needs(|| install::nightly(&["miri", "rust-src"]))
    };
    let mut steps = vec![
        step(
            "The codecs, on the portable path",
            "+nightly miri test -p coldpress-codec --no-default-features --lib \
             --test wkdm_format --test lz4_blocks --test lzo_streams \
             -- --skip states_pass_from_one_codec_to_another",
        ),
        step(
            "The storages",
            "+nightly miri test -p coldpress-storage --lib --test any_storage --test domains \
             --test model --test press_rules --test size_class_rules --test three_slot_rules \
             --test two_slot_rules",
        ),
    ];
    if all {
        steps.push(step(
            "Every codec in turn",
            "+nightly miri test -p coldpress-codec --no-default-features \
             --test damaged_input --test round_trip",
        ));
        steps.push(step(
            "One state for all codecs",
            "+nightly miri test -p coldpress-codec --no-default-features --lib \
             states_pass_from_one_codec_to_another",
        ));
    }
    steps
}

/// Runs them under Miri; 1 if something was found.
pub fn run(options: &Options) -> Result<u8> {
    // The storages' tests are built with the codecs in C, though none is called.
    install::packages(&[install::GCC])?;
    steps::run(&steps(options.all))
}
