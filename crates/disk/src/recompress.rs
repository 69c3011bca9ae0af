//! Recompression on demand: what is stored is stored anew by zstd with a dictionary, which is denser, and slower to
//! decode.
//!
//! ```text
//!   sample ─▶ train a dictionary ─▶ go through all that is stored: decode, encode, compare, replace
//! ```
//!
//! Everybody else goes on meanwhile ([`Engine::recode`](coldpress_engine::Engine::recode)). It is done by the thread that
//! asks, one at a time; what is stored later is stored as before, until it is asked again. What was freed lies between
//! what stays, in holes of all frames: so storage is compacted at the end.
//!
//! A dictionary is made from the disk's own pages at the first time, and again where more was written since than the
//! disk holds: then what was recompressed before is recompressed by the new one, where that is worth it. Those
//! before are kept, for the pages that are left. After [`MOST_DICTIONARIES`] the last one stays.

use crate::codec::{DiskCodec, MOST_DICTIONARIES};
use crate::dictionaries::Made;
use crate::mapping::Mapping;
use crate::shared::Shared;
use crate::training::{LEAST_SAMPLE, TRAINING_PAGES, train};
use coldpress_arena::Zeroable;
use coldpress_codec::zstd_dictionary::{Dictionary, MOST_DICTIONARY_BYTES, ZstdDictionary};
use coldpress_codec::{CodecKind, PAGE_SIZE};
use coldpress_engine::{Recoded, Recoder, RecoderRoom, Search};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Entries that are looked at in a step.
const ENTRIES: u32 = 4096;

/// A page must become smaller by one part in so many: it takes some times as long to decode then.
const GAIN_PART: usize = 32;

/// Bytes of a dictionary at most, and bytes of stored pages for which there is one of them. It gains a tenth of what is
/// stored, and must cost less.
const DICTIONARY_BYTES: usize = MOST_DICTIONARY_BYTES;
const PAGES_BYTES_FOR_ONE: usize = 256;

/// The level of zstd, the lowest that parses optimally: 4 to 6 % less than 9, for some four times as long. 19 takes three
/// times as long again, for 2 % less.
const LEVEL: i32 = 16;

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
    /// The codec has no denser form: only press and zstd have.
    OfOtherCodec(CodecKind),
    /// So little is stored that a dictionary would take more than it saves.
    TooLittle,
    /// There is no memory to work with.
    NoMemory,
    /// The dictionary in memory is not what it was.
    Damaged,
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
                    "pages of the codec {kind} have no denser form: it takes codec press or zstd"
                )
            }
            Self::TooLittle => f.write_str("too little is stored to learn from"),
            Self::NoMemory => f.write_str("there is no memory to work with"),
            Self::Damaged => f.write_str(
                "the dictionary in memory is damaged: pages made with it fail when they are read",
            ),
        }
    }
}

type DenseRecoder = Recoder<DiskCodec, ZstdDictionary<'static>>;

impl Shared {
    /// Stores all that is stored anew.
    pub(crate) fn recompress(&self) -> Recompressed {
        let codec = self.engine().codec();
        if !codec.has_dictionaries() {
            return Recompressed::OfOtherCodec(codec.kind());
        }
        let mut made = self.dictionaries.made.lock();
        // Compression looks up at random in tables of some megabytes, a hundred thousand times for a page.
        let bytes = size_of::<RecoderRoom<DiskCodec, ZstdDictionary<'static>>>();
        let room = Mapping::of_large_pages(bytes);
        let Some(room) = room else {
            return Recompressed::NoMemory;
        };
        // SAFETY: zeroed memory is a room; the recoder that refers to it is dropped before `room`.
        let mut recoder = DenseRecoder::new(unsafe { zeroed(&room) });
        if self.is_due(&made)
            && let Err(why) = self.learn(&mut recoder, &mut made)
        {
            return why;
        }
        self.count_tables();
        let newest = (made.memory.len() as u8).checked_sub(1);
        let dictionary = newest.and_then(|newest| codec.dictionary(newest));
        match dictionary {
            Some(dictionary) if !dictionary.is_intact() => Recompressed::Damaged,
            Some(dictionary) => self.recode_all(&mut recoder, dictionary),
            None => Recompressed::TooLittle,
        }
    }

