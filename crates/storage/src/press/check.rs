//! Checks of all invariants, for tests and diagnosis: in time proportional to what is stored.
#![forbid(unsafe_op_in_unsafe_fn)]

use super::block::{Blocks, END_UNIT, FRAME_UNITS, Kind, LISTED_UNITS, Place};
use super::holes::Hole;
use super::occupancy::Occupancy;
use super::{FrameSource, Press};

impl Press {
    /// Panics if the tables do not agree with each other.
    pub(super) fn check_tables(&self) {
        self.records.check_invariants();
        let mut occupancy = Occupancy::new();
        let (mut held, mut marked) = (0, 0);
        for (frame, record) in self.records.iter() {
            let state = record.state();
            held += usize::from(state.used != 0);
            marked += u32::from(state.marked);
            assert!(state.used <= FRAME_UNITS, "P1: frame {frame}");
            assert!(!state.marked || (state.used != 0 && !state.alone), "C2");
            assert!(!state.marked || self.pass.may_be_marked(frame), "C1");
            if state.used != 0 && !state.alone {
                occupancy.add(state.used);
            }
        }
        assert_eq!(held, self.tally.frames, "P4");
        assert_eq!(marked, self.pass.marked, "C2");
        assert_eq!(occupancy, self.occupancy, "P4");
    }

    /// Panics if what is in the frames does not agree with itself or with the tables.
    pub(super) fn check_blocks(&self, frames: &impl FrameSource) {
        let (mut objects, mut shared_bytes, mut holes, mut hole_units) = (0, 0, 0, 0);
        for (frame, record) in self.records.iter() {
            let state = record.state();
            if state.used == 0 || state.alone {
                objects += usize::from(state.alone);
                continue;
            }
            // SAFETY: P1: the frame is held, and has blocks.
            let blocks = unsafe { Blocks::of(frames, frame) };
            let (mut used, mut after_hole) = (0, false);
            blocks.for_each(|unit, header| {
                assert_eq!(header.follows_hole, after_hole, "K2: frame {frame}");
                after_hole = header.kind == Kind::Hole;
                if after_hole {
                    assert!(!header.follows_hole, "K2: frame {frame}");
                    let units = blocks.hole_before(unit + header.value);
                    assert_eq!(units, header.value, "K2: frame {frame}");
                    if !state.marked && units >= LISTED_UNITS {
                        (holes, hole_units) = (holes + 1, hole_units + units);
                    }
                    return;
                }
                used += header.units();
                shared_bytes += header.value;
                objects += usize::from(header.kind != Kind::Rest);
                let place = Place::new(frame, unit);
                let object = self.object_at(frames, place, header);
                // P3, K3; panics if they do not agree.
                let (first, rest) = self.blocks_of(frames, object);
                let is_one = |block: Hole| block.place == place;
                assert!(
                    is_one(first) || rest.is_some_and(is_one),
                    "K3: frame {frame}"
                );
            });
            assert_eq!(blocks.header(END_UNIT).follows_hole, after_hole, "K2");
            assert_eq!(used, state.used, "P1: frame {frame}");
        }
        assert_eq!(objects, self.tally.objects, "P4");
        assert!(shared_bytes <= self.tally.payload_bytes, "P4");
        let mut listed = 0;
        // SAFETY: P2: the frames of holes listed are held.
        unsafe {
            self.holes.check_invariants(frames, holes, |place| {
                assert!(!self.state(place.frame).marked, "P2");
                listed += 1;
            });
        }
        let expected = (holes, hole_units);
        assert_eq!(
            (listed, self.holes.units()),
            expected,
            "P2: a hole is on no list"
        );
    }
}
