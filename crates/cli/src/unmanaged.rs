//! Programs of a run that go without a pager and hold much, and why: by looking at the tree of processes now and
//! then.
//!
//! What lives for less than a quarter of a second may be missed, and what has no library in its environment
//! for less than one. A process that has left the tree (its parent is gone) is not seen any more; if it was seen
//! before, it was judged then. Looking takes a hundredth of the time at most.

use crate::elf::{self, Elf};
use crate::privilege::{self, Secure};
use crate::process::{self, Identity};
use crate::program::GLIBC_LOADER;
use crate::size::format_bytes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Looks at a process that holds much and has no pager, before it is said to have none for no reason that can
/// be seen in its file.
const PATIENCE: u32 = 4;
/// What holds so much is named, or so great a share of the budget.
const MUCH_BYTES: u64 = 16 << 20;
const BUDGET_SHARE: u64 = 4;
/// Programs that are named on one line.
const MOST_NAMED: usize = 8;
/// Looking is paused for so many times as long as it took.
const PAUSE: u32 = 100;

/// The programs without a pager.
#[derive(Debug)]
pub struct Unmanaged {
    root: u32,
    library: PathBuf,
    /// Whether children are managed.
    follow: bool,
    much_bytes: u64,
    not_before: Instant,
    /// The processes at the last look, by what they run.
    seen: HashMap<(u32, u64, PathBuf), Seen>,
    /// By program and reason.
    found: BTreeMap<(String, String), Found>,
}

/// Processes of one program, and the most that one of them held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    processes: u64,
    bytes: u64,
}

/// The pager of a process, as it was last heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pager {
    /// It has not said that it leaves.
    Stays,
    /// It has left on purpose, and said why.
    HasLeft,
}

/// How often a process was seen to hold much, and why it has no pager, once that is known.
#[derive(Clone, Debug, Default)]
struct Seen {
    times: u32,
    why: Option<String>,
}

impl Unmanaged {
    /// None yet, of those that come from process `root`.
    pub fn new(root: u32, library: &Path, follow: bool, budget_bytes: u64) -> Self {
        Self {
            root,
            library: library.to_owned(),
            follow,
            much_bytes: MUCH_BYTES.min(budget_bytes / BUDGET_SHARE),
            not_before: Instant::now(),
            seen: HashMap::new(),
            found: BTreeMap::new(),
        }
    }

    /// Looks at all processes that come from the first one, and are not `managed`. The pagers of some have `spoken`.
    /// `managed`: those that had a pager, and whether it is to be there still.
    pub fn look(&mut self, managed: &HashMap<u32, Pager>, spoken: &HashSet<u32>) {
        let began = Instant::now();
        if began < self.not_before {
            return;
        }
        let mut seen_now = HashMap::new();
        for pid in std::iter::once(self.root).chain(descendants(self.root)) {
            let Some(bytes) = private_bytes(pid).filter(|bytes| *bytes >= self.much_bytes) else {
                continue;
            };
            // The figures of one that had a pager stay those of what it ran before it executed something else.
            let had_pager = pid == self.root || managed.contains_key(&pid);
            let has_left = managed.get(&pid) == Some(&Pager::HasLeft);
            if has_left || had_pager && has_pager(pid) != Some(false) {
                continue;
            }
            let Some(identity) = Identity::of(pid).filter(Identity::is_alive) else {
                continue;
            };
            let Ok(executable) = fs::read_link(format!("/proc/{pid}/exe")) else {
                continue;
            };
            let key = (pid, identity.start_time_ticks, executable);
            let mut seen = self.seen.get(&key).cloned().unwrap_or_default();
            seen.times = seen.times.saturating_add(1);
            if seen.why.is_none() {
                let dropped = had_pager.then(|| dropped_its_rights(pid)).flatten();
                seen.why = match seen.times {
                    _ if dropped.is_some() => dropped,
                    1 if had_pager => unfit(pid, &key.2),
                    1 => unfit(pid, &key.2).or_else(|| self.is_left_out()),
                    times if times >= PATIENCE && had_pager => self.not_in_its_environment(pid),
                    times if times >= PATIENCE => self.without_pager(pid, spoken),
                    _ => None,
                };
                if let Some(why) = &seen.why {
                    self.of(pid, why).processes += 1;
                }
            }
            if let Some(why) = &seen.why {
                let found = self.of(pid, why);
                found.bytes = found.bytes.max(bytes);
            }
            seen_now.insert(key, seen);
        }
        self.seen = seen_now;
        self.not_before = Instant::now() + (began.elapsed() * PAUSE).min(Duration::from_secs(10));
    }

