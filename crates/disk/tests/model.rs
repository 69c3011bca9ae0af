//! A disk against a plain vector of bytes: whatever is done to it, every byte is compared.

use crate::common::{eager, noise, read, text};
use coldpress_disk::{Disk, Extent, IoError};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SIZE: u64 = 6 << 20;
const LIMIT: u64 = 4 << 20;

#[derive(Clone, Debug)]
enum Content {
    Text(u64),
    Noise(u64),
    Filled(u8),
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, Content),
    Read(u64, usize),
    Trim(u64, u64),
    Zero(u64, u64),
    Snapshot(u8),
    Drop(u8),
    Limit(bool),
    MarkIdle,
    Settle,
    Compact,
}

impl Content {
    fn bytes(&self, len: usize) -> Vec<u8> {
        match *self {
            Self::Text(seed) => text(seed, len),
            Self::Noise(seed) => noise(seed, len),
            Self::Filled(byte) => vec![byte; len],
        }
    }
}

/// Offsets and lengths of any kind: small and large ones, and such as end with pages.
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

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let content = prop_oneof![
        4 => any::<u64>().prop_map(Content::Text),
        2 => any::<u64>().prop_map(Content::Noise),
        1 => (0..3u8).prop_map(Content::Filled),
    ];
    let step = prop_oneof![
        10 => (range(1 << 20), content).prop_map(|((at, len), content)| Step::Write(at, len as usize, content)),
        6 => range(1 << 20).prop_map(|(at, len)| Step::Read(at, len as usize)),
        2 => range(SIZE).prop_map(|(at, len)| Step::Trim(at, len)),
        2 => range(SIZE).prop_map(|(at, len)| Step::Zero(at, len)),
        2 => (0..4u8).prop_map(Step::Snapshot),
        2 => (0..4u8).prop_map(Step::Drop),
        1 => any::<bool>().prop_map(Step::Limit),
        1 => Just(Step::MarkIdle),
        2 => Just(Step::Settle),
        1 => Just(Step::Compact),
    ];
    proptest::collection::vec(step, 1..60)
}

struct Model {
    disk: Disk,
    bytes: Vec<u8>,
    snapshots: BTreeMap<String, Vec<u8>>,
}

impl Model {
    fn write(&mut self, at: u64, data: &[u8]) {
        let is = self.disk.volume().write(at, data);
        let (from, end) = (at as usize, at as usize + data.len());
        if is.is_ok() {
            self.bytes[from..end].copy_from_slice(data);
            return;
        }
        assert_eq!(is, Err(IoError::NoSpace));
        // Up to some bound between pages it was written, and behind it it was not.
        let found = read(self.disk.volume(), at, data.len());
        let bounds = (from + 1..end).filter(|at| at % 4096 == 0).chain([from]);
        let old = &self.bytes[from..end];
        let is_cut = |&cut: &usize| {
            let cut = cut - from;
            found[..cut] == data[..cut] && found[cut..] == old[cut..]
        };
        assert!(
            bounds.into_iter().any(|cut| is_cut(&cut)),
            "a write that is neither"
        );
        self.bytes[from..end].copy_from_slice(&found);
    }

    fn step(&mut self, step: &Step) {
        let volume = self.disk.volume().clone();
        match step {
            Step::Write(at, len, content) => self.write(*at, &content.bytes(*len)),
            Step::Read(at, len) => {
                let expected = &self.bytes[*at as usize..][..*len];
                assert!(read(&volume, *at, *len) == expected, "read {at} {len}");
            }
            Step::Trim(at, len) => {
                volume.trim(*at, *len).unwrap();
                let (from, end) = (at.div_ceil(4096) * 4096, (at + len) / 4096 * 4096);
                if from < end {
                    self.bytes[from as usize..end as usize].fill(0);
                }
            }
            Step::Zero(at, len) => match volume.write_zeroes(*at, *len) {
                Ok(()) => self.bytes[*at as usize..][..*len as usize].fill(0),
                // Of a page that is compressed a part could not be written: some of it is zeros.
                Err(error) => {
                    assert_eq!(error, IoError::NoSpace);
                    let found = read(&volume, *at, *len as usize);
                    let old = &mut self.bytes[*at as usize..][..*len as usize];
                    let is_either = old
                        .iter()
                        .zip(&found)
                        .all(|(old, new)| new == old || *new == 0);
                    assert!(is_either, "zeroes that are neither");
                    old.copy_from_slice(&found);
                }
            },
            Step::Snapshot(n) => {
                let name = n.to_string();
                let is = self.disk.snapshot(&name);
                assert_eq!(is.is_ok(), !self.snapshots.contains_key(&name));
                let bytes = &self.bytes;
                self.snapshots.entry(name).or_insert_with(|| bytes.clone());
            }
            Step::Drop(n) => {
                let name = n.to_string();
                let is = self.disk.drop_snapshot(&name);
                assert_eq!(is.is_ok(), self.snapshots.remove(&name).is_some());
            }
            Step::Limit(limited) => self.disk.set_limit(limited.then_some(LIMIT)).unwrap(),
            Step::MarkIdle => self.disk.mark_idle(),
            Step::Settle => self.disk.settle(),
            Step::Compact => drop(self.disk.compact()),
        }
    }

    fn check(&self) {
        let len = SIZE as usize;
        assert!(read(self.disk.volume(), 0, len) == self.bytes, "the disk");
        for (name, bytes) in &self.snapshots {
            let volume = self.disk.find_snapshot(name).unwrap();
            assert!(&read(&volume, 0, len) == bytes, "snapshot {name}");
        }
        let mut at = 0;
        while at < SIZE {
            let (length, kind) = self.disk.volume().extent(at, SIZE - at).unwrap();
            assert!(length > 0);
            let bytes = &self.bytes[at as usize..][..length as usize];
            assert!(
                kind == Extent::Data || bytes.iter().all(|&byte| byte == 0),
                "a hole at {at}"
            );
            at += length;
        }
        self.disk.check_invariants();
    }

    /// Whatever was done, everything can be given back.
    fn end(self) {
        for name in self.snapshots.keys() {
            self.disk.drop_snapshot(name).unwrap();
        }
        self.disk.volume().trim(0, SIZE).unwrap();
        // What the scanner was compressing in that moment is still in its hands.
        self.disk.settle();
        let statistics = self.disk.statistics();
        assert_eq!(
            (statistics.orig_data_size, statistics.storage_bytes),
            (0, 0)
        );
        assert_eq!((statistics.failed_reads, statistics.invalid_io), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_disk_is_its_bytes(steps in steps(), limited: bool) {
        let disk = Disk::new(&eager(SIZE, limited.then_some(LIMIT))).unwrap();
        let mut model = Model { disk, bytes: vec![0; SIZE as usize], snapshots: BTreeMap::new() };
        for (n, step) in steps.iter().enumerate() {
            model.step(step);
            if n % 16 == 15 {
                model.check();
            }
        }
        model.check();
        model.end();
    }
}
