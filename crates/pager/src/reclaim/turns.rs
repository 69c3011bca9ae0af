//! The reclaim thread: measures, discovers, ages, and compresses what is coldest.
//!
//! What the budget limits is the process's private anonymous resident memory, as the kernel
//! counts it: program pages, storage and the pager's own are all in it. It is measured at least
//! every 100 ms, every 10 where 40 MiB would fill it, and after every batch while pages are being taken.
//!
//! * Below three quarters of the budget nothing is looked at (unless an age was asked for).
//! * From there on, mappings are read and populated pages tracked, so that they have an age when
//!   pressure comes.
//! * Above the high mark, batches of the oldest pages are taken until the low mark is reached.
//!   Pages become old by time; the ageing interval shrinks while memory stays above the budget.
//! * Pages older than the cold age, which is given or chosen (`cold_age.rs`), go without
//!   need; where the machine is short of memory (`shortage.rs`) the oldest go, however young.
//! * A budget that cannot be reached slows reclaim down: each round that takes nothing, or
//!   brings nothing, doubles the pause before the next, up to the 10 ms between measurements.

use crate::machine::futex::{set_and_wake, wait_for, wait_while};
use crate::machine::linux::Linux;
use crate::machine::os::{Meter, Os};
use crate::reclaim::chaos::{self, Chaos};
use crate::reclaim::cold_age::{ColdAge, Counts, Verdict};
use crate::reclaim::compaction::Passes;
use crate::reclaim::fence::{Fence, GROWTH_BYTES};
use crate::reclaim::futility::{Futility, Seen};
use crate::reclaim::group::Looker;
use crate::reclaim::hope::{self, Hope};
use crate::reclaim::recode::{Need, Recode};
use crate::reclaim::shortage::Shortage;
use crate::reclaim::squeeze::Squeeze;
use crate::reclaim::write_back::WriteBack;
use crate::settings::config::Config;
use crate::settings::config::MAX_HANDLERS;
use crate::settings::watermarks::Watermarks;
use crate::{Codec, Pager};
use coldpress_codec::Density;
use coldpress_engine::{Ageing, LEAF_PAGES, Pace, Reclaimer, Trigger, Worker};
use coldpress_interface::control::COLD_AFTER_AUTO;
use coldpress_interface::statistics::Failure;
use coldpress_uffd::PAGE_SIZE;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// While it compresses it wants a processor for good: a thread of the program that wakes for something urgent shall not
/// wait for the rest of an ordinary time slice.
const TIME_SLICE_NS: u64 = 300_000;
const MEASURE_NS: u64 = 10_000_000;
const MEASURE_FAR_NS: u64 = 25_000_000;
const MEASURE_FARTHEST_NS: u64 = 100_000_000;
const MEASURE_CLOSE_NS: u64 = 2_000_000;
const MEASURE_CLOSEST_NS: u64 = 1_000_000;
const MEASURE_IDLE_NS: u64 = 400_000_000;
/// A program that ran for less than this since the last look idles; or for less than one of so many parts of the time
/// since then (a look of the watchdog counts as the program's).
const IDLE_RUN_NS: u64 = 50_000;
const IDLE_SHARE: u64 = 200;
/// A program that fills fresh memory grows no faster than about this.
const FASTEST_GROWTH_BYTES_A_MS: u64 = 2 << 20;
const DISCOVER_IDLE_NS: u64 = 250_000_000;
const DISCOVER_LEAST_NS: u64 = 8_000_000_000;
const DISCOVER_PRESSED_NS: u64 = 20_000_000;
/// Discovery for the cold age's sake takes one of so many parts of a processor's time at most.
const EAGER_DISCOVERY: u64 = 500;
/// A program that used less than one of so many parts of a processor since the last discovery sleeps; memory is looked for
/// so many times more seldom then. (It touches 400 fresh pages in a millisecond.)
const ASLEEP_SHARE: u64 = 1000;
const ASLEEP_LOOKS: u64 = 4;
/// A batch for the machine's sake that brings nothing is not repeated before this time.
const HELP_REST_NS: u64 = 200_000_000;
/// Pages of a batch; their runs span more slots, since they pass over pages that are away.
const BATCH_PAGES: u32 = 384;
/// Where no handler could be started it is tried again after this long.
const HANDLERS_REST_NS: u64 = 250_000_000;
/// What a fault costs beside the time between its being read and being answered.
const FAULT_KERNEL_NS: u64 = 9_000;
/// Where only its age makes a page go that could not be compressed or taken: after so many times the cold age, if that is
/// longer.
const RETRY_FAILED_AGES: u64 = 16;
/// A batch that keeps fewer pages than this is no progress.
const PROGRESS_PAGES: u32 = 16;
/// Leaves, and records for as many pages, kept ready for faults on fresh memory: 256 MiB.
const READY_LEAVES: u32 = 1024;

