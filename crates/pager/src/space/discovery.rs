//! Finding the program's memory as it comes and goes.
//!
//! `/proc/self/maps` names the mappings, `PAGEMAP_SCAN` the populated pages. What is found is
//! only *tracked* (a record in the newest generation); memory is registered when its first page
//! is evicted. Registered memory needs no discovery: each page that comes to life there passes
//! through a fault handler.
//!
//! Evictable is private, anonymous, readable, writable, not executable memory (the kernel moves
//! pages only between mappings with equal permissions), except
//! * what [`exclusions`](crate::space::exclusions) lists, the pager's own memory, the main stack;
//! * mappings below [`SMALL_BYTES`]: they hold next to nothing, and the special ones that a
//!   process may not lose across a fork (vgetrandom state, for one) are of that size;
//! * data segments of libraries: the first MiB of anonymous memory that directly follows a file's mapping;
//! * the first page of each 64 MiB (libc keeps the state of its arenas there and writes to it
//!   in the child of a fork before any hook runs).

use crate::Pager;
use crate::machine::late::Late;
use crate::machine::linux::Linux;
use crate::machine::os::{Os, PopulatedPages, ProcessFiles};
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use crate::space::exclusions::{ARENA_BYTES, Exclusions};
use crate::space::mapping_count::MappingCount;
use crate::space::paging::Space;
use crate::space::windows::{ADDRESS_LIMIT, WINDOW_BYTES, parts, skip_parts};
use coldpress_engine::{Growth, LEAF_PAGES};
use coldpress_linux::maps;
use coldpress_uffd::{AddressRange, Errno, PAGE_SIZE};

/// Mappings smaller than this are left alone.
pub const SMALL_BYTES: usize = 128 << 10;

/// So much of anonymous memory that follows a file's mapping may be a data segment: the pager's own for one. The kernel joins
/// memory of the program to it.
const DATA_SEGMENT_BYTES: usize = 1 << 20;

/// Bytes of one mapping that are registered ahead of being touched.
const FENCE_BYTES: usize = 4 << 30;

/// Exclusions of which one look finds out whether they are over.
const LOOKED_AT_EXCLUSIONS: usize = 256;

const MAPPINGS: usize = 16384;
const LINES: usize = 64 << 10;

pub(crate) struct Found {
    mappings: [AddressRange; MAPPINGS],
    len: usize,
    /// The same, as read the time before.
    previous: [AddressRange; MAPPINGS],
    previous_len: usize,
}

impl Found {
    /// Whether a small mapping is the remainder of a larger one that we have registered a part of.
    fn is_remainder<O: Os>(&self, host: &Space<O>, range: AddressRange) -> bool {
        let previous = &self.previous[..self.previous_len];
        let at = previous.partition_point(|m| m.end <= range.start);
        let whole = previous.get(at);
        whole.is_some_and(|m| m.start <= range.start && range.end <= m.end)
            && host.adjoins_registered(range)
    }
}

/// Finds memory. Used by the reclaim thread alone, but for [`Discovery::evictable_around`].
pub struct Discovery<O: Os = Linux> {
    files: Late<O::ProcessFiles>,
    /// How many mappings there are.
    pub(crate) count: MappingCount,
    /// Evictable mappings as last read, in the order of their addresses.
    pub(crate) found: lock_api::Mutex<RankedLock<{ ranks::FOUND }, O>, Found>,
    pub(crate) buffer: lock_api::Mutex<RankedLock<{ ranks::DISCOVERY_BUFFER }, O>, [u8; LINES]>,
}

impl<O: Os> Default for Discovery<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Discovery<O> {
    /// Not opened yet.
    pub const fn new() -> Self {
        Self {
            files: Late::new(),
            count: MappingCount::new(),
            found: lock_api::Mutex::const_new(
                lock_api::RawMutex::INIT,
                Found {
                    mappings: [AddressRange { start: 0, end: 0 }; MAPPINGS],
                    len: 0,
                    previous: [AddressRange { start: 0, end: 0 }; MAPPINGS],
                    previous_len: 0,
                },
            ),
            buffer: lock_api::Mutex::const_new(lock_api::RawMutex::INIT, [0; LINES]),
        }
    }

