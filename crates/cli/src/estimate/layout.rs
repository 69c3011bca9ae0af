//! Which memory of a process the pager would manage, and why not the rest.
//!
//! The rules are those of the pager (`crates/pager/src/space/discovery.rs`, `exclusions.rs`), seen from outside: private
//! anonymous memory that is readable, writable and not executable, in mappings of 128 KiB or more, without the first
//! MiB behind a file's mapping and the stacks of threads. What only the program knows is not seen here: signal
//! alternate stacks, robust mutexes, memory that it calls latency-sensitive. They are small.

use crate::smaps::Vma;
use std::fs;
use std::mem::MaybeUninit;

/// Mappings smaller than this are left alone.
const SMALL_BYTES: u64 = 128 << 10;
/// So much of anonymous memory that follows a file's mapping may be a data segment.
const DATA_SEGMENT_BYTES: u64 = 1 << 20;
/// Bytes below the control block of a thread whose stack has no border that could be seen.
const STACK_GUESS: u64 = 8 << 20;
/// Bytes from the head of a thread's robust list to the end of libc's control block, generously.
const CONTROL_BLOCK: u64 = 8192;
const PAGE: u64 = 4096;

/// Why memory stays in place as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Pages of a file that the program has written to, data of libraries for one.
    File,
    /// Stacks, and what libc keeps on them.
    Stack,
    /// A mapping below 128 KiB.
    Small,
    /// Not readable and writable, or executable.
    NotWritable,
    /// Locked.
    Locked,
    /// Huge pages of `hugetlbfs`.
    Huge,
    /// Wiped in forked children.
    WipedInChildren,
    /// Registered with a userfaultfd already.
    Userfaultfd,
    /// Another process's, too, since a `fork`.
    SharedWithFork,
    /// Given to `MADV_FREE`.
    LazilyFreed,
}

impl Reason {
    /// As the output says it.
    pub fn text(self) -> &'static str {
        match self {
            Reason::File => "data of files and libraries",
            Reason::Stack => "stacks",
            Reason::Small => "mappings below 128 KiB",
            Reason::NotWritable => "read-only or executable",
            Reason::Locked => "locked",
            Reason::Huge => "huge pages",
            Reason::WipedInChildren => "wiped in children",
            Reason::Userfaultfd => "its own userfaultfd's",
            Reason::SharedWithFork => "shared with a forked process",
            Reason::LazilyFreed => "given to MADV_FREE",
        }
    }

    /// Its key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Reason::File => "file",
            Reason::Stack => "stack",
            Reason::Small => "small",
            Reason::NotWritable => "not_writable",
            Reason::Locked => "locked",
            Reason::Huge => "huge",
            Reason::WipedInChildren => "wiped_in_children",
            Reason::Userfaultfd => "userfaultfd",
            Reason::SharedWithFork => "shared_with_fork",
            Reason::LazilyFreed => "lazily_freed",
        }
    }
}

/// A mapping that holds private anonymous memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Private anonymous memory in place.
    pub anonymous_bytes: u64,
    /// Given to `MADV_FREE` and not taken yet.
    pub lazily_freed_bytes: u64,
    /// The parts of it that would be managed, rising; none: it would not be.
    pub managed: Vec<(u64, u64)>,
    /// Why the rest would not.
    pub rest: Reason,
}

/// The mappings that hold private anonymous memory. `stacks`: what belongs to threads ([`stacks`]).
pub fn mappings(vmas: &[Vma], stacks: &[(u64, u64)]) -> Vec<Mapping> {
    let mut all = Vec::new();
    let mut file_end = 0;
    for vma in vmas {
        let follows_file = vma.start == file_end;
        if vma.inode != 0 {
            file_end = vma.end;
        }
        if vma.anonymous_bytes == 0 {
            continue;
        }
        let start = match follows_file {
            true => vma.end.min(vma.start + DATA_SEGMENT_BYTES),
            false => vma.start,
        };
        let unfit = unfit(vma).or_else(|| (vma.end - start < SMALL_BYTES).then_some(Reason::Small));
        let managed = match unfit {
            Some(_) => Vec::new(),
            None => without(start, vma.end, stacks),
        };
        let rest = match unfit {
            Some(Reason::Small) | None if follows_file => Reason::File,
            Some(reason) => reason,
            None => Reason::Stack,
        };
        all.push(Mapping {
            start: vma.start,
            end: vma.end,
            anonymous_bytes: vma.anonymous_bytes,
            lazily_freed_bytes: vma.lazily_freed_bytes,
            managed,
            rest,
        });
    }
    all
}

/// Why a mapping would not be managed, whatever its size.
fn unfit(vma: &Vma) -> Option<Reason> {
    let is_plain = vma.name.is_empty()
        || vma.name == "[heap]"
        || vma.name.starts_with("[anon: glibc: malloc")
        || (vma.name.starts_with("[anon:") && !vma.name.starts_with("[anon: glibc"));
    match () {
        _ if vma.has("ht") => Some(Reason::Huge),
        _ if vma.inode != 0 => Some(Reason::File),
        _ if vma.name.starts_with("[stack") => Some(Reason::Stack),
        _ if vma.permissions != "rw-p" => Some(Reason::NotWritable),
        _ if vma.has("lo") => Some(Reason::Locked),
        _ if vma.has("wf") => Some(Reason::WipedInChildren),
        _ if vma.has("um") || vma.has("uw") || vma.has("ui") => Some(Reason::Userfaultfd),
        _ if !is_plain => Some(Reason::Small),
        _ => None,
    }
}

