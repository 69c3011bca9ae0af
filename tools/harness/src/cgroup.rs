//! A memory cgroup (version 1) of our own, with a limit.
//!
//! Made below the root of the hierarchy or below our own group, named after our process, removed when
//! dropped. Swap space counts neither into the limit nor does it have one that matters: the
//! pool that zram keeps is not charged to the group, so it is measured and added by hand.

use crate::cleanup::{self, Guard};
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cgroup that limits memory.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    _guard: Guard,
}

/// Where the memory controller of cgroup v1 is mounted.
pub fn hierarchy() -> Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts")?;
    mounts
        .lines()
        .find_map(mounted_memory_controller)
        .map(PathBuf::from)
        .context("the memory controller of cgroup v1 is not mounted")
}

fn mounted_memory_controller(line: &str) -> Option<&str> {
    let mut fields = line.split(' ');
    let (_, path, kind, options) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    (kind == "cgroup" && options.split(',').any(|option| option == "memory")).then_some(path)
}

/// The group of memory that this process is in, where the hierarchy is mounted as usual.
pub fn own() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups
        .lines()
        .find_map(|line| Some(line.split_once(":memory:")?.1));
    Some(Path::new("/sys/fs/cgroup/memory").join(path?.trim_start_matches('/')))
}

impl Group {
    /// A group limited to `limit` bytes of memory and `swap` bytes of swap on top.
    pub fn limited(limit: u64, swap: u64) -> Result<Group> {
        let group = Group::make(&hierarchy()?, &format!("bench-{}", std::process::id()))?;
        group.limit(limit)?;
        // Only there where the kernel accounts for swap; it must not be below the limit.
        if group.path.join("memory.memsw.limit_in_bytes").exists() {
            group.write("memory.memsw.limit_in_bytes", limit + swap)?;
        }
        Ok(group)
    }

    /// The group `coldpress-NAME` below another, without a limit of its own.
    pub fn make(parent: &Path, name: &str) -> Result<Group> {
        let path = parent.join(format!("coldpress-{name}"));
        let (path, guard) = cleanup::acquire(
            format!("cgroup {}", path.display()),
            || {
                std::fs::create_dir(&path)
                    .with_context(|| format!("cannot create {}", path.display()))?;
                Ok(path.clone())
            },
            |path| remove(&path),
        )?;
        Ok(Group {
            path,
            _guard: guard,
        })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Limits its memory.
    pub fn limit(&self, bytes: u64) -> Result<()> {
        self.write("memory.limit_in_bytes", bytes)
    }

    /// A number out of one of its files.
    pub fn read(&self, file: &str) -> Result<u64> {
        let path = self.path.join(file);
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let number = text.trim().parse();
        number.with_context(|| format!("{} holds {text:?}", path.display()))
    }

    /// A command to put in front of another one, so that it runs in the group.
    pub fn enter(&self) -> [String; 4] {
        let procs = self.path.join("cgroup.procs");
        let script = format!("echo $$ > '{}' && exec \"$@\"", procs.display());
        ["sh", "-c", &script, "sh"].map(String::from)
    }

    /// Moves process `pid` into the group.
    pub fn admit(&self, pid: u32) -> Result<()> {
        self.write("cgroup.procs", u64::from(pid))
    }

    /// Something that tells how much of the group's memory is pages that are in swap as well, and
    /// mapped nowhere, for another thread.
    pub fn swap_cached(&self) -> impl Fn() -> u64 + Send + 'static {
        let path = self.path.join("memory.stat");
        move || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("swapcached "));
            line.and_then(|number| number.trim().parse().ok())
                .unwrap_or(0)
        }
    }

    /// A file by which a process that writes 0 to it joins the group.
    pub fn joining(&self) -> Result<File> {
        let path = self.path.join("cgroup.procs");
        let file = File::options().write(true).open(&path);
        file.with_context(|| format!("cannot open {}", path.display()))
    }

    fn write(&self, file: &str, value: u64) -> Result<()> {
        let path = self.path.join(file);
        std::fs::write(&path, value.to_string())
            .with_context(|| format!("cannot write {value} to {}", path.display()))
    }
}

/// The kernel refuses to remove a group while its last process is still on its way out.
fn remove(path: &Path) -> Result<()> {
    let mut tries = 0;
    loop {
        match std::fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if tries == 200 => {
                return Err(error)
                    .with_context(|| format!("remove it with: rmdir {}", path.display()));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_controller_is_told_from_others() {
        let v1 = "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0";
        assert_eq!(mounted_memory_controller(v1), Some("/sys/fs/cgroup/memory"));
        for other in [
            "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0",
            "cgroup2 /sys/fs/cgroup cgroup2 rw,memory_recursiveprot 0 0",
            "",
        ] {
            assert_eq!(mounted_memory_controller(other), None);
        }
    }
}
