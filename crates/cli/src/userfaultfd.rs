//! A probe of userfaultfd: does it really work here, features included?
//!
//! The command only asks; the pager's own use of userfaultfd is in the library that is loaded
//! into the program. So the probe does once, in this process, what the pager will do for ever:
//! create a userfaultfd, negotiate the features, register a page, `UFFDIO_MOVE` one page into it
//! and look at the bytes.

use coldpress_interface::PAGE_SIZE;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
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

const fn feature(name: &'static str, shift: u32, required: bool) -> Feature {
    Feature {
        name,
        bit: 1 << shift,
        required,
    }
}

/// The features that Coldpress needs, and those it can make use of.
pub const FEATURES: [Feature; 9] = [
    feature("EVENT_REMAP", 2, true),
    feature("EVENT_REMOVE", 3, true),
    feature("EVENT_UNMAP", 6, true),
    feature("THREAD_ID", 8, true),
    feature("POISON", 14, true),
    feature("MOVE", 16, true),
    feature("EVENT_FORK", 1, false),
    feature("SIGBUS", 7, false),
    feature("WP_ASYNC", 15, false),
];

const SYS_USERFAULTFD: libc::c_long = 323;
const USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xAA;
const REGISTER_MODE_MISSING: u64 = 1;

/// `_IO`, `_IOR` and `_IOWR` of asm-generic: direction, size of the argument, type, number.
const fn opcode(direction: u64, kind: u64, number: u64, bytes: usize) -> libc::c_ulong {
    direction << 30 | (bytes as u64) << 16 | kind << 8 | number
}
const READ_WRITE: u64 = 3;
const USERFAULTFD_IOC_NEW: libc::c_ulong = opcode(0, 0xAA, 0, 0);
const UFFDIO_API: libc::c_ulong = opcode(READ_WRITE, 0xAA, 0x3F, size_of::<Api>());
const UFFDIO_REGISTER: libc::c_ulong = opcode(READ_WRITE, 0xAA, 0, size_of::<Register>());
const UFFDIO_MOVE: libc::c_ulong = opcode(READ_WRITE, 0xAA, 5, size_of::<Move>());
const PAGEMAP_SCAN: libc::c_ulong = opcode(READ_WRITE, b'f' as u64, 16, size_of::<ScanArguments>());

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Move {
    destination: u64,
    source: u64,
    length: u64,
    mode: u64,
    moved: i64,
}

/// `struct pm_scan_arg`: size, flags, start, end, walk_end, vec, vec_len, max_pages,
/// category_inverted, category_mask, category_anyof_mask, return_mask.
type ScanArguments = [u64; 12];

