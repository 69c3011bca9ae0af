//! Process ids on the command line.

/// Reads the id of a process.
pub fn parse_pid(text: &str) -> Result<u32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| {
        format!(
            "cannot read {text:?} as a process id: write for example 4242 (pgrep NAME finds it)"
        )
    })
}
