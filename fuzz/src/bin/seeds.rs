//! Writes seeds for every target: stored pages for the decoders, pages for the round trips, a client's messages for the
//! NBD server.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --bin seeds`, from the root of the repository. A few hundred
//! small files in `fuzz/corpus`, which is kept out of git.

#[path = "../../../crates/codec/tests/common/pages.rs"]
#[allow(
    dead_code,
    missing_docs,
    reason = "the tests' pages, of which we need some"
)]
mod pages;

use std::fs;
use std::path::{Path, PathBuf};

use coldpress_arena::Zeroable;
use coldpress_codec::press::{Press, Simd};
use coldpress_codec::press_dense::PressDense;
use coldpress_codec::{Compressed, Lz4, Lz4Rust, Lzo, PAGE_SIZE, Page, PageCodec, Wkdm, Zstd};
use coldpress_fuzz::{nbd, session};
use pages::{KINDS, page};

fn corpus(target: &str) -> std::io::Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    fs::create_dir_all(&path)?;
    Ok(path)
}

fn zeroed<T: Zeroable>() -> Box<T> {
    // SAFETY: T is Zeroable.
    unsafe { Box::<T>::new_zeroed().assume_init() }
}

/// Pages of every kind, two of each.
fn pages() -> impl Iterator<Item = (String, Page)> {
    KINDS
        .into_iter()
        .flat_map(|kind| (0..2).map(move |seed| (format!("{kind:?}-{seed}"), page(kind, seed))))
}

fn write<C: PageCodec>(name: &str, codec: &C) -> std::io::Result<()> {
    let (decode, encode) = (
        corpus(&format!("decode_{name}"))?,
        corpus(&format!("encode_{name}"))?,
    );
    let mut state = zeroed::<C::State>();
    for (page_name, page) in pages() {
        let mut out = [0; PAGE_SIZE];
        if let Compressed::Stored(len) = codec.compress(&mut state, &page, &mut out) {
            fs::write(decode.join(&page_name), &out[..len])?;
        }
        // A bound of a page, no filler.
        let bound = (PAGE_SIZE as u16).to_le_bytes();
        fs::write(encode.join(&page_name), [&bound[..], &[0], &page].concat())?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let detect_same_filled = false;
    write(
        "lz4",
        &Lz4 {
            acceleration: 1,
            detect_same_filled,
        },
    )?;
    write(
        "lz4_rust",
        &Lz4Rust {
            acceleration: 1,
            detect_same_filled,
        },
    )?;
    write(
        "zstd",
        &Zstd {
            level: 1,
            detect_same_filled,
        },
    )?;
    write("lzo", &Lzo { detect_same_filled })?;
    write("wkdm", &Wkdm { detect_same_filled })?;
    write("press", &Press::with_simd(Simd::Portable))?;
    let dense = PressDense::with_simd(coldpress_fuzz::dense_tables(), Simd::Portable);
    write("press_dense", &dense.expect("trained"))?;
    write_nbd()?;
    write_sessions()
}

/// Plans of sessions: with each kind of export, after each kind of handshake.
fn write_sessions() -> std::io::Result<()> {
    let handshakes: [&[u8]; 4] = [&[30], &[0, 2, 29], &[12, 10, 0, 6, 5, 30], &[0, 27]];
    let corpus = corpus("decode_nbd_session")?;
    for nature in (0..32).chain([0xe0]) {
        for (number, options) in handshakes.iter().enumerate() {
            let plan = session::seed(nature, options);
            fs::write(corpus.join(format!("{nature}-{number}")), plan)?;
        }
    }
    Ok(())
}

/// A whole conversation, and its requests alone, after each kind of handshake.
fn write_nbd() -> std::io::Result<()> {
    let whole = nbd::messages::conversation();
    fs::write(corpus("decode_nbd_handshake")?.join("conversation"), &whole)?;
    for structured in [false, true] {
        let kind = if structured { "structured" } else { "simple" };
        let short = nbd::handshake(structured);
        fs::write(corpus("decode_nbd_handshake")?.join(kind), &short)?;
        let first = whole
            .windows(4)
            .position(|word| word == [0x25, 0x60, 0x95, 0x13]);
        let requests = &whole[first.expect("there are requests")..];
        for mend in [0, 2] {
            let seed = [&[u8::from(structured) | mend], requests].concat();
            fs::write(
                corpus("decode_nbd_requests")?.join(format!("{kind}-{mend}")),
                seed,
            )?;
        }
    }
    Ok(())
}
