//! Restoring neighbours before they are touched, where a thread goes through memory in even steps.
//!
//! A fault costs more than the page that it brings: twice the scheduler has to change threads. So where
//! the places of faults show where the next will be, pages are restored ahead, with the protocol of any
//! other (`restore.rs`), after the fault itself was answered or, as the host likes, before. Linux does so for files and swap (a window
//! that grows while what was read ahead is used); here a *stream* is found by its faults alone:
//!
//! ```text
//!  faults at  p   p+d  p+2d          two equal steps: a stream, 2 pages are restored ahead
//!                       ├─▶ p+3d p+4d
//!             next at             p+5d ├─▶ 4 pages, then 8, then 16, then 32
//! ```
//!
//! The page behind what was restored is left away, and is the evidence: who goes on like that faults there
//! next, and the window doubles. Who does not begins a new stream; there are no accessed bits, and none are
//! needed. Neighbours (a step of one page, in either direction) are restored together (`restore/run.rs`). A stream ends
//! where nothing is remembered, and at the end of its segment.
//!
//! Who faults at random takes no two equal steps. Who takes a few, over and over, at random places
//! would have pages restored that it does not want; so a set of streams counts how many began in vain,
//! and each makes the next take one equal step more, up to eight.
//!
//! Streams are kept by thread: the number of the thread chooses a set of seven, in the order of their last
//! use, so that one thread may go through several arrays at once. A set is one line of the cache, of words
//! that are read and written one by one without a lock: two workers that meet there may lose a stream,
//! which is then found again. Nothing but speed rests on it.

use crate::compression::fault::FaultOutcome;
use crate::compression::restore::{Demand, RUN_PAGES, stretch};
use crate::compression::worker::Worker;
use crate::figures::counters::add;
use crate::machine::host::Host;
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::{Engine, LEAF_PAGES, SEGMENT_PAGES, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The most pages that are restored ahead of one touch.
pub(crate) const MOST: u64 = 32;
/// The longest step of a stream, in pages.
const LONGEST_STEP: i64 = 32;
/// Equal steps that make a stream, before any began in vain; and how many more it may come to take.
const EQUAL_STEPS: u8 = 2;
const MOST_DISTRUST: u32 = 6;
/// Pages that are looked at, in place or not, for one touch.
const LOOKED_AT: u32 = LEAF_PAGES;

const SETS: usize = 16;
const STREAMS: usize = 7;

/// Faults that may belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stream {
    /// The page that was touched last, or restored ahead last. 0: no stream.
    last: i64,
    /// From one page to the next; 0: not known.
    step: i64,
    /// Equal steps so far.
    steps: u8,
    /// 0: nothing is restored ahead; n: 2^n pages.
    window: u8,
}

/// Bits of [`Stream::last`]: 23 for the segment, 13 for the index.
const LAST_BITS: u32 = 36;
const MOST_STEPS: u8 = 15;
const MOST_WINDOW: u8 = MOST.trailing_zeros() as u8;

const _: () = assert!(size_of::<Set>() == 64);
const _: () = assert!(SEGMENT_PAGES == 1 << 13 && LONGEST_STEP < 1 << 6);

impl Stream {
    fn decode(word: u64) -> Self {
        Self {
            last: (word & ((1 << LAST_BITS) - 1)) as i64,
            step: (word >> LAST_BITS & 0x7F) as i64 - 64,
            steps: (word >> (LAST_BITS + 7) & 0xF) as u8,
            window: (word >> (LAST_BITS + 11) & 0x7) as u8,
        }
    }

    fn encode(self) -> u64 {
        self.last as u64
            | ((self.step + 64) as u64) << LAST_BITS
            | u64::from(self.steps) << (LAST_BITS + 7)
            | u64::from(self.window) << (LAST_BITS + 11)
    }

    fn pages(self) -> u64 {
        match self.window {
            0 => 0,
            window => 1 << window,
        }
    }

