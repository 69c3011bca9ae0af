//! Fact: when a thread dies that holds a robust mutex, the kernel marks the mutex, but it does not wait for a missing
//! page: no fault is told, and the mark is lost.
//!
//! So pages with robust mutexes are never taken.

use crate::common::{self, PAGE, Pages, Task};
use coldpress_uffd::{Features, Userfaultfd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FUTEX_OWNER_DIED: u32 = 0x4000_0000;

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread dies that holds a robust mutex; whether the mutex is marked then.
fn is_marked(uffd: &Userfaultfd, is_missing: bool) -> bool {
    let page = Pages::filled(1, 0);
    let staging = Pages::map(1);
    common::register(uffd, page);
    common::register(uffd, staging);
    // SAFETY: the page holds a mutex, and stays mapped.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::pthread_mutexattr_init(&mut attributes), 0);
        let robust = libc::PTHREAD_MUTEX_ROBUST;
        assert_eq!(
            libc::pthread_mutexattr_setrobust(&mut attributes, robust),
            0
        );
        assert_eq!(
            libc::pthread_mutex_init(page.pointer(0).cast(), &attributes),
            0
        );
    }
    let [has_locked, may_die] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let thread = Task::start({
        let (has_locked, may_die) = (has_locked.clone(), may_die.clone());
        move || {
            // SAFETY: made above.
            let locked = unsafe { libc::pthread_mutex_lock(page.pointer(0).cast()) };
            assert_eq!(locked, 0);
            has_locked.store(true, Relaxed);
            while !may_die.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    wait_for("the mutex is not locked", || has_locked.load(Relaxed));
    if is_missing {
        assert_eq!(
            common::move_pages(uffd, staging, page),
            common::all_moved(1)
        );
    }
    may_die.store(true, Relaxed);
    wait_for("the thread does not end", || thread.is_done());
    thread.finish();
    assert!(common::is_silent(uffd), "a fault was told");
    if is_missing {
        // SAFETY: the page was moved to staging.
        let copied = unsafe { uffd.copy(page.start, staging.pointer(0).cast(), PAGE) };
        assert_eq!(copied, Ok(PAGE));
    }
    // SAFETY: libc's mutex begins with its futex; nobody uses it any more.
    let futex = unsafe { &*page.pointer(0).cast::<AtomicU32>() };
    futex.load(Relaxed) & FUTEX_OWNER_DIED != 0
}

#[test]
fn the_mark_on_a_missing_page_is_lost() {
    let _begun = common::begin("the_dead_wait_for_no_page");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    assert!(is_marked(&uffd, false), "on a page in its place");
    assert!(!is_marked(&uffd, true), "on a missing page");
}
