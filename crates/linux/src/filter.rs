//! Seccomp filters of the program: whether the pager can live with one.
//!
//! A filter for all threads (`SECCOMP_FILTER_FLAG_TSYNC`) is the pager's threads' too, and any filter is inherited by the
//! pager of a forked child and met by the library's wrappers. So before one is installed it is asked about every call
//! that the pager makes, as the kernel will ask it: a filter is a program of classic BPF, a pure function of the call.
//!
//! | calls | made | must be |
//! |---|---|---|
//! | [`NEEDED`] | by running threads of the pager, all the time | allowed |
//! | [`WANTED`] | by them, for threads' stacks, messages, figures, traces | allowed, or refused with an error |
//! | [`AT_START`] | when a pager starts | the same, where the program may fork (or its pager waits with starting) |
//! | [`BY_WRAPPERS`] | by the program's threads in the library's wrappers | the same |
//!
//! `crates/promises/programs/hostile_seccomp.c` allows exactly [`NEEDED`] and [`WANTED`], and a program runs under it.
//!
//! Where reclaim may run it changes for its visits only (`pager/src/machine/visit.rs`), and no more once there is a filter.
//!
//! A filter that looks at addresses, or where the call comes from, is asked with zeros.

use crate::sys::syscall;
use linux_raw_sys::general as nr;

/// One instruction, `struct sock_filter`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to pass over where a comparison holds.
    pub jump_true: u8,
    /// And where it does not.
    pub jump_false: u8,
    /// Operand.
    pub k: u32,
}

/// A call: its number and the first three arguments, as far as they are constant.
type Call = (u32, [u64; 3]);

/// Any arguments.
const ANY: [u64; 3] = [0; 3];

const fn second(argument: u64) -> [u64; 3] {
    [0, argument, 0]
}

const fn third(argument: u64) -> [u64; 3] {
    [0, 4096, argument]
}

/// What a process was started under cannot be asked, as a filter that it installs itself can: so the calls are made, with
/// arguments that no call accepts. To be done in a process that may be killed by it. The number of the first of the
/// [`NEEDED`] that is refused by an error; of the others any error will do.
pub fn refused_by_an_inherited_filter() -> Option<u32> {
    const PR_GET_SECCOMP: usize = 21;
    const FILTERED: isize = 2;
    // SAFETY: it only asks.
    if unsafe { syscall(nr::__NR_prctl, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) } != FILTERED {
        return None;
    }
    for call in [NEEDED, WANTED, AT_START, BY_WRAPPERS]
        .into_iter()
        .flatten()
    {
        let _ = try_call(call);
    }
    let is_refused = |call: &&Call| matches!(try_call(call), Some(-1 | -13 | -38));
    NEEDED.iter().find(is_refused).map(|&(number, _)| number)
}

/// Makes a call that has no effect, whatever it is. `None`: it cannot be made without one, or fails here for reasons of
/// its own.
fn try_call(&(number, arguments): &Call) -> Option<isize> {
    match number {
        nr::__NR_exit | nr::__NR_exit_group | nr::__NR_restart_syscall | nr::__NR_clone => {
            return None;
        }
        // Signals go out before their number is looked at; the device may do what the call may not.
        nr::__NR_kill | nr::__NR_userfaultfd => return None,
        _ => {}
    }
    // Neither an address, nor a descriptor, a process or a flag.
    let mut invalid = [usize::MAX; 6];
    for (argument, &constant) in invalid.iter_mut().zip(&arguments) {
        if constant != 0 {
            *argument = constant as usize;
        }
    }
    // SAFETY: no call of the lists does anything with such arguments but fail: descriptors, processes and addresses do not
    // exist, and the sizes of structures are wrong. `close_range` closes the descriptor of the highest number, which there
    // cannot be; `unshare` gives this process a table of its own.
    Some(unsafe { syscall(number, invalid) })
}

