//! Policies that others have published, which see every touch: what the pager is compared with.
//!
//! | policy | by | what it knows of a page |
//! |---|---|---|
//! | [`Lru`] | | the order of the last touches |
//! | [`Clock`] | Corbató, 1968 | one bit: touched since it was looked at last |
//! | [`TwoLists`] | Linux: `mm/vmscan.c`, `mm/workingset.c` | a bit, an active and an inactive list, refault distance |
//! | [`Arc`] | Megiddo and Modha, 2003 | touched once or more often, and pages that have gone |
//! | [`S3Fifo`] | Yang and others, 2023 | up to three touches, a small queue for new pages, pages that have gone |
//!
//! All hold so many pages, and take one when they must. No crate has these for traces of pages: `cachesim` and
//! `cachesim-rs` simulate other caches or are hardly used, and libCacheSim is C. On a trace of redis CLOCK and LRU have
//! exactly the misses that libCacheSim counts, ARC has 0.8 % more, S3-FIFO 0.3 %.

use super::lists::{Lists, NONE};

/// Chooses what stays.
pub trait Policy {
    /// A page is touched. Whether it was there.
    fn touch(&mut self, page: u32) -> bool;
}

/// Least recently used.
pub struct Lru {
    lists: Lists,
    memory: usize,
}

impl Lru {
    const HELD: usize = 1;

    /// For `pages` pages, of which `memory` are held.
    pub fn new(pages: usize, memory: usize) -> Self {
        Self {
            lists: Lists::new(1, pages),
            memory,
        }
    }
}

impl Policy for Lru {
    fn touch(&mut self, page: u32) -> bool {
        let there = self.lists.of(page) != NONE;
        if !there && self.lists.len(Self::HELD) == self.memory {
            self.lists.pop(Self::HELD);
        }
        self.lists.push(Self::HELD, page);
        there
    }
}

/// One list and an accessed bit: a page that was accessed goes round once more.
pub struct Clock {
    lists: Lists,
    accessed: Vec<bool>,
    memory: usize,
}

impl Clock {
    const HELD: usize = 1;

    /// As [`Lru::new`].
    pub fn new(pages: usize, memory: usize) -> Self {
        Self {
            lists: Lists::new(1, pages),
            accessed: vec![false; pages],
            memory,
        }
    }
}

impl Policy for Clock {
    fn touch(&mut self, page: u32) -> bool {
        if self.lists.of(page) != NONE {
            self.accessed[page as usize] = true;
            return true;
        }
        while self.lists.len(Self::HELD) == self.memory {
            let hand = self.lists.pop(Self::HELD).expect("it is full");
            if std::mem::take(&mut self.accessed[hand as usize]) {
                self.lists.push(Self::HELD, hand);
            }
        }
        self.accessed[page as usize] = false;
        self.lists.push(Self::HELD, page);
        false
    }
}

/// Anonymous pages in Linux: active and inactive, as many of each where there is less than a gigabyte.
pub struct TwoLists {
    lists: Lists,
    /// The bit in the page table.
    accessed: Vec<bool>,
    /// It was found accessed when the inactive list was looked through.
    referenced: Vec<bool>,
    /// Evictions and activations, ever; and how many there were when a page went.
    age: u64,
    gone_at: Vec<Option<u64>>,
    memory: usize,
}

impl TwoLists {
    const INACTIVE: usize = 1;
    const ACTIVE: usize = 2;

    /// As [`Lru::new`].
    pub fn new(pages: usize, memory: usize) -> Self {
        Self {
            lists: Lists::new(2, pages),
            accessed: vec![false; pages],
            referenced: vec![false; pages],
            age: 0,
            gone_at: vec![None; pages],
            memory,
        }
    }

    fn take_one(&mut self) {
        loop {
            if self.lists.len(Self::INACTIVE) < self.lists.len(Self::ACTIVE) {
                let page = self.lists.pop(Self::ACTIVE).expect("there are more");
                self.accessed[page as usize] = false;
                self.lists.push(Self::INACTIVE, page);
                continue;
            }
            let page = self.lists.pop(Self::INACTIVE).expect("it is full");
            let at = page as usize;
            if !std::mem::take(&mut self.accessed[at]) {
                self.age += 1;
                self.gone_at[at] = Some(self.age);
                self.referenced[at] = false;
                return;
            }
            // The fault that brought it has set the bit: one is not enough.
            let twice = std::mem::replace(&mut self.referenced[at], true);
            if twice {
                self.age += 1;
                self.referenced[at] = false;
                self.lists.push(Self::ACTIVE, page);
            } else {
                self.lists.push(Self::INACTIVE, page)
            }
        }
    }
}

