//! The memory group that limits a measurement.
//!
//! With version 1 of cgroups it is made below the caller's own group. With version 2 a group that has
//! processes cannot have groups with controllers, so it is made below the root of what is mounted.

use super::removal;
use crate::memory_limit;
use crate::refusal::Refusal;
use crate::streams::say;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names of the files of a version.
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// What the kernel did for want of memory; has a line `oom_kill N`.
    events: &'static str,
    /// Has what of the group is in swap: a line `swap N`, or the number alone.
    swap: &'static str,
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    events: "memory.oom_control",
    swap: "memory.stat",
};
const VERSION_2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    events: "memory.events",
    swap: "memory.swap.current",
};

/// Where groups can be made.
pub struct Place {
    parent: PathBuf,
    files: &'static Files,
}

impl Place {
    /// Finds the hierarchy that limits memory.
    pub fn find() -> Result<Place, Refusal> {
        let Some((parent, unified)) = memory_limit::group_directory() else {
            return Err(Refusal::new(
                "cannot limit memory for the benchmark: no memory controller of cgroups is mounted",
            )
            .mend("sudo mkdir -p /sys/fs/cgroup/memory && sudo mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory"));
        };
        let files = if unified { &VERSION_2 } else { &VERSION_1 };
        let panics = fs::read_to_string("/proc/sys/vm/panic_on_oom");
        if panics.is_ok_and(|text| text.trim() == "2") {
            return Err(Refusal::new(
                "vm.panic_on_oom is 2: the machine would stop where the kind anonymous finds no memory",
            )
            .mend("sudo sysctl -w vm.panic_on_oom=0"));
        }
        Ok(Place { parent, files })
    }

    /// A group limited to `limit_bytes`.
    pub fn make(&self, limit_bytes: u64, number: usize) -> Result<Group, Refusal> {
        let name = format!("coldpress-bench-cache-{}-{number}", std::process::id());
        let directory = self.parent.join(name);
        let refuse = |path: &Path, error: &io::Error| self.refuse(path, error);
        // Before it is there, so that no signal finds it unknown.
        removal::group_is_ours(&directory);
        if let Err(error) = fs::create_dir(&directory) {
            removal::forget_group();
            return Err(refuse(&directory, &error));
        }
        let group = Group {
            directory,
            files: self.files,
        };
        if !group.path(self.files.limit).exists() && self.files.limit == VERSION_2.limit {
            // The controller is not switched on for the groups of this parent.
            let control = self.parent.join("cgroup.subtree_control");
            fs::write(&control, "+memory").map_err(|error| refuse(&control, &error))?;
        }
        let limit = group.path(self.files.limit);
        // Not `fs::write`, which would create a file where the kernel has none.
        let written = fs::OpenOptions::new()
            .write(true)
            .open(&limit)
            .and_then(|mut file| {
                io::Write::write_all(&mut file, limit_bytes.to_string().as_bytes())
            });
        written.map_err(|error| refuse(&limit, &error))?;
        Ok(group)
    }

    fn refuse(&self, path: &Path, error: &io::Error) -> Refusal {
        let refusal = Refusal::new(format!(
            "cannot limit memory for the benchmark: {}: {error}",
            path.display()
        ));
        // SAFETY: the call takes nothing and cannot fail.
        match (unsafe { libc::geteuid() }, error.raw_os_error()) {
            (0, Some(libc::EROFS)) => {
                refusal.mend("sudo mount -o remount,rw /sys/fs/cgroup; of a container: docker run --privileged …")
            }
            (0, _) => refusal.mend("Run it outside of the container, or as: docker run --privileged --cgroupns=host …"),
            _ => refusal.mend("sudo coldpress bench cache …"),
        }
    }
}

/// A memory group, removed when dropped (B3).
pub struct Group {
    directory: PathBuf,
    files: &'static Files,
}

impl Group {
    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether the kernel has killed a process of it for want of memory.
    pub fn has_killed(&self) -> bool {
        let text = fs::read_to_string(self.path(self.files.events)).unwrap_or_default();
        value(&text, "oom_kill") > 0
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        removal::remove_group();
        if self.directory.exists() {
            say!(
                "a memory group is left; remove it with: sudo rmdir {}",
                self.directory.display()
            );
        }
    }
}

/// The group that this process has entered.
pub struct Entered {
    directory: PathBuf,
    files: &'static Files,
}

impl Entered {
    /// Moves this process into the group `directory`. What is charged elsewhere stays so.
    pub fn enter(directory: &Path) -> Result<Entered, Refusal> {
        let processes = directory.join("cgroup.procs");
        fs::write(&processes, std::process::id().to_string()).map_err(|error| {
            Refusal::new(format!("cannot enter {}: {error}", directory.display()))
        })?;
        let unified = directory.join(VERSION_2.limit).exists();
        Ok(Entered {
            directory: directory.to_owned(),
            files: if unified { &VERSION_2 } else { &VERSION_1 },
        })
    }

    /// Bytes charged to the group.
    pub fn usage(&self) -> u64 {
        value(&self.read(self.files.usage), "")
    }

    /// Bytes of the group that are in swap.
    pub fn swap(&self) -> u64 {
        let text = self.read(self.files.swap);
        value(&text, "swap").max(value(&text, ""))
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.directory.join(file)).unwrap_or_default()
    }
}

/// The number on the line of `key`; of a text that is a number alone with an empty key. 0 if there is none.
fn value(text: &str, key: &str) -> u64 {
    let numbers = text.lines().filter_map(|line| match key {
        "" => line.trim().parse::<u64>().ok(),
        _ => line
            .strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok(),
    });
    numbers.take(1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_both_versions_are_read() {
        assert_eq!(value("4096\n", ""), 4096);
        assert_eq!(
            value("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill"),
            3
        );
        assert_eq!(
            value("low 0\noom 2\noom_kill 1\noom_group_kill 0\n", "oom_kill"),
            1
        );
        assert_eq!(value("cache 1\nswap 8192\nswapcached 7\n", "swap"), 8192);
        assert_eq!(value("cache 1\n", ""), 0);
        assert_eq!(value("", "swap"), 0);
    }

    #[test]
    fn where_no_group_can_be_made_the_refusal_says_what_mends_it() {
        let place = Place {
            parent: "/proc/nowhere".into(),
            files: &VERSION_1,
        };
        let refusal = place.make(1 << 20, 0).err().unwrap();
        assert_eq!(refusal.code(), 125);
        let text = refusal.to_string();
        assert!(
            text.contains("/proc/nowhere") && text.contains("\n  "),
            "{text}"
        );
    }
}
