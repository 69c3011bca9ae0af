//! The C interface, under prefixed names, made a library by `crates/cache-c`; its `include/lazyfree.h` gives them the names of seed 004,
//! `include/upstream/` those of today's LazyFree.
//!
//! A write lock belongs to the thread that took it, one a cache, since `write_unlock` does not say
//! which page it means. What can happen in a correct program (no room, a key that another thread
//! writes) is a null pointer, `errno` and a message ([`coldpress_cache_error`]). What cannot (a second
//! write lock in one thread, unlocking what is not locked, a lock of another cache) ends the process
//! by `abort`, with a message on stderr: going on would mean to write into somebody else's page.

mod memory;
mod small;

pub use memory::*;
pub use small::*;

use crate::PAGE_BYTES;
use crate::cache::Copied;
use crate::cache::{Cache, ZEROS};
use crate::error::Error;
use crate::options::{Backing, Options};
use crate::pressure::MACHINE;
use crate::slot::{Ending, Slot, State};
use crate::tend::Tender;
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A cache as C sees it.
#[allow(non_camel_case_types)]
pub struct coldpress_cache {
    cache: Arc<Cache>,
    /// The thread that tends it, if there is one. Leaf.
    tender: Mutex<Option<Tender>>,
    /// Never used twice, as an address may be.
    number: u64,
}

/// How a cache is to be made: chunks by backing, in the order of [`Options`].
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct coldpress_cache_options {
    /// Bytes of pages.
    pub capacity_bytes: usize,
    /// `PAGE_SIZE` as the caller was compiled with.
    pub page_bytes: usize,
    /// Size of [`coldpress_cache_rlock`] as the caller was compiled with.
    pub rlock_bytes: usize,
    /// Chunks that the kernel may take from.
    pub lazyfree_chunks: usize,
    /// Chunks of ordinary memory.
    pub anonymous_chunks: usize,
    /// Chunks of memory given back as entries go.
    pub dont_need_chunks: usize,
    /// Chunks in files.
    pub disk_chunks: usize,
    /// Not 0: evict only what the kernel has taken, while there is such.
    pub overcommit: c_int,
    /// Not 0: keep nothing. Capacity and chunks do not matter then.
    pub stub: c_int,
    /// Bytes that evicted entries may take, compressed; 0 for none.
    pub compressed_bytes: usize,
    /// About how many small entries the cache is to hold; 0 for none.
    pub small_entries: usize,
    /// Bytes that pages and compressed entries may take together; 0 for all there can be.
    pub hard_bytes: usize,
    /// Bytes to which they shrink while memory is short; 0 for `hard_bytes`.
    pub soft_bytes: usize,
    /// Where the kernel tells that; null for `/proc/pressure/memory`.
    pub pressure: *const c_char,
}

/// An optimistic read lock.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct coldpress_cache_rlock {
    /// The page; its last byte is the marker. A page of zeros after a miss.
    pub head: *const u8,
    /// Where the page's state is.
    pub state: *const u64,
    /// The state that was seen: it is still that while the lock is valid.
    pub seen: u64,
    /// The key.
    pub key: u64,
    /// The true last byte of the page.
    pub tail: u8,
}

/// What the lock of a miss points to: never the state it has seen.
static NO_STATE: AtomicU64 = AtomicU64::new(0);
const NEVER: u64 = u64::MAX;

/// A write lock of this thread.
struct Held {
    cache: u64,
    slot: u32,
}

thread_local! {
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    static MESSAGE: RefCell<CString> = RefCell::new(CString::default());
}

/// Ends the process over a call that cannot be right.
fn misuse(call: &str, what: &str) -> ! {
    eprintln!("coldpress cache: {call}: {what}");
    std::process::abort()
}

fn refuse<T>(error: Error) -> *mut T {
    let errno = match error {
        Error::NoCapacity { .. }
        | Error::Chunks { .. }
        | Error::PageSize { .. }
        | Error::Budget { .. }
        | Error::NoSmallEntries => libc::EINVAL,
        Error::TooLarge { .. }
        | Error::Memory { .. }
        | Error::NoRoom
        | Error::SmallEntries { .. } => libc::ENOMEM,
        Error::Busy { .. } => libc::EBUSY,
        Error::SmallBytes { bytes: 0 } => libc::EINVAL,
        Error::TooLong { .. } | Error::SmallBytes { .. } => libc::E2BIG,
    };
    let text = CString::new(error.to_string()).unwrap_or_default();
    MESSAGE.with(|message| *message.borrow_mut() = text);
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    null_mut()
}

