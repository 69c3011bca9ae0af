//! Finding a process under a pager by its id, or saying what it is instead.

use crate::own_name;
use crate::pid::parse_pid;
use crate::process::{self, Identity};
use crate::refusal::Refusal;
use crate::statistics_dir;
use crate::statistics_file::{self, Live, Run};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering::Relaxed;

/// All runs that this user may see.
pub fn runs() -> Vec<Run> {
    statistics_dir::all()
        .iter()
        .flat_map(|directory| statistics_file::scan(directory))
        .collect()
}

/// The slots of all processes in them.
pub fn all(runs: Vec<Run>) -> Vec<Live> {
    let mut all: Vec<Live> = runs.into_iter().flat_map(|run| run.live).collect();
    all.sort_by_key(|live| live.pid);
    all
}

/// The process that `pid` means: if that is `coldpress run` itself, whose id a shell tells, its program.
pub fn meant(runs: &[Run], pid: u32) -> u32 {
    let program = runs.iter().find_map(|run| program_of(run, pid));
    program.unwrap_or(pid)
}

/// The one of the process that `pid` means.
pub fn find(pid: u32) -> Result<Live, Refusal> {
    let runs = runs();
    let wanted = meant(&runs, pid);
    let found = all(runs).into_iter().find(|live| live.pid == wanted);
    found.ok_or_else(|| Refusal::new(not_managed(pid)))
}

/// The program of the run that `pid` supervises, as far as it is under a pager.
fn program_of(run: &Run, pid: u32) -> Option<u32> {
    let head = run.head.as_ref()?;
    let supervises = !run.is_unsupervised && head.supervisor_pid.load(Relaxed) == u64::from(pid);
    let root = u32::try_from(head.root_pid.load(Relaxed)).ok()?;
    let first = || run.live.iter().map(|live| live.pid).min();
    let is_there = run.live.iter().any(|live| live.pid == root);
    supervises
        .then(|| is_there.then_some(root).or_else(first))
        .flatten()
}

/// Those that `wanted` means: the process of that id, or all of programs of that name.
pub fn named(wanted: &str) -> Result<Vec<Live>, Refusal> {
    if let Ok(pid) = parse_pid(wanted) {
        return find(pid).map(|file| vec![file]);
    }
    let mut found = all(runs());
    found.retain(|file| process::name(file.pid) == comm(wanted));
    match found.is_empty() {
        true => Err(Refusal::new(format!(
            "no program {wanted:?} runs under Coldpress; {}",
            list()
        ))),
        false => Ok(found),
    }
}

/// The one that `wanted` means: the process of that id, or the only program of that name.
pub fn only(wanted: &str) -> Result<Live, Refusal> {
    let mut found = named(wanted)?;
    if found.len() > 1 {
        let pids: Vec<String> = found.iter().map(|live| live.pid.to_string()).collect();
        return Err(Refusal::new(format!(
            "{} programs {wanted:?} run under Coldpress: say which by its process id: {}",
            found.len(),
            pids.join(", ")
        )));
    }
    Ok(found.remove(0))
}

/// A name as the kernel keeps it, which is 15 bytes of it.
pub fn comm(name: &str) -> String {
    const BYTES: usize = 15;
    let name = name.replace(char::is_control, "?");
    let end = name.len().min(BYTES);
    String::from_utf8_lossy(&name.as_bytes()[..end]).into_owned()
}

/// How to see which do.
fn list() -> String {
    format!("those that do: {} status", own_name::get())
}

/// The user whose process it is.
pub fn owner(pid: u32) -> Option<u32> {
    Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

fn not_managed(pid: u32) -> String {
    if !Identity::of(pid).is_some_and(|process| process.is_alive()) {
        return format!(
            "there is no process {pid}; those under Coldpress: {} status",
            own_name::get()
        );
    }
    // SAFETY: the call takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    match owner(pid) {
        Some(user) if own != 0 && user != own => {
            format!("process {pid} is not yours: it belongs to user {user}")
        }
        _ => format!(
            "process {pid} ({}) does not run under Coldpress; {}",
            process::name(pid),
            list()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_managed_process_is_called_what_it_is() {
        let none = not_managed(4_194_305);
        assert!(
            none.starts_with("there is no process 4194305; ") && none.ends_with(" status"),
            "{none}"
        );
        let refusal = named("no-such-program-xyz").unwrap_err().to_string();
        assert!(
            refusal.starts_with("no program \"no-such-program-xyz\" runs"),
            "{refusal}"
        );
        assert_eq!(comm("a-very-long-program-name"), "a-very-long-pro");
        let own = not_managed(std::process::id());
        assert!(own.contains("does not run under Coldpress"), "{own}");
    }
}
