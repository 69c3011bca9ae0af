//! Leaving the whole program alone, for what stops all threads and then reads its memory.
//!
//! LeakSanitizer looks for leaks out of a thread that shares the memory and traces all others, the pager's among
//! them. Where it meets a page that is away, or one that nobody has touched yet of a registered mapping, it waits for a
//! handler that it has stopped. So before that all pages come back, and what is registered is given up.
//!
//! 1. `Linux::stood_down` is set, and the gate closed once: nothing is taken or registered from now on.
//! 2. Of each window the pages that are away are touched, so that the handlers bring them back.
//! 3. The reclaim thread gives each registered run up, as if it were surrendered to the program's own userfaultfd.
//!
//! There is no way back: nobody says when the check is over, and as a rule it is the program's last act.

use crate::requests::{ATTEMPTS, SURRENDER};
use crate::sys::SignalsBlocked;
use crate::windows::WINDOW_BYTES;
use crate::{Pager, fork};
use coldpress_uffd::AddressRange;
use core::sync::atomic::Ordering::Release;

impl Pager {
    /// Brings everything back and leaves it in place from now on. Called by a thread of the program. `false`: something
    /// is still registered.
    pub fn stand_down(&self) -> bool {
        self.host.stood_down.store(true, Release);
        if !self.is_running() {
            return true;
        }
        {
            let _signals = SignalsBlocked::new();
            drop(self.host.gate.close());
        }
        (0..ATTEMPTS).any(|_| {
            let windows = self.host.windows.iter();
            // Each is tried, also behind one that fails.
            windows.fold(true, |all, (_, window)| {
                let whole = AddressRange::new(window.base(), WINDOW_BYTES);
                self.give_back(whole) && all
            })
        })
    }

    /// Of one window. Whether all of it is given up.
    fn give_back(&self, window: AddressRange) -> bool {
        self.touch_what_is_away(window);
        let mut all = true;
        fork::for_each_registered_in(window, |range| all &= self.ask(SURRENDER, range));
        all
    }
}
