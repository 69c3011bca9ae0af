//! Commands that packaging runs: their output, or an error with what they said.

use anyhow::{Context, Result, bail};
use coldpress_harness::workspace;
use std::process::{Command, Output, Stdio};

/// What a command prints, run in the root of the repository.
pub fn output(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace::root());
    text(&mut command)
}

/// What a command prints. It must succeed.
pub fn text(command: &mut Command) -> Result<String> {
    let output = finished(command)?;
    if !output.status.success() {
        bail!("{} ({})\n{}", line(command), output.status, said(&output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command to its end, however it ends.
pub fn finished(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", line(command)))
}

/// What a command printed on both its outputs.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
        .trim()
        .to_owned()
}

/// The command as it would be typed.
fn line(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}
