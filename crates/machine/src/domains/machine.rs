//! Several domains on one machine: an engine each, with storage of its own, over one source of frames.
//!
//! A domain is used by one thread at a time, different domains by different threads. Of time there
//! is what the test says, so that everything an engine counts is decided by what was done to it.
pub use crate::lean::Machine;
use coldpress_codec::{Lz4, Lz4State, Page};
use coldpress_engine::vmo::{VmoError, VmoId, Vmos};
use coldpress_engine::{Reclaimer, Trigger, Worker, Workspace};
use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource, Press};
use std::ptr::NonNull;
use std::sync::Mutex;

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;

/// The frames of the machine.
pub struct Source {
    memory: NonNull<u8>,
    count: u32,
    /// Given back, in the order of giving; and how many were ever lent.
    lent: Mutex<(Vec<u32>, u32)>,
}

// SAFETY: the bytes belong to whoever borrowed the frame.
unsafe impl Sync for Source {}

impl Source {
    /// So many frames, for as long as the program runs.
    pub fn new(frames: u32) -> &'static Self {
        Box::leak(Box::new(Self {
            memory: crate::kit::untouched(frames as usize * FRAME_BYTES),
            count: frames,
            lent: Mutex::new((Vec::with_capacity(frames as usize), 0)),
        }))
    }

    /// Frames that are lent.
    pub fn lent(&self) -> usize {
        let lent = self.lent.lock().unwrap();
        lent.1 as usize - lent.0.len()
    }
}

// SAFETY: each number stands for 4096 bytes of its own, zeroed at first, lent to one borrower at a time.
unsafe impl FrameSource for Source {
    fn allocate(&self) -> Option<FrameIndex> {
        let mut lent = self.lent.lock().unwrap();
        if let Some(frame) = lent.0.pop() {
            return Some(FrameIndex(frame));
        }
        if lent.1 == self.count {
            return None;
        }
        lent.1 += 1;
        Some(FrameIndex(lent.1))
    }

    fn free(&self, frame: FrameIndex) {
        self.lent.lock().unwrap().0.push(frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        // SAFETY: inside the allocation, for numbers that were lent.
        unsafe { self.memory.add((frame.0 as usize - 1) * FRAME_BYTES) }
    }
}

/// A domain, with the thread that uses it and the one that reclaims.
pub struct Domain<F: FrameSource + 'static> {
    pub vmos: Box<Vmos<Machine<F>, Lz4, Press>>,
    pub machine: Machine<F>,
    worker: Worker<Lz4>,
    reclaimer: Reclaimer<Lz4>,
}

// SAFETY: what it holds is its own; the cells of its machine go with it to one thread at a time.
unsafe impl<F: FrameSource + Send + 'static> Send for Domain<F> {}

fn worker(id: u16) -> Worker<Lz4> {
    let workspace = Box::leak(Box::<Workspace<Lz4>>::new_uninit());
    // SAFETY: zeroed memory is a workspace (`Zeroable`).
    Worker::new(id, unsafe {
        workspace.as_mut_ptr().write_bytes(0, 1);
        workspace.assume_init_mut()
    })
}

/// Runs `act` on a stack that engines may be moved about on, as debug builds do.
pub fn spaciously<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let made = std::thread::Builder::new().stack_size(64 << 20);
        let made = made.spawn_scoped(scope, act).expect("a thread");
        made.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl<F: FrameSource + 'static> Domain<F> {
    /// A domain that has these frames.
    pub fn new(frames: F) -> Self {
        Self {
            vmos: Box::new(Vmos::new(Lz4::default(), Press::new())),
            machine: Machine::new(frames),
            worker: worker(0),
            reclaimer: Reclaimer::new(
                Box::leak(Box::new(Lz4State::new())),
                Box::leak(Box::new([0; 4096])),
                worker(1),
                0..1,
            ),
        }
    }

    pub fn create(&self, pages: u64) -> VmoId {
        self.vmos.create(&self.machine, pages).expect("tables")
    }

    pub fn destroy(&self, vmo: VmoId) {
        self.vmos.destroy(&self.machine, vmo).expect("it is there");
    }

    pub fn write(&mut self, vmo: VmoId, offset: u64, bytes: &[u8]) -> Result<(), VmoError> {
        self.vmos
            .write(&self.machine, &mut self.worker, vmo, offset, bytes)
    }

    pub fn read(&mut self, vmo: VmoId, offset: u64, into: &mut [u8]) -> Result<(), VmoError> {
        self.vmos
            .read(&self.machine, &mut self.worker, vmo, offset, into)
    }

    /// Marks a VMO: nothing of it is compressed.
    pub fn opt_out(&mut self, vmo: VmoId) {
        self.vmos
            .mark_latency_sensitive(&self.machine, &mut self.worker, vmo)
            .expect("memory");
    }

    /// Has everything grow old, and compresses all that can be. How many pages are kept compressed or
    /// as markers.
    pub fn send_away(&mut self) -> u32 {
        let engine = self.vmos.engine();
        for _ in 0..8 {
            self.machine.leap(SECOND);
            engine.rotate(&self.machine);
        }
        let reclaimer = &mut self.reclaimer;
        let batch = engine.reclaim_batch(
            &self.machine,
            reclaimer,
            u32::MAX,
            u64::MAX,
            Trigger::Pressure,
        );
        batch.kept
    }

    /// Frames that the domain holds, counted where they are used.
    pub fn frames_held(&self) -> usize {
        let stored = self.vmos.engine().storage_usage().storage_bytes;
        self.machine.pages() + stored / FRAME_BYTES
    }
}

fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A page of which so many bytes, from the start, do not compress, and the rest does.
pub fn page_with_noise(seed: u64, noise_bytes: usize) -> Page {
    let mut page = [0; 4096];
    for (n, word) in page.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *word = mixed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + n as u64).to_le_bytes();
    }
    page[noise_bytes..].fill(seed as u8 | 1);
    page
}

/// A page that compresses to a third.
pub fn text(seed: u64) -> Page {
    page_with_noise(seed, 1300)
}

/// A page that does not compress.
pub fn noise(seed: u64) -> Page {
    page_with_noise(seed, 4096)
}
