//! What is never evicted.
//!
//! * Stacks of threads with the thread control block, TLS and rseq area that libc keeps on them:
//!   found through the kernel (`get_robust_list` names an address inside the control block of
//!   any thread), and kept excluded after the thread has gone, because libc keeps such stacks
//!   for the next thread and walks them in the child of a fork.
//! * Ranges the program has told us of: signal alternate stacks, memory left out of or wiped in
//!   forked children ([`Exclusions::add`], called by the preload library's wrappers).
//! * The pager's own memory, and the data of the preload library.
//!
//! The rest of the rule stands where mappings are read (`discovery`).

use crate::futex::FutexLock;
use crate::sys;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::fd::BorrowedFd;
use rustix::fs::RawDir;

/// Why a range is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Part of a thread's stack, or its control block.
    Thread,
    /// A signal alternate stack.
    AlternateStack,
    /// Left out of forked children by the program.
    NotInherited,
    /// Wiped in forked children by the program.
    WipedInChild,
    /// Told by the program.
    Asked,
}

const CAPACITY: usize = 8192;

/// Bytes below the control block of a thread whose stack has no border that could be seen.
const STACK_GUESS: usize = 8 << 20;

/// Bytes from the robust list head to the end of libc's control block, generously.
const CONTROL_BLOCK: usize = 2 * PAGE_SIZE;

struct Table {
    entries: [(AddressRange, Reason); CAPACITY],
    len: usize,
}

/// The table of excluded ranges.
pub struct Exclusions {
    /// Something could not be excluded: nothing is taken any more.
    pub full: AtomicBool,
    table: lock_api::Mutex<FutexLock, Table>,
}

impl Default for Exclusions {
    fn default() -> Self {
        Self::new()
    }
}

impl Exclusions {
    /// Nothing excluded.
    pub const fn new() -> Self {
        const NONE: (AddressRange, Reason) = (AddressRange { start: 0, end: 0 }, Reason::Thread);
        Self {
            full: AtomicBool::new(false),
            table: lock_api::Mutex::const_new(
                <FutexLock as lock_api::RawMutex>::INIT,
                Table {
                    entries: [NONE; CAPACITY],
                    len: 0,
                },
            ),
        }
    }

    /// Excludes a range (rounded out to pages). `false`: the table is full.
    pub fn add(&self, range: AddressRange, reason: Reason) -> bool {
        let range = AddressRange {
            start: range.start & !(PAGE_SIZE - 1),
            end: range.end.next_multiple_of(PAGE_SIZE),
        };
        let mut table = self.table.lock();
        let len = table.len;
        if table.entries[..len].contains(&(range, reason)) {
            return true;
        }
        if len == CAPACITY {
            self.full.store(true, Relaxed);
            return false;
        }
        table.entries[len] = (range, reason);
        table.len += 1;
        true
    }

    /// Ends every exclusion for `reason` that overlaps `range`.
    pub fn remove(&self, range: AddressRange, reason: Reason) {
        let mut table = self.table.lock();
        let mut n = 0;
        while n < table.len {
            let (other, why) = table.entries[n];
            if why == reason && !other.intersect(range).is_empty() {
                table.len -= 1;
                table.entries[n] = table.entries[table.len];
            } else {
                n += 1;
            }
        }
    }

    /// Forgets what lay in memory that is no longer mapped.
    pub fn unmapped(&self, range: AddressRange) {
        let mut table = self.table.lock();
        let mut n = 0;
        while n < table.len {
            let other = table.entries[n].0;
            if other.start >= range.start && other.end <= range.end {
                table.len -= 1;
                table.entries[n] = table.entries[table.len];
            } else {
                n += 1;
            }
        }
    }

    /// The first excluded range that overlaps `range`.
    pub fn first_overlap(&self, range: AddressRange) -> Option<AddressRange> {
        let table = self.table.lock();
        let overlaps = table.entries[..table.len]
            .iter()
            .filter(|(other, _)| !other.intersect(range).is_empty());
        overlaps.map(|(other, _)| *other).min_by_key(|r| r.start)
    }

