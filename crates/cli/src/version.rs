//! What `coldpress --version` prints: which build this is, and which vector instructions it uses here.
//!
//! `-V` prints the version alone. Commit and target are the build's (`build.rs`); the vector set is that of this
//! processor, as the codec press chooses it.

use coldpress_codec::press::Simd;
use std::sync::LazyLock;

/// The long form, without the name of the command, which stands before it.
pub fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{}\ncommit:  {}\ntarget:  {}\nvectors: {}",
            env!("CARGO_PKG_VERSION"),
            env!("COLDPRESS_COMMIT"),
            env!("COLDPRESS_TARGET"),
            vectors(Simd::best())
        )
    });
    &TEXT
}

/// The vector set in words.
fn vectors(simd: Simd) -> &'static str {
    match simd {
        Simd::Avx512 => "AVX-512",
        Simd::Avx2 => "AVX2",
        Simd::Portable => "none (portable)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_form_names_version_commit_target_and_vectors() {
        let lines: Vec<&str> = long().lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], env!("CARGO_PKG_VERSION"));
        let commit = lines[1].strip_prefix("commit:  ").unwrap();
        let is_commit = commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_commit || commit == "unknown", "{commit}");
        assert!(lines[2].contains("x86_64"), "{}", lines[2]);
        assert!(
            Simd::ALL
                .map(vectors)
                .contains(&&lines[3]["vectors: ".len()..])
        );
    }
}
