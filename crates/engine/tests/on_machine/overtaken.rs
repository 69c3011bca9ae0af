//! Promise: a page that is touched, dropped or moved while the engine is at work on it keeps the
//! content it should have, and nothing is held for nobody.

use crate::machine::*;
use coldpress_engine::{Entry, FaultOutcome, Growth};
use std::sync::atomic::Ordering::Relaxed;

const AT: (u32, u32) = (1, 5);
const TO: (u32, u32) = (2, 70);

/// A system in which page [`AT`] is of this kind, and cold.
fn with_cold(kind: Kind) -> &'static System {
    let s = system(2, 128);
    s.write(&mut worker(9), AT.0, AT.1, &content(kind, 1));
    s.cool();
    s
}

fn check_settled(s: &System) {
    s.decommit(1, 0, 128);
    s.decommit(2, 0, 128);
    s.assert_nothing_is_held();
    assert_eq!(s.engine.resident_pages(), 0);
    s.assert_no_record_is_lost();
}

#[test]
fn a_toucher_gets_a_copy_at_once_while_the_compressor_is_in_its_codec() {
    for kind in Kind::ALL {
        let s = with_cold(kind);
        s.codec.on_compress.set(move || {
            let mut w = worker(1);
            assert!(matches!(s.engine.entry(AT.0, AT.1), Entry::Temporary(_)));
            assert!(!s.machine.is_present(AT.0, AT.1));
            assert_eq!(s.fault(&mut w, AT.0, AT.1), FaultOutcome::Copied);
            assert_eq!(s.read(&mut w, AT.0, AT.1), content(kind, 1));
            s.write(&mut w, AT.0, AT.1, &content(kind, 2));
        });
        let batch = s.reclaim(&mut reclaimer(2), 1);
        assert_eq!((batch.taken, batch.kept), (1, 0), "{kind:?}");
        let page = s.machine.place(AT.0, AT.1).page.as_deref().copied();
        assert_eq!(page, Some(content(kind, 2)), "{kind:?}");
        assert!(s.is_resident(AT.0, AT.1));
        let c = s.engine.counters();
        assert_eq!(value(&c.faults_copied), 1);
        assert_eq!(value(&c.raced), u64::from(kind != Kind::Noise));
        assert_eq!(value(&c.failed_compressions), 1);
        assert_eq!(value(&c.pressure_compressions), 0);
        s.assert_nothing_is_held();
        check_settled(s);
    }
}

#[test]
fn a_page_dropped_while_it_is_compressed_reads_zeros() {
    for kind in Kind::ALL {
        for touched in [false, true] {
            let s = with_cold(kind);
            s.codec.on_compress.set(move || {
                s.decommit(AT.0, AT.1, AT.1 + 1);
                if touched {
                    assert_eq!(s.read(&mut worker(1), AT.0, AT.1), [0; 4096]);
                }
            });
            assert_eq!(s.reclaim(&mut reclaimer(2), 1).kept, 0);
            s.assert_nothing_is_held();
            assert_eq!(s.read(&mut worker(1), AT.0, AT.1), [0; 4096], "{kind:?}");
            check_settled(s);
        }
    }
}

#[test]
fn a_page_moved_while_it_is_compressed_is_compressed_where_it_is_now() {
    for kind in Kind::ALL {
        for touched in [false, true] {
            let s = with_cold(kind);
            s.codec.on_compress.set(move || {
                assert!(s.transfer(AT, TO));
                assert_eq!(s.engine.entry(AT.0, AT.1), Entry::Empty);
                assert!(matches!(s.engine.entry(TO.0, TO.1), Entry::Temporary(_)));
                if touched {
                    let outcome = s.fault(&mut worker(1), TO.0, TO.1);
                    assert_eq!(outcome, FaultOutcome::Copied);
                }
            });
            let kept = s.reclaim(&mut reclaimer(2), 1).kept == 1;
            assert_eq!(kept, !touched && kind != Kind::Noise);
            assert_eq!(s.machine.is_present(TO.0, TO.1), !kept);
            let mut w = worker(1);
            assert_eq!(s.read(&mut w, TO.0, TO.1), content(kind, 1), "{kind:?}");
            assert_eq!(s.read(&mut w, AT.0, AT.1), [0; 4096]);
            check_settled(s);
        }
    }
}

