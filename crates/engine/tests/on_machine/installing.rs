//! Promise: what the machine answers to an installation loses no content and leaves nobody
//! waiting, and bytes that are not what was stored are never installed.

use crate::machine::*;
use coldpress_engine::{Content, Entry, FaultOutcome};
use coldpress_storage::{FrameSource, StorageKind};
use std::sync::atomic::Ordering::Relaxed;

/// A system in which page 7 holds a page of this kind and is away.
fn with_away(kind: Kind) -> &'static System {
    let s = system(1, 64);
    s.write(&mut worker(9), 1, 7, &content(kind, 1));
    s.send_away(&mut reclaimer(8));
    s
}

#[test]
fn content_is_kept_while_the_address_space_changes_and_installed_later() {
    for kind in Kind::ALL {
        let s = with_away(kind);
        s.machine.changing.store(5, Relaxed);
        let let_in = value(&s.machine.let_in);
        let mut w = worker(1);
        assert_eq!(s.read(&mut w, 1, 7), content(kind, 1));
        if kind != Kind::Noise {
            assert_eq!(value(&s.engine.counters().copy_again), 5);
            assert_eq!(value(&s.machine.let_in), let_in + 5);
        }
        s.assert_nothing_is_held();
    }
}

#[test]
fn fresh_memory_is_installed_once_the_change_is_over() {
    let s = system(1, 64);
    s.machine.changing.store(3, Relaxed);
    assert_eq!(s.fault(&mut worker(1), 1, 0), FaultOutcome::Zero);
    assert_eq!(value(&s.engine.counters().copy_again), 3);
}

#[test]
fn an_incompressible_page_is_put_back_once_the_change_is_over() {
    let s = system(1, 64);
    s.write(&mut worker(9), 1, 7, &content(Kind::Noise, 1));
    s.cool();
    s.machine.changing.store(4, Relaxed);
    assert_eq!(s.reclaim(&mut reclaimer(2), 1).taken, 1);
    let page = s.machine.place(1, 7).page.as_deref().copied();
    assert_eq!(page, Some(content(Kind::Noise, 1)));
    assert_eq!(s.engine.failed_pages(), 1);
    s.assert_nothing_is_held();
}

#[test]
fn touchers_of_memory_that_is_gone_are_woken_and_nothing_is_held_for_it() {
    for kind in Kind::ALL {
        let s = with_away(kind);
        if kind == Kind::Noise {
            continue;
        }
        s.machine.place(1, 7).gone = true;
        let before = s.machine.wakes(1, 7);
        assert_eq!(s.fault(&mut worker(1), 1, 7), FaultOutcome::Gone);
        assert!(s.machine.wakes(1, 7) > before, "the toucher finds out");
        assert_eq!(s.engine.entry(1, 7), Entry::Empty);
        s.assert_nothing_is_held();
        s.assert_no_record_is_lost();
    }
    let s = system(1, 64);
    s.machine.place(1, 0).gone = true;
    assert_eq!(s.fault(&mut worker(1), 1, 0), FaultOutcome::Gone);
    assert_eq!(s.machine.wakes(1, 0), 1);
}

#[test]
fn memory_that_goes_while_a_page_is_put_back() {
    let s = system(1, 64);
    s.write(&mut worker(9), 1, 7, &content(Kind::Noise, 1));
    s.cool();
    s.codec
        .on_compress
        .set(|| s.machine.place(1, 7).gone = true);
    assert_eq!(s.reclaim(&mut reclaimer(2), 1).kept, 0);
    assert_eq!(s.engine.entry(1, 7), Entry::Empty);
    assert_eq!(s.engine.failed_pages(), 0);
    s.assert_nothing_is_held();
    s.assert_no_record_is_lost();
}

#[test]
fn a_page_that_is_there_already_is_not_overwritten() {
    for kind in Kind::ALL {
        let s = with_away(kind);
        if kind == Kind::Noise {
            continue;
        }
        s.machine.put(1, 7, &content(Kind::Text, 99));
        let before = s.machine.wakes(1, 7);
        s.fault(&mut worker(1), 1, 7);
        assert!(s.machine.wakes(1, 7) > before);
        assert!(s.is_resident(1, 7));
        assert_eq!(s.read(&mut worker(3), 1, 7), content(Kind::Text, 99));
        s.assert_nothing_is_held();
    }
}

