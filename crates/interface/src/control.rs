//! The request block: what `coldpress set` and `coldpress status PID` ask of a running pager.
//!
//! It lies in the statistics file ([`page`](crate::page)), in a page of its own, which the pager
//! never writes; the answer stands among the statistics, which the asker never writes.
//!
//! | | asker | pager |
//! |---|---|---|
//! | 1 | locks the file (`flock`), so that one asks at a time | |
//! | 2 | makes `sequence` odd, writes the words, makes it even: the next number | |
//! | 3 | | finds an even number that it has not answered, copies the words, looks at the number again |
//! | 4 | | checks all of it, does all of it or nothing |
//! | 5 | | writes `control_refusal`, then `control_answered` = the number |
//! | 6 | sees its number answered; or asks for nothing instead, if nobody answers in time | |
//!
//! A request names the process that it is for: the page may be another's by the time it is written. The
//! file is open to every process of the user, so the pager believes nothing of it: what cannot be
//! is refused ([`Request::check`]), and an asker that dies in between leaves an odd number, which
//! nobody acts on.

use crate::triggers::Triggers;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Smallest budget. The pager's tables, staging and stacks take a few MiB; below this the budget would
/// be spent on the pager instead of the program.
pub const SMALLEST_BUDGET_BYTES: u64 = 8 << 20;

/// The budget of a process that has none.
pub const NO_BUDGET: u64 = u64::MAX;

/// The largest budget of a program whose memory group has this limit: it leaves the group room for what a budget does not
/// count, page tables and other memory of the kernel, and pages of files that are in use.
pub const fn largest_budget(group_bytes: u64) -> u64 {
    let sixteenth = group_bytes / 16;
    let most = 64 << 20;
    group_bytes - if sixteenth < most { sixteenth } else { most }
}

/// The cold age that the pager chooses itself, by what it costs the program.
pub const COLD_AFTER_AUTO: u64 = u64::MAX;

/// Longest cold age: ten years.
pub const LONGEST_COLD_AFTER_MS: u64 = 10 * 365 * 86_400_000;

/// `keys`: the budget is to be changed.
pub const BUDGET: u64 = 1;
/// `keys`: the cold age is to be changed.
pub const COLD_AFTER: u64 = 2;
/// `keys`: the triggers are to be changed.
pub const TRIGGERS: u64 = 4;
/// `keys`: the table of mappings is to be filled in ([`mappings`](crate::mappings)).
pub const MAPPINGS: u64 = 8;

/// `keys`: tunables of the engine are to be changed.
pub const TUNABLES: u64 = 16;

const KNOWN: u64 = BUDGET | COLD_AFTER | TRIGGERS | MAPPINGS | TUNABLES;

/// Tunables that one request can change.
pub const MOST_TUNABLES: usize = 8;

/// What is asked for, out of the asker's hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Which of the others count.
    pub keys: u64,
    /// The budget, or [`NO_BUDGET`].
    pub budget_bytes: u64,
    /// The cold age; 0: none; [`COLD_AFTER_AUTO`]: the pager's choice.
    pub cold_after_ms: u64,
    /// Bits of [`Triggers`].
    pub triggers: u64,
    /// Tunables: the [hash](crate::figures::name_hash) of the name, and the value as one word. A hash of
    /// 0: none.
    pub tunables: [(u64, u64); MOST_TUNABLES],
}

/// Why a request was refused: the number in `control_refusal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Refusal {
    /// It asks for something that this pager does not know.
    UnknownKey = 1,
    /// The budget is smaller than the smallest.
    SmallBudget = 2,
    /// The cold age is longer than the longest.
    LongColdAge = 3,
    /// There is no such trigger.
    UnknownTrigger = 4,
    /// There is no such tunable.
    UnknownTunable = 5,
    /// The tunable cannot be set while the program runs.
    FixedTunable = 6,
    /// The tunable cannot have this value, or not beside those in force.
    TunableValue = 7,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::UnknownKey,
        Self::SmallBudget,
        Self::LongColdAge,
        Self::UnknownTrigger,
        Self::UnknownTunable,
        Self::FixedTunable,
        Self::TunableValue,
    ];

    /// In words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::UnknownKey => "its pager is of another version and does not know one of the keys",
            Self::SmallBudget => "the budget is too small for the pager itself",
            Self::LongColdAge => "the cold age is too long",
            Self::UnknownTrigger => "its pager is of another version and has no such trigger",
            Self::UnknownTunable => "its pager is of another version and has no such tunable",
            Self::FixedTunable => "the tunable can be set at the start of a program only",
            Self::TunableValue => {
                "a tunable cannot have this value, or not together with the others that are in force"
            }
        }
    }

    /// The reason behind a number.
    pub fn from_word(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u64 == word)
    }
}

