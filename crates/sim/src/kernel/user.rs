//! Threads that use VMOs, by system calls and through mappings, and compare all they read.

use super::changing::How;
use super::object::{Content, Object, bytes};
use super::store::Store;
use super::{USERS, World};
use crate::codec::SimCodec;
use crate::content;
use crate::inject::Kind;
use crate::machine::Table;
use crate::schedule::{doze, note, random, simulation, step};
use crate::trace::What;
use crate::versions::Versions;
use coldpress_codec::{PAGE_SIZE, Page};
use coldpress_engine::vmo::VmoError;
use coldpress_engine::{Access, Entry, Worker};
use std::ops::Range;
use std::rc::Rc;

/// The most VMOs at a time.
pub(super) const OBJECTS: usize = 24;

/// Where VMOs of several segments have pages: around this one, and at their beginning.
pub(super) const FAR: u64 = 8192;

/// Pages of a part.
pub(super) const NEAR: u64 = 28;

/// The last position that a VMO of the driver's may have.
pub(super) const LAST: u64 = FAR + 200;

const TOUCHES: [Kind; 4] = [
    Kind::TouchStaged,
    Kind::TouchInCodec,
    Kind::TouchStoring,
    Kind::TouchRestoring,
];

/// A mapping of this thread's.
type Mapping = Option<(Rc<Object>, u64)>;

const MAPPINGS: usize = 6;
const _: () = assert!(USERS * MAPPINGS <= super::mappings::ADDRESSES);

/// What else may change an object while a change is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// Whatever else does.
    Others,
    /// Nothing.
    None,
}

pub(super) struct User<'a> {
    pub(super) world: &'a World,
    number: usize,
    pub(super) worker: Worker<SimCodec>,
    mappings: Vec<Mapping>,
}

/// What a change of the driver's model is: a page's versions, and when it began.
type Change = (Rc<Versions<Content>>, u64);

impl World {
    pub(super) fn user(&self, number: usize, worker: Worker<SimCodec>) {
        let mut user = User {
            world: self,
            number,
            worker,
            mappings: vec![None; MAPPINGS],
        };
        while !simulation().is_stopping() {
            user.act();
            self.ends();
        }
        self.users.set(self.users.get() - 1);
    }

    /// Whether an operation on this VMO may have been answered so.
    pub(super) fn excuses(&self, object: &Object, error: VmoError, began: u64, last_page: u64) {
        let excused = match error {
            VmoError::NoSuchVmo => {
                note(Kind::TouchOfEnded);
                object.ending.get()
            }
            VmoError::OutOfRange => object.sizes(began, self.now()).0 < last_page,
            VmoError::NoMemory => true,
            VmoError::BadState => {
                note(Kind::MetPin);
                object.was_pinned(began)
            }
            VmoError::Poisoned => self.machine.damaged().0 > 0,
            VmoError::NotSupplied => {
                let store = object.store.as_ref();
                store.is_some_and(|store| store.has_refused(began))
            }
            VmoError::NotSupported => object.store.is_some(),
            VmoError::NotAligned => false,
        };
        assert!(
            excused,
            "{error:?} of {:?}, up to page {last_page}",
            object.id
        );
    }

    /// Compares what was read of a page with what it may hold.
    fn compare(&self, object: &Object, page: u64, found: &[u8], offset: usize, began: u64) {
        let possible = object.page(page).possible(began, self.now());
        let is = |content: &Content| bytes(content)[offset..offset + found.len()] == *found;
        if possible.iter().any(is) {
            return;
        }
        crate::failure::about((object.number, page as u32));
        let expected = bytes(&possible[0]);
        let at = found
            .iter()
            .zip(&expected[offset..])
            .position(|(a, b)| a != b);
        panic!(
            "page {page} of {:?} holds something else, byte {at:?}: {:x?}, none of {} contents, \
             as {:x?}",
            object.id,
            &found[at.unwrap_or(0)..][..8.min(found.len() - at.unwrap_or(0))],
            possible.len(),
            &expected[offset + at.unwrap_or(0)..][..8.min(found.len() - at.unwrap_or(0))],
        );
    }
}

