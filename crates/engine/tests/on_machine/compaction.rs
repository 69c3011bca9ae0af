//! Storage is compacted while the engine runs: every moved object's entry follows.

use crate::machine::*;
use coldpress_codec::Page;
use coldpress_storage::StorageKind;

const PAGES: u32 = 2048;

/// A page that compresses to something between a few hundred and a few thousand bytes.
fn page_of(index: u32) -> Page {
    let mut page = content(Kind::Noise, u64::from(index) + 1);
    page[200 + (index as usize * 37) % 2300..].fill(index as u8);
    page[..4].copy_from_slice(&index.to_ne_bytes());
    page
}

/// Runs one pass of compaction; how many objects it moved.
fn compact(s: &System) -> usize {
    let mut moved = 0;
    loop {
        let step = s
            .engine
            .compact(&s.machine, 16 << 10)
            .expect("nothing is being stored");
        moved += step.objects;
        if step.pass_ended {
            return moved;
        }
    }
}

fn full_system(kind: StorageKind) -> (&'static System, TestWorker, TestReclaimer) {
    let s = system_with(kind, 2, PAGES as usize);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for index in 0..PAGES {
        s.write(&mut w, 1, index, &page_of(index));
    }
    s.send_away(&mut r);
    (s, w, r)
}

#[test]
fn frames_become_free_and_every_page_reads_back() {
    for kind in [StorageKind::Press, StorageKind::SizeClass] {
        let (s, mut w, _) = full_system(kind);
        let full = s.machine.frames.lent();
        s.decommit(1, 0, 1);
        for index in (0..PAGES).filter(|index| index % 3 != 0) {
            s.decommit(1, index, index + 1);
        }
        let sparse = s.machine.frames.lent();
        let moved = compact(s);
        let compacted = s.machine.frames.lent();
        assert!(moved > 50, "{kind:?}: {moved} moved");
        assert!(
            compacted * 10 < sparse * 7,
            "{kind:?}: {full} frames, {sparse} after freeing, {compacted} after compaction"
        );
        for index in (3..PAGES).step_by(3) {
            assert!(
                s.read(&mut w, 1, index) == page_of(index),
                "{kind:?}: page {index}"
            );
        }
        s.decommit(1, 0, PAGES);
        s.assert_nothing_is_held();
    }
}

#[test]
fn entries_that_moved_between_segments_are_found_by_compaction() {
    let (s, mut w, _) = full_system(StorageKind::Press);
    for index in (0..PAGES).step_by(3) {
        assert!(s.transfer((1, index), (2, PAGES - 1 - index)));
    }
    s.decommit(1, 0, PAGES);
    assert!(compact(s) > 50, "moved objects know their new owner");
    for index in (0..PAGES).step_by(3) {
        assert!(
            s.read(&mut w, 2, PAGES - 1 - index) == page_of(index),
            "page {index}"
        );
    }
    s.decommit(2, 0, PAGES);
    s.assert_nothing_is_held();
}

#[test]
fn an_object_without_an_entry_stays_where_it_is() {
    let (s, mut w, mut r) = full_system(StorageKind::Press);
    for index in (0..PAGES).filter(|index| index % 3 != 0) {
        s.decommit(1, index, index + 1);
    }
    // A page is being restored: compaction must leave its object alone, and may move others.
    s.codec.on_decompress.set({
        move || {
            compact(s);
        }
    });
    assert!(s.read(&mut w, 1, 0) == page_of(0));
    // A page is being stored: nothing is moved at all.
    s.write(&mut w, 2, 0, &page_of(0));
    s.cool();
    s.codec.on_compress.set(move || {
        s.machine.on_stable.set(move || {
            let step = s.engine.compact(&s.machine, 1 << 20);
            assert!(step.is_none(), "an object is not in its entry yet");
        });
    });
    assert_eq!(s.reclaim(&mut r, 1).kept, 1);
    assert!(!s.machine.on_stable.run(), "it has run");
    compact(s);
    assert!(s.read(&mut w, 2, 0) == page_of(0));
    for index in (3..PAGES).step_by(3) {
        assert!(s.read(&mut w, 1, index) == page_of(index), "page {index}");
    }
}