    fn of(&mut self, pid: u32, why: &str) -> &mut Found {
        let program = (process::name(pid), why.to_owned());
        self.found.entry(program).or_default()
    }

    fn is_left_out(&self) -> Option<String> {
        let why = "started by another program; leave out --no-follow to have it managed";
        (!self.follow).then(|| why.to_owned())
    }

    /// Why a process has no pager whose file says nothing against it.
    fn without_pager(&self, pid: u32, spoken: &HashSet<u32>) -> Option<String> {
        let why = match self.has_library(pid)? {
            true if spoken.contains(&pid) => "its pager did not stay, and said why",
            true => "the pager could not start in it",
            false => return self.not_in_its_environment(pid),
        };
        Some(why.to_owned())
    }

    /// Says that the library was not loaded into what a process runs, where it was not.
    fn not_in_its_environment(&self, pid: u32) -> Option<String> {
        let why = "its environment does not name the pager's library";
        (!self.has_library(pid)?).then(|| why.to_owned())
    }

    fn has_library(&self, pid: u32) -> Option<bool> {
        let maps = process::read(format!("/proc/{pid}/maps")).ok()?;
        let library = self.library.to_str()?;
        Some(maps.lines().any(|line| line.ends_with(library)))
    }

    /// The programs with their reasons; `None` where there are none.
    pub fn line(&self) -> Option<String> {
        let named = self.found.iter().take(MOST_NAMED).map(|(program, found)| {
            let (name, why) = program;
            let held = format_bytes(found.bytes);
            match found.processes {
                1 => format!("{name}, {held} ({why})"),
                processes => format!("{processes} × {name}, up to {held} ({why})"),
            }
        });
        let mut list: Vec<String> = named.collect();
        match self.found.len().checked_sub(MOST_NAMED) {
            None | Some(0) => {}
            Some(more) => list.push(format!("{more} more")),
        }
        (!list.is_empty()).then(|| list.join("; "))
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let found = self.found.iter().map(|((program, why), found)| {
            json!({
                "program": program,
                "why": why,
                "processes": found.processes,
                "peak_bytes": found.bytes,
            })
        });
        found.collect()
    }
}

/// Whether a process has threads of a pager.
pub fn has_pager(pid: u32) -> Option<bool> {
    let mut threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    Some(threads.any(|thread| {
        let name = fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name.starts_with("coldpress/"))
    }))
}

