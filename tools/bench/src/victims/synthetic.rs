//! Traces that need no program: what programs are made of, each by itself. A seed decides everything.

use super::trace::{LEAF_PAGES, Trace};
use coldpress_engine::queues::random::RandomPick;

/// A trace that can be made.
pub struct Recipe {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// What it is, in a few words.
    pub is: &'static str,
    make: fn(&mut Random) -> Vec<u32>,
}

/// All of them.
pub const RECIPES: [Recipe; 8] = [
    Recipe {
        name: "store",
        is: "a store with uniform keys: index and value of a key, and a few pages that each request needs",
        make: |random| store(random, Keys::Uniform),
    },
    Recipe {
        name: "store-zipf",
        is: "the same store, keys by Zipf's law (0.99), scattered",
        make: |random| store(random, Keys::Zipf),
    },
    Recipe {
        name: "slabs",
        is: "a store with uniform keys as redis holds it: five allocations a key, in slabs that lie in the order of filling",
        make: |random| slabs(random, Keys::Uniform),
    },
    Recipe {
        name: "slabs-zipf",
        is: "the same, keys by Zipf's law (0.99), scattered",
        make: |random| slabs(random, Keys::Zipf),
    },
    Recipe {
        name: "scans",
        is: "a working set, and every now and then all of a table that is larger than memory",
        make: scans,
    },
    Recipe {
        name: "loop",
        is: "all pages in their order, again and again",
        make: |_| (0..40).flat_map(|_| 0..PAGES).collect(),
    },
    Recipe {
        name: "phases",
        is: "a working set of a fifth of all pages, which moves on",
        make: phases,
    },
    Recipe {
        name: "dense-hot",
        is: "every other page in use, the others seldom",
        make: dense_hot,
    },
];

/// Pages of each.
const PAGES: u32 = 32_768;
const TOUCHES: usize = 1_200_000;

type Random = RandomPick;

impl Recipe {
    /// The trace.
    pub fn make(&self) -> Trace {
        let touches = (self.make)(&mut RandomPick::new(18));
        let last = touches.iter().max().map_or(0, |&page| u64::from(page) + 1);
        Trace {
            name: self.name.to_owned(),
            pages: last.next_multiple_of(LEAF_PAGES) as usize,
            touches,
        }
    }
}

fn below(random: &mut Random, bound: u32) -> u32 {
    (((random.draw() >> 32) * u64::from(bound)) >> 32) as u32
}

fn share(random: &mut Random) -> f64 {
    (random.draw() >> 11) as f64 / (1u64 << 53) as f64
}

#[derive(Clone, Copy)]
enum Keys {
    Uniform,
    Zipf,
}

/// Pages of the table of buckets, and pages that every request needs.
const BUCKETS: u32 = 1024;
const ALWAYS: u32 = 16;

/// Pages of values with eight keys each. A request goes by a few pages that all need, a bucket, an entry and its value.
fn store(random: &mut Random, keys: Keys) -> Vec<u32> {
    let values = PAGES - BUCKETS - ALWAYS;
    let all = values * 8;
    let ranks = match keys {
        Keys::Uniform => Vec::new(),
        Keys::Zipf => zipf_sums(all),
    };
    let mut touches = Vec::with_capacity(TOUCHES + 8);
    // It is filled first.
    touches.extend(0..PAGES);
    while touches.len() < TOUCHES {
        let key = match keys {
            Keys::Uniform => below(random, all),
            Keys::Zipf => zipf_rank(random, &ranks),
        };
        // The keys of a rank, and the entry of a key, lie anywhere.
        let scattered = |key: u32, salt: u64| {
            let mixed = RandomPick::new(u64::from(key) ^ salt << 32).draw();
            (((mixed >> 32) * u64::from(values)) >> 32) as u32 + BUCKETS + ALWAYS
        };
        touches.push(below(random, ALWAYS));
        touches.push(ALWAYS + RandomPick::new(key.into()).draw() as u32 % BUCKETS);
        touches.push(scattered(key, 1));
        touches.push(scattered(key, 2));
    }
    touches
}

