//! VMOs on a machine that owns its pages, as a kernel does.

mod attributions;
mod commit;
mod damage;
mod destroying;
mod intervals;
mod latency;
mod mapped;
mod metadata;
mod model;
mod paged;
mod pinning;
mod ranges;
mod read_write;
mod snapshots;
mod threads;
mod transfers;