/// Creates a userfaultfd.
pub fn create(source: Source) -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: neither call takes a pointer; both return a new descriptor or -1.
    let fd = unsafe {
        match source {
            Source::SystemCall => libc::syscall(SYS_USERFAULTFD, flags) as libc::c_int,
            Source::UserModeOnly => {
                libc::syscall(SYS_USERFAULTFD, flags | USER_MODE_ONLY) as libc::c_int
            }
            Source::Device(device) => libc::ioctl(device, USERFAULTFD_IOC_NEW, flags),
        }
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor to us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Negotiates `wanted` features (0: none) and returns all that the kernel has.
pub fn negotiate(uffd: &OwnedFd, wanted: u64) -> io::Result<u64> {
    let mut api = Api {
        api: API,
        features: wanted,
        ioctls: 0,
    };
    // SAFETY: `api` has the layout of `struct uffdio_api` and outlives the call.
    unsafe { command(uffd, UFFDIO_API, &mut api) }?;
    Ok(api.features)
}

/// Mask of all features that the pager cannot do without.
pub fn required_features() -> u64 {
    FEATURES
        .iter()
        .filter(|f| f.required)
        .fold(0, |mask, f| mask | f.bit)
}

/// Takes the pager's path once: negotiate, register a page, move a page into it, compare.
pub fn prove(source: Source) -> Result<(), String> {
    let step = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    // Made before the userfaultfd, so that it is unmapped after that is closed: an munmap of a
    // registered range raises an UNMAP event and waits until somebody reads it, here for ever.
    let memory = Mapping::new(4 * PAGE_SIZE).map_err(step("mapping memory"))?;
    let uffd = create(source).map_err(step("creating a userfaultfd"))?;
    negotiate(&uffd, required_features()).map_err(step("UFFDIO_API with the needed features"))?;
    let page = PAGE_SIZE as u64;
    // Pages 0 and 2, so that registering splits no page that the other side uses.
    let (source_page, destination) = (memory.address, memory.address.wrapping_add(2 * PAGE_SIZE));
    for index in 0..PAGE_SIZE {
        // SAFETY: the first page of the mapping is ours, writable and not referenced elsewhere.
        unsafe { source_page.add(index).write_volatile(pattern(index)) };
    }
    let mut register = Register {
        start: destination as u64,
        length: page,
        mode: REGISTER_MODE_MISSING,
        ioctls: 0,
    };
    // SAFETY: `register` has the layout of `struct uffdio_register`; the range is our mapping.
    unsafe { command(&uffd, UFFDIO_REGISTER, &mut register) }.map_err(step("UFFDIO_REGISTER"))?;
    move_page(&uffd, destination as u64, source_page as u64).map_err(step("UFFDIO_MOVE"))?;
    // SAFETY: UFFDIO_MOVE succeeded, so the destination page is present and reading it cannot fault.
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

fn move_page(uffd: &OwnedFd, destination: u64, source: u64) -> io::Result<()> {
    let mut result = Ok(());
    for _ in 0..100 {
        let mut request = Move {
            destination,
            source,
            length: PAGE_SIZE as u64,
            mode: 0,
            moved: 0,
        };
        // SAFETY: `request` has the layout of `struct uffdio_move`; both pages belong to the
        // probe's mapping, and nobody holds a reference into it.
        result = unsafe { command(uffd, UFFDIO_MOVE, &mut request) };
        match &result {
            // Ordinary outcomes while the kernel holds the page for a moment.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {}
            _ => break,
        }
    }
    result
}

/// Whether the kernel answers `PAGEMAP_SCAN` (Linux 6.7), or why not.
pub fn pagemap_scan() -> io::Result<()> {
    let pagemap = OwnedFd::from(File::open("/proc/self/pagemap")?);
    let memory = Mapping::new(PAGE_SIZE)?;
    let start = memory.address as u64;
    let mut arguments: ScanArguments = [0; 12];
    arguments[0] = size_of::<ScanArguments>() as u64;
    arguments[2] = start;
    arguments[3] = start + PAGE_SIZE as u64;
    // SAFETY: the argument has the layout and size of `struct pm_scan_arg`; no result vector.
    unsafe { command(&pagemap, PAGEMAP_SCAN, &mut arguments) }
}

/// One ioctl, by its result.
///
/// # Safety
///
/// `argument` must have the layout that `opcode` asks for, and addresses in it must name memory
/// that the caller may have changed.
unsafe fn command<T>(fd: &OwnedFd, opcode: libc::c_ulong, argument: &mut T) -> io::Result<()> {
    // SAFETY: as the caller promises.
    match unsafe { libc::ioctl(fd.as_raw_fd(), opcode, ptr::from_mut(argument)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
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
    fn opcodes_are_those_of_the_kernel_headers() {
        assert_eq!(USERFAULTFD_IOC_NEW, 0xAA00);
        assert_eq!(UFFDIO_API, 0xC018_AA3F);
        assert_eq!(UFFDIO_REGISTER, 0xC020_AA00);
        assert_eq!(UFFDIO_MOVE, 0xC028_AA05);
        assert_eq!(PAGEMAP_SCAN, 0xC060_6610);
    }

    #[test]
    fn the_probe_agrees_with_itself() {
        match create(Source::SystemCall) {
            Ok(uffd) => {
                let features = negotiate(&uffd, 0).unwrap();
                let complete = features & required_features() == required_features();
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
}