    /// The part of `range` around `wanted` (which overlaps no exclusion) that overlaps none.
    pub fn clear_of(&self, range: AddressRange, wanted: AddressRange) -> AddressRange {
        let mut clear = range;
        let table = self.table.lock();
        for (other, _) in &table.entries[..table.len] {
            if other.end <= wanted.start {
                clear.start = clear.start.max(other.end);
            } else if other.start >= wanted.end {
                clear.end = clear.end.min(other.start);
            }
        }
        clear
    }

    /// Calls `with` for each range excluded for `reason`.
    pub fn for_each(&self, reason: Reason, mut with: impl FnMut(AddressRange)) {
        let table = self.table.lock();
        for (range, why) in &table.entries[..table.len] {
            if *why == reason {
                with(*range);
            }
        }
    }

    /// Drops thread ranges whose mapping no longer begins where it did: the stack was unmapped
    /// and its addresses serve something else.
    pub fn retain_threads(&self, still_there: impl Fn(AddressRange) -> bool) {
        let mut table = self.table.lock();
        let mut n = 0;
        while n < table.len {
            let (range, why) = table.entries[n];
            if why == Reason::Thread && !still_there(range) {
                table.len -= 1;
                table.entries[n] = table.entries[table.len];
            } else {
                n += 1;
            }
        }
    }

    /// The table is consistent and unlocked again: in the child of a fork.
    ///
    /// # Safety
    /// No other thread exists that uses it.
    pub unsafe fn reset_lock(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.table.raw().reset() };
    }
}

/// Calls `with` with the address of each thread's robust list head, which lies in its control
/// block. `tasks` is the open directory `/proc/self/task`.
pub fn for_each_thread(tasks: BorrowedFd<'_>, mut with: impl FnMut(usize)) {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    if rustix::fs::seek(tasks, rustix::fs::SeekFrom::Start(0)).is_err() {
        return;
    }
    let mut entries = RawDir::new(tasks, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        let thread = core::str::from_utf8(name).ok().and_then(|n| n.parse().ok());
        if let Some(head) = thread.and_then(sys::robust_list) {
            with(head);
        }
    }
}

/// The surroundings of a thread's control block: with static thread-local memory below it.
pub fn control_block_range(control_block: usize) -> AddressRange {
    AddressRange {
        start: control_block - (64 << 10),
        end: control_block + CONTROL_BLOCK,
    }
}

/// What belongs to the thread whose control block holds `head`, in `mapping`: everything from
/// the mapping's start where that is near, else a stack of the usual size.
pub fn thread_range(mapping: AddressRange, head: usize) -> AddressRange {
    let start = match head - mapping.start <= 2 * STACK_GUESS {
        true => mapping.start,
        false => head - STACK_GUESS,
    };
    AddressRange {
        start: start & !(PAGE_SIZE - 1),
        end: (head + CONTROL_BLOCK)
            .next_multiple_of(PAGE_SIZE)
            .min(mapping.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_ranges_are_found_and_forgotten() {
        let exclusions = Exclusions::new();
        let range = |start: usize, end: usize| AddressRange {
            start: start * PAGE_SIZE,
            end: end * PAGE_SIZE,
        };
        assert!(exclusions.add(range(10, 12), Reason::Thread));
        assert!(exclusions.add(range(20, 30), Reason::WipedInChild));
        assert_eq!(exclusions.first_overlap(range(0, 10)), None);
        assert_eq!(exclusions.first_overlap(range(0, 25)), Some(range(10, 12)));
        exclusions.retain_threads(|_| false);
        assert_eq!(exclusions.first_overlap(range(0, 20)), None);
        exclusions.remove(range(22, 23), Reason::WipedInChild);
        assert_eq!(exclusions.first_overlap(range(0, 100)), None);
    }

    #[test]
    fn a_thread_owns_its_stack_and_not_the_arena_it_merged_with() {
        let near = AddressRange {
            start: 0x7000_0000,
            end: 0x7080_0000,
        };
        assert_eq!(thread_range(near, 0x707F_F000).start, near.start);
        let far = AddressRange {
            start: 0x1000_0000,
            end: 0x9000_0000,
        };
        let owned = thread_range(far, 0x8000_0800);
        assert_eq!(owned.start, 0x8000_0000 - STACK_GUESS);
        assert!(owned.end < far.end);
    }
}
