//! Promise: compression behaves as the cases of Zircon's compression tests ask (suite `compression`),
//! each written anew. Zircon keeps 32 bits beside a compressed page, its share count; ours lies beside
//! the leaf of the page list, and these tests look at it through snapshots.

use crate::kernel::*;
use coldpress_codec::{Compressed, DEFAULT_TARGET_BYTES, Lz4, Lz4Rust, Page, PageCodec};
use coldpress_engine::queues::standing::{Queue, Standing};
use coldpress_engine::vmo::VmoId;
use coldpress_engine::{Entry, Host, Place};
use coldpress_storage::{CompressedStorage, Gather, Reference, ThreeSlot, data, write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// All zero, as every host hands a codec's state out.
fn state<C: PageCodec>() -> Box<C::State> {
    let mut state = Box::<C::State>::new_uninit();
    // SAFETY: zeroed memory is a state (`Zeroable`).
    unsafe {
        state.as_mut_ptr().write_bytes(0, 1);
        state.assume_init()
    }
}

fn scratch<C: PageCodec>() -> Box<C::Scratch> {
    let mut scratch = Box::<C::Scratch>::new_uninit();
    // SAFETY: zeroed memory is a scratch (`Zeroable`).
    unsafe {
        scratch.as_mut_ptr().write_bytes(0, 1);
        scratch.assume_init()
    }
}

fn snapshot(s: &System, id: VmoId) -> VmoId {
    let pages = s.vmos.pages(id).unwrap();
    s.vmos.snapshot(&s.machine, id, 0..pages).unwrap()
}

/// Where the page in place is that a VMO sees.
fn place(s: &System, id: VmoId, page: u64) -> Place {
    let mut at = None;
    let show = |_, place, _| at = Some(place);
    s.vmos.lookup(id, page..page + 1, show).unwrap();
    at.expect("in place")
}

#[test]
fn lz4_compress_smoke_test() {
    fn round_trip<C: PageCodec>(codec: &C) {
        let (page, mut out) = (text(7), [0; DEFAULT_TARGET_BYTES]);
        let stored = match codec.compress(&mut state::<C>(), &page, &mut out) {
            Compressed::Stored(len) => &out[..len],
            other => panic!("{}: {other:?}", C::NAME),
        };
        let mut back: Page = [0xA5; 4096];
        codec
            .decompress(&mut scratch::<C>(), stored, &mut back)
            .unwrap();
        assert_eq!(back, page, "{}", C::NAME);
    }
    round_trip(&Lz4::default());
    round_trip(&Lz4Rust::default());
}

#[test]
fn lz4_zero_dedupe_test() {
    fn zeros<C: PageCodec>(codec: &C) {
        let mut state = state::<C>();
        let mut out = [0; DEFAULT_TARGET_BYTES];
        let mut page: Page = [0; 4096];
        let same = Compressed::SameFilled(0);
        assert_eq!(codec.compress(&mut state, &page, &mut out), same);
        // However little room there is for the result.
        assert_eq!(codec.compress(&mut state, &page, &mut out[..1]), same);
        for at in 0..page.len() {
            page[at] = 1;
            let compressed = codec.compress(&mut state, &page, &mut out);
            assert!(matches!(compressed, Compressed::Stored(_)), "byte {at}");
            page[at] = 0;
        }
    }
    zeros(&Lz4::default());
    zeros(&Lz4Rust::default());
}

/// Three objects of odd sizes that fill a frame but for what rounding takes: left, middle and right.
#[test]
fn slot_page_storage_size_rounding() {
    let s = system(4);
    let mut storage = Box::new(ThreeSlot::new());
    assert!(storage.reserve(&s.machine, 8));
    let frames = s.machine.frames();
    for lens in [
        [1353, 1363, 1367],
        [2969, 555, 553],
        [101, 131, 3833],
        [2047, 1001, 1031],
    ] {
        let bytes = |n: usize| vec![n as u8 + 1; lens[n]];
        // The middle is what is left between the other two.
        let mut references = [None::<Reference>; 3];
        for n in [0, 2, 1] {
            let reference = storage.allocate(frames, lens[n]).unwrap();
            // SAFETY: allocated just now; nobody else knows it.
            unsafe { write(frames, reference, &[&bytes(n)]) };
            references[n] = Some(reference);
        }
        let references = references.map(Option::unwrap);
        assert_eq!(s.machine.storage.lent(), 1, "{lens:?} fit into one frame");
        let offsets = references.map(Reference::offset);
        assert_eq!(offsets[0], 0);
        assert!(offsets.is_sorted(), "left, middle, right: {offsets:?}");
        assert!(offsets[2] + lens[2] + 8 > 4096, "ends where the frame does");
        assert_eq!(storage.usage().payload_bytes, lens.iter().sum());
        for (n, reference) in references.into_iter().enumerate() {
            assert_eq!(reference.len(), lens[n]);
            // SAFETY: still allocated.
            let stored = unsafe { data(frames, reference, &mut Gather::new()).map(Vec::from) };
            assert_eq!(stored, Some(bytes(n)), "{lens:?}");
        }
        for reference in references {
            storage.free(frames, reference);
        }
        assert_eq!(s.machine.storage.lent(), 0);
    }
}

#[test]
fn compression_smoke_test() {
    let s = system(20);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    let shares = [snapshot(s, vmo), snapshot(s, vmo)];
    static WHILE_COMPRESSED: std::sync::Mutex<Option<VmoId>> = std::sync::Mutex::new(None);
    s.codec.on_compress.set(move || {
        assert_placed!(matches!(s.entry(vmo, 0), Entry::Temporary(_)));
        // One more sees it: what is kept beside it changes before there is a result.
        *WHILE_COMPRESSED.lock().unwrap() = Some(snapshot(s, vmo));
        assert_eq!(s.machine.pages_in_place(), 0, "it is the compressor's");
        s.vmos.check_invariants();
    });
    assert_placed_eq!(s.send_away(&mut r), 1);
    assert_placed!(!s.codec.on_compress.run(), "there was something to do");
    assert!(matches!(s.entry(vmo, 0), Entry::Compressed(_)));
    assert_eq!(s.vmos.engine().storage_usage().objects, 1);
    // That four see it, is what is kept beside it.
    s.vmos.check_invariants();
    let last = WHILE_COMPRESSED.lock().unwrap().take().unwrap();
    for id in [vmo, shares[0], shares[1], last] {
        assert_eq!(s.read_page(&mut w, id, 0), text(1));
        s.vmos.check_invariants();
    }
    assert_placed_eq!(value(&s.codec.decompressed), 1);
    assert_placed_eq!(s.vmos.engine().storage_usage().objects, 0);
    // Three copies, and the last of the four has the page itself.
    for (n, id) in (2..).zip([shares[0], vmo, last, shares[1]]) {
        s.write_page(&mut w, id, 0, &text(n));
        s.vmos.check_invariants();
    }
    assert_placed_eq!(s.machine.pages_in_place(), 4);
    for id in [shares[1], last, vmo, shares[0]] {
        s.destroy(id);
    }
    s.assert_nothing_is_held();
}

#[test]
fn compression_zero_test() {
    let s = system(20);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.commit(&mut w, vmo, 0..1).unwrap();
    assert_placed!(matches!(s.entry(vmo, 0), Entry::Page(_)));
    assert_placed_eq!(s.send_away(&mut r), 1);
    assert_eq!(s.entry(vmo, 0), Entry::Zero);
    assert_eq!(s.vmos.engine().storage_usage().objects, 0);
    assert_eq!(s.machine.storage.lent(), 0);
    let c = s.vmos.engine().counters();
    assert_eq!((value(&c.kept_zero), value(&c.kept_stored)), (1, 0));
    assert_eq!(s.read_page(&mut w, vmo, 0), [0; 4096]);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

/// The newest metadata: how many see the page changes while it is compressed.
#[test]
fn compression_fail_test() {
    if not_under_random_compression("it takes a page out step by step") {
        return;
    }
    let s = system(20);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &noise(1));
    let first = snapshot(s, vmo);
    static ANOTHER: std::sync::Mutex<Option<VmoId>> = std::sync::Mutex::new(None);
    s.codec.on_compress.set(move || {
        assert!(matches!(s.entry(vmo, 0), Entry::Temporary(_)));
        *ANOTHER.lock().unwrap() = Some(snapshot(s, first));
        s.vmos.check_invariants();
    });
    assert_eq!(s.send_away(&mut r), 0);
    let c = s.vmos.engine().counters();
    assert_eq!(value(&c.incompressible), 1);
    assert_eq!(s.vmos.engine().storage_usage().objects, 0);
    let another = ANOTHER.lock().unwrap().take().unwrap();
    s.vmos.check_invariants();
    let (segment, index) = place(s, vmo, 0);
    let standing = s.vmos.engine().standing(segment, index);
    assert_eq!(standing, Some(Standing::In(Queue::Failed)));
    for (id, last) in [(vmo, false), (first, false), (another, true)] {
        assert_eq!(s.in_place(id), [(0, last)]);
        assert_eq!(s.read_page(&mut w, id, 0), noise(1));
        s.destroy(id);
        s.vmos.check_invariants();
    }
    s.assert_nothing_is_held();
}

#[test]
fn compression_move_reference_test() {
    let s = system(20);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    static TAKEN_BACK: AtomicBool = AtomicBool::new(false);
    s.codec.on_compress.set(move || {
        // The page comes back while the compressor is at it, and is written.
        let mut w = worker(2);
        assert_eq!(s.read_page(&mut w, vmo, 0), text(1));
        s.write_page(&mut w, vmo, 0, &text(2));
        TAKEN_BACK.store(true, Relaxed);
    });
    s.reclaim(&mut r, 1);
    while !TAKEN_BACK.load(Relaxed) {
        s.vmos.engine().rotate(&s.machine);
        s.reclaim(&mut r, 1);
    }
    let c = s.vmos.engine().counters();
    // The compressor has its result, which is nobody's now, and has freed it.
    assert_placed_eq!((value(&c.compression_attempts), value(&c.raced)), (1, 1));
    assert_placed_eq!(s.vmos.engine().storage_usage().objects, 0);
    assert_placed_eq!(s.machine.storage.lent(), 0);
    assert_eq!(s.machine.filled_slots(), 0);
    assert_placed_eq!(s.in_place(vmo), [(0, true)]);
    assert_eq!(s.read_page(&mut w, vmo, 0), text(2));
    s.vmos.check_invariants();
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
