//! Promise: what holds of VMOs holds whenever their pages are compressed. All tests of VMOs once more, with
//! random debug compression (`kernel.compression.random-debug-compress`): before each operation pages
//! go that nobody has chosen. How it is done, and how tests leave themselves out, says
//! `kernel/random.rs`; this target's name switches it on, hence a program of its own.

mod metrics_vmo;
mod vmo;
mod zircon_aspace;
mod zircon_attribution;
mod zircon_compression;
mod zircon_vmo;

use coldpress_machine::kernel::{self, *};

#[test]
fn pages_are_compressed_before_each_operation() {
    assert!(under_random_compression());
    let s = system(100);
    let (mut w, vmo) = (worker(0), s.create(16));
    let before = s.vmos.compressed_at_random();
    for round in 0..100 {
        (0..16).for_each(|page| s.write_page(&mut w, vmo, page, &text(round + page)));
        for page in 0..16 {
            assert!(s.read_page(&mut w, vmo, page) == text(round + page));
        }
    }
    let compressed = s.vmos.compressed_at_random() - before;
    println!("{compressed} pages compressed in 3200 operations");
    assert!(compressed > 1000, "{compressed}");
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
