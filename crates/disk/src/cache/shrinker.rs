//! The shrinker: the thread that makes the pool smaller, when it has reached its limit or the machine is short of
//! memory.
//!
//! It sleeps until the limit is reached. Only where it has a way to see that the machine is short, it looks once a
//! second, as long as anything is held.

use super::core::Core;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Pages that are evicted at once, between two syncs: an eighth of what is held, within these.
const FEWEST_PAGES: u64 = 64;
const MOST_PAGES: u64 = 1024;

/// How often it looks whether the machine is short of memory.
const LOOKS: Duration = Duration::from_secs(1);

/// The first and the longest rest after a batch of which nothing could be evicted.
const FIRST_REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(2);

/// Whether the machine is short of memory now.
pub type Shortage = Box<dyn Fn() -> bool + Send>;

/// The thread, until it is dropped.
pub(crate) struct Shrinker {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Shrinker {
    /// Starts it. `None`: no thread can be made.
    pub(crate) fn start(core: &Arc<Core>, shortage: Option<Shortage>) -> Option<Self> {
        let its_core = core.clone();
        let thread = std::thread::Builder::new().name("coldpress-wb".to_owned());
        let thread = thread
            .spawn(move || run(&its_core, shortage.as_ref()))
            .ok()?;
        Some(Self {
            core: core.clone(),
            thread: Some(thread),
        })
    }
}

impl Drop for Shrinker {
    fn drop(&mut self) {
        self.core.wake_up.end();
        if let Some(thread) = self.thread.take() {
            // A panic was printed; there is nobody to hand it on to.
            let _ = thread.join();
        }
    }
}

fn batch(core: &Core) -> usize {
    let held = core.table.lock().pages();
    (held / 8).clamp(FEWEST_PAGES, MOST_PAGES) as usize
}

fn run(core: &Core, shortage: Option<&Shortage>) {
    let mut rest = FIRST_REST;
    while core.wake_up.look() {
        let is_full = !core.accepts();
        let is_short = || shortage.is_some_and(|is_short| is_short());
        if is_full || is_short() {
            if core.evict_coldest(batch(core)) == 0 {
                core.wake_up.rest(rest);
                rest = (2 * rest).min(LONGEST_REST);
                continue;
            }
            rest = FIRST_REST;
            if !is_full {
                // Gently: a batch a second.
                core.wake_up.rest(LOOKS);
            }
            continue;
        }
        match shortage.is_some() && core.table.lock().pages() > 0 {
            true => core.wake_up.rest(LOOKS),
            false => core.wake_up.sleep(),
        }
    }
}
