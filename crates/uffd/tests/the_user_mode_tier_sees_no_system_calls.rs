//! Fact: an ordinary user may open a userfaultfd for faults of user mode only. It serves these;
//! a system call that touches a missing page gets EFAULT, and may have consumed what it was to
//! deliver. The full tier serves system calls as well, and an open `/dev/userfaultfd` gives the
//! full tier to whoever holds it, but not EVENT_FORK.
//!
//! Programs hand memory to the kernel all the time: `coldpress run` refuses the user-mode tier,
//! and takes an inherited device instead of privilege.

use crate::common::{self, PAGE, Pages, Task};
use coldpress_uffd::{Errno, Features, Tier, Userfaultfd};
use std::ffi::c_int;
use std::fs::File;

/// Reads eight bytes of `descriptor` into a missing page; answers the fault if there is one.
/// Gives what `read` gives, and whether there was a fault.
fn read_into_a_missing_page(uffd: &Userfaultfd, descriptor: c_int) -> (Result<usize, c_int>, bool) {
    let memory = Pages::map(1);
    common::register(uffd, memory);
    let reader = Task::start(move || common::read_into(descriptor, memory, 8));
    let mut faulted = false;
    while !reader.is_done() {
        if uffd.wait(Some(10_000_000)) {
            common::next(uffd);
            common::copy(uffd, memory, 0, 0).expect("answering");
            faulted = true;
        }
    }
    (reader.finish(), faulted)
}

fn eventfd() -> c_int {
    // SAFETY: makes a descriptor.
    let descriptor = unsafe { libc::eventfd(5, libc::EFD_NONBLOCK) };
    assert!(descriptor >= 0, "eventfd: {}", common::errno());
    descriptor
}

fn pipe_of_eight_bytes() -> c_int {
    let (out, into) = common::pipe();
    common::write_all(into, &[3; 8]);
    out
}

fn assert_user_faults_are_served(uffd: &Userfaultfd) {
    let memory = Pages::map(1);
    common::register(uffd, memory);
    let reader = Task::start(move || memory.read(0));
    common::next(uffd);
    assert_eq!(common::copy(uffd, memory, 0, 7), Ok(PAGE));
    assert_eq!(reader.finish(), 7);
}

fn assert_system_calls_are_served(uffd: &Userfaultfd) {
    let pipe = pipe_of_eight_bytes();
    assert_eq!(read_into_a_missing_page(uffd, pipe), (Ok(8), true));
    assert_eq!(read_into_a_missing_page(uffd, eventfd()), (Ok(8), true));
}

#[test]
fn the_full_tier_serves_system_calls() {
    let _begun = common::begin("the_full_tier");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    assert_user_faults_are_served(&uffd);
    assert_system_calls_are_served(&uffd);
}

#[test]
fn the_user_mode_tier_gives_system_calls_an_error() {
    let _begun = common::begin("the_user_mode_tier");
    if !common::is_root() {
        return;
    }
    let ended = common::in_child(|| {
        common::become_nobody();
        let sysctl = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
        let full = Userfaultfd::from_system_call(Tier::Full).map(|_| ());
        match sysctl.as_deref().map(str::trim) {
            Ok("1") => common::say("unprivileged_userfaultfd is 1: everybody has the full tier"),
            _ => assert_eq!(full, Err(Errno::PERM), "the full tier without privilege"),
        }
        let uffd = match Userfaultfd::from_system_call(Tier::UserMode) {
            Ok(uffd) => uffd,
            Err(errno) => {
                common::skipped(&format!("no userfaultfd for ordinary users ({errno})"));
                common::leave_child();
            }
        };
        uffd.handshake(Features::PAGER).expect("the handshake");
        assert_user_faults_are_served(&uffd);

        let efault = (Err(libc::EFAULT), false);
        let pipe = pipe_of_eight_bytes();
        assert_eq!(read_into_a_missing_page(&uffd, pipe), efault, "a pipe");
        // Trying again does not help everywhere: the count is delivered once.
        let event = eventfd();
        assert_eq!(read_into_a_missing_page(&uffd, event), efault, "an eventfd");
        let present = Pages::filled(1, 0);
        let again = common::read_into(event, present, 8);
        assert_eq!(again, Err(libc::EAGAIN), "the count is there still");
    });
    common::assert_well(ended);
}

#[test]
fn an_open_device_gives_the_full_tier() {
    let _begun = common::begin("the_open_device");
    if !common::is_root() {
        return;
    }
    let device = match File::open("/dev/userfaultfd") {
        Ok(device) => device,
        Err(error) => return common::skipped(&format!("/dev/userfaultfd: {error}")),
    };
    let ended = common::in_child(|| {
        common::become_nobody();
        let open = || common::from_device(&device).expect("through the open device");
        let uffd = open();
        uffd.handshake(Features::PAGER).expect("the handshake");
        assert_user_faults_are_served(&uffd);
        assert_system_calls_are_served(&uffd);
        let refused = open().handshake(Features::PAGER.union(Features::EVENT_FORK));
        assert_eq!(refused, Err(Errno::PERM), "EVENT_FORK without privilege");
    });
    common::assert_well(ended);
}
