//! Ways to break the protocol after which nothing can be answered any more.

/// What the client did that ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// It answered the greeting with flags that do not exist.
    #[error("unknown client flags {0:#x}")]
    ClientFlags(u32),
    /// An option begins with other bytes than an option does.
    #[error("an option that begins with {0:#x}")]
    OptionMagic(u64),
    /// An option is longer than anything that is worth skipping.
    #[error("an option of {0} bytes")]
    OptionLength(u32),
    /// It sends one option after the other and never chooses an export.
    #[error("too many options")]
    Options,
    /// It asked, by the option that allows no answer, for an export that does not exist.
    #[error("an unknown export")]
    ExportName,
    /// A request begins with other bytes than a request does.
    #[error("a request that begins with {0:#x}")]
    RequestMagic(u32),
    /// It wants to write more at once than anybody may.
    #[error("a write of {0} bytes")]
    PayloadLength(u32),
}
