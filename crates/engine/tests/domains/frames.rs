//! Domains and the frames they borrow.

use coldpress_engine::vmo::VmoError;
use coldpress_machine::domains::machine::*;
use coldpress_machine::domains::neighbour::share;
use coldpress_storage::{FrameIndex, FrameSource};
use std::collections::HashSet;
use std::sync::{Barrier, Mutex};

#[test]
fn a_domain_numbers_its_frames_itself() {
    let source = Source::new(8);
    let (ours, theirs) = (share(source, 4), share(source, 4));
    let numbers = |count| {
        (0..count)
            .map(|_| ours.allocate().unwrap().0)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(2), [1, 2]);
    assert!((1..=3).all(|n| theirs.allocate() == Some(FrameIndex(n))));
    assert_eq!(numbers(2), [3, 4], "whatever others have");
    assert_eq!(ours.allocate(), None, "the share is used up");
    for frame in [2, 3] {
        ours.free(FrameIndex(frame));
    }
    assert!(theirs.allocate().is_some());
    assert_eq!(theirs.allocate(), None, "although the source has some");
    assert_eq!(numbers(2), [3, 2], "as they were freed");
    let addresses: HashSet<_> = (1..=4)
        .flat_map(|n| [ours.address(FrameIndex(n)), theirs.address(FrameIndex(n))])
        .collect();
    assert_eq!(addresses.len(), 8, "D1");
}

#[test]
fn where_the_source_refuses_no_number_is_lost() {
    let source = Source::new(2);
    let (ours, theirs) = (share(source, 2), share(source, 2));
    let other = theirs.allocate().unwrap();
    assert_eq!(ours.allocate(), Some(FrameIndex(1)));
    assert_eq!(ours.allocate(), None, "more was promised than there is");
    theirs.free(other);
    assert_eq!(ours.allocate(), None, "they keep what they freed");
    assert_eq!(theirs.release(5), 1);
    assert_eq!(ours.allocate(), Some(FrameIndex(2)));
    assert_eq!(theirs.allocate(), None);
    ours.free(FrameIndex(1));
    assert_eq!(ours.release(1), 1);
    assert_eq!(theirs.allocate(), Some(FrameIndex(1)));
}

/// The story: a thread that had found no idle number, and then no fresh one, was refused although another
/// had given some back in between. So each share begins fresh, and there are as many frames as are wanted.
#[test]
fn threads_of_a_domain_get_all_frames_and_never_one_frame() {
    const EACH: usize = 9;
    const THREADS: usize = 4;
    let shares: Vec<_> = (0..if cfg!(debug_assertions) { 400 } else { 2000 })
        .map(|_| {
            let source = Source::new((EACH * THREADS) as u32);
            (source, share(source, EACH * THREADS))
        })
        .collect();
    let held = Mutex::new(HashSet::new());
    let begin = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for (_, frames) in &shares {
                    begin.wait();
                    for round in 0..30 {
                        let wanted = 1 + round % EACH;
                        let mine = (0..wanted).map(|_| frames.allocate().expect("nine for each"));
                        let mine: Vec<_> = mine.collect();
                        let addresses: Vec<_> = mine
                            .iter()
                            .map(|f| frames.address(*f).as_ptr() as usize)
                            .collect();
                        if round == EACH - 1 {
                            let mut held = held.lock().unwrap();
                            assert!(addresses.iter().all(|address| held.insert(*address)));
                        }
                        if round == EACH - 1 {
                            let mut held = held.lock().unwrap();
                            addresses
                                .iter()
                                .for_each(|address| _ = held.remove(address));
                        }
                        mine.into_iter().for_each(|f| frames.free(f));
                    }
                }
            });
        }
    });
    for (source, frames) in &shares {
        let kept = source.lent();
        assert_eq!(frames.release(3), 3);
        assert_eq!(source.lent(), kept - 3, "the rest is kept");
        let all: HashSet<_> = (0..36).map(|_| frames.allocate().unwrap().0).collect();
        assert_eq!(all, (1..=36).collect(), "no number was lost or doubled");
    }
}

#[test]
fn a_domain_that_fills_its_share_fails_alone() {
    spaciously(|| {
        let source = Source::new(600);
        let mut ours = Domain::new(share(source, 300));
        let mut theirs = Domain::new(share(source, 300));
        let [vmo, other] = [ours.create(400), theirs.create(5000)];
        for page in 0..100 {
            ours.write(vmo, page * 4096, &text(page)).unwrap();
        }
        // They fill storage and memory to the last frame.
        let mut page = 0;
        loop {
            match theirs.write(other, page * 4096, &text(page)) {
                Ok(()) => page += 1,
                Err(VmoError::NoMemory) if theirs.send_away() > 0 => {}
                Err(error) => break assert_eq!(error, VmoError::NoMemory),
            }
        }
        assert_eq!(theirs.frames_held(), 300, "nothing is left to them");
        assert_eq!(ours.send_away(), 100);
        let mut read = [0; 4096];
        for page in 0..100 {
            ours.read(vmo, page * 4096, &mut read).unwrap();
            assert_eq!(read, text(page));
        }
        for page in 100..300 {
            ours.write(vmo, page * 4096, &noise(page)).unwrap();
        }
        // D1: what is counted at both ends is all that was lent.
        for domain in [&ours, &theirs] {
            domain.machine.frames.release(u32::MAX);
        }
        assert_eq!(ours.frames_held() + theirs.frames_held(), source.lent());
        assert_eq!(
            ours.write(vmo, 300 * 4096, &noise(300)),
            Err(VmoError::NoMemory)
        );
        ours.destroy(vmo);
        theirs.destroy(other);
        for domain in [&ours, &theirs] {
            assert_eq!(domain.machine.frames.release(u32::MAX), 300);
        }
        assert_eq!(source.lent(), 0);
    });
}
