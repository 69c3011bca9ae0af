//! Density and pauses of every storage, on sizes that are made up or were measured.
//!
//! ```text
//! cargo run --release -p coldpress-storage --example density -- [--objects N] [--whole] SIZES…
//!
//! SIZES   64-512              uniform, that many bytes (both ends included)
//!         FILE.u16, FILE.u32  little-endian sizes, one an object; 0 and above 4,096 are left out
//!         FILE.pages          raw pages: what LZ4 makes of them, if that is at most 2,867 bytes
//! ```
//!
//! Density is payload over frames and tables. Three stages, as of issue 3: after the first *fill*;
//! *churned*, after ten rounds of freeing half of the objects at random and storing others in
//! their stead; *compacted*, after half was freed and one pass of compaction was made.
//! Times are those of single calls, the first fill left out; steps of compaction have 64 KiB each.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Instant;

use coldpress_arena::{CHUNK_BYTES, ChunkSource};
use coldpress_storage::{
    CompressedStorage, FRAME_BYTES, FrameIndex, FrameSource, Press, Reference, SizeClass,
    ThreeSlot, Tuning, TwoSlot,
};

struct Free {
    stack: Vec<u32>,
    next: u32,
}

/// Frames in one block of memory.
struct Host {
    base: NonNull<u8>,
    frames: u32,
    free: Mutex<RefCell<Free>>,
}

// SAFETY: the memory is used by borrowers of frames only.
unsafe impl Sync for Host {}

impl Host {
    fn new(frames: usize) -> Self {
        let layout = Layout::from_size_align(frames * FRAME_BYTES, FRAME_BYTES).unwrap();
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        // Backed now, so that no time below is that of a first touch.
        for frame in 0..frames {
            // SAFETY: inside the block.
            unsafe { base.add(frame * FRAME_BYTES).write_volatile(1) };
        }
        Self {
            base,
            frames: frames as u32,
            free: Mutex::new(RefCell::new(Free {
                stack: Vec::with_capacity(frames),
                next: 1,
            })),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let bytes = self.frames as usize * FRAME_BYTES;
        let layout = Layout::from_size_align(bytes, FRAME_BYTES).unwrap();
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
    }
}

// SAFETY: each number stands for a frame of its own in the block, and is lent once at a time.
unsafe impl FrameSource for Host {
    fn allocate(&self) -> Option<FrameIndex> {
        let guard = self.free.lock().unwrap();
        let mut free = guard.borrow_mut();
        if let Some(frame) = free.stack.pop() {
            return Some(FrameIndex(frame));
        }
        (free.next <= self.frames).then(|| {
            free.next += 1;
            FrameIndex(free.next - 1)
        })
    }

    fn free(&self, frame: FrameIndex) {
        self.free.lock().unwrap().borrow_mut().stack.push(frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        // SAFETY: inside the block.
        unsafe { self.base.add((frame.0 as usize - 1) * FRAME_BYTES) }
    }
}

struct Chunks;

// SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
unsafe impl ChunkSource for Chunks {
    fn chunk(&self) -> Option<NonNull<u8>> {
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc_zeroed(Layout::from_size_align(CHUNK_BYTES, 4096).unwrap()) })
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Times of calls, in nanoseconds.
#[derive(Default)]
struct Times(Vec<u32>);

impl Times {
    fn time<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = act();
        self.0.push(start.elapsed().as_nanos() as u32);
        result
    }

