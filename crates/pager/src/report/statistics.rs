//! The statistics page: its beginning, and bringing the engine's figures into it.

use crate::Pager;
use crate::machine::os::Os;
use crate::machine::run_file;
use crate::settings::config::Config;
use crate::settings::watermarks::Watermarks;
use coldpress_engine::tunables::{Linux, TABLE};
use coldpress_engine::{Counters, HEADER_BYTES, Trigger};
use coldpress_interface::control::{COLD_AFTER_AUTO, NO_BUDGET};
use coldpress_interface::page::Page;
use coldpress_interface::statistics::{
    Failure, MAGIC, NAME_BYTES, Name, Rule, Statistics, VERSION,
};
use coldpress_interface::triggers::Triggers;
use coldpress_linux::proc_stat::{self, TICK_NS, process_user_ns, stat_field};
use coldpress_linux::sys;
use coldpress_linux::text::Text;
use coldpress_storage::Usage;
use coldpress_uffd::PAGE_SIZE;
use core::fmt::Write;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

/// What is remembered between two times of bringing the page up to date.
pub(crate) struct Figures {
    /// Of what a forked child has, its parent had saved so much: [`UNKNOWN`] until the first measurement. A parent has
    /// saved nothing for another.
    inherited_saved_bytes: AtomicU64,
    /// Pages that a forked child found in its storage at its beginning.
    inherited_stored_pages: AtomicU64,
    /// When those were brought up to date that take more than a few loads.
    slow_at_ns: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Figures {
    pub(crate) const fn new() -> Self {
        Self {
            inherited_saved_bytes: AtomicU64::new(0),
            inherited_stored_pages: AtomicU64::new(0),
            slow_at_ns: AtomicU64::new(0),
        }
    }

    /// What this process itself saves.
    fn own_savings(&self, saved_bytes: u64) -> u64 {
        let inherited = match self.inherited_saved_bytes.load(Relaxed) {
            UNKNOWN => {
                self.inherited_saved_bytes.store(saved_bytes, Relaxed);
                saved_bytes
            }
            known => known,
        };
        saved_bytes.saturating_sub(inherited)
    }
}

impl<O: Os> Pager<O> {
    /// In the child of a fork: what the parent did is not counted a second time.
    pub(crate) fn begin_figures_in_child(&self) {
        let counters = self.engine.counters();
        counters.begin_anew();
        self.figures
            .inherited_stored_pages
            .store(counters.compressed_pages.load(Relaxed), Relaxed);
        self.figures.inherited_saved_bytes.store(UNKNOWN, Relaxed);
    }

    /// Pages that were ever stored by this process, or that it began with.
    pub(crate) fn ever_stored_pages(&self) -> u64 {
        let stored = self.engine.counters().kept_stored.load(Relaxed);
        stored + self.figures.inherited_stored_pages.load(Relaxed)
    }

