//! Promise: a security domain is an engine with storage of its own over frames of its own
//! ([`coldpress_engine::domain_frames`]), and nothing that one domain can count or time depends on
//! what another keeps compressed. `docs/security.md` says what remains.

mod co_located;
mod counted;
mod frames;
mod machine;
mod measure;
mod neighbour;
mod script;
mod service;
mod timed;
