//! Users that pin pages, move them from VMO to VMO, and mark VMOs as latency-sensitive.

use super::World;
use super::object::Object;
use super::user::{Beside, User};
use crate::inject::Kind;
use crate::machine::Table;
use crate::schedule::{doze, note, random, step};
use crate::trace::What;
use coldpress_engine::vmo::{Hint, Shares, VmoError};
use std::ops::Range;
use std::rc::Rc;

const TAKEN: [Kind; 4] = [Kind::SpliceInFlight; 4];
const PINS: [Kind; 4] = [Kind::PinInFlight; 4];

impl User<'_> {
    /// Pins pages for a while. Meanwhile the machine sees to it that they stay.
    pub(super) fn pin(&mut self, object: &Rc<Object>, page: u64) {
        let world = self.world;
        let (machine, vmos) = (world.machine, world.vmos);
        let pages = page..page + random().between(1, 4);
        self.note_stages(object, pages.clone(), PINS);
        machine
            .chunks
            .growing(&[Table::Leaves, Table::Records, Table::Counts]);
        let began = world.begins();
        object.begin_pin();
        step(What::Change, object.number, page as u32, 0xF1);
        let done = vmos.pin(machine, &mut self.worker, object.id, pages.clone());
        if let Err(error) = done {
            object.end_pin(world.now());
            return self.take_error(object, error, began, pages.end - 1);
        }
        note(Kind::Pinned);
        let mut places = Vec::new();
        let shown = vmos.lookup(object.id, pages.clone(), |_, place, own| {
            assert!(own, "a page is pinned that is not the VMO's own");
            machine.pin(place);
            places.push(place);
        });
        assert_eq!(
            (shown, places.len() as u64),
            (Ok(()), pages.end - pages.start),
            "pinned"
        );
        world.ends();
        doze(1_500);
        world.begins();
        places.into_iter().for_each(|place| machine.unpin(place));
        step(What::Change, object.number, page as u32, 0xF2);
        assert_eq!(vmos.unpin(object.id, pages), Ok(()), "it was pinned");
        object.end_pin(world.now());
    }

    /// Takes pages out of one VMO and has another hold them.
    pub(super) fn splice(&mut self, from: &Rc<Object>, page: u64) {
        let world = self.world;
        let (machine, vmos) = (world.machine, world.vmos);
        let Some((to, first)) = self.target() else {
            return;
        };
        if Rc::ptr_eq(from, &to) || to.store.is_some() {
            return;
        }
        if from.store.is_some() {
            return self.check_not_taken(from, page);
        }
        let pages = page..page + random().between(1, 6);
        self.note_stages(from, pages.clone(), TAKEN);
        machine.chunks.growing(&[
            Table::Accounts,
            Table::Objects,
            Table::Leaves,
            Table::Records,
        ]);
        self.begin_change(from, Beside::Others);
        let began = world.begins();
        from.begin_zeros(pages.clone(), began, world.oldest());
        step(What::Change, from.number, page as u32, 0xF3);
        let taken = vmos.take(machine, &mut self.worker, from.id, pages.clone());
        let whole = taken
            .as_ref()
            .is_ok_and(|list| list.pages() == pages.end - pages.start);
        let ended = world.now();
        // What the list may hold: what the VMO may have held.
        let held = |n: u64| from.page(pages.start + n).possible(began, ended);
        let count = taken.as_ref().map_or(0, |list| list.pages());
        let contents: Vec<_> = (0..count).map(held).collect();
        from.end_zeros(pages.clone(), began, ended, whole);
        self.end_change(from);
        let mut list = match taken {
            Ok(list) => list,
            Err(error) => return self.take_error(from, error, began, pages.end - 1),
        };
        note(Kind::Spliced);
        doze(100);
        let replaces = random().below(4) != 0;
        let range = first..first + list.pages();
        self.begin_change(&to, Beside::Others);
        let began = world.begins();
        for (page, contents) in range.clone().zip(contents) {
            to.page(page).begin_one_of(contents, began, world.oldest());
        }
        step(What::Change, to.number, first as u32, 0xF4);
        let done = match replaces {
            true => vmos.transfer(machine, &mut self.worker, to.id, first, &mut list),
            false => vmos.supply(machine, &mut self.worker, to.id, first, &mut list),
        };
        let (sure, now) = (done.is_ok() && replaces, world.now());
        for page in range.clone() {
            match sure {
                true => to.page(page).end(began, now),
                false => to.page(page).end_in_doubt(began, now),
            }
        }
        vmos.discard(machine, list);
        if !sure && replaces {
            // What was there before may be gone, and what should come may not have come.
            self.doubt_zeros(&to, range.clone(), began);
        }
        self.end_change(&to);
        if let Err(error) = done {
            self.take_error(&to, error, began, range.end.max(1) - 1);
        }
    }

    /// Pages of user pagers are not taken.
    fn check_not_taken(&mut self, from: &Object, page: u64) {
        let world = self.world;
        let began = world.begins();
        let taken = world
            .vmos
            .take(world.machine, &mut self.worker, from.id, page..page + 1);
        world.excuses(from, taken.expect_err("its pager has it"), began, page + 1);
    }

    /// These pages may have become zeros since.
    fn doubt_zeros(&self, object: &Object, range: Range<u64>, began: u64) {
        for page in range {
            let versions = object.page(page);
            versions.begin(None, began, self.world.oldest());
            versions.end_in_doubt(began, self.world.now());
        }
    }

    /// Says of pages that they are needed, or are not.
    pub(super) fn hint(&mut self, object: &Object, page: u64) {
        let world = self.world;
        let pages = self.some_range(object, page);
        let began = world.begins();
        let hint = random().pick(&[Hint::DontNeed, Hint::AlwaysNeed]);
        step(What::Change, object.number, page as u32, 0xF6);
        match world.vmos.hint(object.id, pages.clone(), hint) {
            Ok(hinted) if hinted > 0 => note(Kind::Hinted),
            Ok(_) => {}
            Err(error) => world.excuses(object, error, began, pages.end),
        }
    }

    /// Marks a VMO for a while.
    pub(super) fn mark(&mut self, object: &Rc<Object>) {
        let world = self.world;
        let (machine, vmos) = (world.machine, world.vmos);
        let began = world.begins();
        step(What::Change, object.number, 0, 0xF5);
        let done = vmos.mark_latency_sensitive(machine, &mut self.worker, object.id);
        if let Err(error) = done {
            return world.excuses(object, error, began, 0);
        }
        note(Kind::Marked);
        world.ends();
        doze(2_000);
        let began = world.begins();
        if let Err(error) = vmos.unmark_latency_sensitive(object.id) {
            assert_eq!(error, VmoError::NoSuchVmo, "it was marked");
            world.excuses(object, error, began, 0);
        }
    }
}

impl World {
    /// Whether a VMO sees no more than it has room for, and no more in pages than it remembers.
    pub(super) fn check_usage(&self, object: &Object) {
        let began = self.begins();
        let page = random().below(30);
        match self.vmos.attribution(object.id, 0..page) {
            Ok(seen) => {
                let [committed, content] = [seen.committed, seen.content];
                let sum = |shares: Shares| shares.private_bytes + shares.shared_bytes;
                let fits = sum(committed) <= page * 4096 && sum(content) <= page * 4096;
                assert!(fits, "{seen:?} in {page} pages");
                assert!(committed.scaled_bytes <= sum(committed), "{seen:?}");
            }
            Err(error) => self.excuses(object, error, began, page),
        }
    }
}
