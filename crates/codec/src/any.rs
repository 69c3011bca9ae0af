//! The codec that is chosen when the program runs.
//!
//! Everything above is monomorphic in its codec, and owns states and scratches by type. To
//! choose by an option instead, [`AnyCodec`] is the codec of all of it: a value that can live
//! in a `static`, holds the choice in one atomic word, and hands on to the codec chosen.
//!
//! ```text
//!  AnyCodec      63            32 31        9   8           7        0
//!                ┌───────────────┬───────────┬─────────────┬──────────┐
//!                │ parameter     │ 0         │ same-filled │ tag      │   0: not chosen yet
//!                └───────────────┴───────────┴─────────────┴──────────┘
//!  AnyState      ┌──────────────────────────────────────────┬──────────┐
//!  AnyScratch    │ bytes of the codec's own state or scratch │ tag     │   0: still zeroes
//!                └──────────────────────────────────────────┴──────────┘
//! ```
//!
//! What is chosen stays: by [`AnyCodec::select`] before the first page, or by the first page,
//! which settles on the default. Otherwise stored pages would meet the wrong decoder.
//!
//! One choice has two forms of stored pages: with [`Press`] a page may also be of press-dense, made by
//! whoever re-codes what stays cold, or here ([`AnyCodec::set_density`]). The first byte of a page tells
//! which; the tables are given once, before the first such page ([`AnyCodec::set_tables`]).
//!
//! Invariants, besides those of the crate:
//! * I5 The bytes of a state are zeroes if its tag is 0, and else those of the codec of that tag,
//!   which alone has written to them: a state that passes to another codec is cleared first. So
//!   each codec finds zeroes, or its own state, whoever used it before.
//! * I6 The area is at least as large as every codec's state, and aligned for it. Checked
//!   when compiling.
//! * I7 The choice goes from 0 to what it stays, once.
//! * I8 The tables go from none to what they stay, once.
//!
//! A codec is added by a variant of [`CodecKind`] and a line in each of its four matches, one
//! in [`STATE_BYTES`] and [`SCRATCH_BYTES`], and one in both methods of [`PageCodec`]: the compiler
//! asks for each but the two of sizes, without which it refuses to compile I6.

use core::fmt;
use core::mem::MaybeUninit;
use core::str::FromStr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use coldpress_arena::Zeroable;

#[cfg(feature = "liblz4")]
use crate::Lz4;
#[cfg(feature = "zstd")]
use crate::Zstd;
use crate::press::{Press, Simd};
use crate::press_dense::{Both, DenseTables};
use crate::{Compressed, Corrupt, Lz4Rust, Lzo, Page, PageCodec, Wkdm};

/// What becomes of pages that are one word, repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameFilled {
    /// They are compressed like all others.
    Compress = 0,
    /// They are told before compression ([`Compressed::SameFilled`]).
    Detect = 1,
}

/// How densely [`CodecKind::Press`] compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// By press.
    Usual,
    /// By press-dense, as soon as there are tables: pages take less room, and longer to compress and to decompress.
    Dense,
}

/// A codec and its parameter, by which it is chosen.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CodecKind {
    /// [`Lz4`]: `lz4:ACCELERATION`.
    #[cfg(feature = "liblz4")]
    Lz4 {
        /// From 1 to 65,537.
        acceleration: i32,
    },
    /// [`Lz4Rust`]: `lz4-rust:ACCELERATION`.
    Lz4Rust {
        /// From 1 to 65,537.
        acceleration: i32,
    },
    /// [`Zstd`]: `zstd:LEVEL`.
    #[cfg(feature = "zstd")]
    Zstd {
        /// From [`Zstd::FASTEST_LEVEL`] to [`Zstd::DENSEST_LEVEL`].
        level: i32,
    },
    /// [`Lzo`]: `lzo`.
    Lzo,
    /// [`Wkdm`]: `wkdm`.
    Wkdm,
    /// [`Press`](crate::press::Press): `press`.
    Press,
}

/// liblz4 counts what is greater as the greatest.
const GREATEST_ACCELERATION: i32 = 65_537;