/// # Safety
/// `cache` is null or of `coldpress_cache_new` and not freed.
unsafe fn opened<'a>(cache: *const coldpress_cache, call: &str) -> &'a coldpress_cache {
    // SAFETY: handed on.
    unsafe { cache.as_ref() }.unwrap_or_else(|| misuse(call, "the cache is NULL"))
}

/// The page that a lock saw, `None` after a miss.
fn seen(cache: &Cache, lock: &coldpress_cache_rlock, call: &str) -> Option<(u32, State)> {
    if lock.head.is_null() || lock.state.is_null() {
        misuse(call, "the lock was never taken by read_lock");
    }
    if lock.seen == NEVER {
        return None;
    }
    let first = cache.slots.as_ptr() as usize + std::mem::offset_of!(Slot, state);
    let distance = (lock.state as usize).wrapping_sub(first);
    let slot = distance / size_of::<Slot>();
    if !distance.is_multiple_of(size_of::<Slot>())
        || slot >= cache.pages()
        || cache.region.page(slot as u32).cast_const() != lock.head
    {
        misuse(call, "the lock is not one of this cache");
    }
    Some((slot as u32, State(lock.seen)))
}

/// A cache, or null with `errno` (`EINVAL`, `ENOMEM`) and a message.
///
/// # Safety
/// `options` points to options, whose `pressure` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_new(
    options: *const coldpress_cache_options,
) -> *mut coldpress_cache {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // SAFETY: as the caller vouches.
    let Some(options) = (unsafe { options.as_ref() }) else {
        misuse("new", "the options are NULL");
    };
    if options.page_bytes != PAGE_BYTES {
        return refuse(Error::PageSize {
            kernel: PAGE_BYTES,
            built: options.page_bytes,
        });
    }
    if options.rlock_bytes != size_of::<coldpress_cache_rlock>() {
        misuse("new", "the header is of another version than the library");
    }
    let pressure = if options.pressure.is_null() {
        MACHINE.into()
    } else {
        // SAFETY: a string, as the caller vouches.
        let path = unsafe { CStr::from_ptr(options.pressure) };
        OsStr::from_bytes(path.to_bytes()).into()
    };
    let made = Cache::new(if options.stub != 0 {
        Options::stub()
    } else {
        Options {
            lazyfree_chunks: options.lazyfree_chunks,
            anonymous_chunks: options.anonymous_chunks,
            dont_need_chunks: options.dont_need_chunks,
            disk_chunks: options.disk_chunks,
            overcommit: options.overcommit != 0,
            compressed_bytes: options.compressed_bytes,
            small_entries: options.small_entries,
            hard_bytes: options.hard_bytes,
            soft_bytes: options.soft_bytes,
            pressure,
            ..Options::new(options.capacity_bytes, Backing::LazyFree)
        }
    });
    match made {
        Ok(cache) => Box::into_raw(Box::new(coldpress_cache {
            cache: Arc::new(cache),
            tender: Mutex::new(None),
            number: NUMBER.fetch_add(1, Relaxed),
        })),
        Err(error) => refuse(error),
    }
}

/// Ends a cache. Aborts if a page is locked for write. A null pointer is ignored.
///
/// # Safety
/// `cache` is null or of `coldpress_cache_new`, not freed before, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_free(cache: *mut coldpress_cache) {
    if cache.is_null() {
        return;
    }
    // SAFETY: as the caller vouches.
    let cache = unsafe { Box::from_raw(cache) };
    let mut states = cache.cache.chunk_states.iter();
    if states.any(|chunk| chunk.writers.load(Relaxed) > 0) {
        misuse("free", "a page is still locked for write");
    }
}

/// What was last refused to this thread; empty if nothing was. Valid until the next refusal.
#[unsafe(no_mangle)]
pub extern "C" fn coldpress_cache_error() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

/// Fills `lock` for `lock->key`: the entry's, or one that is not valid.
///
/// # Safety
/// `cache` is a cache, `lock` points to a lock whose key is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_read_lock(
    cache: *const coldpress_cache,
    lock: *mut coldpress_cache_rlock,
) {
    // SAFETY: as the caller vouches.
    let cache = unsafe { &opened(cache, "read_lock").cache };
    // SAFETY: as the caller vouches; the other fields may be uninitialised and are not read.
    let key = unsafe { (&raw const (*lock).key).read() };
    let taken = match cache.read_lock(key) {
        Some(found) => coldpress_cache_rlock {
            head: found.as_ptr(),
            state: cache.slots[found.slot() as usize].state.as_ptr(),
            seen: found.state().0,
            key,
            tail: found.last_byte(),
        },
        None => missed(key),
    };
    // SAFETY: as the caller vouches.
    unsafe { lock.write(taken) };
}