/// One size class of an allocator: slabs of some pages, cut into allocations.
struct Class {
    bytes: u32,
    slab_pages: u32,
    first_page: u32,
    used: u32,
}

impl Class {
    const fn new(bytes: u32, slab_pages: u32) -> Self {
        Self {
            bytes,
            slab_pages,
            first_page: 0,
            used: u32::MAX,
        }
    }

    /// The pages of a new allocation, the first and the last; a new slab is taken from `pages`.
    fn allocate(&mut self, pages: &mut u32) -> [u32; 2] {
        if self.used >= self.slab_pages * 4096 / self.bytes {
            self.first_page = *pages;
            *pages += self.slab_pages;
            self.used = 0;
        }
        let at = self.used * self.bytes;
        self.used += 1;
        [at, at + self.bytes - 1].map(|byte| self.first_page + byte / 4096)
    }
}

/// Keys of a store as redis 7 and jemalloc lay it out: object, entry, key and value of a key are allocations of their
/// own. Requests as many as `cargo xtask bench run` has for each key.
fn slabs(random: &mut Random, keys: Keys) -> Vec<u32> {
    const KEYS: u32 = 155_000;
    const TABLE: u32 = 512;
    let mut pages = TABLE;
    let mut classes = [
        Class::new(16, 1),
        Class::new(32, 1),
        Class::new(48, 3),
        Class::new(896, 7),
    ];
    let bucket = |key: u32| RandomPick::new(key.into()).draw() as u32 % TABLE;
    let (mut touches, mut places) = (Vec::new(), Vec::new());
    for key in 0..KEYS {
        let place = classes.each_mut().map(|class| class.allocate(&mut pages));
        touches.push(bucket(key));
        touches.extend(place.iter().flatten());
        places.push(place);
    }
    let ranks = match keys {
        Keys::Uniform => Vec::new(),
        Keys::Zipf => zipf_sums(KEYS),
    };
    for _ in 0..KEYS * 6 / 10 {
        let key = match keys {
            Keys::Uniform => below(random, KEYS),
            Keys::Zipf => {
                let rank = u64::from(zipf_rank(random, &ranks));
                let mixed = RandomPick::new(rank ^ 1 << 40).draw() >> 32;
                ((mixed * u64::from(KEYS)) >> 32) as u32
            }
        };
        touches.push(bucket(key));
        touches.extend(places[key as usize].iter().flatten());
    }
    touches
}

/// A rank, as often as its part of the last of these sums.
fn zipf_rank(random: &mut Random, sums: &[f64]) -> u32 {
    let at = share(random) * sums[sums.len() - 1];
    sums.partition_point(|&sum| sum < at) as u32
}

/// Sums of 1 / rank^0.99.
fn zipf_sums(ranks: u32) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=ranks)
        .map(|rank| {
            sum += f64::from(rank).powf(-0.99);
            sum
        })
        .collect()
}

fn scans(random: &mut Random) -> Vec<u32> {
    let in_use = PAGES / 4;
    let mut touches = Vec::with_capacity(TOUCHES);
    while touches.len() < TOUCHES {
        for page in in_use..PAGES {
            touches.push(page);
            touches.push(below(random, in_use));
        }
        touches.extend((0..PAGES * 4).map(|_| below(random, in_use)));
    }
    touches
}

fn phases(random: &mut Random) -> Vec<u32> {
    let mut touches: Vec<u32> = (0..PAGES).collect();
    let size = PAGES / 5;
    while touches.len() < TOUCHES {
        let first = below(random, PAGES - size);
        touches.extend((0..3 * PAGES).map(|_| first + below(random, size)));
    }
    touches
}

fn dense_hot(random: &mut Random) -> Vec<u32> {
    let mut touches: Vec<u32> = (0..PAGES).collect();
    while touches.len() < TOUCHES {
        let any = below(random, PAGES / 2) * 2;
        touches.push(match below(random, 20) {
            0 => any + 1,
            _ => any,
        });
    }
    touches
}
