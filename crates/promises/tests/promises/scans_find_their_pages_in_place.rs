//! A program that goes through memory of twice its budget in even steps faults for some of the pages that
//! come back: the others were there when it came.

use coldpress_promises::hazards::survive;

#[test]
fn scans_find_their_pages_in_place() {
    let Some(statistics) = survive("scan") else {
        return;
    };
    let faults = statistics.get("faults_decompressed");
    let restored = statistics.get("decompressions");
    eprintln!("{faults} faults for {restored} pages");
    statistics.at_least("decompressions", 10_000);
    assert!(
        faults * 4 <= restored,
        "{faults} faults for {restored} pages"
    );
}
