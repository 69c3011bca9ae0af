//! Readers, writers and a greedy kernel on one small cache.

use coldpress_cache::{Backing, Cache, Options, PAGE_BYTES, Stats};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const PAGES: usize = 256;
const KEYS: u64 = 300;

/// What a storm saw.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Reads that gave an entry.
    pub whole: u64,
    /// Reads in place whose lock said afterwards that they do not count.
    pub discarded: u64,
    /// Reads that gave what is no entry. There must be none.
    pub torn: u64,
    /// The cache's own figures.
    pub stats: Stats,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

/// A page says in each word which key and which writing it is; the last byte, too, is of that word.
fn word(key: u64, writing: u64) -> u64 {
    key << 40 | (writing & 0xff_ffff_ffff)
}

/// Whether `words` are of one page of `key`.
fn is_whole(key: u64, words: &[u64]) -> bool {
    words[0] >> 40 == key && words.iter().all(|word| *word == words[0])
}

/// Makes `reads` reads in two threads, beside two writers and a taker.
pub fn run(backing: Backing, reads: u64) -> Outcome {
    let cache = Cache::new(Options {
        keep_hot: 64,
        ..Options::new(PAGES * PAGE_BYTES, backing)
    })
    .unwrap();
    let stop = AtomicBool::new(false);
    let (whole, discarded, torn) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 1..=2 {
            let (cache, stop) = (&cache, &stop);
            scope.spawn(move || write(cache, stop, writer));
        }
        let (cache_, stop_) = (&cache, &stop);
        scope.spawn(move || {
            let mut random = Random(99);
            while !stop_.load(Relaxed) {
                cache_.take_as_the_kernel(random.next() % KEYS);
                if random.next().is_multiple_of(4096) {
                    cache_.shrink(8 * PAGE_BYTES as u64);
                }
                std::thread::yield_now();
            }
        });
        let readers: Vec<_> = (3..=4)
            .map(|seed| {
                let (cache, counts) = (&cache, [&whole, &discarded, &torn]);
                scope.spawn(move || read(cache, seed, reads / 2, counts))
            })
            .collect();
        for reader in readers {
            reader.join().unwrap();
        }
        stop.store(true, Relaxed);
    });
    Outcome {
        whole: whole.load(Relaxed),
        discarded: discarded.load(Relaxed),
        torn: torn.load(Relaxed),
        stats: cache.stats(),
    }
}

fn write(cache: &Cache, stop: &AtomicBool, seed: u64) {
    let mut random = Random(seed);
    let mut writing = seed << 32;
    while !stop.load(Relaxed) {
        let key = random.next() % KEYS;
        writing += 1;
        let bytes = word(key, writing).to_ne_bytes();
        if random.next().is_multiple_of(2) {
            // Refused while the other writer has this key.
            let _ = cache.insert(key, &bytes.repeat(PAGE_BYTES / 8));
        } else if let Ok(mut lock) = cache.write_lock(key) {
            // Word by word and in pieces: the longer it takes, the more readers come across.
            for offset in (0..PAGE_BYTES).step_by(512) {
                lock.write(offset, &bytes.repeat(64));
            }
            lock.commit();
        }
    }
}

fn read(cache: &Cache, seed: u64, reads: u64, [whole, discarded, torn]: [&AtomicU64; 3]) {
    let mut random = Random(seed);
    let mut words = [0u64; PAGE_BYTES / 8];
    for number in 0..reads {
        let key = random.next() % KEYS;
        if number % 4 == 0 {
            // In place: every 64th word, so that there is a chance to be late.
            let read = |page: *const u8, _last: u8| {
                // SAFETY: inside the page, aligned, volatile.
                [0, 64, 128, 192, 256, 320, 384, 448, 510]
                    .map(|at| unsafe { page.cast::<u64>().add(at).read_volatile() })
            };
            let Some(lock) = cache.read_lock(key) else {
                continue;
            };
            let seen = read(lock.as_ptr(), lock.last_byte());
            if !lock.is_valid() {
                discarded.fetch_add(1, Relaxed);
            } else if is_whole(key, &seen) {
                whole.fetch_add(1, Relaxed);
            } else {
                torn.fetch_add(1, Relaxed);
            }
            continue;
        }
        // SAFETY: integers as bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), PAGE_BYTES) };
        // The whole page sometimes, a piece of it, or its end, mostly.
        let (from, to) = match number % 16 {
            1 => (0, PAGE_BYTES),
            2..=5 => (PAGE_BYTES - 256, PAGE_BYTES),
            _ => (1024, 1024 + 512),
        };
        if cache.get_at(key, from, &mut bytes[..to - from]) {
            let ok = is_whole(key, &words[..(to - from) / 8]);
            if ok { whole } else { torn }.fetch_add(1, Relaxed);
        }
    }
}
