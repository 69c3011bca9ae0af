//! An ext4 file system on a disk, mounted.
//!
//! ```text
//!   zram    ext4 ── /dev/zramN
//!   others  ext4 ── /dev/loopN ── file of nbdfuse ── NBD ── server
//! ```
//!
//! The kernel's own NBD client would be shorter, where there is one (`nbd-client`); the way by nbdfuse needs FUSE and
//! loop devices alone. It is the same for all servers, a plain file among them, and longer than zram's: requests go
//! through two processes more. The loop device passes the page cache by where it can (`--direct-io`), so that what is
//! read comes from the server.

use super::files::{EXT4, run};
use super::holder::{Base, Holder};
use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::cleanup::{self, Guard};
use coldpress_harness::install::find_program;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a mount may take to appear, or to be given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file system, unmounted when dropped.
pub struct Mounted {
    /// Where it is.
    pub dir: PathBuf,
    // Fields are dropped in this order: the file system first, what it stands on last.
    _mount: Guard,
    _device: Device,
}

/// A block device.
struct Device {
    path: PathBuf,
    // In this order, too.
    _loop: Option<Guard>,
    _fuse: Option<(Guard, Running)>,
}

impl Device {
    fn of(holder: &Holder, dir: &Path, name: &str) -> Result<Device> {
        match &holder.base {
            Base::Zram(device) => Ok(Device {
                path: device.node(),
                _loop: None,
                _fuse: None,
            }),
            Base::Server(server) => {
                let fuse = export_as_file(&server.uri(), &dir.join(format!("{name}.fuse")))?;
                let (path, guard) = loop_device(&fuse.0)?;
                Ok(Device {
                    path,
                    _loop: Some(guard),
                    _fuse: Some((fuse.1, fuse.2)),
                })
            }
        }
    }
}

impl Mounted {
    /// Makes a file system on a disk, and mounts it below `dir`.
    pub fn make(holder: &Holder, dir: &Path) -> Result<Mounted> {
        let name = holder.kind.file_name();
        let device = Device::of(holder, dir, &name)?;
        run("mkfs.ext4", &|command| {
            let now = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
            command.args(EXT4).args(["-F", "-E", now]);
            command.arg(&device.path);
        })?;
        let place = dir.join(format!("{name}.mount"));
        fs::create_dir(&place)?;
        let (_, mount) = cleanup::acquire(
            format!("mount of {}", place.display()),
            || {
                run("mount", &|command| {
                    command.args(["-t", "ext4"]).arg(&device.path).arg(&place);
                })?;
                Ok(place.clone())
            },
            |place| unmount(&place),
        )?;
        Ok(Mounted {
            dir: place,
            _mount: mount,
            _device: device,
        })
    }
}

/// Has nbdfuse show an export as a file.
fn export_as_file(uri: &str, dir: &Path) -> Result<(PathBuf, Guard, Running)> {
    fs::create_dir(dir)?;
    let file = dir.join("disk");
    let program = find_program("nbdfuse").context("no nbdfuse here")?;
    let mut command = Command::new(program);
    command.arg(&file).arg(uri).stdin(Stdio::null());
    let running = Running::start(&mut command, "nbdfuse")?;
    let since = Instant::now();
    while !file.exists() {
        if running.ended()?.is_some() || since.elapsed() > PATIENCE {
            bail!("nbdfuse shows no file: is there FUSE here (/dev/fuse)?");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (_, guard) = cleanup::acquire(
        format!("nbdfuse at {}", dir.display()),
        || Ok(dir.to_owned()),
        |dir| unmount(&dir),
    )?;
    Ok((file, guard, running))
}

/// A loop device over a file.
fn loop_device(file: &Path) -> Result<(PathBuf, Guard)> {
    cleanup::acquire(
        format!("loop device of {}", file.display()),
        || {
            let device = run("losetup", &|command| {
                command
                    .args(["--find", "--show", "--direct-io=on"])
                    .arg(file);
            })?;
            Ok(PathBuf::from(device))
        },
        |device| {
            run("losetup", &|command| {
                command.arg("--detach").arg(&device);
            })
            .map(drop)
        },
    )
}

/// What has just been used may be busy for a moment.
fn unmount(dir: &Path) -> Result<()> {
    let since = Instant::now();
    loop {
        let unmounted = run("umount", &|command| {
            command.arg(dir);
        });
        match unmounted {
            Ok(_) => return Ok(()),
            Err(error) if since.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}
