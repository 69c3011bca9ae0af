//! Making tables from sampled pages of a domain.
//!
//! Codes, masks and distances have one table each, made from how often each symbol was seen. A
//! class of literals has four: the sampled pages are put in four groups, each page in that whose
//! table makes its literals shortest, and the tables made anew from their groups, a few times
//! over (Lloyd's algorithm, with bits for the distance).
#![deny(unsafe_code)]

use coldpress_arena::Zeroable;

use super::DenseState;
use super::classes::{self, LISTS, Sequences};
use super::tables::{CHOICES, CLASSES, DenseTables, Lengths, lengths_for};
use crate::press::{Effort, Simd, paths};
use crate::{Page, same_filled::same_filled};

/// Pages that a domain's tables are made from.
pub const TRAINING_PAGES: usize = 512;

/// How often the groups are formed anew.
const ROUNDS: usize = 8;

/// Tables that are not of literals: of codes, masks and distances.
const SYMBOL_TABLES: usize = 16 + LISTS + 1;

/// Groups with fewer literals than this are begun anew from another page.
const FEWEST_LITERALS: u32 = 500;

/// What training works with: about 3 MiB, needed until [`finish`](Self::finish).
#[repr(C, align(64))]
pub struct Trainer {
    pages: usize,
    codes: [[u32; 256]; 16],
    masks: [[u32; 256]; LISTS],
    distances: [u32; 256],
    /// By class and page: how often each literal was seen.
    literals: [[[u16; 256]; TRAINING_PAGES]; CLASSES],
    groups: [u8; TRAINING_PAGES],
    sums: [[u32; 256]; CHOICES],
    lengths: Lengths,
    /// Steps of [`finish_step`](Self::finish_step) that are done.
    steps: usize,
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
#[allow(unsafe_code)]
unsafe impl Zeroable for Trainer {}

impl Trainer {
    /// Learns from a page, with the memory that compression works with. Pages that have nothing
    /// to tell (same-filled ones, and those of few runs) are passed over; so are more than
    /// [`TRAINING_PAGES`].
    pub fn add(&mut self, state: &mut DenseState, page: &Page) {
        if self.pages == TRAINING_PAGES || same_filled(page).is_some() {
            return;
        }
        let simd = Simd::best();
        let survey = paths::survey(simd, page, &mut state.press.page);
        if survey.has_few_runs() {
            return;
        }
        let press = &mut state.press;
        // Never too many literals: no page has more than there are bytes.
        let encoded = paths::encode(simd, press, survey.not_zero, usize::MAX, Effort::DENSE);
        debug_assert!(encoded.is_some());
        let streams = &press.streams;
        let sequences: &mut Sequences = &mut state.sequences;
        classes::split(streams, sequences);
        for part in streams.codes.as_chunks::<64>().0 {
            let mut before = 0;
            for symbol in part {
                self.codes[before][*symbol as usize] += 1;
                before = (symbol >> 4) as usize;
            }
        }
        for (list, counts) in self.masks.iter_mut().enumerate() {
            for symbol in sequences.masks(list) {
                counts[*symbol as usize] += 1;
            }
        }
        for symbol in streams.distances() {
            self.distances[*symbol as usize] += 1;
        }
        for (class, pages) in self.literals.iter_mut().enumerate() {
            for symbol in sequences.literals(class) {
                pages[self.pages][*symbol as usize] += 1;
            }
        }
        self.pages += 1;
    }

    /// How many pages it has learnt from.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Makes the tables. Takes some tens of milliseconds.
    pub fn finish(&mut self, tables: &mut DenseTables) {
        while !self.finish_step(tables) {}
    }

    /// The same by steps of less than a millisecond each: for a thread that has other things to do. Whether
    /// it was the last. No page is added in between.
    pub fn finish_step(&mut self, tables: &mut DenseTables) -> bool {
        let step = self.steps;
        self.steps += 1;
        match step.checked_sub(SYMBOL_TABLES) {
            None => self.make_symbol_table(step),
            Some(step) if step < CLASSES * ROUNDS => self.group(step / ROUNDS, step % ROUNDS),
            Some(_) => {
                tables.set(&self.lengths);
                return true;
            }
        }
        false
    }

    /// Makes one of the tables that are not of literals.
    fn make_symbol_table(&mut self, n: usize) {
        let lengths = &mut self.lengths;
        let counts = self.codes.iter().chain(&self.masks).nth(n);
        let table = lengths.codes.iter_mut().chain(&mut lengths.masks).nth(n);
        match (counts, table) {
            (Some(counts), Some(table)) => *table = lengths_for(counts),
            _ => lengths.distances = lengths_for(&self.distances),
        }
    }

    /// Forms the groups of a class, and their tables: one round of it.
    fn group(&mut self, class: usize, round: usize) {
        let pages = &self.literals[class][..self.pages];
        if round == 0 {
            for (page, group) in self.groups.iter_mut().enumerate() {
                *group = (page % CHOICES) as u8;
            }
        }
        self.sums = [[0; 256]; CHOICES];
        for (page, group) in pages.iter().zip(&self.groups) {
            add(&mut self.sums[*group as usize], page, 1);
        }
        for (group, sum) in self.sums.iter_mut().enumerate() {
            if sum.iter().sum::<u32>() < FEWEST_LITERALS && !pages.is_empty() {
                add(sum, &pages[group * 37 % pages.len()], 3);
            }
            self.lengths.literals[class][group] = lengths_for(sum);
        }
        let tables = &self.lengths.literals[class];
        for (page, group) in pages.iter().zip(&mut self.groups) {
            let bits = |table: &[u8; 256]| -> u32 {
                let symbols = page.iter().zip(table);
                symbols
                    .map(|(count, len)| u32::from(*count) * u32::from(*len))
                    .sum()
            };
            let best = (0..CHOICES).min_by_key(|choice| bits(&tables[*choice]));
            *group = best.unwrap_or(0) as u8;
        }
    }
}

fn add(sum: &mut [u32; 256], page: &[u16; 256], times: u32) {
    for (sum, count) in sum.iter_mut().zip(page) {
        *sum += times * u32::from(*count);
    }
}
