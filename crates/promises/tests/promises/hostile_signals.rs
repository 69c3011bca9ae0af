//! `coldpress run` is to its caller what the program is: signals reach the program, and who waits for it sees it stop.

use coldpress_promises::{Workplace, managed, skip};
use std::ffi::CString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sends a signal to a fresh program. What it has seen, and its status.
fn told(line: &[&str], signal: i32, value: Option<i32>) -> (String, Option<i32>) {
    let mut command = Command::new(line[0]);
    command
        .args(&line[1..])
        .arg(signal.to_string())
        .stdout(Stdio::piped());
    // SAFETY: between fork and exec this only sets the mask: the test's own parent may have blocked signals.
    unsafe {
        command.pre_exec(|| {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            Ok(())
        });
    }
    let mut child = command.spawn().expect("it starts");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut text = String::new();
    output.read_line(&mut text).expect("its first line");
    let pid = child.id().cast_signed();
    // SAFETY: a signal to a child of ours that has not been waited for.
    let sent = unsafe {
        match value {
            None => libc::kill(pid, signal),
            Some(value) => {
                let value = value as usize as *mut libc::c_void;
                libc::sigqueue(pid, signal, libc::sigval { sival_ptr: value })
            }
        }
    };
    assert_eq!(sent, 0, "signal {signal}");
    output.read_to_string(&mut text).expect("its output");
    (text, child.wait().expect("its end").code())
}

fn signals_arrive(coldpress: &Path, program: &Path) {
    let program = program.to_str().expect("a name");
    let managed = [
        coldpress.to_str().expect("a name"),
        "run",
        "-q",
        "--",
        program,
    ];
    let all = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGABRT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGTSTP,
        libc::SIGURG,
        libc::SIGXCPU,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGWINCH,
        libc::SIGIO,
        libc::SIGPWR,
        36,
        64,
    ];
    for signal in all {
        let seen = told(&managed, signal, None);
        assert_eq!(
            seen,
            ("ready\n1 times, value 0\n".to_owned(), Some(0)),
            "signal {signal}"
        );
    }
    for signal in [libc::SIGUSR1, 36] {
        assert_eq!(
            told(&managed, signal, Some(77)),
            told(&[program], signal, Some(77))
        );
        assert!(
            told(&managed, signal, Some(77))
                .0
                .contains("1 times, value 77")
        );
    }
}

#[test]
fn every_signal_that_can_be_taken_reaches_the_program() {
    let place = Workplace::new("signals-sent");
    let program = place.compile("hostile_signals");
    signals_arrive(&managed::binary(), &program);
}

/// Starts a program in the foreground of a terminal of its own: its id, and the terminal's other end.
fn start_in_a_terminal<S: AsRef<str>>(line: &[S]) -> (libc::pid_t, libc::c_int) {
    let words: Vec<CString> = line
        .iter()
        .map(|word| CString::new(word.as_ref()).expect("no zero"))
        .collect();
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: between fork and exec the child calls nothing else.
    unsafe {
        let mut terminal = 0;
        let nothing = std::ptr::null_mut();
        let pid = libc::forkpty(&mut terminal, nothing, nothing.cast(), nothing.cast());
        if pid == 0 {
            libc::execvp(pointers[0], pointers.as_ptr());
            libc::_exit(127);
        }
        assert!(pid > 0, "forkpty");
        (pid, terminal)
    }
}

/// A program in the foreground of a terminal stops itself, and is continued. The signals that were seen of it, and its
/// status.
fn stopped_and_continued(line: &[&str]) -> (i32, i32) {
    let (pid, terminal) = start_in_a_terminal(line);
    // SAFETY: a child of ours that has not been waited for, and a descriptor that nobody else closes.
    unsafe {
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, libc::WUNTRACED), pid);
        assert!(
            libc::WIFSTOPPED(status),
            "{line:?} did not stop: {status:#x}"
        );
        let signal = libc::WSTOPSIG(status);
        libc::kill(pid, libc::SIGCONT);
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        libc::close(terminal);
        (signal, libc::WEXITSTATUS(status))
    }
}

#[test]
fn who_waits_for_a_program_sees_it_stop_and_go_on() {
    if !skip::root_or_skip() {
        return;
    }
    let binary = managed::binary();
    let script = ["sh", "-c", "kill -STOP $$; exit 5"];
    let managed = [
        &[binary.to_str().expect("a name"), "run", "-q", "--"],
        &script[..],
    ]
    .concat();
    assert_eq!(
        stopped_and_continued(&script),
        (libc::SIGSTOP, 5),
        "natively"
    );
    assert_eq!(stopped_and_continued(&managed), (libc::SIGSTOP, 5));
}

