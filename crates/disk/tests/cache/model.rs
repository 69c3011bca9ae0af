//! A cache before a file against a plain vector of bytes, under a limit that is a third of the file.

use super::{Scratch, cache, read};
use crate::common::{noise, text};
use coldpress_disk::{Cache, Extent, OpenMode, Zeroing};
use proptest::prelude::*;

const SIZE: u64 = 12 << 20;
const LIMIT: u64 = 4 << 20;

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, u64),
    Noise(u64, usize, u64),
    Read(u64, usize),
    Trim(u64, u64),
    Zero(u64, u64, Zeroing),
    Flush,
    Shrink(usize),
    Limit(bool),
    Settle,
}

fn range(longest: u64) -> impl Strategy<Value = (u64, u64)> {
    let length = prop_oneof![
        1..100u64,
        1..20_000u64,
        1..longest,
        (1..longest >> 12).prop_map(|n| n << 12)
    ];
    let offset = prop_oneof![0..SIZE, (0..SIZE >> 12).prop_map(|n| n << 12), 0..20_000u64];
    (offset, length).prop_map(|(offset, length)| (offset, length.min(SIZE - offset)))
}

fn zeroing() -> impl Strategy<Value = Zeroing> {
    prop_oneof![Just(Zeroing::MayPunch), Just(Zeroing::KeepAllocated)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (range(1 << 20), any::<u64>()).prop_map(|((at, len), seed)| Step::Write(at, len as usize, seed)),
        6 => (range(2 << 20), any::<u64>()).prop_map(|((at, len), seed)| Step::Noise(at, len as usize, seed)),
        6 => range(1 << 20).prop_map(|(at, len)| Step::Read(at, len as usize)),
        2 => range(SIZE / 4).prop_map(|(at, len)| Step::Trim(at, len)),
        2 => (range(SIZE / 4), zeroing()).prop_map(|((at, len), zeroing)| Step::Zero(at, len, zeroing)),
        3 => Just(Step::Flush),
        1 => (1..2000usize).prop_map(Step::Shrink),
        1 => any::<bool>().prop_map(Step::Limit),
        1 => Just(Step::Settle),
    ];
    proptest::collection::vec(step, 1..60)
}

struct Model {
    file: Scratch,
    cache: Cache,
    bytes: Vec<u8>,
}

impl Model {
    fn write(&mut self, at: u64, data: &[u8]) {
        self.cache.write(at, data).unwrap();
        self.bytes[at as usize..][..data.len()].copy_from_slice(data);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write(at, len, seed) => self.write(at, &text(seed, len)),
            Step::Noise(at, len, seed) => self.write(at, &noise(seed, len)),
            Step::Read(at, len) => {
                let expected = &self.bytes[at as usize..][..len];
                assert!(read(&self.cache, at, len) == expected, "read {at} {len}");
            }
            Step::Trim(at, len) => {
                self.cache.trim(at, len).unwrap();
                let (from, end) = (at.div_ceil(4096) * 4096, (at + len) / 4096 * 4096);
                if from < end {
                    self.bytes[from as usize..end as usize].fill(0);
                }
            }
            Step::Zero(at, len, zeroing) => {
                self.cache.write_zeroes(at, len, zeroing).unwrap();
                self.bytes[at as usize..][..len as usize].fill(0);
            }
            Step::Flush => {
                self.cache.flush().unwrap();
                assert!(self.file.content() == self.bytes, "the file after a flush");
            }
            Step::Shrink(pages) => drop(self.cache.shrink(pages)),
            Step::Limit(low) => {
                let limit = if low { LIMIT } else { 2 * LIMIT };
                self.cache.set_limit(Some(limit)).unwrap();
            }
            Step::Settle => self.cache.pool().settle(),
        }
    }

    fn check(&self) {
        assert!(
            read(&self.cache, 0, SIZE as usize) == self.bytes,
            "the cache"
        );
        let mut at = 0;
        while at < SIZE {
            let (length, kind) = self.cache.extent(at, SIZE - at).unwrap();
            assert!(length > 0);
            let bytes = &self.bytes[at as usize..][..length as usize];
            assert!(
                kind == Extent::Data || bytes.iter().all(|&byte| byte == 0),
                "a hole at {at}"
            );
            at += length;
        }
        self.cache.check_invariants();
        let statistics = self.cache.statistics();
        assert!(statistics.disk.mem_used_max <= 2 * LIMIT + (2 << 20));
        let errors = [
            statistics.backing_read_errors,
            statistics.backing_write_errors,
        ];
        assert_eq!(errors, [0, 0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_is_the_bytes_of_its_file(steps in steps()) {
        let file = Scratch::new();
        let cache = cache(file.create(SIZE), LIMIT);
        let mut model = Model { file, cache, bytes: vec![0; SIZE as usize] };
        for (n, step) in steps.iter().enumerate() {
            model.step(step);
            if n % 16 == 15 {
                model.check();
            }
        }
        model.check();
        model.step(&Step::Flush);
    }
}

/// Twice the limit of pages that do not compress is written, and read again: all goes to the file in the order of its
/// use, and the pool stays below its limit.
#[test]
fn what_is_used_least_goes_to_its_place() {
    let file = Scratch::new();
    let cache = cache(file.create(SIZE), LIMIT);
    let hot = text(7, 4096);
    cache.write(0, &hot).unwrap();
    for page in 1..SIZE / 4096 {
        cache.write(page * 4096, &noise(page, 4096)).unwrap();
        // Read again and again: among the most recent ones always.
        assert!(read(&cache, 0, 4096) == hot);
    }
    let statistics = cache.statistics();
    assert!(statistics.written_back_pages > 0, "{statistics:?}");
    assert!(statistics.pool_limit_hit > 0, "{statistics:?}");
    assert!(statistics.evicted_pages > 0, "{statistics:?}");
    assert!(statistics.disk.mem_used_max <= LIMIT, "{statistics:?}");
    assert!(statistics.stored_pages <= LIMIT / 4096);
    assert_eq!(statistics.read_misses, 0, "the hot page was never evicted");
    assert!(file.content()[..4096] != hot, "nor had to be written back");
    cache.flush().unwrap();
    assert!(file.content()[..4096] == hot);
    for page in 1..SIZE / 4096 {
        assert!(
            read(&cache, page * 4096, 4096) == noise(page, 4096),
            "{page}"
        );
    }
}

#[test]
fn a_file_is_served_once() {
    let file = Scratch::new();
    let first = file.create(1 << 20);
    let second = coldpress_disk::BackingFile::open(&file.0, OpenMode::ReadWrite).unwrap_err();
    assert!(second.to_string().contains("served already"), "{second}");
    drop(first);
    coldpress_disk::BackingFile::open(&file.0, OpenMode::ReadWrite).unwrap();
}
