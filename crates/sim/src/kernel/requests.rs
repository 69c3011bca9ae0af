//! What user pagers are asked for, and who waits for their answers.
//!
//! ```text
//!  toucher ── ask ──▶ asked ── next ──▶ pager ── supplies ──▶ engine ── answered ──▶ toucher looks
//!                                         └──── refuse, detach ────────────────────▶ toucher gives up
//! ```
//!
//! Answers are counted for each VMO. Who is not told of one looks again after some time, and finds out
//! then whether that was the machine's doing or the engine's.

use super::host::Looker;
use crate::failure::fail;
use crate::inject::Kind;
use crate::schedule::{NOBODY, block, fires, note, random, simulation, step, wake};
use crate::trace::What;
use coldpress_engine::Entry;
use coldpress_engine::vmo::VmoId;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

/// How long somebody waits who is not woken, in steps.
pub const WAIT_STEPS: u64 = 40_000;

/// Pagers wait here for requests.
pub const PAGERS: u64 = 1 << 63 | 1 << 62;

/// How long somebody waits for a user pager before he looks again, in steps: not long, since any answer
/// for the VMO makes up for one that was not told.
const ASK_STEPS: u64 = 1_500;

const ANSWER_KEY: u64 = 1 << 63 | 1 << 61;

/// A VMO with a pager.
#[derive(Default)]
struct Backed {
    /// Its number in the trace.
    number: u32,
    answers: u32,
    detached: bool,
    /// How often each page was refused.
    refused: BTreeMap<u64, u32>,
}

impl Backed {
    fn key(&self) -> u64 {
        ANSWER_KEY | u64::from(self.number)
    }

    /// Who waits for an answer shall look again.
    fn answer(&mut self) {
        self.answers += 1;
        let waits = simulation().who_waits(self.key()) != 0;
        if !waits || !fires(Kind::LostWake) {
            wake(self.key());
        }
    }
}

/// Requests, and VMOs that have pagers.
#[derive(Default)]
pub struct Requests {
    vmos: RefCell<BTreeMap<VmoId, Backed>>,
    asked: RefCell<VecDeque<(VmoId, u64)>>,
}

impl Requests {
    /// A VMO has a pager from now on.
    pub fn attach(&self, vmo: VmoId, number: u32) {
        let backed = Backed {
            number,
            ..Backed::default()
        };
        self.vmos.borrow_mut().insert(vmo, backed);
    }

    /// A VMO has ended.
    pub fn end(&self, vmo: VmoId) {
        self.vmos.borrow_mut().remove(&vmo);
        self.asked.borrow_mut().retain(|asked| asked.0 != vmo);
    }

    fn with<R>(&self, vmo: VmoId, act: impl FnOnce(&mut Backed) -> R) -> Option<R> {
        self.vmos.borrow_mut().get_mut(&vmo).map(act)
    }

    /// How often somebody was told to look again.
    pub fn answers(&self, vmo: VmoId) -> u32 {
        self.with(vmo, |backed| backed.answers).unwrap_or(0)
    }

    /// Who waits for a page of this VMO shall look again.
    pub fn answered(&self, vmo: VmoId) {
        self.with(vmo, Backed::answer);
    }

    /// The pager will not supply this page to those who ask for it now.
    pub fn refuse(&self, vmo: VmoId, page: u64) {
        self.with(vmo, |backed| {
            *backed.refused.entry(page).or_default() += 1;
            backed.answer();
        });
    }

    /// The pager supplies nothing any more.
    pub fn detach(&self, vmo: VmoId) {
        self.with(vmo, |backed| {
            backed.detached = true;
            backed.answer();
        });
        self.asked.borrow_mut().retain(|asked| asked.0 != vmo);
    }

    /// A request that no pager has read yet.
    pub fn next(&self, start: u64) -> Option<(VmoId, u64)> {
        let mut asked = self.asked.borrow_mut();
        let at = start.checked_rem(asked.len() as u64)?;
        asked.remove(at as usize)
    }

    /// Pages from here on that are asked for.
    pub fn are_asked(&self, vmo: VmoId, from: u64) -> bool {
        let asked = self.asked.borrow();
        asked.iter().any(|&(of, page)| of == vmo && page >= from)
    }

    /// Puts a request before a pager, once.
    pub fn put(&self, request: (VmoId, u64)) {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&request) {
            asked.push_back(request);
        }
    }

    /// Asks for a page, and waits for answers that are not `seen`. `false`: it will not be supplied.
    pub fn ask(&self, looker: &dyn Looker, vmo: VmoId, page: u64, seen: u32) -> bool {
        let known = self.with(vmo, |backed| (backed.number, backed.key()));
        let Some((number, key)) = known else {
            return true;
        };
        step(What::Ask, number, page as u32, seen);
        let refusals = |backed: &mut Backed| match backed.detached {
            true => None,
            false => Some(backed.refused.get(&page).copied()),
        };
        let Some(before) = self.with(vmo, refusals) else {
            return true;
        };
        if before.is_none() {
            note(Kind::PagerDetached);
        }
        if before.is_none() || simulation().current() == NOBODY {
            return false;
        }
        if self.answers(vmo) != seen {
            return true;
        }
        self.put((vmo, page));
        wake(PAGERS);
        if !block(key, Some(1 + random().below(ASK_STEPS))) && self.answers(vmo) == seen {
            let entry = looker.seen(vmo, page);
            let unanswered = self.with(vmo, |backed| backed.answers == seen);
            if unanswered == Some(true) && entry != Some(Entry::Empty) {
                fail(
                    (number, page as u32),
                    "a thread waits for a pager although there is an answer",
                );
            }
        }
        match self.with(vmo, refusals) {
            Some(None) => {
                note(Kind::PagerDetached);
                false
            }
            Some(after) => after == before,
            None => true,
        }
    }

    /// Wakes somebody who waits for a pager. Whether there is somebody.
    pub fn wake_for_nothing(&self) -> bool {
        let keys = self.vmos.borrow();
        let mut keys = keys.values().map(Backed::key);
        let waited_for = keys.find(|&key| simulation().who_waits(key) != 0);
        if let Some(key) = waited_for {
            wake(key);
        }
        waited_for.is_some()
    }
}
