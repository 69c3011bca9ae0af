//! Promise: WKdm's format is the one that its documentation describes: a decoder written from
//! that alone, one word at a time, reads it.

use crate::common::{KINDS, config, page};
use coldpress_codec::{Compressed, Corrupt, PAGE_SIZE, Page, PageCodec, Wkdm, WkdmSections};
use proptest::prelude::*;

const WKDM: Wkdm = Wkdm {
    detect_same_filled: false,
};

fn compress(page: &Page) -> Option<Vec<u8>> {
    let mut out = vec![0x99; PAGE_SIZE];
    match WKDM.compress(&mut WkdmSections::new(), page, &mut out) {
        Compressed::Stored(len) => {
            out.truncate(len);
            Some(out)
        }
        _ => None,
    }
}

fn decompress(stored: &[u8]) -> Result<Page, Corrupt> {
    let mut page = [0x55; PAGE_SIZE];
    WKDM.decompress(&mut WkdmSections::new(), stored, &mut page)
        .map(|()| page)
}

fn by_the_book(stored: &[u8]) -> Vec<u8> {
    let tags: Vec<u8> = stored[..256]
        .iter()
        .flat_map(|byte| [0, 2, 4, 6].map(|shift| byte >> shift & 3))
        .collect();
    let count = |wanted: &[u8]| tags.iter().filter(|tag| wanted.contains(tag)).count();
    let (misses, partial, places) = (count(&[2]), count(&[1]), count(&[1, 3]));
    let places_at = 256 + 4 * misses;
    let low_bits_at = places_at + places.div_ceil(2);
    assert_eq!(stored.len(), low_bits_at + 4 * partial.div_ceil(3));
    let word_at = |at: usize| u32::from_le_bytes(stored[at..at + 4].try_into().unwrap());

    let (mut miss, mut place, mut low) = (0, 0, 0);
    let mut dictionary = [0_u32; 16];
    let mut page = Vec::new();
    for tag in tags {
        let mut next_place = || {
            let byte = stored[places_at + place / 2];
            place += 1;
            usize::from(if place % 2 == 1 { byte & 15 } else { byte >> 4 })
        };
        let word = match tag {
            0 => 0,
            1 => {
                let place = next_place();
                let bits = word_at(low_bits_at + low / 3 * 4) >> (10 * (low % 3)) & 1023;
                low += 1;
                dictionary[place] = dictionary[place] & !1023 | bits;
                dictionary[place]
            }
            2 => {
                let word = word_at(256 + 4 * miss);
                miss += 1;
                dictionary[((word >> 10).wrapping_mul(2_654_435_761) >> 28) as usize] = word;
                word
            }
            _ => dictionary[next_place()],
        };
        page.extend(word.to_le_bytes());
    }
    page
}

proptest! {
    #![proptest_config(config(600))]
    #[test]
    fn is_as_documented(kind in prop::sample::select(KINDS.to_vec()), seed: u64) {
        let page = page(kind, seed);
        if let Some(stored) = compress(&page) {
            prop_assert!(by_the_book(&stored) == page);
        }
    }
}

/// Words by hand: a miss, the same word, one that differs in its low bits, zero.
#[test]
fn an_example() {
    let mut page = [0; PAGE_SIZE];
    for (i, word) in [0x1234_5678_u32, 0x1234_5678, 0x1234_5679]
        .iter()
        .enumerate()
    {
        page[4 * i..][..4].copy_from_slice(&word.to_le_bytes());
    }
    let place = ((0x1234_5678_u32 >> 10).wrapping_mul(2_654_435_761) >> 28) as u8;
    let mut expected = vec![0; 256];
    expected[0] = 0b00_01_11_10;
    expected.extend(0x1234_5678_u32.to_le_bytes());
    expected.push(place | place << 4);
    expected.extend(0x279_u32.to_le_bytes());
    assert_eq!(compress(&page), Some(expected));
}

#[test]
fn bits_that_no_item_takes_must_be_zero() {
    let mut page = [0; PAGE_SIZE];
    page[..4].copy_from_slice(&0x1234_5678_u32.to_le_bytes());
    page[4..8].copy_from_slice(&0x1234_5679_u32.to_le_bytes());
    let stored = compress(&page).unwrap();
    assert!(decompress(&stored) == Ok(page));
    // One place, then one of three low bits: the upper nibble and the upper 22 bits are unused.
    let at = 8 * 260;
    for bit in (at + 4..at + 8).chain(at + 8 + 10..at + 8 + 32) {
        let mut damaged = stored.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decompress(&damaged), Err(Corrupt), "bit {bit}");
    }
}
