//! Every hazard program passes without Coldpress: what fails under it is the pager's.

use coldpress_promises::machine::HugePages;
use coldpress_promises::{Workplace, hazards::HAZARDS};
use std::thread;

/// Most programs run for a fixed time, and some rest: four at once.
const AT_ONCE: usize = 4;

#[test]
fn programs_pass_natively() {
    let _reserved = HugePages::reserve();
    thread::scope(|scope| {
        for first in 0..AT_ONCE {
            let body = move || {
                let place = Workplace::new("native");
                for hazard in HAZARDS.iter().skip(first).step_by(AT_ONCE) {
                    hazard.pass_natively(&place);
                }
            };
            thread::Builder::new()
                .name("programs_pass_natively".into())
                .spawn_scoped(scope, body)
                .expect("a thread");
        }
    });
}
