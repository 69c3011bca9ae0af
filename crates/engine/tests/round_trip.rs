//! Promise: a page goes out and comes back bit for bit, whatever is in it.

use crate::machine::*;
use coldpress_engine::{Entry, FaultOutcome, Growth, Pace};
use std::sync::atomic::Ordering::Relaxed;

/// The time after which failed pages are back among the young: two looks at their list.
fn wait_for_retry(s: &System) {
    for _ in 0..2 {
        s.machine.advance(AGEING.retry_failed_ns / 2);
        s.engine.age(&s.machine, &AGEING, Pace::Steady);
    }
}

#[test]
fn every_kind_of_page_comes_back_bit_for_bit() {
    let s = system(1, 512);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    const ROUNDS: u64 = if cfg!(miri) { 1 } else { 3 };
    for round in 0..ROUNDS {
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            let index = n as u32 * 64;
            s.write(&mut w, 1, index, &content(kind, round));
        }
        s.send_away(&mut r);
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            let index = n as u32 * 64;
            let entry = s.engine.entry(1, index);
            match kind {
                Kind::Noise => assert!(s.is_resident(1, index), "put back"),
                Kind::Zero => assert_eq!(entry, Entry::Zero),
                Kind::Word(word) if kind.is_marker() => {
                    assert_eq!(entry, Entry::SameFilled(word));
                }
                _ => assert!(s.is_compressed(1, index), "{kind:?}: {entry:?}"),
            }
            assert_eq!(s.machine.is_present(1, index), kind == Kind::Noise);
            if kind != Kind::Noise {
                let expected = if kind.is_marker() {
                    FaultOutcome::SameFilled
                } else {
                    FaultOutcome::Decompressed
                };
                assert_eq!(s.fault(&mut w, 1, index), expected);
            }
            assert_eq!(s.read(&mut w, 1, index), content(kind, round), "{kind:?}");
            assert!(s.is_resident(1, index));
        }
        s.assert_nothing_is_held();
        wait_for_retry(s);
    }
    let c = s.engine.counters();
    assert_eq!(value(&c.evictions), ROUNDS * 8);
    assert_eq!(value(&c.incompressible), ROUNDS);
    assert_eq!(value(&c.decompressions), ROUNDS * 2);
    assert_eq!(value(&c.faults_same_filled), ROUNDS * 5);
    assert_eq!(value(&c.pressure_compressions), ROUNDS * 7);
}

#[test]
fn an_incompressible_page_is_put_back_and_retried_only_after_its_time() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    s.write(&mut w, 1, 9, &content(Kind::Noise, 1));
    s.cool();
    let batch = s.reclaim(&mut r, 64);
    assert_eq!((batch.taken, batch.kept), (1, 0));
    assert_eq!(s.engine.failed_pages(), 1);
    assert!(s.machine.is_present(1, 9));
    assert_eq!(s.machine.filled_slots(), 0);
    let failed_at = 2; // seconds since the clock of the failed list was last set, at most
    for _ in 0..AGEING.retry_failed_ns / SECOND - failed_at {
        s.machine.advance(SECOND);
        s.engine.age(&s.machine, &AGEING, Pace::Pressed);
        assert_eq!(s.reclaim(&mut r, 64).taken, 0);
    }
    assert_eq!(s.engine.failed_pages(), 1);
    s.machine.advance(3 * SECOND);
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    assert_eq!(s.engine.failed_pages(), 0);
    // Meanwhile the program has made something compressible of it.
    s.write(&mut w, 1, 9, &content(Kind::Text, 1));
    s.send_away(&mut r);
    assert!(s.is_compressed(1, 9));
    assert_eq!(s.read(&mut w, 1, 9), content(Kind::Text, 1));
}

#[test]
fn a_page_that_finds_no_frame_or_no_table_is_put_back() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let page = content(Kind::Text, 3);
    s.write(&mut w, 1, 0, &page);
    // No table: storage has none yet, and no chunk is left.
    s.machine.chunks.store(0, Relaxed);
    s.cool();
    assert_eq!(s.reclaim(&mut r, 1).kept, 0);
    assert_eq!(value(&s.engine.counters().no_metadata), 1);
    assert_eq!(value(&s.engine.counters().no_storage), 1);
    assert_eq!(s.machine.place(1, 0).page.as_deref(), Some(&page));
    s.machine.chunks.store(10, Relaxed);
    // No frame.
    s.machine.frames.refuse.store(true, Relaxed);
    wait_for_retry(s);
    s.cool();
    s.send_away(&mut r);
    assert_eq!(value(&s.engine.counters().no_storage), 2);
    assert_eq!(s.machine.place(1, 0).page.as_deref(), Some(&page));
    // Both are there again.
    s.machine.frames.refuse.store(false, Relaxed);
    wait_for_retry(s);
    s.cool();
    s.send_away(&mut r);
    assert!(s.is_compressed(1, 0));
    assert_eq!(s.read(&mut w, 1, 0), page);
    s.assert_nothing_is_held();
    s.assert_no_record_is_lost();
}

#[test]
fn fresh_memory_reads_zeros_and_is_tracked_where_there_is_room() {
    let s = system(1, 256);
    let mut w = worker(1);
    assert_eq!(s.fault(&mut w, 1, 200), FaultOutcome::Zero);
    assert_eq!(s.read(&mut w, 1, 200), [0; 4096]);
    assert!(s.is_resident(1, 200));
    assert_eq!(s.fault(&mut w, 1, 200), FaultOutcome::Present);
    assert_eq!(s.engine.resident_pages(), 1);
    // The engine knows nothing of the page, but the machine has it.
    s.machine.put(1, 3, &content(Kind::Text, 1));
    assert_eq!(s.fault(&mut w, 1, 3), FaultOutcome::Present);
    assert_eq!(s.engine.entry(1, 3), Entry::Empty);
    assert!(s.engine.track_known(&s.machine, 1, 3, Growth::Allowed));
    assert!(
        !s.engine.track_known(&s.machine, 1, 3, Growth::Allowed),
        "only once"
    );
    assert!(s.is_resident(1, 3));
}
