//! Asking the pager of another process for something, through its statistics page, and waiting for
//! the answer. The protocol stands in `coldpress_interface::control`.

use crate::managed;
use crate::process::{self, Identity};
use crate::refusal::Refusal;
use crate::statistics_file::{self, Copy, Live, Rights};
use crate::unmanaged;
use coldpress_interface::control::{self, Control, Request};
use coldpress_interface::page::{CONTROL_AT, FILE_BYTES};
use coldpress_interface::run_file::slot_at;
use coldpress_interface::statistics::Statistics;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The statistics of a process before and after it did what it was asked for.
#[derive(Debug)]
pub struct Answer {
    /// Before.
    pub before: Copy,
    /// After.
    pub after: Copy,
}

/// Asks the pager of a process for something, and waits no longer than `patience` for the answer. (The
/// pager looks four times a second, or more often.)
pub fn ask(live: &Live, request: &Request, patience: Duration) -> Result<Answer, Refusal> {
    let pid = live.pid;
    let named = format!("process {pid} ({})", process::name(pid));
    let refuse = |why: &dyn std::fmt::Display| Refusal::new(format!("{named}: {why}"));
    let file =
        statistics_file::open(&live.path, Rights::ReadWrite).map_err(|error| refuse(&error))?;
    let metadata = file.metadata().map_err(|error| refuse(&error))?;
    // Root's programs may have become another user since.
    if metadata.uid() != 0 && managed::owner(pid) != Some(metadata.uid()) {
        return Err(refuse(&"its run file belongs to another user"));
    }
    let until = Instant::now() + patience;
    lock(&file, until).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => refuse(&"somebody else is asking it for something"),
        _ => refuse(&error),
    })?;
    let look = || -> Result<Copy, Refusal> {
        let copy = Copy::of(&file, live.slot).map_err(|error| refuse(&error))?;
        copy.statistics(pid).map_err(|error| refuse(&error))?;
        Ok(copy)
    };
    let before = look()?;
    let page = before.statistics(pid).map_err(|error| refuse(&error))?;
    if !page.answers() {
        let older = "its pager is of an older version, which cannot be asked for anything";
        return Err(refuse(&older));
    }
    let start_time_ticks = page.start_time_ticks.load(Relaxed);
    let block = Block::map(&file, live.slot).map_err(|error| refuse(&error))?;
    let process = (u64::from(pid), start_time_ticks);
    let number = block.control().ask(request, process);
    loop {
        if answered(&look()?, pid, number) {
            break;
        }
        let found = Identity::of(pid).filter(|process| process.is_alive());
        match found {
            Some(found) if found.start_time_ticks == start_time_ticks => {}
            _ => return Err(refuse(&"it ended in this moment")),
        }
        if Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        // Nothing shall be done behind the back of who was told that nothing was.
        block.control().ask(&Request::default(), process);
        if !answered(&look()?, pid, number) {
            let stopped = found.is_some_and(|p| p.state == 'T');
            return Err(silent(&named, pid, patience, stopped));
        }
        break;
    }
    // Copied once more: what was copied with the number may have been copied before it was written.
    let after = look()?;
    let page = after.statistics(pid).map_err(|error| refuse(&error))?;
    match page.control_refusal.load(Relaxed) {
        0 => Ok(Answer { before, after }),
        word => Err(refuse(&control::Refusal::from_word(word).map_or(
            "its pager, of another version, refuses",
            control::Refusal::reason,
        ))),
    }
}

fn answered(copy: &Copy, pid: u32, number: u64) -> bool {
    let is = |page: &Statistics| page.control_answered.load(Relaxed) == number;
    copy.statistics(pid).is_ok_and(is)
}

fn silent(named: &str, pid: u32, patience: Duration, stopped: bool) -> Refusal {
    let seconds = patience.as_secs();
    let why = if stopped {
        "it is stopped".to_owned()
    } else if unmanaged::has_pager(pid) == Some(false) {
        without_pager(pid)
    } else {
        "is the machine overloaded, or the process being traced?".to_owned()
    };
    let refusal = Refusal::new(format!(
        "{named} did not answer within {seconds} s, and will not do it later: {why}"
    ));
    if stopped {
        refusal.mend(format!("Let it go on, and ask again: kill -CONT {pid}"))
    } else {
        refusal
    }
}

/// Why nobody answers in a process that had a pager.
fn without_pager(pid: u32) -> String {
    let executable = fs::read_link(format!("/proc/{pid}/exe"));
    let unfit = executable
        .ok()
        .and_then(|file| unmanaged::unfit(pid, &file));
    match unfit {
        Some(why) => format!("it has executed what has no pager: {why}"),
        None => "it has no pager any more".to_owned(),
    }
}

fn lock(file: &File, until: Instant) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open; the call changes no memory.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::WouldBlock || Instant::now() >= until {
            return Err(error);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The request block, mapped.
struct Block(*mut libc::c_void);

impl Block {
    const BYTES: usize = FILE_BYTES - CONTROL_AT;

    fn map(file: &File, slot: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping of a part of the file, which is long enough.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                Self::BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                (slot_at(slot) + CONTROL_AT) as libc::off_t,
            )
        };
        match at {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            at => Ok(Self(at)),
        }
    }

    fn control(&self) -> &Control {
        // SAFETY: mapped as long as this value lives, at the border of a page; `Control` is made of
        // nothing but `AtomicU64`.
        unsafe { &*self.0.cast::<Control>() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and nobody borrows it any more.
        unsafe { libc::munmap(self.0, Self::BYTES) };
    }
}
