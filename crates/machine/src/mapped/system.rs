//! A machine with an engine on it, and what programs do on one.

use super::{Hook, Lz4, Machine, reclaimer_with, value};
use coldpress_codec::{Compressed, Corrupt, Page, PageCodec};
use coldpress_engine::{
    Access, Ageing, Batch, Engine, Entry, FaultOutcome, Growth, Pace, PageIndex, Reclaimer,
    STAGING_SLOTS, SegmentId, Trigger, Worker,
};
use coldpress_storage::{AnyStorage, StorageKind};
use std::sync::Arc;

pub const SECOND: u64 = 1_000_000_000;

/// How pages age in tests.
pub const AGEING: Ageing = Ageing {
    interval_ns: SECOND,
    pressed_interval_ns: SECOND / 10,
    retry_failed_ns: 60 * SECOND,
};

/// LZ4, which a test can interrupt. A page that is zero but for its first word becomes that word:
/// eight bytes, as many as an odd same-filled page takes in storage.
#[derive(Default)]
pub struct CodecHooks {
    /// Before a page is compressed.
    pub on_compress: Hook,
    /// Before a page is decompressed.
    pub on_decompress: Hook,
}

pub struct HookedLz4(Arc<CodecHooks>);

impl PageCodec for HookedLz4 {
    const NAME: &'static str = "lz4 with hooks";
    type State = <Lz4 as PageCodec>::State;
    type Scratch = ();

    fn compress(&self, state: &mut Self::State, page: &Page, out: &mut [u8]) -> Compressed {
        self.0.on_compress.run();
        let (word, rest) = page.split_at(8);
        if word != [0; 8] && rest.iter().all(|&byte| byte == 0) {
            out[..8].copy_from_slice(word);
            return Compressed::Stored(8);
        }
        Lz4::default().compress(state, page, out)
    }

    fn decompress(&self, (): &mut (), stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        self.0.on_decompress.run();
        if stored.len() == 8 {
            page.fill(0);
            page[..8].copy_from_slice(stored);
            return Ok(());
        }
        Lz4::default().decompress(&mut (), stored, page)
    }
}

pub type TestEngine = Engine<Machine, HookedLz4, AnyStorage>;
pub type TestReclaimer = Reclaimer<HookedLz4>;
pub type TestWorker = Worker<HookedLz4>;

pub struct System {
    pub engine: Box<TestEngine>,
    pub machine: Machine,
    pub codec: Arc<CodecHooks>,
}

/// A machine with `segments` segments of `pages` pages, everything ready. It is never freed, so that
/// hooks can name it.
pub fn system(segments: usize, pages: usize) -> &'static System {
    system_with(StorageKind::ThreeSlot, segments, pages)
}

/// The same with another storage.
pub fn system_with(storage: StorageKind, segments: usize, pages: usize) -> &'static System {
    Box::leak(Box::new(owned_system(storage, segments, pages)))
}

/// As above, for a caller that makes one after the other, and sets no hooks.
pub fn owned_system(storage: StorageKind, segments: usize, pages: usize) -> System {
    let storage = AnyStorage::new(storage);
    let codec = Arc::new(CodecHooks::default());
    let system = System {
        engine: Box::new(Engine::new(HookedLz4(codec.clone()), storage)),
        machine: Machine::new(segments, pages),
        codec,
    };
    for id in 1..=segments as u32 {
        assert_eq!(system.engine.create_segment(&system.machine), Some(id));
    }
    let leaves = (segments * pages.div_ceil(64)) as u32;
    let ready = system
        .engine
        .prepare_for(&system.machine, leaves, leaves * 64);
    assert!(ready);
    system
}

/// Who compresses, with all staging slots.
pub fn reclaimer(id: u16) -> TestReclaimer {
    reclaimer_with(id, 0..STAGING_SLOTS as u16)
}

/// Two that work at the same time, with half of the slots each.
pub fn reclaimers(ids: [u16; 2]) -> [TestReclaimer; 2] {
    let half = STAGING_SLOTS as u16 / 2;
    [(ids[0], 0..half), (ids[1], half..2 * half)].map(|(id, slots)| reclaimer_with(id, slots))
}

impl System {
    /// What the machine does when page `index` is touched and not in place.
    pub fn fault(
        &self,
        worker: &mut TestWorker,
        segment: SegmentId,
        index: PageIndex,
    ) -> FaultOutcome {
        self.engine
            .fault(&self.machine, worker, segment, index, Access::Write)
    }

