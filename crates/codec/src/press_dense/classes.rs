//! Classes of literals: bytes that are alike get a table of their own.
//!
//! | class | literals |
//! |---|---|
//! | 0 | of words with seven or eight of them: text, and words like no other |
//! | 1 | of words whose candidate is zero: small numbers |
//! | 2 | of other words, the lowest byte |
//! | 3 | of other words, the second byte |
//! | 4 | of other words, the upper six bytes |
//!
//! Code and mask of each word tell the classes of its literals, so nothing about them is stored.
//!
//! The literals of a word are at most three *pieces*, each of one class: of class 3 and of class 4, after the first,
//! which is of class 0, 1 or 2. A piece is copied with eight bytes, whatever its length; what is
//! too much is overwritten by the next piece. So no branch depends on a page.
#![deny(unsafe_code)]

use coldpress_arena::Zeroable;

use super::tables::{CLASSES, LISTING_CODES};
use crate::PAGE_SIZE;
use crate::press::format::{BLOCK_WORDS, CODES, Candidate, Mask, WORDS};
use crate::press::state::Streams;

/// Literals of a word from this number on are of class 0.
pub(crate) const MANY: u32 = 7;

/// Room for the literals of a class, and for a vector behind them.
pub(crate) const CLASS_BYTES: usize = PAGE_SIZE + BLOCK_WORDS;

/// Room for the masks that one code lists, and for a vector behind them.
pub(crate) const LIST_BYTES: usize = WORDS + BLOCK_WORDS;

/// How many codes list masks.
pub(crate) const LISTS: usize = LISTING_CODES.end - LISTING_CODES.start;

/// The sequences of a page, beside its codes and distances.
#[repr(C, align(64))]
pub(crate) struct Sequences {
    pub literals: [[u8; CLASS_BYTES]; CLASSES],
    pub literal_counts: [usize; CLASSES],
    pub masks: [[u8; LIST_BYTES]; LISTS],
    pub mask_counts: [usize; LISTS],
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
#[allow(unsafe_code)]
unsafe impl Zeroable for Sequences {}

impl Sequences {
    pub(crate) fn clear(&mut self) {
        self.literal_counts = [0; CLASSES];
        self.mask_counts = [0; LISTS];
    }

    pub(crate) fn literals(&self, class: usize) -> &[u8] {
        &self.literals[class][..self.literal_counts[class]]
    }

    pub(crate) fn masks(&self, list: usize) -> &[u8] {
        &self.masks[list][..self.mask_counts[list]]
    }
}

/// The masks of a page.
#[repr(C, align(64))]
pub(crate) struct Masks {
    /// Of each word.
    pub all: [u8; WORDS],
    /// The row of [`PIECES`] for each word.
    rows: [u16; WORDS],
    /// Those that are listed, in the order of the words.
    pub listed: [u8; WORDS],
}

/// The counts of all lists in one integer: ten bits for each, since there are 512 words.
mod lists {
    use super::LISTS;

    const BITS: u32 = 10;

    /// One more in this list.
    pub(super) const fn one(list: usize) -> u64 {
        1 << (BITS * list as u32)
    }

    #[inline(always)]
    pub(super) fn of(counts: u64, list: u8) -> usize {
        (counts >> (BITS * u32::from(list))) as usize & ((1 << BITS) - 1)
    }

    #[inline(always)]
    pub(super) fn unpack(counts: u64) -> [usize; LISTS] {
        core::array::from_fn(|list| of(counts, list as u8))
    }
}

/// The counts of all classes in one integer: thirteen bits for each of the first three, since there are 4,096
/// literals, ten for class 3 (one a word) and twelve for class 4 (six a word).
mod counts {
    use super::CLASSES;

    pub(super) const AT: [u8; CLASSES] = [0, 13, 26, 39, 49];

    #[inline(always)]
    pub(super) fn of_class_3(counts: u64) -> usize {
        (counts >> AT[3]) as usize & 0x3ff
    }

    #[inline(always)]
    pub(super) fn of_class_4(counts: u64) -> usize {
        (counts >> AT[4]) as usize & 0xfff
    }

    /// Of class 0, 1 or 2, whose bits begin there.
    #[inline(always)]
    pub(super) fn of_first(counts: u64, at: u8) -> usize {
        (counts >> at) as usize & 0x1fff
    }

