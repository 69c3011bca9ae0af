//! Payloads go below memory and come back, while everything happens to their pages. The machine checks that no lock is held
//! and no stable section open where it may wait for a device, and that each record is given up once.

use crate::machine::*;
use coldpress_codec::Page;
use coldpress_engine::{Content, Entry, FaultOutcome, Recoder, Search, WrittenBack};
use coldpress_storage::StorageKind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

type TestRecoder = Recoder<HookedLz4, Lz4>;

const ANY_AGE: std::ops::Range<u32> = 0..u32::MAX;

fn system_that_writes_back(kind: StorageKind, segments: usize, pages: usize) -> &'static System {
    let s = system_with(kind, segments, pages);
    s.machine.below.takes.store(true, Relaxed);
    s
}

fn text(index: u32) -> Page {
    content(Kind::Text, index.into())
}

fn noise(index: u32) -> Page {
    content(Kind::Noise, index.into())
}

/// All stored pages of the system, one after the other.
fn write_all_back(s: &System, recoder: &mut TestRecoder) -> Vec<WrittenBack> {
    let mut results = Vec::new();
    recoder.begin();
    loop {
        match s.engine.find_stored(&s.machine, recoder, ANY_AGE, 100) {
            Search::Found => results.push(s.engine.write_back(&s.machine, recoder, 0)),
            Search::Unfinished => {}
            Search::PassEnded => return results,
        }
    }
}

fn assert_no_record_is_left(s: &System) {
    s.assert_nothing_is_held();
    assert_eq!(s.machine.below.records(), 0);
    assert_eq!(value(&s.engine.counters().written_back_pages), 0);
}

#[test]
fn payloads_go_below_and_come_back() {
    const PAGES: u32 = 300;
    for kind in StorageKind::ALL {
        let s = system_that_writes_back(kind, 2, PAGES as usize);
        let (mut w, mut recoder) = (worker(1), TestRecoder::new(zeroed()));
        for index in 0..PAGES {
            s.write(&mut w, 1 + index % 2, index, &text(index));
        }
        s.send_away(&mut reclaimer(2));
        let before = s.engine.storage_usage();
        let results = write_all_back(s, &mut recoder);
        let saved: usize = results
            .iter()
            .map(|result| match result {
                WrittenBack::Done(bytes) => *bytes,
                other => panic!("{kind:?}: {other:?}"),
            })
            .sum();
        let after = s.engine.storage_usage();
        assert_eq!(results.len(), before.objects);
        assert_eq!(
            before.payload_bytes - after.payload_bytes,
            saved,
            "{kind:?}"
        );
        assert_eq!(s.machine.below.records(), after.objects);
        assert!(s.engine.is_written_back(1, 0));
        assert_eq!(write_all_back(s, &mut recoder), [], "a second time");
        let c = s.engine.counters();
        assert_eq!(value(&c.written_back_pages), results.len() as u64);
        for index in 0..PAGES / 2 {
            assert!(
                s.read(&mut w, 1 + index % 2, index) == text(index),
                "page {index}"
            );
        }
        assert_eq!(value(&c.read_backs), u64::from(PAGES / 2));
        s.decommit(1, 0, PAGES);
        s.decommit(2, 0, PAGES);
        assert_no_record_is_left(s);
    }
}

#[test]
fn pages_that_do_not_compress_go_whole() {
    let s = system_that_writes_back(StorageKind::Press, 1, 64);
    let mut w = worker(1);
    (0..64).for_each(|index| s.write(&mut w, 1, index, &noise(index)));
    s.send_away(&mut reclaimer(2));
    assert_eq!(s.machine.below.records(), 64);
    assert!((0..64).all(|index| s.engine.is_written_back(1, index)));
    assert_eq!(value(&s.engine.counters().incompressible), 0);
    assert!((0..64).all(|index| s.read(&mut w, 1, index) == noise(index)));
    assert_no_record_is_left(s);
    // Where nothing is taken they are put back.
    s.machine.below.takes.store(false, Relaxed);
    s.send_away(&mut reclaimer(2));
    assert!((0..64).all(|index| matches!(s.engine.entry(1, index), Entry::Page(_))));
}

/// A stub that cannot be stored gives its record up, and the page is put back.
#[test]
fn without_storage_nothing_is_written_back() {
    let s = system_that_writes_back(StorageKind::Press, 1, 4);
    let mut w = worker(1);
    s.write(&mut w, 1, 0, &noise(0));
    s.machine.frames.refuse.store(true, Relaxed);
    s.send_away(&mut reclaimer(2));
    assert_no_record_is_left(s);
    assert!(s.read(&mut w, 1, 0) == noise(0));
}

#[test]
fn what_cannot_be_read_back_costs_its_page() {
    for damage in [
        (|bytes: &mut Vec<u8>| bytes.clear()) as fn(&mut Vec<u8>),
        |bytes| bytes[7] ^= 1,
        |bytes| bytes.truncate(9),
    ] {
        let s = system_that_writes_back(StorageKind::Press, 1, 3);
        let mut w = worker(1);
        s.write(&mut w, 1, 0, &text(0));
        s.write(&mut w, 1, 1, &noise(1));
        s.send_away(&mut reclaimer(2));
        write_all_back(s, &mut TestRecoder::new(zeroed()));
        s.machine.below.damage(damage);
        s.write(&mut w, 1, 2, &text(2));
        s.send_away(&mut reclaimer(2));
        assert_eq!(s.fault(&mut w, 1, 0), FaultOutcome::Poisoned);
        assert_eq!(s.fault(&mut w, 1, 1), FaultOutcome::Poisoned);
        assert!(s.read(&mut w, 1, 2) == text(2), "the others are whole");
        assert_eq!(value(&s.engine.counters().corrupt), 2);
        assert_no_record_is_left(s);
    }
}

