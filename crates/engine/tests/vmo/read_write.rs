//! Reading and writing by system call.

use crate::kernel::*;
use coldpress_engine::Entry;
use coldpress_engine::vmo::{MAX_PAGES, VmoError, pages_of};

#[test]
fn bytes_come_back_from_where_they_were_written() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    let bytes: Vec<u8> = (0..9000u32).map(|n| (n % 251) as u8 + 1).collect();
    s.vmos.write(&s.machine, &mut w, vmo, 3000, &bytes).unwrap();
    let mut all = vec![7; 4 * 4096];
    s.vmos.read(&s.machine, &mut w, vmo, 0, &mut all).unwrap();
    assert!(all[..3000].iter().all(|&byte| byte == 0));
    assert_eq!(all[3000..12_000], bytes);
    assert!(all[12_000..].iter().all(|&byte| byte == 0));
    let mut part = [0; 5];
    s.vmos
        .read(&s.machine, &mut w, vmo, 4094, &mut part)
        .unwrap();
    assert_eq!(part, bytes[1094..1099]);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn what_is_zeros_is_read_without_a_page() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(10);
    assert_eq!(s.read_page(&mut w, vmo, 3), [0; 4096]);
    assert_eq!(s.machine.pages_in_place(), 0);
    s.write_page(&mut w, vmo, 3, &[0; 4096]);
    assert_placed_eq!(s.in_place(vmo), [(3, true)]);
    s.send_away(&mut reclaimer(1));
    assert_eq!(s.entry(vmo, 3), Entry::Zero);
    assert_eq!(s.read_page(&mut w, vmo, 3), [0; 4096]);
    assert_eq!(s.entry(vmo, 3), Entry::Zero, "still without a page");
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_repeated_word_is_read_without_a_page() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(1);
    let mut page = [0; 4096];
    page.chunks_exact_mut(8)
        .for_each(|word| word.copy_from_slice(&77u64.to_le_bytes()));
    s.write_page(&mut w, vmo, 0, &page);
    s.send_away(&mut reclaimer(1));
    assert_eq!(s.entry(vmo, 0), Entry::SameFilled(77));
    let mut part = [0; 100];
    s.vmos.read(&s.machine, &mut w, vmo, 13, &mut part).unwrap();
    assert_eq!(part, page[13..113]);
    assert_eq!(s.machine.pages_in_place(), 0);
    s.vmos.write(&s.machine, &mut w, vmo, 4000, &[9]).unwrap();
    page[4000] = 9;
    assert_eq!(s.read_page(&mut w, vmo, 0), page);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn content_comes_back_from_storage() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(40);
    (0..40).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    assert_placed_eq!(s.send_away(&mut r), 40);
    assert_eq!(s.machine.pages_in_place(), 0);
    for page in 0..40 {
        assert!(matches!(s.entry(vmo, page), Entry::Compressed(_)));
        assert_eq!(s.read_page(&mut w, vmo, page), text(page));
        assert_placed!(matches!(s.entry(vmo, page), Entry::Page(_)));
    }
    s.send_away(&mut r);
    s.vmos
        .write(&s.machine, &mut w, vmo, 10, &[1, 2, 3])
        .unwrap();
    let mut page = text(0);
    page[10..13].copy_from_slice(&[1, 2, 3]);
    assert_eq!(s.read_page(&mut w, vmo, 0), page, "the rest is what it was");
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn what_is_outside_is_refused() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(2);
    let out = Err(VmoError::OutOfRange);
    assert_eq!(s.vmos.read(&s.machine, &mut w, vmo, 8191, &mut [0; 2]), out);
    assert_eq!(s.vmos.write(&s.machine, &mut w, vmo, 8192, &[0]), out);
    assert_eq!(s.vmos.write(&s.machine, &mut w, vmo, u64::MAX, &[0]), out);
    assert_eq!(s.vmos.write(&s.machine, &mut w, vmo, 8192, &[]), Ok(()));
    assert_eq!(s.commit(&mut w, vmo, 1..3), out);
    assert_eq!(s.zero(vmo, 0..3), out);
    assert_eq!(s.decommit(vmo, 3..3), out);
    assert_eq!(s.machine.pages_in_place(), 0, "nothing was begun");
    s.destroy(vmo);
    assert_eq!(s.vmos.pages(vmo), Err(VmoError::NoSuchVmo));
    assert_eq!(s.zero(vmo, 0..1), Err(VmoError::NoSuchVmo));
    let other = s.create(2);
    assert_ne!(vmo, other);
    assert_eq!(
        s.vmos.pages(vmo),
        Err(VmoError::NoSuchVmo),
        "not the new one"
    );
    s.destroy(other);
}

#[test]
fn sizes_have_bounds() {
    let s = system(100);
    let mut w = worker(0);
    assert_eq!(pages_of(8192), Ok(2));
    assert_eq!(pages_of(8191), Err(VmoError::NotAligned));
    let out = Err(VmoError::OutOfRange);
    assert_eq!(s.vmos.create(&s.machine, MAX_PAGES + 1), out);
    let vmo = s.create(MAX_PAGES);
    let last = MAX_PAGES - 1;
    s.write_page(&mut w, vmo, last, &text(1));
    s.write_page(&mut w, vmo, MAX_PAGES / 2, &text(2));
    assert_placed_eq!(s.in_place(vmo), [(MAX_PAGES / 2, true), (last, true)]);
    assert_eq!(s.read_page(&mut w, vmo, last), text(1));
    assert!(s.vmos.metadata_bytes() < 300_000, "huge ranges are cheap");
    s.zero(vmo, 0..MAX_PAGES).unwrap();
    assert_eq!(s.in_place(vmo), []);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn without_memory_nothing_is_lost() {
    let s = system(3);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(10);
    for page in 0..3 {
        s.write_page(&mut w, vmo, page, &text(page));
    }
    let full = s.vmos.write(&s.machine, &mut w, vmo, 3 * PAGE, &[1]);
    assert_placed_eq!(full, Err(VmoError::NoMemory));
    s.send_away(&mut r);
    let other = s.create(10);
    (0..3).for_each(|page| s.write_page(&mut w, other, page, &noise(page)));
    let read = s.vmos.read(&s.machine, &mut w, vmo, 0, &mut [0]);
    assert_eq!(read, Err(VmoError::NoMemory));
    s.destroy(other);
    for page in 0..3 {
        assert_eq!(s.read_page(&mut w, vmo, page), text(page));
    }
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
