//! The tests of the storages, one program: each program more takes time to link. They run in threads of one process; what
//! cannot is a program of its own (`Cargo.toml`).

mod common;

mod access;
mod any_storage;
mod domains;
mod model;
mod press_rules;
mod size_class_rules;
mod three_slot_rules;
mod two_slot_rules;
