//! Arguments of `coldpress bench cache`.

use super::kind::Kind;
use crate::size::parse_bytes;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Printed below the help of `coldpress bench cache`.
pub const HELP: &str = "\
Examples:
  sudo coldpress bench cache --quick
  sudo coldpress bench cache --pages redis.pages --svg cache.svg
  sudo coldpress bench cache --capacity 1G --kinds lazyfree,compressed

Kinds: lazyfree (the kernel takes pages, hot ones are kept from it), lazyfree-plain (the kernel \
alone chooses, as in the original), compressed (gives way when it is asked to, and compresses what \
it evicts), dontneed (gives way when it is asked to), anonymous (gives nothing back), \
anonymous-small (the same, a quarter as large), mix (three quarters lazyfree, one anonymous), \
disk (a file), stub (keeps nothing).

Without --pages, entries are made up; the report says how well they compress. Pages are made by: \
coldpress capture PID -o FILE

Memory is limited by a memory group made for each measurement below the caller's own, which needs \
root, and removed afterwards.";

/// Arguments of `coldpress bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// What to measure.
    #[command(subcommand)]
    pub what: Bench,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Measure the discardable cache when memory runs short, in each of its kinds
    #[command(after_help = HELP)]
    Cache(CacheArguments),
}

/// Arguments of `coldpress bench cache`.
#[derive(Debug, Args)]
pub struct CacheArguments {
    /// Memory of the cache [default: 4G, or less if the machine has no 9G to spare]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub capacity: Option<u64>,
    /// Entries that are asked for eight times [default: a sixteenth of the capacity]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub hot: Option<u64>,
    /// Entries that are asked for twice [default: seven eighths of the capacity]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub cold: Option<u64>,
    /// Memory that is taken [default: a quarter, half and three quarters of the capacity]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE,SIZE", value_delimiter = ',', value_parser = parse_size)]
    pub reclaim: Vec<u64>,
    /// Limit of the memory group [default: nine eighths of the capacity]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub limit: Option<u64>,
    /// Most memory for compressed entries [default: what the largest reclaim leaves, less the hot set and a 16th of the capacity]
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE", value_parser = parse_size)]
    pub compressed: Option<u64>,
    /// Times that everything is measured; medians count [default: 3, with --quick 1]
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Kinds to measure [default: all]
    #[arg(long, value_name = "KIND,KIND", value_delimiter = ',', value_parser = parse_kind)]
    pub kinds: Vec<Kind>,
    /// Take what entries hold from this file of pages (can be repeated)
    #[arg(long = "pages", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where the kind disk has its file, for which there must be room
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/tmp")]
    pub directory: PathBuf,
    /// Measure once, with 64M: shows that all works
    #[arg(long)]
    pub quick: bool,
    /// Write every figure of every round, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw hit rates over memory taken, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// For the process that measures: the group it enters
    #[arg(long, hide = true)]
    pub measured_in: Option<PathBuf>,
    /// For the process that measures: which round it is
    #[arg(long, hide = true, default_value = "0")]
    pub round: u64,
}

fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| {
        format!("cannot read {text:?} as a size: write for example 512M or 3G; K, M, G and T are powers of 1024")
    })
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    kind.ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name).join(", ");
        format!("there is no kind {text:?}: choose among {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_kinds_are_read_or_refused_with_what_there_is() {
        assert_eq!(parse_size("3G"), Ok(3 << 30));
        assert!(parse_size("0").is_err() && parse_size("3GB").unwrap_err().contains("512M"));
        for kind in Kind::ALL {
            assert_eq!(parse_kind(kind.name()), Ok(kind));
        }
        assert!(parse_kind("lru").unwrap_err().contains("lazyfree-plain"));
    }

    #[test]
    fn the_help_names_every_kind() {
        for kind in Kind::ALL {
            assert!(HELP.contains(&format!("{} (", kind.name())), "{kind:?}");
        }
    }
}