/// One measurement, by whichever thread.
pub fn measure_once<O: Os>() -> Option<u64> {
    Some(O::Meter::open()?.private_anonymous_bytes())
}

/// The thread's own state.
struct Reclaim<O: Os = Linux> {
    pager: &'static Pager<O>,
    meter: O::Meter,
    reclaimer: Reclaimer<Codec>,
    measured_ns: u64,
    discovered_ns: u64,
    fence: Fence,
    hope: Hope,
    /// Pages that did not compress, and that a child shares, refused by the time that there was hope last.
    refused_before: [u64; 2],
    futility: Futility,
    /// For how long the program had run at the last look, and how long it rested after it if it idles.
    ran_ns: u64,
    idle_rest_ns: u64,
    /// How seldom memory is looked for while nothing happens, and how much there was then.
    idle_discovery_ns: u64,
    idle_bytes: u64,
    last_total_bytes: u64,
    pause_ns: u64,
    handlers_started: bool,
    /// Where none could be started: not before this time again.
    handlers_again_ns: u64,
    said_no_handlers: bool,
    passes: Passes,
    recode: Recode<O>,
    squeeze: Squeeze,
    write_back: WriteBack,
    chaos: Chaos,
    cold_age: ColdAge,
    /// No batch is taken for its age before this time: the last one found nothing old enough.
    eager_again_ns: u64,
    /// Nor is memory looked for, for the cold age's sake alone.
    eager_look: EagerLook,
    /// No batch is taken to help the machine out before this time: the last one brought nothing.
    help_again_ns: u64,
    shortage: Shortage<O>,
}

/// When memory was looked for, for the cold age's sake.
#[derive(Default)]
struct EagerLook {
    at_ns: u64,
    /// Not before.
    again_ns: u64,
    /// For how long the program had run.
    ran_ns: u64,
}

/// Shortens the turns of the calling thread, which is going to be the reclaim thread: while the program still waits for
/// the start.
pub(crate) fn take_turns() {
    coldpress_linux::sys::set_time_slice(TIME_SLICE_NS);
}

impl<O: Os> Pager<O> {
    /// What the pager's first thread does in a young child: nothing is taken yet. Until its youth is over, or threads
    /// must be there before a filter forbids them.
    pub(crate) fn stay_young(&'static self, reclaimer: &mut Reclaimer<Codec>) {
        let (began_ns, ran) = (O::now_ns(), ran_ns::<O>());
        self.pressure.looked.store(0, Relaxed);
        self.pressure.restored.store(0, Relaxed);
        // So no fault shall wait for room.
        self.pressure.is_young.store(true, Relaxed);
        loop {
            let bell = &self.bell;
            let rung = bell.load(Acquire);
            self.stop_for_fork(reclaimer.worker());
            self.serve_request();
            self.serve_leave(reclaimer.worker());
            let lived = O::now_ns() - began_ns;
            let is_over = lived >= YOUTH_NS || ran_ns::<O>() - ran > YOUTH_RUN_NS;
            if is_over || self.wants_handlers() || !self.pressure.is_young.load(Relaxed) {
                return;
            }
            wait_for::<O>(bell, rung, self.prove(YOUTH_LOOK_NS));
        }
    }
}

/// For how long the program has run, its pager's handlers included.
pub(crate) fn ran_ns<O: Os>() -> u64 {
    O::process_cpu_ns().saturating_sub(O::own_cpu_ns())
}

