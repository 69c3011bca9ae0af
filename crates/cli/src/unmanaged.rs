//! Programs of a followed run that go without a pager, and why: by looking at the tree of processes now and
//! then.
//!
//! What lives for less than a quarter of a second may be missed, and what has no library in its environment
//! for less than one; they are hardly worth a pager anyway. A process
//! that has left the tree (its parent is gone) is not seen any more; if it was seen before, it was judged then.

use crate::elf::{self, Elf};
use crate::privilege::{self, Secure};
use crate::process::{self, Identity};
use crate::program::GLIBC_LOADER;
use crate::statistics_file;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Looks at a process without a pager, a quarter of a second apart, before it is said to have none for no
/// reason that can be seen in its file.
const PATIENCE: u32 = 4;
/// A process that holds more has a pager, if it could be started.
const WORTH_BYTES: u64 = 8 << 20;
/// Programs that are named on one line.
const MOST_NAMED: usize = 8;

/// The programs without a pager.
#[derive(Debug)]
pub struct Unmanaged {
    root: u32,
    directory: PathBuf,
    library: PathBuf,
    /// The processes at the last look, by what they run.
    seen: HashMap<(u32, u64, PathBuf), Seen>,
    /// Of each program and reason: processes.
    found: BTreeMap<(String, String), u64>,
}

/// How often a process was seen, and whether it is in the list.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    times: u32,
    judged: bool,
}

impl Unmanaged {
    /// None yet.
    pub fn new(root: u32, directory: &Path, library: &Path) -> Self {
        Self {
            root,
            directory: directory.to_owned(),
            library: library.to_owned(),
            seen: HashMap::new(),
            found: BTreeMap::new(),
        }
    }

    /// Looks at all processes that come from the first one.
    pub fn look(&mut self) {
        let mut seen_now = HashMap::new();
        for pid in descendants(self.root) {
            let Some(identity) = Identity::of(pid).filter(Identity::is_alive) else {
                continue;
            };
            let Ok(executable) = fs::read_link(format!("/proc/{pid}/exe")) else {
                continue;
            };
            let key = (pid, identity.start_time_ticks, executable);
            let mut seen = self.seen.get(&key).copied().unwrap_or_default();
            seen.times = seen.times.saturating_add(1);
            let why = match seen.times {
                _ if seen.judged => None,
                1 => unfit(pid, &key.2),
                times if times >= PATIENCE => self.without_pager(pid),
                _ => None,
            };
            if let Some(why) = why {
                *self.found.entry((process::name(pid), why)).or_default() += 1;
                seen.judged = true;
            }
            seen_now.insert(key, seen);
        }
        self.seen = seen_now;
    }

    /// Why a process has no pager whose file says nothing against it; `None` where it has one, or holds
    /// too little to be worth one.
    fn without_pager(&self, pid: u32) -> Option<String> {
        // What the process executed last may have left a statistics file. The mappings are its own.
        let maps = process::read(format!("/proc/{pid}/maps")).ok()?;
        let library = self.library.to_str()?;
        if !maps.lines().any(|line| line.ends_with(library)) {
            return Some("its environment does not name the pager's library".to_owned());
        }
        let has_file = statistics_file::path(&self.directory, pid).exists();
        (!has_file && private_bytes(pid)? > WORTH_BYTES)
            .then(|| "the pager could not start in it".to_owned())
    }

    /// The programs with their reasons; `None` where there are none.
    pub fn line(&self) -> Option<String> {
        let named = self.found.iter().take(MOST_NAMED).map(|(program, count)| {
            let (name, why) = program;
            match count {
                1 => format!("{name} ({why})"),
                _ => format!("{count} × {name} ({why})"),
            }
        });
        let mut list: Vec<String> = named.collect();
        match self.found.len().checked_sub(MOST_NAMED) {
            None | Some(0) => {}
            Some(more) => list.push(format!("{more} more")),
        }
        (!list.is_empty()).then(|| list.join(", "))
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let found = self.found.iter().map(
            |((program, why), count)| json!({ "program": program, "why": why, "processes": count }),
        );
        found.collect()
    }
}

/// Why the pager cannot be loaded into what a process runs.
fn unfit(pid: u32, executable: &Path) -> Option<String> {
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
fn private_bytes(pid: u32) -> Option<u64> {
    let status = process::read(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// All processes that come from `root`, but for those whose parent has ended.
fn descendants(root: u32) -> Vec<u32> {
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
    fn named(times: u32, library: &str) -> Vec<(String, u64)> {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (own, absent) = (std::process::id(), Path::new("/absent"));
        let mut unmanaged = Unmanaged::new(own, absent, Path::new(library));
        // Other tests have children of their own.
        let is_ours = |key: &&(u32, u64, PathBuf)| key.0 == child.id() && key.2.ends_with("sleep");
        let seen = |unmanaged: &Unmanaged| {
            let key = unmanaged.seen.keys().find(is_ours);
            key.is_some_and(|key| unmanaged.seen[key].times >= times)
        };
        while !seen(&unmanaged) {
            unmanaged.look();
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = unmanaged.found.iter();
        let sleeps = found.filter(|((name, _), _)| name == "sleep");
        sleeps
            .map(|((_, why), count)| (why.clone(), *count))
            .collect()
    }

    #[test]
    fn a_program_without_the_library_is_named_once() {
        assert_eq!(
            named(PATIENCE - 1, "/l.so"),
            [],
            "it may yet execute another"
        );
        let why = "its environment does not name the pager's library".to_owned();
        assert_eq!(named(PATIENCE + 3, "/l.so"), [(why, 1)]);
        // It is mapped, and there is no need for a pager.
        assert_eq!(named(PATIENCE, "libc.so.6"), []);
    }

    #[test]
    fn many_are_counted_and_few_named() {
        let mut unmanaged = Unmanaged::new(1, Path::new("/absent"), Path::new("/l.so"));
        assert_eq!(unmanaged.line(), None);
        let mut add = |name: String, count| {
            unmanaged.found.insert((name, "why".to_owned()), count);
        };
        add("a".to_owned(), 1);
        add("b".to_owned(), 3);
        (0..9).for_each(|n| add(format!("c{n}"), 1));
        let line = unmanaged.line().unwrap();
        assert!(
            line.starts_with("a (why), 3 × b (why), c0 (why), "),
            "{line}"
        );
        assert!(line.ends_with("c5 (why), 3 more"), "{line}");
        assert_eq!(unmanaged.to_json().as_array().unwrap().len(), 11);
    }
}
