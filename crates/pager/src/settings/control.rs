//! What may be changed while the program runs: the settings in force, and serving requests for them.
//!
//! Requests come through the statistics page (`coldpress_interface::control`). They are served by
//! the reclaim thread between two rounds. The watchdog looks whether there is one, four times
//! a second, and wakes it: a pager that has nothing to do need not look more often for it.
//!
//! In the child of a fork the settings are those that were in force in the parent; requests come
//! through a page of its own.

use crate::machine::os::Os;
use crate::settings::config::Config;
use crate::{Pager, PagerEngine};
use coldpress_engine::{Trigger, tunables};
use coldpress_interface::control::{
    BUDGET, COLD_AFTER, COLD_AFTER_AUTO, MAPPINGS, NO_BUDGET, Refusal, Request, TRIGGERS, TUNABLES,
};
use coldpress_interface::figures::name_hash;
use coldpress_interface::page::Page;
use coldpress_interface::triggers::Triggers;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Settings that may change, and where they are asked for.
pub struct Control {
    budget_bytes: AtomicU64,
    /// The largest budget that the memory groups allow now.
    group_budget_bytes: AtomicU64,
    cold_after_ms: AtomicU64,
    triggers: AtomicU64,
    /// The age that the pager would choose, in seconds, and whether it takes nothing for it now.
    chosen_cold_age_s: AtomicU64,
    guarded: AtomicBool,
    /// Number of the last request that was answered.
    answered: AtomicU64,
    page: AtomicPtr<Page>,
}

