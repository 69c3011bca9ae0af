//! A probe of userfaultfd: does it really work here, features included?
//!
//! The command only asks; the pager's own use of userfaultfd is in the library that is loaded
//! into the program. So the probe does once, in this process and by the same calls
//! (`coldpress-uffd`), what the pager will do for ever: create a userfaultfd, negotiate the
//! features, register a page, move one page into it and look at the bytes.

use coldpress_uffd::{
    AddressRange, Errno, Features, PAGE_SIZE, Pagemap, Region, Tier, Userfaultfd,
};
use std::io;
use std::os::fd::RawFd;
use std::ptr;

/// Where new userfaultfds come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The system call, for faults from user and kernel mode.
    SystemCall,
    /// The system call with `UFFD_USER_MODE_ONLY`.
    UserModeOnly,
    /// `USERFAULTFD_IOC_NEW` on an open `/dev/userfaultfd`.
    Device(RawFd),
}

/// A feature bit of `UFFDIO_API` with its name in `linux/userfaultfd.h`.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Name without the `UFFD_FEATURE_` prefix.
    pub name: &'static str,
    /// Bit in the mask.
    pub bit: u64,
    /// Whether the pager cannot do without it.
    pub required: bool,
}

const fn feature(name: &'static str, feature: Features) -> Feature {
    Feature {
        name,
        bit: feature.0,
        required: Features::PAGER.contains(feature),
    }
}

/// The features that Coldpress needs, and those it can make use of.
pub const FEATURES: [Feature; 9] = [
    feature("EVENT_REMAP", Features::EVENT_REMAP),
    feature("EVENT_REMOVE", Features::EVENT_REMOVE),
    feature("EVENT_UNMAP", Features::EVENT_UNMAP),
    feature("THREAD_ID", Features::THREAD_ID),
    feature("POISON", Features::POISON),
    feature("MOVE", Features::MOVE),
    feature("EVENT_FORK", Features::EVENT_FORK),
    feature("SIGBUS", Features::SIGBUS),
    feature("WP_ASYNC", Features::WP_ASYNC),
];

fn error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw_os_error())
}

/// Creates a userfaultfd.
pub fn create(source: Source) -> io::Result<Userfaultfd> {
    match source {
        Source::SystemCall => Userfaultfd::from_system_call(Tier::Full),
        Source::UserModeOnly => Userfaultfd::from_system_call(Tier::UserMode),
        // SAFETY: an open descriptor of this process, which nobody closes during the call.
        Source::Device(device) => unsafe { Userfaultfd::from_device_number(device) },
    }
    .map_err(error)
}

/// All features that the kernel has.
pub fn features(uffd: &Userfaultfd) -> io::Result<u64> {
    let all = uffd.handshake(Features(0)).map_err(error)?;
    Ok(all.0)
}

/// Takes the pager's path once: negotiate, register a page, move a page into it, compare.
pub fn prove(source: Source) -> Result<(), String> {
    fn step(what: &'static str) -> impl Fn(Errno) -> String {
        move |errno| format!("{what}: {}", error(errno))
    }
    // Made before the userfaultfd, so that it is unmapped after that is closed: an munmap of a
    // registered range raises an UNMAP event and waits until somebody reads it, here for ever.
    let memory = Mapping::new(4 * PAGE_SIZE).map_err(|error| format!("mapping memory: {error}"))?;
    let uffd = create(source).map_err(|error| format!("creating a userfaultfd: {error}"))?;
    uffd.handshake(Features::PAGER)
        .map_err(step("UFFDIO_API with the needed features"))?;
    // Pages 0 and 2, so that registering splits no page that the other side uses.
    let (source_page, destination) = (memory.address, memory.address.wrapping_add(2 * PAGE_SIZE));
    for index in 0..PAGE_SIZE {
        // SAFETY: the first page of the mapping is ours, writable and not referenced elsewhere.
        unsafe { source_page.add(index).write_volatile(pattern(index)) };
    }
    // SAFETY: the page is touched only once it is there.
    unsafe { uffd.register(AddressRange::new(destination as usize, PAGE_SIZE)) }
        .map_err(step("UFFDIO_REGISTER"))?;
    move_page(&uffd, destination as usize, source_page as usize).map_err(step("UFFDIO_MOVE"))?;
    // SAFETY: the move succeeded, so the destination page is present and reading it cannot fault.
    let same = (0..PAGE_SIZE)
        .all(|index| unsafe { destination.add(index).read_volatile() } == pattern(index));
    if same {
        Ok(())
    } else {
        Err("UFFDIO_MOVE moved a page with other content".to_owned())
    }
}

fn pattern(index: usize) -> u8 {
    (index * 7 + index / 251) as u8
}

fn move_page(uffd: &Userfaultfd, destination: usize, source: usize) -> Result<(), Errno> {
    let mut result = Ok(());
    for _ in 0..100 {
        // SAFETY: both pages belong to the probe's mapping, and nobody holds a reference into it.
        let moved = unsafe { uffd.move_pages(destination, source, PAGE_SIZE) };
        result = moved.stopped.map_or(Ok(()), Err);
        // Ordinary outcomes while the kernel holds the page for a moment.
        if !matches!(result, Err(Errno::AGAIN | Errno::BUSY)) {
            break;
        }
    }
    result
}

/// Whether the kernel answers `PAGEMAP_SCAN` (Linux 6.7), or why not.
pub fn pagemap_scan() -> io::Result<()> {
    let memory = Mapping::new(PAGE_SIZE)?;
    let range = AddressRange::new(memory.address as usize, PAGE_SIZE);
    let pagemap = Pagemap::open().map_err(error)?;
    let found = pagemap.populated(range, &mut [Region::default()]);
    found.map(drop).map_err(error)
}

/// Private anonymous memory of the probe, unmapped at the end.
struct Mapping {
    address: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            address: address.cast(),
            bytes,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; no pointer into it is used afterwards.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_agrees_with_itself() {
        match create(Source::SystemCall) {
            Ok(uffd) => {
                let features = Features(features(&uffd).unwrap());
                let complete = features.contains(Features::PAGER);
                assert_eq!(
                    prove(Source::SystemCall).is_ok(),
                    complete,
                    "{:?}",
                    prove(Source::SystemCall)
                );
            }
            Err(error) => eprintln!("SKIPPED: no userfaultfd for this user: {error}"),
        }
    }

    #[test]
    fn what_the_pager_needs_is_required_here() {
        let required = FEATURES.iter().filter(|f| f.required);
        let bits = required.fold(0, |bits, f| bits | f.bit);
        assert_eq!(bits, Features::PAGER.0);
    }
}
