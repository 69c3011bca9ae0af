//! Reading and writing parts of objects, whole and split.

use crate::common::{Host, with_host};
use coldpress_storage::{CompressedStorage, Press, Reference, read_at, write, write_at};

/// One whole object and one that is split.
fn objects(host: &Host, storage: &mut Press) -> [(Reference, Vec<u8>); 2] {
    let mut found = [None, None];
    for len in [900, 900, 900, 900, 1500, 1500, 1500, 1500] {
        let reference = storage.allocate(host, len).unwrap();
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7 + len) as u8).collect();
        // SAFETY: just allocated; nobody else knows it.
        unsafe { write(host, reference, &[&bytes]) };
        found[usize::from(reference.is_split())] = Some((reference, bytes));
    }
    found.map(|object| object.expect("one of each kind"))
}

#[test]
fn parts_are_read_and_written_again_on_both_sides_of_the_split() {
    let (host, mut storage) = with_host(Press::new(), 16);
    for (reference, mut bytes) in objects(&host, &mut storage) {
        for at in (0..bytes.len()).step_by(13) {
            let len = (bytes.len() - at).min(700);
            let mut part = vec![0; len];
            // SAFETY: the object is allocated, and nobody writes to it.
            assert!(unsafe { read_at(&host, reference, at, &mut part) });
            assert_eq!(part, bytes[at..at + len]);
            part.iter_mut().for_each(|byte| *byte ^= 0x5A);
            bytes[at..at + len].copy_from_slice(&part);
            // SAFETY: nobody else uses the object.
            unsafe { write_at(&host, reference, at, &part) };
            let mut whole = vec![0; bytes.len()];
            // SAFETY: as above.
            assert!(unsafe { read_at(&host, reference, 0, &mut whole) });
            assert_eq!(whole, bytes);
        }
    }
}
