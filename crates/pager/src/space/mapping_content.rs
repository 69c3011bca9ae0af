//! What is known of the pages of a mapping, for whoever asks from outside.

use crate::Pager;
use crate::machine::os::Os;
use crate::space::windows::parts;
use coldpress_engine::{Entry, LEAF_PAGES};
use coldpress_interface::mappings::Mapping;
use coldpress_uffd::AddressRange;

impl<O: Os> Pager<O> {
    /// What is known of a mapping: a walk over its page lists, without a lock.
    pub(crate) fn look_at(&self, range: AddressRange) -> Mapping {
        let (host, engine) = (&self.host, &self.engine);
        let mut found = Mapping {
            start: range.start as u64,
            end: range.end as u64,
            ..Mapping::default()
        };
        for part in parts(range) {
            let Some(id) = host.windows.find(&host.memory, part.base) else {
                continue;
            };
            let mut index = part.first;
            while index < part.end {
                if !engine.has_leaf(id, index) {
                    index += LEAF_PAGES - index % LEAF_PAGES;
                    continue;
                }
                match engine.entry(id, index) {
                    Entry::Page(_) => found.in_place_pages += 1,
                    Entry::Zero | Entry::ZeroInterval(..) | Entry::SameFilled(_) => {
                        found.same_filled_pages += 1;
                    }
                    Entry::Compressed(_) | Entry::Temporary(_) | Entry::Request(_) => {
                        found.compressed_pages += 1;
                    }
                    Entry::Empty | Entry::Poisoned => {}
                }
                index += 1;
            }
        }
        found
    }
}
