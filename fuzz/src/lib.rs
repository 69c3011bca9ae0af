//! What the fuzz targets assert.
//!
//! | target | input | asserts, of `crates/codec`, or of the protocol |
//! |---|---|---|
//! | `decode_*` | stored bytes | I4: no panic, nothing read or written beyond the buffers, and an outcome and a page that depend on the bytes alone |
//! | `encode_*` | a bound and a page | I2 and I3: what is stored comes back, within the bound, and does not depend on what buffers held before |
//! | `decode_nbd_*` | what a client sends | each option and each request has the answer that the protocol names and no other, reads give what was written, no call leaves the export (`nbd.rs`; whole short sessions, quickly: `session/`) |
//!
//! The codecs' buffers lie at fences: memory that may not be touched begins at their very last byte, and
//! ends at the first. That holds for the codecs in C as well, which the sanitizer does not see.
//! Each input is handled twice: with a state that has served all inputs before, over bytes `0x00`,
//! and with a fresh one, over bytes `0xFF`.

pub mod nbd;
pub mod session;

use std::cell::UnsafeCell;
use std::sync::OnceLock;

use coldpress_arena::Zeroable;
use coldpress_codec::press::Simd;
use coldpress_codec::press_dense::{DenseTables, Trainer};
use coldpress_codec::{Compressed, PAGE_SIZE, Page, PageCodec, same_filled};

/// Bytes between two fences: more than any codec takes.
const ROOM: usize = 2 * PAGE_SIZE;

/// Memory between two fences, made once and never given back.
struct Fenced {
    bytes: *mut u8,
}

impl Fenced {
    fn new() -> Self {
        // SAFETY: fresh mappings, touched by nobody else.
        unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                ROOM + 2 * PAGE_SIZE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            let bytes = base.cast::<u8>().add(PAGE_SIZE);
            let open = libc::mprotect(bytes.cast(), ROOM, libc::PROT_READ | libc::PROT_WRITE);
            assert_eq!(open, 0);
            Self { bytes }
        }
    }

    /// The first `len` bytes, behind the lower fence, or the last ones, before the upper.
    fn bytes(&mut self, len: usize, at_back: bool) -> &mut [u8] {
        assert!(len <= ROOM);
        let skipped = if at_back { ROOM - len } else { 0 };
        // SAFETY: inside the bytes that were opened, and borrowed from `self`.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.add(skipped), len) }
    }
}

/// What one target keeps from input to input. There is one thread, and one codec a target.
struct Bench<C: PageCodec> {
    used_state: Box<C::State>,
    used_scratch: Box<C::Scratch>,
    input: Fenced,
    output: Fenced,
}

impl<C: PageCodec> Bench<C> {
    /// The one of this process.
    ///
    /// # Safety
    /// It is called with one `C` in a process, by one thread, which has given back the last one.
    unsafe fn get<'a>() -> &'a mut Self {
        struct Cell(UnsafeCell<*mut u8>);
        // SAFETY: used by one thread, by the contract of the function.
        unsafe impl Sync for Cell {}
        static BENCH: Cell = Cell(UnsafeCell::new(std::ptr::null_mut()));
        // SAFETY: the contract of the function.
        unsafe {
            let bench = BENCH.0.get();
            if (*bench).is_null() {
                let fresh = Box::new(Self {
                    used_state: zeroed(),
                    used_scratch: zeroed(),
                    input: Fenced::new(),
                    output: Fenced::new(),
                });
                *bench = Box::into_raw(fresh).cast();
            }
            &mut *(*bench).cast::<Self>()
        }
    }
}

/// A value of zeroes, made in place.
fn zeroed<T: Zeroable>() -> Box<T> {
    // SAFETY: T is Zeroable.
    unsafe { Box::<T>::new_zeroed().assume_init() }
}

/// Decodes `data`, twice; gives the page, if it is one.
pub fn decode<C: PageCodec>(codec: &C, data: &[u8]) -> Option<Page> {
    let data = &data[..data.len().min(ROOM)];
    // SAFETY: a target has one thread and one codec.
    let bench = unsafe { Bench::<C>::get() };
    let mut run = |scratch: &mut C::Scratch, before: u8, at_back: bool| {
        let input = bench.input.bytes(data.len(), at_back);
        input.copy_from_slice(data);
        let beside = bench.output.bytes(ROOM, false);
        beside.fill(!before);
        let page = bench.output.bytes(PAGE_SIZE, at_back);
        page.fill(before);
        let page: &mut Page = page.try_into().expect("a page");
        let outcome = codec.decompress(scratch, input, page).map(|()| *page);
        let beside = bench.output.bytes(PAGE_SIZE, !at_back);
        assert!(
            beside.iter().all(|byte| *byte == !before),
            "written beside the page"
        );
        outcome
    };
    let first = run(&mut bench.used_scratch, 0x00, true);
    let second = run(&mut zeroed(), 0xff, false);
    assert!(
        first == second,
        "I4: the outcome depends on what was before"
    );
    first.ok()
}

