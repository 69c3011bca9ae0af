//! One open userfaultfd.
//!
//! Calls map one to one onto the ioctls of `linux/userfaultfd.h` (kernel documentation
//! `admin-guide/mm/userfaultfd.rst`). Outcomes that a pager meets every day (`EAGAIN` while the
//! address space changes, `EEXIST` where a page is already there, `EBUSY` for a pinned page) are
//! returned as they come, with the part that was done before them.

use crate::{AddressRange, Errno, PAGE_SIZE};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use linux_raw_sys::general as sys;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};

const UFFDIO: u8 = 0xAA;
const API: Opcode = opcode::read_write::<sys::uffdio_api>(UFFDIO, 0x3F);
const REGISTER: Opcode = opcode::read_write::<sys::uffdio_register>(UFFDIO, 0x00);
const UNREGISTER: Opcode = opcode::read::<sys::uffdio_range>(UFFDIO, 0x01);
const WAKE: Opcode = opcode::read::<sys::uffdio_range>(UFFDIO, 0x02);
const COPY: Opcode = opcode::read_write::<sys::uffdio_copy>(UFFDIO, 0x03);
const ZEROPAGE: Opcode = opcode::read_write::<sys::uffdio_zeropage>(UFFDIO, 0x04);
const MOVE: Opcode = opcode::read_write::<sys::uffdio_move>(UFFDIO, 0x05);
const CONTINUE: Opcode = opcode::read_write::<sys::uffdio_continue>(UFFDIO, 0x07);
const POISON: Opcode = opcode::read_write::<sys::uffdio_poison>(UFFDIO, 0x08);
/// `USERFAULTFD_IOC_NEW` of `/dev/userfaultfd`.
const IOC_NEW: Opcode = opcode::none(UFFDIO, 0x00);

const API_VERSION: u64 = 0xAA;
const REGISTER_MODE_MISSING: u64 = 1;
const REGISTER_MODE_WP: u64 = 1 << 1;
const MOVE_MODE_DONTWAKE: u64 = 1;

const EVENT_PAGEFAULT: u8 = 0x12;
const EVENT_FORK: u8 = 0x13;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;
const PAGEFAULT_FLAG_WRITE: u64 = 1;

/// Feature bits of `UFFDIO_API`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// None.
    pub const NONE: Self = Self(0);
    /// `UFFD_FEATURE_EVENT_FORK` (needs CAP_SYS_PTRACE).
    pub const EVENT_FORK: Self = Self(1 << 1);
    /// `UFFD_FEATURE_EVENT_REMAP`.
    pub const EVENT_REMAP: Self = Self(1 << 2);
    /// `UFFD_FEATURE_EVENT_REMOVE`.
    pub const EVENT_REMOVE: Self = Self(1 << 3);
    /// `UFFD_FEATURE_EVENT_UNMAP`.
    pub const EVENT_UNMAP: Self = Self(1 << 6);
    /// `UFFD_FEATURE_SIGBUS`: no sleep, a signal.
    pub const SIGBUS: Self = Self(1 << 7);
    /// `UFFD_FEATURE_THREAD_ID`: fault messages carry the faulting thread.
    pub const THREAD_ID: Self = Self(1 << 8);
    /// `UFFD_FEATURE_POISON` (Linux 6.6).
    pub const POISON: Self = Self(1 << 14);
    /// `UFFD_FEATURE_WP_ASYNC` (Linux 6.7).
    pub const WP_ASYNC: Self = Self(1 << 15);
    /// `UFFD_FEATURE_MOVE` (Linux 6.8).
    pub const MOVE: Self = Self(1 << 16);

    /// What the pager of a program needs.
    pub const PAGER: Self = Self(
        Self::EVENT_REMAP.0
            | Self::EVENT_REMOVE.0
            | Self::EVENT_UNMAP.0
            | Self::THREAD_ID.0
            | Self::POISON.0
            | Self::MOVE.0,
    );

    /// These and others.
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Which faults a userfaultfd sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// All of them, which needs a privilege.
    Full,
    /// Those of user mode, and none that is taken inside a system call.
    UserMode,
}

