//! What the pager's threads work with: codec states, workspaces, buffers.
//!
//! They are one area of the pager's memory, laid out for the largest of the codecs that can be chosen, and mapped for
//! as many workers as there are. The kernel backs what is touched, so a codec that decodes without
//! tables costs two pages a worker, and handlers that never answer a fault cost nothing.

use crate::machine::os::Os;
use crate::memory::areas::Area;
use crate::memory::own::Memory;
use crate::space::paging::Space;
use crate::{Codec, Dense};
use coldpress_arena::Zeroable;
use coldpress_codec::PageCodec;
use coldpress_codec::press_dense::{DenseTables, Trainer};
use coldpress_engine::{MAX_WORKERS, Reclaimer, Recoder, RecoderRoom, Worker, Workspace};
use coldpress_linux::sys;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Each handler is a worker, and so is the reclaim thread (number 0).
const WORKERS: usize = crate::settings::config::MAX_HANDLERS + 1;

#[repr(C)]
struct Layout {
    presence: Pages<[u8; PAGE_SIZE]>,
    filler: Workspace<Codec>,
    buffer: [u8; PAGE_SIZE],
    state: <Codec as PageCodec>::State,
    recoder: RecoderRoom<Codec, Dense>,
    tables: Pages<DenseTables>,
    trainer: Pages<Trainer>,
    /// Last: those beyond the first are mapped when there are handlers for them.
    workspaces: [Workspace<Codec>; WORKERS],
}

/// What begins with a page, and ends with one.
#[repr(C, align(4096))]
struct Pages<T>(T);

const _: () = assert!(WORKERS <= MAX_WORKERS);
const _: () = assert!(align_of::<Layout>() <= PAGE_SIZE, "an area lies at a page");

/// The memory of all workers and of the reclaimer.
pub struct Workplace {
    base: AtomicUsize,
    /// Bytes of it that are backed, as last looked up.
    backed_bytes: AtomicU64,
}

