//! Promise: what holds of VMOs holds whenever their pages are compressed. All tests of VMOs once more, with
//! random debug compression (`kernel.compression.random-debug-compress`): before each operation pages
//! go that nobody has chosen. How it is done, and how tests leave themselves out, says
//! `kernel/random.rs`; this target's name switches it on.
#![allow(
    clippy::duplicate_mod,
    reason = "each suite brings its kernel along, as it does by itself"
)]

#[path = "../metrics_vmo.rs"]
mod metrics_vmo;
#[path = "../vmo/main.rs"]
mod vmo;
#[path = "../zircon_aspace.rs"]
mod zircon_aspace;
#[path = "../zircon_attribution.rs"]
mod zircon_attribution;
#[path = "../zircon_compression.rs"]
mod zircon_compression;
#[path = "../zircon_vmo/main.rs"]
mod zircon_vmo;

#[path = "../kernel/mod.rs"]
mod kernel;

use kernel::*;

#[test]
fn pages_are_compressed_before_each_operation() {
    assert!(under_random_compression());
    let s = system(100);
    let (mut w, vmo, before) = (worker(0), s.create(16), compressed_at_random());
    for round in 0..100 {
        (0..16).for_each(|page| s.write_page(&mut w, vmo, page, &text(round + page)));
        for page in 0..16 {
            assert!(s.read_page(&mut w, vmo, page) == text(round + page));
        }
    }
    let compressed = compressed_at_random() - before;
    println!("{compressed} pages compressed in 3200 operations");
    assert!(compressed > 1000, "{compressed}");
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
