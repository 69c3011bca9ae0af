//! Promise: what the program closes is closed, also where it inherited it.
//!
//! `coldpress run` kept every descriptor that it had been started with: a reader waited for the end of a pipe that the
//! program had closed, a writer for a reader that there was no more, a lock that the program had given up was never free.

use coldpress_promises::{Workplace, managed, skip};
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
# A record lock is of the process that took it, and held: `run` is that process, and its child is not.
python3 -c "$TAKE" $RUN sh -c 'python3 -c "$TRY"'
# Where it was started can be unmounted.
mkdir mounted
unshare -m sh -c 'mount -t tmpfs none mounted && cd mounted &&
    exec $RUN sh -c "place=\$PWD; cd /; umount \$place && echo unmounted"'
# What `run` itself writes at the end goes where it was sent.
$STATS - -- true | grep -c '"exit_status": 0'
$STATS /dev/fd/7 -- true 7> seventh; grep -c '"exit_status": 0' seventh
"#;

/// Takes a record lock and becomes what its arguments say.
const TAKE: &str = "import fcntl, os, sys
file = os.open('records', os.O_RDWR | os.O_CREAT)
os.set_inheritable(file, True)
fcntl.lockf(file, fcntl.LOCK_EX)
os.execvp(sys.argv[1], sys.argv[1:])";

/// Another process.
const TRY: &str = "import fcntl, os
file = os.open('records', os.O_RDWR)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print('taken')
except OSError:
    print('held')";

fn script(run: &str, stats: &str) -> String {
    let place = Workplace::new("descriptors");
    let mut command = Command::new("bash");
    command.args(["-c", SCRIPT]);
    command.env("RUN", run).env("STATS", stats);
    command.env("TAKE", TAKE).env("TRY", TRY);
    let outcome = coldpress_promises::process::run(&place, command, Duration::from_secs(90));
    assert!(outcome.status.success(), "{outcome}");
    outcome.stdout
}

#[test]
fn what_the_program_closes_is_closed() {
    if !skip::root_or_skip() {
        return;
    }
    let binary = managed::binary();
    let quiet = format!("{} run --quiet", binary.display());
    let stats = format!("{quiet} --stats");
    let (native, seen) = (
        script("env", &stats),
        script(&format!("{quiet} --"), &stats),
    );
    assert_eq!(seen, native);
    let expected =
        "said\nread to the end 0\nstatus 4\nwritten until 0\nlock free\nheld\nunmounted\n1\n1\n";
    assert_eq!(seen, expected);
}