    /// Opens the files of `/proc`.
    ///
    /// # Safety
    /// No other thread uses this value.
    ///
    /// # Errors
    /// Those of `open`.
    pub unsafe fn open(&self) -> Result<(), Errno> {
        let files = O::ProcessFiles::open()?;
        // SAFETY: as the caller promises.
        unsafe {
            self.files.set(files);
            self.found.raw().reset();
            self.buffer.raw().reset();
        }
        self.count.look_up_limit::<O>();
        Ok(())
    }

    /// The evictable mapping that `run` lies in, as last read.
    pub fn evictable_around(&self, run: AddressRange) -> Option<AddressRange> {
        let found = self.found.lock();
        let mappings = &found.mappings[..found.len];
        let at = mappings.partition_point(|m| m.end <= run.start);
        let mapping = mappings.get(at).copied();
        mapping.filter(|m| m.start <= run.start && m.end >= run.end)
    }

    /// Nothing is open: in the child of a fork.
    ///
    /// # Safety
    /// This is the only thread of the process.
    pub(crate) unsafe fn reset(&self) {
        // SAFETY: as the caller promises.
        unsafe {
            self.files.unset();
            self.found.raw().reset();
            self.buffer.raw().reset();
        }
    }

    /// Calls `with` for every mapping. By the pager's first thread, which may not have opened its files yet.
    pub(crate) fn for_each_mapping(
        &self,
        mut with: impl FnMut(&maps::Mapping<'_>),
    ) -> Result<(), Errno> {
        let own = match self.files.get() {
            Some(_) => None,
            None => Some(O::ProcessFiles::open()?),
        };
        let files = self.files.get().or(own.as_ref()).ok_or(Errno::BADF)?;
        let mut buffer = self.buffer.lock();
        files.for_each_mapping(buffer.as_mut_slice(), |line| {
            if let Some(mapping) = maps::parse(line) {
                with(&mapping);
            }
        })
    }

    /// Reads the mappings anew, and brings the exclusions of threads up to date.
    fn read_mappings(&self, host: &Space<O>) -> Option<()> {
        let files = self.files.get()?;
        let exclusions = &host.exclusions;
        let own = host.memory.range();
        let mut buffer = self.buffer.lock();
        let mut guard = self.found.lock();
        let found = &mut *guard;
        found.previous_len = found.len;
        found.previous[..found.len].copy_from_slice(&found.mappings[..found.len]);
        found.len = 0;
        let (mut file_end, mut lines) = (0, 0);
        exclusions.begin_reading();
        files
            .for_each_mapping(buffer.as_mut_slice(), |line| {
                lines += 1;
                let Some(mapping) = maps::parse(line) else {
                    return;
                };
                let mut range = mapping.range;
                if range.start == file_end {
                    range.start = range.end.min(range.start + DATA_SEGMENT_BYTES);
                }
                if mapping.is_file() {
                    file_end = range.end;
                }
                let unfit = !mapping.is_evictable()
                    || (range.len() < SMALL_BYTES && !found.is_remainder(host, range))
                    || range.end > ADDRESS_LIMIT
                    || range.is_empty();
                if unfit || !range.intersect(own).is_empty() || found.len == MAPPINGS {
                    return;
                }
                // The kernel splits a mapping where registration begins and ends; together they
                // still are one mapping of the program.
                let len = found.len;
                if len > 0 && found.mappings[len - 1].end == range.start {
                    found.mappings[len - 1].end = range.end;
                } else {
                    found.mappings[len] = range;
                    found.len += 1;
                }
            })
            .ok()?;
        self.count.note_read(lines);
        let mappings = &found.mappings[..found.len];
        exclusions.retain_threads(|range| {
            let at = mappings.partition_point(|m| m.end <= range.start);
            mappings.get(at).is_some_and(|m| m.start <= range.start)
        });
        exclusions.add_threads(files, mappings);
        exclusions.forget_what_is_over(LOOKED_AT_EXCLUSIONS, |block| {
            is_no_control_block(host, block)
        });
        Some(())
    }

    /// Finds threads that have come since, without reading the mappings.
    pub fn exclude_threads(&self, exclusions: &Exclusions<O>) {
        let Some(files) = self.files.get() else {
            return;
        };
        let found = self.found.lock();
        exclusions.add_threads(files, &found.mappings[..found.len]);
    }

    /// The evictable mappings, as last read. Each is looked up by itself: the caller may be long over
    /// it, and the list may change meanwhile.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = AddressRange> + '_ {
        (0..).map_while(|n| {
            let found = self.found.lock();
            found.mappings[..found.len].get(n).copied()
        })
    }