impl CodecKind {
    /// What is chosen where nobody chooses: [`Press`] where this processor has a vector path for
    /// it, else LZ4 that finds the most. (Without vectors press is a third as fast as LZ4.)
    pub fn best() -> Self {
        if Simd::best() == Simd::Portable {
            Self::THOROUGH_LZ4
        } else {
            Self::Press
        }
    }

    /// LZ4 that finds the most.
    #[cfg(feature = "liblz4")]
    pub const THOROUGH_LZ4: Self = Self::Lz4 { acceleration: 1 };
    /// LZ4 that finds the most.
    #[cfg(not(feature = "liblz4"))]
    pub const THOROUGH_LZ4: Self = Self::Lz4Rust { acceleration: 1 };

    /// The names, as a message to a person or the help of an option gives them.
    pub const NAMES: &'static str =
        "lz4[:ACCELERATION], lz4-rust[:ACCELERATION], zstd[:LEVEL], lzo, wkdm, press";

    /// The codec of this name: one of [`Self::NAMES`]. An acceleration that is not told is
    /// the RFC's, 11; a level that is not told is 1.
    ///
    /// # Errors
    /// [`NameError`] says what is wrong with the name.
    pub fn from_name(name: &str) -> Result<Self, NameError> {
        let (name, parameter) = match name.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (name, None),
        };
        let within = |default: i32, least: i32, greatest: i32| match parameter {
            None => Ok(default),
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|value| (least..=greatest).contains(value))
                .ok_or(NameError::Parameter { least, greatest }),
        };
        let without = |kind| match parameter {
            None => Ok(kind),
            Some(_) => Err(NameError::NoParameter),
        };
        match name {
            #[cfg(feature = "liblz4")]
            "lz4" => Ok(Self::Lz4 {
                acceleration: within(Lz4::RFC_ACCELERATION, 1, GREATEST_ACCELERATION)?,
            }),
            #[cfg(not(feature = "liblz4"))]
            "lz4" => Err(NameError::NotBuiltIn { feature: "liblz4" }),
            "lz4-rust" => Ok(Self::Lz4Rust {
                acceleration: within(Lz4Rust::RFC_ACCELERATION, 1, GREATEST_ACCELERATION)?,
            }),
            #[cfg(feature = "zstd")]
            "zstd" => Ok(Self::Zstd {
                level: within(1, Zstd::FASTEST_LEVEL, Zstd::DENSEST_LEVEL)?,
            }),
            #[cfg(not(feature = "zstd"))]
            "zstd" => Err(NameError::NotBuiltIn { feature: "zstd" }),
            "lzo" => without(Self::Lzo),
            "wkdm" => without(Self::Wkdm),
            "press" => without(Self::Press),
            _ => Err(NameError::Unknown),
        }
    }

    /// The codec's number in words and states, never 0, and its parameter.
    const fn tag_and_parameter(self) -> (u8, i32) {
        match self {
            #[cfg(feature = "liblz4")]
            Self::Lz4 { acceleration } => (1, acceleration),
            Self::Lz4Rust { acceleration } => (2, acceleration),
            #[cfg(feature = "zstd")]
            Self::Zstd { level } => (3, level),
            Self::Lzo => (4, 0),
            Self::Wkdm => (5, 0),
            Self::Press => (6, 0),
        }
    }

    /// The other way round.
    const fn of_tag(tag: u8, parameter: i32) -> Option<Self> {
        Some(match tag {
            #[cfg(feature = "liblz4")]
            1 => Self::Lz4 {
                acceleration: parameter,
            },
            2 => Self::Lz4Rust {
                acceleration: parameter,
            },
            #[cfg(feature = "zstd")]
            3 => Self::Zstd { level: parameter },
            4 => Self::Lzo,
            5 => Self::Wkdm,
            6 => Self::Press,
            _ => return None,
        })
    }
}

