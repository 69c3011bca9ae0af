//! The tests of security domains ([`domains`]), a program of their own: some compare times, which the engine's other
//! tests beside them would blur.

mod domains;
mod lean;
mod spin_lock;
