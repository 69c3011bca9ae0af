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
use std::os::fd::RawFd;
use std::path::PathBuf;

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
        machine(assessment).err(),
        library().err(),
        statistics_dir::prepare().err(),
        in_force::surroundings().err(),
    ];
    all.into_iter().flatten().collect()
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