/// What the touch of a missing page was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// What a read of the userfaultfd brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A thread touched a missing page and sleeps until the page is put there or woken.
    Fault {
        /// Page that was touched (rounded down).
        address: usize,
        /// What the touch was.
        access: Access,
        /// Thread that sleeps (with [`Features::THREAD_ID`]).
        thread: u32,
    },
    /// `mremap` has moved a registered range; its caller goes on once this was read.
    Remap {
        /// Old place.
        from: usize,
        /// New place.
        to: usize,
        /// Bytes moved.
        len: usize,
    },
    /// `madvise` is about to drop the pages of a range; its caller goes on once this was read.
    Remove(AddressRange),
    /// `munmap` (or a mapping placed over it) has taken a range away; its caller goes on once
    /// this was read.
    Unmap(AddressRange),
    /// The process was forked; the descriptor serves the child.
    Fork {
        /// Descriptor of the child's userfaultfd, now open in this process.
        descriptor: i32,
    },
    /// An event this crate does not know.
    Unknown(u8),
}

/// What a move brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Bytes moved from the start of the range; more may have been (see
    /// [`move_pages`](Userfaultfd::move_pages), `EEXIST`).
    pub bytes: usize,
    /// Why the move stopped before the end, if it did.
    pub stopped: Option<Errno>,
}

/// One open userfaultfd.
#[derive(Debug)]
pub struct Userfaultfd {
    fd: OwnedFd,
    /// Another one, with which nothing is registered: no event of this one holds its answers up.
    witness: Option<OwnedFd>,
}

/// An ioctl whose argument is read and written in place.
struct Update<'a, T, const OPCODE: Opcode>(&'a mut T);

// SAFETY: the opcodes used with this type are defined above with the argument type `T` of the
// kernel's header; the kernel reads and writes that structure and nothing else.
unsafe impl<T, const OPCODE: Opcode> Ioctl for Update<'_, T, OPCODE> {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        core::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

/// `USERFAULTFD_IOC_NEW`, whose argument is a flag word passed by value.
struct NewDescriptor(usize);

// SAFETY: the kernel takes the argument by value and returns a new descriptor.
unsafe impl Ioctl for NewDescriptor {
    type Output = OwnedFd;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        IOC_NEW
    }

    fn as_ptr(&mut self) -> *mut c_void {
        core::ptr::without_provenance_mut(self.0)
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<OwnedFd> {
        use rustix::fd::FromRawFd;
        // SAFETY: the kernel has just returned this descriptor to us; nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(out) })
    }
}

/// [`Userfaultfd::is_registered`], by one or another userfaultfd.
fn is_registered(by: &OwnedFd, range: AddressRange) -> Result<bool, Errno> {
    let mut probe = sys::uffdio_continue {
        range: raw(range),
        mode: 0,
        mapped: 0,
    };
    // SAFETY: on anonymous memory the kernel refuses the request; where it were fulfilled
    // (shared memory), a page of the file would be mapped where it belongs.
    let result = unsafe { rustix::ioctl::ioctl(by, Update::<_, CONTINUE>(&mut probe)) };
    match result {
        Err(Errno::INVAL) => Ok(true),
        Err(Errno::AGAIN) => Err(Errno::AGAIN),
        _ => Ok(false),
    }
}

impl Userfaultfd {
    /// Opens one by the system call.
    ///
    /// # Errors
    /// `EPERM` without privilege (or under a seccomp filter), `ENOSYS` where the kernel has none.
    pub fn from_system_call(tier: Tier) -> Result<Self, Errno> {
        use rustix::mm::UserfaultfdFlags as Flags;
        let mut flags = Flags::CLOEXEC | Flags::NONBLOCK;
        if tier == Tier::UserMode {
            flags |= Flags::from_bits_retain(1);
        }
        // SAFETY: opening a userfaultfd changes nothing until a range is registered with it.
        let fd = unsafe { rustix::mm::userfaultfd(flags)? };
        Ok(Self::from(fd))
    }

    /// Opens one through an open `/dev/userfaultfd`.
    ///
    /// # Errors
    /// `ENOTTY` where `device` is something else.
    pub fn from_device(device: BorrowedFd<'_>) -> Result<Self, Errno> {
        const O_CLOEXEC: usize = 0o2000000;
        const O_NONBLOCK: usize = 0o4000;
        // SAFETY: the request makes a descriptor and touches no memory.
        let fd = unsafe { rustix::ioctl::ioctl(device, NewDescriptor(O_CLOEXEC | O_NONBLOCK))? };
        Ok(Self::from(fd))
    }

    /// Opens one through descriptor `device`, an open `/dev/userfaultfd`.
    ///
    /// # Safety
    /// The descriptor is open, and stays so during the call.
    ///
    /// # Errors
    /// `ENOTTY` where it is something else.
    pub unsafe fn from_device_number(device: i32) -> Result<Self, Errno> {
        // SAFETY: as the caller promises.
        Self::from_device(unsafe { BorrowedFd::borrow_raw(device) })
    }

