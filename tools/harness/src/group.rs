//! A group of processes that ends with us, however we end.
//!
//! cargo, ended, leaves running what it has started, and a signal handler of ours is of no use
//! where we are killed by SIGKILL. So the command leads a group of its own, and a watcher, a shell in
//! another group, waits at a pipe whose other end only we have. The kernel closes that when we
//! are gone; then the watcher kills the group.
//!
//! (`PR_SET_PDEATHSIG` would end the command alone, and does so already when the *thread* ends
//! that started it.)

use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A group that is watched. Dropped, it is left alone.
pub struct Group {
    leader: u32,
    watcher: Child,
}

impl Group {
    /// Makes the command the leader of its own group.
    pub fn lead(command: &mut Command) {
        command.process_group(0);
    }

    /// Watches the group of a process that was started so.
    pub fn watch(leader: u32) -> Result<Group> {
        let watcher = Command::new("/bin/sh")
            .args(["-c", "read -r line; kill -s KILL -- -$0"])
            .arg(leader.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start /bin/sh")?;
        Ok(Group { leader, watcher })
    }

    /// Sends SIGKILL to all of the group. Only while nobody has waited for the leader: until then
    /// its number is nobody else's.
    pub fn kill(&self) {
        // SAFETY: kill touches no memory of ours; the leader's number stands for its group.
        unsafe { libc::kill(-(self.leader as libc::pid_t), libc::SIGKILL) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Before its pipe is closed.
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Identity;
    use std::io::{BufRead, BufReader};
    use std::time::{Duration, Instant};

    /// A shell that leads a group, and the child that it waits for.
    fn start() -> (Child, Identity) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]);
        command.stdout(Stdio::piped());
        Group::lead(&mut command);
        let mut leader = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(leader.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let child = Identity::of(line.trim().parse().unwrap()).unwrap();
        (leader, child)
    }

    /// Gone, or dead and not waited for.
    fn has_ended(process: Identity) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid));
        let zombie = stat.is_ok_and(|stat| stat.contains(") Z "));
        zombie || Identity::of(process.pid).ok() != Some(process)
    }

    fn ends_within_seconds(process: Identity) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        while !has_ended(process) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        has_ended(process)
    }

    #[test]
    fn all_of_the_group_are_killed() {
        let (mut leader, child) = start();
        let group = Group::watch(leader.id()).unwrap();
        assert!(!has_ended(child));
        group.kill();
        leader.wait().unwrap();
        assert!(ends_within_seconds(child));
    }

    /// `cargo xtask miri`, killed, once left Miri running for hours. What the kernel does then to
    /// the pipe is done here by hand.
    #[test]
    fn the_group_ends_when_we_are_gone() {
        let (mut leader, child) = start();
        let mut group = Group::watch(leader.id()).unwrap();
        assert!(!has_ended(child));
        drop(group.watcher.stdin.take());
        assert!(ends_within_seconds(child));
        leader.wait().unwrap();
    }

    #[test]
    fn a_group_that_nobody_watches_any_more_is_left_alone() {
        let (mut leader, child) = start();
        drop(Group::watch(leader.id()).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!has_ended(child));
        child.kill();
        leader.wait().unwrap();
    }
}
