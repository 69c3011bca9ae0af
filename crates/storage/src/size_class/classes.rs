//! zsmalloc's size classes: which sizes there are, and how many frames make a chain.
//!
//! Sizes are 32, 48, 64, … 4,096. For each the length of the chain is chosen, 1 to 8 frames,
//! that wastes the fewest bytes at its end; a power of two takes one frame. Classes that agree
//! in frames and objects a chain are one, with the largest of their sizes: the same chain holds
//! the same number of objects either way.
//!
//! ```text
//!  size    1,616 ──▶ 1,632      2,032 ──▶ 2,048   …      4,080 ──────▶ 4,096
//!          5 in two frames      2 in one                 1 in one: "huge"
//! ```
//!
//! The constants and the choice are those of `mm/zsmalloc.c` (`calculate_zspage_chain_size`,
//! `can_merge`, `zs_create_pool`) with `CONFIG_ZSMALLOC_CHAIN_SIZE` 8.
#![forbid(unsafe_code)]

use crate::access::LINK_BYTES;
use crate::frame::FRAME_BYTES;

/// Most frames of a chain.
pub(super) const CHAIN: usize = 8;

/// Smallest class, `ZS_MIN_ALLOC_SIZE`.
const MINIMUM_BYTES: usize = 32;

/// Difference between two classes, `ZS_SIZE_CLASS_DELTA`.
const DELTA_BYTES: usize = 16;

/// Number of sizes, `ZS_SIZE_CLASSES`.
pub(super) const CLASSES: usize = (FRAME_BYTES - MINIMUM_BYTES).div_ceil(DELTA_BYTES) + 1;

/// A size of objects.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Class {
    /// Bytes of an object, the word at its head included.
    pub(super) bytes: u16,
    /// Frames of a chain.
    pub(super) frames: u16,
    /// Objects in a chain.
    pub(super) objects: u16,
}

/// The class of each size; classes that are merged stand for all of theirs.
const TABLE: [Class; CLASSES] = table();

const fn table() -> [Class; CLASSES] {
    let mut table = [Class {
        bytes: 0,
        frames: 0,
        objects: 0,
    }; CLASSES];
    let mut index = CLASSES;
    while index > 0 {
        index -= 1;
        let size = MINIMUM_BYTES + index * DELTA_BYTES;
        let bytes = if size > FRAME_BYTES {
            FRAME_BYTES
        } else {
            size
        };
        let frames = chain_of(bytes);
        let class = Class {
            bytes: bytes as u16,
            frames: frames as u16,
            objects: (frames * FRAME_BYTES / bytes) as u16,
        };
        table[index] = class;
        if index + 1 < CLASSES {
            let larger = table[index + 1];
            if larger.frames == class.frames && larger.objects == class.objects {
                table[index] = larger;
            }
        }
    }
    table
}

/// `calculate_zspage_chain_size`.
const fn chain_of(bytes: usize) -> usize {
    if bytes.is_power_of_two() {
        return 1;
    }
    let (mut best, mut least_waste) = (1, usize::MAX);
    let mut frames = 1;
    while frames <= CHAIN {
        let waste = frames * FRAME_BYTES % bytes;
        if waste < least_waste {
            (best, least_waste) = (frames, waste);
        }
        frames += 1;
    }
    best
}

impl Class {
    /// The class with this number.
    pub(super) fn get(number: usize) -> Self {
        TABLE[number]
    }

    /// Whether a chain is one frame with one object: then there is no word at its head.
    pub(super) fn is_huge(self) -> bool {
        self.frames == 1 && self.objects == 1
    }
}

/// The number of the class for objects of `len` bytes: that of the largest size merged into it.
pub(super) fn class_for(len: usize) -> usize {
    let bytes = (len + LINK_BYTES).clamp(MINIMUM_BYTES, FRAME_BYTES);
    let class = TABLE[(bytes - MINIMUM_BYTES).div_ceil(DELTA_BYTES)];
    (usize::from(class.bytes) - MINIMUM_BYTES) / DELTA_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_zsmalloc() {
        assert_eq!(CLASSES, 255);
        // By the rules of zsmalloc, worked out by hand.
        for (bytes, frames, objects) in [
            (32, 1, 128),
            (48, 3, 256),
            (64, 1, 64),
            (96, 3, 128),
            (1632, 2, 5),
            (192, 3, 64),
            (2048, 1, 2),
            (2720, 2, 3),
            (4096, 1, 1),
        ] {
            let class = Class::get(class_for(bytes - LINK_BYTES));
            assert_eq!(
                (class.bytes, class.frames, class.objects),
                (bytes as u16, frames, objects)
            );
        }
    }

    #[test]
    fn every_length_has_a_class_that_takes_it() {
        for len in 1..=FRAME_BYTES {
            let class = Class::get(class_for(len));
            assert!(usize::from(class.bytes) >= (len + LINK_BYTES).min(FRAME_BYTES));
            assert!(usize::from(class.objects) * usize::from(class.bytes) <= 8 * FRAME_BYTES);
            assert!(class.is_huge() || usize::from(class.bytes) >= len + LINK_BYTES);
            assert_eq!(
                class_for(usize::from(class.bytes) - LINK_BYTES),
                class_for(len)
            );
        }
    }

    #[test]
    fn classes_that_pack_alike_are_one() {
        let distinct = (0..CLASSES)
            .filter(|n| *n + 1 == CLASSES || Class::get(*n) != Class::get(n + 1))
            .count();
        assert!((50..CLASSES).contains(&distinct), "{distinct}");
        let merged = (1..=FRAME_BYTES).any(|len| {
            usize::from(Class::get(class_for(len)).bytes) >= len + LINK_BYTES + 2 * DELTA_BYTES
        });
        assert!(merged);
    }
}
