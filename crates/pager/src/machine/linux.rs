//! Linux as the pager's [`Os`]: every call is the system call itself.

use crate::machine::memory_group::GroupFiles;
use crate::machine::os::{
    Alarm, FileError, LockKind, Meter, Os, PopulatedPages, ProcessFiles, Remapping, Userfaults,
};
use crate::machine::visit;
use crate::{Codec, Pager};
use coldpress_codec::press::Simd;
use coldpress_engine::Worker;
use coldpress_linux::maps;
use coldpress_linux::proc_stat;
use coldpress_linux::sys;
use coldpress_linux::text::Text;
use coldpress_uffd::{
    AddressRange, Errno, Message, Moved, PAGE_SIZE, Pagemap, Region, Userfaultfd,
};
use core::ffi::c_int;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;
use linux_raw_sys::general as nr;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, RawDir, Stat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::futex;

/// Linux.
#[derive(Debug)]
pub enum Linux {}

impl Linux {
    /// Waits as a handler does while reclaim is on a visit: not for long, whatever holds that up.
    pub(crate) fn wait_in_handler(word: &AtomicU32, value: u32) {
        Linux::wait_on(word, value, Some(visit::RESCUE_NS));
        if word.load(core::sync::atomic::Ordering::Relaxed) == value {
            visit::rescue();
        }
    }
}

/// A kernel or filter without the call says nothing about the file; neither does a file that has no ranges.
fn knows_no_such_call(error: Errno) -> Result<(), Errno> {
    match error {
        Errno::NOSYS | Errno::PERM | Errno::SPIPE | Errno::INVAL => Ok(()),
        error => Err(error),
    }
}

/// What a descriptor stands for, if it does for anything.
fn status(file: c_int) -> Option<Stat> {
    if file < 0 {
        return None;
    }
    // SAFETY: whatever the number stands for, it is only asked what it is.
    rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(file) }).ok()
}

/// Makes a call of a file again where it was interrupted.
fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, FileError> {
    loop {
        match call() {
            Ok(done) => return Ok(done),
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => return Err(FileError::NoSpace),
            Err(_) => return Err(FileError::Io),
        }
    }
}

