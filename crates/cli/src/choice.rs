//! Which codec, which storage and which triggers a program runs with.

use coldpress_codec::CodecKind;
use coldpress_interface::triggers::Triggers;
use coldpress_storage::StorageKind;

/// Reads the name of a codec.
pub fn parse_codec(text: &str) -> Result<CodecKind, String> {
    // Of LZ4 the pager means acceleration 1: what it compresses nobody waits for (ADR 0009).
    match text {
        "lz4" => return Ok(CodecKind::THOROUGH_LZ4),
        "lz4-rust" => return Ok(CodecKind::Lz4Rust { acceleration: 1 }),
        _ => {}
    }
    CodecKind::from_name(text).map_err(|error| format!("cannot use {text:?}: {error}"))
}

/// Reads the name of a storage.
pub fn parse_storage(text: &str) -> Result<StorageKind, String> {
    StorageKind::from_name(text).ok_or_else(|| {
        let names = StorageKind::ALL.map(StorageKind::name).join(", ");
        format!("cannot use {text:?}: no storage has that name: choose {names}")
    })
}

/// Reads a list of triggers.
pub fn parse_triggers(text: &str) -> Result<Triggers, String> {
    Triggers::from_text(text).map_err(|wrong| {
        let names = Triggers::NAMES.map(|(_, name)| name).join(", ");
        format!("{wrong:?} is no trigger: write a list of {names}, or none")
    })
}

/// Reads yes or no.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(format!(
            "cannot read {text:?} as a switch: write true or false"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_others_are_answered_with_the_names() {
        for kind in StorageKind::ALL {
            assert_eq!(parse_storage(kind.name()), Ok(kind));
            let error = parse_storage("four-slot").unwrap_err();
            assert!(error.contains(kind.name()) && !error.contains('\n'));
        }
        for name in ["lz4:1", "lz4:11", "zstd:1", "zstd:-7", "lzo", "wkdm"] {
            assert_eq!(parse_codec(name).unwrap().to_string(), name);
        }
        assert_eq!(parse_codec("lz4").unwrap().to_string(), "lz4:1");
        assert_eq!(parse_codec("lz4-rust").unwrap().to_string(), "lz4-rust:1");
        let error = parse_codec("gzip").unwrap_err();
        assert!(error.contains(CodecKind::NAMES) && !error.contains('\n'));
        assert!(parse_codec("zstd:99999").is_err());
        let default = CodecKind::best().to_string();
        assert_eq!(parse_codec(&default).unwrap().to_string(), default);
    }
}