/// A child that lives for so long, or runs for so long before, is worth a whole pager. (On a machine with much to do one
/// that only ends lives for a tenth of a second.)
const YOUTH_NS: u64 = 500_000_000;
const YOUTH_RUN_NS: u64 = 10_000_000;
const YOUTH_LOOK_NS: u64 = 10_000_000;

/// Runs for ever. Called by the pager's first thread once everything is open.
pub fn run<O: Os>(
    pager: &'static Pager<O>,
    reclaimer: Reclaimer<Codec>,
    meter: O::Meter,
    handlers_started: bool,
) -> ! {
    let mut reclaim = Reclaim {
        pager,
        meter,
        reclaimer,
        measured_ns: O::now_ns(),
        discovered_ns: 0,
        fence: Fence::default(),
        hope: Hope::new(O::now_ns()),
        refused_before: [0; 2],
        futility: Futility::new(),
        ran_ns: 0,
        idle_rest_ns: 0,
        idle_discovery_ns: DISCOVER_IDLE_NS,
        idle_bytes: 0,
        last_total_bytes: 0,
        pause_ns: 0,
        handlers_started,
        handlers_again_ns: 0,
        said_no_handlers: false,
        passes: Passes::default(),
        // SAFETY: this is the one reclaim thread.
        recode: unsafe { Recode::new(pager) },
        squeeze: Squeeze::with(O::vectors()),
        write_back: WriteBack::new(),
        chaos: Chaos::in_this_process::<O>(&pager.config()),
        cold_age: ColdAge::new(),
        eager_again_ns: 0,
        eager_look: EagerLook::default(),
        help_again_ns: 0,
        shortage: Shortage::open(),
    };
    loop {
        let pause = reclaim.round();
        let bell = &pager.bell;
        let rung = bell.load(Acquire);
        pager.stop_for_fork(reclaim.reclaimer.worker());
        pager.serve_request();
        pager.serve_handlers(|| {
            reclaim.start_handlers();
        });
        pager.serve_leave(reclaim.reclaimer.worker());
        wait_for::<O>(bell, rung, pager.prove(pause));
    }
}

impl<O: Os> Pager<O> {
    /// Rests while a fork is under way.
    fn stop_for_fork(&self, worker: &mut Worker<Codec>) {
        let fork = &self.fork;
        if fork.pause.load(Acquire) == 1 {
            if fork.reads_back.swap(false, Relaxed) {
                self.bring_back_what_is_written_back(worker);
            }
            self.inherit();
            set_and_wake::<O>(&fork.paused, 1);
            wait_while::<O>(&fork.paused, 1);
        }
    }
}

impl<O: Os> Reclaim<O> {
    /// Measures and publishes. Returns what counts against the budget.
    fn measure(&mut self) -> u64 {
        self.pager.release_idle_frames();
        let total = self.meter.private_anonymous_bytes();
        let now = O::now_ns();
        let s = self.pager.host.statistics();
        s.longest_measurement_gap_ns
            .fetch_max(now - self.measured_ns, Relaxed);
        s.measurements.fetch_add(1, Relaxed);
        s.measured_at_ns.store(now, Relaxed);
        self.measured_ns = now;
        let pressure = &self.pager.pressure;
        pressure.restored.store(0, Relaxed);
        pressure.looked.store(0, Relaxed);
        pressure.total_bytes.store(total, Relaxed);
        self.pager.look_at_groups(total, Looker::Reclaim);
        pressure.is_young.store(false, Relaxed);
        set_and_wake::<O>(
            &pressure.measured,
            pressure.measured.load(Relaxed).wrapping_add(1),
        );
        self.pager.publish(total);
        self.pager.observe_decisions();
        pressure.counted_bytes()
    }

    /// Memory stands close to the budget: fresh memory of known mappings shall pass through the
    /// handlers, where it can be held back.
    fn fence(&mut self) {
        let (began_ns, content) = (O::now_ns(), self.content_bytes());
        if self.fence.is_due(began_ns, content) && self.start_handlers() {
            let registered = self.pager.fence();
            let took = began_ns..O::now_ns();
            self.fence.made(took, registered, content);
        }
    }

    /// What the program has, in place or stored.
    fn content_bytes(&self) -> u64 {
        let c = self.pager.engine.counters();
        let away = c.compressed_pages.load(Relaxed) + c.same_filled_pages.load(Relaxed);
        self.last_measured_bytes() + away * PAGE_SIZE as u64
    }