/// What running threads of the pager cannot do without.
pub const NEEDED: &[Call] = &[
    (nr::__NR_read, ANY),
    (nr::__NR_ppoll, ANY),
    (nr::__NR_pread64, ANY),
    (nr::__NR_nanosleep, ANY),
    (nr::__NR_clock_gettime, ANY),
    (nr::__NR_restart_syscall, ANY),
    (nr::__NR_getpid, ANY),
    (nr::__NR_gettid, ANY),
    (nr::__NR_exit, ANY),
    (nr::__NR_exit_group, ANY),
    (nr::__NR_tgkill, ANY),
    (nr::__NR_mincore, ANY),
    (nr::__NR_futex, second(128)),
    (nr::__NR_futex, second(129)),
    (nr::__NR_madvise, third(4)),
    (nr::__NR_madvise, third(10)),
    (nr::__NR_madvise, third(11)),
    (nr::__NR_madvise, third(22)),
    // UFFDIO_REGISTER, UNREGISTER, WAKE, COPY, ZEROPAGE, MOVE, CONTINUE, POISON; PAGEMAP_SCAN.
    (nr::__NR_ioctl, second(0xC020_AA00)),
    (nr::__NR_ioctl, second(0x8010_AA01)),
    (nr::__NR_ioctl, second(0x8010_AA02)),
    (nr::__NR_ioctl, second(0xC028_AA03)),
    (nr::__NR_ioctl, second(0xC020_AA04)),
    (nr::__NR_ioctl, second(0xC028_AA05)),
    (nr::__NR_ioctl, second(0xC020_AA07)),
    (nr::__NR_ioctl, second(0xC020_AA08)),
    (nr::__NR_ioctl, second(0xC060_6610)),
];

/// What they make less of where it is refused.
pub const WANTED: &[Call] = &[
    (nr::__NR_open, ANY),
    (nr::__NR_openat, ANY),
    (nr::__NR_close, ANY),
    (nr::__NR_write, ANY),
    (nr::__NR_lseek, ANY),
    (nr::__NR_getdents64, ANY),
    (nr::__NR_get_robust_list, ANY),
    (nr::__NR_pidfd_open, ANY),
    (nr::__NR_pidfd_getfd, ANY),
    (nr::__NR_close_range, ANY),
    (nr::__NR_rt_sigprocmask, ANY),
    (nr::__NR_rt_sigaction, ANY),
    (nr::__NR_kill, ANY),
    (nr::__NR_process_vm_readv, ANY),
];

/// What a pager does when it starts.
pub const AT_START: &[Call] = &[
    (nr::__NR_clone, ANY),
    (nr::__NR_prctl, [15, 0, 0]),
    (nr::__NR_prctl, [16, 0, 0]),
    (nr::__NR_sched_getaffinity, ANY),
    (nr::__NR_sched_setaffinity, ANY),
    (nr::__NR_sched_getattr, ANY),
    (nr::__NR_sched_setattr, ANY),
    (nr::__NR_userfaultfd, ANY),
    (nr::__NR_ioctl, second(0xAA00)),
    (nr::__NR_ioctl, second(0xC018_AA3F)),
    (nr::__NR_eventfd2, ANY),
    (nr::__NR_unshare, [nr::CLONE_FILES as u64, 0, 0]),
    (nr::__NR_close_range, ANY),
    (nr::__NR_chdir, ANY),
    (nr::__NR_fstat, ANY),
    (nr::__NR_mmap, ANY),
    (nr::__NR_ftruncate, ANY),
    (nr::__NR_unlink, ANY),
    (nr::__NR_rename, ANY),
    (nr::__NR_pwrite64, ANY),
    (nr::__NR_sysinfo, ANY),
];

/// What threads of the pager do besides where pages are written back. Each may be refused.
pub const BY_WRITING_BACK: &[Call] = &[
    (nr::__NR_pwrite64, ANY),
    (nr::__NR_sync_file_range, ANY),
    (nr::__NR_fallocate, ANY),
];

/// What they do to read it, and what a fork asks then. Each may be refused.
pub const BY_READING_BACK: &[Call] = &[(nr::__NR_fcntl, ANY), (nr::__NR_fstat, ANY)];

/// What threads of the program do in wrappers.
pub const BY_WRAPPERS: &[Call] = &[
    (nr::__NR_gettid, ANY),
    (nr::__NR_rt_sigprocmask, ANY),
    (nr::__NR_futex, second(128)),
    (nr::__NR_futex, second(129)),
    (nr::__NR_nanosleep, ANY),
    (nr::__NR_madvise, third(22)),
    (nr::__NR_madvise, third(23)),
    (nr::__NR_madvise, third(24)),
];

/// What libc's `fork` does: `CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD`.
const FORK: Call = (nr::__NR_clone, [0x0120_0011, 0, 0]);

const ALLOW: u32 = 0x7FFF_0000;
const LOG: u32 = 0x7FFC_0000;
const ERRNO: u32 = 0x0005_0000;
const ACTION: u32 = 0xFFFF_0000;

