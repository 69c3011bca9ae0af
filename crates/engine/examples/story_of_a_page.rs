//! The story of a page, in words and numbers: written, aged, compressed, moved by compaction,
//! shared by a snapshot, brought back by a read, parted by a write, zeroed.
//!
//! `cargo run --release -p coldpress-engine --example story_of_a_page`

use coldpress_codec::Page;
use coldpress_codec::press::Press;
use coldpress_engine::vmo::{VmoId, Vmos};
use coldpress_engine::{Entry, Reclaimer, Trigger, Worker};
use coldpress_machine::frames::Frames;
use coldpress_machine::kit::{reclaimer_with, worker};
use coldpress_machine::lean::Machine;
use std::sync::atomic::Ordering::Relaxed;

type Storage = coldpress_storage::Press;

const SECOND: u64 = 1_000_000_000;

/// The page that we follow, and its neighbours: 64 records of 64 bytes, as a program has them.
fn records(seed: u64) -> Page {
    let mut page = [0; 4096];
    for (n, record) in page.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        let (id, next) = (
            seed * 64 + n as u64,
            0x7F00_0000_0000 + seed * 4096 + n as u64 * 64,
        );
        record[..8].copy_from_slice(&id.to_le_bytes());
        record[8..16].copy_from_slice(&next.to_le_bytes());
        record[16..24].copy_from_slice(&(id * id % 1009).to_le_bytes());
        record[24..29].copy_from_slice(b"state");
    }
    page
}

struct Story {
    vmos: Box<Vmos<Machine<Frames>, Press, Storage>>,
    machine: Machine<Frames>,
    worker: Worker<Press>,
    reclaimer: Reclaimer<Press>,
    chapter: u32,
}

impl Story {
    fn new() -> Self {
        Self {
            vmos: Box::new(Vmos::new(Press::default(), Storage::new())),
            machine: Machine::with_running_clock(Frames::new(4096)),
            worker: worker(0),
            reclaimer: reclaimer_with(1, 0..1),
            chapter: 0,
        }
    }

    fn tell(&mut self, what: &str) {
        self.chapter += 1;
        println!("\n{}. {what}", self.chapter);
    }

    /// What the page list of a VMO says of page 7.
    fn show(&self, who: &str, vmo: VmoId) {
        let entry = match self.vmos.entry(vmo, 7).expect("it is there") {
            Entry::Empty => "empty: whoever looks goes on to the parent, or finds zeros".to_owned(),
            Entry::Page(record) => format!("a page, with record {record}"),
            Entry::Zero => "a zero marker: no memory at all".to_owned(),
            Entry::Compressed(reference) => format!(
                "a compressed reference: {} bytes, checksum, time and owner included, at byte {} of frame {}",
                reference.len(),
                reference.offset(),
                reference.frame().0
            ),
            other => format!("{other:?}"),
        };
        let usage = self.vmos.usage(vmo).expect("it is there");
        println!("   {who}: {entry}");
        println!(
            "   {who} itself holds: {} pages in memory, {} with content",
            usage.committed_pages, usage.content_pages
        );
    }

    fn show_storage(&self) {
        let usage = self.vmos.engine().storage_usage();
        println!(
            "   storage: {} objects, {} bytes in {} frames of 4096; {} bytes of tables",
            usage.objects,
            usage.payload_bytes,
            usage.storage_bytes / 4096,
            usage.metadata_bytes
        );
    }

    fn write(&mut self, vmo: VmoId, page: u64, bytes: &[u8]) {
        self.vmos
            .write(&self.machine, &mut self.worker, vmo, page * 4096, bytes)
            .expect("memory");
    }

    fn read(&mut self, vmo: VmoId) -> Page {
        let mut page = [0; 4096];
        self.vmos
            .read(&self.machine, &mut self.worker, vmo, 7 * 4096, &mut page)
            .expect("content");
        page
    }

    /// Two generations pass, and what is old is compressed.
    fn grow_cold(&mut self) {
        for _ in 0..8 {
            self.machine.leap(SECOND);
            self.vmos.engine().rotate(&self.machine);
        }
        let batch = self.vmos.engine().reclaim_batch(
            &self.machine,
            &mut self.reclaimer,
            4096,
            u64::MAX,
            Trigger::Eager,
        );
        println!("   {} pages taken, {} compressed", batch.taken, batch.kept);
    }
}