/// Every single bit of a stored object, its checksum included.
#[test]
fn no_flipped_bit_gets_through() {
    for kind in [Kind::Text, Kind::ALL[7]] {
        let s = with_away(kind);
        let mut w = worker(1);
        let mut len = 0;
        poke_in_storage(s, 1, 7, |bytes| len = bytes.len());
        for bit in 0..len * 8 {
            if (32..64).contains(&bit) {
                continue; // The time at which it was stored.
            }
            let flip = |bytes: &mut [u8]| bytes[bit / 8] ^= 1 << (bit % 8);
            poke_in_storage(s, 1, 7, flip);
            match s.engine.peek(&s.machine, &mut w, 1, 7) {
                Content::Doubtful => {}
                Content::Bytes(page) => {
                    assert_eq!(*page, content(kind, 1), "bit {bit}: harmless");
                }
                other => panic!("bit {bit}: {other:?}"),
            }
            poke_in_storage(s, 1, 7, flip);
        }
        assert_eq!(s.read(&mut w, 1, 7), content(kind, 1));
    }
}

#[test]
fn damaged_content_poisons_its_page_and_is_never_installed() {
    for (kind, byte) in [
        (Kind::Text, 0),
        (Kind::Text, 3),
        (Kind::Text, 12),
        (Kind::Text, 40),
        (Kind::ALL[7], 1),
        (Kind::ALL[7], 15),
    ] {
        let s = with_away(kind);
        poke_in_storage(s, 1, 7, |bytes| bytes[byte] ^= 0x10);
        s.machine.changing.store(0, Relaxed);
        let (wakes, installs) = (s.machine.wakes(1, 7), s.machine.installs(1, 7));
        let mut w = worker(1);
        assert_eq!(s.fault(&mut w, 1, 7), FaultOutcome::Poisoned);
        assert!(s.machine.place(1, 7).poisoned);
        assert!(s.machine.wakes(1, 7) > wakes);
        for _ in 0..3 {
            assert_eq!(s.fault(&mut w, 1, 7), FaultOutcome::Present);
        }
        assert!(!s.machine.is_present(1, 7), "no bytes, not even zeros");
        assert_eq!(s.machine.installs(1, 7), installs);
        assert_eq!(value(&s.engine.counters().corrupt), 1);
        assert_eq!(value(&s.engine.counters().decompressions), 0);
        s.assert_nothing_is_held();
        // Dropped and used anew, it is memory like any other.
        s.decommit(1, 7, 8);
        assert_eq!(s.read(&mut w, 1, 7), [0; 4096]);
        s.assert_no_record_is_lost();
    }
}

#[test]
fn damage_to_a_page_that_is_dropped_meanwhile_poisons_nothing() {
    let s = with_away(Kind::Text);
    poke_in_storage(s, 1, 7, |bytes| bytes[1] ^= 1);
    s.codec.on_decompress.set(|| s.decommit(1, 7, 8));
    assert_eq!(s.fault(&mut worker(1), 1, 7), FaultOutcome::Zero);
    assert!(!s.machine.place(1, 7).poisoned);
    s.assert_nothing_is_held();
}

/// Memory that was not registered when its page was tracked may be dropped without a word.
#[test]
fn a_tracked_page_that_was_dropped_without_a_word_reads_zeros() {
    let s = system(1, 64);
    let mut w = worker(1);
    s.write(&mut w, 1, 7, &content(Kind::Text, 1));
    s.machine.zap(1, 7);
    assert_eq!(s.read(&mut w, 1, 7), [0; 4096]);
    s.write(&mut w, 1, 7, &content(Kind::Text, 2));
    s.send_away(&mut reclaimer(2));
    assert_eq!(s.read(&mut w, 1, 7), content(Kind::Text, 2));
    s.decommit(1, 0, 64);
    s.assert_nothing_is_held();
    s.assert_no_record_is_lost();
}

/// Two threads touch a page that is in place; one worker is late, and the page goes out.
#[test]
fn a_late_worker_puts_no_zeros_over_a_tracked_page() {
    let s = system(1, 64);
    let page = content(Kind::Text, 1);
    let mut w = worker(1);
    s.write(&mut w, 1, 7, &page);
    let (tell, told) = std::sync::mpsc::channel();
    s.machine.on_install_zero.set(move || {
        let reclaims = std::thread::spawn(move || s.send_away(&mut reclaimer(3)));
        // It has to wait for this worker; give it time to try.
        std::thread::sleep(std::time::Duration::from_millis(50));
        tell.send(reclaims).unwrap();
    });
    s.fault(&mut w, 1, 7);
    s.machine.on_install_zero.run();
    told.recv().unwrap().join().unwrap();
    assert!(s.read(&mut w, 1, 7) == page);
}

