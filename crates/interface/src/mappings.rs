//! What the pager remembers of each mapping: filled in when it is asked for, since it takes a walk
//! through all page lists ([`control::MAPPINGS`](crate::control::MAPPINGS)).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Most rows of the table.
pub const ROWS: usize = 96;

/// One mapping, or several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Pages in place that the pager knows.
    pub in_place_pages: u64,
    /// Pages in compressed storage, and on their way there or back.
    pub compressed_pages: u64,
    /// Pages held as zero or same-filled markers.
    pub same_filled_pages: u64,
}

impl Mapping {
    /// Pages that the pager knows.
    pub fn known_pages(&self) -> u64 {
        self.in_place_pages + self.compressed_pages + self.same_filled_pages
    }

    /// The pages of another, too. (Where it lies is not a property of a sum.)
    pub fn add_pages(&mut self, other: &Self) {
        self.in_place_pages += other.in_place_pages;
        self.compressed_pages += other.compressed_pages;
        self.same_filled_pages += other.same_filled_pages;
    }
}

#[repr(C)]
#[derive(Debug, Default)]
struct Row {
    words: [AtomicU64; 5],
}

impl Row {
    const fn new() -> Self {
        Self {
            words: [const { AtomicU64::new(0) }; 5],
        }
    }

    fn set(&self, m: &Mapping) {
        let values = [
            m.start,
            m.end,
            m.in_place_pages,
            m.compressed_pages,
            m.same_filled_pages,
        ];
        for (word, value) in self.words.iter().zip(values) {
            word.store(value, Relaxed);
        }
    }

    fn get(&self) -> Mapping {
        let [start, end, in_place, compressed, same_filled] =
            [0, 1, 2, 3, 4].map(|n| self.words[n].load(Relaxed));
        Mapping {
            start,
            end,
            in_place_pages: in_place,
            compressed_pages: compressed,
            same_filled_pages: same_filled,
        }
    }
}

/// The table. It is complete once the request for it was answered.
#[repr(C)]
#[derive(Debug)]
pub struct Mappings {
    rows: AtomicU64,
    /// How many mappings are summed up in `rest`.
    rest_mappings: AtomicU64,
    rest: Row,
    table: [Row; ROWS],
}

impl Mappings {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            rows: AtomicU64::new(0),
            rest_mappings: AtomicU64::new(0),
            rest: Row::new(),
            table: [const { Row::new() }; ROWS],
        }
    }

    /// Fills the table in. Where there are more mappings than rows, those of which the most is known
    /// have a row, and the rest is one sum.
    pub fn fill(&self, all: impl Iterator<Item = Mapping>) {
        let (mut rows, mut rest_mappings, mut rest) = (0, 0, Mapping::default());
        for mut mapping in all.filter(|m| m.known_pages() > 0) {
            if rows < ROWS {
                self.table[rows].set(&mapping);
                rows += 1;
                continue;
            }
            let known = |row: &&Row| row.get().known_pages();
            let least = self.table.iter().min_by_key(known);
            if let Some(least) = least.filter(|row| known(row) < mapping.known_pages()) {
                let smaller = least.get();
                least.set(&mapping);
                mapping = smaller;
            }
            rest_mappings += 1;
            rest.add_pages(&mapping);
        }
        self.rest.set(&rest);
        self.rest_mappings.store(rest_mappings, Relaxed);
        self.rows.store(rows as u64, Relaxed);
    }

    /// The rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = Mapping> + '_ {
        let rows = self.rows.load(Relaxed).min(ROWS as u64) as usize;
        self.table[..rows].iter().map(Row::get)
    }

    /// How many mappings have no row, and their sum.
    pub fn rest(&self) -> (u64, Mapping) {
        (self.rest_mappings.load(Relaxed), self.rest.get())
    }
}

impl Default for Mappings {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(n: u64) -> Mapping {
        Mapping {
            start: n << 20,
            end: (n + 1) << 20,
            in_place_pages: n,
            compressed_pages: 2 * n,
            same_filled_pages: 1,
        }
    }

    #[test]
    fn the_largest_have_rows_and_the_rest_is_summed_up() {
        let table = Mappings::new();
        table.fill((0..10).map(mapping));
        assert!(table.rows().eq((0..10).map(mapping)));
        assert_eq!(table.rest(), (0, Mapping::default()));

        let more = ROWS as u64 + 20;
        table.fill((0..more).map(mapping));
        assert_eq!(table.rows().count(), ROWS);
        assert!(table.rows().all(|m| m.in_place_pages >= 20));
        let (mappings, rest) = table.rest();
        assert_eq!(mappings, 20);
        let (in_place, all) = (rest.in_place_pages, rest.known_pages());
        assert_eq!((in_place, all), (190, 3 * 190 + 20));

        table.fill(core::iter::once(Mapping::default()));
        assert_eq!(table.rows().count(), 0, "nothing is known of it");
    }
}
