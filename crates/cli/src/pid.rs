//! Process ids on the command line.

/// Whether all of these are ids of processes.
pub fn are_pids(texts: &[String]) -> bool {
    texts.iter().all(|text| parse_pid(text).is_ok())
}

/// Reads the id of a process.
pub fn parse_pid(text: &str) -> Result<u32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| {
        format!(
            "cannot read {text:?} as a process id: write for example 4242 (pgrep NAME finds it)"
        )
    })
}
