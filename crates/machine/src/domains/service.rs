//! The channel that remains: a program that keeps a secret in one page with bytes that somebody else
//! chooses, as one does that remembers a request beside a key.
//!
//! ```text
//!  0                     noise            +32                  3000    +32      4096
//!  │ bytes that do not   │ guess          │ one byte, repeated │ secret │  …     │
//!    compress: so many that the page is just small enough to be kept compressed,
//!    if guess and secret are alike
//! ```
//!
//! The attacker chooses noise and guess, lets the page grow old, and finds out whether it was compressed:
//! by the time that the next touch takes, or by comparing content with committed.

use crate::domains::machine::{Domain, noise, page_with_noise};
use coldpress_codec::Page;
use coldpress_engine::vmo::VmoId;
use coldpress_storage::FrameSource;

const SECRET_AT: usize = 3000;
const SECRET_BYTES: usize = 32;

/// What is secret, and what guesses are like.
pub type Token = [u8; SECRET_BYTES];

/// The token of this number.
pub fn token(number: u64) -> Token {
    noise(number + 1000)[..SECRET_BYTES]
        .try_into()
        .expect("so many bytes")
}

/// The page of a request: noise and a guess of the attacker, and the secret.
pub fn page(noise_bytes: usize, guess: &Token, secret: Option<&Token>) -> Page {
    let mut page = page_with_noise(1, noise_bytes);
    page[noise_bytes..][..SECRET_BYTES].copy_from_slice(guess);
    if let Some(secret) = secret {
        page[SECRET_AT..][..SECRET_BYTES].copy_from_slice(secret);
    }
    page
}

/// How much noise it takes: found by the attacker with pages of its own.
pub fn calibrate<F: FrameSource>(domain: &mut Domain<F>) -> usize {
    let is_kept = |domain: &mut Domain<F>, noise_bytes, secret| {
        let vmo = domain.create(1);
        let page = page(noise_bytes, &token(1), Some(&token(secret)));
        domain.write(vmo, 0, &page).expect("a frame");
        let kept = domain.send_away() == 1;
        domain.destroy(vmo);
        kept
    };
    let limits = [1, 2].map(|secret| {
        let sizes = 2000..SECRET_AT - SECRET_BYTES;
        sizes
            .rev()
            .find(|n| is_kept(domain, *n, secret))
            .expect("some are small enough")
    });
    assert!(
        limits[0] > limits[1] + 8,
        "what is alike compresses better: {limits:?}"
    );
    limits[0].midpoint(limits[1])
}

/// Where the secret stands, and how it is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// In the page of the request, and not at all.
    None,
    /// The same, in a VMO that is marked as latency-sensitive.
    OptOut,
    /// In a page of its own.
    OwnPage,
}

/// A VMO in which each page is a request with one of the guesses.
pub fn serve<F: FrameSource>(
    domain: &mut Domain<F>,
    noise_bytes: usize,
    guesses: std::ops::Range<u64>,
    secret: &Token,
    guard: Guard,
) -> VmoId {
    let requests = guesses.end - guesses.start;
    let vmo = domain.create(requests + 1);
    if guard == Guard::OptOut {
        domain.opt_out(vmo);
    }
    let beside = (guard != Guard::OwnPage).then_some(secret);
    for (n, guess) in guesses.enumerate() {
        let page = page(noise_bytes, &token(guess), beside);
        domain.write(vmo, n as u64 * 4096, &page).expect("a frame");
    }
    if guard == Guard::OwnPage {
        domain.write(vmo, requests * 4096, secret).expect("a frame");
    }
    vmo
}
