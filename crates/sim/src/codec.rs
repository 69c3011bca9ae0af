//! The simulation's codec: cheap, or a real one behind the same disturbances.
//!
//! ```text
//!  stored:  length, 2 bytes │ what the codec made of the page │ padding, if it was disturbed
//! ```
//!
//! The cheap one keeps the words before the part at the end of a page that repeats one word, and
//! that word. It costs some hundred nanoseconds; a step of the simulation must cost little more.

use crate::inject::Kind;
use crate::machine::Stage;
use crate::schedule::{fires, random, step};
use crate::trace::What;
use coldpress_arena::Zeroable;
use coldpress_codec::{
    AnyCodec, AnyScratch, AnyState, CodecKind, Compressed, Corrupt, PAGE_SIZE, Page, PageCodec,
    SameFilled, same_filled,
};
use coldpress_engine::Place;

/// Who wants to know how far the compression of a page is.
pub trait Watcher {
    /// The page at this address is at this stage; says which page of the program it is.
    fn advance(&self, page: *const Page, stage: Stage) -> Option<Place>;
}

/// Which codec is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// The cheap one.
    Cheap,
    /// A real one.
    Real(CodecKind),
}

/// A codec that is disturbed.
pub struct SimCodec {
    any: Option<AnyCodec>,
    watcher: &'static dyn Watcher,
}

/// The real codec's state.
#[repr(C)]
pub struct State(AnyState);

/// The real codec's scratch.
#[repr(C)]
pub struct Scratch(AnyScratch);

// SAFETY: as for the only field.
unsafe impl Zeroable for State {}
// SAFETY: as for the only field.
unsafe impl Zeroable for Scratch {}

// SAFETY: a simulation is one thread of the system; nothing of it is given to another.
unsafe impl Send for SimCodec {}
// SAFETY: as above.
unsafe impl Sync for SimCodec {}

const LENGTH_BYTES: usize = 2;

impl SimCodec {
    /// A codec whose watcher is told what is compressed.
    pub fn new(inner: Inner, watcher: &'static dyn Watcher) -> Self {
        let any = match inner {
            Inner::Cheap => None,
            Inner::Real(kind) => Some(AnyCodec::of(kind, SameFilled::Detect)),
        };
        Self { any, watcher }
    }

    fn disturbed(&self, state: &mut State, page: &Page, out: &mut [u8]) -> Compressed {
        let Some((length, rest)) = out.split_first_chunk_mut::<LENGTH_BYTES>() else {
            return Compressed::Incompressible;
        };
        if fires(Kind::CodecRefuses) {
            return Compressed::Incompressible;
        }
        let compressed = match &self.any {
            Some(any) => any.compress(&mut state.0, page, rest),
            None => compress_cheaply(page, rest),
        };
        let Compressed::Stored(len) = compressed else {
            return compressed;
        };
        if fires(Kind::CodecPastBound) {
            rest.fill(0xA5);
            return Compressed::Incompressible;
        }
        *length = (len as u16).to_le_bytes();
        if fires(Kind::CodecAtBound) {
            Compressed::Stored(out.len())
        } else {
            Compressed::Stored(LENGTH_BYTES + len)
        }
    }
}

fn compress_cheaply(page: &Page, out: &mut [u8]) -> Compressed {
    let words = page.as_chunks::<8>().0;
    let last = words[words.len() - 1];
    let Some(end) = words.iter().rposition(|word| *word != last) else {
        return Compressed::SameFilled(u64::from_ne_bytes(last));
    };
    let head = (end + 1) * 8;
    let Some(out) = out.get_mut(..head + 8) else {
        return Compressed::Incompressible;
    };
    out[..8].copy_from_slice(&last);
    out[8..].copy_from_slice(&page[..head]);
    Compressed::Stored(head + 8)
}

fn decompress_cheaply(stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
    let (last, head) = stored.split_first_chunk::<8>().ok_or(Corrupt)?;
    if head.len() > PAGE_SIZE {
        return Err(Corrupt);
    }
    same_filled::fill(page, u64::from_ne_bytes(*last));
    page[..head.len()].copy_from_slice(head);
    Ok(())
}

/// Steps of a codec that takes very long.
const SLOW_STEPS: u64 = 60;

fn dawdle(what: What, slow: Kind, (segment, index): Place) {
    step(what, segment, index, 0);
    if fires(slow) {
        for _ in 0..random().below(SLOW_STEPS) {
            step(what, segment, index, 1);
        }
    }
}

impl PageCodec for SimCodec {
    const NAME: &'static str = "disturbed";
    type State = State;
    type Scratch = Scratch;

    fn compress(&self, state: &mut State, page: &Page, out: &mut [u8]) -> Compressed {
        let place = self
            .watcher
            .advance(page, Stage::InCodec)
            .unwrap_or_default();
        dawdle(What::Compress, Kind::SlowCompress, place);
        let compressed = self.disturbed(state, page, out);
        dawdle(What::Compress, Kind::SlowCompress, place);
        self.watcher.advance(page, Stage::Storing);
        compressed
    }

    fn decompress(
        &self,
        scratch: &mut Scratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        dawdle(What::Decompress, Kind::SlowDecompress, (0, 0));
        let (length, rest) = stored.split_first_chunk::<LENGTH_BYTES>().ok_or(Corrupt)?;
        let stored = rest
            .get(..u16::from_le_bytes(*length).into())
            .ok_or(Corrupt)?;
        let result = match &self.any {
            Some(any) => any.decompress(&mut scratch.0, stored, page),
            None => decompress_cheaply(stored, page),
        };
        dawdle(What::Decompress, Kind::SlowDecompress, (0, 0));
        result
    }
}
