//! The plain case, by budget alone: memory larger than the budget is written, grows cold and reads
//! back, by the program and by the kernel in its system calls.

use coldpress_promises::hazards::survive;

#[test]
fn cold_memory_reads_back() {
    let Some(statistics) = survive("cold_reread") else {
        return;
    };
    statistics.at_least("decompressions", 1000);
    let critical = statistics.get("critical_compressions");
    eprintln!("{critical} compressions above the budget");
    assert!(statistics.get("pressure_compressions") + critical >= 1000);
}
