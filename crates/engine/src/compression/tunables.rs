//! What can be set: one table, from which the fields, the parser and `docs/tunables.md` are made.
//! The command `coldpress` reads values by it (`--tune`) and hands them to the pager of a program.
//!
//! Names are those of RFC-0219's implementation where it has the like (`kernel.`), ours (`coldpress.`)
//! else. A line `name=value` sets one ([`Tunables::set`]); a set of values is checked as a whole
//! ([`Tunables::check`]) before an engine takes it over ([`Engine::configure`]).
//!
//! The engine keeps the values in [`Cells`], one word each: they are read one by one without a lock,
//! where they are needed, and may change at any time.
//!
//! Defaults are those under which the Linux runtime works; where Zircon's differ, the meaning says
//! so.

use crate::{Engine, Host};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What may be wrong with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunableError<'a> {
    /// There is no `=` in it.
    NoValue(&'a str),
    /// No tunable is called so.
    Unknown(&'a str),
    /// The value is none of those that the tunable can have.
    Value {
        /// The tunable.
        name: &'static str,
        /// What was given.
        value: &'a str,
        /// What it can be.
        expected: &'static str,
    },
    /// Two values contradict each other.
    Contradiction(&'static str),
    /// What the value asks for does not exist.
    NotBuilt {
        /// The tunable.
        name: &'static str,
        /// Why, and where more is said.
        why: &'static str,
    },
}

impl fmt::Display for TunableError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValue(text) => write!(f, "'{text}' has no value: write name=value"),
            Self::Unknown(name) => write!(
                f,
                "there is no tunable '{name}': docs/tunables.md lists them"
            ),
            Self::Value {
                name,
                value,
                expected,
            } => write!(f, "{name} cannot be '{value}': it takes {expected}"),
            Self::Contradiction(what) => f.write_str(what),
            Self::NotBuilt { name, why } => write!(f, "{name} is not built: {why}"),
        }
    }
}

impl core::error::Error for TunableError<'_> {}

/// Why a page does not stay in place beside its compressed copy.
const NO_PAGE_BESIDE_ITS_COPY: TunableError<'static> = TunableError::NotBuilt {
    name: "coldpress.compression.keep-until-pressure",
    why: "every write to a page would have to find and drop its copy, which page lists and records have no \
          room for (docs/adr/0017-no-page-kept-beside-its-copy.md); leave it false",
};

/// A type of values.
pub(crate) trait Value: Copy {
    fn from_text(text: &str) -> Option<Self>;
    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
    /// Whether a word, which may come from anywhere, is a value of this type.
    fn is_word(word: u64) -> bool;
}

impl Value for bool {
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }

    fn to_word(self) -> u64 {
        self.into()
    }

    fn from_word(word: u64) -> Self {
        word != 0
    }

    fn is_word(word: u64) -> bool {
        word <= 1
    }
}

impl Value for u64 {
    fn from_text(text: &str) -> Option<Self> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }

    fn to_word(self) -> u64 {
        self
    }

    fn from_word(word: u64) -> Self {
        word
    }

    fn is_word(_: u64) -> bool {
        true
    }
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$case_doc])* $case,)* }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$case,)*];

            /// How it is written.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$case => $text,)* }
            }
        }

        impl Value for $name {
            fn from_text(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|case| case.name() == text)
            }

            fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }

            fn to_word(self) -> u64 {
                self as u64
            }

            fn from_word(word: u64) -> Self {
                Self::ALL[word as usize]
            }

            fn is_word(word: u64) -> bool {
                word < Self::ALL.len() as u64
            }
        }
    };
}

choice! {
    /// How pages are compressed. The host builds its engine by it.
    Strategy {
        /// They are not.
        None = "none",
        /// LZ4 of C.
        Lz4 = "lz4",
        /// LZ4 of Rust.
        Lz4Rust = "lz4-rust",
        /// Zstandard.
        Zstd = "zstd",
        /// LZO.
        Lzo = "lzo",
        /// WKdm.
        Wkdm = "wkdm",
        /// Press.
        Press = "press",
        /// What the host finds best.
        Best = "best",
    }
}

