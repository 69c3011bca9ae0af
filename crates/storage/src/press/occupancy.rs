//! How full the frames are: what compaction goes by, without looking at them.
//!
//! ```text
//!  frames  │ 3 9 … 41 88 │ 60 17 … 5 2      by units in use, a bucket for each eight
//!          ╰── empty ────╯
//!              these into the room that those leave
//! ```
//!
//! Two numbers a bucket, kept up by every change, so that a pass knows from the start which
//! frames to empty: the emptiest, as many as it takes for their objects to fill the holes of all
//! others. Emptying fewer would leave holes; emptying more would move objects to no purpose.
#![forbid(unsafe_code)]

use super::block::FRAME_UNITS;

const BUCKET_UNITS: usize = 8;
const BUCKETS: usize = FRAME_UNITS / BUCKET_UNITS + 1;

/// A pass is worth its while if it could save one frame in so many. What it leaves behind is
/// less: after a pass about one frame in a hundred could be saved if objects were liquid
/// (`cargo run --release -p coldpress-storage --example density`, column "compacted").
const WORTHWHILE: u64 = 64;

/// Frames with blocks, by units in use.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Occupancy {
    frames: [u32; BUCKETS],
    used: [u64; BUCKETS],
}

/// Which frames a pass empties.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Victims {
    /// Frames of all buckets below this one,
    bucket: usize,
    /// and so many units' worth of frames of it.
    units: u64,
}

impl Occupancy {
    pub(super) const fn new() -> Self {
        Self {
            frames: [0; BUCKETS],
            used: [0; BUCKETS],
        }
    }

    /// A frame has so many units in use now.
    #[inline]
    pub(super) fn add(&mut self, used: usize) {
        self.frames[used / BUCKET_UNITS] += 1;
        self.used[used / BUCKET_UNITS] += used as u64;
    }

    /// A frame has no longer so many units in use.
    #[inline]
    pub(super) fn remove(&mut self, used: usize) {
        self.frames[used / BUCKET_UNITS] -= 1;
        self.used[used / BUCKET_UNITS] -= used as u64;
    }

    /// Which frames to empty, or none if it is not worth while.
    pub(super) fn victims(&self) -> Option<Victims> {
        let unit = FRAME_UNITS as u64;
        let frames: u64 = self.frames.iter().map(|n| u64::from(*n)).sum();
        let used: u64 = self.used.iter().sum();
        // One unit in a hundred stays a hole too small for anything.
        let saved = frames.saturating_sub((used * 100).div_ceil(unit * 99));
        if saved == 0 || saved * WORTHWHILE < frames {
            return None;
        }
        let (mut moved, mut room) = (0, frames * unit - used);
        for (bucket, (frames, used)) in self.frames.iter().zip(self.used).enumerate() {
            let holes = u64::from(*frames) * unit - used;
            if moved + used >= room - holes {
                // Each unit that is moved from here closes one, and takes its frame's holes away.
                let missing = room.saturating_sub(moved);
                let units = missing * used / (used + holes).max(1) + unit;
                return Some(Victims { bucket, units });
            }
            moved += used;
            room -= holes;
        }
        None
    }
}

impl Victims {
    /// None.
    pub(super) const NONE: Self = Self {
        bucket: 0,
        units: 0,
    };

    /// Whether a frame with so many units in use is one of them, and takes it from the account.
    pub(super) fn take(&mut self, used: usize) -> bool {
        let bucket = used / BUCKET_UNITS;
        if bucket != self.bucket {
            return bucket < self.bucket;
        }
        let is_one = self.units != 0;
        self.units = self.units.saturating_sub(used as u64);
        is_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occupancy(frames: &[(usize, usize)]) -> Occupancy {
        let mut occupancy = Occupancy::new();
        for (count, used) in frames {
            (0..*count).for_each(|_| occupancy.add(*used));
        }
        occupancy
    }

    fn chosen(mut victims: Victims, frames: &[(usize, usize)]) -> Vec<usize> {
        let take =
            |(count, used): &(usize, usize)| (0..*count).filter(|_| victims.take(*used)).count();
        frames.iter().map(take).collect()
    }

    use std::vec::Vec;

    #[test]
    fn full_frames_are_left_alone() {
        assert_eq!(occupancy(&[]).victims(), None);
        assert_eq!(occupancy(&[(1, 3)]).victims(), None);
        assert_eq!(occupancy(&[(1000, 511)]).victims(), None);
        assert_eq!(
            occupancy(&[(1000, 500)]).victims(),
            None,
            "about 1 % could be saved"
        );
    }

    #[test]
    fn the_emptiest_frames_are_chosen_and_as_many_as_fill_the_others() {
        let frames = [(100, 50), (100, 250), (100, 411)];
        let victims = occupancy(&frames).victims().unwrap();
        let chosen = chosen(victims, &frames);
        assert_eq!((chosen[0], chosen[2]), (100, 0));
        let moved = chosen[0] * 50 + chosen[1] * 250;
        let room = (100 - chosen[1]) * (511 - 250) + 100 * (511 - 411);
        assert!(moved.abs_diff(room) <= 3 * 511, "{moved} units into {room}");
    }

    #[test]
    fn frames_that_are_all_alike_are_not_all_chosen() {
        let frames = [(1000, 256)];
        let victims = occupancy(&frames).victims().unwrap();
        assert!((490..=510).contains(&chosen(victims, &frames)[0]));
    }

    #[test]
    fn two_frames_that_would_be_one_are_chosen() {
        let frames = [(2, 100)];
        assert!(occupancy(&frames).victims().is_some());
    }
}
