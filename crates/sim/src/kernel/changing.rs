//! Users that change VMOs as a whole, or ranges of them: zeroing, giving back, resizing, snapshots, the
//! end.

use super::object::Object;
use super::user::{Beside, FAR, LAST, NEAR, OBJECTS, User};
use crate::inject::Kind;
use crate::machine::Table;
use crate::schedule::{doze, fires, note, random, step};
use crate::trace::What;
use crate::versions::Versions;
use coldpress_engine::vmo::VmoError;
use std::ops::Range;
use std::rc::Rc;

const DROPS: [Kind; 4] = [
    Kind::DropStaged,
    Kind::DropInCodec,
    Kind::DropStoring,
    Kind::DropRestoring,
];
const ZEROS: [Kind; 4] = [Kind::ZeroInFlight; 4];
const RESIZES: [Kind; 4] = [Kind::ResizeInFlight; 4];
const SNAPSHOTS: [Kind; 4] = [
    Kind::SnapshotStaged,
    Kind::SnapshotInCodec,
    Kind::SnapshotStoring,
    Kind::SnapshotRestoring,
];
const ENDS: [Kind; 4] = [
    Kind::DestroyStaged,
    Kind::DestroyInCodec,
    Kind::DestroyStoring,
    Kind::DestroyRestoring,
];

/// How pages become zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// They are decommitted.
    Decommit,
    /// Zeros are written to them.
    Zero,
}

impl User<'_> {
    pub(super) fn zeros(&mut self, object: &Object, page: u64, how: How) {
        let pages = self.some_range(object, page);
        let stages = match how {
            How::Decommit => DROPS,
            How::Zero => ZEROS,
        };
        self.note_stages(object, pages.clone(), stages);
        self.make_zeros(object, pages, how);
    }

    pub(super) fn make_zeros(&mut self, object: &Object, pages: Range<u64>, how: How) {
        let world = self.world;
        if how == How::Decommit && object.store.is_some() {
            return self.give_back(object, pages);
        }
        self.begin_change(object, Beside::Others);
        let began = world.begins();
        object.begin_zeros(pages.clone(), began, world.oldest());
        let (vmos, machine) = (world.vmos, world.machine);
        step(
            What::Zap,
            object.number,
            pages.start as u32,
            pages.end as u32,
        );
        let done = match how {
            How::Decommit => vmos.decommit(machine, object.id, pages.clone()),
            How::Zero => vmos.zero(machine, object.id, pages.clone()),
        };
        object.end_zeros(pages.clone(), began, world.now(), done.is_ok());
        self.end_change(object);
        if let Err(error) = done {
            world.excuses(object, error, began, pages.end);
        }
    }

    /// Gives pages back to their user pager, which changes nothing of what they hold.
    fn give_back(&mut self, object: &Object, pages: Range<u64>) {
        let world = self.world;
        let began = world.begins();
        step(What::Zap, object.number, pages.start as u32, 0);
        if let Err(error) = world.vmos.decommit(world.machine, object.id, pages.clone()) {
            if error == VmoError::NotSupported {
                note(Kind::DecommitDirty);
            }
            world.excuses(object, error, began, pages.end);
        }
    }

    /// Where a user pager has the content, it does the resizing, and nothing else meanwhile.
    pub(super) fn resize(&mut self, object: &Object) {
        let world = self.world;
        let pages = match random().below(6) {
            0 => FAR + random().below(NEAR / 2),
            _ => random().below(NEAR + 1),
        };
        if object.base + pages > LAST {
            return;
        }
        self.note_stages(object, pages..NEAR, RESIZES);
        self.begin_change(object, Beside::Others);
        // Not before: who is alone at a change may wait for the pager, which waits for the store.
        if let Some(store) = &object.store {
            store.hold();
        }
        let began = world.begins();
        object.size.begin(pages, began, world.oldest());
        object.begin_zeros(pages..u64::MAX, began, world.oldest());
        if world.machine.requests.are_asked(object.id, pages) {
            note(Kind::ResizeAsked);
        }
        step(What::Change, object.number, pages as u32, 0);
        let done = world.vmos.resize(world.machine, object.id, pages);
        if let (Ok(()), Some(store)) = (done, &object.store) {
            store.cut(pages);
        }
        match done {
            Ok(()) => object.size.end(began, world.now()),
            Err(_) => object.size.take_back(began),
        }
        object.end_zeros(pages..u64::MAX, began, world.now(), done.is_ok());
        if let Some(store) = &object.store {
            store.give_back();
        }
        self.end_change(object);
        if let Err(error) = done {
            world.excuses(object, error, began, 0);
        }
    }

    pub(super) fn snapshot(&mut self, object: &Rc<Object>) {
        let world = self.world;
        if world.objects.borrow().len() >= OBJECTS {
            return;
        }
        let now = world.now();
        let size = object.sizes(now, now).1;
        let start = if random().one_in(2) {
            0
        } else {
            random().below(size.min(NEAR) + 1)
        };
        let more = random().pick(&[0, 0, 3]);
        let end = if random().one_in(3) {
            start + random().below(NEAR)
        } else {
            size.max(start) + more
        };
        if object.base + end > LAST {
            return;
        }
        self.note_stages(object, start..end, SNAPSHOTS);
        world
            .machine
            .chunks
            .growing(&[Table::Accounts, Table::Objects, Table::Counts]);
        let began = world.begins();
        step(What::Change, object.number, start as u32, end as u32);
        let made = world.vmos.snapshot(world.machine, object.id, start..end);
        let ended = world.now();
        match made {
            Ok(id) => {
                let base = object.base + start;
                let child = Object::new(id, world.next_number(), end - start, base, ended);
                for (page, versions) in object.known(start..end) {
                    let possible = versions.possible(began, ended);
                    child.set_page(page - start, Versions::of(possible, began, ended));
                }
                world.objects.borrow_mut().push(Rc::new(child));
            }
            Err(error) => world.excuses(object, error, began, start),
        }
    }

    pub(super) fn destroy(&mut self, object: &Rc<Object>) {
        let world = self.world;
        if object.ending.replace(true) {
            return;
        }
        world
            .objects
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, object));
        if object.store.is_some() {
            world.ending.borrow_mut().insert(object.id, object.clone());
        }
        self.note_stages(object, 0..NEAR, ENDS);
        let began = world.begins();
        if world.machine.requests.are_asked(object.id, 0) {
            note(Kind::DestroyAsked);
        }
        step(What::Change, object.number, 0, 0xE);
        loop {
            match world.vmos.destroy(world.machine, object.id) {
                Ok(()) => break,
                Err(VmoError::BadState) if object.was_pinned(began) => doze(300),
                Err(error) => panic!("a VMO cannot end: {error:?}"),
            }
        }
        world.machine.requests.end(object.id);
        world.ending.borrow_mut().remove(&object.id);
        if fires(Kind::SlowWriter) {
            doze(100);
        }
    }
}
