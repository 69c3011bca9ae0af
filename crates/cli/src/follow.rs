//! What all processes of a run come to: the figures of those that have ended are taken from their slots of
//! the run file, which are then free for others.
//!
//! Four times a second the parent looks who has ended, and for what the pagers have to say. Nothing is asked of
//! the processes, and none is waited for. A process that replaced itself (`execve`) counts as one program for
//! each that had a pager; the child of a fork without `execve` is counted apart.

use crate::messages::{Look, Messages};
use crate::notices::Notices;
use crate::run_file::RunFile;
use crate::spawn::Child;
use crate::statistics_file::{self, Copy};
use crate::sums::{self, Sums, Young};
use crate::supervise::Watched;
use crate::tracers::Tracers;
use crate::unmanaged::{Pager, Unmanaged};
use coldpress_interface::run_file::Owner;
use coldpress_interface::statistics::{Failure, Statistics};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often the parent looks around.
pub const LOOK: Duration = Duration::from_millis(250);

/// A program that had less, and of which nothing was taken, is a wrapper and no more.
const WORTH_TELLING_BYTES: u64 = 4 << 20;

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
    /// It is the child of a fork, and has executed nothing since.
    pub is_forked: bool,
    evictions: u64,
    faults: u64,
    cpu_ns: u64,
}

impl Member {
    fn of(s: &Statistics) -> Self {
        let get = |word: &AtomicU64| word.load(Relaxed);
        Self {
            pid: get(&s.pid),
            program: statistics_file::program(s),
            peak_total_bytes: get(&s.peak_total_bytes),
            peak_content_bytes: get(&s.peak_content_bytes),
            peak_saved_bytes: get(&s.peak_saved_bytes),
            is_forked: get(&s.fork_child_mode) != 0,
            evictions: get(&s.evictions),
            faults: get(&s.faults),
            cpu_ns: sums::pager_cpu_ns(s),
        }
    }

    /// Whether it is worth a word: more than a wrapper, or a child that did nothing.
    fn is_weighty(&self) -> bool {
        self.evictions > 0 || !self.is_forked && self.peak_content_bytes >= WORTH_TELLING_BYTES
    }

    fn to_json(&self) -> Value {
        json!({
            "pid": self.pid,
            "program": self.program,
            "forked": self.is_forked,
            "peak_total_bytes": self.peak_total_bytes,
            "peak_content_bytes": self.peak_content_bytes,
            "peak_saved_bytes": self.peak_saved_bytes,
            "evictions": self.evictions,
            "faults": self.faults,
            "pager_cpu_ns": self.cpu_ns,
        })
    }
}

/// The figures of all together.
#[derive(Debug, Default)]
pub struct Totals {
    /// What all came to, programs and forked children.
    pub sums: Sums,
    /// What children waited for that ended young.
    pub young: Young,
    /// Programs that were managed.
    pub programs: u64,
    /// Children of forks that were managed, and executed nothing.
    pub forked: u64,
    /// Programs and children that held more than next to nothing, or had pages taken.
    pub weighty: u64,
    /// Those of all of them that still run.
    pub running: u64,
    /// Sum of what each saved at most.
    pub saved_bytes: u64,
    /// Faults that stalled.
    pub stalled: u64,
    /// Pages of doubtful content, and those that could not be put in place.
    pub lost: u64,
    /// Pages of all that are written back.
    pub written_back_pages: u64,
    /// Bytes of the file that hold them.
    pub written_back_bytes: u64,
    /// Why the trace of one of them is not whole, as an error number; 0: all are.
    pub trace_error: u64,
    /// Processes that found no slot: nothing is known of them.
    pub unknown: u64,
    /// The one that held most.
    pub largest: Member,
    /// What the one is called that lost most time to faults.
    pub slowest: String,
    /// The page of the one that had most content.
    pub principal: Option<(Member, Copy)>,
    /// Each of them, as far as they are listed.
    pub members: Vec<Member>,
}

