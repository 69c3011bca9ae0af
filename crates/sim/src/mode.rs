//! The machines that there are.

/// Which machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is a kernel: VMOs, pages under their locks.
    Kernel,
    /// Another kernel owns the pages, and the pager of the product handles them.
    Pager,
}

impl Mode {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Kernel, Self::Pager];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Pager => "pager",
        }
    }
}
