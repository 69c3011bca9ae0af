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

impl Clock {
    /// Calibrates: takes about 30 ms.
    pub(crate) fn calibrate() -> Self {
        let (system, counter) = (Instant::now(), begin_ticks());
        while system.elapsed().as_millis() < 30 {
            std::hint::spin_loop();
        }
        let (elapsed, ticks) = (system.elapsed().as_nanos(), end_ticks() - counter);
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
        let (system, begin) = (Instant::now(), clock.begin());
        while system.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let measured = clock.nanoseconds_since(begin);
        let real = system.elapsed().as_nanos() as f64;
        assert!(
            measured <= real && measured > 0.9 * 20e6,
            "{measured} {real}"
        );
        assert!(clock.overhead_ns() < 10_000.0);
    }
}
