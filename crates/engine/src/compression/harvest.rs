//! Learning that pages were accessed.
//!
//! A machine with accessed bits tells of them through [`Host::harvest_accessed`], leaf by leaf of
//! the page lists; a machine that sees an access itself says so with [`Engine::mark_accessed`].
//! Either makes the page young again, wherever among the ageing ones it stood: it leaves the
//! generations' old end, the dont-need pages and the failed ones.
//!
//! A harvest goes on where the last one ended ([`Harvest`]), a bounded number of leaves at a time.
//! It holds the lock of one VMO for one leaf at a time; where the host is asked without it
//! (`Protocol::StableSections`), in a stable section, the leaf is looked at again afterwards: a
//! page that has gone meanwhile is passed over.

use crate::compression::drivers;
use crate::figures::counters::add;
use crate::pages::entry::Entry;
use crate::pages::page_list::PageList;
use crate::{Engine, Host, LEAF_PAGES, PageIndex, SEGMENT_PAGES, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// Where a harvest of accessed bits goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Harvest {
    /// Segment that is next, counted from 0.
    segment: u32,
    /// First page of the leaf that is next.
    first: PageIndex,
    /// How often all page lists were walked to their end.
    pub rounds: u64,
}

impl Harvest {
    /// From the beginning.
    pub const fn new() -> Self {
        Self {
            segment: 0,
            first: 0,
            rounds: 0,
        }
    }
}

/// What a harvest has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Harvested {
    /// Pages that the host was asked about.
    pub asked: u32,
    /// Of these: pages that were accessed since it was asked last.
    pub accessed: u32,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// A page was seen to be accessed. Whether that has changed where it stands.
    pub fn mark_accessed(&self, segment: SegmentId, index: PageIndex) -> bool {
        let list = self.page_list(segment);
        let Entry::Page(record) = list.get(index) else {
            return false;
        };
        self.queues.lock().touch(record)
    }

    /// Asks the host which pages of the next `leaves` leaves were accessed, and makes those young.
    /// Leaves that do not exist count, so that a call takes no longer than it may; it ends with
    /// the end of the page lists at the latest.
    pub fn harvest(&self, host: &H, harvest: &mut Harvest, leaves: u32) -> Harvested {
        let mut found = Harvested::default();
        for _ in 0..leaves {
            if harvest.segment >= self.tables.last_segment() {
                *harvest = Harvest {
                    rounds: harvest.rounds + 1,
                    ..Harvest::new()
                };
                break;
            }
            let segment = harvest.segment + 1;
            if self.has_leaf(segment, harvest.first) {
                self.harvest_leaf(host, segment, harvest.first, &mut found);
            }
            harvest.first += LEAF_PAGES;
            if harvest.first >= SEGMENT_PAGES {
                harvest.first = 0;
                harvest.segment += 1;
            }
        }
        add(&self.counters.harvested, u64::from(found.asked));
        add(&self.counters.accessed, u64::from(found.accessed));
        found
    }

    fn harvest_leaf(&self, host: &H, segment: SegmentId, first: PageIndex, found: &mut Harvested) {
        let Some(list) = self.page_list_if_there(segment) else {
            return;
        };
        let pages = pages_in_place(&list, first);
        if pages == 0 {
            return;
        }
        let (accessed, list) = drivers::harvest(self, host, list, (segment, first), pages);
        let accessed = accessed & pages;
        found.asked += pages.count_ones();
        found.accessed += accessed.count_ones();
        if accessed == 0 {
            return;
        }
        let mut queues = self.queues.lock();
        for n in (0..LEAF_PAGES).filter(|n| accessed & 1 << n != 0) {
            if let Entry::Page(record) = list.get(first + n) {
                queues.touch(record);
            }
        }
    }
}

/// The pages of the leaf at `first` that are in place, as a set.
fn pages_in_place<H: Host>(list: &PageList<'_, H>, first: PageIndex) -> u64 {
    (0..LEAF_PAGES)
        .filter(|n| matches!(list.get(first + n), Entry::Page(_)))
        .fold(0, |set, n| set | 1 << n)
}
