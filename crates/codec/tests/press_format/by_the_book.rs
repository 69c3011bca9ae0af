//! `docs/press-format.md`, written down once more: a decoder and an encoder, a byte and a bit at a
//! time. They share nothing with the crate.

use Candidate::{Back, Bytes, InForce, Words, Zero};

/// Where the candidate is: nowhere (it is zero), a fixed distance back, at the distance in
/// force, or at a new one.
#[derive(Copy, Clone, PartialEq)]
pub enum Candidate {
    Zero,
    Back(usize),
    InForce,
    Words,
    Bytes,
}

/// Candidate and mask of each code; `None`: the mask is listed.
#[rustfmt::skip]
pub const CODES: [(Candidate, Option<u8>); 16] = [
    (Zero, Some(0x00)), (InForce, Some(0x00)), (Zero, Some(0xff)), (Zero, Some(0x01)),
    (Words, Some(0x00)), (InForce, Some(0x03)), (InForce, Some(0x01)), (Back(8), Some(0x01)),
    (Back(8), Some(0x00)), (InForce, None), (Zero, None), (Back(8), None),
    (Back(16), None), (Words, None), (Bytes, None), (Back(8), Some(0x03)),
];

/// What is said of a page; a code for each of its 512 words.
#[derive(Clone, Default)]
pub struct Streams {
    pub codes: Vec<u8>,
    pub literals: Vec<u8>,
    pub masks: Vec<u8>,
    pub distances: Vec<u8>,
}

/// The page; `None`: rejected. Without tables, pages of press-dense are rejected.
pub fn decode(stored: &[u8], tables: Option<&[Table]>) -> Option<Vec<u8>> {
    if stored.len() > 4096 {
        return None;
    }
    match stored.first()? & 3 {
        0 => words(&masked(stored)?),
        1 => runs(stored),
        2 => words(&dense(stored, tables?)?),
        _ => None,
    }
}

fn words(streams: &Streams) -> Option<Vec<u8>> {
    let next = |stream: &Vec<u8>| stream.clone().into_iter();
    let (mut literals, mut masks) = (next(&streams.literals), next(&streams.masks));
    let mut distances = next(&streams.distances);
    let mut page = vec![];
    let mut in_force = 8;
    for code in &streams.codes {
        let (from, mask) = CODES[usize::from(*code)];
        match from {
            Words => in_force = 8 * usize::from(distances.next()?),
            Bytes => {
                in_force = usize::from(distances.next()?);
                in_force += 256 * usize::from(distances.next()?);
            }
            _ => {}
        }
        let distance = match from {
            Zero => None,
            Back(distance) => Some(distance),
            InForce | Words | Bytes => Some(in_force),
        };
        let candidate = match distance {
            None => [0; 8],
            Some(distance) if distance < 8 || distance > page.len() => return None,
            Some(distance) => page[page.len() - distance..][..8].try_into().unwrap(),
        };
        let mask = mask.or_else(|| masks.next())?;
        for (byte, candidate) in candidate.into_iter().enumerate() {
            let replaced = mask >> byte & 1 == 1;
            page.push(if replaced {
                literals.next()?
            } else {
                candidate
            });
        }
    }
    let left = literals.count() + masks.count() + distances.count();
    (left == 0).then_some(page)
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(taken)
}

/// Bits `from` to `from + n - 1` of the bytes, counted from the lowest of the first.
fn bits(bytes: &[u8], from: usize, n: usize) -> usize {
    let bit = |at: usize| usize::from(bytes[at / 8] >> (at % 8) & 1);
    (0..n).map(|i| bit(from + i) << i).sum()
}

