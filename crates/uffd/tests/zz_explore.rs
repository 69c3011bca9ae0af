//! x
mod common;
use coldpress_uffd::{Features};
use common::{Pages, Task};
fn run(uffd: &coldpress_uffd::Userfaultfd, what: &str, t: Task<Result<(), i32>>) {
    while !t.is_done() { if uffd.wait(Some(200_000_000)) { common::say(&format!("{what}: {:x?}", common::next(uffd))); } }
    common::say(&format!("{what}: {:?}", t.finish()));
}
#[test]
fn x() {
    let _b = common::begin("x");
    let uffd = common::open(Features::PAGER).unwrap();
    for (o,n,f) in [(4,4,0),(4,8,0),(4,2,0),(4,4,libc::MREMAP_DONTUNMAP)] {
        let m = Pages::filled(o, 7); let to = Pages::filled(n, 9);
        common::register(&uffd, m);
        common::register(&uffd, to);
        common::say(&format!("from {:x} to {:x}", m.start, to.start));
        run(&uffd, &format!("{o}->{n} {f}"), Task::start(move || m.remap(to, f)));
    }
    {
        // unregistered moved onto registered
        let m = Pages::filled(4, 7); let to = Pages::filled(4, 9);
        common::register(&uffd, to);
        common::say(&format!("from {:x} to {:x}", m.start, to.start));
        run(&uffd, "unregistered onto registered", Task::start(move || m.remap(to, 0)));
    }
    for hole in [0, 2, 5] {
        let m = Pages::filled(6, 7);
        m.page(hole).unmap();
        common::say(&format!("hole {hole} {:?}", common::try_register(&uffd, m)));
        common::say(&format!("hole {hole} unregister {:?}", unsafe { uffd.unregister(m.range()) }));
    }
    let m = Pages::filled(6, 7);
    m.page(3).protect(libc::PROT_READ);
    common::say(&format!("two vmas {:?}", common::try_register(&uffd, m)));
    // fork: DONTFORK hole then register in child
    m.page(2).advise(libc::MADV_DONTFORK).unwrap();
    common::in_child(|| {
       let u = common::open(Features::PAGER).unwrap();
       common::say(&format!("child with hole {:?}", common::try_register(&u, m)));
    });
}
