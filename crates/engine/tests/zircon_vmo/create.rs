//! Creating VMOs, and their sizes.

use super::kit::*;
use super::space::*;
use crate::kernel::*;
use coldpress_engine::vmo::{MAX_PAGES, VmoError, pages_of};

#[test]
fn a_new_vmo_is_nothing_but_a_size() {
    let s = system(10);
    let vmo = s.create(16);
    assert_eq!(s.vmos.pages(vmo), Ok(16));
    assert_eq!(forms(s, vmo), "-".repeat(16));
    assert_eq!(s.in_place(vmo), []);
    assert_eq!(s.machine.pages_in_place(), 0);
    assert_eq!(s.vmos.objects(), 1);
    assert_eq!(s.vmos.tables_in_use(), (1, 0, 0), "its lock");
    // No page is pinned: nothing is in the way of these.
    s.decommit(vmo, 0..16).unwrap();
    assert_eq!(s.vmos.pages(vmo), Ok(16));
    end(s, &[vmo]);
}

#[test]
fn vmo_create_maximum_size() {
    let s = system(10);
    let mut w = worker(0);
    let vmo = s.create(MAX_PAGES);
    assert_eq!(s.vmos.pages(vmo), Ok(MAX_PAGES));
    for pages in [MAX_PAGES + 1, u64::MAX] {
        let refused = s.vmos.create(&s.machine, pages);
        assert_eq!(refused, Err(VmoError::OutOfRange));
    }
    assert_eq!(s.resize(vmo, MAX_PAGES + 1), Err(VmoError::OutOfRange));
    // It can be used to its end.
    s.write_page(&mut w, vmo, MAX_PAGES - 1, &text(1));
    assert_eq!(s.read_page(&mut w, vmo, MAX_PAGES - 1), text(1));
    end(s, &[vmo]);
}

#[test]
fn vmo_unaligned_size_test() {
    for bytes in [1, PAGE - 1, PAGE + 1, 8 * PAGE + 15, u64::MAX] {
        assert_eq!(pages_of(bytes), Err(VmoError::NotAligned), "{bytes}");
    }
    assert_eq!(pages_of(8 * PAGE), Ok(8));
    assert_eq!(pages_of(0), Ok(0));
}

#[test]
fn vmo_read_write_smoke_test() {
    let s = system(100);
    let mut w = worker(0);
    let pages = 4;
    let bytes = pages * PAGE;
    let vmo = s.create(pages);
    let pattern: Vec<u8> = (0..bytes).map(|n| (n * 31 % 251) as u8).collect();
    let write =
        |w: &mut TestWorker, at: u64, bytes: &[u8]| s.vmos.write(&s.machine, w, vmo, at, bytes);
    let read = |w: &mut TestWorker, at: u64, len: usize| {
        let mut into = vec![0xA5; len];
        s.vmos
            .read(&s.machine, w, vmo, at, &mut into)
            .map(|()| into)
    };
    assert_eq!(
        read(&mut w, 0, bytes as usize).unwrap(),
        vec![0; bytes as usize]
    );
    write(&mut w, 0, &pattern).unwrap();
    assert_eq!(read(&mut w, 0, bytes as usize).unwrap(), pattern);
    // Across a bound, at odd places.
    write(&mut w, PAGE - 37, &pattern[..127]).unwrap();
    assert_eq!(read(&mut w, PAGE - 37, 127).unwrap(), pattern[..127]);
    let mut expected = pattern.clone();
    expected[PAGE as usize - 37..][..127].copy_from_slice(&pattern[..127]);
    assert_eq!(read(&mut w, 0, bytes as usize).unwrap(), expected);
    // Nothing, and a little, at the beginning.
    write(&mut w, 0, &[]).unwrap();
    write(&mut w, 0, &pattern[..37]).unwrap();
    write(&mut w, 99, &pattern[99..136]).unwrap();
    assert_eq!(read(&mut w, 0, bytes as usize).unwrap(), expected);
    // What does not end inside is refused as a whole, wherever it begins.
    let long = vec![9; bytes as usize + 47];
    for at in [0, 31, bytes + 99] {
        assert_eq!(write(&mut w, at, &long), Err(VmoError::OutOfRange));
    }
    assert_eq!(read(&mut w, 0, bytes as usize).unwrap(), expected);
    // Over more than a page, at odd places, and seen through a mapping.
    let mut space = Space::new(s);
    let mapped = handle(s, vmo);
    space.map(1000, &mapped, 0..pages);
    write(&mut w, 31, &pattern[..4197]).unwrap();
    expected[31..][..4197].copy_from_slice(&pattern[..4197]);
    for at in (0..bytes as usize).step_by(101) {
        let (page, offset) = (at / PAGE as usize, at % PAGE as usize);
        assert_eq!(space.read(&mut w, 1000 + page as u64, offset), expected[at]);
    }
    assert_eq!(read(&mut w, 31, 4197).unwrap(), pattern[..4197]);
    // To the last byte, and not beyond.
    write(&mut w, bytes - 3, &[7; 3]).unwrap();
    assert_eq!(write(&mut w, bytes - 3, &[9; 4]), Err(VmoError::OutOfRange));
    assert_eq!(write(&mut w, bytes + 1, &[9]), Err(VmoError::OutOfRange));
    assert_eq!(write(&mut w, u64::MAX, &[9; 2]), Err(VmoError::OutOfRange));
    assert_eq!(read(&mut w, bytes, 1), Err(VmoError::OutOfRange));
    assert_eq!(write(&mut w, bytes, &[]), Ok(()), "nothing, at the end");
    assert_eq!(
        read(&mut w, bytes - 4, 4).unwrap(),
        [expected[bytes as usize - 4], 7, 7, 7]
    );
    drop((space, mapped));
    s.assert_nothing_is_held();
}
