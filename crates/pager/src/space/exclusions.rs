//! What is never evicted.
//!
//! * Stacks of threads with the thread control block, TLS and rseq area that libc keeps on them:
//!   found through the kernel (`get_robust_list` names an address inside the control block of
//!   any thread), and kept excluded after the thread has gone, because libc keeps such stacks
//!   for the next thread and walks them in the child of a fork.
//! * Ranges the program has told us of: signal alternate stacks, memory wiped in forked children
//!   ([`Exclusions::add`], called by the preload library's wrappers).
//! * Robust mutexes, which the kernel marks when a thread dies that holds them. It does not wait for a page
//!   then, so a mark would be lost, and with it all behind it on the thread's list. They stay excluded as long
//!   as there is memory at their place: programs may leave out `pthread_mutex_destroy`.
//! * The pager's own memory, and the data of the preload library.
//!
//! A place that memory is being moved away from is no longer mapped before the exclusions are told: what moves with the
//! memory is kept until then ([`Exclusions::begin_move`]).
//!
//! An exclusion that came while mappings were read is not judged by them ([`Exclusions::begin_reading`]). One that must
//! hold when the call that makes it returns waits for runs that were found clear before it came
//! ([`Pager::keep_in_place`](crate::Pager::keep_in_place)).
//!
//! What belongs to a thread that has ended is looked at again and again (`Table::is_over`): libc gives stacks back too, without
//! an event where they were never registered, and their addresses become heap.
//!
//! A table that is full for good ends compression for good: what could not be excluded must not be taken. From then on
//! threads cost nothing here: making room took 5 ms for each that came.
//!
//! The rest of the rule stands where mappings are read (`discovery`).

use crate::machine::linux::Linux;
use crate::machine::os::{Os, ProcessFiles};
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use coldpress_linux::sys;
use coldpress_uffd::{AddressRange, Errno, PAGE_SIZE};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Why a range is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Part of a thread's stack, or its control block.
    Thread,
    /// A signal alternate stack.
    AlternateStack,
    /// Wiped in forked children by the program.
    WipedInChild,
    /// A word that the kernel writes when a thread dies: in a mutex that it holds, or where it was asked to clear one.
    RobustMutex,
    /// Told by the program.
    Asked,
    /// Being dropped without an event.
    BeingDropped,
    /// The program has said that it cannot wait for it ([`Pager::advise`](crate::Pager::advise)).
    LatencySensitive,
}

impl Reason {
    /// Whether it is the memory that is excluded, and not the address: a move takes it along.
    fn moves_along(self) -> bool {
        MOVE_ALONG.contains(&self)
    }
}

/// The reasons that a move takes along.
pub const MOVE_ALONG: [Reason; 2] = [Reason::WipedInChild, Reason::RobustMutex];

/// What became of the place that memory was moved away from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldPlace {
    /// Nothing is mapped there.
    Unmapped,
    /// It is still mapped, with what it was advised, and empty (`MREMAP_DONTUNMAP`).
    Kept,
}

const CAPACITY: usize = 8192;

const NOWHERE: AddressRange = AddressRange { start: 0, end: 0 };

/// libc's arenas begin at multiples of this; their first page is never taken out.
pub const ARENA_BYTES: usize = 64 << 20;

/// Bytes below the control block of a thread whose stack has no border that could be seen.
const STACK_GUESS: usize = 8 << 20;

/// Bytes from the robust list head to the end of libc's control block, generously.
const CONTROL_BLOCK: usize = 2 * PAGE_SIZE;

#[derive(Clone, Copy)]
struct Exclusion {
    range: AddressRange,
    why: Reason,
    /// The reading of the mappings before which it came, or came again.
    came_in: u32,
    /// Of what belongs to a thread: its control block. Of an alternate stack: the number of the thread. 0: not known.
    owner: usize,
}

struct Table {
    entries: [Exclusion; CAPACITY],
    len: usize,
    /// How often the mappings were read.
    reading: u32,
    /// Where the next look for unmapped ranges begins.
    look_at: usize,
    /// Memory is being moved away from here.
    moving: AddressRange,
}

/// Ranges of more pages than this are not looked at page by page; they leave by an event, or when
/// the program takes back what it asked for.
const LOOKED_AT_PAGES: usize = 64;