    /// Makes the page of this process: a slot of the run file, or one that nobody reads.
    ///
    /// # Safety
    /// Nobody uses an earlier page of this process from now on.
    pub unsafe fn create_page(&'static self) -> *mut Page {
        let config = self.config();
        // SAFETY: as the caller promises.
        let page = unsafe { run_file::claim(&self.private_page) };
        // SAFETY: a page that stays, of nothing but atomics and padding.
        let statistics = unsafe { &(*page).statistics };
        statistics.pid.store(u64::from(sys::process_id()), Relaxed);
        statistics.start_time_ticks.store(start_time(), Relaxed);
        statistics
            .run_pid
            .store(u64::from(config.root_pid), Relaxed);
        statistics.set_program(&sys::process_name());
        statistics
            .filled_bytes
            .store(size_of::<Statistics>() as u64, Relaxed);
        statistics.version.store(VERSION, Relaxed);
        statistics.magic.store(MAGIC, Release);
        page
    }
}

/// Writes what `value` is called.
pub(crate) fn name(name: &Name, value: impl core::fmt::Display) {
    let mut text = Text::<NAME_BYTES>::default();
    let _ = write!(text, "{value}");
    name.set(text.as_bytes());
}

/// Field 22 of `/proc/self/stat`.
fn start_time() -> u64 {
    stat_field(c"/proc/self/stat", 22).unwrap_or(0)
}

impl<O: Os> Pager<O> {
    /// Processor time of the pager's threads, summed, in nanoseconds, and how long those that answer faults waited for a
    /// processor: the reclaim thread waits for reasons of its own, and nobody for it.
    pub fn publish_cpu_time(&self) {
        let threads = self.threads.ids();
        let (mut user, mut system, mut own) = (0, 0, 0);
        let (mut ready_ns, mut switches) = (0, 0);
        let all = O::process_cpu_ns();
        for (number, thread) in threads.enumerate() {
            own += O::thread_cpu_ns(thread);
            // The first is the reclaim thread.
            let is_reclaims = number == 0;
            if !is_reclaims && let Some((ns, times)) = proc_stat::ready(thread) {
                ready_ns += ns;
                switches += times;
            }
            let mut path = Text::<64>::default();
            let _ = write!(path, "/proc/self/task/{thread}/stat");
            if let Some(path) = path.as_c_str() {
                user += stat_field(path, 14).unwrap_or(0) * TICK_NS;
                system += stat_field(path, 15).unwrap_or(0) * TICK_NS;
            }
        }
        let statistics = self.host.statistics();
        statistics.pager_user_time_ns.store(user, Relaxed);
        statistics.pager_system_time_ns.store(system, Relaxed);
        statistics.pager_cpu_ns.store(own, Relaxed);
        statistics.pager_ready_ns.store(ready_ns, Relaxed);
        statistics.pager_switches.store(switches, Relaxed);
        let since = self.account.process_cpu_before_ns();
        statistics
            .program_cpu_ns
            .store(all.saturating_sub(since + own), Relaxed);
        let pagers = self.account.process_user_before_ns() + user;
        statistics
            .program_user_ns
            .store(process_user_ns().saturating_sub(pagers), Relaxed);
    }

    /// Brings the page up to date, with private anonymous resident memory as just measured.
    pub fn publish(&self, total_bytes: u64) {
        let memory = self.publish_memory(total_bytes);
        self.publish_account(total_bytes, memory.content);
        copy_counters(self.host.statistics(), self.engine.counters());
        let s = self.host.statistics();
        let resident = u64::from(self.engine.resident_pages());
        let tracked = resident + memory.away / PAGE_SIZE as u64;
        s.tracked_pages.store(tracked, Relaxed);
        let rule = self.rule(&self.config(), total_bytes);
        s.rule.store(rule as u64, Relaxed);
        s.beside_bytes
            .store(self.pressure.beside_bytes.load(Relaxed), Relaxed);
        s.cold_after_ms.store(self.control.cold_age_ms(), Relaxed);
        let now = O::now_ns();
        if now.saturating_sub(self.figures.slow_at_ns.load(Relaxed)) >= SLOW_FIGURES_NS {
            self.figures.slow_at_ns.store(now, Relaxed);
            self.publish_slow_figures();
        }
    }

    /// What the memory is used for.
    fn publish_memory(&self, total_bytes: u64) -> MemoryUse {
        let (s, c) = (self.host.statistics(), self.engine.counters());
        let set = |field: &AtomicU64, value: u64| field.store(value, Relaxed);
        let page = PAGE_SIZE as u64;
        let usage = self.engine.storage_usage();
        let storage = u64::from(self.host.memory.backed_frames()) * page;
        let tables = self.engine.metadata_bytes() + self.host.windows.touched_bytes();
        let overhead = tables as u64 + self.fixed_overhead_bytes();
        let stored = c.compressed_pages.load(Relaxed) * page;
        let same = c.same_filled_pages.load(Relaxed) * page;
        let committed = total_bytes.saturating_sub(storage + overhead);
        let content = committed + stored + same;
        set(&s.total_bytes, total_bytes);
        s.peak_total_bytes.fetch_max(total_bytes, Relaxed);
        set(&s.committed_bytes, committed);
        set(&s.content_bytes, content);
        s.peak_content_bytes.fetch_max(content, Relaxed);
        set(&s.stored_content_bytes, stored);
        set(&s.same_filled_bytes, same);
        set(&s.zero_bytes, c.zero_pages.load(Relaxed) * page);
        set(&s.storage_bytes, storage);
        let parts = Parts::of(storage, &usage);
        set(&s.payload_bytes, parts.payload);
        set(&s.object_header_bytes, parts.headers);
        set(&s.fragmentation_bytes, parts.fragmentation);
        set(&s.idle_frames_bytes, parts.idle);
        set(&s.overhead_bytes, overhead);
        MemoryUse {
            content,
            away: stored + same,
        }
    }