fn missed(key: u64) -> coldpress_cache_rlock {
    coldpress_cache_rlock {
        head: ZEROS.as_ptr(),
        state: NO_STATE.as_ptr(),
        seen: NEVER,
        key,
        tail: 0,
    }
}

/// Whether what was read under the lock was valid up to now; with `drop` forgets the entry.
///
/// # Safety
/// `cache` is a cache, `lock` points to a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_read_unlock(
    cache: *const coldpress_cache,
    lock: *const coldpress_cache_rlock,
    drop: bool,
) -> bool {
    // SAFETY: as the caller vouches.
    let (cache, lock) = unsafe { (&opened(cache, "read_unlock").cache, &*lock) };
    match seen(cache, lock, "read_unlock") {
        None => false,
        Some((_, state)) if !state.is_open() => {
            if drop {
                misuse("read_unlock", "the lock was upgraded: use write_unlock");
            }
            false
        }
        Some((slot, state)) if drop => cache.remove_seen(slot, state),
        Some((slot, state)) => cache.verdict(slot, state) == Copied::Whole,
    }
}

fn hold(
    cache: &coldpress_cache,
    key: u64,
    from: Option<(u32, State)>,
) -> Result<(u32, bool), Error> {
    let writing = cache.cache.begin(key, from)?;
    HELD.with(|held| {
        held.borrow_mut().push(Held {
            cache: cache.number,
            slot: writing.slot,
        });
    });
    Ok((writing.slot, writing.fresh))
}

fn holds(cache: &coldpress_cache) -> bool {
    HELD.with(|held| held.borrow().iter().any(|held| held.cache == cache.number))
}

/// Locks a page for `key`, whose content is unspecified. An entry that the key has is replaced. Null
/// with `errno` `EBUSY` (another thread writes this key) or `ENOMEM` (all pages are locked).
///
/// # Safety
/// `cache` is a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_write_alloc(
    cache: *const coldpress_cache,
    key: u64,
) -> *mut c_void {
    // SAFETY: as the caller vouches.
    let cache = unsafe { opened(cache, "write_alloc") };
    if holds(cache) {
        misuse(
            "write_alloc",
            "this thread has a page locked for write already",
        );
    }
    match hold(cache, key, None) {
        Ok((slot, _)) => cache.cache.region.page(slot).cast(),
        Err(error) => refuse(error),
    }
}

/// Locks for write what `lock` saw. If that is gone, or the lock was a miss, it is another page,
/// with unspecified content, and the lock is no longer valid. Null as for `write_alloc`.
///
/// # Safety
/// `cache` is a cache, `lock` points to a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_write_upgrade(
    cache: *const coldpress_cache,
    lock: *mut coldpress_cache_rlock,
) -> *mut c_void {
    // SAFETY: as the caller vouches.
    let (cache, lock) = unsafe { (opened(cache, "write_upgrade"), &mut *lock) };
    let from = seen(&cache.cache, lock, "write_upgrade");
    if holds(cache) {
        misuse(
            "write_upgrade",
            "this thread has a page locked for write already",
        );
    }
    // What an upgraded lock has seen is no content to go on from.
    let from = from.filter(|(_, state)| state.is_open());
    let missed_before = from.is_none();
    match hold(cache, lock.key, from) {
        Ok((slot, fresh)) if fresh || missed_before => {
            *lock = missed(lock.key);
            cache.cache.region.page(slot).cast()
        }
        Ok((slot, _)) => {
            // Valid as long as the page is locked: the marker is not in place then.
            lock.seen = cache.cache.state(slot).0;
            cache.cache.region.page(slot).cast()
        }
        Err(error) => refuse(error),
    }
}

/// Ends the write of this thread: the entry can be read, or with `drop` is forgotten.
///
/// # Safety
/// `cache` is a cache, and the pointer to the page is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_write_unlock(cache: *const coldpress_cache, drop: bool) {
    // SAFETY: as the caller vouches.
    let cache = unsafe { opened(cache, "write_unlock") };
    let slot = HELD.with(|held| {
        let mut held = held.borrow_mut();
        let position = held.iter().position(|held| held.cache == cache.number)?;
        Some(held.swap_remove(position).slot)
    });
    let Some(slot) = slot else {
        misuse("write_unlock", "this thread has no page locked for write");
    };
    let ending = if drop {
        Ending::Forgotten
    } else {
        Ending::Readable
    };
    cache.cache.finish(slot, ending);
}

/// Takes the page of `key` as the kernel does when memory is short. For tests.
///
/// # Safety
/// `cache` is a cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_cache_take_as_the_kernel(
    cache: *const coldpress_cache,
    key: u64,
) -> bool {
    // SAFETY: as the caller vouches.
    unsafe { opened(cache, "take") }
        .cache
        .take_as_the_kernel(key)
}