choice! {
    /// How compressed pages are packed. The host builds its engine by it.
    StorageStrategy {
        /// They are not: nothing is compressed.
        None = "none",
        /// Two to a frame.
        TwoSlot = "two-slot",
        /// Three to a frame: the RFC's.
        ThreeSlot = "three-slot",
        /// By classes of sizes.
        SizeClass = "size-class",
        /// Our own.
        Press = "press",
    }
}

choice! {
    /// What is done with old pages although memory is not short.
    LruAction {
        /// Nothing.
        None = "none",
        /// Pager-backed ones are evicted.
        EvictOnly = "evict_only",
        /// Anonymous ones are compressed.
        CompressOnly = "compress_only",
        /// Both.
        EvictAndCompress = "evict_and_compress",
    }
}

impl LruAction {
    /// Whether old pages are compressed.
    pub const fn compresses(self) -> bool {
        matches!(self, Self::CompressOnly | Self::EvictAndCompress)
    }

    /// Whether old pages are evicted.
    pub const fn evicts(self) -> bool {
        matches!(self, Self::EvictOnly | Self::EvictAndCompress)
    }
}

/// When a tunable can be set in a Linux program (`coldpress run --tune`, `coldpress set`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linux {
    /// At the start of the program only.
    AtStart,
    /// At the start, and while the program runs.
    Running,
    /// Never: it is for hosts that have what it is about.
    Never,
}

impl Linux {
    /// As it stands in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtStart => "at the start",
            Self::Running => "at any time",
            Self::Never => "–",
        }
    }
}

/// A line of the table of tunables.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Our field.
    pub field: &'static str,
    /// What its values are.
    pub unit: &'static str,
    /// When a pager in a Linux program takes it.
    pub linux: Linux,
    /// Its meaning.
    pub meaning: &'static str,
}

macro_rules! tunables {
    ($($field:ident: $type:ty = $default:expr, $name:literal, $unit:literal, $allowed:expr, $linux:ident, $meaning:literal;)*) => {
        /// All that can be set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Tunables { $(#[doc = $meaning] pub $field: $type,)* }

        /// The table.
        pub const TABLE: &[Row] = &[$(Row {
            name: $name, field: stringify!($field), unit: $unit, linux: Linux::$linux, meaning: $meaning,
        },)*];

        impl Tunables {
            /// What is in force where nothing is set.
            pub const DEFAULT: Self = Self { $($field: $default,)* };

            /// Sets the tunable of this name.
            ///
            /// # Errors
            /// There is no such tunable, or it cannot have this value, or what it asks for is not built.
            pub fn set_value<'a>(&mut self, name: &'a str, value: &'a str) -> Result<(), TunableError<'a>> {
                match name {
                    $($name => {
                        let allowed: fn(&$type) -> bool = $allowed;
                        self.$field = <$type as Value>::from_text(value).filter(allowed).ok_or(
                            TunableError::Value { name: $name, value, expected: $unit },
                        )?;
                    })*
                    _ => return Err(TunableError::Unknown(name)),
                }
                self.refuse_what_is_not_built()
            }

            /// The value of the tunable of this name as one word: a number, 0 or 1, or which of the
            /// choices it is. `None`: there is no such tunable.
            pub fn word(&self, name: &str) -> Option<u64> {
                match name {
                    $($name => Some(self.$field.to_word()),)*
                    _ => None,
                }
            }

            /// Sets the tunable of this name to a [word](Self::word). `false`: there is none, or it
            /// cannot be that, and nothing has changed.
            pub fn set_word(&mut self, name: &str, word: u64) -> bool {
                let before = *self;
                let done = match name {
                    $($name => <$type as Value>::is_word(word) && {
                        let allowed: fn(&$type) -> bool = $allowed;
                        self.$field = <$type as Value>::from_word(word);
                        allowed(&self.$field)
                    },)*
                    _ => false,
                } && self.refuse_what_is_not_built().is_ok();
                if !done {
                    *self = before;
                }
                done
            }

            /// Writes the value of the tunable of this name, as [`set_value`](Self::set_value) takes it.
            fn write_value(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match name {
                    $($name => self.$field.write(f),)*
                    _ => Err(fmt::Error),
                }
            }
        }

        /// The values that an engine works by.
        #[derive(Debug)]
        pub struct Cells { $($field: AtomicU64,)* }

        impl Cells {
            #[allow(clippy::unnecessary_cast, reason = "for the types that are no number")]
            pub(crate) const fn new() -> Self {
                Self { $($field: AtomicU64::new($default as u64),)* }
            }

            fn store(&self, tunables: &Tunables) {
                $(self.$field.store(tunables.$field.to_word(), Relaxed);)*
            }

            /// All values as they are now.
            pub fn load(&self) -> Tunables {
                Tunables { $($field: self.$field(),)* }
            }

            $(
                #[doc = $meaning]
                pub fn $field(&self) -> $type {
                    <$type as Value>::from_word(self.$field.load(Relaxed))
                }
            )*
        }
    };
}