impl fmt::Display for CodecKind {
    /// The full name, parameter included: [`CodecKind::from_name`] reads it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "liblz4")]
            Self::Lz4 { acceleration } => write!(f, "lz4:{acceleration}"),
            Self::Lz4Rust { acceleration } => write!(f, "lz4-rust:{acceleration}"),
            #[cfg(feature = "zstd")]
            Self::Zstd { level } => write!(f, "zstd:{level}"),
            Self::Lzo => f.write_str("lzo"),
            Self::Wkdm => f.write_str("wkdm"),
            Self::Press => f.write_str("press"),
        }
    }
}

impl FromStr for CodecKind {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::from_name(name)
    }
}

/// Why a name is no codec's.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum NameError {
    /// No codec has the name.
    Unknown,
    /// The codec is left out of this build.
    NotBuiltIn {
        /// The Cargo feature of `coldpress-codec` that brings it.
        feature: &'static str,
    },
    /// The codec takes no parameter.
    NoParameter,
    /// The parameter is not a number, or not one of those that the codec takes.
    Parameter {
        /// The least that it takes.
        least: i32,
        /// The greatest.
        greatest: i32,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(f, "no codec has that name: choose {}", CodecKind::NAMES),
            Self::NotBuiltIn { feature } => write!(
                f,
                "this codec is not built in: build with the feature {feature} of coldpress-codec"
            ),
            Self::NoParameter => f.write_str("this codec takes no parameter: leave out the colon"),
            Self::Parameter { least, greatest } => {
                write!(
                    f,
                    "the parameter must be a number from {least} to {greatest}"
                )
            }
        }
    }
}

impl core::error::Error for NameError {}

/// Another codec has been chosen, or has compressed a page, before.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct AlreadyChosen(
    /// The one that stays.
    pub CodecKind,
);

impl fmt::Display for AlreadyChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the codec is {} already, and stays", self.0)
    }
}

impl core::error::Error for AlreadyChosen {}

/// Any of the codecs, one of which is chosen before the first page.
#[derive(Debug)]
pub struct AnyCodec {
    /// The choice, as the drawing at the head of the file shows; 0 if there is none yet (I7).
    /// Threads agree on it by this word alone: nothing else is published with it.
    choice: AtomicU64,
    /// The tables of press-dense, or null (I8).
    tables: AtomicPtr<DenseTables>,
    /// Whether press-dense compresses where press was chosen and there are tables. A page tells by itself
    /// what made it: nothing hangs on when a thread sees this.
    densely: AtomicBool,
}

const SAME_FILLED_BIT: u32 = 8;
const PARAMETER_BIT: u32 = 32;

impl AnyCodec {
    /// One that is yet to be chosen.
    pub const fn new() -> Self {
        Self::with_choice(0)
    }

    /// One that is chosen from the start.
    pub const fn of(kind: CodecKind, same_filled: SameFilled) -> Self {
        Self::with_choice(encode(kind, same_filled))
    }

    const fn with_choice(choice: u64) -> Self {
        Self {
            choice: AtomicU64::new(choice),
            tables: AtomicPtr::new(core::ptr::null_mut()),
            densely: AtomicBool::new(false),
        }
    }

    /// Chooses. The second time it must be the same.
    ///
    /// # Errors
    /// [`AlreadyChosen`] if another choice was made, or pages were handled without one.
    pub fn select(&self, kind: CodecKind, same_filled: SameFilled) -> Result<(), AlreadyChosen> {
        let choice = encode(kind, same_filled);
        match self.choice.compare_exchange(0, choice, Relaxed, Relaxed) {
            Ok(_) => Ok(()),
            Err(before) if before == choice => Ok(()),
            Err(before) => Err(AlreadyChosen(decode(before).0)),
        }
    }

    /// What was chosen; settles on [`CodecKind::best`] if nothing was.
    #[inline]
    pub fn kind(&self) -> CodecKind {
        self.chosen().0
    }

    /// Gives the tables of press-dense, with which its pages are made and decompressed. `false`:
    /// there are some already, which stay.
    pub fn set_tables(&self, tables: &'static DenseTables) -> bool {
        let tables = core::ptr::from_ref(tables).cast_mut();
        let none = core::ptr::null_mut();
        self.tables
            .compare_exchange(none, tables, Release, Relaxed)
            .is_ok()
    }

