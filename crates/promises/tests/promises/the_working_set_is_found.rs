//! Without a need for room, pages go when they are older than the cold age: what a program does not use
//! is compressed, what it does use stays, although no accessed bit tells the two apart. Hot and
//! cold pages lie side by side here.

use coldpress_promises::{Managed, Workplace, skip};

#[test]
fn what_is_used_stays_and_what_is_not_goes() {
    if !skip::root_or_skip() {
        return;
    }
    const MIB: u64 = 1 << 20;
    let (size, hot) = (64 * MIB, 8 * MIB);
    let place = Workplace::new("working_set");
    let program = place.compile("hot_and_cold");
    let managed = Managed::new(&place)
        .budget("1G")
        .option("--cold-after", "300ms");
    let arguments = ["51", "64", "12000"];
    let Some(statistics) = managed.survive(&program, arguments) else {
        return;
    };
    let stays = statistics.get("committed_bytes");
    let chances = statistics.get("second_chances");
    let restored = statistics.get("decompressions") * 4096; // Those read ahead as well.
    eprintln!(
        "{} MiB in place of {}, {} used; {chances} second chances, {} MiB restored",
        stays / MIB,
        size / MIB,
        hot / MIB,
        restored / MIB
    );
    assert!(stays >= hot - MIB, "what is in use is in place");
    assert!(stays < 2 * hot, "most of the rest is not");
    let needed =
        ["pressure_compressions", "critical_compressions"].map(|name| statistics.get(name));
    assert_eq!(needed, [0, 0], "there was room");
    // 40 cold ages. In turn, hot pages would have come back 30 times and more.
    assert!(restored < 20 * hot, "hot pages are known");
    assert!(chances * 4096 > 4 * hot);
}
