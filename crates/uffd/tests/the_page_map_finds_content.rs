//! Fact: `PAGEMAP_SCAN` as asked by `Pagemap::populated` reports pages with content of their own:
//! not what was never touched, was moved away or is a mapping of the zero page, and no page of a
//! file, private or shared, unless a private one was written to. Where there is no room for more
//! runs it tells how far it came.
//!
//! The pager tracks exactly these pages when it registers memory, and knows by it which staging
//! slots a move has filled.

use crate::common::{self, PAGE, Pages};
use coldpress_uffd::{AddressRange, Features, Pagemap, Region};

#[test]
fn pages_of_their_own_are_reported() {
    let _begun = common::begin("the_page_map_finds_content");
    let memory = Pages::map(8);
    for n in [0, 1, 4] {
        memory.fill(n, 7);
    }
    assert_eq!([memory.read(3), memory.read(4)], [0, 7]);
    assert_eq!(memory.populated(), [0, 1, 4], "3 is a zero page mapping");
    // A zero page that is written to has content, be it zeros.
    memory.fill(3, 0);
    assert_eq!(memory.populated(), [0, 1, 3, 4]);
    memory.protect(libc::PROT_NONE);
    assert_eq!(memory.populated(), [0, 1, 3, 4], "whatever its protection");
}

#[test]
fn registered_pages_are_reported_as_they_come_and_go() {
    let _begun = common::begin("the_page_map_and_moves");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let memory = Pages::filled(4, 7);
    let staging = Pages::map(4);
    common::register(&uffd, memory);
    common::register(&uffd, staging);
    let moved = common::move_pages(&uffd, staging.part(1, 2), memory.part(1, 2));
    assert_eq!(moved, common::all_moved(2));
    assert_eq!(memory.populated(), [0, 3]);
    assert_eq!(staging.populated(), [1, 2]);
    common::copy(&uffd, memory, 1, 7).expect("restoring");
    uffd.zero(memory.page(2).range()).expect("restoring");
    assert_eq!(memory.populated(), [0, 1, 3]);
}

#[test]
fn pages_of_files_are_not_reported() {
    let _begun = common::begin("the_page_map_and_files");
    let file = std::fs::File::open("/proc/self/exe").expect("this program");
    let map = |flags: i32, descriptor: i32, rights: i32| {
        // SAFETY: a fresh mapping at a place of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), 4 * PAGE, rights, flags, descriptor, 0) };
        assert_ne!(start, libc::MAP_FAILED, "mmap: {}", common::errno());
        let start = start as usize;
        Pages { start, count: 4 }
    };
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    let private = map(libc::MAP_PRIVATE, descriptor, writable);
    let shared = map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, writable);
    for n in 0..4 {
        private.read(n);
        shared.fill(n, 7);
    }
    assert_eq!(private.populated(), []);
    assert_eq!(shared.populated(), []);
    private.fill(2, 7);
    assert_eq!(private.populated(), [2], "its own page now");
}

#[test]
fn a_full_vector_tells_how_far_it_came() {
    let _begun = common::begin("the_page_map_in_parts");
    let memory = Pages::map(16);
    for n in (0..16).step_by(2) {
        memory.fill(n, 7);
    }
    let pagemap = Pagemap::open().expect("the page map opens");
    let mut at = memory.start;
    let mut seen = Vec::new();
    while at < memory.range().end {
        let mut regions = [Region::default(); 3];
        let rest = AddressRange {
            start: at,
            end: memory.range().end,
        };
        let (found, walked) = pagemap.populated(rest, &mut regions).expect("PAGEMAP_SCAN");
        assert!(walked > at, "no progress");
        for region in &regions[..found] {
            assert_eq!((region.end - region.start) as usize, PAGE);
            seen.push((region.start as usize - memory.start) / PAGE);
        }
        at = walked;
    }
    assert_eq!(seen, [0, 2, 4, 6, 8, 10, 12, 14]);
}

/// The first page with content is found behind a terabyte without any, and only inside the range.
#[test]
fn the_first_page_is_found_behind_a_terabyte_of_nothing() {
    let _begun = common::begin("the_page_map_and_holes");
    const BYTES: usize = 1 << 40;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at a place of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, rights, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED, "mmap: {}", common::errno());
    let start = start as usize;
    let (one, other) = (start + BYTES / 2 + 7 * PAGE, start + BYTES - PAGE);
    for page in [one, other] {
        // SAFETY: inside the mapping.
        unsafe { (page as *mut u8).write_volatile(1) };
    }
    let pagemap = Pagemap::open().expect("the page map");
    let first = |start: usize, end: usize| pagemap.first_populated(AddressRange { start, end });
    assert_eq!(first(start, start + BYTES), Ok(Some(one)));
    assert_eq!(first(one + PAGE, start + BYTES), Ok(Some(other)));
    assert_eq!(first(one + PAGE, other), Ok(None));
    // SAFETY: nobody uses the mapping.
    unsafe { libc::munmap(start as *mut libc::c_void, BYTES) };
}

/// What is mapped is found whether it has content or not, at its first page, and what is not mapped is not.
#[test]
fn what_is_mapped_is_found_without_content() {
    let _begun = common::begin("the_page_map_and_mappings");
    const BYTES: usize = 1 << 30;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at a place of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, rights, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED, "mmap: {}", common::errno());
    let start = start as usize;
    let pagemap = Pagemap::open().expect("the page map");
    let first = |start: usize, end: usize| pagemap.first_mapped(AddressRange { start, end });
    let end = start + BYTES;
    assert_eq!(first(start, end), Ok(Some(start)));
    assert_eq!(first(end - PAGE, end), Ok(Some(end - PAGE)));
    let page = start + BYTES / 2 + 7 * PAGE;
    let unmap = |start: usize, end: usize| {
        // SAFETY: nobody uses the mapping.
        let result = unsafe { libc::munmap(start as *mut libc::c_void, end - start) };
        assert_eq!(result, 0, "munmap: {}", common::errno());
    };
    unmap(start, page);
    unmap(page + PAGE, end);
    assert_eq!(first(start, end), Ok(Some(page)));
    assert_eq!(first(start, page), Ok(None));
    assert_eq!(first(page + PAGE, end), Ok(None));
    // SAFETY: inside the mapping.
    unsafe { (page as *mut u8).write_volatile(1) };
    assert_eq!(first(start, end), Ok(Some(page)));
    // SAFETY: as above; such memory is mapped as well.
    unsafe { libc::mprotect(page as *mut libc::c_void, PAGE, libc::PROT_NONE) };
    assert_eq!(first(start, end), Ok(Some(page)));
    unmap(page, page + PAGE);
    assert_eq!(first(start, end), Ok(None));
}