/// The status of a program in a terminal.
fn ended_in_a_terminal(line: &[&str]) -> i32 {
    let (pid, terminal) = start_in_a_terminal(line);
    // SAFETY: as above.
    unsafe {
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        libc::close(terminal);
        assert!(libc::WIFEXITED(status), "{line:?}: {status:#x}");
        libc::WEXITSTATUS(status)
    }
}

/// `suspend` in an interactive shell that was started under `coldpress run`: the outer shell hung.
#[test]
fn a_job_with_a_group_of_its_own_stops_and_goes_on() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("job-control");
    let program = place.compile("job_control");
    let (binary, program) = (managed::binary(), program.to_str().expect("a name"));
    let binary = binary.to_str().expect("a name");
    let native = ended_in_a_terminal(&[program, "shell", program, "inner"]);
    assert_eq!(native, 5, "natively");
    let job = [binary, "run", "-q", "--", program, "inner"];
    let managed = ended_in_a_terminal(&[&[program, "shell"], &job[..]].concat());
    assert_eq!(managed, 5);
}

/// A script that ends itself and what it has started: the signal came a second time, from `coldpress run`.
#[test]
fn a_signal_to_its_own_group_comes_once() {
    const SCRIPT: &str = "n=0; trap 'n=$((n+1))' TERM; kill -TERM 0; \
        for i in 1 2 3 4 5; do sleep 0.1; done; echo $n";
    let binary = managed::binary();
    let managed = [
        binary.to_str().expect("a name"),
        "run",
        "-q",
        "--",
        "sh",
        "-c",
        SCRIPT,
    ];
    for line in [&managed[4..], &managed[..]] {
        for _ in 0..5 {
            let output = Command::new("setsid").arg("--wait").args(line).output();
            let output = output.expect("setsid runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(text.trim(), "1", "{line:?}: {output:?}");
        }
    }
}

/// A line that runs `script` in a shell, as the command of a script that writes its status to `status`: natively, and under
/// `coldpress run`.
fn in_a_script(script: &str, status: &Path) -> [Vec<String>; 2] {
    let binary = managed::binary();
    let outer = format!("\"$@\"; echo $? > {}", status.display());
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(|&w| w.to_owned()).collect() };
    let head = ["sh", "-c", &outer, "sh"];
    let managed = [binary.to_str().expect("a name"), "run", "-q", "--"];
    let inner = ["sh", "-c", script];
    [
        words(&[&head[..], &inner].concat()),
        words(&[&head[..], &managed, &inner].concat()),
    ]
}

/// What a file comes to hold.
fn content_of(path: &Path) -> String {
    for _ in 0..500 {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    }
    panic!("{} was not written", path.display());
}

/// The script's shell leads the session and dies of it; its command, in the same group, is told by the kernel. It was told a
/// second time by `coldpress run`.
#[test]
fn a_terminal_that_hangs_up_tells_once() {
    let place = Workplace::new("hang-up");
    let program = place.compile("hostile_signals");
    let seen = place.path("seen");
    let script = format!(
        "exec {} {} > {}",
        program.display(),
        libc::SIGHUP,
        seen.display()
    );
    for line in in_a_script(&script, &place.path("status")) {
        for _ in 0..3 {
            let (pid, terminal) = start_in_a_terminal(&line);
            assert_eq!(content_of(&seen), "ready");
            // SAFETY: a descriptor that nobody else closes, and a child of ours.
            unsafe {
                libc::close(terminal);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
            while content_of(&seen) == "ready" {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            assert_eq!(content_of(&seen), "ready\n1 times, value 0", "{line:?}");
            std::fs::remove_file(&seen).expect("it was written");
        }
    }
}

/// A tool stops a script's program and continues it, and not the command that runs it: that slept for ever.
#[test]
fn a_program_of_a_script_may_be_stopped_and_continued() {
    let place = Workplace::new("stopped-in-a-script");
    let (number, status) = (place.path("pid"), place.path("status"));
    let script = format!("echo $$ > {}; kill -STOP $$; exit 5", number.display());
    for line in in_a_script(&script, &status) {
        let (pid, terminal) = start_in_a_terminal(&line);
        let program: libc::pid_t = content_of(&number).parse().expect("a number");
        let is_stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{program}/stat"));
            stat.is_ok_and(|stat| stat.contains(") T "))
        };
        while !is_stopped() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // Its parent has seen it stop by then.
        std::thread::sleep(std::time::Duration::from_millis(300));
        // SAFETY: a process of ours that waits for this, a descriptor that nobody else closes, and a child of ours.
        unsafe {
            libc::kill(program, libc::SIGCONT);
            let ended = content_of(&status);
            assert_eq!(ended, "5", "{line:?}");
            libc::waitpid(pid, std::ptr::null_mut(), 0);
            libc::close(terminal);
        }
        for file in [&number, &status] {
            std::fs::remove_file(file).expect("it was written");
        }
    }
}
