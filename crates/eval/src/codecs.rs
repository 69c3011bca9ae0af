//! The strategies: one line each.

use crate::Error;
use crate::corpus::AlignedPage;
use crate::dyn_codec::{Boxed, DynCodec, Memcpy, Untrained, zeroed};
use crate::options::{Options, Simd};
use coldpress_codec::press::Press;
use coldpress_codec::press_dense::{DenseState, DenseTables, PressDense, Trainer};
use coldpress_codec::{Lz4, Lz4Rust, Lzo, PAGE_SIZE, Wkdm, Zstd};

/// The reference row.
pub(crate) const MEMCPY: &str = "memcpy";

/// What a strategy is made of.
pub(crate) struct Context<'a> {
    /// The vector instructions that were asked for, or the best there are.
    pub(crate) simd: Simd,
    /// Pages to train tables on.
    pub(crate) training: &'a [AlignedPage],
}

type Make = fn(&Context<'_>) -> Box<dyn DynCodec>;

/// A strategy by its name.
pub(crate) struct Strategy {
    pub(crate) name: &'static str,
    make: Make,
    /// Only on processors with these instructions.
    needs: Simd,
    /// A variant of another strategy, left out where `--simd` says which variant to take.
    is_variant: bool,
}

impl Strategy {
    const fn new(name: &'static str, make: Make) -> Self {
        Self {
            name,
            make,
            needs: Simd::Portable,
            is_variant: false,
        }
    }

    /// A strategy on another path than `--simd` says.
    const fn variant(name: &'static str, needs: Simd, make: Make) -> Self {
        Self {
            name,
            make,
            needs,
            is_variant: true,
        }
    }

    pub(crate) fn make(&self, context: &Context<'_>) -> Box<dyn DynCodec> {
        (self.make)(context)
    }

    /// Bytes of the output buffer.
    pub(crate) fn bound(&self, threshold_bytes: usize) -> usize {
        match self.name {
            MEMCPY => PAGE_SIZE,
            _ => threshold_bytes,
        }
    }
}

fn lz4(acceleration: i32) -> Box<dyn DynCodec> {
    Boxed::of(Lz4 {
        acceleration,
        detect_same_filled: true,
    })
}

fn zstd(level: i32) -> Box<dyn DynCodec> {
    Boxed::of(Zstd {
        level,
        detect_same_filled: true,
    })
}

fn press(simd: Simd) -> Box<dyn DynCodec> {
    Boxed::of(Press::with_simd(simd))
}

/// press-dense with tables made from the context's pages.
fn press_dense(context: &Context<'_>, simd: Simd) -> Box<dyn DynCodec> {
    let mut trainer = zeroed::<Trainer>();
    let mut state = zeroed::<DenseState>();
    for page in context.training {
        trainer.add(&mut state, &page.0);
    }
    let mut tables = zeroed::<DenseTables>();
    if trainer.pages() > 0 {
        trainer.finish(&mut tables);
    }
    // Never freed: the codec borrows them, and there are as many as files.
    match PressDense::with_simd(Box::leak(tables), simd) {
        Some(codec) => Boxed::with_tables(codec, size_of::<DenseTables>()),
        None => Box::new(Untrained),
    }
}

/// Every strategy, in the order of the table.
const ALL: &[Strategy] = &[
    Strategy::new(MEMCPY, |_| Box::new(Memcpy)),
    Strategy::new("lz4:1", |_| lz4(1)),
    Strategy::new("lz4:11", |_| lz4(11)),
    Strategy::new("lz4-rust", |_| Boxed::of(Lz4Rust::THOROUGH)),
    Strategy::new("zstd:1", |_| zstd(1)),
    Strategy::new("zstd:-7", |_| zstd(-7)),
    Strategy::new("lzo", |_| Boxed::of(Lzo::default())),
    Strategy::new("wkdm", |_| Boxed::of(Wkdm::default())),
    Strategy::new("press", |context| press(context.simd)),
    Strategy::variant("press:avx2", Simd::Avx2, |_| press(Simd::Avx2)),
    Strategy::variant("press:portable", Simd::Portable, |_| press(Simd::Portable)),
    Strategy::new("press-dense", |context| press_dense(context, context.simd)),
    Strategy::variant("press-dense:portable", Simd::Portable, |context| {
        press_dense(context, Simd::Portable)
    }),
];

/// The names that `--codec` takes.
pub fn codec_names() -> Vec<String> {
    ALL.iter()
        .map(|strategy| strategy.name.to_owned())
        .collect()
}

/// The path that was asked for, or the best of this processor.
pub(crate) fn simd(asked: Option<Simd>) -> Result<Simd, Error> {
    match asked {
        Some(simd) if !simd.is_available() => Err(Error::NoSimd(simd.name())),
        Some(simd) => Ok(simd),
        None => Ok(Simd::best()),
    }
}

/// The strategies that the options ask for, the reference always among them.
pub(crate) fn chosen(options: &Options) -> Result<Vec<&'static Strategy>, Error> {
    for name in options.codecs.iter().chain(&options.against) {
        if ALL.iter().all(|strategy| strategy.name != name) {
            return Err(Error::Unknown {
                kind: "codec",
                name: name.clone(),
                known: codec_names(),
            });
        }
    }
    let is_chosen = |strategy: &&Strategy| {
        let named = |names: &[String]| names.iter().any(|name| name == strategy.name);
        let by_default = options.codecs.is_empty()
            && !(strategy.is_variant && options.simd.is_some())
            && strategy.needs.is_available();
        strategy.name == MEMCPY
            || by_default
            || named(&options.codecs)
            || options.against.as_deref() == Some(strategy.name)
    };
    let chosen: Vec<_> = ALL.iter().filter(is_chosen).collect();
    match chosen
        .iter()
        .find(|strategy| !strategy.needs.is_available())
    {
        Some(strategy) => Err(Error::NoSimd(strategy.needs.name())),
        None => Ok(chosen),
    }
}
