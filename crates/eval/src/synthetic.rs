//! Made-up pages: what a codec does at the edges of what memory holds.
//!
//! Random pages show how soon a codec gives up; nearly constant ones what the least page costs.

use crate::corpus::{AlignedPage, Corpus};
use crate::random::Random;
use coldpress_codec::PAGE_SIZE;

/// Pages of each kind, if the caller wants no less.
const PAGES: usize = 512;

/// The made-up corpora.
pub(crate) fn corpora(seed: u64, sample_pages: Option<usize>) -> Vec<Corpus> {
    let count = sample_pages.unwrap_or(PAGES).min(PAGES);
    let make = |name: &str, page: &mut dyn FnMut(&mut Random) -> [u64; 512]| {
        let mut random = Random::new(seed);
        let pages = (0..count).map(|_| {
            let mut bytes = AlignedPage([0; PAGE_SIZE]);
            for (to, word) in bytes.0.chunks_exact_mut(8).zip(page(&mut random)) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            bytes
        });
        Corpus {
            name: name.to_owned(),
            evaluated: pages.collect(),
            training: Vec::new(),
            file_pages: count,
            zero_pages: 0,
            same_filled_pages: 0,
            captured: None,
        }
    };
    let nearly = |different: usize, alike: bool| {
        move |random: &mut Random| {
            let base = if alike { 0 } else { random.next() };
            let mut words = [base; 512];
            // The first and last word differ from each other, so that no page is same-filled.
            words[0] = base ^ 1;
            for _ in 1..different {
                words[random.below(511)] = random.next() & 0xffff_ffff;
            }
            words
        }
    };
    vec![
        make("random", &mut |random| {
            std::array::from_fn(|_| random.next())
        }),
        make("one word in zeros", &mut nearly(1, true)),
        make("8 words in zeros", &mut nearly(8, true)),
        make("32 words in zeros", &mut nearly(32, true)),
        make("8 words in a constant", &mut nearly(8, false)),
        make("counting up", &mut |random| {
            let (start, step) = (random.next() >> 20, 1 + random.next() % 64);
            std::array::from_fn(|at| start + at as u64 * step)
        }),
    ]
}
