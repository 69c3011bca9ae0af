//! Time of short pieces of work.
//!
//! On x86_64 the time stamp counter, fenced on both sides so that nothing of the work before or
//! behind is counted; calibrated against the system's clock once. What reading it costs is
//! measured and subtracted. Elsewhere the system's clock.

use std::time::Instant;

/// The clock, calibrated.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    ns_per_tick: f64,
    overhead_ticks: u64,
}

/// A moment.
#[derive(Copy, Clone)]
pub(crate) struct Moment(u64);

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn begin_ticks() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86_64 processor has SSE2's fence and the counter, and Linux lets user
    // programs read it.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn end_ticks() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: as above.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn begin_ticks() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(not(target_arch = "x86_64"))]
fn end_ticks() -> u64 {
    begin_ticks()
}

/// What the system's clock and the counter say in one moment: of a hundred readings the one
/// whose counter moved least around the clock's, so that none counts between which the thread
/// was interrupted.
fn both_clocks() -> (Instant, u64) {
    let reading = || {
        let before = begin_ticks();
        let system = Instant::now();
        let after = end_ticks();
        (after - before, system, before + (after - before) / 2)
    };
    let closest = (0..100).map(|_| reading()).min_by_key(|(apart, ..)| *apart);
    let (_, system, ticks) = closest.unwrap_or_else(reading);
    (system, ticks)
}

impl Clock {
    /// Calibrates: takes about 30 ms.
    pub(crate) fn calibrate() -> Self {
        let (began, first) = both_clocks();
        while began.elapsed().as_millis() < 30 {
            std::hint::spin_loop();
        }
        let (ended, last) = both_clocks();
        let (elapsed, ticks) = (ended.duration_since(began).as_nanos(), last - first);
        let overhead_ticks = (0..20_000)
            .map(|_| {
                let begin = begin_ticks();
                end_ticks() - begin
            })
            .min()
            .unwrap_or(0);
        Self {
            ns_per_tick: elapsed as f64 / ticks.max(1) as f64,
            overhead_ticks,
        }
    }

    /// Now; what follows has not begun.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Moment {
        Moment(begin_ticks())
    }

    /// Nanoseconds since `begin`; what came before has ended.
    #[inline(always)]
    pub(crate) fn nanoseconds_since(&self, begin: Moment) -> f64 {
        let ticks = end_ticks().saturating_sub(begin.0);
        ticks.saturating_sub(self.overhead_ticks) as f64 * self.ns_per_tick
    }

    /// What is subtracted from each measurement.
    pub(crate) fn overhead_ns(&self) -> f64 {
        self.overhead_ticks as f64 * self.ns_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_the_systems() {
        let clock = Clock::calibrate();
        // The system's clock is read within what is measured and around it: however long the
        // thread is interrupted between two lines, the measured time lies between the two.
        let around = Instant::now();
        let begin = clock.begin();
        let within = Instant::now();
        while within.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let within = within.elapsed().as_nanos() as f64;
        let measured = clock.nanoseconds_since(begin) + clock.overhead_ns();
        let around = around.elapsed().as_nanos() as f64;
        assert!(
            within * 0.99 < measured && measured < around * 1.01,
            "{measured} is not between {within} and {around}"
        );
    }
}
