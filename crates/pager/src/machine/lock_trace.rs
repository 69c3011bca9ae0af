//! Tracing of the pager's locks: how often each was taken and had to be waited for, how long it was waited
//! for and how long it was held.
//!
//! Off, it costs one relaxed load where a lock is taken and one where it is given back. It is switched on
//! by `COLDPRESS_TRACE_LOCKS=FILE` for the process that `coldpress run` starts (not for children of a
//! fork: the file is one process's), and then stays on. The watchdog writes the table to that file once a
//! second, and once more when the program ends.
//!
//! Locks are told apart by their addresses, since a lock is one word and stays one. All VMO locks count as
//! one; of the gate, being inside, being inside in turn and holding it closed are three. When a
//! lock was taken stands in a table of holders: a lock has one holder, whose entry nobody else
//! touches. (The gate has many; they keep the time themselves.) A full table loses a hold, never a lock.
//!
//! Waiting is counted from the first try to the moment of having the lock, for those that did not have
//! it at the first try.

use crate::Pager;
use crate::machine::os::Os;
use coldpress_interface::histogram::LogLinear;
use coldpress_linux::sys;
use coldpress_linux::text::Text;
use coldpress_uffd::AddressRange;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::fs::{Mode, OFlags};

/// Two buckets to an octave, from 64 ns to minutes: bounds are at most half too high.
type Times = LogLinear<1, 64>;

/// What is told apart by address, and by these, which are no addresses.
const VMO: usize = 1;
/// Being inside the gate.
pub const INSIDE: usize = 2;
/// Being inside the gate after those who wait to close it.
pub const INSIDE_IN_TURN: usize = 3;
/// Holding the gate closed.
pub const CLOSED: usize = 4;

const LOCKS: usize = 32;
const HOLDERS: usize = 64;
/// Places that are tried for a holder.
const TRIES: usize = 8;

struct Lock {
    key: AtomicUsize,
    taken: AtomicU64,
    waited: AtomicU64,
    longest_wait_ns: AtomicU64,
    longest_hold_ns: AtomicU64,
    all_waits_ns: AtomicU64,
    all_holds_ns: AtomicU64,
    waits: Times,
    holds: Times,
}

impl Lock {
    const fn new() -> Self {
        Self {
            key: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            longest_wait_ns: AtomicU64::new(0),
            longest_hold_ns: AtomicU64::new(0),
            all_waits_ns: AtomicU64::new(0),
            all_holds_ns: AtomicU64::new(0),
            waits: Times::new(),
            holds: Times::new(),
        }
    }

    fn held(&self, ns: u64) {
        self.holds.record(ns);
        self.all_holds_ns.fetch_add(ns, Relaxed);
        self.longest_hold_ns.fetch_max(ns, Relaxed);
    }
}

struct Holder {
    address: AtomicUsize,
    since_ns: AtomicU64,
}

struct Place(UnsafeCell<(Text<256>, u32)>);

// SAFETY: written by `configure` alone, before any other thread exists.
unsafe impl Sync for Place {}

static ON: AtomicBool = AtomicBool::new(false);
static TRACED: [Lock; LOCKS] = [const { Lock::new() }; LOCKS];
static HELD: [Holder; HOLDERS] = [const {
    Holder {
        address: AtomicUsize::new(0),
        since_ns: AtomicU64::new(0),
    }
}; HOLDERS];
/// Where the table goes, and the process that it is of.
static PLACE: Place = Place(UnsafeCell::new((Text::new(), 0)));
static WRITING: AtomicU32 = AtomicU32::new(0);
/// The pager's own memory, in which are the locks of VMOs and no others: a lock does not know whose it is.
static OWN: Own = Own {
    start: AtomicUsize::new(0),
    len: AtomicUsize::new(0),
};

struct Own {
    start: AtomicUsize,
    len: AtomicUsize,
}

/// Tells where the pager's own memory is, before there are locks in it.
pub(crate) fn set_own(range: AddressRange) {
    OWN.start.store(range.start, Relaxed);
    OWN.len.store(range.len(), Relaxed);
}

/// Switches tracing on, if a file is named.
///
/// # Safety
/// The program has one thread, and the pager has not started.
pub unsafe fn configure(file: Option<&[u8]>) {
    let Some(file) = file.filter(|file| !file.is_empty()) else {
        return;
    };
    // SAFETY: as the caller promises.
    let (path, process) = unsafe { &mut *PLACE.0.get() };
    path.push(file);
    *process = sys::process_id();
    ON.store(true, Relaxed);
}

/// Switches it off: in the child of a fork, in which most holders do not exist.
pub fn stop() {
    ON.store(false, Relaxed);
}

fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Before a lock is taken: the time, or 0 where nothing is traced.
#[inline]
pub fn asked() -> u64 {
    if is_on() { sys::now_ns() } else { 0 }
}

/// How a lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// At the first try.
    AtOnce,
    /// After others.
    Waited,
}

impl Taking {
    /// At the try that comes after so many.
    pub const fn after(tries: u32) -> Self {
        match tries {
            0 => Self::AtOnce,
            _ => Self::Waited,
        }
    }
}

/// The lock at `address` was taken, which was asked for at that time.
#[inline]
pub fn taken(address: usize, asked_ns: u64, taking: Taking) {
    if asked_ns != 0 {
        taken_at(address, asked_ns, taking);
    }
}

/// The lock at `address` is about to be given back.
#[inline]
pub fn given(address: usize) {
    if is_on() {
        given_at(address);
    }
}

#[cold]
fn taken_at(address: usize, asked_ns: u64, taking: Taking) {
    let key = key_of(address);
    let now = note(key, asked_ns, taking);
    for holder in places(address) {
        let free = holder.address.load(Relaxed) == 0;
        if free && compare(&holder.address, 0, address) {
            holder.since_ns.store(now, Relaxed);
            return;
        }
    }
}

#[cold]
fn given_at(address: usize) {
    let Some(holder) = places(address).find(|h| h.address.load(Relaxed) == address) else {
        return;
    };
    let since = holder.since_ns.load(Relaxed);
    holder.address.store(0, Release);
    let key = key_of(address);
    held(key, since);
}

/// What the lock at `address` is known by.
fn key_of(address: usize) -> usize {
    let start = OWN.start.load(Relaxed);
    match (start..start + OWN.len.load(Relaxed)).contains(&address) {
        true => VMO,
        false => address,
    }
}

fn places(address: usize) -> impl Iterator<Item = &'static Holder> {
    let first = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (0..TRIES).map(move |n| &HELD[(first + n) % HOLDERS])
}

fn compare(word: &AtomicUsize, from: usize, to: usize) -> bool {
    word.compare_exchange(from, to, Acquire, Relaxed).is_ok()
}

fn lock(key: usize) -> Option<&'static Lock> {
    TRACED.iter().find(|lock| {
        let found = lock.key.load(Relaxed);
        found == key || found == 0 && (compare(&lock.key, 0, key) || lock.key.load(Relaxed) == key)
    })
}

/// Counts a taking; the time now.
pub(crate) fn note(key: usize, asked_ns: u64, taking: Taking) -> u64 {
    let now = sys::now_ns();
    if let Some(lock) = lock(key) {
        lock.taken.fetch_add(1, Relaxed);
        if taking == Taking::Waited {
            let ns = now.saturating_sub(asked_ns);
            lock.waited.fetch_add(1, Relaxed);
            lock.waits.record(ns);
            lock.all_waits_ns.fetch_add(ns, Relaxed);
            lock.longest_wait_ns.fetch_max(ns, Relaxed);
        }
    }
    now
}

/// Counts a hold that began at `since_ns`; 0: it was not traced.
pub(crate) fn held(key: usize, since_ns: u64) {
    if let Some(lock) = lock(key).filter(|_| since_ns != 0) {
        lock.held(sys::now_ns().saturating_sub(since_ns));
    }
}

/// What a lock is called in the table.
fn name<O: Os>(pager: &Pager<O>, key: usize) -> &'static str {
    let within =
        |start: *const u8, bytes: usize| (start as usize..start as usize + bytes).contains(&key);
    macro_rules! within {
        ($place:expr) => {
            within((&raw const $place).cast(), size_of_val(&$place))
        };
    }
    let engine = pager.engine.lock_addresses();
    match key {
        VMO => "VMO locks",
        INSIDE => "gate, inside",
        INSIDE_IN_TURN => "gate, inside in turn",
        CLOSED => "gate, closed",
        _ if within!(pager.new_windows) => "new_windows",
        _ if within!(pager.registering) => "registering",
        _ if within!(pager.discovery.found) => "discovery found",
        _ if within!(pager.discovery.buffer) => "discovery buffer",
        _ if within!(pager.host.exclusions) => "exclusions table",
        _ if within!(pager.host.not_inherited) => "not inherited",
        _ if within!(pager.deferred) => "deferred list",
        _ if within!(pager.request) => "request lock",
        _ if within!(pager.fork.appending) => "appending",
        _ if within!(pager.fork) => "fork lock",
        _ => match engine.iter().find(|(_, address)| *address == key) {
            Some((name, _)) => name,
            None => "another",
        },
    }
}

