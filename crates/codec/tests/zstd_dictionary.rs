//! Promise: a page that was made with a dictionary names it, is decoded with that one alone, and is told from pages of the
//! codecs that it may stand beside.
#![cfg(feature = "zstd")]

use crate::common::fenced::Zeros;
use crate::common::{KINDS, Kind, dictionary_content, page, zeroed};
use coldpress_codec::press::Press;
use coldpress_codec::zstd_dictionary::{Dictionary, DictionaryState, ZstdDictionary, number};
use coldpress_codec::{Compressed, Corrupt, PAGE_SIZE, Page, PageCodec, Zstd};

fn dictionary(number: u8, content: &[u8]) -> Box<Dictionary> {
    let mut dictionary: Box<Dictionary> = zeroed();
    dictionary.room()[..content.len()].copy_from_slice(content);
    assert!(dictionary.make(number, content.len()));
    dictionary
}

fn stored(codec: &impl PageCodec, page: &Page) -> Option<Vec<u8>> {
    let mut out = [0; PAGE_SIZE];
    match stored_into(codec, page, &mut out) {
        Compressed::Stored(len) => Some(out[..len].to_vec()),
        _ => None,
    }
}

fn stored_into<C: PageCodec>(codec: &C, page: &Page, out: &mut [u8]) -> Compressed {
    codec.compress(Zeros::<C::State>::new().get(), page, out)
}

fn decompress(codec: &ZstdDictionary, stored: &[u8]) -> Result<Page, Corrupt> {
    let mut page = [0x55; PAGE_SIZE];
    codec
        .decompress(&mut zeroed(), stored, &mut page)
        .map(|()| page)
}

/// One state serves all levels and dictionaries in turn, and is as good as a fresh one (I3).
#[test]
fn every_level_fits_its_memory() {
    let content = dictionary_content();
    let dictionaries = [dictionary(0, &content), dictionary(63, &content)];
    let mut state = Zeros::<DictionaryState>::new();
    for level in 1..=22 {
        for dictionary in &dictionaries {
            let codec = ZstdDictionary::new(dictionary, level).unwrap();
            for kind in KINDS {
                let page = page(kind, 8);
                let (mut out, mut fresh) = ([0x11; PAGE_SIZE], [0x22; PAGE_SIZE]);
                let outcome = codec.compress(state.get(), &page, &mut out);
                assert_eq!(stored_into(&codec, &page, &mut fresh), outcome);
                if let Compressed::Stored(len) = outcome {
                    assert_eq!(out[..len], fresh[..len], "{level} {kind:?}");
                    assert_eq!(number(&out[..len]), Some(dictionary.number()));
                    assert!(decompress(&codec, &out[..len]) == Ok(page));
                }
            }
        }
    }
}

#[test]
fn the_longest_dictionary_fits_its_memory() {
    // What a dictionary says first of entropy codes stays; its content grows behind.
    let mut content = dictionary_content();
    let more = (0u64..).flat_map(|seed| page(Kind::Text, seed));
    content.extend(more.take((1 << 20) - content.len()));
    let dictionary = dictionary(1, &content);
    let page = page(Kind::Text, 3);
    for level in [1, 9, 16, 22] {
        let codec = ZstdDictionary::new(&dictionary, level).unwrap();
        let stored = stored(&codec, &page).unwrap();
        assert!(decompress(&codec, &stored) == Ok(page));
    }
}

/// Tables once had room for the last 512 KiB of a dictionary of 900: pages like those before gained nothing.
#[test]
fn all_of_a_dictionary_is_found() {
    let mut content = dictionary_content();
    let begin = content.len();
    let more = (0u64..).flat_map(|seed| page(Kind::Random, seed));
    content.extend(more.take(900_000 - begin));
    let dictionary = dictionary(1, &content);
    for level in [9, 13, 16, 19] {
        let codec = ZstdDictionary::new(&dictionary, level).unwrap();
        let mut state = Zeros::<DictionaryState>::new();
        for at in (begin..content.len() - PAGE_SIZE).step_by(50_000) {
            let page: &Page = content[at..].first_chunk().unwrap();
            let outcome = codec.compress(state.get(), page, &mut [0; 64]);
            assert!(
                matches!(outcome, Compressed::Stored(_)),
                "level {level}, {at}: {outcome:?}"
            );
        }
    }
}

#[test]
fn pages_of_other_codecs_name_no_dictionary() {
    for kind in KINDS {
        for seed in 0..50 {
            let page = page(kind, seed);
            for other in [
                stored(&Press::new(), &page),
                stored(&Zstd::default(), &page),
            ] {
                assert_eq!(other.and_then(|stored| number(&stored)), None);
            }
        }
    }
}

#[test]
fn another_dictionary_is_not_taken() {
    let content = dictionary_content();
    let (one, two) = (dictionary(1, &content), dictionary(2, &content));
    let (one, two) = (ZstdDictionary::new(&one, 3), ZstdDictionary::new(&two, 3));
    let page = page(Kind::Text, 1);
    let made = stored(&one.unwrap(), &page).unwrap();
    assert!(one.unwrap().has_made(&made) && !two.unwrap().has_made(&made));
    assert_eq!(decompress(&two.unwrap(), &made), Err(Corrupt));
    assert_eq!(decompress(&one.unwrap(), &[]), Err(Corrupt));
    assert_eq!(decompress(&one.unwrap(), &made[..1]), Err(Corrupt));
}

#[test]
fn what_is_no_dictionary_is_refused_and_damage_is_seen() {
    let mut none: Box<Dictionary> = zeroed();
    assert!(ZstdDictionary::new(&none, 3).is_none() && !none.is_intact());
    assert!(!none.make(0, 4096), "zeros");
    let content = dictionary_content();
    none.room()[..content.len()].copy_from_slice(&content);
    assert!(
        !none.make(0, content.len() + (1 << 20)),
        "longer than there is room"
    );
    assert!(none.make(0, content.len()) && none.is_intact());
    assert_eq!(none.content(), content);
    // One that was moved is none.
    let moved = Box::new(std::mem::replace(&mut *none, *zeroed()));
    assert!(ZstdDictionary::new(&moved, 3).is_none() && !moved.is_intact());
}
