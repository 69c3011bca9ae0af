//! Recompression on demand: what is stored is stored anew by press-dense, which is denser, and slower to decode.
//!
//! ```text
//!   sample ─▶ train tables (once in the life of a disk) ─▶ go through all that is stored: decode, encode, compare, replace
//! ```
//!
//! Everybody else goes on meanwhile ([`Engine::recode`](coldpress_engine::Engine::recode)). It is done by the thread that
//! asks, one at a time; what is stored later is stored as before, until it is asked again.

use crate::mapping::Mapping;
use crate::shared::Shared;
use coldpress_arena::Zeroable;
use coldpress_codec::press::Simd;
use coldpress_codec::press_dense::{DenseTables, PressDense, TRAINING_PAGES, Trainer};
use coldpress_codec::{AnyCodec, CodecKind};
use coldpress_engine::{Recoded, Recoder, RecoderRoom, Search};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Entries that are looked at in a step.
const ENTRIES: u32 = 4096;

/// Tables, which take 120 KiB, are not made from fewer pages.
const LEAST_SAMPLE: usize = TRAINING_PAGES / 4;

/// A page must become smaller by one part in so many: it takes three times as long to decode then.
const GAIN_PART: usize = 8;

/// How a recompression ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recompressed {
    /// All that is stored was looked at.
    Done {
        /// Pages that are stored denser now.
        pages: u64,
        /// Bytes by which they are smaller.
        saved_bytes: u64,
    },
    /// The codec has no denser form: only press has.
    OfOtherCodec(CodecKind),
    /// The processor has no vectors that would make it quick enough.
    NoVectors,
    /// So little is stored that tables would take more than they save.
    TooLittle,
    /// There is no memory to work with.
    NoMemory,
}

impl fmt::Display for Recompressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { pages, saved_bytes } => {
                write!(f, "{pages} pages are stored in {saved_bytes} bytes fewer")
            }
            Self::OfOtherCodec(kind) => {
                write!(
                    f,
                    "pages of the codec {kind} have no denser form: it takes codec press"
                )
            }
            Self::NoVectors => f.write_str("this processor has no AVX2, which it takes"),
            Self::TooLittle => f.write_str("too little is stored to learn from"),
            Self::NoMemory => f.write_str("there is no memory to work with"),
        }
    }
}

type DenseRecoder = Recoder<AnyCodec, PressDense<'static>>;

impl Shared {
    /// Stores all that is stored anew.
    pub(crate) fn recompress(&self) -> Recompressed {
        let kind = self.engine().codec().kind();
        if kind != CodecKind::Press {
            return Recompressed::OfOtherCodec(kind);
        }
        if Simd::best() == Simd::Portable {
            return Recompressed::NoVectors;
        }
        let mut made = self.tables.made.lock();
        let room = Mapping::new(size_of::<RecoderRoom<AnyCodec, PressDense<'static>>>());
        let Some(room) = room else {
            return Recompressed::NoMemory;
        };
        // SAFETY: zeroed memory is a room; the recoder that refers to it is dropped before `room`.
        let mut recoder = DenseRecoder::new(unsafe { zeroed(&room) });
        if made.is_none() {
            match self.learn(&mut recoder) {
                Ok(tables) => *made = Some(tables),
                Err(why) => return why,
            }
        }
        self.recode_all(&mut recoder)
    }

    /// Makes the tables from a sample of what is stored.
    fn learn(&self, recoder: &mut DenseRecoder) -> Result<Mapping, Recompressed> {
        let map = |bytes| Mapping::new(bytes).ok_or(Recompressed::NoMemory);
        let (memory, tables_memory) = (map(size_of::<Trainer>())?, map(size_of::<DenseTables>())?);
        // SAFETY: zeroed memory is a trainer, and is dropped at the end of this function, where the trainer is.
        let trainer: &mut Trainer = unsafe { zeroed(&memory) };
        let stored = self.engine().counters().compressed_pages.load(Relaxed);
        let skip = stored / (2 * TRAINING_PAGES as u64);
        recoder.begin();
        while trainer.pages() < TRAINING_PAGES {
            match self.find(recoder) {
                Search::Found => {
                    let (page, state) = recoder.sample();
                    trainer.add(state, page);
                    recoder.skip(skip as u32);
                }
                Search::Unfinished => {}
                Search::PassEnded => break,
            }
        }
        if trainer.pages() < LEAST_SAMPLE {
            return Err(Recompressed::TooLittle);
        }
        // SAFETY: zeroed memory is a table; it is kept as long as the codec, which is dropped before `self.tables`.
        let tables: &'static mut DenseTables = unsafe { zeroed(&tables_memory) };
        while !trainer.finish_step(tables) {}
        self.engine().codec().set_tables(tables);
        Ok(tables_memory)
    }

    fn find(&self, recoder: &mut DenseRecoder) -> Search {
        self.engine()
            .find_stored(&self.machine, recoder, 0..u32::MAX, ENTRIES)
    }

    fn recode_all(&self, recoder: &mut DenseRecoder) -> Recompressed {
        let dense = self.engine().codec().tables().and_then(PressDense::new);
        let Some(dense) = dense else {
            return Recompressed::TooLittle;
        };
        let (mut pages, mut saved_bytes) = (0, 0);
        recoder.begin();
        loop {
            match self.find(recoder) {
                Search::Found => {
                    let recoded = self
                        .engine()
                        .recode(&self.machine, recoder, &dense, GAIN_PART);
                    if let Recoded::Kept(saved) = recoded {
                        pages += 1;
                        saved_bytes += saved as u64;
                    }
                }
                Search::Unfinished => {}
                Search::PassEnded => break,
            }
        }
        self.wake_up.ring();
        Recompressed::Done { pages, saved_bytes }
    }
}

/// The value in memory that was just mapped for it.
///
/// # Safety
/// The mapping is as large, this is called once for it, and the reference is used no longer than the mapping lives.
unsafe fn zeroed<T: Zeroable>(memory: &Mapping) -> &'static mut T {
    const { assert!(align_of::<T>() <= 4096) };
    // SAFETY: zeros are valid (`Zeroable`), a mapping is aligned to a page, and the rest is the caller's promise.
    unsafe { memory.start().cast::<T>().as_mut() }
}
