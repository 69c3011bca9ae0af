//! Promise: the formats of press and press-dense are those of `docs/press-format.md`. A decoder
//! written from that alone, a byte and a bit at a time, reads what every path writes, and takes
//! and rejects the same bytes as every path. An encoder written from it writes pages as none of
//! ours would, and every path reads them.
//!
//! Besides: every path writes the same bytes (P1); and what press makes of pages that are nearly
//! constant is not larger than what LZ4 makes of them.
//!
//! Not under Miri, which has one path: `round_trip.rs` and `damaged_input.rs` take it there.
#![cfg(not(miri))]

mod by_the_book;
use crate::common::{KINDS, Random, zeroed};
use by_the_book::{CODES, Candidate, Streams, Table};
use coldpress_codec::press::{Press, Simd};
use coldpress_codec::press_dense::{DenseTables, PressDense, Trainer};
use coldpress_codec::{Compressed, DEFAULT_TARGET_BYTES, Lz4Rust, PAGE_SIZE, Page, PageCodec};

/// A codec on every path that there is, and the tables that it has.
struct Subject {
    tables: Option<Vec<Table>>,
    paths: Vec<Path>,
}

type Compress = dyn FnMut(&Page, &mut [u8]) -> Compressed;
type Decompress = dyn FnMut(&[u8]) -> Option<Vec<u8>>;

struct Path {
    name: String,
    compress: Box<Compress>,
    decompress: Box<Decompress>,
}

impl Path {
    fn of<C: PageCodec + Copy + 'static>(codec: C, simd: Simd) -> Self {
        let (mut state, mut scratch) = (zeroed::<C::State>(), zeroed::<C::Scratch>());
        Self {
            name: format!("{} {}", C::NAME, simd.name()),
            compress: Box::new(move |page, out| codec.compress(&mut state, page, out)),
            decompress: Box::new(move |stored| {
                let mut page = [0x5a; PAGE_SIZE];
                let outcome = codec.decompress(&mut scratch, stored, &mut page);
                outcome.ok().map(|()| page.to_vec())
            }),
        }
    }
}

fn available() -> impl Iterator<Item = Simd> {
    Simd::ALL.into_iter().filter(|simd| simd.is_available())
}

fn press() -> Subject {
    Subject {
        tables: None,
        paths: available()
            .map(|simd| Path::of(Press::with_simd(simd), simd))
            .collect(),
    }
}

/// press-dense with tables made from these pages.
fn dense(pages: impl IntoIterator<Item = Page>) -> Subject {
    let (mut trainer, mut state) = (zeroed::<Trainer>(), zeroed());
    for page in pages {
        trainer.add(&mut state, &page);
    }
    let tables: &'static mut DenseTables = Box::leak(zeroed());
    trainer.finish(tables);
    let tables: &'static DenseTables = tables;
    Subject {
        tables: Some(
            tables
                .lengths()
                .map(|lengths| Table::new(&lengths))
                .collect(),
        ),
        paths: available()
            .map(|simd| Path::of(PressDense::with_simd(tables, simd).unwrap(), simd))
            .collect(),
    }
}

/// press, and press-dense with tables that suit the pages and with such as suit hardly any.
fn subjects() -> Vec<Subject> {
    let suiting = (0..150).map(|seed| varied(&mut Random(seed)));
    vec![press(), dense(suiting), dense([varied(&mut Random(0))])]
}

