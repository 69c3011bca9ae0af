//! The tests of the command, one program: each program more takes time to link. They run in threads of one process.

mod common;

mod bench_cache;
mod capture;
mod disk;
mod disk_backing;
mod disk_info;
mod disk_remote;
mod disk_verified;
mod doctor;
mod estimate;
mod eval;
mod metrics;
mod nbd_client;
mod refusals;
mod run_program;
mod set;
mod settings;
mod status;
#[cfg(feature = "top")]
mod top;
mod width;
