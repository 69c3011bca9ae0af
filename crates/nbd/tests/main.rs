//! The tests of the server, one program: each program more takes time to link. Where nothing else is said the client is
//! one of Debian's, or bytes.

mod common;

mod copies;
mod handshakes;
mod malformed;
mod requests;
mod storm;
mod survival;
mod tools;
