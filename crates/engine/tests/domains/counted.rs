//! What a domain can count is the same, to the last figure, whatever another keeps and does.

use super::script::{Findings, attack, difference};
use coldpress_engine::domain_frames::DomainFrames;
use coldpress_machine::domains::machine::*;
use coldpress_machine::domains::neighbour::{Bare, Neighbour, State, share};
use std::sync::atomic::Ordering::Relaxed;

const OURS: usize = 400;
const THEIRS: u64 = 3000;

type Share = DomainFrames<'static, Source>;

fn pair() -> (Domain<Share>, Neighbour<Share>) {
    // As many frames as the two were promised, and no more.
    let source = Source::new(OURS as u32 + THEIRS as u32 + 50);
    let ours = Domain::new(share(source, OURS));
    (
        ours,
        Neighbour::new(share(source, THEIRS as usize + 50), THEIRS),
    )
}

fn alone() -> Findings {
    spaciously(|| {
        let (mut ours, _) = pair();
        attack(&mut ours, || {})
    })
}

#[track_caller]
fn expect_the_same(what: &str, found: &Findings, expected: &Findings) {
    assert_eq!(found.len(), expected.len(), "{what}");
    assert_eq!(difference(found, expected), None, "{what}");
}

#[test]
fn a_domain_counts_the_same_whatever_state_another_is_in() {
    let expected = alone();
    assert!(expected.len() > 500, "it looks at much");
    spaciously(|| {
        use State::*;
        for state in [Resident, Compressed, Incompressible, Zeros] {
            let (mut ours, mut theirs) = pair();
            theirs.enter(state);
            expect_the_same(&format!("{state:?}"), &attack(&mut ours, || {}), &expected);
        }
        let (mut ours, mut theirs) = pair();
        theirs.fill_up();
        expect_the_same("filled up", &attack(&mut ours, || {}), &expected);
    });
}

#[test]
fn a_domain_counts_the_same_whatever_another_does_meanwhile() {
    let expected = alone();
    spaciously(|| {
        use State::*;
        let (mut ours, mut theirs) = pair();
        let mut states = [Compressed, Resident, Zeros, Nothing, Incompressible]
            .into_iter()
            .cycle();
        let found = attack(&mut ours, || theirs.enter(states.next().unwrap()));
        expect_the_same("restless", &found, &expected);
        assert!(
            theirs
                .domain
                .vmos
                .engine()
                .counters()
                .evictions
                .load(Relaxed)
                > 3000
        );
    });
}

/// That the figures can tell: storage goes by the numbers of its frames, so where these are common
/// the tables of a domain grow with what its neighbour takes meanwhile.
#[test]
fn numbers_in_common_would_tell() {
    let found = [false, true].map(|compressed| {
        spaciously(move || {
            let source = Source::new(6000);
            let mut ours = Domain::new(Bare(source));
            let mut theirs = Neighbour::new(Bare(source), THEIRS);
            let vmo = ours.create(100);
            for page in 0..100 {
                ours.write(vmo, page * 4096, &text(page)).unwrap();
                if page % 50 == 0 {
                    ours.send_away();
                    if compressed {
                        theirs.enter(State::Compressed);
                    }
                }
            }
            ours.send_away();
            ours.vmos.metadata_bytes()
        })
    });
    assert!(found[0] < found[1], "{found:?}");
}

/// That the figures can tell: two VMOs in one domain share storage, and what the one keeps there decides
/// whether the other's page needs a new frame.
#[test]
fn one_domain_for_both_would_tell() {
    let found = [false, true].map(|compressed| {
        spaciously(move || {
            let mut both = Domain::new(share(Source::new(100), 100));
            let [ours, theirs] = [both.create(1), both.create(1)];
            if !compressed {
                both.opt_out(theirs);
            }
            both.write(theirs, 0, &text(1)).unwrap();
            both.send_away();
            let before = both.vmos.engine().storage_usage().storage_bytes;
            both.write(ours, 0, &text(2)).unwrap();
            assert_eq!(both.send_away(), 1);
            both.vmos.engine().storage_usage().storage_bytes - before
        })
    });
    assert_eq!(found, [4096, 0]);
}
