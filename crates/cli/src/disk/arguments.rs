//! The command line of `coldpress disk`.

use super::write_back_to::WriteBackTo;
use crate::choice;
use crate::duration;
use crate::size;
use clap::{Args, Subcommand, ValueEnum};
use coldpress_codec::CodecKind;
use coldpress_storage::StorageKind;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The three kinds of disks, in the usage.
const SERVE_USAGE: &str = "\
coldpress disk serve --size <SIZE> <WHERE> [OPTIONS]
       coldpress disk serve --size <SIZE> --writeback <PATH|URL> <WHERE> [OPTIONS]
       coldpress disk serve --backing <PATH> [--size <SIZE>] <WHERE> [OPTIONS]

WHERE: --socket <PATH>, --listen <ADDRESS:PORT>, or both";

const SERVE_HELP: &str = "\
Three kinds of disks:
  --size               A disk in memory. Its content ends with the command
                       (SIGINT, SIGTERM). It can have snapshots. At --mem-limit,
                       writes are refused.
  --size, --writeback  A disk in memory, and a file, or a store on another
                       machine, for what memory shall not hold. Both end with
                       the command. No snapshots.
  --backing            A cache in compressed memory before a file or block
                       device, which has the content. What a client has flushed
                       is in the file; the rest follows when memory is wanted,
                       and when the command ends. --size creates the file.

Examples:
  coldpress disk serve --size 4G --mem-limit 1G --socket disk.sock
  coldpress disk serve --size 8G --mem-limit 1G --writeback tier --socket disk.sock
  coldpress disk serve --size 8G --mem-limit 1G --socket disk.sock \\
    --writeback redis://far.example:6379 --writeback-fallback tier
  coldpress disk serve --backing image.raw --socket disk.sock
  coldpress disk serve --backing new.raw --size 20G --socket disk.sock

Clients:
  qemu-img convert image.qcow2 'nbd+unix:///disk?socket=disk.sock'
  qemu-io -f raw -c 'read 0 4k' 'nbd+unix:///disk?socket=disk.sock'";

/// Arguments of `coldpress disk`.
#[derive(Debug, Args)]
pub struct DiskArguments {
    #[command(subcommand)]
    pub command: DiskCommand,
}

/// What is to be done with a disk.
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// Serve a compressed RAM disk over NBD, until SIGINT or SIGTERM
    #[command(after_help = SERVE_HELP, override_usage = SERVE_USAGE)]
    Serve(ServeArguments),
    /// Show the disks that are served, or one of them
    Status(StatusArguments),
    /// Show how compression is doing (zx_info_kmem_stats_compression of RFC-0219), and what clients
    /// waited for it
    Info(TargetArguments),
    /// Make a snapshot, served read-only at once as an export of this name
    Snapshot(NamedArguments),
    /// Drop a snapshot; clients that read it get errors from then on
    Drop(NamedArguments),
    /// Move what is stored together, and give free memory back to the kernel
    Compact(TargetArguments),
    /// Forget everything: content, snapshots, figures. Refused while clients are connected
    Reset(ResetArguments),
    /// Change the memory limit: 1G, or none
    Limit(LimitArguments),
    /// Write what only memory holds to the backing file, and sync it
    Flush(TargetArguments),
    /// Write pages to the file behind the disk, and hold them no longer: those that are idle
    /// (not used since `coldpress disk idle`), huge (not compressible), or all
    Writeback(WritebackArguments),
    /// Compress all that is not compressed yet, however young, and mark it as idle
    Idle(TargetArguments),
    /// Store what is compressed anew, denser: by zstd with a dictionary made from the disk itself
    /// (codec press or zstd)
    Recompress(TargetArguments),
}

/// Arguments of `coldpress disk serve`. Which of them go together is checked by [`together`](super::together::check).
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Size of the disk: 512M, 4G, a multiple of 4096. With --backing: of the file that is
    /// created; one that exists keeps its size
    #[arg(long, value_name = "SIZE", value_parser = size::parse_size, help_heading = CONTENT)]
    pub size: Option<u64>,
    /// Be a write-back cache before this file or block device
    #[arg(long, value_name = "PATH", help_heading = CONTENT)]
    pub backing: Option<PathBuf>,
    /// Keep pages that are not used, or do not compress, in this file, encrypted. It must
    /// not exist, and has no name while it is used. A block device is overwritten. Or in
    /// a store on another machine: redis://HOST:PORT, s3://BUCKET/PREFIX
    #[arg(long, value_name = "PATH|URL", value_parser = WriteBackTo::parser(), help_heading = CONTENT)]
    pub writeback: Option<WriteBackTo>,
    /// With a store in --writeback: keep in this file what the store does not take
    #[arg(long, value_name = "PATH", help_heading = CONTENT)]
    pub writeback_fallback: Option<PathBuf>,
    /// Refuse to be written
    #[arg(long, help_heading = CONTENT)]
    pub read_only: bool,
    /// Serve on this Unix socket, for its owner alone
    #[arg(long, value_name = "PATH", help_heading = PLACE)]
    pub socket: Option<PathBuf>,
    /// Serve on this loopback address, which every user of the machine can reach
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address, help_heading = PLACE)]
    pub listen: Option<SocketAddr>,
    /// Name of the disk and of its export
    #[arg(long, value_name = "NAME", default_value = "disk", value_parser = parse_name, help_heading = PLACE)]
    pub name: String,
    /// The most memory that its content may take, tables included: 1G, 25%. What can
    /// not be held is refused with "no space", or goes to the file behind it
    /// [default: none; with --backing 20%]
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = parse_memory, help_heading = MEMORY)]
    pub mem_limit: Option<Memory>,
    /// With --writeback: write no more than this in a day: 10G
    /// [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_size, help_heading = MEMORY)]
    pub writeback_limit: Option<u64>,
    /// With --writeback or --backing: after the limit was reached, hold new pages again
    /// when memory is down to this share of it, in percent [default: 90]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100), help_heading = MEMORY)]
    pub accept_threshold: Option<u64>,
    /// Compress what was not written for this long: 100ms, 5s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse_milliseconds, help_heading = MEMORY)]
    pub cold_after: u64,
    /// How pages are compressed: lz4, zstd:1, …
    /// [default: press where the processor has vectors for it, otherwise lz4]
    #[arg(long, value_name = "NAME", value_parser = choice::parse_codec, help_heading = MEMORY)]
    pub codec: Option<CodecKind>,
    /// How compressed pages are kept: two-slot, three-slot, size-class, press
    #[arg(long, value_name = "NAME", value_parser = choice::parse_storage, help_heading = MEMORY)]
    pub storage: Option<StorageKind>,
}

