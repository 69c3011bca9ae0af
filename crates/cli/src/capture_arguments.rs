//! Arguments of `coldpress capture`.

use crate::duration;
use crate::size::{parse_bytes, refuse_ambiguous};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `coldpress capture`.
#[derive(Debug, Args)]
pub struct CaptureArguments {
    /// The process
    #[arg(value_name = "PID", value_parser = crate::pid::parse_pid)]
    pub pid: u32,
    /// Write the pages to this file, one after the other
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Only pages untouched for this long from now on: 500ms, 10s, 2m (a number is seconds); needs root
    #[arg(long, allow_hyphen_values = true, value_name = "DURATION", value_parser = duration::parse_milliseconds)]
    pub inactive: Option<u64>,
    /// At most this much, spread evenly over the process's memory: 32M, 1G
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_limit)]
    pub limit: Option<u64>,
}

fn parse_limit(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).filter(|bytes| *bytes >= 4096);
    bytes.ok_or_else(|| {
        if let Some(refusal) = refuse_ambiguous(text) {
            return refusal;
        }
        format!("cannot read {text:?} as a limit: write for example 32M or 1G, at least a page of 4096 bytes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_at_least_a_page() {
        assert!(
            parse_limit("10MB")
                .unwrap_err()
                .contains("write 10M or 10MiB")
        );
        assert_eq!(parse_limit("32M"), Ok(32 << 20));
        assert_eq!(parse_limit("4096"), Ok(4096));
        for text in ["", "0", "4095", "-1", "50%"] {
            assert!(parse_limit(text).unwrap_err().contains("32M"), "{text}");
        }
    }
}
