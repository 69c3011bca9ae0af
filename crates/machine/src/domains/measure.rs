//! What a domain can time: touches of its own memory.
use crate::domains::machine::{Domain, text};
use coldpress_engine::Access;
use coldpress_engine::vmo::VmoId;
use coldpress_storage::FrameSource;
use std::hint::black_box;
use std::time::Instant;

/// What is timed.
pub const OPERATIONS: [&str; 4] = [
    "touch of an own compressed page",
    "touch of an own resident page",
    "first touch of a fresh page",
    "compressing an own page",
];

const PAGES: u64 = 256;

/// The domain's own memory, half of which is always in place.
pub struct Probe {
    cold: VmoId,
    hot: VmoId,
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What the processor remembers of the other's work goes, as far as it is the caches that do: 32 MiB are
/// written. What is measured afterwards is the state that the other left, and not that it worked.
pub struct Wash(Vec<u8>);

impl Wash {
    pub fn new() -> Self {
        Self(vec![0; 32 << 20])
    }

    pub fn wash(&mut self) {
        let next = self.0[0].wrapping_add(1);
        black_box(&mut self.0).fill(next);
    }
}

/// The states of a round in an order by chance, so that none comes after the same one always.
pub fn order(round: usize, states: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..states).collect();
    let mut state = (round as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for left in (2..=states).rev() {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        order.swap(left - 1, (state >> 33) as usize % left);
    }
    order
}

impl Probe {
    pub fn new<F: FrameSource>(domain: &mut Domain<F>) -> Self {
        let [cold, hot] = [(); 2].map(|()| domain.create(PAGES));
        domain.opt_out(hot);
        for page in 0..PAGES {
            for vmo in [cold, hot] {
                domain
                    .write(vmo, page * 4096, &text(page))
                    .expect("a frame");
            }
        }
        Self { cold, hot }
    }

    /// Median nanoseconds of each operation.
    pub fn visit<F: FrameSource>(&self, domain: &mut Domain<F>) -> [f64; OPERATIONS.len()] {
        let begin = Instant::now();
        let kept = domain.send_away();
        let compressing = begin.elapsed().as_nanos() as f64 / f64::from(kept);
        assert_eq!(u64::from(kept), PAGES);
        let fault = touches(domain, self.cold, Access::Read);
        let hit = touches(domain, self.hot, Access::Read);
        let fresh = domain.create(PAGES);
        let first = touches(domain, fresh, Access::Write);
        domain.destroy(fresh);
        [fault, hit, first, compressing]
    }

    /// The same touch of pages that are compressed and of such that are not.
    pub fn own_state<F: FrameSource>(&self, domain: &mut Domain<F>) -> [f64; 2] {
        domain.send_away();
        let away = touches(domain, self.cold, Access::Read);
        [away, touches(domain, self.cold, Access::Read)]
    }
}

/// Median of the touches of all pages.
fn touches<F: FrameSource>(domain: &mut Domain<F>, vmo: VmoId, access: Access) -> f64 {
    let times = (0..PAGES).map(|page| touch(domain, vmo, page, access));
    median(times.collect())
}

/// One touch.
pub fn touch<F: FrameSource>(domain: &mut Domain<F>, vmo: VmoId, page: u64, access: Access) -> f64 {
    let mut bytes = [1; 8];
    let begin = Instant::now();
    let done = match access {
        Access::Write => domain.write(vmo, page * 4096, &bytes),
        Access::Read => domain.read(vmo, page * 4096, black_box(&mut bytes)),
    };
    let time = begin.elapsed();
    done.expect("it is there");
    time.as_nanos() as f64
}
