//! In which order compressed entries are given up: GreedyDual-Size (Cao and Irani, 1997).
//!
//! An entry's priority is the clock of when it came, and its cost for each byte that it takes. The one of
//! least priority goes, and the clock is set to its priority: what came long ago is overtaken, however
//! dear it was, and what is asked for and comes again is young. Where all cost the same and are of one
//! size it is first in, first out.

use std::collections::BTreeMap;

/// What an entry costs to make again if nobody says otherwise. Only the ratio of costs counts.
pub(crate) const DEFAULT_COST: u32 = 1;

/// Units of the clock for a cost of one a byte.
const SCALE: u64 = 1 << 20;

/// Bits for the number that tells entries of one priority apart, the older first.
const NUMBER_BITS: u32 = 48;

/// A priority, and a number. None is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(u128);

impl Rank {
    fn priority(self) -> u128 {
        self.0 >> NUMBER_BITS
    }
}

/// Keys by rank. Not more than one rank a key, which the caller remembers.
#[derive(Default)]
pub(crate) struct Order {
    keys: BTreeMap<Rank, u64>,
    clock: u128,
    number: u64,
}

impl Order {
    /// The rank of an entry that comes now, costs `cost` and takes `bytes`.
    pub fn rank(&mut self, cost: u32, bytes: usize) -> Rank {
        let worth = u64::from(cost) * SCALE / bytes.max(1) as u64;
        // The priority has 80 bits, which no clock reaches that is moved by less than 2^52 at a time.
        let priority = (self.clock + u128::from(worth)).min(u128::MAX >> NUMBER_BITS);
        self.number = (self.number + 1) & ((1 << NUMBER_BITS) - 1);
        Rank(priority << NUMBER_BITS | u128::from(self.number))
    }

    pub fn insert(&mut self, rank: Rank, key: u64) {
        self.keys.insert(rank, key);
    }

    pub fn remove(&mut self, rank: Rank) {
        self.keys.remove(&rank);
    }

    /// The key that goes first, if it goes before `newcomer`; the clock follows. Without a newcomer
    /// it is the first there is.
    pub fn next(&mut self, newcomer: Option<Rank>) -> Option<u64> {
        let first = self.keys.first_key_value().map(|(&rank, &key)| (rank, key));
        let (rank, goes) = match (first, newcomer) {
            (Some((rank, _)), Some(new)) if new < rank => (new, None),
            (Some((rank, key)), _) => (rank, Some(key)),
            (None, Some(new)) => (new, None),
            (None, None) => return None,
        };
        self.clock = self.clock.max(rank.priority());
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(order: &mut Order, key: u64, cost: u32, bytes: usize) -> Rank {
        let rank = order.rank(cost, bytes);
        order.insert(rank, key);
        rank
    }

    fn drop_next(order: &mut Order) -> u64 {
        let key = order.next(None).unwrap();
        let rank = *order.keys.iter().find(|(_, k)| **k == key).unwrap().0;
        order.remove(rank);
        key
    }

    #[test]
    fn equals_go_as_they_came() {
        let mut order = Order::default();
        for key in [5, 3, 9, 1] {
            add(&mut order, key, 7, 1000);
        }
        let gone = [0; 4].map(|_| drop_next(&mut order));
        assert_eq!(gone, [5, 3, 9, 1]);
        assert_eq!(order.next(None), None);
    }

    #[test]
    fn the_cheap_and_the_large_go_first() {
        let mut order = Order::default();
        add(&mut order, 1, 100, 1000);
        add(&mut order, 2, 1, 1000);
        add(&mut order, 3, 100, 4000);
        add(&mut order, 4, u32::MAX, 4000);
        let gone = [0; 4].map(|_| drop_next(&mut order));
        assert_eq!(gone, [2, 3, 1, 4]);
    }

    #[test]
    fn the_dear_are_overtaken_in_the_end() {
        let mut order = Order::default();
        add(&mut order, 1, 50, 1000);
        // Cheap ones come and go, ten at a time: each ten move the clock by one.
        for key in 0..10 {
            add(&mut order, 1000 + key, 1, 1000);
        }
        let mut rounds = 0;
        while drop_next(&mut order) != 1 {
            rounds += 1;
            add(&mut order, 2000 + rounds, 1, 1000);
        }
        assert!((400..600).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_newcomer_of_less_worth_than_all_goes_itself() {
        let mut order = Order::default();
        add(&mut order, 1, 10, 1000);
        let cheap = order.rank(1, 1000);
        assert_eq!(order.next(Some(cheap)), None);
        // And the clock has moved, so that it is not so for ever.
        let again = order.rank(9, 1000);
        assert_eq!(order.next(Some(again)), Some(1));
    }
}
