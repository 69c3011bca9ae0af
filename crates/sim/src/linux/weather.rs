//! What disturbs the machine from time to time.

use super::World;
use crate::codec::SimCodec;
use crate::inject::Kind;
use crate::machine::Table;
use crate::reclaim;
use crate::schedule::{doze, note, random, simulation, step};
use crate::trace::What;
use coldpress_engine::{Entry, Recoder};

impl World {
    pub(super) fn weather(&self, mut recoder: Recoder<SimCodec, SimCodec>) {
        self.machine.chunks.growing(&[Table::Storage]);
        while !self.is_over() {
            self.goes_on();
            self.rest_if_told();
            match random().below(16) {
                0..=1 => self.pin_some(),
                2 => self.lower_limit(),
                3..=4 => self.machine.clock.disturb(),
                5..=6 => self.damage_something(),
                7..=8 => self.wake_somebody(),
                9..=12 => reclaim::recode(self.engine, self.machine, &mut recoder),
                _ if simulation().injections.allows(Kind::Compaction) => self.compact(),
                _ => {}
            }
            doze(400);
        }
        self.limit.set(usize::MAX >> 1);
    }

    fn pin_some(&self) {
        for _ in 0..random().below(4) {
            let entry = self.machine.at(self.any_place());
            entry.pins.set(entry.pins.get() + 1);
        }
        for place in self.machine.all() {
            let entry = self.machine.at(place);
            if entry.pins.get() > 0 && random().one_in(3) {
                entry.pins.set(entry.pins.get() - 1);
            }
        }
    }

    /// Storage may have no more frames than it has, or few more; or as many as it likes.
    fn lower_limit(&self) {
        if random().one_in(2) {
            self.limit.set(usize::MAX >> 1);
            return;
        }
        let used = self.limit.used() as u64;
        self.limit.set((random().below(used + 8)) as usize);
        note(Kind::LimitLowered);
        doze(3_000);
        self.limit.set(usize::MAX >> 1);
    }

    /// Flips a bit of something stored. Inside the gate: in the middle of a change an entry may
    /// still name what was freed.
    fn damage_something(&self) {
        let _inside = self.machine.gate.enter(true);
        let start = random().below(self.expected.len() as u64) as usize;
        let places = self.machine.all();
        let mut places = places.cycle().skip(start).take(self.expected.len());
        let Some((place, reference)) =
            places.find_map(|place| match self.engine.entry(place.0, place.1) {
                Entry::Compressed(reference) => Some((place, reference)),
                _ => None,
            })
        else {
            return;
        };
        step(What::Weather, place.0, place.1, 0);
        // With a change unread, the content may belong elsewhere already.
        let is_there = self.engine.entry(place.0, place.1) == Entry::Compressed(reference);
        if !is_there || self.machine.changing.get() > 0 {
            return;
        }
        if crate::damage::flip(&self.machine.frames, reference) {
            self.links_damaged.set(self.links_damaged.get() + 1);
        }
        self.machine.at(place).doubtful.set(true);
    }

    fn wake_somebody(&self) {
        let second = self.machine.second_wakes.borrow_mut().pop();
        let place = second.unwrap_or_else(|| {
            let first = self
                .machine
                .all()
                .find(|&place| self.machine.sleepers(place) != 0);
            first.unwrap_or_else(|| self.any_place())
        });
        if second.is_none() && self.machine.sleepers(place) != 0 {
            note(Kind::SpuriousWake);
        }
        self.wake_for_nothing(place);
    }

    fn compact(&self) {
        let budget = random().between(1, 20_000) as usize;
        if let Some(done) = self.engine.compact(self.machine, budget)
            && done.objects > 0
        {
            note(Kind::Compaction);
        }
    }
}
