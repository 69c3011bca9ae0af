//! The environment variables by which `coldpress run` configures the pager it injects.
//!
//! All of them are read once, when the preload library starts, from the environment block that
//! the kernel handed to the program; the pager never reads the environment again. Numbers are
//! decimal.

/// Budget in bytes for private anonymous resident memory, storage and the pager together;
/// [`NO_BUDGET`](crate::control::NO_BUDGET) where there is none.
pub const BUDGET_BYTES: &str = "COLDPRESS_BUDGET_BYTES";

/// Pages untouched for this many milliseconds are compressed even while the budget is kept;
/// [`COLD_AFTER_AUTO`](crate::control::COLD_AFTER_AUTO): the pager chooses the age.
/// Absent: only the budget drives compression.
pub const COLD_AFTER_MS: &str = "COLDPRESS_COLD_AFTER_MS";

/// The triggers that are switched on, as [`Triggers`](crate::triggers::Triggers) reads them. Absent:
/// all.
pub const TRIGGER: &str = "COLDPRESS_TRIGGER";

/// Name of the codec, as `coldpress-codec` reads it. Absent: the best for the processor.
pub const CODEC: &str = "COLDPRESS_CODEC";

/// Name of the storage, as `coldpress-storage` reads it. Absent: its default.
pub const STORAGE: &str = "COLDPRESS_STORAGE";

/// What has been compressed for this many milliseconds is stored anew, denser; 0: never. Absent: the
/// pager chooses.
pub const RECODE_AFTER_MS: &str = "COLDPRESS_RECODE_AFTER_MS";

/// Values of the engine's tunables, as `name=value`, with blanks between them. Absent: none is set.
pub const TUNABLES: &str = "COLDPRESS_TUNABLES";

/// Directory that receives the statistics file `PID.stats` of each managed process.
pub const STATISTICS_DIR: &str = "COLDPRESS_STATISTICS_DIR";

/// Process that `coldpress run` started. The injection follows it through `execve` (wrapper
/// scripts end in one) and is inert, after removing itself from `LD_PRELOAD`, in every process
/// with another id, unless there is [`FOLLOW`].
pub const ROOT_PID: &str = "COLDPRESS_ROOT_PID";

/// `1`: the library stays in `LD_PRELOAD`, and programs that the program starts are managed too,
/// from the moment when they are worth it.
pub const FOLLOW: &str = "COLDPRESS_FOLLOW_CHILDREN";

/// Descriptor of an open `/dev/userfaultfd`, inherited by the program. Absent: the pager uses
/// the `userfaultfd` system call.
pub const DEVICE_FD: &str = "COLDPRESS_DEVICE_FD";

/// Path of the preload library exactly as it stands in `LD_PRELOAD`, so that it can be removed
/// there before the program starts children.
pub const PRELOAD_PATH: &str = "COLDPRESS_PRELOAD_PATH";

/// Fault injection for the watchdog's own test: the fault handlers sleep this many milliseconds
/// before they answer their first fault.
pub const STALL_FIRST_FAULT_MS: &str = "COLDPRESS_STALL_FIRST_FAULT_MS";

/// File that receives a table of how long the pager's locks were waited for and held, once a second
/// and at the end. Absent: they are not traced.
pub const TRACE_LOCKS: &str = "COLDPRESS_TRACE_LOCKS";

/// File that receives a trace of what reclaim decided when (lines of JSON). Absent: nothing is traced.
pub const TRACE_DECISIONS: &str = "COLDPRESS_TRACE_DECISIONS";

/// Evict pages at random and regardless of the budget: the seed, 1 or more (a test aid).
pub const CHAOS: &str = "COLDPRESS_CHAOS";
