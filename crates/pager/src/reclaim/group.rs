//! The memory group, which several processes share: its limit is one for all of them. So is that of each group around it.
//!
//! A budget is each process's own. Where it comes from a memory group, or several processes of any budget run in one,
//! they could hold a multiple of the limit together, and the kernel would kill one of them. That happens sooner than
//! natively: what was evicted before a fork is restored in each child anew, where natively parent and children share it.
//!
//! So each pager looks at what the group holds whenever it measures, and counts as its own what the group holds beyond
//! the group's bound: memory stands as far above the budget as the group stands above the bound. Then it takes pages,
//! and lets faults wait, as it does for its budget; each pager of the group does so, until the group is below again.
//!
//! What the group holds is memory without a file: the programs' and shared memory, and of the kernel's own what it
//! cannot drop. Pages of files, directory entries and inodes fill any group that reads files, and go by themselves. The
//! bound of a process that is alone lies halfway between its largest budget and the limit: half of that room is for page
//! tables, program text and the like, and half for what comes between two looks. Where others hold as much as that, the
//! bound is the largest budget: several grow between two looks. Above halfway the kernel is about to kill: there faults
//! wait longer, also where reclaim has found that it cannot reach the budget: others may give. Where there are none, and
//! nothing that was tried has compressed for half a second, nothing will come of waiting: the program gets its memory, or
//! is killed, as natively.
//!
//! A process that holds next to nothing has nothing to give, and is left alone.

use crate::Pager;
use crate::machine::os::{GroupBounds, MemoryGroups, NO_LIMIT, Os};
use crate::settings::watermarks::Watermarks;
use coldpress_interface::config::handed::MOST_GROUPS;
use coldpress_interface::control::{NO_BUDGET, largest_budget};
use coldpress_uffd::PAGE_SIZE;
use core::sync::atomic::Ordering::Relaxed;

/// Near the bound, and in a young child, handlers look at the group each time that so many pages are restored. Tens of
/// processes together restore less between two looks than there is room above the bound.
const LOOK_PAGES: u64 = 16;
/// A group that is far from its bound is not looked at again before this time. (On a machine with many processors the
/// kernel takes its time to add up what a group holds.)
const FAR_NS: u64 = 5_000_000;
/// Where there is no budget to be kept, or no limit, it is looked at so rarely: for a limit that it may have been given
/// meanwhile. (Reading `memory.stat` is two fifths of what an idle process near its budget costs.)
const UNLIMITED_NS: u64 = 250_000_000;
/// `memory.stat` of version 1: the least limit from the group up to the root.
const HIERARCHICAL_LIMIT: &[u8] = b"hierarchical_memory_limit ";
/// `memory.stat`: what is looked for in it is in the first part of it, in either version.
const TEXT_BYTES: usize = 2048;

/// What the group holds and the kernel cannot drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    programs: u64,
    kernel: u64,
    /// Of pages of files that programs run and map: the kernel kills before it has dropped these.
    file: u64,
    bounds: GroupBounds,
}

impl Held {
    /// `None`: the group does not tell.
    fn look(groups: &impl MemoryGroups, number: usize) -> Option<Self> {
        let mut text = [0u8; TEXT_BYTES];
        let len = groups.statistics(number, &mut text)?;
        let text = &text[..len];
        let limit = figure(text, HIERARCHICAL_LIMIT).or_else(|| groups.limit_bytes(number));
        let bounds = limit.map_or_else(|| groups.bounds(number), bounds_of);
        let (programs, kernel) = held_bytes(text)?;
        Some(Self {
            programs,
            file: mapped_file_bytes(text).min(half_the_room(bounds)),
            kernel: kernel.unwrap_or_else(|| kernels_share(bounds, groups.kernel_bytes(number))),
            bounds,
        })
    }

    /// The largest budget that the group allows.
    fn budget(self) -> u64 {
        match self.bounds.limit_bytes {
            NO_LIMIT.. => NO_BUDGET,
            _ => self.bounds.budget_bytes,
        }
    }

