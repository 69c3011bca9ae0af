//! A page that is being written while it is evicted loses no write.
//!
//! Evicting by a copy followed by `MADV_DONTNEED` lost 173,697 of 31,140,119 increments when it was
//! measured (HAZARDS, first row); only a move keeps them all.

use coldpress_promises::hazards::survive;

#[test]
fn writers_lose_no_increment() {
    let Some(statistics) = survive("writers") else {
        return;
    };
    statistics.at_least("evictions", 1000);
}