/// Encodes the page of `data` within the bound of `data`, twice, and decodes what is stored.
/// Gives what was stored, if anything was.
pub fn encode<C: PageCodec>(codec: &C, data: &[u8]) -> Option<Vec<u8>> {
    let (&[low, high, filler], data) = data.split_first_chunk()?;
    let bound = usize::from(u16::from_le_bytes([low, high])) % (PAGE_SIZE + 100);
    let page = page_of(filler, data);
    // SAFETY: a target has one thread and one codec.
    let bench = unsafe { Bench::<C>::get() };
    let mut run = |state: &mut C::State, before: u8, at_back: bool| {
        let input = bench.input.bytes(PAGE_SIZE, at_back);
        input.copy_from_slice(&page);
        let input: &Page = (&*input).try_into().expect("a page");
        let beside = bench.output.bytes(ROOM, false);
        beside.fill(!before);
        let out = bench.output.bytes(bound, at_back);
        out.fill(before);
        let outcome = codec.compress(state, input, out);
        let stored = match outcome {
            Compressed::Stored(len) => {
                assert!((1..=bound.min(PAGE_SIZE)).contains(&len), "I2");
                out[..len].to_vec()
            }
            _ => Vec::new(),
        };
        let beside = bench.output.bytes(ROOM - bound, !at_back);
        assert!(
            beside.iter().all(|byte| *byte == !before),
            "written beyond the bound"
        );
        (outcome, stored)
    };
    let first = run(&mut bench.used_state, 0x00, true);
    let second = run(&mut zeroed(), 0xff, false);
    assert!(
        first == second,
        "I3: the outcome depends on what was before"
    );
    let mut restored = [0x5a; PAGE_SIZE];
    let stored = match first {
        (Compressed::Stored(_), stored) => {
            codec
                .decompress(&mut bench.used_scratch, &stored, &mut restored)
                .expect("I2: what was stored decodes");
            Some(stored)
        }
        (Compressed::SameFilled(word), _) => {
            same_filled::fill(&mut restored, word);
            None
        }
        (Compressed::Incompressible, _) => return None,
    };
    assert!(restored == page, "I2: it comes back");
    stored
}

/// Asserts that every path of a codec says the same.
pub fn on_every_path<T: PartialEq>(run: impl Fn(Simd) -> T) {
    let expected = run(Simd::Portable);
    for simd in Simd::ALL.into_iter().filter(|simd| simd.is_available()) {
        assert!(
            run(simd) == expected,
            "P1: {} says something else",
            simd.name()
        );
    }
}

/// Tables for press-dense, the same ones in each process: of pages of pointers, of counters and
/// of letters.
pub fn dense_tables() -> &'static DenseTables {
    static TABLES: OnceLock<Box<DenseTables>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut trainer: Box<Trainer> = zeroed();
        let mut state = zeroed();
        let mut random = 1_u64;
        for number in 0..96 {
            let mut page = [0; PAGE_SIZE];
            for (i, word) in page.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let small = random >> 33;
                *word = match number % 3 {
                    0 => 0x7f12_3456_0000 + (small % 4096) * 16,
                    1 => (i as u64 / 4) + small % 3,
                    _ => u64::from_le_bytes([b'a' + (small % 20) as u8; 8]) ^ (small & 0x0f00),
                }
                .to_le_bytes();
            }
            trainer.add(&mut state, &page);
        }
        let mut tables = zeroed();
        trainer.finish(&mut tables);
        tables
    })
}

/// A page of bytes that may be fewer: the rest repeats them, or words of them, or is zero.
fn page_of(filler: u8, data: &[u8]) -> Page {
    let mut page = [0; PAGE_SIZE];
    let len = data.len().min(PAGE_SIZE);
    page[..len].copy_from_slice(&data[..len]);
    let period = match filler % 4 {
        0 => return page,
        1 => len,
        2 => len & !7,
        _ => usize::from(filler) + 1,
    };
    if (1..=len).contains(&period) {
        for i in len..PAGE_SIZE {
            page[i] = page[i - period];
        }
    }
    page
}
