//! Mutexes whose words the kernel takes without waiting for their page: they are never evicted.
//!
//! *Robust* ones: when a thread dies, the kernel walks the list of the robust mutexes that it holds, and marks each. It does not wait
//! for a page then (`crates/uffd/tests/the_dead_wait_for_no_page.rs`): where one is missing the walk ends, and whoever
//! waits for one of the mutexes that are left waits for ever. No mutex is robust but by its attributes, so all are seen
//! where they are made. A program that keeps such a list without libc (`set_robust_list`) is not seen.
//!
//! Those that *lend priority* (`PTHREAD_PRIO_INHERIT`): the kernel takes the word itself to lock it (`FUTEX_LOCK_PI`),
//! and where its page is away it says EFAULT, for which libc aborts.

use crate::libc_symbols;
use crate::the_pager::pager;
use crate::wrapped;
use coldpress_pager::space::exclusions::Reason;
use coldpress_uffd::AddressRange;
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

/// Size of libc's `pthread_mutex_t`.
const SIZE: usize = if cfg!(target_arch = "aarch64") {
    48
} else {
    40
};

type Init = unsafe extern "C" fn(*mut c_void, *const c_void) -> c_int;

/// `pthread_mutex_init`, after which a mutex stays in place that is robust or lends priority.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut c_void,
    attributes: *const c_void,
) -> c_int {
    let Some(real) = wrapped::PTHREAD_MUTEX_INIT.find() else {
        return 11; // EAGAIN: as where there are no resources for a mutex
    };
    // SAFETY: libc's function has this type; the arguments are the program's.
    let result = unsafe { core::mem::transmute::<NonNull<c_void>, Init>(real)(mutex, attributes) };
    if result != 0 || attributes.is_null() {
        return result;
    }
    // SAFETY: libc has just read the same attributes.
    if unsafe { libc_symbols::kernel_takes_word(attributes) } {
        let range = AddressRange::new(mutex as usize, SIZE);
        pager().keep_in_place(range, Reason::RobustMutex);
    }
    result
}
