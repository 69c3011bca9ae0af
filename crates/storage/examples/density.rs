//! Density and pauses of every storage, on sizes that are made up or were measured.
//!
//! ```text
//! cargo run --release -p coldpress-storage --example density -- [OPTIONS] [SIZES…]
//!
//! SIZES      64-512             uniform, both ends included
//!            FILE.u16 FILE.u32  little-endian sizes, one an object; 0 and above 4,096 are left out
//!            lz4:FILE.pages     raw pages: what LZ4 (acceleration 1) makes of them
//!            press:FILE.pages   raw pages: what the codec press makes of them
//!            dense:FILE.pages   and press-dense, by tables trained on 512 pages that are left out
//!            A+B                A, then B: pooled
//! --objects N   as many objects at most (200,000)
//! --runs N      times that everything is done (3)
//! --header N    bytes that the engine puts in front of each object (0)
//! --variants    only size-class, and press with other parameters
//! ```
//!
//! Pages that are one repeated word, or that do not shrink to 70 %, are left out.
//!
//! Density is payload over frames and tables. Three stages, as issue 3 has them: after the first
//! *fill*; *churned*, after ten rounds of freeing half of the objects at random and storing
//! others in their stead; *compacted*, after half was freed and one pass of compaction was made.
//! Times are of single calls, clock included and the first fill left out; a step of compaction has
//! 64 KiB. As every run makes the same calls, the time of a call is the shortest of all runs: the
//! machine's other work stays out. *In band*: what a storage keeps in frames for an object, without what it leaves empty.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Instant;

use coldpress_arena::{CHUNK_BYTES, ChunkSource, Zeroable};
use coldpress_codec::{
    Compressed, DEFAULT_TARGET_BYTES, Lz4Rust, PAGE_SIZE, PageCodec, press, press_dense,
};
use coldpress_storage::{
    CompressedStorage, FRAME_BYTES, FrameIndex, FrameSource, Press, PressTuning, Reference,
    SizeClass, ThreeSlot, TwoSlot,
};

const STEP_BYTES: usize = 64 << 10;

/// Frames in one block of memory.
struct Host {
    base: NonNull<u8>,
    layout: Layout,
    free: Mutex<Vec<u32>>,
}

// SAFETY: the memory is used by borrowers of frames only.
unsafe impl Sync for Host {}

