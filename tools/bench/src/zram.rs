//! A compressed RAM disk of the kernel, and swap on one: a zram device of our own.
//!
//! The device is added by `/sys/class/zram-control/hot_add`, which tells its number; no other
//! device is ever touched. As swap it compresses with lz4, is the swap space of highest priority, and
//! `vm.page-cluster` is 0 for as long as it exists (no read-ahead: the touches are random). All
//! of it is undone in reverse order, see [`coldpress_harness::cleanup`]: swapoff, reset, hot_remove, and
//! `vm.page-cluster` as it was.

use anyhow::{Context, Result, bail};
use coldpress_harness::cleanup::{self, Guard};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const CONTROL: &str = "/sys/class/zram-control";
const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";
/// `SWAP_FLAG_PREFER` with the highest priority.
const HIGHEST_PRIORITY: libc::c_int = 0x8000 | 0x7fff;

/// A zram device, removed when dropped.
pub struct Device {
    number: u32,
    _guard: Guard,
}

/// Swap on zram.
pub struct Zram {
    // Fields are dropped in this order: swap first, page cluster last.
    _swap: Guard,
    device: Device,
    _page_cluster: Guard,
}

/// What the device holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Bytes of the pages stored, uncompressed (`orig_data_size`).
    pub original: u64,
    /// Bytes of compressed data (`compr_data_size`).
    pub compressed: u64,
    /// Bytes of memory taken, fragmentation included (`mem_used_total`).
    pub used: u64,
}

/// Pages that went to swap and came from it, on the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swapped {
    /// Pages in (`pswpin`).
    pub pages_in: u64,
    /// Pages out (`pswpout`).
    pub pages_out: u64,
}

impl Device {
    /// Adds a device of `bytes` that compresses with `algorithm`.
    pub fn add(bytes: u64, algorithm: &str) -> Result<Device> {
        if !Path::new(CONTROL).join("hot_add").exists() {
            bail!("no {CONTROL}/hot_add (load the module: modprobe zram)");
        }
        let (number, guard) = cleanup::acquire(
            "zram device",
            || {
                let text = std::fs::read_to_string(format!("{CONTROL}/hot_add"))
                    .context("cannot add a zram device")?;
                text.trim().parse::<u32>().context("hot_add told no number")
            },
            remove,
        )?;
        let device = Device {
            number,
            _guard: guard,
        };
        device.set("comp_algorithm", algorithm)?;
        device.set("disksize", &bytes.to_string())?;
        let node = device.node();
        let until = Instant::now() + Duration::from_secs(5);
        while !node.exists() {
            if Instant::now() > until {
                bail!("{} does not appear", node.display());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(device)
    }

    /// The device's file.
    pub fn node(&self) -> PathBuf {
        PathBuf::from(format!("/dev/zram{}", self.number))
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        write(format!("/sys/block/zram{}/{name}", self.number), value)
    }

    /// Something that tells what the device holds, for another thread.
    pub fn meter(&self) -> impl Fn() -> Pool + Clone + Send + 'static {
        let path = format!("/sys/block/zram{}/mm_stat", self.number);
        move || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            parse_pool(&text).unwrap_or_default()
        }
    }
}

impl Zram {
    /// Adds a device of `bytes` and swaps on it.
    pub fn swap(bytes: u64) -> Result<Zram> {
        let (_, page_cluster) = cleanup::acquire(
            "vm.page-cluster",
            || {
                let before = std::fs::read_to_string(PAGE_CLUSTER)?;
                write(PAGE_CLUSTER, "0")?;
                Ok(before)
            },
            |before| write(PAGE_CLUSTER, before.trim()),
        )?;
        let device = Device::add(bytes, "lz4")?;
        let node = device.node();
        make_swap(&node)?;
        let (_, swap) = cleanup::acquire(
            format!("swap on {}", node.display()),
            || {
                let path = c_path(&node);
                // SAFETY: `path` is a string that ends in zero and lives until after the call.
                let result = unsafe { libc::swapon(path.as_ptr(), HIGHEST_PRIORITY) };
                check(result, "swapon").map(|()| path)
            },
            |path| {
                // SAFETY: as for swapon.
                check(unsafe { libc::swapoff(path.as_ptr()) }, "swapoff")
            },
        )?;
        Ok(Zram {
            _swap: swap,
            device,
            _page_cluster: page_cluster,
        })
    }

    /// Lets the pool take so many bytes and no more (`mem_limit`); what does not fit is not written.
    pub fn limit_pool(&self, bytes: Option<u64>) -> Result<()> {
        let limit = bytes.unwrap_or(0).to_string();
        self.device.set("mem_limit", &limit)
    }

    /// Something that tells what the device holds, for another thread.
    pub fn meter(&self) -> impl Fn() -> Pool + Clone + Send + 'static {
        self.device.meter()
    }
}

fn remove(number: u32) -> Result<()> {
    write(format!("/sys/block/zram{number}/reset"), "1")?;
    write(format!("{CONTROL}/hot_remove"), &number.to_string())
}

fn make_swap(node: &Path) -> Result<()> {
    let program = coldpress_harness::install::find_program("mkswap").context("no mkswap here")?;
    let output = Command::new(program).arg(node).output()?;
    if !output.status.success() {
        bail!(
            "mkswap failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("device paths hold no zero")
}

fn check(result: libc::c_int, what: &str) -> Result<()> {
    if result != 0 {
        return Err(std::io::Error::last_os_error()).context(what.to_owned());
    }
    Ok(())
}

fn write(path: impl AsRef<Path>, value: &str) -> Result<()> {
    let path = path.as_ref();
    std::fs::write(path, value)
        .with_context(|| format!("cannot write {value} to {}", path.display()))
}

fn parse_pool(text: &str) -> Option<Pool> {
    let mut fields = text.split_whitespace().map(str::parse);
    Some(Pool {
        original: fields.next()?.ok()?,
        compressed: fields.next()?.ok()?,
        used: fields.next()?.ok()?,
    })
}

/// Reads the machine's swap counters.
pub fn swapped() -> Result<Swapped> {
    parse_swapped(&std::fs::read_to_string("/proc/vmstat")?)
        .context("/proc/vmstat counts no swapping")
}

fn parse_swapped(text: &str) -> Option<Swapped> {
    let field = |name| {
        text.lines().find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(' ')?
                .trim()
                .parse()
                .ok()
        })
    };
    Some(Swapped {
        pages_in: field("pswpin")?,
        pages_out: field("pswpout")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_parsed() {
        let pool = parse_pool(" 4096 74 12288 0 12288 0 0 0 0\n").unwrap();
        assert_eq!(
            (pool.original, pool.compressed, pool.used),
            (4096, 74, 12288)
        );
        assert_eq!(parse_pool(""), None);
        let swapped = parse_swapped("pgpgin 5\npswpin 7\npswpout 9\n").unwrap();
        assert_eq!((swapped.pages_in, swapped.pages_out), (7, 9));
        assert_eq!(parse_swapped("pgpgin 5\n"), None);
    }
}
