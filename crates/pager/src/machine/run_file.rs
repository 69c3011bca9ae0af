//! This process's view of the run file: its slot, and the ring that its messages go to.
//!
//! The file is mapped whole, before `main`, and the mapping is inherited by forked children. So a child needs
//! no descriptor, no path and no right to have a slot of its own and to say something: it may be in a
//! `chroot`, have dropped its privileges, or have no descriptor free.
//!
//! * I1: no store goes to a page of the file that was not backed before: the head is backed by who made
//!   the file, a slot by `MADV_POPULATE_WRITE`, which fails where a store would raise SIGBUS.
//! * I2: there always is a statistics page. Where there is no slot it is one of the pager that nobody reads.
//! * The file is locked for reading by its open file description, which lives as long as a process has it mapped: so
//!   it is seen that one may yet claim a slot, as forked children that wait with starting a pager do.
//! * I3: the mapping stays as long as the process; nothing of it is ever evicted (it is shared memory).

use coldpress_interface::page::Page;
use coldpress_interface::run_file::{FILE_BYTES, Head, slot_at};
use coldpress_linux::sys;
use coldpress_uffd::AddressRange;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::fd::AsRawFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Longest path of the file.
const PATH_BYTES: usize = 512;

static HEAD: AtomicPtr<Head> = AtomicPtr::new(core::ptr::null_mut());

/// The page of a process without a slot: a forked child has its own copy.
pub(crate) struct Private(UnsafeCell<Page>);

// SAFETY: shared as what it is made of, atomics; only `claim` writes it otherwise, when nobody uses it.
unsafe impl Sync for Private {}

impl Private {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(Page::new()))
    }
}

/// Maps the file, if it can be had: without it the process has no slot, and is not heard.
///
/// # Safety
/// The program has one thread, and the pager has not started.
pub unsafe fn open(path: Option<&[u8]>) {
    if let Some(head) = path.and_then(map) {
        HEAD.store(head, Release);
    }
}

fn map(path: &[u8]) -> Option<*mut Head> {
    let mut text = coldpress_linux::text::Text::<PATH_BYTES>::default();
    text.push(path);
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(text.as_c_str()?, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !regular || stat.st_size != FILE_BYTES as i64 {
        return None;
    }
    // SAFETY: a fresh mapping at a place of the kernel's choice.
    let at = unsafe {
        rustix::mm::mmap(
            core::ptr::null_mut(),
            FILE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            &file,
            0,
        )
    };
    let head: *mut Head = at.ok()?.cast();
    // SAFETY: our own mapping; what it holds does not change.
    unsafe { sys::madvise(head as usize, FILE_BYTES, sys::MADV_DONTDUMP) };
    let backed = populate(head as usize, size_of::<Head>());
    // SAFETY: a mapping of that size at a page boundary, of nothing but atomics and padding.
    if backed && unsafe { (*head).is_current() } {
        sys::lock_for_reading(file.as_raw_fd());
        return Some(head);
    }
    // SAFETY: our own mapping, which nobody knows of.
    let _ = unsafe { rustix::mm::munmap(head.cast::<c_void>(), FILE_BYTES) };
    None
}

/// Whether all pages of a part of the mapping can be written to from now on.
fn populate(address: usize, len: usize) -> bool {
    const EINTR: isize = -4;
    loop {
        // SAFETY: our own shared mapping; no content changes.
        match unsafe { sys::madvise(address, len, sys::MADV_POPULATE_WRITE) } {
            EINTR => {}
            result => return result == 0,
        }
    }
}

fn head() -> Option<&'static Head> {
    // SAFETY: null, or a mapping that stays, which was checked in `map`.
    unsafe { HEAD.load(Acquire).as_ref() }
}

/// Where the file is mapped; empty where it is not.
pub fn range() -> AddressRange {
    match HEAD.load(Acquire) as usize {
        0 => AddressRange::new(0, 0),
        start => AddressRange::new(start, FILE_BYTES),
    }
}

/// A page of zeros for the figures of this process: a slot, or the private one.
///
/// # Safety
/// Nobody uses an earlier page of this process from now on.
pub(crate) unsafe fn claim(private: &'static Private) -> *mut Page {
    let page = claim_slot().unwrap_or(private.0.get());
    // SAFETY: as the caller promises; atomics and padding may all be zero. Readers copy the page and
    // believe nothing of it before its first word is set.
    unsafe { page.write_bytes(0, 1) };
    page
}

fn claim_slot() -> Option<*mut Page> {
    let head = head()?;
    let slot = head.claim(sys::process_id(), is_foreign(head))?;
    let address = HEAD.load(Relaxed) as usize + slot_at(slot);
    if !populate(address, size_of::<Page>()) {
        give_back(head, slot);
        return None;
    }
    Some(address as *mut Page)
}

fn give_back(head: &Head, slot: usize) {
    if let Some(owner) = head.owner(slot) {
        head.free(slot, owner);
    }
}

/// Gives the slot of a page back, whose process has no pager after all.
pub(crate) fn release(page: *mut Page) {
    let first = range().start + slot_at(0);
    if let Some(head) = head()
        && let Some(at) = (page as usize).checked_sub(first)
    {
        give_back(head, at / size_of::<Page>());
    }
}

/// Whether this process has another number for who supervises it. (Without `/proc` that is not known, and
/// not likely.)
fn is_foreign(head: &Head) -> bool {
    let own = rustix::fs::stat(c"/proc/self/ns/pid");
    own.is_ok_and(|own| own.st_ino != head.pid_namespace.load(Relaxed))
}

/// Hands a message to the `coldpress run` that supervises this process. Without one it is lost: it
/// has no other place that surely is not the program's.
pub(crate) fn say(text: &[u8]) {
    if let Some(head) = head() {
        head.say(sys::process_id(), text);
    }
}

/// A fault of this process, which is a young child, was answered after so long. It has no slot, and as a rule it ends
/// without one.
pub(crate) fn young_waited(ns: u64) {
    if let Some(head) = head() {
        head.young.note(ns);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use coldpress_interface::run_file::{MAGIC, VERSION};
    use std::string::ToString;

    #[test]
    fn what_is_no_run_file_is_not_mapped() {
        let path = std::env::temp_dir().join(std::format!("coldpress-map-{}", std::process::id()));
        let text = path.to_string_lossy().to_string();
        let mapped = || map(text.as_bytes()).is_some();
        assert!(!mapped(), "absent");
        let file = std::fs::File::create(&path).unwrap();
        assert!(!mapped(), "empty");
        file.set_len(FILE_BYTES as u64).unwrap();
        assert!(!mapped(), "zeros");
        let head = [MAGIC, VERSION].map(u64::to_ne_bytes).concat();
        std::fs::write(&path, head).unwrap();
        assert!(!mapped(), "too short");
        file.set_len(FILE_BYTES as u64).unwrap();
        assert!(mapped());
        std::fs::remove_file(&path).unwrap();
    }
}