impl Workplace {
    /// Not there yet.
    pub const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            backed_bytes: AtomicU64::new(0),
        }
    }

    /// Takes the memory for the reclaimer, at the start.
    pub(crate) fn reserve<O: Os>(&self, memory: &Memory<O>) -> Option<()> {
        self.base
            .store(memory.areas.start(Area::Workplace), Relaxed);
        self.has_room_for(0, memory).then_some(())
    }

    /// Makes room for the workers up to `number`. `false`: there is none.
    pub(crate) fn has_room_for<O: Os>(&self, number: usize, memory: &Memory<O>) -> bool {
        let at = core::mem::offset_of!(Layout, workspaces);
        let end = at + (number + 1) * size_of::<Workspace<Codec>>();
        memory.areas.grow(Area::Workplace, end)
    }

    /// `T` at `offset` of the layout.
    ///
    /// # Safety
    /// That part of the layout is a `T`, and nobody else uses it from now on.
    unsafe fn part<T: Zeroable>(&self, offset: usize) -> &'static mut T {
        let base = self.base.load(Relaxed);
        debug_assert!(base != 0, "reserved at the start");
        // SAFETY: zeroed memory of ours that stays and holds the layout; zero is a valid `T`; that
        // nobody else uses the part is the caller's promise.
        unsafe { &mut *((base + offset) as *mut T) }
    }

    /// Worker `number` with its workspace.
    ///
    /// # Safety
    /// No two workers with one number exist at a time, and there is room for it (`has_room_for`).
    pub unsafe fn worker(&self, number: usize) -> Worker<Codec> {
        assert!(number < WORKERS);
        let at = core::mem::offset_of!(Layout, workspaces);
        let at = at + number * size_of::<Workspace<Codec>>();
        // SAFETY: the workspace with that number, used once as the caller promises.
        Worker::new(number as u16, unsafe { self.part(at) })
    }

    /// The reclaimer, which is worker 0.
    ///
    /// # Safety
    /// There is one at a time, and no worker 0 besides.
    pub unsafe fn reclaimer(&self) -> Reclaimer<Codec> {
        // SAFETY: parts of the layout that the one reclaimer uses.
        unsafe {
            Reclaimer::new(
                self.part(core::mem::offset_of!(Layout, state)),
                self.part(core::mem::offset_of!(Layout, buffer)),
                self.worker(0),
                0..coldpress_engine::STAGING_SLOTS as u16,
            )
        }
    }

    /// What children are filled with that no hook has seen.
    ///
    /// # Safety
    /// One is used at a time.
    pub(crate) unsafe fn filler(&self) -> &'static mut Workspace<Codec> {
        // SAFETY: a part of the layout, which nobody else uses meanwhile, as the caller promises.
        unsafe { self.part(core::mem::offset_of!(Layout, filler)) }
    }

    /// A page that the kernel wipes in children. `None`: this kernel does not.
    pub(crate) fn page_that_is_wiped(&self) -> Option<NonNull<AtomicU32>> {
        let at = self.base.load(Relaxed) + core::mem::offset_of!(Layout, presence);
        // SAFETY: a page of our own, in which nothing is.
        let marked = unsafe { sys::madvise(at, PAGE_SIZE, sys::MADV_WIPEONFORK) } == 0;
        NonNull::new(at as *mut AtomicU32).filter(|_| marked)
    }

    /// The recoder.
    ///
    /// # Safety
    /// There is one at a time.
    pub(crate) unsafe fn recoder(&self) -> Recoder<Codec, Dense> {
        // SAFETY: a part of the layout that the one recoder uses.
        Recoder::new(unsafe { self.part(core::mem::offset_of!(Layout, recoder)) })
    }

    /// What tables for the denser codec are made with, and where they shall be: all zero.
    ///
    /// # Safety
    /// Nobody uses either: there is one training at a time, and nothing was decoded with tables yet.
    pub(crate) unsafe fn training(&'static self) -> Training {
        let tables_at = core::mem::offset_of!(Layout, tables);
        let trainer_at = core::mem::offset_of!(Layout, trainer);
        // SAFETY: as the caller promises; what a parent had begun is dropped first.
        unsafe {
            self.drop_pages(tables_at, size_of::<Pages<DenseTables>>());
            self.drop_pages(trainer_at, size_of::<Pages<Trainer>>());
            Training {
                workplace: self,
                tables: self.part(tables_at),
                trainer: self.part(trainer_at),
            }
        }
    }

    /// Makes a part zero, and gives its memory back.
    ///
    /// # Safety
    /// The part begins and ends with a page, may be zero, and nobody uses it meanwhile.
    unsafe fn drop_pages(&self, offset: usize, bytes: usize) {
        let at = self.base.load(Relaxed) + offset;
        // SAFETY: pages of our own, as the caller promises.
        unsafe { sys::madvise(at, bytes, sys::MADV_DONTNEED) };
    }

    /// Bytes of it that are backed, as last [looked up](Self::look_up).
    pub fn backed_bytes(&self) -> u64 {
        self.backed_bytes.load(Relaxed)
    }

    /// Looks up how much of it is backed. By a thread of the pager.
    pub fn look_up<O: Os>(&self, host: &Space<O>) {
        let mapped = host.memory.areas.mapped(Area::Workplace);
        let range = AddressRange::new(self.base.load(Relaxed), mapped);
        let mut pages = 0;
        if host.for_each_populated(range, || (), |_| pages += 1) {
            self.backed_bytes.store(pages * PAGE_SIZE as u64, Relaxed);
        }
    }
}

/// What tables for the denser codec are made with: 1.4 MiB, until they are made.
pub(crate) struct Training {
    workplace: &'static Workplace,
    tables: &'static mut DenseTables,
    trainer: &'static mut Trainer,
}

impl Training {
    /// Learns from the page that was found last.
    pub(crate) fn add(&mut self, recoder: &mut Recoder<Codec, Dense>) {
        let (page, state) = recoder.sample();
        self.trainer.add(state, page);
    }

    /// How many pages it has learnt from.
    pub(crate) fn pages(&self) -> usize {
        self.trainer.pages()
    }

    /// Makes the tables, by steps; whether that was the last.
    pub(crate) fn step(&mut self) -> bool {
        self.trainer.finish_step(self.tables)
    }

    /// Forgets all that was learnt.
    pub(crate) fn forget(&mut self) {
        let at = core::mem::offset_of!(Layout, trainer);
        // SAFETY: the trainer, which this has alone, and which may be zero.
        unsafe { self.workplace.drop_pages(at, size_of::<Pages<Trainer>>()) };
    }

    /// The tables, which were made.
    pub(crate) fn into_tables(mut self) -> &'static DenseTables {
        self.forget();
        self.tables
    }
}

impl Default for Workplace {
    fn default() -> Self {
        Self::new()
    }
}