/// What may happen to page 0 of segment 1 while it is written back; gives where its content is then, and what it is.
type Event = fn(&'static System) -> ((u32, u32), Page);

const EVENTS: [(&str, Event); 6] = [
    ("it is read", |s| {
        s.read(&mut worker(5), 1, 0);
        ((1, 0), text(9))
    }),
    ("it is written and goes again", |s| {
        s.write(&mut worker(5), 1, 0, &text(10));
        s.send_away(&mut reclaimer(6));
        ((1, 0), text(10))
    }),
    ("it is dropped", |s| {
        s.decommit(1, 0, 1);
        ((1, 0), [0; 4096])
    }),
    ("it is moved", |s| {
        assert!(s.transfer((1, 0), (2, 3)));
        ((2, 3), text(9))
    }),
    ("it is moved and comes back", |s| {
        assert!(s.transfer((1, 0), (2, 3)));
        assert!(s.transfer((2, 3), (1, 0)));
        ((1, 0), text(9))
    }),
    ("another comes in its place", |s| {
        s.write(&mut worker(5), 2, 2, &text(11));
        s.send_away(&mut reclaimer(6));
        assert!(s.transfer((2, 2), (1, 0)));
        ((1, 0), text(11))
    }),
];

#[test]
fn whatever_happens_while_a_page_is_written_back() {
    for kind in StorageKind::ALL {
        for (what, event) in EVENTS {
            let s = system_that_writes_back(kind, 2, 4);
            let mut w = worker(1);
            s.write(&mut w, 1, 0, &text(9));
            s.send_away(&mut reclaimer(2));
            let expected = Arc::new(Mutex::new(None));
            let set = expected.clone();
            s.machine
                .below
                .on_write
                .set(move || *set.lock().unwrap() = Some(event(s)));
            let results = write_all_back(s, &mut TestRecoder::new(zeroed()));
            let (place, page) = expected.lock().unwrap().take().expect("the event came");
            let what = format!("{kind:?}: {what}: {results:?}");
            assert!(s.read(&mut w, place.0, place.1) == page, "{what}");
            s.decommit(1, 0, 4);
            s.decommit(2, 0, 4);
            assert_no_record_is_left(s);
        }
    }
}

/// While a record is read its page may be dropped or moved, and its stub moved by compaction.
#[test]
fn whatever_happens_while_a_page_is_read_back() {
    let events: [(&str, Event); 3] = [
        ("it is dropped", |s| {
            s.decommit(1, 0, 1);
            ((1, 0), [0; 4096])
        }),
        ("it is moved", |s| {
            assert!(s.transfer((1, 0), (2, 3)));
            ((2, 3), text(9))
        }),
        ("storage is compacted", |s| {
            s.engine.compact(&s.machine, 1 << 20);
            ((1, 0), text(9))
        }),
    ];
    for (what, event) in events {
        let s = system_that_writes_back(StorageKind::Press, 2, 4);
        let mut w = worker(1);
        s.write(&mut w, 1, 0, &text(9));
        s.send_away(&mut reclaimer(2));
        write_all_back(s, &mut TestRecoder::new(zeroed()));
        let expected = Arc::new(Mutex::new(None));
        let set = expected.clone();
        s.machine
            .below
            .on_read
            .set(move || *set.lock().unwrap() = Some(event(s)));
        s.fault(&mut w, 1, 0);
        let (place, page) = expected.lock().unwrap().take().expect("the event came");
        assert!(s.read(&mut w, place.0, place.1) == page, "{what}");
        s.decommit(1, 0, 4);
        s.decommit(2, 0, 4);
        assert_no_record_is_left(s);
    }
}

/// Stubs are moved by compaction as other objects are, and told apart from them afterwards.
#[test]
fn compaction_moves_stubs() {
    const PAGES: u32 = 600;
    for kind in [StorageKind::Press, StorageKind::SizeClass] {
        let s = system_that_writes_back(kind, 1, PAGES as usize);
        let (mut w, mut recoder) = (worker(1), TestRecoder::new(zeroed()));
        (0..PAGES).for_each(|index| s.write(&mut w, 1, index, &text(index)));
        s.send_away(&mut reclaimer(2));
        write_all_back(s, &mut recoder);
        for index in (0..PAGES).filter(|index| index % 3 != 0) {
            s.decommit(1, index, index + 1);
        }
        let compact = || s.engine.compact(&s.machine, 1 << 20);
        while !compact().expect("published").pass_ended {}
        let left = s.engine.storage_usage().storage_bytes;
        assert!(left <= 3 * 4096, "{kind:?}: {left} bytes for 200 stubs");
        for index in (0..PAGES).step_by(3) {
            assert!(s.read(&mut w, 1, index) == text(index), "page {index}");
        }
        s.decommit(1, 0, PAGES);
        assert_no_record_is_left(s);
    }
}

/// What a forked child must find is read from below, too.
#[test]
fn a_still_engine_reads_back() {
    let s = system_that_writes_back(StorageKind::Press, 1, 4);
    let mut w = worker(1);
    s.write(&mut w, 1, 0, &text(0));
    s.send_away(&mut reclaimer(2));
    write_all_back(s, &mut TestRecoder::new(zeroed()));
    let Content::Bytes(page) = s.engine.peek(&s.machine, &mut w, 1, 0) else {
        panic!("it is away");
    };
    assert!(*page == text(0));
    assert!(s.engine.is_written_back(1, 0), "nothing was changed");
    s.machine.put(1, 0, &text(0));
    s.engine.acknowledge_present(&s.machine, 1, 0);
    assert_no_record_is_left(s);
}
