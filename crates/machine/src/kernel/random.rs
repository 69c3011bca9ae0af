//! Random debug compression: VMOs some of whose pages are compressed before whatever is done with them.
//!
//! The target `random_compression` runs all tests of VMOs once more with it. A test names its VMOs by
//! [`Restless`] only, so none can leave it out by mistake. What is said of where pages are is said with
//! `assert_placed_eq`, which does not compare then; a test that makes no sense then ends at once
//! ([`not_under_random_compression`]). At the end the process tells of each suite how many pages went and how
//! much was not compared, and fails if many pages might have gone and none has.
//!
//! While a test waits for its hook, for chunks or for the end of slow codecs it is left in peace: what
//! it waits for would happen to us instead of to it.

use super::{CodecHooks, Machine, SpinLock, TestReclaimer, TestVmos, reclaimer_with};
use coldpress_engine::STAGING_SLOTS;
use coldpress_engine::lock::HeldRanks;
use coldpress_engine::queues::random::RandomPick;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once, OnceLock};

/// Whether pages are compressed at random: the target says it by its name.
pub fn under_random_compression() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let path = std::env::args_os().next().map(PathBuf::from);
        let name = path.as_deref().and_then(Path::file_name);
        name.is_some_and(|n| n.as_encoded_bytes().starts_with(b"random_compression"))
    })
}

/// The staging slots of those who compress because a test says so.
pub const OTHER_SLOTS: u16 = STAGING_SLOTS as u16 - 1;

/// So many times pages might have been compressed: one must have been then.
const MANY: u64 = 1000;

/// What the tests of one suite, a file or a directory, came to.
#[derive(Default)]
struct Sums {
    operations: AtomicU64,
    compressed: AtomicU64,
    left_out: AtomicU64,
    not_compared: AtomicU64,
}

static SUITES: Mutex<BTreeMap<String, &'static Sums>> = Mutex::new(BTreeMap::new());

/// Those of this thread's suite: a test's thread bears its name, `suite::test`.
fn sums() -> &'static Sums {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let suite = name.split_once("::").map_or("no suite", |(suite, _)| suite);
    let mut suites = SUITES.lock().unwrap();
    suites
        .entry(suite.to_owned())
        .or_insert_with(|| &*Box::leak(Box::default()))
}

unsafe extern "C" {
    safe fn atexit(act: extern "C" fn()) -> i32;
}

extern "C" fn tell() {
    for (suite, sums) in SUITES.lock().unwrap().iter() {
        let (operations, compressed) = (&sums.operations, &sums.compressed);
        let (operations, compressed) = (operations.load(Relaxed), compressed.load(Relaxed));
        println!(
            "{suite}: {compressed} pages compressed at random in {operations} operations; \
             {} assertions not compared, {} tests left out",
            sums.not_compared.load(Relaxed),
            sums.left_out.load(Relaxed),
        );
        if operations >= MANY && compressed == 0 {
            println!("random compression compresses nothing");
            std::process::abort();
        }
    }
}

fn tell_at_the_end() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| assert_eq!(atexit(tell), 0));
}

/// Whether this test is to end at once, since it says of pages that they are in place, or what
/// compressing them changes. Tells so, and is counted.
#[must_use]
pub fn not_under_random_compression(why: &str) -> bool {
    if !under_random_compression() {
        return false;
    }
    tell_at_the_end();
    sums().left_out.fetch_add(1, Relaxed);
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    println!("SKIPPED: {test}: {why}");
    true
}

/// The same for the same test, whatever runs beside it. `COLDPRESS_RANDOM_SEED` gives another.
fn seed() -> u64 {
    let more = std::env::var("COLDPRESS_RANDOM_SEED").unwrap_or_default();
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let mut hash = DefaultHasher::new();
    (name, more).hash(&mut hash);
    hash.finish()
}

/// Whether what is said of where pages are is to be compared. Counts those that are not.
pub fn are_placed() -> bool {
    if under_random_compression() {
        sums().not_compared.fetch_add(1, Relaxed);
    }
    !under_random_compression()
}

/// [`assert_eq`] for what only holds where pages are left where they are: which are in place, how many,
/// in which queue. Both sides are worked out, but under random compression not compared.
#[macro_export]
macro_rules! assert_placed_eq {
    ($left:expr, $right:expr $(, $($message:tt)+)?) => {
        match (&$left, &$right) {
            (left, right) => if $crate::kernel::are_placed() {
                assert_eq!(*left, *right $(, $($message)+)?);
            },
        }
    };
}
pub use crate::assert_placed_eq;

/// [`assert`], likewise.
#[macro_export]
macro_rules! assert_placed {
    ($condition:expr $(, $($message:tt)+)?) => {{
        let holds: bool = $condition;
        if $crate::kernel::are_placed() {
            assert!(holds $(, $($message)+)?);
        }
    }};
}
pub use crate::assert_placed;

/// VMOs; where pages are compressed at random, some are whenever somebody turns to them.
pub struct Restless {
    vmos: Box<TestVmos>,
    codec: Arc<CodecHooks>,
    /// Their machine, and the sums of the suite that they are made for.
    started: OnceLock<(&'static Machine, &'static Sums)>,
    random: Mutex<Option<(RandomPick, TestReclaimer)>>,
    compressed: AtomicU64,
}

impl Restless {
    pub fn new(vmos: Box<TestVmos>, codec: Arc<CodecHooks>) -> Self {
        Self {
            vmos,
            codec,
            started: OnceLock::new(),
            random: Mutex::default(),
            compressed: AtomicU64::new(0),
        }
    }

    /// From now on pages are compressed, if they are at all.
    pub fn start(&self, machine: &'static Machine) {
        if under_random_compression() {
            tell_at_the_end();
            let reclaimer = reclaimer_with(255, OTHER_SLOTS..STAGING_SLOTS as u16);
            *self.random.lock().unwrap() = Some((RandomPick::new(seed()), reclaimer));
            assert!(self.started.set((machine, sums())).is_ok());
        }
    }

    /// Pages of these VMOs that were compressed at random so far.
    pub fn compressed_at_random(&self) -> u64 {
        self.compressed.load(Relaxed)
    }

    fn compress_some(&self) {
        let Some(&(machine, sums)) = self.started.get() else {
            return;
        };
        let held = SpinLock::held().unwrap().load(Relaxed);
        let awaited = self.codec.is_awaited() || machine.on_wait.is_set();
        if held != 0 || awaited || machine.armed.load(Relaxed) {
            return;
        }
        // Who is at it may be this thread: in a codec, which a test has interrupted.
        let Ok(mut random) = self.random.try_lock() else {
            return;
        };
        sums.operations.fetch_add(1, Relaxed);
        let (random, reclaimer) = random.as_mut().expect("set before the machine");
        let engine = self.vmos.engine();
        let picked = engine.pick_pages(random, 1);
        let batch = engine.compress_picked(machine, reclaimer, picked);
        sums.compressed.fetch_add(batch.kept.into(), Relaxed);
        self.compressed.fetch_add(batch.kept.into(), Relaxed);
    }
}

impl Deref for Restless {
    type Target = TestVmos;

    fn deref(&self) -> &TestVmos {
        self.compress_some();
        &self.vmos
    }
}
