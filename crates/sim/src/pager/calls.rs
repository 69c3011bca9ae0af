//! System calls of the program that change its address space, in the kernel's order.
//!
//! ```text
//!  madvise   announce ─ tell, wait until it was read ─ go on ────── drop the pages, one by one
//!  munmap    announce ─ unmap ─ tell, wait until it was read ─ return
//!  mremap    announce ─ unmap what lies there ─ move, grow ─ populate what is locked
//!            ─ tell of each: that unmapping, the move, the old place's end
//! ```

use super::kernel::{Claim, Kernel};
use super::program::populate;
use super::space::{Content, State, pages};
use crate::inject::Kind;
use crate::model::Expected;
use crate::schedule::{doze, fires, note, random, simulation, step};
use crate::trace::What;
use coldpress_pager::machine::os::Remapping;
use coldpress_pager::space::exclusions::OldPlace;
use coldpress_uffd::{AddressRange, Message, PAGE_SIZE};
use std::rc::Rc;

/// A call, as the trace shows it: its number above the count of pages.
#[derive(Clone, Copy)]
enum Call {
    Drop = 0,
    Remove = 1,
    Unmap = 2,
    Map = 3,
    RemapFrom = 4,
    RemapTo = 5,
    Guard = 6,
    Unguard = 7,
    KeepFromChildren = 8,
    LetInherit = 9,
    Grow = 10,
}

fn trace(call: Call, range: AddressRange) {
    let (segment, index) = super::kernel::place(range.start);
    let what = match call {
        Call::Drop => What::Zap,
        _ => What::Change,
    };
    let pages = (range.len() / PAGE_SIZE) as u32;
    step(what, segment, index, (call as u32) << 16 | pages);
}

/// The parts of a range that are registered alike, and mapped.
fn parts(kernel: &Kernel, range: AddressRange) -> Vec<(AddressRange, bool)> {
    let mut parts: Vec<(AddressRange, bool)> = Vec::new();
    for page in pages(range) {
        let Some(registered) = kernel.space.with(page, |state| state.registered) else {
            continue;
        };
        match parts.last_mut() {
            Some((part, same)) if part.end == page && *same == registered => part.end += PAGE_SIZE,
            _ => parts.push((AddressRange::new(page, PAGE_SIZE), registered)),
        }
    }
    parts
}

fn note_if_away(kernel: &Kernel, range: AddressRange, kind: Kind) {
    if pages(range).any(|page| kernel.space.is(page, State::is_away)) {
        note(kind);
    }
}

/// `madvise(MADV_DONTNEED)`. The pages may be there for up to `late_steps` steps after it was told that they will go.
pub fn remove(kernel: &Kernel, range: AddressRange, late_steps: u64) {
    if let Some(_claim) = kernel.claim(range) {
        remove_claimed(kernel, range, late_steps);
    }
}

/// As [`remove`], by a caller that has claimed the range.
pub fn remove_claimed(kernel: &Kernel, range: AddressRange, late_steps: u64) {
    trace(Call::Remove, range);
    for (part, registered) in parts(kernel, range) {
        if registered {
            {
                let _lock = kernel.write_lock();
                // It may have been unmapped, or moved, meanwhile.
                if !pages(part).all(|page| kernel.space.is(page, |state| state.registered)) {
                    continue;
                }
                kernel.announce();
            }
            note_if_away(kernel, part, Kind::DropAway);
            kernel.tell(Message::Remove(part));
            if fires(Kind::LateZap) {
                doze(late_steps);
            }
        }
        for page in pages(part) {
            trace(Call::Drop, AddressRange::new(page, PAGE_SIZE));
            let _lock = kernel.read_lock();
            let dropped = kernel.space.with(page, |state| {
                let was_there = !matches!(state.content, Content::Missing);
                state.content = Content::Missing;
                (state.shared, state.doomed, state.mutex) = (false, false, false);
                was_there || !state.registered
            });
            if dropped == Some(true)
                && let Some(expected) = kernel.expected(page)
            {
                expected.zero();
            }
        }
    }
}

/// `madvise(MADV_GUARD_INSTALL)`: drops the pages and tells nobody. The caller tells the pager.
pub fn guard<'a>(kernel: &'a Kernel, range: AddressRange) -> Option<Claim<'a>> {
    trace(Call::Guard, range);
    let claim = kernel.claim(range)?;
    note_if_away(kernel, range, Kind::GuardAway);
    for page in pages(range) {
        trace(Call::Drop, AddressRange::new(page, PAGE_SIZE));
        let _lock = kernel.read_lock();
        kernel.space.with(page, |state| {
            (state.guarded, state.shared, state.doubtful) = (true, false, false);
            state.mutex = false;
            state.content = Content::Missing;
        });
        if let Some(expected) = kernel.expected(page) {
            expected.zero();
        }
    }
    Some(claim)
}

