//! A RAM disk whose cold pages go to a write-back tier.

use super::{Scratch, read};
use crate::common::{eager, mix, noise, text};
use coldpress_codec::CodecKind;
use coldpress_disk::{
    Backing, BackingError, Cache, CacheOptions, Extent, IoError, SEGMENT_BYTES, TierDevice,
    TierFile, TierStore, Which, Zeroing, segments_for,
};
use coldpress_tier::{Device, DeviceError};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const SIZE: u64 = 16 << 20;
const LIMIT: u64 = 4 << 20;

fn tiered(limit_bytes: u64, daily_bytes: Option<u64>) -> (Cache, Arc<TierStore>, Scratch) {
    let scratch = Scratch::new();
    let file = TierFile::create(&scratch.0, SIZE).unwrap();
    assert!(!scratch.0.exists(), "it has no name");
    let store = TierStore::new(file, SIZE, CodecKind::best(), daily_bytes).unwrap();
    let store = Arc::new(store);
    let mut options = CacheOptions::new(limit_bytes);
    options.pool = eager(0, Some(limit_bytes));
    let cache = Cache::new(Box::new(store.clone()), options).unwrap();
    (cache, store, scratch)
}

#[test]
fn a_disk_with_a_tier_is_its_bytes() {
    for seed in 0..2_u64 {
        let (cache, store, _scratch) = tiered(LIMIT, None);
        let mut bytes = vec![0; SIZE as usize];
        for step in 0..400 {
            let chance = mix(seed << 32 | step);
            let at = (chance >> 8) % SIZE;
            let at = if chance.is_multiple_of(2) {
                at / 4096 * 4096
            } else {
                at
            };
            let len = (1 + (chance >> 40) % 400_000).min(SIZE - at) as usize;
            let range = at as usize..at as usize + len;
            match chance % 11 {
                0..3 => {
                    let data = text(chance, len);
                    cache.write(at, &data).unwrap();
                    bytes[range].copy_from_slice(&data);
                }
                3..6 => {
                    let data = noise(chance, len);
                    cache.write(at, &data).unwrap();
                    bytes[range].copy_from_slice(&data);
                }
                6 => {
                    cache
                        .write_zeroes(at, len as u64, Zeroing::MayPunch)
                        .unwrap();
                    bytes[range].fill(0);
                }
                7 => {
                    let which = [Which::Idle, Which::Huge, Which::All];
                    cache.write_back(which[(chance >> 30) as usize % 3]);
                }
                8 => cache.mark_idle(),
                9 => {
                    let data = vec![chance as u8; len];
                    cache.write(at, &data).unwrap();
                    bytes[range].copy_from_slice(&data);
                }
                _ => assert!(read(&cache, at, len) == bytes[range], "{at} {len}"),
            }
        }
        assert!(read(&cache, 0, SIZE as usize) == bytes);
        let mut at = 0;
        while at < SIZE {
            let (length, kind) = cache.extent(at, SIZE - at).unwrap();
            let part = &bytes[at as usize..][..length as usize];
            assert!(kind == Extent::Data || part.iter().all(|&byte| byte == 0));
            at += length;
        }
        cache.check_invariants();
        let counts = store.counts();
        assert!(counts.reads > 0 && counts.writes > 0, "{counts:?}");
        assert_eq!((counts.damaged_reads, counts.lost_records), (0, 0));
        assert!(cache.statistics().disk.mem_used_max <= LIMIT + (1 << 20));
        cache.trim(0, SIZE).unwrap();
        assert_eq!(store.counts().records, 0);
        assert_eq!(cache.extent(0, SIZE).unwrap().1, Extent::Hole);
    }
}

#[test]
fn huge_and_idle_pages_go_when_it_is_ordered() {
    let (cache, store, _scratch) = tiered(12 << 20, None);
    cache.write(0, &text(1, 100 * 4096)).unwrap();
    cache.write(1 << 20, &noise(2, 50 * 4096)).unwrap();
    assert_eq!(cache.write_back(Which::Huge), 50);
    assert_eq!((store.counts().records, store.counts().writes), (50, 50));
    cache.mark_idle();
    assert!(read(&cache, 0, 30 * 4096) == text(1, 100 * 4096)[..30 * 4096]);
    assert_eq!(cache.write_back(Which::Idle), 70);
    assert_eq!(store.counts().records, 120);
    let held = cache.statistics().stored_pages;
    assert_eq!(held, 30);
    // They come back, and stay in the tier until they are written.
    assert!(read(&cache, 1 << 20, 50 * 4096) == noise(2, 50 * 4096));
    assert_eq!((store.counts().reads, store.counts().records), (50, 120));
    cache.write(1 << 20, &noise(3, 50 * 4096)).unwrap();
    assert_eq!(store.counts().records, 70);
    assert_eq!(cache.write_back(Which::All), 80);
    assert!(read(&cache, 1 << 20, 50 * 4096) == noise(3, 50 * 4096));
    assert!(read(&cache, 0, 100 * 4096) == text(1, 100 * 4096));
}

