//! Promise: what is on the device tells nothing of what was written: not a word of it is there.

use crate::common::{Run, SEGMENT};
use coldpress_tier::{Handle, Tier};

const CANARY: &[u8; 16] = b"COLDPRESS-CANARY";

/// Places at which eight bytes of the canary are found.
fn found(bytes: &[u8]) -> usize {
    let words: Vec<&[u8]> = CANARY.windows(8).collect();
    bytes
        .windows(8)
        .filter(|window| words.contains(window))
        .count()
}

#[test]
fn no_byte_of_a_page_is_on_the_device() {
    let mut run = Run::new(32, 2000, 5, None);
    let page: Vec<u8> = CANARY.iter().copied().cycle().take(400).collect();
    let put = |tier: &mut Tier<'_, _>, owner| tier.put(owner, &page);
    let handles: Vec<Handle> = (0..200).map(|n| put(&mut run.tier, n).unwrap()).collect();
    // Cleaned and moved, too.
    for (owner, handle) in (0..).zip(&handles).step_by(2) {
        assert!(run.tier.remove(*handle, owner));
    }
    while run.tier.counts().moved_records == 0 {
        run.put().unwrap();
    }
    run.tier.sync().unwrap();
    let device = run.tier.device();
    let zeros = device
        .bytes
        .chunks(16)
        .filter(|chunk| chunk.iter().all(|byte| *byte == 0));
    assert!(
        zeros.count() * 16 < device.bytes.len() / 4,
        "much was written"
    );
    assert_eq!(found(&device.bytes), 0);
    // The scan finds what is there.
    device.bytes[SEGMENT..][..400].copy_from_slice(&page);
    assert!(found(&device.bytes) > 200);
}