    /// Pages that were compressed, ever.
    fn compressed_ever(&self) -> u64 {
        self.engine().counters().compression_attempts.load(Relaxed)
    }

    /// Whether a dictionary is to be made.
    fn is_due(&self, made: &Made) -> bool {
        let stored = self.engine().counters().compressed_pages.load(Relaxed);
        let since = self.compressed_ever() - made.compressed_before;
        match made.memory.len() {
            0 => true,
            MOST_DICTIONARIES.. => false,
            _ => since > stored.max(LEAST_SAMPLE as u64),
        }
    }

    /// Makes a dictionary from a sample of what is stored.
    fn learn(&self, recoder: &mut DenseRecoder, made: &mut Made) -> Result<(), Recompressed> {
        let map = |bytes| Mapping::new(bytes).ok_or(Recompressed::NoMemory);
        let samples_memory = map(TRAINING_PAGES * PAGE_SIZE)?;
        // SAFETY: as large, zero, ours alone, and it outlives the reference.
        let samples = unsafe {
            let start = samples_memory.start().as_ptr();
            std::slice::from_raw_parts_mut(start, TRAINING_PAGES * PAGE_SIZE)
        };
        let sampled_bytes = self.sample(recoder, samples);
        if sampled_bytes < LEAST_SAMPLE * PAGE_SIZE {
            return Err(Recompressed::TooLittle);
        }
        let memory = map(size_of::<Dictionary>())?;
        // SAFETY: zeroed memory is a dictionary that is not made; it is kept as long as the codec, which is dropped before
        // `self.dictionaries`.
        let dictionary: &'static mut Dictionary = unsafe { zeroed(&memory) };
        let stored = self.engine().counters().compressed_pages.load(Relaxed) as usize;
        let most_bytes = DICTIONARY_BYTES.min(stored * PAGE_SIZE / PAGES_BYTES_FOR_ONE);
        let room = &mut dictionary.room()[..most_bytes];
        let length = train(&samples[..sampled_bytes], LEVEL, room);
        let length = length.ok_or(Recompressed::TooLittle)?;
        if !dictionary.make(made.memory.len() as u8, length) {
            return Err(Recompressed::TooLittle);
        }
        let bytes = dictionary.bytes() as u64;
        // SAFETY: nobody changes it from now on, and it stays, as above.
        unsafe { self.engine().codec().add(dictionary) };
        self.dictionaries.add_bytes(bytes);
        made.memory.push(memory);
        made.compressed_before = self.compressed_ever();
        Ok(())
    }

    /// Copies stored pages from everywhere into `samples`, and says how many bytes.
    fn sample(&self, recoder: &mut DenseRecoder, samples: &mut [u8]) -> usize {
        let stored = self.engine().counters().compressed_pages.load(Relaxed);
        let skip = stored.saturating_sub(1) / TRAINING_PAGES as u64;
        recoder.begin();
        let mut pages = samples.chunks_exact_mut(PAGE_SIZE);
        let mut sampled = 0;
        loop {
            match self.find(recoder) {
                Search::Found => {
                    let Some(into) = pages.next() else { break };
                    into.copy_from_slice(recoder.sample().0);
                    sampled += PAGE_SIZE;
                    recoder.skip(skip as u32);
                }
                Search::Unfinished => {}
                Search::PassEnded => break,
            }
        }
        sampled
    }

    fn find(&self, recoder: &mut DenseRecoder) -> Search {
        self.engine()
            .find_stored(&self.machine, recoder, 0..u32::MAX, ENTRIES)
    }

    fn recode_all(
        &self,
        recoder: &mut DenseRecoder,
        dictionary: &'static Dictionary,
    ) -> Recompressed {
        let Some(dense) = ZstdDictionary::new(dictionary, LEVEL) else {
            return Recompressed::Damaged;
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
        self.compact_all();
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