tunables! {
    strategy: Strategy = Strategy::Best, "kernel.compression.strategy",
        "none, lz4, lz4-rust, zstd, lzo, wkdm, press or best", |_| true, AtStart,
        "How pages are compressed. `none`: not at all; the storage strategy must be `none` too. `best`: the host's choice. Fixed before the first page is compressed. Zircon: `none`.";
    storage_strategy: StorageStrategy = StorageStrategy::Press, "kernel.compression.storage-strategy",
        "none, two-slot, three-slot, size-class or press", |_| true, AtStart,
        "How compressed pages are packed into frames. Fixed at the start. Zircon: `none`.";
    threshold: u64 = 70, "kernel.compression.threshold",
        "per cent, 1 to 100", |value| (1..=100).contains(value), Running,
        "The target size: a page whose compressed form, its header included, is larger than this share of a page stays uncompressed and waits among the failed.";
    lz4_acceleration: u64 = 1, "kernel.compression.lz4.acceleration",
        "a factor, 1 to 65537", |value| (1..=65_537).contains(value), AtStart,
        "LZ4's acceleration: how much it skips in search of repetitions. Fixed at the start. Zircon: 11; ADR 0009 says why ours is 1.";
    same_filled: bool = true, "coldpress.compression.same-filled",
        "true or false", |_| true, AtStart,
        "Whether pages are tested for being same-filled (one word of eight bytes, repeated; zeros above all) before they are compressed. Same-filled pages are kept as markers, without storage. Without the test the codec compresses them like any page. Fixed when the host builds the codec. zswap: `same_filled_pages_enabled`.";
    at_memory_pressure: bool = true, "kernel.compression.at_memory_pressure",
        "true or false", |_| true, Running,
        "The trigger *memory pressure*: whether pages are compressed because memory is short. Zircon: `false`.";
    at_critical: bool = true, "coldpress.compression.at_critical",
        "true or false", |_| true, Running,
        "The trigger *critical*: whether pages are compressed because no memory is left, or nearly none.";
    reclaim_anonymous: bool = true, "kernel.compression.reclaim_anonymous",
        "true or false", |_| true, Running,
        "Whether anonymous pages age at all. If not, they are set aside and never compressed; when it is set, these pages begin to age. Zircon: `false`.";
    reclaim_zero_forks: bool = true, "kernel.compression.reclaim_zero_forks",
        "true or false", |_| true, Running,
        "Whether pages that were copied from the zero page age like others, so that compression finds those that still are zero; there is no scanner for zero pages. If not, they are set aside. Needs kernel.compression.reclaim_anonymous. Zircon: `false`.";
    random_debug_compress: u64 = 0, "kernel.compression.random-debug-compress",
        "per cent of pages, 0 to 100", |value| *value <= 100, Never,
        "For tests: this share of the queued pages is picked at random and compressed at once, however young. Zircon: a switch, for 10 per cent.";
    keep_until_pressure: bool = false, "coldpress.compression.keep-until-pressure",
        "true or false", |_| true, Never,
        "An extension of the RFC that is not built (ADR 0017). The eager trigger would compress a page and also keep it, until memory is short or the page is written; under pressure the page would go without a codec call. `true` is refused with an error.";
    compress_pager_backed: bool = false, "coldpress.compression.before-eviction",
        "true or false", |_| true, Never,
        "An extension of the RFC: a clean pager-backed page is first compressed, and its compressed form is evicted when memory is critical.";
    enable_eviction: bool = true, "kernel.page-scanner.enable-eviction",
        "true or false", |_| true, Running,
        "Whether anything is reclaimed at all, by evicting or by compressing.";
    lru_action: LruAction = LruAction::EvictAndCompress, "kernel.page-scanner.lru-action",
        "none, evict_only, compress_only or evict_and_compress", |_| true, Running,
        "The trigger *eager*: what is done with old pages although memory is not short. Zircon: `none`.";
    eager_walks_older: bool = true, "coldpress.page-scanner.eager-walks-older",
        "true or false", |_| true, Running,
        "An extension of the RFC: the eager trigger goes through all inactive generations, oldest first. If false, it takes only pages in the last generation or beyond, like Zircon.";
    min_aging_interval_ms: u64 = 2000, "kernel.page-scanner.min-aging-interval-ms",
        "milliseconds", |_| true, Never,
        "At least this long between two generations, unless one is opened by hand. Used by hosts that let the engine age as tuned; the Linux pager follows its own clock.";
    max_aging_interval_ms: u64 = 15000, "kernel.page-scanner.max-aging-interval-ms",
        "milliseconds", |value| *value < u64::MAX / 1_000_000, Never,
        "At most this long between two generations. For the same hosts.";
    active_ratio_multiplier: u64 = 2, "kernel.page-scanner.active-ratio-multiplier",
        "a factor", |value| *value <= u32::MAX as u64, Never,
        "Between the two intervals a generation is opened if the active pages, multiplied by this factor, outnumber the inactive ones; 0: never for that reason. For the same hosts.";
    accessed_scan_interval_ms: u64 = 3000, "kernel.page-scanner.accessed-scan-interval-ms",
        "milliseconds", |value| *value < u64::MAX / 1_000_000, Never,
        "How often accessed bits are harvested, by hosts that have them.";
    retry_failed_ms: u64 = 0, "coldpress.page-scanner.retry-failed-ms",
        "milliseconds; 0: never", |value| *value < u64::MAX / 1_000_000, Never,
        "Pages that could not be compressed or evicted are tried again after half this time to this time. With 0 they are tried again only once they are accessed, which is the RFC's rule and needs a host that sees accesses. The Linux pager sees none, and decides by how often they were refused.";
    second_chances: u64 = 0, "coldpress.page-scanner.second-chances",
        "times, 0 to 15", |value| *value <= crate::pages::patience::MOST as u64, Running,
        "For hosts that see no accesses: how many second chances a page can gain. A page that refaults sooner than others are evicted is passed over once when its turn comes, and more often if that repeats. 0: never. The Linux pager sets 15.";
    read_ahead_pages: u64 = 32, "coldpress.page-scanner.read-ahead",
        "pages, 0 to 32", |value| *value <= crate::compression::read_ahead::MOST, Running,
        "For hosts that read ahead: the most pages restored ahead of a thread whose faults go through memory in even steps. 0: none.";
    read_ahead_first: bool = false, "coldpress.page-scanner.read-ahead-first",
        "true or false", |_| true, Running,
        "For hosts that read ahead: whether, once a thread has used pages that were read ahead, the next ones are read ahead before the thread is woken instead of after.";
    warning_mb: u64 = 300, "kernel.oom.warning-mb",
        "MiB free", |value| *value < 1 << 40, Never,
        "Memory pressure is *warning* below this.";
    critical_mb: u64 = 150, "kernel.oom.critical-mb",
        "MiB free", |value| *value < 1 << 40, Never,
        "Memory pressure is *critical* below this, and pages are reclaimed.";
    out_of_memory_mb: u64 = 50, "kernel.oom.outofmemory-mb",
        "MiB free", |value| *value < 1 << 40, Never,
        "Memory pressure is *out of memory* below this: the trigger *critical*; allocations that can wait do so.";
    debounce_mb: u64 = 1, "kernel.oom.debounce-mb",
        "MiB free", |value| *value < 1 << 40, Never,
        "A level of pressure is left for a better one only this far above its bound.";
    hysteresis_s: u64 = 10, "kernel.oom.hysteresis-seconds",
        "seconds", |value| *value < u64::MAX / 1_000_000_000, Never,
        "A level of pressure is left for a better one only after this time. It is left for a worse one at once.";
    evict_at_warning: bool = false, "kernel.oom.evict-at-warning",
        "true or false", |_| true, Never,
        "Pages are reclaimed from *warning* on, not only from *critical* on.";
}

