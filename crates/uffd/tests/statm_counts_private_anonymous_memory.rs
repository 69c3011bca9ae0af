//! Fact: in `/proc/self/statm`, resident less shared is private anonymous resident memory, the
//! `RssAnon` of `/proc/self/status`: it grows with anonymous pages, not with file or shared ones.
//!
//! The pager measures by it every few milliseconds what its budget limits.

use crate::common::{self, Pages};

const MIB: usize = 256; // pages

fn statm_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let mut fields = text
        .split(' ')
        .map(|f| f.trim().parse::<usize>().unwrap_or(0));
    let resident = fields.nth(1).expect("resident");
    (resident - fields.next().expect("shared")) * common::PAGE
}

fn rss_anon_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = text.lines().find(|l| l.starts_with("RssAnon:"));
    let kib = line
        .and_then(|l| l.split_whitespace().nth(1))
        .expect("RssAnon");
    kib.parse::<usize>().expect("a number") * 1024
}

#[test]
fn it_is_rss_anon_and_follows_anonymous_memory_alone() {
    let _begun = common::begin("statm");
    // The kernel keeps these counts a processor, and sums them loosely.
    let near = |a: usize, b: usize| a.abs_diff(b) < 2 << 20;
    let before = statm_bytes();
    assert!(near(before, rss_anon_bytes()));
    let memory = Pages::map(64 * MIB);
    for n in 0..memory.count {
        memory.fill(n, 1);
    }
    let filled = statm_bytes();
    assert!(near(filled, before + (64 << 20)), "{before} {filled}");
    assert!(near(filled, rss_anon_bytes()));

    let len = 32 * MIB * common::PAGE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: a fresh mapping at a place of the kernel's choice.
    let shared = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_WRITE, flags, -1, 0) };
    assert_ne!(shared, libc::MAP_FAILED);
    assert!(near(statm_bytes(), filled), "shared memory is not counted");
}
