//! Threads of the program: they read and write their memory, compare all they read with what it must be, drop it, move
//! it, unmap it and fork; each call through the pager where the preload library puts it.

use super::child::Child;
use super::kernel::{Claim, Fault, Kernel, READERS, is_pagers, kernel, key_of, place};
use super::os::{CROWD_BYTES, SimOs};
use super::readers::Moment;
use super::space::{Content, State, pages};
use super::{World, calls, mix::Deed};
use crate::content;
use crate::damage;
use crate::inject::Kind;
use crate::schedule::{NOBODY, block, doze, fires, note, random, simulation, step, wake};
use crate::trace::What;
use coldpress_codec::Page;
use coldpress_engine::Entry;
use coldpress_pager::Pager;
use coldpress_pager::machine::os::{NO_LIMIT, SignalsBlocked};
use coldpress_pager::space::exclusions::{OldPlace, Reason};
use coldpress_uffd::{Access, AddressRange, Message, PAGE_SIZE};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// A thread that waits longer for a page waits for ever, in steps. (A child that is filled from a slow file, with the gate
/// closed, takes up to a third of it.)
const SLEEP_STEPS: u64 = 600_000;
/// How often it is looked whether anybody is going to wake a thread that waits, in steps.
const LOOK_STEPS: u64 = 2_000;

/// How a touch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// The page was there.
    Done,
    /// There is no such memory.
    Gone,
    /// The page was stopped.
    Poisoned,
}

/// Acts on a page as the program sees it, once it is in place.
pub fn touch(kernel: &Kernel, page: usize, access: Access, act: impl FnOnce(&mut Page)) -> Touched {
    let (segment, index) = place(page);
    let what = match access {
        Access::Write => What::Write,
        Access::Read => What::Read,
    };
    loop {
        step(what, segment, index, 0);
        let found = kernel.space.with(page, |state| find(state, access));
        match found {
            None | Some(Found::Guarded) => return Touched::Gone,
            Some(Found::There(mut content)) => {
                // A copy: `act` may look at the space.
                act(&mut content);
                if access == Access::Write {
                    let content = Content::Page(content);
                    kernel.space.with(page, |state| state.content = content);
                }
                return Touched::Done;
            }
            Some(Found::Poisoned) => return Touched::Poisoned,
            Some(Found::Away) => sleep_until_answered(kernel, page, access),
        }
    }
}

enum Found {
    There(Box<Page>),
    Guarded,
    Poisoned,
    Away,
}

/// What a touch finds, once the kernel's own faults are over: a write finds a page of its own, a read perhaps the page of
/// zeros.
fn find(state: &mut State, access: Access) -> Found {
    if state.guarded || state.unknown && !is_pagers() {
        return Found::Guarded;
    }
    if state.is_away() {
        return Found::Away;
    }
    let zeros = || Box::new([0; PAGE_SIZE]);
    match (&state.content, access) {
        (Content::Poisoned, _) => return Found::Poisoned,
        (Content::Missing | Content::Zero, Access::Write) => state.content = Content::Page(zeros()),
        (Content::Missing, Access::Read) => state.content = Content::Zero,
        _ => {}
    }
    // Copied, where a child has it too.
    state.shared &= access == Access::Read;
    match &state.content {
        Content::Page(page) => Found::There(page.clone()),
        _ => Found::There(zeros()),
    }
}

/// The kernel puts a page in place of its own accord, as a thread's touch would.
pub fn populate(kernel: &Kernel, page: usize) {
    let (segment, index) = place(page);
    loop {
        step(What::Write, segment, index, 0);
        let is_away = kernel.space.with(page, |state| {
            let is_away = state.is_away();
            if let (false, Content::Missing) = (is_away, &state.content) {
                state.content = Content::Page(Box::new([0; PAGE_SIZE]));
            }
            is_away
        });
        match is_away {
            Some(true) => sleep_until_answered(kernel, page, Access::Write),
            _ => return,
        }
    }
}

