//! Ending, zeroing and shrinking while content is in flight.

use crate::kernel::*;
use coldpress_engine::Entry;
use coldpress_engine::vmo::{VmoError, VmoId};

type Act = fn(&System, VmoId) -> bool;

/// What happens to the VMO in the middle, and whether it is still there.
const ACTS: [(&str, Act); 4] = [
    ("destroy", |s, vmo| {
        s.destroy(vmo);
        false
    }),
    ("zero", |s, vmo| {
        s.zero(vmo, 0..3).unwrap();
        true
    }),
    ("decommit", |s, vmo| {
        s.decommit(vmo, 1..2).unwrap();
        true
    }),
    ("resize", |s, vmo| {
        s.resize(vmo, 1).unwrap();
        s.resize(vmo, 3).unwrap();
        true
    }),
];

#[test]
fn while_a_page_is_compressed() {
    for (what, act) in ACTS {
        let s = system(100);
        let (mut w, mut r) = (worker(0), reclaimer(1));
        let vmo = s.create(3);
        s.write_page(&mut w, vmo, 1, &text(1));
        s.codec.on_compress.set(move || {
            assert!(matches!(s.entry(vmo, 1), Entry::Temporary(_)));
            if act(s, vmo) {
                s.write_page(&mut worker(2), vmo, 1, &text(2));
            } else {
                s.write_page(&mut worker(2), s.create(8), 1, &text(3));
            }
        });
        assert_placed_eq!(s.send_away(&mut r), 1, "{what}: what was written meanwhile");
        if s.vmos.pages(vmo).is_ok() {
            assert_eq!(s.read_page(&mut w, vmo, 1), text(2), "{what}");
            s.destroy(vmo);
            s.assert_nothing_is_held();
        }
    }
}

#[test]
fn while_a_page_is_decompressed() {
    for (what, act) in ACTS {
        let s = system(100);
        let (mut w, mut r) = (worker(0), reclaimer(1));
        let vmo = s.create(3);
        s.write_page(&mut w, vmo, 1, &text(1));
        assert_placed_eq!(s.send_away(&mut r), 1);
        s.codec.on_decompress.set(move || {
            assert_eq!(s.entry(vmo, 1), Entry::Request(0));
            act(s, vmo);
        });
        let mut byte = [7];
        let read = s.vmos.read(&s.machine, &mut w, vmo, 4096, &mut byte);
        match s.vmos.pages(vmo) {
            Ok(_) => assert_eq!((read, byte), (Ok(()), [0]), "{what}"),
            Err(_) => assert_eq!(read, Err(VmoError::NoSuchVmo), "{what}"),
        }
        if s.vmos.pages(vmo).is_ok() {
            s.destroy(vmo);
        }
        s.assert_nothing_is_held();
    }
}

#[test]
fn who_touches_a_page_being_compressed_gets_a_copy_at_once() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(3);
    s.write_page(&mut w, vmo, 1, &text(1));
    s.codec.on_compress.set(move || {
        assert_eq!(s.read_page(&mut worker(2), vmo, 1), text(1));
        assert_placed!(matches!(s.entry(vmo, 1), Entry::Page(_)));
        s.write_page(&mut worker(3), vmo, 1, &text(9));
    });
    let engine = s.vmos.engine();
    (0..3).for_each(|_| engine.rotate(&s.machine));
    let trigger = coldpress_engine::Trigger::Critical;
    let batch = engine.reclaim_batch(&s.machine, &mut r, 1, u64::MAX, trigger);
    assert_eq!((batch.taken, batch.kept), (1, 0));
    assert_eq!(s.read_page(&mut w, vmo, 1), text(9));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn one_restores_and_the_others_wait() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(3);
    s.write_page(&mut w, vmo, 1, &text(1));
    assert_placed_eq!(s.send_away(&mut r), 1);
    let (started, at_work) = std::sync::mpsc::channel();
    s.codec.on_decompress.set(move || {
        started.send(()).unwrap();
        while value(&s.machine.waits) < 3 {
            std::thread::yield_now();
        }
    });
    std::thread::scope(|scope| {
        let first = scope.spawn(move || s.read_page(&mut w, vmo, 1));
        at_work.recv().unwrap();
        let mut others = Vec::new();
        for id in 2..5 {
            others.push(scope.spawn(move || s.read_page(&mut worker(id), vmo, 1)));
        }
        others.push(first);
        for reader in others {
            assert_eq!(reader.join().unwrap(), text(1));
        }
    });
    assert_eq!(value(&s.codec.decompressed), 1);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_waiter_whose_vmo_ends_is_told_so() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(3);
    s.write_page(&mut w, vmo, 1, &text(1));
    assert_placed_eq!(s.send_away(&mut r), 1);
    s.codec.on_decompress.set(move || {
        let waiter = std::thread::spawn(move || {
            s.vmos.read(&s.machine, &mut worker(2), vmo, 4096, &mut [0])
        });
        while value(&s.machine.waits) < 1 {
            std::thread::yield_now();
        }
        s.destroy(vmo);
        assert_eq!(waiter.join().unwrap(), Err(VmoError::NoSuchVmo));
    });
    let read = s.vmos.read(&s.machine, &mut w, vmo, 4096, &mut [0]);
    assert_eq!(read, Err(VmoError::NoSuchVmo));
    s.assert_nothing_is_held();
}
