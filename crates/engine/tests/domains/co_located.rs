//! What remains, and what mends it: a secret in one page with bytes that the attacker chooses.

use coldpress_engine::Entry;
use coldpress_machine::domains::machine::*;
use coldpress_machine::domains::neighbour::share;
use coldpress_machine::domains::service::{Guard, calibrate, serve, token};

const CANDIDATES: u64 = 16;
const SECRET: u64 = 11;

/// For which guesses the page was compressed.
fn compressed(guard: Guard) -> Vec<u64> {
    spaciously(move || {
        let mut domain = Domain::new(share(Source::new(100), 100));
        let noise_bytes = calibrate(&mut domain);
        let vmo = serve(
            &mut domain,
            noise_bytes,
            0..CANDIDATES,
            &token(SECRET),
            guard,
        );
        domain.send_away();
        let is_compressed =
            |guess: &u64| matches!(domain.vmos.entry(vmo, *guess), Ok(Entry::Compressed(_)));
        (0..CANDIDATES).filter(is_compressed).collect()
    })
}

#[test]
fn whether_a_page_compresses_tells_what_is_in_it() {
    assert_eq!(compressed(Guard::None), [SECRET]);
}

#[test]
fn an_opted_out_vmo_tells_nothing() {
    assert_eq!(compressed(Guard::OptOut), []);
}

#[test]
fn a_secret_in_a_page_of_its_own_tells_nothing() {
    let all: Vec<u64> = (0..CANDIDATES).collect();
    assert_eq!(
        compressed(Guard::OwnPage),
        all,
        "each has room for the secret"
    );
}

/// The coarsest case: beside zeros of the attacker's, whether the secret is zeros.
#[test]
fn a_marker_tells_of_zeros() {
    spaciously(|| {
        let mut domain = Domain::new(share(Source::new(10), 10));
        let vmo = domain.create(2);
        domain.write(vmo, 4000, &[0]).unwrap();
        domain.write(vmo, 4096 + 4000, &[1]).unwrap();
        assert_eq!(domain.send_away(), 2);
        let entries = [0, 1].map(|page| domain.vmos.entry(vmo, page).unwrap());
        assert!(matches!(entries, [Entry::Zero, Entry::Compressed(_)]));
    });
}
