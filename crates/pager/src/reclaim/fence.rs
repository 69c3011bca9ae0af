//! When memory is fenced: registered whole, ahead of being touched, so that fresh pages pass through the handlers,
//! where they can be held back.
//!
//! Repeated soon: a program that maps memory piece by piece leaves the fence behind with each, and takes 2 MiB in
//! a millisecond. (Discovery, which may not take more than a tenth of the time, was what it waited for: a gigabyte
//! a second went by.) But mappings are read anew each time, so it backs off while there is nothing to fence.

/// A program grows if what it has, in place or stored, is more by this than at the last fence. Less is chance.
pub(crate) const GROWTH_BYTES: u64 = 1 << 20;
/// The shortest time between two fences.
const LEAST_REST_NS: u64 = 1_000_000;
/// The longest: a program that has all it needs does not gain mappings.
const LONGEST_REST_NS: u64 = 8_000_000;
/// A fence is followed by so many times the time that it took; by the same time, while the program grows: the first
/// registers all that there is, takes 15 ms for a gigabyte, and 60 ms later the program had 100 MiB more.
const REST_PART: u64 = 4;

/// When memory was last fenced, and what there was to fence then.
#[derive(Default)]
pub(crate) struct Fence {
    ended_ns: u64,
    took_ns: u64,
    /// Time until the next, if the program does not grow.
    rest_ns: u64,
    content_bytes: u64,
}

impl Fence {
    fn grows(&self, content_bytes: u64) -> bool {
        content_bytes > self.content_bytes + GROWTH_BYTES
    }

    /// Whether it is time for the next, where the program has so much.
    pub(crate) fn is_due(&self, now_ns: u64, content_bytes: u64) -> bool {
        let rest_ns = match self.grows(content_bytes) {
            true => LEAST_REST_NS.max(self.took_ns),
            false => self.rest_ns.max(self.took_ns * REST_PART),
        };
        now_ns >= self.ended_ns + rest_ns
    }

    /// One was made. `registered`: there was something to fence.
    pub(crate) fn made(
        &mut self,
        took: core::ops::Range<u64>,
        registered: bool,
        content_bytes: u64,
    ) {
        let rest_ns = match registered || self.grows(content_bytes) {
            true => LEAST_REST_NS,
            false => (self.rest_ns * 2).clamp(LEAST_REST_NS, LONGEST_REST_NS),
        };
        *self = Self {
            ended_ns: took.end,
            took_ns: took.end - took.start,
            rest_ns,
            content_bytes,
        };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    #[test]
    fn a_long_fence_does_not_leave_a_growing_program_alone() {
        let mut fence = Fence::default();
        fence.made(100 * MS..115 * MS, true, 512 * MIB);
        assert!(!fence.is_due(129 * MS, 540 * MIB));
        assert!(fence.is_due(130 * MS, 540 * MIB), "as long as it took");
        assert!(!fence.is_due(174 * MS, 512 * MIB), "it does not grow");
        assert!(fence.is_due(175 * MS, 512 * MIB));
    }

    #[test]
    fn a_program_that_maps_piece_by_piece_is_followed() {
        let mut fence = Fence::default();
        for n in 1..100 {
            let (now, content) = (n * 2 * MS, n * 4 * MIB);
            assert!(fence.is_due(now, content));
            fence.made(now..now + MS / 5, n % 2 == 0, content);
            assert!(!fence.is_due(now + MS, content + 4 * MIB));
        }
    }

    #[test]
    fn it_backs_off_where_there_is_nothing_to_fence() {
        let mut fence = Fence::default();
        let (mut now, mut rests) = (100 * MS, std::vec::Vec::new());
        for _ in 0..6 {
            fence.made(now..now + MS / 10, false, 9 * MIB);
            let ended = now + MS / 10;
            now = ended;
            while !fence.is_due(now, 9 * MIB) {
                now += MS;
            }
            rests.push((now - ended) / MS);
        }
        assert_eq!(rests, [1, 2, 4, 8, 8, 8]);
    }
}