    /// Before anything is registered. `false`: no thread can be made now (`RLIMIT_NPROC`), and nothing is taken.
    fn start_handlers(&mut self) -> bool {
        if !self.handlers_started && O::now_ns() >= self.handlers_again_ns {
            self.handlers_started = O::start_handlers(self.pager, MAX_HANDLERS);
            self.handlers_again_ns = O::now_ns() + HANDLERS_REST_NS;
            if !self.handlers_started && !core::mem::replace(&mut self.said_no_handlers, true) {
                crate::machine::message::say(format_args!(
                    "no thread can be made to answer faults: nothing is compressed until one can (raise the limit: \
                     ulimit -u)"
                ));
            }
        }
        self.handlers_started
    }

    fn stands(total: u64, watermarks: &Watermarks) -> hope::Memory {
        if total > watermarks.wait {
            hope::Memory::Above
        } else {
            hope::Memory::Below
        }
    }

    /// Tells the handlers whether faults are to wait for the budget (`hope.rs`).
    fn watch_hope(&mut self, memory: hope::Memory, batch: Option<hope::Batch>) {
        let content = self.content_bytes();
        let hope = self.hope.judge(O::now_ns(), memory, content, batch);
        self.pager.pressure.hopeless.store(!hope, Relaxed);
        self.note_in_vain();
    }

    /// Pages that a child shares may be taken when it has ended: then it is not in vain. What was refused while there was
    /// hope says nothing of now.
    fn note_in_vain(&mut self) {
        let s = self.pager.host.statistics();
        let refused = [Failure::Incompressible, Failure::MoveBusy].map(|reason| s.failed(reason));
        let is_in_vain = self.hope.is_in_vain();
        if !is_in_vain {
            self.refused_before = refused;
        }
        let [incompressible, shared] =
            [0, 1].map(|n| refused[n].saturating_sub(self.refused_before[n]));
        let in_vain = is_in_vain && incompressible > shared;
        self.pager.pressure.note_in_vain(in_vain, O::now_ns());
    }

    fn last_measured_bytes(&self) -> u64 {
        self.pager.pressure.total_bytes.load(Relaxed)
    }

    /// Looks for memory that is likely to be needed soon; ever more seldom while there is nothing new.
    fn discover_idly(&mut self, total: u64) {
        if total > self.idle_bytes + GROWTH_BYTES {
            self.idle_discovery_ns = DISCOVER_IDLE_NS;
        }
        if O::now_ns() >= self.discovered_ns + self.idle_discovery_ns {
            self.idle_bytes = total;
            let tracked = self.discover(self.idle_discovery_ns);
            self.idle_discovery_ns = match tracked {
                0 => (self.idle_discovery_ns * 2).min(DISCOVER_LEAST_NS),
                _ => DISCOVER_IDLE_NS,
            };
        }
    }

    fn discover(&mut self, at_most_every_ns: u64) -> u64 {
        let now = O::now_ns();
        if now < self.discovered_ns + at_most_every_ns && self.discovered_ns > 0 {
            return 0;
        }
        self.discover_now(at_most_every_ns)
    }

    fn discover_now(&mut self, at_most_every_ns: u64) -> u64 {
        let now = O::now_ns();
        let tracked = self.pager.discover();
        // Discovery shall never take more than a tenth of the time.
        let took = O::now_ns() - now;
        self.discovered_ns = now + (took * 10).saturating_sub(at_most_every_ns);
        tracked
    }

