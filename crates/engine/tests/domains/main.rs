//! Promise: a security domain is an engine with storage of its own over frames of its own
//! ([`coldpress_engine::domain_frames`]), and nothing that one domain can count or time depends on
//! what another keeps compressed. `docs/security.md` says what remains.
//!
//! A program of its own: some of these tests compare times, which the engine's other tests beside them would blur.

mod co_located;
mod counted;
mod frames;
mod script;
mod timed;
