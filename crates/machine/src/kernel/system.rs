//! A machine with VMOs on it.

use super::{Address, Hook, Lz4, Machine, OTHER_SLOTS, Restless, reclaimer_with, value};
use coldpress_codec::{Compressed, Corrupt, Page, PageCodec};
use coldpress_engine::vmo::{VmoError, VmoId, Vmos};
use coldpress_engine::{Access, Entry, Reclaimer, Trigger, Worker};
use coldpress_storage::{AnyStorage, StorageKind};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub const PAGE: u64 = 4096;

/// LZ4, which a test can interrupt.
#[derive(Default)]
pub struct CodecHooks {
    pub on_compress: Hook,
    pub on_decompress: Hook,
    pub decompressed: AtomicU64,
    /// Codecs take their time: others get the processor in the middle.
    pub slow: AtomicBool,
}

impl CodecHooks {
    /// Whether a test wants to be told of the next page.
    pub fn is_awaited(&self) -> bool {
        self.on_compress.is_set() || self.on_decompress.is_set()
    }

    fn pause(&self) {
        if self.slow.load(Relaxed) {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }
}

pub struct HookedLz4(Arc<CodecHooks>);

impl PageCodec for HookedLz4 {
    const NAME: &'static str = "lz4 with hooks";
    type State = <Lz4 as PageCodec>::State;
    type Scratch = ();

    fn compress(&self, state: &mut Self::State, page: &Page, out: &mut [u8]) -> Compressed {
        self.0.on_compress.run();
        self.0.pause();
        Lz4::default().compress(state, page, out)
    }

    fn decompress(&self, (): &mut (), stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        self.0.on_decompress.run();
        self.0.pause();
        self.0.decompressed.fetch_add(1, Relaxed);
        Lz4::default().decompress(&mut (), stored, page)
    }
}

pub type TestVmos = Vmos<Machine, HookedLz4, AnyStorage>;
pub type TestWorker = Worker<HookedLz4>;
pub type TestReclaimer = Reclaimer<HookedLz4>;

pub struct System {
    pub vmos: Restless,
    pub machine: Machine,
    pub codec: Arc<CodecHooks>,
}

/// A machine with so many page frames. It is never freed, so that hooks can name it.
pub fn system(frames: usize) -> &'static System {
    system_with(StorageKind::ThreeSlot, frames)
}

/// The same with a storage of this kind.
pub fn system_with(kind: StorageKind, frames: usize) -> &'static System {
    // What a kernel has in a static is moved about here, in a debug build several times.
    let made = std::thread::Builder::new().stack_size(64 << 20);
    let made = made.spawn(move || &*Box::leak(Box::new(new_system(kind, frames))));
    let system = made.unwrap().join().unwrap();
    system.vmos.start(&system.machine);
    system
}

fn new_system(kind: StorageKind, frames: usize) -> System {
    let codec = Arc::new(CodecHooks::default());
    let storage = AnyStorage::new(kind);
    let vmos = Box::new(Vmos::new(HookedLz4(codec.clone()), storage));
    System {
        vmos: Restless::new(vmos, codec.clone()),
        machine: Machine::new(frames),
        codec,
    }
}

/// Who compresses, with all staging slots but that of random compression.
pub fn reclaimer(id: u16) -> TestReclaimer {
    reclaimer_with(id, 0..OTHER_SLOTS)
}

