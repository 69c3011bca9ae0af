//! WKdm: a word and its sixteen likely predecessors.
//!
//! The algorithm of Wilson, Kaplan and Smaragdakis ("The Case for Compressed Caching in Virtual
//! Memory Systems", USENIX 1999), made for the memory of programs: most words are zero, or equal
//! to a word shortly before, or differ from one in their low bits, as pointers into the same
//! region do. Each 32-bit word is compared with one entry of a direct-mapped dictionary of 16
//! words, chosen by a hash of its upper 22 bits, and becomes one of four tags:
//!
//! ```text
//!  tag        the word …                                follows in          then the entry
//!  0 zero     is zero                                   –                   stays
//!  1 partial  has the upper 22 bits of its entry        places, low bits    becomes the word
//!  2 miss     is another one                            words               becomes the word
//!  3 exact    is its entry                              places              stays
//!
//!  31                            10 9            0
//!  ┌──────────────────────────────┬──────────────┐
//!  │ upper 22 bits: looked up     │ low 10 bits  │
//!  └──────────────────────────────┴──────────────┘
//! ```
//!
//! Stored are four sections, one behind the other, without a header, since the tags tell the
//! length of the rest. With `m` misses, `p` partial and `e` exact matches:
//!
//! ```text
//!  ┌──────────────┬─────────────────┬──────────────────────┬──────────────────────────┐
//!  │ tags, 2 bits │ words of misses │ places in the dict., │ low bits of partial      │
//!  │ a word       │ 4 bytes each    │ 4 bits each          │ matches, 3 in 32 bits    │
//!  ├──────────────┼─────────────────┼──────────────────────┼──────────────────────────┤
//!  │ 256 bytes    │ 4 m             │ ⌈(p + e) / 2⌉        │ 4 ⌈p / 3⌉                │
//!  └──────────────┴─────────────────┴──────────────────────┴──────────────────────────┘
//! ```
//!
//! Words are little-endian. In bytes and words the first item lies in the lowest bits, and bits
//! that no item takes are zero. The dictionary begins as sixteen zeroes, and place
//! `(word >> 10) * 2654435761 mod 2^32 >> 28` is where a word is looked up and entered. (The
//! paper leaves the hash to a table of random numbers, and stores the lengths of sections.)
//!
//! Invariants, besides those of the crate:
//! * I5 The bytes needed so far are known at each word: 256, 4 a miss, half a byte a place and
//!   4 for three partial matches begun. The compressor compares them with the bound 32 times a
//!   page, the last time at its end, and stops when they exceed it.
//! * I6 The decoder counts the tags first, and takes only what is exactly as long as they say.
//!
//! What is not here: words of 64 bits (the entries of which rarely match: the upper half
//! of a pointer and its lower half are better looked up apart), and a fast path by vectors.

use coldpress_arena::Zeroable;

use crate::{Compressed, Corrupt, PAGE_SIZE, Page, PageCodec, same_filled::same_filled};

/// 32-bit words of a page.
const WORDS: usize = PAGE_SIZE / 4;

/// Bytes of the tags: two bits a word.
const TAG_BYTES: usize = WORDS / 4;

/// Words under one byte of tags.
const GROUP: usize = 4;

/// Groups after which the bytes needed are compared with the bound: 32 comparisons a page.
const GROUPS_BETWEEN_CHECKS: usize = 8;

/// Words of the dictionary.
const PLACES: usize = 16;

/// Bits of a word that may differ in a partial match.
const LOW_BITS: u32 = 10;

const ZERO: u8 = 0;
const PARTIAL: u8 = 1;
const MISS: u8 = 2;
const EXACT: u8 = 3;

/// WKdm with its parameter.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Wkdm {
    /// Tells pages that are one repeated word before trying to compress them.
    pub detect_same_filled: bool,
}

impl Default for Wkdm {
    fn default() -> Self {
        Self {
            detect_same_filled: true,
        }
    }
}

/// What goes into the sections behind the tags, unpacked. It carries nothing from one page to
/// the next: items are read up to the number that was written for this page.
///
/// Each array has room for one item more than a page can have, so that the item after the last
/// can be written, or read, without asking whether there is one.
#[repr(C, align(64))]
pub struct WkdmSections {
    misses: [[u8; 4]; WORDS + 1],
    low_bits: [u16; WORDS + 3],
    places: [u8; WORDS + 2],
}

