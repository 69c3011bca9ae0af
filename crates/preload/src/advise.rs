//! `coldpress_advise`: the program says which of its memory it cannot wait for (`include/coldpress.h`).

use crate::the_pager::pager;
use crate::wrappers::answer;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::ffi::{c_int, c_void};

/// `COLDPRESS_NORMAL`
const NORMAL: c_int = 0;
/// `COLDPRESS_LATENCY_SENSITIVE`
const LATENCY_SENSITIVE: c_int = 1;

const ENOMEM: isize = -12;
const EINVAL: isize = -22;

/// Says of whole pages that they are latency-sensitive, and so never taken, or like any others. What was
/// taken of them is back when this returns. Returns 0, or -1 with `errno`: EINVAL where the address is not
/// that of a page, the range wraps around or the advice is unknown, ENOMEM where too many ranges are remembered.
#[unsafe(no_mangle)]
pub extern "C" fn coldpress_advise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    let start = address as usize;
    let end = start
        .checked_add(len)
        .and_then(|end| end.checked_next_multiple_of(PAGE_SIZE));
    let sensitive = match advice {
        NORMAL => Some(false),
        LATENCY_SENSITIVE => Some(true),
        _ => None,
    };
    let result = match (end, sensitive) {
        (Some(end), Some(sensitive)) if start.is_multiple_of(PAGE_SIZE) => {
            let range = AddressRange { start, end };
            match range.is_empty() || pager().advise(range, sensitive) {
                true => 0,
                false => ENOMEM,
            }
        }
        _ => EINVAL,
    };
    answer(result) as c_int
}
