//! The tests of the codecs, one program: each program more takes time to link. They run in threads of one process; what
//! cannot is a program of its own (`Cargo.toml`).

mod common;

mod damaged_input;
mod dense_tables;
mod lz4_blocks;
mod lzo_streams;
mod press_format;
mod round_trip;
mod wkdm_format;
mod zstd_dictionary;
mod zstd_frames;
