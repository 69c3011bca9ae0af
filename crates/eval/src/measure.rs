//! Speed and size of every codec on the pages of one corpus.
//!
//! ```text
//!  block of 256 pages (1 MiB)         for each round, codecs in turn: A B C  B C A  C A B
//!  ┌─────────────────────────┐          compress    in stretches of 16 pages → speed
//!  │ page page page …        │          compress    page by page             → latencies
//!  └─────────────────────────┘          decompress  in stretches of 16 pages → speed
//!                                       decompress  page by page             → latencies
//! ```
//!
//! Speed comes of stretches, so that no clock is read between their pages; latencies of pages one
//! by one, with what the clock costs subtracted. Of each stretch and of each page the median over
//! the rounds counts, so that an interruption in one round leaves no trace; and a stretch in which
//! the processor was given to another thread is measured again. (Stretches are short, since on a
//! busy machine few whole blocks pass without that, and the slower the codec the fewer.)
//! Compression writes to
//! one hot buffer, as in the pager; decompression reads what was just written and writes to one
//! hot page. (Cold sources are the business of `cold.rs`.)
//!
//! Before anything is timed each page goes through each codec once and is compared (I2).

use crate::clock::Clock;
use crate::corpus::{AlignedPage, Corpus};
use crate::dyn_codec::DynCodec;
use crate::statistics::median;
use crate::undisturbed::undisturbed;
use crate::{Error, codecs::Strategy};
use coldpress_codec::{Compressed, PAGE_SIZE, Page};
use std::hint::black_box;

/// Pages that all codecs work on before the next ones are taken: 1 MiB, which the second level
/// cache holds.
const BLOCK_PAGES: usize = 256;
/// Pages between two looks at the clock where speed is measured.
const STRETCH_PAGES: usize = 16;

/// A codec under test.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) codec: Box<dyn DynCodec>,
    /// Bytes of its output buffer.
    pub(crate) bound: usize,
}

impl Subject {
    pub(crate) fn new(strategy: &Strategy, codec: Box<dyn DynCodec>, threshold: usize) -> Self {
        Self {
            name: strategy.name,
            codec,
            bound: strategy.bound(threshold),
        }
    }
}

/// What one codec did on one corpus, or on several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Bytes of each page evaluated; 0 if it failed.
    pub(crate) sizes: Vec<u16>,
    /// Sums over stretches of the median over rounds.
    pub(crate) compress_ns: f64,
    pub(crate) decompress_ns: f64,
    /// By page; of successes only when decompressing.
    pub(crate) compress_page_ns: Vec<f32>,
    pub(crate) decompress_page_ns: Vec<f32>,
    pub(crate) table_bytes: usize,
    /// The pages that tables were trained on, as the codec compresses them.
    pub(crate) training_pages: usize,
    pub(crate) training_bytes: usize,
    /// Decoding from a cold source, and memcpy's time for the same pages.
    pub(crate) cold_ns: Vec<f32>,
    pub(crate) cold_memcpy_ns: Vec<f32>,
}

impl Measured {
    /// Adds what it did on another corpus.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sizes.extend(&other.sizes);
        self.compress_ns += other.compress_ns;
        self.decompress_ns += other.decompress_ns;
        self.compress_page_ns.extend(&other.compress_page_ns);
        self.decompress_page_ns.extend(&other.decompress_page_ns);
        self.table_bytes += other.table_bytes;
        self.training_pages += other.training_pages;
        self.training_bytes += other.training_bytes;
        self.cold_ns.extend(&other.cold_ns);
        self.cold_memcpy_ns.extend(&other.cold_memcpy_ns);
    }
}