    /// One round; returns how long to rest after it.
    fn round(&mut self) -> u64 {
        let config = self.pager.config();
        let watermarks = Watermarks::in_force(&config);
        let total = self.measure();
        self.prepare();
        self.passes.advance(self.pager);
        if config.chaos.is_some() {
            // By turns both codecs compress, where an age for re-coding is given.
            let density = if O::now_ns() >> 29 & 1 == 1 {
                Density::Dense
            } else {
                Density::Usual
            };
            self.recode.set_density(&config, density);
            self.recode.turn(&config, Need::Near);
            return self.chaos();
        }
        let helps = self.pager.pressure.machine_is_short.load(Relaxed);
        self.choose_cold_age(&config, total > watermarks.high || helps);
        let took = config.allows(Trigger::Eager) && self.eager(&config);
        let short = config.allows(Trigger::Pressure) && self.shortage.is_short();
        self.pager.pressure.machine_is_short.store(short, Relaxed);
        if short {
            self.help_out();
        }
        let growth = total.saturating_sub(self.last_total_bytes);
        self.last_total_bytes = total;
        let soon_over = total + 2 * growth > watermarks.high;
        if soon_over || total > watermarks.budget() / 4 * 3 {
            self.discover_idly(total);
            self.pager
                .engine
                .age(self.pager, &self.ageing(100_000_000, 0), Pace::Steady);
        }
        // The first fence registers all there is, and takes long: not only when memory is above already.
        if soon_over || total > watermarks.budget() / 4 * 3 && growth > GROWTH_BYTES {
            self.fence();
        }
        if total > watermarks.high && watermarks.trigger(total, &config).is_some() {
            let rest = self.futility.rest(O::now_ns(), self.seen());
            return rest.unwrap_or_else(|| self.press(&config, &watermarks, total));
        }
        self.futility.is_over();
        self.pause_ns = 0;
        self.watch_hope(hope::Memory::Below, Some(hope::Batch::Progress));
        let need = self.recode_need(&config, &watermarks, total);
        // What a child has inherited it shares: stored anew it would be there twice.
        let shared = self.pager.fork.inherited.load(Relaxed);
        if !shared && (!short || need == Need::Squeezed) {
            self.recode.turn(&config, need);
        }
        let rest_below = |bytes| rest_ns(watermarks.budget().saturating_sub(bytes));
        let own = rest_below(self.last_measured_bytes());
        let rest = self.rest_longer_where_idle(rest_below(total), own);
        let goes_on =
            took || short || self.passes.are_under_way() || self.pager.host.memory.has_too_many();
        if goes_on { rest.min(MEASURE_NS) } else { rest }
    }

    /// Keeps leaves and records ready for faults on fresh memory, which make none: a page without a record is in place
    /// for good, since nothing knows of it.
    fn prepare(&self) {
        self.pager
            .engine
            .prepare_for(self.pager, READY_LEAVES, READY_LEAVES * LEAF_PAGES);
    }

    /// A program that has hardly run since the last look does not grow from one millisecond to the next: close to its
    /// budget it is looked at ever more seldom, up to as often as farther away from it; farthest away, more seldom yet. How
    /// far away it is, its `own` memory says: others of its memory group grow whether it is looked at or not.
    fn rest_longer_where_idle(&mut self, rest: u64, own: u64) -> u64 {
        let (ran, most) = (
            ran_ns::<O>(),
            longest_idle_rest_ns(own, self.pager.control.cold_age_ms()),
        );
        let little = IDLE_RUN_NS.max(self.idle_rest_ns / IDLE_SHARE);
        let is_idle = ran - self.ran_ns.min(ran) < little;
        self.ran_ns = ran;
        self.idle_rest_ns = if is_idle {
            (2 * self.idle_rest_ns.max(rest / 2)).min(most)
        } else {
            0
        };
        rest.max(self.idle_rest_ns)
    }

    /// How much re-coding is needed; what leaves is compressed accordingly.
    fn recode_need(&mut self, config: &Config, watermarks: &Watermarks, total: u64) -> Need {
        let frames: u64 = self.pager.host.memory.used_frames().into();
        let squeezed = self
            .squeeze
            .look(frames * PAGE_SIZE as u64, watermarks.budget());
        let density = if squeezed {
            Density::Dense
        } else {
            Density::Usual
        };
        self.recode.set_density(config, density);
        match total > watermarks.budget() / 4 * 3 {
            _ if squeezed => Need::Squeezed,
            true => Need::Near,
            false => Need::Idle,
        }
    }