    /// What was held and saved over time, and how the budget was kept.
    fn publish_account(&self, total_bytes: u64, content: u64) {
        let s = self.host.statistics();
        let saved = content.saturating_sub(total_bytes);
        s.peak_saved_bytes
            .fetch_max(self.figures.own_savings(saved), Relaxed);
        let config = self.config();
        let budget = match config.chaos {
            Some(_) => NO_BUDGET,
            None => Watermarks::in_force(&config).budget(),
        };
        self.account
            .observe(O::now_ns(), total_bytes, content, budget);
        self.account.publish(s);
    }
}

/// Bytes of the program's content.
struct MemoryUse {
    /// In any form.
    content: u64,
    /// That is away.
    away: u64,
}

/// Brings what the engine counts up to date.
fn copy_counters(s: &Statistics, c: &Counters) {
    let within = s.decompressed_within_log_seconds.iter();
    let pairs = [
        (&s.evictions, &c.evictions),
        (&s.second_chances, &c.second_chances),
        (&s.read_ahead, &c.read_ahead),
        (&s.recode_attempts, &c.recode_attempts),
        (&s.written_back_pages, &c.written_back_pages),
        (&s.write_backs, &c.write_backs),
        (&s.read_backs, &c.read_backs),
        (&s.failed_read_backs, &c.failed_read_backs),
        (&s.recoded_pages, &c.recoded),
        (&s.recode_saved_bytes, &c.recode_saved_bytes),
        (&s.compression_attempts, &c.compression_attempts),
        (&s.failed_compressions, &c.failed_compressions),
        (&s.decompressions, &c.decompressions),
        (&s.freed_compressed, &c.freed_compressed),
        (&s.eager_compressions, &c.eager_compressions),
        (&s.pressure_compressions, &c.pressure_compressions),
        (&s.critical_compressions, &c.critical_compressions),
        (&s.faults_decompressed, &c.faults_decompressed),
        (&s.faults_copied, &c.faults_copied),
        (&s.faults_same_filled, &c.faults_same_filled),
        (&s.faults_zero, &c.faults_zero),
        (&s.faults_present, &c.faults_present),
        (&s.compression_time_ns, &c.compression_time_ns),
        (&s.decompression_time_ns, &c.decompression_time_ns),
        (&s.compaction_moves, &c.compaction_moves),
        (&s.compaction_time_ns, &c.compaction_time_ns),
        (
            &s.failures[Failure::Incompressible as usize],
            &c.incompressible,
        ),
        (&s.failures[Failure::NoStorage as usize], &c.no_storage),
        (&s.failures[Failure::Raced as usize], &c.raced),
        (&s.failures[Failure::NoMetadata as usize], &c.no_metadata),
    ];
    let all = pairs
        .into_iter()
        .chain(within.zip(&c.decompressed_within_log_seconds));
    for (field, counter) in all {
        field.store(counter.load(Relaxed), Relaxed);
    }
    let freed = c.compaction_frames_freed.load(Relaxed);
    let taken = c.compaction_frames_taken.load(Relaxed);
    s.compaction_frames
        .store(freed.saturating_sub(taken), Relaxed);
}

/// What storage is made of, in bytes. It is read while others store, so what does not add up for a moment is cut.
struct Parts {
    payload: u64,
    headers: u64,
    fragmentation: u64,
    idle: u64,
}

impl Parts {
    fn of(storage: u64, usage: &Usage) -> Self {
        let idle = storage.saturating_sub(usage.storage_bytes as u64);
        let objects = (usage.payload_bytes as u64).min(storage - idle);
        let headers = (usage.objects as u64 * HEADER_BYTES as u64).min(objects);
        Self {
            payload: objects - headers,
            headers,
            fragmentation: storage - idle - objects,
            idle,
        }
    }
}

/// How often those figures are brought up to date that take more than a few loads.
const SLOW_FIGURES_NS: u64 = 250_000_000;

impl<O: Os> Pager<O> {
    /// Brings the settings in force up to date.
    pub fn publish_settings(&self) {
        let (s, config) = (self.host.statistics(), self.config());
        s.budget_bytes.store(config.budget_bytes, Relaxed);
        s.cold_after_ms.store(self.control.cold_age_ms(), Relaxed);
        let chosen = config.cold_after_ms == COLD_AFTER_AUTO;
        s.cold_age_is_chosen.store(chosen.into(), Relaxed);
        s.triggers.store(config.triggers.bits(), Relaxed);
        self.publish_tunables();
        let total_bytes = self.pressure.total_bytes.load(Relaxed);
        s.rule
            .store(self.rule(&config, total_bytes) as u64, Relaxed);
    }

