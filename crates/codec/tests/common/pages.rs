//! Pages of the kinds that programs have, and some that they hardly have. The seeds of the fuzz
//! targets (`fuzz/src/bin/seeds.rs`) are made of them, too.

use coldpress_codec::{PAGE_SIZE, Page};

/// What a page is like.
#[derive(Copy, Clone, Debug)]
pub enum Kind {
    Random,
    Text,
    Zero,
    SameFilled,
    Pointers,
    /// One word repeated, but for a few bytes.
    NearlyConstant,
    /// Four-byte matches at ever new distances with a literal between: many short sequences.
    ManySequences,
    /// Literal runs and matches of lengths around 15 and 255, where LZ4 adds length bytes.
    LengthLimits,
    /// Compressible at the beginning, random at the end.
    LateRandom,
    /// Alternating halves of bytes, as in small integers.
    Counters,
}

pub const KINDS: [Kind; 10] = [
    Kind::Random,
    Kind::Text,
    Kind::Zero,
    Kind::SameFilled,
    Kind::Pointers,
    Kind::NearlyConstant,
    Kind::ManySequences,
    Kind::LengthLimits,
    Kind::LateRandom,
    Kind::Counters,
];

/// A small generator of random numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn words(mut word: impl FnMut(usize) -> u64) -> Page {
    let mut page = [0; PAGE_SIZE];
    for (i, bytes) in page.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *bytes = word(i).to_ne_bytes();
    }
    page
}

fn pieces(mut piece: impl FnMut(&[u8]) -> Vec<u8>) -> Page {
    let mut bytes = Vec::new();
    while bytes.len() < PAGE_SIZE {
        let more = piece(&bytes);
        bytes.extend(more);
    }
    bytes[..PAGE_SIZE].try_into().unwrap()
}

pub fn page(kind: Kind, seed: u64) -> Page {
    const DICTIONARY: &[&str] = &[
        "the ", "page ", "of ", "memory ", "is ", "cold, ", "and ", "so ", "it ", "goes.\n",
    ];
    let mut random = Random(seed);
    match kind {
        Kind::Random => words(|_| random.next()),
        Kind::Zero => [0; PAGE_SIZE],
        Kind::SameFilled => {
            let word = random.next();
            words(|_| word)
        }
        Kind::Text => pieces(|_| DICTIONARY[random.below(DICTIONARY.len())].into()),
        Kind::Pointers => {
            let base = 0x7f00_0000_0000 | random.next() & 0xffff_f000;
            words(|i| match i % 4 {
                0 => base + random.next() % 0x1000 * 16,
                1 => 0,
                2 => random.next() % 100,
                _ => base + 16 * i as u64,
            })
        }
        Kind::NearlyConstant => {
            let word = random.next();
            let mut page = words(|_| word);
            for _ in 0..random.below(5) + 1 {
                page[random.below(PAGE_SIZE)] ^= 1;
            }
            page
        }
        Kind::ManySequences => pieces(|so_far| match so_far.len() {
            0..64 => random.next().to_ne_bytes().into(),
            len => {
                let at = random.below(len - 4);
                let mut piece = so_far[at..at + 4].to_vec();
                piece.push(random.next() as u8);
                piece
            }
        }),
        Kind::LengthLimits => pieces(|_| {
            let around = [15, 19, 255, 270, 274][random.below(5)] + random.below(5) - 2;
            if random.below(2) == 0 {
                vec![random.next() as u8; around]
            } else {
                (0..around).map(|_| random.next() as u8).collect()
            }
        }),
        Kind::LateRandom => words(|i| if i < 300 { 1 } else { random.next() }),
        Kind::Counters => words(|i| (i as u64) << 32 | seed & 0xff),
    }
}
