//! The statistics page: one shared file a managed process, updated with relaxed atomics.
//!
//! The pager maps `PID.stats` read-write; readers map it read-only. Every field is a
//! free-running counter or a gauge of its own, so a reader needs no lock; figures read at one
//! moment may be a few microseconds apart from each other.
//!
//! The first four words never change their place. A reader checks [`Statistics::is_current`]
//! before it believes anything else. What else may change, and what never does, stands at the head
//! of [`page`](crate::page).
//!
//! Names follow RFC-0219: *committed* is memory held in pages, *content* is what is remembered
//! in any form, a *same-filled* page is held as a marker without storage.

use crate::histogram::Histogram;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `"COLDPRS1"`, little-endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"COLDPRS1");

/// Layout version: changes whenever a field changes its place or meaning. It does not change when
/// fields are appended.
pub const VERSION: u64 = 4;

/// Why a page that was chosen for eviction was not compressed, or how a kernel call refused.
/// The discriminant is the index into [`Statistics::failures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Failure {
    /// The page did not compress to the target size; it was put back.
    Incompressible = 0,
    /// `UFFDIO_MOVE` answered EBUSY: pinned, or shared with a forked child until next written.
    MoveBusy = 1,
    /// `UFFDIO_MOVE` answered EAGAIN: the address space was changing.
    MoveAgain = 2,
    /// `UFFDIO_MOVE` answered EINVAL: read-only, locked or otherwise unmovable memory.
    MoveInvalid = 3,
    /// `UFFDIO_MOVE` gave another error, or EEXIST for a page that it had moved: that one is taken all the same.
    MoveOther = 4,
    /// `UFFDIO_REGISTER` was refused (for example EBUSY: the program's own userfaultfd).
    RegisterRefused = 5,
    /// `UFFDIO_COPY` answered EAGAIN while restoring; the restore was repeated.
    CopyAgain = 6,
    /// No storage frame could be had; the page was put back.
    NoStorage = 7,
    /// The page was touched, moved or freed while it was being compressed; the result was dropped.
    Raced = 8,
    /// A stored page failed its checksum; the page was poisoned (SIGBUS on touch).
    Corrupt = 9,
    /// No metadata could be had to track a page; it stays unmanaged.
    NoMetadata = 10,
    /// The kernel refused to put a page in place for a reason that is not known; the page was
    /// poisoned (SIGBUS on touch).
    InstallRefused = 11,
}

/// Number of [`Failure`] reasons.
pub const FAILURES: usize = 12;

impl Failure {
    /// Every reason, in the order of [`Statistics::failures`].
    pub const ALL: [Failure; FAILURES] = [
        Failure::Incompressible,
        Failure::MoveBusy,
        Failure::MoveAgain,
        Failure::MoveInvalid,
        Failure::MoveOther,
        Failure::RegisterRefused,
        Failure::CopyAgain,
        Failure::NoStorage,
        Failure::Raced,
        Failure::Corrupt,
        Failure::NoMetadata,
        Failure::InstallRefused,
    ];

    /// Name as it stands in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Failure::Incompressible => "incompressible",
            Failure::MoveBusy => "move_busy",
            Failure::MoveAgain => "move_again",
            Failure::MoveInvalid => "move_invalid",
            Failure::MoveOther => "move_other",
            Failure::RegisterRefused => "register_refused",
            Failure::CopyAgain => "copy_again",
            Failure::NoStorage => "no_storage",
            Failure::Raced => "raced",
            Failure::Corrupt => "corrupt",
            Failure::NoMetadata => "no_metadata",
            Failure::InstallRefused => "install_refused",
        }
    }
}

/// Bytes of a program's name, as the kernel keeps it.
pub const PROGRAM_BYTES: usize = 16;

/// Bytes of a [`Name`].
pub const NAME_BYTES: usize = 24;

/// A short text of the page, padded with zeros. Longer ones are cut.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Name([AtomicU64; NAME_BYTES / 8]);

impl Name {
    /// An empty one.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; NAME_BYTES / 8])
    }

    /// Sets the text, once, before the page is complete.
    pub fn set(&self, text: &[u8]) {
        let mut bytes = [0; NAME_BYTES];
        let len = text.len().min(NAME_BYTES);
        bytes[..len].copy_from_slice(&text[..len]);
        for (word, bytes) in self.0.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
    }

    /// The text, in the reader's memory. What is not ASCII (a damaged file) ends it.
    pub fn read<'a>(&self, into: &'a mut [u8; NAME_BYTES]) -> &'a str {
        for (word, bytes) in self.0.iter().zip(into.as_chunks_mut::<8>().0) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        let printable = |byte: &u8| (b' '..=b'~').contains(byte);
        let len = into.iter().take_while(|byte| printable(byte)).count();
        core::str::from_utf8(&into[..len]).unwrap_or("")
    }
}