/// `madvise(MADV_GUARD_REMOVE)`.
pub fn unguard(kernel: &Kernel, range: AddressRange) {
    trace(Call::Unguard, range);
    for page in pages(range) {
        kernel.space.with(page, |state| state.guarded = false);
    }
}

/// `madvise` with `MADV_DONTFORK`, or `MADV_DOFORK`.
pub fn keep_from_children<'a>(
    kernel: &'a Kernel,
    range: AddressRange,
    kept: bool,
) -> Option<Claim<'a>> {
    let call = if kept {
        Call::KeepFromChildren
    } else {
        Call::LetInherit
    };
    trace(call, range);
    let claim = kernel.claim(range)?;
    let _lock = kernel.write_lock();
    if !pages(range).all(|page| kernel.space.is_mapped(page)) {
        return None;
    }
    for page in pages(range) {
        kernel.space.with(page, |state| {
            (state.not_inherited, state.kept_by_program) = (kept, kept);
        });
    }
    Some(claim)
}

/// `mremap` that makes a mapping longer where it is. The caller has claimed all of it. `false`: there is no room.
pub fn grow(kernel: &Kernel, range: AddressRange, by: usize, regions: &[AddressRange]) -> bool {
    trace(Call::Grow, range);
    let longer = AddressRange {
        start: range.start,
        end: range.end + by,
    };
    let lock = kernel.write_lock();
    let within = |region: &AddressRange| region.start <= longer.start && longer.end <= region.end;
    let new = AddressRange {
        start: range.end,
        end: longer.end,
    };
    let free = !pages(new).any(|page| kernel.space.is_mapped(page));
    if !free || !kernel.space.is_one_mapping(range) || !regions.iter().any(within) {
        return false;
    }
    extend(kernel, new);
    drop(lock);
    may_populate(kernel, range, new);
    true
}

/// The mapping before `new` grows by it, where nothing is mapped. The program does not know of it yet.
fn extend(kernel: &Kernel, new: AddressRange) {
    if new.is_empty() {
        return;
    }
    note(Kind::Grown);
    if kernel.is_untold(new) {
        note(Kind::GrownOverUntold);
    }
    if pages(new).any(|page| super::world().is_away(page)) {
        note(Kind::GrownOverAway);
    }
    kernel.map(new);
    let last = new.start - PAGE_SIZE;
    let like = kernel.space.with(last, |state| state.clone());
    let like = like.expect("mapped");
    for page in pages(new) {
        kernel.space.with(page, |state| {
            state.registered = like.registered;
            state.not_inherited = like.not_inherited;
            state.kept_by_program = like.kept_by_program;
            state.unknown = true;
        });
    }
}

/// The call has returned in which memory has grown.
pub fn make_known(kernel: &Kernel, range: AddressRange) {
    for page in pages(range) {
        kernel.space.with(page, |state| {
            (state.unknown, state.locked) = (false, false);
        });
    }
}

/// What has grown by `new` may be locked: then that is populated, before the call tells of anything.
fn may_populate(kernel: &Kernel, old: AddressRange, new: AddressRange) {
    let to = new.start - old.len();
    let is_fixed = to != old.start && random().one_in(2);
    if new.is_empty() || !fires(Kind::Populates) {
        return;
    }
    let own = &kernel.remapping[simulation().current()];
    own.set(Some(Remapping {
        old,
        new_len: old.len() + new.len(),
        to: is_fixed.then_some(to),
    }));
    for page in pages(new) {
        kernel.space.with(page, |state| state.locked = true);
    }
    for page in pages(new) {
        populate(kernel, page);
        if random().one_in(4) {
            doze(100);
        }
    }
    own.set(None);
}

/// Takes a range out. Whether the pager is to be told. Threads that wait there sleep on: the kernel wakes nobody.
fn take_out(kernel: &Kernel, range: AddressRange) -> bool {
    let mut told = false;
    for page in pages(range) {
        told |= kernel
            .space
            .unmap(page)
            .is_some_and(|state| state.registered);
        kernel.expected.borrow_mut().remove(&page);
    }
    told
}

/// The kernel tells of a change when it has let go of the mappings: others may change them first, and tell of it. A thread
/// that has lost its processor gets it back within half a second: for longer nobody waits who can go on without.
fn may_be_late(kernel: &Kernel) {
    if fires(Kind::LateTell) {
        let most = kernel.steps_of(500_000_000);
        doze(super::world().mix.late_steps.min(most));
    }
}