/// Sets a record lock of one byte, or asks for one that is in its way: the kind that the kernel answers with. `None`: it
/// fails.
fn record_lock(command: u32, file: c_int, byte: u64, kind: LockKind) -> Option<i16> {
    let kind = match kind {
        LockKind::Exclusive => nr::F_WRLCK,
        LockKind::Shared => nr::F_RDLCK,
    };
    let mut lock = nr::flock {
        l_type: kind as i16,
        l_whence: nr::SEEK_SET as i16,
        l_start: byte.cast_signed(),
        l_len: 1,
        l_pid: 0,
    };
    let args = [
        file as usize,
        command as usize,
        (&raw mut lock) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the pager's own descriptor, and a structure that the kernel may write.
    let done = unsafe { sys::syscall(nr::__NR_fcntl, args) } == 0;
    done.then_some(lock.l_type)
}

/// A file system or device without holes is none that fails.
fn keeps_its_space(error: Errno) -> Result<(), Errno> {
    match error {
        Errno::OPNOTSUPP => Ok(()),
        error => Err(error),
    }
}

impl Os for Linux {
    type Userfaultfd = Userfaultfd;
    type Pagemap = Pagemap;
    type ProcessFiles = ProcFiles;
    type Meter = Statm;
    type MemoryGroups = GroupFiles;
    type Alarm = ProcAlarm;

    /// About a microsecond: what locks guard takes less.
    const SPINS: u32 = 60;
    const WORTH_COMPACTING: usize = 1 << 20;
    const WORTH_GIVING: u64 = 2 << 20;

    #[inline]
    fn now_ns() -> u64 {
        sys::now_ns()
    }

    fn vectors() -> Simd {
        Simd::best()
    }

    fn visit(processor: u32) {
        visit::begin(processor);
    }

    fn end_visit() {
        visit::end();
    }

    fn own_cpu_ns() -> u64 {
        sys::own_cpu_ns()
    }

    fn process_cpu_ns() -> u64 {
        sys::process_cpu_ns()
    }

    fn thread_cpu_ns(thread: u32) -> u64 {
        sys::thread_cpu_ns(thread)
    }

    fn sleep_ns(ns: u64) {
        sys::sleep_ns(ns);
    }

    fn wait_on(word: &AtomicU32, value: u32, timeout_ns: Option<u64>) {
        if timeout_ns.is_none() && visit::is_under_way() && sys::is_handler() {
            return Linux::wait_in_handler(word, value);
        }
        let timeout = timeout_ns.map(|ns| rustix::time::Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let _ = futex::wait(word, futex::Flags::PRIVATE, value, timeout.as_ref());
    }

    fn wake(word: &AtomicU32, count: u32) {
        let _ = futex::wake(word, futex::Flags::PRIVATE, count);
    }

    fn process_id() -> u32 {
        sys::process_id()
    }

    fn thread_id() -> u32 {
        sys::thread_id()
    }

    fn is_thread_gone(thread: u32) -> bool {
        sys::is_thread_gone(thread)
    }

    /// Field 39 of `/proc/self/task/TID/stat` (`proc_pid_stat(5)`).
    fn processor_of(thread: u32) -> Option<u32> {
        let mut path = Text::<64>::default();
        let _ = write!(path, "/proc/self/task/{thread}/stat");
        let processor = proc_stat::stat_field(path.as_c_str()?, 39)?;
        u32::try_from(processor).ok()
    }

    fn remapping_of(thread: u32) -> Option<Remapping> {
        let mut path = Text::<64>::default();
        // Not below `task`: processes that share the memory (`CLONE_VM`) are not there.
        let _ = write!(path, "/proc/{thread}/syscall");
        let (number, [old, old_len, new_len, flags, to, _]) = proc_stat::call(path.as_c_str()?)?;
        let is_remapping = number == u64::from(nr::__NR_mremap);
        let is_fixed = flags & nr::MREMAP_FIXED as usize != 0;
        is_remapping.then(|| Remapping {
            old: AddressRange::new(old, old_len.next_multiple_of(PAGE_SIZE)),
            new_len: new_len.next_multiple_of(PAGE_SIZE),
            to: is_fixed.then_some(to),
        })
    }

    fn is_handler() -> bool {
        sys::is_handler()
    }

    fn held_ranks() -> Option<&'static AtomicU32> {
        sys::held_ranks()
    }

    fn robust_list(thread: u32) -> Result<Option<usize>, Errno> {
        sys::robust_list(thread)
    }

    fn differs(address: usize, value: u32) -> bool {
        sys::differs(address, value)
    }

    fn block_signals() -> u64 {
        sys::block_signals()
    }

    fn set_signals(mask: u64) {
        sys::set_signals(mask);
    }

    #[cfg(debug_assertions)]
    fn signal_that_may_come() -> Option<u32> {
        sys::signal_that_may_come()
    }

    unsafe fn madvise(address: usize, len: usize, advice: c_int) -> isize {
        // SAFETY: as the caller promises.
        unsafe { sys::madvise(address, len, advice) }
    }

    fn resident_if_mapped(range: AddressRange) -> Result<u64, u64> {
        sys::resident_if_mapped(range)
    }

    fn is_mapped(address: usize) -> bool {
        sys::is_mapped(address)
    }

    fn pin(address: usize) -> bool {
        sys::pin_for_a_read(address)
    }

    fn keep_huge_pages_out(out: bool) -> bool {
        sys::keep_huge_pages_out(out)
    }

    fn map(start: usize, bytes: usize) -> bool {
        const READ_WRITE: usize = (nr::PROT_READ | nr::PROT_WRITE) as usize;
        const FLAGS: u32 =
            nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE | nr::MAP_FIXED_NOREPLACE;
        let args = [start, bytes, READ_WRITE, FLAGS as usize, usize::MAX, 0];
        // SAFETY: a fresh mapping, which replaces none.
        if unsafe { sys::syscall(nr::__NR_mmap, args) } != start as isize {
            return false;
        }
        // SAFETY: our own mapping. Huge pages would back what was never touched.
        unsafe {
            sys::madvise(start, bytes, sys::MADV_NOHUGEPAGE);
            sys::madvise(start, bytes, sys::MADV_DONTDUMP);
        }
        true
    }

    fn lengthen(end: usize, by: usize) -> bool {
        let args = [end - PAGE_SIZE, PAGE_SIZE, PAGE_SIZE + by, 0, 0, 0];
        // SAFETY: our own mapping, which stays where it is.
        unsafe { sys::syscall(nr::__NR_mremap, args) == (end - PAGE_SIZE) as isize }
    }

    /// The same every time where the kernel places nothing at random either.
    fn random() -> u64 {
        const ASK: usize = 0xffff_ffff;
        const ADDR_NO_RANDOMIZE: isize = 0x004_0000;
        const NONBLOCK: usize = 1;
        // SAFETY: asked only; the kernel writes one word.
        unsafe {
            if sys::syscall(nr::__NR_personality, [ASK, 0, 0, 0, 0, 0]) & ADDR_NO_RANDOMIZE != 0 {
                return 0;
            }
            let mut word = sys::now_ns();
            let args = [
                (&raw mut word) as usize,
                size_of::<u64>(),
                NONBLOCK,
                0,
                0,
                0,
            ];
            sys::syscall(nr::__NR_getrandom, args);
            word
        }
    }

    fn unlock(start: usize, bytes: usize) {
        // SAFETY: our own memory, of which no content changes.
        unsafe { sys::syscall(nr::__NR_munlock, [start, bytes, 0, 0, 0, 0]) };
    }

    fn exit_thread() -> ! {
        sys::exit_thread()
    }

    fn read_file(file: c_int, at: u64, into: &mut [u8]) -> Result<usize, FileError> {
        // SAFETY: whatever the number stands for, the call reads only.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        again(|| rustix::io::pread(file, &mut *into, at))
    }

    fn write_file(file: c_int, at: u64, bytes: &[u8]) -> Result<usize, FileError> {
        // SAFETY: the pager's own descriptor, in a table that its threads have for themselves.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let written = again(|| rustix::io::pwrite(file, bytes, at))?;
        // So far it is in the page cache. What the device, or a file system that finds room late, says of it comes with
        // this; where there is no such call, with nothing.
        let (from, bytes) = (at as usize, written);
        let how = (nr::SYNC_FILE_RANGE_WAIT_BEFORE
            | nr::SYNC_FILE_RANGE_WRITE
            | nr::SYNC_FILE_RANGE_WAIT_AFTER) as usize;
        let write_out = || {
            let args = [file.as_raw_fd() as usize, from, bytes, how, 0, 0];
            // SAFETY: a descriptor and numbers.
            match unsafe { sys::syscall(nr::__NR_sync_file_range, args) } {
                0 => Ok(()),
                error => Err(Errno::from_raw_os_error(-error as i32)),
            }
        };
        again(|| write_out().or_else(knows_no_such_call))?;
        Ok(written)
    }

    fn has_content(file: c_int) -> bool {
        status(file).is_some_and(|status| status.st_blocks > 0)
    }

    fn discard_of_file(file: c_int, at: u64, bytes: u64) -> Result<(), FileError> {
        // SAFETY: as above.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        again(|| rustix::fs::fallocate(file, how, at, bytes).or_else(keeps_its_space))
    }

    fn identity_of_file(file: c_int) -> Option<(u64, u64)> {
        status(file).map(|status| (status.st_dev, status.st_ino))
    }

    /// A record lock: it belongs to the table of descriptors, which the pager's threads have for themselves.
    fn lock_file(file: c_int, byte: u64, kind: LockKind) -> bool {
        record_lock(nr::F_SETLK, file, byte, kind).is_some()
    }

    fn is_file_locked(file: c_int, byte: u64) -> bool {
        let found = record_lock(nr::F_GETLK, file, byte, LockKind::Exclusive);
        found.is_none_or(|kind| kind as u32 != nr::F_UNLCK)
    }

    fn has_children() -> bool {
        const ALL: usize = 0;
        const HOW: u32 = nr::WEXITED | nr::WNOHANG | nr::WNOWAIT | nr::__WALL;
        const CHILD: isize = -10;
        // SAFETY: it only asks, and nothing is written.
        let answer = unsafe { sys::syscall(nr::__NR_waitid, [ALL, 0, 0, HOW as usize, 0, 0]) };
        answer != CHILD
    }

    fn fill_random(key: &mut [u8; 32]) -> bool {
        let args = [key.as_mut_ptr() as usize, key.len(), 0, 0, 0, 0];
        // SAFETY: the kernel fills the key.
        unsafe { sys::syscall(nr::__NR_getrandom, args) == key.len() as isize }
    }

    unsafe fn keep_apart(at: usize) -> bool {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Locked, it is a mapping of one page among others that are not. Where so much may not be locked nothing is
        // mapped.
        let how = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::LOCKED;
        // SAFETY: as the caller promises.
        unsafe { mmap_anonymous(at as *mut _, PAGE_SIZE, protection, how) }.is_ok()
    }

    fn shared_words() -> *mut [AtomicU32; 2] {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: fresh memory.
        let mapped = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                PAGE_SIZE,
                protection,
                MapFlags::SHARED,
            )
        };
        mapped.map_or(core::ptr::null_mut(), |at| at.cast())
    }

    fn start_handlers(pager: &'static Pager, most: usize) -> bool {
        pager.start_pinned_handlers(most)
    }

    fn leave(pager: &'static Pager, worker: &mut Worker<Codec>) -> bool {
        pager.leave_now(worker)
    }

    fn abort() -> ! {
        sys::abort()
    }
}

