//! The coldpress command.
fn main() {}
