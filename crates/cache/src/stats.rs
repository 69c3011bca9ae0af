//! What a cache tells of itself.

use crate::PAGE_BYTES;
use crate::cache::Cache;
use crate::counters::Stripe;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    /// Entries of less than a page, of which the same holds as of `entries`. These counts only their pages.
    pub small_entries: u64,
    /// Pages that they lie in.
    pub small_pages: u64,
    /// Small entries that went since the index had no other place.
    pub small_displaced: u64,
    /// Small entries that were moved out of a page with little else in it.
    pub small_moved: u64,
    /// Bytes that count against the budgets: pages written since they were last given back, and the
    /// compressed tier with what is remembered of its entries.
    pub used_bytes: u64,
    /// The hard budget.
    pub hard_bytes: u64,
    /// The soft budget.
    pub soft_bytes: u64,
    /// Whether memory was short when the cache was last tended.
    pub short: bool,
    /// Bytes by which it shrank for that.
    pub shrunk_bytes: u64,
    /// Bytes of pages that are in memory.
    pub resident_bytes: u64,
    /// Of these, bytes that the kernel may take at any moment (`LazyFree` of `/proc/self/smaps`).
    /// Zero where that cannot be read.
    pub lazyfree_bytes: u64,
}

impl Cache {
    /// Figures of now. Reads `/proc/self/smaps` and asks the kernel for every page: for reports, not
    /// for each read.
    pub fn stats(&self) -> Stats {
        let room = self.lock_room();
        let free_pages = room.free_pages() as u64;
        let (evicted, reused, displaced) = (room.evicted, room.reused, room.displaced);
        let (seals, refused_seals) = (room.seals, room.refused_seals);
        let mut stats = Stats {
            small_entries: room.small.entries,
            small_pages: room.small.pages,
            small_displaced: room.small.displaced,
            small_moved: room.small.moved,
            used_bytes: room.used_bytes() as u64,
            hard_bytes: room.budget.hard_bytes() as u64,
            soft_bytes: room.budget.soft_bytes() as u64,
            shrunk_bytes: room.budget.shrunk_bytes,
            short: self.short.load(Relaxed),
            ..Stats::default()
        };
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
