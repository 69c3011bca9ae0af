//! What all processes of one `run --follow` come to: the figures of those that have ended are taken from
//! their files, which are then removed.
//!
//! Each managed process writes `PID.stats`, in which the process that `run` started is named
//! (`run_pid`). A process that replaces itself (`execve`) leaves `PID.TIME.past` behind. Four times
//! a second the parent looks who has ended; that also is the time in which an id is used again at the
//! earliest, practically. Nothing is asked of the processes, and none is waited for.

use crate::notices::Notices;
use crate::process::Identity;
use crate::statistics_file::{self, Copy};
use crate::sums::{self, Sums};
use crate::unmanaged::Unmanaged;
use coldpress_interface::statistics::{Failure, Statistics};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often the parent looks who has ended.
pub const LOOK: Duration = Duration::from_millis(250);

/// Processes that have a line of their own in the JSON file: those that saved most.
const MOST_LISTED: usize = 200;

/// One program that was managed.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// Its process.
    pub pid: u64,
    /// What it is called.
    pub program: String,
    /// Its peaks.
    pub peak_total_bytes: u64,
    /// The most it would have held natively.
    pub peak_content_bytes: u64,
    /// The most that it saved.
    pub peak_saved_bytes: u64,
    evictions: u64,
    faults: u64,
    cpu_ns: u64,
}

impl Member {
    fn of(s: &Statistics) -> Self {
        let get = |word: &AtomicU64| word.load(Relaxed);
        Self {
            pid: get(&s.pid),
            program: program(s),
            peak_total_bytes: get(&s.peak_total_bytes),
            peak_content_bytes: get(&s.peak_content_bytes),
            peak_saved_bytes: get(&s.peak_saved_bytes),
            evictions: get(&s.evictions),
            faults: get(&s.faults),
            cpu_ns: sums::pager_cpu_ns(s),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "pid": self.pid,
            "program": self.program,
            "peak_total_bytes": self.peak_total_bytes,
            "peak_content_bytes": self.peak_content_bytes,
            "peak_saved_bytes": self.peak_saved_bytes,
            "evictions": self.evictions,
            "faults": self.faults,
            "pager_cpu_ns": self.cpu_ns,
        })
    }
}

/// What the program that left these figures was called.
pub fn program(s: &Statistics) -> String {
    let name = s.program();
    let len = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    match len {
        0 => "?".to_owned(),
        _ => String::from_utf8_lossy(&name[..len]).replace(char::is_control, "?"),
    }
}

/// The figures of all together.
#[derive(Debug, Default)]
pub struct Totals {
    /// What they came to.
    pub sums: Sums,
    /// Those of them that still run.
    pub running: u64,
    /// Sum of what each saved at most.
    pub saved_bytes: u64,
    /// Faults that stalled.
    pub stalled: u64,
    /// Pages of doubtful content, and those that could not be put in place.
    pub lost: u64,
    /// The one that held most.
    pub largest: Member,
    /// Each of them, as far as they are listed.
    pub members: Vec<Member>,
}

impl Totals {
    fn add(&mut self, s: &Statistics) {
        let member = Member::of(s);
        self.sums.add(s);
        self.saved_bytes += member.peak_saved_bytes;
        self.stalled += s.stalled_faults.load(Relaxed);
        self.lost += s.failed(Failure::Corrupt) + s.failed(Failure::InstallRefused);
        if member.peak_total_bytes > self.largest.peak_total_bytes {
            self.largest = member.clone();
        }
        self.members.push(member);
        if self.members.len() > 2 * MOST_LISTED {
            self.keep_the_largest();
        }
    }

    fn keep_the_largest(&mut self) {
        let order = |m: &Member| (u64::MAX - m.peak_saved_bytes, u64::MAX - m.peak_total_bytes);
        self.members.sort_by_key(order);
        self.members.truncate(MOST_LISTED);
    }

    /// The object for `--stats`.
    pub fn to_json(&self, unmanaged: &Unmanaged, elapsed_ns: u64) -> Value {
        let members: Vec<Value> = self.members.iter().map(Member::to_json).collect();
        json!({
            "programs": self.sums.programs,
            "still_running": self.running,
            "saved_bytes_sum": self.saved_bytes,
            "largest_peak_total_bytes": self.largest.peak_total_bytes,
            "largest_program": self.largest.program,
            "evictions": self.sums.evictions,
            "faults": self.sums.faults,
            "pager_cpu_ns": self.sums.pager_cpu_ns,
            "stalled_faults": self.stalled,
            "summary": self.sums.to_json(elapsed_ns),
            "members": members,
            "members_listed_at_most": MOST_LISTED,
            "not_managed": unmanaged.to_json(),
        })
    }
}

/// The processes of one run.
#[derive(Debug)]
pub struct Followed {
    root: u32,
    directory: PathBuf,
    looked: Instant,
    totals: Totals,
    notices: Notices,
    /// Those into which the pager could not be loaded.
    pub unmanaged: Unmanaged,
}

impl Followed {
    /// Those that come from process `root`.
    pub fn new(root: u32, directory: &Path, library: &Path, notices: Notices) -> Self {
        Self {
            root,
            directory: directory.to_owned(),
            looked: Instant::now(),
            totals: Totals::default(),
            notices,
            unmanaged: Unmanaged::new(root, directory, library),
        }
    }

