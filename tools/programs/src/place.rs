//! Where programs run, and how they are started: natively, under coldpress, or in a memory cgroup.

use anyhow::{Context, Result};
use coldpress_harness::cgroup::Group;
use coldpress_harness::managed::{NO_BUDGET, Wrapper};
use coldpress_harness::{cleanup, workspace};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The user and group that may do nothing special.
pub const NOBODY: u32 = 65534;

/// A directory for the files of all runs, and what is the same for all of them.
pub struct Place {
    /// The directory.
    pub dir: PathBuf,
    /// The `coldpress` command.
    pub coldpress: PathBuf,
    /// Size of all data, in percent of the usual one.
    pub scale_percent: u64,
    /// Longest time that a run may take; one that takes longer hangs.
    pub limit: Duration,
    _guard: cleanup::Guard,
}

impl Place {
    /// A directory with a copy of the command, which ordinary users may read too.
    pub fn new(name: &str, scale_percent: u64, limit: Duration) -> Result<Place> {
        let built = workspace::build_release()?;
        let (dir, guard) = workspace::temporary_dir(name)?;
        let copy = |name: &str| -> Result<PathBuf> {
            let from = built.with_file_name(name);
            let to = dir.join(name);
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            Ok(to)
        };
        copy("libcoldpress_preload.so")?;
        Ok(Place {
            coldpress: copy("coldpress")?,
            dir,
            scale_percent,
            limit,
            _guard: guard,
        })
    }

    /// A number of things, scaled.
    pub fn scaled(&self, number: u64) -> u64 {
        (number * self.scale_percent / 100).max(1)
    }

    /// Where the data that programs work on is.
    pub fn data(name: &str) -> PathBuf {
        workspace::root().join("tools/programs/data").join(name)
    }

    /// A directory in the place. It is kept between runs.
    pub fn subdirectory(&self, name: &str, owner: Owner) -> Result<PathBuf> {
        let path = self.dir.join(name);
        std::fs::create_dir_all(&path)?;
        if owner == Owner::Nobody {
            chown(&path, Some(NOBODY), Some(NOBODY))
                .with_context(|| format!("cannot give {} to nobody", path.display()))?;
        }
        Ok(path)
    }
}

/// To whom a directory belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This user.
    Us,
    /// Nobody: some programs refuse to run as root.
    Nobody,
}

/// How a run is started.
pub struct Start<'a> {
    /// Where.
    pub place: &'a Place,
    /// Natively or under coldpress.
    pub wrapper: Wrapper,
    /// In this cgroup.
    pub group: Option<&'a Group>,
    /// Random pages are evicted all the time (only under coldpress).
    pub chaos: bool,
}

impl<'a> Start<'a> {
    /// As it is.
    pub fn native(place: &'a Place) -> Start<'a> {
        Start {
            place,
            wrapper: Wrapper::Native,
            group: None,
            chaos: false,
        }
    }

    /// Under coldpress, with a budget.
    pub fn managed(place: &'a Place, budget_bytes: u64) -> Start<'a> {
        Start {
            wrapper: Wrapper::Managed {
                binary: place.coldpress.clone(),
                budget_bytes,
                statistics: place.dir.join("statistics.json"),
            },
            ..Start::native(place)
        }
    }

    /// Under coldpress, without a budget: age drives.
    pub fn by_default(place: &'a Place) -> Start<'a> {
        Start::managed(place, NO_BUDGET)
    }

    /// Whether coldpress is there.
    pub fn is_managed(&self) -> bool {
        matches!(self.wrapper, Wrapper::Managed { .. })
    }

    /// A command that starts `program` so; arguments can be added to it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = self.wrapper.command(program);
        if self.chaos && self.is_managed() {
            command.env("COLDPRESS_CHAOS", "1");
        }
        if let Some(group) = self.group {
            let file = group.joining()?;
            // SAFETY: between fork and exec this only writes to an open descriptor.
            unsafe {
                command.pre_exec(move || io::Write::write_all(&mut &file, b"0"));
            }
        }
        Ok(command)
    }

    /// The same for nobody, who inherits an open `/dev/userfaultfd` if coldpress is to use it.
    /// `statistics` replaces the file that the statistics go to, which root owns.
    pub fn command_of_nobody(
        &self,
        program: impl AsRef<OsStr>,
        statistics: &Path,
    ) -> Result<Command> {
        let mut start = Start {
            place: self.place,
            wrapper: self.wrapper.clone(),
            group: self.group,
            chaos: self.chaos,
        };
        if let Wrapper::Managed { statistics: s, .. } = &mut start.wrapper {
            *s = statistics.to_path_buf();
        }
        let mut command = start.command(program)?;
        command.uid(NOBODY).gid(NOBODY);
        command.env_remove("XDG_RUNTIME_DIR").env("HOME", "/");
        if self.is_managed() {
            let device = File::options()
                .read(true)
                .write(true)
                .open("/dev/userfaultfd")
                .context("cannot open /dev/userfaultfd")?;
            // SAFETY: between fork and exec this makes one system call on an open descriptor.
            unsafe {
                command.pre_exec(
                    move || match libc::fcntl(device.as_raw_fd(), libc::F_SETFD, 0) {
                        0 => Ok(()),
                        _ => Err(io::Error::last_os_error()),
                    },
                );
            }
        }
        Ok(command)
    }
}
