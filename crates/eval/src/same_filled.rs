//! Same-filled pages (seed 003): how many there are, and what telling them costs.

use crate::clock::Clock;
use crate::corpus::{AlignedPage, Corpus};
use crate::dyn_codec::{Boxed, DynCodec};
use crate::options::Simd;
use crate::report::{CodecRow, SameFilledGain, SameFilledRow, SameFilledTest};
use crate::rows::POOLED;
use crate::statistics::{Spread, median};
use coldpress_codec::press::Press;
use coldpress_codec::same_filled::{fill, same_filled};
use coldpress_codec::{Compressed, Lz4, Lzo, PAGE_SIZE, SameFilled};
use std::hint::black_box;

/// Times of the test on the pages of one corpus.
pub(crate) fn test_times(corpus: &Corpus, clock: &Clock) -> Vec<f32> {
    let times = corpus.evaluated.iter().map(|page| {
        // The page is in the cache, as for the codecs.
        black_box(page.0.iter().step_by(64).fold(0u8, |a, b| a ^ b));
        let begin = clock.begin();
        black_box(same_filled(black_box(&page.0)));
        clock.nanoseconds_since(begin) as f32
    });
    times.collect()
}

/// The row of one corpus, or of all.
pub(crate) fn row(
    name: &str,
    corpora: &[&Corpus],
    times: &mut [f32],
    codecs: &[CodecRow],
) -> SameFilledRow {
    let sum = |count: fn(&Corpus) -> usize| corpora.iter().map(|corpus| count(corpus)).sum();
    let (file_pages, zero_pages, same_filled_pages): (usize, usize, usize) = (
        sum(|corpus| corpus.file_pages),
        sum(|corpus| corpus.zero_pages),
        sum(|corpus| corpus.same_filled_pages),
    );
    let spread = Spread::of(times);
    let press = codecs
        .iter()
        .find(|row| row.codec == "press" && row.corpus == name);
    SameFilledRow {
        corpus: name.to_owned(),
        file_pages,
        zero_pages,
        same_filled_pages,
        share_percent: 100.0 * (zero_pages + same_filled_pages) as f64 / file_pages.max(1) as f64,
        test_mean_ns: spread.mean,
        test_p99_ns: spread.p99,
        percent_of_press: press.map(|press| 100.0 * spread.mean / press.compress_mean_ns),
    }
}

/// Rows of all corpora and of all together.
pub(crate) fn rows(corpora: &[Corpus], codecs: &[CodecRow], clock: &Clock) -> Vec<SameFilledRow> {
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for corpus in corpora {
        let mut times = test_times(corpus, clock);
        all.extend(&times);
        rows.push(row(&corpus.name, &[corpus], &mut times, codecs));
    }
    let every: Vec<&Corpus> = corpora.iter().collect();
    rows.insert(0, row(POOLED, &every, &mut all, codecs));
    rows
}

/// The test on made-up pages, hot.
pub(crate) fn made_up(clock: &Clock) -> SameFilledTest {
    let mut page = AlignedPage([0; PAGE_SIZE]);
    fill(&mut page.0, 0x0101_0101_0101_0101);
    let test = |page: &AlignedPage| {
        typical(clock, || {
            black_box(same_filled(black_box(&page.0)));
        })
    };
    let same_filled_ns = test(&page);
    let mut last = page.clone();
    last.0[PAGE_SIZE - 1] ^= 1;
    let mut last_but_one = page.clone();
    last_but_one.0[PAGE_SIZE - 9] ^= 1;
    SameFilledTest {
        same_filled_ns,
        all_but_last_word_ns: test(&last),
        worst_case_ns: test(&last_but_one),
        fill_ns: typical(clock, || fill(black_box(&mut page.0), 7)),
    }
}

/// What the test saves: pages of zeros, and of another word, through the codecs with it and without.
pub(crate) fn gains(clock: &Clock, simd: Simd) -> Vec<SameFilledGain> {
    let mut rows = Vec::new();
    for codec in ["lzo", "lz4:1", "press"] {
        for (kind, word) in [("zero", 0), ("one word", 0x0123_4567_89ab_cdef)] {
            let mut page = AlignedPage([0; PAGE_SIZE]);
            fill(&mut page.0, word);
            let (mut out, mut back) = (vec![0; PAGE_SIZE], AlignedPage([1; PAGE_SIZE]));
            let mut store = |same_filled: SameFilled| {
                let mut codec = codec_of(codec, same_filled, simd);
                let ns = typical(clock, || {
                    black_box(codec.compress(black_box(&page.0), &mut out));
                });
                (ns, codec.compress(&page.0, &mut out))
            };
            let (store_with_ns, _) = store(SameFilled::Detect);
            let (store_without_ns, stored) = store(SameFilled::Compress);
            // A codec that has no form for it keeps the page as it is, and copies it.
            let stored_bytes = match stored {
                Compressed::Stored(bytes) => bytes,
                _ => PAGE_SIZE,
            };
            let mut codec_without = codec_of(codec, SameFilled::Compress, simd);
            let load_without_ns = typical(clock, || {
                let _ = codec_without.decompress(black_box(&out[..stored_bytes]), &mut back.0);
            });
            let load_with_ns = typical(clock, || fill(black_box(&mut back.0), word));
            let gain = |without: f64, with: f64| 100.0 * (1.0 - with / without.max(1.0));
            rows.push(SameFilledGain {
                codec: codec.to_owned(),
                kind,
                stored_bytes,
                store_without_ns,
                store_with_ns,
                store_gain_percent: gain(store_without_ns, store_with_ns),
                load_without_ns,
                load_with_ns,
                load_gain_percent: gain(load_without_ns, load_with_ns),
            });
        }
    }
    rows
}

fn codec_of(name: &str, same_filled: SameFilled, simd: Simd) -> Box<dyn DynCodec> {
    let detect_same_filled = same_filled == SameFilled::Detect;
    match name {
        "lzo" => Boxed::of(Lzo { detect_same_filled }),
        "lz4:1" => Boxed::of(Lz4 {
            acceleration: 1,
            detect_same_filled,
        }),
        _ => {
            let mut press = Press::with_simd(simd);
            press.detect_same_filled = detect_same_filled;
            Boxed::of(press)
        }
    }
}

/// Median time of something short.
fn typical(clock: &Clock, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..1001)
        .map(|_| {
            let begin = clock.begin();
            work();
            clock.nanoseconds_since(begin)
        })
        .collect();
    median(&mut times)
}
