//! Measuring on a machine that others use too.
//!
//! The kernel counts how often it took the processor from a thread to give it to another. What
//! was interrupted so is measured again; the count is read outside of what is timed. What cannot
//! be seen is an interrupt, or a hypervisor that takes the processor: medians are for those.

/// Times that a measurement is repeated before it is taken as it is.
const ATTEMPTS: usize = 8;

/// How often the processor was taken from this thread.
pub(crate) fn interruptions() -> i64 {
    // SAFETY: zeros are a valid `rusage`, and the call fills it; of the calling thread it
    // cannot fail.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}

/// What `measure` returns when it was not interrupted.
pub(crate) fn undisturbed<T>(mut measure: impl FnMut() -> T) -> T {
    for _ in 1..ATTEMPTS {
        let before = interruptions();
        let measured = measure();
        if interruptions() == before {
            return measured;
        }
    }
    measure()
}
