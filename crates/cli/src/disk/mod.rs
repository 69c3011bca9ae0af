//! `coldpress disk`: a compressed RAM disk, served over NBD, and what can be done with it while it runs.
//!
//! ```text
//!   coldpress disk serve ── clients: NBD on a Unix socket or a loopback address (exports: the disk, its snapshots)
//!        ▲                     (`serve.rs`, `together.rs`, `exports.rs`)
//!        │ control socket: one line of JSON each way, one request a connection (`protocol.rs`, `control.rs`)
//!   coldpress disk status, info, snapshot, drop, compact, reset, limit, idle, flush, recompress (`ask.rs`)
//! ```

mod arguments;
mod ask;
mod content;
mod control;
mod exports;
mod figures;
mod info;
mod place;
mod protocol;
mod serve;
mod together;
mod write_back_to;

pub use arguments::DiskArguments;

use crate::refusal::Refusal;
use arguments::DiskCommand;

/// Serves a disk, or asks one that is served.
pub fn disk(arguments: &DiskArguments) -> Result<u8, Refusal> {
    match &arguments.command {
        DiskCommand::Serve(arguments) => serve::serve(arguments)?,
        DiskCommand::Status(arguments) => ask::status(arguments)?,
        command => ask::order(command)?,
    }
    Ok(0)
}
