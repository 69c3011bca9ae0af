//! The child of a fork: its pager is rebuilt from the copy of its parent's ([`fork`](crate::fork::protocol)).

use crate::Pager;
use crate::fork::protocol::Operation;
use crate::machine::linux::Linux;
use crate::machine::os::{Os, Userfaults};
use crate::space::exclusions::Reason;
use coldpress_engine::Entry;
use coldpress_linux::sys;
use coldpress_uffd::{AddressRange, Errno};
use core::sync::atomic::Ordering::Relaxed;
use lock_api::RawMutex;

/// Registers a range. In a child whose parent's pager hears of forks that has the memory until it has read of this one.
///
/// # Safety
/// As [`Userfaults::register`].
///
/// # Errors
/// As `register`, but for `BUSY`.
pub(crate) unsafe fn register_once_free<O: Os>(
    uffd: &O::Userfaultfd,
    range: AddressRange,
) -> Result<(), Errno> {
    loop {
        // SAFETY: as the caller promises.
        match unsafe { uffd.register(range) } {
            Err(Errno::BUSY) => O::sleep_ns(50_000),
            done => return done,
        }
    }
}

impl Pager {
    /// After the fork, in the child: its only thread.
    pub fn fork_child(&'static self) {
        // The kernel has wiped what tells that this process has a pager.
        if !self.was_running() {
            return;
        }
        self.presence.is_here_again();
        self.host.gate.reset();
        // SAFETY: this is the only thread of the process.
        unsafe {
            self.engine.reset_locks_after_fork();
            self.deferred.reset();
            self.host.exclusions.reset_lock();
            self.host.not_inherited.reset();
            self.host.pagemap.unset();
            self.host.groups.unset();
            self.host.uffd.unset();
            self.host.set_statistics(core::ptr::null_mut());
            self.discovery.reset();
            self.leaving.forget();
            self.fork.appending.raw().reset();
            self.new_windows.raw().reset();
            self.registering.raw().reset();
            self.request.reset();
            self.tier.begin_in_child();
        }
        for handler in &self.handlers {
            handler.busy.store(false, Relaxed);
            handler.since_ns.store(0, Relaxed);
        }
        // Nor does the child have the threads that held faults back.
        self.pressure.waiting.store(0, Relaxed);
        self.host.memory.reset_stacks();
        self.threads.reset();
        self.fork.hold.store(0, Relaxed);
        // What the journal calls restored may or may not be in place in this copy; presence is
        // looked up below. Changes hold.
        for operation in self.fork.journal() {
            if !matches!(operation, Operation::Restored(_)) {
                self.change(operation);
            }
        }
        self.host
            .exclusions
            .for_each(Reason::WipedInChild, |range| {
                self.change(Operation::Dropped(range));
            });
        self.fork.still.store(false, Relaxed);
        self.fork.pause.store(0, Relaxed);
        self.fork.paused.store(0, Relaxed);
        let signals = self.fork.signals.load(Relaxed);
        // SAFETY: locked in `fork_prepare` by the thread this one is the copy of.
        unsafe { self.fork.lock.unlock() };
        self.control.leave_page();
        if !self.is_anything_away() {
            self.stop();
            self.tier.end_in_child();
            self.wait_in_child();
        } else if self.start_in_child().is_err() {
            self.stop();
            self.put_everything_back();
            self.tier.end_in_child();
            self.host.memory.drop_storage();
        } else {
            self.tier.has_begun_to_read();
        }
        self.fork.let_huge_pages_in();
        sys::set_signals(signals);
    }

    /// Registers, in the child, what was registered in the parent, and brings the page lists in
    /// step with what is in place. Called by the child's pager before it answers faults; the
    /// program's only thread waits.
    pub(crate) fn register_again(&self) {
        let host = &self.host;
        let Some(uffd) = host.uffd.get() else { return };
        host.for_each_registered(|segment, range| {
            // SAFETY: the handlers that answer start before the program goes on.
            let _ = unsafe { register_once_free::<Linux>(uffd, range) };
            host.keep_from_raw_clones(range);
            // What is known of it is as true here as in the parent.
            if uffd.is_registered(range) == Ok(true) {
                return;
            }
            let window = host.windows.get(segment);
            let (first, end) = (window.index_of(range.start), window.index_of(range.end));
            window.clear_registered(first, end);
            // The thread that was dropping pages is not here.
            window.clear_dropping(first, end);
            if self.note_registered(segment, range).is_err() {
                // Some of it is not there: left out of the child by the program itself.
                for index in first..end {
                    if window.is_registered(index) {
                        continue;
                    }
                    let away = !matches!(
                        self.engine.entry(segment, index),
                        Entry::Empty | Entry::Page(_)
                    );
                    if away && sys::is_mapped(window.address(index)) {
                        self.put_back_one(segment, index);
                    }
                    self.engine.decommit(self, segment, index, index + 1);
                }
            }
        });
        // Those that were not away, but new.
        for operation in self.fork.journal() {
            if let Operation::Restored(address) = operation
                && Linux::is_resident(address)
                && let Some((segment, index)) = host.place_of(address)
            {
                self.engine.acknowledge_present(self, segment, index);
            }
        }
        // Noted or not: the kernel copies in the midst of it.
        self.for_each_remembered(|segment, index, is_in_place| {
            if is_in_place {
                self.engine.acknowledge_present(self, segment, index);
            }
        });
    }
}