    /// Why pages are taken, or not, with so much memory.
    fn rule(&self, config: &Config, total_bytes: u64) -> Rule {
        if config.chaos.is_some() {
            return Rule::Chaos;
        }
        let watermarks = Watermarks::of(config.budget_bytes);
        let beside = self.pressure.beside_bytes.load(Relaxed);
        match watermarks.trigger(total_bytes, config) {
            Some(_) if self.pressure.hopeless.load(Relaxed) => Rule::OutOfReach,
            Some(_) if total_bytes > config.budget_bytes => Rule::AboveBudget,
            Some(_) => Rule::NearBudget,
            None if watermarks.is_near(total_bytes) => Rule::SwitchedOff,
            None if watermarks.trigger(total_bytes + beside, config).is_some() => Rule::MemoryGroup,
            None if self.pressure.machine_is_short.load(Relaxed) => Rule::ShortOfMemory,
            None if config.cold_after_ms > 0 && config.allows(Trigger::Eager) => {
                match self.control.is_guarded() {
                    true => Rule::Guarded,
                    false => Rule::ColdAge,
                }
            }
            None if config.triggers == Triggers::NONE => Rule::SwitchedOff,
            None => Rule::WithinBudget,
        }
    }

    /// Brings what the engine works by up to date.
    fn publish_tunables(&self) {
        let Some(page) = self.control.page() else {
            return;
        };
        let tunables = self.engine.tunables().load();
        let values = TABLE
            .iter()
            .filter(|row| row.linux != Linux::Never)
            .filter_map(|row| Some((row.name, tunables.word(row.name)?)));
        page.figures.tunables.fill(values);
    }

