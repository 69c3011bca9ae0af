//! RFC-0219's three triggers as a set: which of them may compress pages in this process.
//!
//! Written as a list of names, `eager,pressure,critical`; `none` is the empty set. One word in the
//! statistics page and in a request ([`control`](crate::control)).

use core::fmt;

/// A set of triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggers(u64);

impl Triggers {
    /// No trigger: nothing is compressed.
    pub const NONE: Self = Self(0);
    /// Pages that were not touched for the cold age.
    pub const EAGER: Self = Self(1);
    /// Memory stands close to its budget.
    pub const PRESSURE: Self = Self(2);
    /// Memory stands above its budget.
    pub const CRITICAL: Self = Self(4);
    /// All of them.
    pub const ALL: Self = Self(7);

    /// Each with its name.
    pub const NAMES: [(Self, &'static str); 3] = [
        (Self::EAGER, "eager"),
        (Self::PRESSURE, "pressure"),
        (Self::CRITICAL, "critical"),
    ];

    /// Reads a list of names. The error is the part that is no name.
    ///
    /// # Errors
    /// A part of the list is not the name of a trigger, or the list is empty.
    pub fn from_text(text: &str) -> Result<Self, &str> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        let mut set = Self::NONE;
        for part in text.split(',').map(str::trim) {
            let named = Self::NAMES.iter().find(|(_, name)| *name == part);
            set.0 |= named.ok_or(part)?.0.0;
        }
        Ok(set)
    }

    /// The set in a word. `None`: it has bits that no trigger has.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match bits & !Self::ALL.0 {
            0 => Some(Self(bits)),
            _ => None,
        }
    }

    /// The set as a word.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set with those of another.
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// What is in this set and in another.
    pub const fn both(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Whether all of `others` are in the set.
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether one of them keeps a budget: memory that is near it, or above it, makes pages go.
    pub const fn keep_a_budget(self) -> bool {
        self.has(Self::PRESSURE) || self.has(Self::CRITICAL)
    }
}

impl fmt::Display for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Self::NAMES.iter().filter(|(one, _)| self.has(*one));
        match names.next() {
            None => return f.write_str("none"),
            Some((_, first)) => f.write_str(first)?,
        }
        names.try_for_each(|(_, name)| write!(f, ",{name}"))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn every_set_is_read_as_it_is_written() {
        for bits in 0..8 {
            let set = Triggers::from_bits(bits).unwrap();
            assert_eq!(Triggers::from_text(&set.to_string()), Ok(set));
        }
        assert_eq!(Triggers::from_bits(8), None);
        let spaced = Triggers::from_text("critical, eager").unwrap();
        assert_eq!(spaced.to_string(), "eager,critical");
        for (text, wrong) in [("eager,lazy", "lazy"), ("", ""), ("eager,,critical", "")] {
            assert_eq!(Triggers::from_text(text), Err(wrong));
        }
    }
}