/// Why pages are taken, or not, in this moment: the number in [`Statistics::rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Rule {
    /// Nothing: memory is within the budget, and there is no cold age.
    WithinBudget = 1,
    /// Memory is within the budget; pages go when they are older than the cold age.
    ColdAge = 2,
    /// Memory stands close to the budget: the coldest pages go.
    NearBudget = 3,
    /// Memory stands above the budget: the coldest pages go, and faults wait.
    AboveBudget = 4,
    /// Memory stands above the budget and cannot be brought below: reclaim rests in between.
    OutOfReach = 5,
    /// Everything goes, whatever its heat: a test aid.
    Chaos = 6,
    /// Nothing: the trigger that would act in this moment is switched off.
    SwitchedOff = 7,
    /// The machine is short of memory: the coldest pages go, whatever the budget.
    ShortOfMemory = 8,
    /// Memory is within the budget, and too many of the pages that went for their age came back: for
    /// the rest of the window none goes.
    Guarded = 9,
    /// The memory group, whose limit others share, is nearly full: the coldest pages go, and faults wait, whatever the
    /// budget.
    MemoryGroup = 10,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 10] = [
        Self::WithinBudget,
        Self::ColdAge,
        Self::NearBudget,
        Self::AboveBudget,
        Self::OutOfReach,
        Self::Chaos,
        Self::SwitchedOff,
        Self::ShortOfMemory,
        Self::Guarded,
        Self::MemoryGroup,
    ];

    /// Name as it stands in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WithinBudget => "within_budget",
            Self::ColdAge => "cold_age",
            Self::NearBudget => "near_budget",
            Self::AboveBudget => "above_budget",
            Self::OutOfReach => "out_of_reach",
            Self::Chaos => "chaos",
            Self::SwitchedOff => "switched_off",
            Self::ShortOfMemory => "short_of_memory",
            Self::Guarded => "guarded",
            Self::MemoryGroup => "memory_group",
        }
    }

    /// The rule behind a number.
    pub fn from_word(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| *rule as u64 == word)
    }
}

/// Generations that pages are sorted into by age.
pub const GENERATIONS: usize = 8;