    /// Judges the cold age by what came back, and says what is in force.
    fn choose_cold_age(&mut self, config: &Config, pressed: bool) {
        if config.cold_after_ms != COLD_AFTER_AUTO || !config.allows(Trigger::Eager) {
            // What comes back now says nothing of an age that is not in force.
            self.cold_age = ColdAge::new();
            self.pager.control.set_chosen_cold_age(0, false);
            return;
        }
        let engine = &self.pager.engine;
        let c = engine.counters();
        // The kernel's part of a fault is not in what handlers see.
        let returned = [
            &c.faults_decompressed,
            &c.faults_same_filled,
            &c.faults_copied,
            // Where the kernel would have answered, if nothing had been taken there.
            &c.faults_zero,
        ];
        let returned: u64 = returned.iter().map(|counter| counter.load(Relaxed)).sum();
        let (waited_ns, _) = self.pager.fault_waits();
        let cost_ns = waited_ns + returned * FAULT_KERNEL_NS;
        let resident: u64 = engine.resident_pages().into();
        let taken = c.eager_compressions.load(Relaxed);
        let away = c.compressed_pages.load(Relaxed) + c.same_filled_pages.load(Relaxed);
        let verdict = self.cold_age.observe(
            O::now_ns(),
            Counts {
                cost_ns,
                resident,
                content: (self.last_measured_bytes() / PAGE_SIZE as u64).max(resident) + away,
                taken,
                ran_ns: ran_ns::<O>(),
                pressed,
            },
        );
        let control = &self.pager.control;
        let guarded = self.cold_age.is_in_peace();
        control.set_chosen_cold_age(self.cold_age.in_force_ns() / 1_000_000_000, guarded);
        let s = self.pager.host.statistics();
        match verdict {
            Verdict::Longer => drop(s.cold_age_longer.fetch_add(1, Relaxed)),
            Verdict::Shorter | Verdict::Rest => {
                s.cold_age_shorter.fetch_add(1, Relaxed);
            }
            Verdict::Pending | Verdict::Same => {}
        }
    }

    /// Compresses what was not touched for as long as the cold age is, budget or not. Whether it took any.
    fn eager(&mut self, config: &Config) -> bool {
        let chosen = config.cold_after_ms == COLD_AFTER_AUTO;
        let age_ns = match config.cold_after_ms {
            0 => return false,
            COLD_AFTER_AUTO => self.cold_age.in_force_ns(),
            ms => ms * 1_000_000,
        };
        let now = O::now_ns();
        self.discover_eagerly(now, (age_ns / 4).clamp(50_000_000, 1_000_000_000));
        let ageing = self.ageing((age_ns / 4).max(1_000_000), 0);
        let ageing = Ageing {
            // There is no hurry to find out whether they compress by now.
            retry_failed_ns: ageing.retry_failed_ns.max(age_ns * RETRY_FAILED_AGES),
            ..ageing
        };
        let inactive = self.pager.engine.age(self.pager, &ageing, Pace::Steady);
        if inactive == 0 || now < self.eager_again_ns || chosen && !self.may_take_for_age() {
            return false;
        }
        let for_age = &self.pager.pressure.takes_for_age;
        for_age.store(true, Relaxed);
        let batch = self.batch(now.saturating_sub(age_ns), Trigger::Eager);
        for_age.store(false, Relaxed);
        if batch.taken == 0 {
            self.eager_again_ns = now + (age_ns / 64).clamp(MEASURE_NS, 1_000_000_000);
        }
        batch.taken > 0
    }

    /// Looks for memory that may grow cold; seldom while the program sleeps, and has touched next to nothing since the last
    /// look.
    fn discover_eagerly(&mut self, now: u64, every_ns: u64) {
        let look = &self.eager_look;
        if now < look.again_ns {
            return;
        }
        let ran = ran_ns::<O>();
        let passed_ns = now - look.at_ns.min(now);
        if ran.saturating_sub(look.ran_ns) < passed_ns / ASLEEP_SHARE
            && passed_ns < every_ns * ASLEEP_LOOKS
        {
            return;
        }
        let before = O::own_cpu_ns();
        self.discover_now(every_ns);
        // Its own time: what the budget asks for must not wait for this one's.
        let took = O::own_cpu_ns() - before;
        self.eager_look = EagerLook {
            at_ns: now,
            again_ns: now + every_ns.max(took * EAGER_DISCOVERY),
            ran_ns: ran,
        };
    }

