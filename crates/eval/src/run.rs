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
    let corpora = read(files, options)?;
    let cpu = pinned(options.pin)?;
    let clock = Clock::calibrate();
    let measuring = Measuring {
        strategies: &strategies,
        simd,
        options,
        clock: &clock,
    };
    let (rows, mut sizes) = measuring.captured(&corpora, progress)?;
    sizes.extend(made_up_sizes(options));
    let synthetic_rows = measuring.made_up(&corpora, progress)?;
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

/// Reads the files; their corpora have distinct names.
fn read(files: &[PathBuf], options: &Options) -> Result<Vec<Corpus>, Error> {
    let mut corpora = Vec::new();
    for file in files {
        let mut corpus = Corpus::read(file, options.sample_pages, options.seed)?;
        make_distinct(&mut corpus.name, &corpora);
        corpora.push(corpus);
    }
    Ok(corpora)
}

/// Pins this thread as is asked for; the processor that it is on from now on, if one is fixed.
fn pinned(pin: Pin) -> Result<Option<usize>, Error> {
    match pin {
        Pin::Here => pin::pin(None).map(Some),
        Pin::To(cpu) => pin::pin(Some(cpu)).map(Some),
        Pin::No => Ok(None),
    }
}

/// Lists of sizes that are made up, if they are wanted.
fn made_up_sizes(options: &Options) -> impl Iterator<Item = Sizes> {
    let count = options
        .sample_pages
        .map_or(MADE_UP_COUNT, |n| n.min(MADE_UP_COUNT));
    MADE_UP_SIZES
        .into_iter()
        .filter(|_| options.made_up)
        .map(move |(from, to)| Sizes::made_up(from, to, count, options.seed))
}

/// What all corpora are measured with.
struct Measuring<'a> {
    strategies: &'a [&'static Strategy],
    simd: Simd,
    options: &'a Options,
    clock: &'a Clock,
}

impl Measuring<'_> {
    /// Whether the sizes that a codec makes are stored. Of codecs that were named all are, where none of the usual is
    /// among them.
    fn is_stored(&self, strategy: &Strategy) -> bool {
        let usual = |strategy: &Strategy| STORED_CODECS.contains(&strategy.name);
        let none_is_usual = self.strategies.iter().all(|strategy| !usual(strategy));
        usual(strategy) || none_is_usual && strategy.name != codecs::MEMCPY
    }

    /// Every strategy on the corpora of files: the rows and the sizes to be stored, those of all corpora together first.
    fn captured(
        &self,
        corpora: &[Corpus],
        progress: &mut dyn Progress,
    ) -> Result<(Vec<CodecRow>, Vec<Sizes>), Error> {
        let mut pooled = vec![Measured::default(); self.strategies.len()];
        let mut rows: Vec<CodecRow> = Vec::new();
        let mut sizes: Vec<Sizes> = Vec::new();
        for corpus in corpora {
            let mut measured = self.corpus(corpus, &corpus.training, progress)?;
            for (pooled, measured) in pooled.iter_mut().zip(&measured) {
                pooled.add(measured);
            }
            self.rows_of(&corpus.name, &mut measured, &mut rows, &mut sizes);
        }
        let mut pooled_rows = Vec::new();
        let mut pooled_sizes = Vec::new();
        self.rows_of(POOLED, &mut pooled, &mut pooled_rows, &mut pooled_sizes);
        rows.splice(0..0, pooled_rows);
        sizes.splice(0..0, pooled_sizes);
        Ok((rows, sizes))
    }

    /// Appends the rows of one corpus, and the sizes to be stored; `measured` is in the order of the strategies.
    fn rows_of(
        &self,
        corpus: &str,
        measured: &mut [Measured],
        rows: &mut Vec<CodecRow>,
        sizes: &mut Vec<Sizes>,
    ) {
        for (strategy, measured) in self.strategies.iter().zip(measured) {
            if self.is_stored(strategy) {
                sizes.push(Sizes::stored(strategy.name, corpus, measured));
            }
            rows.push(codec_row(strategy.name, corpus, measured));
        }
    }

    /// Every strategy on pages that are made up, if they are wanted. Codecs with tables meet them with the tables of a real
    /// program: the first of `corpora`.
    fn made_up(
        &self,
        corpora: &[Corpus],
        progress: &mut dyn Progress,
    ) -> Result<Vec<CodecRow>, Error> {
        let mut rows = Vec::new();
        let training = corpora.first().map_or(&[][..], |corpus| &corpus.training);
        let synthetic = match self.options.made_up {
            true => synthetic::corpora(self.options.seed, self.options.sample_pages),
            false => Vec::new(),
        };
        for corpus in &synthetic {
            let mut measured = self.corpus(corpus, training, progress)?;
            for (strategy, measured) in self.strategies.iter().zip(&mut measured) {
                rows.push(codec_row(strategy.name, &corpus.name, measured));
            }
        }
        Ok(rows)
    }

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
