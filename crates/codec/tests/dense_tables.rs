//! Promise: press-dense's tables are bytes and point nowhere: a copy of them, in other memory or
//! in another program, serves as well. And press, given tables, reads what was re-coded with them.
//!
//! Under Miri the copy is the one that the same test left in a file outside of it.

use crate::common::{Kind, page, tables, zeroed};
use coldpress_codec::press_dense::{DenseTables, PressDense};
use coldpress_codec::{
    AnyCodec, CodecKind, Compressed, Corrupt, Density, PAGE_SIZE, Page, PageCodec, SameFilled,
};

fn compress(tables: &DenseTables, page: &Page) -> Vec<u8> {
    let dense = PressDense::new(tables).expect("trained");
    let mut out = [0; PAGE_SIZE];
    match dense.compress(&mut zeroed(), page, &mut out) {
        Compressed::Stored(len) => out[..len].to_vec(),
        other => panic!("{other:?}"),
    }
}

fn decompress(tables: &DenseTables, stored: &[u8]) -> Page {
    let dense = PressDense::new(tables).expect("trained");
    let mut page = [0x5a; PAGE_SIZE];
    dense
        .decompress(&mut zeroed(), stored, &mut page)
        .expect("just stored");
    page
}

#[test]
fn a_copy_of_the_tables_serves_as_well() {
    let original = if cfg!(miri) {
        tables::made_before()
    } else {
        tables::made()
    };
    let copy = tables::of_bytes(&tables::bytes_of(&original));
    for kind in [Kind::Text, Kind::Pointers] {
        let page = page(kind, 77);
        let stored = compress(&original, &page);
        assert_eq!(compress(&copy, &page), stored, "{kind:?}");
        assert!(decompress(&copy, &stored) == page, "{kind:?}");
    }
    drop(original);
    if !cfg!(miri) {
        tables::leave(&copy);
    }
}

#[test]
fn press_reads_pages_of_both_kinds_once_it_has_tables() {
    let tables: &'static DenseTables = Box::leak(if cfg!(miri) {
        tables::made_before()
    } else {
        tables::made()
    });
    let codec = AnyCodec::of(CodecKind::Press, SameFilled::Detect);
    let mut scratch = zeroed();
    for kind in [Kind::Text, Kind::Pointers] {
        let content = page(kind, 78);
        let (mut quick, mut found) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
        let Compressed::Stored(len) = codec.compress(&mut zeroed(), &content, &mut quick) else {
            panic!("{kind:?} is stored");
        };
        let dense = compress(tables, &content);
        assert!(dense.len() < len, "{kind:?}");
        if codec.tables().is_none() {
            let read = codec.decompress(&mut scratch, &dense, &mut found);
            assert_eq!(read, Err(Corrupt), "without tables");
            assert!(codec.set_tables(tables));
        }
        assert!(!codec.set_tables(tables), "they stay");
        codec.set_density(Density::Dense);
        let Compressed::Stored(len_now) = codec.compress(&mut zeroed(), &content, &mut found)
        else {
            panic!("{kind:?} is stored");
        };
        assert_eq!(found[..len_now], dense, "{kind:?}");
        codec.set_density(Density::Usual);
        let outcome = codec.compress(&mut zeroed(), &content, &mut found);
        assert_eq!(outcome, Compressed::Stored(len), "{kind:?}");
        assert_eq!(found[..len], quick[..len], "{kind:?}");
        let maker = PressDense::new(tables).expect("trained");
        let made = [&quick[..len], &dense].map(|stored| maker.has_made(stored));
        assert_eq!(made, [false, true], "{kind:?}");
        for stored in [&quick[..len], &dense] {
            found.fill(0x5a);
            assert_eq!(codec.decompress(&mut scratch, stored, &mut found), Ok(()));
            assert!(found == content, "{kind:?}");
        }
    }
}
