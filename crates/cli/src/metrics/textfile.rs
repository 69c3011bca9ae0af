//! A file for the textfile collector of node_exporter, which reads `*.prom` in one directory.
//!
//! The file is written beside itself and renamed (`output_file`), so the collector never sees a part. A write that fails (a
//! full disk) leaves the old file, is told once, and is tried again at the next turn. When the command is ended, a file
//! without figures takes the place of the last one: nobody would keep it true any more.

use super::ending::Ending;
use super::exposition::{self, Format};
use crate::output_file;
use crate::refusal::Refusal;
use crate::streams::say;
use std::path::Path;
use std::time::Duration;

const ENDED: &str = "# coldpress metrics has ended\n";

/// Writes the file once.
pub fn once(file: &Path) -> Result<(), Refusal> {
    output_file::write(file, exposition::now(Format::Prometheus).as_bytes())
}

/// Writes it at every turn until a signal ends it. The first time has to succeed.
pub fn again_and_again(file: &Path, interval: Duration, ending: &Ending) -> Result<(), Refusal> {
    once(file)?;
    let mut failing = None;
    while !ending.wait(interval) {
        let failed = once(file).err().map(|refusal| refusal.to_string());
        match (&failing, &failed) {
            (None | Some(_), Some(why)) if failing.as_ref() != Some(why) => {
                say!("{why}; the old file stays, and the next turn tries again");
            }
            (Some(_), None) => say!("{} is written again", file.display()),
            _ => {}
        }
        failing = failed;
    }
    output_file::write(file, ENDED.as_bytes())
}
