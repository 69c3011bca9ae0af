//! Promise: whatever bytes are decompressed, the outcome is `Corrupt` or a whole page that
//! depends on those bytes alone (I4); never a panic, and never a byte of an earlier page.

mod common;

use coldpress_codec::{Compressed, Corrupt, Lz4, Lz4State, PAGE_SIZE, PageCodec, checksum};
use common::{KINDS, Kind, Random, page};
use proptest::prelude::*;

fn stored(kind: Kind, seed: u64) -> Option<Vec<u8>> {
    let mut out = vec![0; PAGE_SIZE];
    let mut state = Box::new(Lz4State::new());
    let codec = Lz4 {
        acceleration: 1,
        detect_same_filled: false,
    };
    match codec.compress(&mut state, &page(kind, seed), &mut out) {
        Compressed::Stored(len) => {
            out.truncate(len);
            Some(out)
        }
        _ => None,
    }
}

/// Decompresses over two different earlier pages, between guards; both times the outcome must be
/// the same, and so must the page if there is one.
fn decompress(stored: &[u8]) -> Result<Box<[u8; PAGE_SIZE]>, Corrupt> {
    #[repr(C)]
    struct Guarded {
        front: [u8; 256],
        page: [u8; PAGE_SIZE],
        back: [u8; 256],
    }
    let run = |before: u8| {
        let mut memory = Box::new(Guarded {
            front: [0x11; 256],
            page: [before; PAGE_SIZE],
            back: [0x22; 256],
        });
        // An allocation of the exact length, for sanitizers to see reads beyond it.
        let exact: Box<[u8]> = stored.into();
        let outcome = Lz4::default().decompress(&mut (), &exact, &mut memory.page);
        assert_eq!((memory.front, memory.back), ([0x11; 256], [0x22; 256]));
        outcome.map(|()| Box::new(memory.page))
    };
    let (first, second) = (run(0x5a), run(0xc3));
    assert!(first == second, "I4: bytes of an earlier page");
    first
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn truncated(kind in prop::sample::select(KINDS.to_vec()), seed: u64, cut in 1..PAGE_SIZE) {
        if let Some(bytes) = stored(kind, seed) {
            let shorter = &bytes[..bytes.len() - 1 - cut % bytes.len()];
            prop_assert_eq!(decompress(shorter), Err(Corrupt));
        }
    }

    #[test]
    fn extended(kind in prop::sample::select(KINDS.to_vec()), seed: u64, more in 1..64_usize) {
        if let Some(mut bytes) = stored(kind, seed) {
            bytes.extend((0..more).map(|i| i as u8));
            prop_assert_eq!(decompress(&bytes), Err(Corrupt));
        }
    }

    #[test]
    fn flipped(kind in prop::sample::select(KINDS.to_vec()), seed: u64, flips in 1..8_usize) {
        if let Some(mut bytes) = stored(kind, seed) {
            let mut random = Random(seed);
            for _ in 0..flips {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            let before = page(kind, seed);
            if let Ok(restored) = decompress(&bytes) && *restored != before {
                prop_assert_ne!(checksum(&restored), checksum(&before), "for the engine to see");
            }
        }
    }

    #[test]
    fn garbage(bytes in prop::collection::vec(any::<u8>(), 0..2 * PAGE_SIZE)) {
        let _ = decompress(&bytes);
    }

    /// Bytes that are likely to be a valid block with invalid distances, zero among them.
    #[test]
    fn nearly_a_block(seed: u64, sequences in 1..40_usize) {
        let mut random = Random(seed);
        let mut bytes = Vec::new();
        for _ in 0..sequences {
            let literals = random.below(15);
            bytes.push((literals << 4 | random.below(16)) as u8);
            bytes.extend((0..literals).map(|_| random.next() as u8));
            bytes.extend([[0, 0], [1, 0], [7, 0], [0, 16], [255, 255]][random.below(5)]);
            if bytes.last() == Some(&0) && random.below(2) == 0 {
                bytes.extend([255; 16]);
            }
        }
        let _ = decompress(&bytes);
    }
}

/// LZ4 has no distance 0. A decoder that took it for "copy from here" would hand out what the
/// page held before.
#[test]
fn distance_zero_never_shows_earlier_bytes() {
    for match_nibble in 0..16 {
        for literals in [0, 1, 8, 12] {
            let mut block = vec![(literals << 4 | match_nibble) as u8];
            block.extend(vec![7; literals]);
            block.extend([0, 0]);
            let mut match_bytes = match_nibble + 4;
            if match_nibble == 15 {
                block.extend([255; 15]);
                block.push(200);
                match_bytes += 15 * 255 + 200;
            }
            // Literals up to the end of the page make the length right.
            let rest = PAGE_SIZE - literals - match_bytes;
            match rest {
                0..15 => block.push((rest << 4) as u8),
                _ => {
                    block.push(0xf0);
                    block.extend(vec![255; (rest - 15) / 255]);
                    block.push(((rest - 15) % 255) as u8);
                }
            }
            block.extend(vec![9; rest]);
            let _ = decompress(&block);
        }
    }
}

/// A block of literals only.
fn literals(len: usize) -> Vec<u8> {
    let mut block = match len {
        0..15 => vec![(len << 4) as u8],
        _ => [
            vec![0xf0],
            vec![255; (len - 15) / 255],
            vec![((len - 15) % 255) as u8],
        ]
        .concat(),
    };
    block.extend(vec![1; len]);
    block
}

#[test]
fn a_block_of_another_length_is_corrupt() {
    for len in [0, 1, 14, 15, PAGE_SIZE - 18, PAGE_SIZE - 1, PAGE_SIZE + 1] {
        assert_eq!(decompress(&literals(len)), Err(Corrupt), "{len}");
    }
    assert_eq!(decompress(&[]), Err(Corrupt));
}

/// No page is ever stored in more than a page (I2), so such a block is none of ours, even if it
/// would decode.
#[test]
fn a_block_larger_than_a_page_is_corrupt() {
    assert_eq!(decompress(&literals(PAGE_SIZE)), Err(Corrupt));
    assert_eq!(decompress(&[0; PAGE_SIZE + 1]), Err(Corrupt));
}