/// `AUDIT_ARCH_X86_64`.
const ARCHITECTURE: u32 = 0xC000_003E;

/// For which threads a filter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The one that installs it, and what that makes.
    OneThread,
    /// All of the process, those of the pager too.
    AllThreads,
}

/// What the pager's threads do when a filter is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// They run.
    Runs,
    /// One of them waits, and has to start the others yet.
    Waits,
}

/// What a pager does with pages below memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// Nothing: there are none.
    None,
    /// It reads them.
    Reads,
    /// It writes and reads them.
    Writes,
}

/// What a filter does to the pager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that harms it.
    Bearable,
    /// It forbids this call.
    Forbids(u32),
}

/// What `filter` does to the pager: to its threads, running or still to be started, if it is for all; in children and
/// in wrappers otherwise.
pub fn judge(filter: &[Instruction], scope: Scope, state: State) -> Verdict {
    let all_threads = scope == Scope::AllThreads;
    let action = |call: &Call| run(filter, call) & ACTION;
    let allows = |call: &Call| matches!(action(call), ALLOW | LOG);
    let spares = |call: &Call| matches!(action(call), ALLOW | LOG | ERRNO);
    let runs_under_it = all_threads || allows(&FORK);
    let starts_under_it = allows(&FORK) || state == State::Waits && all_threads;
    let needed = NEEDED.iter().filter(|_| runs_under_it);
    let wanted = WANTED.iter().filter(|_| runs_under_it);
    let at_start = AT_START.iter().filter(|_| starts_under_it);
    let mut forbidden = needed.filter(|call| !allows(call)).chain(
        wanted
            .chain(at_start)
            .chain(BY_WRAPPERS)
            .filter(|call| !spares(call)),
    );
    forbidden
        .next()
        .map_or(Verdict::Bearable, |&(number, _)| Verdict::Forbids(number))
}

/// What `filter`, which the pager lives with otherwise, does to it where there are pages below memory.
pub fn judge_writing_back(filter: &[Instruction], write_back: WriteBack) -> Verdict {
    let action = |call: &Call| run(filter, call) & ACTION;
    let spares = |call: &&Call| matches!(action(call), ALLOW | LOG | ERRNO);
    let lists: &[_] = match write_back {
        WriteBack::None => &[],
        WriteBack::Reads => &[BY_READING_BACK],
        WriteBack::Writes => &[BY_READING_BACK, BY_WRITING_BACK],
    };
    let mut calls = lists.iter().copied().flatten();
    let forbidden = calls.find(|call| !spares(call));
    forbidden.map_or(Verdict::Bearable, |&(number, _)| Verdict::Forbids(number))
}

/// What a pager that writes back does once, when it starts.
const TO_BEGIN_WRITING_BACK: &[Call] = &[(nr::__NR_waitid, ANY), (nr::__NR_getrandom, ANY)];

/// What the library does once, when it is loaded.
const AT_LOADING: &[Call] = &[(nr::__NR_uname, ANY)];

/// Whether the program may execute another one under `filter`, and a pager that starts in that would be killed.
pub fn kills_after_exec(filter: &[Instruction], write_back: WriteBack) -> bool {
    let action = |call: &Call| run(filter, call) & ACTION;
    let spares = |call: &Call| matches!(action(call), ALLOW | LOG | ERRNO);
    let always: &[_] = &[NEEDED, WANTED, AT_START, AT_LOADING];
    let then: &[_] = match write_back {
        WriteBack::Reads | WriteBack::Writes => {
            &[BY_WRITING_BACK, BY_READING_BACK, TO_BEGIN_WRITING_BACK]
        }
        WriteBack::None => &[],
    };
    let mut lists = always.iter().chain(then);
    spares(&(nr::__NR_execve, ANY)) && !lists.all(|list| list.iter().all(spares))
}

/// The kernel's most instructions of a filter.
pub const LONGEST: usize = 4096;