macro_rules! statistics {
    (
        first { $($(#[doc = $doc:literal])* $name:ident,)* }
        appended { $($(#[doc = $more_doc:literal])* $more:ident,)* }
    ) => {
        /// The statistics page of one managed process.
        #[repr(C)]
        #[derive(Debug)]
        pub struct Statistics {
            /// [`MAGIC`] once the page is complete.
            pub magic: AtomicU64,
            /// [`VERSION`] of the layout.
            pub version: AtomicU64,
            /// Process id.
            pub pid: AtomicU64,
            /// Start time of the process in clock ticks since boot (field 22 of
            /// `/proc/PID/stat`), so that a recycled id is not mistaken for the writer.
            pub start_time_ticks: AtomicU64,
            $($(#[doc = $doc])* pub $name: AtomicU64,)*
            /// Pages not evicted, by [`Failure`] reason.
            pub failures: [AtomicU64; FAILURES],
            /// How long pages spent compressed before they were decompressed, RFC-0219
            /// `pages_decompressed_within_log_time`: bucket 0 below one second, bucket n
            /// between 2^(n-1) and 2^n seconds up to 128; the ninth bucket counts longer ones.
            pub decompressed_within_log_seconds: [AtomicU64; 9],
            /// Service time of faults that restored content: from the moment a handler holds
            /// the message until the page is in place, in nanoseconds. The kernel's part of a
            /// fault (entering, waking) is not in it.
            pub fault_service: Histogram,
            /// Name of the codec.
            pub codec: Name,
            /// Name of the storage.
            pub storage: Name,
            /// How far the writer's structure reached, in bytes: what lies behind is not
            /// there. 0: up to here.
            pub filled_bytes: AtomicU64,
            /// Pages in place, by age: the first generation is the newest.
            pub generation_pages: [AtomicU64; GENERATIONS],
            /// How long the pages of each generation were not touched, as far as is known: at least so
            /// many milliseconds.
            pub generation_age_ms: [AtomicU64; GENERATIONS],
            $($(#[doc = $more_doc])* pub $more: AtomicU64,)*
        }

        impl Default for Statistics {
            fn default() -> Self {
                Self::new()
            }
        }

        impl Statistics {
            /// A page of zeros: not current until the writer sets `magic`.
            pub const fn new() -> Self {
                Self {
                    magic: AtomicU64::new(0),
                    version: AtomicU64::new(0),
                    pid: AtomicU64::new(0),
                    start_time_ticks: AtomicU64::new(0),
                    $($name: AtomicU64::new(0),)*
                    failures: [const { AtomicU64::new(0) }; FAILURES],
                    decompressed_within_log_seconds: [const { AtomicU64::new(0) }; 9],
                    fault_service: Histogram::new(),
                    codec: Name::new(),
                    storage: Name::new(),
                    filled_bytes: AtomicU64::new(0),
                    generation_pages: [const { AtomicU64::new(0) }; GENERATIONS],
                    generation_age_ms: [const { AtomicU64::new(0) }; GENERATIONS],
                    $($more: AtomicU64::new(0),)*
                }
            }

            /// What each plain counter and gauge means: its name, and the lines of its comment.
            pub const MEANINGS: &[(&str, &[&str])] = &[
                $((stringify!($name), &[$($doc),*]),)*
                $((stringify!($more), &[$($more_doc),*]),)*
            ];

            /// Every plain counter and gauge that the writer knew, with its name, in the order of
            /// the layout.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                let first = [$((stringify!($name), &self.$name),)*];
                let appended = [$((
                    core::mem::offset_of!(Self, $more),
                    stringify!($more),
                    &self.$more,
                ),)*];
                let appended = appended
                    .into_iter()
                    .filter(|(at, ..)| self.reaches(*at))
                    .map(|(_, name, word)| (name, word));
                first
                    .into_iter()
                    .chain(appended)
                    .map(|(name, word)| (name, word.load(Relaxed)))
            }
        }
    };
}

statistics! {
first {
    /// Budget in force, in bytes.
    budget_bytes,
    /// Age in milliseconds from which pages are compressed eagerly; 0 when only the budget drives.
    cold_after_ms,
    /// Private anonymous resident memory at the last measurement: program pages, storage and
    /// pager together, in bytes. This is what the budget limits.
    total_bytes,
    /// Highest `total_bytes` ever measured.
    peak_total_bytes,
    /// Memory of the program held in pages (`total_bytes` less storage and pager), in bytes.
    committed_bytes,
    /// Memory of the program remembered in any form: committed, compressed or as a marker, in
    /// bytes. What a native run would hold resident.
    content_bytes,
    /// Highest `content_bytes` ever measured.
    peak_content_bytes,
    /// Content that is compressed at this moment, uncompressed size in bytes
    /// (RFC-0219 `uncompressed_content_bytes`); same-filled pages not included.
    stored_content_bytes,
    /// Content held as same-filled or zero markers, uncompressed size in bytes.
    same_filled_bytes,
    /// Memory of compressed storage, in bytes: `payload_bytes`, `object_header_bytes`,
    /// `fragmentation_bytes` and `idle_frames_bytes` together.
    storage_bytes,
    /// Payload bytes in compressed storage: compressed data alone.
    payload_bytes,
    /// Bytes of frames in use that are in no stored object (RFC-0219 `compressed_fragmentation_bytes`).
    fragmentation_bytes,
    /// The pager's own resident memory besides storage: tables, staging, stacks, in bytes.
    overhead_bytes,
    /// Pages evicted so far.
    evictions,
    /// Compressions tried, ever (RFC-0219 `total_page_compression_attempts`).
    compression_attempts,
    /// Compressions whose result was not kept (RFC-0219 `failed_page_compression_attempts`).
    failed_compressions,
    /// Pages decompressed, ever (RFC-0219 `total_page_decompressions`).
    decompressions,
    /// Compressed pages freed without being decompressed (RFC-0219 `compressed_page_evictions`).
    freed_compressed,
    /// Pages compressed because of their age alone (RFC-0219 `eager_page_compressions`).
    eager_compressions,
    /// Pages compressed to keep the budget (RFC-0219 `memory_pressure_page_compressions`).
    pressure_compressions,
    /// Pages compressed while memory stood above the budget (RFC-0219 `critical_memory_page_compressions`).
    critical_compressions,
    /// Faults answered, of every kind.
    faults,
    /// Faults answered with decompressed content.
    faults_decompressed,
    /// Faults answered with a copy of a page that was being compressed.
    faults_copied,
    /// Faults answered with a same-filled page out of a marker.
    faults_same_filled,
    /// Faults answered with a fresh zero page.
    faults_zero,
    /// Faults on pages that were already back (another thread's fault brought them).
    faults_present,
    /// Address-space events handled (unmap, remap, remove).
    events,
    /// Forks survived by this process as the parent.
    forks,
    /// 1 in a forked child whose pager was rebuilt, 2 in one whose content was restored completely
    /// because it could not have a userfaultfd.
    fork_child_mode,
    /// Time compression spent on a CPU, in nanoseconds (RFC-0219 `compression_time`).
    compression_time_ns,
    /// Time decompression spent on a CPU, in nanoseconds (RFC-0219 `decompression_time`).
    decompression_time_ns,
    /// Stored objects that compaction moved.
    compaction_moves,
    /// Frames of storage that compaction made free, those that it took not counted.
    compaction_frames,
    /// Time compaction took, in nanoseconds.
    compaction_time_ns,
    /// User time of the pager's threads, in nanoseconds.
    pager_user_time_ns,
    /// Kernel time of the pager's threads, in nanoseconds.
    pager_system_time_ns,
    /// Faults not answered within a second, as reported by the watchdog.
    stalled_faults,
    /// Thread of the last stalled fault.
    stalled_thread,
    /// Address of the last stalled fault.
    stalled_address,
    /// Lowest number of evictions seen on any page of the program that has been evicted at
    /// least once and is still tracked (counted to 255). Only under `--chaos`; otherwise 0.
    least_evictions_of_a_page,
    /// Pages that are tracked by the pager, resident or not.
    tracked_pages,
    /// Pages in the ranges that are registered with userfaultfd.
    registered_pages,
    /// Reclaim rounds that could not reach the budget; reclaim backs off then.
    budget_misses,
    /// Monotonic time of the last budget measurement, in nanoseconds.
    measured_at_ns,
    /// Budget measurements taken, ever.
    measurements,
    /// Longest pause between two budget measurements, in nanoseconds.
    longest_measurement_gap_ns,
}
appended {
    /// Triggers that are switched on ([`Triggers`](crate::triggers::Triggers)).
    triggers,
    /// Why pages are evicted, or not, at this moment ([`Rule`]).
    rule,
    /// Most memory ever saved: content less all that was held, in bytes.
    peak_saved_bytes,
    /// Resident pages that could not be compressed or evicted, and wait to be tried again.
    failed_pages,
    /// Half of all compressions took at most so long, in nanoseconds.
    compression_p50_ns,
    /// 90 % of all compressions took at most so long, in nanoseconds.
    compression_p90_ns,
    /// 99 % of all compressions took at most so long, in nanoseconds.
    compression_p99_ns,
    /// 99.9 % of all compressions took at most so long, in nanoseconds.
    compression_p999_ns,
    /// The longest compression, in nanoseconds.
    compression_longest_ns,
    /// Half of all decompressions took at most so long, in nanoseconds.
    decompression_p50_ns,
    /// 90 % of all decompressions took at most so long, in nanoseconds.
    decompression_p90_ns,
    /// 99 % of all decompressions took at most so long, in nanoseconds.
    decompression_p99_ns,
    /// 99.9 % of all decompressions took at most so long, in nanoseconds.
    decompression_p999_ns,
    /// The longest decompression, in nanoseconds.
    decompression_longest_ns,
    /// Number of the last request that was answered ([`control`](crate::control)).
    control_answered,
    /// Why it was refused ([`Refusal`](crate::control::Refusal)); 0: it was done.
    control_refusal,
    /// 1 if the pager chooses the cold age itself.
    cold_age_is_chosen,
    /// How often the pager made the cold age longer, because of too many refaults.
    cold_age_longer,
    /// How often the pager made the cold age shorter, because of hardly any refaults.
    cold_age_shorter,
    /// Pages passed over because they had refaulted soon before.
    second_chances,
    /// Pages read ahead.
    read_ahead,
    /// The process that `coldpress run --follow` started, if this is one of those that it manages
    /// together; 0 otherwise.
    run_pid,
    /// Name of the program: its first eight bytes ([`Statistics::program`]).
    program_head,
    /// The other eight.
    program_tail,
    /// Pages from which the tables of the denser codec were, or are being, made; 0: it is not in use.
    recode_sample_pages,
    /// Stored pages that were recompressed, or tried.
    recode_attempts,
    /// Of these: pages that became small enough and replaced the stored one.
    recoded_pages,
    /// Bytes by which these became smaller, ever.
    recode_saved_bytes,
    /// Processor time of recompression, in nanoseconds: looking for pages, making tables, encoding.
    recode_time_ns,
    /// Why the decision trace is incomplete, as an error number of the kernel; 0: it is complete.
    trace_error,
    /// Time over which the pager has measured memory, in nanoseconds; averages are over this time.
    managed_ns,
    /// Average of `total_bytes` over `managed_ns`.
    average_total_bytes,
    /// Average of `content_bytes` over `managed_ns`.
    average_content_bytes,
    /// Of a forked child: `total_bytes` of its parent when it was forked, which the two share until one of them writes.
    inherited_total_bytes,
    /// Of a forked child: `content_bytes` of its parent when it was forked. Natively the two would share it.
    inherited_content_bytes,
    /// Time in which a budget was in force, in nanoseconds.
    budgeted_ns,
    /// Of `budgeted_ns`: time in which memory was above the budget in force at that time, in nanoseconds. The
    /// time until memory has come down to a budget that was just lowered does not count.
    above_budget_ns,
    /// The most by which memory was above the budget in force at that time, in bytes.
    most_above_budget_bytes,
    /// Time that threads of the program waited for faults, summed over all threads, in nanoseconds: from
    /// the moment when a handler has read the message until the page is in place, waiting for room below
    /// the budget included. The kernel's own part of a fault is not in it.
    fault_wait_ns,
    /// The longest of these waits, in nanoseconds.
    longest_fault_wait_ns,
    /// Processor time of the program's own threads since the pager started, in nanoseconds.
    program_cpu_ns,
    /// Processor time of the pager's threads, in nanoseconds; `pager_user_time_ns` and
    /// `pager_system_time_ns` are rounded to clock ticks.
    pager_cpu_ns,
    /// Bytes of headers of stored objects: checksum, time, owner.
    object_header_bytes,
    /// Frames of storage that hold nothing at the moment and were not given back yet, in bytes.
    idle_frames_bytes,
    /// Of `same_filled_bytes`: zeros.
    zero_bytes,
    /// User time of the program's own threads since the pager started, in nanoseconds: of `program_cpu_ns`, what it did not
    /// spend in the kernel.
    program_user_ns,
    /// Time that fault handlers were ready to run and waited for a processor, in nanoseconds.
    pager_ready_ns,
    /// How often a fault handler was given a processor.
    pager_switches,
    /// 1 if the pager has left the program, which goes on without compression: these figures are of the time before.
    pager_left,
    /// How often a parked handler was called because threads fault on its processor.
    handlers_called,
    /// How often memory that held nothing of the pager's was unregistered, so that the kernel alone fills it.
    unregistrations,
    /// Pages of memory that was unregistered since it held nothing of the pager's, ever.
    unregistered_pages,
    /// Pages whose content is in the file of `--writeback` now (zram: `bd_count`).
    written_back_pages,
    /// Pages written back, ever (zram: `bd_writes`).
    write_backs,
    /// Pages read back, ever (zram: `bd_reads`).
    read_backs,
    /// Bytes of the file of `--writeback` that hold pages now.
    written_back_bytes,
    /// Bytes written to the file of `--writeback`, ever, with those that cleaning moved.
    write_back_file_bytes,
    /// Writes that the file of `--writeback` refused, for want of space or by an error; the pages stayed in memory.
    write_back_errors,
    /// Pages that were not written back because the file of `--writeback` was full or the limit of the day was reached.
    write_back_refusals,
    /// Reads of the file of `--writeback` that failed or returned wrong bytes; each is tried twice.
    read_back_errors,
    /// Pages that could not be read back, and are poisoned (SIGBUS on touch).
    failed_read_backs,
    /// Half of all reads of a page from the file of `--writeback` took at most so long, in nanoseconds.
    read_back_p50_ns,
    /// 99 % of all reads of a page from the file of `--writeback` took at most so long, in nanoseconds.
    read_back_p99_ns,
    /// The longest read of a page from the file of `--writeback`, in nanoseconds.
    read_back_longest_ns,
    /// What counts against the budget beside `total_bytes`, in bytes, since the memory group, whose limit others share,
    /// holds so much.
    beside_bytes,
    /// Of `most_above_budget_bytes`, against the present budget alone, in bytes: 0 since it was changed until memory is above
    /// it.
    most_above_present_budget_bytes,
    /// Time that forks took beside the kernel's own work, in nanoseconds: in the process that forks, until its pager is
    /// still and after it goes on.
    fork_wait_ns,
}
}

impl Statistics {
    /// Whether the page was completed by a writer of this layout.
    pub fn is_current(&self) -> bool {
        self.magic.load(Relaxed) == MAGIC && self.version.load(Relaxed) == VERSION
    }

    /// Whether the writer knew the word at `offset`, which was appended.
    fn reaches(&self, offset: usize) -> bool {
        self.filled_bytes.load(Relaxed) >= (offset + size_of::<u64>()) as u64
    }

    /// Whether the writer sorts pages by age, has triggers and rules, and answers requests: all but
    /// the very first do.
    pub fn answers(&self) -> bool {
        self.reaches(core::mem::offset_of!(Self, control_refusal))
    }

    /// Notes what the program is called.
    pub fn set_program(&self, name: &[u8; PROGRAM_BYTES]) {
        let words = [&self.program_head, &self.program_tail];
        for (word, bytes) in words.into_iter().zip(name.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
    }

    /// What the program is called, padded with zeros; all zeros where that is not known.
    pub fn program(&self) -> [u8; PROGRAM_BYTES] {
        let mut name = [0; PROGRAM_BYTES];
        let words = [&self.program_head, &self.program_tail];
        for (word, bytes) in words.into_iter().zip(name.as_chunks_mut::<8>().0) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        name
    }

    /// Counts one page that was not evicted, or one refusal, under its reason.
    pub fn fail(&self, reason: Failure) {
        self.failures[reason as usize].fetch_add(1, Relaxed);
    }

    /// How often `reason` was counted.
    pub fn failed(&self, reason: Failure) -> u64 {
        self.failures[reason as usize].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_cut_and_never_damage_the_reader() {
        let name = Name::new();
        let mut into = [0xFF; NAME_BYTES];
        assert_eq!(name.read(&mut into), "");
        name.set(b"lz4-rust:65537");
        assert_eq!(name.read(&mut into), "lz4-rust:65537");
        name.set(b"one that is much too long for it");
        assert_eq!(name.read(&mut into), "one that is much too lon");
        name.set(b"press\xFF\x1b[2J");
        assert_eq!(name.read(&mut into), "press");
    }

    /// Where the fields of layout 3 stand, for good: who compiles this into a command reads the pages
    /// of every pager of that layout. New fields go to the end of the list of appended ones.
    #[test]
    fn no_field_of_this_layout_ever_moves() {
        use core::mem::offset_of;
        assert_eq!(VERSION, 4);
        for (found, promised) in [
            (offset_of!(Statistics, budget_bytes), 32),
            (offset_of!(Statistics, total_bytes), 48),
            (offset_of!(Statistics, faults), 200),
            (offset_of!(Statistics, longest_measurement_gap_ns), 400),
            (offset_of!(Statistics, failures), 408),
            (offset_of!(Statistics, fault_service), 576),
            (offset_of!(Statistics, codec), 1600),
            (offset_of!(Statistics, filled_bytes), 1648),
            (offset_of!(Statistics, triggers), 1784),
            (offset_of!(Statistics, control_refusal), 1904),
        ] {
            assert_eq!(found, promised);
        }
    }

    #[test]
    fn the_programs_name_is_kept_whole() {
        let page = Statistics::new();
        assert_eq!(page.program(), [0; PROGRAM_BYTES]);
        page.set_program(b"sixteen-bytes-16");
        assert_eq!(&page.program(), b"sixteen-bytes-16");
    }

    #[test]
    fn what_the_writer_did_not_know_is_left_out() {
        let page = Statistics::new();
        page.rule.store(9, Relaxed);
        let names = |page: &Statistics| page.fields().map(|(name, _)| name).last();
        assert_eq!(names(&page), Some("longest_measurement_gap_ns"));
        assert!(!page.answers());
        let rule = core::mem::offset_of!(Statistics, rule) as u64;
        page.filled_bytes.store(rule + 8, Relaxed);
        assert_eq!(names(&page), Some("rule"));
        page.filled_bytes.store(u64::MAX, Relaxed);
        // What is appended has its name here: figures stand in the order in which they came.
        assert!(names(&page) == Some("fork_wait_ns") && page.answers());
    }
}
