//! The tests of the cache, one program: each program more takes time to link. They run in threads of one process; what
//! cannot is a program of its own (`Cargo.toml`).

mod budgets;
mod compressed;
mod eviction;
mod kernel_reclaim;
mod model;
mod small_entries;
