//! What a value can be while several threads change and read it: for memory whose changes are not
//! the driver's own, so that it does not know the moment of each.
//!
//! Each change has a begin and an end. A read that began at `from` and ended at `to` may return the
//! value of a change that had begun by `to`, unless another change began after that one had ended
//! and ended itself before `from`: then it was surely overwritten.
//!
//! Changes of the same value may overlap; what is left then is either, for ever.

use std::cell::RefCell;

struct Version<T> {
    value: T,
    begin: u64,
    /// `u64::MAX` while it is being made.
    end: u64,
    /// It may not have come about: it overwrites nothing for sure.
    weak: bool,
}

/// What a value can be.
pub struct Versions<T>(RefCell<Vec<Version<T>>>);

impl<T: Clone> Versions<T> {
    /// It is this.
    pub fn new(value: T, now: u64) -> Self {
        Self(RefCell::new(vec![Version {
            value,
            begin: now,
            end: now,
            weak: false,
        }]))
    }

    /// A change begins; `begin` names it. What was overwritten before `oldest`, at which the oldest
    /// read began that is still under way, is forgotten.
    pub fn begin(&self, value: T, begin: u64, oldest: u64) {
        self.begin_one_of(vec![value], begin, oldest);
    }

    /// The same for a change to one of these.
    pub fn begin_one_of(&self, values: Vec<T>, begin: u64, oldest: u64) {
        let mut versions = self.0.borrow_mut();
        let surely = |version: &Version<T>| !version.weak && version.end < oldest;
        let last = versions.iter().filter(|v| surely(v)).map(|v| v.begin).max();
        if let Some(last) = last {
            versions.retain(|version| version.end >= last);
        }
        versions.extend(values.into_iter().map(|value| Version {
            value,
            begin,
            end: u64::MAX,
            weak: false,
        }));
    }

    /// A change has been made.
    pub fn end(&self, begin: u64, now: u64) {
        self.with(begin, |version| version.end = now);
    }

    /// A change has been made or not, in part perhaps.
    pub fn end_in_doubt(&self, begin: u64, now: u64) {
        self.with(begin, |version| {
            version.end = now;
            version.weak = true;
        });
    }

    /// A change has not been made.
    pub fn take_back(&self, begin: u64) {
        let mut versions = self.0.borrow_mut();
        versions.retain(|version| (version.begin, version.end) != (begin, u64::MAX));
    }

    fn with(&self, begin: u64, act: impl Fn(&mut Version<T>)) {
        let mut versions = self.0.borrow_mut();
        let is_meant =
            |version: &&mut Version<T>| (version.begin, version.end) == (begin, u64::MAX);
        versions.iter_mut().filter(is_meant).for_each(act);
    }

    /// All that a read from `from` to `to` may return.
    pub fn possible(&self, from: u64, to: u64) -> Vec<T> {
        let versions = self.0.borrow();
        let surely = |version: &&Version<T>| !version.weak && version.end < from;
        let last = versions
            .iter()
            .filter(surely)
            .map(|v| v.begin)
            .max()
            .unwrap_or(0);
        let may = |version: &&Version<T>| version.begin <= to && version.end >= last;
        versions
            .iter()
            .filter(may)
            .map(|v| v.value.clone())
            .collect()
    }

    /// These, all alike, as of a time.
    pub fn of(values: Vec<T>, begin: u64, end: u64) -> Self {
        let version = |value| Version {
            value,
            begin,
            end,
            weak: false,
        };
        Self(RefCell::new(values.into_iter().map(version).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::Versions;

    #[test]
    fn what_was_overwritten_for_sure_cannot_be_read() {
        let v = Versions::new(0, 0);
        v.begin(1, 10, 10);
        assert_eq!(v.possible(5, 7), [0]);
        assert_eq!(v.possible(5, 12), [0, 1], "under way");
        v.end(10, 20);
        assert_eq!(v.possible(15, 22), [0, 1], "it began before the end");
        assert_eq!(v.possible(21, 22), [1]);
        v.begin(2, 30, 30);
        v.begin(3, 31, 30);
        v.end(31, 35);
        v.end(30, 40);
        assert_eq!(v.possible(41, 42), [2, 3], "they overlapped");
        v.begin(4, 50, 50);
        v.take_back(50);
        assert_eq!(v.possible(60, 61), [2, 3]);
        v.begin(5, 70, 70);
        v.end_in_doubt(70, 80);
        assert_eq!(v.possible(90, 91), [2, 3, 5]);
    }
}
