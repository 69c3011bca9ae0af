//! What is served: a disk in memory, or a cache before a file.

use super::arguments::{Memory, Pages, ServeArguments};
use super::write_back_to::Tier;
use crate::memory_limit;
use crate::refusal::Refusal;
use crate::size::{format_bytes, format_count};
use coldpress_disk::{
    Backing, BackingFile, Cache, CacheOptions, CacheStatistics, CreateError, Disk, OpenError,
    OpenMode, Options, Which,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The pool of a cache without `--mem-limit`, in per cent of memory, as zswap's.
const POOL_PERCENT: u64 = 20;

/// So much of ten seconds, in per cent, some process has waited for memory: the machine is short of it.
const SHORT_AT_PERCENT: f64 = 10.0;

/// What is served.
#[derive(Clone)]
pub enum Content {
    /// A disk that is memory.
    Ram(Arc<Disk>),
    /// A cache before something.
    Cached(Arc<Cache>, Behind),
}

/// What is behind a cache.
#[derive(Clone)]
pub enum Behind {
    /// The file or device of this path, whose content it is.
    File(PathBuf),
    /// A write-back tier, which ends with it.
    Tier(Box<Tier>),
}

impl Content {
    /// Makes what the arguments ask for.
    pub fn make(arguments: &ServeArguments) -> Result<Self, Refusal> {
        let refuse = |error: CreateError| Refusal::new(format!("cannot make the disk: {error}"));
        let mut options = Options::new(arguments.size.unwrap_or(0));
        options.limit_bytes = arguments.mem_limit.map(bytes_of).transpose()?;
        options.read_only = arguments.read_only;
        options.cold_age = Duration::from_millis(arguments.cold_after);
        options.codec = arguments.codec.unwrap_or(options.codec);
        options.storage = arguments.storage.unwrap_or(options.storage);
        let (backing, behind): (Box<dyn Backing>, Behind) =
            match (&arguments.backing, &arguments.writeback) {
                (Some(path), _) => {
                    let share = || bytes_of(Memory::Percent(POOL_PERCENT));
                    options.limit_bytes = Some(options.limit_bytes.map_or_else(share, Ok)?);
                    (Box::new(open(path, arguments)?), Behind::File(path.clone()))
                }
                (None, Some(to)) => {
                    let fallback = arguments.writeback_fallback.as_deref();
                    let tier = to.make(&options, fallback, arguments.writeback_limit)?;
                    (Box::new(tier.store.clone()), Behind::Tier(Box::new(tier)))
                }
                (None, None) => {
                    let disk = Disk::new(&options).map_err(refuse)?;
                    return Ok(Self::Ram(Arc::new(disk)));
                }
            };
        let mut of_cache = CacheOptions::new(0);
        of_cache.pool = options;
        if let Some(percent) = arguments.accept_threshold {
            of_cache.accept_threshold_percent = percent;
        }
        of_cache.shortage = Some(Box::new(is_short_of_memory));
        let cache = Cache::new(backing, of_cache).map_err(refuse)?;
        Ok(Self::Cached(Arc::new(cache), behind))
    }

    /// The disk, or the pool of the cache.
    pub fn disk(&self) -> &Disk {
        match self {
            Self::Ram(disk) => disk,
            Self::Cached(cache, _) => cache.pool(),
        }
    }

    /// The disk, for what only a disk that is memory has.
    pub fn ram_disk(&self, what: &str) -> Result<&Disk, String> {
        match self {
            Self::Ram(disk) => Ok(disk),
            Self::Cached(_, Behind::File(path)) => Err(format!(
                "{what}: its content is that of {}, which this is only a cache of",
                path.display()
            )),
            Self::Cached(_, Behind::Tier(_)) => Err(format!(
                "{what}: not for a disk with a write-back file; serve one without --writeback"
            )),
        }
    }

    /// Where its content outlives it.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Cached(_, Behind::File(path)) => Some(path),
            _ => None,
        }
    }

    /// Its write-back tier, if it has one.
    pub fn tier(&self) -> Option<&Tier> {
        match self {
            Self::Cached(_, Behind::Tier(tier)) => Some(tier),
            _ => None,
        }
    }

    /// All pages are idle until they are used.
    pub fn mark_idle(&self) {
        if let Self::Cached(cache, _) = self {
            cache.mark_idle();
        }
    }

    /// Writes pages to what is behind, and holds them no longer.
    pub fn write_back(&self, which: Pages) -> Result<Value, String> {
        let Self::Cached(cache, _) = self else {
            return Err(
                "there is no file behind it: serve a disk with --writeback PATH".to_owned(),
            );
        };
        let evicted = cache.write_back(match which {
            Pages::Idle => Which::Idle,
            Pages::Huge => Which::Huge,
            Pages::All => Which::All,
        });
        let held = cache.statistics().stored_pages;
        Ok(json!({ "evicted_pages": evicted, "stored_pages": held }))
    }

    /// Forgets everything, where that concerns nothing but this disk.
    pub fn reset(&self) -> Result<(), String> {
        match self {
            Self::Cached(cache, Behind::Tier(_)) => {
                let size = cache.size_bytes();
                cache.trim(0, size).map_err(|error| error.to_string())
            }
            content => content.ram_disk("reset").map(Disk::reset),
        }
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.disk().volume().size_bytes()
    }

    /// Whether it cannot be written.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Ram(disk) => disk.volume().is_read_only(),
            Self::Cached(cache, _) => cache.is_read_only(),
        }
    }

    /// Figures of the cache, if it is one.
    pub fn cache_statistics(&self) -> Option<CacheStatistics> {
        match self {
            Self::Ram(_) => None,
            Self::Cached(cache, _) => Some(cache.statistics()),
        }
    }

    /// Changes the memory limit.
    pub fn set_limit(&self, bytes: Option<u64>) -> Result<(), CreateError> {
        match self {
            Self::Ram(disk) => disk.set_limit(bytes),
            Self::Cached(cache, _) => cache.set_limit(bytes),
        }
    }

    /// Writes back what only memory holds.
    pub fn flush(&self) -> Result<Value, String> {
        let Self::Cached(cache, Behind::File(path)) = self else {
            return Err("its content ends with it: there is nothing to flush".to_owned());
        };
        let before = cache.statistics().written_back_pages;
        cache.flush().map_err(|error| {
            format!(
                "{}: {error}; {} pages are in memory alone",
                path.display(),
                format_count(cache.statistics().dirty_pages)
            )
        })?;
        let written = cache.statistics().written_back_pages - before;
        Ok(json!({ "written_back_pages": written }))
    }

    /// The command is about to end.
    pub fn end(&self) -> Result<(), Refusal> {
        match self {
            Self::Ram(_) => Ok(()),
            Self::Cached(_, Behind::Tier(tier)) => {
                tier.end();
                Ok(())
            }
            Self::Cached(..) => self.flush().map(drop).map_err(|error| {
                Refusal::new(format!(
                    "not all that was written is in the backing file: {error}"
                ))
            }),
        }
    }
}