    /// Looks around, if it is time to. Returns when to come again.
    pub fn look(&mut self) -> Duration {
        let since = self.looked.elapsed();
        if since < LOOK {
            return LOOK - since;
        }
        let running = self.collect();
        for copy in &running {
            if let Ok(s) = copy.statistics(copy.pid()) {
                self.notices.look(copy.pid(), s);
            }
        }
        let running: Vec<u32> = running.iter().map(Copy::pid).collect();
        self.notices.keep(&running);
        self.unmanaged.look();
        self.looked = Instant::now();
        LOOK
    }

    /// Takes the figures of those that have ended, but for the first: it is not reaped before the end.
    fn collect(&mut self) -> Vec<Copy> {
        let mut running = Vec::new();
        for path in entries(&self.directory) {
            let Some((pid, past)) = of_name(&path) else {
                continue;
            };
            let copy = statistics_file::open(&path).map_err(Into::into);
            let Ok(copy) = copy.and_then(|file| Copy::of(&file)) else {
                continue;
            };
            let ended = {
                let Ok(s) = copy.statistics(pid) else {
                    continue;
                };
                if s.run_pid.load(Relaxed) != u64::from(self.root) {
                    continue;
                }
                let start = s.start_time_ticks.load(Relaxed);
                let process = Identity::of(pid).filter(|p| p.start_time_ticks == start);
                let ended = past || !process.is_some_and(|p| p.is_alive());
                if ended && (past || pid != self.root) {
                    self.totals.add(s);
                    let _ = fs::remove_file(&path);
                }
                ended
            };
            if !ended && pid != self.root {
                running.push(copy);
            }
        }
        running
    }

    /// All figures, at the end; `first`: those of the process that `run` started.
    pub fn finish(mut self, first: Option<&Statistics>) -> (Totals, Unmanaged) {
        let running = self.collect();
        for copy in &running {
            let pid = copy.pid();
            if let Ok(s) = copy.statistics(pid) {
                self.totals.add(s);
                self.totals.running += 1;
            }
        }
        if let Some(first) = first {
            self.totals.add(first);
        }
        self.totals.keep_the_largest();
        (self.totals, self.unmanaged)
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// The process of a file `PID.stats` or `PID.TIME.past`, and whether it is the latter.
fn of_name(path: &Path) -> Option<(u32, bool)> {
    let name = path.file_name()?.to_str()?;
    if let Some(pid) = name.strip_suffix(".stats") {
        return Some((pid.parse().ok()?, false));
    }
    let (pid, time) = name.strip_suffix(".past")?.split_once('.')?;
    time.parse::<u64>().ok()?;
    Some((pid.parse().ok()?, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics_file::fixtures;
    use core::mem::offset_of;

    fn page(pid: u32, run_pid: u32, saved: u64, total: u64) -> Vec<u8> {
        let mut bytes = fixtures::own_page();
        let mut set = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        set(16, u64::from(pid));
        set(offset_of!(Statistics, run_pid), u64::from(run_pid));
        set(offset_of!(Statistics, peak_saved_bytes), saved);
        set(offset_of!(Statistics, peak_total_bytes), total);
        set(
            offset_of!(Statistics, program_head),
            u64::from_ne_bytes(*b"cc1plus\0"),
        );
        bytes
    }

    /// A file of another run, of a process that lives, or of one that has ended: only the last is taken
    /// before the end.
    #[test]
    fn the_ended_are_added_up_and_their_files_removed() {
        let directory =
            std::env::temp_dir().join(format!("coldpress-follow-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let own = std::process::id();
        let root = 4_194_304 + 7;
        let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes).unwrap();
        write("4194305.stats", &page(4_194_305, root, 5, 50));
        write("4194306.stats", &page(4_194_306, root + 1, 7, 70));
        write(&format!("{own}.stats"), &page(own, root, 11, 40));
        write(&format!("{own}.77.past"), &page(own, root, 13, 60));
        write(&format!("{root}.stats"), &page(root, root, 17, 10));
        write("x.past", b"kept");
        let mut followed = Followed::new(root, &directory, Path::new("/l.so"), Notices::new(true));
        followed.collect();
        assert_eq!(followed.totals.sums.programs, 2);
        followed.collect();
        assert_eq!(followed.totals.sums.programs, 2, "each is taken once");
        let (totals, unmanaged) = followed.finish(None);
        assert_eq!((totals.sums.programs, totals.running), (3, 1));
        assert_eq!(totals.saved_bytes, 5 + 13 + 11);
        assert_eq!(totals.largest.peak_total_bytes, 60);
        assert_eq!(totals.largest.program, "cc1plus");
        let json = totals.to_json(&unmanaged, 1_000_000_000);
        assert_eq!(json["members"].as_array().unwrap().len(), 3);
        assert_eq!(json["members"][0]["peak_saved_bytes"], 13);
        let mut names: Vec<_> = entries(&directory)
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        names.sort();
        let mut expected = [
            "4194306.stats".to_owned(),
            format!("{own}.stats"),
            format!("{root}.stats"),
            "x.past".to_owned(),
        ];
        expected.sort();
        assert_eq!(names, expected.map(std::ffi::OsString::from));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_build_of_thousands_is_listed_in_part_and_counted_whole() {
        let mut totals = Totals::default();
        for n in 0..1000 {
            let s = Statistics::new();
            s.peak_saved_bytes.store(n % 500, Relaxed);
            totals.add(&s);
        }
        totals.keep_the_largest();
        assert_eq!(totals.sums.programs, 1000);
        assert_eq!(totals.members.len(), MOST_LISTED);
        assert_eq!(totals.members[0].peak_saved_bytes, 499);
        assert_eq!(totals.saved_bytes, 2 * (499 * 500 / 2));
        assert_eq!(totals.members[0].program, "?");
    }
}
