//! One measurement: a cache of one kind, one amount of memory taken.
//!
//! Twice over, the cold set is asked for once and the hot set four times, each time in another
//! order; what is missing is inserted. Then both are measured, memory is taken in eight pieces and given
//! back, and both are measured again.

use super::content::{Content, Random};
use super::group::Entered;
use super::kind::Kind;
use super::plan::Plan;
use crate::refusal::Refusal;
use coldpress_cache::{Cache, PAGE_BYTES, Stats};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::Instant;

/// Times that everything is asked for in turns: the cold set once each, the hot one four times.
const TURNS: usize = 2;
const HOT_PASSES: usize = 4;
/// Pieces in which memory is taken, as in the original.
const PIECES: usize = 8;
/// Steps of a piece, before each of which a cache that is asked makes room.
const STEPS: usize = 32;
/// Part of the limit that a cache which is asked leaves free: tables grow by doubling.
const MARGIN: u64 = 64;

/// A set, asked for once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// Entries asked for.
    pub entries: u64,
    /// Those that the cache had.
    pub hits: u64,
    /// Time in the cache: looking up and copying, and inserting what it did not have.
    pub total_ns: u64,
    /// Time of a hit that half of the hits stayed within.
    pub hit_p50_ns: u64,
    /// And 99 %.
    pub hit_p99_ns: u64,
}

impl Pass {
    /// Share of hits.
    pub fn rate(&self) -> f64 {
        self.hits as f64 / self.entries.max(1) as f64
    }
}

/// When most memory was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Bytes charged to the group.
    pub usage_bytes: u64,
    /// Bytes of the cache's pages that were in memory, and charged.
    pub resident_bytes: u64,
    /// Of these, bytes that the kernel may take at any moment.
    pub lazyfree_bytes: u64,
    /// Bytes of compressed entries.
    pub compressed_bytes: u64,
    /// Entries that are compressed.
    pub compressed_entries: u64,
    /// Entries that did not compress and were lost, until then.
    pub incompressible: u64,
    /// Compressed entries that were given up for others, until then.
    pub discarded: u64,
    /// Entries evicted, until then.
    pub evicted: u64,
    /// Bytes of the group that were in swap.
    pub swap_bytes: u64,
    /// What was left for entries: the limit less what was taken, by what giving it back freed, and less what was charged before
    /// beside the entries.
    pub room_bytes: u64,
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Before memory was taken.
    pub hot_before: Pass,
    pub cold_before: Pass,
    /// Time that taking it took.
    pub reclaim_ns: u64,
    pub peak: Peak,
    /// Once it was given back.
    pub hot_after: Pass,
    pub cold_after: Pass,
}

/// The keys of a set, and where times go.
struct Set {
    keys: Vec<u32>,
}

/// All that is in memory before the group is entered (B1).
struct Bench<'a> {
    plan: &'a Plan,
    kind: Kind,
    content: Content,
    random: Random,
    times: Vec<u32>,
}

/// Measures `kind` while `reclaim_bytes` are taken, in the group at `group`.
pub fn measure(
    plan: &Plan,
    kind: Kind,
    reclaim_bytes: u64,
    round: u64,
    group: &std::path::Path,
) -> Result<Measured, Refusal> {
    let set = |first: u64, bytes: u64| Set {
        keys: (first..first + bytes / PAGE_BYTES as u64)
            .map(|key| key as u32)
            .collect(),
    };
    let mut hot = set(0, plan.hot_bytes);
    let mut cold = set(hot.keys.len() as u64, plan.cold_bytes);
    let mut bench = Bench {
        plan,
        kind,
        content: Content::load(&plan.files)?,
        random: Random::new(round),
        times: vec![1; hot.keys.len().max(cold.keys.len())],
    };
    let group = Entered::enter(group)?;
    let cache = Cache::new(kind.options(plan)).map_err(|error| Refusal::new(error.to_string()))?;
    for _ in 0..TURNS {
        bench.pass(&cache, &mut cold)?;
        for _ in 0..HOT_PASSES {
            bench.pass(&cache, &mut hot)?;
        }
    }
    let hot_before = bench.pass(&cache, &mut hot)?;
    let cold_before = bench.pass(&cache, &mut cold)?;
    let (reclaim_ns, peak) = bench.take(&cache, reclaim_bytes, &group);
    Ok(Measured {
        hot_before,
        cold_before,
        reclaim_ns,
        peak,
        hot_after: bench.pass(&cache, &mut hot)?,
        cold_after: bench.pass(&cache, &mut cold)?,
    })
}