#[test]
fn a_spent_budget_is_no_space_and_loses_nothing() {
    let (cache, store, _scratch) = tiered(LIMIT, Some(2 << 20));
    let mut written = 0;
    let refused = loop {
        let page = noise(written, 4096);
        match cache.write(written * 4096, &page) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, IoError::Backing(BackingError::NoSpace));
    assert!(written * 4096 > LIMIT, "{written} pages");
    assert!(store.counts().written_bytes <= 2 << 20);
    for page in 0..written {
        assert!(
            read(&cache, page * 4096, 4096) == noise(page, 4096),
            "{page}"
        );
    }
}

/// The bug: a page of a disk of which every page had a record was refused for want of a row: the new record is taken
/// before the old one goes.
#[test]
fn a_page_is_replaced_where_every_page_has_a_record() {
    const PAGES: u64 = 40;
    let scratch = Scratch::new();
    let file = TierFile::create(&scratch.0, PAGES << 12).unwrap();
    let store = TierStore::new(file, PAGES << 12, CodecKind::best(), None).unwrap();
    for page in 0..PAGES {
        store.write(page << 12, &text(page, 4096)).unwrap();
    }
    assert_eq!(store.counts().records, PAGES);
    for page in [0, PAGES - 1, 0] {
        assert_eq!(store.write(page << 12, &text(page + PAGES, 4096)), Ok(()));
        let mut read = vec![0; 4096];
        store.read(page << 12, &mut read).unwrap();
        assert!(read == text(page + PAGES, 4096), "{page}");
    }
    assert_eq!(store.counts().records, PAGES);
}

