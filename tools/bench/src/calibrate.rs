//! Finding the limit of a cgroup at which pages and pool take together what is wanted.

/// What was held under a limit, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Resident pages.
    pub resident: f64,
    /// Pages and pool together.
    pub all: f64,
}

/// The limit at which pages and pool should add up to `target`, judging by what was held: what
/// is not resident takes the same share of its size in the pool as it did then.
pub fn next_limit(limit: f64, held: Held, native: f64, target: f64) -> f64 {
    let pool = held.all - held.resident;
    let share = (pool / (native - held.resident).max(1.0)).clamp(0.01, 0.95);
    let resident = (target - share * native) / (1.0 - share);
    // Page tables and the like are charged to the group as well: keep the distance seen.
    let besides = limit - held.resident;
    (resident + besides).clamp(native * 0.05, native * 1.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_converges_in_one_step_where_the_ratio_is_constant() {
        let (native, target, share, besides) = (256.0, 166.0, 0.45, 2.0);
        let held = |limit: f64| {
            let resident = limit - besides;
            Held {
                resident,
                all: resident + share * (native - resident),
            }
        };
        let next = next_limit(80.0, held(80.0), native, target);
        assert!((held(next).all - target).abs() < 1e-6);
    }
}
