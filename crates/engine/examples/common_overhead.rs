//! What compression costs those who do not use it: the RFC's "common overhead".
//!
//! Snapshots, commits, reads and writes of VMOs whose pages are never compressed, in three
//! settings that take turns:
//!
//! * *off*: anonymous pages do not age (`kernel.compression.reclaim_anonymous=false`), nothing
//!   is ever compressed;
//! * *queues*: pages age, generations are opened between the rounds, nothing is compressed;
//! * *compressing*: as *queues*, and between the rounds other VMOs' pages are compressed.
//!
//! `cargo run --release -p coldpress-engine --example common_overhead [-- --json]`

use coldpress_codec::{Lz4, Page};
use coldpress_engine::tunables::{LruAction, Tunables};
use coldpress_engine::vmo::{VmoId, Vmos};
use coldpress_engine::{Reclaimer, Trigger, Worker};
use coldpress_machine::frames::Frames;
use coldpress_machine::kit::{reclaimer_with, worker};
use coldpress_machine::lean::Machine;
use coldpress_storage::Press;
use std::hint::black_box;
use std::time::Instant;

const PAGES: u64 = 256;
const COLD_PAGES: u64 = 2048;
const ROUNDS: usize = 301;
const SECOND: u64 = 1_000_000_000;

const SETTINGS: [&str; 3] = ["off", "queues", "compressing"];
const OPERATIONS: [&str; 7] = [
    "create and destroy a VMO",
    "commit a page",
    "write 8 bytes",
    "read 8 bytes",
    "read a page",
    "snapshot and destroy it, a page",
    "write to a snapshot, a page",
];

/// One setting: VMOs of its own, on a machine of its own.
struct System {
    vmos: Box<Vmos<Machine<Frames>, Lz4, Press>>,
    machine: Machine<Frames>,
    worker: Worker<Lz4>,
    reclaimer: Reclaimer<Lz4>,
    /// Read and written, so that it is never old.
    hot: VmoId,
    /// Pages that may be compressed.
    cold: VmoId,
    setting: usize,
}

/// A page that compresses to about a third.
fn text(seed: u64) -> Page {
    let mut page = [0; 4096];
    for (n, word) in page.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let value = match n % 4 {
            0 => seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ n as u64,
            _ => seed,
        };
        *word = value.to_le_bytes();
    }
    page
}

impl System {
    fn new(setting: usize) -> Self {
        let vmos = Box::new(Vmos::new(Lz4::default(), Press::new()));
        let machine =
            Machine::with_running_clock(Frames::new((4 * PAGES + 2 * COLD_PAGES) as usize));
        let tunables = Tunables {
            reclaim_anonymous: setting > 0,
            reclaim_zero_forks: setting > 0,
            lru_action: LruAction::None,
            ..Tunables::DEFAULT
        };
        vmos.engine()
            .configure(&tunables)
            .expect("they go together");
        let hot = vmos.create(&machine, PAGES).expect("memory");
        let cold = vmos.create(&machine, COLD_PAGES).expect("memory");
        let mut system = Self {
            vmos,
            machine,
            worker: worker(0),
            reclaimer: reclaimer_with(1, 0..1),
            hot,
            cold,
            setting,
        };
        for page in 0..COLD_PAGES {
            system.write(cold, page * 4096, &text(page));
        }
        for page in 0..PAGES {
            system.write(hot, page * 4096, &text(page));
        }
        system
    }

    fn write(&mut self, vmo: VmoId, offset: u64, bytes: &[u8]) {
        self.vmos
            .write(&self.machine, &mut self.worker, vmo, offset, bytes)
            .expect("memory");
    }

    fn read(&mut self, vmo: VmoId, offset: u64, into: &mut [u8]) {
        self.vmos
            .read(&self.machine, &mut self.worker, vmo, offset, into)
            .expect("memory");
    }

    /// What happens between the rounds.
    fn pass_time(&mut self) {
        let engine = self.vmos.engine();
        if self.setting == 0 {
            return;
        }
        self.machine.leap(SECOND);
        engine.rotate(&self.machine);
        if self.setting == 2 {
            let machine = &self.machine;
            engine.reclaim_batch(
                machine,
                &mut self.reclaimer,
                64,
                u64::MAX,
                Trigger::Pressure,
            );
            // They come back, so that there is always something to compress.
            let mut bytes = [0; 8];
            for page in (0..COLD_PAGES).step_by(32) {
                self.read(self.cold, page * 4096, &mut bytes);
            }
        }
    }