impl Totals {
    fn add(&mut self, copy: Copy) {
        let Ok(s) = copy.statistics(copy.pid()) else {
            return;
        };
        let member = Member::of(s);
        let most_lost = self.sums.most_lost_ns();
        if member.is_forked && !member.is_weighty() {
            self.sums.add_idle(s)
        } else {
            self.sums.add(s)
        }
        if self.sums.most_lost_ns() > most_lost {
            self.slowest.clone_from(&member.program);
        }
        if member.is_forked {
            self.forked += 1
        } else {
            self.programs += 1;
            // A forked child only reads what its parent wrote: it is counted there.
            self.written_back_pages += s.written_back_pages.load(Relaxed);
            self.written_back_bytes += s.written_back_bytes.load(Relaxed);
        }
        self.weighty += u64::from(member.is_weighty());
        self.saved_bytes += member.peak_saved_bytes;
        self.stalled += s.stalled_faults.load(Relaxed);
        if self.trace_error == 0 {
            self.trace_error = s.trace_error.load(Relaxed);
        }
        self.lost += s.failed(Failure::Corrupt) + s.failed(Failure::InstallRefused);
        if member.peak_total_bytes > self.largest.peak_total_bytes {
            self.largest = member.clone();
        }
        let order = |m: &Member| (m.is_weighty(), m.evictions, m.peak_content_bytes);
        if self
            .principal
            .as_ref()
            .is_none_or(|(known, _)| order(&member) > order(known))
        {
            self.principal = Some((member.clone(), copy));
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
            "programs": self.programs,
            "forked_children": self.forked,
            "without_figures": self.unknown,
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
pub struct Members {
    root: Child,
    run: RunFile,
    messages: Messages,
    looked: Instant,
    totals: Totals,
    unmanaged: Unmanaged,
    notices: Notices,
    tracers: Tracers,
}

impl Watched for Members {
    type Outcome = Outcome;

    fn look(&mut self) -> Duration {
        self.look_around()
    }

    fn finish(self) -> Outcome {
        self.conclude()
    }
}

impl Members {
    /// Those that come from the process that was started.
    pub fn new(
        root: Child,
        run: RunFile,
        unmanaged: Unmanaged,
        notices: Notices,
        tracers: Tracers,
    ) -> Self {
        run.head().root_pid.store(root.pid.into(), Relaxed);
        Self {
            root,
            run,
            messages: Messages::default(),
            looked: Instant::now(),
            totals: Totals::default(),
            unmanaged,
            notices,
            tracers,
        }
    }

    /// Looks around, if it is time to. Returns when to come again.
    fn look_around(&mut self) -> Duration {
        let since = self.looked.elapsed();
        if since < LOOK {
            return LOOK - since;
        }
        let running = self.collect();
        let mut pagers = HashMap::new();
        for &(owner, slot) in &running {
            let pager = pagers.entry(owner.pid).or_insert(Pager::Stays);
            if let Some(copy) = self.run.copy(slot)
                && let Ok(s) = copy.statistics(copy.pid())
            {
                self.messages.add(self.notices.look(copy.pid(), s));
                if s.pager_left.load(Relaxed) == 1 {
                    *pager = Pager::HasLeft;
                }
            }
        }
        let pids: Vec<u32> = running.iter().map(|(owner, _)| owner.pid).collect();
        self.notices.keep(&pids);
        self.messages.add(self.tracers.look(&pids));
        self.messages
            .pass_on(self.run.head(), self.root.pid, Look::Meanwhile);
        self.unmanaged.look(&pagers, self.messages.speakers());
        self.looked = Instant::now();
        LOOK
    }

    /// Takes the figures of those that have ended, but for the first: it is not reaped before the end. Those that
    /// run, and the first, are returned.
    fn collect(&mut self) -> Vec<(Owner, usize)> {
        let mut running = Vec::new();
        for (slot, owner) in self.run.head().claimed() {
            let Some(copy) = self.run.copy(slot) else {
                continue;
            };
            if self.is_first(owner, &copy) || statistics_file::runs(owner, &copy) {
                running.push((owner, slot));
                continue;
            }
            // What was copied before it was known to have ended may not be the last state.
            if let Some(copy) = self.run.copy(slot)
                && self.run.head().free(slot, owner)
            {
                self.totals.add(copy);
            }
        }
        running
    }

    fn is_first(&self, owner: Owner, copy: &Copy) -> bool {
        let start = copy.start_time_ticks();
        !owner.is_past
            && owner.pid == self.root.pid
            && start.is_none_or(|start| start == self.root.start_time_ticks)
    }

    /// At the end, before the first process is reaped: all figures, and the page of the first.
    fn conclude(mut self) -> Outcome {
        let mut first = None;
        for (owner, slot) in self.collect() {
            let Some(copy) = self.run.copy(slot) else {
                continue;
            };
            if self.is_first(owner, &copy) {
                first = self.run.copy(slot);
            } else {
                self.totals.running += 1;
            }
            self.totals.add(copy);
        }
        let head = self.run.head();
        self.totals.young = Young::of(&head.young);
        self.totals.sums.add_young(&self.totals.young);
        self.totals.unknown = head.without_slot.load(Relaxed);
        self.totals.keep_the_largest();
        self.messages.pass_on(head, self.root.pid, Look::Last);
        Outcome {
            first: first.filter(|copy| copy.statistics(self.root.pid).is_ok()),
            totals: self.totals,
            unmanaged: self.unmanaged,
        }
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// The page of the process that `run` started, if it had a pager.
    pub first: Option<Copy>,
    /// The figures of all.
    pub totals: Totals,
    /// What went without a pager.
    pub unmanaged: Unmanaged,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::{Form, tests::made};
    use crate::statistics_file::fixtures;
    use core::mem::offset_of;

    fn page(pid: u32, saved: u64, total: u64, evictions: u64, forked: bool) -> Vec<u8> {
        let mut bytes = fixtures::own_page();
        let mut set = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        set(16, u64::from(pid));
        set(offset_of!(Statistics, filled_bytes), 4096);
        set(offset_of!(Statistics, peak_saved_bytes), saved);
        set(offset_of!(Statistics, peak_total_bytes), total);
        set(offset_of!(Statistics, evictions), evictions);
        set(offset_of!(Statistics, fork_child_mode), forked.into());
        set(offset_of!(Statistics, written_back_pages), 3);
        set(offset_of!(Statistics, written_back_bytes), 5_000);
        set(
            offset_of!(Statistics, program_head),
            u64::from_ne_bytes(*b"cc1plus\0"),
        );
        bytes
    }

    /// Slots of a process that lives, of what it ran before, and of such that have ended: the last two are taken
    /// before the end, once.
    #[test]
    fn the_ended_are_added_up_and_their_slots_freed() {
        let directory =
            std::env::temp_dir().join(format!("coldpress-follow-{}", std::process::id()));
        let run = made(&directory, Form::File);
        let path = run.path().to_owned();
        let own = std::process::id();
        let gone = 4_194_305;
        let past = |pid| {
            let owner = Owner {
                pid,
                is_past: true,
                is_foreign: false,
            };
            owner.word()
        };
        let root = Child {
            pid: gone + 7,
            start_time_ticks: 0,
        };
        fixtures::put(&path, 0, gone.into(), &page(gone, 5, 50, 10, true));
        fixtures::put(&path, 1, own.into(), &page(own, 11, 40, 0, false));
        fixtures::put(&path, 2, past(own), &page(own, 13, 60, 0, false));
        fixtures::put(&path, 3, (gone + 1).into(), &[0; 64]);
        let unmanaged = Unmanaged::new(root.pid, std::path::Path::new("/l.so"), true, 1 << 20);
        let mut members =
            Members::new(root, run, unmanaged, Notices::new(true), Tracers::new(true));
        assert_eq!(members.collect().len(), 1);
        let counted = |totals: &Totals| (totals.programs, totals.forked, totals.weighty);
        assert_eq!(counted(&members.totals), (1, 1, 1));
        members.collect();
        assert_eq!(counted(&members.totals), (1, 1, 1), "each is taken once");
        assert_eq!(members.run.head().claimed().count(), 1);
        let outcome = members.finish();
        let totals = outcome.totals;
        assert_eq!((totals.programs, totals.running), (2, 1));
        assert!(outcome.first.is_none());
        assert_eq!(totals.saved_bytes, 5 + 13 + 11);
        let written_back = (totals.written_back_pages, totals.written_back_bytes);
        assert_eq!(written_back, (2 * 3, 2 * 5_000), "not of the forked child");
        assert_eq!(totals.largest.peak_total_bytes, 60);
        assert_eq!(totals.largest.program, "cc1plus");
        assert_eq!(totals.principal.as_ref().unwrap().0.evictions, 10);
        let json = totals.to_json(&outcome.unmanaged, 1_000_000_000);
        assert_eq!(json["members"].as_array().unwrap().len(), 3);
        assert_eq!(json["members"][0]["peak_saved_bytes"], 13);
        assert!(path.exists(), "this process of it still runs");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_build_of_thousands_is_listed_in_part_and_counted_whole() {
        let directory = std::env::temp_dir().join(format!("coldpress-many-{}", std::process::id()));
        let run = made(&directory, Form::File);
        let mut totals = Totals::default();
        for n in 0..1000 {
            fixtures::put(run.path(), 0, 7, &page(7, n % 500, 0, 0, false));
            totals.add(run.copy(0).unwrap());
        }
        totals.keep_the_largest();
        assert_eq!(totals.sums.programs, 1000);
        assert_eq!(totals.members.len(), MOST_LISTED);
        assert_eq!(totals.members[0].peak_saved_bytes, 499);
        assert_eq!(totals.saved_bytes, 2 * (499 * 500 / 2));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