    /// Whether it is not far from the bound.
    fn is_near(self) -> bool {
        self.bytes() >= self.bounds.budget_bytes / 4 * 3
    }

    fn bytes(self) -> u64 {
        self.programs + self.kernel
    }

    /// Between the largest budget and the limit.
    fn halfway(self) -> u64 {
        self.bounds.limit_bytes - half_the_room(self.bounds)
    }

    /// Whether the kernel is about to kill.
    fn is_critical(self) -> bool {
        self.bytes() + self.file > self.halfway()
    }

    /// What others hold, where a process holds `total` bytes.
    fn others(self, total: u64) -> u64 {
        self.programs.saturating_sub(total)
    }

    /// What a process counts that has this budget and holds `total` bytes.
    fn counts_for(self, budget: u64, total: u64) -> u64 {
        let others = self.others(total);
        let bound = (self.halfway() - others.min(self.halfway())).max(self.bounds.budget_bytes);
        (budget + self.bytes()).saturating_sub(bound)
    }
}

/// What counts as the kernel's where it does not tell which of its memory it could drop (version 1): at least what it is
/// meant to have, and of what it has (page tables and stacks of many children, buffers of pipes and sockets; but also
/// directory entries, which it drops) an eighth of the limit at most.
fn kernels_share(bounds: GroupBounds, all: Option<u64>) -> u64 {
    let meant = half_the_room(bounds);
    all.unwrap_or(0).min(bounds.limit_bytes / 8).max(meant)
}

/// Half of what lies between the largest budget and the limit.
fn half_the_room(bounds: GroupBounds) -> u64 {
    (bounds.limit_bytes - bounds.budget_bytes) / 2
}

/// A figure of `memory.stat`, by its name and a space.
fn figure(text: &[u8], name: &[u8]) -> Option<u64> {
    let lines = text.split(|&byte| byte == b'\n');
    let rest = lines.filter_map(|line| line.strip_prefix(name)).next()?;
    core::str::from_utf8(rest).ok()?.parse().ok()
}

/// What bounds a group of this limit.
fn bounds_of(limit_bytes: u64) -> GroupBounds {
    GroupBounds {
        limit_bytes,
        budget_bytes: largest_budget(limit_bytes),
    }
}

/// Bytes that programs hold without a file, and that the kernel has for itself and cannot drop, in the text of
/// `memory.stat`. Version 1 tells the first of the group alone, and with the groups below it under other names; the
/// second it does not tell.
fn held_bytes(text: &[u8]) -> Option<(u64, Option<u64>)> {
    let of = |name| figure(text, name);
    if let Some(all) = of(b"total_rss ") {
        return Some((all + of(b"total_shmem ").unwrap_or(0), None));
    }
    let programs = of(b"anon ")? + of(b"shmem ").unwrap_or(0);
    let kernel =
        of(b"kernel ").map(|all| all.saturating_sub(of(b"slab_reclaimable ").unwrap_or(0)));
    Some((programs, kernel))
}

/// Bytes of pages of files that are mapped.
fn mapped_file_bytes(text: &[u8]) -> u64 {
    let of = |name| figure(text, name);
    of(b"total_mapped_file ")
        .or(of(b"file_mapped "))
        .unwrap_or(0)
}

/// The thread that looks. The reclaim thread alone changes the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looker {
    /// The reclaim thread, when it measures.
    Reclaim,
    /// A handler, between two measurements.
    Handler,
}