    /// Calls `with` for each part of the known mappings that is not excluded.
    fn for_each_manageable(&self, exclusions: &Exclusions<O>, mut with: impl FnMut(AddressRange)) {
        let len = self.found.lock().len;
        for n in 0..len {
            let mapping = self.found.lock().mappings[n];
            let mut at = mapping.start;
            while at < mapping.end {
                let rest = AddressRange {
                    start: at,
                    end: mapping.end,
                };
                let excluded = exclusions.first_overlap(rest);
                let end = excluded.map_or(mapping.end, |e| e.start.max(at));
                if end > at {
                    with(AddressRange { start: at, end });
                }
                at = excluded.map_or(mapping.end, |e| e.end);
            }
        }
    }
}

/// Whether something else, or nothing, lies where a control block was: each begins with its own address, and none is
/// ever away. By a thread of the pager, outside the gate.
fn is_no_control_block<O: Os>(host: &Space<O>, block: usize) -> bool {
    let page = AddressRange::new(block & !(PAGE_SIZE - 1), PAGE_SIZE);
    let mut is_there = false;
    let known = host.for_each_populated(page, || (), |_| is_there = true);
    known && (!is_there || O::differs(block, block as u32))
}

impl<O: Os> Pager<O> {
    /// Tracks what is populated and not registered. Returns the number of pages newly tracked.
    pub(crate) fn discover(&self) -> u64 {
        if self.discovery.read_mappings(&self.host).is_none() {
            return 0;
        }
        if self.discovery.count.is_joining_due() {
            self.join();
        }
        let mut tracked = 0;
        self.discovery
            .for_each_manageable(&self.host.exclusions, |range| {
                self.host
                    .for_each_populated_part(range, |part| tracked += self.discover_range(part));
            });
        tracked
    }

    /// Registers what is not registered yet of all mappings (of each its first `FENCE_BYTES`),
    /// touched or not. They are read anew. Whether there was anything.
    pub(crate) fn fence(&self) -> bool {
        if self.discovery.read_mappings(&self.host).is_none() {
            return false;
        }
        let mut registered = false;
        self.discovery
            .for_each_manageable(&self.host.exclusions, |range| {
                let range = AddressRange {
                    start: range.start,
                    end: range.end.min(range.start + FENCE_BYTES),
                };
                for part in parts(range) {
                    let Some(segment) = self.window_for(part.base) else {
                        return;
                    };
                    let window = self.host.windows.get(segment);
                    if window.are_registered(part.first, part.end) {
                        continue;
                    }
                    let _inside = self.host.gate.enter_in_turn();
                    let whole = AddressRange {
                        start: window.address(part.first),
                        end: part.base + part.end as usize * PAGE_SIZE,
                    };
                    // A refusal is met again, and counted, when a page of it is to be taken.
                    registered |= self.register_in_window(segment, whole).is_ok();
                }
            });
        registered
    }

    /// Registers whole what is registered in part of windows, so that the pieces are one mapping again.
    fn join(&self) {
        let host = &self.host;
        self.discovery
            .for_each_manageable(&self.host.exclusions, |range| {
                for part in parts(range) {
                    let Some(segment) = host.windows.find(&host.memory, part.base) else {
                        continue;
                    };
                    let window = host.windows.get(segment);
                    let mut pages = part.first..part.end;
                    if window.are_registered(part.first, part.end)
                        || !pages.any(|index| window.is_registered(index))
                    {
                        continue;
                    }
                    let _inside = host.gate.enter_in_turn();
                    let whole = AddressRange {
                        start: window.address(part.first),
                        end: part.base + part.end as usize * PAGE_SIZE,
                    };
                    // What is refused stays in pieces.
                    let _ = self.register_in_window(segment, whole);
                }
            });
    }

