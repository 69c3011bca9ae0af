//! Promise: `metrics` tells what `status` tells, in base units, in formats that others can read, and of programs that run
//! alone; and nobody who talks to it keeps others from being answered.

use crate::common::serving::Serving;
use crate::common::{
    Directory, Managed, NOBODY, coldpress, coldpress_as_nobody, root, run_file, start_time,
    statistics_page, stderr, stdout,
};
use coldpress_interface::statistics::VERSION;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0";

fn metrics(directory: &Directory, arguments: &[&str]) -> Output {
    let mut command = coldpress();
    command.arg("metrics").args(arguments);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    command.output().unwrap()
}

fn status(directory: &Directory, pid: u32) -> Value {
    let mut command = coldpress();
    command.args(["status", "--json"]);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    let all: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let of_pid = all.as_array().unwrap().iter().find(|one| one["pid"] == pid);
    of_pid.expect("it runs under a pager").clone()
}

/// Each sample, by its name and labels as they are written.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect(line);
        (series.to_owned(), value.parse::<f64>().expect(line))
    };
    lines.map(sample).collect()
}

/// The figures of the document's table that are plain numbers: key, name, label.
fn documented() -> Vec<(String, String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| key | in OpenMetrics"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('`').collect();
        let &[_, key, _, name, rest] = cells.as_slice() else {
            return None;
        };
        let is_number = ["| gauge |", "| counter |"].contains(&rest.trim());
        let (name, label) = name.split_once('{').unwrap_or((name, ""));
        let label = label.trim_end_matches('}');
        is_number.then(|| (key.to_owned(), name.to_owned(), label.to_owned()))
    })
    .collect()
}