    /// The userfaultfd of a forked child, as [`Message::Fork`] names it.
    ///
    /// # Safety
    /// The descriptor was read from such a message, and nothing else has taken it.
    pub unsafe fn of_child(descriptor: i32) -> Self {
        // SAFETY: as the caller promises: open, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Self::from(fd)
    }

    /// The API handshake, once before anything else. Returns all features of the kernel.
    ///
    /// # Errors
    /// `EINVAL` where a wanted feature is missing, `EPERM` for `EVENT_FORK` without privilege.
    pub fn handshake(&self, wanted: Features) -> Result<Features, Errno> {
        let mut api = sys::uffdio_api {
            api: API_VERSION,
            features: wanted.0,
            ioctls: 0,
        };
        // SAFETY: `api` is the structure that UFFDIO_API reads and writes.
        unsafe { rustix::ioctl::ioctl(&self.fd, Update::<_, API>(&mut api))? };
        Ok(Features(api.features))
    }

    /// Registers `range` for faults on missing pages.
    ///
    /// # Safety
    /// From now on threads that touch a missing page of `range` sleep until this userfaultfd
    /// answers: the caller answers, and never touches such a page itself from where it answers.
    ///
    /// # Errors
    /// `EINVAL` for memory that cannot be registered or is not mapped, `EBUSY` where another
    /// userfaultfd has it, `ENOMEM`.
    pub unsafe fn register(&self, range: AddressRange) -> Result<(), Errno> {
        // SAFETY: as the caller promises.
        unsafe { self.register_in_mode(range, REGISTER_MODE_MISSING) }
    }

    /// Registers `range` as one that pages may be moved to (`UFFDIO_MOVE` asks for a registration of the destination, of
    /// whatever mode). A missing page of it is filled by the kernel, as in memory that is not registered: nobody sleeps.
    ///
    /// # Safety
    /// Nothing of `range` is write-protected by this userfaultfd.
    ///
    /// # Errors
    /// Those of [`register`](Self::register). `EINVAL` also where the kernel has no write protection by userfaultfd for
    /// this processor (arm64 before Linux 6.13).
    pub unsafe fn register_as_destination(&self, range: AddressRange) -> Result<(), Errno> {
        // SAFETY: there are no faults to answer, as the caller promises.
        unsafe { self.register_in_mode(range, REGISTER_MODE_WP) }
    }

    /// # Safety
    /// As the mode demands.
    unsafe fn register_in_mode(&self, range: AddressRange, mode: u64) -> Result<(), Errno> {
        let mut register = sys::uffdio_register {
            range: raw(range),
            mode,
            ioctls: 0,
        };
        // SAFETY: the caller answers the faults; the structure is the one of UFFDIO_REGISTER.
        unsafe { rustix::ioctl::ioctl(&self.fd, Update::<_, REGISTER>(&mut register))? };
        Ok(())
    }

    /// Whether `range` lies in one private anonymous mapping that is registered with a
    /// userfaultfd. Changes nothing: it asks for what the kernel refuses on anonymous memory
    /// (`UFFDIO_CONTINUE`), which it does only after it has looked at the mapping.
    ///
    /// [`register`](Self::register) accepts a range with holes; what is mapped into a hole later
    /// is not registered.
    ///
    /// # Errors
    /// `EAGAIN`: the address space is changing, there is no answer now.
    pub fn is_registered(&self, range: AddressRange) -> Result<bool, Errno> {
        is_registered(&self.fd, range)
    }

    /// The same, with another userfaultfd of this process as a witness: it must have had its handshake, and nothing may be
    /// registered with it.
    pub fn with_witness(self, witness: Option<Self>) -> Self {
        let witness = witness.map(|witness| witness.fd);
        Self { witness, ..self }
    }

    /// Goes on without the witness if the kernel tells it nothing of others' memory, of which `registered` is.
    pub fn check_witness(&mut self, registered: AddressRange) {
        let is_told = |witness: &OwnedFd| is_registered(witness, registered) == Ok(true);
        self.witness = self.witness.take().filter(is_told);
    }

    /// [`is_registered`](Self::is_registered) whether an event is unread or not, with any userfaultfd, as a
    /// [witness](Self::with_witness) sees it.
    ///
    /// # Errors
    /// Those of `is_registered` where there is no witness.
    pub fn is_registered_now(&self, range: AddressRange) -> Result<bool, Errno> {
        is_registered(self.witness.as_ref().unwrap_or(&self.fd), range)
    }

