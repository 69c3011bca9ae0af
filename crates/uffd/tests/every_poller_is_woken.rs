//! Fact: one fault wakes every thread that polls the userfaultfd; one of them can read it, the
//! others find nothing.
//!
//! The pager has a handler on each processor. The one where the fault happened is awake soonest;
//! the others must take "nothing" for an answer, and rest when they only ever come too late.

use crate::common::{self, Pages, Task};
use coldpress_uffd::{Features, Message};
use std::sync::Arc;

#[test]
fn both_of_two_are_woken_and_one_reads() {
    let _begun = common::begin("every_poller_is_woken");
    let Some(uffd) = common::open(Features::PAGER) else {
        return;
    };
    let uffd = Arc::new(uffd);
    let memory = Pages::map(1);
    common::register(&uffd, memory);
    let pollers = [0; 2].map(|_| {
        let uffd = uffd.clone();
        Task::start(move || uffd.wait(Some(20_000_000_000)))
    });
    // Polling looks once before it sleeps: they have to be woken.
    pollers.iter().for_each(Task::await_sleep);
    let started = std::time::Instant::now();
    let reader = Task::start(move || memory.read(0));
    assert_eq!(pollers.map(Task::finish), [true, true]);
    assert!(started.elapsed().as_secs() < 10, "one slept on");

    let mut messages = [Message::Unknown(0); 4];
    assert_eq!(uffd.read(&mut messages), Ok(1));
    assert_eq!(
        uffd.read(&mut messages),
        Ok(0),
        "nothing is left for the other"
    );
    common::copy(&uffd, memory, 0, 7).expect("restoring");
    assert_eq!(reader.finish(), 7);
}
