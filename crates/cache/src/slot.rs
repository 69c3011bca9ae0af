//! What is remembered of a page: its key, and a word that says what it holds.

use crate::region::Zeroed;
use std::sync::atomic::AtomicU64;

/// How a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The entry can be read.
    Readable,
    /// It is forgotten.
    Forgotten,
}

/// The record of a page.
pub(crate) struct Slot {
    /// The key while the page is used; the next free page, and one, while it is free; what
    /// `small.rs` counts while it has small entries. Written under the room lock, and for a page
    /// with a key only while the state is closed.
    pub key: AtomicU64,
    /// A [`State`]. Closed under the room lock, opened by the one writer of the page.
    pub state: AtomicU64,
}

// SAFETY: integers; zero is the state of a page that was never used.
unsafe impl Zeroed for Slot {}

/// Whether a page can be read, since when, and its true last byte.
///
/// ```text
///  63                                9 8        1   0
/// │ how often it was closed           │ last byte │ open │
/// ```
///
/// A page of small entries has the pattern `SMALL` in the low nine bits while these may be read, and
/// is closed to everybody who wants a whole page.
///
/// It grows with each closing, so a word seen before is never seen again for other content: 2^55
/// closings of one page take longer than the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub u64);

/// Not open, and not what a closed page has there, which is 0.
const SMALL: u64 = 0b10;

impl State {
    /// Whether the page may be read.
    pub fn is_open(self) -> bool {
        self.0 & 1 == 1
    }

    /// Whether the page has small entries.
    pub fn is_small(self) -> bool {
        self.0 & 0x1ff == SMALL
    }

    /// Whether the page has something to lose.
    pub fn is_used(self) -> bool {
        self.is_open() || self.is_small()
    }

    /// The last byte of the page, which the marker displaced.
    pub fn last_byte(self) -> u8 {
        (self.0 >> 1) as u8
    }

    /// The state once nobody may read any more.
    pub fn closed(self) -> State {
        State(((self.0 >> 9) + 1) << 9)
    }

    /// The state of a closed page that has small entries from now on.
    pub fn opened_small(self) -> State {
        debug_assert!(!self.is_used());
        State(self.0 | SMALL)
    }

    /// The state of a closed page that may be read again.
    pub fn opened(self, last_byte: u8) -> State {
        debug_assert!(!self.is_used());
        State(self.0 | u64::from(last_byte) << 1 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_never_comes_back() {
        let mut state = State(0);
        let mut seen = std::collections::HashSet::new();
        for byte in [0u8, 255, 1, 0, 7, 7, 255] {
            assert!(!state.is_open());
            let open = state.opened(byte);
            assert!(open.is_open());
            assert_eq!(open.last_byte(), byte);
            assert!(seen.insert(open.0));
            assert!(!open.is_small() && open.is_used());
            state = open.closed();
            assert!(seen.insert(state.0) && !state.is_used());
            let small = state.opened_small();
            assert!(small.is_small() && !small.is_open() && seen.insert(small.0));
            state = small.closed();
            assert!(seen.insert(state.0) && !state.is_small());
        }
    }
}
