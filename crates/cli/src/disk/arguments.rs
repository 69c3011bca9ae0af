//! The command line of `coldpress disk`.

use crate::choice;
use crate::duration;
use crate::size;
use clap::{Args, Subcommand, ValueEnum};
use coldpress_codec::CodecKind;
use coldpress_storage::StorageKind;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

const SERVE_HELP: &str = "\
Examples:
  coldpress disk serve --size 4G --mem-limit 1G --socket /run/user/1000/disk.sock
  qemu-img convert image.qcow2 'nbd+unix:///disk?socket=/run/user/1000/disk.sock'
  qemu-io -f raw 'nbd+unix:///disk?socket=/run/user/1000/disk.sock' -c 'read 0 4k'

The disk is memory: what it holds ends with the command (SIGINT, SIGTERM). Its snapshots are exports of their own names.

  coldpress disk serve --backing image.raw --socket /run/user/1000/disk.sock
  coldpress disk serve --backing image.raw --size 20G --socket /run/user/1000/disk.sock

With --writeback pages that are not used go to a file that ends with the command, too. With --backing it is a cache in compressed memory before a file or block device. What a client has flushed is there, in
its place; the rest follows when the command ends, or memory is wanted for what is used more.";

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
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArguments),
    /// Show the disks that are served, or one of them
    Status(StatusArguments),
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
    /// Store what is compressed anew, denser (codec press)
    Recompress(TargetArguments),
}

/// Arguments of `coldpress disk serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Size of the disk: 512M, 4G, a multiple of 4096. With --backing: that of the
    /// file; one that does not exist is created
    #[arg(long, value_name = "SIZE", value_parser = parse_size, required_unless_present = "backing")]
    pub size: Option<u64>,
    /// Be a write-back cache before this file or block device
    #[arg(long, value_name = "PATH", group = "behind")]
    pub backing: Option<PathBuf>,
    /// Keep pages that are not used, or do not compress, in this file, encrypted. It must
    /// not exist, and has no name while it is used. A block device is overwritten
    #[arg(long, value_name = "PATH", group = "behind")]
    pub writeback: Option<PathBuf>,
    /// Write no more than this to the write-back file in a day: 10G [default: no limit]
    #[arg(long, value_name = "SIZE", requires = "writeback", value_parser = parse_size)]
    pub writeback_limit: Option<u64>,
    /// The most memory that its content may take, tables included: 1G, 25%. What can
    /// not be held is refused with "no space", or goes to the backing file
    /// [default: none; with --backing 20%]
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = parse_memory)]
    pub mem_limit: Option<Memory>,
    /// After the limit was reached, hold new pages again when memory is down to this
    /// share of it, in percent
    #[arg(long, value_name = "PERCENT", default_value = "90", requires = "behind",
        value_parser = clap::value_parser!(u64).range(1..=100))]
    pub accept_threshold: u64,
    /// How pages are compressed: lz4, zstd:1, …
    /// [default: press where the processor has vectors for it, otherwise lz4]
    #[arg(long, value_name = "NAME", value_parser = choice::parse_codec)]
    pub codec: Option<CodecKind>,
    /// How compressed pages are kept: two-slot, three-slot, size-class, press
    #[arg(long, value_name = "NAME", value_parser = choice::parse_storage)]
    pub storage: Option<StorageKind>,
    /// Compress what was not written for this long: 100ms, 5s
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse_milliseconds)]
    pub cold_after: u64,
    /// Refuse to be written
    #[arg(long)]
    pub read_only: bool,
    /// Name of the disk and of its export
    #[arg(long, value_name = "NAME", default_value = "disk", value_parser = parse_name)]
    pub name: String,
    /// Serve on this Unix socket, for its owner alone
    #[arg(long, value_name = "PATH", required_unless_present = "listen")]
    pub socket: Option<PathBuf>,
    /// Serve on this loopback address, which every user of the machine can reach
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,
}

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
    /// The disk, by its name; all without one
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
        None => parse_size(text).map(Memory::Bytes),
        Some(share) => match share.parse() {
            Ok(share @ 1..=100) => Ok(Memory::Percent(share)),
            _ => Err(format!(
                "cannot read {text:?} as a share of memory: write 1% to 100%, without a fraction"
            )),
        },
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    size::parse_bytes(text).ok_or_else(|| {
        size::refuse_ambiguous(text).unwrap_or_else(|| {
            format!(
                "cannot read {text:?} as a size: write for example 512M, 4G or 1048576 (bytes); \
                 K, M, G and T are powers of 1024"
            )
        })
    })
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" | "0" => Ok(Limit(None)),
        text => parse_size(text).map(|bytes| Limit(Some(bytes))),
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
