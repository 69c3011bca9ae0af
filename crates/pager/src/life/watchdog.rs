//! The watchdog: names thread and page when a fault is not answered within a second.
//!
//! A thread of its own that takes no lock: it reads the handlers' published state four times a
//! second and wakes the reclaim thread if somebody outside asks for something; once a second it keeps the
//! slow figures of the statistics page. And it ends the process when the program's threads have all left
//! (`departure`).

use crate::Pager;
use crate::life::departure::Departure;
use crate::machine::linux::Linux;
use crate::machine::message;
use coldpress_linux::sys;
use coldpress_uffd::PAGE_SIZE;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

const PERIOD_NS: u64 = 250_000_000;
const PATIENCE_NS: u64 = 1_000_000_000;
/// Of so many rounds one writes traces and keeps the figures that take files or a walk through all windows: an idle
/// program's pager costs little else.
const SLOWLY: u32 = 4;

/// Runs for ever.
pub extern "C" fn run(pager: &'static Pager, _: usize) -> ! {
    let mut reported = [0u64; crate::settings::config::MAX_HANDLERS];
    let mut rounds = 0u32;
    let mut departure = Departure::watch(pager);
    loop {
        departure.wait(PERIOD_NS);
        if pager.leaving.has_begun() {
            pager.leaving.wake_handlers(pager.host.memory.staging());
            pager.leaving.thread_goes::<Linux>();
        }
        let now = sys::now_ns();
        for (handler, reported) in pager.handlers.iter().zip(&mut reported) {
            let since = handler.since_ns.load(Acquire);
            if since == 0 || now.saturating_sub(since) < PATIENCE_NS || *reported == since {
                continue;
            }
            *reported = since;
            let (thread, address) = (
                handler.thread.load(Relaxed),
                handler.address.load(Relaxed) & !(PAGE_SIZE - 1),
            );
            let s = pager.host.statistics();
            s.stalled_thread.store(u64::from(thread), Relaxed);
            s.stalled_address.store(address as u64, Relaxed);
            s.stalled_faults.fetch_add(1, Relaxed);
            message::say(format_args!(
                "the fault of thread {thread} on page {address:#x} has not been answered for {} \
                 ms; is the machine overloaded, or the process being traced?",
                (now - since) / 1_000_000
            ));
        }
        if pager.control.is_pending() {
            pager.ring();
        }
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(SLOWLY) {
            pager.publish_cpu_time();
            pager.publish_windows();
            pager.workplace.look_up(&pager.host);
            pager.write_lock_trace();
            pager.write_decisions();
        }
    }
}
