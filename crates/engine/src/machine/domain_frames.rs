//! The frames of one security domain: a share of a source that several domains borrow from.
//!
//! An engine is the memory of one domain: VMOs, queues, storage. Where a machine has several, their
//! frames come from one source, and four things about a source tell one borrower of another: what
//! number a frame has (storage keeps tables by that number, so their size, and whether there is room in
//! them, would follow from how much others hold), whether there is a frame left, whose frame it was
//! (who gets one that another has just used finds it in no cache of its own, and that can be timed), and
//! how long its lock is waited for. Hence each domain has numbers of its own, so many of them, and
//! keeps the frames that it freed for itself, until the machine asks for them:
//!
//! ```text
//!  engine of domain A ─▶ DomainFrames   1 ─▶ 7   2 ─▶ 3 idle   3 bare   ┐
//!                                                                       ├─▶ one source: 1, 2, 3, …
//!  engine of domain B ─▶ DomainFrames   1 ─▶ 4   2 bare                 ┘
//! ```
//!
//! A number is *in use*, *idle* (it has a frame that nobody uses) or *bare* (it has none). Invariants:
//! * D1 A frame of the source belongs to one domain at a time.
//! * D2 Which numbers a domain has is decided by what it allocated, freed and released itself, as long
//!   as the source refuses it nothing.
//! * D3 If the shares of all who borrow are no more than the source has, it refuses none of them
//!   anything: what one holds makes no allocation of another fail. A machine that promises more than it
//!   has gives up D2 and this; a refusal then tells that others hold much.
//! * D4 The source is asked only by a domain that needs more frames than it ever had, or has had since
//!   it [released](DomainFrames::release) some.
//!
//! No lock of its own: idle and bare numbers are two stacks, each changed by one comparison and swap, so
//! `allocate` and `free` may be called under any lock, and `address` looks up one word.

use coldpress_storage::{FrameIndex, FrameSource};
use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// What a domain remembers of one of its numbers: eight bytes for each frame of its share.
#[derive(Debug, Default)]
pub struct Number {
    /// The source's frame, where it has one.
    frame: AtomicU32,
    /// The next on its stack, or 0.
    next: AtomicU32,
}

/// A stack of numbers: the uppermost, or 0; above it a count of changes, so that a number which was
/// taken and came back meanwhile is not taken for unchanged.
struct Stack(AtomicU64);

/// A domain's share of a source of frames.
pub struct DomainFrames<'a, F> {
    source: &'a F,
    numbers: &'a [Number],
    idle: Stack,
    bare: Stack,
    /// Numbers that were ever in use.
    used: AtomicU32,
}

impl Stack {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The uppermost and the count of changes: as long as it is the same, nothing was pushed.
    fn word(&self) -> u64 {
        self.0.load(SeqCst)
    }

    fn pop(&self, numbers: &[Number]) -> Option<u32> {
        let mut top = self.word();
        while top as u32 != 0 {
            // Somebody else may take it meanwhile and this be another stack's; then the swap fails.
            let next = of(numbers, top as u32).next.load(Relaxed);
            let below = changed(top, next);
            match self.0.compare_exchange_weak(top, below, SeqCst, SeqCst) {
                Ok(_) => return Some(top as u32),
                Err(now) => top = now,
            }
        }
        None
    }

    fn push(&self, numbers: &[Number], number: u32) {
        let mut top = self.word();
        loop {
            of(numbers, number).next.store(top as u32, Relaxed);
            let above = changed(top, number);
            match self.0.compare_exchange_weak(top, above, SeqCst, SeqCst) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

/// A number to be used.
enum Taken {
    /// With the frame that it has.
    Idle(u32),
    /// Without one.
    Bare(u32),
}

fn of(numbers: &[Number], number: u32) -> &Number {
    &numbers[number as usize - 1]
}

/// The word with another number in it, and changed once more.
const fn changed(word: u64, number: u32) -> u64 {
    ((word >> 32).wrapping_add(1) << 32) | number as u64
}

impl<'a, F: FrameSource> DomainFrames<'a, F> {
    /// A share of as many frames as there are `numbers`, which nobody else uses.
    ///
    /// # Panics
    /// If there are 2^32 or more.
    pub const fn new(source: &'a F, numbers: &'a [Number]) -> Self {
        assert!(numbers.len() <= u32::MAX as usize);
        Self {
            source,
            numbers,
            idle: Stack::new(),
            bare: Stack::new(),
            used: AtomicU32::new(0),
        }
    }

    /// Gives up to `count` idle frames back to the source, for other domains to have. How many. The
    /// machine says when: by a rule that no domain's secrets enter, or others learn of them.
    pub fn release(&self, count: u32) -> u32 {
        for released in 0..count {
            let Some(number) = self.idle.pop(self.numbers) else {
                return released;
            };
            self.source.free(self.frame(number));
            self.bare.push(self.numbers, number);
        }
        count
    }

    fn frame(&self, number: u32) -> FrameIndex {
        FrameIndex(of(self.numbers, number).frame.load(Relaxed))
    }

    /// A number that is not in use. `None`: there was a moment, meanwhile, at which all were, or were
    /// being released.
    fn take(&self) -> Option<Taken> {
        loop {
            let seen = (self.idle.word(), self.bare.word());
            if let Some(number) = self.idle.pop(self.numbers) {
                return Some(Taken::Idle(number));
            }
            let bare = self.bare.pop(self.numbers).or_else(|| self.unused());
            if bare.is_some() {
                return bare.map(Taken::Bare);
            }
            // One that was given back to a stack after we had looked there is not missed.
            if seen == (self.idle.word(), self.bare.word()) {
                return None;
            }
        }
    }

    fn unused(&self) -> Option<u32> {
        let left = |used: u32| ((used as usize) < self.numbers.len()).then_some(used + 1);
        let before = self.used.fetch_update(SeqCst, SeqCst, left);
        before.ok().map(|used| used + 1)
    }
}

// SAFETY: a number that is in use or idle stands for one frame of the source, which the domain has for
// itself from the source's `allocate` to its `free`; what the source says of it is true of the number.
unsafe impl<F: FrameSource> FrameSource for DomainFrames<'_, F> {
    fn allocate(&self) -> Option<FrameIndex> {
        let number = match self.take()? {
            Taken::Idle(number) => return Some(FrameIndex(number)),
            Taken::Bare(number) => number,
        };
        let Some(frame) = self.source.allocate() else {
            self.bare.push(self.numbers, number);
            return None;
        };
        of(self.numbers, number).frame.store(frame.0, Relaxed);
        Some(FrameIndex(number))
    }

    fn free(&self, frame: FrameIndex) {
        self.idle.push(self.numbers, frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        self.source.address(self.frame(frame.0))
    }
}