/// Why a process has no pager, although it had one: what it has executed since runs as another user (`setpriv`, `gosu`).
/// Its own messages reach nobody: the run file is ours.
fn dropped_its_rights(pid: u32) -> Option<String> {
    let status = process::read(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let user: u32 = users.split_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: the call takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    (user != own).then(|| {
        format!(
            "started as user {user}, who may not use userfaultfd; to manage it hand the device down: coldpress run … \
             9</dev/userfaultfd"
        )
    })
}

/// Why the pager cannot be loaded into what a process runs.
pub fn unfit(pid: u32, executable: &Path) -> Option<String> {
    // The file itself, even where its name is gone or means another one (a chroot).
    let file = File::open(format!("/proc/{pid}/exe")).ok()?;
    match elf::read(&file).ok()? {
        Elf::Static => return Some("statically linked".to_owned()),
        Elf::OtherMachine(machine) => return Some(machine),
        Elf::Dynamic(loader) => {
            if loader.file_name().is_none_or(|name| name != GLIBC_LOADER) {
                return Some(format!("not for glibc: its loader is {}", loader.display()));
            }
        }
    }
    match privilege::secure_mode(executable, &file.metadata().ok()?)? {
        Secure::Caller => None,
        secure => Some(secure.reason().trim_start_matches("it ").to_owned()),
    }
}

/// Private anonymous memory of a process.
pub fn private_bytes(pid: u32) -> Option<u64> {
    let status = process::read(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// All processes that come from `root`, but for those whose parent has ended.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut all = children(root);
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        all.extend(children(pid));
        next += 1;
    }
    all
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = tasks.into_iter().flatten().flatten().map(|task| {
        let list = fs::read_to_string(task.path().join("children"));
        list.unwrap_or_default()
    });
    let numbers = |list: String| -> Vec<u32> {
        list.split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    };
    lists.flat_map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Looks until a child of this test was seen `times` times; how it is named then.
    fn named(times: u32, library: &str, follow: bool) -> Vec<(String, u64)> {
        named_after(times, library, follow, |_| HashSet::new())
    }

    /// [`named`], where the pagers of these have spoken.
    fn named_after(
        times: u32,
        library: &str,
        follow: bool,
        spoken: fn(u32) -> HashSet<u32>,
    ) -> Vec<(String, u64)> {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let spoken = spoken(child.id());
        // On a busy machine its libraries come later than it is looked at so many times.
        let maps = format!("/proc/{}/maps", child.id());
        while !std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("libc.so.6")) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let own = std::process::id();
        // Whatever holds anything holds much.
        let mut unmanaged = Unmanaged::new(own, Path::new(library), follow, 4096);
        // Other tests have children of their own.
        let is_ours = |key: &&(u32, u64, PathBuf)| key.0 == child.id() && key.2.ends_with("sleep");
        let seen = |unmanaged: &Unmanaged| {
            let key = unmanaged.seen.keys().find(is_ours);
            key.is_some_and(|key| unmanaged.seen[key].times >= times)
        };
        while !seen(&unmanaged) {
            unmanaged.not_before = Instant::now();
            unmanaged.look(&HashMap::new(), &spoken);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = unmanaged.found.iter();
        let sleeps = found.filter(|((name, _), _)| name == "sleep");
        sleeps
            .map(|((_, why), found)| (why.clone(), found.processes))
            .collect()
    }

    #[test]
    fn a_program_without_the_library_is_named_once() {
        assert_eq!(
            named(PATIENCE - 1, "/l.so", true),
            [],
            "it may yet execute another"
        );
        let why = |why: &str| [(why.to_owned(), 1)];
        assert_eq!(
            named(PATIENCE + 3, "/l.so", true),
            why("its environment does not name the pager's library")
        );
        assert_eq!(
            named(PATIENCE, "libc.so.6", true),
            why("the pager could not start in it")
        );
        assert_eq!(
            named_after(PATIENCE, "libc.so.6", true, |pid| HashSet::from([pid])),
            why("its pager did not stay, and said why")
        );
        assert_eq!(
            named(1, "/l.so", false),
            why("started by another program; leave out --no-follow to have it managed")
        );
    }

    #[test]
    fn many_are_counted_and_few_named() {
        let mut unmanaged = Unmanaged::new(1, Path::new("/l.so"), true, u64::MAX);
        assert_eq!(unmanaged.much_bytes, MUCH_BYTES);
        assert_eq!(unmanaged.line(), None);
        let mut add = |name: String, processes| {
            let found = Found {
                processes,
                bytes: 20 << 20,
            };
            unmanaged.found.insert((name, "why".to_owned()), found);
        };
        add("a".to_owned(), 1);
        add("b".to_owned(), 3);
        (0..9).for_each(|n| add(format!("c{n}"), 1));
        let line = unmanaged.line().unwrap();
        assert!(
            line.starts_with(
                "a, 20.0 MiB (why); 3 × b, up to 20.0 MiB (why); c0, 20.0 MiB (why); "
            ),
            "{line}"
        );
        assert!(line.ends_with("c5, 20.0 MiB (why); 3 more"), "{line}");
        assert_eq!(unmanaged.to_json().as_array().unwrap().len(), 11);
    }
}