#[test]
fn a_page_dropped_while_it_is_decompressed_reads_zeros() {
    let s = with_cold(Kind::Text);
    s.send_away(&mut reclaimer(2));
    s.codec.on_decompress.set(|| {
        assert!(matches!(s.engine.entry(AT.0, AT.1), Entry::Request(1)));
        s.decommit(AT.0, AT.1, AT.1 + 1);
    });
    let mut w = worker(1);
    assert_eq!(s.fault(&mut w, AT.0, AT.1), FaultOutcome::Zero);
    assert_eq!(s.read(&mut w, AT.0, AT.1), [0; 4096]);
    assert_eq!(value(&s.engine.counters().freed_compressed), 1);
    assert_eq!(value(&s.engine.counters().decompressions), 0);
    s.assert_nothing_is_held();
    check_settled(s);
}

#[test]
fn what_is_written_after_a_drop_outlives_the_late_worker() {
    let s = with_cold(Kind::Text);
    s.send_away(&mut reclaimer(2));
    s.codec.on_decompress.set(|| {
        s.decommit(AT.0, AT.1, AT.1 + 1);
        s.write(&mut worker(3), AT.0, AT.1, &content(Kind::Text, 2));
    });
    let mut w = worker(1);
    assert_eq!(s.fault(&mut w, AT.0, AT.1), FaultOutcome::Present);
    assert_eq!(s.read(&mut w, AT.0, AT.1), content(Kind::Text, 2));
    check_settled(s);
}

#[test]
fn a_page_moved_while_it_is_decompressed_comes_in_where_it_is_now() {
    let s = with_cold(Kind::Text);
    s.send_away(&mut reclaimer(2));
    s.codec.on_decompress.set(|| {
        assert!(s.transfer(AT, TO));
        // A second toucher, at the new place: the worker that is at it will wake it.
        let outcome = s.fault(&mut worker(3), TO.0, TO.1);
        assert_eq!(outcome, FaultOutcome::Present);
    });
    let woken = s.machine.wakes(AT.0, AT.1);
    let mut w = worker(1);
    assert_eq!(s.fault(&mut w, AT.0, AT.1), FaultOutcome::Decompressed);
    assert!(!s.machine.is_present(AT.0, AT.1));
    let page = s.machine.place(TO.0, TO.1).page.as_deref().copied();
    assert_eq!(page, Some(content(Kind::Text, 1)));
    assert!(s.is_resident(TO.0, TO.1));
    assert!(s.machine.wakes(AT.0, AT.1) > woken, "looks again");
    assert_eq!(s.read(&mut w, AT.0, AT.1), [0; 4096]);
    check_settled(s);
}

#[test]
fn a_page_moved_and_dropped_while_it_is_decompressed_is_nowhere() {
    let s = with_cold(Kind::Text);
    s.send_away(&mut reclaimer(2));
    s.codec.on_decompress.set(|| {
        assert!(s.transfer(AT, TO));
        assert!(s.transfer(TO, (2, 0)));
        s.decommit(2, 0, 1);
    });
    let mut w = worker(1);
    assert_eq!(s.fault(&mut w, AT.0, AT.1), FaultOutcome::Zero);
    for (segment, index) in [AT, TO, (2, 0)] {
        assert_eq!(s.read(&mut w, segment, index), [0; 4096]);
    }
    check_settled(s);
}

