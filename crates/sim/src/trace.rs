//! What happened: every step goes into a hash, the latest ones and the latest of each page are
//! kept for the report of a failure.

use coldpress_engine::{PageIndex, SegmentId};
use std::cell::Cell;
use std::fmt;

macro_rules! transitions {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What a thread did in a step.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(u8)]
        pub enum What { #[default] $($(#[$doc])* $name,)* }

        impl What {
            /// In words.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

transitions! {
    /// No step: the first entry of an empty trace.
    Nothing = "nothing",
    /// A lock is asked for.
    Lock = "asks for a lock",
    /// A lock is free again.
    Unlock = "gives a lock back",
    /// A thread waits.
    Wait = "waits",
    /// The engine lets changes in.
    LetIn = "lets changes in",
    /// A page is looked at by `take`.
    Take = "takes a page out",
    /// A slot is read.
    Staging = "reads a staging slot",
    /// Slots are given back.
    Release = "releases staging",
    /// Content is put in place.
    Install = "installs",
    /// Zeros are put in place.
    InstallZero = "installs zeros",
    /// Sleepers are woken.
    Wake = "wakes",
    /// A page is poisoned.
    Poison = "poisons",
    /// Accessed bits are read.
    Harvest = "harvests accessed bits",
    /// A page is read, written, copied, moved or dropped by the engine.
    Memory = "acts on the page in place",
    /// A frame of storage is asked for.
    FrameAllocate = "asks for a storage frame",
    /// A frame of storage is given back.
    FrameFree = "frees a storage frame",
    /// A chunk is asked for.
    Chunk = "asks for a chunk",
    /// In the middle of a compression.
    Compress = "compresses",
    /// In the middle of a decompression.
    Decompress = "decompresses",
    /// The program reads.
    Read = "the program reads",
    /// The program writes.
    Write = "the program writes",
    /// The program is told that its page is not there.
    Fault = "a fault is raised",
    /// A handler takes a message.
    Serve = "a fault is served",
    /// A change begins.
    Change = "the address space changes",
    /// The kernel drops memory.
    Zap = "memory is dropped",
    /// Between two things a thread does.
    Idle = "goes on",
    /// A pager is asked for a page.
    Ask = "asks a pager",
    /// Pages were supplied, or never will be.
    Answer = "is told of an answer",
    /// A pager does something.
    Pager = "the pager acts",
    /// The file of pages that are written back is read, written or asked for.
    File = "acts on the file",
}

/// One step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// Its number.
    pub step: u64,
    /// Segment of the page concerned, or 0.
    pub segment: SegmentId,
    /// Index of the page concerned.
    pub index: PageIndex,
    /// More of it: what kind of content, how many pages, what came out.
    pub detail: u32,
    /// Who.
    pub thread: u8,
    /// What.
    pub what: What,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            step,
            thread,
            what,
            segment,
            index,
            detail,
        } = self;
        write!(f, "{step:>12}  thread {thread:>2} {:<28} ", what.text())?;
        match segment {
            0 => write!(f, "{detail:#x}"),
            _ => write!(f, "page {segment}:{index} {detail:#x}"),
        }
    }
}

const LATEST: usize = 1 << 12;
const PAGES: usize = 1 << 10;
const OF_EACH_PAGE: usize = 16;

/// The trace.
pub struct Trace {
    hash: Cell<u64>,
    latest: Box<[Cell<Event>]>,
    next: Cell<usize>,
    /// By a hash of the page, a ring each; the ring's place is in `next_of`.
    of_pages: Box<[Cell<Event>]>,
    next_of: Box<[Cell<u8>]>,
    /// Every step of this segment, or VMO, is told as it happens.
    pub follow: Cell<SegmentId>,
}

fn row(segment: SegmentId, index: PageIndex) -> usize {
    (segment as usize * 331 + index as usize) % PAGES
}

impl Trace {
    /// Nothing has happened.
    pub fn new() -> Self {
        let events = |count| (0..count).map(|_| Cell::default()).collect();
        Self {
            hash: Cell::new(0xCBF2_9CE4_8422_2325),
            latest: events(LATEST),
            next: Cell::new(0),
            of_pages: events(PAGES * OF_EACH_PAGE),
            next_of: (0..PAGES).map(|_| Cell::new(0)).collect(),
            follow: Cell::new(0),
        }
    }

    /// Takes a step in.
    #[inline]
    pub fn note(&self, event: Event) {
        let word = u64::from(event.detail) << 32
            ^ u64::from(event.segment) << 24
            ^ u64::from(event.index) << 12
            ^ u64::from(event.thread) << 6
            ^ event.what as u64;
        let hash = (self.hash.get().rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
        self.hash.set(hash);
        let next = self.next.get();
        self.latest[next % LATEST].set(event);
        self.next.set(next + 1);
        if event.segment != 0 {
            if event.segment == self.follow.get() {
                eprintln!("{event}");
            }
            let row = row(event.segment, event.index);
            let at = self.next_of[row].get();
            self.of_pages[row * OF_EACH_PAGE + at as usize % OF_EACH_PAGE].set(event);
            self.next_of[row].set(at.wrapping_add(1));
        }
    }

    /// A word that depends on every step so far.
    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// The latest `count` steps.
    pub fn latest(&self, count: usize) -> Vec<Event> {
        let end = self.next.get();
        let begin = end.saturating_sub(count.min(LATEST));
        (begin..end)
            .map(|n| self.latest[n % LATEST].get())
            .collect()
    }

    /// The latest steps that concerned a page.
    pub fn of_page(&self, segment: SegmentId, index: PageIndex) -> Vec<Event> {
        let row = row(segment, index);
        let mut events: Vec<Event> = self.of_pages[row * OF_EACH_PAGE..][..OF_EACH_PAGE]
            .iter()
            .chain(self.latest.iter())
            .map(Cell::get)
            .filter(|event| (event.segment, event.index) == (segment, index))
            .collect();
        events.sort_by_key(|event| event.step);
        events.dedup_by_key(|event| event.step);
        events
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}
