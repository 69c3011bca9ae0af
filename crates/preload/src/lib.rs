//! The library that coldpress run injects into a program.
