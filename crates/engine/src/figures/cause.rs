//! Why pages are compressed.

/// Why pages are compressed: RFC-0219 "Aging and tracking" names the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// They are old.
    Eager,
    /// The budget must be kept.
    Pressure,
    /// Memory stands above the budget.
    Critical,
}
