//! Whether a program can be started under the pager here: the checks of `run` that are not about the program.
//!
//! `run` makes them before it starts anything; `doctor` makes the same ones and tells all that fail.

use crate::in_force;
use crate::missing_tier;
use crate::preload_library;
use crate::refusal::Refusal;
use crate::statistics_dir;
use crate::tier::{self, Access, Assessment, Tier};
use crate::trial;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// Descriptors that are open at a time until the program runs, and some more for its start.
const DESCRIPTORS: usize = 10;

/// What a program is started with.
#[derive(Debug)]
pub struct Ready {
    /// Descriptor of `/dev/userfaultfd` that it must inherit.
    pub device: Option<RawFd>,
    /// The pager's library, which can be loaded.
    pub library: PathBuf,
    /// Where statistics files go.
    pub statistics_dir: PathBuf,
}

/// All that is needed, or the first refusal.
pub fn check() -> Result<Ready, Refusal> {
    surroundings()?;
    let device = machine(&Assessment::take())?;
    Ok(Ready {
        device,
        library: library()?,
        statistics_dir: statistics_dir::prepare()?,
    })
}

/// Every refusal that a run would meet on this machine, if it gets as far.
pub fn refusals(assessment: &Assessment) -> Vec<Refusal> {
    let all = [
        surroundings().err(),
        machine(assessment).err(),
        library().err(),
        statistics_dir::prepare().err(),
    ];
    let of_settings = in_force::surroundings();
    all.into_iter().flatten().chain(of_settings).collect()
}

/// What every process has, but for one in a bare `chroot` or under a very low limit. Without it all that follows fails,
/// and says something else.
fn surroundings() -> Result<(), Refusal> {
    if let Err(error) = fs::metadata("/proc/self/exe") {
        return Err(Refusal::new(format!(
            "/proc shows nothing of this process ({error}), and the pager finds a program's memory there"
        ))
        .mend("Mount it: mount -t proc proc /proc"));
    }
    let null = || OpenOptions::new().read(true).write(true).open("/dev/null");
    let opened: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| null()).collect();
    match opened {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => Err(Refusal::new(format!(
            "fewer than {DESCRIPTORS} files can be opened here"
        ))
        .mend("Raise the limit, and close files that are handed down: ulimit -n 1024")),
        Err(error) => Err(Refusal::new(format!("/dev/null cannot be opened: {error}"))
            .mend("Make it: mknod -m 666 /dev/null c 1 3")),
    }
}

/// The full tier, or a refusal. Returns the device descriptor that the program must inherit.
fn machine(assessment: &Assessment) -> Result<Option<RawFd>, Refusal> {
    match assessment.access {
        Some(Access::SystemCall) if assessment.tier == Tier::Full => Ok(tier::handed_down()),
        Some(Access::Device { descriptor, .. }) if assessment.tier == Tier::Full => {
            Ok(Some(descriptor))
        }
        _ => Err(missing_tier::refuse(assessment)),
    }
}

/// The library, found and loaded once.
fn library() -> Result<PathBuf, Refusal> {
    let library = preload_library::find()?;
    trial::load(&library)?;
    Ok(library)
}