/// Of those figures that stood still between two looks of `status`, `metrics` between the two says the same.
#[test]
fn figures_are_those_of_status() {
    let directory = Directory::new("metrics-agree");
    let options = ["-q", "--budget", "24M", "--cold-after", "none"];
    let Some(program) = Managed::start(&directory, &options, &["64"]) else {
        return;
    };
    let start = Instant::now();
    while status(&directory, program.pid)["total_bytes"].as_u64() > Some(24 << 20) {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "the budget is kept"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = status(&directory, program.pid);
    let text = stdout(&metrics(&directory, &[]));
    let after = status(&directory, program.pid);
    let samples = samples(&text);
    let mut compared = 0;
    for (key, name, label) in documented() {
        let (Some(told), true) = (before[&key].as_f64(), before[&key] == after[&key]) else {
            continue;
        };
        let divisor = match key.as_str() {
            key if key.ends_with("_ns") => 1e9,
            key if key.ends_with("_ms") => 1e3,
            _ => 1.0,
        };
        let label = if label.is_empty() {
            label
        } else {
            format!(",{label}")
        };
        let series = format!("{name}{{pid=\"{}\",program=\"hold\"{label}}}", program.pid);
        let value = samples
            .get(&series)
            .unwrap_or_else(|| panic!("{series} of {key}"));
        let wanted = told / divisor;
        assert!(
            (value - wanted).abs() <= wanted.abs() * 1e-12,
            "{series}: {value} {wanted}"
        );
        compared += 1;
    }
    assert!(compared > 80, "{compared} figures stood still");
    let budget = format!(
        "coldpress_budget_bytes{{pid=\"{}\",program=\"hold\"}}",
        program.pid
    );
    assert_eq!(samples[&budget], f64::from(24 << 20));
    let count = format!(
        "coldpress_fault_duration_seconds_count{{pid=\"{}\",program=\"hold\"}}",
        program.pid
    );
    let counted = before["fault_service"]["count"].as_f64().unwrap();
    assert!(samples[&count] >= counted);
    for (reason, count) in before["failures"].as_object().unwrap() {
        let name = "coldpress_rejected_pages_total";
        let of = format!("pid=\"{}\",program=\"hold\"", program.pid);
        let series = format!("{name}{{{of},reason=\"{reason}\"}}");
        assert!(samples[&series] >= count.as_f64().unwrap(), "{series}");
    }
}

#[test]
fn an_ordinary_user_is_told_of_his_own_programs_alone() {
    if !root("a file of another user") {
        return;
    }
    let directory = Directory::new("metrics-nobody");
    fs::create_dir(directory.path("s")).unwrap();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id();
    let page = statistics_page(VERSION, pid, start_time(pid));
    let file = run_file(&directory, pid, &page);
    let told = || {
        let mut command = coldpress_as_nobody(&directory);
        command.arg("metrics");
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let series = format!(
        "coldpress_total_bytes{{pid=\"{pid}\",program=\"sleep\"}} {}",
        60 << 20
    );
    let text = told();
    assert!(!text.contains(&series) && text.contains("\ncoldpress_managed_processes 0\n"));
    chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
    let text = told();
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    assert!(text.contains(&series), "{text}");
    assert!(text.contains("\ncoldpress_managed_processes 1\n"));
}

#[test]
fn a_process_that_has_ended_leaves_no_series() {
    let directory = Directory::new("metrics-ended");
    let Some(program) = Managed::start(&directory, &["-q", "--budget", "32M"], &["16"]) else {
        return;
    };
    let serving = Serving::start(&directory, &[]);
    let label = format!("pid=\"{}\"", program.pid);
    assert!(serving.metrics("").contains(&label));
    drop(program);
    let text = serving.metrics("");
    assert!(!text.contains(&label), "{text}");
}

#[test]
fn the_format_is_the_one_that_is_asked_for() {
    let directory = Directory::new("metrics-formats");
    let serving = Serving::start(&directory, &[]);
    let open = serving.metrics(OPENMETRICS);
    assert!(open.ends_with("# EOF\n") && open.contains("# UNIT coldpress_total_bytes bytes\n"));
    assert!(open.contains("# TYPE coldpress_faults counter\n"));
    for accept in ["", "*/*", "text/html", "text/plain;version=0.0.4"] {
        let text = serving.metrics(accept);
        assert!(
            text.contains("# TYPE coldpress_faults_total counter\n"),
            "{accept}"
        );
        assert!(!text.contains("# EOF"), "{accept}");
    }
    for (request, answer) in [
        ("GET /nonexistent HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
        ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
        ("GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK"),
        ("\u{16}\u{3}\u{1}\u{2}", "HTTP/1.1 400 "),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"),
    ] {
        let told = serving.told(request);
        assert!(told.starts_with(answer), "{request:?}: {told}");
        assert_eq!(request.starts_with("HEAD"), told.ends_with("\r\n\r\n"));
    }
}

/// The reference implementation of the format, in Python, reads every line. `python3-prometheus-client`.
#[test]
fn the_reference_parsers_read_it() {
    const READ: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as older
text = sys.stdin.read()
families = list((openmetrics if text.endswith('# EOF\\n') else older)(text))
print(len(families), sum(len(family.samples) for family in families))
";
    let python = "/usr/bin/python3";
    let imported = Command::new(python)
        .args(["-c", "import prometheus_client"])
        .output();
    if !imported.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: reading the metrics: needs python3-prometheus-client");
        return;
    }
    let directory = Directory::new("metrics-parsers");
    let program = Managed::start(&directory, &["-q", "--budget", "32M"], &["16"]);
    for format in ["openmetrics", "prometheus"] {
        let text = metrics(&directory, &["--format", format]).stdout;
        let mut parser = Command::new(python);
        parser
            .args(["-c", READ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut parser = parser.stderr(Stdio::piped()).spawn().unwrap();
        parser.stdin.take().unwrap().write_all(&text).unwrap();
        let output = parser.wait_with_output().unwrap();
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        let told = stdout(&output);
        let mut numbers = told.split_whitespace().map(|n| n.parse::<u32>().unwrap());
        assert!(numbers.next() > Some(100), "{format}: {told}");
        let least = if program.is_some() { 200 } else { 2 };
        assert!(numbers.next() >= Some(least), "{format}: {told}");
    }
}

/// `cargo xtask promtool` installs what this needs, which is large.
#[test]
#[ignore = "needs promtool, a package of 96 MB: cargo xtask promtool"]
fn promtool_finds_nothing_to_complain_about() {
    let directory = Directory::new("metrics-promtool");
    let _program = Managed::start(&directory, &["-q", "--budget", "32M"], &["16"]);
    let text = metrics(&directory, &["--format", "prometheus"]).stdout;
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match promtool {
        Ok(promtool) => promtool,
        Err(error) => {
            eprintln!("SKIPPED: promtool check metrics: {error}: cargo xtask promtool");
            return;
        }
    };
    promtool.stdin.take().unwrap().write_all(&text).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let told = stdout(&output) + &stderr(&output);
    assert!(output.status.success() && told.is_empty(), "{told}");
}

/// 200 clients that never finish their request, and garbage: the next one is answered.
#[test]
fn slow_and_hostile_clients_keep_nobody_waiting() {
    let directory = Directory::new("metrics-hostile");
    let mut serving = Serving::start(&directory, &[]);
    let half: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = serving.connect();
            stream.write_all(b"GET /metr").unwrap();
            stream
        })
        .collect();
    assert!(serving.metrics("").contains("coldpress_managed_processes"));
    // One that does not read its answer.
    let mut deaf = serving.connect();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let garbage = "\u{0}\u{1}".repeat(8192);
    assert!(serving.told(&garbage[..4096]).starts_with("HTTP/1.1 400 "));
    let long = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(9000));
    assert!(serving.told(&long).starts_with("HTTP/1.1 431 "));
    assert!(serving.metrics(OPENMETRICS).ends_with("# EOF\n"));
    // Those that came first were put off, the last of them are still there.
    let is_open = |mut stream: &std::net::TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let error = stream.read(&mut [0]).map_err(|error| error.kind());
        error == Err(std::io::ErrorKind::WouldBlock)
    };
    assert!(half.iter().filter(|stream| is_open(stream)).count() <= 64);
    assert!(is_open(half.last().unwrap()));
    assert_eq!(serving.end(libc::SIGTERM).code(), Some(0));
}

