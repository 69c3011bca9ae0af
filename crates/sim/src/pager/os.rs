//! The simulated kernel as the pager's `Os`.

use super::child::Child;
use super::file::{self, file};
use super::kernel::{self, Kernel, READERS, place};
use super::space::{Content, State, pages};
use super::{calls, program, world};
use crate::inject::Kind;
use crate::sabotage::PagerSabotage;
use crate::schedule::{self, block, fires, note, random, simulation, step};
use crate::trace::What;
use coldpress_codec::Page;
use coldpress_codec::press::Simd;
use coldpress_engine::Worker;
use coldpress_pager::machine::linux::Linux;
use coldpress_pager::machine::os::{
    self, Alarm, FileError, GroupBounds, LockKind, MemoryGroups, Meter, Os, PopulatedPages,
    ProcessFiles, Remapping, Userfaults,
};
use coldpress_pager::machine::ranks;
use coldpress_pager::{Codec, Pager};
use coldpress_uffd::{Access, AddressRange, Errno, Message, Moved, PAGE_SIZE, Region};
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The simulated kernel.
#[derive(Debug)]
pub enum SimOs {}

/// A bit that no other key has.
const FUTEX: u64 = 1 << 61;

fn futex_key(word: &AtomicU32) -> u64 {
    FUTEX | (&raw const *word) as u64
}

/// A step of the pager. Its threads end here when the program has ended; a signal may come to the program's.
pub(super) fn act(what: What, address: usize, detail: u32) {
    if std::thread::panicking() {
        return;
    }
    let kernel = kernel::kernel();
    if kernel.is_frozen.get() {
        return;
    }
    kernel.end_if_over();
    if kernel.sabotage == PagerSabotage::StagingOverwritten && random().one_in(200) {
        overwrite_staging(kernel);
    }
    let (segment, index) = place(address);
    step(what, segment, index, detail);
    kernel.end_if_over();
    if kernel::is_pagers() && schedule::held().load(Relaxed) & 1 << ranks::GATE == 0 {
        kernel.note_outside();
    }
    program::signals_may_come();
}

fn overwrite_staging(kernel: &Kernel) {
    if let Some(&page) = kernel.staged.borrow().first() {
        // SAFETY: a page of staging, which is mapped; nothing refers to it across a step.
        unsafe { *(page as *mut u8) ^= 1 };
    }
}

impl Os for SimOs {
    type Userfaultfd = Uffd;
    type Pagemap = Map;
    type ProcessFiles = Files;
    type Meter = Measured;
    type MemoryGroups = Crowd;
    type Alarm = Shortage;

    const SPINS: u32 = 1;
    /// Little is stored here.
    const WORTH_COMPACTING: usize = 16 << 10;
    const WORTH_GIVING: u64 = 1;
    const SEGMENT_BYTES: usize = file::SEGMENT_BYTES;

    /// The pager looks at the clock around what takes long, so others go first here too.
    fn now_ns() -> u64 {
        if kernel::is_pagers() {
            act(What::Idle, 0, 0);
        }
        kernel::kernel().now_ns()
    }

    /// One path on every machine, whatever it has: a seed is one run.
    fn vectors() -> Simd {
        Simd::Avx512
    }

    fn own_cpu_ns() -> u64 {
        Self::now_ns()
    }

    /// The program runs all the time.
    fn process_cpu_ns() -> u64 {
        2 * Self::now_ns()
    }

    fn thread_cpu_ns(_thread: u32) -> u64 {
        0
    }

    fn sleep_ns(ns: u64) {
        let kernel = kernel::kernel();
        kernel.end_if_over();
        block(0, Some(kernel.steps_of(ns)));
        kernel.end_if_over();
    }