    fn discover_range(&self, range: AddressRange) -> u64 {
        let mut tracked = 0;
        for part in parts(range) {
            let window = self.host.windows.find(&self.host.memory, part.base);
            let mut first = part.first;
            while first < part.end {
                let chunk_end = (first - first % LEAF_PAGES + LEAF_PAGES).min(part.end);
                let unregistered = window.is_none_or(|id| {
                    let window = self.host.windows.get(id);
                    !window.are_registered(first, chunk_end)
                });
                let mut end = chunk_end;
                if unregistered && window.is_none() {
                    end = part.end;
                }
                if unregistered {
                    tracked += self.track_populated(AddressRange {
                        start: part.base + first as usize * PAGE_SIZE,
                        end: part.base + end as usize * PAGE_SIZE,
                    });
                }
                first = end;
            }
        }
        tracked
    }
}

/// A mapping of more is walked from populated page to populated page, not window by window: the shadow memory of
/// sanitizers is terabytes, nearly all of them never touched. Half a million windows of 16 TiB took half a second.
const SPARSE_BYTES: usize = 4 << 30;

impl<O: Os> Space<O> {
    /// Calls `with` for the parts of a range that may hold populated pages not known yet: all of it, or its windows that
    /// have some.
    fn for_each_populated_part(&self, range: AddressRange, mut with: impl FnMut(AddressRange)) {
        let pagemap = self.pagemap.get();
        let Some(pagemap) = pagemap.filter(|_| range.len() > SPARSE_BYTES) else {
            return with(range);
        };
        let mut rest = self.skip_registered(range);
        while !rest.is_empty()
            && let Ok(Some(address)) = pagemap.first_populated(rest)
        {
            let base = address - address % WINDOW_BYTES;
            let end = rest.end.min(base + WINDOW_BYTES);
            let start = rest.start.max(base);
            with(AddressRange { start, end });
            rest.start = end;
            rest = self.skip_registered(rest);
        }
    }

    /// The range without the windows at its start that are registered whole: nothing in them is new, and the kernel would
    /// go through every page of theirs that is away.
    fn skip_registered(&self, range: AddressRange) -> AddressRange {
        skip_parts(range, |part| {
            let segment = self.windows.find(&self.memory, part.base);
            segment.is_some_and(|id| self.windows.get(id).are_registered(part.first, part.end))
        })
    }

    /// Whether a mapping is a remainder: what is left beside a part that we have registered.
    fn adjoins_registered(&self, range: AddressRange) -> bool {
        let registered = |address: usize| {
            self.windows.find(&self.memory, address).is_some_and(|id| {
                let window = self.windows.get(id);
                window.is_registered(window.index_of(address))
            })
        };
        registered(range.start) || registered(range.start - PAGE_SIZE) || registered(range.end)
    }
}

impl<O: Os> Pager<O> {
    /// Tracks the populated pages of a range inside one window that are not registered.
    fn track_populated(&self, range: AddressRange) -> u64 {
        let host = &self.host;
        let mut window = None;
        let mut tracked = 0;
        // Inside the gate: no memory is moved onto these addresses meanwhile.
        let inside = || {
            let inside = host.gate.enter_in_turn();
            if let Some(segment) = host.windows.find(&host.memory, range.start) {
                let window = host.windows.get(segment);
                let end = window.index_of(range.end - PAGE_SIZE) + 1;
                host.see_missing(segment, window.index_of(range.start), end);
            }
            inside
        };
        host.for_each_populated(range, inside, |address| {
            let Some(segment) = window.or_else(|| self.window_for(range.start)) else {
                return;
            };
            window = Some(segment);
            let window = host.windows.get(segment);
            let index = window.index_of(address);
            if address % ARENA_BYTES != 0
                && !window.is_registered(index)
                && !window.is_dropping(index)
                && self
                    .engine
                    .track_known(self, segment, index, Growth::Allowed)
            {
                tracked += 1;
            }
        });
        tracked
    }

    /// The window of an address, made where there is none yet.
    pub fn window_for(&self, address: usize) -> Option<u32> {
        let host = &self.host;
        if let Some(id) = host.windows.find(&host.memory, address) {
            return Some(id);
        }
        let _new = self.new_windows.lock();
        if let Some(id) = host.windows.find(&host.memory, address) {
            return Some(id);
        }
        let base = address - address % WINDOW_BYTES;
        let id = self.engine.create_segment(self)?;
        host.windows.insert(&host.memory, base, id).then_some(id)
    }
}
