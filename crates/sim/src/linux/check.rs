//! Whether entries, memory, gauges and content agree.

use super::World;
use crate::failure::fail;
use crate::lifetime::Held;
use coldpress_engine::{Content, Entry};
use coldpress_storage::CompressedStorage;
use std::sync::atomic::Ordering::Relaxed;

impl World {
    /// Gauges and entries tell the same. Nothing is in flight.
    pub(super) fn check_gauges(&self) {
        let engine = self.engine;
        let (mut resident, mut compressed, mut markers) = (0, 0, 0);
        for place in self.machine.all() {
            match engine.entry(place.0, place.1) {
                Entry::Empty => {}
                Entry::Page(_) => resident += 1,
                Entry::Compressed(_) => compressed += 1,
                Entry::Zero | Entry::SameFilled(_) => markers += 1,
                entry => fail(place, &format!("{entry:?} although nothing is in flight")),
            }
        }
        let c = engine.counters();
        assert_eq!(engine.resident_pages(), resident, "records");
        assert_eq!(
            c.compressed_pages.load(Relaxed),
            compressed,
            "compressed pages"
        );
        assert_eq!(c.same_filled_pages.load(Relaxed), markers, "markers");
        assert_eq!(self.machine.staging.filled(), 0, "staged pages");
        engine.with_storage_locked(|storage| storage.check_invariants());
        let usage = engine.storage_usage();
        let objects = usage.objects as u64;
        // An object whose link is damaged is never given back.
        let most = compressed + self.links_damaged.get() as u64;
        assert!(
            (compressed..=most).contains(&objects),
            "{objects} objects of {compressed} pages"
        );
        assert_eq!(
            usage.storage_bytes,
            self.machine.frames.lent() * 4096,
            "frames"
        );
    }

    /// All threads have ended: looks at everything, then gives everything back.
    pub(super) fn check_to_the_end(&self) {
        self.check_gauges();
        let held = Held::default();
        let mut worker = held.worker(200);
        for place in self.machine.all() {
            let entry = self.machine.at(place);
            if entry.frame.get() != 0 {
                self.machine.ram.with(entry.frame.get(), |page| {
                    self.compare(place, page, "at the end")
                });
                continue;
            }
            if entry.poisoned.get() || entry.gone.get() || !entry.registered.get() {
                continue;
            }
            match self
                .engine
                .peek(self.machine, &mut worker, place.0, place.1)
            {
                Content::Bytes(page) => self.compare(place, page, "at the end"),
                Content::Nothing | Content::Present => {
                    self.compare(place, &[0; 4096], "at the end, where nothing is remembered");
                }
                Content::Doubtful if entry.doubtful.get() => {}
                Content::Doubtful => fail(place, "damaged, and nobody did it"),
            }
        }
        for place in self.machine.all() {
            self.engine
                .decommit(self.machine, place.0, place.1, place.1 + 1);
            self.machine.zap(place);
        }
        self.check_gauges();
        assert_eq!(self.engine.resident_pages(), 0, "records at the end");
        assert_eq!(self.machine.ram.used(), 0, "frames at the end");
        if self.links_damaged.get() == 0 {
            let usage = self.engine.storage_usage();
            assert_eq!(
                (usage.objects, self.machine.frames.lent()),
                (0, 0),
                "storage at the end"
            );
        }
    }
}
