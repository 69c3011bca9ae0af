//! One evaluation from beginning to end.

use crate::churn::{self, Sizes};
use crate::clock::Clock;
use crate::codecs::{self, Context, Strategy};
use crate::corpus::{AlignedPage, Corpus};
use crate::host::Frames;
use crate::measure::{Measured, Subject, measure};
use crate::options::{Options, Pin, Simd};
use crate::report::{CodecRow, CorpusRow, Method, Report, StorageRow};
use crate::rows::{POOLED, codec_row, ratio_rows};
use crate::{Error, cold, pin, same_filled, storages, synthetic};
use std::path::PathBuf;

/// Whoever shows how far the work is.
pub trait Progress {
    /// A piece of work begins: what it is, and its length in steps of its own.
    fn begin(&mut self, what: &str, steps: u64);

    /// So many steps more are done.
    fn advance(&mut self, steps: u64);
}

/// Codecs whose sizes the storages are filled with.
const STORED_CODECS: [&str; 3] = ["lz4:1", "press", "press-dense"];
/// Ranges of made-up sizes, and how many of each.
const MADE_UP_SIZES: [(u16, u16); 3] = [(64, 512), (64, 2867), (2049, 2867)];
const MADE_UP_COUNT: usize = 40_000;

/// Reads the files and measures everything on them.
///
/// # Errors
/// If a file is not one of pages, if the options name what is not there, or if a codec or a
/// storage is wrong.
pub fn run(
    files: &[PathBuf],
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Report, Error> {
    let strategies = codecs::chosen(options)?;
    let packings = storages::chosen(options)?;
    let simd = codecs::simd(options.simd)?;
    let mut corpora = Vec::new();
    for file in files {
        let mut corpus = Corpus::read(file, options.sample_pages, options.seed)?;
        make_distinct(&mut corpus.name, &corpora);
        corpora.push(corpus);
    }
    let cpu = match options.pin {
        Pin::Here => Some(pin::pin(None)?),
        Pin::To(cpu) => Some(pin::pin(Some(cpu))?),
        Pin::No => None,
    };
    let clock = Clock::calibrate();
    let measuring = Measuring {
        strategies: &strategies,
        simd,
        options,
        clock: &clock,
    };

    // Of codecs that were named all are stored, where none of the usual is among them.
    let usual = |strategy: &Strategy| STORED_CODECS.contains(&strategy.name);
    let none_is_usual = strategies.iter().all(|strategy| !usual(strategy));
    let is_stored =
        |strategy: &Strategy| usual(strategy) || none_is_usual && strategy.name != codecs::MEMCPY;
    let mut pooled = vec![Measured::default(); strategies.len()];
    let mut rows: Vec<CodecRow> = Vec::new();
    let mut sizes: Vec<Sizes> = Vec::new();
    for corpus in &corpora {
        let mut measured = measuring.corpus(corpus, &corpus.training, progress)?;
        for (at, strategy) in strategies.iter().enumerate() {
            let measured = &mut measured[at];
            pooled[at].add(measured);
            if is_stored(strategy) {
                sizes.push(Sizes::stored(strategy.name, &corpus.name, measured));
            }
            rows.push(codec_row(strategy.name, &corpus.name, measured));
        }
    }
    let mut pooled_rows = Vec::new();
    let mut pooled_sizes = Vec::new();
    for (strategy, measured) in strategies.iter().zip(&mut pooled) {
        if is_stored(strategy) {
            pooled_sizes.push(Sizes::stored(strategy.name, POOLED, measured));
        }
        pooled_rows.push(codec_row(strategy.name, POOLED, measured));
    }
    rows.splice(0..0, pooled_rows);
    sizes.splice(0..0, pooled_sizes);
    let made_up_count = options
        .sample_pages
        .map_or(MADE_UP_COUNT, |n| n.min(MADE_UP_COUNT));
    for (from, to) in MADE_UP_SIZES.into_iter().filter(|_| options.made_up) {
        sizes.push(Sizes::made_up(from, to, made_up_count, options.seed));
    }

    let mut synthetic_rows = Vec::new();
    // Codecs with tables meet made-up pages with the tables of a real program.
    let training = corpora.first().map_or(&[][..], |corpus| &corpus.training);
    let synthetic = match options.made_up {
        true => synthetic::corpora(options.seed, options.sample_pages),
        false => Vec::new(),
    };
    for corpus in &synthetic {
        let mut measured = measuring.corpus(corpus, training, progress)?;
        for (strategy, measured) in strategies.iter().zip(&mut measured) {
            synthetic_rows.push(codec_row(strategy.name, &corpus.name, measured));
        }
    }

    let storage_rows = store(&sizes, &packings, &clock, options.seed, progress)?;
    progress.begin("same-filled pages", 1);
    let same_filled_rows = same_filled::rows(&corpora, &rows, &clock);
    progress.advance(1);
    Ok(Report {
        method: Method {
            processor: processor(),
            cpu,
            simd: simd.name(),
            threshold_bytes: options.threshold_bytes,
            rounds: options.rounds,
            seed: options.seed,
            clock_overhead_ns: clock.overhead_ns(),
        },
        corpora: corpora.iter().map(corpus_row).collect(),
        ratios: ratio_rows(&rows, options.against.as_deref()),
        codecs: rows,
        synthetic: synthetic_rows,
        storages: storage_rows,
        same_filled: same_filled_rows,
        same_filled_gain: same_filled::gains(&clock, simd),
        same_filled_test: same_filled::made_up(&clock),
    })
}

/// What all corpora are measured with.
struct Measuring<'a> {
    strategies: &'a [&'static Strategy],
    simd: Simd,
    options: &'a Options,
    clock: &'a Clock,
}

