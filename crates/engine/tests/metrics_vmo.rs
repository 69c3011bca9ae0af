//! Promise: figures add up on a machine that owns its pages, too.

use crate::kernel::*;
use coldpress_engine::vmo::VmoError;
use std::collections::BTreeMap;

fn figures(s: &System) -> BTreeMap<&'static str, u64> {
    let figures = s.vmos.engine().figures();
    figures.map(|f| (f.name, f.value)).collect()
}

fn check_sums(s: &System) {
    let f = figures(s);
    let kept = f["kept_anonymous"] + f["kept_zero_fork"] + f["kept_pager_backed"];
    assert_eq!(f["compression_attempts"], f["failed_compressions"] + kept);
    let left = f["decompressions"] + f["freed_compressed"];
    assert_eq!(f["kept_stored"], f["compressed_pages"] + left);
    let stats = s.vmos.engine().kmem_stats_compression();
    assert_eq!(f["decompressions"], stats.total_page_decompressions);
}

/// A page that is wanted while there is no frame: it was decompressed, but has not left storage, so
/// it is counted when it does.
#[test]
fn a_fault_without_a_frame_is_counted_and_takes_nothing_out_of_storage() {
    let s = system(3);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(10);
    s.write_page(&mut w, vmo, 0, &text(0));
    s.send_away(&mut r);
    check_sums(s);
    let other = s.create(10);
    let mut hoarded = 0;
    while s
        .vmos
        .write(&s.machine, &mut w, other, hoarded * PAGE, &noise(hoarded))
        == Ok(())
    {
        hoarded += 1;
    }
    let before = figures(s);
    let read = s.vmos.read(&s.machine, &mut w, vmo, 0, &mut [0]);
    assert_eq!(read, Err(VmoError::NoMemory));
    let f = figures(s);
    assert_eq!(f["faults_no_frame"], before["faults_no_frame"] + 1);
    assert_eq!((f["decompressions"], f["compressed_pages"]), (0, 1));
    check_sums(s);
    s.destroy(other);
    assert_eq!(s.read_page(&mut w, vmo, 0), text(0));
    assert_eq!(figures(s)["decompressions"], 1);
    check_sums(s);
    s.destroy(vmo);
    check_sums(s);
    s.assert_nothing_is_held();
}