impl<O: Os> Pager<O> {
    /// Writes the table to its file, if tracing is on.
    pub(crate) fn write_lock_trace(&self) {
        if !is_on() || WRITING.swap(1, Acquire) != 0 {
            return;
        }
        // SAFETY: not written once threads exist.
        let (path, process) = unsafe { &*PLACE.0.get() };
        if *process == sys::process_id() {
            self.write_lock_trace_to(path.as_bytes());
        }
        WRITING.store(0, Release);
    }

    fn write_lock_trace_to(&self, path: &[u8]) {
        let mut to = Text::<272>::default();
        to.push(path);
        let mut new = Text::<272>::default();
        let _ = (new.push(path), new.write_str(".new"));
        let (Some(to), Some(new)) = (to.as_c_str(), new.as_c_str()) else {
            return;
        };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(new, flags, Mode::RUSR | Mode::WUSR) else {
            return;
        };
        let mut line = Text::<256>::default();
        let _ = writeln!(
            line,
            "{:<22} {:>10} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>10}",
            "µs",
            "taken",
            "waited",
            "wait p50",
            "p99",
            "longest",
            "all",
            "hold p50",
            "p99",
            "longest",
            "all"
        );
        let _ = rustix::io::write(&file, line.as_bytes());
        for lock in TRACED.iter().take_while(|lock| lock.key.load(Relaxed) != 0) {
            let mut line = Text::<256>::default();
            let _ = write!(
                line,
                "{:<22} {:>10} {:>9}",
                name(self, lock.key.load(Relaxed)),
                lock.taken.load(Relaxed),
                lock.waited.load(Relaxed)
            );
            let sides = [
                (&lock.waits, &lock.longest_wait_ns, &lock.all_waits_ns),
                (&lock.holds, &lock.longest_hold_ns, &lock.all_holds_ns),
            ];
            for (times, longest, all) in sides {
                let longest = longest.load(Relaxed);
                let upper = |millionths| {
                    let bound = times.quantile_in_millionths_ns(millionths);
                    bound.unwrap_or(0).min(longest)
                };
                for ns in [upper(500_000), upper(990_000), longest] {
                    let _ = write!(line, " {:>7}.{}", ns / 1000, ns / 100 % 10);
                }
                let _ = write!(line, " {:>10}", all.load(Relaxed) / 1000);
            }
            let _ = line.write_str("\n");
            let _ = rustix::io::write(&file, line.as_bytes());
        }
        let _ = rustix::fs::rename(new, to);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::machine::futex::{FutexLock, Gate};
    use lock_api::RawMutex;
    use std::string::String;
    use std::thread;
    use std::time::Duration;

    /// One test, since tracing is on for all of the process once it is.
    #[test]
    fn waits_and_holds_are_counted_and_written() {
        let path =
            std::env::temp_dir().join(std::format!("coldpress-locks-{}", std::process::id()));
        let lock = std::boxed::Box::new(FutexLock::<crate::machine::linux::Linux>::INIT);
        let address = (&raw const *lock) as usize;
        let of = |key| TRACED.iter().find(|lock| lock.key.load(Relaxed) == key);
        lock.lock();
        // SAFETY: it was taken above.
        unsafe { lock.unlock() };
        assert!(of(address).is_none(), "nothing is traced yet");

        // SAFETY: nothing else of this process configures it.
        unsafe { configure(Some(path.to_str().unwrap().as_bytes())) };
        lock.lock();
        let (tell, told) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(()).unwrap();
                lock.lock();
                // SAFETY: it was taken above.
                unsafe { lock.unlock() };
            });
            told.recv().unwrap();
            thread::sleep(Duration::from_millis(30));
            // SAFETY: it was taken before the other thread began.
            unsafe { lock.unlock() };
        });
        let traced = of(address).expect("traced");
        assert_eq!(traced.taken.load(Relaxed), 2);
        assert_eq!(traced.waited.load(Relaxed), 1);
        assert_eq!(traced.holds.count(), 2);
        assert!(traced.longest_wait_ns.load(Relaxed) > 5_000_000);
        assert!(traced.longest_hold_ns.load(Relaxed) > 25_000_000);

        let gate = Gate::<crate::machine::linux::Linux>::new();
        let inside = gate.enter();
        thread::sleep(Duration::from_millis(2));
        drop(inside);
        drop(gate.close());
        assert!(of(INSIDE).unwrap().longest_hold_ns.load(Relaxed) > 1_000_000);
        assert!(of(CLOSED).unwrap().taken.load(Relaxed) > 0);

        static PAGER: Pager = Pager::new();
        PAGER.write_lock_trace();
        let text = std::fs::read_to_string(&path).unwrap();
        let has = |name: &str| text.lines().any(|line| line.starts_with(name));
        assert!(
            has("gate, inside") && has("gate, closed") && has("another"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() < 200), "{text}");
        let _: (String, _) = (text, std::fs::remove_file(&path));
        stop();
    }
}