impl Bench<'_> {
    /// Asks for each entry of `set` once, in another order than before.
    fn pass(&mut self, cache: &Cache, set: &mut Set) -> Result<Pass, Refusal> {
        self.random.shuffle(&mut set.keys);
        let (mut hits, mut total_ns) = (0, 0);
        let (mut found, mut made) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
        for &key in &set.keys {
            let key = u64::from(key);
            let start = Instant::now();
            let hit = cache.get(key, &mut found);
            let time = start.elapsed().as_nanos() as u64;
            total_ns += time;
            if hit {
                self.times[hits] = u32::try_from(time).unwrap_or(u32::MAX);
                hits += 1;
                if !self.content.is(key, &found) {
                    return Err(Refusal::new(format!(
                        "the cache is wrong: the kind {} gave other bytes for entry {key} than were put in",
                        self.kind.name()
                    )));
                }
                continue;
            }
            self.content.make(key, &mut made);
            let start = Instant::now();
            let inserted = cache.insert(key, &made);
            total_ns += start.elapsed().as_nanos() as u64;
            inserted.map_err(|error| Refusal::new(format!("cannot insert an entry: {error}")))?;
        }
        let times = &mut self.times[..hits];
        times.sort_unstable();
        let quantile = |percent: usize| match hits {
            0 => 0,
            _ => u64::from(times[(hits * percent).div_ceil(100) - 1]),
        };
        Ok(Pass {
            entries: set.keys.len() as u64,
            hits: hits as u64,
            total_ns,
            hit_p50_ns: quantile(50),
            hit_p99_ns: quantile(99),
        })
    }

    /// Takes memory as a program does that needs it, and gives it back. Returns how long taking took, and
    /// what was so when all was taken.
    fn take(&mut self, cache: &Cache, bytes: u64, group: &Entered) -> (u64, Peak) {
        let beside_entries = beside_entries(&cache.stats(), group.usage());
        let start = Instant::now();
        let mut pieces = Vec::with_capacity(PIECES);
        for _ in 0..PIECES {
            let mut piece = vec![0u8; bytes as usize / PIECES];
            for step in piece.chunks_mut((bytes as usize / PIECES).div_ceil(STEPS).max(PAGE_BYTES))
            {
                if self.kind.is_asked() {
                    self.ask(cache, step.len() as u64, group);
                }
                for page in step.chunks_mut(PAGE_BYTES) {
                    page[0] = self.random.next() as u8 | 1;
                }
            }
            pieces.push(black_box(piece));
        }
        let took = start.elapsed().as_nanos() as u64;
        let mut peak = peak(&cache.stats(), group);
        drop(pieces);
        let taken = peak.usage_bytes.saturating_sub(group.usage());
        peak.room_bytes = self.plan.limit_bytes.saturating_sub(taken + beside_entries);
        let charged = peak.usage_bytes.saturating_sub(taken + beside_entries);
        peak.resident_bytes = peak.resident_bytes.min(charged);
        (took, peak)
    }

    /// Asks the cache for room until `bytes` more can be taken, or it has nothing more to give.
    fn ask(&self, cache: &Cache, bytes: u64, group: &Entered) {
        let limit = self.plan.limit_bytes;
        loop {
            let wanted = group.usage() + bytes + limit / MARGIN;
            if wanted <= limit || cache.shrink(wanted - limit) == 0 {
                return;
            }
        }
    }
}

/// Of what is charged to the group, what is not an entry, while none is lost: tables, page tables. (Not by what is resident:
/// pages that were read after the kernel took them are that, and are charged to nobody.)
fn beside_entries(stats: &Stats, usage_bytes: u64) -> u64 {
    let entries = stats.entries * PAGE_BYTES as u64 + stats.compressed_bytes;
    usage_bytes.saturating_sub(entries)
}

fn peak(stats: &Stats, group: &Entered) -> Peak {
    Peak {
        usage_bytes: group.usage(),
        resident_bytes: stats.resident_bytes,
        lazyfree_bytes: stats.lazyfree_bytes,
        compressed_bytes: stats.compressed_bytes,
        compressed_entries: stats.compressed_entries,
        incompressible: stats.incompressible,
        discarded: stats.discarded,
        evicted: stats.evicted,
        swap_bytes: group.swap(),
        room_bytes: 0,
    }
}
