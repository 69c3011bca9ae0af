//! Page lists by themselves.

mod common;

mod model;
mod zircon_page_list;
mod zircon_regions;
mod zircon_zero_intervals;
