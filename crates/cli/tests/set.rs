//! Promise: `set` changes what is in force in a program that runs, at once, says what was and what
//! is, and changes nothing where it says that it did not. What is written into the request block
//! by others is not believed.

use crate::common::{
    Directory, Managed, coldpress, coldpress_as_nobody, root, slot_of, stderr, stdout,
};
use coldpress_interface::control;
use coldpress_interface::page::CONTROL_AT;
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn command(directory: &Directory, name: &str, pid: u32, arguments: &[&str]) -> Command {
    let mut command = coldpress();
    command.arg(name).arg(pid.to_string()).args(arguments);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    command
}

fn set(directory: &Directory, pid: u32, arguments: &[&str]) -> Output {
    command(directory, "set", pid, arguments).output().unwrap()
}

/// What `set` printed; it must have succeeded.
fn told(directory: &Directory, pid: u32, arguments: &[&str]) -> String {
    let output = set(directory, pid, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// Its object in the list of all. (Who asks for one process asks its pager for something, too.)
fn status(directory: &Directory, pid: u32) -> Value {
    let mut command = coldpress();
    command.args(["status", "--json"]);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    let text = stdout(&command.output().unwrap());
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut of_pid = all.into_iter().filter(|object| object["pid"] == pid);
    of_pid.next().expect("it runs under a pager")
}

fn figure(directory: &Directory, pid: u32, name: &str) -> u64 {
    status(directory, pid)[name].as_u64().unwrap()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_budget_is_kept_from_the_moment_it_is_set() {
    let directory = Directory::new("set-budget");
    let options = ["-q", "--budget", "none", "--cold-after", "none"];
    let Some(program) = Managed::start(&directory, &options, &["64"]) else {
        return;
    };
    let pid = program.pid;
    assert!(status(&directory, pid)["budget_bytes"].is_null());
    until("all of it is there", || {
        figure(&directory, pid, "total_bytes") > 64 * MIB
    });
    assert_eq!(figure(&directory, pid, "evictions"), 0);
    assert_eq!(
        told(&directory, pid, &["budget=24M"]),
        "budget      none → 24.0 MiB\n"
    );
    until("the budget is kept", || {
        figure(&directory, pid, "total_bytes") <= 24 * MIB
    });
    let text = told(&directory, pid, &["--json", "budget=16M", "cold-after=1h"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["before"]["budget_bytes"], 24 * MIB);
    assert_eq!(value["now"]["budget_bytes"], 16 * MIB);
    assert_eq!(value["now"]["cold_after_ms"], 3_600_000);
    assert_eq!(value["now"]["triggers"], "eager,pressure,critical");
    until("the smaller one, too", || {
        figure(&directory, pid, "total_bytes") <= 16 * MIB
    });
    assert_eq!(figure(&directory, pid, "eager_compressions"), 0);
    // What a shell tells is the id of the run.
    let run = program.run.id();
    assert_ne!(run, pid);
    told(&directory, run, &["budget=20M"]);
    assert_eq!(figure(&directory, pid, "budget_bytes"), 20 * MIB);
}

#[test]
fn each_trigger_can_be_switched_and_is_counted() {
    let directory = Directory::new("set-trigger");
    let options = ["-q", "--budget", "16M", "--trigger", "none"];
    let Some(program) = Managed::start(&directory, &options, &["64"]) else {
        return;
    };
    let pid = program.pid;
    let kept = || {
        ["eager", "pressure", "critical"]
            .map(|name| figure(&directory, pid, &format!("{name}_compressions")))
    };
    until("all of it is there", || {
        figure(&directory, pid, "total_bytes") > 64 * MIB
    });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(kept(), [0, 0, 0]);
    assert_eq!(status(&directory, pid)["rule"], "switched_off");

    // Eager: pages go by age, the budget is not looked at.
    let output = set(&directory, pid, &["trigger=eager", "budget=17M"]);
    assert_eq!(
        stdout(&output),
        "budget      16.0 MiB → 17.0 MiB\ntrigger     none → eager\n"
    );
    assert!(
        stderr(&output).contains("nothing keeps the budget"),
        "{}",
        stderr(&output)
    );
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(kept(), [0, 0, 0]);
    told(&directory, pid, &["cold-after=200ms"]);
    until("pages go by age", || kept()[0] > 1000);
    assert_eq!(kept()[1..], [0, 0]);
    told(&directory, pid, &["trigger=none", "cold-after=none"]);

    // Critical alone keeps the budget, too; so does pressure alone.
    drop(program);
    for (trigger, counted) in [("critical", 2), ("pressure", 1)] {
        let Some(program) = Managed::start(&directory, &options, &["64"]) else {
            return;
        };
        let pid = program.pid;
        told(&directory, pid, &[&format!("trigger={trigger}")]);
        until("the budget is kept", || {
            figure(&directory, pid, "total_bytes") <= 16 * MIB
        });
        let kept = ["eager", "pressure", "critical"]
            .map(|name| figure(&directory, pid, &format!("{name}_compressions")));
        for (n, kept) in kept.into_iter().enumerate() {
            assert_eq!(kept > 0, n == counted, "{trigger}: {n} kept {kept}");
        }
    }
}

#[test]
fn a_forked_child_has_settings_of_its_own() {
    let directory = Directory::new("set-fork");
    let options = ["-q", "--budget", "40M"];
    let Some(program) = Managed::start(&directory, &options, &["64", "fork"]) else {
        return;
    };
    let (pid, child) = (program.pid, program.child);
    until("the child has a pager", || {
        set(&directory, child, &["budget=20M"]).status.success()
    });
    until("its budget is kept", || {
        figure(&directory, child, "total_bytes") <= 20 * MIB
    });
    assert_eq!(figure(&directory, pid, "budget_bytes"), 40 * MIB);
    assert_eq!(figure(&directory, child, "budget_bytes"), 20 * MIB);
    assert_eq!(
        told(&directory, pid, &["budget=48M"]),
        "budget      40.0 MiB → 48.0 MiB\n"
    );
    assert_eq!(figure(&directory, child, "budget_bytes"), 20 * MIB);
}

#[test]
fn what_cannot_be_done_is_one_line_and_125() {
    let directory = Directory::new("set-refused");
    let sleeper = Command::new("sleep").arg("60").spawn();
    let mut sleeper = sleeper.unwrap();
    for (pid, change, word) in [
        (4_194_305, "budget=1G", "there is no process 4194305"),
        (
            sleeper.id(),
            "budget=1G",
            "(sleep) does not run under Coldpress",
        ),
        (
            sleeper.id(),
            "bugdet=1G",
            "there is no key \"bugdet\": keys are budget, cold-after, trigger",
        ),
        (
            sleeper.id(),
            "codec=lz4",
            "codec cannot be changed while the program runs",
        ),
        (sleeper.id(), "budget=lots", "budget: cannot read \"lots\""),
        (
            sleeper.id(),
            "trigger=eager,lazy",
            "trigger: \"lazy\" is no trigger",
        ),
        (
            sleeper.id(),
            "cold-after=-1",
            "cold-after: cannot read \"-1\"",
        ),
    ] {
        let output = set(&directory, pid, &[change]);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{change}: {message}");
        assert!(message.contains(word), "{change}: {message}");
        assert_eq!(
            (message.lines().count(), stdout(&output)),
            (1, String::new())
        );
    }
    if root("a process of another user") {
        let mut nobody = coldpress_as_nobody(&directory);
        let output = nobody.args(["set", &sleeper.id().to_string(), "budget=1G"]);
        let message = stderr(&output.output().unwrap());
        assert!(
            message.contains("is not yours: it belongs to user 0"),
            "{message}"
        );
    }
    let _ = sleeper.kill();
    let _ = sleeper.wait();

    let Some(program) = Managed::start(&directory, &["-q", "--budget", "32M"], &["8"]) else {
        return;
    };
    let small = set(&directory, program.pid, &["budget=1M"]);
    assert!(small.status.code() == Some(125) && stderr(&small).contains("too small"));
    assert_eq!(stderr(&small).lines().count(), 1);
    assert_eq!(figure(&directory, program.pid, "budget_bytes"), 32 * MIB);
}

/// A stopped pager answers nothing. The request is taken back, so that it is not carried out hours
/// later, behind the back of who was told that it failed.
#[test]
fn who_does_not_answer_changes_nothing_later_either() {
    let directory = Directory::new("set-stopped");
    let Some(program) = Managed::start(&directory, &["-q", "--budget", "32M"], &["8"]) else {
        return;
    };
    program.stop();
    let output = set(&directory, program.pid, &["budget=16M"]);
    assert_eq!(output.status.code(), Some(125));
    let message = stderr(&output);
    assert!(
        message.contains("will not do it later: it is stopped"),
        "{message}"
    );
    assert!(message.contains("kill -CONT"), "{message}");
    program.signal(libc::SIGCONT);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(figure(&directory, program.pid, "budget_bytes"), 32 * MIB);
    assert_eq!(
        told(&directory, program.pid, &["budget=24M"]),
        "budget      32.0 MiB → 24.0 MiB\n"
    );
}

/// The file is open to every process of the user. Whatever is written there, the pager refuses what
/// cannot be, whole, and goes on.
#[test]
fn the_pager_believes_nothing_of_a_request() {
    let directory = Directory::new("set-garbage");
    let options = ["-q", "--budget", "32M", "--cold-after", "1h"];
    let Some(program) = Managed::start(&directory, &options, &["8"]) else {
        return;
    };
    let pid = program.pid;
    let (file, slot) = slot_of(&directory, pid);
    let control = slot + CONTROL_AT as u64;
    let mut sequence = 2u64;
    for (keys, word, reason) in [
        (control::BUDGET, 0, 2),
        (control::BUDGET, 4096, 2),
        (control::COLD_AFTER, u64::MAX - 1, 3),
        (control::TRIGGERS, u64::MAX, 4),
        (1 << 20, 1, 1),
        (u64::MAX, u64::MAX, 1),
        // One part of it could be done: nothing of it is.
        (control::COLD_AFTER | control::TRIGGERS, 8, 4),
    ] {
        let mut bytes = Vec::new();
        for word in [keys, word, word, word] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [u64::from(pid), crate::common::start_time(pid)] {
            bytes.extend(word.to_ne_bytes());
        }
        file.write_all_at(&bytes, control + 8).unwrap();
        file.write_all_at(&sequence.to_ne_bytes(), control).unwrap();
        until("it is answered", || {
            figure(&directory, pid, "control_answered") == sequence
        });
        let now = status(&directory, pid);
        assert_eq!(now["control_refusal"], reason, "{keys:#x} {word:#x}");
        assert_eq!(now["budget_bytes"], 32 * MIB);
        assert_eq!(now["cold_after_ms"], 3_600_000);
        assert_eq!(now["triggers"], "eager,pressure,critical");
        sequence += 2;
    }
    // Nobody acts on a request that is not whole.
    file.write_all_at(&(sequence + 1).to_ne_bytes(), control)
        .unwrap();
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(figure(&directory, pid, "control_answered"), sequence - 2);
    assert_eq!(
        told(&directory, pid, &["budget=24M"]),
        "budget      32.0 MiB → 24.0 MiB\n"
    );
}

#[test]
fn who_asks_at_the_same_time_is_answered_one_after_the_other() {
    let directory = Directory::new("set-together");
    let Some(program) = Managed::start(&directory, &["-q", "--budget", "32M"], &["8"]) else {
        return;
    };
    let askers: Vec<_> = (0..8)
        .map(|n| {
            let change = match n % 2 {
                0 => format!("budget={}M", 40 + n),
                _ => format!("cold-after={}h", 1 + n),
            };
            let mut asker = command(&directory, "set", program.pid, &[&change]);
            asker.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for asker in askers {
        let output = asker.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains('→'), "{}", stdout(&output));
    }
    let now = status(&directory, program.pid);
    assert!(now["budget_bytes"].as_u64().unwrap() >= 40 * MIB);
    assert!(now["cold_after_ms"].as_u64().unwrap() >= 3_600_000);
    assert_eq!(now["control_answered"], 16, "eight requests, no more");
}

#[test]
fn tunables_are_set_in_a_program_that_runs() {
    let directory = Directory::new("set-tunables");
    let options = ["-q", "--budget", "none", "--cold-after", "none"];
    let options = [&options[..], &["--tune", "read_ahead_pages=3"]].concat();
    let Some(program) = Managed::start(&directory, &options, &["16"]) else {
        return;
    };
    let pid = program.pid;
    let tunables = || status(&directory, pid)["tunables"].clone();
    assert_eq!(tunables()["coldpress.page-scanner.read-ahead"], "3");
    assert_eq!(tunables()["kernel.compression.threshold"], "70");
    let changes = [
        "tune.threshold=50",
        "tune.kernel.page-scanner.lru_action=none",
    ];
    let expected = "kernel.compression.threshold  70 → 50\n\
                    kernel.page-scanner.lru-action  evict_and_compress → none\n";
    assert_eq!(told(&directory, pid, &changes), expected);
    assert_eq!(tunables()["kernel.compression.threshold"], "50");
    // What the tunables switch off is off, and is told so.
    assert_eq!(status(&directory, pid)["triggers"], "pressure,critical");
    told(&directory, pid, &["tune.lru_action=evict_and_compress"]);
    assert_eq!(
        status(&directory, pid)["triggers"],
        "eager,pressure,critical"
    );
    for (change, words) in [
        ("tune.same_filled=off", "at the start of a program only"),
        (
            "tune.treshold=1",
            "there is no tunable \"treshold\": did you mean",
        ),
        ("tune.threshold=200", "it takes per cent, 1 to 100"),
        ("tune.reclaim_anonymous=off", "not together with the others"),
    ] {
        let output = set(&directory, pid, &[change]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{change}: {text}");
        assert!(text.contains(words), "{change}: {text}");
        assert_eq!(tunables()["kernel.compression.threshold"], "50");
    }
}