impl Table {
    /// After each change, in debug builds: entries are whole pages, and what is joined when it comes overlaps nothing of its
    /// kind.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let entries = &self.entries[..self.len];
        for (n, Exclusion { range, why, .. }) in entries.iter().enumerate() {
            assert!(
                range.start < range.end && range.whole_pages() == *range,
                "an exclusion of {range:x?}"
            );
            let overlaps =
                |other: &Exclusion| other.why == *why && !other.range.intersect(*range).is_empty();
            assert!(
                *why != Reason::RobustMutex || !entries[..n].iter().any(overlaps),
                "{range:x?} is excluded twice for robust mutexes"
            );
        }
    }

    /// Takes out what overlaps or touches `range` and is excluded for the same reason; all of it together.
    fn take_joined(&mut self, mut range: AddressRange, reason: Reason) -> AddressRange {
        let mut n = 0;
        while n < self.len {
            let Exclusion {
                range: other, why, ..
            } = self.entries[n];
            if why == reason && other.start <= range.end && range.start <= other.end {
                range.start = range.start.min(other.start);
                range.end = range.end.max(other.end);
                self.len -= 1;
                self.entries[n] = self.entries[self.len];
                // It may reach what was passed over.
                n = 0;
            } else {
                n += 1;
            }
        }
        range
    }

    /// Whether it is about to move with its memory, of which nothing is at the old place by now.
    fn is_moving(&self, Exclusion { range, why, .. }: &Exclusion) -> bool {
        why.moves_along() && !range.intersect(self.moving).is_empty()
    }

    /// See [`Exclusions::subtract`].
    fn subtract(&mut self, range: AddressRange, reason: Reason) -> bool {
        let range = range.whole_pages();
        let mut n = 0;
        while n < self.len {
            let Exclusion {
                range: other, why, ..
            } = self.entries[n];
            let overlap = other.intersect(range);
            if why != reason || overlap.is_empty() {
                n += 1;
                continue;
            }
            let before = AddressRange {
                end: overlap.start,
                ..other
            };
            let behind = AddressRange {
                start: overlap.end,
                ..other
            };
            match (before.is_empty(), behind.is_empty()) {
                (true, true) => {
                    self.len -= 1;
                    self.entries[n] = self.entries[self.len];
                    continue;
                }
                (false, true) => self.entries[n].range = before,
                (true, false) => self.entries[n].range = behind,
                (false, false) => {
                    let len = self.len;
                    if len == CAPACITY {
                        return false;
                    }
                    self.entries[n].range = before;
                    self.entries[len] = Exclusion {
                        range: behind,
                        ..self.entries[n]
                    };
                    self.len += 1;
                }
            }
            n += 1;
        }
        self.check();
        true
    }

    /// See [`Exclusions::moved`]. `false`: there is no room for all of it.
    fn moved(
        &mut self,
        from: AddressRange,
        to: AddressRange,
        reason: Reason,
        old: OldPlace,
    ) -> bool {
        if !self.subtract(to, reason) {
            return false;
        }
        for n in 0..self.len {
            let entry = self.entries[n];
            let part = entry.range.intersect(from);
            if entry.why != reason || part.is_empty() {
                continue;
            }
            let there = AddressRange::new(to.start + (part.start - from.start), part.len());
            let moved = Exclusion {
                range: there.intersect(to),
                ..entry
            };
            if moved.range.is_empty() {
                continue;
            }
            // What moves whole needs no room.
            if old == OldPlace::Unmapped && part == entry.range {
                self.entries[n] = moved;
                continue;
            }
            if self.len == CAPACITY {
                return false;
            }
            self.entries[self.len] = moved;
            self.len += 1;
        }
        old == OldPlace::Kept || self.subtract(from, reason)
    }

    /// Forgets, of the next `count` entries, those that are over.
    fn forget(&mut self, count: usize, is_over: impl Fn(&Self, &Exclusion) -> bool) {
        for _ in 0..count.min(self.len) {
            if self.look_at >= self.len {
                self.look_at = 0;
            }
            let entry = &self.entries[self.look_at];
            if !self.is_moving(entry) && is_over(self, entry) {
                self.len -= 1;
                self.entries[self.look_at] = self.entries[self.len];
            } else {
                self.look_at += 1;
            }
        }
    }

    /// Forgets what any thread can see to be over.
    fn make_room<O: Os>(&mut self) {
        self.forget(CAPACITY, |table, exclusion| {
            table.is_unmapped::<O>(exclusion)
                || exclusion.why == Reason::AlternateStack
                    && table.is_over::<O>(exclusion, |_| false)
        });
    }

    /// Whether nothing is mapped there any more.
    fn is_unmapped<O: Os>(&self, Exclusion { range, .. }: &Exclusion) -> bool {
        let mut pages = (range.start..range.end).step_by(PAGE_SIZE);
        range.len() <= LOOKED_AT_PAGES * PAGE_SIZE && !pages.any(O::is_mapped)
    }

    /// Whether the thread has ended, and with it what the range was excluded for. The stack of a thread that has ended
    /// may be kept by libc for another: then its control block stays what it was.
    fn is_over<O: Os>(
        &self,
        exclusion: &Exclusion,
        is_no_control_block: impl Fn(usize) -> bool,
    ) -> bool {
        let Exclusion {
            why,
            came_in,
            owner,
            ..
        } = *exclusion;
        match why {
            _ if owner == 0 => false,
            Reason::Thread => came_in != self.reading && is_no_control_block(owner),
            Reason::AlternateStack => O::is_thread_gone(owner as u32),
            _ => false,
        }
    }
}

