//! What VMOs ask of the machine: pages read, written, copied, moved, waited for.

use super::host::{Kernel, key_of};
use super::requests::WAIT_STEPS;
use crate::failure::fail;
use crate::lock::SimLock;
use crate::sabotage::KernelSabotage;
use crate::schedule::{NOBODY, block, simulation, step};
use crate::trace::What;
use coldpress_engine::lock::HeldRanks;
use coldpress_engine::vmo::VmoId;
use coldpress_engine::{Entry, Installed, Memory, Place};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

fn assert_unlocked() {
    let held = SimLock::held().expect("all are checked").load(Relaxed);
    let holds = cfg!(debug_assertions) && held != 0;
    assert!(!holds, "waits with a lock held");
}

// SAFETY: each method acts between two steps; pages keep their bytes.
unsafe impl Memory for Kernel {
    fn read(&self, place: Place, offset: usize, into: &mut [u8]) {
        step(What::Memory, place.0, place.1, 1);
        self.assert_locked(place);
        self.ram.with(self.frame(place), |page| {
            into.copy_from_slice(&page[offset..][..into.len()]);
        });
    }

    fn write(&self, place: Place, offset: usize, bytes: &[u8]) {
        step(What::Memory, place.0, place.1, 2);
        self.assert_locked(place);
        self.ram.with(self.frame(place), |page| {
            page[offset..][..bytes.len()].copy_from_slice(bytes);
        });
    }

    fn zero(&self, place: Place) {
        self.write(place, 0, &[0; 4096]);
    }

    fn drop_page(&self, place: Place) {
        step(What::Memory, place.0, place.1, 3);
        self.assert_locked(place);
        let frame = self.remove(place);
        self.ram.free(frame);
        self.limit.give();
    }

    fn rename(&self, from: Place, to: Place) {
        step(What::Memory, from.0, from.1, 4);
        step(What::Memory, to.0, to.1, 5);
        self.assert_locked(from);
        let frame = self.remove(from);
        self.put_frame(to, frame);
    }

    fn copy(&self, from: Place, to: Place) -> Installed {
        step(What::Memory, from.0, from.1, 6);
        step(What::Memory, to.0, to.1, 7);
        self.assert_locked(from);
        if !self.take_frame() {
            return Installed::NoFrame;
        }
        // SAFETY: in use; the frame that is allocated is another one.
        let content = unsafe { self.ram.address(self.frame(from)).as_ref() };
        self.put(to, content)
    }

    fn protect(&self, place: Place) {
        step(What::Memory, place.0, place.1, 8);
        if self.sabotage != KernelSabotage::ProtectIgnored {
            self.mappings.protect(place);
        }
    }

    fn unmap(&self, place: Place) {
        step(What::Memory, place.0, place.1, 9);
        if self.sabotage != KernelSabotage::UnmapIgnored {
            self.mappings.unmap(place);
        }
    }

    fn wakes(&self, place: Place) -> u32 {
        self.wakes_of(place)
    }

    fn wait(&self, place: Place, _worker: u16, seen: u32) {
        assert_ne!(simulation().current(), NOBODY, "nobody else can help");
        step(What::Wait, place.0, place.1, seen);
        assert_unlocked();
        if self.wakes(place) != seen || block(key_of(place), Some(WAIT_STEPS)) {
            return;
        }
        let looker = self.looker.get().expect("set before the first thread runs");
        if self.wakes(place) == seen && !matches!(looker.entry(place), Entry::Request(_)) {
            fail(place, "a thread waits that nobody has woken");
        }
    }

    fn request(&self, vmo: VmoId, page: u64, seen: u32) -> bool {
        assert_unlocked();
        let looker = self.looker.get().expect("set before the first thread runs");
        self.requests.ask(*looker, vmo, page, seen)
    }

    fn answers(&self, vmo: VmoId) -> u32 {
        self.requests.answers(vmo)
    }

    fn answered(&self, vmo: VmoId, pages: Range<u64>) {
        step(What::Answer, 0, pages.start as u32, pages.end as u32);
        self.requests.answered(vmo);
    }
}
