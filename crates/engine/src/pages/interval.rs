//! Zero intervals: runs of zero pages that a page list holds as two entries, whatever their length.
//!
//! ```text
//!  position   4      5   6   7      8        11
//!  entry    Start    ·   ·   ·     End      One       · empty: zeros, since it is inside
//! ```
//!
//! They are a form of the zero marker (its data bits are not 0), with two differences: an interval
//! says in which state its pages are towards their pager, and no record is kept ready for each page.
//! What reads them are the walkers and editors of `vmo/pages`.

/// Which part of a zero interval an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The first page of several.
    Start,
    /// The last page of several.
    End,
    /// The only page: a *slot*.
    One,
}

/// What the pager of a VMO knows of the pages of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyState {
    /// There is no pager: anonymous memory.
    Untracked,
    /// Its pager knows that they are zeros.
    Clean,
    /// Its pager does not know yet.
    Dirty,
    /// Its pager is being told.
    AwaitingClean,
}

const BOUNDS: [Bound; 3] = [Bound::Start, Bound::End, Bound::One];
const STATES: [DirtyState; 4] = [
    DirtyState::Untracked,
    DirtyState::Clean,
    DirtyState::Dirty,
    DirtyState::AwaitingClean,
];

/// The data bits of the marker: the bound from 1 on in the low two, the state above.
pub(crate) fn encode(bound: Bound, state: DirtyState) -> u64 {
    (state as u64) << 2 | (bound as u64 + 1)
}

/// What data bits that are not 0 mean.
pub(crate) fn decode(data: u64) -> (Bound, DirtyState) {
    let bound = (data & 3).checked_sub(1).expect("the bits of a bound");
    (BOUNDS[bound as usize], STATES[(data >> 2) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;

    #[test]
    fn every_form_survives_encoding_and_is_no_plain_marker() {
        for bound in BOUNDS {
            for state in STATES {
                assert_eq!(decode(encode(bound, state)), (bound, state));
                let entry = Entry::ZeroInterval(bound, state);
                assert_eq!(Entry::decode(entry.encode()), entry);
                assert_ne!(entry.encode(), Entry::Zero.encode());
                assert_eq!(entry.encode() & 7, Entry::Zero.encode() & 7);
                assert!(!entry.is_content() && !entry.is_committed());
            }
        }
    }
}
