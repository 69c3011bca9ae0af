//! What a service manager and a supervisor expect of a command that starts a program: the program's own number where it
//! is told one, and an end that is agreed on.

use coldpress_harness::process::family;
use coldpress_promises::process::lines_of;
use coldpress_promises::{Workplace, managed, skip};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A shell that becomes `command`, with the variables that systemd sets for it.
fn handed_over(command: &str) -> String {
    let script = format!(
        "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_PIDFDID=1 WATCHDOG_PID=$$; exec {command}"
    );
    let output = Command::new("/bin/sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

const ASKED: &str =
    "/bin/sh -c 'test \"$LISTEN_PID\" = $$ && test \"$WATCHDOG_PID\" = $$ && echo $LISTEN_FDS'";

#[test]
fn sockets_are_handed_over_to_the_program() {
    if !skip::root_or_skip() {
        return;
    }
    assert_eq!(handed_over(ASKED), "1", "natively");
    let run = format!("{} run -q -- {ASKED}", managed::binary().display());
    assert_eq!(handed_over(&run), "1");
}

/// A program that says its number and waits.
fn waiting(place: &Workplace, options: &[&str]) -> (Child, Receiver<String>, u32) {
    let mut command = Command::new(managed::binary());
    // A command that is killed leaves its files behind.
    command.env("COLDPRESS_STATISTICS_DIR", place.path("statistics"));
    command.args(["run", "-q"]).args(options);
    command.args([
        "--",
        "/bin/sh",
        "-c",
        "echo $$; while :; do sleep 0.05; done",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("coldpress");
    let lines = lines_of(child.stdout.take().expect("its output"));
    let number = lines.recv_timeout(PATIENCE).expect("a number");
    (child, lines, number.trim().parse().expect("a number"))
}

fn kill(process: u32) {
    // SAFETY: a process of this test.
    unsafe { libc::kill(process.cast_signed(), libc::SIGKILL) };
}

fn is_there(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.contains("(sh)") && !stat.contains(") Z")
}

#[test]
fn a_program_is_killed_with_the_command_if_that_is_wanted() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("service");
    for (options, stays) in [(&[][..], true), (&["--die-with-coldpress"], false)] {
        let (mut child, _lines, program) = waiting(&place, options);
        assert!(family(child.id()).contains(&program), "its child");
        kill(child.id());
        child.wait().expect("the own child");
        let began = Instant::now();
        while is_there(program) && !stays {
            assert!(began.elapsed() < PATIENCE, "the program lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(is_there(program), stays, "{options:?}");
        if stays {
            kill(program);
        }
    }
}