// SAFETY: plain integers; zero is a valid value, and there is nothing to drop.
unsafe impl Zeroable for WkdmSections {}

impl WkdmSections {
    /// Fresh ones, for a `static`.
    pub const fn new() -> Self {
        Self {
            misses: [[0; 4]; WORDS + 1],
            low_bits: [0; WORDS + 3],
            places: [0; WORDS + 2],
        }
    }
}

impl Default for WkdmSections {
    fn default() -> Self {
        Self::new()
    }
}

/// How many items the sections have; the tags tell.
#[derive(Copy, Clone, Default)]
struct Counts {
    misses: usize,
    partial: usize,
    /// Partial and exact matches.
    places: usize,
}

impl Counts {
    fn of(tags: &[u8; TAG_BYTES]) -> Self {
        /// The lower bit of each tag.
        const LOWER: u64 = 0x5555_5555_5555_5555;
        let mut counts = Self::default();
        for tags in tags.as_chunks::<8>().0 {
            let tags = u64::from_le_bytes(*tags);
            let (lower, upper) = (tags & LOWER, tags >> 1 & LOWER);
            counts.misses += (upper & !lower).count_ones() as usize;
            counts.partial += (lower & !upper).count_ones() as usize;
            counts.places += lower.count_ones() as usize;
        }
        counts
    }

    /// Where the places begin.
    fn places_at(&self) -> usize {
        TAG_BYTES + 4 * self.misses
    }

    /// Where the low bits begin.
    fn low_bits_at(&self) -> usize {
        self.places_at() + self.places.div_ceil(2)
    }

    /// Bytes of all sections (I5).
    fn bytes(&self) -> usize {
        self.low_bits_at() + 4 * self.partial.div_ceil(3)
    }
}

/// Where in the dictionary a word is looked up, and entered.
#[inline(always)]
fn place(word: u32) -> usize {
    ((word >> LOW_BITS).wrapping_mul(2_654_435_761) >> 28) as usize
}

impl PageCodec for Wkdm {
    const NAME: &'static str = "wkdm";
    type State = WkdmSections;
    type Scratch = WkdmSections;

    fn compress(&self, sections: &mut WkdmSections, page: &Page, out: &mut [u8]) -> Compressed {
        if self.detect_same_filled
            && let Some(word) = same_filled(page)
        {
            return Compressed::SameFilled(word);
        }
        let limit = out.len().min(PAGE_SIZE);
        let Some((tags, behind_tags)) = out[..limit].split_first_chunk_mut() else {
            return Compressed::Incompressible;
        };
        let Some(counts) = classify(sections, page, tags, limit) else {
            return Compressed::Incompressible;
        };
        pack(sections, counts, behind_tags);
        Compressed::Stored(counts.bytes())
    }

    fn decompress(
        &self,
        sections: &mut WkdmSections,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        let (tags, behind_tags) = stored.split_first_chunk().ok_or(Corrupt)?;
        let counts = Counts::of(tags);
        if stored.len() != counts.bytes() || stored.len() > PAGE_SIZE {
            return Err(Corrupt); // I6
        }
        unpack(sections, counts, behind_tags)?;
        restore(sections, tags, page);
        Ok(())
    }
}

/// Gives each word of the page its tag, and collects what goes behind the tags. `None` if it
/// does not fit `limit` bytes (I5).
///
/// There is no branch on a word: what a word does not need is written all the same, where the
/// next one will write over it.
fn classify(
    sections: &mut WkdmSections,
    page: &Page,
    tags: &mut [u8; TAG_BYTES],
    limit: usize,
) -> Option<Counts> {
    let mut dictionary = [0_u32; PLACES];
    let mut counts = Counts::default();
    let groups = page.as_chunks::<{ 4 * GROUP }>().0;
    for (group, (tags, words)) in tags.iter_mut().zip(groups).enumerate() {
        let mut byte = 0;
        for (i, bytes) in words.as_chunks::<4>().0.iter().enumerate() {
            let word = u32::from_le_bytes(*bytes);
            let place = place(word);
            let entry = dictionary[place];
            let matched = if word == entry { EXACT } else { PARTIAL };
            let found = if (word ^ entry) >> LOW_BITS == 0 {
                matched
            } else {
                MISS
            };
            let tag = if word == 0 { ZERO } else { found };
            dictionary[place] = if word == 0 { entry } else { word };
            sections.misses[counts.misses] = *bytes;
            counts.misses += usize::from(tag == MISS);
            sections.places[counts.places] = place as u8;
            counts.places += usize::from(tag & 1);
            sections.low_bits[counts.partial] = (word & ((1 << LOW_BITS) - 1)) as u16;
            counts.partial += usize::from(tag == PARTIAL);
            byte |= tag << (2 * i);
        }
        *tags = byte;
        if (group + 1) % GROUPS_BETWEEN_CHECKS == 0 && counts.bytes() > limit {
            return None;
        }
    }
    Some(counts)
}