fn masked(mut stored: &[u8]) -> Option<Streams> {
    let header = take(&mut stored, 4)?;
    let (form, packed) = (bits(header, 2, 2), bits(header, 4, 1) == 1);
    let (literals, masks) = (bits(header, 6, 13), bits(header, 19, 10));
    let zero = bits(header, 5, 1) + bits(header, 29, 3);
    if zero != 0 || literals > 4096 || masks > 512 {
        return None;
    }
    let mut streams = Streams::default();
    let bitmap = match form {
        0 => &[0xff; 32][..],
        _ => take(&mut stored, 32)?,
    };
    for at in 0..256 {
        let pair = match bits(bitmap, at, 1) {
            1 => take(&mut stored, 1)?[0],
            _ => [0x00, 0x00, 0x11, 0x88][form],
        };
        streams.codes.extend([pair & 15, pair >> 4]);
    }
    if packed {
        let groups = literals / 8;
        let bitmap = take(&mut stored, groups.div_ceil(8))?;
        if (groups..8 * bitmap.len()).any(|at| bits(bitmap, at, 1) == 1) {
            return None;
        }
        for group in 0..groups {
            if bits(bitmap, group, 1) == 1 {
                let seven = take(&mut stored, 7)?;
                let literal = |i: usize| bits(seven, 7 * i, 7) as u8;
                streams.literals.extend((0..8).map(literal));
            } else {
                streams.literals.extend(take(&mut stored, 8)?);
            }
        }
    }
    let left = literals - streams.literals.len();
    streams.literals.extend(take(&mut stored, left)?);
    streams.masks.extend(take(&mut stored, masks)?);
    streams.distances.extend(stored);
    Some(streams)
}

fn runs(mut stored: &[u8]) -> Option<Vec<u8>> {
    let header = take(&mut stored, 2)?;
    if header[0] != 1 || !(1..=24).contains(&header[1]) {
        return None;
    }
    let mut runs: Vec<(usize, [u8; 8])> = vec![];
    for _ in 0..header[1] {
        let place = take(&mut stored, 2)?;
        let (index, width) = (bits(place, 0, 9), bits(place, 9, 7));
        let in_order = match runs.last() {
            None => index == 0 && width <= 8,
            Some((before, _)) => index > *before && width <= if runs.len() == 1 { 8 } else { 9 },
        };
        if !in_order {
            return None;
        }
        let mut word = [0; 8];
        if width == 9 {
            word = runs[runs.len() - 2].1;
        } else {
            word[..width].copy_from_slice(take(&mut stored, width)?);
            for (byte, last) in word.iter_mut().zip(runs.last().map_or([0; 8], |run| run.1)) {
                *byte ^= last;
            }
        }
        runs.push((index, word));
    }
    let word = |index: usize| runs.iter().rfind(|run| run.0 <= index).unwrap().1;
    stored.is_empty().then(|| (0..512).flat_map(word).collect())
}

/// A canonical code.
pub struct Table {
    /// By symbol: the code and how many bits it has.
    pub encodings: Vec<(usize, u8)>,
    /// By code with a 1 before it.
    symbols: Vec<Option<u8>>,
}

impl Table {
    pub fn new(lengths: &[u8; 256]) -> Self {
        let mut table = Self {
            encodings: vec![(0, 0); 256],
            symbols: vec![None; 2048],
        };
        let mut code = 0;
        for len in 1..=10 {
            for symbol in (0..256).filter(|symbol| lengths[*symbol] == len) {
                table.encodings[symbol] = (code, len);
                table.symbols[1 << len | code] = Some(symbol as u8);
                code += 1;
            }
            code *= 2;
        }
        assert_eq!(code, 2048, "the code is complete");
        table
    }
}

/// The class of a literal of byte `byte` of a word.
pub fn class(code: u8, mask: u8, byte: usize) -> usize {
    match CODES[usize::from(code)].0 {
        _ if mask.count_ones() >= 7 => 0,
        Zero => 1,
        _ => 2 + byte.min(2),
    }
}

/// Where part `part` of `n` symbols begins.
pub fn part(n: usize, part: usize) -> usize {
    n / 4 * part + part.min(n % 4)
}