/// The table of excluded ranges.
pub struct Exclusions<O: Os = Linux> {
    /// Bytes from a control block to the head of the thread's robust list in it.
    head_at: AtomicUsize,
    /// Something could not be excluded: nothing is taken any more.
    pub incomplete: AtomicBool,
    table: lock_api::Mutex<RankedLock<{ ranks::LEAF }, O>, Table>,
}

impl<O: Os> Default for Exclusions<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Exclusions<O> {
    /// Nothing excluded.
    pub const fn new() -> Self {
        const NONE: Exclusion = Exclusion {
            range: NOWHERE,
            why: Reason::Thread,
            came_in: 0,
            owner: 0,
        };
        Self {
            head_at: AtomicUsize::new(0),
            incomplete: AtomicBool::new(false),
            table: lock_api::Mutex::const_new(
                lock_api::RawMutex::INIT,
                Table {
                    entries: [NONE; CAPACITY],
                    len: 0,
                    reading: 0,
                    look_at: 0,
                    moving: NOWHERE,
                },
            ),
        }
    }

    /// Learns how libc lays its control blocks out, from that of the calling thread of the program.
    pub fn learn_layout(&self) {
        if let Ok(Some(head)) = O::robust_list(O::thread_id()) {
            let at = head.wrapping_sub(sys::thread_block());
            if at < CONTROL_BLOCK {
                self.head_at.store(at, Relaxed);
            }
        }
    }

    /// Excludes a range (rounded out to pages). `false`: the table is full.
    pub fn add(&self, range: AddressRange, reason: Reason) -> bool {
        let owner = match reason {
            Reason::AlternateStack => O::thread_id() as usize,
            _ => 0,
        };
        self.add_owned(range, reason, owner)
    }

    /// Excludes what surrounds the control block of a thread.
    pub fn add_control_block(&self, block: usize) -> bool {
        self.add_owned(control_block_range(block), Reason::Thread, block)
    }

    fn add_owned(&self, range: AddressRange, reason: Reason, owner: usize) -> bool {
        // What is excluded for another reason also tells a fork what its child is to have.
        if reason == Reason::Thread && self.incomplete.load(Relaxed) {
            return false;
        }
        let range = range.whole_pages();
        let mut table = self.table.lock();
        let (len, came_in) = (table.len, table.reading);
        let known = table.entries[..len].iter_mut();
        if let Some(known) = known
            .into_iter()
            .find(|e| e.range == range && e.why == reason)
        {
            (known.came_in, known.owner) = (came_in, owner);
            return true;
        }
        // There may be an array of them, and none ends by itself.
        let range = match reason {
            Reason::RobustMutex => table.take_joined(range, reason),
            _ => range,
        };
        if table.len == CAPACITY && !self.incomplete.load(Relaxed) {
            table.make_room::<O>();
        }
        let len = table.len;
        if len == CAPACITY {
            drop(table);
            self.end_compression(format_args!(
                "too many threads, alternate stacks and robust mutexes to leave alone (more than {CAPACITY} places)"
            ));
            return false;
        }
        table.entries[len] = Exclusion {
            range,
            why: reason,
            came_in,
            owner,
        };
        table.len += 1;
        table.check();
        true
    }

    /// Something could not be excluded: nothing is taken any more, and that is told once.
    fn end_compression(&self, why: core::fmt::Arguments<'_>) {
        if !self.incomplete.swap(true, Relaxed) {
            crate::machine::message::say(format_args!("{why}; nothing more is compressed"));
        }
    }

    /// Mappings are about to be read: what is excluded from now on is not judged by them.
    pub fn begin_reading(&self) {
        let mut table = self.table.lock();
        table.reading = table.reading.wrapping_add(1);
    }

    /// The same for what can be refused: a table that is full stays as it is.
    pub fn add_if_room(&self, range: AddressRange, reason: Reason) -> bool {
        let room = {
            let mut table = self.table.lock();
            if table.len == CAPACITY {
                table.make_room::<O>();
            }
            // Some are left for what cannot be refused.
            table.len < CAPACITY - CAPACITY / 4
        };
        room && self.add(range, reason)
    }