/// The chapters.
impl Story {
    /// A VMO is created, and written to.
    fn begin(&mut self) -> VmoId {
        let vmo = self.vmos.create(&self.machine, 256).expect("memory");
        self.tell("A VMO of 256 pages. Nothing has been written.");
        self.show("the VMO", vmo);

        self.tell("A program writes all of them; we follow page 7.");
        for page in 0..256 {
            self.write(vmo, page, &records(page));
        }
        self.show("the VMO", vmo);
        vmo
    }

    /// Its pages age, and are compressed.
    fn compress(&mut self, vmo: VmoId) {
        self.tell("Nobody touches them. Generations pass; the compressor takes the oldest.");
        self.grow_cold();
        self.show("the VMO", vmo);
        self.show_storage();
    }

    /// A snapshot shares them, and reads one.
    fn share(&mut self, vmo: VmoId) -> VmoId {
        self.tell("A snapshot. No page comes back for it: both see the page of a hidden parent.");
        let snapshot = self
            .vmos
            .snapshot(&self.machine, vmo, 0..256)
            .expect("memory");
        self.show("the VMO", vmo);
        self.show("the snapshot", snapshot);

        self.tell("Somebody reads page 7 through the snapshot: it is decompressed, for both.");
        assert!(self.read(snapshot) == records(7));
        self.show("the snapshot", snapshot);
        self.show_storage();
        snapshot
    }

    /// A write parts the page.
    fn part(&mut self, vmo: VmoId, snapshot: VmoId) {
        self.tell("The snapshot writes to it, and has a page of its own from now on.");
        self.write(snapshot, 7, b"parted");
        self.show("the snapshot", snapshot);
        assert!(self.read(vmo) == records(7));
    }

    /// The VMO goes.
    fn leave(&mut self, vmo: VmoId, snapshot: VmoId) {
        self.tell("The VMO goes. What only it saw goes with it; the rest is the snapshot's alone.");
        self.vmos.destroy(&self.machine, vmo).expect("it is there");
        self.show("the snapshot", snapshot);
        self.show_storage();
    }

    /// Most pages are dropped, and compaction moves the rest.
    fn compact(&mut self, snapshot: VmoId) {
        self.tell("Two pages of three are dropped, and storage closes the holes.");
        for page in (0..256).filter(|page| page % 3 != 1) {
            let range = page..page + 1;
            self.vmos
                .decommit(&self.machine, snapshot, range)
                .expect("not pinned");
        }
        self.show_storage();
        let mut moved = 0;
        while let Some(step) = self.vmos.engine().compact(&self.machine, 4096) {
            moved += step.objects;
            if step.pass_ended {
                break;
            }
        }
        println!("   {moved} objects moved, and their entries with them");
        self.show_storage();
    }

    /// The page is zeroed, and becomes a marker.
    fn zero(&mut self, snapshot: VmoId) {
        self.tell("Page 7 is zeroed, and grows cold: a page of zeros becomes a marker.");
        self.write(snapshot, 7, &[0; 4096]);
        self.grow_cold();
        self.show("the snapshot", snapshot);
        assert!(self.read(snapshot) == [0; 4096]);
    }

    /// The snapshot goes, too.
    fn end(&mut self, snapshot: VmoId) {
        self.tell("All is given back.");
        self.vmos
            .destroy(&self.machine, snapshot)
            .expect("it is there");
        self.show_storage();
        let counters = self.vmos.engine().counters();
        println!(
            "   in all: {} compressions tried, {} decompressions",
            counters.compression_attempts.load(Relaxed),
            counters.decompressions.load(Relaxed)
        );
    }
}

fn main() {
    let mut story = Story::new();
    let vmo = story.begin();
    story.compress(vmo);
    let snapshot = story.share(vmo);
    story.part(vmo, snapshot);
    story.leave(vmo, snapshot);
    story.compact(snapshot);
    story.zero(snapshot);
    story.end(snapshot);
}