/// Measures all `subjects`; the results are in their order. `advance` is called with each number
/// of pages done.
pub(crate) fn measure(
    corpus: &Corpus,
    subjects: &mut [Subject],
    rounds: usize,
    clock: &Clock,
    advance: &mut dyn FnMut(usize),
) -> Result<Vec<Measured>, Error> {
    let mut results = vec![Measured::default(); subjects.len()];
    for (subject, result) in subjects.iter_mut().zip(&mut results) {
        result.table_bytes = subject.codec.table_bytes();
        result.training_pages = corpus.training.len();
        for (at, page) in corpus.training.iter().enumerate() {
            let bytes = verified_size(subject, corpus, at, page)?;
            result.training_bytes += counted(bytes);
        }
    }
    let mut store = vec![AlignedPage([0; PAGE_SIZE]); BLOCK_PAGES];
    for (number, block) in corpus.evaluated.chunks(BLOCK_PAGES).enumerate() {
        let first = number * BLOCK_PAGES;
        for (subject, result) in subjects.iter_mut().zip(&mut results) {
            for (at, page) in block.iter().enumerate() {
                let bytes = verified_size(subject, corpus, first + at, page)?;
                result.sizes.push(bytes as u16);
            }
        }
        let mut times: Vec<Times> = subjects
            .iter()
            .map(|_| Times::new(block.len(), rounds))
            .collect();
        for round in 0..rounds {
            for turn in 0..subjects.len() {
                let which = (turn + round) % subjects.len();
                let sizes = &results[which].sizes[first..];
                times[which].round(&mut subjects[which], block, sizes, &mut store, clock);
            }
        }
        for (times, result) in times.into_iter().zip(&mut results) {
            let stored = result.sizes[first..]
                .iter()
                .filter(|bytes| **bytes > 0)
                .count();
            times.conclude(stored, result);
        }
        advance(block.len());
    }
    Ok(results)
}

/// What a page that became `bytes` (0: failed) counts in a total.
pub(crate) fn counted(bytes: usize) -> usize {
    match bytes {
        0 => PAGE_SIZE,
        bytes => bytes,
    }
}

/// Compresses a page and back, and compares (I2). Bytes, or 0 if it failed.
fn verified_size(
    subject: &mut Subject,
    corpus: &Corpus,
    at: usize,
    page: &AlignedPage,
) -> Result<usize, Error> {
    let wrong = |what| Error::WrongPage {
        codec: subject.name.to_owned(),
        corpus: corpus.name.clone(),
        page: at,
        what,
    };
    let mut out = [0; PAGE_SIZE];
    let bytes = match subject.codec.compress(&page.0, &mut out[..subject.bound]) {
        Compressed::Stored(bytes) if bytes > 0 && bytes <= subject.bound => bytes,
        Compressed::Incompressible => return Ok(0),
        Compressed::SameFilled(_) => return Err(wrong("is called same-filled and is not")),
        Compressed::Stored(_) => return Err(wrong("has a length beyond its buffer")),
    };
    // No byte may be left from what the page held before.
    let mut back = AlignedPage([!page.0[0]; PAGE_SIZE]);
    match subject.codec.decompress(&out[..bytes], &mut back.0) {
        Ok(()) if back.0 == page.0 => Ok(bytes),
        Ok(()) => Err(wrong("comes back with other bytes")),
        Err(_) => Err(wrong("does not come back")),
    }
}

/// The rounds of one codec on one block.
struct Times {
    pages: usize,
    /// By stretch, round after round.
    compress_ns: Vec<f32>,
    decompress_ns: Vec<f32>,
    /// By page, round after round.
    compress_page_ns: Vec<f32>,
    decompress_page_ns: Vec<f32>,
}

impl Times {
    fn new(pages: usize, rounds: usize) -> Self {
        Self {
            pages,
            compress_ns: Vec::with_capacity(rounds * pages.div_ceil(STRETCH_PAGES)),
            decompress_ns: Vec::with_capacity(rounds * pages.div_ceil(STRETCH_PAGES)),
            compress_page_ns: Vec::with_capacity(rounds * pages),
            decompress_page_ns: Vec::with_capacity(rounds * pages),
        }
    }

    /// One round: all four figures, on the pages of a block, which have become `sizes` bytes (0: failed).
    fn round(
        &mut self,
        subject: &mut Subject,
        block: &[AlignedPage],
        sizes: &[u16],
        store: &mut [AlignedPage],
        clock: &Clock,
    ) {
        let mut buffer = AlignedPage([0; PAGE_SIZE]);
        let out: &mut Page = &mut buffer.0;
        self.compress(subject, block, out, clock);
        self.compress_by_page(subject, block, store, out, clock);
        let all = store.iter().zip(sizes).filter(|(_, bytes)| **bytes > 0);
        let stored: Vec<&[u8]> = all
            .map(|(kept, bytes)| &kept.0[..usize::from(*bytes)])
            .collect();
        self.decompress(subject, &stored, out, clock);
        self.decompress_by_page(subject, &stored, out, clock);
    }

