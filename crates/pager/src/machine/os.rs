//! What the pager asks of the machine.
//!
//! The pager is written for any [`Os`]. A product has [`Linux`](crate::machine::linux::Linux); the simulation has one that behaves as
//! the kernel is known to behave (docs/kernel-behaviour.md), and decides who goes on. Nothing is chosen at run time: the
//! compiler makes a pager for each, and calls of `Linux` are the system calls themselves.
//!
//! Everything that may wait, that another thread may see, or that depends on the moment goes through here. What only
//! reads or writes files for people (messages, traces, the run file) does not, nor does what a pager does once in its
//! life (opening descriptors, leaving, judging filters).

use crate::{Codec, Pager};
use coldpress_codec::press::Simd;
use coldpress_engine::Worker;
pub use coldpress_linux::sys::{
    MADV_DOFORK, MADV_DONTFORK, MADV_DONTNEED, MADV_DONTNEED_LOCKED, MADV_POPULATE_READ,
    MADV_POPULATE_WRITE,
};
use coldpress_uffd::{AddressRange, Errno, Message, Moved, PAGE_SIZE, Region};
use core::ffi::c_int;
use core::sync::atomic::AtomicU32;

/// The machine, as the pager uses it. A type and no value: locks, which have no way to a value, ask it too.
pub trait Os: Sized + Send + Sync + 'static {
    /// How the pager is told of faults and changes, and moves pages.
    type Userfaultfd: Userfaults;
    /// Tells which pages are populated.
    type Pagemap: PopulatedPages;
    /// Tells of the mappings and threads of the process.
    type ProcessFiles: ProcessFiles;
    /// Tells how much memory the process has.
    type Meter: Meter;
    /// Tells how much memory the processes have that share its limit.
    type MemoryGroups: MemoryGroups;
    /// Tells whether the machine is short of memory.
    type Alarm: Alarm;

    /// Nanoseconds since an arbitrary moment.
    fn now_ns() -> u64;
    /// The processor's vectors, by which it is judged what a codec costs.
    fn vectors() -> Simd;
    /// Processor time of the calling thread.
    fn own_cpu_ns() -> u64;
    /// Processor time of the process.
    fn process_cpu_ns() -> u64;
    /// Processor time of a thread of this process; 0 where there is none of this number.
    fn thread_cpu_ns(thread: u32) -> u64;

    /// Does nothing for so long.
    fn sleep_ns(ns: u64);
    /// Sleeps while `word` is `value`, for `timeout_ns` at most; may return for no reason.
    fn wait_on(word: &AtomicU32, value: u32, timeout_ns: Option<u64>);
    /// Wakes so many of those who sleep on `word`.
    fn wake(word: &AtomicU32, count: u32);
    /// Something is about to be done that others may see: the simulation lets others go first.
    #[inline(always)]
    fn step() {}
    /// Takes the calling thread, which holds no lock, to a processor, until [`end_visit`](Self::end_visit). One thread at a time.
    /// Nothing happens where it may not go there, or may go nowhere else.
    fn visit(_processor: u32) {}
    /// Lets it leave that processor, and run wherever it could before.
    fn end_visit() {}
    /// How often a lock is tried before its thread sleeps.
    const SPINS: u32;
    /// Bytes lost to half-empty frames that are worth a pass over storage.
    const WORTH_COMPACTING: usize;
    /// A process that holds fewer bytes has nothing to give to its memory group.
    const WORTH_GIVING: u64;
    /// Bytes that are written at once to the file of pages that are written back.
    const SEGMENT_BYTES: usize = 128 << 10;

    /// Number of this process.
    fn process_id() -> u32;
    /// Number of the calling thread.
    fn thread_id() -> u32;
    /// Whether there is no thread of that number any more.
    fn is_thread_gone(thread: u32) -> bool;
    /// The processor that a thread of this process is on, or was on when it last ran. `None`: nobody knows.
    fn processor_of(thread: u32) -> Option<u32>;
    /// The `mremap` that a thread of this process sleeps in. `None`: in none, or nobody knows.
    fn remapping_of(thread: u32) -> Option<Remapping>;
    /// Whether the calling thread is a fault handler.
    fn is_handler() -> bool;
    /// Ranks of the locks that the calling thread holds; `None` in threads of the program.
    fn held_ranks() -> Option<&'static AtomicU32>;
    /// Where a thread has its list of robust futexes.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    fn robust_list(thread: u32) -> Result<Option<usize>, Errno>;
    /// Whether the word at `address` is there and is not `value`.
    fn differs(address: usize, value: u32) -> bool;

    /// Blocks all signals of the calling thread; the mask to set again.
    fn block_signals() -> u64;
    /// Sets the signal mask of the calling thread.
    fn set_signals(mask: u64);
    /// The first signal that the calling thread does not block.
    #[cfg(debug_assertions)]
    fn signal_that_may_come() -> Option<u32>;

    /// `madvise`, with any advice.
    ///
    /// # Safety
    /// As the advice demands.
    unsafe fn madvise(address: usize, len: usize, advice: c_int) -> isize;
    /// Which of the first 64 pages of a range are resident. `Err`: some of it is not mapped, and what lies behind counts
    /// as not resident.
    ///
    /// # Errors
    /// As said.
    fn resident_if_mapped(range: AddressRange) -> Result<u64, u64>;
    /// Whether a page lies in any mapping.
    fn is_mapped(address: usize) -> bool;
    /// Reads a byte of a page by way of a pin, which faults like a touch and ends the sharing of a page that no other
    /// process has. `false`: that is not possible.
    fn pin(address: usize) -> bool;
    /// Keeps huge pages out of the whole process, or no longer. `true`: that is new.
    fn keep_huge_pages_out(out: bool) -> bool;
    /// Maps `bytes` of zeros at `start`, for the pager. `false`: something is there, or there is no memory.
    fn map(start: usize, bytes: usize) -> bool;
    /// Lengthens the pager's own mapping that ends at `end` in place.
    fn lengthen(end: usize, by: usize) -> bool;
    /// Anything.
    fn random() -> u64;
    /// Unlocks memory of the pager.
    fn unlock(start: usize, bytes: usize);

    /// Ends the calling thread, one of the pager's.
    fn exit_thread() -> !;
    /// Starts handlers, `most` of them at most; one may be there. By a thread of the pager, before the first page is
    /// taken out. `false`: there is none, since no thread could be made, and nothing may be registered.
    fn start_handlers(pager: &'static Pager<Self>, most: usize) -> bool;
    /// Leaves the process, in which all memory is in place afterwards. By the reclaim thread, between two rounds.
    /// `false`: the pager stays.
    fn leave(pager: &'static Pager<Self>, worker: &mut Worker<Codec>) -> bool;

    /// Ends the program: going on would lose what is its.
    fn abort() -> !;

    /// Reads of the file of pages that are written back. How many bytes. By default there is none.
    ///
    /// # Errors
    /// The kernel's.
    fn read_file(file: c_int, at: u64, into: &mut [u8]) -> Result<usize, FileError> {
        let _ = (file, at, into);
        Err(FileError::Io)
    }
    /// Writes to it. How many bytes.
    ///
    /// # Errors
    /// The kernel's.
    fn write_file(file: c_int, at: u64, bytes: &[u8]) -> Result<usize, FileError> {
        let _ = (file, at, bytes);
        Err(FileError::Io)
    }
    /// Gives up space of it, if it can.
    ///
    /// # Errors
    /// The kernel's.
    fn discard_of_file(file: c_int, at: u64, bytes: u64) -> Result<(), FileError> {
        let _ = (file, at, bytes);
        Err(FileError::Io)
    }
    /// Which file a descriptor of the calling thread stands for: device and inode. `None`: for none.
    fn identity_of_file(file: c_int) -> Option<(u64, u64)> {
        let _ = file;
        None
    }
    /// Locks one byte of the file for this process, as long as its pager has a descriptor of the file. `false`: another
    /// has it.
    fn lock_file(file: c_int, byte: u64, kind: LockKind) -> bool {
        let _ = (file, byte, kind);
        false
    }
    /// Whether another process has locked a byte of the file, or that cannot be known.
    fn is_file_locked(file: c_int, byte: u64) -> bool {
        let _ = (file, byte);
        true
    }
    /// Whether the process has children that it has not waited for, or that cannot be known.
    fn has_children() -> bool {
        true
    }
    /// Fills a key with the kernel's random numbers. `false`: there are none.
    fn fill_random(key: &mut [u8; 32]) -> bool {
        let _ = key;
        false
    }
    /// Whether anything is stored for a file; of a device nothing is known.
    fn has_content(file: c_int) -> bool {
        let _ = file;
        false
    }
    /// Makes a page of the pager's own memory, which holds nothing, one that the kernel neither swaps out nor makes part
    /// of a larger one. `false`: it stays as it was.
    ///
    /// # Safety
    /// The page is the caller's, and nobody refers to it.
    unsafe fn keep_apart(at: usize) -> bool {
        let _ = at;
        false
    }
    /// Words that this process shares with all copies that are made of it, 0 at first. Null: there is no memory.
    fn shared_words() -> *mut [AtomicU32; 2] {
        core::ptr::null_mut()
    }

    /// Which of the first 64 pages of a range are resident, as far as it is mapped.
    fn resident(range: AddressRange) -> u64 {
        Self::resident_if_mapped(range).unwrap_or_else(|pages| pages)
    }

    /// Whether the page at `address` is resident.
    fn is_resident(address: usize) -> bool {
        Self::resident(AddressRange::new(address, PAGE_SIZE)) != 0
    }
}

/// How a byte of a file is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// For one process alone.
    Exclusive,
    /// With others that share it.
    Shared,
}

