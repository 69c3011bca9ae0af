//! The end of a program whose threads leave one by one.
//!
//! A process ends when its last thread does, and the pager's threads are threads of the process. A program
//! whose threads end by the bare `exit` system call, by a strict seccomp mode or by a filter that kills a thread,
//! would stay for ever. So one thread of the pager watches: the leader, whose memory is empty when it has ended (a
//! microsecond, four times a second; its pidfd does not tell from Linux 6.15 on, before all others have ended), and once
//! it has, all others. When none of the program's is left the process ends with the status that it would have had.
//!
//! Since Linux 5.19 that is the status of the thread that ended last. The leader stays as a zombie and can be asked
//! for its own; any other is gone at once, and only a descriptor that was opened before tells (from 6.15 on, else it
//! counts as 0, by which libc's threads end). Where several end at one moment, after the leader, the last of them to
//! be looked at counts; and where the leader and all others end between two looks, the leader's.
//!
//! * I1: the process is ended only when no thread is listed but the leader, a zombie, and the pager's.

use crate::Pager;
use coldpress_linux::sys;
use coldpress_linux::text::Text;
use core::fmt::Write;
use core::mem::MaybeUninit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// `PIDFD_THREAD` of `pidfd_open`(2), from Linux 6.9 on.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(0o200);

/// Threads whose end is waited for by descriptors of their own; of more the list alone tells.
const HELD: usize = 16;

/// How soon the list is read again when a thread is on its way out, in nanoseconds.
const SOON_NS: u64 = 2_000_000;
/// How often.
const SOON: usize = 10;

/// Watches the program's threads end.
pub struct Departure {
    pager: &'static Pager,
    process: u32,
    /// The calling thread.
    watching: u32,
    /// Memory as the leader has it: none when it has ended.
    statm: Option<OwnedFd>,
    is_led: bool,
    held: [Option<(u32, OwnedFd)>; HELD],
    /// Status of the last thread that was seen to end; `None`: none but the leader.
    last: Option<i32>,
}

impl Departure {
    /// Begins to watch. In a thread that has descriptors of its own.
    pub fn watch(pager: &'static Pager) -> Self {
        let process = sys::process_id();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let statm = rustix::fs::open(c"/proc/self/statm", flags, Mode::empty()).ok();
        Self {
            pager,
            process,
            watching: sys::thread_id(),
            statm,
            is_led: true,
            held: [const { None }; HELD],
            last: None,
        }
    }

    /// Waits for `ns` nanoseconds at most; less where a thread has ended, or somebody wants the pager to leave. Ends
    /// the process where nobody is left.
    pub fn wait(&mut self, ns: u64) {
        self.poll(ns);
        self.is_led &= !self.leader_has_ended();
        if self.is_led {
            return;
        }
        for _ in 0..SOON {
            match self.look() {
                Rest::None => self.end(),
                Rest::Some => return,
                Rest::OnItsWay => sys::sleep_ns(SOON_NS),
            }
        }
        // A debugger keeps it.
        sys::sleep_ns(ns);
    }

    /// Until a thread's descriptor is readable, or the event of leaving.
    fn poll(&self, ns: u64) {
        let timeout = Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        };
        let Some(event) = self.pager.leaving.event() else {
            return sys::sleep_ns(ns);
        };
        let mut set: [PollFd<'_>; HELD + 1] =
            core::array::from_fn(|_| PollFd::new(event, PollFlags::IN));
        let mut len = 1;
        for (_, thread) in self.held.iter().flatten() {
            set[len] = PollFd::new(thread, PollFlags::IN);
            len += 1;
        }
        let _ = poll(&mut set[..len], Some(&timeout));
    }

    fn leader_has_ended(&self) -> bool {
        let mut size = [0u8];
        let read = self
            .statm
            .as_ref()
            .map(|statm| rustix::io::pread(statm, &mut size, 0));
        matches!(read, Some(Ok(1))) && size == *b"0"
    }

