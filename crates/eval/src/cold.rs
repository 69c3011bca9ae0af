//! Decoding from a cold source, as in a fault: the object lies somewhere in a store larger than
//! the caches and none of its lines is in one.
//!
//! For each object: its lines are flushed; then, timed, every line is asked for (the pager does
//! so as soon as it knows the reference) and the object is decoded into a hot page. Objects are
//! taken in random order. Codecs take turns every 256 objects, over the same pages, memcpy of the
//! whole page among them; of each object the median over three rounds counts. A turn begins with
//! a few objects that are not counted: it is the source that is cold, not the decoder's code.

use crate::clock::Clock;
use crate::corpus::{AlignedPage, Corpus};
use crate::measure::{Measured, Subject, medians};
use crate::random::Random;
use crate::undisturbed::undisturbed;
use coldpress_codec::{Compressed, PAGE_SIZE};
use std::hint::black_box;

/// Objects of each corpus that are decoded.
const OBJECTS: usize = 4096;
/// Objects that one codec decodes before the next one takes its turn.
const TURN: usize = 256;
/// Objects that are decoded before those that count.
const WARM_UP: usize = 4;
const ROUNDS: usize = 3;

/// Every page of a corpus as one codec stores it.
struct Store {
    bytes: Vec<u8>,
    /// By page: where it begins, and its length, 0 if it failed.
    places: Vec<(usize, usize)>,
}

/// Fills in the cold figures of all `results`, which belong to `subjects`; the first is memcpy.
pub(crate) fn measure(
    corpus: &Corpus,
    subjects: &mut [Subject],
    results: &mut [Measured],
    clock: &Clock,
    seed: u64,
) {
    if !can_flush() {
        return;
    }
    let stores: Vec<Store> = subjects
        .iter_mut()
        .map(|subject| fill(corpus, subject))
        .collect();
    let mut order: Vec<usize> = (0..corpus.evaluated.len()).collect();
    Random::new(seed).shuffle(&mut order);
    order.truncate(OBJECTS);
    let mut times = vec![vec![0f32; ROUNDS * order.len()]; subjects.len()];
    let mut hot = AlignedPage([0; PAGE_SIZE]);
    for round in 0..ROUNDS {
        for (turn, pages) in order.chunks(TURN).enumerate() {
            for (which, subject) in subjects.iter_mut().enumerate() {
                let places = &stores[which].places;
                let stored = |page: &usize| {
                    let (start, len) = places[*page];
                    (len > 0).then(|| &stores[which].bytes[start..start + len])
                };
                for object in pages.iter().rev().filter_map(stored).take(WARM_UP) {
                    let _ = black_box(subject.codec.decompress(object, &mut hot.0));
                }
                for (at, page) in pages.iter().enumerate() {
                    let Some(object) = stored(page) else {
                        continue;
                    };
                    let elapsed = undisturbed(|| {
                        flush(object);
                        let begin = clock.begin();
                        prefetch(object);
                        let _ = black_box(subject.codec.decompress(object, &mut hot.0));
                        clock.nanoseconds_since(begin)
                    });
                    times[which][round * order.len() + turn * TURN + at] = elapsed as f32;
                }
            }
        }
    }
    let mut per_object: Vec<Vec<f32>> = Vec::new();
    for times in &times {
        let mut values = Vec::new();
        medians(times, order.len(), &mut values);
        per_object.push(values);
    }
    for (which, result) in results.iter_mut().enumerate() {
        for (at, page) in order.iter().enumerate() {
            if stores[which].places[*page].1 > 0 {
                result.cold_ns.push(per_object[which][at]);
                result.cold_memcpy_ns.push(per_object[0][at]);
            }
        }
    }
}

fn fill(corpus: &Corpus, subject: &mut Subject) -> Store {
    let mut store = Store {
        bytes: Vec::with_capacity(corpus.evaluated.len() * PAGE_SIZE / 2),
        places: Vec::with_capacity(corpus.evaluated.len()),
    };
    let mut out = [0; PAGE_SIZE];
    for page in &corpus.evaluated {
        let start = store.bytes.len().next_multiple_of(8);
        let len = match subject.codec.compress(&page.0, &mut out[..subject.bound]) {
            Compressed::Stored(len) => len,
            _ => 0,
        };
        store.bytes.resize(start, 0);
        store.bytes.extend(&out[..len]);
        store.places.push((start, len));
    }
    store
}

#[cfg(target_arch = "x86_64")]
fn can_flush() -> bool {
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn can_flush() -> bool {
    false
}

/// Takes an object's lines out of every cache.
fn flush(object: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_mm_clflush, _mm_mfence};
        let range = object.as_ptr_range();
        let mut line = range.start.map_addr(|address| address & !63);
        while line < range.end {
            // SAFETY: the line holds a byte of the object, and flushing changes no content.
            // SSE2 is part of x86_64.
            unsafe { _mm_clflush(line) };
            line = line.wrapping_add(64);
        }
        // SAFETY: SSE2 is part of x86_64.
        unsafe { _mm_mfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = object;
}

/// Asks for an object's lines.
#[inline(always)]
fn prefetch(object: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let range = object.as_ptr_range();
        let mut line = range.start.map_addr(|address| address & !63);
        while line < range.end {
            // SAFETY: a hint: it touches nothing, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
            line = line.wrapping_add(64);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = object;
}