impl<O: Os> Pager<O> {
    /// Looks at the groups. Notes which budget they allow now, and how much more than the process's own memory (which holds
    /// `total` bytes) counts: for the group that has the least room.
    pub(crate) fn look_at_groups(&self, total: u64, by: Looker) {
        let pressure = &self.pressure;
        let (mut beside, mut is_near, mut is_critical) = (0, false, false);
        if let Some(groups) = self.host.groups.get()
            && total >= O::WORTH_GIVING
        {
            let now = O::now_ns();
            if now < pressure.group_again_ns.load(Relaxed) {
                return;
            }
            let looks: [Option<Held>; MOST_GROUPS] = core::array::from_fn(|number| {
                (number < groups.count()).then(|| Held::look(groups, number))?
            });
            if by == Looker::Reclaim {
                self.keep_to_groups(&looks[..groups.count()]);
            }
            let budget = Watermarks::in_force(&self.config()).budget();
            if budget != NO_BUDGET {
                for held in looks.into_iter().flatten().filter(|held| held.is_near()) {
                    is_near = true;
                    let counts = held.counts_for(budget, total).saturating_sub(total);
                    beside = beside.max(counts);
                    let may_give =
                        held.others(total) >= O::WORTH_GIVING || !pressure.is_given_up(now);
                    is_critical |= counts > 0 && held.is_critical() && may_give;
                }
            }
            let mut told = looks[..groups.count()].iter();
            let is_unlimited = told.all(|held| held.is_some_and(|held| held.budget() == NO_BUDGET));
            let rest_ns = match (budget, is_near) {
                (_, true) => 0,
                (NO_BUDGET, _) => UNLIMITED_NS,
                _ if is_unlimited => UNLIMITED_NS,
                _ => FAR_NS,
            };
            pressure.group_again_ns.store(now + rest_ns, Relaxed);
        }
        pressure.beside_bytes.store(beside, Relaxed);
        pressure.group_is_near.store(is_near, Relaxed);
        pressure.group_is_critical.store(is_critical, Relaxed);
    }

    /// The budget follows the limits of the groups: it is what was asked for, or less where they allow less. A group that does
    /// not tell may allow less than the others, so nothing is given then.
    fn keep_to_groups(&self, looks: &[Option<Held>]) {
        let before = self.control.allowed_by_groups();
        let told = looks.iter().flatten().map(|held| held.budget());
        let allowed = told.fold(NO_BUDGET, u64::min);
        let allowed = match looks.iter().all(Option::is_some) {
            true => allowed,
            false => allowed.min(before),
        };
        if allowed != before {
            self.control.allow_by_groups(allowed);
            self.publish_settings();
        }
    }

