//! What pages of a program would take if `coldpress run` compressed and stored them: for an estimate, without a clock.
//!
//! ```text
//!  pages ─▶ codec, bounded by the target size ─▶ same-filled · incompressible · object of so many bytes
//!  objects ─▶ the storage itself, filled and lived in ─▶ bytes of frames for each byte of an object
//!  stored pages ─▶ tables of press-dense from some, the others encoded ─▶ what storing anew leaves of them
//! ```
//!
//! What is not here: which pages are cold, how many of them there are, and any figure of time.

use crate::dyn_codec::{Boxed, zeroed};
use crate::lived::{self, Life};
use coldpress_codec::press::Simd;
use coldpress_codec::press_dense::{DenseState, DenseTables, PressDense, TRAINING_PAGES, Trainer};
use coldpress_codec::{AnyCodec, CodecKind, Compressed, PAGE_SIZE, Page, PageCodec, SameFilled};
use coldpress_storage::StorageKind;

/// What becomes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All zeros: a marker, without storage.
    Zero,
    /// One word repeated: a marker, too.
    SameFilled,
    /// It misses the target size and stays as it is.
    Incompressible,
    /// An object of so many bytes, its header included.
    Stored(u16),
}

/// How pages are compressed and stored.
#[derive(Clone, Copy, Debug)]
pub struct Storing {
    /// The codec.
    pub codec: CodecKind,
    /// The storage.
    pub storage: StorageKind,
    /// The target size: the largest object, its header included.
    pub target_bytes: usize,
    /// Bytes of the header before each object.
    pub header_bytes: usize,
}

/// A page must become smaller by one part in so many to be stored anew (`crates/pager/src/reclaim/recode.rs`).
const GAIN_PART: usize = 8;

/// Tables are not made from fewer pages.
const LEAST_TRAINING: usize = TRAINING_PAGES / 4;

impl Storing {
    /// The most bytes that the codec may make of a page.
    fn bound(&self) -> usize {
        let bound = self.target_bytes.saturating_sub(self.header_bytes);
        bound.min(PAGE_SIZE)
    }

    /// What becomes of each page.
    pub fn fates(&self, pages: &[Page]) -> Vec<Fate> {
        let mut codec = Boxed::of(AnyCodec::of(self.codec, SameFilled::Detect));
        let mut out = [0; PAGE_SIZE];
        let fate = |page: &Page| match codec.compress(page, &mut out[..self.bound()]) {
            Compressed::SameFilled(0) => Fate::Zero,
            Compressed::SameFilled(_) => Fate::SameFilled,
            Compressed::Incompressible => Fate::Incompressible,
            Compressed::Stored(bytes) => Fate::Stored((bytes + self.header_bytes) as u16),
        };
        pages.iter().map(fate).collect()
    }

    /// Bytes of frames that the storage holds for each byte of objects like these, once such a life is over; 1 where
    /// there are none. Tables of the storage are the pager's own memory, and counted with it.
    pub fn packing(&self, fates: &[Fate], life: &Life<'_>) -> f64 {
        let lengths = fates.iter().filter_map(|fate| match fate {
            Fate::Stored(bytes) => Some(usize::from(*bytes)),
            _ => None,
        });
        let usage = lived::usage(self.storage, &lengths.collect::<Vec<_>>(), life);
        match usage.payload_bytes {
            0 => 1.0,
            payload => usage.storage_bytes as f64 / payload as f64,
        }
    }

