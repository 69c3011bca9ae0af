//! Starting the program: `fork`, complete the environment with the own process id, `execve`.
//!
//! `std::process::Command` cannot tell a child its own id in the environment, hence this file.
//! Everything the child needs is built before `fork`; between `fork` and `execve` it makes only
//! async-signal-safe calls and allocates nothing. A failed `execve` is reported through a pipe
//! that a successful one closes.

use crate::environment::RootPid;
use crate::handed_over;
use crate::process::Identity;
use crate::refusal::Refusal;
use crate::signals::Signals;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::path::Path;
use std::ptr;

/// Everything that the child needs.
#[derive(Debug)]
pub struct Launch {
    /// File to execute.
    pub path: CString,
    /// Arguments, the program's name first.
    pub arguments: Vec<CString>,
    /// Environment without the entry for the process id.
    pub environment: Vec<CString>,
    /// Descriptor that the program inherits.
    pub device: Option<RawFd>,
    /// Descriptor of the file that pages are written back to.
    pub write_back: Option<RawFd>,
    /// Whether the program is killed when this process is.
    pub ends_with_us: bool,
    /// Whether its environment tells the program that it is the first of a run.
    pub tells_root: bool,
}

/// A started program.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// Its process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time_ticks: u64,
}

/// Why the program was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No process could be made.
    #[error("cannot start a process: {0}")]
    Fork(io::Error),
    /// The kernel refused to execute the file.
    #[error("{0}")]
    Execute(io::Error),
}

impl SpawnError {
    /// `execve` failed although the file looked right: it changed meanwhile, or a limit was met.
    pub fn refusal(self, path: &Path) -> Refusal {
        let shown = path.display();
        match self {
            SpawnError::Fork(_) => Refusal::new(format!("{shown}: {self}")),
            SpawnError::Execute(cause) => match cause.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => Refusal::not_found(format!(
                    "{shown}: it, or the interpreter it names, does not exist"
                )),
                _ => Refusal::not_executable(format!("{shown}: cannot be executed: {cause}")),
            },
        }
    }
}

/// Starts the program; returns once it has been executed, or has failed to be. `forked`: what is done here before the
/// program runs.
pub fn start(
    launch: &Launch,
    signals: &Signals,
    forked: impl FnOnce(),
) -> Result<Child, SpawnError> {
    let terminated = |strings: &[&CString], extra: &[RootPid]| {
        let pointers = strings.iter().map(|string| string.as_ptr());
        let extra = extra.iter().map(RootPid::as_ptr);
        pointers
            .chain(extra)
            .chain([ptr::null()])
            .collect::<Vec<*const libc::c_char>>()
    };
    let own_pid = std::process::id();
    let (kept, handed) = handed_over::split(&launch.environment, own_pid);
    let mut pids: Vec<RootPid> = launch.tells_root.then(RootPid::new).into_iter().collect();
    pids.extend(handed.into_iter().map(RootPid::named));
    let arguments: Vec<_> = launch.arguments.iter().collect();
    let arguments = terminated(&arguments, &[]);
    let environment = terminated(&kept, &pids);
    let (mut reader, writer) = pipe().map_err(SpawnError::Fork)?;
    let (go, hold) = pipe().map_err(SpawnError::Fork)?;

    // SAFETY: this process has one thread, so the child may do what its parent could; it ends in
    // `execve` or `_exit` and never returns into the caller.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: we are the child; the pointers are to terminated strings in lists ended by
        // null, all of which live in this copy of the parent's memory.
        unsafe {
            execute(
                launch,
                &mut pids,
                own_pid,
                &arguments,
                &environment,
                signals,
                [&writer, &go, &hold].map(AsRawFd::as_raw_fd),
            )
        }
    }
    let pid = u32::try_from(pid).map_err(|_| SpawnError::Fork(io::Error::last_os_error()))?;
    drop(writer);
    forked();
    drop(hold);
    // The child is not waited for before its identity is read, so the id cannot be recycled.
    let mut errno = [0u8; 4];
    let failed = reader.read_exact(&mut errno).is_ok();
    if failed {
        // SAFETY: our own child, which is ending; no status is asked for.
        unsafe { libc::waitpid(pid.cast_signed(), ptr::null_mut(), 0) };
        return Err(SpawnError::Execute(io::Error::from_raw_os_error(
            i32::from_ne_bytes(errno),
        )));
    }
    let identity = Identity::of(pid);
    Ok(Child {
        pid,
        start_time_ticks: identity.map_or(0, |identity| identity.start_time_ticks),
    })
}

/// The child's part. `report`: where an error goes; `go`: a pipe that ends when the program may run, and its other end.
///
/// # Safety
///
/// To be called in a forked child only, with lists of terminated strings that end in null.
unsafe fn execute(
    launch: &Launch,
    pids: &mut [RootPid],
    parent: u32,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    signals: &Signals,
    [report, go, hold]: [RawFd; 3],
) -> ! {
    // SAFETY: async-signal-safe calls with valid arguments, as the caller promises.
    unsafe {
        for pid in pids {
            pid.write(libc::getpid().cast_unsigned());
        }
        if launch.ends_with_us {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // It may have died before.
            if libc::getppid().cast_unsigned() != parent {
                libc::_exit(i32::from(crate::refusal::EXIT_NOT_FOUND));
            }
        }
        if let Some(device) = launch.device {
            libc::fcntl(device, libc::F_SETFD, 0);
        }
        if let Some(file) = launch.write_back {
            libc::fcntl(file, libc::F_SETFD, 0);
        }
        signals.restore();
        libc::close(hold);
        libc::read(go, [0u8; 1].as_mut_ptr().cast(), 1);
        libc::execve(
            launch.path.as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
        );
        let errno = (*libc::__errno_location()).to_ne_bytes();
        libc::write(report, errno.as_ptr().cast(), errno.len());
        libc::_exit(i32::from(crate::refusal::EXIT_NOT_FOUND))
    }
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made both descriptors for us.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}