    /// Brings the figures up to date that take more than a few loads: latencies, ages, and all that the engine tells
    /// of itself under its own names.
    pub fn publish_slow_figures(&self) {
        let (s, engine) = (self.host.statistics(), &self.engine);
        let c = engine.counters();
        if let Some(page) = self.control.page() {
            let figures = engine.figures();
            let values = figures.map(|figure| (figure.name, figure.value));
            page.figures.engine.fill(values);
        }
        let set = |field: &AtomicU64, value: u64| field.store(value, Relaxed);
        let (waited, longest) = self.fault_waits();
        set(&s.fault_wait_ns, waited);
        set(&s.longest_fault_wait_ns, longest);
        let p = c.compression_latency.percentiles();
        set(&s.compression_p50_ns, p.p50_ns);
        set(&s.compression_p90_ns, p.p90_ns);
        set(&s.compression_p99_ns, p.p99_ns);
        set(&s.compression_p999_ns, p.p999_ns);
        set(&s.compression_longest_ns, p.longest_ns);
        let p = c.decompression_latency.percentiles();
        set(&s.decompression_p50_ns, p.p50_ns);
        set(&s.decompression_p90_ns, p.p90_ns);
        set(&s.decompression_p99_ns, p.p99_ns);
        set(&s.decompression_p999_ns, p.p999_ns);
        set(&s.decompression_longest_ns, p.longest_ns);
        self.publish_tier();
        let counts = engine.queue_counts();
        set(&s.failed_pages, u64::from(counts.failed));
        for (to, pages) in s.generation_pages.iter().zip(counts.generations) {
            set(to, u64::from(pages));
        }
        for (to, ns) in s
            .generation_age_ms
            .iter()
            .zip(engine.generation_ages_ns(self))
        {
            set(to, ns / 1_000_000);
        }
    }

    /// What the file of `--writeback` holds, and did.
    fn publish_tier(&self) {
        let Some(counts) = self.tier.counts() else {
            return;
        };
        let s = self.host.statistics();
        let set = |field: &AtomicU64, value: u64| field.store(value, Relaxed);
        set(&s.written_back_bytes, counts.live_bytes);
        set(&s.write_back_file_bytes, counts.written_bytes);
        let errors = counts.write_errors + counts.no_space_errors + counts.short_writes;
        set(&s.write_back_errors, errors);
        let refusals = counts.refused_full + counts.refused_budget;
        set(&s.write_back_refusals, refusals);
        let errors = counts.read_errors + counts.short_reads + counts.damaged_reads;
        set(&s.read_back_errors, errors);
        let p = self.tier.latency.percentiles();
        set(&s.read_back_p50_ns, p.p50_ns);
        set(&s.read_back_p99_ns, p.p99_ns);
        set(&s.read_back_longest_ns, p.longest_ns);
    }

    /// How long threads of the program have waited for faults, in all and at most; those that wait now included.
    pub(crate) fn fault_waits(&self) -> (u64, u64) {
        let now = O::now_ns();
        let (mut waited, mut longest) = (0, 0);
        let count = self.handler_count.load(Relaxed);
        for handler in &self.handlers[..count] {
            let pending = match handler.since_ns.load(Relaxed) {
                0 => 0,
                since => now.saturating_sub(since),
            };
            waited += handler.waited_ns.load(Relaxed) + pending;
            longest = longest.max(handler.longest_ns.load(Relaxed)).max(pending);
        }
        (waited, longest)
    }

    /// Brings the figures up to date that take a walk through all windows. How often each page was evicted is only
    /// asked where chaos evicts: that takes a load for every page there is, a millisecond for 4 GiB.
    pub fn publish_windows(&self) {
        let (s, windows) = (self.host.statistics(), &self.host.windows);
        let registered = windows.iter().map(|(_, w)| w.registered_pages()).sum();
        s.registered_pages.store(registered, Relaxed);
        if self.config().chaos.is_some() {
            let least = windows.iter().filter_map(|(_, w)| w.least_evictions());
            s.least_evictions_of_a_page
                .store(least.min().map_or(0, u64::from), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_storage_add_up() {
        let usage = |held, objects, payload_bytes| Usage {
            storage_bytes: held,
            objects,
            payload_bytes,
            ..Usage::default()
        };
        let parts = Parts::of(40_960, &usage(32_768, 10, 20_000));
        assert_eq!(
            (
                parts.payload,
                parts.headers,
                parts.fragmentation,
                parts.idle
            ),
            (19_880, 120, 12_768, 8_192)
        );
        for (storage, held, objects, payload) in
            [(0, 4096, 3, 999), (4096, 0, 1, 10), (8192, 8192, 9, 90_000)]
        {
            let parts = Parts::of(storage, &usage(held, objects, payload));
            let sum = parts.payload + parts.headers + parts.fragmentation + parts.idle;
            assert_eq!(sum, storage);
        }
    }
}