impl User<'_> {
    fn act(&mut self) {
        let world = self.world;
        world
            .machine
            .chunks
            .growing(&[Table::Leaves, Table::Records]);
        let Some((object, page)) = self.target() else {
            return self.create();
        };
        match random().below(202) {
            0..=49 => self.read(&object, page),
            50..=89 => self.write(&object, page),
            90..=145 => self.touch(&object, page),
            146..=152 => self.commit(&object, page),
            153..=159 => self.prefetch(&object, page),
            160..=165 => self.zeros(&object, page, How::Zero),
            166..=171 => self.zeros(&object, page, How::Decommit),
            172..=175 => self.resize(&object),
            176..=181 => self.snapshot(&object),
            182..=184 => self.destroy(&object),
            185..=189 => self.create(),
            190..=191 => self.pin(&object, page),
            192..=196 => self.splice(&object, page),
            197 => self.mark(&object),
            198 => self.world.check_usage(&object),
            199 => self.hint(&object, page),
            _ => doze(500),
        }
    }

    /// A page to act on: often one that is away, and that others act on too.
    pub(super) fn target(&self) -> Option<(Rc<Object>, u64)> {
        match random().below(4) {
            0 => {
                let spot = self.world.spot.borrow().clone();
                if let Some(spot) = spot.filter(|spot| !spot.0.ending.get()) {
                    return Some(spot);
                }
            }
            1 => {
                for _ in 0..6 {
                    let object = self.some_object()?;
                    let page = self.some_page(&object);
                    let away = |entry| !matches!(entry, Entry::Empty | Entry::Page(_));
                    if self.world.vmos.entry(object.id, page).is_ok_and(away) {
                        let spot = (object, page);
                        *self.world.spot.borrow_mut() = Some(spot.clone());
                        return Some(spot);
                    }
                }
            }
            _ => {}
        }
        let object = self.some_object()?;
        let page = self.some_page(&object);
        Some((object, page))
    }

    fn some_object(&self) -> Option<Rc<Object>> {
        let objects = self.world.objects.borrow();
        if objects.is_empty() {
            return None;
        }
        // Mostly one of a few, so that threads meet.
        let most = if random().one_in(2) {
            objects.len().min(3)
        } else {
            objects.len()
        };
        Some(objects[random().below(most as u64) as usize].clone())
    }

    fn some_page(&self, object: &Object) -> u64 {
        let near = random().below(NEAR);
        let now = self.world.now();
        if object.sizes(now, now).1 > FAR && random().one_in(2) {
            FAR - NEAR / 2 + near
        } else {
            near
        }
    }

    pub(super) fn some_range(&self, object: &Object, page: u64) -> Range<u64> {
        let now = self.world.now();
        let size = object.sizes(now, now).1;
        let end = match random().one_in(8) {
            // What a user pager knows is asked of it page by page.
            true if object.store.is_none() => size,
            _ => page + random().between(1, 12),
        };
        page.min(size)..end.clamp(page.min(size), size.max(page.min(size)))
    }

    /// Counts in which state the pages of a range are met.
    pub(super) fn note_stages(&self, object: &Object, pages: Range<u64>, kinds: [Kind; 4]) {
        // Only where something is in flight at all.
        if self.world.machine.staging.filled() == 0 && random().below(4) != 0 {
            return;
        }
        for page in pages.start..pages.end.min(pages.start + 12) {
            if let Ok(entry) = self.world.vmos.entry(object.id, page) {
                self.world.note_stage(entry, kinds);
            }
        }
    }

    fn create(&mut self) {
        let world = self.world;
        if world.objects.borrow().len() >= OBJECTS {
            return;
        }
        world.begins();
        world
            .machine
            .chunks
            .growing(&[Table::Segments, Table::Accounts, Table::Objects]);
        let pages = if random().one_in(5) {
            FAR + random().below(NEAR / 2)
        } else {
            random().between(1, NEAR + 1)
        };
        let object = if random().one_in(4) {
            self.create_paged(pages.min(NEAR))
        } else {
            let id = world.vmos.create(world.machine, pages);
            id.map(|id| Object::new(id, world.next_number(), pages, 0, world.now()))
        };
        match object {
            Ok(object) => world.objects.borrow_mut().push(Rc::new(object)),
            Err(error) => assert_eq!(error, VmoError::NoMemory, "creating"),
        }
    }

    fn create_paged(&self, pages: u64) -> Result<Object, VmoError> {
        let world = self.world;
        let id = world.vmos.create_pager_backed(world.machine, pages)?;
        let store = Store::new(random(), pages, 0..NEAR);
        let object = Object::paged(id, world.next_number(), pages, store, world.now());
        world.machine.requests.attach(id, object.number);
        Ok(object)
    }

    fn read(&mut self, object: &Object, page: u64) {
        let world = self.world;
        self.note_stages(object, page..page + 1, TOUCHES);
        let began = world.begins();
        let mut found = [0xA5; PAGE_SIZE];
        let whole = random().one_in(2);
        let offset = if whole {
            0
        } else {
            random().below(4000) as usize
        };
        let len = if whole {
            PAGE_SIZE
        } else {
            random().between(1, 90) as usize
        };
        let at = page * PAGE_SIZE as u64 + offset as u64;
        let into = &mut found[..len];
        step(What::Read, object.number, page as u32, 0);
        match world
            .vmos
            .read(world.machine, &mut self.worker, object.id, at, into)
        {
            Ok(()) => world.compare(object, page, into, offset, began),
            Err(error) => self.take_error(object, error, began, page),
        }
    }

    /// The operation was refused; what was damaged is dropped.
    pub(super) fn take_error(&mut self, object: &Object, error: VmoError, began: u64, page: u64) {
        let world = self.world;
        world.excuses(object, error, began, page + 1);
        match error {
            VmoError::NoMemory => {
                world.wants_memory();
                doze(200);
            }
            VmoError::Poisoned => {
                let how = if object.store.is_none() && random().one_in(2) {
                    How::Decommit
                } else {
                    How::Zero
                };
                self.make_zeros(object, page..page + 1, how);
            }
            _ => {}
        }
    }

    /// A change of content begins, once no other needs to be alone. `false`: it cannot be alone.
    pub(super) fn begin_change(&self, object: &Object, beside: Beside) -> bool {
        let alone = beside == Beside::None;
        if alone && (object.changes.get() > 0 || object.exclusive.get()) {
            return false;
        }
        while object.exclusive.get() {
            doze(50);
        }
        object.exclusive.set(alone);
        object.changes.set(object.changes.get() + 1);
        true
    }

    pub(super) fn end_change(&self, object: &Object) {
        object.exclusive.set(false);
        object.changes.set(object.changes.get() - 1);
    }

    fn begin_version(&self, object: &Object, page: u64, content: Content, began: u64) -> Change {
        let versions = object.page(page);
        versions.begin(content, began, self.world.oldest());
        (versions, began)
    }

    fn write(&mut self, object: &Object, page: u64) {
        let world = self.world;
        self.note_stages(object, page..page + 1, TOUCHES);
        let few = random().one_in(3) && self.begin_change(object, Beside::None);
        if !few {
            self.begin_change(object, Beside::Others);
        }
        let began = world.begins();
        let possible = object.page(page).possible(began, began);
        let mut content = Box::new([0; PAGE_SIZE]);
        let (offset, len) = match possible.as_slice() {
            [base] if few => {
                content.copy_from_slice(bytes(base));
                let (at, words) = content::few_words(random());
                content[at..at + words.len()].copy_from_slice(&words);
                (at, words.len())
            }
            _ => {
                content::fill(random(), &mut content);
                (0, PAGE_SIZE)
            }
        };
        let content: Rc<Page> = Rc::from(content);
        let (versions, began) = self.begin_version(object, page, Some(content.clone()), began);
        let at = page * PAGE_SIZE as u64 + offset as u64;
        let bytes = &content[offset..offset + len];
        step(What::Write, object.number, page as u32, 0);
        let done = world
            .vmos
            .write(world.machine, &mut self.worker, object.id, at, bytes);
        step(
            What::Idle,
            object.number,
            page as u32,
            done.map_or_else(|e| e as u32 + 1, |()| 0),
        );
        match done {
            Ok(()) => versions.end(began, world.now()),
            Err(_) => versions.take_back(began),
        }
        self.end_change(object);
        if let Err(error) = done {
            self.take_error(object, error, began, page);
        }
    }

    /// Through a mapping.
    fn touch(&mut self, object: &Rc<Object>, page: u64) {
        let world = self.world;
        let slot = random().below(MAPPINGS as u64) as usize;
        let address = self.number * MAPPINGS + slot;
        // Often what is mapped there already.
        let (object, page) = match &self.mappings[slot] {
            Some((object, page)) if random().below(4) != 0 => (object.clone(), *page),
            _ => {
                world.machine.mappings.clear(address);
                self.mappings[slot] = Some((object.clone(), page));
                (object.clone(), page)
            }
        };
        let access = if random().one_in(2) {
            Access::Write
        } else {
            Access::Read
        };
        if access == Access::Write {
            self.begin_change(&object, Beside::Others);
        }
        let began = world.begins();
        let mut refused = None;
        for _ in 0..20 {
            let what = match access {
                Access::Write => What::Write,
                Access::Read => What::Read,
            };
            step(what, object.number, page as u32, 2);
            if self.access(&object, page, address, access) {
                break;
            }
            if let Err(error) = self.fault(&object, page, address, access) {
                refused = Some(error);
                break;
            }
        }
        if access == Access::Write {
            self.end_change(&object);
        }
        if let Some(error) = refused {
            self.take_error(&object, error, began, page);
        }
    }

    /// Reads or writes what is mapped, at once. Whether it is.
    fn access(&mut self, object: &Object, page: u64, address: usize, access: Access) -> bool {
        let world = self.world;
        let now = world.now();
        let mut new = None;
        let content = world.machine.access(address, access, |at| {
            let read = *at;
            if access == Access::Write {
                content::fill(random(), at);
                new = Some(Rc::new(*at));
            }
            read
        });
        let Some(content) = content else {
            return false;
        };
        world.compare(object, page, &content, 0, now);
        if let Some(new) = new {
            let (versions, began) = self.begin_version(object, page, Some(new), now);
            versions.end(began, now);
        }
        true
    }

    fn fault(
        &mut self,
        object: &Object,
        page: u64,
        address: usize,
        access: Access,
    ) -> Result<(), VmoError> {
        let (machine, vmos) = (self.world.machine, self.world.vmos);
        self.note_stages(object, page..page + 1, TOUCHES);
        step(What::Fault, object.number, page as u32, 0);
        let map = |place, writable| machine.mappings.map(address, place, writable);
        match vmos.fault(machine, &mut self.worker, object.id, page, access, map) {
            Err(VmoError::NoMemory) => {
                machine
                    .chunks
                    .growing(&[Table::Segments, Table::Leaves, Table::Records]);
                vmos.prepare_for(machine, 1, 2, 40);
                doze(100);
                Ok(())
            }
            done => done,
        }
    }

    fn commit(&mut self, object: &Object, page: u64) {
        let world = self.world;
        let pages = page..(page + random().between(1, 6));
        let began = world.begins();
        let vmos = world.vmos;
        let done = vmos.commit(world.machine, &mut self.worker, object.id, pages.clone());
        if let Err(error) = done {
            world.excuses(object, error, began, pages.end);
        }
    }

    fn prefetch(&mut self, object: &Object, page: u64) {
        let world = self.world;
        let pages = self.some_range(object, page);
        let began = world.begins();
        let vmos = world.vmos;
        let done = vmos.prefetch(world.machine, &mut self.worker, object.id, pages.clone());
        if let Err(error) = done {
            world.excuses(object, error, began, pages.end);
        }
    }
}