/// More than the pager has open, and one.
pub(crate) const DESCRIPTORS: u64 = 16;

/// Calls `act` where the program may have as many descriptors as it could allow itself. Where that are too few, no fork
/// can go on, nor any fault be answered behind it: the program ends.
fn with_room_for_descriptors<T>(act: impl FnOnce() -> T) -> T {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if most < DESCRIPTORS || setrlimit(Resource::Nofile, raised).is_err() {
        crate::machine::message::say(format_args!(
            "the program has forked and may have no descriptors (RLIMIT_NOFILE), of which the pager needs one to hear of \
             it; it ends here"
        ));
        sys::abort();
    }
    let result = act();
    let _ = setrlimit(Resource::Nofile, limit);
    result
}

impl Userfaults for Userfaultfd {
    unsafe fn of_child(descriptor: i32) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Userfaultfd::of_child(descriptor) }
    }

    unsafe fn register(&self, range: AddressRange) -> Result<(), Errno> {
        // SAFETY: as the caller promises.
        unsafe { self.register(range) }
    }

    unsafe fn register_as_destination(&self, range: AddressRange) -> Result<(), Errno> {
        // SAFETY: as the caller promises.
        unsafe { self.register_as_destination(range) }
    }

    fn is_registered(&self, range: AddressRange) -> Result<bool, Errno> {
        self.is_registered(range)
    }

    fn is_registered_now(&self, range: AddressRange) -> Result<bool, Errno> {
        self.is_registered_now(range)
    }

    fn check_witness(&mut self, registered: AddressRange) {
        self.check_witness(registered);
    }

    unsafe fn unregister(&self, range: AddressRange) -> Result<(), Errno> {
        // SAFETY: as the caller promises.
        unsafe { self.unregister(range) }
    }

    unsafe fn copy(&self, to: usize, from: *const u8, len: usize) -> Result<usize, Errno> {
        // SAFETY: as the caller promises.
        unsafe { self.copy(to, from, len) }
    }

    fn zero(&self, range: AddressRange) -> Result<usize, Errno> {
        self.zero(range)
    }

    fn poison(&self, range: AddressRange) -> Result<usize, Errno> {
        self.poison(range)
    }

    fn wake(&self, range: AddressRange) -> Result<(), Errno> {
        self.wake(range)
    }

    unsafe fn move_pages(&self, to: usize, from: usize, len: usize) -> Moved {
        // SAFETY: as the caller promises.
        unsafe { self.move_pages(to, from, len) }
    }

    fn read(&self, into: &mut [Message; 1]) -> Result<usize, Errno> {
        match self.read(into) {
            // A fork is told of by a descriptor, for which the program has left its process no room.
            Err(Errno::MFILE) => with_room_for_descriptors(|| self.read(into)),
            read => read,
        }
    }

    fn wait(&self, timeout_ns: Option<u64>) -> bool {
        self.wait(timeout_ns)
    }
}

