//! The two ways in which a host changes memory and page list together.

/// How a host changes memory and page list together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// With the lock of the VMO held, as a kernel does: what changes a page list does so under that lock, and stable
    /// sections mean nothing.
    UnderLock,
    /// Without a lock, for a host that waits for another kernel in [`Host::take`](crate::Host::take) and [`Host::install`](crate::Host::install). Changes of
    /// the address space are kept out by its stable sections, and workers by claims.
    StableSections,
}

impl Protocol {
    /// Whether one batch may have several runs in staging. Under the lock each page in staging holds a frame in
    /// reserve, so there is one run at a time.
    pub(crate) const fn stages_several_runs(self) -> bool {
        matches!(self, Self::StableSections)
    }

    /// Whether an entry that holds a page is proof of one: what drops a page changes its entry in the same
    /// locked section.
    pub(crate) const fn entries_are_proof(self) -> bool {
        matches!(self, Self::UnderLock)
    }
}
