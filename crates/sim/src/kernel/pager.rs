//! User pagers: threads that supply pages, write dirty ones back, and evict.

use super::World;
use super::object::{Object, bytes};
use super::requests::PAGERS;
use super::store::Store;
use crate::codec::SimCodec;
use crate::inject::Kind;
use crate::machine::Table;
use crate::schedule::{block, doze, fires, note, random, step};
use crate::trace::What;
use coldpress_engine::vmo::{Dirtiness, VmoError, VmoId};
use coldpress_engine::{Entry, Worker};
use std::ops::Range;
use std::rc::Rc;

/// How often a pager that finds no memory tries to supply a page.
const TRIES: u32 = 6;

/// The most pages that are supplied at a time.
const AT_ONCE: u64 = 5;

struct Pager<'a> {
    world: &'a World,
    worker: Worker<SimCodec>,
    /// A VMO of the pager's, from which pages are taken to be supplied.
    own: Option<VmoId>,
}

impl World {
    pub(super) fn pager(&self, worker: Worker<SimCodec>) {
        let mut pager = Pager {
            world: self,
            worker,
            own: None,
        };
        while !self.is_over() {
            self.begins();
            let request = match random().below(4) {
                0 => None,
                _ => self.machine.requests.next(random().next() >> 1),
            };
            match request {
                Some((id, page)) => pager.serve(id, page),
                None => pager.act(),
            }
            self.ends();
            if request.is_none() {
                block(PAGERS, Some(1 + random().below(400)));
            }
        }
        if let Some(own) = pager.own {
            self.vmos
                .destroy(self.machine, own)
                .expect("the pager's own VMO");
        }
    }

    fn paged(&self, is_meant: impl Fn(&Object) -> bool) -> Vec<Rc<Object>> {
        let objects = self.objects.borrow();
        let paged = objects.iter().filter(|object| object.store.is_some());
        paged.filter(|object| is_meant(object)).cloned().collect()
    }
}