impl Measuring<'_> {
    /// Every strategy on one corpus, each trained anew.
    fn corpus(
        &self,
        corpus: &Corpus,
        training: &[AlignedPage],
        progress: &mut dyn Progress,
    ) -> Result<Vec<Measured>, Error> {
        progress.begin(&corpus.name, corpus.evaluated.len() as u64);
        let context = Context {
            simd: self.simd,
            training,
        };
        let subject = |strategy: &&'static Strategy| {
            let codec = strategy.make(&context);
            Subject::new(strategy, codec, self.options.threshold_bytes)
        };
        let mut subjects: Vec<Subject> = self.strategies.iter().map(subject).collect();
        let mut advance = |pages: usize| progress.advance(pages as u64);
        let mut measured = measure(
            corpus,
            &mut subjects,
            self.options.rounds,
            self.clock,
            &mut advance,
        )?;
        cold::measure(
            corpus,
            &mut subjects,
            &mut measured,
            self.clock,
            self.options.seed,
        );
        Ok(measured)
    }
}

impl Sizes {
    /// The sizes of the pages that did not fail.
    fn stored(codec: &str, corpus: &str, measured: &Measured) -> Self {
        let sizes = measured.sizes.iter().copied().filter(|bytes| *bytes > 0);
        Self {
            codec: codec.to_owned(),
            corpus: corpus.to_owned(),
            sizes: sizes.collect(),
        }
    }
}

/// Every storage with every list of sizes.
fn store(
    sizes: &[Sizes],
    packings: &[&storages::Packing],
    clock: &Clock,
    seed: u64,
    progress: &mut dyn Progress,
) -> Result<Vec<StorageRow>, Error> {
    let mut rows = Vec::new();
    progress.begin("storages", (sizes.len() * packings.len()) as u64);
    let most = sizes.iter().map(|sizes| sizes.sizes.len()).max();
    let mut frames = Frames::new(churn::frames_for(most.unwrap_or(0)));
    for sizes in sizes.iter().filter(|sizes| !sizes.sizes.is_empty()) {
        for packing in packings {
            rows.extend(churn::rows(packing, sizes, clock, &mut frames, seed)?);
            progress.advance(1);
        }
    }
    Ok(rows)
}

fn corpus_row(corpus: &Corpus) -> CorpusRow {
    CorpusRow {
        corpus: corpus.name.clone(),
        pages: corpus.file_pages,
        evaluated_pages: corpus.evaluated.len(),
        captured: corpus.captured.is_some(),
        inactive_ms: corpus.captured.as_ref().and_then(|note| note.inactive_ms),
    }
}

/// Two files of one name get numbers.
fn make_distinct(name: &mut String, others: &[Corpus]) {
    let plain = name.clone();
    let mut number = 1;
    while name == POOLED || others.iter().any(|other| other.name == *name) {
        number += 1;
        *name = format!("{plain} ({number})");
    }
}

/// The processor's name for itself.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line
        .and_then(|line| line.split_once(": "))
        .map(|(_, name)| name);
    name.unwrap_or("unknown").to_owned()
}
