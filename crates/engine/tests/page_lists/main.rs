//! Page lists by themselves.

mod common;
#[path = "../machine/spin_lock.rs"]
mod spin_lock;

mod model;
mod zircon_page_list;
mod zircon_regions;
mod zircon_zero_intervals;