fn bytes_of(memory: Memory) -> Result<u64, Refusal> {
    match memory {
        Memory::Bytes(bytes) => Ok(bytes),
        Memory::Percent(share) => Ok(memory_limit::usable_bytes()? / 100 * share),
    }
}

fn open(path: &Path, arguments: &ServeArguments) -> Result<BackingFile, Refusal> {
    let mode = if arguments.read_only {
        OpenMode::ReadOnly
    } else {
        OpenMode::ReadWrite
    };
    let opened = match arguments.size {
        Some(size) if !path.exists() && !arguments.read_only => BackingFile::create(path, size),
        _ => BackingFile::open(path, mode),
    };
    let backing = opened.map_err(|error| refusal_of(path, &error, mode))?;
    let is = backing.size_bytes();
    match arguments.size {
        Some(size) if size != is => Err(Refusal::new(format!(
            "{} has {is} bytes ({}), and not the --size that was given",
            path.display(),
            format_bytes(is)
        ))
        .mend("leave --size away: a file that exists keeps its size")),
        _ => Ok(backing),
    }
}

fn refusal_of(path: &Path, error: &OpenError, mode: OpenMode) -> Refusal {
    let refusal = Refusal::new(format!("cannot use {}: {error}", path.display()));
    match error {
        OpenError::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            refusal.mend("create it, by saying how large it shall be: --size 4G")
        }
        OpenError::Size(bytes) if *bytes > 0 && mode == OpenMode::ReadWrite => {
            refusal.mend(format!(
                "truncate -s {} {}",
                bytes.next_multiple_of(4096),
                path.display()
            ))
        }
        _ => refusal,
    }
}

/// Whether the kernel says that processes wait for memory; not where it does not say.
fn is_short_of_memory() -> bool {
    let pressure = std::fs::read_to_string("/proc/pressure/memory").unwrap_or_default();
    let average = pressure
        .split_whitespace()
        .find_map(|word| word.strip_prefix("avg10="));
    average
        .and_then(|text| text.parse::<f64>().ok())
        .is_some_and(|percent| percent >= SHORT_AT_PERCENT)
}