    fn wait_on(word: &AtomicU32, value: u32, timeout_ns: Option<u64>) {
        let kernel = kernel::kernel();
        if kernel.is_frozen.get() {
            // The tier's lock, whose holder is about to give it back. A child makes it anew, too.
            return word.store(0, Relaxed);
        }
        act(What::Wait, 0, value);
        if word.load(Relaxed) != value {
            return;
        }
        if fires(Kind::FutexReturns) {
            return;
        }
        // Whoever sleeps looks whether it is all over; nobody else wakes for that.
        let steps = timeout_ns.map(|ns| kernel.steps_of(ns));
        block(futex_key(word), steps);
        kernel.end_if_over();
    }

    fn wake(word: &AtomicU32, count: u32) {
        act(What::Wake, 0, count);
        let mut left = simulation().who_waits(futex_key(word));
        let mut woken = 0;
        for _ in 0..count.min(left.count_ones()) {
            let lowest = left & left.wrapping_neg();
            woken |= lowest;
            left &= !lowest;
        }
        simulation().rouse(woken);
    }

    fn step() {
        act(What::Lock, 0, 0);
    }

    fn process_id() -> u32 {
        0
    }

    fn thread_id() -> u32 {
        simulation().current() as u32 + 1
    }

    fn is_thread_gone(_thread: u32) -> bool {
        false
    }

    /// Anywhere: threads are moved about.
    fn processor_of(_thread: u32) -> Option<u32> {
        act(What::Idle, 0, 0);
        Some(random().below(super::HANDLERS as u64) as u32)
    }

    fn remapping_of(thread: u32) -> Option<Remapping> {
        act(What::Idle, 0, 0);
        kernel::kernel().remapping[thread as usize - 1].get()
    }

    fn is_handler() -> bool {
        simulation().current_name() == "handler"
    }