    /// Whether pages may be taken for the age that was chosen, as far as what it costs is concerned.
    fn may_take_for_age(&self) -> bool {
        let taken = self
            .pager
            .engine
            .counters()
            .eager_compressions
            .load(Relaxed);
        !self.cold_age.is_in_peace() && self.cold_age.pace(taken) >= u64::from(BATCH_PAGES)
    }

    /// The machine is short of memory: takes a batch of the coldest, whatever the budget.
    fn help_out(&mut self) {
        let now = O::now_ns();
        if now < self.help_again_ns {
            return;
        }
        self.discover(DISCOVER_IDLE_NS);
        let ageing = self.ageing(100_000_000, 20_000_000);
        if self.pager.engine.age(self.pager, &ageing, Pace::Pressed) > 0 {
            let batch = self.batch(u64::MAX, Trigger::Pressure);
            if batch.kept < PROGRESS_PAGES {
                self.help_again_ns = now + HELP_REST_NS;
            }
        }
    }

    /// Takes pages until the low mark is reached or nothing more can be had now.
    fn press(&mut self, config: &Config, watermarks: &Watermarks, total: u64) -> u64 {
        let s = self.pager.host.statistics();
        let mut next = watermarks.trigger(total, config);
        let mut total = watermarks.high;
        let mut hopeless = 0;
        while let Some(trigger) = next {
            // A program that fills memory as fast as it is taken keeps this going for seconds.
            self.prepare();
            self.passes.advance(self.pager);
            let need = self.recode_need(config, watermarks, total);
            if need == Need::Squeezed {
                self.recode.turn(config, need);
            }
            let written_back =
                self.write_back
                    .turn(self.pager, &mut self.recode, watermarks.budget());
            let hurry = watermarks.hurry_ns(total, self.pager.pressure.waiting.load(Relaxed) > 0);
            let ageing = self.ageing(100_000_000, hurry);
            let mut inactive = self.pager.engine.age(self.pager, &ageing, Pace::Pressed);
            self.fence();
            if inactive == 0 {
                self.discover(DISCOVER_PRESSED_NS);
                inactive = self.pager.engine.age(self.pager, &ageing, Pace::Pressed);
            }
            let batch = match inactive {
                0 => Default::default(),
                _ => self.batch(u64::MAX, trigger),
            };
            let before = self.last_measured_bytes();
            total = self.measure();
            next = watermarks.trigger(total, config);
            let gained = before.saturating_sub(self.last_measured_bytes());
            let brought = if batch.kept.max(written_back) >= PROGRESS_PAGES || batch.spared > 0 {
                hope::Batch::Progress
            } else {
                hope::Batch::InVain
            };
            let was_one = inactive > 0 || written_back > 0;
            self.watch_hope(Self::stands(total, watermarks), was_one.then_some(brought));
            // Pages that were spared are older than they were: they go when their chances are used up.
            let fruitless = written_back < PROGRESS_PAGES
                && (batch.taken == 0 && batch.spared == 0
                    || batch.kept * 4 < batch.taken && gained == 0);
            if fruitless {
                hopeless += 1;
                if hopeless >= 4 {
                    s.budget_misses.fetch_add(1, Relaxed);
                    // Reclaim rests now: nobody shall wait for it meanwhile.
                    self.hope.give_up();
                    self.pager.pressure.hopeless.store(true, Relaxed);
                    self.note_in_vain();
                    if self.pause_ns == MEASURE_NS {
                        self.futility.in_vain(O::now_ns(), self.seen());
                    }
                    self.pause_ns = (self.pause_ns * 2).clamp(500_000, MEASURE_NS);
                    return self.pause_ns;
                }
                O::sleep_ns(hurry.min(MEASURE_CLOSE_NS));
            } else {
                hopeless = 0;
                self.futility.is_over();
                self.pause_ns = 0;
            }
            if self.pager.bell_rung() {
                return 0;
            }
        }
        MEASURE_CLOSE_NS
    }

    /// A round of chaos ([`chaos`](crate::reclaim::chaos)).
    fn chaos(&mut self) -> u64 {
        self.discover(DISCOVER_PRESSED_NS);
        let ageing = Ageing {
            retry_failed_ns: chaos::RETRY_NS,
            ..self.ageing(1, 1)
        };
        let touched_before_ns = self.chaos.prepare(self.pager, &ageing);
        let batch = self.batch(touched_before_ns, Trigger::Pressure);
        let rest_ns = if batch.taken > BATCH_PAGES / 2 {
            100_000
        } else {
            1_000_000
        };
        rest_ns.max(self.pager.config().chaos_rest_ns)
    }

