//! Threads that wait for a page lend their priority, and each of them is woken.

use crate::waiters::MOST;
use crate::waiters::Waiters;
use coldpress_engine::Place;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PLACE: Place = (0, 7);

/// For how long the page is restored.
const WORK: Duration = Duration::from_millis(50);

/// For how long the thread in the middle does not let go of its processor.
const STUBBORN: Duration = Duration::from_millis(700);

/// Gives the calling thread a real-time priority and binds it to one processor. `false`: it may not.
fn becomes_urgent(priority: i32) -> bool {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // First: on that processor an ordinary thread would not run again.
    // SAFETY: plain numbers and a structure that is read.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) } != 0 {
        return false;
    }
    let mut set = nix::sched::CpuSet::new();
    let this = nix::unistd::Pid::from_raw(0);
    let allowed = nix::sched::sched_getaffinity(this).expect("the processors of this thread");
    let first = (0..nix::sched::CpuSet::count()).find(|cpu| allowed.is_set(*cpu) == Ok(true));
    set.set(first.expect("a processor"))
        .expect("within the set");
    nix::sched::sched_setaffinity(this, &set).expect("one of its own processors");
    true
}

/// For how long the calling thread has run.
fn has_run() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock.now().expect("a clock that Linux has").into()
}

fn sleep_until(flag: &AtomicBool) {
    let began = Instant::now();
    while !flag.load(SeqCst) {
        assert!(began.elapsed() < 4 * STUBBORN, "nobody comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What the three threads tell each other.
#[derive(Default)]
struct Scene {
    waiters: Waiters,
    works: AtomicBool,
    is_done: AtomicBool,
    waits: AtomicBool,
    has_it: AtomicBool,
}

#[test]
fn a_thread_in_the_middle_holds_up_no_urgent_one() {
    let scene = Arc::new(Scene::default());
    let seen = scene.waiters.wakes(PLACE);
    let thread = |priority: i32, work: fn(&Scene, u32)| {
        let scene = scene.clone();
        std::thread::spawn(move || {
            let may = becomes_urgent(priority);
            if may {
                work(&scene, seen);
            }
            may
        })
    };
    let low = thread(10, |scene, _| {
        scene.waiters.works(0);
        scene.works.store(true, SeqCst);
        sleep_until(&scene.waits);
        let before = has_run();
        while has_run() - before < WORK {}
        scene.is_done.store(true, SeqCst);
        scene.waiters.wake(PLACE);
        // A thread that ends wakes those that wait for it, whatever it has forgotten.
        sleep_until(&scene.has_it);
    });
    while !scene.works.load(SeqCst) {
        if low.is_finished() {
            eprintln!("SKIPPED: who waits for a page lends its priority: no right to SCHED_FIFO");
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let middle = thread(20, |scene, _| {
        // It runs on the same processor, so the urgent thread is asleep once it has said that it waits.
        sleep_until(&scene.waits);
        let began = Instant::now();
        while !scene.has_it.load(SeqCst) {
            assert!(
                began.elapsed() < STUBBORN,
                "the urgent thread waits, while the one that restores its page is not run"
            );
        }
    });
    let high = thread(30, |scene, seen| {
        assert!(!scene.is_done.load(SeqCst), "there is nothing to wait for");
        scene.waits.store(true, SeqCst);
        scene.waiters.wait(PLACE, 0, seen);
        scene.has_it.store(true, SeqCst);
    });
    for thread in [low, high, middle] {
        assert!(
            thread.join().expect("no thread fails"),
            "no right to SCHED_FIFO"
        );
    }
}

#[test]
fn all_that_wait_are_woken() {
    const PLACES: usize = 3;
    const TURNS: usize = 30_000;
    let scene = Arc::new((
        Waiters::default(),
        Mutex::new([None::<u16>; PLACES]),
        Mutex::new(0usize),
    ));
    let threads: Vec<_> = (0..MOST)
        .map(|worker| {
            let scene = scene.clone();
            std::thread::spawn(move || {
                let (waiters, restored_by, waits) = &*scene;
                waiters.works(worker);
                for turn in 0..TURNS {
                    let at = (turn * 7 + usize::from(worker)) % PLACES;
                    let place = (0, at as u32);
                    let mut table = restored_by.lock();
                    if let Some(busy) = table[at] {
                        let seen = waiters.wakes(place);
                        drop(table);
                        waiters.wait(place, busy, seen);
                        *waits.lock() += 1;
                        continue;
                    }
                    table[at] = Some(worker);
                    drop(table);
                    if turn % 16 == 0 {
                        std::thread::yield_now();
                    }
                    let mut table = restored_by.lock();
                    table[at] = None;
                    waiters.wake(place);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread fails");
    }
    let (waiters, _, waits) = &*scene;
    assert!(*waits.lock() > 0, "nobody ever waited");
    waiters.check_idle();
}