    /// How many steps from here to `page`, if it belongs to the stream. Pages of the window may be passed
    /// over: they were in place, or have just been restored.
    fn steps_to(self, page: i64) -> Option<u64> {
        let distance = page - self.last;
        if self.last == 0 || self.step == 0 || distance % self.step != 0 {
            return None;
        }
        let steps = u64::try_from(distance / self.step).ok()?;
        (1..=self.pages() + 1).contains(&steps).then_some(steps)
    }

    fn is_near(self, page: i64) -> bool {
        self.last != 0 && (page - self.last).abs() <= LONGEST_STEP
    }

    /// Whether pages were restored ahead for it, and it has not shown yet that they were wanted.
    fn is_unproven(self) -> bool {
        self.window == 1
    }
}

/// Takes note of a touch of `page`; the stream that it belongs to is the first afterwards.
fn note(streams: &mut [Stream; STREAMS], distrust: &mut u32, page: i64) {
    let going_on = (0..STREAMS).find_map(|n| Some((n, streams[n].steps_to(page)?)));
    let (at, stream) = match going_on {
        Some((n, steps)) => {
            let mut stream = streams[n];
            stream.steps = (stream.steps + 1).min(MOST_STEPS);
            if stream.window == 0 {
                let enough = EQUAL_STEPS + *distrust as u8;
                stream.window = u8::from(stream.steps >= enough);
            } else if steps == 1 {
                *distrust -= u32::from(stream.is_unproven() && *distrust > 0);
                stream.window = (stream.window + 1).min(MOST_WINDOW);
            }
            (n, stream)
        }
        None => {
            let near = (0..STREAMS).find(|&n| streams[n].is_near(page));
            let n = near.unwrap_or(STREAMS - 1);
            let step = near.map_or(0, |n| page - streams[n].last);
            if streams[n].is_unproven() {
                *distrust = (*distrust + 1).min(MOST_DISTRUST);
            }
            let steps = u8::from(step != 0);
            (
                n,
                Stream {
                    step,
                    steps,
                    ..Stream::default()
                },
            )
        }
    };
    streams[at] = Stream {
        last: page,
        ..stream
    };
    streams[..=at].rotate_right(1);
}

/// The streams of some threads.
#[repr(align(64))]
struct Set {
    streams: [AtomicU64; STREAMS],
    distrust: AtomicU32,
}

/// The streams of all threads.
pub(crate) struct Streams([Set; SETS]);

impl Streams {
    pub(crate) const fn new() -> Self {
        Self(
            [const {
                Set {
                    streams: [const { AtomicU64::new(0) }; STREAMS],
                    distrust: AtomicU32::new(0),
                }
            }; SETS],
        )
    }

    /// Takes note that `thread` touched a page, and says which stream that belongs to.
    fn note(&self, thread: u32, page: i64) -> Stream {
        let set = &self.0[thread as usize % SETS];
        let mut streams = core::array::from_fn(|n| match set.streams[n].load(Relaxed) {
            0 => Stream::default(),
            word => Stream::decode(word),
        });
        let mut distrust = set.distrust.load(Relaxed);
        note(&mut streams, &mut distrust, page);
        for (word, stream) in set.streams.iter().zip(streams) {
            word.store(if stream.last == 0 { 0 } else { stream.encode() }, Relaxed);
        }
        set.distrust.store(distrust, Relaxed);
        streams[0]
    }

    fn find(&self, thread: u32, stream: Stream) -> Option<&AtomicU64> {
        let set = &self.0[thread as usize % SETS].streams;
        let word = stream.encode();
        set.iter().find(|at| at.load(Relaxed) == word)
    }

    /// Whether no touch has carried the stream on since.
    fn stands(&self, thread: u32, stream: Stream) -> bool {
        self.find(thread, stream).is_some()
    }

    /// The stream is expected to go on behind `last`.
    fn reached(&self, thread: u32, stream: Stream, last: i64) {
        if let Some(word) = self.find(thread, stream) {
            word.store(Stream { last, ..stream }.encode(), Relaxed);
        }
    }
}

