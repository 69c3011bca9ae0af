//! The other domain, and the states that its memory can be in.
use crate::domains::machine::{Domain, Source, noise, text};
use coldpress_engine::domain_frames::{DomainFrames, Number};
use coldpress_engine::vmo::{VmoError, VmoId};
use coldpress_storage::{FrameIndex, FrameSource};
use std::ptr::NonNull;

/// A share of so many frames.
pub fn share(source: &'static Source, frames: usize) -> DomainFrames<'static, Source> {
    let numbers: Vec<Number> = (0..frames).map(|_| Number::default()).collect();
    DomainFrames::new(source, Box::leak(numbers.into()))
}

/// Frames as the source numbers them: what domains without numbers of their own would have.
pub struct Bare(pub &'static Source);

// SAFETY: the source's own.
unsafe impl FrameSource for Bare {
    fn allocate(&self) -> Option<FrameIndex> {
        self.0.allocate()
    }
    fn free(&self, frame: FrameIndex) {
        self.0.free(frame);
    }
    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        self.0.address(frame)
    }
}

/// What a domain's memory is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has none.
    Nothing,
    /// Pages in place, never tried.
    Resident,
    /// Compressed pages.
    Compressed,
    /// Pages in place, which were tried and did not compress.
    Incompressible,
    /// Markers of zeros.
    Zeros,
}

/// A domain whose memory is brought into one state after the other.
pub struct Neighbour<F: FrameSource + 'static> {
    pub domain: Domain<F>,
    pages: u64,
    vmo: Option<VmoId>,
}

impl<F: FrameSource + 'static> Neighbour<F> {
    /// With so many pages, and frames for a few more.
    pub fn new(frames: F, pages: u64) -> Self {
        Self {
            domain: Domain::new(frames),
            pages,
            vmo: None,
        }
    }

    /// Has its memory in this state, whatever it was in.
    pub fn enter(&mut self, state: State) {
        if let Some(vmo) = self.vmo.take() {
            self.domain.destroy(vmo);
        }
        if state == State::Nothing {
            return;
        }
        let vmo = self.domain.create(self.pages);
        self.vmo = Some(vmo);
        for page in 0..self.pages {
            let content = match state {
                State::Incompressible => noise(page),
                State::Zeros => [0; 4096],
                _ => text(page),
            };
            let written = self.domain.write(vmo, page * 4096, &content);
            written.expect("frames for all of them");
        }
        if state != State::Resident {
            let kept = u64::from(self.domain.send_away());
            let expected = match state {
                State::Incompressible => 0,
                _ => self.pages,
            };
            assert_eq!(kept, expected, "{state:?}");
        }
    }

    /// Takes frames until it gets no more, and compresses what it can meanwhile.
    pub fn fill_up(&mut self) {
        self.enter(State::Nothing);
        let vmo = self.domain.create(1 << 16);
        self.vmo = Some(vmo);
        let mut page = 0;
        loop {
            match self.domain.write(vmo, page * 4096, &text(page)) {
                Ok(()) => page += 1,
                Err(VmoError::NoMemory) if self.domain.send_away() > 0 => {}
                Err(error) => return assert_eq!(error, VmoError::NoMemory),
            }
        }
    }
}
