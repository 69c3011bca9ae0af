//! Promise: zstd works at every level within the memory that it is given, and reads nothing but
//! one frame of one block.
#![cfg(feature = "zstd")]

use crate::common::{KINDS, Kind, page, zeroed};
use coldpress_codec::{
    Compressed, Corrupt, PAGE_SIZE, Page, PageCodec, Zstd, ZstdScratch, ZstdState,
};

fn zstd(level: i32) -> Zstd {
    Zstd {
        level,
        detect_same_filled: false,
    }
}

fn decompress(scratch: &mut ZstdScratch, stored: &[u8]) -> Result<Page, Corrupt> {
    let mut page = [0x55; PAGE_SIZE];
    zstd(1)
        .decompress(scratch, stored, &mut page)
        .map(|()| page)
}

/// One state serves all levels in turn, and is as good as a fresh one (I3).
#[test]
fn every_level_fits_its_memory() {
    let levels = [i32::MIN, -131_072, -1000, -100].into_iter();
    let levels = levels.chain(-50..=22).chain([23, i32::MAX]);
    let mut state = zeroed::<ZstdState>();
    let mut scratch = zeroed();
    for level in levels {
        for kind in KINDS {
            let page = page(kind, 8);
            let (mut out, mut fresh) = ([0x11; PAGE_SIZE], [0x22; PAGE_SIZE]);
            let outcome = zstd(level).compress(&mut state, &page, &mut out);
            assert_eq!(
                zstd(level).compress(&mut zeroed(), &page, &mut fresh),
                outcome
            );
            if let Compressed::Stored(len) = outcome {
                assert_eq!(out[..len], fresh[..len], "{level} {kind:?}");
                assert!(decompress(&mut scratch, &out[..len]) == Ok(page));
            }
        }
    }
}

/// Contexts point into themselves: a state that was moved must be made anew.
#[test]
fn states_and_scratches_can_be_moved() {
    let mut states = vec![zeroed::<ZstdState>()];
    let mut scratches = vec![zeroed::<ZstdScratch>()];
    for round in 0..20 {
        let page = page(Kind::Text, round);
        let mut out = [0; PAGE_SIZE];
        let outcome = zstd(1).compress(states.last_mut().unwrap(), &page, &mut out);
        let Compressed::Stored(len) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(decompress(scratches.last_mut().unwrap(), &out[..len]) == Ok(page));
        // Their bytes go elsewhere, and the old place is overwritten.
        let mut elsewhere = (zeroed::<ZstdState>(), zeroed::<ZstdScratch>());
        std::mem::swap(states.last_mut().unwrap(), &mut elsewhere.0);
        std::mem::swap(scratches.last_mut().unwrap(), &mut elsewhere.1);
        states.push(elsewhere.0);
        scratches.push(elsewhere.1);
        if round % 3 == 0 {
            states.reverse();
            scratches.reverse();
        }
    }
}

/// Pages that follow each other in one state do not wear it out: libzstd counts positions on.
#[test]
fn a_state_serves_for_long() {
    let mut state = zeroed::<ZstdState>();
    let page = page(Kind::Text, 1);
    let (mut first, mut out) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
    let outcome = zstd(-7).compress(&mut state, &page, &mut first);
    for _ in 0..20_000 {
        assert_eq!(zstd(-7).compress(&mut state, &page, &mut out), outcome);
        assert!(out == first);
    }
}

#[test]
fn only_one_frame_of_one_block_is_read() {
    let mut scratch = zeroed();
    let mut out = [0; PAGE_SIZE];
    let Compressed::Stored(len) = zstd(1).compress(&mut zeroed(), &page(Kind::Text, 1), &mut out)
    else {
        panic!("text compresses");
    };
    let good = &out[..len];
    assert!(decompress(&mut scratch, good).is_ok());
    assert_eq!(good[..2], [0, 0x10]);

    let with_magic = [&[0x28, 0xb5, 0x2f, 0xfd], good].concat();
    let empty_frame_behind = [good, &[0, 0x10, 1, 0, 0]].concat();
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0], good].concat();
    let mut with_checksum = [good, &[0; 4]].concat();
    with_checksum[0] = 4;
    let mut with_dictionary = [&[1, 0x10, 7], &good[2..]].concat();
    with_dictionary.truncate(PAGE_SIZE);
    let mut not_the_last = [good, &[1, 0, 0]].concat();
    not_the_last[2] &= !1;
    for bytes in [
        with_magic,
        empty_frame_behind,
        skippable,
        with_checksum,
        with_dictionary,
        not_the_last,
    ] {
        assert_eq!(decompress(&mut scratch, &bytes), Err(Corrupt));
    }
}