/// Writes what goes behind the tags. It fits: the bound was kept.
fn pack(sections: &mut WkdmSections, counts: Counts, behind_tags: &mut [u8]) {
    let behind_tags = &mut behind_tags[..counts.bytes() - TAG_BYTES];
    let (misses, rest) = behind_tags.split_at_mut(4 * counts.misses);
    let (places, low_bits) = rest.split_at_mut(counts.places.div_ceil(2));
    misses.copy_from_slice(sections.misses[..counts.misses].as_flattened());
    // Bits that no item takes are zero.
    sections.places[counts.places] = 0;
    sections.low_bits[counts.partial..][..2].fill(0);
    for (byte, pair) in places.iter_mut().zip(sections.places.as_chunks::<2>().0) {
        *byte = pair[0] | pair[1] << 4;
    }
    let packed = low_bits.as_chunks_mut::<4>().0;
    for (bytes, three) in packed.iter_mut().zip(sections.low_bits.as_chunks::<3>().0) {
        let [first, second, third] = three.map(u32::from);
        *bytes = (first | second << LOW_BITS | third << (2 * LOW_BITS)).to_le_bytes();
    }
}

/// Reads what goes behind the tags, which is as long as they say (I6).
fn unpack(sections: &mut WkdmSections, counts: Counts, behind_tags: &[u8]) -> Result<(), Corrupt> {
    const LOW: u32 = (1 << LOW_BITS) - 1;
    let (misses, rest) = behind_tags.split_at(4 * counts.misses);
    let (places, low_bits) = rest.split_at(counts.places.div_ceil(2));
    sections.misses[..counts.misses]
        .as_flattened_mut()
        .copy_from_slice(misses);
    for (byte, pair) in places.iter().zip(sections.places.as_chunks_mut::<2>().0) {
        *pair = [byte & 15, byte >> 4];
    }
    let mut unused = 0;
    let packed = low_bits.as_chunks::<4>().0;
    for (bytes, three) in packed.iter().zip(sections.low_bits.as_chunks_mut::<3>().0) {
        let bits = u32::from_le_bytes(*bytes);
        let low = |at: u32| (bits >> at & LOW) as u16;
        *three = [low(0), low(LOW_BITS), low(2 * LOW_BITS)];
        unused |= bits >> (3 * LOW_BITS);
    }
    if counts.places % 2 == 1 {
        unused |= u32::from(sections.places[counts.places]);
    }
    for low_bits in &sections.low_bits[counts.partial..counts.partial.next_multiple_of(3)] {
        unused |= u32::from(*low_bits);
    }
    if unused == 0 { Ok(()) } else { Err(Corrupt) }
}

/// Writes the words that the tags tell of. An item that is looked at without being needed may be
/// an earlier page's: it is not used.
fn restore(sections: &WkdmSections, tags: &[u8; TAG_BYTES], page: &mut Page) {
    let mut dictionary = [0_u32; PLACES];
    let mut counts = Counts::default();
    for (tags, words) in tags.iter().zip(page.as_chunks_mut::<{ 4 * GROUP }>().0) {
        for (i, bytes) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let tag = tags >> (2 * i) & 3;
            let missed = u32::from_le_bytes(sections.misses[counts.misses]);
            let low_bits = u32::from(sections.low_bits[counts.partial]);
            let found = usize::from(sections.places[counts.places]);
            let place = if tag == MISS { place(missed) } else { found } % PLACES;
            let entry = dictionary[place];
            let partial = entry >> LOW_BITS << LOW_BITS | low_bits;
            let matched = if tag == PARTIAL { partial } else { entry };
            let entered = if tag == MISS { missed } else { matched };
            let word = if tag == ZERO { 0 } else { entered };
            dictionary[place] = if tag == ZERO { entry } else { word };
            *bytes = word.to_le_bytes();
            counts.misses += usize::from(tag == MISS);
            counts.places += usize::from(tag & 1);
            counts.partial += usize::from(tag == PARTIAL);
        }
    }
}