    fn batch(&mut self, touched_before_ns: u64, trigger: Trigger) -> coldpress_engine::Batch {
        if !self.start_handlers() {
            return Default::default();
        }
        self.pager.host.memory.notice_locking();
        self.pager.host.memory.prepare();
        self.pager
            .discovery
            .exclude_threads(&self.pager.host.exclusions);
        if self.pager.host.exclusions.incomplete.load(Relaxed) {
            return Default::default();
        }
        let mut batch = self.batch_once(touched_before_ns, trigger);
        let unshared = self.pager.unshare();
        if unshared > 0 {
            let second = self.batch_once(touched_before_ns, trigger);
            batch.refused -= unshared.min(batch.refused);
            batch = batch.and(second);
        }
        let seen = self.seen();
        self.futility.note(&batch, O::now_ns(), || seen);
        batch
    }

    fn batch_once(&mut self, touched_before_ns: u64, trigger: Trigger) -> coldpress_engine::Batch {
        self.pager.engine.reclaim_batch(
            self.pager,
            &mut self.reclaimer,
            BATCH_PAGES,
            touched_before_ns,
            trigger,
        )
    }

    /// What may make something of what was in vain.
    fn seen(&self) -> Seen {
        Seen {
            bytes: self.last_measured_bytes(),
            ran_ns: ran_ns::<O>(),
        }
    }

    fn ageing(&self, interval_ns: u64, pressed_interval_ns: u64) -> Ageing {
        Ageing {
            interval_ns,
            pressed_interval_ns,
            retry_failed_ns: self.futility.retry_ns(),
        }
    }
}

/// Until the next look, with so much room below the budget: the closer, the sooner. Far away, waking up is what an idle
/// program costs, and there is room for twice what can come meanwhile; farther yet, for four times as much.
fn rest_ns(room: u64) -> u64 {
    let whole = (room / FASTEST_GROWTH_BYTES_A_MS).saturating_mul(1_000_000);
    let far = (whole / 2).min(MEASURE_FAR_NS);
    let farthest = (whole / 4).min(MEASURE_FARTHEST_NS);
    whole
        .clamp(MEASURE_CLOSEST_NS, MEASURE_NS)
        .max(far)
        .max(farthest)
}

/// The longest rest of a program that idles, where one that runs is given `rest`. Pages grow older by a generation with a
/// look, and a few of them make up the cold age (0: there is none).
fn longest_idle_rest_ns(rest: u64, cold_age_ms: u64) -> u64 {
    match (rest, cold_age_ms) {
        (..MEASURE_FARTHEST_NS, _) => MEASURE_NS,
        (_, 0) => MEASURE_IDLE_NS,
        (_, ms) => (ms * 1_000_000 / 16).clamp(MEASURE_FARTHEST_NS, MEASURE_IDLE_NS),
    }
}

const _: () = assert!((BATCH_PAGES as usize) < coldpress_engine::STAGING_SLOTS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closer_to_the_budget_the_sooner_it_is_looked_at() {
        let rests = [0, 1, 3, 10, 20, 40, 60, 100, 200, 400, 800, 1 << 20];
        let ms = rests.map(|mib: u64| rest_ns(mib << 20) / 1_000_000);
        assert_eq!(ms, [1, 1, 1, 5, 10, 10, 15, 25, 25, 50, 100, 100]);
        assert_eq!(rest_ns(u64::MAX), MEASURE_FARTHEST_NS);
    }

    #[test]
    fn a_sleeper_is_looked_at_often_enough_to_see_its_pages_age() {
        let rests = [0, 200, 1_000, 2_000, 5_000, 60_000];
        let ms = rests.map(|age| longest_idle_rest_ns(MEASURE_FARTHEST_NS, age) / 1_000_000);
        assert_eq!(ms, [400, 100, 100, 125, 312, 400]);
        assert_eq!(longest_idle_rest_ns(MEASURE_FAR_NS, 0), MEASURE_NS);
    }
}