impl Control {
    /// Nothing is set yet.
    pub const fn new() -> Self {
        Self {
            budget_bytes: AtomicU64::new(NO_BUDGET),
            group_budget_bytes: AtomicU64::new(NO_BUDGET),
            cold_after_ms: AtomicU64::new(0),
            triggers: AtomicU64::new(Triggers::ALL.bits()),
            chosen_cold_age_s: AtomicU64::new(0),
            guarded: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            page: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Takes note of the age that the pager chooses, and whether it leaves the program in peace.
    pub(crate) fn set_chosen_cold_age(&self, seconds: u64, guarded: bool) {
        self.chosen_cold_age_s.store(seconds, Relaxed);
        self.guarded.store(guarded, Relaxed);
    }

    /// Whether no page is taken for its age now, since too many came back.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded.load(Relaxed)
    }

    /// The cold age in force, in milliseconds; 0: none.
    pub(crate) fn cold_age_ms(&self) -> u64 {
        match self.cold_after_ms.load(Relaxed) {
            COLD_AFTER_AUTO => self.chosen_cold_age_s.load(Relaxed) * 1000,
            ms => ms,
        }
    }

    /// Sets what the program was started with.
    pub(crate) fn begin_with(&self, config: &Config) {
        self.budget_bytes.store(config.asked_budget_bytes, Relaxed);
        // As long as the groups do not tell it, it is what they allowed then.
        let allowed = match config.budget_bytes < config.asked_budget_bytes {
            true => config.budget_bytes,
            false => NO_BUDGET,
        };
        self.allow_by_groups(allowed);
        self.cold_after_ms.store(config.cold_after_ms, Relaxed);
        self.triggers.store(config.triggers.bits(), Relaxed);
    }

    /// Takes note of the largest budget that the memory groups allow ([`NO_BUDGET`]: any).
    pub(crate) fn allow_by_groups(&self, budget: u64) {
        self.group_budget_bytes.store(budget, Relaxed);
    }

    /// The largest budget that they allowed at the last look.
    pub(crate) fn allowed_by_groups(&self) -> u64 {
        self.group_budget_bytes.load(Relaxed)
    }

    /// Puts what is in force now into a copy of what the program was started with.
    pub(crate) fn overlay<O: Os>(&self, engine: &PagerEngine<O>, config: &mut Config) {
        let asked = self.budget_bytes.load(Relaxed);
        config.budget_bytes = asked.min(self.group_budget_bytes.load(Relaxed));
        config.cold_after_ms = self.cold_after_ms.load(Relaxed);
        let triggers = Triggers::from_bits(self.triggers.load(Relaxed));
        config.triggers = triggers
            .unwrap_or(Triggers::ALL)
            .both(tuned_triggers(engine));
    }

    /// Takes requests from this page from now on, which is new.
    ///
    /// # Safety
    /// The page stays mapped as long as the process.
    pub unsafe fn set_page(&self, page: *mut Page) {
        self.answered.store(0, Relaxed);
        self.page.store(page, Release);
    }

    /// The page is the parent's: in the child of a fork, which has none yet.
    pub(crate) fn leave_page(&self) {
        self.page.store(core::ptr::null_mut(), Relaxed);
    }

    /// Where the page is; null where there is none.
    pub(crate) fn page_address(&self) -> *mut Page {
        self.page.load(Acquire)
    }

    /// Whether figures go anywhere.
    pub(crate) fn has_page(&self) -> bool {
        self.page().is_some()
    }

    /// The page, if there is one.
    pub(crate) fn page(&self) -> Option<&Page> {
        // SAFETY: null, or a mapping that stays (see `set_page`), of nothing but atomics and padding.
        unsafe { self.page.load(Acquire).as_ref() }
    }

    /// Whether somebody asks for something.
    pub(crate) fn is_pending(&self) -> bool {
        let answered = self.answered.load(Relaxed);
        self.page()
            .is_some_and(|page| page.control.is_pending(answered))
    }

    /// Does all of it, or nothing.
    fn carry_out<O: Os>(
        &self,
        pager: &Pager<O>,
        request: &Request,
        page: &Page,
    ) -> Result<(), Refusal> {
        let has = |key| request.keys & key != 0;
        if has(TUNABLES) {
            tune(&pager.engine, &request.tunables)?;
        }
        if has(BUDGET) {
            self.budget_bytes.store(request.budget_bytes, Relaxed);
        }
        if has(COLD_AFTER) {
            self.cold_after_ms.store(request.cold_after_ms, Relaxed);
        }
        if has(TRIGGERS) {
            self.triggers.store(request.triggers, Relaxed);
        }
        if has(MAPPINGS) {
            page.mappings
                .fill(pager.discovery.mappings().map(|range| pager.look_at(range)));
        }
        Ok(())
    }
}

/// The triggers that the engine's tunables leave on.
fn tuned_triggers<O: Os>(engine: &PagerEngine<O>) -> Triggers {
    let on = |trigger, bit| match engine.compresses(trigger) {
        true => bit,
        false => Triggers::NONE,
    };
    on(Trigger::Eager, Triggers::EAGER)
        .with(on(Trigger::Pressure, Triggers::PRESSURE))
        .with(on(Trigger::Critical, Triggers::CRITICAL))
}

/// Sets tunables of the engine by the hashes of their names: all of them or none.
fn tune<O: Os>(engine: &PagerEngine<O>, asked: &[(u64, u64)]) -> Result<(), Refusal> {
    let mut tunables = engine.tunables().load();
    for &(hash, word) in asked.iter().filter(|(hash, _)| *hash != 0) {
        let mut rows = tunables::TABLE.iter();
        let row = rows.find(|row| name_hash(row.name) == hash);
        let row = row.ok_or(Refusal::UnknownTunable)?;
        if row.linux != tunables::Linux::Running {
            return Err(Refusal::FixedTunable);
        }
        if !tunables.set_word(row.name, word) {
            return Err(Refusal::TunableValue);
        }
    }
    engine
        .configure(&tunables)
        .map_err(|_| Refusal::TunableValue)
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Pager<O> {
    /// Does what is asked for, if anything is. Called by the reclaim thread between rounds.
    pub(crate) fn serve_control(&self) {
        let Some(page) = self.control.page() else {
            return;
        };
        let answered = self.control.answered.load(Relaxed);
        let s = &page.statistics;
        let own = (s.pid.load(Relaxed), s.start_time_ticks.load(Relaxed));
        let Some((sequence, request)) = page.control.take(answered, own) else {
            // Else it stays pending for ever, and whatever stops for requests does nothing any more.
            if let Some(sequence) = page.control.for_another(answered, own) {
                self.control.answered.store(sequence, Relaxed);
            }
            return;
        };
        let checked = request.check();
        let done = checked.and_then(|()| self.control.carry_out(self, &request, page));
        let refusal = done.map_or_else(|reason| reason as u64, |()| 0);
        self.control.answered.store(sequence, Relaxed);
        self.publish_settings();
        s.control_refusal.store(refusal, Relaxed);
        s.control_answered.store(sequence, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pager;

    static PAGER: Pager = Pager::new();

    fn in_force(control: &Control) -> u64 {
        let mut config = PAGER.config();
        control.overlay(&PAGER.engine, &mut config);
        config.budget_bytes
    }

    /// Story: what `coldpress set` had set was forgotten when the pager came back after it had left for a while, and in a
    /// forked child that began without one.
    #[test]
    fn the_budget_is_the_smaller_of_what_was_asked_for_and_what_the_groups_allow() {
        const MIB: u64 = 1 << 20;
        let control = Control::new();
        let config = |budget_bytes, asked_budget_bytes| Config {
            budget_bytes,
            asked_budget_bytes,
            ..PAGER.config()
        };
        control.begin_with(&config(60 * MIB, NO_BUDGET));
        assert_eq!(in_force(&control), 60 * MIB, "the groups have not told yet");
        control.allow_by_groups(480 * MIB);
        assert_eq!(in_force(&control), 480 * MIB);
        control.budget_bytes.store(30 * MIB, Relaxed);
        control.allow_by_groups(NO_BUDGET);
        assert_eq!(in_force(&control), 30 * MIB);
        control.begin_with(&config(60 * MIB, 60 * MIB));
        control.allow_by_groups(20 * MIB);
        assert_eq!(in_force(&control), 20 * MIB);
    }
}