    /// Nanoseconds of each operation, for one page or object.
    fn round(&mut self) -> [f64; OPERATIONS.len()] {
        let mut page = [0; 4096];
        let mut bytes = [0; 8];
        let hot = self.hot;
        let fresh = self.vmos.create(&self.machine, PAGES).expect("memory");
        let mut times = [0.0; OPERATIONS.len()];
        let mut time = |operation: usize, count: u64, act: &mut dyn FnMut()| {
            let begin = Instant::now();
            act();
            times[operation] = begin.elapsed().as_nanos() as f64 / count as f64;
        };
        time(0, 64, &mut || {
            for _ in 0..64 {
                let vmo = self.vmos.create(&self.machine, PAGES).expect("memory");
                self.vmos.destroy(&self.machine, vmo).expect("it is there");
            }
        });
        time(1, PAGES, &mut || {
            self.vmos
                .commit(&self.machine, &mut self.worker, fresh, 0..PAGES)
                .expect("memory");
        });
        time(2, PAGES, &mut || {
            (0..PAGES).for_each(|n| self.write(hot, n * 4096, &n.to_le_bytes()));
        });
        time(3, PAGES, &mut || {
            (0..PAGES).for_each(|n| self.read(hot, n * 4096, black_box(&mut bytes)));
        });
        time(4, PAGES, &mut || {
            (0..PAGES).for_each(|n| self.read(hot, n * 4096, black_box(&mut page)));
        });
        let mut snapshot = None;
        time(5, PAGES, &mut || {
            let taken = self.vmos.snapshot(&self.machine, fresh, 0..PAGES);
            self.vmos
                .destroy(&self.machine, taken.expect("memory"))
                .expect("it is there");
        });
        let taken = self.vmos.snapshot(&self.machine, fresh, 0..PAGES);
        let taken = *snapshot.insert(taken.expect("memory"));
        time(6, PAGES, &mut || {
            (0..PAGES).for_each(|n| self.write(taken, n * 4096, &n.to_le_bytes()));
        });
        for vmo in [taken, fresh] {
            self.vmos.destroy(&self.machine, vmo).expect("it is there");
        }
        times
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let json = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [option] if option == "--json" => true,
        _ => {
            eprintln!("usage: common_overhead [--json]");
            std::process::exit(125);
        }
    };
    let mut systems: Vec<System> = (0..SETTINGS.len()).map(System::new).collect();
    let mut times = vec![vec![Vec::new(); OPERATIONS.len()]; SETTINGS.len()];
    for round in 0..ROUNDS {
        for turn in 0..SETTINGS.len() {
            let setting = (round + turn) % SETTINGS.len();
            let system = &mut systems[setting];
            system.pass_time();
            for (of, value) in times[setting].iter_mut().zip(system.round()) {
                of.push(value);
            }
        }
    }
    let compressed = systems[2].vmos.engine().counters();
    let compressed = compressed
        .compression_attempts
        .load(std::sync::atomic::Ordering::Relaxed);
    assert!(
        compressed > ROUNDS as u64,
        "nothing was compressed meanwhile"
    );
    let medians: Vec<Vec<f64>> = times
        .into_iter()
        .map(|of| of.into_iter().map(median).collect())
        .collect();
    if json {
        let rows: Vec<String> = OPERATIONS
            .iter()
            .enumerate()
            .map(|(n, name)| {
                let [off, queues, on] = [medians[0][n], medians[1][n], medians[2][n]];
                format!(
                    "{{\"operation\":\"{name}\",\"off_ns\":{off:.1},\"queues_ns\":{queues:.1},\
                     \"compressing_ns\":{on:.1}}}"
                )
            })
            .collect();
        println!("[{}]", rows.join(","));
        return;
    }
    println!(
        "Nanoseconds, medians of {ROUNDS} rounds that take turns; {compressed} compressions of other pages"
    );
    println!(
        "{:<34}{:>8}{:>10}{:>14}{:>12}{:>16}",
        "", "off", "queues", "compressing", "queues ×", "compressing ×"
    );
    for (n, name) in OPERATIONS.iter().enumerate() {
        let [off, queues, on] = [medians[0][n], medians[1][n], medians[2][n]];
        println!(
            "{name:<34}{off:>8.0}{queues:>10.0}{on:>14.0}{:>12.2}{:>16.2}",
            queues / off,
            on / off
        );
    }
}
