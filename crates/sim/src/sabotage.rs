//! What is wrong with a machine on purpose, to show that it is noticed.

/// What is wrong with the kernel that hosts the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelSabotage {
    /// Nothing.
    #[default]
    None,
    /// A page that is taken out stays mapped.
    TakeKeepsMappings,
    /// Pages that are shared by a snapshot can still be written to.
    ProtectIgnored,
    /// A mapping goes on showing what it must not show any more.
    UnmapIgnored,
    /// A thread that waits for a page is never woken.
    NeverWakes,
    /// Staging is written to while the compressor owns it.
    StagingOverwritten,
    /// User pagers say that they have written pages back, and have not.
    WritebackForgotten,
}

/// What is wrong with the kernel below the pager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PagerSabotage {
    /// Nothing.
    #[default]
    None,
    /// A write that comes while a page is moved to staging is lost.
    MoveLosesWrites,
    /// What is put in place replaces what is there.
    InstallReplaces,
    /// Pages are put in place although a change was announced.
    InstallsWhileChanging,
    /// A thread that waits for a page is never woken.
    NeverWakes,
    /// Staging is written to while the pager owns it.
    StagingOverwritten,
}
