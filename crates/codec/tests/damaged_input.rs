//! Promise: whatever bytes are decompressed, the outcome is `Corrupt` or a whole page that
//! depends on those bytes alone (I4); never a panic, and never a byte of an earlier page.

use crate::common::codecs::{Subject, Worker, codecs};
use crate::common::fenced::{At, ENDS, Fenced};
use crate::common::{KINDS, Kind, Random, config, page};
use coldpress_codec::{Compressed, Corrupt, PAGE_SIZE, Page, checksum};
use proptest::prelude::*;

/// The bytes that a codec stores for the page, if it does.
fn stored(worker: &mut dyn Worker, page: &Page) -> Option<Vec<u8>> {
    let mut out = vec![0; PAGE_SIZE];
    match worker.compress(page, &mut out) {
        Compressed::Stored(len) => {
            out.truncate(len);
            Some(out)
        }
        _ => None,
    }
}

/// Decompresses over two different earlier pages, between fences, with a worker that has seen
/// other bytes, and with a fresh one. Each time the outcome must be the same, and so must the page if
/// there is one. Under Miri, which has fences at both ends at once, one less.
fn decompress(
    subject: &Subject,
    worker: &mut dyn Worker,
    stored: &[u8],
) -> Result<Box<Page>, Corrupt> {
    let run = |worker: &mut dyn Worker, before: u8, at: At| {
        let mut source = Fenced::new(stored.len());
        let source = source.bytes(stored.len(), at);
        source.copy_from_slice(stored);
        let mut target = Fenced::new(PAGE_SIZE);
        let target = target.bytes(PAGE_SIZE, at);
        target.fill(before);
        let target: &mut Page = target.try_into().unwrap();
        worker
            .decompress(source, target)
            .map(|()| Box::new(*target))
    };
    let first = run(&mut *subject.worker(), 0x00, At::Back);
    let again = &ENDS[..if cfg!(miri) { 1 } else { 2 }];
    for at in again {
        let before = if *at == At::Front { 0x5a } else { 0xc3 };
        let same = first == run(worker, before, *at);
        assert!(same, "I4: {} shows what was before", subject.name);
    }
    first
}

/// Every codec. Under Miri once: to decompress, it is all the same what it tells.
fn subjects() -> impl Iterator<Item = Subject> {
    let all = codecs().into_iter();
    all.filter(|subject| !cfg!(miri) || !subject.tells_same_filled)
}

/// Runs `check` on every codec's bytes for the page.
fn with_stored(page: &Page, mut check: impl FnMut(&Subject, &mut dyn Worker, Vec<u8>)) {
    for subject in codecs().iter().filter(|subject| !subject.tells_same_filled) {
        let mut worker = subject.worker();
        if let Some(bytes) = stored(&mut *worker, page) {
            check(subject, &mut *worker, bytes);
        }
    }
}

/// Each byte is a strategy to proptest, which Miri takes long for.
const GARBAGE: usize = if cfg!(miri) { 200 } else { 2 * PAGE_SIZE };

proptest! {
    #![proptest_config(config(100))]
    #[test]
    fn truncated(kind in prop::sample::select(KINDS.to_vec()), seed: u64, cut in 1..PAGE_SIZE) {
        with_stored(&page(kind, seed), |subject, worker, bytes| {
            let shorter = &bytes[..bytes.len() - 1 - cut % bytes.len()];
            assert_eq!(decompress(subject, worker, shorter), Err(Corrupt), "{}", subject.name);
        });
    }

    #[test]
    fn extended(kind in prop::sample::select(KINDS.to_vec()), seed: u64, more in 1..64_usize) {
        with_stored(&page(kind, seed), |subject, worker, mut bytes| {
            bytes.extend((0..more).map(|i| i as u8));
            assert_eq!(decompress(subject, worker, &bytes), Err(Corrupt), "{}", subject.name);
        });
    }

    #[test]
    fn flipped(kind in prop::sample::select(KINDS.to_vec()), seed: u64, flips in 1..8_usize) {
        let before = page(kind, seed);
        with_stored(&before, |subject, worker, mut bytes| {
            let mut random = Random(seed);
            for _ in 0..flips {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            if let Ok(restored) = decompress(subject, worker, &bytes) && *restored != before {
                assert_ne!(checksum(&restored), checksum(&before), "for the engine to see");
            }
        });
    }

    /// The beginning of one page's bytes, and the end of another's.
    #[test]
    fn spliced(
        kind in prop::sample::select(KINDS.to_vec()),
        seed: u64,
        at in 0..PAGE_SIZE,
    ) {
        let behind = page(Kind::ManySequences, seed);
        with_stored(&page(kind, seed), |subject, worker, mut bytes| {
            if let Some(other) = stored(worker, &behind) {
                bytes.truncate(at % bytes.len());
                bytes.extend(&other[at % other.len()..]);
                let _ = decompress(subject, worker, &bytes);
            }
        });
    }

    #[test]
    fn garbage(bytes in prop::collection::vec(any::<u8>(), 0..GARBAGE)) {
        for subject in subjects() {
            let mut worker = subject.worker();
            let outcome = decompress(&subject, &mut *worker, &bytes);
            // No page is stored in more bytes than it has (I2): such bytes are none of ours.
            assert!(bytes.len() <= PAGE_SIZE || outcome.is_err(), "{}", subject.name);
        }
    }

    /// Bytes that are likely to be valid: few values, many of them small or all ones.
    #[test]
    fn likely(seed: u64, len in 0..600_usize) {
        let mut random = Random(seed);
        let few = [0, 0, 1, 0x11, 0x20, 0xff, random.next() as u8, random.next() as u8];
        let bytes: Vec<u8> = (0..len).map(|_| few[random.below(few.len())]).collect();
        for subject in subjects() {
            let _ = decompress(&subject, &mut *subject.worker(), &bytes);
        }
    }
}

/// Each single bit of what is stored for a page, flipped.
#[test]
fn every_bit_flipped() {
    let mut page = page(Kind::Pointers, 11);
    page[1500..].fill(3);
    with_stored(&page, |subject, worker, mut bytes| {
        let step = if cfg!(miri) { 7993 } else { 1 };
        for bit in (0..8 * bytes.len()).step_by(step) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = decompress(subject, worker, &bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(*decompress(subject, worker, &bytes).unwrap() == page);
    });
}

#[test]
fn nothing_is_corrupt() {
    for subject in subjects() {
        assert_eq!(
            decompress(&subject, &mut *subject.worker(), &[]),
            Err(Corrupt)
        );
    }
}