struct BitStream<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitStream<'_> {
    fn symbol(&mut self, table: &Table) -> Option<u8> {
        let mut code = 1;
        loop {
            if self.at == 8 * self.bytes.len() {
                return None;
            }
            code = 2 * code + bits(self.bytes, self.at, 1);
            self.at += 1;
            if let Some(symbol) = table.symbols[code] {
                return Some(symbol);
            }
        }
    }
}

fn sequence(streams: &mut [BitStream; 4], n: usize, table: &Table) -> Option<Vec<u8>> {
    let mut symbols = vec![];
    for (j, stream) in streams.iter_mut().enumerate() {
        for _ in part(n, j)..part(n, j + 1) {
            symbols.push(stream.symbol(table)?);
        }
    }
    Some(symbols)
}

fn dense(mut stored: &[u8], tables: &[Table]) -> Option<Streams> {
    let header = take(&mut stored, 6)?;
    let lengths = [12, 24, 36].map(|at| bits(header, at, 12));
    let [a, b, c] = lengths.map(|len| take(&mut stored, len));
    let mut bit_streams = [a?, b?, c?, stored].map(|bytes| BitStream { bytes, at: 0 });
    let mut streams = Streams::default();
    for stream in &mut bit_streams {
        let mut before = 0;
        for _ in 0..64 {
            let pair = stream.symbol(&tables[before])?;
            streams.codes.extend([pair & 15, pair >> 4]);
            before = usize::from(pair >> 4);
        }
    }
    let codes = &streams.codes;
    let mut lists = vec![];
    for listing in 9..15 {
        let n = codes.iter().filter(|code| **code == listing).count();
        let table = &tables[16 + usize::from(listing) - 9];
        lists.push(sequence(&mut bit_streams, n, table)?.into_iter());
    }
    let bytes = |code: &u8| match CODES[usize::from(*code)].0 {
        Words => 1,
        Bytes => 2,
        _ => 0,
    };
    let n = codes.iter().map(bytes).sum();
    streams.distances = sequence(&mut bit_streams, n, &tables[22])?;
    let mut classes = vec![];
    for code in codes {
        let mask = CODES[usize::from(*code)].1.unwrap_or_else(|| {
            let mask = lists[usize::from(*code) - 9].next().expect("as counted");
            streams.masks.push(mask);
            mask
        });
        let replaced = (0..8).filter(|byte| mask >> byte & 1 == 1);
        classes.extend(replaced.map(|byte| class(*code, mask, byte)));
    }
    let mut literals = vec![];
    for of in 0..5 {
        let n = classes.iter().filter(|class| **class == of).count();
        let table = &tables[23 + 4 * of + bits(header, 2 + 2 * of, 2)];
        literals.push(sequence(&mut bit_streams, n, table)?.into_iter());
    }
    let next = |class: &usize| literals[*class].next().expect("as counted");
    streams.literals = classes.iter().map(next).collect();
    let ends = |stream: &BitStream| stream.at.div_ceil(8) == stream.bytes.len();
    bit_streams.iter().all(ends).then_some(streams)
}

