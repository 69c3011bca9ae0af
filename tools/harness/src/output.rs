//! Files that a task writes because the user named them.

use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Writes `value` to `path`, or to standard output if that is `-`. What is there already stays what it is: links are
/// followed, devices and FIFOs written into, a file is written in place.
pub fn json(path: &Path, value: &Value) -> Result<()> {
    let text = format!("{value:#}\n");
    let written = match path == Path::new("-") {
        true => {
            let mut output = std::io::stdout().lock();
            output
                .write_all(text.as_bytes())
                .and_then(|()| output.flush())
        }
        false => fs::write(path, text),
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}
