//! What the attacker does, and all that it can count of it.

use coldpress_engine::vmo::VmoError;
use coldpress_machine::domains::machine::{Domain, noise, text};
use coldpress_storage::FrameSource;

const PAGES: u64 = 240;

/// Everything that was counted, by name, in order.
pub type Findings = Vec<(String, u64)>;

/// Stores, restores, snapshots, compacts, frees, and is refused; after each step the neighbour acts.
/// There must be 400 frames, of which the last are asked for too. What it finds is all that the engine
/// tells of itself, how each page stands, and what was refused.
pub fn attack<F: FrameSource>(domain: &mut Domain<F>, mut between: impl FnMut()) -> Findings {
    let mut findings = Findings::new();
    let vmo = domain.create(2000);
    for page in 0..PAGES {
        let content = match page % 8 {
            0 => [0; 4096],
            1 => noise(page),
            _ => text(page),
        };
        domain.write(vmo, page * 4096, &content).expect("a frame");
    }
    between();
    note(&mut findings, "written", domain);
    for round in 0..3 {
        let kept = domain.send_away();
        findings.push((format!("kept in round {round}"), kept.into()));
        between();
        note(&mut findings, "compressed", domain);
        let mut read = [0; 4096];
        for page in (round..PAGES).step_by(2) {
            domain.read(vmo, page * 4096, &mut read).expect("a frame");
            let entry = domain.vmos.entry(vmo, page).expect("it is there");
            findings.push((
                format!("page {page} is {entry:?}"),
                read.iter().map(|b| u64::from(*b)).sum(),
            ));
        }
        between();
        note(&mut findings, "read", domain);
    }
    domain.send_away();
    between();
    let vmos = &domain.vmos;
    let snapshot = vmos
        .snapshot(&domain.machine, vmo, 0..PAGES)
        .expect("tables");
    for page in 0..60 {
        domain
            .write(snapshot, page * 4096, &[7; 8])
            .expect("a frame");
    }
    between();
    note(&mut findings, "copied", domain);
    domain.destroy(snapshot);
    // Holes in storage, and a pass over it.
    for page in (0..PAGES).step_by(3) {
        let vmos = &domain.vmos;
        vmos.decommit(&domain.machine, vmo, page..page + 1)
            .expect("it is there");
    }
    between();
    while let Some(done) = domain.vmos.engine().compact(&domain.machine, 1 << 14) {
        findings.push((format!("{done:?}"), 0));
        if done.pass_ended {
            break;
        }
        between();
    }
    note(&mut findings, "compacted", domain);
    // To the last frame of the share.
    let mut page = 1000;
    while domain.write(vmo, page * 4096, &noise(page)).is_ok() {
        page += 1;
        if page % 32 == 0 {
            between();
        }
    }
    findings.push(("refused at".into(), page));
    assert_eq!(
        domain.write(vmo, page * 4096, &[1]),
        Err(VmoError::NoMemory)
    );
    between();
    let kept = domain.send_away();
    findings.push(("kept where memory is short".into(), kept.into()));
    note(&mut findings, "full", domain);
    domain.vmos.check_invariants();
    domain.destroy(vmo);
    note(&mut findings, "ended", domain);
    findings
}

/// Every figure of the engine, and the bytes of its tables.
fn note<F: FrameSource>(findings: &mut Findings, when: &str, domain: &Domain<F>) {
    let engine = domain.vmos.engine();
    for figure in engine.figures() {
        findings.push((format!("{when}: {}", figure.name), figure.value));
    }
    let tables = domain.vmos.metadata_bytes();
    findings.push((format!("{when}: bytes of tables"), tables as u64));
}

/// The first thing that differs.
pub fn difference<'a>(a: &'a Findings, b: &'a Findings) -> Option<[&'a (String, u64); 2]> {
    let pairs = a.iter().zip(b).map(|(a, b)| [a, b]);
    pairs.into_iter().find(|[a, b]| a != b)
}
