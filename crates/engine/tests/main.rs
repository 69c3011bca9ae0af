//! The tests of the engine, one program: each program more takes time to link. They run in threads of one process; what
//! cannot is a program of its own (`Cargo.toml`).

mod metrics_common;

mod evicting;
mod metrics_layout;
mod metrics_queries;
mod metrics_vmo;
mod on_machine;
mod page_lists;
mod round_trip;
mod tunables;
mod vmo;
mod zeroed_while_asked;
mod zircon_aspace;
mod zircon_attribution;
mod zircon_cases_table;
mod zircon_compression;
mod zircon_pressure;
mod zircon_vmo;

use coldpress_machine::{kernel, mapped as machine, spin_lock};
