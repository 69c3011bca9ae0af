//! Fact: registering a part of a mapping splits it, and `mremap` refuses a range that spans
//! several mappings with EFAULT before Linux 6.17.
//!
//! A program that moves its own mapping knows nothing of the split: a wrapper of `mremap` has to
//! register the range whole, so that the parts become one mapping again, and try once more.

mod common;

use coldpress_uffd::{Features, Message};
use common::{Pages, Task};

#[test]
fn spans_are_refused_until_they_are_one() {
    let _begun = common::begin("remapping_what_is_partly_registered");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    for registered in [(0, 2), (3, 2), (6, 2)] {
        let memory = Pages::filled(8, 70);
        let (first, count) = registered;
        common::register(&uffd, memory.part(first, count));
        let to = Pages::map(8);
        let task = Task::start(move || memory.remap(to, 0));
        while !task.is_done() {
            if uffd.wait(Some(100_000_000)) {
                common::say(&format!("{registered:?} {:?}", common::next(&uffd)));
            }
        }
        common::say(&format!("{registered:?} {:?} from {:x} to {:x}", task.finish(), memory.start, to.start));
        common::say(&std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|l| {
            let a = usize::from_str_radix(l.split('-').next().unwrap(), 16).unwrap();
            (a >= memory.start - 4096 && a <= memory.start + 9*4096) || (a >= to.start-4096 && a <= to.start + 9*4096)
        }).collect::<Vec<_>>().join("\n"));
    }
    let _ = |m: Message| m;
}
