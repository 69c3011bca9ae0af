//! The parent while the program runs: forwards signals, stops and continues with it, keeps its
//! statistics file open, and waits for its end.

use crate::follow::Followed;
use crate::notices::Notices;
use crate::process::Identity;
use crate::signals::{self, Signals};
use crate::spawn::Child;
use crate::statistics_file::{self, Copy};
use std::fs::{self, File};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::{Duration, Instant};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Killed(libc::c_int),
}

/// Runs until the program has ended. Its statistics file is removed. `followed`: the other processes of
/// the run, if they are managed too.
pub fn supervise(
    child: Child,
    directory: &Path,
    signals: &Signals,
    notices: Notices,
    mut followed: Option<&mut Followed>,
) -> (Ending, Option<Copy>) {
    let mut watch = Watch::new(child, directory, notices);
    let ending = loop {
        if let Some(ending) = look_at(child.pid) {
            break ending;
        }
        watch.open();
        watch.look();
        let next = [
            watch.next_look(),
            followed.as_mut().map(|followed| followed.look()),
        ];
        if let Some(arrival) = signals.wait(next.into_iter().flatten().min()) {
            // The child is not reaped before the end, so its id is still its own.
            let stopped = Identity::of(child.pid).is_some_and(|process| process.state == 'T');
            if signals::is_forwarded(arrival, stopped) {
                send(child.pid, arrival.signal);
            }
        }
    };
    let copy = watch.finish();
    reap(child.pid);
    (ending, copy)
}

fn send(pid: u32, signal: libc::c_int) {
    // SAFETY: `pid` is our own child, which has not been reaped.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

/// Whether the child has ended. Follows it where the terminal has stopped it.
fn look_at(child: u32) -> Option<Ending> {
    reap_orphans(child);
    let ended = wait_for(libc::P_PID, child, libc::WEXITED | libc::WNOWAIT);
    if let Some(info) = ended {
        // SAFETY: the kernel filled in a child's status.
        let status = unsafe { info.si_status() };
        return Some(match info.si_code {
            libc::CLD_EXITED => Ending::Exited(status.to_ne_bytes()[0]),
            _ => Ending::Killed(status),
        });
    }
    if let Some(info) = wait_for(libc::P_PID, child, libc::WSTOPPED) {
        // SAFETY: as above.
        let signal = unsafe { info.si_status() };
        // Job control only: a tool that stops the program with SIGSTOP will continue the program
        // and not us, and we would sleep for ever.
        if [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal) {
            // SAFETY: a signal to ourselves.
            unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
        }
    }
    None
}

/// One look, without waiting, at the children named.
fn wait_for(kind: libc::idtype_t, id: u32, options: libc::c_int) -> Option<libc::siginfo_t> {
    // SAFETY: zeros are a valid `siginfo_t`; the call fills it in.
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let result = libc::waitid(kind, id, &mut info, options | libc::WNOHANG);
        (result == 0 && info.si_pid() != 0).then_some(info)
    }
}

/// As process 1 of a container we inherit every orphan and must let it go.
fn reap_orphans(child: u32) {
    while let Some(info) = wait_for(libc::P_ALL, 0, libc::WEXITED | libc::WNOWAIT) {
        // SAFETY: the kernel filled in a child's id.
        let pid = unsafe { info.si_pid() }.cast_unsigned();
        if pid == child {
            break;
        }
        reap(pid);
    }
}

fn reap(pid: u32) {
    // SAFETY: a child that has ended; no status is asked for.
    unsafe { libc::waitpid(pid.cast_signed(), ptr::null_mut(), 0) };
}

/// The statistics file, from the moment it appears.
struct Watch {
    child: Child,
    path: PathBuf,
    file: Option<File>,
    since: Instant,
    notices: Notices,
    looked: Instant,
}

impl Watch {
    fn new(child: Child, directory: &Path, notices: Notices) -> Self {
        Self {
            child,
            path: statistics_file::path(directory, child.pid),
            file: None,
            since: Instant::now(),
            notices,
            looked: Instant::now(),
        }
    }

    fn open(&mut self) {
        if self.file.is_none() {
            self.file = self.ours(statistics_file::open(&self.path));
        }
    }

    /// The file, unless it was left by an earlier owner of the process id.
    fn ours(&self, file: io::Result<File>) -> Option<File> {
        let file = file.ok()?;
        self.copy(&file).map(|_| file)
    }

    fn copy(&self, file: &File) -> Option<Copy> {
        let copy = Copy::of(file).ok()?;
        let statistics = copy.statistics(self.child.pid).ok()?;
        let start = statistics
            .start_time_ticks
            .load(std::sync::atomic::Ordering::Relaxed);
        (start == self.child.start_time_ticks).then_some(copy)
    }

    /// Looks how the program fares, if it is time to.
    fn look(&mut self) {
        let due = self.notices.next_look();
        if self.file.is_none() || due.is_none_or(|after| self.looked.elapsed() < after) {
            return;
        }
        self.looked = Instant::now();
        // Under the name there may be the file of what it has executed since.
        let file = self.ours(statistics_file::open(&self.path));
        let copy = file.and_then(|file| self.copy(&file));
        if let Some(s) = copy
            .as_ref()
            .and_then(|c| c.statistics(self.child.pid).ok())
        {
            self.notices.look(self.child.pid, s);
        }
    }

    /// When to look for the file again; once it is open, when to look how the program fares.
    fn next_look(&self) -> Option<Duration> {
        if self.file.is_some() {
            let since = self.looked.elapsed();
            return self
                .notices
                .next_look()
                .map(|after| after.saturating_sub(since));
        }
        let patient = self.since.elapsed() > Duration::from_secs(5);
        Some(if patient {
            Duration::from_secs(1)
        } else {
            Duration::from_millis(20)
        })
    }

    /// The last state of the file, which is removed. A program that replaced itself (`execve`)
    /// has a new file under the same name; the one opened first serves where that is gone.
    fn finish(self) -> Option<Copy> {
        let last = self.ours(statistics_file::open(&self.path));
        let copy = last.or_else(|| self.file.as_ref()?.try_clone().ok());
        let copy = copy.and_then(|file| self.copy(&file));
        let _ = fs::remove_file(&self.path);
        copy
    }
}
