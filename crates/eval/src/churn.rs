//! Packing: the sizes that codecs made, through a storage's whole life.
//!
//! ```text
//!  fill      store every object, in order
//!  churned   ten times: free half of all at random, store as many again, their sizes shuffled
//!  halved    free half of all at random
//!  compacted one pass of compaction, in steps of 16 KiB at most
//! ```
//!
//! What is stored and freed follows from the seed alone, so every storage sees the same calls.
//! After each stage every object's bytes are compared (I2), and the storage checks itself.

use crate::Error;
use crate::clock::Clock;
use crate::dyn_storage::DynStorage;
use crate::host::{Frames, Host};
use crate::random::Random;
use crate::report::StorageRow;
use crate::statistics::Spread;
use crate::storages::Packing;
use crate::undisturbed::interruptions;
use coldpress_codec::PAGE_SIZE;
use coldpress_storage::{FRAME_BYTES, Gather, Reference, data, write};

const CHURN_ROUNDS: usize = 10;
/// Bytes that one step of compaction may copy.
const STEP_BYTES: usize = 16 << 10;

/// Sizes to store.
pub(crate) struct Sizes {
    /// The codec that made them, or what range they are of.
    pub(crate) codec: String,
    pub(crate) corpus: String,
    pub(crate) sizes: Vec<u16>,
}

impl Sizes {
    /// Sizes drawn evenly from a range.
    pub(crate) fn made_up(from: u16, to: u16, count: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let width = usize::from(to - from) + 1;
        Self {
            codec: format!("{from}–{to} bytes"),
            corpus: "synthetic".to_owned(),
            sizes: (0..count)
                .map(|_| from + random.below(width) as u16)
                .collect(),
        }
    }
}

#[derive(Copy, Clone)]
struct Object {
    reference: Reference,
    /// Names the bytes it was written with.
    name: u32,
}

/// A storage at work.
struct Trial<'a> {
    packing: &'a Packing,
    clock: &'a Clock,
    // Declared before the host whose memory it uses, so that it is dropped before.
    storage: Box<dyn DynStorage>,
    host: Host<'a>,
    objects: Vec<Object>,
    next_name: u32,
    pattern: Vec<u8>,
    store_ns: Vec<f32>,
    free_ns: Vec<f32>,
}

/// Frames that are always enough. At worst each object takes one; a storage that opens chains of
/// several frames for each class of sizes takes some before it has objects for them.
pub(crate) fn frames_for(objects: usize) -> usize {
    objects + 8192
}

/// The rows of one storage with the given sizes, on `frames`, of which there are
/// [`frames_for`] as many objects.
pub(crate) fn rows(
    packing: &Packing,
    sizes: &Sizes,
    clock: &Clock,
    frames: &mut Frames,
    seed: u64,
) -> Result<Vec<StorageRow>, Error> {
    let mut random = Random::new(seed);
    let mut trial = Trial::new(packing, clock, frames, sizes.sizes.len(), seed);
    let mut rows = Vec::new();
    for size in &sizes.sizes {
        trial.store(*size)?;
    }
    rows.push(trial.row(sizes, "fill")?);
    for _ in 0..CHURN_ROUNDS {
        let mut freed = trial.free_half(&mut random);
        random.shuffle(&mut freed);
        for size in freed {
            trial.store(size)?;
        }
    }
    rows.push(trial.row(sizes, "churned")?);
    trial.free_half(&mut random);
    rows.push(trial.row(sizes, "halved")?);
    let (mut steps, moved_bytes) = trial.compact()?;
    let spread = Spread::of(&mut steps);
    rows.push(StorageRow {
        // A storage that moves nothing has no steps to speak of.
        compact_step_p99_ns: (moved_bytes > 0).then_some(spread.p99),
        compact_step_worst_ns: (moved_bytes > 0).then_some(spread.worst),
        moved_bytes,
        ..trial.row(sizes, "compacted")?
    });
    Ok(rows)
}

impl<'a> Trial<'a> {
    fn new(
        packing: &'a Packing,
        clock: &'a Clock,
        frames: &'a mut Frames,
        objects: usize,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        Self {
            packing,
            clock,
            storage: (packing.make)(),
            host: Host::new(frames),
            objects: Vec::with_capacity(objects),
            next_name: 0,
            pattern: (0..3 * FRAME_BYTES).map(|_| random.next() as u8).collect(),
            store_ns: Vec::new(),
            free_ns: Vec::new(),
        }
    }

    fn wrong(&self, object: usize, what: &'static str) -> Error {
        Error::WrongObject {
            storage: self.packing.name.to_owned(),
            object,
            what,
        }
    }

    /// The bytes that an object of this name holds.
    fn bytes(&self, name: u32, len: usize) -> &[u8] {
        let start = name as usize * 61 % (2 * FRAME_BYTES);
        &self.pattern[start..start + len]
    }

