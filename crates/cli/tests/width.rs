//! Promise: what is printed as a table, or as lines, fits a terminal of 80 columns. (`disk status` had 98, `trace` 132,
//! `estimate` as many as its sentences.) Commands to be copied are whole, however long.

use crate::common::{Directory, Managed, coldpress, stderr, stdout};
use crate::disk::Served;
use std::fs;
use std::process::Command;

fn printed(mut command: Command) -> String {
    let output = command.env("COLUMNS", "80").output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    stdout(&output)
}

fn fits(what: &str, text: &str) {
    assert!(text.lines().count() > 1, "{what}: {text}");
    for line in text.lines() {
        let is_command = line.starts_with("to try ") || line.starts_with("or  ");
        let width = line.chars().count();
        assert!(width <= 80 || is_command, "{what}, {width} columns: {text}");
    }
}

#[test]
fn what_a_managed_program_is_shown_as() {
    let directory = Directory::new("width");
    let trace = directory.path("a.trace");
    let options = ["-q", "--budget", "32M", "--trace", trace.to_str().unwrap()];
    let Some(managed) = Managed::start(&directory, &options, &["64"]) else {
        return;
    };
    let pid = managed.pid.to_string();
    let call = |words: &[&str]| {
        let mut command = coldpress();
        command.args(words);
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
        printed(command)
    };
    for words in [
        &["status"][..],
        &["status", &pid],
        &["status", "-v", &pid],
        &["settings"],
    ] {
        fits(&words.join(" "), &call(words));
    }
    let start = std::time::Instant::now();
    while fs::metadata(&trace).map_or(0, |file| file.len()) < 2_000 {
        assert!(start.elapsed().as_secs() < 30, "no trace");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fits("trace", &call(&["trace", trace.to_str().unwrap()]));
    let all = call(&["trace", "--all", trace.to_str().unwrap()]);
    assert!(all.contains("SPARED") && all.contains("CRITICAL"), "{all}");
}

#[test]
fn what_an_estimate_is_printed_as() {
    let directory = Directory::new("width-estimate");
    let source = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        char *volatile at;\n\
        int main(void) { at = malloc(80 << 20); memset(at, 'x', 80 << 20); for (;;) usleep(20000); }";
    let name = "a-program-with-a-long-name";
    let Some(program) = directory.compile(name, source, &[]) else {
        return;
    };
    let mut child = Command::new(program).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut command = coldpress();
    command.args(["estimate", "--watch", "1s", "--budget", "40M"]);
    command.arg(child.id().to_string());
    let text = printed(command);
    let _ = child.kill();
    let _ = child.wait();
    fits("estimate", &text);
    assert!(
        text.contains("UNTOUCHED FOR") && text.contains("least possible"),
        "{text}"
    );
}

#[test]
fn what_a_disk_is_shown_as() {
    let name = "a-disk-with-a-name-as-long-as-it-may-be-48-letters";
    let name = &name[..48];
    let served = Served::start("disk-width", &["--size", "16M", "--name", name]);
    served.done("snapshot before");
    let call = |words: &[&str]| {
        let mut command = coldpress();
        command.args(["disk", "status"]).args(words);
        command.env("COLDPRESS_STATISTICS_DIR", served.directory.path("run"));
        printed(command)
    };
    // By its name, as other tools take it.
    fits("disk status", &call(&[name]));
    assert!(call(&[name]).contains("snapshots of a-disk"));
    fits("disk status -v", &call(&["-v"]));
    served.stop();
}