    fn held_ranks() -> Option<&'static AtomicU32> {
        // Between worlds nobody is a thread of the program.
        (kernel::is_pagers() || simulation().current() == schedule::NOBODY).then(schedule::held)
    }

    fn robust_list(_thread: u32) -> Result<Option<usize>, Errno> {
        Ok(None)
    }

    fn differs(_address: usize, _value: u32) -> bool {
        true
    }

    fn block_signals() -> u64 {
        let blocked = &kernel::kernel().blocked[simulation().current()];
        u64::from(blocked.replace(true))
    }

    fn set_signals(mask: u64) {
        kernel::kernel().blocked[simulation().current()].set(mask != 0);
        act(What::Idle, 0, 0);
    }

    #[cfg(debug_assertions)]
    fn signal_that_may_come() -> Option<u32> {
        let blocked = kernel::kernel().blocked[simulation().current()].get();
        (!blocked && !std::thread::panicking()).then_some(1)
    }

    unsafe fn madvise(address: usize, len: usize, advice: c_int) -> isize {
        let kernel = kernel::kernel();
        let range = AddressRange::new(address, len);
        act(What::Memory, address, advice as u32);
        match advice {
            os::MADV_DONTFORK | os::MADV_DOFORK => {
                let _lock = kernel.write_lock();
                for page in pages(range) {
                    kernel
                        .space
                        .with(page, |s| s.not_inherited = advice == os::MADV_DONTFORK);
                }
                0
            }
            os::MADV_DONTNEED | os::MADV_DONTNEED_LOCKED => {
                if pages(range).any(|page| kernel.space.is_mapped(page)) {
                    let is_new = |page| kernel.space.is(page, |state| state.unknown);
                    assert!(
                        !kernel::is_pagers() && pages(range).all(is_new),
                        "the pager drops memory of the program"
                    );
                    let is_locked = |page| kernel.space.is(page, |state| state.locked);
                    if advice == os::MADV_DONTNEED && pages(range).any(is_locked) {
                        return -(Errno::INVAL.raw_os_error() as isize);
                    }
                    calls::remove_claimed(kernel, range, world().mix.late_steps);
                    return 0;
                }
                assert!(
                    !is_own(kernel, address) || !kernel.staging_registered.get(),
                    "the pager waits for an event of its own"
                );
                kernel.drop_own(range);
                // SAFETY: the pager's own memory, as it says.
                unsafe { Linux::madvise(address, len, advice) }
            }
            os::MADV_POPULATE_WRITE => {
                pages(range).for_each(|page| program::populate(kernel, page));
                0
            }
            os::MADV_POPULATE_READ => {
                for page in pages(range) {
                    program::touch(kernel, page, Access::Read, |_| ());
                }
                0
            }
            _ => panic!("advice {advice} is not simulated"),
        }
    }

    fn resident_if_mapped(range: AddressRange) -> Result<u64, u64> {
        let kernel = kernel::kernel();
        act(What::Memory, range.start, 0);
        let mut resident = 0;
        for (n, page) in pages(range).enumerate().take(64) {
            let own = is_own(kernel, page);
            if !own && !kernel.space.is_mapped(page) {
                return Err(resident);
            }
            let there = kernel.space.is_in_place(page) || own && kernel.is_staged(page);
            resident |= u64::from(there) << n;
        }
        Ok(resident)
    }

    /// Like a read of the program's; a page that a fork has shared is this process's own afterwards.
    fn pin(address: usize) -> bool {
        let kernel = kernel::kernel();
        act(What::Memory, address, 0);
        if !matches!(
            program::touch(kernel, address, Access::Read, |_| ()),
            program::Touched::Done
        ) {
            return false;
        }
        kernel.space.with(address, |state| {
            if std::mem::take(&mut state.shared) {
                note(Kind::Unshared);
            }
        });
        true
    }

    fn is_mapped(address: usize) -> bool {
        act(What::Memory, address, 0);
        kernel::kernel().space.is_mapped(address)
    }

    fn keep_huge_pages_out(_out: bool) -> bool {
        false
    }

    fn map(start: usize, bytes: usize) -> bool {
        has_memory() && Linux::map(start, bytes)
    }

    fn lengthen(end: usize, by: usize) -> bool {
        has_memory() && Linux::lengthen(end, by)
    }

    fn random() -> u64 {
        random().next()
    }

    fn unlock(_start: usize, _bytes: usize) {}

    fn exit_thread() -> ! {
        panic!("no thread of the pager ends")
    }

    /// They are there, and wait to be let go.
    fn start_handlers(pager: &'static Pager<Self>, _most: usize) -> bool {
        world().start_handlers(pager)
    }

    fn leave(_pager: &'static Pager<Self>, _worker: &mut Worker<Codec>) -> bool {
        panic!("nobody asks it to leave")
    }

    fn abort() -> ! {
        panic!("the pager ends the program")
    }

    fn read_file(_file: c_int, at: u64, into: &mut [u8]) -> Result<usize, FileError> {
        file().read(at, into)
    }

    fn write_file(_file: c_int, at: u64, bytes: &[u8]) -> Result<usize, FileError> {
        file().write(at, bytes)
    }

    fn discard_of_file(_file: c_int, at: u64, bytes: u64) -> Result<(), FileError> {
        file().discard(at, bytes)
    }

    fn identity_of_file(_file: c_int) -> Option<(u64, u64)> {
        file().is_open().then_some(file::IDENTITY)
    }

    /// The process writes alone; its children have locks of their own.
    fn lock_file(_file: c_int, _byte: u64, kind: LockKind) -> bool {
        kind == LockKind::Exclusive
    }

    fn is_file_locked(_file: c_int, _byte: u64) -> bool {
        file().is_read()
    }

    fn has_children() -> bool {
        false
    }

    fn fill_random(key: &mut [u8; 32]) -> bool {
        key.fill_with(|| random().next() as u8);
        true
    }

    fn has_content(_file: c_int) -> bool {
        file().has_content()
    }

    /// Nothing is swapped out here, and no page is part of a larger one.
    unsafe fn keep_apart(_at: usize) -> bool {
        true
    }

    fn shared_words() -> *mut [AtomicU32; 2] {
        (&raw const file().readers.words).cast_mut()
    }
}

