//! What goes wrong, by name: each kind has a rate and a count, and a run has to show that every
//! kind fired.
//!
//! Two sorts. *Injected*: the machine does what a machine may do at the worst moment. *Aimed*: the
//! program does something to a page while it stands at a certain step of a compression or of a
//! restoration; the driver aims at such pages, and the kind is counted when the page really stood
//! there.

use crate::mode::Mode;
use crate::random::Random;
use std::cell::{Cell, RefCell};

/// In which mode of the machine a kind can fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In both.
    Both,
    /// With pages owned, under the locks of VMOs.
    Kernel,
    /// With pages of another kernel, and the pager of the product.
    Pager,
}

impl Where {
    /// Whether it is this machine.
    pub fn is(self, mode: Mode) -> bool {
        match mode {
            Mode::Kernel => matches!(self, Self::Both | Self::Kernel),
            Mode::Pager => matches!(self, Self::Both | Self::Pager),
        }
    }
}

macro_rules! kinds {
    ($($name:ident = $text:literal, $place:ident, $rate:literal;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each has its text")]
        pub enum Kind { $(#[doc = $text] $name,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// In words.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Its name, as an option takes it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Where it can fire.
            pub fn place(self) -> Where {
                match self { $(Self::$name => Where::$place,)* }
            }

            /// Once in how many opportunities; 0: it is aimed, or follows from something else.
            fn rate(self) -> u32 {
                match self { $(Self::$name => $rate,)* }
            }
        }
    };
}

kinds! {
    StorageNoFrame = "no frame for storage", Kernel, 50;
    StorageLimit = "no frame for storage: memory limit reached", Kernel, 0;
    InstallNoFrame = "no frame to put a page in place", Kernel, 60;
    InstallLimit = "no frame to put a page in place: memory limit reached", Kernel, 0;
    LimitLowered = "memory limit lowered", Kernel, 0;
    ChunkSegments = "no chunk for a segment", Kernel, 0;
    ChunkLeaves = "no chunk for leaves", Kernel, 0;
    ChunkRecords = "no chunk for page records", Kernel, 0;
    ChunkStorage = "no chunk for storage tables", Kernel, 0;
    ChunkObjects = "no chunk for VMOs", Kernel, 0;
    ChunkCounts = "no chunk for counters of shares", Kernel, 0;
    ChunkAccounts = "no chunk for figures of VMOs", Kernel, 0;
    CodecRefuses = "codec refuses what it could compress", Kernel, 40;
    CodecAtBound = "codec's result just reaches the target size", Kernel, 40;
    CodecPastBound = "codec finds out at the bound that it does not fit", Kernel, 60;
    SlowCompress = "compression takes very long", Kernel, 30;
    SlowDecompress = "decompression takes very long", Kernel, 40;
    SlowWriter = "writer stops in the middle of a page", Kernel, 12;
    FlipPayload = "bit flipped in stored bytes", Both, 0;
    FlipChecksum = "bit flipped in a stored checksum", Both, 0;
    FlipTime = "bit flipped in a stored time or form", Both, 0;
    FlipOwner = "bit flipped in a stored owner", Both, 0;
    FlipLink = "bit flipped in the link of a split object", Both, 0;
    Poisoned = "damaged page stopped, no byte given out", Both, 0;
    ClockJump = "clock jumps forward", Both, 0;
    ClockStill = "clock stands still", Kernel, 0;
    ClockWraps = "clock passes the end of the header's time", Kernel, 0;
    LostWake = "wake-up lost", Kernel, 40;
    DoubledWake = "wake-up doubled", Kernel, 20;
    SpuriousWake = "sleeper woken for nothing", Kernel, 0;
    LockPreempted = "thread stopped while it holds a lock", Kernel, 700;
    TakeRefused = "take refuses a page: pinned, or no frame to reserve", Kernel, 0;
    TakeRefusedAtRandom = "take refuses a page at random", Kernel, 60;
    TakeHole = "take meets a page dropped unannounced", Pager, 0;
    TakeChanging = "take moves nothing: the address space is changing", Pager, 0;
    InstallChanging = "install says Changing", Pager, 60;
    InstallGone = "install says Gone", Pager, 0;
    InstallPresent = "install says AlreadyPresent", Pager, 0;
    InstallRefused = "install refused for no reason; page poisoned", Both, 1500;
    LateTell = "change of the mappings told long after it was made", Pager, 4;
    Populates = "locked memory populated by the call in which it grows", Pager, 4;
    LateZap = "memory dropped long after it was announced", Pager, 4;
    AccessedLate = "accessed bit set late", Kernel, 4;
    Compaction = "storage compacted in between", Both, 0;
    Recoded = "page stored anew", Kernel, 0;
    RecodeOvertaken = "page touched, dropped or moved while it is stored anew", Kernel, 0;
    TouchStaged = "touch of a page waiting in staging", Kernel, 0;
    TouchInCodec = "touch of a page in the compressor", Kernel, 0;
    TouchStoring = "touch of a page being stored", Kernel, 0;
    TouchRestoring = "touch of a page being restored", Kernel, 0;
    DropStaged = "decommit of a page waiting in staging", Kernel, 0;
    DropInCodec = "decommit of a page in the compressor", Kernel, 0;
    DropStoring = "decommit of a page being stored", Kernel, 0;
    DropRestoring = "decommit of a page being restored", Kernel, 0;
    ZeroInFlight = "zeroing of a page being compressed or restored", Kernel, 0;
    ResizeInFlight = "resize over a page being compressed or restored", Kernel, 0;
    SnapshotStaged = "snapshot of a page waiting in staging", Kernel, 0;
    SnapshotInCodec = "snapshot of a page in the compressor", Kernel, 0;
    SnapshotStoring = "snapshot of a page being stored", Kernel, 0;
    SnapshotRestoring = "snapshot of a page being restored", Kernel, 0;
    DestroyStaged = "destruction of a VMO with a page waiting in staging", Kernel, 0;
    DestroyInCodec = "destruction of a VMO with a page in the compressor", Kernel, 0;
    DestroyStoring = "destruction of a VMO with a page being stored", Kernel, 0;
    DestroyRestoring = "destruction of a VMO with a page being restored", Kernel, 0;
    Pinned = "pages pinned for a while", Kernel, 0;
    PinInFlight = "pin of a page being compressed or restored", Kernel, 0;
    MetPin = "operation refused since a page is pinned", Kernel, 0;
    Spliced = "pages taken out, and given to another VMO", Kernel, 0;
    SpliceInFlight = "taking out of a page being compressed or restored", Kernel, 0;
    Marked = "VMO marked as latency-sensitive for a while", Kernel, 0;
    TouchOfEnded = "operation on a VMO that ends meanwhile", Kernel, 0;
    PagerSlow = "user pager takes very long", Kernel, 12;
    PagerRefuses = "user pager refuses a page", Kernel, 25;
    PagerNoMemory = "user pager has no memory to supply a page", Kernel, 0;
    PagerDetached = "page wanted of a user pager that was detached", Kernel, 0;
    SupplyUnasked = "user pager supplies what nobody asked for", Kernel, 0;
    SupplyUnknown = "user pager supplies what it does not have", Kernel, 0;
    SupplyMeetsPage = "page supplied that is there already", Kernel, 0;
    SuppliedAgain = "evicted page supplied again", Kernel, 0;
    WrittenBack = "dirty pages written back", Kernel, 0;
    WrittenMeanwhile = "page written while it is written back", Kernel, 0;
    WritebackAbandoned = "write-back abandoned in the middle", Kernel, 8;
    Evicted = "clean page of a user pager evicted", Kernel, 0;
    EvictInFlight = "eviction of a page being compressed or restored", Kernel, 0;
    EvictCompressed = "eviction of a compressed page", Kernel, 0;
    EvictRefused = "page that should be evicted was written, pinned or gone", Kernel, 0;
    DecommitDirty = "decommit refused since a page is dirty", Kernel, 0;
    ResizeAsked = "resize over a page that a user pager is asked for", Kernel, 0;
    DestroyAsked = "destruction of a VMO while its user pager is asked", Kernel, 0;
    Hinted = "pages said to be needed, or not", Kernel, 0;
    TunablesChanged = "tunables changed in the middle of everything", Kernel, 0;
    EvictorOff = "evictor switched off for a while", Kernel, 0;
    NoMemory = "no memory for the pager's own tables or storage", Pager, 12;
    MoveBusy = "move refuses a page: pinned, or shared with a child", Pager, 0;
    MovedUntold = "move answers EEXIST for a page that it has moved", Pager, 60;
    FutexReturns = "wait for a word returns for no reason", Pager, 50;
    Signal = "signal whose handler touches memory, in any call of the pager", Pager, 300;
    TouchAway = "touch of a page that is away", Pager, 0;
    TouchWhileChanging = "the same while the address space changes", Pager, 0;
    DropAway = "memory dropped of which some is away", Pager, 0;
    UnmapAway = "memory unmapped of which some is away", Pager, 0;
    UnmapFailed = "munmap that fails, and is told of", Pager, 6;
    MoveAway = "memory moved of which some is away", Pager, 0;
    MoveOntoAway = "memory moved onto some that is away", Pager, 0;
    MovedOntoUntold = "memory moved onto what was unmapped, and is not told", Pager, 0;
    RemapSplit = "mremap refused, since the range lies in several mappings", Pager, 0;
    AimedStaged = "call aimed at a page on its way into storage", Pager, 0;
    AimedRestoring = "call aimed at a page being restored", Pager, 0;
    AimedChanging = "touch or call aimed at a page that another call is changing", Pager, 0;
    GuardAway = "guards installed over memory of which some is away", Pager, 0;
    KeptFromChildren = "memory kept from children by the program, or no longer", Pager, 0;
    Grown = "memory made longer, in place or in a move", Pager, 0;
    GrownOverUntold = "memory made longer over what was unmapped, and is not told", Pager, 0;
    GrownOverAway = "memory made longer over what the pager has content of", Pager, 0;
    Advised = "memory that the program cannot wait for", Pager, 0;
    MutexMade = "robust mutexes made", Pager, 0;
    MutexMoved = "memory moved that holds robust mutexes", Pager, 0;
    Crowd = "others of the memory group hold more, or less", Pager, 0;
    GroupLimit = "the limit of the memory group changed, or taken away", Pager, 0;
    Shortage = "machine short of memory, or no longer", Pager, 0;
    ForkLookedAt = "fork: all that a child would have is looked at", Pager, 0;
    Shared = "pages shared with a child", Pager, 0;
    Unshared = "pages that a fork has shared, made the process's own", Pager, 0;
    Forks = "forks that the pager was prepared for", Pager, 0;
    Unannounced = "forks that the kernel alone tells of", Pager, 0;
    Untold = "forks that nobody tells of: nothing is missing but what has to be", Pager, 0;
    ChildFilled = "pages put into a child", Pager, 0;
    ChildChanges = "changes of a child while it is filled", Pager, 0;
    ChildLetGo = "children that were filled, and looked at", Pager, 0;
    Evictions = "pages taken out", Pager, 0;
    FaultsDecompressed = "faults answered by decompression", Pager, 0;
    FaultsCopied = "faults answered from staging", Pager, 0;
    EventsRead = "events that were acted on", Pager, 0;
    HandlersCalled = "parked handlers that were called", Pager, 0;
    Unregistered = "pages unregistered, since nothing of them is away", Pager, 0;
    UnregisterRefused = "registration ended in part, and refused", Pager, 40;
    FileNoSpace = "write to the file of pages refused: no space is left", Pager, 12;
    FileWriteFails = "write to it fails", Pager, 16;
    FileWriteTorn = "write to it fails in the middle", Pager, 16;
    FileWriteShort = "write to it takes fewer bytes than given", Pager, 6;
    FileWriteLost = "block of it lost long after it was written", Pager, 0;
    FileReadFails = "read of it fails once", Pager, 40;
    FileReadEnds = "read of it gives nothing once", Pager, 80;
    FileReadShort = "read of it gives fewer bytes than asked for", Pager, 20;
    FileReadSlow = "read of it takes very long", Pager, 4;
    FileReadDamaged = "bit flipped in what is read of it once", Pager, 40;
    FileDiscardFails = "space of it cannot be given up", Pager, 3;
    FileRots = "bit flipped in a record in it", Pager, 0;
    FileSpoiled = "record in it that cannot be read from now on", Pager, 0;
    FileClosed = "its descriptor closed by the program", Pager, 0;
    FileFull = "page not written back, since it is full", Pager, 0;
    FileBudget = "page not written back, since the day's budget is spent", Pager, 0;
    FileCleaned = "segments of it cleaned", Pager, 0;
    RecordsMoved = "records moved by cleaning", Pager, 0;
    RecordsLost = "records that cleaning could not read", Pager, 0;
    RecordsReread = "records that a second read brought back", Pager, 0;
    FileChildLooked = "children that find what was there", Pager, 0;
    FileGrandchild = "children that make children of their own", Pager, 0;
    FileChildUnheard = "children that end before they say that they read it", Pager, 0;
    PagesWrittenBack = "pages written back", Pager, 0;
    PagesReadBack = "pages read back", Pager, 0;
    PagesUnreadable = "pages that cannot be read back", Pager, 0;
}

/// How often each kind fired, and how often it shall.
pub struct Injections {
    rates: Vec<Cell<u32>>,
    counts: Vec<Cell<u64>>,
    forbidden: RefCell<Vec<Kind>>,
}

impl Injections {
    /// Every kind at its own rate, none fired.
    pub fn new() -> Self {
        Self {
            rates: Kind::ALL
                .iter()
                .map(|kind| Cell::new(kind.rate()))
                .collect(),
            counts: Kind::ALL.iter().map(|_| Cell::new(0)).collect(),
            forbidden: RefCell::default(),
        }
    }

    /// Whether it happens now. It is counted then.
    #[inline]
    pub fn fires(&self, random: &Random, kind: Kind) -> bool {
        let fires = random.one_in(self.rates[kind as usize].get());
        if fires {
            self.note(kind);
        }
        fires
    }

    /// Whether whoever causes it otherwise than by chance may do so.
    pub fn allows(&self, kind: Kind) -> bool {
        !self.forbidden.borrow().contains(&kind)
    }

    /// It never happens.
    pub fn forbid(&self, kind: Kind) {
        self.set_rate(kind, 0);
        self.forbidden.borrow_mut().push(kind);
    }

    /// Nothing happens by chance any more.
    pub fn calm(&self) {
        self.rates.iter().for_each(|rate| rate.set(0));
    }

    /// Has everything that happens by chance do so as often as `rate` says of its usual rate.
    pub fn scale(&self, rate: impl Fn(u32) -> u32) {
        for usual in self.rates.iter().filter(|usual| usual.get() > 0) {
            usual.set(rate(usual.get()));
        }
    }

    /// It has happened.
    #[inline]
    pub fn note(&self, kind: Kind) {
        self.add(kind, 1);
    }

    /// It has happened so many times.
    #[inline]
    pub fn add(&self, kind: Kind, times: u64) {
        let count = &self.counts[kind as usize];
        count.set(count.get() + times);
    }

    /// How often it happened.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].get()
    }

    /// Once in so many opportunities from now on; 0: never.
    pub fn set_rate(&self, kind: Kind, rate: u32) {
        self.rates[kind as usize].set(rate);
    }
}

impl Default for Injections {
    fn default() -> Self {
        Self::new()
    }
}
