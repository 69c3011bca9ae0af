//! Reading without waiting.

use crate::cache::{Cache, Copied, check_range};
use crate::error::Error;
use crate::room::{HOT, HOTTEST};
use crate::slot::State;
use crate::write::WriteLock;
use crate::{PAGE_BYTES, racy};
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

impl Cache {
    /// Copies out of page `slot`, which was seen in `state`.
    ///
    /// # Safety
    /// `into` is writable for `bytes` bytes and used by nobody else; they fit into a page at `offset`.
    #[inline]
    pub(crate) unsafe fn copy_out(
        &self,
        slot: u32,
        state: State,
        offset: usize,
        into: *mut u8,
        bytes: usize,
    ) -> Copied {
        let page = self.region.page(slot);
        // SAFETY: inside the page, as the caller vouches.
        unsafe { racy::copy(page.add(offset), into, bytes) };
        let verdict = self.verdict(slot, state);
        if verdict == Copied::Whole && bytes > 0 && offset + bytes == PAGE_BYTES {
            // SAFETY: the last of the bytes just copied.
            unsafe { into.add(bytes - 1).write(state.last_byte()) };
        }
        verdict
    }

    /// What is to be thought of bytes read from `slot` since it was seen in `state` (C4).
    #[inline]
    pub(crate) fn verdict(&self, slot: u32, state: State) -> Copied {
        // What was read before is read; what follows was not read ahead of it.
        fence(Acquire);
        // SAFETY: a page of our region.
        let marker = unsafe { racy::marker(self.region.page(slot)) }.load(Relaxed);
        if self.state(slot) != state {
            Copied::Torn
        } else if marker == 0 {
            Copied::Taken
        } else {
            Copied::Whole
        }
    }

    /// Notes a hit.
    #[inline]
    pub(crate) fn touch(&self, slot: u32) {
        let heat = &self.heat[slot as usize];
        let hits = heat.load(Relaxed);
        if hits < HOTTEST {
            heat.store(hits + 1, Relaxed);
            if hits + 1 == HOT && self.most_kept > 0 {
                self.keep(slot);
            }
        }
    }

    /// Forgets a page that the kernel has taken, if that can be done without waiting. If not,
    /// somebody else finds it.
    #[cold]
    pub(crate) fn forget_taken(&self, slot: u32, state: State) {
        let Ok(mut room) = self.room.try_lock() else {
            return;
        };
        if self.verdict(slot, state) == Copied::Taken {
            self.release(&mut room, slot);
        }
    }

    /// An optimistic lock of the entry of `key`, to read it where it lies. It holds nothing and
    /// nobody waits for it; what was read counts only if [`ReadLock::is_valid`] says so afterwards.
    pub fn read_lock(&self, key: u64) -> Option<ReadLock<'_>> {
        let found = self.look_up_anywhere(key);
        if let Some((slot, state)) = found {
            match self.verdict(slot, state) {
                Copied::Whole => {
                    self.touch(slot);
                    self.counters.hit();
                    return Some(ReadLock {
                        cache: self,
                        key,
                        slot,
                        state,
                    });
                }
                Copied::Taken => {
                    self.counters.taken();
                    self.forget_taken(slot, state);
                }
                Copied::Torn | Copied::Nothing => {}
            }
        }
        self.counters.miss();
        None
    }

    /// Forgets what `slot` held in `state`. False if that is gone already.
    pub(crate) fn remove_seen(&self, slot: u32, state: State) -> bool {
        let mut room = self.lock_room();
        let verdict = self.verdict(slot, state);
        if verdict == Copied::Whole || verdict == Copied::Taken {
            self.release(&mut room, slot);
        }
        verdict == Copied::Whole
    }

    /// Calls `read` with the page of `key` where it lies, and gives what it returned if the page
    /// stayed the same all the while.
    ///
    /// # Safety
    /// `read` may read [`PAGE_BYTES`] bytes at the pointer, by volatile or atomic loads or by
    /// instructions the compiler does not see, and must make no reference there. The bytes may
    /// change while it reads, or be zeros: whatever it does with them must be harmless for every
    /// content (no index, length or pointer is to be believed). The last byte is the marker; the
    /// true one is passed beside it.
    pub unsafe fn read_in_place<R>(
        &self,
        key: u64,
        read: impl FnOnce(*const u8, u8) -> R,
    ) -> Option<R> {
        let lock = self.read_lock(key)?;
        let result = read(lock.as_ptr(), lock.last_byte());
        lock.is_valid().then_some(result)
    }

    /// Takes the page of `key` as the kernel does when memory is short. For tests.
    ///
    /// The kernel takes no page that is being written: such a one is dirty. So the room is locked, in which a page
    /// cannot become another key's, or be locked for write.
    #[doc(hidden)]
    pub fn take_as_the_kernel(&self, key: u64) -> bool {
        let Some((slot, state)) = self.look_up(key) else {
            return false;
        };
        let _room = self.lock_room();
        self.state(slot) == state && self.region.advise(slot, 1, crate::region::Advice::DontNeed)
    }
}

/// An optimistic read lock, by [`Cache::read_lock`].
pub struct ReadLock<'cache> {
    cache: &'cache Cache,
    key: u64,
    slot: u32,
    state: State,
}

impl<'cache> ReadLock<'cache> {
    /// The key.
    pub fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// The page. Read it by volatile loads, make no reference, and believe nothing before
    /// [`is_valid`](ReadLock::is_valid); see [`Cache::read_in_place`]. The last byte is the marker.
    pub fn as_ptr(&self) -> *const u8 {
        self.cache.region.page(self.slot)
    }

    /// The last byte of the entry, in whose place the page has its marker.
    pub fn last_byte(&self) -> u8 {
        self.state.last_byte()
    }

    /// Whether all that was read so far is the entry as it was when the lock was taken.
    pub fn is_valid(&self) -> bool {
        self.cache.verdict(self.slot, self.state) == Copied::Whole
    }

    /// Copies from `offset` on. False, and zeros, if the entry is gone.
    ///
    /// # Panics
    /// If `into` reaches beyond the page.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        check_range(offset, into.len()).unwrap_or_else(|e| panic!("{e}"));
        // SAFETY: `into` is ours to write, and was checked against the page.
        let copied = unsafe {
            self.cache
                .copy_out(self.slot, self.state, offset, into.as_mut_ptr(), into.len())
        };
        if copied != Copied::Whole {
            into.fill(0);
        }
        copied == Copied::Whole
    }

    /// Forgets the entry. False if it was gone already.
    pub fn remove(self) -> bool {
        self.cache.remove_seen(self.slot, self.state)
    }

    /// Locks the entry for write. [`WriteLock::is_fresh`] says whether it still was what this lock saw.
    ///
    /// # Errors
    /// As [`Cache::write_lock`].
    pub fn upgrade(self) -> Result<WriteLock<'cache>, Error> {
        let writing = self.cache.begin(self.key, Some((self.slot, self.state)))?;
        Ok(WriteLock::new(self.cache, writing))
    }
}