/// Headings of the options.
const CONTENT: &str = "What is served";
const PLACE: &str = "Where it is served";
const MEMORY: &str = "Memory that it takes";

/// `127.0.0.1:10809`, or a port alone.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let on_loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let port = text.strip_prefix(':').unwrap_or(text).parse();
    port.map(on_loopback).or_else(|_| {
        let unreadable = |_| {
            format!(
                "write for example 127.0.0.1:10809, [::1]:10809 or 10809 (a port), not {text:?}"
            )
        };
        text.parse().map_err(unreadable)
    })
}

/// Which disk is meant.
#[derive(Debug, Args)]
pub struct TargetArguments {
    /// The disk, by its name, where several are served
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub disk: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `coldpress disk status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// The disk; all without one
    #[arg(value_name = "NAME", value_parser = parse_name, conflicts_with = "disk")]
    pub name: Option<String>,
    /// The disk, as the other commands take it
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub disk: Option<String>,
    /// Print JSON: everything
    #[arg(long)]
    pub json: bool,
    /// Print all figures, under zram's names where they mean the same
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
}

/// Arguments of `coldpress disk snapshot` and `drop`.
#[derive(Debug, Args)]
pub struct NamedArguments {
    /// Name of the snapshot
    #[arg(value_name = "NAME", value_parser = parse_name)]
    pub name: String,
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Arguments of `coldpress disk reset`.
#[derive(Debug, Args)]
pub struct ResetArguments {
    /// Even while clients are connected: they read zeros then
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Arguments of `coldpress disk limit`.
#[derive(Debug, Args)]
pub struct LimitArguments {
    /// The new limit: 512M, 1G, or none
    #[arg(value_name = "SIZE", value_parser = parse_limit)]
    pub limit: Limit,
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Arguments of `coldpress disk writeback`.
#[derive(Debug, Args)]
pub struct WritebackArguments {
    /// Which pages
    #[arg(value_enum, value_name = "WHICH")]
    pub which: Pages,
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Pages that are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Those that were not used since they were marked
    Idle,
    /// Those that do not compress
    Huge,
    /// All that are held
    All,
}

/// A memory limit in bytes, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<u64>);

/// An amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// So many bytes.
    Bytes(u64),
    /// A share of the memory that this process may use.
    Percent(u64),
}

fn parse_memory(text: &str) -> Result<Memory, String> {
    match text.strip_suffix('%') {
        None => size::parse_size(text).map(Memory::Bytes),
        Some(share) => match share.parse() {
            Ok(share @ 1..=100) => Ok(Memory::Percent(share)),
            _ => Err(format!(
                "cannot read {text:?} as a share of memory: write 1% to 100%, without a fraction"
            )),
        },
    }
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" | "0" => Ok(Limit(None)),
        text => size::parse_size(text).map(|bytes| Limit(Some(bytes))),
    }
}

/// A name is that of an export, and a part of the control socket's.
fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.+@".contains(c);
    match text.chars().all(is_plain) && !text.starts_with('.') && (1..=48).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no name: take 1 to 48 letters, digits, and characters of -_.+@, not a dot first"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_limits_are_read() {
        for name in ["disk", "a", "2026-11-24", "x@y"] {
            assert_eq!(parse_name(name), Ok(name.to_owned()));
        }
        for name in ["", ".", "a/b", "../x", "a b", "é", &"x".repeat(49)] {
            assert!(parse_name(name).is_err(), "{name}");
        }
        assert_eq!(parse_limit("none"), Ok(Limit(None)));
        assert_eq!(parse_memory("20%"), Ok(Memory::Percent(20)));
        assert!(parse_memory("0%").is_err() && parse_memory("101%").is_err());
        assert_eq!(parse_limit("64M"), Ok(Limit(Some(64 << 20))));
        assert!(parse_limit("64MB").unwrap_err().contains("64MiB"));
    }
}
