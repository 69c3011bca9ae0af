//! zsmalloc's compaction, as much of it at a time as a budget allows.
//!
//! ```text
//!  class by class, while a whole chain could be saved:
//!     emptiest chain ──object by object──▶ fullest chain that is not full
//!     empty now: its frames go back        full now: take the next
//! ```
//!
//! Between two calls nothing is remembered but the class; every chain is on its list, so objects
//! may be stored and freed meanwhile.
#![forbid(unsafe_op_in_unsafe_fn)]

use core::sync::atomic::Ordering::Relaxed;

use super::SizeClass;
use super::classes::{CLASSES, Class};
use crate::access::{copy, read_word};
use crate::compressed_storage::Compaction;
use crate::frame::FrameSource;
use crate::reference::Reference;

/// How far the pass has come.
pub(super) struct Pass {
    /// The class it is at.
    class: usize,
    /// Chains set aside.
    pub(super) aside: u32,
}

impl Pass {
    pub(super) const fn new() -> Self {
        Self { class: 0, aside: 0 }
    }
}

/// What moving the objects of one chain came to.
enum Emptied {
    /// The chain is gone, or its partner is full: choose again.
    ChooseAgain,
    /// Some objects may not move; all others have.
    Refused,
    /// The budget is used up.
    Budget,
}

impl SizeClass {
    pub(super) fn compact_classes(
        &mut self,
        frames: &impl FrameSource,
        budget_bytes: usize,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        let mut done = Compaction::default();
        let mut spent_bytes = 0;
        while self.pass.class < CLASSES {
            while let Some((from, to)) = self.pair() {
                let frames_before = self.tally.frames;
                let emptied = self.empty(
                    frames,
                    from,
                    to,
                    budget_bytes,
                    &mut spent_bytes,
                    &mut done,
                    relocate,
                );
                done.frames += frames_before - self.tally.frames;
                match emptied {
                    Emptied::ChooseAgain => {}
                    Emptied::Refused => {
                        self.unlist(from);
                        self.zspages.get(from).set_aside(true);
                        self.list(from);
                    }
                    Emptied::Budget => return done,
                }
            }
            while self.pass.aside != 0 {
                let zspage = self.pass.aside;
                self.unlist(zspage);
                self.zspages.get(zspage).set_aside(false);
                self.list(zspage);
            }
            self.pass.class += 1;
        }
        self.pass.class = 0;
        done.pass_ended = true;
        done
    }

    /// The emptiest and the fullest chain with room of the class at hand, if moving objects from
    /// one to the other can save a chain (`zs_can_compact`).
    fn pair(&self) -> Option<(u32, u32)> {
        let class = &self.classes[self.pass.class];
        let objects = u32::from(Class::get(self.pass.class).objects);
        if class.chains * objects - class.objects < objects {
            return None;
        }
        let from = *class.groups.iter().find(|zspage| **zspage != 0)?;
        let to = *class.groups.iter().rev().find(|zspage| **zspage != 0)?;
        if from != to {
            return Some((from, to));
        }
        match self.zspages.get(from).links.next.load(Relaxed) {
            0 => None,
            to => Some((from, to)),
        }
    }

    /// Moves objects of chain `from` to chain `to`.
    #[expect(
        clippy::too_many_arguments,
        reason = "the state of one call of compact"
    )]
    fn empty(
        &mut self,
        frames: &impl FrameSource,
        from: u32,
        to: u32,
        budget_bytes: usize,
        spent_bytes: &mut usize,
        done: &mut Compaction,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Emptied {
        for slot in 0..self.zspages.get(from).fresh() {
            let (frame, offset) = self.locate(from, slot);
            // SAFETY: Z2: the word of a slot lies in a frame that is held. No chain on a list is
            // huge, since those are full.
            let word = unsafe { read_word(frames, frame, offset) };
            let Some(object) = self.object_of(frame, offset, word) else {
                continue;
            };
            if *spent_bytes != 0 && *spent_bytes + object.len() > budget_bytes {
                return Emptied::Budget;
            }
            *spent_bytes += object.len();
            let target = self.take_slot(frames, to, object.len());
            // SAFETY: `object` is stored and nobody writes to it; nobody knows `target`.
            unsafe { copy(frames, object, target) };
            if !relocate(object, target) {
                self.give_slot(frames, target);
                continue;
            }
            done.objects += 1;
            done.bytes += object.len();
            let ended = self.give_slot(frames, object);
            let to = self.zspages.get(to);
            if ended || to.in_use() == to.class().objects {
                return Emptied::ChooseAgain;
            }
        }
        Emptied::Refused
    }
}
