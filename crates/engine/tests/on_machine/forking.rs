//! Promise: while the engine is still for a fork it can be read without changing it, and pages
//! that came in meanwhile are mended after.

use crate::machine::*;
use coldpress_engine::{Content, Entry, Workspace};

const PAGES: u32 = 512;

/// A system with a page of every kind away, one in place, one never touched.
fn with_every_kind_away() -> &'static System {
    let s = system(1, PAGES as usize + 128);
    let mut w = worker(9);
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        s.write(&mut w, 1, n as u32 * 64, &content(kind, 1));
    }
    s.send_away(&mut reclaimer(8));
    s
}

/// Everything that can be seen of the engine from outside, but for the times and the histogram.
fn picture(s: &System) -> (Vec<Entry>, Vec<String>) {
    let entries = (0..PAGES + 128).map(|i| s.engine.entry(1, i)).collect();
    let counters = format!("{:?}", s.engine.counters());
    let counters = counters.split("decompressed_within").next().unwrap();
    let rest = [
        counters.to_owned(),
        format!("{:?}", s.engine.storage_usage()),
        s.engine.resident_pages().to_string(),
        s.engine.failed_pages().to_string(),
        s.engine.metadata_bytes().to_string(),
    ];
    (entries, rest.into())
}

#[test]
fn peeking_gives_the_content_and_changes_nothing() {
    let s = with_every_kind_away();
    let before = picture(s);
    let mut w = worker(1);
    for _ in 0..3 {
        for (n, kind) in Kind::ALL.into_iter().enumerate() {
            match s.engine.peek(&s.machine, &mut w, 1, n as u32 * 64) {
                Content::Bytes(page) => assert_eq!(*page, content(kind, 1), "{kind:?}"),
                Content::Present => assert_eq!(kind, Kind::Noise),
                other => panic!("{kind:?}: {other:?}"),
            }
        }
        let nothing = s.engine.peek(&s.machine, &mut w, 1, PAGES);
        assert!(matches!(nothing, Content::Nothing));
    }
    assert_eq!(picture(s), before);
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        let index = n as u32 * 64;
        assert_eq!(s.machine.is_present(1, index), kind == Kind::Noise);
        assert_eq!(s.read(&mut w, 1, index), content(kind, 1));
    }
}

/// What is in flight is recalled in the simulation, and in `raw_clone_busy.c`.
#[test]
fn recalling_gives_what_is_away_and_changes_nothing() {
    let s = with_every_kind_away();
    let before = picture(s);
    let workspace: &mut Workspace<_> = zeroed();
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        let content_of = content(kind, 1);
        match s.engine.recall(&s.machine, workspace, 1, n as u32 * 64) {
            Content::Bytes(page) => assert_eq!(*page, content_of, "{kind:?}"),
            Content::Present => assert_eq!(kind, Kind::Noise),
            Content::Nothing => assert_eq!(content_of, [0; 4096], "{kind:?}"),
            Content::Doubtful => panic!("{kind:?}"),
        }
    }
    for (segment, index) in [(1, PAGES), (7, 0)] {
        let nothing = s.engine.recall(&s.machine, workspace, segment, index);
        assert!(matches!(nothing, Content::Nothing));
    }
    poke_in_storage(s, 1, 0, |bytes| bytes[2] ^= 4);
    let told = s.engine.recall(&s.machine, workspace, 1, 0);
    assert!(matches!(told, Content::Doubtful));
    assert_eq!(picture(s), before);
}

#[test]
fn damaged_content_is_told_and_left_as_it_is() {
    let s = with_every_kind_away();
    poke_in_storage(s, 1, 0, |bytes| bytes[2] ^= 4);
    let before = picture(s);
    let told = matches!(
        s.engine.peek(&s.machine, &mut worker(1), 1, 0),
        Content::Doubtful
    );
    assert!(told);
    assert_eq!(picture(s), before);
}

#[test]
fn pages_that_came_in_meanwhile_are_mended() {
    let s = with_every_kind_away();
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        let index = n as u32 * 64;
        if kind != Kind::Noise {
            // What `peek` said was installed, and the program has written since.
            s.machine.put(1, index, &content(Kind::Text, 50 + n as u64));
        }
    }
    s.machine.put(1, PAGES, &content(Kind::Text, 70));
    let noise = s.engine.entry(1, 64);
    s.machine.exclusively(|| {
        for _ in 0..2 {
            for n in 0..=Kind::ALL.len() as u32 {
                s.engine.acknowledge_present(&s.machine, 1, n * 64);
            }
        }
    });
    s.assert_nothing_is_held();
    assert_eq!(s.engine.resident_pages(), 9);
    assert_eq!(s.engine.entry(1, 64), noise, "it was known to be in place");
    for n in 0..9 {
        assert!(s.is_resident(1, n * 64));
    }
    // They are pages like any other.
    s.send_away(&mut r);
    for n in 0..9 {
        let expected = match n {
            1 => content(Kind::Noise, 1),
            8 => content(Kind::Text, 70),
            _ => content(Kind::Text, 50 + u64::from(n)),
        };
        assert_eq!(s.machine.is_present(1, n * 64), n == 1);
        assert_eq!(s.read(&mut w, 1, n * 64), expected);
    }
    s.decommit(1, 0, PAGES + 128);
    s.assert_no_record_is_lost();
}

#[test]
fn the_engine_works_on_after_its_locks_were_reset() {
    let s = with_every_kind_away();
    // SAFETY: this thread is the only one that uses the engine, and holds none of its locks.
    unsafe { s.engine.reset_locks_after_fork() };
    let mut w = worker(1);
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(s.read(&mut w, 1, n as u32 * 64), content(kind, 1));
    }
    s.assert_nothing_is_held();
}
