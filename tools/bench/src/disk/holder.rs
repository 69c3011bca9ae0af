//! What is compared: disks that hold the same content, each in its own way.

use super::files::run;
use crate::zram::Device;
use anyhow::{Context, Result, bail};
use coldpress_programs::disk::fio::Fio;
use coldpress_programs::disk::server::Server;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A way to hold a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `coldpress disk serve`, by names of codec and storage; none: as it is by default.
    Ours {
        /// How pages are compressed.
        codec: Option<String>,
        /// How compressed pages are kept.
        storage: Option<&'static str>,
        /// Whether it is ordered to recompress once it is loaded.
        recompressed: bool,
    },
    /// nbdkit's memory plugin with its zstd allocator.
    NbdkitZstd,
    /// nbdkit's file plugin, a plain file in the page cache: what the way costs.
    File,
    /// A zram device with this algorithm.
    Zram(&'static str),
}

impl Kind {
    /// Its name in tables.
    pub fn name(&self) -> String {
        match self {
            Kind::Ours {
                codec,
                storage,
                recompressed,
            } => {
                let after = recompressed.then_some("recompressed");
                let parts = [Some("coldpress"), codec.as_deref(), *storage, after];
                let parts: Vec<&str> = parts.into_iter().flatten().collect();
                parts.join(" ")
            }
            Kind::NbdkitZstd => "nbdkit zstd".to_owned(),
            Kind::File => "plain file".to_owned(),
            Kind::Zram(algorithm) => format!("zram {algorithm}"),
        }
    }

    /// The same for files.
    pub fn file_name(&self) -> String {
        self.name().replace([' ', ':'], "-")
    }

    /// Whether it is ours.
    pub fn is_ours(&self) -> bool {
        matches!(self, Kind::Ours { .. })
    }

    /// Whether it is to be recompressed.
    pub fn is_recompressed(&self) -> bool {
        matches!(
            self,
            Kind::Ours {
                recompressed: true,
                ..
            }
        )
    }
}

/// What a disk stands on.
pub enum Base {
    /// A server of NBD.
    Server(Server),
    /// A block device.
    Zram(Device),
}

/// Memory that a disk takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// By its own count, tables included; zram: `mem_used_total`, without its table.
    pub told: Option<u64>,
    /// Private anonymous memory of its process.
    pub resident: Option<u64>,
}

/// A disk, until it is dropped.
pub struct Holder {
    /// In which way.
    pub kind: Kind,
    /// The server, or the device.
    pub base: Base,
    bytes: u64,
}

impl Holder {
    /// Starts one of so many bytes, with its files in `dir`.
    pub fn start(kind: &Kind, coldpress: &Path, dir: &Path, bytes: u64) -> Result<Holder> {
        let name = kind.file_name();
        let size = bytes.to_string();
        let base = match kind {
            Kind::Ours { codec, storage, .. } => {
                let mut options = vec!["--size", &size];
                if let Some(codec) = codec {
                    options.extend(["--codec", codec.as_str()]);
                }
                if let Some(storage) = storage {
                    options.extend(["--storage", *storage]);
                }
                Base::Server(Server::ours(coldpress, dir, &name, &options)?)
            }
            Kind::NbdkitZstd => {
                let plugin = ["memory", &format!("size={bytes}"), "allocator=zstd"];
                Base::Server(Server::nbdkit(dir, &name, &plugin)?)
            }
            Kind::File => {
                let file = dir.join("plain");
                File::create(&file)?.set_len(bytes)?;
                let plugin = ["file", &format!("file={}", file.display())];
                Base::Server(Server::nbdkit(dir, &name, &plugin)?)
            }
            Kind::Zram(algorithm) => Base::Zram(Device::add(bytes, algorithm)?),
        };
        Ok(Holder {
            kind: kind.clone(),
            base,
            bytes,
        })
    }

    /// fio on the whole of it, as a client or on the device.
    pub fn fio(&self) -> Fio {
        let fio = match &self.base {
            Base::Server(server) => Fio::new().set("ioengine", "nbd").set("uri", server.uri()),
            Base::Zram(device) => Fio::new()
                .with(&["ioengine=libaio", "direct=1"])
                .set("filename", device.node().display()),
        };
        fio.set("size", self.bytes)
    }

    /// Puts an image onto it.
    pub fn load(&self, image: &Path) -> Result<()> {
        match &self.base {
            Base::Server(server) => run("nbdcopy", &|command| {
                command.arg(image).arg(server.uri());
            })
            .map(drop),
            Base::Zram(device) => copy_content(image, &device.node()),
        }
    }

    /// Has all that it holds stored anew, denser. Seconds that it took.
    ///
    /// # Errors
    /// It is not ours, or its codec has no denser form.
    pub fn recompress(&self) -> Result<f64> {
        let Base::Server(server) = &self.base else {
            bail!("it takes no orders");
        };
        let since = Instant::now();
        server.order(&["idle"])?;
        server.order(&["recompress"])?;
        Ok(since.elapsed().as_secs_f64())
    }

    /// What it takes, once all that compresses is compressed.
    pub fn memory(&self) -> Result<Memory> {
        match &self.base {
            Base::Zram(device) => Ok(Memory {
                told: Some(device.meter()().used),
                resident: None,
            }),
            Base::Server(server) if self.kind.is_ours() => {
                server.order(&["idle"])?;
                // Idle frames go back a moment later.
                std::thread::sleep(Duration::from_millis(500));
                Ok(Memory {
                    told: server.figures()?["mem_used_total"].as_u64(),
                    resident: Some(server.resident_bytes()),
                })
            }
            Base::Server(server) => Ok(Memory {
                told: None,
                resident: Some(server.resident_bytes()),
            }),
        }
    }

    /// Processor time of its server, in seconds; the kernel has none.
    pub fn cpu_seconds(&self) -> Option<f64> {
        match &self.base {
            Base::Server(server) => Some(server.cpu_seconds()),
            Base::Zram(_) => None,
        }
    }
}

/// Copies what is not zero, as nbdcopy does.
fn copy_content(image: &Path, device: &PathBuf) -> Result<()> {
    const PIECE: usize = 1 << 20;
    let bytes = fs::metadata(image)?.len();
    let from = File::open(image)?;
    let to = File::options().write(true).open(device);
    let to = to.with_context(|| format!("cannot open {}", device.display()))?;
    let mut piece = vec![0; PIECE];
    for at in (0..bytes).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min((bytes - at) as usize)];
        from.read_exact_at(piece, at)?;
        if piece.iter().any(|&byte| byte != 0) {
            to.write_all_at(piece, at)?;
        }
    }
    Ok(to.sync_all()?)
}