/// A range without the parts that `holes` take of it.
fn without(start: u64, end: u64, holes: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut parts = vec![(start, end)];
    for &(from, to) in holes {
        parts = parts
            .into_iter()
            .flat_map(|(start, end)| [(start, end.min(from)), (start.max(to), end)])
            .filter(|(start, end)| start < end)
            .collect();
    }
    parts
}

/// What belongs to the threads of process `pid`: their stacks with the control blocks on them, as far as the kernel tells.
pub fn stacks(pid: u32, vmas: &[Vma]) -> Vec<(u64, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = tasks.into_iter().flatten().flatten();
    let numbers = threads.filter_map(|task| task.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(robust_list)
        .map(|head| {
            let mapping = vmas.iter().find(|vma| vma.start <= head && head < vma.end);
            let range = mapping.map_or((head - 1, head), |vma| (vma.start, vma.end));
            thread_range(range, head)
        })
        .collect()
}

/// Everything from the mapping's start where that is near, else a stack of the usual size.
fn thread_range((start, end): (u64, u64), head: u64) -> (u64, u64) {
    let from = match head - start <= 2 * STACK_GUESS {
        true => start,
        false => head - STACK_GUESS,
    };
    let to = (head + CONTROL_BLOCK).next_multiple_of(PAGE).min(end);
    (from & !(PAGE - 1), to)
}

/// The head of a thread's robust list, which lies in its control block.
fn robust_list(thread: libc::pid_t) -> Option<u64> {
    let mut head = MaybeUninit::<u64>::uninit();
    let mut len = 0usize;
    // SAFETY: the kernel writes a pointer and a length to the two places, which have room for them, or neither.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            thread,
            head.as_mut_ptr(),
            &raw mut len,
        )
    };
    if failed != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so it was written.
    let head = unsafe { head.assume_init() };
    (head != 0).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vma(start: u64, end: u64, permissions: &str, inode: u64, flags: &str) -> Vma {
        Vma {
            start,
            end,
            permissions: permissions.to_owned(),
            inode,
            anonymous_bytes: end - start,
            flags: flags.to_owned(),
            ..Vma::default()
        }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_the_pager_leaves_alone_is_left_out_with_its_reason() {
        let of = |vma: Vma| {
            let found = mappings(&[vma], &[]);
            (found[0].managed.len(), found[0].rest)
        };
        let plain = || vma(MIB, 2 * MIB, "rw-p", 0, "rd wr");
        assert_eq!(of(plain()).0, 1);
        for (reason, vma) in [
            (Reason::Small, vma(MIB, MIB + 65536, "rw-p", 0, "")),
            (Reason::File, vma(MIB, 2 * MIB, "rw-p", 7, "")),
            (Reason::NotWritable, vma(MIB, 2 * MIB, "rwxp", 0, "")),
            (Reason::Locked, vma(MIB, 2 * MIB, "rw-p", 0, "rd lo")),
            (Reason::Huge, vma(MIB, 2 * MIB, "rw-p", 9, "ht")),
            (Reason::WipedInChildren, vma(MIB, 2 * MIB, "rw-p", 0, "wf")),
            (Reason::Userfaultfd, vma(MIB, 2 * MIB, "rw-p", 0, "um")),
            (
                Reason::Stack,
                Vma {
                    name: "[stack]".to_owned(),
                    ..plain()
                },
            ),
        ] {
            assert_eq!(of(vma), (0, reason));
        }
    }

    #[test]
    fn the_first_mib_behind_a_file_is_left_out() {
        let file = vma(MIB, 2 * MIB, "rw-p", 7, "");
        let behind = |mib: u64| vma(2 * MIB, (2 + mib) * MIB, "rw-p", 0, "");
        let found = mappings(&[file.clone(), behind(3)], &[]);
        assert_eq!(found[1].managed, [(3 * MIB, 5 * MIB)]);
        assert_eq!(mappings(&[file, behind(1)], &[])[1].managed, []);
    }

    #[test]
    fn a_thread_owns_its_stack_and_not_the_arena_that_it_merged_with() {
        let stack = thread_range((0x7000_0000, 0x7080_0000), 0x707f_f000);
        assert_eq!(stack, (0x7000_0000, 0x7080_0000));
        let arena = vma(0x1000_0000, 0x9000_0000, "rw-p", 0, "");
        let stack = thread_range((arena.start, arena.end), 0x8000_0800);
        let found = mappings(&[arena], &[stack]);
        assert_eq!(
            found[0].managed,
            [
                (0x1000_0000, 0x8000_0000 - STACK_GUESS),
                (stack.1, 0x9000_0000)
            ]
        );
    }

    #[test]
    fn this_process_has_threads_with_stacks() {
        let vmas = crate::smaps::read_all(std::process::id()).unwrap();
        let stacks = stacks(std::process::id(), &vmas);
        assert!(!stacks.is_empty());
        assert!(stacks.iter().all(|(start, end)| start < end));
        assert_eq!(robust_list(-7), None);
    }
}
