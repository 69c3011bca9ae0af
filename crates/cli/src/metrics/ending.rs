//! The signals that end a command which serves: taken one by one, so that nothing is cut off in the middle.
//!
//! SIGTERM, SIGINT and SIGHUP are blocked and read from a descriptor. Those that the caller ignores stay ignored.

use crate::disposition::disposition;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The descriptor that becomes readable when the command is to end. It is never read: once is for ever.
#[derive(Debug)]
pub struct Ending(OwnedFd);

impl Ending {
    /// From now on the signals end nothing by themselves. To be called before there is another thread.
    pub fn take() -> io::Result<Self> {
        let taken = ENDING
            .into_iter()
            .filter(|signal| disposition(*signal) != libc::SIG_IGN);
        // SAFETY: a valid set of this thread's; the descriptor is new, and nobody else's.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in taken {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                number => Ok(Self(OwnedFd::from_raw_fd(number))),
            }
        }
    }

    /// For `poll`.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Waits; true: the command is to end.
    pub fn wait(&self, time: Duration) -> bool {
        let mut one = [libc::pollfd {
            fd: self.descriptor(),
            events: libc::POLLIN,
            revents: 0,
        }];
        poll(&mut one, Some(time));
        one[0].revents != 0
    }
}

/// Waits for one of them; an interrupted wait finds nothing.
pub fn poll(descriptors: &mut [libc::pollfd], time: Option<Duration>) {
    let milliseconds = time.map_or(-1, |time| {
        let rounded_up = time.as_nanos().div_ceil(1_000_000);
        libc::c_int::try_from(rounded_up).unwrap_or(libc::c_int::MAX)
    });
    let count = descriptors.len() as libc::nfds_t;
    // SAFETY: so many valid entries.
    let ready = unsafe { libc::poll(descriptors.as_mut_ptr(), count, milliseconds) };
    if ready < 0 {
        descriptors.iter_mut().for_each(|one| one.revents = 0);
    }
}