    /// Forgets ranges that are no longer mapped, or were a thread's that has ended: memory that was never registered goes
    /// without an event, as the stacks of threads do. Looks at `count` of them, and goes on there
    /// the next time. By a thread of the pager, outside the gate. `is_no_control_block`: whether something else, or
    /// nothing, lies where a control block was.
    pub fn forget_what_is_over(&self, count: usize, is_no_control_block: impl Fn(usize) -> bool) {
        self.table.lock().forget(count, |table, exclusion| {
            table.is_unmapped::<O>(exclusion) || table.is_over::<O>(exclusion, &is_no_control_block)
        });
    }

    /// Excludes what belongs to a thread whose control block holds `head`.
    fn add_thread(&self, mappings: &[AddressRange], head: usize) {
        let at = mappings.partition_point(|m| m.end <= head);
        let range = match mappings.get(at).filter(|m| m.start <= head) {
            Some(mapping) => thread_range(*mapping, head),
            // Its stack is small, or younger than the list; what lay there before may still be tracked.
            None => control_block_range(head),
        };
        let block = match self.head_at.load(Relaxed) {
            0 => 0,
            at => head - at,
        };
        self.add_owned(range, Reason::Thread, block);
    }

    /// Excludes what belongs to the threads of the process. `files` tells of them.
    pub fn add_threads(&self, files: &O::ProcessFiles, mappings: &[AddressRange]) {
        if self.incomplete.load(Relaxed) {
            return;
        }
        let told = for_each_thread::<O>(files, |head| self.add_thread(mappings, head));
        if let Err(errno) = told {
            self.cannot_tell(errno);
        }
    }

    /// The kernel no longer tells where threads have their control blocks (a filter of the program
    /// forbids the call): those that come from now on could not be excluded.
    fn cannot_tell(&self, errno: Errno) {
        self.end_compression(format_args!(
            "the kernel does not tell where threads have their stacks (get_robust_list: error {}; a seccomp filter of \
             the program?)",
            errno.raw_os_error()
        ));
    }

    /// Ends the exclusion of this range for `reason`. Others that share a page with it stay.
    pub fn remove(&self, range: AddressRange, reason: Reason) {
        let range = range.whole_pages();
        let mut table = self.table.lock();
        let entries = &table.entries[..table.len];
        let found = entries
            .iter()
            .position(|e| e.range == range && e.why == reason);
        if let Some(n) = found {
            table.len -= 1;
            table.entries[n] = table.entries[table.len];
        }
    }

    /// Memory is about to be moved away from `range`. Until [`end_move`](Self::end_move) what moves along with it is
    /// kept there, whatever is seen of the place. One move at a time.
    pub fn begin_move(&self, range: AddressRange) {
        self.table.lock().moving = range;
    }

    /// The move is over, and [`moved`](Self::moved) was called for what has moved.
    pub fn end_move(&self) {
        self.table.lock().moving = NOWHERE;
    }

    /// The first part of `range` that is excluded for `reason`.
    pub fn first_part(&self, range: AddressRange, reason: Reason) -> Option<AddressRange> {
        let table = self.table.lock();
        let entries = table.entries[..table.len].iter();
        let parts = entries
            .filter(|e| e.why == reason)
            .map(|e| e.range.intersect(range));
        parts
            .filter(|part| !part.is_empty())
            .min_by_key(|part| part.start)
    }

    /// The program has moved `from` to `to`: what was excluded there for `reason` is excluded here, and nothing else.
    /// Of what was longer than it is now the end is gone.
    pub fn moved(&self, from: AddressRange, to: AddressRange, reason: Reason, old: OldPlace) {
        if !self.table.lock().moved(from, to, reason, old) {
            self.end_compression(format_args!(
                "too many places to leave alone that have moved (more than {CAPACITY} in all)"
            ));
        }
    }

    /// Memory that was excluded for `reason` is longer now, by `new`, which is like the rest of it.
    pub fn grown(&self, new: AddressRange, reason: Reason) {
        let last = AddressRange::new(new.start - PAGE_SIZE, PAGE_SIZE);
        if self.first_part(last, reason).is_some() {
            self.add(new, reason);
        }
    }

    /// Ends exclusions for `reason` where they overlap `range` (rounded out to pages); what lies beside it stays excluded.
    /// `false`: the table had no room for the rest of a range, which is still excluded whole.
    pub fn subtract(&self, range: AddressRange, reason: Reason) -> bool {
        self.table.lock().subtract(range, reason)
    }

    /// Forgets what lay in memory that is no longer mapped. Robust mutexes wait for `forget_unmapped`:
    /// there may be a new one at the same place by now.
    pub fn unmapped(&self, range: AddressRange) {
        let mut table = self.table.lock();
        let mut n = 0;
        while n < table.len {
            let Exclusion {
                range: other, why, ..
            } = table.entries[n];
            let inside = other.start >= range.start && other.end <= range.end;
            let is_moving = table.is_moving(&table.entries[n]);
            if why != Reason::RobustMutex && inside && !is_moving {
                table.len -= 1;
                table.entries[n] = table.entries[table.len];
            } else {
                n += 1;
            }
        }
        table.check();
    }