impl Policy for TwoLists {
    fn touch(&mut self, page: u32) -> bool {
        let at = page as usize;
        let there = self.lists.of(page) != NONE;
        self.accessed[at] = true;
        if there {
            return true;
        }
        if self.lists.len(Self::INACTIVE) + self.lists.len(Self::ACTIVE) == self.memory {
            self.take_one();
        }
        let distance = self.gone_at[at].map(|gone_at| self.age - gone_at);
        let in_use = distance.is_some_and(|d| d <= self.lists.len(Self::ACTIVE) as u64);
        if in_use {
            self.age += 1;
        }
        let list = if in_use { Self::ACTIVE } else { Self::INACTIVE };
        self.lists.push(list, page);
        false
    }
}

/// What the page was that room is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComesFrom {
    /// One that was touched often, and went.
    OftenGone,
    /// Any other.
    Elsewhere,
}

/// Adaptive replacement cache.
pub struct Arc {
    lists: Lists,
    memory: usize,
    /// Pages that those touched once are to have.
    target: usize,
}

impl Arc {
    const ONCE: usize = 1;
    const OFTEN: usize = 2;
    const ONCE_GONE: usize = 3;
    const OFTEN_GONE: usize = 4;

    /// As [`Lru::new`].
    pub fn new(pages: usize, memory: usize) -> Self {
        Self {
            lists: Lists::new(4, pages),
            memory,
            target: 0,
        }
    }

    fn take_one(&mut self, comes_from: ComesFrom) {
        let once = self.lists.len(Self::ONCE);
        let too_many =
            once > self.target || comes_from == ComesFrom::OftenGone && once == self.target;
        let (from, to) = if once > 0 && too_many {
            (Self::ONCE, Self::ONCE_GONE)
        } else {
            (Self::OFTEN, Self::OFTEN_GONE)
        };
        if let Some(page) = self.lists.pop(from) {
            self.lists.push(to, page);
        }
    }

    /// A page that is on no list at all.
    fn make_room_for_new(&mut self) {
        let len = |list| self.lists.len(list);
        let once = len(Self::ONCE) + len(Self::ONCE_GONE);
        let all = once + len(Self::OFTEN) + len(Self::OFTEN_GONE);
        if once == self.memory {
            if len(Self::ONCE) < self.memory {
                self.lists.pop(Self::ONCE_GONE);
                self.take_one(ComesFrom::Elsewhere);
            } else {
                self.lists.pop(Self::ONCE);
            }
        } else if all >= self.memory {
            if all == 2 * self.memory {
                self.lists.pop(Self::OFTEN_GONE);
            }
            self.take_one(ComesFrom::Elsewhere);
        }
    }
}

impl Policy for Arc {
    fn touch(&mut self, page: u32) -> bool {
        let (once_gone, often_gone) = (
            self.lists.len(Self::ONCE_GONE),
            self.lists.len(Self::OFTEN_GONE),
        );
        match self.lists.of(page) {
            Self::ONCE | Self::OFTEN => {
                self.lists.push(Self::OFTEN, page);
                return true;
            }
            Self::ONCE_GONE => {
                self.target = (self.target + (often_gone / once_gone).max(1)).min(self.memory);
                self.take_one(ComesFrom::Elsewhere);
                self.lists.push(Self::OFTEN, page);
            }
            Self::OFTEN_GONE => {
                self.target = self.target.saturating_sub((once_gone / often_gone).max(1));
                self.take_one(ComesFrom::OftenGone);
                self.lists.push(Self::OFTEN, page);
            }
            _ => {
                self.make_room_for_new();
                self.lists.push(Self::ONCE, page);
            }
        }
        false
    }
}

/// Three FIFO queues: a small one for new pages, the main one, and one of pages that have left the small one.
pub struct S3Fifo {
    lists: Lists,
    touches: Vec<u8>,
    memory: usize,
    small: usize,
    /// Until a page had to go, the small queue takes no more than its share.
    has_evicted: bool,
}

