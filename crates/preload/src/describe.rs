//! `coldpress_describe_page`: what the pager knows of a page, for programs that verify their memory.

use crate::the_pager::pager;

/// Writes what the pager knows of the page of `address` to `text`, without a zero at its end. Returns how many
/// bytes that are, `len` at most.
///
/// # Safety
/// `text` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coldpress_describe_page(
    address: *const core::ffi::c_void,
    text: *mut u8,
    len: usize,
) -> usize {
    if !pager().is_running() {
        return 0;
    }
    let described = pager().describe::<256>(address as usize);
    let bytes = described.as_bytes();
    let len = bytes.len().min(len);
    // SAFETY: as the caller promises.
    unsafe { text.copy_from_nonoverlapping(bytes.as_ptr(), len) };
    len
}
