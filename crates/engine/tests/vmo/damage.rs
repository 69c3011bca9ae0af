//! What is stored and comes back wrong is never shown to anybody (law L1).

use crate::kernel::*;
use coldpress_engine::vmo::VmoError;
use coldpress_engine::{Access, Entry};
use coldpress_storage::{FrameIndex, FrameSource};

/// Changes a byte of every frame that compressed storage has.
fn damage(s: &System) {
    for frame in 1..=s.machine.storage.lent() as u32 {
        let address = s.machine.storage.address(FrameIndex(frame));
        // SAFETY: nobody reads or writes storage now, and the frame is 4096 bytes.
        unsafe {
            let byte = address.add(200);
            byte.write(byte.read() ^ 0x10);
        }
    }
}

#[test]
fn a_damaged_page_is_refused_for_all_who_see_it_until_they_forget_it() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    s.write_page(&mut w, vmo, 0, &text(0));
    assert_placed_eq!(s.send_away(&mut r), 1);
    damage(s);
    let child = s.vmos.snapshot(&s.machine, vmo, 0..2).unwrap();
    let grandchild = s.vmos.snapshot(&s.machine, child, 0..2).unwrap();
    let refused = Err(VmoError::Poisoned);
    let mut bytes = [7; 8];
    let read = s.vmos.read(&s.machine, &mut w, child, 0, &mut bytes);
    assert_eq!((read, bytes), (refused, [7; 8]), "not one byte");
    assert_eq!(s.entry(vmo, 0), Entry::Poisoned);
    assert_eq!(s.vmos.write(&s.machine, &mut w, vmo, 0, &[1]), refused);
    assert_eq!(s.commit(&mut w, vmo, 0..2), refused);
    let fault = s.vmos.fault(
        &s.machine,
        &mut w,
        grandchild,
        0,
        Access::Read,
        |_, _| panic!(),
    );
    assert_eq!(fault, refused);
    s.vmos.check_invariants();
    s.zero(vmo, 0..1).unwrap();
    s.vmos.check_invariants();
    s.write_page(&mut w, vmo, 0, &text(3));
    assert_eq!(s.read_page(&mut w, vmo, 0), text(3));
    assert_eq!(
        s.vmos.read(&s.machine, &mut w, child, 0, &mut bytes),
        refused
    );
    s.destroy(child);
    s.vmos.check_invariants();
    let read = s.vmos.read(&s.machine, &mut w, grandchild, 0, &mut bytes);
    assert_eq!(read, refused);
    let mut list = s.vmos.take(&s.machine, &mut w, grandchild, 1..2).unwrap();
    s.vmos
        .supply(&s.machine, &mut w, vmo, 1, &mut list)
        .unwrap();
    s.vmos.discard(&s.machine, list);
    let taken = s.vmos.take(&s.machine, &mut w, grandchild, 0..2);
    assert_eq!(taken.err(), Some(VmoError::Poisoned));
    s.zero(grandchild, 0..1).unwrap();
    assert_eq!(s.read_page(&mut w, grandchild, 0), [0; 4096]);
    for vmo in [vmo, grandchild] {
        s.destroy(vmo);
    }
    assert_eq!(value(&s.vmos.engine().counters().corrupt), 1);
    s.assert_nothing_is_held();
}