/// A toucher of a page that is in a run on its way to staging.
#[test]
fn a_toucher_of_a_page_on_its_way_out_gets_its_content() {
    for kind in Kind::ALL {
        let s = system(1, 64);
        s.write(&mut worker(1), 1, 7, &content(kind, 1));
        s.cool();
        let (tell, told) = std::sync::mpsc::channel();
        s.machine.on_take.set(move || {
            // As if the page were away already, while its entry still tells of a page.
            let page = s.machine.place(1, 7).page.take().unwrap();
            let toucher = std::thread::spawn(move || s.read(&mut worker(3), 1, 7));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!s.machine.is_present(1, 7), "no zeros in between");
            s.machine.place(1, 7).page = Some(page);
            tell.send(toucher).unwrap();
        });
        s.reclaim(&mut reclaimer(2), 64);
        let toucher = told.recv().unwrap();
        assert!(toucher.join().unwrap() == content(kind, 1), "{kind:?}");
    }
}

/// The machine's answer was "gone" for every error it did not know: the toucher was woken, met
/// the page missing again, and found zeros, since what was remembered had been freed.
#[test]
fn a_refusal_nobody_can_name_poisons_the_page() {
    for kind in Kind::ALL {
        let s = with_away(kind);
        if s.machine.is_present(1, 7) {
            continue;
        }
        s.machine.place(1, 7).refuses = true;
        let mut w = worker(1);
        assert_eq!(s.fault(&mut w, 1, 7), FaultOutcome::Poisoned, "{kind:?}");
        assert!(s.machine.place(1, 7).poisoned && s.machine.wakes(1, 7) > 0);
        s.machine.place(1, 7).refuses = false;
        s.fault(&mut w, 1, 7);
        assert!(!s.machine.is_present(1, 7), "never bytes: {kind:?}");
        assert_eq!(value(&s.engine.counters().refused_installs), 1);
        assert_eq!(value(&s.engine.counters().corrupt), 0);
        s.assert_nothing_is_held();
    }
}

#[test]
fn a_refusal_poisons_fresh_memory_pages_dropped_unannounced_and_pages_put_back() {
    let s = system(1, 64);
    let mut w = worker(1);
    s.machine.place(1, 0).refuses = true;
    assert_eq!(s.fault(&mut w, 1, 0), FaultOutcome::Poisoned);
    assert!(s.machine.place(1, 0).poisoned);

    s.write(&mut w, 1, 1, &content(Kind::Text, 1));
    s.machine.zap(1, 1);
    s.machine.place(1, 1).refuses = true;
    assert_eq!(s.fault(&mut w, 1, 1), FaultOutcome::Poisoned);
    assert!(s.machine.place(1, 1).poisoned);

    s.write(&mut w, 1, 2, &content(Kind::Noise, 1));
    s.cool();
    s.machine.place(1, 2).refuses = true;
    s.reclaim(&mut reclaimer(2), 64);
    assert!(s.machine.place(1, 2).poisoned);
    assert_eq!(value(&s.engine.counters().refused_installs), 3);
}

/// Objects that lie in two frames come back whole; one whose link is damaged is poisoned.
#[test]
fn split_objects_come_back_and_a_damaged_link_poisons() {
    const PAGES: u32 = 512;
    for storage in StorageKind::ALL {
        let s = system_with(storage, 1, PAGES as usize);
        let (mut w, mut r) = (worker(1), reclaimer(2));
        let page = |n: u32| {
            // Noise of a length of its own, so that objects of all sizes have to be packed.
            let mut page = content(Kind::Text, u64::from(n));
            let noise = content(Kind::Noise, u64::from(n));
            let len = (n as usize * 37) % 2200;
            page[..len].copy_from_slice(&noise[..len]);
            page
        };
        (0..PAGES).for_each(|n| s.write(&mut w, 1, n, &page(n)));
        s.send_away(&mut r);
        let split = |n: &u32| match s.engine.entry(1, *n) {
            Entry::Compressed(reference) => reference.is_split(),
            _ => false,
        };
        let victim = (0..PAGES).find(split);
        assert_eq!(
            victim.is_some(),
            matches!(storage, StorageKind::SizeClass | StorageKind::Press),
            "{storage}"
        );
        if let Some(victim) = victim {
            let Entry::Compressed(reference) = s.engine.entry(1, victim) else {
                unreachable!()
            };
            let frame = s.machine.frames.address(reference.frame());
            // SAFETY: the link of an object that nobody reads now.
            unsafe { frame.add(reference.offset()).write_bytes(0, 8) };
            assert_eq!(s.fault(&mut w, 1, victim), FaultOutcome::Poisoned);
            assert_eq!(value(&s.engine.counters().corrupt), 1);
            assert!(!s.machine.is_present(1, victim), "never bytes: {storage}");
        }
        for n in (0..PAGES).filter(|&n| Some(n) != victim) {
            assert!(s.read(&mut w, 1, n) == page(n), "{storage}, page {n}");
        }
        // Its place is not given back: it could be another page's by now.
        let left = s.engine.storage_usage().objects;
        assert_eq!(left, usize::from(victim.is_some()), "{storage}");
    }
}