impl Host {
    fn new(frames: u32) -> Self {
        let layout = Layout::from_size_align(frames as usize * FRAME_BYTES, FRAME_BYTES).unwrap();
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        // Backed now, so that no time below is that of a first touch.
        for frame in 0..frames as usize {
            // SAFETY: inside the block.
            unsafe { base.add(frame * FRAME_BYTES).write_volatile(1) };
        }
        Self {
            base,
            layout,
            free: Mutex::new((1..=frames).rev().collect()),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

// SAFETY: each number stands for a frame of its own in the block, and is lent once at a time.
unsafe impl FrameSource for Host {
    fn allocate(&self) -> Option<FrameIndex> {
        self.free.lock().unwrap().pop().map(FrameIndex)
    }

    fn free(&self, frame: FrameIndex) {
        self.free.lock().unwrap().push(frame.0);
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
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count
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

    /// Keeps the shorter time of each call. Both runs made the same calls.
    fn shortest(&mut self, other: &Times) {
        assert_eq!(self.0.len(), other.0.len(), "runs differ");
        for (time, other) in self.0.iter_mut().zip(&other.0) {
            *time = (*time).min(*other);
        }
    }

    fn percentiles(&mut self) -> String {
        self.0.sort_unstable();
        let at = |percent: usize| {
            let index = self.0.len() * percent / 100;
            self.0.get(index.min(self.0.len().max(1) - 1)).unwrap_or(&0)
        };
        format!("{} / {} / {}", at(50), at(99), at(100))
    }
}

/// One storage, what is in it, and what has been seen of it.
struct Bench<'a, S> {
    host: Host,
    storage: Box<S>,
    sizes: &'a [u16],
    random: Random,
    objects: Vec<Option<Reference>>,
    stores: Times,
    frees: Times,
    steps: Times,
}

impl<'a, S: CompressedStorage> Bench<'a, S> {
    fn new(storage: S, sizes: &'a [u16]) -> Self {
        let frames = sizes.len() as u32 * 5 / 4 + 600;
        let storage = Box::new(storage);
        assert!(storage.reserve(&Chunks, frames), "memory for tables");
        Self {
            host: Host::new(frames),
            storage,
            sizes,
            random: Random(0x9e37_79b9_7f4a_7c15),
            objects: Vec::with_capacity(sizes.len()),
            stores: Times::default(),
            frees: Times::default(),
            steps: Times::default(),
        }
    }

    fn density(&self) -> f64 {
        let usage = self.storage.usage();
        usage.payload_bytes as f64 / (usage.storage_bytes + usage.metadata_bytes) as f64
    }

    /// Objects in two pieces, a share of all.
    fn split(&self) -> f64 {
        let split = self.objects.iter().flatten().filter(|r| r.is_split());
        split.count() as f64 / self.storage.usage().objects as f64
    }

    fn store(&mut self, len: u16) -> Option<Reference> {
        let allocate = || self.storage.allocate(&self.host, usize::from(len));
        Some(self.stores.time(allocate).expect("there are frames"))
    }

    fn fill(&mut self) {
        for len in self.sizes {
            let object = self.store(*len);
            self.objects.push(object);
        }
        self.stores.0.clear();
    }

    fn free_half(&mut self) {
        for index in 0..self.objects.len() {
            if self.random.below(2) == 0
                && let Some(object) = self.objects[index].take()
            {
                self.frees.time(|| self.storage.free(&self.host, object));
            }
        }
    }

    fn churn(&mut self) {
        for _ in 0..10 {
            self.free_half();
            for index in 0..self.objects.len() {
                if self.objects[index].is_none() {
                    let len = self.sizes[self.random.below(self.sizes.len())];
                    self.objects[index] = self.store(len);
                }
            }
        }
    }

    /// One pass; returns the share of the payload that was moved.
    fn compact(&mut self) -> f64 {
        let payload = self.storage.usage().payload_bytes as f64;
        let stored = self.objects.iter().flatten();
        let mut live: HashMap<Reference, ()> = stored.map(|object| (*object, ())).collect();
        let (mut moved, mut moves) = (0, Vec::with_capacity(STEP_BYTES));
        loop {
            let done = self.steps.time(|| {
                self.storage
                    .compact(&self.host, STEP_BYTES, &mut |from, to| {
                        moves.push((from, to));
                        true
                    })
            });
            moved += done.bytes;
            for (from, to) in moves.drain(..) {
                live.remove(&from).expect("what is not stored is not moved");
                live.insert(to, ());
            }
            if done.pass_ended {
                break;
            }
        }
        self.objects = live.into_keys().map(Some).collect();
        moved as f64 / payload
    }
}

/// What was seen of one storage.
struct Seen {
    /// At the three stages.
    density: [f64; 3],
    /// Share of objects in two pieces, at the first two.
    split: [f64; 2],
    moved: f64,
    table_bytes: f64,
    stores: Times,
    frees: Times,
    steps: Times,
}

fn see<S: CompressedStorage>(storage: S, sizes: &[u16]) -> Seen {
    let mut bench = Bench::new(storage, sizes);
    bench.fill();
    let (fill, split) = (bench.density(), bench.split());
    let table_bytes = bench.storage.usage().metadata_bytes as f64 / sizes.len() as f64;
    bench.churn();
    let (churned, split_churned) = (bench.density(), bench.split());
    bench.free_half();
    let moved = bench.compact();
    bench.storage.check_invariants();
    bench.storage.check_frames(&bench.host);
    Seen {
        density: [fill, churned, bench.density()],
        split: [split, split_churned],
        moved,
        table_bytes,
        stores: bench.stores,
        frees: bench.frees,
        steps: bench.steps,
    }
}

/// What to measure it on, and how often.
struct Plan {
    sizes: Vec<u16>,
    runs: usize,
}

impl Plan {
    /// Measures one storage, and prints a row. `in_band`: bytes in frames for an object, and
    /// those that a split one has besides.
    fn row<S: CompressedStorage>(&self, name: &str, make: impl Fn() -> S, in_band: (f64, f64)) {
        let mut seen = see(make(), &self.sizes);
        for _ in 1..self.runs {
            let again = see(make(), &self.sizes);
            seen.stores.shortest(&again.stores);
            seen.frees.shortest(&again.frees);
            seen.steps.shortest(&again.steps);
        }
        let [fill, churned, compacted] = seen.density;
        println!(
            "| {name} | {fill:.4} | {churned:.4} | {compacted:.4} | {:.0} %, {:.0} % | {:.0} % | {:.1} | {:.1} | {} | {} | {} |",
            seen.split[0] * 100.0,
            seen.split[1] * 100.0,
            seen.moved * 100.0,
            seen.table_bytes,
            in_band.0 + in_band.1 * seen.split[0],
            seen.stores.percentiles(),
            seen.frees.percentiles(),
            seen.steps.percentiles(),
        );
    }

    fn all_rows(&self) {
        self.row(TwoSlot::NAME, TwoSlot::new, (0.0, 0.0));
        self.row(ThreeSlot::NAME, ThreeSlot::new, (0.0, 0.0));
        self.row(SizeClass::NAME, SizeClass::new, (8.0, 0.0));
        self.row(Press::NAME, Press::new, PRESS_IN_BAND);
    }

    fn variant_rows(&self) {
        self.row(SizeClass::NAME, SizeClass::new, (8.0, 0.0));
        let pieces = |minimum_piece_bytes| PressTuning {
            minimum_piece_bytes,
            ..PressTuning::DEFAULT
        };
        let whole = PressTuning {
            split: false,
            ..PressTuning::DEFAULT
        };
        for (name, tuning) in [
            ("press", PressTuning::DEFAULT),
            ("press, whole objects only", whole),
            ("press, pieces of 32 bytes at least", pieces(32)),
            ("press, pieces of 128", pieces(128)),
            ("press, pieces of 256", pieces(256)),
            ("press, pieces of 512", pieces(512)),
        ] {
            self.row(name, || Press::tuned(tuning), PRESS_IN_BAND);
        }
    }
}

const PRESS_IN_BAND: (f64, f64) = (2.0, 16.0);

fn zeroed<T: Zeroable>() -> Box<T> {
    let layout = Layout::new::<T>().pad_to_align();
    assert!(layout.size() != 0, "a state of no bytes");
    // SAFETY: the layout is not empty, and that of a box of `T`; zero is a valid value of the type.
    unsafe { Box::from_raw(alloc_zeroed(layout).cast()) }
}

/// What a codec makes of pages.
fn compressed<C: PageCodec>(codec: &C, pages: &[u8]) -> Vec<u32> {
    let (mut state, mut out) = (zeroed::<C::State>(), [0; DEFAULT_TARGET_BYTES]);
    let pages = pages.as_chunks::<PAGE_SIZE>().0.iter();
    let stored = pages.filter_map(|page| match codec.compress(&mut state, page, &mut out) {
        Compressed::Stored(len) => Some(len as u32),
        _ => None,
    });
    stored.collect()
}

/// What press-dense makes of pages, but for 512 of them, evenly spread, that it was trained on.
fn dense(pages: &[u8]) -> Vec<u32> {
    let pages = pages.as_chunks::<PAGE_SIZE>().0;
    let every = (pages.len() / 512).max(2);
    let mut trainer = zeroed::<press_dense::Trainer>();
    let mut state = zeroed::<press_dense::DenseState>();
    for page in pages.iter().step_by(every).take(512) {
        trainer.add(&mut state, page);
    }
    let mut tables = zeroed::<press_dense::DenseTables>();
    trainer.finish(&mut tables);
    let codec = press_dense::PressDense::new(&tables).expect("trained");
    let all = pages.iter().enumerate();
    let others = all.filter(|(n, _)| n % every != 0 || n / every >= 512);
    let others: Vec<u8> = others.flat_map(|(_, page)| *page).collect();
    compressed(&codec, &others)
}

fn sizes_of(input: &str, count: usize) -> Vec<u32> {
    if let Some((a, b)) = input.split_once('+') {
        return [sizes_of(a, count), sizes_of(b, count)].concat();
    }
    if let Some((low, high)) = input.split_once('-')
        && let (Ok(low), Ok(high)) = (low.parse::<usize>(), high.parse::<usize>())
    {
        let mut random = Random(88_172_645_463_325_252);
        let size = |_| (low + random.below(high - low + 1)) as u32;
        return (0..count).map(size).collect();
    }
    let (kind, file) = input.split_once(':').unwrap_or(("", input));
    let bytes = std::fs::read(file).unwrap_or_else(|error| refuse(&format!("{file}: {error}")));
    match kind {
        "lz4" => compressed(&Lz4Rust::THOROUGH, &bytes),
        "press" => compressed(&press::Press::new(), &bytes),
        "dense" => dense(&bytes),
        "" if file.ends_with(".u16") => {
            let words = bytes.as_chunks().0.iter();
            words.map(|b| u16::from_le_bytes(*b).into()).collect()
        }
        "" if file.ends_with(".u32") => {
            let words = bytes.as_chunks().0.iter();
            words.map(|b| u32::from_le_bytes(*b)).collect()
        }
        _ => refuse(&format!("{input} is none of the kinds of SIZES")),
    }
}

fn refuse(message: &str) -> ! {
    eprintln!("density: {message}");
    std::process::exit(125);
}

fn main() {
    let (mut count, mut runs, mut header, mut variants) = (200_000, 3, 0, false);
    let mut inputs = Vec::new();
    let mut arguments = std::env::args().skip(1);
    let number = |value: Option<String>| {
        let number = value.and_then(|value| value.parse().ok());
        number.unwrap_or_else(|| refuse("a number is missing"))
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--objects" => count = number(arguments.next()),
            "--runs" => runs = number(arguments.next()),
            "--header" => header = number(arguments.next()),
            "--variants" => variants = true,
            _ => inputs.push(argument),
        }
    }
    if inputs.is_empty() {
        inputs = ["64-512", "64-2867", "2049-2867"].map(String::from).into();
    }
    for input in inputs {
        let sizes = sizes_of(&input, count).into_iter();
        let sizes = sizes.filter(|size| (1..=FRAME_BYTES - header).contains(&(*size as usize)));
        let sizes: Vec<u16> = sizes
            .map(|size| size as u16 + header as u16)
            .take(count)
            .collect();
        if sizes.is_empty() {
            refuse(&format!("{input} has no object"));
        }
        let sum: usize = sizes.iter().map(|size| usize::from(*size)).sum();
        println!(
            "\n### {input}: {} objects of {} bytes in the mean\n",
            sizes.len(),
            sum / sizes.len()
        );
        println!(
            "| storage | fill | churned | compacted | split at fill, churned | moved by the pass | tables B/object | in band B/object | store ns p50 / p99 / max | free ns | step ns |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|");
        let plan = Plan { sizes, runs };
        if variants {
            plan.variant_rows();
        } else {
            plan.all_rows();
        }
    }
}
