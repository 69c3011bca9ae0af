//! What a test takes of the machine and gives back at its end: huge pages, a memory group.

use crate::skip;
use coldpress_harness::cgroup::{self, Group};
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Two reserved huge pages, given back when dropped. Tests that run at the same time have two each.
#[derive(Debug)]
pub struct HugePages(());

impl HugePages {
    /// Asks for two huge pages more than there are. The kernel may have none to give: the
    /// program that wants them says so.
    pub fn reserve() -> Self {
        change_huge_pages(|pages| pages + 2);
        Self(())
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        change_huge_pages(|pages| pages.saturating_sub(2));
    }
}

/// Changes how many there are; nobody else does meanwhile. Only root may, others change nothing.
fn change_huge_pages(change: impl FnOnce(u64) -> u64) {
    let Ok(file) = fs::File::open(HUGE_PAGES) else {
        return;
    };
    let _locked = file.lock();
    let before = fs::read_to_string(HUGE_PAGES).unwrap_or_default();
    if let Ok(before) = before.trim().parse() {
        let _ = fs::write(HUGE_PAGES, change(before).to_string());
    }
}

const OVERCOMMIT: [&str; 2] = [
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/overcommit_ratio",
];

/// The kernel promises no more memory than there is (`vm.overcommit_memory=2`), until this is dropped.
#[derive(Debug)]
pub struct StrictAccounting {
    before: [String; 2],
}

impl StrictAccounting {
    /// Begins it; `None` (said loudly) where only root may, or where others have been promised so much that they were
    /// harmed. All of the machine's memory may be promised.
    pub fn begin() -> Option<Self> {
        if !skip::root_or_skip() {
            return None;
        }
        let (promised, memory) = (meminfo_kib("Committed_AS"), meminfo_kib("MemTotal"));
        if promised > memory / 2 {
            let [promised, memory] = [promised, memory].map(|kib| kib >> 10);
            skip::skipped(&format!(
                "{promised} MiB are promised to programs, of {memory} MiB: vm.overcommit_memory=2 would harm them"
            ));
            return None;
        }
        let before = OVERCOMMIT.map(|file| fs::read_to_string(file).expect("a setting"));
        let strict = Self { before };
        let set = fs::write(OVERCOMMIT[1], "95").and_then(|()| fs::write(OVERCOMMIT[0], "2"));
        match set {
            Ok(()) => Some(strict),
            Err(e) => {
                skip::skipped(&format!("vm.overcommit_memory: {e}"));
                None
            }
        }
    }
}

/// A line of /proc/meminfo; 0 where there is none of that name.
fn meminfo_kib(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let figure = lines.find(|&(key, _)| key == name);
    let kib = figure.and_then(|(_, figure)| figure.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(0)
}

impl Drop for StrictAccounting {
    fn drop(&mut self) {
        for (file, value) in OVERCOMMIT.iter().zip(&self.before) {
            if let Err(e) = fs::write(file, value) {
                eprintln!("{file} could not be set back to {value}: {e}");
            }
        }
    }
}

/// A memory group of cgroup v1 below the test's own, removed when dropped.
#[derive(Debug)]
pub struct MemoryGroup(Group);

impl MemoryGroup {
    /// A group limited to `limit_bytes`, or `None` where that cannot be had (said loudly).
    ///
    /// # Panics
    /// When the group can be made but not limited.
    pub fn new(limit_bytes: u64) -> Option<Self> {
        let group = Self::unlimited()?;
        group.limit(limit_bytes);
        Some(group)
    }

    /// A group without a limit of its own, or `None` where that cannot be had (said loudly).
    pub fn unlimited() -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let Some(own) = cgroup::own() else {
            skip::skipped("no memory groups of cgroup v1");
            return None;
        };
        let (process, made) = (std::process::id(), MADE.fetch_add(1, Relaxed));
        match Group::make(&own, &format!("promises-{process}-{made}")) {
            Ok(group) => Some(Self(group)),
            Err(error) => {
                skip::skipped(&format!("{error:#}"));
                None
            }
        }
    }

    /// A group in this one, with a limit of its own.
    ///
    /// # Panics
    /// When it cannot be made or limited.
    pub fn inner(&self, name: &str, limit_bytes: u64) -> Self {
        let group = Group::make(self.0.path(), name).expect("a group in the group");
        group.limit(limit_bytes).expect("limit of the group");
        Self(group)
    }

    /// Limits it, from now on.
    ///
    /// # Panics
    /// When it cannot be limited so.
    pub fn limit(&self, bytes: u64) {
        self.0.limit(bytes).expect("limit of the group");
    }

    /// A command to put in front of another one, so that it runs in the group.
    pub fn enter(&self) -> [String; 4] {
        self.0.enter()
    }

    /// A number out of one of the group's files.
    ///
    /// # Panics
    /// When there is none.
    pub fn read(&self, name: &str) -> u64 {
        self.0.read(name).expect("file of the group")
    }

    /// Processes in it that the kernel has killed since it was full.
    ///
    /// # Panics
    /// When the kernel does not tell.
    pub fn killed(&self) -> u64 {
        let file = self.0.path().join("memory.oom_control");
        let text = fs::read_to_string(&file).expect("what the group has come to");
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count
            .and_then(|n| n.parse().ok())
            .expect("a count of kills")
    }
}