/// Whether the pager gets memory of its own. In the beginning it does, and where it could only end the program without:
/// a handler needs tables for what was moved.
fn has_memory() -> bool {
    simulation().current_name() != "reclaim" || !fires(Kind::NoMemory)
}

fn is_own(kernel: &Kernel, page: usize) -> bool {
    kernel.staging.get().contains(page)
}

/// A userfaultfd: the process's own, or that of a child.
#[derive(Debug)]
pub struct Uffd(Option<usize>);

impl Uffd {
    /// That of the process.
    pub const OWN: Self = Self(None);

    fn child(&self) -> Option<Rc<Child>> {
        let children = kernel::kernel().children.borrow();
        self.0.map(|n| Rc::clone(&children[n]))
    }
}

impl Drop for Uffd {
    fn drop(&mut self) {
        if !std::thread::panicking()
            && let Some(child) = self.child()
        {
            child.close();
        }
    }
}

/// Who calls while a change is announced.
fn again(kernel: &Kernel) -> Result<(), Errno> {
    again_from(kernel.changing.get() > 0)
}

pub(super) fn again_from(is_changing: bool) -> Result<(), Errno> {
    if is_changing {
        note(Kind::InstallChanging);
        Err(Errno::AGAIN)
    } else {
        Ok(())
    }
}

impl Uffd {
    /// What COPY, ZEROPAGE and POISON have in common.
    fn fill(&self, page: usize, content: Content) -> Result<usize, Errno> {
        let kernel = kernel::kernel();
        if let Some(child) = self.child() {
            return child.fill(page, content, || act(What::Install, page, 2));
        }
        let refuses = || match kernel.sabotage {
            PagerSabotage::InstallsWhileChanging => Ok(()),
            _ => again(kernel),
        };
        refuses()?;
        // It waits for the mapping, which `mremap` may be taking away.
        act(What::Install, page, 1);
        let _lock = kernel.read_lock();
        if !kernel.space.is(page, |state| state.registered) {
            note(Kind::InstallGone);
            return Err(Errno::NOENT);
        }
        refuses()?;
        let replaces = kernel.sabotage == PagerSabotage::InstallReplaces;
        if !replaces && !kernel.space.is(page, State::is_away) {
            note(Kind::InstallPresent);
            return Err(Errno::EXIST);
        }
        match content {
            // What lay before where a mapping grows may have been damaged: that is dropped before anybody knows of it.
            Content::Poisoned if !kernel.space.is(page, |s| s.doubtful || s.unknown) => {
                crate::failure::fail(place(page), "poisoned for no reason");
            }
            Content::Poisoned => {}
            _ if fires(Kind::InstallRefused) => {
                kernel.space.with(page, |state| state.doubtful = true);
                return Err(Errno::PERM);
            }
            _ => {}
        }
        kernel.put(page, content);
        if kernel.sabotage == PagerSabotage::NeverWakes {
            return Ok(PAGE_SIZE);
        }
        kernel.wake_range(AddressRange::new(page, PAGE_SIZE));
        Ok(PAGE_SIZE)
    }