impl PopulatedPages for Pagemap {
    fn populated(&self, range: AddressRange, into: &mut [Region]) -> Result<(usize, usize), Errno> {
        self.populated(range, into)
    }

    fn first_populated(&self, range: AddressRange) -> Result<Option<usize>, Errno> {
        self.first_populated(range)
    }

    fn first_mapped(&self, range: AddressRange) -> Result<Option<usize>, Errno> {
        self.first_mapped(range)
    }

    fn is_mapped_once(&self, address: usize) -> bool {
        self.is_mapped_once(address) == Ok(true)
    }
}

/// Files of `/proc`.
#[derive(Debug)]
pub struct ProcFiles {
    maps: OwnedFd,
    tasks: OwnedFd,
}

pub(crate) fn open(path: &core::ffi::CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

impl ProcessFiles for ProcFiles {
    fn open() -> Result<Self, Errno> {
        Ok(Self {
            maps: open(maps::PATH, OFlags::empty())?,
            tasks: open(c"/proc/self/task", OFlags::DIRECTORY)?,
        })
    }

    fn for_each_mapping(&self, buffer: &mut [u8], with: impl FnMut(&[u8])) -> Result<(), Errno> {
        maps::for_each_line(self.maps.as_fd(), buffer, with)
    }

    fn for_each_thread(&self, mut with: impl FnMut(u32) -> Result<(), Errno>) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        rustix::fs::seek(&self.tasks, rustix::fs::SeekFrom::Start(0))?;
        let mut entries = RawDir::new(&self.tasks, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let thread = core::str::from_utf8(name).ok().and_then(|n| n.parse().ok());
            if let Some(thread) = thread {
                with(thread)?;
            }
        }
        Ok(())
    }

    fn most_mappings() -> Option<u32> {
        let file = open(c"/proc/sys/vm/max_map_count", OFlags::empty()).ok()?;
        let mut text = [0u8; 16];
        let len = rustix::io::read(&file, &mut text).ok()?;
        let digits = core::str::from_utf8(&text[..len]).ok()?;
        digits.trim().parse().ok()
    }
}

