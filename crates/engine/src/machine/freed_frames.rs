//! Freed frames are filled with a pattern, which must still be there when they are lent again: who
//! writes to a frame that is not his is found out. For tests and debug builds.

use coldpress_storage::{FRAME_BYTES, FrameIndex, FrameSource};
use core::ptr::NonNull;

/// What freed frames are filled with.
const PATTERN: u8 = 0x42;

/// How much of a freed frame is filled, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedFill(usize);

impl FreedFill {
    /// All of it.
    pub const WHOLE: Self = Self(FRAME_BYTES);

    /// So many bytes: a multiple of eight, 8 to 4,096. `None`: not so many.
    pub const fn new(bytes: usize) -> Option<Self> {
        match bytes.is_multiple_of(8) && bytes > 0 && bytes <= FRAME_BYTES {
            true => Some(Self(bytes)),
            false => None,
        }
    }

    /// Fills a frame.
    pub fn fill(self, frame: &mut [u8; FRAME_BYTES]) {
        frame[..self.0].fill(PATTERN);
    }

    /// The first byte that is not what it was filled with.
    pub fn damage(self, frame: &[u8; FRAME_BYTES]) -> Option<usize> {
        frame[..self.0].iter().position(|&byte| byte != PATTERN)
    }
}

/// Frames of another source, filled while they are free.
pub struct CheckedFrames<F> {
    frames: F,
    fill: FreedFill,
}

impl<F: FrameSource> CheckedFrames<F> {
    /// Frames of `frames`, checked from now on. Frames that come for the first time are zero, and
    /// not checked.
    pub const fn new(frames: F, fill: FreedFill) -> Self {
        Self { frames, fill }
    }

    /// The frames that are checked.
    pub fn inner(&self) -> &F {
        &self.frames
    }

    fn bytes(&self, frame: FrameIndex) -> NonNull<[u8; FRAME_BYTES]> {
        self.frames.address(frame).cast()
    }
}

// SAFETY: as the inner source; a frame is written to only between being given back and being given
// on, while it is nobody's.
unsafe impl<F: FrameSource> FrameSource for CheckedFrames<F> {
    fn allocate(&self) -> Option<FrameIndex> {
        let frame = self.frames.allocate()?;
        // SAFETY: the frame was just lent to us, so nobody else writes to it.
        let bytes = unsafe { self.bytes(frame).as_ref() };
        let is_new = bytes.iter().all(|&byte| byte == 0);
        match self.fill.damage(bytes) {
            Some(at) if !is_new => panic!(
                "frame {} was written to at byte {at} after it was freed",
                frame.0
            ),
            _ => Some(frame),
        }
    }

    fn free(&self, frame: FrameIndex) {
        // SAFETY: whoever gives a frame back does not use it any more, and it is nobody's yet.
        self.fill.fill(unsafe { self.bytes(frame).as_mut() });
        self.frames.free(frame);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        self.frames.address(frame)
    }
}