    /// The first excluded range that overlaps `range`.
    pub fn first_overlap(&self, range: AddressRange) -> Option<AddressRange> {
        let table = self.table.lock();
        let others = table.entries[..table.len].iter().map(|e| e.range);
        let overlaps = others.filter(|other| !other.intersect(range).is_empty());
        overlaps.min_by_key(|r| r.start)
    }

    /// The pages of `run`, at most 64, that are excluded: bit n stands for its page n.
    pub fn excluded_pages(&self, run: AddressRange) -> u64 {
        debug_assert!(run.len() <= 64 * PAGE_SIZE && run.whole_pages() == run);
        let page = |address: usize| ((address - run.start) / PAGE_SIZE) as u32;
        let table = self.table.lock();
        let parts = table.entries[..table.len]
            .iter()
            .map(|e| e.range.intersect(run));
        parts
            .filter(|part| !part.is_empty())
            .map(|part| (!0u64 >> (64 - (page(part.end) - page(part.start)))) << page(part.start))
            .fold(0, |excluded, pages| excluded | pages)
    }

    /// The part of `range` around `wanted` (which overlaps no exclusion) that overlaps none.
    pub fn clear_of(&self, range: AddressRange, wanted: AddressRange) -> AddressRange {
        let mut clear = range;
        let table = self.table.lock();
        for Exclusion { range: other, .. } in &table.entries[..table.len] {
            if other.end <= wanted.start {
                clear.start = clear.start.max(other.end);
            } else if other.start >= wanted.end {
                clear.end = clear.end.min(other.start);
            }
        }
        clear
    }

    /// Whether anything is excluded for `reason`.
    pub fn has(&self, reason: Reason) -> bool {
        let table = self.table.lock();
        table.entries[..table.len].iter().any(|e| e.why == reason)
    }

    /// Calls `with` for each range excluded for `reason`.
    pub fn for_each(&self, reason: Reason, mut with: impl FnMut(AddressRange)) {
        let table = self.table.lock();
        for entry in &table.entries[..table.len] {
            if entry.why == reason {
                with(entry.range);
            }
        }
    }