    /// Reads the list of threads, takes descriptors of those that are new, and the status of those that have ended.
    fn look(&mut self) -> Rest {
        let mut listed = 0;
        let mut unlisted = [true; HELD];
        let told = for_each_thread(|thread| {
            let own = [self.process, self.watching].contains(&thread);
            if own || self.pager.threads.ids().any(|own| own == thread) {
                return;
            }
            listed += 1;
            let known = |held: &Option<(u32, OwnedFd)>| {
                held.as_ref().is_some_and(|(number, _)| *number == thread)
            };
            if let Some(n) = self.held.iter().position(known) {
                unlisted[n] = false;
            } else if let Some(n) = self.held.iter().position(Option::is_none) {
                self.held[n] = hold(thread).map(|descriptor| (thread, descriptor));
                unlisted[n] = false;
            }
        });
        if !told {
            // Nothing can be known, so nothing is done.
            return Rest::Some;
        }
        let mut on_its_way = false;
        for (held, unlisted) in self.held.iter_mut().zip(unlisted) {
            let Some((_, descriptor)) = held else {
                continue;
            };
            match (has_ended(descriptor), unlisted) {
                (false, true) => *held = None,
                (true, true) => {
                    self.last = Some(status_of(descriptor).unwrap_or(0));
                    *held = None;
                }
                (true, false) => on_its_way = true,
                (false, false) => {}
            }
        }
        match (listed, on_its_way) {
            (0, _) => Rest::None,
            (_, true) => Rest::OnItsWay,
            _ => Rest::Some,
        }
    }

    /// Ends the process as its last thread has ended.
    fn end(&self) -> ! {
        let status = self.last.or_else(|| self.leaders_status()).unwrap_or(0);
        self.pager.publish_finally();
        match status & 0x7F {
            0 => sys::exit_process(status >> 8 & 0xFF),
            signal => sys::die_by(signal as u32),
        }
    }

    /// Field 52 of the zombie's `stat`.
    fn leaders_status(&self) -> Option<i32> {
        let mut path = Text::<64>::default();
        let _ = write!(path, "/proc/self/task/{}/stat", self.process);
        let status = coldpress_linux::proc_stat::stat_field(path.as_c_str()?, 52)?;
        Some(status as i32)
    }
}

/// What is left of the program's threads.
enum Rest {
    None,
    Some,
    /// One has ended and is still listed.
    OnItsWay,
}

fn hold(thread: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(thread as i32)?, PIDFD_THREAD).ok()
}

/// Whether the thread of this descriptor has ended.
fn has_ended(thread: &OwnedFd) -> bool {
    let mut set = [PollFd::new(thread, PollFlags::IN)];
    let at_once = Timespec::default();
    poll(&mut set, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// `struct pidfd_info` in its first size.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    group: u64,
    numbers: [u32; 11],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`, from Linux 6.15 on.
const INFO_EXIT: u64 = 1 << 3;
/// `PIDFD_GET_INFO`: `_IOWR(0xFF, 11, struct pidfd_info)`.
const GET_INFO: usize = 3 << 30 | size_of::<PidfdInfo>() << 16 | 0xFF << 8 | 11;

/// Status of a thread that is gone.
fn status_of(thread: &OwnedFd) -> Option<i32> {
    let mut info = PidfdInfo {
        mask: INFO_EXIT,
        ..PidfdInfo::default()
    };
    let args = [
        thread.as_raw_fd() as usize,
        GET_INFO,
        (&raw mut info) as usize,
    ];
    // SAFETY: the kernel writes the structure, whose size the request tells.
    let result = unsafe {
        sys::syscall(
            linux_raw_sys::general::__NR_ioctl,
            [args[0], args[1], args[2], 0, 0, 0],
        )
    };
    (result == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_code)
}

/// Calls `with` for the number of each thread of the process. `false`: they cannot be told.
fn for_each_thread(mut with: impl FnMut(u32)) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let Ok(tasks) = rustix::fs::open(c"/proc/self/task", flags, Mode::empty()) else {
        return false;
    };
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(tasks.as_fd(), &mut buffer);
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else {
            return false;
        };
        let name = entry.file_name().to_str().unwrap_or("");
        if let Ok(thread) = name.parse() {
            with(thread);
        }
    }
    true
}