/// A masked page. `pack` is asked of each group of eight literals below 128.
pub fn write_masked(
    streams: &Streams,
    base: Option<u8>,
    mut pack: Option<impl FnMut() -> bool>,
) -> Vec<u8> {
    let form = match base {
        None => 0,
        Some(0x00) => 1,
        Some(0x11) => 2,
        Some(_) => 3,
    };
    let header = form << 2
        | usize::from(pack.is_some()) << 4
        | streams.literals.len() << 6
        | streams.masks.len() << 19;
    let mut stored = (header as u32).to_le_bytes().to_vec();
    let pairs: Vec<u8> = streams.codes.chunks(2).map(|c| c[0] | c[1] << 4).collect();
    let listed = |pair: &u8| Some(*pair) != base;
    if base.is_some() {
        let bitmap =
            |eight: &[u8]| -> u8 { (0..8).map(|i| u8::from(listed(&eight[i])) << i).sum() };
        stored.extend(pairs.chunks(8).map(bitmap));
    }
    stored.extend(pairs.iter().filter(|pair| listed(pair)));
    match &mut pack {
        None => stored.extend(&streams.literals),
        Some(pack) => {
            let (groups, tail) = streams.literals.as_chunks::<8>();
            let mut low = |group: &[u8; 8]| group.iter().all(|l| *l < 128) && pack();
            let low: Vec<bool> = groups.iter().map(&mut low).collect();
            let bitmap = |eight: &[bool]| -> u8 {
                eight
                    .iter()
                    .rev()
                    .fold(0, |bits, low| 2 * bits + u8::from(*low))
            };
            stored.extend(low.chunks(8).map(bitmap));
            for (group, low) in groups.iter().zip(low) {
                let add = |sum, literal: &u8| sum << 7 | u64::from(*literal);
                let seven = group.iter().rev().fold(0_u64, add).to_le_bytes();
                stored.extend(if low { &seven[..7] } else { &group[..] });
            }
            stored.extend(tail);
        }
    }
    stored.extend(&streams.masks);
    stored.extend(&streams.distances);
    stored
}

/// A page of press-dense. `choices`: the table of each class of literals.
pub fn write_dense(streams: &Streams, tables: &[Table], choices: [usize; 5]) -> Vec<u8> {
    let mut written: [Vec<bool>; 4] = Default::default();
    let mut put = |stream: usize, symbol: u8, table: &Table| {
        let (code, len) = table.encodings[usize::from(symbol)];
        written[stream].extend((0..len).rev().map(|bit| code >> bit & 1 == 1));
    };
    let (mut lists, mut literals) = (vec![vec![]; 6], vec![vec![]; 5]);
    let (mut next_mask, mut next_literal) = (streams.masks.iter(), streams.literals.iter());
    for (word, code) in streams.codes.iter().enumerate() {
        if word % 2 == 1 {
            let before = match word % 128 {
                1 => 0,
                _ => streams.codes[word - 2],
            };
            let pair = streams.codes[word - 1] | code << 4;
            put(word / 128, pair, &tables[usize::from(before)]);
        }
        let mask = CODES[usize::from(*code)].1.unwrap_or_else(|| {
            let mask = *next_mask.next().unwrap();
            lists[usize::from(*code) - 9].push(mask);
            mask
        });
        for byte in (0..8).filter(|byte| mask >> byte & 1 == 1) {
            literals[class(*code, mask, byte)].push(*next_literal.next().unwrap());
        }
    }
    let mut sequences = vec![];
    sequences.extend((16..).zip(lists));
    sequences.push((22, streams.distances.clone()));
    let of_class = |(class, symbols)| (23 + 4 * class + choices[class], symbols);
    sequences.extend(literals.into_iter().enumerate().map(of_class));
    for (table, symbols) in sequences {
        for j in 0..4 {
            for symbol in &symbols[part(symbols.len(), j)..part(symbols.len(), j + 1)] {
                put(j, *symbol, &tables[table]);
            }
        }
    }
    let byte = |bits: &[bool]| -> u8 {
        bits.iter()
            .rev()
            .fold(0, |byte, bit| 2 * byte + u8::from(*bit))
    };
    let bytes = written.map(|bits| bits.chunks(8).map(byte).collect::<Vec<u8>>());
    let mut header = 2;
    for (class, choice) in choices.iter().enumerate() {
        header |= (*choice as u64) << (2 + 2 * class);
    }
    for (stream, bytes) in bytes[..3].iter().enumerate() {
        header |= (bytes.len() as u64 & 0xfff) << (12 + 12 * stream);
    }
    [&header.to_le_bytes()[..6], &bytes.concat()].concat()
}
