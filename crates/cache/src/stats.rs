//! What a cache tells of itself.

use crate::PAGE_BYTES;
use crate::cache::Cache;
use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Figures of a cache. Counters run from its making on and are exact once all threads rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Pages the cache has.
    pub pages: u64,
    /// Pages without an entry.
    pub free_pages: u64,
    /// Pages with an entry, also those of which it is not known yet that the kernel took them.
    pub entries: u64,
    /// Reads that found their entry.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Times a page was found taken by the kernel by somebody who wanted it.
    pub resets: u64,
    /// Entries evicted for others.
    pub evicted: u64,
    /// Pages that the kernel had taken and that were used again, without anybody having asked for
    /// their entry.
    pub reused: u64,
    /// Entries that went since the index had no other place.
    pub displaced: u64,
    /// Times a chunk was given to the kernel to take from.
    pub seals: u64,
    /// Times the kernel refused that, as for locked memory.
    pub refused_seals: u64,
    /// Pages kept from the kernel since they are hot, roughly.
    pub kept: u64,
    /// Entries in the compressed tier, which are not among `entries`.
    pub compressed_entries: u64,
    /// Bytes that they take.
    pub compressed_bytes: u64,
    /// Times an entry went there.
    pub compressed: u64,
    /// Times one came back since it was asked for.
    pub restored: u64,
    /// Times one was given up for others.
    pub discarded: u64,
    /// Evicted entries that did not compress, and were lost.
    pub incompressible: u64,
    /// Bytes of pages that are in memory.
    pub resident_bytes: u64,
    /// Of these, bytes that the kernel may take at any moment (`LazyFree` of `/proc/self/smaps`).
    /// Zero where that cannot be read.
    pub lazyfree_bytes: u64,
}

const STRIPES: usize = 16;

#[derive(Default)]
#[repr(align(64))]
struct Stripe {
    hits: AtomicU64,
    misses: AtomicU64,
    resets: AtomicU64,
}

/// Counters of readers, a line for each of a few threads, so that they do not pass one line around.
#[derive(Default)]
pub(crate) struct Counters([Stripe; STRIPES]);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Counters {
    #[inline]
    fn mine(&self) -> &Stripe {
        let stripe = STRIPE.get();
        &self.0[if stripe < STRIPES { stripe } else { assign() }]
    }

    #[inline]
    pub fn hit(&self) {
        self.mine().hits.fetch_add(1, Relaxed);
    }

    pub fn miss(&self) {
        self.mine().misses.fetch_add(1, Relaxed);
    }

    pub fn taken(&self) {
        self.mine().resets.fetch_add(1, Relaxed);
    }
}

#[cold]
fn assign() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let stripe = NEXT.fetch_add(1, Relaxed) % STRIPES;
    STRIPE.set(stripe);
    stripe
}

impl Cache {
    /// Figures of now. Reads `/proc/self/smaps` and asks the kernel for every page: for reports, not
    /// for each read.
    pub fn stats(&self) -> Stats {
        let room = self.lock_room();
        let free_pages = room.free_pages() as u64;
        let (evicted, reused, displaced) = (room.evicted, room.reused, room.displaced);
        let (seals, refused_seals) = (room.seals, room.refused_seals);
        let mut stats = Stats::default();
        if let Some(tier) = &room.tier {
            stats.compressed_entries = tier.entries() as u64;
            stats.compressed_bytes = tier.bytes() as u64;
            stats.compressed = tier.compressed;
            stats.restored = tier.restored;
            stats.discarded = tier.discarded;
            stats.incompressible = tier.incompressible;
        }
        drop(room);
        let sum = |of: fn(&Stripe) -> &AtomicU64| {
            let stripes = self.counters.0.iter();
            stripes.map(|stripe| of(stripe).load(Relaxed)).sum()
        };
        Stats {
            pages: self.pages() as u64,
            free_pages,
            entries: self.pages() as u64 - free_pages,
            hits: sum(|stripe| &stripe.hits),
            misses: sum(|stripe| &stripe.misses),
            resets: sum(|stripe| &stripe.resets),
            evicted,
            reused,
            displaced,
            seals,
            refused_seals,
            kept: u64::from(self.kept.load(Relaxed)),
            resident_bytes: self.resident_bytes(),
            lazyfree_bytes: lazyfree_bytes(self.region.addresses()).unwrap_or(0),
            ..stats
        }
    }

    fn resident_bytes(&self) -> u64 {
        let mut buffer = [0u8; 4096];
        let (mut first, pages) = (0, self.pages());
        let mut resident = 0;
        while first < pages {
            let some = &mut buffer[..(pages - first).min(4096)];
            self.region.residency(first as u32, some);
            resident += some.iter().filter(|&&page| page & 1 == 1).count();
            first += some.len();
        }
        (resident * PAGE_BYTES) as u64
    }
}

/// `LazyFree` of all mappings inside `ours`, which has fences and so is never part of another.
fn lazyfree_bytes(ours: Range<usize>) -> Option<u64> {
    let mut inside = false;
    let mut bytes = 0;
    for line in BufReader::new(File::open("/proc/self/smaps").ok()?).lines() {
        let line = line.ok()?;
        if let Some(range) = mapping(&line) {
            inside = range.start >= ours.start && range.end <= ours.end;
        } else if inside && let Some(rest) = line.strip_prefix("LazyFree:") {
            let kib: u64 = rest.trim().strip_suffix(" kB")?.trim().parse().ok()?;
            bytes += kib * 1024;
        }
    }
    Some(bytes)
}

/// The addresses of a mapping's first line, `None` for other lines.
fn mapping(line: &str) -> Option<Range<usize>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let parse = |text| usize::from_str_radix(text, 16).ok();
    Some(parse(start)?..parse(end)?)
}
