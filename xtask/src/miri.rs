//! `cargo xtask miri`: the codecs and storages under Miri, which finds undefined behaviour that
//! a processor forgives: reads of what was never written, pointers used beyond what they were
//! made from, references that overlap.
//!
//! Miri runs no C and no vectors: it sees the portable path of every codec written in Rust.
//! It is some thousand times slower than the processor, so the tests do less under `cfg(miri)`,
//! and those that prove nothing when they do less are ignored there, or left out here:
//!
//! | left out | because |
//! |---|---|
//! | `states_pass_from_one_codec_to_another`, `round_trip.rs`, `press_format.rs` of the codecs | each takes longer than all the others together |
//! | `no_allocation.rs` of both | allocations are counted, nothing else |
//! | `zstd_frames.rs` | C |
//!
//! `-Zmiri-ignore-leaks`: what tests keep to the end of the program is no finding.

use crate::install;
use crate::steps::{self, Step};
use anyhow::Result;

/// Options of the miri task.
#[derive(clap::Args, Debug)]
pub struct Options {}

const FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation";

fn steps() -> Vec<Step> {
    let step = |headline, arguments| {
        Step::new(headline, arguments)
            .with("MIRIFLAGS", FLAGS)
            .needs(|| install::nightly(&["miri", "rust-src"]))
    };
    vec![
        step(
            "The codecs, on the portable path",
            "+nightly miri test -p coldpress-codec --no-default-features --lib \
             --test damaged_input --test wkdm_format --test lz4_blocks --test lzo_streams \
             -- --skip states_pass_from_one_codec_to_another",
        ),
        step(
            "The storages",
            "+nightly miri test -p coldpress-storage --lib --test any_storage --test domains \
             --test model --test press_rules --test size_class_rules --test three_slot_rules \
             --test two_slot_rules",
        ),
    ]
}

/// Runs both under Miri; 1 if something was found.
pub fn run(_options: &Options) -> Result<u8> {
    // The storages' tests are built with the codecs in C, though none is called.
    install::packages(&[install::GCC])?;
    steps::run(&steps())
}
