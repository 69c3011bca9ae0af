//! The codes of press-dense: which bits stand for which symbol.
//!
//! A table is a complete Huffman code for the 256 values of a byte, no code longer than
//! [`LONGEST`] bits. It is canonical: shorter codes come first, equal ones in the order of their
//! symbols; the 256 lengths say everything. Bits are written from the lowest, so codes are
//! stored reversed.
//!
//! | symbols | tables |
//! |---|---|
//! | pairs of press codes, after the second code of the pair before | 16 |
//! | listed masks, by the code that lists them (9 to 14) | 6 |
//! | bytes of distances | 1 |
//! | literals, by class; of each class that of four which suits the page best | 5 × 4 |
#![deny(unsafe_code)]

use coldpress_arena::Zeroable;

/// Bits of the longest code.
pub(crate) const LONGEST: usize = 10;

/// Codes that list a mask: 9 to 14.
pub(crate) const LISTING_CODES: core::ops::Range<usize> = 9..15;

/// Classes of literals; see `classes.rs`.
pub(crate) const CLASSES: usize = 5;

/// Tables for each class.
pub(crate) const CHOICES: usize = 4;

/// Bits that a symbol is written with.
#[derive(Copy, Clone)]
pub(crate) struct Encoding(u16);

impl Encoding {
    /// The bits, the first one lowest.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.0 & 0xfff)
    }

    /// How many there are.
    #[inline(always)]
    pub(crate) fn len(self) -> u32 {
        u32::from(self.0 >> 12)
    }
}

/// Encodings by symbol.
pub(crate) type Encoder = [Encoding; 256];

/// By the next [`LONGEST`] bits: how many bits the symbol has, and above them the symbol.
pub(crate) type Decoder = [u16; 1 << LONGEST];

/// The tables of one domain: of one process, or of one VMO.
///
/// They are made by [`Trainer`](super::Trainer) from pages of that domain, and must not be used
/// for another's: how long a page gets with them tells something of the pages they were made
/// from. All-zero memory holds no tables; [`is_trained`](Self::is_trained) tells.
#[repr(C, align(64))]
pub struct DenseTables {
    trained: u32,
    pub(crate) codes: [Encoder; 16],
    pub(crate) masks: [Encoder; LISTING_CODES.end - LISTING_CODES.start],
    pub(crate) distances: Encoder,
    pub(crate) literals: [[Encoder; CHOICES]; CLASSES],
    /// By class and symbol: its length in each of the four tables, sixteen bits each.
    pub(crate) costs: [[u64; 256]; CLASSES],
    pub(crate) decode_codes: [Decoder; 16],
    pub(crate) decode_masks: [Decoder; LISTING_CODES.end - LISTING_CODES.start],
    pub(crate) decode_distances: Decoder,
    pub(crate) decode_literals: [[Decoder; CHOICES]; CLASSES],
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
#[allow(unsafe_code)]
unsafe impl Zeroable for DenseTables {}

impl DenseTables {
    /// Whether there are tables.
    pub fn is_trained(&self) -> bool {
        self.trained != 0
    }

    /// The lengths in bits of the 256 codes of each table, which say everything about it. The
    /// tables come in the order of `docs/press-format.md`: 16 for pairs of codes, six for masks,
    /// one for distances, and for each of five classes of literals four. All zero if there are
    /// no tables.
    pub fn lengths(&self) -> impl Iterator<Item = [u8; 256]> + '_ {
        let of = |encoder: &Encoder| encoder.map(|encoding| encoding.len() as u8);
        self.codes
            .iter()
            .chain(&self.masks)
            .chain([&self.distances])
            .chain(self.literals.as_flattened())
            .map(of)
    }

    /// Makes all tables from their lengths.
    pub(crate) fn set(&mut self, lengths: &Lengths) {
        for (n, lengths) in lengths.codes.iter().enumerate() {
            make(lengths, &mut self.codes[n], &mut self.decode_codes[n]);
        }
        for (n, lengths) in lengths.masks.iter().enumerate() {
            make(lengths, &mut self.masks[n], &mut self.decode_masks[n]);
        }
        make(
            &lengths.distances,
            &mut self.distances,
            &mut self.decode_distances,
        );
        for (class, tables) in lengths.literals.iter().enumerate() {
            self.costs[class] = [0; 256];
            for (choice, lengths) in tables.iter().enumerate() {
                make(
                    lengths,
                    &mut self.literals[class][choice],
                    &mut self.decode_literals[class][choice],
                );
                for (cost, len) in self.costs[class].iter_mut().zip(lengths) {
                    *cost |= u64::from(*len) << (16 * choice);
                }
            }
        }
        self.trained = 1;
    }
}

