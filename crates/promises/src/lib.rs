//! The promises of Coldpress, each a test on a real program.