/// Why a file refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// No space is left, or not for this user.
    NoSpace,
    /// Anything else.
    Io,
}

/// A userfaultfd. What the calls do, and answer, is told at [`coldpress_uffd::Userfaultfd`].
pub trait Userfaults: Send + Sync {
    /// That of a child which was just made, as a message names it.
    ///
    /// # Safety
    /// As [`coldpress_uffd::Userfaultfd::of_child`].
    unsafe fn of_child(descriptor: i32) -> Self;
    /// Registers a range for missing pages.
    ///
    /// # Safety
    /// As [`coldpress_uffd::Userfaultfd::register`].
    ///
    /// # Errors
    /// Those of the call.
    unsafe fn register(&self, range: AddressRange) -> Result<(), Errno>;
    /// Registers memory of the pager's own, to which pages are moved, so that nobody waits for what is missing there.
    ///
    /// # Safety
    /// As [`coldpress_uffd::Userfaultfd::register_as_destination`].
    ///
    /// # Errors
    /// Those of the call.
    unsafe fn register_as_destination(&self, range: AddressRange) -> Result<(), Errno>;
    /// Whether all of a range is registered.
    ///
    /// # Errors
    /// `AGAIN`: a message about a change waits to be read.
    fn is_registered(&self, range: AddressRange) -> Result<bool, Errno>;
    /// The same, whether such a message waits or not.
    ///
    /// # Errors
    /// `AGAIN`: this process has no means for that, and a message waits.
    fn is_registered_now(&self, range: AddressRange) -> Result<bool, Errno>;
    /// Uses those means no longer, unless they say that `registered` is registered.
    fn check_witness(&mut self, registered: AddressRange);
    /// Ends the registration of a range.
    ///
    /// # Safety
    /// As [`coldpress_uffd::Userfaultfd::unregister`].
    ///
    /// # Errors
    /// Those of the call.
    unsafe fn unregister(&self, range: AddressRange) -> Result<(), Errno>;
    /// Puts a copy of `len` bytes in place, and wakes who waits.
    ///
    /// # Safety
    /// `from` can be read.
    ///
    /// # Errors
    /// Those of the call.
    unsafe fn copy(&self, to: usize, from: *const u8, len: usize) -> Result<usize, Errno>;
    /// Puts the page of zeros in place, and wakes who waits.
    ///
    /// # Errors
    /// Those of the call.
    fn zero(&self, range: AddressRange) -> Result<usize, Errno>;
    /// Makes every touch of a range raise SIGBUS.
    ///
    /// # Errors
    /// Those of the call.
    fn poison(&self, range: AddressRange) -> Result<usize, Errno>;
    /// Wakes who waits for a range.
    ///
    /// # Errors
    /// Those of the call.
    fn wake(&self, range: AddressRange) -> Result<(), Errno>;
    /// Moves pages.
    ///
    /// # Safety
    /// As [`coldpress_uffd::Userfaultfd::move_pages`].
    unsafe fn move_pages(&self, to: usize, from: usize, len: usize) -> Moved;
    /// Reads one message, if there is one.
    ///
    /// # Errors
    /// `AGAIN`: there is none.
    fn read(&self, into: &mut [Message; 1]) -> Result<usize, Errno>;
    /// Waits until there is something to read, for so long at most. Whether there is.
    fn wait(&self, timeout_ns: Option<u64>) -> bool;
}