    /// Moves one page into staging.
    fn move_one(&self, kernel: &Kernel, to: usize, from: usize) -> Result<(), Errno> {
        let content_of = |page| kernel.space.with(page, |state| state.content.clone());
        let stale = (kernel.sabotage == PagerSabotage::MoveLosesWrites).then(|| {
            let content = content_of(from);
            schedule::doze(300);
            content
        });
        act(What::Take, from, 0);
        if kernel.is_staged(to) {
            return Err(Errno::EXIST);
        }
        let pinned = kernel.space.is(from, |s| s.pinned || s.shared);
        if kernel.space.is(from, |s| s.doomed) {
            crate::failure::fail(
                place(from),
                "taken, although it was told that it will be dropped",
            );
        }
        if kernel.space.is(from, |s| s.sensitive) {
            crate::failure::fail(
                place(from),
                "taken, although the program cannot wait for it",
            );
        }
        // While it moves it is not known here.
        if kernel.space.is(from, |s| s.mutex) && !kernel.is_claimed(from) {
            crate::failure::fail(place(from), "taken, although a robust mutex lies in it");
        }
        let content = kernel.space.with(from, |state| match state.content {
            Content::Missing | Content::Poisoned => Err(Errno::NOENT),
            _ if pinned => Err(Errno::BUSY),
            _ => Ok(std::mem::take(&mut state.content)),
        });
        let content = content.ok_or(Errno::NOENT)??;
        match stale.flatten().unwrap_or(content) {
            Content::Page(page) => {
                // SAFETY: a page of staging, which is mapped, and in which nothing is.
                unsafe { (to as *mut Page).write(*page) };
                kernel.staged.borrow_mut().insert(to);
                if fires(Kind::MovedUntold) {
                    return Err(Errno::EXIST);
                }
                Ok(())
            }
            // The page of zeros leaves no page behind.
            _ => Ok(()),
        }
    }
}

/// With the address space locked.
fn is_registered(kernel: &Kernel, range: AddressRange) -> bool {
    if is_own(kernel, range.start) {
        return kernel.staging_registered.get();
    }
    pages(range).all(|page| kernel.space.is(page, |s| s.registered))
}

impl Userfaults for Uffd {
    unsafe fn of_child(descriptor: i32) -> Self {
        let uffd = Self(Some(descriptor as usize));
        if let Some(child) = uffd.child() {
            child
                .is_in_the_gap
                .set(world().pager.fork.still.load(Relaxed));
        }
        uffd
    }

    unsafe fn register(&self, range: AddressRange) -> Result<(), Errno> {
        let kernel = kernel::kernel();
        act(What::Memory, range.start, range.len() as u32);
        let _lock = kernel.write_lock();
        if kernel.staging.get().is_empty() || is_own(kernel, range.start) {
            // It is tried in this way, and in the way of `register_as_destination` afterwards.
            kernel.staging.set(range);
            kernel.staging_registered.set(true);
            return Ok(());
        }
        if kernel.is_behind() {
            // The memory may be another's already.
            crate::failure::fail(
                place(range.start),
                "registered although a change waits to be read",
            );
        }
        if !pages(range).any(|page| kernel.space.is(page, |_| true)) {
            return Err(Errno::INVAL);
        }
        for page in pages(range) {
            kernel.space.with(page, |state| state.registered = true);
        }
        Ok(())
    }

    unsafe fn register_as_destination(&self, range: AddressRange) -> Result<(), Errno> {
        let kernel = kernel::kernel();
        act(What::Memory, range.start, range.len() as u32);
        let _lock = kernel.write_lock();
        assert!(
            kernel.staging.get().is_empty() || is_own(kernel, range.start),
            "pages are moved to one place"
        );
        kernel.staging.set(range);
        kernel.staging_registered.set(true);
        Ok(())
    }

    fn is_registered(&self, range: AddressRange) -> Result<bool, Errno> {
        let kernel = kernel::kernel();
        act(What::Memory, range.start, range.len() as u32);
        if let Some(child) = self.child() {
            return child.is_registered(range.start);
        }
        let _lock = kernel.read_lock();
        again(kernel)?;
        Ok(is_registered(kernel, range))
    }

    fn is_registered_now(&self, range: AddressRange) -> Result<bool, Errno> {
        let kernel = kernel::kernel();
        act(What::Memory, range.start, range.len() as u32);
        let _lock = kernel.read_lock();
        Ok(is_registered(kernel, range))
    }

    fn check_witness(&mut self, _: AddressRange) {}