fn sleep_until_answered(kernel: &Kernel, page: usize, access: Access) {
    note(Kind::TouchAway);
    if kernel.changing.get() > 0 {
        note(Kind::TouchWhileChanging);
    }
    let thread = simulation().current();
    kernel.faults.borrow_mut().push_back(Fault {
        address: page,
        access,
        thread,
    });
    wake(READERS);
    let since = simulation().steps();
    kernel.waits_for[thread].set(page);
    while !block(key_of(page), Some(LOOK_STEPS)) && kernel.waits_for[thread].get() == page {
        if simulation().steps() - since > SLEEP_STEPS || super::world().is_forgotten(page, thread) {
            let entry = super::world().entry_of(page);
            let state = kernel.space.with(page, |state| state.describe());
            let what = format!(
                "a thread sleeps that nobody wakes; {entry:?}; {}",
                state.unwrap_or_else(|| "not mapped".to_owned())
            );
            crate::failure::fail(place(page), &what);
        }
    }
}

/// A signal may come to the running thread of the program: its handler touches some page.
pub fn signals_may_come() {
    let (kernel, me) = (kernel(), simulation().current());
    if me == NOBODY
        || simulation().current_name() != "program"
        || kernel.blocked[me].get()
        || kernel.handling[me].get()
        || !fires(Kind::Signal)
    {
        return;
    }
    kernel.handling[me].set(true);
    let all = kernel.space.all();
    if !all.is_empty() {
        let page = random().pick(&all);
        touch(kernel, page, Access::Read, |content| {
            kernel.compare(page, content, "a handler of a signal reads");
        });
    }
    kernel.handling[me].set(false);
}

impl World {
    pub(super) fn program(&self) {
        let mut base = self.any_page();
        while !simulation().is_stopping() {
            step(What::Idle, 0, 0, 0);
            simulation().begins_anew();
            self.kernel.file.children_go_on(Moment::Meanwhile);
            signals_may_come();
            if random().one_in(60) {
                base = self.any_page();
            }
            let page = match random().below(8) {
                0..=4 => base + random().below(self.mix.hot_pages) as usize * PAGE_SIZE,
                5..=6 => self.target(),
                _ => self.any_page(),
            };
            self.act(self.mix.deed(), page);
        }
        self.program_ends();
    }

    fn act(&self, deed: Deed, page: usize) {
        match deed {
            Deed::Read => self.read(page),
            Deed::Write => self.write(page),
            Deed::ReadRun => self.read_run(page),
            Deed::ClearRun => self.clear_run(page),
            Deed::Drop => self.drop_some(page),
            Deed::Move => self.move_some(page),
            Deed::Unmap => self.unmap_some(page),
            Deed::Clone => self.clone_unannounced(),
            Deed::Fork => self.fork(),
            Deed::Advise => self.advise(page),
            Deed::Mutex => self.make_mutex(page),
            Deed::Disturb => self.disturb(),
            Deed::Guard => self.guard_some(page),
            Deed::KeepFromChildren => self.keep_some_from_children(page),
            Deed::Grow => self.grow_some(page),
            Deed::Doze => doze(500),
        }
    }

    fn read(&self, page: usize) {
        let kernel = &self.kernel;
        let touched = touch(kernel, page, Access::Read, |content| {
            kernel.compare(page, content, "the program reads");
        });
        self.take_signal(page, touched);
    }

    /// A page was stopped: the program drops it, or does without.
    fn take_signal(&self, page: usize, touched: Touched) {
        if touched == Touched::Poisoned {
            note(Kind::Poisoned);
        }
        if touched == Touched::Poisoned && random().one_in(3) {
            let page = AddressRange::new(page, PAGE_SIZE);
            calls::remove(&self.kernel, page, self.mix.late_steps);
        }
    }

    fn read_run(&self, first: usize) {
        let run = AddressRange::new(first, random().between(1, 20) as usize * PAGE_SIZE);
        pages(run).for_each(|page| self.read(page));
    }

    fn clear_run(&self, first: usize) {
        pages(self.some_run(first, 20)).for_each(|page| self.write_content(page, &[0; PAGE_SIZE]));
    }

    fn write(&self, page: usize) {
        let mut new = [0; PAGE_SIZE];
        let part = random().one_in(if self.mix.zeros == 1 { 40 } else { 4 });
        let (at, bytes) = content::few_words(random());
        // What does not compress is written back whole, and fills the file.
        let fills_file = self.has_file && random().one_in(2);
        match part {
            true => {}
            false if random().one_in(self.mix.zeros) => {}
            false if fills_file => content::noise(random(), &mut new),
            false => content::fill(random(), &mut new),
        }
        if part {
            self.write_with(page, |to| {
                to[at..at + bytes.len()].copy_from_slice(&bytes);
            })
        } else {
            self.write_content(page, &new)
        }
    }