    /// Ends the registration of `range`; sleeping threads wake and see zero pages.
    ///
    /// # Safety
    /// No page of `range` has content that only the pager remembers.
    ///
    /// # Errors
    /// `EINVAL` where the range is not mapped.
    pub unsafe fn unregister(&self, range: AddressRange) -> Result<(), Errno> {
        let mut range = raw(range);
        // SAFETY: as the caller promises; the structure is the one of UFFDIO_UNREGISTER.
        unsafe { rustix::ioctl::ioctl(&self.fd, Update::<_, UNREGISTER>(&mut range))? };
        Ok(())
    }

    /// Puts a copy of the bytes at `source` into the missing pages at `address` and wakes who
    /// waits there. Returns the bytes copied; fewer than asked means that the rest met an error,
    /// which a further call will show.
    ///
    /// # Safety
    /// `source` is readable for `len` bytes and not itself missing in a registered range.
    ///
    /// # Errors
    /// `EEXIST`: a page is there already. `EAGAIN`: the address space is changing; read the
    /// event, then retry. `ENOENT`: no registered mapping there. `ESRCH`: the process is ending.
    pub unsafe fn copy(
        &self,
        address: usize,
        source: *const u8,
        len: usize,
    ) -> Result<usize, Errno> {
        let mut copy = sys::uffdio_copy {
            dst: address as u64,
            src: source as u64,
            len: len as u64,
            mode: 0,
            copy: 0,
        };
        // SAFETY: the kernel reads `source` as the caller promises and fills missing pages only.
        let result = unsafe { rustix::ioctl::ioctl(&self.fd, Update::<_, COPY>(&mut copy)) };
        partial(result, copy.copy)
    }

    /// Maps the zero page into the missing pages of `range` and wakes who waits there.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub fn zero(&self, range: AddressRange) -> Result<usize, Errno> {
        let mut zero = sys::uffdio_zeropage {
            range: raw(range),
            mode: 0,
            zeropage: 0,
        };
        // SAFETY: only missing pages of a range registered with us are filled, with what an
        // unmanaged program would have found there.
        let result = unsafe { rustix::ioctl::ioctl(&self.fd, Update::<_, ZEROPAGE>(&mut zero)) };
        partial(result, zero.zeropage)
    }

    /// Marks the missing pages of `range` as poisoned: a touch raises SIGBUS. Wakes who waits.
    ///
    /// # Errors
    /// As [`copy`](Self::copy).
    pub fn poison(&self, range: AddressRange) -> Result<usize, Errno> {
        let mut poison = sys::uffdio_poison {
            range: raw(range),
            mode: 0,
            updated: 0,
        };
        // SAFETY: only missing pages are marked; touching them raises a signal, never reads.
        let result = unsafe { rustix::ioctl::ioctl(&self.fd, Update::<_, POISON>(&mut poison)) };
        partial(result, poison.updated)
    }

    /// Wakes the threads that wait in `range`; they try their access again.
    ///
    /// # Errors
    /// `EINVAL` for an empty or unaligned range.
    pub fn wake(&self, range: AddressRange) -> Result<(), Errno> {
        let mut range = raw(range);
        // SAFETY: no memory is changed.
        unsafe { rustix::ioctl::ioctl(&self.fd, Update::<_, WAKE>(&mut range))? };
        Ok(())
    }

    /// Moves the pages of `source..source+len` to `destination`, which is missing there and
    /// registered with this userfaultfd. What was moved is missing in the source at once, in the
    /// eyes of every thread: no write can be lost.
    ///
    /// Errors are outcomes: `ENOENT` a hole in the source, `EBUSY` a pinned or shared page,
    /// `EINVAL` a mapping that cannot be moved from, `EAGAIN` a changing address space, `EEXIST` a
    /// destination that is not empty, *or a page that this very call has moved*.
    ///
    /// The last is a fault of Linux 6.18's `move_pages` (`mm/userfaultfd.c`): once it has tried a
    /// page again, because a thread wrote to it in that moment, it forgets to count what it moves,
    /// and comes to the same page a second time. With `ALLOW_SRC_HOLES` a hole there would keep it
    /// in the kernel for ever; therefore holes stop a move here.
    ///
    /// # Safety
    /// The source pages disappear for their owner: the caller gives their content back on a
    /// touch, which needs the source to be registered as well.
    pub unsafe fn move_pages(&self, destination: usize, source: usize, len: usize) -> Moved {
        let mut arg = sys::uffdio_move {
            dst: destination as u64,
            src: source as u64,
            len: len as u64,
            mode: MOVE_MODE_DONTWAKE,
            move_: 0,
        };
        // SAFETY: as the caller promises; the structure is the one of UFFDIO_MOVE.
        let result = unsafe { rustix::ioctl::ioctl(&self.fd, Update::<_, MOVE>(&mut arg)) };
        match result {
            Ok(_) => Moved {
                bytes: len,
                stopped: None,
            },
            Err(errno) => Moved {
                bytes: arg.move_.max(0) as usize,
                stopped: Some(errno),
            },
        }
    }

    /// Reads messages without waiting. Returns how many there were (0: none).
    ///
    /// # Errors
    /// Whatever `read` gives, but `EAGAIN`, which is "none".
    pub fn read<const N: usize>(&self, into: &mut [Message; N]) -> Result<usize, Errno> {
        let mut raw = [const { MaybeUninit::<sys::uffd_msg>::uninit() }; N];
        // SAFETY: an array of MaybeUninit structures is an array of MaybeUninit bytes.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut(
                raw.as_mut_ptr().cast::<MaybeUninit<u8>>(),
                size_of_val(&raw),
            )
        };
        let read = match rustix::io::read(&self.fd, bytes) {
            Ok((filled, _)) => filled.len(),
            Err(Errno::AGAIN) => 0,
            Err(errno) => return Err(errno),
        };
        let count = read / size_of::<sys::uffd_msg>();
        for (slot, raw) in into.iter_mut().zip(&raw[..count]) {
            // SAFETY: the kernel has written this message whole; every bit pattern is valid.
            *slot = decode(unsafe { raw.assume_init_ref() });
        }
        Ok(count)
    }

    /// Waits until a message can be read, or until `timeout_ns` nanoseconds have passed
    /// (`None`: for ever). Returns whether there is one.
    pub fn wait(&self, timeout_ns: Option<u64>) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