    fn store(&mut self, size: u16) -> Result<(), Error> {
        let name = self.next_name;
        self.next_name += 1;
        let failed = self.wrong(name as usize, "finds no room though there are frames");
        if !self.storage.reserve(&self.host, 1) {
            return Err(failed);
        }
        let start = name as usize * 61 % (2 * FRAME_BYTES);
        let bytes = &self.pattern[start..start + usize::from(size)];
        let begin = self.clock.begin();
        let reference = self.storage.allocate(&self.host, bytes.len());
        if let Some(reference) = reference {
            // SAFETY: just allocated by a storage on this host; nobody else knows it.
            unsafe { write(&self.host, reference, &[bytes]) };
        }
        let elapsed = self.clock.nanoseconds_since(begin);
        self.store_ns.push(elapsed as f32);
        let reference = reference.ok_or(failed)?;
        self.objects.push(Object { reference, name });
        Ok(())
    }

    /// Frees half of all objects, chosen at random; returns their sizes.
    fn free_half(&mut self, random: &mut Random) -> Vec<u16> {
        random.shuffle(&mut self.objects);
        let freed = self.objects.split_off(self.objects.len().div_ceil(2));
        let sizes = freed
            .iter()
            .map(|object| object.reference.len() as u16)
            .collect();
        for object in freed {
            let begin = self.clock.begin();
            self.storage.free(&self.host, object.reference);
            self.free_ns
                .push(self.clock.nanoseconds_since(begin) as f32);
        }
        sizes
    }

    /// One pass; times of its steps, and bytes moved.
    fn compact(&mut self) -> Result<(Vec<f32>, usize), Error> {
        // Which object is at a place: by frame and offset, in granules of 8 bytes.
        let place = |reference: Reference| {
            reference.frame().0 as usize * (FRAME_BYTES / 8) + reference.offset() / 8
        };
        let frames = frames_for(self.objects.capacity()) + 1;
        let mut at_place = vec![u32::MAX; frames * (FRAME_BYTES / 8)];
        for (at, object) in self.objects.iter().enumerate() {
            at_place[place(object.reference)] = at as u32;
        }
        let Self {
            storage,
            host,
            objects,
            clock,
            ..
        } = self;
        let mut relocate = |from: Reference, to: Reference| {
            let at = std::mem::replace(&mut at_place[place(from)], u32::MAX);
            let Some(object) = objects.get_mut(at as usize) else {
                return false;
            };
            object.reference = to;
            at_place[place(to)] = at;
            true
        };
        let (mut steps, mut moved_bytes) = (Vec::new(), 0);
        // Each step but the last moves an object or gives a frame back, and none moves twice.
        for _ in 0..64 + 2 * frames {
            let before = interruptions();
            let begin = clock.begin();
            let done = storage.compact(host, STEP_BYTES, &mut relocate);
            let elapsed = clock.nanoseconds_since(begin);
            // A step cannot be repeated; one in which others ran tells nothing.
            if interruptions() == before {
                steps.push(elapsed as f32);
            }
            moved_bytes += done.bytes;
            if done.pass_ended {
                return Ok((steps, moved_bytes));
            }
        }
        Err(self.wrong(0, "is compacted for ever: the pass does not end"))
    }

    /// The row of the stage that ends here, verified.
    fn row(&mut self, sizes: &Sizes, stage: &'static str) -> Result<StorageRow, Error> {
        self.storage.check_invariants();
        let mut gather = Box::new(Gather::new());
        for object in &self.objects {
            // SAFETY: allocated on this host and not freed; nobody writes.
            let found = unsafe { data(&self.host, object.reference, &mut gather) };
            if found != Some(self.bytes(object.name, object.reference.len())) {
                return Err(self.wrong(object.name as usize, "comes back with other bytes"));
            }
        }
        let usage = self.storage.usage();
        if usage.storage_bytes != self.host.lent_frames() * FRAME_BYTES
            || usage.objects != self.objects.len()
        {
            return Err(self.wrong(0, "is not what the usage tells"));
        }
        let total_bytes = usage.storage_bytes + usage.metadata_bytes;
        let p99 = |times: &mut Vec<f32>| {
            let spread = (!times.is_empty()).then(|| Spread::of(times).p99);
            times.clear();
            spread
        };
        Ok(StorageRow {
            storage: self.packing.name.to_owned(),
            codec: sizes.codec.clone(),
            corpus: sizes.corpus.clone(),
            stage,
            objects: usage.objects,
            frames: usage.storage_bytes / FRAME_BYTES,
            payload_bytes: usage.payload_bytes,
            metadata_bytes: usage.metadata_bytes,
            total_bytes,
            ratio: (usage.objects * PAGE_SIZE) as f64 / total_bytes.max(1) as f64,
            density: usage.payload_bytes as f64 / total_bytes.max(1) as f64,
            store_p99_ns: p99(&mut self.store_ns),
            free_p99_ns: p99(&mut self.free_ns),
            compact_step_p99_ns: None,
            compact_step_worst_ns: None,
            moved_bytes: 0,
        })
    }
}