impl Pager<'_> {
    /// Answers a request.
    fn serve(&mut self, id: VmoId, page: u64) {
        let world = self.world;
        // Who ends it may have to wait for somebody who waits for the pager.
        let ending = world.ending.borrow().get(&id).cloned();
        let Some(object) = ending.or_else(|| world.paged(|object| object.id == id).pop()) else {
            return;
        };
        let store = object.store.as_ref().expect("it has a pager");
        if store.detached.get() {
            return;
        }
        if !store.try_hold() {
            world.machine.requests.put((id, page));
            return doze(100);
        }
        if fires(Kind::PagerSlow) {
            doze(4_000);
        }
        let mut refused = fires(Kind::PagerRefuses);
        if !refused
            && self.supply(&object, page..page + random().between(1, AT_ONCE))
                == Err(VmoError::NoMemory)
        {
            note(Kind::PagerNoMemory);
            refused = true;
        }
        if refused {
            step(What::Pager, object.number, page as u32, 1);
            store.refuses(world.now());
            world.machine.requests.refuse(id, page);
        }
        store.give_back();
    }

    /// Supplies what is stored of pages, as far as the pager knows them. The store is held.
    fn supply(&mut self, object: &Object, pages: Range<u64>) -> Result<(), VmoError> {
        let (world, store) = (self.world, object.store.as_ref().expect("it has a pager"));
        let pages = pages.start..pages.end.min(store.known());
        if pages.is_empty() {
            return Ok(());
        }
        for _ in 0..TRIES {
            match self.try_to_supply(object, store, &pages) {
                Ok(()) => return Ok(()),
                // It has ended or become smaller: nobody waits for it any more.
                Err(VmoError::NoSuchVmo | VmoError::OutOfRange) => return Ok(()),
                Err(VmoError::NoMemory) => {
                    world.wants_memory();
                    doze(300);
                }
                Err(VmoError::Poisoned) => {
                    let own = self.own.expect("it is the pager's own that was damaged");
                    _ = world.vmos.zero(world.machine, own, 0..AT_ONCE);
                }
                Err(error) => panic!("{error:?}: supplying to {:?}", object.id),
            }
        }
        Err(VmoError::NoMemory)
    }

    fn try_to_supply(
        &mut self,
        object: &Object,
        store: &Store,
        pages: &Range<u64>,
    ) -> Result<(), VmoError> {
        let (machine, vmos) = (self.world.machine, self.world.vmos);
        machine.chunks.growing(&[
            Table::Segments,
            Table::Accounts,
            Table::Objects,
            Table::Leaves,
            Table::Records,
        ]);
        let own = match self.own {
            Some(own) => own,
            None => vmos.create(machine, AT_ONCE)?,
        };
        self.own = Some(own);
        for (n, page) in pages.clone().enumerate() {
            let content = store.get(page);
            vmos.write(
                machine,
                &mut self.worker,
                own,
                n as u64 * 4096,
                bytes(&content),
            )?;
        }
        if random().one_in(4) {
            doze(400);
        }
        let mut list = vmos.take(machine, &mut self.worker, own, 0..pages.end - pages.start)?;
        for page in pages.clone() {
            match vmos.entry(object.id, page) {
                Ok(Entry::Empty) if store.supplies(page) => note(Kind::SuppliedAgain),
                Ok(Entry::Empty) | Err(_) => {}
                Ok(_) => note(Kind::SupplyMeetsPage),
            }
        }
        step(What::Pager, object.number, pages.start as u32, 2);
        let done = vmos.supply(machine, &mut self.worker, object.id, pages.start, &mut list);
        vmos.discard(machine, list);
        done
    }

    /// Does what nobody asked for.
    fn act(&mut self) {
        let paged = self.world.paged(|object| {
            object
                .store
                .as_ref()
                .is_some_and(|store| !store.detached.get())
        });
        if paged.is_empty() {
            return;
        }
        let object = random().pick(&paged.iter().collect::<Vec<_>>()).clone();
        match random().below(60) {
            0..=35 => self.write_back(&object),
            36..=51 => self.evict(&object),
            52..=58 => self.supply_unasked(&object),
            _ => self.detach(&object),
        }
    }

    fn range(&self, object: &Object) -> Range<u64> {
        let now = self.world.now();
        let size = object.sizes(now, now).0;
        match random().one_in(2) {
            true => 0..size,
            false => {
                let start = random().below(size + 1);
                start..size.min(start + random().between(1, 12))
            }
        }
    }

    /// Writes dirty pages back, as a file system does: what it reads between begin and end is what
    /// it has from then on.
    fn write_back(&mut self, object: &Object) {
        let store = object.store.as_ref().expect("it has a pager");
        if !store.try_hold() {
            return;
        }
        let began = self.world.now();
        let pages = self.range(object);
        if let Err(error) = self.write_back_held(object, store, pages.clone()) {
            self.world.excuses(object, error, began, pages.end);
        }
        store.give_back();
    }

    fn write_back_held(
        &mut self,
        object: &Object,
        store: &Store,
        pages: Range<u64>,
    ) -> Result<(), VmoError> {
        let (machine, vmos, id) = (self.world.machine, self.world.vmos, object.id);
        step(What::Pager, object.number, pages.start as u32, 3);
        vmos.writeback_begin(machine, id, pages.clone())?;
        let mut dirty = Vec::new();
        vmos.dirty_pages(id, pages.clone(), |page, state| dirty.push((page, state)))?;
        let abandoned = fires(Kind::WritebackAbandoned);
        for &(page, _) in &dirty {
            if fires(Kind::PagerSlow) {
                doze(1_000);
            }
            let mut content = [0; 4096];
            vmos.read(machine, &mut self.worker, id, page * 4096, &mut content)?;
            if abandoned && random().one_in(2) {
                return Ok(());
            }
            if machine.sabotage != crate::sabotage::KernelSabotage::WritebackForgotten {
                store.put(page, &content);
            }
        }
        if abandoned {
            return Ok(());
        }
        step(What::Pager, object.number, pages.start as u32, 4);
        vmos.writeback_end(id, pages.clone())?;
        if !dirty.is_empty() {
            note(Kind::WrittenBack);
        }
        let began = |page| dirty.contains(&(page, Dirtiness::AwaitingClean));
        vmos.dirty_pages(id, pages, |page, _| {
            if began(page) {
                note(Kind::WrittenMeanwhile);
            }
        })
    }

    fn evict(&mut self, object: &Object) {
        let world = self.world;
        let pages = self.range(object);
        for page in pages.start..pages.end.min(pages.start + 12) {
            match world.vmos.entry(object.id, page) {
                Ok(Entry::Compressed(_)) => note(Kind::EvictCompressed),
                Ok(entry) => world.note_stage(entry, [Kind::EvictInFlight; 4]),
                Err(_) => {}
            }
        }
        let began = world.now();
        step(What::Pager, object.number, pages.start as u32, 5);
        match world
            .vmos
            .evict_pages(world.machine, object.id, pages.clone())
        {
            Ok(evicted) if evicted > 0 => note(Kind::Evicted),
            Ok(_) => {}
            Err(error) => world.excuses(object, error, began, pages.end),
        }
    }

    fn supply_unasked(&mut self, object: &Object) {
        let store = object.store.as_ref().expect("it has a pager");
        if store.known() == 0 || !store.try_hold() {
            return;
        }
        if random().one_in(4) {
            note(Kind::SupplyUnknown);
            let first = store.known() + random().below(4);
            let done = self.try_to_supply(object, store, &(first..first + 1));
            assert_ne!(done, Ok(()), "page {first} is none that a pager has");
            return store.give_back();
        }
        note(Kind::SupplyUnasked);
        let first = random().below(store.known().clamp(1, 28));
        let _ = self.supply(object, first..first + random().between(1, AT_ONCE));
        store.give_back();
    }

    /// The pager goes, whatever it is asked for.
    fn detach(&mut self, object: &Object) {
        let store = object.store.as_ref().expect("it has a pager");
        step(What::Pager, object.number, 0, 6);
        store.detached.set(true);
        self.world.machine.requests.detach(object.id);
    }
}

impl World {
    /// What is left when all that is clean was evicted is dirty, and is all that is committed.
    pub(super) fn check_eviction(&self, object: &Object) {
        let (vmos, id) = (self.vmos, object.id);
        let size = vmos.pages(id).expect("it is there");
        vmos.evict_pages(self.machine, id, 0..size)
            .expect("it has a pager");
        let (mut dirty, mut left) = (0, 0);
        vmos.dirty_pages(id, 0..size, |_, _| dirty += 1)
            .expect("it has a pager");
        vmos.lookup(id, 0..size, |_, _, _| left += 1)
            .expect("it is there");
        let seen = vmos.attribution(id, 0..size).expect("it is there");
        assert_eq!(left, dirty, "clean pages after an eviction");
        assert_eq!(seen.committed.private_bytes, dirty * 4096, "{seen:?}");
        if self.machine.damaged().0 == 0 {
            assert_eq!(seen.content.private_bytes, dirty * 4096, "{seen:?}");
        }
    }
}
