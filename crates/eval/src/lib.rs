//! Measures page codecs and compressed storages on captured pages: the tables of RFC-0219,
//! section "Experimental evaluation", for every strategy there is.
//!
//! ```text
//!  FILE ──▶ Corpus: pages to evaluate, 512 pages to train on, same-filled ones counted apart
//!             │
//!             ├─▶ codecs      every codec over the same block of pages, interleaved, rounds
//!             ├─▶ cold        decode from memory that no cache holds
//!             ├─▶ storages    the codecs' sizes through every storage: fill, churn, compact
//!             └─▶ same_filled shares, and what the test costs
//!             ▼
//!           Report ──▶ tables · JSON · plot
//! ```
//!
//! | concept | file |
//! |---|---|
//! | a file of pages, what is left out of it, what its capture left out | `corpus.rs`, `captured.rs` |
//! | time: the processor's clock, less what reading it costs | `clock.rs`, `undisturbed.rs`, `pin.rs` |
//! | codecs behind one object-safe trait; one line each | `dyn_codec.rs`, `codecs.rs` |
//! | speed and size | `measure.rs`, `cold.rs`, `rows.rs` |
//! | storages behind one object-safe trait; one line each | `dyn_storage.rs`, `storages.rs`, `host.rs` |
//! | packing under churn | `churn.rs` |
//! | what sampled pages would take, for an estimate | `stored.rs`, `lived.rs` |
//! | what is printed | `report.rs`, `tables.rs`, `seed_tables.rs`, `grid.rs`, `plot.rs` |
//!
//! Invariants:
//! * I1 Every codec sees the same pages, in the same order, in the same caches: block by block,
//!   one after the other, several times over. Figures of one run can be compared.
//! * I2 No figure is printed of a codec that returned a wrong page, or of a storage that
//!   returned wrong bytes: the run ends with an error that names page and codec.
//! * I3 With the same files, options and seed everything but times is the same.
//! * I4 Pages that tables are trained on are evaluated with no codec.
//!
//! What is not here: capturing pages (the command does), and any opinion on which is best.
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod captured;
pub mod chart;
mod churn;
mod clock;
mod codecs;
mod cold;
mod corpus;
mod dyn_codec;
mod dyn_storage;
mod error;
mod grid;
mod host;
mod lived;
mod measure;
mod options;
mod pin;
mod plot;
mod random;
mod report;
mod rows;
mod run;
mod same_filled;
mod seed_tables;
mod statistics;
mod storages;
mod stored;
mod synthetic;
mod tables;
mod undisturbed;

pub use captured::Captured;
pub use codecs::codec_names;
pub use corpus::{Corpus, TRAINING_PAGES};
pub use error::Error;
pub use lived::Life;
pub use options::{Options, Pin, Simd};
pub use plot::plot;
pub use report::{
    CodecRow, CorpusRow, RatioRow, Report, SameFilledGain, SameFilledRow, StorageRow,
};
pub use run::{Progress, run};
pub use seed_tables::SeedTable;
pub use storages::storage_names;
pub use stored::{Anew, Fate, Storing};
pub use tables::tables;