    /// What stored pages become when they are stored anew, denser; `None` where they never are, or where there are too
    /// few of them to tell. `fates` are those of `pages`.
    pub fn anew(&self, pages: &[Page], fates: &[Fate]) -> Option<Anew> {
        if self.codec != CodecKind::Press || Simd::best() == Simd::Portable {
            return None;
        }
        let stored: Vec<(&Page, usize)> = pages
            .iter()
            .zip(fates)
            .filter_map(|(page, fate)| match fate {
                Fate::Stored(bytes) => Some((page, usize::from(*bytes))),
                _ => None,
            })
            .collect();
        let training = TRAINING_PAGES.min(stored.len() / 2);
        if training < LEAST_TRAINING {
            return None;
        }
        // Spread over all, as the pager's are; what tables are made from is not judged by them.
        let each = stored.len() / training;
        let is_trained_on = |at: usize| at.is_multiple_of(each) && at / each < training;
        let mut trainer = zeroed::<Trainer>();
        let mut state = zeroed::<DenseState>();
        for (at, (page, _)) in stored.iter().enumerate() {
            if is_trained_on(at) {
                trainer.add(&mut state, page);
            }
        }
        let mut tables = zeroed::<DenseTables>();
        trainer.finish(&mut tables);
        let dense = PressDense::new(&tables)?;
        let (mut before, mut after) = (0, 0);
        let mut out = [0; PAGE_SIZE];
        let mut lengths = Vec::with_capacity(stored.len());
        for (at, (page, bytes)) in stored.iter().enumerate() {
            if is_trained_on(at) {
                lengths.push(0);
                continue;
            }
            let denser = match dense.compress(&mut state, page, &mut out[..self.bound()]) {
                Compressed::Stored(denser) => denser + self.header_bytes,
                _ => *bytes,
            };
            let kept = if denser + bytes / GAIN_PART <= *bytes {
                denser
            } else {
                *bytes
            };
            before += bytes;
            after += kept;
            lengths.push(kept as u16);
        }
        let share = (before > 0).then(|| after as f64 / before as f64)?;
        for (at, (_, bytes)) in stored.iter().enumerate() {
            if is_trained_on(at) {
                lengths[at] = (*bytes as f64 * share) as u16;
            }
        }
        Some(Anew { share, lengths })
    }
}

/// What stored pages become when they are stored anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Anew {
    /// The share of their bytes that they keep.
    pub share: f64,
    /// Bytes of each object, of those that are [`Fate::Stored`], in their order. Those that the tables were made from are
    /// taken to become smaller as the others do.
    pub lengths: Vec<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORING: Storing = Storing {
        codec: CodecKind::Press,
        storage: StorageKind::Press,
        target_bytes: PAGE_SIZE * 70 / 100,
        header_bytes: 12,
    };

    /// Pages of words with a number behind each.
    fn text(count: usize) -> Vec<Page> {
        const WORDS: [&[u8]; 4] = [b"delivery: ", b"customer: ", b"received: ", b"position: "];
        let mut random = crate::random::Random::new(5);
        let mut page = || {
            let mut page = [b' '; PAGE_SIZE];
            for record in page.chunks_mut(16) {
                record[..10].copy_from_slice(WORDS[random.below(4)]);
                let number = format!("{:05}", random.below(100_000));
                record[10..15].copy_from_slice(number.as_bytes());
            }
            page
        };
        (0..count).map(|_| page()).collect()
    }

    fn noise(seed: u64) -> Page {
        let mut random = crate::random::Random::new(seed);
        std::array::from_fn(|_| random.next() as u8)
    }

    #[test]
    fn pages_have_the_fate_that_their_content_gives_them() {
        let mut pages = vec![[0; PAGE_SIZE], [7; PAGE_SIZE], noise(1)];
        pages.extend(text(1));
        let fates = STORING.fates(&pages);
        assert_eq!(
            fates[..3],
            [Fate::Zero, Fate::SameFilled, Fate::Incompressible]
        );
        let Fate::Stored(bytes) = fates[3] else {
            panic!("{fates:?}")
        };
        assert!((12..2867).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_storage_takes_a_little_more_than_its_objects() {
        let fates = vec![Fate::Stored(1000); 4000];
        for (storage, least, most) in [
            (StorageKind::Press, 1.0, 1.1),
            (StorageKind::TwoSlot, 1.9, 2.2),
        ] {
            let packing = Storing { storage, ..STORING }.packing(&fates, &Life::NONE);
            assert!((least..most).contains(&packing), "{storage}: {packing}");
        }
        let none = [Fate::Zero, Fate::Incompressible];
        assert_eq!(STORING.packing(&none, &Life::NONE), 1.0);
    }

    #[test]
    fn text_is_stored_denser_anew() {
        let pages = text(2000);
        let fates = STORING.fates(&pages);
        if let Some(anew) = STORING.anew(&pages, &fates) {
            assert!((0.3..1.0).contains(&anew.share), "{}", anew.share);
            let lengths: usize = anew.lengths.iter().map(|bytes| usize::from(*bytes)).sum();
            let before = fates.iter().map(|fate| match fate {
                Fate::Stored(bytes) => usize::from(*bytes),
                _ => 0,
            });
            let share = lengths as f64 / before.sum::<usize>() as f64;
            assert!((share - anew.share).abs() < 0.01, "{share}: {}", anew.share);
        }
        assert_eq!(STORING.anew(&pages[..100], &fates[..100]), None);
        let lz4 = Storing {
            codec: CodecKind::THOROUGH_LZ4,
            ..STORING
        };
        assert_eq!(lz4.anew(&pages, &lz4.fates(&pages)), None);
    }
}
