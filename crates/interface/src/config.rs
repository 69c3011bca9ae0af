//! The environment variables around a managed program.
//!
//! Two kinds, with names that cannot be taken for each other. What the user sets begins with `COLDPRESS_`; the command
//! reads it, and it reaches the program unchanged. What `coldpress run` tells the library that it injects
//! ([`handed`]) begins with [`handed::PREFIX`]; another `coldpress run` inside the program removes all of it, so the
//! settings of one run are never taken for the user's wishes in another.
//!
//! The library reads both once, when it starts, from the environment block that the kernel handed to
//! the program; the pager never reads the environment again. Numbers are decimal.

/// The user's: directory for the run files.
pub const STATISTICS_DIR: &str = "COLDPRESS_STATISTICS_DIR";

/// The user's: number of an inherited descriptor of `/dev/userfaultfd`.
pub const DEVICE_FD: &str = "COLDPRESS_DEVICE_FD";

/// The user's, a test aid: evict pages at random and regardless of the budget: the seed, 1 or more.
pub const CHAOS: &str = "COLDPRESS_CHAOS";

/// The user's, fault injection for the watchdog's own test: the fault handlers sleep this many milliseconds
/// before they answer their first fault. Read by the library.
pub const STALL_FIRST_FAULT_MS: &str = "COLDPRESS_STALL_FIRST_FAULT_MS";

/// The user's: file that receives a table of how long the pager's locks were waited for and held, once a second
/// and at the end. Read by the library. Absent: they are not traced.
pub const TRACE_LOCKS: &str = "COLDPRESS_TRACE_LOCKS";

/// The user's: file that receives a record of each fault's stages, as long as it is. Read by the library. Absent: they are not
/// traced.
pub const TRACE_FAULTS: &str = "COLDPRESS_TRACE_FAULTS";

/// What `coldpress run` hands to the library.
pub mod handed {
    /// How each of these names begins, and no other.
    pub const PREFIX: &str = "_COLDPRESS_";

    /// Budget in bytes for private anonymous resident memory, storage and the pager together;
    /// [`NO_BUDGET`](crate::control::NO_BUDGET) where there is none.
    pub const BUDGET_BYTES: &str = "_COLDPRESS_BUDGET_BYTES";

    /// The budget that was asked for, which is in force where the memory group's limit allows it. Absent: it is.
    pub const ASKED_BUDGET_BYTES: &str = "_COLDPRESS_ASKED_BUDGET_BYTES";

    /// The memory groups that the program is in, the innermost first, those without a limit left out but for the first:
    /// of each its limit in bytes, the largest
    /// budget that a program in it may have, and its directory, with a blank between them and [`NEXT_GROUP`] before the
    /// next. Absent: there is none.
    pub const MEMORY_GROUPS: &str = "_COLDPRESS_MEMORY_GROUPS";
    /// What stands between two groups.
    pub const NEXT_GROUP: u8 = b'\n';
    /// No more groups are watched.
    pub const MOST_GROUPS: usize = 4;

    /// Pages untouched for this many milliseconds are compressed even while the budget is kept;
    /// [`COLD_AFTER_AUTO`](crate::control::COLD_AFTER_AUTO): the pager chooses the age.
    /// Absent: only the budget drives compression.
    pub const COLD_AFTER_MS: &str = "_COLDPRESS_COLD_AFTER_MS";

    /// The triggers that are switched on, as [`Triggers`](crate::triggers::Triggers) reads them. Absent:
    /// all.
    pub const TRIGGER: &str = "_COLDPRESS_TRIGGER";

    /// Name of the codec, as `coldpress-codec` reads it. Absent: the best for the processor.
    pub const CODEC: &str = "_COLDPRESS_CODEC";

    /// Name of the storage, as `coldpress-storage` reads it. Absent: its default.
    pub const STORAGE: &str = "_COLDPRESS_STORAGE";

    /// What has been compressed for this many milliseconds is stored anew, denser; 0: never. Absent: the
    /// pager chooses.
    pub const RECODE_AFTER_MS: &str = "_COLDPRESS_RECODE_AFTER_MS";

    /// Values of the engine's tunables, as `name=value`, with blanks between them. Absent: none is set.
    pub const TUNABLES: &str = "_COLDPRESS_TUNABLES";

    /// Path of the [run file](crate::run_file), in which each managed process has a slot.
    pub const RUN_FILE: &str = "_COLDPRESS_RUN_FILE";

    /// Process that `coldpress run` started. The injection follows it through `execve` (wrapper
    /// scripts end in one) and is inert, after removing itself from `LD_PRELOAD`, in every process
    /// with another id, unless there is [`FOLLOW`].
    pub const ROOT_PID: &str = "_COLDPRESS_ROOT_PID";

    /// `1`: what runs now is the program that the person named, and nothing of it has happened yet: where the pager
    /// cannot start, it shall not go on without. The library removes it, so that what the process
    /// executes later goes on.
    pub const FIRST_PROGRAM: &str = "_COLDPRESS_FIRST_PROGRAM";

    /// `1`: the library stays in `LD_PRELOAD`, and programs that the program starts are managed too,
    /// from the moment when they are worth it.
    pub const FOLLOW: &str = "_COLDPRESS_FOLLOW";

    /// Descriptor of an open `/dev/userfaultfd`, inherited by the program. Absent: the pager uses
    /// the `userfaultfd` system call.
    pub const DEVICE_FD: &str = "_COLDPRESS_DEVICE_FD";

    /// Where pages are written back to: an inherited descriptor, device and inode of its file, its size in bytes, and the
    /// bytes that may be written in a day, or `none`. Absent: pages are not written back.
    pub const WRITE_BACK: &str = "_COLDPRESS_WRITE_BACK";

    /// Path of the preload library exactly as it stands in `LD_PRELOAD`, so that it can be removed
    /// there before the program starts children.
    pub const PRELOAD_PATH: &str = "_COLDPRESS_PRELOAD_PATH";

    /// File that receives a trace of what reclaim decided, and when (lines of JSON). Absent: nothing is traced.
    pub const TRACE_DECISIONS: &str = "_COLDPRESS_TRACE_DECISIONS";

    /// Evict pages at random and regardless of the budget: the seed, 1 or more.
    pub const CHAOS: &str = "_COLDPRESS_CHAOS";

    /// Milliseconds between two rounds of [`CHAOS`]. Absent: as few as can be.
    pub const CHAOS_REST_MS: &str = "_COLDPRESS_CHAOS_REST_MS";

    /// 1: the pager asks to be told of every fork, for children that no hook sees.
    pub const RAW_CLONES: &str = "_COLDPRESS_RAW_CLONES";

    /// Anything: the library shall only say that it was loaded ([`TRIAL_ANSWER`], and its version behind it) on
    /// standard output, and end the process before the program begins.
    pub const TRIAL: &str = "_COLDPRESS_TRIAL";

    /// What the library says then.
    pub const TRIAL_ANSWER: &str = "coldpress-preload";

    /// What it says instead where a seccomp filter, under which the process was started, refuses a system call that
    /// the pager cannot do without: this, and the number of the call behind it.
    pub const TRIAL_FORBIDDEN: &str = "coldpress-forbidden";
}
