//! `coldpress-advise`, the Rust call: the test starts itself once more, under a pager.

use coldpress_advise::{Advice, advise, advise_slice, is_managed};
use coldpress_promises::{Managed, Workplace, skip};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// This test, as its program knows it.
const ITSELF: &str = "sensitive_memory_in_rust::sensitive_memory_in_rust";
/// Set in the program under the pager.
const INSIDE: &str = "COLDPRESS_TEST_INSIDE";

const BYTES: usize = 8 << 20;
/// Pages that lie in so many bytes whole, behind the header of an allocation.
const WHOLE: usize = BYTES / PAGE - 1;

fn byte(seed: usize, n: usize) -> u8 {
    (seed + n / 64) as u8
}

/// Pages of `memory` that are in place, of those that lie in it whole.
fn in_place(memory: &[u8]) -> usize {
    let first = memory.as_ptr().align_offset(PAGE);
    let pages = (memory.len() - first) / PAGE;
    let mut seen = vec![0u8; pages];
    let start = memory[first..].as_ptr().cast_mut().cast();
    // SAFETY: `seen` has a byte for each page, and the pages are mapped.
    let result = unsafe { libc::mincore(start, pages * PAGE, seen.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    seen.into_iter().map(|byte| usize::from(byte & 1)).sum()
}

/// Waits until less than half of `memory` is in place, for twenty seconds at most; how many pages are.
fn await_taken(memory: &[u8]) -> usize {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let pages = in_place(memory);
        if pages < WHOLE / 2 || Instant::now() > deadline {
            return pages;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What the program does.
fn inside() {
    assert!(is_managed(), "no pager");
    let [sensitive, other] =
        [1, 2].map(|seed| (0..BYTES).map(|n| byte(seed, n)).collect::<Vec<u8>>());
    let pages = await_taken(&sensitive);
    assert!(pages < WHOLE / 2, "nothing was taken: {pages} pages");
    assert!(advise_slice(&sensitive, Advice::LatencySensitive).unwrap());
    assert_eq!(in_place(&sensitive), WHOLE, "not all is back");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(in_place(&sensitive), WHOLE, "it was taken");
    assert!(
        await_taken(&other) < WHOLE / 2,
        "other memory was not taken"
    );
    assert!(advise_slice(&sensitive, Advice::Normal).unwrap());
    assert!(
        await_taken(&sensitive) < WHOLE / 2,
        "it is not like any other again"
    );
    let odd = advise(std::ptr::without_provenance(PAGE + 1), PAGE, Advice::Normal);
    assert_eq!(odd.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!((0..BYTES).all(|n| sensitive[n] == byte(1, n) && other[n] == byte(2, n)));
    println!("\nOK {pages} of {WHOLE} pages in place, all of them when they are sensitive");
    std::process::exit(0); // before the test runner's own lines
}

#[test]
fn sensitive_memory_in_rust() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("sensitive-rust");
    let itself = std::env::current_exe().unwrap();
    let managed = Managed::new(&place)
        .budget("1G")
        .option("--cold-after", "200ms")
        .environment(INSIDE, "1");
    let arguments = ["--exact", ITSELF, "--nocapture"];
    managed.survive(&itself, arguments);
}