/// The lengths of every table's codes.
#[repr(C)]
pub(crate) struct Lengths {
    pub codes: [[u8; 256]; 16],
    pub masks: [[u8; 256]; LISTING_CODES.end - LISTING_CODES.start],
    pub distances: [u8; 256],
    pub literals: [[[u8; 256]; CHOICES]; CLASSES],
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
#[allow(unsafe_code)]
unsafe impl Zeroable for Lengths {}

/// The canonical code with these lengths, which make a complete code.
fn make(lengths: &[u8; 256], encoder: &mut Encoder, decoder: &mut Decoder) {
    let mut code = 0_u16;
    for len in 1..=LONGEST {
        for (symbol, _) in lengths
            .iter()
            .enumerate()
            .filter(|(_, l)| **l as usize == len)
        {
            let reversed = code.reverse_bits() >> (16 - len);
            encoder[symbol] = Encoding(reversed | (len as u16) << 12);
            for at in (reversed as usize..1 << LONGEST).step_by(1 << len) {
                decoder[at] = len as u16 | (symbol as u16) << 8;
            }
            code += 1;
        }
        code <<= 1;
    }
    debug_assert_eq!(code as usize, 2 << LONGEST, "the code is complete");
}

/// Lengths of the best code for symbols seen so often, none longer than [`LONGEST`]. Each symbol
/// counts as seen a little more often than it was, so that it has a code.
///
/// Package-merge (Larmore and Hirschberg, JACM 37, 1990). Level by level the items of the level
/// before are packed in pairs and merged with the symbols, by weight. Of the last level the
/// lightest 2 × 256 − 2 are taken, of each level before it the pairs in the packages taken; and
/// a symbol's code is as long as there are levels in which it is taken itself.
pub(crate) fn lengths_for(counts: &[u32; 256]) -> [u8; 256] {
    const SYMBOLS: usize = 256;
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    // A symbol that was not seen is taken to be one in 8,000.
    let unseen = (total * 64 / 8000).max(1);
    let weights = counts.map(|count| u64::from(count) * 64 + unseen);
    let mut order: [u8; SYMBOLS] = core::array::from_fn(|symbol| symbol as u8);
    order.sort_unstable_by_key(|symbol| (weights[*symbol as usize], *symbol));

    let mut is_symbol = [[false; 2 * SYMBOLS]; LONGEST];
    let mut items = [0_u64; 2 * SYMBOLS];
    let mut count = 0;
    for level in &mut is_symbol {
        let packages = count / 2;
        let mut merged = [0; 2 * SYMBOLS];
        let (mut symbol, mut package) = (0, 0);
        for (weight, from_symbol) in merged.iter_mut().zip(level).take(SYMBOLS + packages) {
            let packed = |package: usize| items[2 * package] + items[2 * package + 1];
            let take_symbol = symbol < SYMBOLS
                && (package == packages || weights[order[symbol] as usize] <= packed(package));
            *from_symbol = take_symbol;
            if take_symbol {
                *weight = weights[order[symbol] as usize];
                symbol += 1;
            } else {
                *weight = packed(package);
                package += 1;
            }
        }
        items = merged;
        count = SYMBOLS + packages;
    }

    let mut lengths = [0; SYMBOLS];
    let mut taken = 2 * SYMBOLS - 2;
    for level in is_symbol.iter().rev() {
        let symbols = level[..taken]
            .iter()
            .filter(|from_symbol| **from_symbol)
            .count();
        for symbol in &order[..symbols] {
            lengths[*symbol as usize] += 1;
        }
        taken = 2 * (taken - symbols);
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kraft(lengths: &[u8; 256]) -> usize {
        lengths
            .iter()
            .map(|len| 1 << (LONGEST - *len as usize))
            .sum()
    }

    #[test]
    fn every_code_is_complete_and_short_enough() {
        let mut counts = [0; 256];
        assert_eq!(lengths_for(&counts), [8; 256], "nothing known: bytes");
        for (symbol, count) in counts.iter_mut().enumerate() {
            *count = if symbol < 40 { 1 << (symbol / 2) } else { 0 };
        }
        let lengths = lengths_for(&counts);
        assert_eq!(kraft(&lengths), 1 << LONGEST);
        assert!(lengths.iter().all(|len| (1..=LONGEST as u8).contains(len)));
        assert!(lengths[39] < lengths[0]);
        counts = [0; 256];
        counts[7] = u32::MAX;
        let lengths = lengths_for(&counts);
        assert_eq!((kraft(&lengths), lengths[7]), (1 << LONGEST, 1));
    }

    #[test]
    fn decoders_undo_encoders() {
        let mut counts = [0; 256];
        for (symbol, count) in counts.iter_mut().enumerate() {
            *count = (symbol as u32 * 7919) % 1000;
        }
        let (mut encoder, mut decoder) = ([Encoding(0); 256], [0; 1 << LONGEST]);
        make(&lengths_for(&counts), &mut encoder, &mut decoder);
        for (symbol, encoding) in encoder.iter().enumerate() {
            for above in 0..1 << (LONGEST as u32 - encoding.len()) {
                let at = encoding.bits() as usize | above << encoding.len();
                assert_eq!(decoder[at] as usize, encoding.len() as usize | symbol << 8);
            }
        }
    }
}
