//! Promise: what the program closes is closed, also where it inherited it.
//!
//! `coldpress run` kept every descriptor that it had been started with: a reader waited for the end of a pipe that the
//! program had closed, a writer for a reader that there was no more, a lock that the program had given up was never free.

use coldpress_promises::{Workplace, managed};
use std::process::Command;
use std::time::Duration;

/// What hangs hangs in `timeout`, which says 124.
const SCRIPT: &str = r#"
mkfifo in out go
exec 8<> go
# Standard output: its reader comes to the end while the program runs.
$RUN sh -c 'echo said; exec >&-; read line; exit 4' < in > out & program=$!
exec 3> in
timeout 20 cat out
echo "read to the end $?"
exec 3>&-
wait $program; echo "status $?"
# Standard input: its writer learns that nobody reads.
$RUN sh -c 'exec <&8; read line' < in & program=$!
timeout 20 sh -c 'trap "" PIPE; exec 2> /dev/null; while echo line; do sleep 0.01; done' > in
echo "written until $?"
echo >&8; wait $program
# Any other: a lock.
exec 9> lock; flock 9
$RUN sh -c 'exec 9>&-; read line' <&8 & program=$!; exec 9>&-
timeout 20 flock lock echo "lock free"
echo >&8; wait $program
# What `run` itself writes at the end goes where it was sent.
$STATS - -- true | grep -c '"exit_status": 0'
$STATS /dev/fd/7 -- true 7> seventh; grep -c '"exit_status": 0' seventh
"#;

fn script(run: &str, stats: &str) -> String {
    let place = Workplace::new("descriptors");
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT]);
    command.env("RUN", run).env("STATS", stats);
    let outcome = coldpress_promises::process::run(&place, command, Duration::from_secs(90));
    assert!(outcome.status.success(), "{outcome}");
    outcome.stdout
}

#[test]
fn what_the_program_closes_is_closed() {
    let binary = managed::binary();
    let quiet = format!("{} run --quiet", binary.display());
    let stats = format!("{quiet} --stats");
    let (native, seen) = (
        script("env", &stats),
        script(&format!("{quiet} --"), &stats),
    );
    assert_eq!(seen, native);
    let expected = "said\nread to the end 0\nstatus 4\nwritten until 0\nlock free\n1\n1\n";
    assert_eq!(seen, expected);
}