#[test]
fn a_socket_is_served_and_removed_at_the_end() {
    let directory = Directory::new("metrics-socket");
    let path = directory.path("m.sock");
    let mut serving = Serving::start(&directory, &["--socket", path.to_str().unwrap()]);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("coldpress_managed_processes"));
    let second = metrics(&directory, &["--socket", path.to_str().unwrap()]);
    assert!(
        stderr(&second).contains("somebody listens at"),
        "{}",
        stderr(&second)
    );
    assert_eq!(serving.end(libc::SIGINT).code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn other_machines_are_told_only_if_that_is_asked_for() {
    let directory = Directory::new("metrics-remote");
    for (arguments, words) in [
        (
            &["--listen", "0.0.0.0:0"][..],
            "can be reached from other machines",
        ),
        (
            &["--listen", "nowhere"],
            "cannot read \"nowhere\" as an address",
        ),
        (
            &["--socket", "/proc/no/m.sock"],
            "cannot listen at /proc/no/m.sock",
        ),
        (
            &["--textfile", "/proc/no/x.prom"],
            "cannot write /proc/no/x.prom",
        ),
    ] {
        let output = metrics(&directory, arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
    }
}

/// A child that is ended with the test, however the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether it has the first line, and in the last a name and a value, or the type of a metric without samples. Which
/// samples there are depends on what else runs under Coldpress at that moment.
fn is_whole(text: &str) -> bool {
    let last = text.strip_suffix('\n').and_then(|text| text.lines().last());
    let is_sample = |line: &str| {
        let value = line.rsplit_once(' ').map(|(_, value)| value);
        line.starts_with("coldpress_") && value.is_some_and(|value| value.parse::<f64>().is_ok())
    };
    let is_type = |line: &str| line.starts_with("# TYPE coldpress_") && line.ends_with(" gauge");
    text.starts_with("# HELP coldpress_build_info ")
        && last.is_some_and(|line| is_sample(line) || is_type(line))
}

/// Whoever reads the file while it is written again and again finds a whole one.
#[test]
fn the_textfile_is_whole_at_every_moment() {
    let directory = Directory::new("metrics-textfile");
    let file = directory.path("coldpress.prom");
    let name = file.to_str().unwrap();
    assert_eq!(
        metrics(&directory, &["--textfile", name]).status.code(),
        Some(0)
    );
    let mut command = coldpress();
    command.args(["metrics", "--textfile", name, "--interval", "1ms"]);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    let mut child = Ended(command.spawn().unwrap());
    let mut written = std::collections::BTreeSet::new();
    let start = Instant::now();
    while written.len() < 20 {
        use std::os::unix::fs::MetadataExt;
        let text = fs::read_to_string(&file).unwrap();
        assert!(is_whole(&text), "{text}");
        let metadata = fs::metadata(&file).unwrap();
        written.insert((metadata.ino(), metadata.mtime_nsec()));
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "it is written again"
        );
    }
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(child.0.id().cast_signed(), libc::SIGTERM) };
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "# coldpress metrics has ended\n");
    let left: Vec<_> = fs::read_dir(directory.path(""))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// On a full disk the old file stays, the trouble is told once, and the next turn that can writes again.