/// What the filter returns for a call. What is no valid filter (the kernel will refuse it) allows everything.
fn run(filter: &[Instruction], call: &Call) -> u32 {
    let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
    let mut at = 0;
    while let Some(&Instruction {
        code,
        jump_true,
        jump_false,
        k,
    }) = filter.get(at)
    {
        at += 1;
        let operand = if code & 0x08 != 0 { x } else { k };
        let cell = (k & 15) as usize;
        match (code & 0x07, code) {
            (0x00, 0x20) => a = word(call, k),
            (0x00, 0x80) => a = DATA_BYTES,
            (0x00, 0x00) => a = k,
            (0x00, 0x60) => a = memory[cell],
            (0x01, 0x81) => x = DATA_BYTES,
            (0x01, 0x01) => x = k,
            (0x01, 0x61) => x = memory[cell],
            (0x02, _) => memory[cell] = a,
            (0x03, _) => memory[cell] = x,
            (0x04, _) => match alu(code & 0xF0, a, operand) {
                Some(result) => a = result,
                None => return ALLOW,
            },
            (0x05, 0x05) => at = at.saturating_add(k as usize),
            (0x05, _) => {
                let holds = match code & 0xF0 {
                    0x10 => a == operand,
                    0x20 => a > operand,
                    0x30 => a >= operand,
                    0x40 => a & operand != 0,
                    _ => return ALLOW,
                };
                at += usize::from(if holds { jump_true } else { jump_false });
            }
            (0x06, _) => return if code & 0x18 == 0x10 { a } else { k },
            (0x07, _) if code & 0xF8 == 0x80 => a = x,
            (0x07, _) => x = a,
            _ => return ALLOW,
        }
    }
    ALLOW
}

fn alu(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand).unwrap_or(0),
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.checked_shl(operand).unwrap_or(0),
        0x70 => a.checked_shr(operand).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0xA0 => a ^ operand,
        _ => return None,
    })
}

/// Bytes of `struct seccomp_data`: number, architecture, where it comes from, six arguments.
const DATA_BYTES: u32 = 64;