/// Pieces of everything that pages have, at any place.
fn varied(random: &mut Random) -> Page {
    const WORDS: [&str; 6] = ["key=", "\"name\": ", "größe ", "0x7f, ", "return ", "\r\n"];
    let kind = KINDS[random.below(KINDS.len())];
    if random.below(4) == 0 {
        return crate::common::page(kind, random.next());
    }
    let mut page = vec![];
    while page.len() < PAGE_SIZE {
        let base = random.next() & 0x7fff_ffff_f000;
        let small = 1 << random.below(20);
        let style = random.below(8);
        for i in 0..1 + random.below(100) as u64 {
            let word = match style {
                0 => base + 16 * (random.next() % 4096),
                1 => 0,
                2 => random.next() % small,
                3 => random.next(),
                4 => base + 48 * i,
                5 => random.next() & 0x00ff_00ff_00ff_00ff,
                6 => f64::from(random.next() as u16).to_bits(),
                _ => {
                    page.extend(WORDS[random.below(6)].bytes());
                    continue;
                }
            };
            page.extend(word.to_le_bytes());
        }
        if random.below(8) == 0 {
            page.truncate(page.len().saturating_sub(random.below(8)));
        }
    }
    page[..PAGE_SIZE].try_into().unwrap()
}

#[test]
fn every_path_writes_the_same_and_the_book_reads_it() {
    let mut random = Random(1);
    let mut subjects = subjects();
    let mut kinds = [0; 3];
    for _ in 0..500 {
        let page = varied(&mut random);
        let limit = [PAGE_SIZE, DEFAULT_TARGET_BYTES, random.below(PAGE_SIZE)][random.below(3)];
        for subject in &mut subjects {
            let mut first = None;
            for path in &mut subject.paths {
                let mut out = vec![0; limit];
                let outcome = (path.compress)(&page, &mut out);
                if let Compressed::Stored(len) = outcome {
                    out.truncate(len);
                }
                let (expected, stored) = first.get_or_insert((outcome, out.clone()));
                assert_eq!(outcome, *expected, "P1: {}", path.name);
                if let Compressed::Stored(_) = outcome {
                    assert!(out == *stored, "P1: {}", path.name);
                }
            }
            if let Some((Compressed::Stored(_), stored)) = first {
                kinds[usize::from(stored[0] & 3)] += 1;
                assert_eq!(agreed(subject, &stored), Some(page.to_vec()));
            }
        }
    }
    assert!(kinds.iter().all(|n| *n > 50), "{kinds:?}");
}

/// What the book makes of these bytes, which is what every path must make of them.
fn agreed(subject: &mut Subject, stored: &[u8]) -> Option<Vec<u8>> {
    let expected = by_the_book::decode(stored, subject.tables.as_deref());
    for path in &mut subject.paths {
        let page = (path.decompress)(stored);
        assert_eq!(
            page.is_some(),
            expected.is_some(),
            "{}: {stored:02x?}",
            path.name
        );
        assert!(page == expected, "{}: {stored:02x?}", path.name);
    }
    expected
}

fn mutate(random: &mut Random, stored: &mut Vec<u8>) {
    // Often in what is read first.
    let end = [stored.len(), 8.min(stored.len()), 48.min(stored.len())][random.below(3)];
    let at = random.below(end);
    match random.below(8) {
        0..4 => stored[at] ^= 1 << random.below(8),
        4 => stored[at] = random.next() as u8,
        5 => stored.insert(at, random.next() as u8),
        6 => drop(stored.remove(at)),
        _ => {
            let other = random.below(stored.len());
            stored.swap(at, other);
        }
    }
    if stored.is_empty() || random.below(50) == 0 {
        stored.push(random.next() as u8);
    }
}