    /// Those that were given.
    #[inline]
    pub fn tables(&self) -> Option<&'static DenseTables> {
        // SAFETY: null, or what `set_tables` was given: a reference that stays, to what nobody changes.
        unsafe { self.tables.load(Acquire).as_ref() }
    }

    /// How pages are compressed from now on, where [`CodecKind::Press`] was chosen.
    pub fn set_density(&self, density: Density) {
        self.densely.store(density == Density::Dense, Relaxed);
    }

    #[inline]
    fn chosen(&self) -> (CodecKind, SameFilled) {
        match self.choice.load(Relaxed) {
            0 => self.settle(),
            choice => decode(choice),
        }
    }

    #[cold]
    fn settle(&self) -> (CodecKind, SameFilled) {
        let _ = self.select(CodecKind::best(), SameFilled::Detect);
        decode(self.choice.load(Relaxed)) // I7
    }
}

impl Default for AnyCodec {
    fn default() -> Self {
        Self::new()
    }
}

const fn encode(kind: CodecKind, same_filled: SameFilled) -> u64 {
    let (tag, parameter) = kind.tag_and_parameter();
    tag as u64
        | (same_filled as u64) << SAME_FILLED_BIT
        | (parameter as u32 as u64) << PARAMETER_BIT
}

#[inline]
fn decode(choice: u64) -> (CodecKind, SameFilled) {
    let kind = CodecKind::of_tag(choice as u8, (choice >> PARAMETER_BIT) as i32);
    let same_filled = if choice >> SAME_FILLED_BIT & 1 == 1 {
        SameFilled::Detect
    } else {
        SameFilled::Compress
    };
    (kind.expect("I7: what was encoded"), same_filled)
}

/// The greatest of some sizes.
const fn greatest<const N: usize>(sizes: [usize; N]) -> usize {
    let (mut greatest, mut i) = (0, 0);
    while i < N {
        if sizes[i] > greatest {
            greatest = sizes[i];
        }
        i += 1;
    }
    greatest
}

/// Bytes of the largest state.
const STATE_BYTES: usize = greatest([
    #[cfg(feature = "liblz4")]
    size_of::<<Lz4 as PageCodec>::State>(),
    size_of::<<Lz4Rust as PageCodec>::State>(),
    #[cfg(feature = "zstd")]
    size_of::<<Zstd as PageCodec>::State>(),
    size_of::<<Lzo as PageCodec>::State>(),
    size_of::<<Wkdm as PageCodec>::State>(),
    size_of::<<Both as PageCodec>::State>(),
]);

/// Bytes of the largest scratch.
const SCRATCH_BYTES: usize = greatest([
    #[cfg(feature = "zstd")]
    size_of::<<Zstd as PageCodec>::Scratch>(),
    size_of::<<Wkdm as PageCodec>::Scratch>(),
    size_of::<<Both as PageCodec>::Scratch>(),
]);

/// The state of any codec.
pub type AnyState = Area<STATE_BYTES>;

/// The scratch of any codec.
pub type AnyScratch = Area<SCRATCH_BYTES>;

/// Memory for the state or the scratch of one codec at a time.
#[repr(C, align(64))]
pub struct Area<const BYTES: usize> {
    /// A value of the codec whose tag is below, or zeroes (I5). Its padding need not be anything.
    bytes: [MaybeUninit<u8>; BYTES],
    tag: u8,
}

// SAFETY: plain bytes; zeroes are a valid value (of no codec), and there is nothing to drop.
unsafe impl<const BYTES: usize> Zeroable for Area<BYTES> {}

impl<const BYTES: usize> Area<BYTES> {
    /// A fresh one, for a `static`. On a heap or in mapped memory zeroed bytes do as well,
    /// without passing over the stack.
    pub const fn new() -> Self {
        Self {
            bytes: [MaybeUninit::zeroed(); BYTES],
            tag: 0,
        }
    }