/// Pages of all segments, in one row.
fn page_number(segment: SegmentId, index: i64) -> i64 {
    i64::from(segment) * i64::from(SEGMENT_PAGES) + index
}

/// How many pages can be restored together from page `next` of a segment on, in steps of `step`, of so many that are
/// wanted.
fn neighbours(next: i64, step: i64, wanted: u32) -> u32 {
    let to_the_end = match step {
        1 => i64::from(SEGMENT_PAGES) - next,
        -1 => next + 1,
        _ => 1,
    };
    wanted.min(RUN_PAGES as u32).min(to_the_end as u32)
}

/// What became of a page that nobody has asked for yet.
enum Ahead {
    Restored,
    /// It is in place, or somebody is at it.
    PassedOver,
    /// Nothing is remembered, or nothing could be put in place.
    End,
}

/// What is likely to be touched after a page: see [`Engine::touched`].
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    thread: u32,
    place: Place,
    stream: Stream,
}

impl Expected {
    /// Whether pages that were restored ahead for this stream before were wanted.
    pub fn is_proven(&self) -> bool {
        self.stream.window > 1
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Takes note that `thread` has touched the page at `place`, which is away; to be called before that is
    /// answered. What should be restored ahead, before or after, if anything should.
    pub fn touched(&self, thread: u32, place: Place) -> Option<Expected> {
        let (segment, index) = place;
        match self.entry(segment, index) {
            Entry::Compressed(_) | Entry::SameFilled(_) | Entry::Zero | Entry::Temporary(_) => {}
            _ => return None,
        }
        if segment >> (LAST_BITS - 13) != 0 || self.tunables.read_ahead_pages() == 0 {
            return None;
        }
        let stream = self
            .streams
            .note(thread, page_number(segment, index.into()));
        (stream.window > 0).then_some(Expected {
            thread,
            place,
            stream,
        })
    }

    /// Restores what is expected, for as long as `goes_on` says (asked before each page, or before so many that are
    /// restored together). How many.
    ///
    /// Only pages that lie in storage or are markers are restored, never one that is being taken out,
    /// compressed or restored.
    pub fn read_ahead(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        expected: Expected,
        mut goes_on: impl FnMut(u32) -> bool,
    ) -> u32 {
        let Expected {
            thread,
            place: (segment, index),
            stream,
        } = expected;
        let wanted = stream.pages().min(self.tunables.read_ahead_pages()) as u32;
        let (mut restored, mut last) = (0, i64::from(index));
        for _ in 0..LOOKED_AT {
            let next = last + stream.step;
            if !(0..i64::from(SEGMENT_PAGES)).contains(&next) {
                break;
            }
            let place = (segment, next as u32);
            match self.entry(segment, place.1) {
                Entry::Page(_) | Entry::Request(_) | Entry::Temporary(_) => {}
                _ if restored == wanted => break,
                _ if !self.streams.stands(thread, stream) => break,
                _ => {
                    let together = if worker.restores_runs() {
                        neighbours(next, stream.step, wanted - restored)
                    } else {
                        1
                    };
                    if !goes_on(together) {
                        break;
                    }
                    if together > 1 {
                        let first = next.min(next + (i64::from(together) - 1) * stream.step);
                        let first = (segment, first as u32);
                        let done = self.restore_run(host, worker, first, stretch(0, together));
                        restored += done;
                        if done > 0 {
                            // What is in place now is passed over.
                            continue;
                        }
                    }
                    match self.restore_ahead(host, worker, place) {
                        Ahead::Restored => restored += 1,
                        Ahead::PassedOver => {}
                        Ahead::End => break,
                    }
                }
            }
            last = next;
        }
        add(&self.counters.read_ahead, restored.into());
        self.streams
            .reached(thread, stream, page_number(segment, last));
        restored
    }

    fn restore_ahead(&self, host: &H, worker: &mut Worker<C>, place: Place) -> Ahead {
        let Some(list) = self.page_list_if_there(place.0) else {
            return Ahead::End;
        };
        let entry = list.get(place.1);
        let claimed = list.claimed(place.1) & 1 << (place.1 % LEAF_PAGES) != 0;
        match entry {
            Entry::Page(_) | Entry::Request(_) | Entry::Temporary(_) => Ahead::PassedOver,
            _ if claimed => Ahead::PassedOver,
            Entry::Compressed(_) | Entry::SameFilled(_) | Entry::Zero => {
                match self.bring_back(host, worker, list, place, entry, Demand::None) {
                    Some(FaultOutcome::Decompressed | FaultOutcome::SameFilled) => Ahead::Restored,
                    _ => Ahead::End,
                }
            }
            Entry::Empty | Entry::ZeroInterval(..) | Entry::Poisoned => Ahead::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table, and what faults at these pages would have restored ahead of each.
    struct Table([Stream; STREAMS], u32);

    impl Table {
        fn new() -> Self {
            Self([Stream::default(); STREAMS], 0)
        }

        /// The window at a fault; what is in it is restored.
        fn fault(&mut self, page: i64) -> u64 {
            note(&mut self.0, &mut self.1, page);
            let stream = &mut self.0[0];
            assert_eq!(Stream::decode(stream.encode()), *stream);
            stream.last += stream.pages() as i64 * stream.step;
            stream.pages()
        }

        /// A thread that touches every `step`th page: the windows.
        fn walk<const N: usize>(&mut self, from: i64, step: i64) -> [u64; N] {
            let mut page = from;
            core::array::from_fn(|_| {
                let window = self.fault(page);
                page += (window as i64 + 1) * step;
                window
            })
        }
    }

    #[test]
    fn a_window_doubles_while_faults_follow_it() {
        let mut table = Table::new();
        for step in [1, -1, 3, -7, LONGEST_STEP] {
            let windows: [u64; 8] = table.walk(1 << 20, step);
            assert_eq!(windows, [0, 0, 2, 4, 8, 16, 32, 32], "step {step}");
        }
        assert_eq!(table.walk(9000, LONGEST_STEP + 1), [0; 8]);
    }

    #[test]
    fn a_fault_elsewhere_leaves_a_stream_alone_and_one_beside_it_ends_it() {
        let mut table = Table::new();
        assert_eq!(table.walk(1000, 1), [0, 0, 2, 4]);
        let next = 1000 + 3 + 2 + 4 + 1;
        assert_eq!(table.fault(50_000), 0);
        assert_eq!(table.fault(next), 8);
        assert_eq!(table.fault(1004), 0, "restored ahead, and away again");
    }

    #[test]
    fn several_arrays_are_walked_at_once() {
        let mut table = Table::new();
        let mut pages = [10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000];
        let mut faults = 0;
        for _ in 0..100 {
            for page in &mut pages {
                let window = table.fault(*page) as i64;
                *page += window + 1;
                faults += 1;
            }
        }
        let walked: i64 = pages.iter().map(|page| page % 10_000).sum();
        assert!(walked > faults * 12, "{walked} pages, {faults} faults");
    }

    #[test]
    fn random_faults_make_no_stream() {
        let mut table = Table::new();
        let (mut state, mut ahead) = (1u64, 0);
        for _ in 0..100_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ahead += table.fault(1 + (state >> 33) as i64 % 4096);
        }
        assert!(ahead < 1000, "{ahead} of 100,000 faults over 16 MiB");
    }

    #[test]
    fn short_walks_at_random_places_are_distrusted() {
        let mut table = Table::new();
        let (mut state, mut ahead) = (1u64, 0);
        for _ in 0..1000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let at = 1 + (state >> 33) as i64 % (1 << 20);
            ahead += (at..at + 3).map(|page| table.fault(page)).sum::<u64>();
        }
        assert!(ahead <= 20, "{ahead} pages for nothing");
        let windows: [u64; 13] = table.walk(1 << 24, 1);
        assert_eq!(windows[12], MOST, "who goes on is believed");
    }
}
