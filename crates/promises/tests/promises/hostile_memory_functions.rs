//! The preload library's own memory functions do what C's do, for every length, alignment and overlap that has
//! a path of its own in them.
//!
//! `cargo test --release -p coldpress-promises --test promises hostile_memory_functions -- --ignored --show-output`
//! compares their speed with that of the C library.

use std::arch::global_asm;
use std::hint::black_box;
use std::time::Instant;

global_asm!(
    include_str!("../../../preload/src/memory_functions.s"),
    options(raw)
);

unsafe extern "C" {
    fn coldpress_memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
    fn coldpress_memset(to: *mut u8, byte: i32, len: usize) -> *mut u8;
    fn coldpress_memcmp(a: *const u8, b: *const u8, len: usize) -> i32;
    fn coldpress_strlen(text: *const u8) -> usize;
}

/// Lengths around each border between two paths, and some far from any.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=300).chain([511, 512, 513, 1000, 4095, 4096, 4097, 10_000])
}

fn pattern(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn copies_are_right_however_they_overlap() {
    let distances = [
        0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 200, 5000,
    ];
    for len in lengths() {
        for distance in distances {
            for (offset, upwards) in [(0, true), (1, true), (9, false), (16, false)] {
                let from = 64 + offset + if upwards { 0 } else { distance };
                let to = 64 + offset + if upwards { distance } else { 0 };
                let mut bytes = pattern(128 + 16 + len + distance);
                let mut expected = bytes.clone();
                expected.copy_within(from..from + len, to);
                let at = bytes.as_mut_ptr();
                // SAFETY: both ranges lie in `bytes`.
                let result = unsafe { coldpress_memmove(at.add(to), at.add(from), len) };
                assert_eq!(result, at.wrapping_add(to));
                assert!(bytes == expected, "{len} bytes from {from} to {to}");
            }
        }
    }
}

#[test]
fn sets_are_right() {
    for len in lengths() {
        for offset in 0..17 {
            let mut bytes = pattern(len + 64);
            let mut expected = bytes.clone();
            expected[offset..offset + len].fill(0xA5);
            let at = bytes.as_mut_ptr().wrapping_add(offset);
            // SAFETY: the range lies in `bytes`; only the low byte counts.
            let result = unsafe { coldpress_memset(at, 0x1A5, len) };
            assert_eq!(result, at);
            assert!(bytes == expected, "{len} bytes at {offset}");
        }
    }
}

#[test]
fn comparisons_are_right() {
    for len in lengths() {
        let a = pattern(len);
        let mut b = a.clone();
        // SAFETY: both have `len` bytes.
        let compare = |a: &[u8], b: &[u8]| unsafe { coldpress_memcmp(a.as_ptr(), b.as_ptr(), len) };
        assert_eq!(compare(&a, &b), 0, "{len} bytes");
        for differs in 0..len {
            if len > 300 && differs % 61 != 0 {
                continue;
            }
            for value in [a[differs] ^ 0x80, a[differs].wrapping_add(1)] {
                b[differs] = value;
                // A later difference counts no more.
                if let Some(last) = b.last_mut().filter(|_| differs + 1 < len) {
                    *last = !*last;
                }
                let expected = a.cmp(&b) as i32;
                assert_eq!(
                    compare(&a, &b).signum(),
                    expected,
                    "{len} bytes, {differs} differs"
                );
                b.copy_from_slice(&a);
            }
        }
    }
}

#[test]
fn lengths_are_right() {
    for len in lengths() {
        let mut text = vec![b'x'; len];
        text.extend([0, b'y']);
        // SAFETY: there is a zero in it.
        assert_eq!(unsafe { coldpress_strlen(text.as_ptr()) }, len);
    }
}

type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;
type Set = unsafe extern "C" fn(*mut u8, i32, usize) -> *mut u8;

/// Nanoseconds a call, the least of five rounds.
fn timed(mut call: impl FnMut(usize)) -> f64 {
    const CALLS: usize = 400_000;
    let round = |_| {
        let started = Instant::now();
        (0..CALLS).for_each(&mut call);
        started.elapsed().as_secs_f64() * 1e9 / CALLS as f64
    };
    (0..5).map(round).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "prints a comparison; nothing is asserted of time"]
fn compared_with_the_c_library() {
    let theirs: (Copy, Set) = black_box((
        // SAFETY: C's function has this type, its pointers being of other names.
        unsafe { std::mem::transmute::<*const (), Copy>(libc::memcpy as *const ()) },
        // SAFETY: as above.
        unsafe { std::mem::transmute::<*const (), Set>(libc::memset as *const ()) },
    ));
    let ours: (Copy, Set) = black_box((coldpress_memmove, coldpress_memset));
    let from = pattern(1 << 16);
    let mut to = vec![0u8; 1 << 16];
    println!("ns a call    memcpy: ours  C library   memset: ours  C library");
    for len in [
        3, 8, 16, 24, 48, 64, 100, 128, 200, 256, 512, 1024, 2048, 4096,
    ] {
        let mut copy = |by: Copy| {
            let (to, from) = (to.as_mut_ptr(), from.as_ptr());
            timed(|n| {
                // SAFETY: source and target have 64 KiB.
                unsafe {
                    by(
                        to.add(n * 67 % 4096),
                        from.add(n * 131 % 4096),
                        black_box(len),
                    )
                };
            })
        };
        let copies = (copy(ours.0), copy(theirs.0));
        let mut set = |by: Set| {
            let to = to.as_mut_ptr();
            timed(|n| {
                // SAFETY: the target has 64 KiB.
                unsafe { by(to.add(n * 67 % 4096), 0, black_box(len)) };
            })
        };
        let sets = (set(ours.1), set(theirs.1));
        println!(
            "{len:>9} {:>17.1} {:>10.1} {:>14.1} {:>10.1}",
            copies.0, copies.1, sets.0, sets.1
        );
    }
}