/// A page that compresses, and is like no other with another seed.
pub fn text(seed: u64) -> Page {
    let mut page = [0; 4096];
    for (n, word) in page.chunks_exact_mut(8).enumerate() {
        let value = if n % 4 == 0 {
            seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ n as u64
        } else {
            seed
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    page
}

/// A page that does not compress.
pub fn noise(seed: u64) -> Page {
    let mut page = [0; 4096];
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    for word in page.chunks_exact_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word.copy_from_slice(&(mixed ^ (mixed >> 27)).to_le_bytes());
    }
    page
}

impl System {
    pub fn create(&self, pages: u64) -> VmoId {
        self.vmos.create(&self.machine, pages).unwrap()
    }

    pub fn read_page(&self, worker: &mut TestWorker, id: VmoId, page: u64) -> Page {
        let mut content = [0xA5; 4096];
        self.vmos
            .read(&self.machine, worker, id, page * PAGE, &mut content)
            .unwrap();
        content
    }

    pub fn write_page(&self, worker: &mut TestWorker, id: VmoId, page: u64, content: &Page) {
        self.vmos
            .write(&self.machine, worker, id, page * PAGE, content)
            .unwrap();
    }

    pub fn commit(
        &self,
        worker: &mut TestWorker,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<(), VmoError> {
        self.vmos.commit(&self.machine, worker, id, pages)
    }

    pub fn zero(&self, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
        self.vmos.zero(&self.machine, id, pages)
    }

    pub fn decommit(&self, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
        self.vmos.decommit(&self.machine, id, pages)
    }

    pub fn resize(&self, id: VmoId, pages: u64) -> Result<(), VmoError> {
        self.vmos.resize(&self.machine, id, pages)
    }

    pub fn destroy(&self, id: VmoId) {
        self.vmos.destroy(&self.machine, id).unwrap();
    }

    /// A program touches a byte of page `page` of a VMO, which is mapped at `address`.
    pub fn touch(
        &self,
        worker: &mut TestWorker,
        address: Address,
        (id, page): (VmoId, u64),
        offset: usize,
        write: Option<u8>,
    ) -> u8 {
        for _ in 0..100 {
            if let Some(byte) = self.machine.touch(address, offset, write) {
                return byte;
            }
            let show = |place, writable| self.machine.map(address, place, writable);
            let access = match write {
                Some(_) => Access::Write,
                None => Access::Read,
            };
            let machine = &self.machine;
            match self.vmos.fault(machine, worker, id, page, access, show) {
                // What a kernel does beforehand, now and then.
                Err(VmoError::NoMemory) => assert!(self.vmos.prepare_for(machine, 1, 1, 1)),
                done => done.unwrap(),
            }
        }
        panic!("faults for ever");
    }

    /// Makes everything old and sends it away: compresses all that can be. A page that was accessed
    /// is spared the first time.
    pub fn send_away(&self, reclaimer: &mut TestReclaimer) -> u32 {
        let (mut kept, mut vain) = (0, 0);
        while vain < 2 {
            (0..9).for_each(|_| self.vmos.engine().rotate(&self.machine));
            let mut any = false;
            while let Some(more) = self.reclaim(reclaimer, 64) {
                kept += more;
                any = true;
            }
            vain = if any { 0 } else { vain + 1 };
        }
        kept
    }

    /// Compresses up to so many of the oldest pages. `None`: there are none.
    pub fn reclaim(&self, reclaimer: &mut TestReclaimer, pages: u32) -> Option<u32> {
        let engine = self.vmos.engine();
        let trigger = Trigger::Critical;
        let batch = engine.reclaim_batch(&self.machine, reclaimer, pages, u64::MAX, trigger);
        (batch.taken + batch.refused > 0).then_some(batch.kept)
    }

    /// Pages in place that the VMO sees, and whether each is its own.
    pub fn in_place(&self, id: VmoId) -> Vec<(u64, bool)> {
        let mut pages = Vec::new();
        let size = self.vmos.pages(id).unwrap();
        self.vmos
            .lookup(id, 0..size, |page, _, own| pages.push((page, own)))
            .unwrap();
        pages
    }

    /// What the entry says that `id` sees as its page `page`.
    pub fn entry(&self, id: VmoId, page: u64) -> Entry {
        self.vmos.entry(id, page).unwrap()
    }

    /// Nothing is held for anybody: no VMO is left.
    pub fn assert_nothing_is_held(&self) {
        let engine = self.vmos.engine();
        let c = engine.counters();
        let usage = engine.storage_usage();
        assert_eq!(self.vmos.objects(), 0);
        assert_eq!((usage.objects, usage.payload_bytes), (0, 0));
        assert_eq!(self.machine.storage.lent(), 0);
        assert_eq!(value(&c.compressed_pages), 0);
        assert_eq!(value(&c.same_filled_pages), 0);
        assert_eq!(self.machine.filled_slots(), 0);
        assert_eq!(self.machine.pages_in_place(), 0);
        assert_eq!(engine.resident_pages(), 0);
        assert_eq!(self.vmos.tables_in_use(), (0, 0, 0));
        engine.check_queues();
    }
}
