//! Promise: who waits for a user pager is told when there is a page that the pager did not supply.

use crate::kernel::*;
use coldpress_engine::Memory;

/// Found by the simulation: a thread waited for a page that had been zeroed meanwhile. When the pager
/// supplied it, it was there already, and nobody was told.
#[test]
fn an_absent_page_that_is_zeroed_is_an_answer() {
    let s = system(100);
    let vmo = s.vmos.create_pager_backed(&s.machine, 4).unwrap();
    let answers = || s.machine.answers(vmo);
    let seen = answers();
    s.zero(vmo, 1..2).unwrap();
    assert_ne!(answers(), seen);
    let seen = answers();
    s.zero(vmo, 1..2).unwrap();
    assert_eq!(answers(), seen, "it was there already");
    assert_eq!(s.read_page(&mut worker(0), vmo, 1), [0; 4096]);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