impl Request {
    /// Whether all of it can be done.
    ///
    /// # Errors
    /// Why it cannot; then nothing of it is done.
    pub fn check(&self) -> Result<(), Refusal> {
        let has = |key| self.keys & key != 0;
        if self.keys & !KNOWN != 0 {
            Err(Refusal::UnknownKey)
        } else if has(BUDGET) && self.budget_bytes < SMALLEST_BUDGET_BYTES {
            Err(Refusal::SmallBudget)
        } else if has(COLD_AFTER)
            && self.cold_after_ms > LONGEST_COLD_AFTER_MS
            && self.cold_after_ms != COLD_AFTER_AUTO
        {
            Err(Refusal::LongColdAge)
        } else if has(TRIGGERS) && Triggers::from_bits(self.triggers).is_none() {
            Err(Refusal::UnknownTrigger)
        } else {
            Ok(())
        }
    }
}

/// The block as it lies in the file.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Control {
    /// Number of the request; odd while it is being written.
    pub sequence: AtomicU64,
    /// [`Request::keys`].
    pub keys: AtomicU64,
    /// [`Request::budget_bytes`].
    pub budget_bytes: AtomicU64,
    /// [`Request::cold_after_ms`].
    pub cold_after_ms: AtomicU64,
    /// [`Request::triggers`].
    pub triggers: AtomicU64,
    /// Process id of the process that is asked.
    pub asked_pid: AtomicU64,
    /// Its start time in clock ticks since boot.
    pub asked_start_ticks: AtomicU64,
    /// [`Request::tunables`].
    pub tunables: [[AtomicU64; 2]; MOST_TUNABLES],
}

/// Whether the request with this number was written to its end.
fn is_whole(sequence: u64) -> bool {
    sequence & 1 == 0
}