#[test]
fn a_full_disk_is_told_and_outlived() {
    if !root("mounting a small file system") {
        return;
    }
    const SCRIPT: &str = r#"
set -e
mount -t tmpfs -o size=4m coldpress-test m
$COLDPRESS metrics --textfile m/c.prom --interval 20ms 2> messages &
pid=$!
trap 'kill -KILL $pid 2> /dev/null || true' EXIT
wait_for() { n=0; while ! grep -q "$1" messages; do n=$((n+1)); [ $n -lt 500 ]; sleep 0.05; done; }
n=0; while ! test -s m/c.prom; do n=$((n+1)); [ $n -lt 500 ]; sleep 0.05; done
dd if=/dev/zero of=m/full bs=4k count=10000 2> /dev/null || true
wait_for 'No space left'
sleep 0.3
grep -q '^# HELP coldpress_build_info' m/c.prom
tail -n 1 m/c.prom
rm m/full
wait_for 'is written again'
kill -TERM $pid
wait $pid
cat m/c.prom
umount m
"#;
    let directory = Directory::new("metrics-full");
    fs::create_dir(directory.path("m")).unwrap();
    let mut shell = Command::new("unshare");
    shell.args(["-m", "sh", "-c", SCRIPT]);
    shell.env("COLDPRESS", env!("CARGO_BIN_EXE_coldpress"));
    shell.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    let output = shell.current_dir(directory.path("")).output().unwrap();
    let messages = fs::read_to_string(directory.path("messages")).unwrap_or_default();
    assert!(output.status.success(), "{}{messages}", stderr(&output));
    let told = stdout(&output);
    assert!(
        told.contains("coldpress_tunable_info"),
        "the old file was whole: {told}"
    );
    assert!(told.ends_with("# coldpress metrics has ended\n"), "{told}");
    assert_eq!(messages.matches("No space left").count(), 1, "{messages}");
    assert!(messages.contains("the old file stays"), "{messages}");
}

/// Names of metrics in a query.
fn queried(expression: &str) -> Vec<String> {
    let parts = expression.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    let names = parts.filter(|part| part.starts_with("coldpress_"));
    names.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_queries_what_there_is() {
    let directory = Directory::new("metrics-dashboard");
    let text = stdout(&metrics(&directory, &["--format", "prometheus"]));
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let types: BTreeMap<&str, &str> = types.filter_map(|line| line.split_once(' ')).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/coldpress.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let variables = variables.filter_map(|variable| variable["definition"].as_str());
    let mut count = 0;
    for expression in expressions.chain(variables) {
        for name in queried(expression) {
            let histogram = name.strip_suffix("_bucket").unwrap_or(&name);
            let kind = types.get(histogram);
            assert!(kind.is_some(), "{name} of {expression} does not exist");
            let counts = ["rate(", "increase("]
                .iter()
                .any(|word| expression.contains(word));
            assert_eq!(
                counts,
                *kind.unwrap() != "gauge",
                "{expression}: {name} is a {kind:?}"
            );
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}
