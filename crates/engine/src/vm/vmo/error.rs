//! Why an operation on a VMO was refused.

use core::fmt;

/// Why an operation on a VMO was refused, or where it ended. What it had done to pages before stays
/// done; none is ever lost or half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmoError {
    /// There is no such VMO, or none any more.
    NoSuchVmo,
    /// The range is not inside the VMO, or a size is beyond what there can be.
    OutOfRange,
    /// A size or an offset is not a multiple of a page.
    NotAligned,
    /// The state forbids it: pages of the range are pinned, or are not; a page is there already.
    BadState,
    /// No frame, or no memory for tables. It can be tried again.
    NoMemory,
    /// What was remembered of a page is lost or in doubt: nothing of it is returned.
    Poisoned,
    /// The pager of the VMO does not supply the page.
    NotSupplied,
    /// This kind of VMO does not do it.
    NotSupported,
}

impl fmt::Display for VmoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VmoError::NoSuchVmo => "no such VMO",
            VmoError::OutOfRange => "the range is not inside the VMO",
            VmoError::NotAligned => "not a multiple of the page size",
            VmoError::BadState => "the state of the VMO does not allow it",
            VmoError::NoMemory => "no memory",
            VmoError::Poisoned => "the content of a page is lost or in doubt",
            VmoError::NotSupplied => "its pager does not supply the page",
            VmoError::NotSupported => "this kind of VMO does not support it",
        })
    }
}

impl core::error::Error for VmoError {}