#[test]
fn compressed_pages_can_be_dropped_and_moved() {
    for kind in Kind::ALL {
        let s = with_cold(kind);
        s.send_away(&mut reclaimer(2));
        let before = s.engine.entry(AT.0, AT.1);
        assert!(s.transfer(AT, TO));
        assert_eq!(s.engine.entry(TO.0, TO.1), before);
        assert_eq!(s.engine.entry(AT.0, AT.1), Entry::Empty);
        let mut w = worker(1);
        assert_eq!(s.read(&mut w, TO.0, TO.1), content(kind, 1), "{kind:?}");
        s.machine.advance(AGEING.retry_failed_ns);
        s.cool();
        s.send_away(&mut reclaimer(2));
        s.decommit(TO.0, TO.1, TO.1 + 1);
        s.assert_nothing_is_held();
        assert_eq!(s.read(&mut w, TO.0, TO.1), [0; 4096]);
        assert_eq!(s.read(&mut w, AT.0, AT.1), [0; 4096]);
        check_settled(s);
    }
}

#[test]
fn moved_pages_keep_their_record_and_their_age() {
    let s = with_cold(Kind::Text);
    let entry = s.engine.entry(AT.0, AT.1);
    assert!(s.transfer(AT, TO));
    assert_eq!(s.engine.entry(TO.0, TO.1), entry);
    assert_eq!(s.reclaim(&mut reclaimer(2), 1).kept, 1, "still inactive");
    assert!(s.is_compressed(TO.0, TO.1));
    check_settled(s);
}

#[test]
fn a_move_without_memory_for_the_destination_leaves_the_page_where_it_is() {
    let s = system(1, 64);
    let mut w = worker(1);
    s.write(&mut w, 1, 5, &content(Kind::Text, 1));
    let segment = s.engine.create_segment(&s.machine).unwrap();
    s.machine.chunks.store(0, Relaxed);
    // Hand out every leaf there is.
    let hoarder = |from: u32| {
        (0..coldpress_engine::SEGMENT_PAGES / 64).all(|leaf| {
            s.engine
                .track_known(&s.machine, from, leaf * 64, Growth::Allowed)
        })
    };
    while let Some(more) = s.engine.create_segment(&s.machine) {
        if !hoarder(more) {
            break;
        }
    }
    assert!(!s.engine.transfer(&s.machine, (1, 5), (segment, 0)));
    assert!(s.is_resident(1, 5));
    assert_eq!(s.read(&mut w, 1, 5), content(Kind::Text, 1));
}

/// The compressor itself is the worker while it puts a page back.
#[test]
fn a_page_dropped_or_moved_while_it_is_put_back() {
    for drops in [true, false] {
        let s = with_cold(Kind::Noise);
        s.machine.changing.store(1, Relaxed);
        s.machine.on_let_changes.set(move || {
            assert!(matches!(s.engine.entry(AT.0, AT.1), Entry::Request(2)));
            match drops {
                true => s.decommit(AT.0, AT.1, AT.1 + 1),
                false => assert!(s.transfer(AT, TO)),
            }
        });
        assert_eq!(s.reclaim(&mut reclaimer(2), 1).kept, 0);
        let mut w = worker(1);
        assert_eq!(s.read(&mut w, AT.0, AT.1), [0; 4096]);
        let moved = match drops {
            true => [0; 4096],
            false => content(Kind::Noise, 1),
        };
        assert_eq!(s.machine.is_present(TO.0, TO.1), !drops);
        assert_eq!(s.read(&mut w, TO.0, TO.1), moved);
        check_settled(s);
    }
}

#[test]
fn dropping_a_range_crosses_leaves_and_spares_what_lies_outside() {
    let s = system(1, 512);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let kind = |index: u32| Kind::ALL[index as usize % 8];
    for index in 0..512 {
        s.write(&mut w, 1, index, &content(kind(index), index.into()));
    }
    s.send_away(&mut r);
    for index in (0..512).step_by(7) {
        s.read(&mut w, 1, index);
    }
    s.decommit(1, 63, 449);
    for index in 0..512 {
        let expected = match (63..449).contains(&index) {
            true => [0; 4096],
            false => content(kind(index), index.into()),
        };
        assert_eq!(s.read(&mut w, 1, index), expected, "page {index}");
    }
    check_settled_one(s);
}

fn check_settled_one(s: &System) {
    s.decommit(1, 0, 512);
    s.assert_nothing_is_held();
    assert_eq!(s.engine.resident_pages(), 0);
    s.assert_no_record_is_lost();
}
