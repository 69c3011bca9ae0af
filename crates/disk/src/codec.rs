//! The codec of a disk: the one that was chosen, and zstd with dictionaries for what was recompressed.
//!
//! A stored page tells by its first byte which made it ([`zstd_dictionary::number`]); that is so for press and zstd, so
//! only disks of these two recompress. The engine compresses by the chosen codec; what writes pages by dictionary is
//! recompression alone (`recompress.rs`).
//!
//! Dictionaries are added, and stay as long as the disk does: a stored page may need any of them.

use coldpress_arena::Zeroable;
use coldpress_codec::zstd_dictionary::{self, Dictionary, DictionaryScratch, ZstdDictionary};
use coldpress_codec::{
    AnyCodec, AnyScratch, AnyState, CodecKind, Compressed, Corrupt, Page, PageCodec, SameFilled,
};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

/// Dictionaries that a disk has in its life, at most.
pub(crate) const MOST_DICTIONARIES: usize = 8;

pub(crate) struct DiskCodec {
    chosen: AnyCodec,
    /// By number; null: not made yet.
    dictionaries: [AtomicPtr<Dictionary>; MOST_DICTIONARIES],
}

/// What a thread decompresses with. Zeroed memory is one.
#[repr(C, align(64))]
pub(crate) struct DiskScratch {
    chosen: AnyScratch,
    dictionary: DictionaryScratch,
}

// SAFETY: two types that are themselves `Zeroable`.
unsafe impl Zeroable for DiskScratch {}

impl DiskCodec {
    pub(crate) fn new(kind: CodecKind) -> Self {
        Self {
            chosen: AnyCodec::of(kind, SameFilled::Detect),
            dictionaries: Default::default(),
        }
    }

    /// The codec that was chosen.
    pub(crate) fn kind(&self) -> CodecKind {
        self.chosen.kind()
    }

    /// Whether pages of the chosen codec are told from those with a dictionary.
    pub(crate) fn has_dictionaries(&self) -> bool {
        matches!(self.kind(), CodecKind::Press | CodecKind::Zstd { .. })
    }

    /// Adds a dictionary, under its own number, which no other had.
    ///
    /// # Safety
    /// It stays where it is, unchanged, as long as the codec is used.
    pub(crate) unsafe fn add(&self, dictionary: &'static Dictionary) {
        let of_number = &self.dictionaries[usize::from(dictionary.number())];
        let before = of_number.swap(std::ptr::from_ref(dictionary).cast_mut(), Release);
        assert!(before.is_null(), "stored pages need the one before");
    }

    /// The dictionary of a number.
    #[inline]
    pub(crate) fn dictionary(&self, number: u8) -> Option<&'static Dictionary> {
        let dictionary = self.dictionaries.get(usize::from(number))?;
        // SAFETY: null, or what `add` was given, which stays, and nobody changes.
        unsafe { dictionary.load(Acquire).as_ref() }
    }

    /// The number of the dictionary that a stored page needs.
    #[inline]
    pub(crate) fn number_in(&self, stored: &[u8]) -> Option<u8> {
        zstd_dictionary::number(stored).filter(|_| self.has_dictionaries())
    }
}

impl PageCodec for DiskCodec {
    const NAME: &'static str = "of a disk";
    type State = AnyState;
    type Scratch = DiskScratch;

    fn compress(&self, state: &mut AnyState, page: &Page, out: &mut [u8]) -> Compressed {
        self.chosen.compress(state, page, out)
    }

    fn decompress(
        &self,
        scratch: &mut DiskScratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        let Some(number) = self.number_in(stored) else {
            return self.chosen.decompress(&mut scratch.chosen, stored, page);
        };
        // Damaged bytes may name a dictionary that there is not.
        let dictionary = self.dictionary(number).ok_or(Corrupt)?;
        let codec = ZstdDictionary::new(dictionary, 1).ok_or(Corrupt)?;
        codec.decompress(&mut scratch.dictionary, stored, page)
    }
}