    #[inline(always)]
    pub(super) fn unpack(counts: u64) -> [usize; CLASSES] {
        [
            of_first(counts, AT[0]),
            of_first(counts, AT[1]),
            of_first(counts, AT[2]),
            of_class_3(counts),
            of_class_4(counts),
        ]
    }
}

/// What a code says of a word.
#[derive(Copy, Clone)]
struct Form {
    /// The mask; 0 where it is listed.
    mask: u8,
    /// All bits where the mask is listed.
    if_listed: u8,
    /// Which list; 0 where it is not listed.
    list: u8,
    /// One more in that list.
    listed: u64,
    /// The first row of [`PIECES`] for it.
    row: u16,
}

const FORMS: [Form; 16] = {
    let mut forms = [Form {
        mask: 0,
        if_listed: 0,
        list: 0,
        listed: 0,
        row: 0,
    }; 16];
    let mut code = 0;
    while code < 16 {
        let form = &mut forms[code];
        if matches!(CODES[code].0, Candidate::Zero) {
            form.row = 256;
        }
        match CODES[code].1 {
            Mask::Is(mask) => form.mask = mask,
            Mask::Listed => {
                let list = code - LISTING_CODES.start;
                form.if_listed = 0xff;
                form.list = list as u8;
                form.listed = lists::one(list);
            }
        }
        code += 1;
    }
    forms
};

/// The pieces of a word's literals.
#[derive(Copy, Clone)]
struct Pieces {
    /// How many literals of each class, as [`counts`] packs them.
    counts: u64,
    /// Where the class of the first piece begins in the literals of all classes.
    class_at: u16,
    /// Where its count begins in [`counts`].
    count_at: u8,
    /// Where the first piece ends, and where the second, of class 3. The rest is of class 4.
    ends: [u8; 2],
    /// Bytes of all.
    len: u8,
}

/// By mask, and behind that again for words whose candidate is zero.
const PIECES: [Pieces; 512] = {
    let mut table = [Pieces {
        counts: 0,
        class_at: 0,
        count_at: 0,
        ends: [0; 2],
        len: 0,
    }; 512];
    let mut row = 0;
    while row < 512 {
        let (is_zero, mask) = (row >= 256, row as u8);
        let len = mask.count_ones() as u8;
        let (class, ends) = if len as u32 >= MANY {
            (0, [len, len])
        } else if is_zero {
            (1, [len, len])
        } else {
            (2, [mask & 1, (mask & 3).count_ones() as u8])
        };
        let counts = (ends[0] as u64) << counts::AT[class]
            | ((ends[1] - ends[0]) as u64) << counts::AT[3]
            | ((len - ends[1]) as u64) << counts::AT[4];
        table[row] = Pieces {
            counts,
            class_at: before(class) as u16,
            count_at: counts::AT[class],
            ends,
            len,
        };
        row += 1;
    }
    table
};

/// What comes before the literals of a class in those of all classes.
const fn before(class: usize) -> usize {
    class * CLASS_BYTES
}

/// What the code of a word says.
#[inline(always)]
fn form(codes: &[u8; WORDS / 2], word: usize) -> &'static Form {
    &FORMS[(codes[word / 2] >> (4 * (word % 2)) & 15) as usize]
}

#[inline(always)]
fn pieces(row: u16) -> &'static Pieces {
    &PIECES[usize::from(row) % PIECES.len()]
}

/// Eight bytes from there on.
#[inline(always)]
fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// Writes eight bytes from there on.
#[inline(always)]
fn store(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(to) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = value.to_le_bytes();
    }
}

/// Sorts the masks and the literals of the streams into sequences.
#[inline(always)]
pub(crate) fn split(streams: &Streams, sequences: &mut Sequences) {
    let (mut listed, mut count) = (0, 0);
    let (mut masks, mut literals) = (0, 0);
    for word in 0..WORDS {
        let form = form(&streams.codes, word);
        let mask = form.mask | streams.masks[masks] & form.if_listed;
        // Where it is not listed, a byte behind the end of list 0.
        sequences.masks[usize::from(form.list)][lists::of(listed, form.list)] = mask;
        listed += form.listed;
        masks += usize::from(form.if_listed & 1);

        let pieces = pieces(form.row | u16::from(mask));
        let bytes = load(&streams.literals, literals);
        let classes = sequences.literals.as_flattened_mut();
        let first = counts::of_first(count, pieces.count_at);
        store(classes, usize::from(pieces.class_at) + first, bytes);
        // By 64 is by 0; nothing of these pieces counts then.
        let [second, third] = pieces
            .ends
            .map(|end| bytes.wrapping_shr(8 * u32::from(end)));
        store(classes, before(3) + counts::of_class_3(count), second);
        store(classes, before(4) + counts::of_class_4(count), third);
        count += pieces.counts;
        literals += usize::from(pieces.len);
    }
    sequences.mask_counts = lists::unpack(listed);
    sequences.literal_counts = counts::unpack(count);
}

