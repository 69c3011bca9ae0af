//! Fact: `UFFDIO_COPY`, `ZEROPAGE` and `POISON` answer `ENOENT` where there is no mapping, and where
//! there is one that is not registered with the userfaultfd, of whatever kind.
//!
//! The pager takes `ENOENT` (and `ESRCH`, the process is ending) for "there is no such memory any
//! more", and every error that it does not know for a doubt: then the page is poisoned. So what a
//! program may put in the place of registered memory must answer `ENOENT`, or it would be poisoned.

use crate::common::{self, PAGE, Pages};
use coldpress_uffd::{AddressRange, Errno, Features, Userfaultfd};

fn answers(uffd: &Userfaultfd, at: usize) -> [Result<usize, Errno>; 3] {
    let page = [7u8; PAGE];
    let range = AddressRange::new(at, PAGE);
    // SAFETY: the bytes are readable; nothing is registered at the address.
    let copied = unsafe { uffd.copy(at, page.as_ptr(), PAGE) };
    [copied, uffd.zero(range), uffd.poison(range)]
}

#[test]
fn nothing_registered_is_enoent() {
    let _begun = common::begin("copying_where_nothing_is_registered");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let none = [Err(Errno::NOENT); 3];
    let memory = Pages::map(2);
    assert_eq!(answers(&uffd, memory.start), none, "anonymous memory");
    memory.protect(libc::PROT_NONE);
    assert_eq!(answers(&uffd, memory.start), none, "closed memory");
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    for (flags, descriptor, what) in [
        (libc::MAP_PRIVATE, descriptor, "a file, private"),
        (libc::MAP_SHARED, descriptor, "a file, shared"),
        (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, "shared memory"),
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, "new memory"),
    ] {
        // SAFETY: takes the place of this test's own memory, which nobody uses.
        let placed = unsafe {
            let flags = flags | libc::MAP_FIXED;
            libc::mmap(
                memory.start as *mut _,
                PAGE,
                libc::PROT_READ,
                flags,
                descriptor,
                0,
            )
        };
        assert_eq!(placed as usize, memory.start);
        assert_eq!(answers(&uffd, memory.start), none, "{what}");
    }
    // SAFETY: as above.
    unsafe { libc::munmap(memory.start as *mut _, PAGE) };
    assert_eq!(answers(&uffd, memory.start), none, "not mapped");
}