#[test]
fn mutated_bytes_are_taken_or_rejected_by_all() {
    let mut random = Random(2);
    let mut subjects = subjects();
    let mut outcomes = [0; 2];
    for _ in 0..500 {
        let page = varied(&mut random);
        for subject in &mut subjects {
            let mut out = vec![0; PAGE_SIZE];
            let Compressed::Stored(len) = (subject.paths[0].compress)(&page, &mut out) else {
                continue;
            };
            out.truncate(len);
            for _ in 0..3 {
                mutate(&mut random, &mut out);
                outcomes[usize::from(agreed(subject, &out).is_some())] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|n| *n > 300), "{outcomes:?}");
}

/// Streams of any codes, masks and distances; now and then with a distance that there is not.
fn any_streams(random: &mut Random) -> Streams {
    let mut streams = Streams::default();
    let few = [(); 4].map(|()| random.below(16) as u8);
    let (any_code, any_mask) = (random.below(4), random.below(3) as u8);
    let ascii = random.below(2) == 0;
    let spoilt = [usize::MAX, random.below(512)][usize::from(random.below(3) == 0)];
    let mut in_force = 8;
    for word in 0..512 {
        let position = 8 * word;
        let code = match random.below(4) < any_code {
            true => random.below(16) as u8,
            false => few[random.below(4)],
        };
        let there_is = match CODES[usize::from(code)].0 {
            Candidate::Zero => true,
            Candidate::Back(distance) => distance <= position,
            Candidate::InForce => in_force <= position,
            Candidate::Words | Candidate::Bytes => word > 0,
        };
        let is_spoilt = word == spoilt;
        let code = match there_is {
            _ if is_spoilt => [1, 4, 8, 12, 13, 14][random.below(6)],
            true => code,
            false => 0,
        };
        streams.codes.push(code);
        let (from, mask) = CODES[usize::from(code)];
        match from {
            Candidate::Words => {
                let any = 1 + random.below(word.clamp(1, 255)) as u8;
                let named = if is_spoilt { 0 } else { any };
                streams.distances.push(named);
                in_force = 8 * usize::from(named);
            }
            Candidate::Bytes => {
                let any = 8 + random.below(position.max(8) - 7) as u16;
                let wrong =
                    [random.below(8), position + 1 + random.below(9)][random.below(2)] as u16;
                let named = if is_spoilt { wrong } else { any };
                streams.distances.extend(named.to_le_bytes());
                in_force = usize::from(named);
            }
            _ => {}
        }
        let mask = mask.unwrap_or_else(|| {
            let any = random.next().to_le_bytes();
            let mask = any[0] & [0xff, any[1], any[1] & any[2]][usize::from(any_mask)];
            streams.masks.push(mask);
            mask
        });
        for _ in 0..mask.count_ones() {
            let literal = random.next() as u8;
            streams
                .literals
                .push(if ascii { literal & 0x7f } else { literal });
        }
    }
    streams
}

#[test]
fn what_the_book_writes_is_read() {
    let mut random = Random(3);
    let mut subjects = subjects();
    let mut outcomes = [[0; 2]; 2];
    for _ in 0..500 {
        let streams = any_streams(&mut random);
        for subject in &mut subjects {
            let base = [None, Some(0x00), Some(0x11), Some(0x88)][random.below(4)];
            let seldom = 1 + random.below(4);
            let packed = random.below(2) == 0;
            let masked = {
                let mut group = Random(random.next());
                let pack = packed.then_some(|| group.below(seldom) == 0);
                by_the_book::write_masked(&streams, base, pack)
            };
            outcomes[0][usize::from(agreed(subject, &masked).is_some())] += 1;
            if let Some(tables) = &subject.tables {
                let choices = [(); 5].map(|()| random.below(4));
                let stored = by_the_book::write_dense(&streams, tables, choices);
                outcomes[1][usize::from(agreed(subject, &stored).is_some())] += 1;
            }
        }
    }
    let enough = outcomes.iter().flatten().all(|n| *n > 100);
    assert!(enough, "{outcomes:?}");
}

#[test]
fn runs_of_any_kind_are_read() {
    let mut random = Random(4);
    let mut press = press();
    let mut outcomes = [0; 2];
    for _ in 0..2000 {
        let entries = 1 + random.below(24);
        let mut stored = vec![1, entries as u8];
        let mut index = 0;
        for entry in 0..entries {
            let width = match entry {
                0 | 1 => random.below(9),
                _ => random.below(10),
            };
            stored.extend((index | width << 9).to_le_bytes()[..2].iter());
            stored.extend((0..width % 9).map(|_| random.next() as u8));
            index += 1 + random.below(22);
        }
        for _ in 0..random.below(2) {
            mutate(&mut random, &mut stored);
        }
        outcomes[usize::from(agreed(&mut press, &stored).is_some())] += 1;
    }
    assert!(outcomes.iter().all(|n| *n > 300), "{outcomes:?}");
}

/// The page of the document's first example: eight nodes of a list, and nothing behind them.
fn eight_nodes() -> Page {
    let mut page = [0; PAGE_SIZE];
    for (node, bytes) in page.as_chunks_mut::<32>().0[..8].iter_mut().enumerate() {
        let next = 0x5581_2ac0_1000 + 32 * (node as u64 + 1);
        let words = [next, 0, node as u64 + 1, 0x0200];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
    }
    page
}

/// What every path of the codec stores for the page.
fn stored(subject: &mut Subject, page: &Page) -> Vec<u8> {
    let mut out = vec![0; PAGE_SIZE];
    let Compressed::Stored(len) = (subject.paths[0].compress)(page, &mut out) else {
        panic!("{} does not store it", subject.paths[0].name);
    };
    out.truncate(len);
    assert_eq!(agreed(subject, &out), Some(page.to_vec()));
    out
}

/// The bytes of an example of the document: of each line of the first block behind the heading the
/// bytes that stand at its head; `00 × 30` is 30 of them.
fn example(heading: &str) -> Vec<u8> {
    let document = include_str!("../../../docs/press-format.md");
    let (_, behind) = document.split_once(heading).expect("the heading");
    let (_, behind) = behind.split_once("```text\n").expect("a block");
    let (block, _) = behind.split_once("```").expect("its end");
    let byte = |hex: &str| u8::from_str_radix(hex, 16).ok().filter(|_| hex.len() == 2);
    let mut bytes = vec![];
    for line in block.lines() {
        let mut words = line.split_whitespace().peekable();
        while let Some(value) = words.next().and_then(byte) {
            let times = match words.next_if_eq(&"×").and_then(|_| words.next()) {
                Some(times) => times.parse().expect("a number"),
                None => 1,
            };
            bytes.extend(vec![value; times]);
        }
    }
    bytes
}

#[test]
fn the_examples_of_the_document() {
    let mut sevens = [0; PAGE_SIZE];
    for word in sevens.as_chunks_mut::<8>().0 {
        *word = 7_u64.to_le_bytes();
    }
    sevens[800..802].copy_from_slice(&[0x34, 0x12]);
    let of_eight_nodes = |subject: &mut Subject| stored(subject, &eight_nodes());
    for (heading, stored) in [
        ("### 6.1", stored(&mut press(), &sevens)),
        ("### 6.2", of_eight_nodes(&mut press())),
        ("### 6.3", of_eight_nodes(&mut dense([]))),
    ] {
        let expected = example(heading);
        assert!(
            stored == expected,
            "{heading}: {stored:02x?}, not {expected:02x?}"
        );
    }
}

/// How many bytes the codec makes of the page.
fn len<C: PageCodec>(codec: &C, page: &Page) -> usize {
    match codec.compress(&mut zeroed(), page, &mut [0; PAGE_SIZE]) {
        Compressed::Stored(len) => len,
        other => panic!("{} does not store it: {other:?}", C::NAME),
    }
}

/// Words changed to any other, of any constant.
#[test]
fn nearly_constant_pages_are_not_larger_than_with_lz4() {
    for constant in [0, 7, 0x7f12_3456_7890, u64::MAX, 0x8123_4567_89ab_cdef] {
        for changes in 1..=24 {
            for seed in 0..20 {
                let mut random = Random(seed * 32 + changes);
                let mut words = [constant; 512];
                for _ in 0..changes {
                    words[random.below(512)] = random.next();
                }
                let mut page = [0; PAGE_SIZE];
                for (to, word) in page.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                    *to = word.to_le_bytes();
                }
                let (press, lz4) = (len(&Press::new(), &page), len(&Lz4Rust::THOROUGH, &page));
                #[cfg(feature = "liblz4")]
                let lz4 = lz4.min(len(&coldpress_codec::Lz4::THOROUGH, &page));
                assert!(press <= lz4, "{constant:x} {changes}: {press} {lz4}");
            }
        }
    }
}
