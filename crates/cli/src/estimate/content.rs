//! What sampled pages hold, and what they would take when they are compressed and stored: shares, means, spreads.

use crate::anonymous_pages::PAGE_BYTES;
use coldpress_eval::{Fate, Storing};

/// Fewer pages of a group say too little by themselves.
const LEAST_PAGES: usize = 64;

/// Figures of some pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Content {
    /// Pages.
    pub pages: usize,
    /// All zeros.
    pub zero: usize,
    /// One other word, repeated.
    pub same_filled: usize,
    /// Left as they are.
    pub incompressible: usize,
    /// Bytes of objects in storage, packing included.
    pub stored_bytes: f64,
    /// Sum of squares of what each page would take.
    squares: f64,
}

impl Content {
    /// Of pages with these fates, where storage takes `packing` times what its objects have.
    pub fn of(fates: impl IntoIterator<Item = Fate>, packing: f64) -> Self {
        let mut content = Self::default();
        for fate in fates {
            content.pages += 1;
            let bytes = match fate {
                Fate::Zero => {
                    content.zero += 1;
                    0.0
                }
                Fate::SameFilled => {
                    content.same_filled += 1;
                    0.0
                }
                Fate::Incompressible => {
                    content.incompressible += 1;
                    PAGE_BYTES as f64
                }
                Fate::Stored(bytes) => {
                    let bytes = f64::from(bytes) * packing;
                    content.stored_bytes += bytes;
                    bytes
                }
            };
            content.squares += bytes * bytes;
        }
        content
    }

    /// Pages that become objects in storage.
    pub fn stored(&self) -> usize {
        self.pages - self.zero - self.same_filled - self.incompressible
    }

    /// What a page takes on average, in bytes, once it was to be compressed; `anew`: the share of their bytes that stored
    /// pages keep.
    pub fn mean(&self, anew: f64) -> f64 {
        let left = self.incompressible as f64 * PAGE_BYTES as f64;
        match self.pages {
            0 => PAGE_BYTES as f64,
            pages => (left + self.stored_bytes * anew) / pages as f64,
        }
    }

    /// Of that, what storage has.
    pub fn stored_mean(&self, anew: f64) -> f64 {
        self.stored_bytes * anew / self.pages.max(1) as f64
    }

    /// The share of pages that stay as they are.
    pub fn incompressible_share(&self) -> f64 {
        match self.pages {
            0 => 1.0,
            pages => self.incompressible as f64 / pages as f64,
        }
    }

    /// By how much what pages take differs, squared: of single pages, in bytes.
    pub fn variance(&self) -> f64 {
        match self.pages {
            0 => 0.0,
            pages => (self.squares / pages as f64 - self.mean(1.0).powi(2)).max(0.0),
        }
    }

    /// These figures where they are of enough pages, else `all`.
    pub fn or(self, all: Self) -> Self {
        match self.pages >= LEAST_PAGES.min(all.pages) {
            true => self,
            false => all,
        }
    }
}

/// How `run` would store pages: by which codec, in which storage.
pub fn storing(
    codec: coldpress_codec::CodecKind,
    storage: coldpress_storage::StorageKind,
) -> Storing {
    let percent = coldpress_engine::Tunables::DEFAULT.threshold as usize;
    Storing {
        codec,
        storage,
        target_bytes: PAGE_BYTES * percent / 100,
        header_bytes: coldpress_engine::HEADER_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_means_and_spreads_follow_from_the_fates() {
        let fates = [
            Fate::Zero,
            Fate::SameFilled,
            Fate::Incompressible,
            Fate::Stored(1000),
        ];
        let content = Content::of(fates, 1.1);
        assert_eq!(
            (content.zero, content.same_filled, content.stored()),
            (1, 1, 1)
        );
        assert!((content.mean(1.0) - (4096.0 + 1100.0) / 4.0).abs() < 1e-9);
        assert!((content.mean(0.5) - (4096.0 + 550.0) / 4.0).abs() < 1e-9);
        assert!(content.variance() > 1000.0);
        assert!((content.stored_mean(0.5) - 550.0 / 4.0).abs() < 1e-9);
        assert!((content.incompressible_share() - 0.25).abs() < 1e-9);
        let even = Content::of([Fate::Stored(1000); 10], 1.0);
        assert!(even.variance() < 1.0);
        assert_eq!(Content::default().mean(1.0), 4096.0);
        assert_eq!(Content::default().incompressible_share(), 1.0);
    }

    #[test]
    fn few_pages_are_judged_by_all() {
        let few = Content::of([Fate::Zero; 3], 1.0);
        let all = Content::of([Fate::Stored(500); 100], 1.0);
        assert_eq!(few.or(all), all);
        assert_eq!(all.or(few), all);
        assert_eq!(few.or(few), few, "where there are no more");
    }

    #[test]
    fn the_target_is_that_of_run() {
        let storing = storing(coldpress_codec::CodecKind::best(), Default::default());
        assert_eq!((storing.target_bytes, storing.header_bytes), (2867, 12));
    }
}
