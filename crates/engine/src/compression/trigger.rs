//! Policy: what each of RFC-0219's three triggers may do.
//!
//! | trigger | compresses if | evicts if | from | hints |
//! |---|---|---|---|---|
//! | eager | `lru-action` says so | `lru-action` says so | all inactive, or (`eager-walks-older` off) the last generation and what has left it | honoured |
//! | pressure | `at_memory_pressure` | always | all inactive | honoured |
//! | critical | `at_critical` | always | all inactive | ignored |
//!
//! None does anything with `enable-eviction` off, none compresses with a strategy of `none`. A
//! pager-backed page is evicted; with `before-eviction` on, eager and pressure compress it instead,
//! and critical evicts it. Zero pages are found by compression, whatever the trigger: there is no
//! scanner for them.
//!
//! What each trigger has compressed is counted ([`Counters`](crate::Counters)).

use crate::compression::stored::HEADER_BYTES;
use crate::compression::tunables::{StorageStrategy, Strategy};
use crate::figures::cause::Trigger;
use crate::figures::counters::add;
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::page::PAGER_BACKED;
use crate::pages::queues::standing::Queue;
use crate::pages::queues::{GENERATIONS, Wanted};
use crate::{Engine, Host};
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;

/// The page that goes next.
pub(crate) struct Victim {
    pub(crate) place: Place,
    record: u32,
    pub(crate) pager_backed: bool,
    /// So many pages in a row, with this one, are of its kind.
    pub(crate) alike: u32,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Whether anything can be compressed, whatever the trigger.
    pub fn can_compress(&self) -> bool {
        let t = &self.tunables;
        let built = t.strategy() != Strategy::None && t.storage_strategy() != StorageStrategy::None;
        built && t.enable_eviction()
    }

    /// Whether this trigger compresses pages.
    pub fn compresses(&self, trigger: Trigger) -> bool {
        let t = &self.tunables;
        let switched_on = match trigger {
            Trigger::Eager => t.lru_action().compresses(),
            Trigger::Pressure => t.at_memory_pressure(),
            Trigger::Critical => t.at_critical(),
        };
        switched_on && self.can_compress()
    }

    /// Whether this trigger evicts pager-backed pages.
    pub fn evicts(&self, trigger: Trigger) -> bool {
        let t = &self.tunables;
        (trigger != Trigger::Eager || t.lru_action().evicts()) && t.enable_eviction()
    }

    /// Whether this trigger compresses a pager-backed page rather than evicting it.
    pub fn compresses_pager_backed(&self, trigger: Trigger) -> bool {
        self.tunables.compress_pager_backed()
            && trigger != Trigger::Critical
            && self.compresses(trigger)
    }

    /// What this trigger may compress. `None`: nothing.
    pub(crate) fn compressible(&self, trigger: Trigger, touched_before_ns: u64) -> Option<Wanted> {
        if !self.compresses(trigger) {
            add(&self.counters.switched_off, 1);
            return None;
        }
        Some(Wanted {
            touched_before_ns,
            anonymous: true,
            pager_backed: self.compresses_pager_backed(trigger),
            oldest: self.generations_for(trigger),
            ignore_hints: trigger == Trigger::Critical,
        })
    }

    /// The page that this trigger takes next, of the `oldest` oldest generations.
    pub(crate) fn next_victim(&self, trigger: Trigger, oldest: usize) -> Option<Victim> {
        let compresses = self.compresses(trigger);
        let wanted = Wanted {
            touched_before_ns: u64::MAX,
            anonymous: compresses,
            pager_backed: self.evicts(trigger) || self.compresses_pager_backed(trigger),
            oldest: self.generations_for(trigger).min(oldest),
            ignore_hints: trigger == Trigger::Critical,
        };
        let mut queues = self.queues.lock();
        let record = queues.next_victim(&wanted)?;
        let page = self.queues.record(record);
        Some(Victim {
            place: page.backlink(),
            record,
            pager_backed: page.has(PAGER_BACKED),
            alike: queues.alike(record),
        })
    }

    /// A victim that could not be taken becomes young, not to stand in the way of others. That it could
    /// not may be because it is gone by now, or stands elsewhere, where it has to stay.
    pub(crate) fn pass_over(&self, victim: &Victim) {
        let (segment, index) = victim.place;
        let Some(list) = self.page_list_if_there(segment) else {
            return;
        };
        if list.get(index) == Entry::Page(victim.record) {
            let mut queues = self.queues.lock();
            if queues.is_ageing(victim.record) {
                queues.move_to(victim.record, Queue::Reclaim);
            }
        }
    }

    /// How many generations, from the last there can be, this trigger goes through.
    pub(crate) fn generations_for(&self, trigger: Trigger) -> usize {
        match trigger {
            Trigger::Eager if !self.tunables.eager_walks_older() => 1,
            _ => GENERATIONS,
        }
    }

    /// Bytes that a compressed page may have, without its header, to be kept.
    pub(crate) fn target_bytes(&self) -> usize {
        let with_header = PAGE_SIZE * self.tunables.threshold() as usize / 100;
        with_header.saturating_sub(HEADER_BYTES)
    }
}
