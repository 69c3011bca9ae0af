//! The program itself, for as long as it takes until every kind of fault has happened many times, on both machines: no
//! page is wrong, nobody sleeps for ever. `cargo xtask sim` runs it for longer, and faster.

use std::process::Command;

#[test]
fn sixty_million_steps_find_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_coldpress-sim"))
        .args(["--seed", "1", "--steps", "60000000"])
        .output()
        .expect("the simulation");
    let table = String::from_utf8_lossy(&output.stdout);
    let messages = String::from_utf8_lossy(&output.stderr);
    println!("{table}");
    // Also where a kind of fault has not happened.
    assert!(output.status.success(), "{}\n{messages}", output.status);
    let machines = table.matches(" machine: seed 1, ").count();
    assert_eq!(machines, 2, "{table}{messages}");
}