impl From<OwnedFd> for Userfaultfd {
    /// A userfaultfd that was opened before, with its handshake done.
    fn from(fd: OwnedFd) -> Self {
        Self { fd, witness: None }
    }
}

impl AsFd for Userfaultfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn raw(range: AddressRange) -> sys::uffdio_range {
    debug_assert!((range.start | range.end).is_multiple_of(PAGE_SIZE));
    sys::uffdio_range {
        start: range.start as u64,
        len: range.len() as u64,
    }
}

/// Result of an ioctl that reports what it did before an error: done in part counts as done.
fn partial(result: Result<i32, Errno>, done: i64) -> Result<usize, Errno> {
    match result {
        Ok(_) => Ok(done as usize),
        Err(_) if done > 0 => Ok(done as usize),
        // The ioctl itself says EAGAIN whenever it stopped early; the field holds the reason.
        Err(Errno::AGAIN) if done < 0 => Err(Errno::from_raw_os_error(-done as i32)),
        Err(errno) => Err(errno),
    }
}

fn decode(raw: &sys::uffd_msg) -> Message {
    // SAFETY: the kernel fills the union member that belongs to `event`, and zeroes the rest;
    // all members are plain integers.
    unsafe {
        match raw.event {
            EVENT_PAGEFAULT => Message::Fault {
                address: raw.arg.pagefault.address as usize & !(PAGE_SIZE - 1),
                access: if raw.arg.pagefault.flags & PAGEFAULT_FLAG_WRITE != 0 {
                    Access::Write
                } else {
                    Access::Read
                },
                thread: raw.arg.pagefault.feat.ptid,
            },
            EVENT_FORK => Message::Fork {
                descriptor: raw.arg.fork.ufd as i32,
            },
            EVENT_REMAP => Message::Remap {
                from: raw.arg.remap.from as usize,
                to: raw.arg.remap.to as usize,
                len: raw.arg.remap.len as usize,
            },
            EVENT_REMOVE => Message::Remove(AddressRange {
                start: raw.arg.remove.start as usize,
                end: raw.arg.remove.end as usize,
            }),
            EVENT_UNMAP => Message::Unmap(AddressRange {
                start: raw.arg.remove.start as usize,
                end: raw.arg.remove.end as usize,
            }),
            other => Message::Unknown(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_those_of_the_kernel_headers() {
        assert_eq!(IOC_NEW, 0xAA00);
        assert_eq!(API, 0xC018_AA3F);
        assert_eq!(REGISTER, 0xC020_AA00);
        assert_eq!(UNREGISTER, 0x8010_AA01);
        assert_eq!(COPY, 0xC028_AA03);
        assert_eq!(MOVE, 0xC028_AA05);
    }
}
