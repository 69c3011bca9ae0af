//! The pager of this process: the one static that holds it. Whatever the runtime starts is handed a reference to it; a
//! forked child finds it at the same address.

use coldpress_pager::Pager;

static PAGER: Pager = Pager::new();

/// The pager of this process.
pub(crate) fn pager() -> &'static Pager {
    &PAGER
}
