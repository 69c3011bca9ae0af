//! VMOs on a machine that owns its pages, as a kernel does.

mod machine;
mod system;

#[path = "../machine/frames.rs"]
#[allow(dead_code, reason = "each test file uses what it needs")]
mod frames;
#[path = "../machine/spin_lock.rs"]
mod spin_lock;

mod attributions;
mod commit;
mod damage;
mod destroying;
mod intervals;
mod latency;
mod mapped;
mod model;
mod paged;
mod pinning;
mod ranges;
mod read_write;
mod snapshots;
mod threads;
mod transfers;