    unsafe fn unregister(&self, range: AddressRange) -> Result<(), Errno> {
        let kernel = kernel::kernel();
        act(What::Memory, range.start, range.len() as u32);
        let _lock = kernel.write_lock();
        if is_own(kernel, range.start) {
            kernel.staging_registered.set(false);
            return Ok(());
        }
        if kernel.is_populating(range.start)
            && let Some(page) = pages(range).find(|&page| kernel.space.is(page, |s| !s.unknown))
        {
            crate::failure::fail(place(page), "unregistered behind what has grown");
        }
        // Where it is refused, some of it may be done.
        let refused = fires(Kind::UnregisterRefused);
        let begins = |page: &usize| *page == range.start || kernel.space.begins_mapping(*page);
        let mappings: Vec<_> = pages(range).filter(begins).collect();
        for page in pages(range) {
            if refused && mappings.contains(&page) && random().one_in(2) {
                return Err(Errno::NOMEM);
            }
            if kernel.space.is(page, |state| state.registered) {
                note(Kind::Unregistered);
                // What lay before where a mapping has grown is no matter: it is unmapped.
                if !kernel.space.is(page, |state| state.unknown) {
                    world().nothing_is_away(page);
                }
            }
            kernel.space.with(page, |state| state.registered = false);
            kernel.wake_range(AddressRange::new(page, PAGE_SIZE));
        }
        Ok(())
    }

    unsafe fn copy(&self, to: usize, from: *const u8, len: usize) -> Result<usize, Errno> {
        assert!(len > 0 && len.is_multiple_of(PAGE_SIZE));
        act(What::Install, to, 0);
        let range = AddressRange::new(to, len);
        if len > PAGE_SIZE
            && self.child().is_none()
            && !kernel::kernel().space.is_one_mapping(range)
        {
            return Err(Errno::NOENT);
        }
        for done in (0..len).step_by(PAGE_SIZE) {
            // SAFETY: pages that the caller can read, as it promises.
            let content = Box::new(unsafe { *from.byte_add(done).cast::<Page>() });
            match self.fill(to + done, Content::Page(content)) {
                Ok(_) => {}
                Err(errno) if done == 0 => return Err(errno),
                // It says how far it came; the next call says why.
                Err(_) => return Ok(done),
            }
        }
        Ok(len)
    }

    fn zero(&self, range: AddressRange) -> Result<usize, Errno> {
        act(What::InstallZero, range.start, 0);
        if is_own(kernel::kernel(), range.start) {
            return Ok(PAGE_SIZE);
        }
        self.fill(range.start, Content::Zero)
    }

    fn poison(&self, range: AddressRange) -> Result<usize, Errno> {
        act(What::Poison, range.start, 0);
        self.fill(range.start, Content::Poisoned)
    }

    fn wake(&self, range: AddressRange) -> Result<(), Errno> {
        act(What::Wake, range.start, 0);
        kernel::kernel().wake_range(range);
        Ok(())
    }

    unsafe fn move_pages(&self, to: usize, from: usize, len: usize) -> Moved {
        let kernel = kernel::kernel();
        act(What::Take, from, len as u32);
        let stopped = |bytes, errno| Moved {
            bytes,
            stopped: Some(errno),
        };
        if again(kernel).is_err() {
            note(Kind::TakeChanging);
            return stopped(0, Errno::AGAIN);
        }
        act(What::Take, from, 1);
        let _lock = kernel.read_lock();
        assert!(kernel.staging_registered.get(), "moves to staging");
        if again(kernel).is_err() {
            note(Kind::TakeChanging);
            return stopped(0, Errno::AGAIN);
        }
        if !kernel.space.is(from, |_| true) {
            return stopped(0, Errno::NOENT);
        }
        if !kernel.space.is_one_mapping(AddressRange::new(from, len)) {
            return stopped(0, Errno::INVAL);
        }
        for done in (0..len).step_by(PAGE_SIZE) {
            if let Err(errno) = self.move_one(kernel, to + done, from + done) {
                if errno == Errno::EXIST && !kernel.space.is_populated(from + done) {
                    // Nor is told what went with it.
                    let more = random().below(8) as usize * PAGE_SIZE;
                    for next in (done + PAGE_SIZE..len.min(done + more)).step_by(PAGE_SIZE) {
                        if self.move_one(kernel, to + next, from + next).is_err() {
                            break;
                        }
                    }
                }
                match errno {
                    Errno::NOENT => note(Kind::TakeHole),
                    Errno::BUSY => note(Kind::MoveBusy),
                    _ => {}
                }
                // It says how far it came; the next call says why.
                return match done {
                    0 => stopped(0, errno),
                    _ if errno == Errno::EXIST => stopped(done, errno),
                    _ => stopped(done, Errno::AGAIN),
                };
            }
        }
        Moved {
            bytes: len,
            stopped: None,
        }
    }