/// A call that moves memory, or makes it longer or shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remapping {
    /// What it has been called for.
    pub old: AddressRange,
    /// How long that will be, in bytes.
    pub new_len: usize,
    /// Where it will lie, if that was asked for.
    pub to: Option<usize>,
}

/// A page map.
pub trait PopulatedPages: Send + Sync {
    /// Fills `into` with the populated parts of a range. How many there are, and up to where was looked.
    ///
    /// # Errors
    /// Those of the call.
    fn populated(&self, range: AddressRange, into: &mut [Region]) -> Result<(usize, usize), Errno>;
    /// The first populated page of a range.
    ///
    /// # Errors
    /// Those of the call.
    fn first_populated(&self, range: AddressRange) -> Result<Option<usize>, Errno>;
    /// The first page of a range where anything is mapped.
    ///
    /// # Errors
    /// Those of the call.
    fn first_mapped(&self, range: AddressRange) -> Result<Option<usize>, Errno>;
    /// Whether no other process has the anonymous page at `address`. `false`: one has, or that is not known.
    fn is_mapped_once(&self, address: usize) -> bool {
        let _ = address;
        false
    }
}

/// The mappings and threads of the process.
pub trait ProcessFiles: Sized + Send + Sync {
    /// Opens them.
    ///
    /// # Errors
    /// Those of `open`.
    fn open() -> Result<Self, Errno>;
    /// Calls `with` for every mapping, as a line of `/proc/self/maps`, read through `buffer`.
    ///
    /// # Errors
    /// Those of `read`.
    fn for_each_mapping(&self, buffer: &mut [u8], with: impl FnMut(&[u8])) -> Result<(), Errno>;
    /// Calls `with` with the number of each thread.
    ///
    /// # Errors
    /// Those of `getdents`.
    fn for_each_thread(&self, with: impl FnMut(u32) -> Result<(), Errno>) -> Result<(), Errno>;
    /// How many mappings a process may have, where that can be known.
    fn most_mappings() -> Option<u32>;
}