impl Default for Tunables {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The row that `text` names: by its name, or by its field; `-` and `_` are alike.
pub fn named(text: &str) -> Option<&'static Row> {
    let letter = |byte: u8| if byte == b'-' { b'_' } else { byte };
    let alike = |name: &str| name.bytes().map(letter).eq(text.bytes().map(letter));
    TABLE.iter().find(|row| alike(row.name) || alike(row.field))
}

impl Tunables {
    /// Sets what a line `name=value` says.
    ///
    /// # Errors
    /// It is not such a line, or says what cannot be.
    pub fn set<'a>(&mut self, line: &'a str) -> Result<(), TunableError<'a>> {
        let (name, value) = line.split_once('=').ok_or(TunableError::NoValue(line))?;
        self.set_value(name.trim(), value.trim())
    }

    /// The value of the tunable of this name, for printing.
    pub fn value<'a>(&'a self, name: &'a str) -> impl fmt::Display + 'a {
        struct Shown<'a>(&'a Tunables, &'a str);
        impl fmt::Display for Shown<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write_value(self.1, f)
            }
        }
        Shown(self, name)
    }

    /// Takes back what there is not, and says so.
    fn refuse_what_is_not_built(&mut self) -> Result<(), TunableError<'static>> {
        match core::mem::take(&mut self.keep_until_pressure) {
            true => Err(NO_PAGE_BESIDE_ITS_COPY),
            false => Ok(()),
        }
    }

    /// Whether the values go together, and what they ask for exists.
    ///
    /// # Errors
    /// Says which do not, or what does not.
    pub fn check(&self) -> Result<(), TunableError<'static>> {
        if self.keep_until_pressure {
            return Err(NO_PAGE_BESIDE_ITS_COPY);
        }
        let rules = [
            (
                self.min_aging_interval_ms <= self.max_aging_interval_ms,
                "kernel.page-scanner.min-aging-interval-ms is more than kernel.page-scanner.max-aging-interval-ms",
            ),
            (
                self.reclaim_anonymous || !self.reclaim_zero_forks,
                "kernel.compression.reclaim_zero_forks needs kernel.compression.reclaim_anonymous",
            ),
            (
                (self.strategy == Strategy::None)
                    == (self.storage_strategy == StorageStrategy::None),
                "kernel.compression.strategy and kernel.compression.storage-strategy are both none or neither is",
            ),
            (
                self.out_of_memory_mb <= self.critical_mb && self.critical_mb <= self.warning_mb,
                "kernel.oom.outofmemory-mb, kernel.oom.critical-mb and kernel.oom.warning-mb must not fall in this order",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(TunableError::Contradiction(what)),
            None => Ok(()),
        }
    }
}

/// Pages that are let in under one hold of the queue lock.
const LET_IN_AT_ONCE: u32 = 256;

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// What the engine works by.
    pub fn tunables(&self) -> &Cells {
        &self.tunables
    }

    /// Works by these values from now on. What can be chosen only once (codec and storage) is the
    /// host's business; `none` for them stops compression at any time.
    ///
    /// # Errors
    /// The values contradict each other; nothing has changed.
    pub fn configure(&self, tunables: &Tunables) -> Result<(), TunableError<'static>> {
        tunables.check()?;
        self.tunables.store(tunables);
        self.queues
            .lock()
            .reclaim_kinds(tunables.reclaim_anonymous, tunables.reclaim_zero_forks);
        while !self.queues.lock().let_in(LET_IN_AT_ONCE) {}
        Ok(())
    }
}