    /// The page's content as the program sees it, brought in if need be.
    pub fn with<R>(
        &self,
        worker: &mut TestWorker,
        (segment, index): (SegmentId, PageIndex),
        act: impl FnOnce(&mut Page) -> R,
    ) -> R {
        for _ in 0..1000 {
            let mut place = self.machine.place(segment, index);
            place.accessed |= place.page.is_some();
            if let Some(page) = &mut place.page {
                return act(page);
            }
            drop(place);
            self.fault(worker, segment, index);
        }
        panic!("page {index} of segment {segment} is never in place");
    }

    pub fn read(&self, worker: &mut TestWorker, segment: SegmentId, index: PageIndex) -> Page {
        self.with(worker, (segment, index), |page| *page)
    }

    pub fn write(
        &self,
        worker: &mut TestWorker,
        segment: SegmentId,
        index: PageIndex,
        content: &Page,
    ) {
        self.with(worker, (segment, index), |page| *page = *content);
    }

    pub fn now_ns(&self) -> u64 {
        coldpress_engine::Host::now_ns(&self.machine)
    }

    /// Time passes until what is in place now is inactive.
    pub fn cool(&self) -> u32 {
        let mut inactive = 0;
        for _ in 0..2 {
            self.machine.advance(AGEING.interval_ns);
            inactive = self.engine.age(&self.machine, &AGEING, Pace::Steady);
        }
        inactive
    }

    /// Reclaims up to `pages` pages, however young among the inactive.
    pub fn reclaim(&self, reclaimer: &mut TestReclaimer, pages: u32) -> Batch {
        let trigger = Trigger::Pressure;
        self.engine
            .reclaim_batch(&self.machine, reclaimer, pages, u64::MAX, trigger)
    }

    /// Sends everything that is in place away.
    pub fn send_away(&self, reclaimer: &mut TestReclaimer) {
        self.cool();
        while self.reclaim(reclaimer, 384).taken > 0 {}
    }

    /// The program drops pages `first..end`.
    pub fn decommit(&self, segment: SegmentId, first: PageIndex, end: PageIndex) {
        self.machine.exclusively(|| {
            self.engine.decommit(&self.machine, segment, first, end);
            (first..end).for_each(|index| self.machine.zap(segment, index));
        });
    }

    /// The program moves a page, and with it whatever the destination held is dropped.
    pub fn transfer(&self, from: (SegmentId, PageIndex), to: (SegmentId, PageIndex)) -> bool {
        assert_ne!(from, to);
        self.machine.exclusively(|| {
            self.engine.decommit(&self.machine, to.0, to.1, to.1 + 1);
            self.machine.zap(to.0, to.1);
            let moved = self.engine.transfer(&self.machine, from, to);
            if moved {
                let page = self.machine.place(from.0, from.1).page.take();
                self.machine.place(to.0, to.1).page = page;
            }
            moved
        })
    }

    /// Nothing is held for anybody.
    pub fn assert_nothing_is_held(&self) {
        let c = self.engine.counters();
        let usage = self.engine.storage_usage();
        assert_eq!((usage.objects, usage.payload_bytes), (0, 0));
        assert_eq!(self.machine.frames.lent(), 0);
        assert_eq!(value(&c.compressed_pages), 0);
        assert_eq!(value(&c.same_filled_pages), 0);
        assert_eq!(self.machine.filled_slots(), 0);
    }

    /// Counts records that no page can have although none is away: all are handed out.
    /// Leaves the engine of no further use.
    pub fn assert_no_record_is_lost(&self) {
        const RECORDS: u32 = (1 << 20) / 16 - 1;
        let engine = &self.engine;
        let fresh: Vec<SegmentId> = (0..9)
            .map(|_| engine.create_segment(&self.machine).unwrap())
            .collect();
        engine.prepare_for(&self.machine, 9 * 128, 0);
        let mut tracked = engine.resident_pages();
        'count: for segment in fresh {
            for index in 0..coldpress_engine::SEGMENT_PAGES {
                if !engine.track_known(&self.machine, segment, index, Growth::Forbidden) {
                    break 'count;
                }
                tracked += 1;
            }
        }
        assert_eq!(tracked, RECORDS, "records that stay reserved for nobody");
    }

    pub fn is_compressed(&self, segment: SegmentId, index: PageIndex) -> bool {
        matches!(self.engine.entry(segment, index), Entry::Compressed(_))
    }

    pub fn is_resident(&self, segment: SegmentId, index: PageIndex) -> bool {
        matches!(self.engine.entry(segment, index), Entry::Page(_))
    }
}