/// By pair of codes, a byte each: how many masks they list in each list, and last how many words have a word distance
/// and no listed mask.
const LISTED_BY_PAIR: [u64; 256] = {
    let mut table = [0; 256];
    let mut pair = 0;
    while pair < 256 {
        let mut word = 0;
        while word < 2 {
            let code = pair >> (4 * word) & 15;
            match CODES[code] {
                (_, Mask::Listed) => table[pair] += 1 << (8 * (code - LISTING_CODES.start)),
                (Candidate::WordDistance, Mask::Is(_)) => table[pair] += 1 << (8 * LISTS),
                _ => {}
            }
            word += 1;
        }
        pair += 1;
    }
    table
};

/// Counts how many masks each code lists. Gives how many bytes the distances have.
#[inline(always)]
pub(crate) fn count_masks(codes: &[u8; WORDS / 2], sequences: &mut Sequences) -> usize {
    sequences.mask_counts = [0; LISTS];
    let mut distance_bytes = 0;
    // A byte of a sum holds what 128 words count.
    for codes in codes.as_chunks::<64>().0 {
        let sum: u64 = codes
            .iter()
            .map(|pair| LISTED_BY_PAIR[*pair as usize])
            .sum();
        let sums = sum.to_le_bytes();
        for (count, sum) in sequences.mask_counts.iter_mut().zip(sums) {
            *count += usize::from(sum);
        }
        distance_bytes += usize::from(sums[LISTS]);
    }
    for (list, count) in sequences.mask_counts.iter().enumerate() {
        distance_bytes += count
            * match CODES[LISTING_CODES.start + list].0 {
                Candidate::WordDistance => 1,
                Candidate::ByteDistance => 2,
                _ => 0,
            };
    }
    distance_bytes
}

/// Puts the masks of the lists in the order of the words, and counts the literals of each
/// class. Gives how many masks are listed.
#[inline(always)]
pub(crate) fn merge_masks(
    codes: &[u8; WORDS / 2],
    sequences: &mut Sequences,
    masks: &mut Masks,
) -> usize {
    let (mut next, mut count, mut listed) = (0, 0, 0);
    for word in 0..WORDS {
        let form = form(codes, word);
        let here = sequences.masks[usize::from(form.list)][lists::of(next, form.list)];
        next += form.listed;
        // Where it is not listed, the next one overwrites it.
        masks.listed[listed] = here;
        listed += usize::from(form.if_listed & 1);
        let mask = form.mask | here & form.if_listed;
        masks.all[word] = mask;
        let row = form.row | u16::from(mask);
        masks.rows[word] = row;
        count += pieces(row).counts;
    }
    sequences.literal_counts = counts::unpack(count);
    listed
}

/// Puts the literals of the classes in the order of the words. Gives how many there are.
#[inline(always)]
pub(crate) fn merge_literals(
    masks: &Masks,
    sequences: &Sequences,
    literals: &mut [u8; CLASS_BYTES],
) -> usize {
    let (mut count, mut end) = (0, 0);
    let classes = sequences.literals.as_flattened();
    for row in masks.rows {
        let pieces = pieces(row);
        let first = counts::of_first(count, pieces.count_at);
        let first = load(classes, usize::from(pieces.class_at) + first);
        let second = load(classes, before(3) + counts::of_class_3(count));
        let third = load(classes, before(4) + counts::of_class_4(count));
        let Some(to) = literals[end..].first_chunk_mut::<24>() else {
            break; // Not reached: there is room for a vector behind all literals.
        };
        store(to, 0, first);
        store(to, usize::from(pieces.ends[0] % 16), second);
        store(to, usize::from(pieces.ends[1] % 16), third);
        count += pieces.counts;
        end += usize::from(pieces.len);
    }
    end
}