    fn read(&self, into: &mut [Message; 1]) -> Result<usize, Errno> {
        act(What::Serve, 0, 0);
        let message = match self.child() {
            Some(child) => child.read(),
            None => kernel::kernel().read(),
        };
        match message {
            Some(message) => {
                into[0] = message;
                Ok(1)
            }
            None => Err(Errno::AGAIN),
        }
    }

    fn wait(&self, timeout_ns: Option<u64>) -> bool {
        let kernel = kernel::kernel();
        act(What::Wait, 0, 0);
        if timeout_ns == Some(0) || kernel.is_readable() {
            return kernel.is_readable();
        }
        block(READERS, timeout_ns.map(|ns| kernel.steps_of(ns)));
        kernel.end_if_over();
        kernel.is_readable()
    }
}

/// The page map.
#[derive(Debug)]
pub struct Map;

impl Map {
    fn is_populated(kernel: &Kernel, page: usize) -> bool {
        kernel.space.is_populated(page) || kernel.is_staged(page)
    }
}

impl PopulatedPages for Map {
    fn populated(&self, range: AddressRange, into: &mut [Region]) -> Result<(usize, usize), Errno> {
        let kernel = kernel::kernel();
        act(What::Memory, range.start, range.len() as u32);
        let mut found = 0;
        for page in pages(range) {
            if !Self::is_populated(kernel, page) {
                continue;
            }
            let at = page as u64;
            if found > 0 && into[found - 1].end == at {
                into[found - 1].end += PAGE_SIZE as u64;
                continue;
            }
            if found == into.len() {
                return Ok((found, page));
            }
            into[found].start = at;
            into[found].end = at + PAGE_SIZE as u64;
            found += 1;
        }
        Ok((found, range.end))
    }

    fn is_mapped_once(&self, address: usize) -> bool {
        let kernel = kernel::kernel();
        if kernel.space.is_mapped(address) {
            act(What::Memory, address, 0);
            let is_own = |s: &State| matches!(s.content, Content::Page(_)) && !s.shared;
            return kernel.space.is(address, is_own) || !kernel.child_lives.get();
        }
        // A page of the pager's own: each copy of the process has it, until it ends.
        act(What::File, 0, 0);
        let file = file();
        file.forks.get() == 0 && file.readers.are_gone()
    }

    fn first_populated(&self, range: AddressRange) -> Result<Option<usize>, Errno> {
        act(What::Memory, range.start, range.len() as u32);
        Ok(pages(range).find(|&page| Self::is_populated(kernel::kernel(), page)))
    }

    fn first_mapped(&self, range: AddressRange) -> Result<Option<usize>, Errno> {
        act(What::Memory, range.start, range.len() as u32);
        let space = &kernel::kernel().space;
        Ok(pages(range).find(|&page| space.is_mapped(page)))
    }
}

/// Mappings and threads.
#[derive(Debug)]
pub struct Files;

impl ProcessFiles for Files {
    fn open() -> Result<Self, Errno> {
        Ok(Self)
    }

