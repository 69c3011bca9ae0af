//! Compressed storage: pack compressed pages into single frames.