    fn write_content(&self, page: usize, new: &Page) {
        self.write_with(page, |to| *to = *new);
    }

    fn write_with(&self, page: usize, act: impl Fn(&mut Page)) {
        let kernel = &self.kernel;
        let touched = touch(kernel, page, Access::Write, |content| {
            kernel.compare(page, content, "before it is written to");
            act(content);
            if let Some(expected) = kernel.expected(page) {
                expected.write(&act);
            }
        });
        self.take_signal(page, touched);
    }

    fn some_run(&self, first: usize, most: u64) -> AddressRange {
        AddressRange::new(first, random().between(1, most) as usize * PAGE_SIZE)
    }

    fn drop_some(&self, page: usize) {
        calls::remove(&self.kernel, self.some_run(page, 9), self.mix.late_steps);
    }

    /// `mremap`, as the preload library wraps it. What moves may grow.
    fn move_some(&self, from: usize) {
        let range = self.some_run(from, self.mix.moved_pages);
        let to = match self.kernel.some_free_range() {
            // What another thread has unmapped just now.
            Some(free) if random().one_in(2) => {
                let page = random().below((free.len() / PAGE_SIZE) as u64) as usize;
                free.start + page * PAGE_SIZE
            }
            _ if random().one_in(3) => self.target(),
            _ => self.any_page(),
        };
        let (old, grows_by) = match random().below(4) {
            0..=1 => (OldPlace::Kept, 0),
            2 => (OldPlace::Unmapped, 0),
            _ => (OldPlace::Unmapped, random().between(1, 10) as usize),
        };
        let to = AddressRange::new(to, range.len() + grows_by * PAGE_SIZE);
        let overlaps = !range.intersect(to).is_empty();
        let mapped = pages(range).all(|page| self.kernel.space.is_mapped(page));
        if overlaps || !mapped || !self.is_in_bounds(to) {
            return;
        }
        // Until the wrapper returns: the pager takes note of the move after the system call.
        let Some(_from) = self.kernel.claim(range) else {
            return;
        };
        let Some(_to) = self.claim_for_growth(range, to) else {
            return;
        };
        self.pager.unsplit(range, range, || {
            if calls::remap(&self.kernel, range, to, old) {
                self.pager.remapped(range, to, old);
                calls::make_known(&self.kernel, to);
                self.insist_on_mutexes(to);
            } else {
                self.look_why_it_is_split(range);
            }
        });
    }