/// The word at `offset` of the structure.
fn word(&(number, arguments): &Call, offset: u32) -> u32 {
    match offset {
        0 => number,
        4 => ARCHITECTURE,
        16..40 => {
            let argument = arguments[(offset as usize - 16) / 8];
            (if offset.is_multiple_of(8) {
                argument
            } else {
                argument >> 32
            }) as u32
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const KILL: u32 = 0x8000_0000;
    const TRAP: u32 = 0x0003_0000;

    fn instruction(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Instruction {
        Instruction {
            code,
            jump_true,
            jump_false,
            k,
        }
    }

    /// `listed` for the calls of a list, `others` for all others.
    fn filter(numbers: &[u32], listed: u32, others: u32) -> Vec<Instruction> {
        let mut filter = std::vec![instruction(0x20, 0, 0, 0)];
        for &number in numbers {
            filter.push(instruction(0x15, 0, 1, number));
            filter.push(instruction(0x06, 0, 0, listed));
        }
        filter.push(instruction(0x06, 0, 0, others));
        filter
    }

    fn numbers(lists: &[&[Call]]) -> Vec<u32> {
        lists.iter().flat_map(|l| l.iter().map(|c| c.0)).collect()
    }

    #[test]
    fn a_filter_of_what_the_pager_does_not_do_is_bearable() {
        let other = filter(&[nr::__NR_ptrace, nr::__NR_mount], KILL, ALLOW);
        for (scope, state) in [
            (Scope::OneThread, State::Runs),
            (Scope::AllThreads, State::Runs),
            (Scope::AllThreads, State::Waits),
        ] {
            assert_eq!(judge(&other, scope, state), Verdict::Bearable);
        }
    }

    #[test]
    fn what_is_listed_is_all_that_is_needed() {
        let running = numbers(&[NEEDED, WANTED, BY_WRAPPERS]);
        let only = filter(&running, ALLOW, KILL);
        assert_eq!(
            judge(&only, Scope::AllThreads, State::Runs),
            Verdict::Bearable
        );
        // The pager that waits has to start yet.
        assert!(matches!(
            judge(&only, Scope::AllThreads, State::Waits),
            Verdict::Forbids(_)
        ));
        for left_out in running {
            let without: Vec<_> = numbers(&[NEEDED, WANTED, BY_WRAPPERS])
                .into_iter()
                .filter(|&number| number != left_out)
                .collect();
            for action in [KILL, TRAP, 0] {
                assert_eq!(
                    judge(
                        &filter(&without, ALLOW, action),
                        Scope::AllThreads,
                        State::Runs
                    ),
                    Verdict::Forbids(left_out)
                );
            }
        }
    }

    #[test]
    fn writing_back_asks_for_more() {
        let numbers = numbers(&[NEEDED, WANTED, BY_WRAPPERS]);
        let without = filter(&numbers, ALLOW, KILL);
        let judge = |write_back| judge_writing_back(&without, write_back);
        for write_back in [WriteBack::Reads, WriteBack::Writes] {
            assert!(matches!(judge(write_back), Verdict::Forbids(_)));
        }
        let no_holes = filter(&[nr::__NR_fallocate], KILL, ALLOW);
        assert_eq!(
            judge_writing_back(&no_holes, WriteBack::Reads),
            Verdict::Bearable
        );
        assert_ne!(
            judge_writing_back(&no_holes, WriteBack::Writes),
            Verdict::Bearable
        );
        let refused = filter(&numbers, ALLOW, ERRNO | 1);
        assert_eq!(
            judge_writing_back(&refused, WriteBack::Writes),
            Verdict::Bearable
        );
        let no_waitid = filter(&[nr::__NR_waitid], KILL, ALLOW);
        assert!(kills_after_exec(&no_waitid, WriteBack::Writes));
        assert!(!kills_after_exec(&no_waitid, WriteBack::None));
    }

    #[test]
    fn errors_are_borne_where_less_is_made_of_them() {
        let robust = filter(&[nr::__NR_get_robust_list], ERRNO | 1, ALLOW);
        assert_eq!(
            judge(&robust, Scope::AllThreads, State::Runs),
            Verdict::Bearable
        );
        let futex = filter(&[nr::__NR_futex], ERRNO | 1, ALLOW);
        assert_eq!(
            judge(&futex, Scope::AllThreads, State::Runs),
            Verdict::Forbids(nr::__NR_futex)
        );
    }

    #[test]
    fn a_thread_of_its_own_matters_only_where_it_forks_or_calls_wrappers() {
        let start = filter(&[nr::__NR_userfaultfd], KILL, ALLOW);
        assert_eq!(
            judge(&start, Scope::OneThread, State::Runs),
            Verdict::Forbids(nr::__NR_userfaultfd)
        );
        let no_fork = filter(&[nr::__NR_userfaultfd, nr::__NR_clone], KILL, ALLOW);
        assert_eq!(
            judge(&no_fork, Scope::OneThread, State::Runs),
            Verdict::Bearable
        );
        let masks = filter(&[nr::__NR_rt_sigprocmask, nr::__NR_clone], KILL, ALLOW);
        assert_eq!(
            judge(&masks, Scope::OneThread, State::Runs),
            Verdict::Forbids(nr::__NR_rt_sigprocmask)
        );
    }

    #[test]
    fn a_pager_after_exec_is_killed_where_it_may_not_start() {
        let start = filter(&[nr::__NR_userfaultfd, nr::__NR_clone], KILL, ALLOW);
        assert!(kills_after_exec(&start, WriteBack::None));
        let no_exec = filter(&[nr::__NR_userfaultfd, nr::__NR_execve], KILL, ALLOW);
        assert!(!kills_after_exec(&no_exec, WriteBack::None));
        let refuses = filter(&[nr::__NR_userfaultfd], ERRNO | 1, ALLOW);
        assert!(!kills_after_exec(&refuses, WriteBack::None));
    }

    /// Arguments are looked at, with masks and jumps over several instructions.
    #[test]
    fn arguments_are_looked_at() {
        let no_copy = [
            instruction(0x20, 0, 0, 0),
            instruction(0x15, 0, 4, nr::__NR_ioctl),
            instruction(0x20, 0, 0, 24),
            instruction(0x54, 0, 0, 0xFFFF),
            instruction(0x15, 0, 1, 0xAA03),
            instruction(0x06, 0, 0, KILL),
            instruction(0x06, 0, 0, ALLOW),
        ];
        assert_eq!(
            judge(&no_copy, Scope::AllThreads, State::Runs),
            Verdict::Forbids(nr::__NR_ioctl)
        );
        let wrong_architecture = [
            instruction(0x20, 0, 0, 4),
            instruction(0x15, 1, 0, ARCHITECTURE),
            instruction(0x06, 0, 0, KILL),
            instruction(0x06, 0, 0, ALLOW),
        ];
        assert_eq!(
            judge(&wrong_architecture, Scope::AllThreads, State::Waits),
            Verdict::Bearable
        );
    }

    #[test]
    fn what_the_kernel_refuses_ends() {
        for broken in [
            &[][..],
            &[instruction(0x05, 0, 0, u32::MAX)],
            &[instruction(0xFFFF, 0, 0, 0)],
            &[instruction(0x34, 0, 0, 0)],
        ] {
            assert_eq!(
                judge(broken, Scope::AllThreads, State::Runs),
                Verdict::Bearable
            );
        }
    }
}