/// `/proc/thread-self/statm`.
#[derive(Debug)]
pub struct Statm(OwnedFd);

impl Meter for Statm {
    fn open() -> Option<Self> {
        open(c"/proc/thread-self/statm", OFlags::empty())
            .ok()
            .map(Self)
    }

    fn private_anonymous_bytes(&self) -> u64 {
        let mut text = [0u8; 128];
        let len = rustix::io::pread(&self.0, &mut text, 0).unwrap_or(0);
        let mut fields = text[..len]
            .split(|&c| c == b' ')
            .map(|f| core::str::from_utf8(f).ok().and_then(|f| f.parse().ok()));
        let resident: u64 = fields.nth(1).flatten().unwrap_or(0);
        let shared: u64 = fields.next().flatten().unwrap_or(0);
        resident.saturating_sub(shared) * PAGE_SIZE as u64
    }
}

/// `/proc/pressure/memory` and `/proc/meminfo`, as far as they can be opened.
#[derive(Debug)]
pub struct ProcAlarm {
    pressure: Option<OwnedFd>,
    memory: Option<OwnedFd>,
}

impl Alarm for ProcAlarm {
    fn open() -> Self {
        Self {
            pressure: open(c"/proc/pressure/memory", OFlags::empty()).ok(),
            memory: open(c"/proc/meminfo", OFlags::empty()).ok(),
        }
    }

    fn pressure(&self, into: &mut [u8]) -> Option<usize> {
        rustix::io::pread(self.pressure.as_ref()?, into, 0).ok()
    }

    fn memory(&self, into: &mut [u8]) -> Option<usize> {
        rustix::io::pread(self.memory.as_ref()?, into, 0).ok()
    }
}
