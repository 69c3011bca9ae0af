//! What the kernel's own threads do, what disturbs the machine, and what is checked.

use super::World;
use super::object::bytes;
use crate::codec::SimCodec;
use crate::failure::about;
use crate::inject::Kind;
use crate::lifetime::Held;
use crate::machine::Table;
use crate::reclaim;
use crate::schedule::{doze, note, random};
use coldpress_engine::harvest::Harvest;
use coldpress_engine::vmo::VmoError;
use coldpress_engine::{Reclaimer, Recoder};
use coldpress_storage::CompressedStorage;
use std::sync::atomic::Ordering::Relaxed;

impl World {
    pub(super) fn reclaim(&self, mut reclaimer: Reclaimer<SimCodec>) {
        let (machine, engine) = (self.machine, self.vmos.engine());
        machine.chunks.growing(&[Table::Storage]);
        while !self.is_over() {
            self.begins();
            self.ends();
            if random().one_in(4) {
                engine.rotate(machine);
            }
            reclaim::turn(engine, machine, &machine.clock, &mut reclaimer, 40);
        }
    }

    pub(super) fn weather(&self, mut recoder: Recoder<SimCodec, SimCodec>) {
        self.machine.chunks.growing(&[Table::Storage]);
        let mut harvest = Harvest::new();
        let (machine, engine) = (self.machine, self.vmos.engine());
        while !self.is_over() {
            self.begins();
            self.ends();
            match random().below(16) {
                0 => self.lower_limit(),
                1..=2 => self.machine.clock.disturb(),
                3 if random().one_in(8) => {
                    note(Kind::TunablesChanged);
                    self.tune();
                }
                3..=4 if self.spurious => machine.wake_for_nothing(),
                12..=15 => reclaim::recode(engine, machine, &mut recoder),
                5..=7 => {
                    machine.write_late_bits();
                    engine.harvest(machine, &mut harvest, 40);
                }
                _ => {
                    let budget = random().between(1, 20_000) as usize;
                    let done = engine.compact(machine, budget);
                    if done.is_some_and(|done| done.objects > 0) {
                        note(Kind::Compaction);
                    }
                }
            }
            doze(300);
        }
        machine.limit.set(self.frames);
    }

    fn lower_limit(&self) {
        let limit = &self.machine.limit;
        let used = limit.used() as u64;
        limit.set(random().below(used + 8) as usize);
        note(Kind::LimitLowered);
        doze(3_000);
        limit.set(self.frames);
    }

    /// Looks at all tables from time to time, in the middle of everything.
    pub(super) fn checker(&self) {
        while !self.is_over() {
            doze(20_000);
            self.begins();
            self.ends();
            self.vmos.check_invariants();
            self.vmos.engine().check_queues();
        }
    }

    /// What all VMOs see, each its part, is what there is.
    fn check_attribution(&self) {
        let objects = self.objects.borrow();
        let seen = objects.iter().map(|object| {
            let size = self.vmos.pages(object.id).expect("it is there");
            let seen = self.vmos.attribution(object.id, 0..size);
            seen.expect("it is there").committed.scaled_bytes
        });
        let (seen, held) = (
            seen.sum::<u64>(),
            self.machine.pages_in_place() as u64 * 4096,
        );
        // Each loses less than a byte.
        let most = held.saturating_sub(objects.len() as u64)..=held;
        assert!(most.contains(&seen), "{seen} bytes are seen of {held}");
    }

    /// All threads have ended: looks at everything, then gives everything back.
    pub(super) fn check_to_the_end(&self) {
        let (machine, vmos, engine) = (self.machine, self.vmos, self.vmos.engine());
        let damaged = machine.damaged().0 > 0;
        vmos.check_invariants();
        engine.check_queues();
        engine.with_storage_locked(|storage| storage.check_invariants());
        machine.limit.set(usize::MAX >> 1);
        let held = Held::default();
        let mut worker = held.worker(200);
        self.check_attribution();
        // Nothing goes wrong any more: every page is read.
        crate::schedule::simulation().injections.calm();
        for object in self.objects.take() {
            let now = self.now() + 1;
            for (page, versions) in object.known(0..object.sizes(now, now).0) {
                let mut found = [0; 4096];
                let read = vmos.read(machine, &mut worker, object.id, page * 4096, &mut found);
                let possible = versions.possible(now, now);
                about((object.number, page as u32));
                match (read, &object.store) {
                    (Ok(()), _) => {
                        let is = |content| *bytes(content) == found;
                        assert!(
                            possible.iter().any(is),
                            "page {page} holds something else at the end"
                        );
                    }
                    // It is not in place, so what its user pager has is what it holds.
                    (Err(VmoError::NotSupplied), Some(store)) => {
                        let stored = possible.iter().any(|content| store.holds(page, content));
                        assert!(stored, "page {page} holds something else in its store");
                    }
                    (Err(error), _) => assert!(damaged, "{error:?} at the end"),
                }
            }
            if object.store.is_some() {
                self.check_eviction(&object);
            }
            vmos.destroy(machine, object.id).expect("a VMO ends");
        }
        let c = engine.counters();
        let usage = engine.storage_usage();
        assert_eq!(vmos.objects(), 0, "VMOs at the end");
        assert_eq!(
            c.compressed_pages.load(Relaxed),
            0,
            "compressed pages at the end"
        );
        assert_eq!(c.same_filled_pages.load(Relaxed), 0, "markers at the end");
        assert_eq!(c.zero_pages.load(Relaxed), 0, "zeros at the end");
        assert_eq!(machine.staging.filled(), 0, "staging at the end");
        assert_eq!(machine.pages_in_place(), 0, "pages at the end");
        assert_eq!(engine.resident_pages(), 0, "records at the end");
        assert_eq!(vmos.tables_in_use(), (0, 0, 0), "tables at the end");
        assert!(
            damaged || c.corrupt.load(Relaxed) == 0,
            "damaged, and nobody did it"
        );
        engine.check_queues();
        if machine.damaged().1 == 0 {
            let left = (usage.objects, machine.frames.lent(), machine.limit.used());
            assert_eq!(left, (0, 0, 0), "storage and frames at the end");
        }
    }
}
