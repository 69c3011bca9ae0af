//! Defects that the engine once had, each with its story and the test that found it.

use crate::machine::*;
use coldpress_engine::{Content, Entry, FaultOutcome, Pace};
use std::sync::atomic::Ordering::Relaxed;

/// D1. Content is lost. Two threads touch a fresh page; each has a worker. The first worker has
/// looked (`fault_empty`: the entry is empty) and loses its processor before it installs. The
/// second installs zeros, the program writes, the page ages and is taken out. Then the first
/// worker goes on: the page is missing, so its zeros are installed over compressed content.
#[test]
fn d1_a_late_worker_installs_zeros_over_content_that_is_away() {
    let s = system(1, 64);
    let page = content(Kind::Text, 1);
    let (tell, told) = std::sync::mpsc::channel();
    s.machine.on_install_zero.set(move || {
        let others = std::thread::spawn(move || {
            s.write(&mut worker(2), 1, 0, &page);
            s.send_away(&mut reclaimer(3));
        });
        // Once the defect is mended they may have to wait for this worker.
        let since = std::time::Instant::now();
        while !others.is_finished() && since.elapsed().as_millis() < 200 {
            std::thread::yield_now();
        }
        tell.send(others).unwrap();
    });
    s.fault(&mut worker(1), 1, 0);
    told.recv().unwrap().join().unwrap();
    assert!(s.read(&mut worker(4), 1, 0) == page, "the content is lost");
}

/// A toucher that waits for a page that the compressor is putting back.
fn wait_while_it_is_put_back(meanwhile: fn(&'static System)) -> (&'static System, u32) {
    let s = system(1, 64);
    s.write(&mut worker(1), 1, 0, &content(Kind::Noise, 1));
    s.cool();
    s.machine.changing.store(1, Relaxed);
    s.machine.on_let_changes.set(move || {
        assert!(matches!(s.engine.entry(1, 0), Entry::Request(_)));
        assert_eq!(s.fault(&mut worker(1), 1, 0), FaultOutcome::Present);
        meanwhile(s);
    });
    let before = s.machine.wakes(1, 0);
    s.reclaim(&mut reclaimer(2), 1);
    (s, s.machine.wakes(1, 0) - before)
}

/// D2. A toucher is never woken: its fault met the request of the compressor, which was putting
/// an incompressible page back; then the page was dropped, and `put_back` ignores `Cancelled`.
#[test]
fn d2_a_toucher_is_forgotten_when_a_page_is_dropped_while_it_is_put_back() {
    let (_, woken) = wait_while_it_is_put_back(|s| s.decommit(1, 0, 1));
    assert!(woken > 0, "it waits for ever");
}

/// The same when the page was moved.
#[test]
fn d2b_a_toucher_is_forgotten_when_a_page_is_moved_while_it_is_put_back() {
    let (_, woken) = wait_while_it_is_put_back(|s| assert!(s.transfer((1, 0), (1, 9))));
    assert!(woken > 0, "it waits for ever");
}

/// The same when the memory is gone.
#[test]
fn d2c_a_toucher_is_forgotten_when_the_memory_goes_while_a_page_is_put_back() {
    let (_, woken) = wait_while_it_is_put_back(|s| s.machine.place(1, 0).gone = true);
    assert!(woken > 0, "it waits for ever");
}

/// D3. A toucher is never woken: while a worker decompressed for the old place the page moved, a
/// second thread touched it at the new place (and met the request), then it was dropped there.
/// The worker looks again at the old place only.
#[test]
fn d3_a_toucher_at_the_new_place_is_forgotten_when_a_moved_page_is_dropped() {
    let s = system(1, 64);
    s.write(&mut worker(1), 1, 0, &content(Kind::Text, 1));
    s.send_away(&mut reclaimer(2));
    s.codec.on_decompress.set(|| {
        assert!(s.transfer((1, 0), (1, 9)));
        assert_eq!(s.fault(&mut worker(3), 1, 9), FaultOutcome::Present);
        s.decommit(1, 9, 10);
    });
    let before = s.machine.wakes(1, 9);
    s.fault(&mut worker(1), 1, 0);
    assert!(s.machine.wakes(1, 9) > before, "it waits for ever");
}

/// The same when the memory of the new place is gone.
#[test]
fn d3b_a_toucher_at_the_new_place_is_forgotten_when_that_is_gone() {
    let s = system(1, 64);
    s.write(&mut worker(1), 1, 0, &content(Kind::Text, 1));
    s.send_away(&mut reclaimer(2));
    s.codec.on_decompress.set(|| {
        assert!(s.transfer((1, 0), (1, 9)));
        assert_eq!(s.fault(&mut worker(3), 1, 9), FaultOutcome::Present);
        s.machine.place(1, 9).gone = true;
    });
    let before = s.machine.wakes(1, 9);
    assert_eq!(s.fault(&mut worker(1), 1, 0), FaultOutcome::Gone);
    assert!(s.machine.wakes(1, 9) > before, "it waits for ever");
}

/// The same at a place that the page only passed through.
#[test]
fn d3c_a_toucher_at_a_place_between_is_forgotten() {
    let s = system(1, 64);
    s.write(&mut worker(1), 1, 0, &content(Kind::Text, 1));
    s.send_away(&mut reclaimer(2));
    s.codec.on_decompress.set(|| {
        assert!(s.transfer((1, 0), (1, 9)));
        assert_eq!(s.fault(&mut worker(3), 1, 9), FaultOutcome::Present);
        assert!(s.transfer((1, 9), (1, 20)));
    });
    let before = s.machine.wakes(1, 9);
    s.fault(&mut worker(1), 1, 0);
    assert!(s.machine.wakes(1, 9) > before, "it waits for ever");
}

/// D4. `retry_failed_ns` bounds the time between two looks at the failed list, not the time that
/// a page spends on it: one that fails right before a look is back among the young at once.
#[test]
fn d4_a_failed_page_waits_for_its_time() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    s.machine.advance(AGEING.retry_failed_ns - 3 * SECOND);
    s.write(&mut w, 1, 0, &content(Kind::Noise, 1));
    s.cool();
    s.reclaim(&mut r, 1);
    assert_eq!(s.engine.failed_pages(), 1);
    s.machine.advance(SECOND);
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    assert_eq!(s.engine.failed_pages(), 1, "it has failed a second ago");
}