    /// The codec's own value in it.
    ///
    /// # Safety
    /// `T` is the same type each time that `tag` is the same.
    #[inline]
    unsafe fn of<T: Zeroable>(&mut self, tag: u8) -> &mut T {
        const { assert!(size_of::<T>() <= BYTES && align_of::<T>() <= 64, "I6") };
        if self.tag != tag {
            if self.tag != 0 {
                self.bytes.fill(MaybeUninit::zeroed());
            }
            self.tag = tag;
        }
        // SAFETY: I6: there is room, and the area is aligned to 64. I5: the bytes are zeroes, which
        // are a valid T, or those of a T, by the caller's contract.
        unsafe { &mut *self.bytes.as_mut_ptr().cast::<T>() }
    }
}

impl<const BYTES: usize> Default for Area<BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

impl AnyState {
    #[inline]
    fn compress<C: PageCodec>(
        &mut self,
        kind: CodecKind,
        codec: C,
        page: &Page,
        out: &mut [u8],
    ) -> Compressed {
        // SAFETY: a tag stands for one codec, which has one type of state.
        let state = unsafe { self.of::<C::State>(kind.tag_and_parameter().0) };
        codec.compress(state, page, out)
    }
}

impl AnyScratch {
    #[inline]
    fn decompress<C: PageCodec>(
        &mut self,
        kind: CodecKind,
        codec: C,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        // SAFETY: a tag stands for one codec, which has one type of scratch.
        let scratch = unsafe { self.of::<C::Scratch>(kind.tag_and_parameter().0) };
        codec.decompress(scratch, stored, page)
    }
}

/// Runs `$body` with the codec of a [`CodecKind`].
macro_rules! with_codec {
    ($codec_of:expr, $kind:expr, $same_filled:expr, |$codec:ident| $body:expr) => {{
        let detect_same_filled = $same_filled == SameFilled::Detect;
        match $kind {
            #[cfg(feature = "liblz4")]
            CodecKind::Lz4 { acceleration } => {
                let $codec = Lz4 {
                    acceleration,
                    detect_same_filled,
                };
                $body
            }
            CodecKind::Lz4Rust { acceleration } => {
                let $codec = Lz4Rust {
                    acceleration,
                    detect_same_filled,
                };
                $body
            }
            #[cfg(feature = "zstd")]
            CodecKind::Zstd { level } => {
                let $codec = Zstd {
                    level,
                    detect_same_filled,
                };
                $body
            }
            CodecKind::Lzo => {
                let $codec = Lzo { detect_same_filled };
                $body
            }
            CodecKind::Wkdm => {
                let $codec = Wkdm { detect_same_filled };
                $body
            }
            CodecKind::Press => {
                let mut press = Press::new();
                press.detect_same_filled = detect_same_filled;
                let $codec = Both {
                    press,
                    tables: $codec_of.tables(),
                    densely: $codec_of.densely.load(Relaxed),
                };
                $body
            }
        }
    }};
}

impl PageCodec for AnyCodec {
    const NAME: &'static str = "any";
    type State = AnyState;
    type Scratch = AnyScratch;

    #[inline]
    fn compress(&self, state: &mut AnyState, page: &Page, out: &mut [u8]) -> Compressed {
        let (kind, same_filled) = self.chosen();
        with_codec!(self, kind, same_filled, |codec| {
            state.compress(kind, codec, page, out)
        })
    }

