//! A program that wakes again and again, touches pages at random, and has a budget below what it holds: next to nothing is
//! restored but what it touches.
//!
//! Each page restored in vain takes the place of one in use. Before sets were bounded, ten pages came back with each that
//! was touched, and a redis answered a tenth of the requests.

use coldpress_promises::hazards::survive;

#[test]
fn bursts_at_random_restore_little_else() {
    let Some(statistics) = survive("bursts") else {
        return;
    };
    let faults = statistics.get("faults_decompressed");
    let ahead = statistics.get("read_ahead");
    eprintln!("{faults} faults, {ahead} pages beside them");
    statistics.at_least("faults_decompressed", 5_000);
    assert!(
        ahead * 4 <= faults,
        "{ahead} pages were restored beside {faults} that were touched"
    );
}
