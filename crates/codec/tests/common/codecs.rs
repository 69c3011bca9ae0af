//! The codecs that every test runs on. A codec is added by a line in [`codecs`].

#[cfg(feature = "liblz4")]
use coldpress_codec::Lz4;
#[cfg(feature = "zstd")]
use coldpress_codec::Zstd;
#[cfg(feature = "zstd")]
use coldpress_codec::zstd_dictionary::{Dictionary, ZstdDictionary};
use std::sync::OnceLock;

use super::fenced::Zeros;
use super::tables;
use coldpress_codec::press::{Press, Simd};
use coldpress_codec::press_dense::{DenseTables, PressDense};
use coldpress_codec::{
    AnyCodec, CodecKind, Compressed, Corrupt, Lz4Rust, Lzo, Page, PageCodec, SameFilled, Wkdm,
};

/// A codec whose type is forgotten.
pub struct Subject {
    pub name: &'static str,
    /// Whether it tells same-filled pages, or stores them.
    pub tells_same_filled: bool,
    worker: Box<dyn Fn() -> Box<dyn Worker> + Sync>,
}

impl Subject {
    /// The codec with a state and a scratch of zeroes.
    pub fn worker(&self) -> Box<dyn Worker> {
        (self.worker)()
    }
}

/// A codec with its memory.
pub trait Worker {
    fn compress(&mut self, page: &Page, out: &mut [u8]) -> Compressed;
    fn decompress(&mut self, stored: &[u8], page: &mut Page) -> Result<(), Corrupt>;
}

struct Work<C: PageCodec> {
    codec: C,
    state: Zeros<C::State>,
    scratch: Zeros<C::Scratch>,
}

impl<C: PageCodec> Worker for Work<C> {
    fn compress(&mut self, page: &Page, out: &mut [u8]) -> Compressed {
        self.codec.compress(self.state.get(), page, out)
    }

    fn decompress(&mut self, stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        self.codec.decompress(self.scratch.get(), stored, page)
    }
}

fn of<C: PageCodec + 'static>(name: &'static str, make: fn(bool) -> C) -> [Subject; 2] {
    [(name, true), (name, false)].map(|(name, tells_same_filled)| Subject {
        name,
        tells_same_filled,
        worker: Box::new(move || {
            Box::new(Work {
                codec: make(tells_same_filled),
                state: Zeros::new(),
                scratch: Zeros::new(),
            })
        }),
    })
}

fn any(name: &str, detect_same_filled: bool) -> AnyCodec {
    let same_filled = if detect_same_filled {
        SameFilled::Detect
    } else {
        SameFilled::Compress
    };
    AnyCodec::of(CodecKind::from_name(name).unwrap(), same_filled)
}

/// press on a path; on the portable one where the processor has not got it.
fn press(simd: Simd, detect_same_filled: bool) -> Press {
    let mut press = Press::with_simd(simd);
    press.detect_same_filled = detect_same_filled;
    press
}

/// press-dense on a path, with tables made from the tests' own pages.
fn dense(simd: Simd, detect_same_filled: bool) -> PressDense<'static> {
    static TABLES: OnceLock<Box<DenseTables>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| match cfg!(miri) {
        true => tables::made_before(),
        false => tables::made(),
    });
    let mut dense = PressDense::with_simd(tables, simd).expect("trained");
    dense.detect_same_filled = detect_same_filled;
    dense
}

/// zstd with a dictionary: one that libzstd's command made from the tests' own pages.
#[cfg(feature = "zstd")]
fn with_dictionary(level: i32, detect_same_filled: bool) -> ZstdDictionary<'static> {
    static MADE: OnceLock<Box<Dictionary>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let mut dictionary: Box<Dictionary> = super::zeroed();
        let content = super::dictionary_content();
        dictionary.room()[..content.len()].copy_from_slice(&content);
        assert!(dictionary.make(5, content.len()));
        dictionary
    });
    let mut codec = ZstdDictionary::new(made, level).expect("made");
    codec.detect_same_filled = detect_same_filled;
    codec
}

/// Every codec, each with and without telling same-filled pages. Under Miri, which has
/// the portable path only, each once.
#[rustfmt::skip]
pub fn codecs() -> Vec<Subject> {
    [
        #[cfg(feature = "liblz4")]
        of("lz4:1", |detect_same_filled| Lz4 { acceleration: 1, detect_same_filled }),
        #[cfg(feature = "liblz4")]
        of("lz4:11", |detect_same_filled| Lz4 { acceleration: 11, detect_same_filled }),
        of("lz4-rust:1", |detect_same_filled| Lz4Rust { acceleration: 1, detect_same_filled }),
        #[cfg(not(miri))]
        of("lz4-rust:11", |detect_same_filled| Lz4Rust { acceleration: 11, detect_same_filled }),
        #[cfg(feature = "zstd")]
        of("zstd:-7", |detect_same_filled| Zstd { level: -7, detect_same_filled }),
        #[cfg(feature = "zstd")]
        of("zstd:1", |detect_same_filled| Zstd { level: 1, detect_same_filled }),
        #[cfg(feature = "zstd")]
        of("zstd:5", |detect_same_filled| Zstd { level: 5, detect_same_filled }),
        #[cfg(feature = "zstd")]
        of("zstd:19", |detect_same_filled| Zstd { level: 19, detect_same_filled }),
        #[cfg(feature = "zstd")]
        of("zstd:9 with a dictionary", |detect_same_filled| with_dictionary(9, detect_same_filled)),
        of("lzo", |detect_same_filled| Lzo { detect_same_filled }),
        of("wkdm", |detect_same_filled| Wkdm { detect_same_filled }),
        // Under Miri by the choice of any codec, below.
        #[cfg(not(miri))]
        of("press portable", |detect_same_filled| press(Simd::Portable, detect_same_filled)),
        #[cfg(not(miri))]
        of("press avx2", |detect_same_filled| press(Simd::Avx2, detect_same_filled)),
        #[cfg(not(miri))]
        of("press avx512", |detect_same_filled| press(Simd::Avx512, detect_same_filled)),
        of("press-dense portable", |detect_same_filled| dense(Simd::Portable, detect_same_filled)),
        #[cfg(not(miri))]
        of("press-dense avx2", |detect_same_filled| dense(Simd::Avx2, detect_same_filled)),
        #[cfg(not(miri))]
        of("press-dense avx512", |detect_same_filled| dense(Simd::Avx512, detect_same_filled)),
        of("any of press", |detect_same_filled| any("press", detect_same_filled)),
        #[cfg(not(miri))]
        of("any of wkdm", |detect_same_filled| any("wkdm", detect_same_filled)),
        #[cfg(feature = "zstd")]
        of("any of zstd:1", |detect_same_filled| any("zstd:1", detect_same_filled)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