    /// Drops thread ranges that are in none of the mappings read since
    /// [`begin_reading`](Self::begin_reading): the stack was unmapped and its addresses serve something else. What
    /// came since then stays: the mappings may have been read before it was there.
    pub fn retain_threads(&self, still_there: impl Fn(AddressRange) -> bool) {
        let mut table = self.table.lock();
        let mut n = 0;
        while n < table.len {
            let Exclusion {
                range,
                why,
                came_in,
                ..
            } = table.entries[n];
            if why == Reason::Thread && came_in != table.reading && !still_there(range) {
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
        // Threads have other numbers here, and the one that there is may have kept its alternate stack.
        let mut table = self.table.lock();
        // The thread that was moving memory is not here.
        table.moving = NOWHERE;
        let len = table.len;
        for entry in &mut table.entries[..len] {
            if entry.why == Reason::AlternateStack {
                entry.owner = 0;
            }
        }
    }
}

/// Calls `with` with the address of each thread's robust list head, which lies in its control
/// block. An error: there may be threads that were not told of.
fn for_each_thread<O: Os>(
    files: &O::ProcessFiles,
    mut with: impl FnMut(usize),
) -> Result<(), Errno> {
    files.for_each_thread(|thread| {
        if let Some(head) = O::robust_list(thread)? {
            with(head);
        }
        Ok(())
    })
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
    extern crate std;
    use super::*;

    #[test]
    fn excluded_ranges_are_found_and_forgotten() {
        let exclusions = Exclusions::<Linux>::new();
        let range = |start: usize, end: usize| AddressRange {
            start: start * PAGE_SIZE,
            end: end * PAGE_SIZE,
        };
        assert!(exclusions.add(range(10, 12), Reason::Thread));
        assert!(exclusions.add(range(20, 30), Reason::WipedInChild));
        assert_eq!(exclusions.first_overlap(range(0, 10)), None);
        assert_eq!(exclusions.first_overlap(range(0, 25)), Some(range(10, 12)));
        assert_eq!(exclusions.excluded_pages(range(0, 10)), 0);
        assert_eq!(exclusions.excluded_pages(range(8, 28)), 0b1100 | 0xff << 12);
        assert_eq!(exclusions.excluded_pages(range(11, 75)), 1 | 0x3ff << 9);
        assert_eq!(exclusions.excluded_pages(range(21, 29)), 0xff);
        exclusions.begin_reading();
        exclusions.retain_threads(|_| false);
        assert_eq!(exclusions.first_overlap(range(0, 20)), None);
        exclusions.remove(range(22, 23), Reason::WipedInChild);
        assert_eq!(exclusions.first_overlap(range(0, 100)), Some(range(20, 30)));
        exclusions.remove(range(20, 30), Reason::WipedInChild);
        assert_eq!(exclusions.first_overlap(range(0, 100)), None);
    }

    /// Story: a thread was made while mappings were read, which did not have its stack yet, so its exclusion was
    /// dropped again. Its control block was taken once it had ended, and libc read zeros in a child: 10 of 200 runs of
    /// `fork_and_signals.c`, eight at a time.
    #[test]
    fn what_comes_while_mappings_are_read_is_not_judged_by_them() {
        let exclusions = Exclusions::<Linux>::new();
        let [old, again, new] = [1, 2, 3].map(|n| AddressRange::new(n << 20, PAGE_SIZE));
        let left = || [old, again, new].map(|range| exclusions.first_overlap(range).is_some());
        exclusions.add(old, Reason::Thread);
        exclusions.add(again, Reason::Thread);
        exclusions.begin_reading();
        exclusions.add(again, Reason::Thread);
        exclusions.add(new, Reason::Thread);
        exclusions.retain_threads(|_| false);
        assert_eq!(left(), [false, true, true]);
        exclusions.begin_reading();
        exclusions.retain_threads(|_| false);
        assert_eq!(left(), [false; 3]);
    }

    /// Story: alternate stacks of two threads shared a page; when one was given up, both were.
    #[test]
    fn exclusions_that_share_a_page_end_by_themselves() {
        let exclusions = Exclusions::<Linux>::new();
        let [one, other] = [0x1000_0100, 0x1000_2100].map(|at| AddressRange::new(at, 0x2000));
        exclusions.add(one, Reason::AlternateStack);
        exclusions.add(other, Reason::AlternateStack);
        exclusions.remove(one, Reason::AlternateStack);
        let left = exclusions.first_overlap(other);
        assert_eq!(left, Some(AddressRange::new(0x1000_2000, 0x3000)));
        exclusions.remove(other, Reason::AlternateStack);
        assert_eq!(exclusions.first_overlap(other), None);
    }

    /// Story: memory that was moved onto a range that children are to find wiped was wiped in them.
    #[test]
    fn exclusions_move_with_their_memory() {
        let exclusions = Exclusions::<Linux>::new();
        let [from, to, wiped] = [1, 2, 3].map(|n| AddressRange::new(n << 30, 8 * PAGE_SIZE));
        exclusions.add(wiped, Reason::WipedInChild);
        exclusions.moved(from, wiped, Reason::WipedInChild, OldPlace::Unmapped);
        assert_eq!(exclusions.first_overlap(wiped), None);
        let second = |range: AddressRange| AddressRange::new(range.start + PAGE_SIZE, PAGE_SIZE);
        exclusions.add(second(from), Reason::WipedInChild);
        exclusions.moved(from, to, Reason::WipedInChild, OldPlace::Unmapped);
        assert_eq!(exclusions.first_overlap(from), None);
        assert_eq!(exclusions.first_overlap(to), Some(second(to)));
    }

    /// Story: between the system call that moves memory and the note of it nothing is mapped at the old place. What was
    /// excluded there was forgotten: by a look at what is over, or by the event of the unmapping.
    #[test]
    fn what_moves_along_is_kept_until_the_move_is_over() {
        let exclusions = Exclusions::<Linux>::new();
        // Nothing is mapped at any of them.
        let [from, to] = [1, 2].map(|n| AddressRange::new(n << 12, PAGE_SIZE));
        let left = |range| MOVE_ALONG.map(|reason| exclusions.first_part(range, reason).is_some());
        assert!(
            MOVE_ALONG
                .iter()
                .all(|&reason| exclusions.add(from, reason))
        );
        exclusions.add(from, Reason::AlternateStack);
        exclusions.begin_move(from);
        exclusions.unmapped(from);
        exclusions.forget_what_is_over(CAPACITY, |_| true);
        assert_eq!(left(from), [true; 2]);
        assert!(!exclusions.has(Reason::AlternateStack));
        for reason in MOVE_ALONG {
            exclusions.moved(from, to, reason, OldPlace::Unmapped);
        }
        exclusions.end_move();
        assert_eq!((left(from), left(to)), ([false; 2], [true; 2]));
        exclusions.forget_what_is_over(CAPACITY, |_| true);
        assert_eq!(left(to), [false; 2], "over");
    }

    fn pages(from: usize, to: usize) -> AddressRange {
        AddressRange::new((1 << 30) + from * PAGE_SIZE, (to - from) * PAGE_SIZE)
    }

    /// Story: memory to be wiped in children grew, and they read what its new end held.
    #[test]
    fn what_has_grown_is_like_the_rest() {
        let exclusions = Exclusions::<Linux>::new();
        exclusions.add(pages(0, 4), Reason::WipedInChild);
        exclusions.grown(pages(4, 8), Reason::WipedInChild);
        exclusions.grown(pages(9, 12), Reason::WipedInChild);
        assert_eq!(exclusions.excluded_pages(pages(0, 16)), 0xff);
    }

    #[test]
    fn parts_of_what_is_excluded_move() {
        let exclusions = Exclusions::<Linux>::new();
        let reason = Reason::WipedInChild;
        exclusions.add(pages(0, 10), reason);
        exclusions.add(pages(12, 14), reason);
        exclusions.moved(pages(2, 13), pages(20, 31), reason, OldPlace::Unmapped);
        let excluded = |first: usize| exclusions.excluded_pages(pages(first, first + 16));
        assert_eq!(excluded(0), 0b11 | 1 << 13);
        assert_eq!(excluded(16), 0xff << 4 | 1 << 14);
        exclusions.moved(pages(20, 31), pages(40, 43), reason, OldPlace::Kept);
        assert_eq!(excluded(16), 0xff << 4 | 1 << 14, "kept");
        assert_eq!(excluded(40), 0b111, "the end is cut off");
    }

    #[test]
    fn a_full_table_that_cannot_follow_a_move_ends_compression() {
        let exclusions = Exclusions::<Linux>::new();
        let place = |n: usize| AddressRange::new((1 << 30) + n * 4 * PAGE_SIZE, 3 * PAGE_SIZE);
        // Mapped or not, nobody looks at so long a range.
        let long = AddressRange::new(1 << 20, 100 * PAGE_SIZE);
        exclusions.add(long, Reason::WipedInChild);
        for n in 1..CAPACITY {
            assert!(exclusions.add(place(n), Reason::WipedInChild));
        }
        let from = AddressRange::new(long.start + 10 * PAGE_SIZE, PAGE_SIZE);
        let to = AddressRange::new(2 << 20, PAGE_SIZE);
        exclusions.moved(from, to, Reason::WipedInChild, OldPlace::Unmapped);
        assert!(exclusions.incomplete.load(Relaxed));
    }

    #[test]
    fn what_a_move_cuts_off_is_gone() {
        let exclusions = Exclusions::<Linux>::new();
        let [from, to] = [1, 2].map(|n| AddressRange::new(n << 30, 8 * PAGE_SIZE));
        exclusions.add(from, Reason::WipedInChild);
        let shorter = AddressRange::new(to.start, 3 * PAGE_SIZE);
        exclusions.moved(from, shorter, Reason::WipedInChild, OldPlace::Unmapped);
        assert_eq!(exclusions.first_overlap(from), None);
        assert_eq!(exclusions.first_overlap(to), Some(shorter));
    }

    #[test]
    fn exclusions_stay_where_memory_was_that_stays() {
        let exclusions = Exclusions::<Linux>::new();
        let [from, to] = [1, 2].map(|n| AddressRange::new(n << 30, 8 * PAGE_SIZE));
        let page =
            |range: AddressRange, n| AddressRange::new(range.start + n * PAGE_SIZE, PAGE_SIZE);
        exclusions.add(page(from, 1), Reason::WipedInChild);
        exclusions.add(page(from, 6), Reason::WipedInChild);
        exclusions.moved(from, to, Reason::WipedInChild, OldPlace::Kept);
        for n in 0..8 {
            for range in [from, to] {
                let found = exclusions.first_overlap(page(range, n)).is_some();
                assert_eq!(found, n == 1 || n == 6, "{n}");
            }
        }
    }

    #[test]
    fn a_part_of_an_exclusion_ends() {
        let exclusions = Exclusions::<Linux>::new();
        let range = |start: usize, end: usize| AddressRange {
            start: start * PAGE_SIZE,
            end: end * PAGE_SIZE,
        };
        let left = |from: usize| exclusions.first_overlap(range(from, 100));
        exclusions.add(range(10, 30), Reason::LatencySensitive);
        exclusions.add(range(12, 14), Reason::Thread);
        assert!(exclusions.subtract(range(10, 12), Reason::LatencySensitive));
        assert_eq!(left(0), Some(range(12, 30)));
        assert!(exclusions.subtract(range(16, 20), Reason::LatencySensitive));
        assert_eq!(exclusions.first_overlap(range(16, 20)), None);
        assert_eq!(left(16), Some(range(20, 30)));
        assert!(exclusions.subtract(range(25, 50), Reason::LatencySensitive));
        assert_eq!((left(20), left(25)), (Some(range(20, 25)), None));
        assert!(exclusions.subtract(range(0, 100), Reason::LatencySensitive));
        assert_eq!(left(0), Some(range(12, 14)), "another reason stays");
    }

    #[test]
    fn robust_mutexes_side_by_side_are_one_exclusion() {
        let exclusions = Exclusions::<Linux>::new();
        let page = |n: usize| AddressRange::new((64 << 20) + n * PAGE_SIZE + 8, 40);
        for n in (0..2 * CAPACITY).step_by(2) {
            assert!(exclusions.add(page(n % 512), Reason::RobustMutex));
        }
        assert_eq!(exclusions.table.lock().len, 256);
        for n in (1..512).step_by(2) {
            assert!(exclusions.add(page(n), Reason::RobustMutex));
        }
        exclusions.add(page(3), Reason::RobustMutex);
        let all = AddressRange::new(64 << 20, 512 * PAGE_SIZE);
        assert_eq!(exclusions.first_overlap(all), Some(all));
        assert_eq!(exclusions.table.lock().len, 1);
        exclusions.unmapped(all);
        assert_eq!(exclusions.first_overlap(all), Some(all), "a late event");
    }

    /// Entries for memory that was never registered stayed for good: a program that makes and ends
    /// threads with alternate stacks (any in Rust) filled the table, and then nothing was taken
    /// any more.
    #[test]
    fn what_is_unmapped_without_an_event_leaves_the_table() {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
        // In a process of its own: another test would map memory where this one's was, which is over then to nobody.
        const ALONE: &str = "COLDPRESS_TEST_ALONE";
        let name = "what_is_unmapped_without_an_event_leaves_the_table";
        if std::env::var_os(ALONE).is_none() {
            let program = std::env::current_exe().unwrap();
            let mut alone = std::process::Command::new(program);
            let alone = alone.arg(name).env(ALONE, "1");
            let output = alone.output().unwrap();
            let said = std::string::String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && said.contains("1 passed"),
                "{said}"
            );
            return;
        }
        let exclusions = Exclusions::<Linux>::new();
        let map = |pages: usize| {
            let (len, flags) = (pages * PAGE_SIZE, MapFlags::PRIVATE);
            // SAFETY: a fresh mapping.
            let at = unsafe { mmap_anonymous(sys::NULL, len, ProtFlags::READ, flags) };
            AddressRange::new(at.unwrap() as usize, len)
        };
        // SAFETY: mappings of this test that nobody uses.
        let unmap = |r: AddressRange| unsafe { munmap(r.start as *mut _, r.len()).unwrap() };
        let stays = map(4);
        assert!(exclusions.add(stays, Reason::AlternateStack));
        for _ in 0..2 * CAPACITY {
            // The lowest page stays mapped, so that the next mapping comes to lie below it.
            let stack = AddressRange::new(map(3).start + PAGE_SIZE, 2 * PAGE_SIZE);
            assert!(exclusions.add(stack, Reason::AlternateStack), "leaks");
            unmap(stack);
        }
        assert!(!exclusions.incomplete.load(Relaxed));
        unmap(AddressRange {
            end: stays.end - PAGE_SIZE,
            ..stays
        });
        exclusions.forget_what_is_over(CAPACITY, |_| false);
        assert_eq!(exclusions.first_overlap(stays), Some(stays), "partly there");
        // The harness may have mapped something where one of them was.
        let left = exclusions.table.lock().len;
        assert!(left < 8, "{left} left");
    }

    #[test]
    fn a_full_table_stops_everything_and_takes_no_more_threads() {
        let exclusions = Exclusions::<Linux>::new();
        let place = |n: usize| AddressRange::new((1 << 40) + n * PAGE_SIZE, PAGE_SIZE);
        for n in 1..=CAPACITY {
            assert!(exclusions.add(place(n), Reason::WipedInChild));
        }
        exclusions.incomplete.store(true, Relaxed);
        assert!(!exclusions.add(place(0), Reason::Thread));
        exclusions.remove(place(1), Reason::WipedInChild);
        assert!(!exclusions.add(place(0), Reason::Thread));
        let wiped = exclusions.add(place(1), Reason::WipedInChild);
        assert!(wiped, "children are to find it wiped");
        assert!(!exclusions.add(place(0), Reason::WipedInChild));
    }

    #[test]
    fn a_kernel_that_does_not_tell_of_threads_stops_everything() {
        let exclusions = Exclusions::<Linux>::new();
        exclusions.cannot_tell(Errno::PERM);
        assert!(exclusions.incomplete.load(Relaxed));
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