/// How much memory the process has.
pub trait Meter: Sized {
    /// Opens what is measured.
    fn open() -> Option<Self>;
    /// Private anonymous resident memory in bytes.
    fn private_anonymous_bytes(&self) -> u64;
}

/// The memory groups whose limits bound the program, and others with it: the group that it is in, and those around that.
/// They are told by number, from 0 on.
pub trait MemoryGroups: Sized + Send + Sync {
    /// Opens what they tell, if there is such a group and it can be opened.
    fn open() -> Option<Self>;
    /// How many there are.
    fn count(&self) -> usize;
    /// What all processes of one may hold together.
    fn bounds(&self, number: usize) -> GroupBounds;
    /// The text of its `memory.stat`.
    fn statistics(&self, number: usize, into: &mut [u8]) -> Option<usize>;
    /// What the kernel has for itself, where that stands in a file of its own (version 1).
    fn kernel_bytes(&self, number: usize) -> Option<u64>;
    /// Its limit now, where that stands in a file of its own (version 2); [`NO_LIMIT`]: none.
    fn limit_bytes(&self, number: usize) -> Option<u64>;
}

/// No memory group has a limit as large as this. (Version 1 says 2^63 less a page where there is none.)
pub const NO_LIMIT: u64 = 1 << 62;

/// What the processes of a memory group may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupBounds {
    /// Above this the kernel reclaims, and kills where it cannot.
    pub limit_bytes: u64,
    /// The largest budget of a program that is alone in it: less by what the kernel needs beside the program's memory.
    pub budget_bytes: u64,
}

/// Whether the machine is short of memory.
pub trait Alarm: Sized {
    /// Opens what there is.
    fn open() -> Self;
    /// The text of `/proc/pressure/memory`.
    fn pressure(&self, into: &mut [u8]) -> Option<usize>;
    /// The text of `/proc/meminfo`.
    fn memory(&self, into: &mut [u8]) -> Option<usize>;
}

/// All signals of the calling thread are blocked while it lives. A thread of the program that
/// holds something of the pager's must not run a handler: it could touch missing memory.
#[derive(Debug)]
pub struct SignalsBlocked<O: Os> {
    before: u64,
    os: core::marker::PhantomData<fn() -> O>,
}

impl<O: Os> SignalsBlocked<O> {
    /// Blocks them.
    pub fn new() -> Self {
        Self {
            before: O::block_signals(),
            os: core::marker::PhantomData,
        }
    }
}

impl<O: Os> Default for SignalsBlocked<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Drop for SignalsBlocked<O> {
    fn drop(&mut self) {
        O::set_signals(self.before);
    }
}