/// `munmap`. What was unmapped may be mapped again, and used, before the event was read; no advice is given for it before the
/// call returns (docs/limits.md).
///
/// Where it fails the range is as it was, and is told of all the same.
pub fn unmap(kernel: &Kernel, range: AddressRange) {
    trace(Call::Unmap, range);
    let lock = kernel.write_lock();
    let Some(claim) = kernel.claim(range) else {
        return;
    };
    note_if_away(kernel, range, Kind::UnmapAway);
    let is_registered = |page| kernel.space.is(page, |state| state.registered);
    // What is advised and not registered is like any other if the rest goes before the event is acted on (docs/limits.md).
    let may_be_forgotten = |page| {
        kernel
            .space
            .is(page, |state| state.sensitive && !state.registered)
    };
    let fails = pages(range).any(is_registered)
        && !pages(range).any(may_be_forgotten)
        && fires(Kind::UnmapFailed);
    let told = fails || take_out(kernel, range);
    if !fails {
        claim.is_unmapped();
    }
    if told {
        kernel.announce();
    }
    drop(lock);
    if told {
        may_be_late(kernel);
        kernel.tell(Message::Unmap(range));
    }
}

/// `mmap` of what nobody has mapped of a range, within the regions that the program uses.
pub fn map_what_is_free(kernel: &Kernel, range: AddressRange, regions: &[AddressRange]) {
    trace(Call::Map, range);
    let _lock = kernel.write_lock();
    for page in pages(range) {
        if regions.iter().any(|region| region.contains(page)) && !kernel.space.is_mapped(page) {
            kernel.map(AddressRange::new(page, PAGE_SIZE));
        }
    }
}

/// `mremap` to a fixed place, of a range that is mapped whole; the old place may stay, empty, and where it does not the
/// mapping may grow: `to` is longer then. `false`: it is refused, since the range lies in several mappings.
///
/// The caller has claimed both places. Where the old one is free it may be mapped again at once, and used. Nobody unmaps it
/// before the call returns: the kernel might tell of that first, and not of the move, and the pager would forget what has
/// moved (docs/limits.md).
pub fn remap(kernel: &Kernel, from: AddressRange, to: AddressRange, place: OldPlace) -> bool {
    trace(Call::RemapFrom, from);
    trace(Call::RemapTo, to);
    let lock = kernel.write_lock();
    if !kernel.space.is_one_mapping(from) {
        note(Kind::RemapSplit);
        return false;
    }
    note_if_away(kernel, from, Kind::MoveAway);
    note_if_away(kernel, to, Kind::MoveOntoAway);
    if kernel.is_untold(to) {
        note(Kind::MovedOntoUntold);
    }
    let onto_told = take_out(kernel, to);
    let registered = kernel.space.is(from.start, |state| state.registered);
    for (old, new) in pages(from).zip(pages(to)) {
        let mut state = kernel.space.unmap(old).expect("one mapping");
        // What has moved is like any other memory.
        (state.sensitive, state.doomed) = (false, false);
        let expected = kernel.expected.borrow_mut().remove(&old);
        let left = State {
            content: Content::Missing,
            shared: false,
            pinned: false,
            doubtful: false,
            mutex: false,
            ..state.clone()
        };
        kernel.space.put(new, state);
        let taken_over = expected.expect("a page of the program");
        kernel.expected.borrow_mut().insert(new, taken_over);
        if place == OldPlace::Kept {
            kernel.space.put(old, left);
            let zeros = Rc::new(Expected::default());
            kernel.expected.borrow_mut().insert(old, zeros);
        }
    }
    let new = AddressRange {
        start: to.start + from.len(),
        ..to
    };
    extend(kernel, new);
    if onto_told {
        kernel.announce();
    }
    if registered {
        kernel.announce();
        if place == OldPlace::Unmapped {
            kernel.announce();
        }
    }
    drop(lock);
    may_populate(kernel, from, new);
    if registered {
        super::world().nothing_is_away_unregistered(new);
    }
    if onto_told || registered {
        may_be_late(kernel);
    }
    if onto_told {
        kernel.tell(Message::Unmap(to));
    }
    if registered {
        tell_of_move(kernel, from, to.start, place);
    }
    true
}

fn tell_of_move(kernel: &Kernel, from: AddressRange, to: usize, place: OldPlace) {
    kernel.tell(Message::Remap {
        from: from.start,
        to,
        len: from.len(),
    });
    if place == OldPlace::Unmapped {
        kernel.tell(Message::Unmap(from));
    }
}
