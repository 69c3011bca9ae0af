//! Bytes that the requests of one connection may have in buffers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many bytes, of which shares are taken and given back.
pub(super) struct Budget {
    /// Guards the bytes that are left; held for an addition. Taken by the worker whose turn it is to read, and by any
    /// worker that has answered.
    left: Mutex<usize>,
    returned: Condvar,
    all: usize,
}

/// Bytes of a budget, until this is dropped.
pub(super) struct Share<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            left: Mutex::new(bytes),
            returned: Condvar::new(),
            all: bytes,
        }
    }

    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many, all there are at the utmost, and waits until others have given them back. Whoever waits must
    /// hold no share.
    pub(super) fn take(&self, bytes: usize) -> Share<'_> {
        let bytes = bytes.min(self.all);
        let left = self.left();
        let wait = self.returned.wait_while(left, |left| *left < bytes);
        *wait.unwrap_or_else(PoisonError::into_inner) -= bytes;
        Share {
            budget: self,
            bytes,
        }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *self.budget.left() += self.bytes;
        // One waits at a time: the worker whose turn it is.
        self.budget.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;
    use std::sync::mpsc;

    #[test]
    fn a_share_waits_for_others_to_be_given_back() {
        let budget = Budget::new(10);
        let (first, second) = (budget.take(6), budget.take(4));
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let budget = &budget;
            scope.spawn(move || {
                let _share = budget.take(7);
                sender.send(()).unwrap();
            });
            drop(second);
            assert!(receiver.try_recv().is_err());
            drop(first);
            receiver.recv().unwrap();
        });
        drop(budget.take(usize::MAX));
        assert_eq!(*budget.left(), 10);
    }
}