    /// Before a page is restored. Where several processes restore at a time each would fill the room that it saw when it
    /// was last measured. From a young child nothing is taken, and it restores as fast as it reads: near the bound its youth
    /// is over, while there is room for what its reclaim needs to begin.
    pub(crate) fn mind_groups(&self) {
        let pressure = &self.pressure;
        let is_young = pressure.is_young.load(Relaxed);
        let minds = is_young || pressure.group_is_near.load(Relaxed);
        if !minds || self.host.groups.get().is_none() {
            return;
        }
        let restored = pressure.restored.load(Relaxed);
        if restored < pressure.looked.load(Relaxed) + LOOK_PAGES {
            return;
        }
        pressure.looked.store(restored, Relaxed);
        let total = pressure.total_bytes.load(Relaxed) + restored * PAGE_SIZE as u64;
        self.look_at_groups(total, Looker::Handler);
        if is_young && pressure.group_is_near.load(Relaxed) {
            pressure.is_young.store(false, Relaxed);
            self.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The text of `memory.stat`, and the limit where it stands in a file of its own.
    struct Told(&'static str, Option<u64>);

    fn near(text: &'static str) -> Option<Held> {
        Held::look(&Told(text, None), 0).filter(|held| held.is_near())
    }

    impl MemoryGroups for Told {
        fn open() -> Option<Self> {
            None
        }
        fn count(&self) -> usize {
            1
        }
        fn bounds(&self, _number: usize) -> GroupBounds {
            GroupBounds {
                limit_bytes: 256 * MIB,
                budget_bytes: 240 * MIB,
            }
        }
        fn kernel_bytes(&self, _number: usize) -> Option<u64> {
            None
        }
        fn limit_bytes(&self, _number: usize) -> Option<u64> {
            self.1
        }
        fn statistics(&self, _number: usize, into: &mut [u8]) -> Option<usize> {
            into[..self.0.len()].copy_from_slice(self.0.as_bytes());
            Some(self.0.len())
        }
    }

    #[test]
    fn what_the_kernel_drops_does_not_count() {
        let version_2 =
            "anon 50\nfile 900\nkernel 100\nshmem 7\ninactive_file 100\nslab_reclaimable 80\n";
        assert_eq!(held_bytes(version_2.as_bytes()), Some((57, Some(20))));
        let version_1 = "cache 1\nrss 2\nshmem 1\ntotal_cache 1\ntotal_rss 50\ntotal_rss_huge 9\ntotal_shmem 7\n";
        assert_eq!(held_bytes(version_1.as_bytes()), Some((57, None)));
        assert_eq!(held_bytes(b"file 900\n"), None);
    }

    #[test]
    fn memory_stands_as_far_above_the_budget_as_the_group_above_its_bound() {
        let counts = |text, total| Some(near(text)?.counts_for(100 * MIB, total * MIB) / MIB);
        assert_eq!(counts("total_rss 134217728\n", 0), None, "far from it");
        let full = "total_rss 251658240\n";
        assert_eq!(counts(full, 240), Some(100), "240 MiB of its own");
        assert_eq!(counts(full, 236), Some(104), "some are others'");
        assert_eq!(counts(full, 100), Some(108));
        let told = "anon 251658240\nkernel 10485760\n";
        assert_eq!(counts(told, 240), Some(102), "250 MiB");
        assert_eq!(counts(told, 0), Some(110));
    }

    #[test]
    fn of_the_kernels_memory_an_eighth_of_the_limit_counts() {
        let share = |all| kernels_share(Told("", None).bounds(0), all) / MIB;
        assert_eq!(share(None), 8);
        assert_eq!(share(Some(0)), 8);
        assert_eq!(share(Some(20 * MIB)), 20);
        assert_eq!(share(Some(200 * MIB)), 32);
    }

    #[test]
    fn a_limit_that_was_changed_counts() {
        let full = "hierarchical_memory_limit 268435456\ntotal_rss 251658240\n";
        let counts = |text| Some(near(text)?.counts_for(100 * MIB, 0) / MIB);
        assert_eq!(counts(full), Some(108));
        let raised = "hierarchical_memory_limit 536870912\ntotal_rss 251658240\n";
        assert_eq!(counts(raised), None, "far from it");
        let none = "hierarchical_memory_limit 9223372036854771712\ntotal_rss 251658240\n";
        assert_eq!(counts(none), None);
        let lowered = "hierarchical_memory_limit 134217728\ntotal_rss 125829120\n";
        assert_eq!(
            counts(lowered),
            Some(100 + 4),
            "120 MiB, and 4 of the kernel's"
        );
        let budget = |text| Held::look(&Told(text, None), 0).unwrap().budget();
        assert_eq!(
            [full, raised, lowered].map(budget),
            [240 * MIB, 480 * MIB, 120 * MIB]
        );
        assert_eq!(budget(none), NO_BUDGET);
    }

    #[test]
    fn in_version_2_the_limit_stands_in_a_file_of_its_own() {
        let budget = |limit| {
            let told = Told("anon 4096\nkernel 0\n", limit);
            Held::look(&told, 0).unwrap().budget()
        };
        assert_eq!(budget(Some(64 * MIB)), 60 * MIB);
        assert_eq!(budget(Some(NO_LIMIT)), NO_BUDGET);
        assert_eq!(budget(None), 240 * MIB, "that of the start");
    }

    #[test]
    fn above_halfway_it_is_critical() {
        let critical = |text| Held::look(&Told(text, None), 0).is_some_and(Held::is_critical);
        assert!(!critical("total_rss 251658240\n"));
        assert!(critical("total_rss 251658241\n"));
    }
}