    /// Claims the place to which memory is to come in a call. Advice that it brings with it would be forgotten where an
    /// unmapping is told of afterwards (docs/limits.md).
    fn claim_for_growth(&self, from: AddressRange, to: AddressRange) -> Option<Claim<'_>> {
        let is_advised = |state: &State| state.kept_by_program || state.mutex;
        match pages(from).any(|page| self.kernel.space.is(page, is_advised)) {
            true => self.kernel.claim(to),
            false => self.kernel.claim_for_new(to),
        }
    }

    /// `munmap`, and `mmap` of fresh memory some time later.
    fn unmap_some(&self, first: usize) {
        let range = self.some_run(first, 30);
        calls::unmap(&self.kernel, range);
        if random().one_in(2) {
            doze(300);
        }
        calls::map_what_is_free(&self.kernel, range, &self.regions);
        if random().one_in(4) {
            // New memory is often made for something: a stack, a buffer for a device.
            self.advise(first);
        }
    }

    /// Guards, for a while.
    fn guard_some(&self, first: usize) {
        let range = self.some_run(first, 5);
        let guarded = self.pager.drop_unannounced(range, |forget| {
            let guarded = calls::guard(&self.kernel, range);
            if guarded.is_some() {
                forget(range);
            }
            guarded
        });
        if guarded.is_some() {
            doze(100);
            calls::unguard(&self.kernel, range);
        }
    }

    /// The program keeps memory from its children, or no longer.
    fn keep_some_from_children(&self, first: usize) {
        let range = self.some_run(first, 12);
        let kept = random().one_in(2);
        if let Some(claim) = calls::keep_from_children(&self.kernel, range, kept) {
            if kept {
                self.pager.keep_from_children(range)
            } else {
                self.pager.let_children_inherit(range)
            }
            drop(claim);
            note(Kind::KeptFromChildren);
        }
    }

    /// `mremap` that makes memory longer in place, as the preload library wraps it.
    fn grow_some(&self, first: usize) {
        let mut range = self.some_run(first, 10);
        // Often over what another thread has unmapped just now.
        if random().one_in(2)
            && let Some(free) = self.kernel.some_free_range()
        {
            range = AddressRange {
                start: free.start - range.len(),
                end: free.start,
            };
        }
        let by = random().between(1, 10) as usize * PAGE_SIZE;
        let longer = AddressRange {
            start: range.start,
            end: range.end + by,
        };
        let Some(_claim) = self.kernel.claim(range) else {
            return;
        };
        let new = AddressRange {
            start: range.end,
            end: longer.end,
        };
        let Some(_new) = self.claim_for_growth(range, new) else {
            return;
        };
        self.pager.unsplit(range, range, || {
            if calls::grow(&self.kernel, range, by, &self.regions) {
                self.pager.remapped(range, longer, OldPlace::Unmapped);
                calls::make_known(&self.kernel, longer);
            }
        });
    }

    /// The program cannot wait for some memory, for a while.
    fn advise(&self, first: usize) {
        let range = self.some_run(first, 6);
        let sensitive = random().one_in(2);
        let Some(_claim) = self.kernel.claim(range) else {
            return;
        };
        // What was said of addresses where nothing is holds for nothing that comes there.
        if !pages(range).all(|page| self.kernel.space.is_mapped(page)) {
            return;
        }
        let set = |sensitive| {
            for page in pages(range) {
                self.kernel
                    .space
                    .with(page, |state| state.sensitive = sensitive);
            }
        };
        if !sensitive {
            set(false);
        }
        // Often it names no more of its first and last page than some bytes: a mutex, a buffer.
        let named = match first / PAGE_SIZE % 4 {
            0 => range,
            _ => AddressRange {
                start: range.start + 40,
                end: range.end - 40,
            },
        };
        if self.pager.advise(named, sensitive) && sensitive {
            set(true);
            note(Kind::Advised);
            self.insist_in_place(range, "the program cannot wait for it");
        }
    }

    /// What the pager was told that the program cannot wait for is in place.
    fn insist_in_place(&self, range: AddressRange, why: &str) {
        // What was poisoned, since it could not be put in place, does not come back.
        let poisoned = |page| {
            let is_poisoned = |s: &State| matches!(s.content, Content::Poisoned);
            self.kernel.space.is(page, is_poisoned)
        };
        // What is put in place during a fork is noted when that is over.
        let is_still = self.pager.fork.still.load(Relaxed);
        let is_back = |page| is_still && self.kernel.space.is_in_place(page);
        let is_wrong = |page| self.is_away(page) && !poisoned(page) && !is_back(page);
        let away = pages(range).find(|&page| is_wrong(page));
        if let Some(page) = away {
            let (segment, index) = self.pager.host.place_of(page).expect("it is away");
            let entry = self.pager.engine.entry(segment, index);
            let state = self.kernel.space.with(page, |state| state.describe());
            let what = format!(
                "away, although {why}: {entry:?}; {}",
                state.unwrap_or_default()
            );
            crate::failure::fail(place(page), &what);
        }
    }

    /// `pthread_mutex_init` of a robust mutex, as the preload library wraps it: libc has written to it by then.
    fn make_mutex(&self, page: usize) {
        self.write(page);
        let range = AddressRange::new(page, PAGE_SIZE);
        let Some(_claim) = self.kernel.claim(range) else {
            return;
        };
        let is_written = |s: &State| matches!(s.content, Content::Page(_)) && !s.guarded;
        // Dropped or unmapped meanwhile; taken meanwhile it may be.
        if !self.kernel.space.is(page, is_written) && !self.is_away(page) {
            return;
        }
        let mutex = AddressRange::new(page + 40, 40);
        self.pager.keep_in_place(mutex, Reason::RobustMutex);
        self.insist_in_place(range, "a robust mutex lies there");
        if self.kernel.space.is(page, is_written) {
            self.kernel.space.with(page, |state| state.mutex = true);
            note(Kind::MutexMade);
        }
    }

    /// The mutexes that have moved with their memory are where the kernel finds them.
    fn insist_on_mutexes(&self, range: AddressRange) {
        for page in pages(range).filter(|&page| self.kernel.space.is(page, |s| s.mutex)) {
            self.insist_in_place(
                AddressRange::new(page, PAGE_SIZE),
                "a robust mutex lies there, and has moved",
            );
            note(Kind::MutexMoved);
        }
    }

    /// Something happens that is nobody's doing.
    fn disturb(&self) {
        let kernel = &self.kernel;
        match random().below(6) {
            0 if random().one_in(2) => {
                kernel.others_bytes.set(random().below(CROWD_BYTES * 3 / 2));
                note(Kind::Crowd);
            }
            0 if random().one_in(3) => {
                let limits = [CROWD_BYTES / 4, CROWD_BYTES, CROWD_BYTES * 4, NO_LIMIT];
                kernel.group_limit_bytes.set(random().pick(&limits));
                note(Kind::GroupLimit);
            }
            0 => {
                kernel.is_short.set(!kernel.is_short.get());
                note(Kind::Shortage);
            }
            1 => {
                kernel
                    .ahead_ns
                    .set(kernel.ahead_ns.get() + random().below(2_000_000_000));
                note(Kind::ClockJump);
            }
            2..=3 => {
                let page = if self.has_file && random().between(0, 4) > 0 {
                    self.some_page_in_file()
                } else {
                    None
                };
                self.damage_something(page.unwrap_or_else(|| self.target()));
            }
            4 if random().one_in(20) => self.close_file(),
            _ => {
                let page = self.any_page();
                let pinned = random().one_in(3);
                kernel.space.with(page, |state| state.pinned = pinned);
            }
        }
    }

    /// Flips a bit of something stored. Where nothing changes: an entry may still name what was freed, and what is
    /// stored may belong to another page already.
    fn damage_something(&self, page: usize) {
        let (kernel, host) = (&self.kernel, &self.pager.host);
        let Some((segment, index)) = host.place_of(page) else {
            return;
        };
        let _signals = SignalsBlocked::<SimOs>::new();
        let _inside = host.gate.enter_in_turn();
        let Entry::Compressed(reference) = self.pager.engine.entry(segment, index) else {
            return;
        };
        let still = self.pager.fork.still.load(Relaxed);
        if still || kernel.changing.get() > 0 || !kernel.space.is(page, State::is_away) {
            return;
        }
        // What of a stub is damaged in memory would name no record, or another's.
        if kernel.frozen(|| self.damage_record(page)) || damage::may_be_stub(reference) {
            return;
        }
        damage::flip(&host.memory, reference);
        kernel.space.with(page, |state| state.doubtful = true);
    }

    /// `clone` by an instruction of the program's own, where the kernel tells of it.
    fn clone_unannounced(&self) {
        if !self.pager.host.hears_of_forks.load(Relaxed) {
            return self.look_at_what_an_untold_child_has();
        }
        let kernel = &self.kernel;
        let descriptor = {
            let _lock = kernel.write_lock();
            let registered = |&page: &usize| kernel.space.is(page, |s| s.registered);
            if !kernel.staging_registered.get() && !kernel.space.all().iter().any(registered) {
                return;
            }
            kernel.announce();
            let mut children = kernel.children.borrow_mut();
            children.push(Rc::new(Child::of(kernel)));
            children.len() - 1
        };
        note(Kind::Unannounced);
        kernel.tell(Message::Fork {
            descriptor: descriptor as i32,
        });
    }

    /// `fork`, with the preload library's hooks around it.
    fn fork(&self) {
        let pager: &'static Pager<SimOs> = self.pager;
        let forks = &self.kernel.file.forks;
        forks.set(forks.get() + 1);
        pager.fork_prepare(|| ());
        // The kernel copies at once.
        self.kernel.frozen(|| {
            self.look_at_what_a_child_has();
            self.make_reader();
        });
        if random().one_in(2) {
            for page in self.kernel.space.all() {
                self.kernel.space.with(page, |state| {
                    state.shared = matches!(state.content, Content::Page(_));
                });
            }
            self.kernel.child_lives.set(true);
            note(Kind::Shared);
        }
        doze(self.mix.fork_steps);
        pager.fork_parent();
        forks.set(forks.get() - 1);
        if random().one_in(2) {
            doze(2_000);
            // The child has ended: nobody else has the pages, and they stay where they are until they are written to.
            self.kernel.child_lives.set(false);
        }
    }
}