    #[inline]
    fn decompress(
        &self,
        scratch: &mut AnyScratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        let (kind, same_filled) = self.chosen();
        with_codec!(self, kind, same_filled, |codec| {
            scratch.decompress(kind, codec, stored, page)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_SIZE;
    use std::boxed::Box;
    use std::string::ToString;

    const NAMES: &[&str] = &[
        #[cfg(feature = "liblz4")]
        "lz4:1",
        #[cfg(feature = "liblz4")]
        "lz4:11",
        "lz4-rust:1",
        #[cfg(feature = "zstd")]
        "zstd:-7",
        #[cfg(feature = "zstd")]
        "zstd:3",
        "lzo",
        "wkdm",
        "press",
    ];

    fn zeroed<T: Zeroable>() -> Box<T> {
        let layout = std::alloc::Layout::new::<T>();
        assert!(layout.size() > 0);
        // SAFETY: fresh memory of T's layout, all zero, which is a valid T.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast()) }
    }

    #[test]
    fn names_are_read_back() {
        for name in NAMES {
            assert_eq!(CodecKind::from_name(name).unwrap().to_string(), *name);
        }
        assert_eq!(
            "lz4-rust".parse(),
            Ok(CodecKind::Lz4Rust { acceleration: 11 })
        );
        #[cfg(feature = "zstd")]
        assert_eq!("zstd".parse(), Ok(CodecKind::Zstd { level: 1 }));
    }

    #[test]
    fn names_that_are_none_are_explained() {
        let message = |name| CodecKind::from_name(name).unwrap_err().to_string();
        assert_eq!(
            message("gzip"),
            "no codec has that name: choose lz4[:ACCELERATION], lz4-rust[:ACCELERATION], \
             zstd[:LEVEL], lzo, wkdm, press"
        );
        assert_eq!(
            message("lzo:9"),
            "this codec takes no parameter: leave out the colon"
        );
        for name in ["lz4-rust:0", "lz4-rust:", "lz4-rust:65538", "lz4-rust:x"] {
            assert_eq!(
                message(name),
                "the parameter must be a number from 1 to 65537"
            );
        }
    }

    /// One state and one scratch go from codec to codec, in any order.
    #[test]
    fn states_pass_from_one_codec_to_another() {
        let (mut state, mut scratch) = (zeroed::<AnyState>(), zeroed::<AnyScratch>());
        let mut page = [0; PAGE_SIZE];
        for (i, byte) in page.iter_mut().enumerate() {
            *byte = (i / 40 * 7) as u8;
        }
        for first in NAMES {
            for second in NAMES {
                for name in [first, second] {
                    let codec =
                        AnyCodec::of(CodecKind::from_name(name).unwrap(), SameFilled::Detect);
                    let (mut out, mut fresh_out) = ([0x11; PAGE_SIZE], [0x22; PAGE_SIZE]);
                    let outcome = codec.compress(&mut state, &page, &mut out);
                    let fresh = codec.compress(&mut zeroed(), &page, &mut fresh_out);
                    assert_eq!(outcome, fresh, "{name}");
                    let Compressed::Stored(len) = outcome else {
                        panic!("{name} stores the page");
                    };
                    assert_eq!(out[..len], fresh_out[..len], "{name}");
                    let mut restored = [0x33; PAGE_SIZE];
                    codec
                        .decompress(&mut scratch, &out[..len], &mut restored)
                        .unwrap();
                    assert!(restored == page, "{name}");
                }
            }
        }
    }

    #[test]
    fn a_choice_stays() {
        static CODEC: AnyCodec = AnyCodec::new();
        assert_eq!(CODEC.select(CodecKind::Wkdm, SameFilled::Compress), Ok(()));
        assert_eq!(CODEC.select(CodecKind::Wkdm, SameFilled::Compress), Ok(()));
        assert_eq!(
            CODEC.select(CodecKind::Lzo, SameFilled::Compress),
            Err(AlreadyChosen(CodecKind::Wkdm))
        );
        assert_eq!(CODEC.kind(), CodecKind::Wkdm);
        // Not told, as chosen; WKdm then stores it.
        let mut out = [0; PAGE_SIZE];
        assert_eq!(
            CODEC.compress(&mut zeroed(), &[0; PAGE_SIZE], &mut out),
            Compressed::Stored(PAGE_SIZE / 16)
        );
    }

    #[test]
    fn the_first_page_settles_on_the_default() {
        let codec = AnyCodec::new();
        let outcome = codec.compress(&mut zeroed(), &[0; PAGE_SIZE], &mut []);
        assert_eq!(outcome, Compressed::SameFilled(0));
        assert_eq!(codec.kind(), CodecKind::best());
        assert_eq!(
            codec.select(CodecKind::Wkdm, SameFilled::Detect),
            Err(AlreadyChosen(CodecKind::best()))
        );
        assert_eq!(codec.select(CodecKind::best(), SameFilled::Detect), Ok(()));
    }
}