    /// Each line is of another moment.
    fn for_each_mapping(
        &self,
        _buffer: &mut [u8],
        mut with: impl FnMut(&[u8]),
    ) -> Result<(), Errno> {
        let mut at = 0;
        loop {
            act(What::Memory, at, 0);
            let Some(mapping) = kernel::kernel().space.mapping_behind(at) else {
                return Ok(());
            };
            let (start, end) = (mapping.start, mapping.end);
            with(format!("{start:x}-{end:x} rw-p 00000000 00:00 0 ").as_bytes());
            at = end;
        }
    }

    fn for_each_thread(&self, _with: impl FnMut(u32) -> Result<(), Errno>) -> Result<(), Errno> {
        Ok(())
    }

    fn most_mappings() -> Option<u32> {
        world().most_mappings
    }
}

/// How much memory there is.
#[derive(Debug)]
pub struct Measured;

impl Meter for Measured {
    fn open() -> Option<Self> {
        Some(Self)
    }

    fn private_anonymous_bytes(&self) -> u64 {
        act(What::Memory, 0, 0);
        let kernel = kernel::kernel();
        let staged = kernel.staged.borrow().len() as u64;
        (kernel.space.populated() + staged + world().stored_frames()) * PAGE_SIZE as u64
    }
}

/// The memory group, in which others hold now more and now less.
#[derive(Debug)]
pub struct Crowd;

/// Its limit at first.
pub const CROWD_BYTES: u64 = 4 << 20;

impl MemoryGroups for Crowd {
    fn open() -> Option<Self> {
        world().is_in_group.then_some(Self)
    }

    fn count(&self) -> usize {
        1
    }

    fn bounds(&self, _number: usize) -> GroupBounds {
        GroupBounds {
            limit_bytes: CROWD_BYTES,
            budget_bytes: CROWD_BYTES - CROWD_BYTES / 16,
        }
    }

    fn kernel_bytes(&self, _number: usize) -> Option<u64> {
        None
    }

    fn limit_bytes(&self, _number: usize) -> Option<u64> {
        Some(kernel::kernel().group_limit_bytes.get())
    }

    fn statistics(&self, _number: usize, into: &mut [u8]) -> Option<usize> {
        let all = kernel::kernel().others_bytes.get() + Measured.private_anonymous_bytes();
        let text = format!("anon {all}\nkernel {}\n", all / 64);
        into[..text.len()].copy_from_slice(text.as_bytes());
        Some(text.len())
    }
}

/// Whether the machine is short of memory.
#[derive(Debug)]
pub struct Shortage;

impl Alarm for Shortage {
    fn open() -> Self {
        Self
    }

    fn pressure(&self, _into: &mut [u8]) -> Option<usize> {
        None
    }

    fn memory(&self, into: &mut [u8]) -> Option<usize> {
        let available = if kernel::kernel().is_short.get() {
            10
        } else {
            900
        };
        let text = format!("MemTotal: 1000 kB\nMemAvailable: {available} kB\n");
        into[..text.len()].copy_from_slice(text.as_bytes());
        Some(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::SimOs;
    use crate::schedule::Simulation;
    use coldpress_engine::lock;
    use coldpress_pager::machine::futex::{FutexLock, Gate};
    use coldpress_pager::machine::ranks;

    #[test]
    fn a_gate_under_a_lock_of_higher_rank_is_found() {
        let simulation = Box::leak(Box::new(Simulation::new(1, 1000)));
        // SAFETY: it lives as long as the process.
        let _current = unsafe { simulation.enter() };
        let handler = || {
            lock::take::<FutexLock<SimOs>>(ranks::FOUND);
            drop(Gate::<SimOs>::new().enter());
        };
        let ended = simulation.run(vec![("handler", Box::new(handler))]);
        let found = ended.expect_err("the gate comes before what is taken inside it");
        assert!(
            found.contains("rank 2 is taken while rank 4 is held"),
            "{found}"
        );
    }
}