impl Control {
    /// Nothing is asked for.
    pub const fn new() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            budget_bytes: AtomicU64::new(0),
            cold_after_ms: AtomicU64::new(0),
            triggers: AtomicU64::new(0),
            asked_pid: AtomicU64::new(0),
            asked_start_ticks: AtomicU64::new(0),
            tunables: [const { [const { AtomicU64::new(0) }; 2] }; MOST_TUNABLES],
        }
    }

    /// Whether there is a request that was not answered yet.
    pub fn is_pending(&self, answered: u64) -> bool {
        let sequence = self.sequence.load(Relaxed);
        sequence != answered && is_whole(sequence)
    }

    /// The request to this process that was not answered yet, with its number. `None`: there is none, it
    /// is being written in this moment, or it is for another process.
    pub fn take(&self, answered: u64, process: (u64, u64)) -> Option<(u64, Request)> {
        if !self.is_pending(answered) {
            return None;
        }
        let sequence = self.sequence.load(Acquire);
        let request = Request {
            keys: self.keys.load(Relaxed),
            budget_bytes: self.budget_bytes.load(Relaxed),
            cold_after_ms: self.cold_after_ms.load(Relaxed),
            triggers: self.triggers.load(Relaxed),
            tunables: core::array::from_fn(|n| {
                let [name, value] = &self.tunables[n];
                (name.load(Relaxed), value.load(Relaxed))
            }),
        };
        let asked = self.asked();
        fence(Acquire);
        (is_whole(sequence) && asked == process && self.sequence.load(Relaxed) == sequence)
            .then_some((sequence, request))
    }

    /// The process that is asked (its id, its start time), as far as the request is whole.
    fn asked(&self) -> (u64, u64) {
        (
            self.asked_pid.load(Relaxed),
            self.asked_start_ticks.load(Relaxed),
        )
    }

    /// The number of the request that was not answered yet, if it is whole and for another process than this: one that
    /// was here before, or that another one took for it.
    pub fn for_another(&self, answered: u64, process: (u64, u64)) -> Option<u64> {
        let sequence = self.sequence.load(Acquire);
        let asked = self.asked();
        fence(Acquire);
        let is_read = self.is_pending(answered) && self.sequence.load(Relaxed) == sequence;
        (is_read && asked != process).then_some(sequence)
    }

    /// Writes a request to a process (its id, its start time), by the one asker that holds the file's lock;
    /// its number.
    pub fn ask(&self, request: &Request, process: (u64, u64)) -> u64 {
        let odd = self.sequence.load(Relaxed) | 1;
        self.sequence.store(odd, Relaxed);
        fence(Release);
        self.keys.store(request.keys, Relaxed);
        self.budget_bytes.store(request.budget_bytes, Relaxed);
        self.cold_after_ms.store(request.cold_after_ms, Relaxed);
        self.triggers.store(request.triggers, Relaxed);
        self.asked_pid.store(process.0, Relaxed);
        self.asked_start_ticks.store(process.1, Relaxed);
        for ([name, value], tunable) in self.tunables.iter().zip(request.tunables) {
            name.store(tunable.0, Relaxed);
            value.store(tunable.1, Relaxed);
        }
        let sequence = odd.wrapping_add(1);
        self.sequence.store(sequence, Release);
        sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET_ONLY: Request = Request {
        keys: BUDGET,
        budget_bytes: 64 << 20,
        cold_after_ms: u64::MAX - 1,
        triggers: u64::MAX,
        tunables: [(3, 4); MOST_TUNABLES],
    };

    const ME: (u64, u64) = (7, 1234);

    #[test]
    fn a_request_to_another_process_is_not_taken() {
        let control = Control::default();
        control.ask(&BUDGET_ONLY, (7, 1233));
        assert_eq!(control.take(0, ME), None);
        let others = control.for_another(0, ME).expect("it is whole");
        assert!(!control.is_pending(others));
        let sequence = control.ask(&BUDGET_ONLY, ME);
        assert_eq!(control.for_another(others, ME), None);
        assert_eq!(control.take(others, ME), Some((sequence, BUDGET_ONLY)));
    }

    #[test]
    fn a_request_is_taken_once_and_never_half_written() {
        let control = Control::default();
        assert_eq!(control.take(0, ME), None);
        let sequence = control.ask(&BUDGET_ONLY, ME);
        assert_eq!(control.take(0, ME), Some((sequence, BUDGET_ONLY)));
        assert_eq!(control.take(sequence, ME), None);
        // An asker died in the middle: nobody acts on it, and the next asker goes on.
        control.sequence.fetch_add(1, Relaxed);
        assert_eq!(control.take(sequence, ME), None);
        let next = control.ask(&Request::default(), ME);
        assert!(next > sequence && is_whole(next));
        assert_eq!(control.take(sequence, ME), Some((next, Request::default())));
    }

    #[test]
    fn what_cannot_be_is_refused_and_what_does_not_count_is_not_looked_at() {
        assert_eq!(BUDGET_ONLY.check(), Ok(()));
        assert_eq!(Request::default().check(), Ok(()));
        let refused = |keys, word: u64| {
            let request = Request {
                keys,
                budget_bytes: word,
                cold_after_ms: word,
                triggers: word,
                ..Request::default()
            };
            request.check().unwrap_err()
        };
        assert_eq!(refused(1 << 40, 0), Refusal::UnknownKey);
        assert_eq!(refused(BUDGET, (8 << 20) - 1), Refusal::SmallBudget);
        assert_eq!(refused(COLD_AFTER, u64::MAX - 1), Refusal::LongColdAge);
        assert_eq!(refused(TRIGGERS, 8), Refusal::UnknownTrigger);
        for reason in Refusal::ALL {
            assert_eq!(Refusal::from_word(reason as u64), Some(reason));
        }
        assert_eq!(Refusal::from_word(0), None);
    }
}