/// D5. `peek` "changes nothing", but counts in the residency histogram, as if the page had been
/// decompressed for good; it is counted again when it is.
#[test]
fn d5_peeking_counts_as_decompressing() {
    let s = system(1, 64);
    s.write(&mut worker(1), 1, 0, &content(Kind::Text, 1));
    s.send_away(&mut reclaimer(2));
    let before = format!("{:?}", s.engine.counters());
    let mut w = worker(1);
    assert!(matches!(
        s.engine.peek(&s.machine, &mut w, 1, 0),
        Content::Bytes(_)
    ));
    assert_eq!(format!("{:?}", s.engine.counters()), before);
}

/// D6. A page is poisoned although nothing is wrong with it: a payload of eight bytes was always
/// taken for the word of a same-filled page that no entry can hold; a codec may as well need no
/// more than eight bytes (LZ4 never did).
#[test]
fn d6_eight_bytes_of_the_codec_are_taken_for_a_same_filled_word() {
    let s = system(1, 64);
    let mut page = [0; 4096];
    page[..8].copy_from_slice(&0x9E37_79B9_7F4A_7C15_u64.to_ne_bytes());
    let odd_word = content(Kind::Word(0x9E37_79B9_7F4A_7C15), 1);
    s.write(&mut worker(1), 1, 0, &page);
    s.write(&mut worker(1), 1, 1, &odd_word);
    s.send_away(&mut reclaimer(2));
    assert!(s.is_compressed(1, 0) && s.is_compressed(1, 1));
    assert_eq!(s.fault(&mut worker(1), 1, 0), FaultOutcome::Decompressed);
    assert!(s.read(&mut worker(1), 1, 0) == page);
    assert!(s.read(&mut worker(1), 1, 1) == odd_word);
}