impl S3Fifo {
    const SMALL: usize = 1;
    const MAIN: usize = 2;
    const GONE: usize = 3;
    /// Counted touches end here.
    const MOST: u8 = 3;

    /// As [`Lru::new`].
    pub fn new(pages: usize, memory: usize) -> Self {
        Self {
            lists: Lists::new(3, pages),
            touches: vec![0; pages],
            memory,
            small: (memory / 10).max(1),
            has_evicted: false,
        }
    }

    fn take_one(&mut self) {
        while self.lists.len(Self::SMALL) + self.lists.len(Self::MAIN) >= self.memory {
            self.has_evicted = true;
            let main = self.lists.len(Self::MAIN);
            if self.lists.len(Self::SMALL) >= self.small || main == 0 {
                self.look_at_small();
            } else {
                let page = self.lists.pop(Self::MAIN).expect("it is not empty");
                let touches = &mut self.touches[page as usize];
                if *touches > 0 {
                    *touches -= 1;
                    self.lists.push(Self::MAIN, page);
                }
            }
        }
    }

    fn look_at_small(&mut self) {
        let Some(page) = self.lists.pop(Self::SMALL) else {
            return;
        };
        let touches = std::mem::take(&mut self.touches[page as usize]);
        if touches > 1 {
            self.lists.push(Self::MAIN, page);
            return;
        }
        if self.lists.len(Self::GONE) >= self.memory - self.small {
            self.lists.pop(Self::GONE);
        }
        self.lists.push(Self::GONE, page);
    }
}

impl Policy for S3Fifo {
    fn touch(&mut self, page: u32) -> bool {
        let was_gone = match self.lists.of(page) {
            Self::SMALL | Self::MAIN => {
                let touches = &mut self.touches[page as usize];
                *touches = (*touches + 1).min(Self::MOST);
                return true;
            }
            list => list == Self::GONE,
        };
        self.lists.remove(page);
        self.take_one();
        self.touches[page as usize] = 0;
        let fills = !self.has_evicted && self.lists.len(Self::SMALL) >= self.small;
        let queue = if was_gone || fills {
            Self::MAIN
        } else {
            Self::SMALL
        };
        self.lists.push(queue, page);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(policy: &mut dyn Policy, touches: &[u32]) -> String {
        let mark = |&page: &u32| if policy.touch(page) { 'h' } else { '-' };
        touches.iter().map(mark).collect()
    }

    #[test]
    fn the_least_recently_used_goes() {
        assert_eq!(hits(&mut Lru::new(5, 3), &[0, 1, 2, 0, 3, 0, 1]), "---h-h-");
    }

    #[test]
    fn the_clock_passes_over_what_was_accessed() {
        // 0 was accessed and goes round, 1 goes.
        let touches = [0, 1, 2, 0, 3, 0, 2, 1];
        assert_eq!(hits(&mut Clock::new(5, 3), &touches), "---h-hh-");
    }

    #[test]
    fn a_scan_takes_nothing_from_pages_touched_twice() {
        // Four pages in use, then a scan of as many as are held, then the four.
        let warm: Vec<u32> = (0..4).chain(0..4).chain(0..4).chain(0..4).collect();
        let scan: Vec<u32> = (4..14).collect();
        let left = |policy: &mut dyn Policy| {
            hits(policy, &warm);
            hits(policy, &scan);
            hits(policy, &[0, 1, 2, 3]).matches('h').count()
        };
        assert_eq!(left(&mut Lru::new(20, 10)), 0);
        assert_eq!(left(&mut Arc::new(20, 10)), 4);
        assert_eq!(left(&mut S3Fifo::new(20, 10)), 4);
    }

    /// Linux has to see a page accessed twice, or come back soon, before it protects it.
    #[test]
    fn pages_in_use_beside_a_scan_become_active() {
        let touches: Vec<u32> = (0..400).flat_map(|n| [n % 4, 4 + n]).collect();
        let found = hits(&mut TwoLists::new(404, 10), &touches);
        let late = &found[400..];
        assert_eq!(late.matches('h').count(), 200, "{found}");
    }
}