/// A device on which reading waits until it is told to fail.
struct Silent {
    asked: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl Device for Silent {
    fn read_at(&mut self, _offset: u64, _into: &mut [u8]) -> Result<usize, DeviceError> {
        let _ = self.asked.send(());
        let _ = self.go_on.recv();
        Err(DeviceError::Unreachable)
    }

    fn write_at(&mut self, _offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        Ok(bytes.len())
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// The bug: while a store on another machine did not answer, neither did `coldpress disk status`, which would have said
/// so: it waited for one read after another, each with its timeouts.
#[test]
fn a_question_does_not_wait_for_a_device() {
    let ((asked, is_asked), (answer, go_on)) = (mpsc::channel(), mpsc::channel());
    let segments = segments_for(SIZE);
    let device = TierDevice::new(Box::new(Silent { asked, go_on }), segments, 0);
    let store = Arc::new(TierStore::new(device, SIZE, CodecKind::best(), Some(1 << 30)).unwrap());
    for page in 0..200 {
        store.write(page << 12, &noise(page, 4096)).unwrap();
    }
    let before = (store.counts(), store.budget_left());
    assert_eq!(before.0.records, 200);
    let reader = store.clone();
    let reading = std::thread::spawn(move || reader.read(0, &mut [0; 4096]));
    is_asked.recv().unwrap();
    let (tell, told) = mpsc::channel();
    let questioner = store.clone();
    std::thread::spawn(move || {
        let _ = tell.send((questioner.counts(), questioner.budget_left()));
    });
    let told = told.recv_timeout(Duration::from_secs(60));
    drop(answer);
    assert_eq!(told, Ok(before));
    assert_eq!(reading.join().unwrap(), Err(BackingError::Io));
    assert_eq!(store.counts().read_errors, 1);
}

/// A device in memory.
struct InMemory(Vec<u8>);

impl Device for InMemory {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        into.copy_from_slice(&self.0[offset as usize..][..into.len()]);
        Ok(into.len())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        self.0[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn discard(&mut self, _offset: u64, _length: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// The bug: where nothing became smaller, a disk whose pages were all written refused to have them written again, as no
/// segment had a quarter to win. It did so for good.
#[test]
fn a_full_disk_that_does_not_compress_can_be_overwritten() {
    const SIZE: u64 = 64 << 20;
    const PAGES: u64 = SIZE >> 12;
    let anywhere = |n: u64| mix(n) % PAGES;
    // Of each segment the same part, and the rest stays.
    let evenly = |n: u64| mix(n) % (PAGES / 5) * 5;
    let orders: [&dyn Fn(u64) -> u64; 2] = [&anywhere, &evenly];
    for order in orders {
        let segments = segments_for(SIZE);
        let device = Box::new(InMemory(vec![0; segments * SEGMENT_BYTES]));
        let device = TierDevice::new(device, segments, 0);
        let store = TierStore::new(device, SIZE, CodecKind::best(), None).unwrap();
        let mut seeds: Vec<u64> = (0..PAGES).collect();
        let write = |page: u64, seed| store.write(page << 12, &noise(seed, 4096));
        for (page, seed) in (0..).zip(&seeds) {
            assert_eq!(write(page, *seed), Ok(()), "page {page}");
        }
        for n in PAGES..3 * PAGES {
            let page = order(n);
            assert_eq!(write(page, n), Ok(()), "after {} more", n - PAGES);
            seeds[page as usize] = n;
        }
        let counts = store.counts();
        assert!(counts.cleaned_segments > 100, "{counts:?}");
        for (page, seed) in (0..).zip(seeds) {
            let mut read = vec![0; 4096];
            store.read(page << 12, &mut read).unwrap();
            assert!(read == noise(seed, 4096), "page {page}");
        }
    }
}

/// A tier that is asked for an extent when a write has ended, or does not end.
struct Late {
    store: TierStore,
    asked: Mutex<Option<mpsc::Sender<()>>>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Backing for Late {
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackingError> {
        self.store.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        self.store.write(offset, data)
    }

    fn zero(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), BackingError> {
        self.store.zero(offset, length, zeroing)
    }

    fn sync(&self) -> Result<(), BackingError> {
        self.store.sync()
    }

    fn extent(&self, offset: u64, length: u64) -> (u64, bool) {
        if let Some(asked) = self.asked.lock().unwrap().take() {
            asked.send(()).unwrap();
            // The write may have to wait until this returns.
            let patience = Duration::from_millis(500);
            let _ = self.go_on.lock().unwrap().recv_timeout(patience);
        }
        self.store.extent(offset, length)
    }

    fn outlives(&self) -> bool {
        self.store.outlives()
    }

    fn overwritten(&self, offset: u64, length: u64) {
        self.store.overwritten(offset, length);
    }

    fn memory_bytes(&self) -> u64 {
        self.store.memory_bytes()
    }
}

/// The bug: a page that was written in the moment in which block status was asked for was told to be zeros. It was not
/// held when the pool was asked, and had no record any more when the tier was.
#[test]
fn a_page_that_is_overwritten_is_never_a_hole() {
    let scratch = Scratch::new();
    let file = TierFile::create(&scratch.0, SIZE).unwrap();
    let store = TierStore::new(file, SIZE, CodecKind::best(), None).unwrap();
    let ((asked, is_asked), (go_on, wait)) = (mpsc::channel(), mpsc::channel());
    let late = Late {
        store,
        asked: Mutex::new(Some(asked)),
        go_on: Mutex::new(wait),
    };
    let cache = Cache::new(Box::new(late), CacheOptions::new(LIMIT)).unwrap();
    cache.write(0, &text(1, 4096)).unwrap();
    assert_eq!(cache.write_back(Which::All), 1);
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| cache.extent(0, 4096).unwrap());
        is_asked.recv().unwrap();
        cache.write(0, &text(2, 4096)).unwrap();
        let _ = go_on.send(());
        assert_eq!(answer.join().unwrap(), (4096, Extent::Data));
    });
    // Answers are as long as before: of as many pages as are alike.
    assert_eq!(cache.extent(0, SIZE).unwrap(), (4096, Extent::Data));
    assert_eq!(
        cache.extent(4096 + 5, 300 << 12).unwrap(),
        (300 << 12, Extent::Hole)
    );
    cache.write(100 << 12, &text(3, 4096)).unwrap();
    let (length, kind) = cache.extent(4096, SIZE - 4096).unwrap();
    assert_eq!((length, kind), (99 << 12, Extent::Hole));
}