    /// Compresses in stretches, for the speed.
    fn compress(
        &mut self,
        subject: &mut Subject,
        block: &[AlignedPage],
        out: &mut Page,
        clock: &Clock,
    ) {
        let Subject { codec, bound, .. } = subject;
        // The codec's code and tables come into the caches on pages that are not counted.
        for page in block.iter().rev().take(2) {
            black_box(codec.compress(&page.0, &mut out[..*bound]));
        }
        for stretch in block.chunks(STRETCH_PAGES) {
            let elapsed = undisturbed(|| {
                let begin = clock.begin();
                for page in stretch {
                    black_box(codec.compress(black_box(&page.0), &mut out[..*bound]));
                }
                clock.nanoseconds_since(begin)
            });
            self.compress_ns.push(elapsed as f32);
        }
    }

    /// Compresses page by page, for the latencies; what comes out is kept in `store`.
    fn compress_by_page(
        &mut self,
        subject: &mut Subject,
        block: &[AlignedPage],
        store: &mut [AlignedPage],
        out: &mut Page,
        clock: &Clock,
    ) {
        let Subject { codec, bound, .. } = subject;
        let mut by_page = [0f32; STRETCH_PAGES];
        for (stretch, kept) in block
            .chunks(STRETCH_PAGES)
            .zip(store.chunks_mut(STRETCH_PAGES))
        {
            undisturbed(|| {
                for ((page, kept), elapsed) in stretch.iter().zip(kept.iter_mut()).zip(&mut by_page)
                {
                    let begin = clock.begin();
                    let outcome = black_box(codec.compress(black_box(&page.0), &mut out[..*bound]));
                    *elapsed = clock.nanoseconds_since(begin) as f32;
                    if let Compressed::Stored(bytes) = outcome {
                        kept.0[..bytes].copy_from_slice(&out[..bytes]);
                    }
                }
            });
            self.compress_page_ns.extend(&by_page[..stretch.len()]);
        }
    }

    /// Decompresses what was stored in stretches, for the speed.
    fn decompress(
        &mut self,
        subject: &mut Subject,
        stored: &[&[u8]],
        out: &mut Page,
        clock: &Clock,
    ) {
        let codec = &mut subject.codec;
        for bytes in stored.iter().take(2) {
            let _ = black_box(codec.decompress(bytes, out));
        }
        for stretch in stored.chunks(STRETCH_PAGES) {
            let elapsed = undisturbed(|| {
                let begin = clock.begin();
                for bytes in stretch {
                    let _ = black_box(codec.decompress(black_box(bytes), out));
                }
                clock.nanoseconds_since(begin)
            });
            self.decompress_ns.push(elapsed as f32);
        }
    }

    /// Decompresses what was stored page by page, for the latencies.
    fn decompress_by_page(
        &mut self,
        subject: &mut Subject,
        stored: &[&[u8]],
        out: &mut Page,
        clock: &Clock,
    ) {
        let codec = &mut subject.codec;
        let mut by_page = [0f32; STRETCH_PAGES];
        for stretch in stored.chunks(STRETCH_PAGES) {
            undisturbed(|| {
                for (bytes, elapsed) in stretch.iter().zip(&mut by_page) {
                    let begin = clock.begin();
                    let _ = black_box(codec.decompress(black_box(bytes), out));
                    *elapsed = clock.nanoseconds_since(begin) as f32;
                }
            });
            self.decompress_page_ns.extend(&by_page[..stretch.len()]);
        }
    }

    /// Medians over the rounds.
    fn conclude(self, successes: usize, result: &mut Measured) {
        let stretches = |pages: usize| pages.div_ceil(STRETCH_PAGES);
        result.compress_ns += sum_of_medians(&self.compress_ns, stretches(self.pages));
        medians(
            &self.compress_page_ns,
            self.pages,
            &mut result.compress_page_ns,
        );
        if successes > 0 {
            result.decompress_ns += sum_of_medians(&self.decompress_ns, stretches(successes));
            medians(
                &self.decompress_page_ns,
                successes,
                &mut result.decompress_page_ns,
            );
        }
    }
}

fn sum_of_medians(rounds: &[f32], count: usize) -> f64 {
    let mut values = Vec::with_capacity(count);
    medians(rounds, count, &mut values);
    values.iter().map(|value| f64::from(*value)).sum()
}

/// Appends to `out`, for each of `count` places, the median of that place over all rounds.
pub(crate) fn medians(rounds: &[f32], count: usize, out: &mut Vec<f32>) {
    let number = rounds.len() / count;
    let mut values = vec![0.0; number];
    for at in 0..count {
        for (round, value) in values.iter_mut().enumerate() {
            *value = f64::from(rounds[round * count + at]);
        }
        out.push(median(&mut values) as f32);
    }
}
