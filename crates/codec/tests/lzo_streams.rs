//! Promise: our LZO and another, lzokay, read what either writes.

use crate::common::{KINDS, Random, config, page};
use coldpress_codec::{Compressed, Lzo, PAGE_SIZE, Page, PageCodec, lz4_rust};
use proptest::prelude::*;

const LZO: Lzo = Lzo {
    detect_same_filled: false,
};

fn by_ours(page: &Page) -> Option<Vec<u8>> {
    let mut out = vec![0x99; PAGE_SIZE];
    match LZO.compress(&mut lz4_rust::Table::new(), page, &mut out) {
        Compressed::Stored(len) => {
            out.truncate(len);
            Some(out)
        }
        _ => None,
    }
}

/// `None` if it takes more than a page; and under Miri, for which half a MiB of tables a page is
/// too much.
fn by_lzokay(page: &Page) -> Option<Vec<u8>> {
    if cfg!(miri) {
        return None;
    }
    let bytes = lzokay::compress::compress(page).unwrap();
    (bytes.len() <= PAGE_SIZE).then_some(bytes)
}

fn ours(bytes: &[u8], before: u8) -> Option<Page> {
    let mut restored = [before; PAGE_SIZE];
    LZO.decompress(&mut (), bytes, &mut restored).ok()?;
    Some(restored)
}

fn lzokay(bytes: &[u8]) -> Option<Page> {
    let mut restored = [0; PAGE_SIZE];
    let len = lzokay::decompress::decompress(bytes, &mut restored).ok()?;
    (len == PAGE_SIZE).then_some(restored)
}

proptest! {
    #![proptest_config(config(400))]
    #[test]
    fn each_reads_what_the_other_writes(
        kind in prop::sample::select(KINDS.to_vec()),
        seed: u64,
    ) {
        let page = page(kind, seed);
        if let Some(bytes) = by_ours(&page) {
            prop_assert!(ours(&bytes, 0x11) == Some(page), "ours by ours");
            prop_assert!(lzokay(&bytes) == Some(page), "ours by lzokay");
        }
        if let Some(bytes) = by_lzokay(&page) {
            prop_assert!(lzokay(&bytes) == Some(page), "lzokay's by itself");
            prop_assert!(ours(&bytes, 0x11) == Some(page), "lzokay's by ours");
        }
    }

    /// On damaged bytes both see the same page, or neither sees one.
    #[test]
    fn both_see_the_same_in_damaged_bytes(
        kind in prop::sample::select(KINDS.to_vec()),
        seed: u64,
        flips in 1..4_usize,
        theirs: bool,
    ) {
        let page = page(kind, seed);
        let bytes = match theirs {
            true => by_lzokay(&page),
            false => by_ours(&page),
        };
        if let Some(mut bytes) = bytes {
            let mut random = Random(seed);
            for _ in 0..flips {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            prop_assert!(ours(&bytes, 0x11) == lzokay(&bytes));
        }
    }
}