    fn percentiles(&mut self) -> String {
        self.0.sort_unstable();
        let at = |share: f64| {
            let index = ((self.0.len() as f64 * share) as usize).min(self.0.len().max(1) - 1);
            self.0.get(index).copied().unwrap_or(0)
        };
        format!("{} / {} / {}", at(0.5), at(0.99), at(1.0))
    }
}

struct Run {
    density: [f64; 3],
    metadata: f64,
    split: f64,
    moved: f64,
    store: Times,
    free: Times,
    step: Times,
}

fn density(storage: &impl CompressedStorage) -> f64 {
    let usage = storage.usage();
    usage.payload_bytes as f64 / (usage.storage_bytes + usage.metadata_bytes) as f64
}

fn run(mut storage: Box<impl CompressedStorage>, sizes: &[u16]) -> Run {
    let host = Host::new(sizes.len() + sizes.len() / 4 + 64);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    assert!(storage.reserve(&Chunks, host.frames));
    let (mut store, mut free, mut step) = (Times::default(), Times::default(), Times::default());
    let take = |storage: &mut Box<_>, times: &mut Times, len: u16| {
        let storage: &mut Box<_> = storage;
        let allocate = || CompressedStorage::allocate(&mut **storage, &host, usize::from(len));
        times.time(allocate).expect("there are frames")
    };
    let mut objects: Vec<Option<Reference>> = sizes
        .iter()
        .map(|len| Some(take(&mut storage, &mut store, *len)))
        .collect();
    store.0.clear();
    let fill = density(&*storage);
    let mut metadata = storage.usage().metadata_bytes as f64 / sizes.len() as f64;
    let half = |storage: &mut Box<_>,
                objects: &mut Vec<Option<Reference>>,
                free: &mut Times,
                random: &mut Random| {
        let storage: &mut Box<_> = storage;
        for object in objects.iter_mut() {
            if random.next() >> 40 & 1 == 1
                && let Some(reference) = object.take()
            {
                free.time(|| CompressedStorage::free(&mut **storage, &host, reference));
            }
        }
    };
    for _ in 0..10 {
        half(&mut storage, &mut objects, &mut free, &mut random);
        for object in objects.iter_mut().filter(|object| object.is_none()) {
            let len = sizes[random.next() as usize % sizes.len()];
            *object = Some(take(&mut storage, &mut store, len));
        }
    }
    let churned = density(&*storage);
    metadata = metadata.max(storage.usage().metadata_bytes as f64 / sizes.len() as f64);
    let split = objects.iter().flatten().filter(|r| r.is_split()).count() as f64;
    half(&mut storage, &mut objects, &mut free, &mut random);
    objects.retain(Option::is_some);
    let mut index = std::collections::HashMap::new();
    for (number, reference) in objects.iter().flatten().enumerate() {
        index.insert(reference.to_bits(), number);
    }
    let mut moved = 0;
    let payload = storage.usage().payload_bytes as f64;
    loop {
        let mut moves = Vec::with_capacity(4096);
        let done = step.time(|| {
            storage.compact(&host, 64 << 10, &mut |from, to| {
                moves.push((from, to));
                true
            })
        });
        for (from, to) in moves {
            let number = index.remove(&from.to_bits()).expect("stored");
            index.insert(to.to_bits(), number);
            objects[number] = Some(to);
        }
        moved += done.bytes;
        if done.pass_ended {
            break;
        }
    }
    let compacted = density(&*storage);
    storage.check_invariants();
    storage.check_frames(&host);
    Run {
        density: [fill, churned, compacted],
        metadata,
        split: split / sizes.len() as f64,
        moved: moved as f64 / payload,
        store,
        free,
        step,
    }
}

fn print(name: &str, mut run: Run) {
    let [fill, churned, compacted] = run.density;
    println!(
        "| {name} | {fill:.4} | {churned:.4} | {compacted:.4} | {:.0} % | {:.0} % | {:.1} | {} | {} | {} |",
        run.split * 100.0,
        run.moved * 100.0,
        run.metadata,
        run.store.percentiles(),
        run.free.percentiles(),
        run.step.percentiles(),
    );
}

fn sizes_of(argument: &str, count: usize) -> Vec<u16> {
    if let Some((low, high)) = argument.split_once('-')
        && let (Ok(low), Ok(high)) = (low.parse::<u64>(), high.parse::<u64>())
    {
        let mut random = Random(88_172_645_463_325_252);
        return (0..count)
            .map(|_| (low + random.next() % (high - low + 1)) as u16)
            .collect();
    }
    let bytes = std::fs::read(argument).unwrap_or_else(|error| {
        eprintln!("density: {argument}: {error}");
        std::process::exit(125);
    });
    let all: Vec<u32> = if argument.ends_with(".u16") {
        let words = bytes.chunks_exact(2);
        words
            .map(|b| u32::from(u16::from_le_bytes([b[0], b[1]])))
            .collect()
    } else {
        let words = bytes.chunks_exact(4);
        words
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    };
    let stored = all.into_iter().filter(|size| (1..=4096).contains(size));
    stored.map(|size| size as u16).take(count).collect()
}

fn main() {
    let mut count = 200_000;
    let mut variants = false;
    let mut arguments = std::env::args().skip(1);
    let mut inputs = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--objects" => {
                count = arguments
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("--objects N");
            }
            "--variants" => variants = true,
            _ => inputs.push(argument),
        }
    }
    if inputs.is_empty() {
        inputs = ["64-512", "64-2867", "2049-2867"].map(String::from).into();
    }
    for input in inputs {
        let sizes = sizes_of(&input, count);
        let sum: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
        println!(
            "\n### {input}: {} objects, mean {} bytes\n",
            sizes.len(),
            sum / sizes.len() as u64
        );
        println!(
            "| storage | fill | churned | compacted | split | moved | metadata B/item | store ns p50/p99/max | free ns | 64 KiB step ns |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        if !variants {
            print(TwoSlot::NAME, run(Box::new(TwoSlot::new()), &sizes));
            print(ThreeSlot::NAME, run(Box::new(ThreeSlot::new()), &sizes));
        }
        print(SizeClass::NAME, run(Box::new(SizeClass::new()), &sizes));
        print(Press::NAME, run(Box::new(Press::new()), &sizes));
        if variants {
            let d = Tuning::DEFAULT;
            for (name, tuning) in [
                ("press, whole only", Tuning { split: false, ..d }),
                (
                    "press, pieces of 32",
                    Tuning {
                        minimum_piece_bytes: 32,
                        ..d
                    },
                ),
                (
                    "press, pieces of 128",
                    Tuning {
                        minimum_piece_bytes: 128,
                        ..d
                    },
                ),
                (
                    "press, pieces of 256",
                    Tuning {
                        minimum_piece_bytes: 256,
                        ..d
                    },
                ),
            ] {
                print(name, run(Box::new(Press::tuned(tuning)), &sizes));
            }
        }
    }
}
